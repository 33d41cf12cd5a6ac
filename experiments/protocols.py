"""Published protocols of several rounds: triangles and stars, and synthetic graphs."""

import dataclasses
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal

import jax
import numpy as np
from scipy import stats

from experiments import _common, _runner
from experiments._declared import write_of
from experiments._runner import Found, Grid, Results, rounded, run
from experiments.dprr.synthetic import likely
from experiments.frontier.friendships import load, public_labels
from ldp_jax import datasets, edges
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RELATIONSHIP
from ldp_jax.core.types import Graph
from ldp_jax.graph.interop import to_scipy
from ldp_jax.servers import (
    LDPGenServer,
    ListServer,
    StarServer,
    SubgraphCount,
    TriangleServer,
    Users,
    simulate,
)

NAME = "protocols"
BASE_SEED = 20260
CUT = 50  # the public number of owned friends that a user counts at most
TRIANGLES = "triangles"
STARS = "2-stars"
GRAPH = "graph"
TRUE = "true graph"
BLINK = "Blink, hard"
RELATIVE = "relative error"
STATED = "stated standard error"
ACCURACY = "accuracy"


def _half(mechanism: Callable, n: int, epsilon: float) -> ListServer:
    """One owner of each pair sends a noisy list."""
    return ListServer(mechanism(epsilon, reporting="half"), n)


SERVERS: dict[Any, Callable] = {
    (TRIANGLES, "two rounds"): lambda n, epsilon: TriangleServer(
        n, 0.45 * epsilon, 0.45 * epsilon, epsilon_degree=0.1 * epsilon
    ),
    (TRIANGLES, "two rounds, cut"): lambda n, epsilon: TriangleServer(
        n, epsilon / 2, epsilon / 2, bound=CUT
    ),
    (TRIANGLES, "one round"): partial(_half, edges.RandomizedResponse),
    (STARS, "noisy counts"): lambda n, epsilon: StarServer(
        n, 0.9 * epsilon, epsilon_degree=0.1 * epsilon
    ),
    (GRAPH, "LDPGen"): lambda n, epsilon: LDPGenServer(n, epsilon / 2, epsilon / 2),
    (GRAPH, "DPRR"): lambda n, epsilon: _half(
        partial(edges.DPRR.from_epsilon, n_max=n), n, epsilon
    ),
    (GRAPH, "LocalLap"): partial(_half, edges.LocalLap.from_epsilon),
    (GRAPH, BLINK): edges.private_links,
}
"""What each row asks, by the number of users and the total epsilon per bit of a list."""


