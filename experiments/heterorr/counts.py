"""How many private edges each release holds, on a graph without features: the first of PPI."""

import dataclasses
import itertools
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any

import jax
import numpy as np

from experiments import _common, _runner
from experiments.heterorr import mixing, releases
from experiments.heterorr.cells import RELEASED, TRUE
from experiments.heterorr.releases import EPSILON_0
from experiments.heterorr.settings import EDGE_MECHANISMS, Config
from ldp_jax import attacks, curators
from ldp_jax.accounting.guarantee import EDGE_CENTRAL
from ldp_jax.graph import graphs

NAME, CALLED = "heterorr_counts", "releases"
DATASET = "ppi_nofeat"
EPSILONS = (0.1, 1.0, 4.0)
SEEDS = 3
AUC = "AUC of common neighbours"
"""Of the pairs that are no public edge, by their common neighbours in all that is released."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(_runner.Cell):
    """One release; a share ``rho`` of the edges is private."""

    rho: float
    last_metric = property(lambda self: AUC)


results_in = partial(_runner.Results, name=NAME, cell=Cell)


@lru_cache(maxsize=4)
def _split(seed: int, rho: float) -> curators.EdgeSplit:
    n, edges = mixing.connected(DATASET)
    graph = graphs.from_edges(edges.astype(np.int32), n, pairs_in="rows")
    return curators.split_edges(jax.random.key(seed), graph, rho)


@_common.planned
def plan(config: Config) -> Iterator[tuple[Cell, dict[str, Any]]]:
    sweeps = 20 if config.smoke else 8000
    rho = config.private_shares[-1]
    made = {"sweeps": sweeps, "dataset": DATASET}
    names = [name for name in EDGE_MECHANISMS if name in config.mechanisms]
    budgets = [(name, 0.0) for name in EPSILON_0]
    budgets += [(name, eps) for eps in config.epsilons or EPSILONS for name in names]
    for seed, (name, epsilon) in itertools.product(range(min(SEEDS, config.seeds)), budgets):
        spent = 0.0
        if epsilon:
            with _runner.asked(f"--epsilons {epsilon:g}, {name}"):
                spent = releases.edge_mechanism(name, epsilon, sweeps).guarantee().epsilon
        yield Cell.of(made, DATASET, "counts", EDGE_CENTRAL, name, epsilon, seed, spent, rho=rho)


def compute(cell: Cell, made: dict[str, Any]) -> _runner.Found:
    split = _split(cell.seed, cell.rho)
    root = jax.random.key(cell.seed)
    key = jax.random.fold_in(root, 1)
    pairs_key = jax.random.fold_in(root, 2)
    graph, _ = releases.released_edges(
        key, split, cell.mechanism, cell.epsilon, cell.rho, made["sweeps"]
    )
    released, true = releases.count(split, graph)
    public = graphs.to_edges(split.public)
    private = graphs.to_edges(split.private)
    targets = attacks.balanced_pairs(pairs_key, np.arange(split.num_nodes), private, known=public)
    found = attacks.common_neighbours(graphs.to_edges(graph), split.num_nodes, targets)
    return _runner.Found({RELEASED: released, TRUE: true, AUC: round(float(found.auc.mean), 6)})
