"""Table 3: which nodes a network was trained on, as its answers tell; and how much of a tree the graph is."""

import dataclasses
import math
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special

from experiments import _runner
from experiments._common import standardized
from experiments._runner import Found, Results, config_hash, run
from experiments.poindp import accuracy, cells, networks, releases
from experiments.poindp.config import Config
from experiments.poindp.settings import PUBLISHED, Settings
from ldp_jax import attacks, hyperbolic, training
from ldp_jax.attacks import membership
from ldp_jax.guarantee import RECORD

NAME = "poindp_membership"
MECHANISMS = (
    "gcn", "gat", "gcn+H", f"{PUBLISHED}vanpd", f"{PUBLISHED}lap", f"{PUBLISHED}poindp", "hyperbolic",
    "structure-only:hyperbolic",
)  # fmt: skip
"""Table 3's, and the sound mechanism beside what no record is in."""

NON_PRIVATE = ("gcn", "gat", "gcn+H")

ATTACKS = ("trained", "trained, with hierarchy", "LiRA online", "LiRA offline", "RMIA offline")
ASKED = ATTACKS
METRICS = ("precision", "average precision", "TPR at 1 % FPR", "TPR at 0.1 % FPR", "AUC")
GRAPH, DELTAS = "hyperbolicity", ("mean delta", "maximum delta")
SAMPLES, DISTANCES = 50_000, 1000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(_runner.Cell):
    """What an attack finds on one target, whose number is ``seed``; or the hyperbolicity of the graph."""

    attack: str
    protocol: str
    delta: float

    @property
    def last_metric(self) -> str:
        """AUC."""
        return DELTAS[-1] if self.attack == GRAPH else METRICS[-1]

    def __str__(self) -> str:
        return f"{self.dataset} {self.mechanism}, {self.attack} {self.protocol}, target {self.seed}"


def results_in(out: Path) -> Results:
    """The rows of a folder."""
    return Results(out, NAME, Cell)


def records(bench: cells.Bench, name: str, epsilon: float) -> Any:
    """What a network of a row is trained on; float32 [n, d]."""
    if name == f"{PUBLISHED}lap":
        return cells.noise_of_lap(bench, epsilon)
    if releases.is_sound(name):
        return standardized(cells.noisy_rows(bench, name, epsilon))
    return bench.world.records


@lru_cache(maxsize=1)
def shadows(bench: cells.Bench, name: str, epsilon: float, protocol: str, models: int) -> membership.Shadows:
    """Networks of one row, each trained on half of the nodes."""
    here = bench.world
    settings = here.settings
    of = "poindp" if releases.is_sound(name) else name
    network, kind = networks.network(of, settings, here.data.num_classes)
    columns = networks.of_columns(network, kind, epsilon, settings)
    x = jnp.concatenate([records(bench, name, epsilon), jnp.asarray(here.known)], 1)
    return membership.shadow_models(
        jax.random.clone(bench.fit_key), columns, training.node_classification, here.layout(of), x,
        here.data.y.astype(np.int32), models=models, protocol=cast(Any, protocol),
        optimizer=training.adam(settings.learning_rate, settings.weight_decay), epochs=settings.epochs,
    )  # fmt: skip


@lru_cache(maxsize=8)
def attacked(bench: cells.Bench, cell: tuple[str, float, str, int], attack: str) -> membership.Membership:
    """What one attack finds on all targets of a row."""
    here = bench.world
    trained = shadows(bench, *cell)
    labels = here.data.y.astype(np.int32)[trained.nodes]
    if attack in ATTACKS[:2]:
        posteriors = -np.sort(-scipy.special.softmax(trained.outputs.astype(np.float64), -1), -1)
        side = here.known[trained.nodes] if attack == ATTACKS[1] else None
        key = jax.random.fold_in(jax.random.clone(bench.report_key), np.uint32(ATTACKS.index(attack)))
        return attacks.trained_membership(
            key, posteriors, trained.member, side=side, epochs=min(50, here.settings.epochs)
        )
    odds = membership.log_odds(trained.outputs, labels)
    if attack == "RMIA offline":
        return attacks.rmia(odds, trained.member, form="offline")
    return attacks.lira(odds, trained.member, form="online" if attack == "LiRA online" else "offline")


def judged(found: membership.Membership, target: int) -> dict[str, float]:
    """The metrics of one target."""
    one = slice(target, target + 1)
    own = membership.evaluate_membership(found.name, found.scores[one], found.member[one])
    strict = math.nan if own.strict_tpr is None else own.strict_tpr.mean
    values = (own.precision.mean, own.average_precision.mean, own.tpr.mean, strict, own.auc.mean)
    return {name: round(float(value), 6) for name, value in zip(METRICS, values, strict=True)}


def hyperbolicity(bench: cells.Bench) -> dict[str, float]:
    """Four-point deltas of the graph, sampled."""
    here = bench.world
    found = hyperbolic.graph_delta(
        jax.random.clone(bench.report_key), here.data.edges, here.data.num_nodes, samples=SAMPLES,
    )  # fmt: skip
    return dict(zip(DELTAS, (round(found.mean, 6), round(found.maximum, 6)), strict=True))


def plan(config: Config) -> dict[Cell, Settings]:
    """The cells, in the order of their computation."""
    planned = {}
    for dataset in config.attacked:
        chosen = accuracy.resolved(config, dataset, "--attacked")
        data = cells.load(chosen.dataset)
        shared = {"dataset": data.name, "task": "membership", "unit": str(RECORD), "config": config_hash(chosen)}
        for name in MECHANISMS:
            if not config.asks_for(name):
                continue
            private = name not in NON_PRIVATE
            epsilon = config.attack_epsilon if private else math.inf
            proved = accuracy.cell_of(chosen, data.name, "random", name, epsilon, 0)
            for protocol in config.protocols:
                for attack in ASKED:
                    for target in range(config.models):
                        cell = Cell(
                            mechanism=name, epsilon=epsilon, seed=target, attack=attack, protocol=protocol,
                            epsilon_proved=proved.epsilon_proved, delta=proved.delta, **shared,
                        )  # fmt: skip
                        planned[cell] = chosen
        cell = Cell(
            mechanism=GRAPH, epsilon=math.inf, seed=0, attack=GRAPH, protocol="", epsilon_proved=math.inf,
            delta=0.0, **shared,
        )  # fmt: skip
        planned[cell] = chosen
    return planned


def main(config: Config) -> None:
    """Compute what is missing."""
    planned = plan(config)

    def compute(cell: Cell, say: Callable[[str], None]) -> Found:
        bench = cells.prepare(planned[cell], "random", 0)
        if cell.attack == GRAPH:
            return Found(hyperbolicity(bench))
        of_row = (cell.mechanism, cell.epsilon, cell.protocol, config.models)
        return Found(judged(attacked(bench, of_row, cell.attack), cell.seed))

    run(
        planned, compute, results_in(config.out), settings=planned.__getitem__,
        notes=lambda cell: accuracy.notes(cell, planned[cell]), called="targets",
    )  # fmt: skip
