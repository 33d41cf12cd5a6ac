"""LinkTeller on GCNs of released edges, beside attackers who know the public edges alone."""

import dataclasses
import math
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any

import jax
import numpy as np

from experiments import _common, _runner
from experiments.heterorr import accuracy, cells, releases
from experiments.heterorr.settings import EDGE_MECHANISMS, Config, Settings
from ldp_jax import attacks
from ldp_jax.accounting.guarantee import EDGE_CENTRAL
from ldp_jax.graph import graphs
from ldp_jax.learning import models

NAME, CALLED = "heterorr_attacks", "attacks"
EPSILONS = (0.1, 0.5, 1.0)
LINKTELLER, BESIDE = "LinkTeller", "common neighbours"
"""The attack on a model; and the attacker of public knowledge that every other is compared with."""
KNOWN = ("degree product", BESIDE, "feature similarity")
"""Attackers who ask no model."""
METRICS = ("average precision", "precision", "TPR at 1 % FPR", "balanced AUC", "AUC")
"""At the true density, but for the balanced one: as many pairs without an edge as with one."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(_runner.Cell):
    """One attack on one release, of all pairs of ``attacked`` nodes but public edges.

    A share rho is private.
    """

    attack: str
    rho: float
    attacked: int
    last_metric = property(lambda self: METRICS[-1])


results_in = partial(_runner.Results, name=NAME, cell=Cell)


@_common.planned
def plan(config: Config) -> Iterator[tuple[Cell, Settings]]:
    for dataset in config.datasets:
        data = accuracy.load(dataset)
        chosen = accuracy.resolved(config, dataset, "edges")
        rows = [("public knowledge", 0.0, attack) for attack in KNOWN]
        rows += [
            (releases.PUBLIC_EDGES, 0.0, LINKTELLER),
            (cells.NON_PRIVATE, math.inf, LINKTELLER),
        ]
        names = [name for name in EDGE_MECHANISMS if name in config.mechanisms]
        rows += [(name, eps, LINKTELLER) for eps in config.epsilons or EPSILONS for name in names]
        pairs = {
            "rho": config.private_shares[-1],
            "attacked": min(config.attacked_nodes, data.num_nodes),
        }
        cell = partial(Cell.of, chosen, data.name, "private edges", EDGE_CENTRAL)
        for seed in range(config.seeds):
            for mechanism, epsilon, attack in rows:
                spent = epsilon
                if mechanism in config.mechanisms:
                    with _runner.asked(f"--epsilons {epsilon:g}, {mechanism}"):
                        spent = (
                            releases.edge_mechanism(mechanism, epsilon, chosen.sweeps)
                            .guarantee()
                            .epsilon
                        )
                yield cell(mechanism, epsilon, seed, spent, attack=attack, **pairs)


@lru_cache(maxsize=1)
def _asked(
    bench: cells.Bench, rho: float, attacked: int
) -> tuple[Any, attacks.Targets, attacks.Targets, np.ndarray]:
    """Public edges; all pairs that are attacked; a balanced part of them, and where it stands."""
    split = cells.split_of(bench, rho)
    public = graphs.to_edges(split.public)
    private = graphs.to_edges(split.private)
    node_key, pair_key = jax.random.split(jax.random.fold_in(jax.random.clone(bench.split_key), 1))
    nodes = np.sort(np.asarray(jax.random.permutation(node_key, bench.data.num_nodes))[:attacked])
    every = attacks.all_pairs(nodes, private, known=public)
    balanced = attacks.balanced_pairs(pair_key, nodes, private, known=public)
    places = np.searchsorted(_codes(every), _codes(balanced))
    return public, every, balanced, places


def _codes(targets: attacks.Targets) -> np.ndarray:
    """Pairs as whole numbers, in the order of all pairs."""
    return targets.units[:, 0].astype(np.int64) * 2**31 + targets.units[:, 1]


def compute(cell: Cell, chosen: Settings) -> _runner.Found:
    bench = cells.prepare(chosen, cell.seed)
    public, every, balanced, places = _asked(bench, cell.rho, cell.attacked)
    n = bench.data.num_nodes
    if cell.attack == LINKTELLER:
        seen = cells.edges(bench, cell.mechanism, cell.epsilon, cell.rho)
        op = cells.layout(bench, seen.graph)
        x = cells.records(bench)
        score = cells.train(bench, op, x, (0,))
        inputs = models.NodeInputs(op, x if score.chosen.endswith("raw") else cells.standardized(x))
        judge = partial(attacks.linkteller, cells.model_of(bench), score.variables, inputs)
    elif cell.attack == "feature similarity":
        judge = partial(attacks.feature_similarity, bench.data.x.toarray())
    elif cell.attack == BESIDE:
        judge = partial(attacks.common_neighbours, public, n)
    else:
        judge = partial(attacks.degree_product, public, n)
    found = judge(every)
    even = attacks.evaluate(found.name, found.scores[places], balanced)
    areas = found.average_precision, found.precision, found.tpr, even.auc, found.auc
    return _runner.Found(
        _runner.rounded({name: area.mean for name, area in zip(METRICS, areas, strict=True)})
    )
