"""Uses of counts of neighbours beyond the classes of nodes.

Links that nobody has reported, and classes of graphs.

Links: a tenth of them is taken out of all lists. The rest of the lists is private, features and
some labels are public. Two users are likely linked where both count many of the other's broadcast
class, for the size of it.

Classes of graphs: only the number of nodes is public. Half of the budget reports degrees, which the
server broadcasts as classes of few levels; the other half counts neighbours by class. A random
forest takes statistics.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse

from experiments._common import fingerprint, is_own, planned
from experiments._runner import Found, Results, UsageError, rounded
from experiments.dprr import classifiers
from experiments.frontier import friendships, methods, own
from experiments.frontier.baselines._released import nothing_kept, nothing_read, spent
from experiments.frontier.config import Config
from ldp_jax import datasets, edges, servers
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, PipelineGuarantee
from ldp_jax.graph import graphs
from ldp_jax.learning import metrics
from ldp_jax.servers.links import LinkFacts, link_scores
from ldp_jax.servers.lists import NoisyLists

NAME = "frontier_beyond"
AUC = "auc"
LINK, GRAPH = "link", "graph"
HELD_OUT, MOST_PAIRS = 0.1, 5000
"""Of the links, at most so many; as many pairs without a link stand beside them."""
PILOT, REHEARSED = 200, 2
"""Users whose lists are public where links are rehearsed; in how many draws they are."""
EXACT = 40.0
"""The epsilon of counts without noise."""
LEVELS = (4.0, 24.0)
"""Noisy degrees from which a user is of the next class, times the epsilon of degrees (half of the
budget): some three standard deviations of the noise, and more. Of true degrees these numbers
themselves. Not tuned."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(friendships.Cell):
    """One method on one draw; of sets of graphs, half of them have a public class."""

    @property
    def last_metric(self) -> str:
        if self.mechanism.startswith(methods.REHEARSAL):
            return methods.CHANCE
        return AUC if self.task == LINK else friendships.ACCURACY

    promise = property(lambda self: f"{self.task}: {self.mechanism}, epsilon {self.epsilon:g}")


@dataclasses.dataclass(frozen=True)
class Settings(friendships.Settings):
    """Settings of rows beyond the columns that identify them."""

    levels: tuple[float, ...] = LEVELS


results_in = partial(Results, name=f"{NAME}_{friendships.ACCURACY}", cell=Cell)


class Scored(NamedTuple):
    """The value of the task's metric, or of several by name, and what was spent of the lists."""

    value: float | Mapping[str, float]
    guarantee: PipelineGuarantee


# --- Links ----------------------------------------------------------------------------------------


class Pairs(NamedTuple):
    """One draw of links to be found."""

    graph: Any
    """what is left of the lists, private"""
    linked: np.ndarray
    """[m, 2], the pairs that were taken out"""
    others: np.ndarray
    """[m, 2], pairs without a link"""
    log_q: np.ndarray
    """[n, C], of features, out of fold where there is a label"""
    labels: np.ndarray
    """int [n], -1 for none"""
    rows: Any
    """public features"""

    def facts(self, pilot: np.ndarray | tuple[()] = ()) -> LinkFacts:
        """Public facts, with the lists of a pilot before links were taken out."""
        left = np.stack([np.asarray(self.graph.senders), np.asarray(self.graph.receivers)], 1)
        entries = (
            np.concatenate([left, self.linked, self.linked[:, ::-1]]) if len(pilot) else left[:0]
        )
        return LinkFacts(
            self.log_q, self.labels, np.asarray(pilot, int), entries[np.isin(entries[:, 0], pilot)]
        )


@lru_cache(maxsize=1)
def pairs(settings: Settings, labels: str, seed: int) -> Pairs:
    """A tenth of the links, at most 5 000, as many other pairs, and what is public."""
    shared = friendships.Settings(
        settings.dataset, settings.data, settings.logs, settings.base_seed
    )
    asked, _ = friendships.draw(shared, labels, seed)
    if asked.rows is None or asked.q is None:
        raise UsageError(
            f"--datasets {settings.dataset}: it has no features, by which classes could be "
            "broadcast"
        )
    n = len(asked.labels)
    once = np.stack([np.asarray(asked.graph.senders), np.asarray(asked.graph.receivers)], 1).astype(
        np.int64
    )
    once = once[once[:, 0] < once[:, 1]]
    keys = jax.random.split(jax.random.fold_in(jax.random.key(settings.base_seed + 3), seed))
    order = np.asarray(jax.random.permutation(keys[0], len(once)))
    count = min(math.ceil(HELD_OUT * len(once)), MOST_PAIRS)
    made = np.sort(np.asarray(jax.random.randint(keys[1], (4 * count + 100, 2), 0, n), np.int64), 1)
    made = made[made[:, 0] < made[:, 1]]
    free = ~np.isin(made[:, 0] * n + made[:, 1], once[:, 0] * n + once[:, 1])
    left = graphs.from_edges(once[np.sort(order[count:])], n)
    return Pairs(
        left,
        once[order[:count]],
        made[free][:count],
        np.asarray(asked.q.log_q),
        asked.labels,
        asked.rows,
    )


