"""Edges: what one loses in a curator's release or users' reports, and whole graphs at once."""

import dataclasses
import functools
import itertools
import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int
from scipy import special

from ldp_jax.core import random, validate
from ldp_jax.core.flags import standard_flags
from ldp_jax.core.float64 import float64_on_cpu
from ldp_jax.core.mechanism import check_budget
from ldp_jax.core.spaces import NotApplicable
from ldp_jax.core.types import Array, PRNGKey, PRNGKeys, Scalar
from ldp_jax.curators import (
    CentralMechanism,
    DendrogramLaw,
    EdgeSplit,
    HasDendrogram,
    connections,
)
from ldp_jax.curators import all_dendrograms as dendrograms
from ldp_jax.curators.hrg import State
from ldp_jax.curators.release_laws import candidates_of, release_laws, split_of
from ldp_jax.edges import HasBitLaw, ListReport, Population, Reporting
from ldp_jax.edges.spaces import ListReports
from ldp_jax.graph import graphs
from ldp_jax.verification import statistics
from ldp_jax.verification._programs import View, lost, take, wide
from ldp_jax.verification.empirical import cells_of, worst
from ldp_jax.verification.game import LowerBound, Views, play
from ldp_jax.verification.statistics import SIGNIFICANCE, Fit

Edges = tuple[tuple[int, int], ...]

NODES = 4
"""Nodes of graphs whose releases are enumerated; with a public path of three nodes, and without a
public edge.
"""

DENDROGRAM_NODES = 5
"""Nodes of graphs whose 105 dendrograms are enumerated, and up to 1 024 graphs."""

_PATH = ((0, 1), (1, 2))
# Of the pairs 02, 03, 13, 23, which are no edge of the path, those that are private edges.
_BITS = 0b0101
_CHAINS = 1 << 22  # sweeps of all chains together
_SLOW = 1 << 21  # sweeps of all draws of a release together
_BLOCK = 64  # reports about an edge
_LEVELS = 8  # of what a user may report about a graph
_DRAWS = 100  # of a user, at least


class PrivateEdgeLoss(NamedTuple):
    """The largest log ratio of two graphs that differ in one private edge.

    ``graph`` has the others.

    ``public`` are the public edges; ``released``, whose law it is: ``pairs`` or
    ``dendrogram and noisy counts``.
    """

    epsilon: float
    edge: tuple[int, int]
    graph: tuple[tuple[int, int], ...]
    public: tuple[tuple[int, int], ...]
    released: str


@standard_flags()
def private_edge_supremum(mechanism: CentralMechanism) -> PrivateEdgeLoss:
    r"""The largest loss about one private edge over all graphs of a few nodes, enumerated.

    Laws of released sets are asked over all graphs of four nodes, with and without public edges. A
    :class:`~ldp_jax.curators.HasDendrogram` is asked over all dendrograms of five nodes, in
    the chain's *stationary* law, with the noisy counts of its groups, which lose :math:`\epsilon_2`
    each.

    >>> from ldp_jax.curators import EdgeRand
    >>> round(private_edge_supremum(EdgeRand(1.0)).epsilon, 9)
    1.0
    """
    check_budget(mechanism)
    found = []
    for public in ((), _PATH):
        if isinstance(mechanism, HasDendrogram):
            found.append(_dendrogram_loss(mechanism, public))
            continue
        split = split_of(public, NODES)
        loss = _about_pairs(release_laws(mechanism, split))
        found.append(_largest(loss, candidates_of(split), public, "pairs"))
    return max(found, key=lambda loss: loss.epsilon)


def _about_pairs(log: np.ndarray) -> np.ndarray:
    """Losses [graphs, pairs, releases] by log masses [graphs, releases].

    0 of graphs that have the pair.
    """
    graph = np.arange(len(log))[:, None]
    pair = 1 << np.arange(len(log).bit_length() - 1)
    return np.abs(lost(log[graph | pair], log[graph]))


