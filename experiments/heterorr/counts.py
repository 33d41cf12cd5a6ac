"""How many private edges each release holds, on a graph without features: the first of PPI."""

import dataclasses
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import jax
import numpy as np

from experiments import _runner
from experiments._report import markdown
from experiments._runner import Found, Results, config_hash, run, write_atomically
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

NAME = "heterorr_counts"
DATASET = "ppi_nofeat"
EPSILONS = (0.1, 1.0, 4.0)
SEEDS = 3
AUC = "AUC of common neighbours"
"""Of the pairs that are no public edge, by their common neighbours in what is released."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(_runner.Cell):
    """One release.

    Attributes:
      rho: the share of edges that is private.
    """

    rho: float

    @property
    def last_metric(self) -> str:
        """What the released graph tells of private edges."""
        return AUC


def results_in(out: Path) -> Results:
    """The rows of a folder."""
    return Results(out, NAME, Cell)


@lru_cache(maxsize=4)
def _split(seed: int, rho: float) -> curator.EdgeSplit:
    n, edges = mixing.connected(DATASET)
    graph = graphs.from_edges(edges.astype(np.int32), n, pairs_in="rows")
    return curator.split_edges(jax.random.key(seed), graph, rho)


def main(config: Config) -> None:
    """Compute what is missing."""
    sweeps, rho = 20 if config.smoke else 8000, config.rhos[-1]
    made = {"sweeps": sweeps, "dataset": DATASET}
    planned = []
    budgets = [(name, 0.0) for name in EPSILON_0] + [(name, eps) for eps in EPSILONS for name in EDGE_MECHANISMS]
    for seed in range(min(SEEDS, config.seeds)):
        for name, epsilon in budgets:
            spent = releases.edge_mechanism(name, epsilon, sweeps).guarantee().epsilon if epsilon else 0.0
            planned.append(
                Cell(
                    dataset=DATASET, task="counts", mechanism=name, epsilon=epsilon, seed=seed,
                    epsilon_proved=spent, unit=str(EDGE_CENTRAL), config=config_hash(made), rho=rho,
                )
            )  # fmt: skip

    def compute(cell: Cell, say: Callable[[str], None]) -> Found:
        split = _split(cell.seed, cell.rho)
        key = jax.random.fold_in(jax.random.key(cell.seed), 1)
        graph, _ = releases.released_edges(key, split, cell.mechanism, cell.epsilon, cell.rho, sweeps)
        released, true = releases.count(split, graph)
        public, private = graphs.to_edges(split.public), graphs.to_edges(split.private)
        targets = attacks.balanced_pairs(
            jax.random.fold_in(jax.random.key(cell.seed), 2), np.arange(split.num_nodes), private, known=public
        )
        found = attacks.common_neighbours(graphs.to_edges(graph), split.num_nodes, targets)
        return Found({RELEASED: released, TRUE: true, AUC: round(float(found.auc.mean), 6)})

    run(planned, compute, results_in(config.out), settings=lambda cell: made, called="releases")


def write(out: Path) -> list[Path]:
    """The table."""
    frame = results_in(out).read()
    if frame.empty:
        return []
    rows = []
    for (mechanism, epsilon), part in frame.groupby(["mechanism", "epsilon"], sort=False):
        counts = [mean_interval(part[part.metric == metric].value).mean for metric in (RELEASED, TRUE)]
        auc = mean_interval(part[part.metric == AUC].value)
        rows.append(
            [
                LABELS[str(mechanism)],
                budget(str(mechanism), float(epsilon)),
                *(f"{count:.0f}" for count in counts),
                f"{auc.mean:.3f} ± {auc.half_width:.3f}",
            ]
        )
    first = frame.iloc[0]
    path = out / f"{NAME}.md"
    headers = ["release", "eps", "released as private edges", "true among them", AUC]
    text = _PREFACE.format(dataset=first.dataset, rho=first.rho, seeds=frame.seed.nunique())
    write_atomically(path, f"# Private edges in a release\n\n{text}\n\n{markdown(headers, rows)}\n")
    return [path]


_PREFACE = """\
Made by `python -m experiments report` from `heterorr_counts.csv`: the first graph of `{dataset}`, a share {rho:g}
of its edges private, {seeds} seeds. The last column attacks private edges among as many other pairs, by the common
neighbours that a pair has in all that is released, public edges included: the rows at epsilon 0 say how much of it
is theirs."""