def _of(score: Callable[[np.ndarray, np.ndarray], np.ndarray], draw: Pairs) -> float:
    """The AUC of a score of pairs."""
    linked, others = (
        score(ends[:, 0], ends[:, 1]).astype(np.float64) for ends in (draw.linked, draw.others)
    )
    # Float64 scores as places in their order, which float32 tells apart.
    _, place = np.unique(np.concatenate([linked, others]), return_inverse=True)
    return float(metrics.auc(*jnp.split(jnp.asarray(place, np.float32), [len(linked)])))


def _alike(draw: Pairs) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """How much likelier two users are of one class than two at random, by features and labels."""
    facts = draw.facts()
    return lambda u, v: facts.same_class(np.stack([u, v], 1))


def _cosine(key: Any, draw: Pairs, epsilon: float) -> Scored:
    rows = draw.rows
    places = np.asarray(rows.row), np.asarray(rows.column)
    x = scipy.sparse.csr_array((np.asarray(rows.value, np.float64), places), shape=rows.shape)
    x = scipy.sparse.diags_array(1.0 / np.maximum(np.sqrt(x.multiply(x).sum(1)), 1e-12)) @ x
    return Scored(_of(lambda u, v: np.asarray(x[u].multiply(x[v]).sum(1)), draw), nothing_read())


