"""How many private edges each release holds, on a graph without features: the first of PPI."""

import dataclasses
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from experiments import _runner
from experiments._common import run_plan
from experiments._report import prose, publish, table
from experiments._runner import Found, Results, config_hash
from experiments.heterorr import mixing, releases
from experiments.heterorr.cells import RELEASED, TRUE
from experiments.heterorr.config import Config
from experiments.heterorr.labels import LABELS, budget
from experiments.heterorr.releases import EPSILON_0
from experiments.heterorr.settings import EDGE_MECHANISMS
from ldp_jax import attacks
from ldp_jax.accounting.guarantee import EDGE_CENTRAL
from ldp_jax.edges import curator
from ldp_jax.graph import graphs
from ldp_jax.learning.metrics import mean_interval

_TEXT = prose("heterorr_counts")

NAME = "heterorr_counts"
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


results_in = partial(Results, name=NAME, cell=Cell)


@lru_cache(maxsize=4)
def _split(seed: int, rho: float) -> curator.EdgeSplit:
    n, edges = mixing.connected(DATASET)
    graph = graphs.from_edges(edges.astype(np.int32), n, pairs_in="rows")
    return curator.split_edges(jax.random.key(seed), graph, rho)


def main(config: Config) -> None:
    """Compute what is missing."""
    sweeps, rho = 20 if config.smoke else 8000, config.private_shares[-1]
    made = {"sweeps": sweeps, "dataset": DATASET}
    planned: dict[Cell, dict[str, Any]] = {}
    budgets = [(name, 0.0) for name in EPSILON_0] + [(name, eps) for eps in EPSILONS for name in EDGE_MECHANISMS]
    for seed in range(min(SEEDS, config.seeds)):
        for name, epsilon in budgets:
            spent = releases.edge_mechanism(name, epsilon, sweeps).guarantee().epsilon if epsilon else 0.0
            cell = Cell(
                dataset=DATASET, task="counts", mechanism=name, epsilon=epsilon, seed=seed, epsilon_proved=spent,
                unit=str(EDGE_CENTRAL), config=config_hash(made), rho=rho,
            )  # fmt: skip
            planned[cell] = made
    run_plan(planned, _count, results_in(config.out), "releases")


def _count(cell: Cell, made: dict[str, Any]) -> Found:
    split, root = _split(cell.seed, cell.rho), jax.random.key(cell.seed)
    key, pairs_key = jax.random.fold_in(root, 1), jax.random.fold_in(root, 2)
    graph, _ = releases.released_edges(key, split, cell.mechanism, cell.epsilon, cell.rho, made["sweeps"])
    released, true = releases.count(split, graph)
    public, private = graphs.to_edges(split.public), graphs.to_edges(split.private)
    targets = attacks.balanced_pairs(pairs_key, np.arange(split.num_nodes), private, known=public)
    found = attacks.common_neighbours(graphs.to_edges(graph), split.num_nodes, targets)
    return Found({RELEASED: released, TRUE: true, AUC: round(float(found.auc.mean), 6)})


def write(out: Path) -> list[Path]:
    """The table."""
    frame = results_in(out).read()
    if frame.empty:
        return []
    rows = []
    for (mechanism, epsilon), part in frame.groupby(["mechanism", "epsilon"], sort=False):
        found = {metric: mean_interval(each.value) for metric, each in part.groupby("metric")}
        rows.append(
            {
                "release": LABELS[str(mechanism)],
                "eps": budget(str(mechanism), float(epsilon)),
                "released as private edges": f"{found[RELEASED].mean:.0f}",
                "true among them": f"{found[TRUE].mean:.0f}",
                AUC: f"{found[AUC].mean:.3f} ± {found[AUC].half_width:.3f}",
            }
        )
    first = frame.iloc[0]
    text = _TEXT.preface.format(dataset=first.dataset, rho=first.rho, seeds=frame.seed.nunique())
    return publish(out, {NAME: f"# Private edges in a release\n\n{text}\n\n{table(rows)}"}, {})
