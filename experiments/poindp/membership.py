"""Table 3: which nodes a network was trained on, as its answers tell.

A part of it measures how close the graph is to a tree.
"""

import dataclasses
import itertools
import math
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import scipy.special

from experiments import _common, _runner
from experiments.poindp import accuracy, cells, networks, releases
from experiments.poindp import settings as rows_of
from experiments.poindp.settings import PUBLISHED, STRUCTURE, Settings
from ldp_jax import attacks, hyperbolic
from ldp_jax.accounting.guarantee import RECORD
from ldp_jax.learning import training
from ldp_jax.learning.models import Model

NAME, CALLED = "poindp_membership", "targets"
MECHANISMS = (
    "gcn",
    "gat",
    "gcn+H",
    f"{PUBLISHED}vanpd",
    f"{PUBLISHED}lap",
    f"{PUBLISHED}poindp",
    "hyperbolic",
)
"""Table 3's, and the sound mechanism; each has a twin that has seen one public record for all
users.
"""

NON_PRIVATE = ("gcn", "gat", "gcn+H")

METRICS = ("precision", "average precision", "TPR at 1 % FPR", "TPR at 0.1 % FPR", "AUC")
GRAPH = "hyperbolicity"
DELTAS = ("mean delta", "maximum delta")
SAMPLES = 50_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(_runner.Cell):
    """An attack on one target, whose number is ``seed``, or the hyperbolicity of the graph.

    A share are members.
    """

    attack: str
    protocol: str
    delta: float
    share: float

    @property
    def group(self) -> tuple[Any, ...]:
        """All attacks on all targets of one row ask the same networks."""
        return self.dataset, self.mechanism, self.epsilon, self.share

    last_metric = property(lambda self: DELTAS[-1] if self.attack == GRAPH else METRICS[-1])

    def __str__(self) -> str:
        return (
            f"{self.dataset} {self.mechanism}, {self.attack} {self.protocol} {self.share:g}, "
            f"target {self.seed}"
        )


results_in = partial(_runner.Results, name=NAME, cell=Cell)


def records(bench: cells.Bench, name: str, epsilon: float) -> Any:
    """The training rows of a network; float32 [n, d]."""
    if releases.is_sound(name):
        return _common.standardized(cells.noisy_rows(bench, name, epsilon))
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
        jax.random.clone(bench.fit_key),
        network,
        training.node_classification,
        graph,
        x,
        here.data.y.astype(np.int32),
        training.Settings(
            training.adam(settings.learning_rate, settings.weight_decay),
            settings.epochs,
            here.data.num_nodes,
        ),
        models=row.models,
        protocol="TSTF",
        share=row.share,
    )


@lru_cache(maxsize=1)
def shadows(bench: cells.Bench, row: Row, protocol: str) -> attacks.Shadows:
    """The networks of a row with their answers under a protocol."""
    return attacks.ask_shadows(
        trained(bench, row), *inputs(bench, row), protocol=cast(Any, protocol)
    )


@lru_cache(maxsize=8)
def attacked(bench: cells.Bench, row: Row, protocol: str, attack: str) -> attacks.Attack:
    here = bench.world
    asked = shadows(bench, row, protocol)
    labels = here.data.y.astype(np.int32)[asked.nodes]
    if attack in rows_of.ATTACKS[:2]:
        posteriors = -np.sort(-scipy.special.softmax(asked.outputs.astype(np.float64), -1), -1)
        side = here.known[asked.nodes] if attack == rows_of.ATTACKS[1] else None
        key = jax.random.fold_in(
            jax.random.clone(bench.report_key), np.uint32(rows_of.ATTACKS.index(attack))
        )
        perceptron = attacks.Perceptron(epochs=min(50, here.settings.epochs))
        return attacks.trained_membership(
            key, posteriors, asked.member, side=side, perceptron=perceptron
        )
    odds = attacks.log_odds(asked.outputs, labels)
    if attack == "RMIA offline":
        return attacks.rmia(odds, asked.member, form="offline")
    return attacks.lira(odds, asked.member, form="online" if attack == "LiRA online" else "offline")


def judged(found: attacks.Attack, target: int) -> dict[str, float]:
    one = slice(target, target + 1)
    own = attacks.evaluate_membership(found.name, found.scores[one], found.targets.truth[one])
    strict = math.nan if own.strict_tpr is None else own.strict_tpr.mean
    values = (own.precision.mean, own.average_precision.mean, own.tpr.mean, strict, own.auc.mean)
    return dict(zip(METRICS, values, strict=True))


def hyperbolicity(bench: cells.Bench) -> dict[str, float]:
    here = bench.world
    found = hyperbolic.graph_delta(
        jax.random.clone(bench.report_key), here.data.edges, here.data.num_nodes, samples=SAMPLES,
    )  # fmt: skip
    return dict(zip(DELTAS, (found.mean, found.maximum), strict=True))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Attacked(Settings):
    """The settings of a training, and how many networks an attack has.

    A row with another number is another row.
    """

    models: int


@_common.planned
def plan(config: rows_of.Config) -> Iterator[tuple[Cell, Attacked]]:
    datasets, epsilons = config.asked("membership")
    for dataset in datasets:
        chosen = Attacked(**vars(accuracy.resolved(config, dataset)), models=config.targets)
        data = cells.load(chosen.dataset)
        cell = partial(Cell.of, chosen, data.name, "membership", RECORD)
        rows = itertools.product(config.member_shares, epsilons[:1], MECHANISMS, ("", STRUCTURE))
        for share, epsilon, base, prefix in rows:
            name = prefix + base
            if not config.asks_for(name):
                continue
            epsilon = math.inf if base in NON_PRIVATE else epsilon
            like = accuracy.cell_of(chosen, data.name, "random", name, epsilon, 0)
            row = {"delta": like.delta, "share": share}
            for protocol, attack in itertools.product(config.protocols, config.attacks):
                for target in range(config.targets):
                    yield cell(
                        name,
                        epsilon,
                        target,
                        like.epsilon_proved,
                        attack=attack,
                        protocol=protocol,
                        **row,
                    )
        yield cell(GRAPH, math.inf, 0, attack=GRAPH, protocol="", delta=0.0, share=0.0)


def compute(cell: Cell, chosen: Attacked) -> _runner.Found:
    bench = cells.prepare(chosen, "random", 0)
    if cell.attack == GRAPH:
        found = hyperbolicity(bench)
    else:
        row = Row(cell.mechanism, cell.epsilon, cell.share, chosen.models)
        found = judged(attacked(bench, row, cell.protocol, cell.attack), cell.seed)
    return _runner.Found(_runner.rounded(found), notes=accuracy.notes(cell, chosen))


def prepared(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows with their kind, the paper's number, and protocol and share in one column.

    *apart* is how far the mean over targets is from the paper's number, in points. Measures
    of the graph alone are no shares, and are not scaled.
    """
    frame = accuracy.with_families(frame.fillna({"protocol": ""}))
    of_graph = frame.attack == GRAPH
    printed = [
        rows_of.HYPERBOLICITY.get(row["dataset"])
        if row["attack"] == GRAPH
        else rows_of.printed(row)
        for row in frame.to_dict("records")
    ]
    key = ["dataset", "protocol", "share", "metric", "attack", "mechanism", "epsilon"]
    mean = 100 * frame.groupby(key).value.transform("mean")
    return frame.assign(
        value=frame.value.where(~of_graph, frame.value / 100),
        paper=["" if one is None else one for one in printed],
        apart=(mean - np.array(printed, float)).abs(),
        asked=[f"{row.protocol}, {row.share:g}" for row in frame.itertuples()],
    )