def _largest(loss: np.ndarray, pairs: np.ndarray, public: Edges, released: str) -> PrivateEdgeLoss:
    """The largest of losses [graphs, pairs, releases]."""
    worst = np.nan_to_num(loss, nan=math.inf).max(-1)
    graph, pair = np.unravel_index(worst.argmax(), worst.shape)
    there = dendrograms.bits_of(len(pairs))[graph] > 0
    return PrivateEdgeLoss(
        float(worst[graph, pair]),
        tuple(pairs[pair].tolist()),
        tuple(map(tuple, pairs[there].tolist())),
        tuple(public),
        released,
    )


# --- Dendrograms ----------------------------------------------------------------------------------


def _dendrogram_loss(m: HasDendrogram, public: Edges) -> PrivateEdgeLoss:
    n = DENDROGRAM_NODES
    pairs = candidates_of(split_of(public, n))
    said = m.dendrogram_law(n)
    weight, scale = said.scales
    of_public = weight * dendrograms.log_likelihoods(dendrograms.sides(n), public)
    logs = scale * dendrograms.over_all_graphs(n, pairs) + of_public
    loss = _about_pairs(special.log_softmax(logs, -1))
    counted = _copies(said, pairs).T if said.published else 1
    there = dendrograms.bits_of(len(pairs))[..., None] > 0
    loss = np.where(there, 0.0, loss + said.epsilon * counted)
    return _largest(loss, pairs, public, "dendrogram and noisy counts")


def _copies(said: DendrogramLaw, pairs: np.ndarray) -> np.ndarray:
    """How many internal nodes are in the group of each pair, which all count it.

    Int [trees, pairs].
    """
    n = DENDROGRAM_NODES
    joined = dendrograms.joins(dendrograms.sides(n), pairs).argmax(1)
    trees = dendrograms.as_trees(n)
    region = np.stack([connections.regions(tree, said.epsilon, said.thresholds) for tree in trees])
    of_pair = np.take_along_axis(region, joined, 1)
    return (region[:, :, None] == of_pair[:, None, :]).sum(1)


# --- By draws -------------------------------------------------------------------------------------


@standard_flags()
def matches_release(
    mechanism: CentralMechanism,
    key: PRNGKey,
    *,
    trials: int = 2000,
    significance: float = SIGNIFICANCE,
) -> Fit:
    """Whether a curator draws the law that is known of them, of four nodes with two public edges.

    A G test.

    It counts all 16 released sets, or the 15 dendrograms that chains end with, against the
    stationary law. In 2 000 draws a total variation of 0.13 is seen; chains of many sweeps have
    fewer.

    >>> from ldp_jax.curators import LapGraph
    >>> matches_release(LapGraph(1.0, 1.0), jax.random.key(0), trials=100).fits
    True
    """
    validate.integer_in(100, trials=trials)
    check_budget(mechanism)
    empty = split_of(_PATH, NODES)
    pairs = candidates_of(empty)
    private = pairs[dendrograms.bits_of(len(pairs))[_BITS] > 0]
    split = split_of(_PATH, NODES, private)
    if isinstance(mechanism, HasDendrogram):
        return _dendrograms_fit(mechanism, key, split, trials, significance)
    mass = np.exp(release_laws(mechanism, empty)[_BITS])
    drawn = _releases(mechanism, key, split, trials)
    if (drawn < 0).any():
        return Fit(False, "impossible releases", math.inf, 0.0, 1 / trials, trials)
    counts = np.bincount(drawn, minlength=len(mass))
    return statistics.g_test(counts, mass, significance=significance)