@dataclasses.dataclass(frozen=True)
class Config(Grid):
    """Published protocols of several rounds, beside what one round gives.

    Triangles in two rounds and on a noisy graph, and stars; LDPGen's synthetic graph beside the
    noisy graphs of DPRR, Blink and LocalLap.
    """

    tasks: tuple[Literal["triangles", "2-stars", "graph"], ...] = (TRIANGLES, STARS, GRAPH)
    """what is asked for"""
    datasets: tuple[str, ...] = ("debian",)
    """graphs whose nodes have a class each: names, or paths of .npz files"""
    epsilons: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0)
    """per bit of a list, of all rounds together"""
    seeds: int = 10
    """how many, from 0"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(_runner.Cell):
    """One run of a protocol."""

    proved_pair: float
    """the total per pair of users; ``epsilon_proved`` is that per bit of a list"""

    last_metric = property(lambda self: ACCURACY if self.task == GRAPH else RELATIVE)


results_in = partial(Results, name=NAME, cell=Cell)


# --- The plan -------------------------------------------------------------------------------------


@_common.planned
def plan(config: Config) -> Iterator[Any]:
    _common.check_words(config, positive=("epsilons", "seeds"))
    for dataset in config.datasets:
        data = load(dataset)
        digest = _common.fingerprint(data, dataset)
        settings = {"dataset": dataset, "data": digest, "seed": BASE_SEED}
        rows = [(GRAPH, TRUE, math.inf)]
        rows += [(*row, epsilon) for epsilon in config.epsilons for row in SERVERS]
        for seed in range(config.seeds):
            for task, name, epsilon in rows:
                if task in config.tasks:
                    with _runner.asked(f"--epsilons {epsilon:g}, {name}"):
                        bit, pair = totals(task, name, len(data.y), epsilon)
                    row = dataset, task, NEIGHBOUR_LIST, name, epsilon, seed, bit
                    yield Cell.of(settings, *row, proved_pair=pair)


def totals(task: str, name: str, n: int, epsilon: float) -> tuple[float, float]:
    """The totals that are stated before anybody is asked, per bit and per pair."""
    if name in (TRUE, BLINK):  # both ends report to Blink
        return epsilon, 2 * epsilon
    stated = SERVERS[task, name](n, epsilon).statement().guarantee()
    return round(stated[NEIGHBOUR_LIST].epsilon, 6), round(stated[RELATIONSHIP].epsilon, 6)


# --- The rows -------------------------------------------------------------------------------------


def compute(cell: Cell, settings: Any) -> Found:
    data = load(cell.dataset)
    root = jax.random.fold_in(jax.random.key(BASE_SEED), cell.seed)
    key, labels_key = jax.random.split(root)
    value = data.graph
    if cell.mechanism == BLINK:
        value = likely(key, value, cell.epsilon)
    elif cell.mechanism != TRUE:
        server = SERVERS[cell.task, cell.mechanism](len(data.y), cell.epsilon)
        found = simulate(key, server, Users(lists=value)).value
        value = getattr(found, "graph", found)
    if cell.task == GRAPH:
        return Found(rounded(measures(labels_key, value, data)))

    pairs, linked = wedges(data.graph)
    true = pairs.sum() if cell.task == STARS else linked.sum() / 3
    if isinstance(value, SubgraphCount):
        values = {"true": true, "estimate": value.estimate, STATED: value.error / true}
    else:
        values = {"true": true, "estimate": triangles_of(value, cell.epsilon)}
    return Found(rounded({**values, RELATIVE: abs(values["estimate"] / true - 1)}))


def triangles_of(noisy: Graph, epsilon: float) -> float:
    """The unbiased number of triangles from a noisy graph; in the cube of the number of users.

    Each bit is made unbiased, so that a product over the pairs of a triangle has the true mean.
    """
    flip = 1 / (math.exp(epsilon) + 1)
    unbiased = (to_scipy(noisy).toarray().astype(np.float32) - flip) / (1 - 2 * flip)
    np.fill_diagonal(unbiased, 0.0)
    return float(((unbiased @ unbiased) * unbiased).sum(dtype=np.float64)) / 6


def wedges(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """How many pairs of friends each user has, and how many of these are linked."""
    one = to_scipy(graph).astype(float)
    degree = one.sum(1)
    return degree * (degree - 1) / 2, (one @ one).multiply(one).sum(1) / 2


def measures(key: jax.Array, released: Graph, data: datasets.Dataset) -> dict[str, float]:
    """How far a graph is like the true one, and what it is worth."""
    one = to_scipy(released)
    pairs, linked = wedges(released)
    member = np.eye(data.num_classes, dtype=np.float32)[data.y]
    between = member.T @ one @ member / max(one.sum(), 1)
    known = public_labels(key, data.y.astype(np.int32), "half") >= 0
    shown = member * known[:, None]
    votes = one @ shown + 1e-9 * shown.mean(0)
    right = (votes.argmax(1) == data.y) * 1.0 - (shown.sum(0).argmax() == data.y)
    return {
        "links": one.sum() / 2,
        "degrees": stats.ks_2samp(to_scipy(data.graph).sum(1), one.sum(1)).statistic,
        "clustering": (linked / np.maximum(pairs, 1)).mean(),
        "modularity": np.trace(between) - (between.sum(1) ** 2).sum(),
        ACCURACY: right[~known].mean(),
    }


def main(config: Config) -> None:
    run(plan(config), compute, results_in(config.out), called="rows", grid=config)
    _common.announce(config, partial(write_of, NAME))
