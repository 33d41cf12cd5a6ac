"""LinkTeller on GCNs of released edges, beside attackers who have the public edges and nothing else."""

import dataclasses
import math
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd

from experiments import _runner
from experiments._report import markdown, panels, save, signed
from experiments._runner import Found, Results, asked, config_hash, run, write_atomically
from experiments.heterorr import accuracy, cells, releases
from experiments.heterorr.cells import NON_PRIVATE
from experiments.heterorr.config import Config
from experiments.heterorr.labels import COLOURS, LABELS, budget
from experiments.heterorr.published import NO_PROTECTION, WITH_EDGERR
from experiments.heterorr.releases import PUBLIC_EDGES
from experiments.heterorr.settings import Settings
from ldp_jax import attacks
from ldp_jax.accounting.guarantee import EDGE_CENTRAL
from ldp_jax.graph import graphs
from ldp_jax.learning.metrics import mean_interval
from ldp_jax.learning.models import NodeInputs

NAME = "heterorr_attacks"
LINKTELLER = "LinkTeller"
KNOWN = ("degree product", "common neighbours", "feature similarity")
"""Attackers who ask no model."""
METRICS = ("average precision", "precision", "TPR at 1 % FPR", "balanced AUC", "AUC")
"""At the true density, but for the balanced one: as many pairs without an edge as with one."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(_runner.Cell):
    """One attack on one release.

    Attributes:
      attack: which.
      rho: the share of edges that is private: what the attack is after.
      attacked: how many nodes it asks about, all pairs of them but the public edges.
    """

    attack: str
    rho: float
    attacked: int

    @property
    def last_metric(self) -> str:
        """The AUC."""
        return METRICS[-1]


def results_in(out: Path) -> Results:
    """The rows of a folder."""
    return Results(out, NAME, Cell)


def plan(config: Config) -> dict[Cell, Settings]:
    """The cells: first what anybody may do, then LinkTeller on every release."""
    planned = {}
    rho = config.rhos[-1]
    for dataset in config.datasets:
        data, chosen = accuracy.load(dataset), accuracy.resolved(config, dataset, "edges")
        attacked = min(config.attacked, data.num_nodes)
        rows = [("public knowledge", 0.0, attack) for attack in KNOWN]
        rows += [(PUBLIC_EDGES, 0.0, LINKTELLER), (NON_PRIVATE, math.inf, LINKTELLER)]
        rows += [(name, eps, LINKTELLER) for eps in config.attack_epsilons for name in config.edge_mechanisms]
        for seed in range(config.seeds):
            for mechanism, epsilon, attack in rows:
                spent = epsilon
                if mechanism in config.edge_mechanisms:
                    with asked(f"--attack-epsilons {epsilon:g}, {mechanism}"):
                        spent = releases.edge_mechanism(mechanism, epsilon, chosen.sweeps).guarantee().epsilon
                cell = Cell(
                    dataset=data.name, task="private edges", mechanism=mechanism, epsilon=epsilon, seed=seed,
                    epsilon_proved=spent, unit=str(EDGE_CENTRAL), config=config_hash(chosen), attack=attack,
                    rho=rho, attacked=attacked,
                )  # fmt: skip
                planned[cell] = chosen
    return planned


@lru_cache(maxsize=1)
def _asked(bench: cells.Bench, rho: float, attacked: int) -> tuple[Any, attacks.Targets, attacks.Targets]:
    """Public edges; all pairs that are attacked; and a balanced part of them."""
    split = cells.split_of(bench, rho)
    public, private = graphs.to_edges(split.public), graphs.to_edges(split.private)
    node_key, pair_key = jax.random.split(jax.random.fold_in(jax.random.clone(bench.split_key), 1))
    nodes = np.sort(np.asarray(jax.random.permutation(node_key, bench.data.num_nodes))[:attacked])
    return (
        public,
        attacks.all_pairs(nodes, private, known=public),
        attacks.balanced_pairs(pair_key, nodes, private, known=public),
    )


def attack(bench: cells.Bench, cell: Cell) -> Found:
    """What an attacker finds."""
    public, every, balanced = _asked(bench, cell.rho, cell.attacked)
    if cell.attack == LINKTELLER:
        seen = cells.edges(bench, cell.mechanism, cell.epsilon, cell.rho)
        op, x = cells.layout(seen.graph), cells.records(bench)
        score = cells.train(bench, op, x, (0,))
        rows = x if score.chosen.endswith("raw") else cells.standardized(x)

        def judge(targets: attacks.Targets) -> attacks.Attack:
            return attacks.linkteller(cells.model_of(bench), score.variables, NodeInputs(op, rows), targets)
    else:

        def judge(targets: attacks.Targets) -> attacks.Attack:
            if cell.attack == "feature similarity":
                return attacks.feature_similarity(bench.data.x.toarray(), targets)
            known = {"degree product": attacks.degree_product, "common neighbours": attacks.common_neighbours}
            return known[cell.attack](public, bench.data.num_nodes, targets)

    found, even = judge(every), judge(balanced)
    values = (
        found.average_precision.mean, found.precision.mean, found.tpr.mean, even.auc.mean, found.auc.mean,
    )  # fmt: skip
    return Found({name: round(float(value), 6) for name, value in zip(METRICS, values, strict=True)})


def main(config: Config) -> None:
    """Compute what is missing."""
    planned = plan(config)

    def compute(cell: Cell, say: Callable[[str], None]) -> Found:
        return attack(cells.prepare(planned[cell], cell.seed), cell)

    run(planned, compute, results_in(config.out), settings=planned.__getitem__, called="attacks")


# --- Report ----------------------------------------------------------------------------------------------------

BESIDE = "common neighbours"
"""The attacker of public knowledge that every other is compared with."""


def write(out: Path) -> list[Path]:
    """The table and its figure."""
    frame = results_in(out).read()
    if frame.empty:
        return []
    path, figure = out / f"{NAME}.md", out / f"{NAME}.png"
    write_atomically(path, "# Attacks on private edges\n\n" + _PREFACE + "\n\n" + table(frame) + "\n")
    save(draw(frame), figure)
    return [path, figure]


_PREFACE = f"""\
Made by `python -m experiments report` from `heterorr_attacks.csv`. A share rho of the edges, drawn at random, is
private; an attacker knows the nodes, their features and the public edges, and asks a GCN that was trained on what
was released. The target is every pair of the attacked nodes that is no public edge. AP, precision and TPR are at
the true density; *balanced AUC* has as many pairs without an edge as with one, as attacks are published. Intervals
are 95 % over seeds. **beyond public** is the AUC less that of the attacker who ranks pairs by their common public
neighbours and asks no model, paired by seed; bold where the interval leaves 0 out.

