"""Table 3: which nodes a network was trained on, as its answers tell.

And how much of a tree the graph is.
"""

import dataclasses
import itertools
import math
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any, NamedTuple, cast, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import scipy.special

from experiments import _common, _runner
from experiments import _report as show
from experiments.poindp import accuracy, cells, networks, releases
from experiments.poindp import settings as rows_of
from experiments.poindp.settings import PUBLISHED, STRUCTURE, TABLE_3, Settings, label
from ldp_jax import attacks, hyperbolic
from ldp_jax.accounting.guarantee import RECORD
from ldp_jax.attacks.shadows import MembershipProtocol
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
        chosen = Attacked(**vars(accuracy.resolved(config, dataset)), models=config.models)
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
                for target in range(config.models):
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


_TEXT = show.prose("poindp_membership")

TRAINED = rows_of.ATTACKS[0]
LIRA = "LiRA online"
"""The paper's attack, and a stronger one."""

CLOSE = 2.0
"""Points of mean absolute difference up to which a protocol is said to reproduce the paper."""


def prepared(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows with their kind, the paper's number, and protocol and share in one column.

    What is measured of the graph alone is no share, and is not scaled.
    """
    frame = accuracy.with_families(frame.fillna({"protocol": ""}))
    of_graph = frame.attack == GRAPH
    paper = [
        rows_of.HYPERBOLICITY.get(row["dataset"])
        if row["attack"] == GRAPH
        else rows_of.printed(row)
        for row in frame.to_dict("records")
    ]
    return frame.assign(
        value=frame.value.where(~of_graph, frame.value / 100),
        paper=["" if one is None else one for one in paper],
        asked=[f"{row.protocol}, {row.share:g}" for row in frame.itertuples()],
    )


def _of(share: float) -> str:
    return {0.5: "half of", 0.1: "a tenth of"}.get(share, f"{share:g} of")


def _areas(frame: pd.DataFrame) -> show.Values:
    """Per cent AUC by target, of each data set, share, protocol, mechanism and attack."""
    return show.by_seed(
        frame[frame.metric == "AUC"], ["dataset", "share", "protocol", "mechanism", "attack"]
    )


def _protocols(frame: pd.DataFrame) -> list[tuple[float, str]]:
    order = get_args(MembershipProtocol)
    found = set(zip(frame.share, frame.protocol, strict=True))
    return sorted(found, key=lambda pair: (-pair[0], order.index(pair[1])))


def distances(frame: pd.DataFrame) -> pd.DataFrame:
    """How far the paper's attack is from printed AUCs, by share and protocol."""
    means = frame[(frame.attack == TRAINED) & (frame.metric == "AUC")]
    wide = 100 * means.pivot_table(
        index=["dataset", "mechanism"], columns=["share", "protocol"], values="value"
    )
    printed = pd.Series({cell: auc for cell, (auc, _) in TABLE_3.items()}, name="printed")
    both = wide.loc[wide.index.isin(list(TABLE_3))].dropna()
    if both.empty:
        return pd.DataFrame()
    apart = both.sub(printed.loc[list(both.index)], axis=0).abs().mean()
    return pd.DataFrame({"apart": apart, "cells": len(both)}).reset_index()


def _closest(found: pd.DataFrame) -> str:
    """Name the protocol whose AUCs are nearest to the printed ones."""
    best = found.sort_values("apart").iloc[0]
    return (
        f"{best.protocol} with {_of(best.share)} the nodes as members, {best.apart:.1f} points "
        "apart"
    )


def match(report: Any, _: Any) -> tuple[list[str], dict[str, Any], dict[str, pd.DataFrame]]:
    """Which protocol is closest to the paper's numbers; nothing where none can be compared."""
    frame = report.frame
    found = distances(frame[frame.attack != GRAPH])
    if found.empty:
        return [], {}, {}
    shown = found.sort_values(["share", "protocol"], ascending=False)
    apart = show.table(
        {
            "members": f"{_of(share)} the nodes",
            "protocol": protocol,
            "apart (points)": f"{apart:.1f}",
            "cells": count,
        }
        for share, protocol, apart, count in shown.itertuples(index=False, name=None)
    )
    verdict = (
        "it reproduces the paper" if found.apart.min() <= CLOSE else "none reproduces the paper"
    )
    return [_TEXT.match.format(table=apart, best=_closest(found), verdict=verdict)], {}, {}


def figure(report: Any, _: Any) -> Any:
    """AUC by share and protocol.

    A panel for each data set and attack, filled for rows, hollow for twins.
    """
    frame = report.frame
    frame = frame[frame.attack != GRAPH]
    datasets = list(dict.fromkeys(frame.dataset))
    pairs = _protocols(frame)
    values = _areas(frame)
    names = [name for name in MECHANISMS if (frame.mechanism == name).any()]
    made, axes = show.panels(
        2 * len(datasets), width=3.6, height=0.8 + 0.42 * len(names), columns=len(datasets)
    )
    for place, axis in enumerate(axes):
        dataset, attack = datasets[place % len(datasets)], (TRAINED, LIRA)[place // len(datasets)]
        for turn, pair in enumerate(pairs):
            shift = 0.12 * (turn - (len(pairs) - 1) / 2)
            for prefix, filled in ((STRUCTURE, "none"), ("", "full")):
                keys = [(dataset, *pair, prefix + name, attack) for name in names]
                points = [
                    (values[key].mean(), at + shift) for at, key in enumerate(keys) if key in values
                ]
                axis.plot(
                    *np.reshape(points, (-1, 2)).T,
                    marker="o",
                    markersize=4,
                    linestyle="none",
                    fillstyle=filled,
                    color=f"C{turn}",
                    label=f"{pair[1]}, {pair[0]:g} members" if filled == "full" else None,
                )
        if attack == TRAINED:
            printed = {
                at: TABLE_3[dataset, name][0]
                for at, name in enumerate(names)
                if (dataset, name) in TABLE_3
            }
            axis.plot(
                list(printed.values()), list(printed), "kx", markersize=6, label="the paper's"
            )
        axis.axvline(50, color="0.6", linewidth=0.8, zorder=0)
        axis.set_yticks(
            range(len(names)), [label(name) for name in names] if place % len(datasets) == 0 else []
        )
        axis.set(ylim=(len(names) - 0.5, -0.5), xlim=(35, 101), xlabel="AUC (%); 50 is guessing")
        axis.set_title(f"{dataset}, {attack}", fontsize=9)
    found = distances(frame)
    closest = "" if found.empty else f"Closest to the paper: {_closest(found)}\n"
    made.suptitle(f"{closest}filled: rows; hollow: their structure-only twins", fontsize=9)
    show.legend_below(made, axes[0], 4)
    return made