def _by_counts(draw: Pairs, counts: Any, group: np.ndarray, epsilon: float, alike: bool) -> float:
    """The AUC of :func:`ldp_jax.servers.links.link_scores`.

    With ``alike`` a pair of one class gets more.
    """
    more = _alike(draw) if alike else lambda u, v: 0.0

    def score(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.asarray(
            link_scores(counts, group, np.stack([u, v], 1), min(epsilon, EXACT))
        ) + more(u, v)

    return _of(score, draw)


def _degrees(key: Any, draw: Pairs, epsilon: float, *, alike: bool) -> Scored:
    """The product of both ends' degrees, as if neighbours were anybody's.

    With ``alike`` a pair of one class is likelier.
    """
    degree, guarantee = _degree(key, draw.graph, epsilon)
    anybody = np.zeros(len(degree), np.int32)
    return Scored(
        _by_counts(draw, degree.astype(np.int32)[:, None], anybody, epsilon, alike), guarantee
    )


def _degree(key: Any, graph: Any, epsilon: float) -> tuple[np.ndarray, PipelineGuarantee]:
    """Released degrees of a graph or a set of graphs, or the true ones."""
    if math.isinf(epsilon):
        population = edges.Population.of(graph)
        return np.asarray(population.degree), nothing_kept()
    noisy = edges.privatize_graph(key, graph, edges.NoisyDegree(epsilon, noise="geometric"))
    return np.asarray(noisy.degree), spent(noisy.guarantee)


def _counts(key: Any, draw: Pairs, epsilon: float, *, alike: bool) -> Scored:
    """Each end's count of the other's class, for one of that class.

    With ``alike`` a pair of one class is likelier still.
    """
    group = draw.facts().groups
    classes = draw.log_q.shape[1]
    if math.isinf(epsilon):
        counts = edges.count_neighbours(edges.Population.of(draw.graph), group, classes)
        guarantee = nothing_kept()
    else:
        noisy = edges.privatize_counts(
            key, draw.graph, edges.NeighbourCounts(epsilon, classes), group
        )
        counts = noisy.counts
        guarantee = spent(noisy.guarantee)
    return Scored(_by_counts(draw, counts, group, epsilon, alike), guarantee)


def _rehearsal(key: Any, draw: Pairs, epsilon: float, *, alike: bool) -> Scored:
    """The forecast of a row of counts over the better one of released degrees.

    No user reports.
    """
    pilot_key, key = jax.random.split(key)
    pilot = np.asarray(jax.random.permutation(pilot_key, len(draw.labels)))[:PILOT]
    found = servers.rehearse(key, draw.facts(pilot), (epsilon,))
    assert found.auc is not None
    degrees, counts = found.auc[..., :2], found.auc[..., 2 + alike]
    over = found._replace(gains=counts - degrees[..., degrees.mean((0, 1)).argmax()])
    return Scored(
        {methods.LABELS: found.labels or 0, **methods.foretold(over, epsilon)}, nothing_read()
    )


def _common(key: Any, draw: Pairs, epsilon: float) -> Scored:
    """Common neighbours in the true graph."""
    return Scored(_by_common(draw, draw.graph), nothing_kept())


def _by_common(draw: Pairs, graph: Any) -> float:
    """The AUC of common neighbours in a graph, weighted by Adamic and Adar (2003)."""
    n = len(draw.labels)
    senders = np.asarray(graph.senders)
    receivers = np.asarray(graph.receivers)
    degree = np.bincount(receivers, minlength=n)
    weight = 1.0 / np.log(np.maximum(degree, 2.0))
    joined = scipy.sparse.csr_array((np.ones(len(senders)), (receivers, senders)), shape=(n, n))
    weighed = joined @ scipy.sparse.diags_array(weight)
    return _of(lambda u, v: np.asarray(weighed[u].multiply(joined[v]).sum(1)), draw)


def _own_links(word: str, key: Any, draw: Pairs, epsilon: float) -> Scored:
    """Scores of pairs by somebody's own server, or common neighbours in the graph of noisy lists.

    A server is made of the public ``facts`` and ``pairs`` [m, 2], and gives a score for each pair.
    """
    pairs = np.concatenate([draw.linked, draw.others])
    n = len(draw.labels)
    facts = {"facts": draw.facts(), "pairs": pairs, "num_users": n}
    facts["num_classes"] = draw.log_q.shape[1]
    found, guarantee = own.of_lists(key, word, draw.graph, n, epsilon, **facts)
    if isinstance(found, NoisyLists):
        return Scored(_by_common(draw, found.graph), guarantee)
    scores = own.numbers(word, found, (len(pairs),))
    parts = iter(np.split(scores, [len(draw.linked)]))
    return Scored(_of(lambda u, v: next(parts), draw), guarantee)


# --- Classes of graphs ----------------------------------------------------------------------------


@lru_cache(maxsize=1)
def graph_set(dataset: str) -> graphs.GraphSet:
    return graphs.GraphSet.from_dataset(datasets.load(dataset))


def _classified(key: Any, whole: graphs.GraphSet, columns: list[np.ndarray]) -> float:
    """The accuracy of a random forest on the graphs whose class is not public.

    Every second one, at random.
    """
    labels = np.asarray(whole.labels)
    sizes = np.asarray(whole.nodes_per_graph)
    split_key, fit_key = jax.random.split(key)
    order = np.asarray(jax.random.permutation(split_key, len(labels)))
    train, test = order[: len(order) // 2], order[len(order) // 2 :]
    rows = np.concatenate([classifiers.of_sizes(sizes), *columns], 1)
    return float(classifiers.forest(rows, labels, (train, train[:0], test), fit_key).accuracy)


def _numbers(whole: graphs.GraphSet, values: Any) -> np.ndarray:
    return classifiers.of_numbers(
        np.maximum(values, 0), whole.node_graph, np.asarray(whole.nodes_per_graph)
    )


def _graph_degrees(keys: tuple[Any, Any], whole: graphs.GraphSet, epsilon: float) -> Scored:
    degree, guarantee = _degree(keys[1], whole, epsilon)
    return Scored(_classified(keys[0], whole, [_numbers(whole, degree)]), guarantee)


def _graph_counts(keys: tuple[Any, Any], whole: graphs.GraphSet, epsilon: float) -> Scored:
    """Counts by degree class.

    Half of the budget for degrees, half for counts of neighbours by their class.
    """
    degree_key, count_key = jax.random.split(keys[1])
    classes = len(LEVELS) + 1
    half = epsilon / 2
    degree, guarantee = _degree(degree_key, whole, half)
    levels = np.array(LEVELS) / (1.0 if math.isinf(half) else half)
    group = np.searchsorted(levels, degree, side="right").astype(np.int32)
    if math.isinf(half):
        counts = edges.count_neighbours(edges.Population.of(whole), group, classes)
    else:
        reports = edges.privatize_counts(
            count_key, whole, edges.NeighbourCounts(half, classes), group
        )
        counts = reports.counts
        guarantee = spent(guarantee, reports.guarantee)
    columns = [_numbers(whole, degree), *(_numbers(whole, counts[:, k]) for k in range(classes))]
    columns.append(_numbers(whole, counts.sum(1)))
    return Scored(_classified(keys[0], whole, columns), guarantee)


def _own_graphs(word: str, keys: tuple[Any, Any], whole: graphs.GraphSet, epsilon: float) -> Scored:
    """Numbers of users by somebody's own server, or statistics of the graphs of noisy lists.

    A server is made of the graphs without edges and classes, its ``facts``, and gives numbers [n]
    or [n, k].
    """
    none = np.zeros(0, np.int32)
    public = graphs.GraphSet(none, none, whole.node_graph, np.zeros_like(whole.labels))
    n = len(whole.node_graph)
    facts = {"facts": public, "num_users": n}
    found, guarantee = own.of_lists(keys[1], word, whole, public, epsilon, **facts)
    if isinstance(found, NoisyLists):
        columns = [classifiers.of_lists(found.graph)]
    else:
        values = own.numbers(word, found, (n,), (n, *np.shape(found)[1:2]))
        columns = [_numbers(whole, column) for column in values.reshape(n, -1).T]
    return Scored(_classified(keys[0], whole, columns), guarantee)


ALIKE = ", same class"
DEGREES = "released degrees"
COUNTS = "counts"
TRUE = "non-private"


def _alike_too(name: str, run: Any) -> dict[str, Any]:
    return {
        name: lambda *given: run(*given, alike=False),
        f"{name}{ALIKE}": lambda *given: run(*given, alike=True),
    }


METHODS: dict[str, dict[str, Callable[[Any, Any, float], Scored]]] = {
    LINK: {
        "features, cosine": _cosine,
        f"features{ALIKE}": lambda key, draw, epsilon: Scored(
            _of(_alike(draw), draw), nothing_read()
        ),
        **_alike_too(DEGREES, _degrees),
        **_alike_too(COUNTS, _counts),
        **_alike_too(f"{TRUE} degrees", _degrees),
        **_alike_too(f"{TRUE} counts", _counts),
        f"{TRUE}, common neighbours": _common,
        **_alike_too(f"{methods.REHEARSAL}, {COUNTS}", _rehearsal),
    },
    GRAPH: {
        "sizes alone": lambda keys, whole, epsilon: Scored(
            _classified(keys[0], whole, []), nothing_read()
        ),
        DEGREES: _graph_degrees,
        f"{COUNTS} by degree class": _graph_counts,
        f"{TRUE} degrees": _graph_degrees,
        f"{TRUE} counts by degree class": _graph_counts,
    },
}
"""By task and name: each a function of a key, a draw and epsilon."""


OWN = {LINK: _own_links, GRAPH: _own_graphs}


def variants(task: str, config: Config) -> Iterator[tuple[str, float]]:
    for name in (*METHODS[task], *config.mechanisms):
        if name.startswith((DEGREES, COUNTS, methods.REHEARSAL)) or is_own(name):
            yield from ((name, epsilon) for epsilon in config.epsilons)
        else:
            yield name, math.inf if name.startswith(TRUE) else 0.0


@planned
def plan(config: Config) -> Iterator[tuple[Cell, Settings]]:
    for dataset in config.datasets:
        data = friendships.load_any(dataset)
        task = LINK if data.node_graph is None else GRAPH
        settings = Settings(dataset, fingerprint(data, dataset), dataset in friendships.COUNTS)
        rows = [(*row, NEIGHBOUR_LIST) for row in variants(task, config)]
        for labels in config.labels if task == LINK else ("half",):
            if task == LINK:
                friendships.check_count("--labels", labels, friendships.load(dataset))
            made = friendships.cells(Cell, data, settings, config.seeds, rows, task, labels=labels)
            few = lambda cell: (
                cell.mechanism.startswith(methods.REHEARSAL) and cell.seed >= REHEARSED
            )
            yield from ((cell, settings) for cell, settings in made if not few(cell))


def compute(cell: Cell, settings: Settings) -> Found:
    """Compute the row of a method on a draw; its noise is the same at every budget."""
    mine = is_own(cell.mechanism)
    known = METHODS[cell.task]
    number = own.noise(cell.mechanism) if mine else list(known).index(cell.mechanism)
    base = jax.random.fold_in(jax.random.key(settings.base_seed + 2), cell.seed)
    key = jax.random.fold_in(base, number)
    run = partial(OWN[cell.task], cell.mechanism) if mine else known[cell.mechanism]
    if cell.task == LINK:
        value, guarantee = run(key, pairs(settings, cell.labels, cell.seed), cell.epsilon)
    else:
        split_key = jax.random.fold_in(
            base, len(METHODS[GRAPH])
        )  # the same graphs and trees for all methods
        value, guarantee = run((split_key, key), graph_set(settings.dataset), cell.epsilon)
    found = Found(rounded(value if isinstance(value, Mapping) else {cell.last_metric: value}))
    return friendships.promised(cell, settings, found, guarantee, guarantee[NEIGHBOUR_LIST].epsilon)


def check(cell: Cell, settings: Settings) -> None:
    if not cell.mechanism.startswith((DEGREES, COUNTS)):
        return
    both = cell.task == GRAPH and cell.mechanism.startswith(COUNTS)  # each has half of the budget
    epsilon = cell.epsilon / 2 if both else cell.epsilon
    if both or cell.mechanism.startswith(DEGREES):
        edges.NoisyDegree(epsilon, noise="geometric")
    if cell.mechanism.startswith(COUNTS):
        edges.NeighbourCounts(epsilon, len(LEVELS) + 1)
