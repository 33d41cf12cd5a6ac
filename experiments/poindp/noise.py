"""Figures 4 to 6: how much noise the paper's private networks put on each node, and where it is on the disk."""

import dataclasses
import math
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments import _runner
from experiments._common import run_plan
from experiments._runner import Found, Results, config_hash
from experiments.poindp import accuracy, cells, networks
from experiments.poindp.config import Config
from experiments.poindp.settings import PRINTED, PUBLISHED, Settings
from ldp_jax.accounting.guarantee import RECORD
from ldp_jax.learning.models import poindp

NAME = "poindp_noise"
METRICS = ("x", "y", "noise")
MECHANISMS = (*(f"{PUBLISHED}{name}" for name in ("poindp", "vanpd", "lap", "rddp", "atdp")), f"{PRINTED}poindp")
NODES = 400
"""Drawn at random, the same for all networks."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(_runner.Cell):
    """A node: its place on the disk, and the mean absolute noise on its outputs (of LaP, on its features)."""

    node: int
    last_metric = property(lambda self: METRICS[-1])


results_in = partial(Results, name=NAME, cell=Cell)


@lru_cache(maxsize=8)
def noise_of(bench: cells.Bench, name: str, epsilon: float) -> np.ndarray:
    """The mean absolute noise of each node, in the trained network's answers; float64 [n]."""
    here = bench.world
    settings = here.settings
    if name == f"{PUBLISHED}lap":
        added = cells.noise_of_lap(bench, epsilon) - jnp.asarray(cells.to_one(here.unit))
        return np.abs(np.asarray(added, np.float64)).mean(1)
    score = cells.train_on_records(bench, name, epsilon)
    model, kind = networks.network(name, settings, here.data.num_classes)
    x = here.records
    quiet: Any = poindp(here.data.num_classes, settings.hidden, settings.dropout)
    given = networks.inputs_of(kind, here.op, x, here.known, epsilon, settings)
    if kind == "noisy":
        quiet, _ = networks.network("gcn", settings, here.data.num_classes)
    plain = given.inputs if kind == "noisy" else given
    return np.asarray(_added(score.variables, given, plain, model=model, quiet=quiet), np.float64)


@partial(jax.jit, static_argnames=("model", "quiet"))
def _added(variables: Any, given: Any, plain: Any, *, model: Any, quiet: Any) -> Any:
    noisy, _ = model.apply(variables, given, key=None, train=False)
    clean, _ = quiet.apply({"params": variables["params"]}, plain, key=None, train=False)
    return jnp.abs(noisy - clean).mean(1)


def plan(config: Config) -> dict[Cell, Settings]:
    """The cells, in the order of their computation."""
    datasets, epsilons = config.asked("noise")
    chosen = accuracy.resolved(config, datasets[0])
    data = cells.load(chosen.dataset)
    drawn = np.random.default_rng(chosen.base_seed).permutation(data.num_nodes)[:NODES]
    return {
        Cell(
            dataset=data.name, task="noise", mechanism=name, epsilon=epsilon, seed=0,
            epsilon_proved=accuracy.cell_of(chosen, data.name, "random", name, epsilon, 0).epsilon_proved,
            unit=str(RECORD), config=config_hash(chosen), node=int(node),
        ): chosen
        for epsilon in epsilons[:1]
        for name in MECHANISMS
        if config.asks_for(name)
        for node in np.sort(drawn)
    }  # fmt: skip


def main(config: Config) -> None:
    """Compute what is missing."""

    def compute(cell: Cell, chosen: Settings) -> Found:
        bench = cells.prepare(chosen, "random", cell.seed)
        size = noise_of(bench, cell.mechanism, cell.epsilon)[cell.node]
        x, y = bench.world.places[cell.node]
        values = (float(x), float(y), float(size) if math.isfinite(size) else math.nan)
        return Found({name: round(value, 6) for name, value in zip(METRICS, values, strict=True)})

    run_plan(plan(config), compute, results_in(config.out), "nodes", accuracy.notes)