The paper prints a balanced AUC of {NO_PROTECTION} without protection, and {WITH_EDGERR[0]} to {WITH_EDGERR[1]}
under EdgeRR at these budgets (500 nodes of FLICKR-MIR). Here *public edges alone* is a model that has seen no
private edge: a release whose AUC is not above its AUC gives nothing away that was not known."""


def table(frame: pd.DataFrame) -> str:
    """One table a data set."""
    made = []
    for dataset, part in frame.groupby("dataset", sort=False):
        rows = []
        wide = part.pivot_table(index=["mechanism", "epsilon", "attack", "seed"], columns="metric", values="value")
        beside = wide.xs(BESIDE, level="attack").droplevel(["mechanism", "epsilon"])[METRICS[-1]]
        order = part.drop_duplicates(["mechanism", "epsilon", "attack"])
        for mechanism, epsilon, attack in zip(order.mechanism, order.epsilon, order.attack, strict=True):
            group = wide.xs((mechanism, epsilon, attack), level=("mechanism", "epsilon", "attack"))
            both = pd.concat([group[METRICS[-1]], beside], axis=1, join="inner").dropna()
            gain = mean_interval(both.iloc[:, 0] - both.iloc[:, 1]) if attack != BESIDE else None
            rows.append(
                [
                    LABELS.get(mechanism, mechanism),
                    budget(mechanism, epsilon),
                    attack,
                    *(_three(mean_interval(group[metric])) for metric in (METRICS[-1], *METRICS[:-1])),
                    "" if gain is None else signed(gain, digits=3),
                ]
            )
        first = part.iloc[0]
        title = f"## {dataset}: {first.attacked} nodes, rho {first.rho:g}, {part.seed.nunique()} seeds"
        headers = ["release", "eps", "attack", "AUC", "AP", "precision", "TPR at 1 % FPR", "balanced AUC"]
        made.append(title + "\n\n" + markdown([*headers, "beyond public"], rows))
    return "\n\n".join(made)


def _three(interval: Any) -> str:
    return f"{interval.mean:.3f}" + (f" ± {interval.half_width:.3f}" if interval.n > 1 else "")


def draw(frame: pd.DataFrame) -> Any:
    """AUC and average precision against epsilon, with public attackers as lines."""
    dataset = frame.dataset.iloc[0]
    part = frame[frame.dataset == dataset]
    figure, axes = panels(2, width=4.4, height=3.4)
    for axis, metric in zip(axes, (METRICS[-1], METRICS[0]), strict=True):
        of_metric = part[part.metric == metric]
        for name, rows in of_metric[of_metric.mechanism.isin(COLOURS)].groupby("mechanism", sort=False):
            points = [(eps, mean_interval(group.value)) for eps, group in rows.groupby("epsilon")]
            axis.errorbar(
                [eps for eps, _ in points], [i.mean for _, i in points], yerr=[i.half_width for _, i in points],
                label=LABELS[str(name)], color=COLOURS[str(name)], marker="o", markersize=3, capsize=2,
            )  # fmt: skip
        lines = [("common neighbours", ":", "0.35"), ("degree product", "-.", "0.55")]
        for attack, style, grey in lines:
            value = of_metric[of_metric.attack == attack].value.mean()
            axis.axhline(value, linestyle=style, color=grey, linewidth=1, label=f"{attack}, no model")
        for mechanism, style in ((NON_PRIVATE, "-"), (PUBLIC_EDGES, "--")):
            value = of_metric[(of_metric.mechanism == mechanism) & (of_metric.attack == LINKTELLER)].value.mean()
            axis.axhline(value, linestyle=style, color="black", linewidth=0.9, label=LABELS[mechanism])
        axis.set_xlabel("epsilon per private edge")
        axis.set_ylabel(f"{metric} of LinkTeller")
        axis.set_xscale("log")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.suptitle(f"{dataset}: private edges found, rho {part.rho.iloc[0]:g}", fontsize=9)
    figure.legend(handles, labels, loc="lower center", ncols=4, fontsize=7.5)
    figure.tight_layout(rect=(0, 0.2, 1, 1))
    return figure
