r"""Everybody's class by a public graph and a public panel, without any private record.

Sources, each a posterior that has not seen the node's own label: the panel's labels one hop and two
hops away and by personalized PageRank; logistic regressions on spectral coordinates and on shared
friends, with degree profiles, and on the panel's records, propagated. A conditional logit weighs
them: what private reports are held against.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
from jaxtyping import Bool, Float, Int

from ldp_jax.core import validate
from ldp_jax.core.float32 import matmul
from ldp_jax.core.label_channel import other_share
from ldp_jax.core.long_sums import column_means
from ldp_jax.core.pytree import pytree, static
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import AnyArray, Array
from ldp_jax.graph import graphs
from ldp_jax.graph.aggregation import Segments, Tables
from ldp_jax.graph.propagation import Operator, block_width, operator, ppr
from ldp_jax.servers.parts.device_classifier import panel_regression
from ldp_jax.servers.parts.label_diffusion import class_fields, observations
from ldp_jax.servers.parts.panel import soft_labels
from ldp_jax.servers.parts.rows import Rows
from ldp_jax.servers.parts.self_training import FoldedLabels
from ldp_jax.servers.parts.stack import one_thread, stack_out_of_fold

ALPHAS = (0.3, 0.1, 0.03)
"""Of the PageRanks."""

SPECTRAL = (16, 32, 64)
"""Numbers of eigenvectors."""

SHARED = 64
"""Dimensions of shared friends."""

KAPPAS = (0.1, 1.0)
REACHES = (0.8, 0.95, 0.99)
"""kappa and c of the fields to choose from."""

_RECORDS = 64  # dimensions that the panel's records are reduced to before they are propagated

MANY = 2**15
"""Nodes up to which eigenvectors are found to a tolerance."""

# The degree of the polynomial that leaves leading eigenvectors, and how often it is applied.
_DEGREE, _PRODUCTS = 8, 5

_WIDER, _ROUNDS = 16, 6  # columns beyond SHARED of subspace iteration, and its rounds

# The least size, as a share of the largest, that a float32 Gram matrix tells from rounding; and a
# size where a graph has no edge.
_RESOLVED = np.float32(4e-4)
_NOTHING = np.float32(1e-30)

_TOL = 1e-3  # relative error of propagations: far below what few labels can tell


@pytree
class StructurePosterior:
    """The posterior of classes by structure, a panel member's out of fold.

    Made by :func:`structure_posterior`.

    Attributes:
      chosen: ``label propagation``, ``field`` or ``stack``: the least log-loss on the panel.
      log_loss: of each of the three, in nats a member of the panel, out of fold.
      sources: float32 [n, C, j], the posteriors that the stack weighs, of these ``names``.
      weights: float32 [j], the stack's.
    """

    log_q: Float[Array, "n classes"]
    chosen: str = static()
    log_loss: dict[str, float]
    sources: Float[Array, "n classes j"]
    names: tuple[str, ...] = static()
    weights: Float[Array, " j"]

    __repr__ = by_shapes

    @property
    def classes(self) -> Int[np.ndarray, " n"]:
        """The likeliest class of each user."""
        return np.asarray(self.log_q).argmax(1)


def label_log_loss(
    log_p: Float[AnyArray, "n classes"], labels: Int[np.ndarray, " n"], keep: float = 1.0
) -> float:
    """Minus the mean log posterior of the labels, of nodes that have one.

    Below ``keep`` 1 of what was reported.

    >>> round(
    ...     label_log_loss(
    ...         jnp.log(jnp.array([[0.5, 0.5], [0.9, 0.1]])), np.array([0, -1])
    ...     ),
    ...     4,
    ... )
    0.6931
    """
    panel = np.flatnonzero(labels >= 0)
    found = np.asarray(log_p)[panel, labels[panel]]
    if keep != 1.0:
        other = other_share(keep, log_p.shape[1])
        found = np.log(other + (keep - other) * np.exp(found))
    return -float(found.mean())


def sums_by_folds(
    op: Operator, known: FoldedLabels, values: Float[np.ndarray, "panel k"], kind: float | int
) -> Float[np.ndarray, "n k"]:
    """Each node's sum of the panel's values, weighed by reach.

    A member's sum leaves out the values of their own fold. ``kind`` is a whole number of hops,
    averages over neighbours; or alpha < 1 of a PageRank. As many columns are propagated as there
    are folds and values, whatever the panel is, and O(n) memory is taken.

    >>> path = operator(graphs.from_edges([[0, 1], [1, 2]], num_nodes=3))
    >>> known = FoldedLabels(np.array([0, 1, -1]), 2, np.array([0, 1, 0]), 2)
    >>> sums_by_folds(path, known, np.eye(2, dtype=np.float32), 2).tolist()
    [[0.0, 0.0], [0.0, 0.0], [0.5, 0.0]]
    """
    numbers = (np.int32(0), np.float32(kind))
    if isinstance(kind, int):
        numbers = (np.int32(kind), np.float32(1.0))
    panel = known.nodes
    fold = np.asarray(known.fold)
    count = values.shape[1]
    together = max(1, min(block_width() // known.num_folds, count))
    pieces = []
    for start in range(0, count, together):
        some = values[:, start : start + together]
        seeds = np.zeros((op.num_nodes, together), np.float32)  # the last stand beside zeros
        seeds[panel, : some.shape[1]] = some
        made = np.asarray(_reached(op, seeds, fold, *numbers, num_folds=known.num_folds))
        found = made.sum(2)
        found[panel] -= made[panel, :, fold[panel]]
        pieces.append(found[:, : some.shape[1]])
    return np.concatenate(pieces, axis=1)


@partial(jax.jit, static_argnames="num_folds")
def _reached(
    op: Operator, seeds: Array, fold: Array, hops: Array, alpha: Array, *, num_folds: int
) -> Array:
    """Average seeds [n, k] over so many hops; without hops, their PageRanks.

    Each fold's seeds are propagated apart: [n, k, F].
    """
    own_fold = fold[:, None, None] == jnp.arange(num_folds)
    apart = jnp.where(own_fold, seeds[:, :, None], 0.0)
    columns = apart.reshape(len(fold), -1)
    count = columns.shape[1]
    columns = jnp.pad(columns, ((0, 0), (0, -count % 8)))  # a CPU adds 8 columns at once

    def walk(seeds: Array) -> Array:
        reached = jax.lax.fori_loop(0, hops, lambda _, w: op.average(w), op.rows(seeds))
        return op.nodes(reached)

    def page_rank(seeds: Array) -> Array:
        return ppr(op, seeds, alpha, jnp.float32(0.0), _TOL)

    made = jax.lax.cond(hops > 0, walk, page_rank, columns)
    return made[:, :count].reshape(apart.shape)


def _smoothed(sums: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """The mean of values over the panel that reaches a node, with the usual weight of the prior."""
    # The last column of ``sums`` is the sum of ones.
    mass = sums[:, -1:]
    usual = np.maximum(mass.mean(), np.float32(1e-12))
    return (sums[:, :-1] + usual * prior) / (mass + usual)


@one_thread
def spectral_coordinates(graph: graphs.GraphsTuple, count: int) -> Float[np.ndarray, "n count"]:
    r"""Leading eigenvectors of :math:`D^{-1/2} A D^{-1/2}`, the largest eigenvalue first.

    Float32, on the host.

    Where the graph has fewer than ``count`` + 2 nodes, the last columns are 0; where it has no
    edge, all are.
    """
    graph = graphs.as_graph(graph)
    n = graphs.num_nodes(graph)
    senders = np.asarray(graph.senders)
    receivers = np.asarray(graph.receivers)
    scale = 1.0 / np.sqrt(np.maximum(np.bincount(receivers, minlength=n), 1))
    values = scale[senders] * scale[receivers]
    matrix = scipy.sparse.csr_array((values, (receivers, senders)), shape=(n, n))
    found = np.zeros((n, count), np.float32)
    k = min(count, n - 2)
    if k > 0 and matrix.nnz:
        rng = np.random.default_rng(0)  # also of restarts, where few eigenvalues differ
        start = rng.normal(size=n)
        values, vectors = scipy.sparse.linalg.eigsh(
            matrix, k=k, which="LA", v0=start, tol=1e-3, rng=rng
        )
        found[:, :k] = vectors[:, np.argsort(-values)]
    return found


def leading_vectors(op: Operator, count: int) -> Float[np.ndarray, "n count"]:
    """Approximate :func:`spectral_coordinates` by a fixed number of products.

    This is subspace iteration with Chebyshev polynomials. Vectors of close eigenvalues, as at the
    edge of a random graph's spectrum, are not exact, but their span is.
    """
    start = np.random.default_rng(0).standard_normal((op.num_nodes, count), np.float32)
    return np.asarray(_leading(op, start))


@jax.jit
def _leading(op: Operator, start: Array) -> Array:
    root = jnp.sqrt(jnp.maximum(op.rows(op.degree), 1.0))[:, None]

    def ritz(v: Array) -> tuple[Array, Array]:
        v = jnp.linalg.qr(v)[0]
        product = root * op.average(v / root)
        values, turn = jnp.linalg.eigh(matmul(v.T, product))
        return matmul(v, turn[:, ::-1]), values[0]

    def filtered(_: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        v, least = carry  # eigenvalues in [-1, least] are held down, those above it grow
        middle = (least - 1.0) / 2.0
        half = (least + 1.0) / 2.0

        def after(now: Array, before: Array, factor: Array | float = 2.0) -> Array:
            """The next term of D^-1/2 v, by D^-1 A."""
            return factor / half * (op.average(now) - middle * now) - before

        def two(turn: Array, pair: tuple[Array, Array]) -> tuple[Array, Array]:
            before, now = pair  # each is written where it was, without a copy
            before = after(now, before, jnp.where(turn == 0, 1.0, 2.0))
            return before, after(before, now)

        start = jnp.zeros_like(v), v / root
        _, grown = jax.lax.fori_loop(0, _DEGREE // 2, two, start)
        return ritz(root * grown)

    vectors, _ = jax.lax.fori_loop(0, _PRODUCTS, filtered, ritz(op.rows(start)))
    return op.nodes(vectors)


@one_thread
def shared_friends(graph: graphs.GraphsTuple, count: int) -> Float[np.ndarray, "n count"]:
    """Leading left singular vectors of who is a friend of whom, times the singular values.

    Float32, on the host.

    As of words in documents, a friend of d others weighs log(n / d), and each row has length 1.
    Nodes are near that have the same friends, whether or not those are alike. With fewer than
    ``count`` nodes the last columns are 0.
    Reference: Deerwester et al., Indexing by latent semantic analysis (JASIS 1990); subspace
    iteration by Halko, Martinsson and Tropp (SIAM Review 2011), algorithm 4.4.

    >>> near = shared_friends(
    ...     graphs.from_edges([[0, 1], [0, 2], [3, 4]], num_nodes=5), 2
    ... )
    >>> [bool(np.allclose(near[1], near[other], atol=1e-5)) for other in (2, 4)]
    [True, False]
    """
    graph = graphs.as_graph(graph)
    senders = np.asarray(graph.senders)
    receivers = np.asarray(graph.receivers)
    n = graphs.num_nodes(graph)
    friends = np.maximum(np.bincount(senders, minlength=n), 1)
    weight = np.log(n / friends).astype(np.float32)
    squares = np.bincount(receivers, weights=weight[senders] ** 2, minlength=n)
    length = np.maximum(np.sqrt(squares).astype(np.float32), np.float32(1e-12))
    values = weight[senders] / length[receivers]
    matrix = scipy.sparse.csr_array((values, (receivers, senders)), shape=(n, n))
    width = min(count + _WIDER, n)
    block = np.random.default_rng(0).standard_normal((n, width), np.float32)
    for _ in range(_ROUNDS):
        block = matrix @ (matrix.T @ block)
        for _ in range(3):  # each resolves directions that were too weak before
            size, turn = _principal(block)
            size = np.maximum(size, _RESOLVED * size[0]) + _NOTHING
            block = block @ (turn / size)
    singular, left = _principal(matrix.T @ block)
    found = np.zeros((n, count), np.float32)
    found[:, :width] = (block @ (left * singular))[:, :count]
    return found


def _principal(
    block: Float[np.ndarray, "n k"],
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, "k k"]]:
    """Singular values of a tall matrix, the largest first, and its right singular vectors.

    By its Gram matrix.
    """
    squares, vectors = np.linalg.eigh(block.T @ block)
    singular = np.sqrt(np.maximum(squares[::-1], 0.0))
    return singular, vectors[:, ::-1]


def _spectral_designs(graph: graphs.GraphsTuple, op: Operator) -> dict[str, np.ndarray]:
    """Coordinates scaled to length 1, and degrees.

    The node's own, and the mean of its neighbours'.
    """
    most = max(SPECTRAL)
    large = op.num_nodes > MANY and isinstance(op.neighbours, (Segments, Tables))  # on one device
    coordinates = leading_vectors(op, most) if large else spectral_coordinates(graph, most)

    size = np.log1p(np.asarray(op.degree, np.float64))
    of_friends = size[np.asarray(graph.senders)]
    sums = np.bincount(np.asarray(graph.receivers), weights=of_friends, minlength=len(size))
    around = sums / np.maximum(np.asarray(op.degree), 1)
    profile = np.stack([size, around, size - around], 1)
    spread = np.maximum(profile.std(0), 1e-6)
    profile = (profile - profile.mean(0)) / spread / 3.0

    parts = {}
    for count in SPECTRAL:
        parts[f"spectral {count}"] = np.where(np.arange(most) < count, coordinates, 0.0)
    parts["shared friends"] = shared_friends(graph, SHARED)
    designs = {}
    for name, part in parts.items():
        length = np.sqrt((part**2).sum(1, keepdims=True))
        columns = np.concatenate([part / np.maximum(length, 1e-12), profile], 1)
        designs[name] = columns.astype(np.float32)
    return designs


@one_thread
def _record_coordinates(rows: Rows, most: int) -> np.ndarray:
    """The panel's records [panel, most] in the directions of their largest variation.

    With fewer directions than ``most`` the last columns are 0.
    """
    arrays = (np.asarray(rows.value, np.float64), (np.asarray(rows.row), np.asarray(rows.column)))
    matrix = scipy.sparse.csr_array(arrays, shape=rows.shape)
    members = rows.shape[0]
    gram = (matrix @ matrix.T).toarray()
    largest = max(0, members - most), members - 1
    values, vectors = scipy.linalg.eigh(gram, subset_by_index=largest)
    lengths = np.sqrt(np.maximum(values[::-1], 0.0))
    kept = vectors[:, ::-1] * lengths
    missing = most - kept.shape[1]
    return np.pad(kept, ((0, 0), (0, missing))).astype(np.float32)


def best_field(
    op: Operator,
    known: FoldedLabels,
    prior: Float[AnyArray, " classes"],
    log_likelihood: Float[AnyArray, "n classes"],
    reported: Bool[np.ndarray, " n"],
) -> tuple[Float[Array, "n classes"], tuple[float, float]]:
    """Step 6 of local prediction: the field of least log-loss on the panel.

    It comes with its kappa of :data:`KAPPAS` and its c of :data:`REACHES`.
    """
    seen = observations(known.labels, prior, log_likelihood, reported, np.float32(known.keep))
    panel = known.alone
    found = {}
    for kappa in KAPPAS:
        fields = class_fields(
            op, seen, known.fold, np.float32(kappa), REACHES, _TOL, num_folds=known.num_folds
        )
        for c, scores in zip(REACHES, fields, strict=True):
            asked = _calibrated(np.asarray(scores)[known.nodes], panel)
            found[kappa, c] = label_log_loss(asked, panel.labels, known.keep), scores
    best = min(found, key=lambda number: found[number][0])
    _, scores = found[best]
    return scores, best


def _calibrated(scores: AnyArray, known: FoldedLabels) -> np.ndarray:
    """Log posteriors of log-scores to a power that is found out of fold."""
    return stack_out_of_fold(np.asarray(scores)[..., None], known, (1.0,), ridge=1.0)[0]


def structure_posterior(
    graph: graphs.GraphsTuple,
    known: FoldedLabels,
    *,
    rows: Rows | None = None,
    op: Operator | None = None,
) -> StructurePosterior:
    """Step 1 of local prediction: q, from the graph, the panel's labels and the panel's records.

    No model of a node has seen its own label or record, but for the panel's class shares and the
    directions in which its records vary. ``rows`` are these in ascending order of their nodes,
    ``op`` is the graph's operator, if at hand. ``ValueError`` for labels or rows of another number,
    fewer than two classes or folds.

    >>> nodes = np.arange(60)  # in two circles, in which everybody knows everybody
    >>> pairs = [(i, j) for j in nodes for i in range(j) if i // 30 == j // 30]
    >>> circles = graphs.from_edges(pairs, 60)
    >>> labels = np.where(nodes % 3 == 0, nodes // 30, -1)
    >>> found = structure_posterior(
    ...     circles, FoldedLabels(labels, 2, nodes // 3 % 2, 2)
    ... )
    >>> bool((found.classes == nodes // 30).all())
    True
    """
    graph = graphs.as_graph(graph)
    labels = known.labels
    classes = known.num_classes
    panel = known.nodes
    validate.integer_in(2, num_classes=classes, num_folds=known.num_folds)
    op = operator(graph) if op is None else op
    if len(labels) != op.num_nodes:
        raise ValueError(f"labels must be int [{op.num_nodes}], got shape {labels.shape}")
    if rows is not None and rows.shape[0] != len(panel):
        raise ValueError(f"rows must be of the panel's {len(panel)} members, got {rows.shape[0]}")
    truth = soft_labels(labels[panel], classes, known.keep).astype(np.float32)

    sources: dict[str, AnyArray] = {}
    designs = _spectral_designs(graph, op)
    ones = np.ones((len(panel), 1), np.float32)
    for kind in (1, 2, *ALPHAS):
        values = truth
        if rows is not None and kind == ALPHAS[1]:
            values = np.concatenate([truth, _record_coordinates(rows, _RECORDS)], 1)
        sums = sums_by_folds(op, known, np.concatenate([values, ones], 1), kind)
        found = _smoothed(sums, column_means(values))
        name = f"{kind} hops" if isinstance(kind, int) else f"PageRank {kind:g}"
        sources[name] = np.log(np.maximum(found[:, :classes], np.float32(1e-6)))
        if values is not truth:
            made = found[:, classes:]
            made = made - column_means(made)
            length = float(np.sqrt((made**2).sum(1).mean()))
            designs["records of the panel"] = made / max(length, 1e-12)
    for name, design in designs.items():
        sources[name] = panel_regression(design, known)

    scores = np.stack(list(sources.values()), -1)
    equal = np.full(len(sources), 1.0 / len(sources))
    stacked, weights = stack_out_of_fold(scores, known, equal, ridge=5.0)
    no_evidence = np.zeros(stacked.shape, np.float32)
    nobody = np.zeros(len(labels), bool)
    field, _ = best_field(op, known, column_means(truth), no_evidence, nobody)
    candidates = {
        "label propagation": _calibrated(sources[f"PageRank {ALPHAS[1]:g}"], known),
        "field": _calibrated(field, known),
        "stack": stacked,
    }
    losses = {name: label_log_loss(log_p, labels, known.keep) for name, log_p in candidates.items()}
    chosen = min(losses, key=lambda name: losses[name])
    arrays = jax.device_put({"log_q": candidates[chosen], "sources": scores, "weights": weights})
    return StructurePosterior(**arrays, chosen=chosen, log_loss=losses, names=tuple(sources))
