"""The settings and numbers that PrivGE / LDP-GE prints, the command line's words, what is run."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import tyro

from experiments import _common
from experiments._runner import Grid, UsageError

Task = Literal["node", "link"]

MECHANISMS = ("laplace", "piecewise", "multibit", "hds")
EPSILONS = (0.01, 0.1, 1.0, 2.0, 3.0, 5.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(_common.Settings):
    """The settings of one task and data set.

    Attributes:
      alpha: decay factor of the propagation.
      r: its convolution coefficient.
      tol: its relative error.
      head: ``mlp`` or ``logistic`` (one linear layer).
      layers: dense layers of the MLP.
      batch_size: nodes, or edge and non-edge pairs.
      features: 0: all are used. A part of the committed hashes.
    """

    task: Task
    alpha: float
    r: float
    tol: float
    head: Literal["mlp", "logistic"]
    layers: int
    batch_size: int
    patience: int = 20
    label_alphas: tuple[float, ...] = _common.LABEL_ALPHAS
    label_rs: tuple[float, ...] = _common.LABEL_RS
    features: int = 0
    base_seed: int = 2023


class Hyperparameters(NamedTuple):
    """One data set's published hyper-parameters: node task, then link task."""

    batch_size: int
    layers: int
    hidden: int
    alpha: float
    r: float
    dropout: float
    weight_decay: float
    k: int
    link_r: float
    link_k: int = 1
    link_alpha: float = 0.1


_KNOWN = _common.told("published.toml", "privge")
HYPERPARAMETERS = {name: Hyperparameters(**one) for name, one in _KNOWN["hyperparameters"].items()}
"""LDP-GE's six data sets; ``facebook_pages`` is its Facebook, ``crocodile`` its Wikipedia."""

DEFAULT = Hyperparameters(256, 2, 64, 0.1, 0.1, 0.5, 5e-4, 20, link_r=0.5)
"""For any other graph (the demo, a user's own)."""

LINK_BATCH = 1024
TOL = 1e-4
LEARNING_RATE = 0.01
EPOCHS = 100


class Plan(NamedTuple):
    """The committed plan of one task and data set, chosen to fit a two-core machine."""

    epsilons: tuple[float, ...]
    seeds: int
    epochs: int = EPOCHS
    tol: float = TOL
    ks: tuple[int, ...] = ()
    k_epsilons: tuple[float, ...] = ()
    k_seeds: int = 3


def _plan(spec: Mapping[str, Any]) -> Plan:
    made: dict[str, Any] = {
        key: tuple(one) if isinstance(one, list) else one for key, one in spec.items()
    }
    return Plan(**made)


COMMITTED = {
    (task, dataset): _plan(spec)
    for task, plans in _KNOWN["committed"].items()
    for dataset, spec in plans.items()
}

PUBLISHED_VALUES: dict[tuple[str, str, str, float], float] = {
    **{("node", dataset, "hds", 0.01): value for dataset, value in _KNOWN["node_hds"].items()},
    **{
        (task, dataset, "non-private", math.inf): value
        for task in ("node", "link")
        for dataset, value in _KNOWN[f"{task}_non_private"].items()
    },
    **{
        ("link", *name.split(), epsilon): value
        for name, values in _KNOWN["link"].items()
        for epsilon, value in zip((1.0, 2.0, 3.0, 5.0), values, strict=True)
    },
}
"""(task, dataset, mechanism, epsilon) -> accuracy or AUC in per cent."""

NAMED_GAPS = tuple(map(tuple, _KNOWN["gaps"]))
"""Node task: (dataset, epsilon, a, b, published accuracy of a less that of b)."""


def printed(row: Mapping[str, Any]) -> float | None:
    """The paper's number of a row, of its k of HDS and its embedding, the raw one.

    None where it prints none.
    """
    chosen = HYPERPARAMETERS.get(row["dataset"], DEFAULT)
    other = row["mechanism"] == "hds" and row["k"] != (
        chosen.k if row["task"] == "node" else chosen.link_k
    )
    if other or row["preprocessing"] == "standardized":
        return None
    return PUBLISHED_VALUES.get((row["task"], row["dataset"], row["mechanism"], row["epsilon"]))


@dataclasses.dataclass(frozen=True)
class Config(Grid):
    """Private node classification and link prediction (PrivGE, LDP-GE), beside every baseline.

    Without further words this is the committed plan. Each mechanism has its structure-only twin, on
    one public default record for all users. All are trained on the raw and on the standardised
    embedding.
    """

    parts: tuple[Task, ...] = ("node", "link")
    """which tasks: node is Figures 2 and 3, link Table III and Figure 4"""
    datasets: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME...")] = ()
    """names, or paths of .npz files (see --bounds); by default those of the committed plan"""
    mechanisms: tuple[str, ...] = MECHANISMS
    """which mechanisms; your own on numbers or vectors as module:Name"""
    models: tuple[str, ...] = ()
    """your own models of an embedding's rows, beside the paper's, as module:Name"""
    epsilons: tuple[float, ...] = ()
    """budgets; by default the plan's"""
    seeds: int | None = None
    """how many seeds, from 0; by default the plan's"""
    ks: tuple[int, ...] = ()
    """HDS alone, with these k instead of the published one (Figures 3 and 4)"""
    preset: Literal["committed", "paper", "smoke"] = "committed"
    """committed: what fits two cores; paper: all epsilons, 10 seeds, 100 epochs everywhere; smoke:
    3 epochs, by default on debian
    """
    bounds: tuple[float, float] | None = None
    """public bounds of the features of a file that does not declare them (x_lower, x_upper): known
    without a look at the records"""
    epochs: int | None = None
    """by default the preset's"""

    def check(self) -> None:
        _common.check_words(self, positive=("epsilons", "ks", "seeds", "epochs"))
        _common.check_methods("--mechanisms", self.mechanisms, MECHANISMS, self.out)
        for task in self.parts:  # pairs of an edge and a non-edge are given together
            examples = (5,) if task == "node" else (5, 2)
            rows = np.zeros((*examples, 4), np.float32)
            _common.check_models(self.models, (rows, examples), self.out)
        if self.ks and "hds" not in self.mechanisms:
            raise UsageError("--ks are of HDS: it must be among --mechanisms")
        if self.bounds is not None:
            lower, upper = self.bounds
            if not (math.isfinite(lower) and math.isfinite(upper) and lower < upper):
                raise UsageError(
                    f"--bounds must be two finite numbers, the lower first, got {lower:g} {upper:g}"
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


def settings(config: Config, task: Task, dataset: str, data: str, todo: Plan) -> Settings:
    chosen = HYPERPARAMETERS.get(dataset, DEFAULT)
    node = task == "node"
    return Settings(
        dataset=dataset,
        data=data,
        task=task,
        alpha=chosen.alpha if node else chosen.link_alpha,
        r=chosen.r if node else chosen.link_r,
        tol=todo.tol,
        head="mlp" if node else "logistic",
        layers=chosen.layers,
        hidden=chosen.hidden,
        dropout=chosen.dropout if node else 0.0,
        learning_rate=LEARNING_RATE,
        weight_decay=chosen.weight_decay if node else 0.0,
        batch_size=chosen.batch_size if node else LINK_BATCH,
        epochs=todo.epochs,
    )