def _dendrograms_fit(
    m: HasDendrogram, key: PRNGKey, split: EdgeSplit, trials: int, significance: float
) -> Fit:
    said = m.dendrogram_law(NODES)
    if said.published:
        raise NotApplicable("a chain that alternates has no known law")
    trees = dendrograms.sides(NODES)
    of_public, of_private = (
        dendrograms.log_likelihoods(trees, graphs.to_edges(graph))
        for graph in (split.public, split.private)
    )
    weight, scale = said.scales
    mass = dendrograms.law(weight * of_public + scale * of_private)

    def last(key: PRNGKey) -> Array:
        found = m.dendrogram(key, split)
        return dendrograms.name_of(found.tree if isinstance(found, State) else found)

    keys = random.split(key, max(100, min(trials, _CHAINS // m.sweeps)))
    drawn = np.asarray(jax.jit(jax.vmap(last))(keys))
    return statistics.g_test(dendrograms.counts_of(drawn, NODES), mass, significance=significance)


def _releases(
    m: CentralMechanism, key: PRNGKey, split: EdgeSplit, trials: int
) -> Int[np.ndarray, " trials"]:
    """Independent releases, each by the bits of its pairs.

    -1 for one that has a pair twice, or no candidate.
    """
    pairs = split.pairs()
    codes = pairs.codes
    known = pairs.codes(candidates_of(split))
    found = np.zeros(trials, np.int64)
    # A release is made on the host, in shapes that follow the draws: one after the other.
    for place, one in enumerate(random.split(key, trials)):
        drawn = codes(np.searchsorted(pairs.nodes, m.sample_pairs(one, split)))
        at = np.minimum(np.searchsorted(known, drawn), len(known) - 1)
        once = len(np.unique(drawn)) == len(drawn)
        possible = once and (known[at] == drawn).all()
        found[place] = (1 << at).sum() if possible else -1
    return found


def most_draws(mechanism: CentralMechanism) -> int:
    """How many releases of each graph a game may draw.

    Fewer where a chain makes many sweeps, but 100.
    """
    sweeps = mechanism.sweeps if isinstance(mechanism, HasDendrogram) else 0
    return max(100, _SLOW // (2 * max(sweeps, 1)))


@standard_flags()
def private_edge_lower_bound(
    mechanism: CentralMechanism,
    key: PRNGKey,
    trials: int = 4000,
    confidence: float = 1 - SIGNIFICANCE,
) -> LowerBound:
    """A lower bound on the loss about one private edge, from draws of two adjacent graphs.

    No law is asked.

    Both have four nodes and two public edges; one has the private edge that has a common neighbour.
    Half of the ``trials`` of each graph choose an event of released sets; the others bound it by
    Clopper and Pearson.

    >>> from ldp_jax.curators import LapGraph
    >>> bound = private_edge_lower_bound(LapGraph(4.0, 4.0), jax.random.key(0), 100)
    >>> 0.4 < bound.epsilon <= 8.0
    True
    """
    validate.integer_in(100, trials=trials)
    validate.in_range(0.0, 1.0, confidence=confidence)
    validate.threefry(key)
    check_budget(mechanism)
    sweeps = mechanism.sweeps if isinstance(mechanism, HasDendrogram) else 0
    if 2 * trials * sweeps > _SLOW:
        raise NotApplicable(
            f"sweeps must be at most {_SLOW // (2 * trials)} for {trials} draws, got {sweeps}"
        )
    splits = split_of(_PATH, NODES), split_of(_PATH, NODES, [[0, 2]])
    keys = random.split(key)
    drawn = [
        _releases(mechanism, one, split, trials) for one, split in zip(keys, splits, strict=True)
    ]

    half = trials // 2
    sets, place = np.unique(drawn, return_inverse=True)
    places = place.reshape(2, trials)
    often, other = (np.bincount(one[:half], minlength=len(sets)) + 0.5 for one in places)
    scores = (np.log(often) - np.log(other))[places]

    def views(scores: np.ndarray) -> list[Views]:
        return [Views({"log ratio of a set": of_graph}, {}) for of_graph in scores]

    return play(views(scores[:, :half]), views(scores[:, half:]), confidence)


# --- An edge, through the reports of all users ----------------------------------------------------


class RelationshipLoss(NamedTuple):
    """The largest log ratio of the joint laws of all reports, with an edge and without it."""

    epsilon: float
    edge: tuple[int, int]
    graph: tuple[tuple[int, int], ...]


@standard_flags()
def relationship_supremum(
    mechanism: object, reporting: Reporting | None = None
) -> RelationshipLoss:
    """The largest loss about one edge, through the reports of all users, enumerated.

    Over all graphs on four nodes and all six edges, a sum over users, each taken over critical
    reports. A pair is reported by both ends (``full``), or by the end of the smaller budget, with
    equal budgets either; the degree is of the whole list (``half list``) or of the owned pairs.
    ``ValueError`` for what is no :class:`~ldp_jax.edges.HasBitLaw`, or budgets that are not one or
    four.

    >>> from ldp_jax.edges import DPRR
    >>> round(relationship_supremum(DPRR(0.3, 0.7), "half list").epsilon, 9)
    1.3
    """
    if not isinstance(mechanism, HasBitLaw):
        raise NotApplicable(
            f"{type(mechanism).__name__} has no law of one bit of a list, as edges.HasBitLaw"
        )
    reporting = mechanism.reporting if reporting is None else reporting
    validate.one_of(mechanism.reportings, reporting=reporting)
    users = [mechanism.of_users(partial(_budget_of, user)) for user in range(NODES)]
    budgets = [user.guarantee().epsilon for user in users]
    if all(user == users[0] for user in users):
        users = [users[0]] * NODES
    loss = functools.cache(_loss)
    pairs = list(itertools.combinations(range(NODES), 2))
    best = RelationshipLoss(0.0, (0, 1), ())
    # With equal budgets, the lower end reports a pair or the higher one.
    for tie, edge in itertools.product((1, -1), pairs):
        order = lambda user, tie=tie: (budgets[user], tie * user)
        owner = {pair: min(pair, key=order) for pair in pairs}
        # Both ends have other pairs beside the edge, so the worst graph is that of each end.
        ends = []
        for user in edge:
            mine = [pair for pair in pairs if user in pair]
            reports = reporting == "full" or owner[edge] == user
            if reporting == "half":
                mine = [pair for pair in mine if owner[pair] == user]
            others = [pair for pair in mine if pair != edge]
            if reports or reporting == "half list":
                views = [(len(mine), degree, reports) for degree in range(len(others) + 1)]
                ends.append([(loss(users[user], *view), others[: view[1]]) for view in views])

        for way in (0, 1):
            worst = [max(end, key=lambda one, way=way: one[0][way]) for end in ends]
            total = sum(both[way] for both, _ in worst)
            if total > best.epsilon:
                graph = [pair for _, friends in worst for pair in friends]
                best = RelationshipLoss(total, edge, tuple(graph))
    return best


def _budget_of(user: int, leaf: Scalar) -> Scalar:
    if np.ndim(leaf) == 0:
        return leaf
    if np.shape(leaf) != (NODES,):
        raise ValueError(f"budgets must be one number or [{NODES}], got shape {np.shape(leaf)}")
    return float(np.asarray(leaf, np.float64)[user])


def _loss(m: HasBitLaw, owned: int, degree: int, reports: bool) -> tuple[float, float]:
    """The largest log ratio of one user's report with and without the edge, both ways round."""
    noisy, sent = m.bit_reports(owned)
    room = -(len(noisy) // -_BLOCK) * _BLOCK  # repeated: of one shape, whatever is owned
    logs = []
    with float64_on_cpu():
        numbers = [np.resize(each, room).astype(np.float64) for each in (noisy, sent)]
        for bit in (1, 0):
            given = map(np.float64, (degree + bit, bit if reports else np.nan, owned))
            logs.append(np.asarray(_logs(wide(m), *numbers, *given)))
    ratio = lost(*logs)
    ratio = np.where(np.isnan(ratio), math.inf, ratio)  # NaN is not hidden
    return float(ratio.max()), float((-ratio).max())


@jax.jit
def _logs(
    m: HasBitLaw, noisy: Array, sent: Array, degree: Array, bit: Array, owned: Array
) -> Array:
    return m.bit_log_density(noisy, sent, degree, bit, owned) + jnp.zeros(noisy.shape)


# --- Whole graphs ---------------------------------------------------------------------------------


def matches_graphs(mechanism: Any, key: PRNGKey, *, trials: int, significance: float) -> Fit:
    """Whether a sampler of whole graphs draws what ``log_density`` says of each user.

    16 graphs are asked in each reporting, from no edge to all: every user of copies that are drawn
    at once, and of one graph that is drawn alone. ``records`` says how many users these are. Pairs
    of users must report independently. ``NotApplicable`` where reports are no lists.
    """
    codomain = mechanism.codomain()
    if not isinstance(codomain, ListReports):
        raise NotApplicable(f"a graph is no reports that are lists: got reports in {codomain}")
    n = codomain.n
    rng = random.generator(key)
    low, high = np.indices((n, n))
    motifs = [low + high == 1, low == 0, high == low + 1, high < 3]
    density = np.linspace(0.0, 1.0, 12)[:, None, None]
    random_ones = rng.random((12, n, n)) < density
    edges = np.concatenate([motifs, random_ones]) & (low < high)
    lists = (edges | edges.transpose(0, 2, 1)).reshape(-1, n)

    reportings = getattr(mechanism, "reportings", ())
    modes = [dataclasses.replace(mechanism, reporting=mode) for mode in reportings] or [mechanism]
    asked = len(modes) * (len(lists) + n)
    copies = max(_DRAWS, trials // asked)
    fits = []
    together, alone = (lists, 1), (lists[n : 2 * n], copies)
    for mode, (true, calls) in itertools.product(modes, (together, alone)):
        key, draw_key = random.split(key)
        reports = _reports_of_graphs(mode, random.split(draw_key, calls), true, copies // calls)
        found = [_levels(mode, true, reports, user) for user in range(len(true))]
        for level, mass in found:
            counts = np.bincount(level, minlength=len(mass))
            fits.append(statistics.g_test(counts, mass, significance=significance / 2 / asked))

        # Two users who follow each other.
        joint, expected = np.zeros((2, _LEVELS + 1, _LEVELS + 1))
        for (level, mass), (other_level, other_mass) in zip(found[:-1:2], found[1::2], strict=True):
            np.add.at(joint, (level, other_level), 1)
            expected += np.outer(mass, other_mass)
        share = significance / 4 / len(modes)
        fits.append(statistics.g_test(joint.ravel(), expected.ravel(), significance=share))
    return worst(fits)._replace(smallest_defect=1 / asked, draws=asked * copies, records=asked)


def _reports_of_graphs(mechanism: Any, keys: PRNGKeys, true: np.ndarray, copies: int) -> ListReport:
    """The stacked reports of all users of copies of graphs, whose lists are bits [users, n].

    One call a key draws so many copies.
    """
    true = np.tile(true, (copies, 1))
    n = true.shape[1]
    user, friend = np.nonzero(true)
    graph = np.arange(len(true)) // n
    no_labels = np.zeros(len(true) // n, int)
    edges = n * graph[user] + friend, user
    whole = Population.of(graphs.GraphSet.from_edges(*edges, graph, no_labels))
    degrees = []
    bits = []
    for key in keys:
        drawn = mechanism.sample_graph(key, whole, math.inf)
        pair = drawn.reporter, drawn.reported - n * graph[drawn.reporter]
        place = np.ravel_multi_index(pair, true.shape)  # which raises for users of another graph
        bits.append(np.bincount(place, minlength=true.size).reshape(true.shape) == 1)
        degrees.append(drawn.degree)
    return ListReport(np.concatenate(degrees), mechanism.domain().of_bits(np.concatenate(bits)))


def _levels(
    mechanism: Any, true: np.ndarray, reports: ListReport, user: int
) -> tuple[np.ndarray, np.ndarray]:
    """The levels of a user's reports, and their masses: likelier reports are of a lower level.

    All have about one mass but the last, whose reports are impossible.
    """
    view = View(mechanism, np.int32(user % true.shape[1]))
    y = take(reports, slice(user, None, len(true)))
    mass, cell = cells_of(view, take(mechanism.domain().of_bits(true), user))
    order = np.argsort(-mass, kind="stable")
    middle = np.cumsum(mass[order]) - mass[order] / 2
    level = np.zeros(len(mass), int)
    level[order] = _LEVELS * middle / mass.sum()
    level[mass == 0] = _LEVELS
    drawn = np.where(view.codomain().contains(y), level[cell(y)], _LEVELS)
    return drawn, np.bincount(level, mass, minlength=_LEVELS + 1)
