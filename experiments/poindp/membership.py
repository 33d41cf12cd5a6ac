"""Table 3: which nodes a network was trained on, as its answers tell; and how much of a tree the graph is."""

import dataclasses
import itertools
import math
from functools import lru_cache, partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special

from experiments import _runner
from experiments._common import run_plan, standardized
from experiments._runner import Found, Results, config_hash
from experiments.poindp import accuracy, cells, networks, releases
from experiments.poindp.config import ATTACKS, Config
from experiments.poindp.settings import PUBLISHED, STRUCTURE, Settings
from ldp_jax import attacks, hyperbolic
from ldp_jax.accounting.guarantee import RECORD
from ldp_jax.learning import training
from ldp_jax.learning.models import Model

NAME = "poindp_membership"
MECHANISMS = (
    "gcn", "gat", "gcn+H", f"{PUBLISHED}vanpd", f"{PUBLISHED}lap", f"{PUBLISHED}poindp", "hyperbolic",
)  # fmt: skip
"""Table 3's, and the sound mechanism; each has a twin that has seen one public record for all users."""

NON_PRIVATE = ("gcn", "gat", "gcn+H")

METRICS = ("precision", "average precision", "TPR at 1 % FPR", "TPR at 0.1 % FPR", "AUC")
GRAPH, DELTAS = "hyperbolicity", ("mean delta", "maximum delta")
SAMPLES = 50_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(_runner.Cell):
    """An attack on one target, whose number is ``seed``, or the hyperbolicity of the graph; a share are members."""

    attack: str
    protocol: str
    delta: float
    share: float

    @property
    def last_metric(self) -> str:
        """AUC."""
        return DELTAS[-1] if self.attack == GRAPH else METRICS[-1]

    def __str__(self) -> str:
        return f"{self.dataset} {self.mechanism}, {self.attack} {self.protocol} {self.share:g}, target {self.seed}"


results_in = partial(Results, name=NAME, cell=Cell)


def records(bench: cells.Bench, name: str, epsilon: float) -> Any:
    """The training rows of a network; float32 [n, d]."""
    if releases.is_sound(name):
        return standardized(cells.noisy_rows(bench, name, epsilon))
    if name.startswith(STRUCTURE):
        bench = cells.without_private(bench)
    if releases.base(name) == f"{PUBLISHED}lap":
        return cells.noise_of_lap(bench, epsilon)
    return bench.world.records


class Row(NamedTuple):
    """The key of a training, which serves all protocols and attacks."""

    name: str
    epsilon: float
    share: float
    models: int


@lru_cache(maxsize=1)
def inputs(bench: cells.Bench, row: Row) -> tuple[Model, Any, Any]:
    """Network, graph and rows of a training."""
    here = bench.world
    of = "poindp" if releases.is_sound(row.name) else releases.base(row.name)
    network, kind = networks.network(of, here.settings, here.data.num_classes)
    x = jnp.concatenate([records(bench, row.name, row.epsilon), jnp.asarray(here.known)], 1)
    return networks.of_columns(network, kind, row.epsilon, here.settings), here.layout(of), x


@lru_cache(maxsize=1)
def trained(bench: cells.Bench, row: Row) -> attacks.Shadows:
    """Networks of one row, each trained on a share of the nodes."""
    here = bench.world
    settings = here.settings
    network, graph, x = inputs(bench, row)
    return attacks.shadow_models(
        jax.random.clone(bench.fit_key), network, training.node_classification, graph, x,
        here.data.y.astype(np.int32),
        training.Settings(
            training.adam(settings.learning_rate, settings.weight_decay), settings.epochs, here.data.num_nodes
        ), models=row.models, protocol="TSTF", share=row.share,
    )  # fmt: skip


@lru_cache(maxsize=1)
def shadows(bench: cells.Bench, row: Row, protocol: str) -> attacks.Shadows:
    """The networks of a row with their answers under a protocol."""
    return attacks.ask_shadows(trained(bench, row), *inputs(bench, row), protocol=cast(Any, protocol))


@lru_cache(maxsize=8)
def attacked(bench: cells.Bench, row: Row, protocol: str, attack: str) -> attacks.Attack:
    """One attack on all targets of a row."""
    here = bench.world
    asked = shadows(bench, row, protocol)
    labels = here.data.y.astype(np.int32)[asked.nodes]
    if attack in ATTACKS[:2]:
        posteriors = -np.sort(-scipy.special.softmax(asked.outputs.astype(np.float64), -1), -1)
        side = here.known[asked.nodes] if attack == ATTACKS[1] else None
        key = jax.random.fold_in(jax.random.clone(bench.report_key), np.uint32(ATTACKS.index(attack)))
        perceptron = attacks.Perceptron(epochs=min(50, here.settings.epochs))
        return attacks.trained_membership(key, posteriors, asked.member, side=side, perceptron=perceptron)
    odds = attacks.log_odds(asked.outputs, labels)
    if attack == "RMIA offline":
        return attacks.rmia(odds, asked.member, form="offline")
    return attacks.lira(odds, asked.member, form="online" if attack == "LiRA online" else "offline")


def judged(found: attacks.Attack, target: int) -> dict[str, float]:
    """The metrics of one target."""
    one = slice(target, target + 1)
    own = attacks.evaluate_membership(found.name, found.scores[one], found.targets.truth[one])
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
    datasets, epsilons = config.asked("membership")
    for dataset in datasets:
        chosen = accuracy.resolved(config, dataset)
        data = cells.load(chosen.dataset)
        shared = {"dataset": data.name, "task": "membership", "unit": str(RECORD), "config": config_hash(chosen)}
        rows = itertools.product(config.member_shares, epsilons[:1], MECHANISMS, ("", STRUCTURE))
        for share, epsilon, base, prefix in rows:
            name = prefix + base
            if not config.asks_for(name):
                continue
            epsilon = math.inf if base in NON_PRIVATE else epsilon
            proved = accuracy.cell_of(chosen, data.name, "random", name, epsilon, 0)
            for protocol, attack in itertools.product(config.protocols, config.attacks):
                for target in range(config.models):
                    cell = Cell(
                        mechanism=name, epsilon=epsilon, seed=target, attack=attack, protocol=protocol,
                        epsilon_proved=proved.epsilon_proved, delta=proved.delta, share=share, **shared,
                    )  # fmt: skip
                    planned[cell] = chosen
        cell = Cell(
            mechanism=GRAPH, epsilon=math.inf, seed=0, attack=GRAPH, protocol="", epsilon_proved=math.inf,
            delta=0.0, share=0.0, **shared,
        )  # fmt: skip
        planned[cell] = chosen
    return planned


def main(config: Config) -> None:
    """Compute what is missing."""

    def compute(cell: Cell, chosen: Settings) -> Found:
        bench = cells.prepare(chosen, "random", 0)
        if cell.attack == GRAPH:
            return Found(hyperbolicity(bench))
        row = Row(cell.mechanism, cell.epsilon, cell.share, config.models)
        return Found(judged(attacked(bench, row, cell.protocol, cell.attack), cell.seed))

    run_plan(plan(config), compute, results_in(config.out), "targets", accuracy.notes)
