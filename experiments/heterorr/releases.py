"""The public split, which embeds records and shares a budget (Figure 3).

Releases, by the names of their rows.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from experiments._common import estimates, is_own, own_classes, own_vectors
from experiments.heterorr.settings import LONG_CHAINS, PRIVATE_LABELS
from ldp_jax import curators, features, servers
from ldp_jax.accounting.guarantee import PipelineGuarantee
from ldp_jax.curators import EdgeSplit, connections, hrg
from ldp_jax.graph import graphs
from ldp_jax.learning import importance, models, training
from ldp_jax.learning.importance import Public
from ldp_jax.learning.models import Bound

STRUCTURE, FEATURES = "structure-only:", "features-only:"
"""Before the name of a mechanism: one public record for all private users; no edge is used."""

PUBLIC_EDGES = "public-edges"
LINK_PREDICTION = "public-link-prediction"
HRG_0 = "public-hrg-0"
EPSILON_0 = (PUBLIC_EDGES, LINK_PREDICTION, HRG_0)
"""Rows of edges that use no private one: the public edges alone; and as many pairs as there are
private edges, the best by common public neighbours or drawn from a dendrogram of the public edges.
"""

PER_COORDINATE = 2.5
"""epsilon of each sampled coordinate, as Wang et al. (ICDE 2019) choose their number."""

DRAWS = 128

LONGER = 200
"""How many times the usual sweeps a long chain makes."""

CHAINS = 4
"""How many chains a release by a long one compares."""

_HELD = 10  # one of so many public users chooses the epoch of the public model


class Embedding(NamedTuple):
    """Records in coordinates that public users' records span, and facts on each coordinate.

    z float32 [n, d] is clipped to [-1, 1], by bounds of the public users, who are ``public`` bool
    [n]. Each coordinate, float64 [d], has importance alpha (eq. 6), sensitivity beta (eq. 5)
    and share theta of the budget (eq. 7).
    """

    z: np.ndarray
    public: np.ndarray
    alpha: np.ndarray
    beta: np.ndarray
    theta: np.ndarray


def embed(
    key: Any, x: np.ndarray, y: np.ndarray, public: np.ndarray, *,
    width: int, sensitive: Sequence[int], gamma: float,
) -> Embedding:  # fmt: skip
    """Principal components of the public users' records, scaled to [-1, 1] by their own extremes.

    Nothing is fitted to a private record or label. Importance is expected gradients of a perceptron
    that was trained on the public users, sensitivity the change of the embedding where their
    sensitive columns are masked; without ``sensitive`` columns of x [n, columns] all coordinates
    are equally sensitive. ``width`` is at most the number of public users and of columns. From y,
    int [n] classes or [n, k] labels, those of public users are read.
    """
    known = x[public].astype(np.float64)
    centre = known.mean(0)
    _, _, axes = np.linalg.svd(known - centre, full_matrices=False)
    axes = axes[:width].T
    scale = np.abs((known - centre) @ axes).max(0)
    axes = axes / np.where(scale > 0, scale, 1.0)

    def project(rows: Any) -> Any:
        return (np.asarray(rows, np.float64) - centre) @ axes

    z = np.clip(project(x), -1, 1).astype(np.float32)
    source = f"{len(known)} public users"
    panel = Public(z[public], source)
    model_key, draw_key = jax.random.split(key)
    model = Public(
        _public_model(model_key, z[public], y[public]), f"a perceptron trained on {source}"
    )
    alpha = np.asarray(importance.importance(draw_key, model, panel, panel, draws=DRAWS))
    beta = np.full(width, 1.0 / width)
    if sensitive:
        masked = known.copy()
        masked[:, list(sensitive)] = 0.0
        projection = Public(project, f"principal components of {source}")
        beta = np.asarray(
            importance.sensitivity(projection, Public(known, source), Public(masked, source))
        )
    return Embedding(z, public, alpha, beta, features.importance_weights(alpha, beta, gamma))


def _public_model(key: Any, z: np.ndarray, y: np.ndarray) -> Any:
    """A perceptron of the public users' classes or labels, as a function of rows.

    A part of them stops it.
    """
    labels = y.ndim == 2
    held = max(1, len(z) // _HELD)
    parts = (np.arange(len(z))[part] for part in (slice(held, None), slice(held)))
    train, validation = (training.Examples(part, y[part].astype(np.int32)) for part in parts)
    model = models.mlp(2, 32, y.shape[1] if labels else int(y.max()) + 1)
    fitted = training.fit(
        key,
        model,
        training.node_labels if labels else training.node_classification,
        jnp.asarray(z),
        train,
        validation,
        validation,
        training.Settings(training.adam(0.01), epochs=100, batch_size=len(z), patience=30),
    )

    return Partial(Bound(_probabilities, (model, labels)), fitted.variables)


def _probabilities(model: models.Model, labels: bool, variables: Any, rows: Any) -> Any:
    outputs, _ = model.apply(variables, rows, key=None, train=False)
    return jax.nn.sigmoid(outputs) if labels else jax.nn.softmax(outputs)


def label_mechanism(name: str, epsilon: float, classes: int, dim: int) -> Any | None:
    """The mechanism on labels, with half of a record's epsilon; None in rows that ask for none.

    It is LPGNN's randomised response, or somebody's own mechanism on classes.
    """
    name = name.removeprefix(STRUCTURE)
    if name == PRIVATE_LABELS:
        return features.GeneralizedRR(epsilon / 2, classes)
    return own_classes(name, epsilon / 2, classes, dim) if is_own(name) else None


def feature_mechanism(name: str, epsilon: float, theta: np.ndarray, bins: int) -> Any:
    """A mechanism on embeddings of len(theta) coordinates.

    Theta and bins are FeatureRR's shares and k.
    """
    dim = len(theta)
    if is_own(name):
        return own_vectors(name, epsilon, dim)
    if name == "featurerr":
        return features.FeatureRR(epsilon, bins, theta)
    if name == "featurerr-uniform":
        return features.FeatureRR(epsilon, bins, dim=dim)
    if name in ("lpgnn", PRIVATE_LABELS):
        return features.MultiBit(
            epsilon if name == "lpgnn" else epsilon / 2, dim
        )  # the labels' is the other half
    if name == "duchi":
        return features.DuchiVector(epsilon, dim)
    k = max(1, min(dim, int(epsilon / PER_COORDINATE)))
    inner = {
        "piecewise": features.Piecewise,
        "hybrid": features.Hybrid,
        "three-outputs": features.ThreeOutputs,
        "suboptimal": features.SuboptimalPiecewise,
    }[name]
    return features.Sampled(inner(epsilon / k), dim, k)


def released_features(key: Any, z: Any, mechanism: Any) -> Any:
    """The server's estimates, float32 [n, d], of embeddings z in [-1, 1]."""
    box = mechanism.domain()
    half = (box.upper - box.lower) / 2
    if not isinstance(z, servers.PublicRecord):
        z = box.lower + (z + 1.0) * half
    return (estimates(mechanism, servers.perturb(key, z, mechanism)) - box.lower) / half - 1.0


