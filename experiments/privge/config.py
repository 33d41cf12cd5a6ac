"""The command line's words of PrivGE / LDP-GE, and the settings that they stand for."""

import dataclasses
import math
from pathlib import Path
from typing import Annotated, Literal

import tyro

from experiments._common import check_words, fingerprint
from experiments._runner import DEFAULT_OUT, UsageError
from experiments.privge import cells
from experiments.privge import settings as published
from experiments.privge.settings import COMMITTED, EPSILONS, MECHANISMS, Plan, Settings, Task


@dataclasses.dataclass(frozen=True)
class Config:
    """Private node classification and link prediction (PrivGE, LDP-GE), with every baseline beside it.

    Without further words this is the committed plan. Each mechanism has its structure-only twin, on one public
    default record for all users. All are trained on the raw and on the standardised embedding.
    """

    parts: tuple[Task, ...] = ("node", "link")
    """which tasks: node is Figures 2 and 3, link Table III and Figure 4"""
    datasets: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME...")] = ()
    """names, or paths of .npz files (see --bounds); by default those of the committed plan"""
    mechanisms: tuple[Literal["laplace", "piecewise", "multibit", "hds"], ...] = MECHANISMS
    """which mechanisms"""
    epsilons: tuple[float, ...] = ()
    """budgets; by default the plan's"""
    seeds: int | None = None
    """how many seeds, from 0; by default the plan's"""
    ks: tuple[int, ...] = ()
    """HDS with these k instead of the published one (Figures 3 and 4)"""
    preset: Literal["committed", "paper", "smoke"] = "committed"
    """committed: what fits two cores; paper: all epsilons, 10 seeds, 100 epochs everywhere; smoke: seconds"""
    bounds: tuple[float, float] | None = None
    """public bounds of the features of a file that does not declare them (x_lower, x_upper): known without a look
    at the records"""
    epochs: int | None = None
    """by default the preset's"""
    out: Path = DEFAULT_OUT
    """where the CSV and its manifest are, and are looked for"""

    def check(self) -> None:
        check_words(self, positive=("epsilons", "ks", "seeds", "epochs"), filled=("parts", "mechanisms"))
        if self.ks and "hds" not in self.mechanisms:
            raise UsageError("--ks are of HDS: it must be among --mechanisms")
        if self.bounds is not None:
            lower, upper = self.bounds
            if not (math.isfinite(lower) and math.isfinite(upper) and lower < upper):
                raise UsageError(
                    f"--bounds must be two finite numbers, the lower one first, got {lower:g} {upper:g}"
                )
            if not self.datasets:
                raise UsageError("--bounds are of files: name them with --datasets")


def plan(config: Config, task: Task, dataset: str) -> Plan:
    if config.preset == "smoke":
        base = Plan((1.0,), 2, epochs=3)
    elif config.preset == "paper":
        base = Plan(EPSILONS if task == "node" else EPSILONS[2:], 10)
    else:
        base = COMMITTED.get((task, dataset), Plan(EPSILONS, 3))
    epsilons = config.epsilons or base.epsilons
    return Plan(
        epsilons, config.seeds or base.seeds, config.epochs or base.epochs, base.tol,
        ks=config.ks or (() if config.epsilons else base.ks),
        k_epsilons=epsilons if config.ks else base.k_epsilons, k_seeds=config.seeds or base.k_seeds,
    )  # fmt: skip


def settings(config: Config, task: Task, dataset: str, todo: Plan) -> Settings:
    chosen = published.HYPERPARAMETERS.get(dataset, published.DEFAULT)
    node = task == "node"
    return Settings(
        dataset=dataset, data=fingerprint(cells.load(dataset)), task=task,
        alpha=chosen.alpha if node else chosen.link_alpha, r=chosen.r if node else chosen.link_r, tol=todo.tol,
        head="mlp" if node else "logistic", layers=chosen.layers, hidden=chosen.hidden,
        dropout=chosen.dropout if node else 0.0, learning_rate=published.LEARNING_RATE,
        weight_decay=chosen.weight_decay if node else 0.0,
        batch_size=chosen.batch_size if node else published.LINK_BATCH, epochs=todo.epochs,
    )  # fmt: skip