def edge_mechanism(name: str, epsilon: float, sweeps: int) -> curators.CentralMechanism:
    """A mechanism on private edges, at a total budget per private edge.

    Chains have ``sweeps``, and :data:`LONGER` times as many by single moves.
    """
    long = LONGER * sweeps
    made = {
        "edgerr": partial(curators.EdgeRR.from_epsilon, sweeps=sweeps),
        "priv-hrg": partial(curators.PrivHRG, sweeps=sweeps),
        "edgerr-long": partial(curators.EdgeRR.from_epsilon, sweeps=long, chain="numba"),
        "priv-hrg-long": partial(curators.PrivHRG, sweeps=long, chain="numba"),
        "public-hrg": partial(curators.PublicHRG, sweeps=sweeps),
        "binned-pairs": curators.BinnedPairs,
        "edge-rand": curators.EdgeRand,
        "lap-graph": curators.LapGraph.from_epsilon,
    }[name]
    return made(epsilon)


def released_edges(
    key: Any, split: EdgeSplit, name: str, epsilon: float, rho: float, sweeps: int
) -> tuple[Any, PipelineGuarantee | None]:
    """The graph that all see under a mechanism or a row at epsilon 0, and its guarantee.

    ``rho`` is public.
    """
    if name not in EPSILON_0:
        # Chains of the usual length do not mix (heterorr_mixing.md): no epsilon is claimed, and
        # none is measured.
        chains = CHAINS if name in LONG_CHAINS else 0
        made = edge_mechanism(name, epsilon, sweeps)
        noisy = curators.release(key, split, made, chains=chains)
        return noisy.graph, noisy.guarantee
    if name == PUBLIC_EDGES:
        return split.public, None
    public = graphs.to_edges(split.public)
    wanted = round(rho / (1 - rho) * len(public))
    if name == LINK_PREDICTION:  # the pairs that the score of BinnedPairs ranks first
        guessed = split.pairs().ids(curators.BinnedPairs(1.0).ranked(split)[0][:wanted])
    else:
        guessed = _public_hrg(key, split, wanted, sweeps)
    edges = np.concatenate([public, guessed]).astype(np.int32)
    return graphs.from_edges(edges, split.num_nodes, pairs_in="rows"), None


def _public_hrg(key: Any, split: EdgeSplit, wanted: int, sweeps: int) -> np.ndarray:
    """Pairs drawn from a dendrogram and the counts of public edges alone."""
    tree_key, pairs_key = jax.random.split(key)
    pairs = split.pairs()
    tree = curators.PublicHRG(1.0, sweeps=sweeps).dendrogram(tree_key, split)
    public = pairs.places(pairs.public)
    state = hrg.state_of(tree, hrg.Edges.of(public, np.zeros((0, 2), np.int64)))
    count = np.asarray(state.count[0], np.float64)
    sides = np.asarray(tree.size, np.float64)[np.asarray(tree.children)].reshape(-1, 2)
    free = sides.prod(1) - count
    expected = wanted * count / max(count.sum(), 1.0)
    probability = np.clip(expected / np.maximum(free, 1.0), 0.0, 1.0)
    drawn = pairs.codes(connections.sample(pairs_key, tree, probability))
    return pairs.ids(drawn[~np.isin(drawn, pairs.public)])


def count(split: EdgeSplit, graph: Any) -> tuple[int, int]:
    """How many pairs of a release are no public edges, and how many of these are private.

    Every node is private.
    """
    pairs = split.pairs()
    found = pairs.codes(graphs.to_edges(graph))
    released = found[~np.isin(found, pairs.public)]
    return len(released), int(np.isin(released, pairs.private).sum())
