"""Table 3: what attacks on membership find, and how much of a tree the graph is."""

import math
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import pandas as pd

from experiments._report import interval, legend_below, markdown, paired, panels, save, significant
from experiments._report import table as as_table
from experiments._runner import write_atomically
from experiments.poindp import membership
from experiments.poindp.labels import label
from experiments.poindp.published import HYPERBOLICITY, TABLE_3
from experiments.poindp.settings import PUBLISHED, STRUCTURE
from ldp_jax.attacks.shadows import MembershipProtocol
from ldp_jax.learning.metrics import ConfidenceInterval, mean_interval

LIRA = "LiRA online"
_COMPARED = (membership.ATTACKS[0], LIRA)
_STRICT = ("TPR at 1 % FPR", "TPR at 0.1 % FPR")

_ABOUT = """\
Made by `python -m experiments report` from `poindp_membership.csv`. Each of the trained networks is the target in
turn and the others are the attacker's. Every network is trained on a random share of the nodes, its members, on the
graph of these alone. It is asked about all nodes on the whole graph (TSTF), on the graph without the edges between
members and others (TSTS), or about each node without edges (0-hop). **The paper names neither the share nor the
protocol.** AUC, precision (as many taken for members as are) and the share of members above all but 1 % and 0.1 %
of the others: means over targets, 95 % intervals (Student), which take targets that share nodes for more
independent than they are. *worth* is max(AUC, 1 - AUC) of the mean: an attack that is worse than guessing is one
whose sign is turned, as the paper's 37.4 of PoinDP on amazon_photo is one of 62.6.

*structure-only* networks have seen one public record, 0, for all users, with the row's own noise: what an attack
finds there is no record. A split of the nodes of a graph is not exchangeable: members were trained among their
neighbours and are asked among others, and the bound that differential privacy puts on an attacker of independent
records need not apply. Labels and edges of members are protected by no row."""

_MATCH = """\
## Which protocol is the paper's?

Mean absolute difference between the printed AUC and ours, the paper's attack, over the rows that both have.

{table}

The least is {best}: {verdict}."""

_GRID = """\
## AUC by protocol

Mean AUC over targets, in per cent; **bold** where the row is above its structure-only twin (paired by target, 95 %
interval). {unprotected}"""

CLOSE = 2.0
"""Points of mean absolute difference up to which a protocol is said to reproduce the paper."""


def write(out: Path) -> list[Path]:
    """poindp_membership.md and its figure; nothing where there are no rows."""
    frame = read(out)
    if frame.empty:
        return []
    path, picture = out / f"{membership.NAME}.md", out / f"{membership.NAME}.png"
    write_atomically(path, as_markdown(frame, picture.name))
    if not (frame.attack != membership.GRAPH).any():
        return [path]
    save(_figure(frame[frame.attack != membership.GRAPH]), picture)
    return [path, picture]


def read(out: Path) -> pd.DataFrame:
    """The rows of a folder."""
    return membership.results_in(out).read().fillna({"protocol": ""})


def as_markdown(frame: pd.DataFrame, picture: str) -> str:
    """The report: its tables, and a link to the figure."""
    attacked = frame[frame.attack != membership.GRAPH]
    parts = ["# Membership inference on graph networks (Table 3)", _ABOUT, f"![AUC of each attack]({picture})"]
    parts += [*_match(attacked), *_grid(attacked)] if len(attacked) else []
    graphs = {str(dataset): _of_graph(part, str(dataset)) for dataset, part in frame.groupby("dataset", sort=False)}
    parts += ["## The graphs", *(f"{dataset}: {words}" for dataset, words in graphs.items() if words)]
    for (dataset, share, protocol), asked in attacked.groupby(["dataset", "share", "protocol"], sort=False):
        if asked.attack.nunique() <= len(_COMPARED):
            continue  # the grid says it all
        parts += [f"## {dataset}, {_of(share)} the nodes are members, {protocol}"]
        parts.append(_attacks(asked, str(dataset)))
    return "\n\n".join(parts) + "\n"


def _of(share: float) -> str:
    return {0.5: "half of", 0.1: "a tenth of"}.get(share, f"{share:g} of")


def _series(frame: pd.DataFrame, name: str, attack: str) -> pd.Series:
    """Per cent AUC by target."""
    mine = frame[(frame.mechanism == name) & (frame.attack == attack) & (frame.metric == "AUC")]
    return 100 * mine.set_index("seed").value


def _protocols(frame: pd.DataFrame) -> list[tuple[float, str]]:
    """Share and protocol of the rows, largest share first."""
    found = {(float(share), str(protocol)) for share, protocol in zip(frame.share, frame.protocol, strict=True)}
    order = get_args(MembershipProtocol)
    return sorted(found, key=lambda pair: (-pair[0], order.index(pair[1])))


def distances(frame: pd.DataFrame) -> pd.DataFrame:
    """How far the paper's attack is from the printed AUCs: a row for each share and protocol.

    Only rows count that were asked under every protocol, so that the means are of the same cells.
    """
    means = frame[(frame.attack == membership.ATTACKS[0]) & (frame.metric == "AUC")]
    wide = 100 * means.pivot_table(index=["dataset", "mechanism"], columns=["share", "protocol"], values="value")
    printed = pd.Series({cell: auc for cell, (auc, _) in TABLE_3.items()}, name="printed")
    both = wide.loc[wide.index.isin(list(TABLE_3))].dropna()
    if both.empty:
        return pd.DataFrame()
    printed = printed.loc[list(both.index)]
    apart = both.sub(printed, axis=0).abs().mean()
    return pd.DataFrame({"apart": apart, "cells": len(both)}).reset_index()


class Closest(NamedTuple):
    """The protocol whose AUCs are nearest to the printed ones, and how far it is on average, in points."""

    protocol: str
    share: float
    apart: float
    cells: int
    worst: float

    @classmethod
    def of(cls, frame: pd.DataFrame) -> "Closest | None":
        """Read off the rows; None where none can be compared."""
        found = distances(frame)
        if found.empty:
            return None
        best = found.sort_values("apart").iloc[0]
        worst = float(found.apart.max())
        return cls(str(best.protocol), float(best.share), float(best.apart), int(best.cells), worst)

    @property
    def verdict(self) -> str:
        """Whether the paper is reproduced."""
        return "it reproduces the paper" if self.apart <= CLOSE else "none reproduces the paper"

    def __str__(self) -> str:
        return f"{self.protocol} with {_of(self.share)} the nodes as members"


def _match(frame: pd.DataFrame) -> list[str]:
    best = Closest.of(frame)
    if best is None:
        return []
    found = distances(frame).sort_values(["share", "protocol"], ascending=[False, False])
    rows = [
        [_of(float(share)) + " the nodes", str(protocol), f"{apart:.1f}", str(cells)]
        for share, protocol, apart, cells in zip(found.share, found.protocol, found.apart, found.cells, strict=True)
    ]
    return [
        _MATCH.format(
            table=markdown(["members", "protocol", "apart (points)", "cells"], rows),
            best=f"{best}, {best.apart:.1f} points apart",
            verdict=best.verdict,
        )
    ]


def _grid(frame: pd.DataFrame) -> list[str]:
    """A row for each network and attack, a column for each protocol."""
    pairs = _protocols(frame)
    rows = []
    for dataset, part in frame.groupby("dataset", sort=False):
        for name in _rows_of(part):
            for attack in _COMPARED:
                printed = TABLE_3.get((str(dataset), name)) if attack == membership.ATTACKS[0] else None
                cells = [_cell(_at(part, pair), name, attack) for pair in pairs]
                if any(cells):
                    rows.append(
                        [str(dataset), label(name), attack, "" if printed is None else f"{printed[0]}", *cells]
                    )
    headers = ["data set", "row", "attack", "paper", *(f"{protocol}, {share:g}" for share, protocol in pairs)]
    return [_GRID.format(unprotected=_above_gcn(frame)), markdown(headers, rows)]


def _rows_of(frame: pd.DataFrame) -> list[str]:
    """Rows in the order of tables, each before its twin."""
    names = [prefix + name for name in membership.MECHANISMS for prefix in ("", STRUCTURE)]
    return [name for name in names if (frame.mechanism == name).any()]


def _at(frame: pd.DataFrame, pair: tuple[float, str]) -> pd.DataFrame:
    return frame[(frame.share == pair[0]) & (frame.protocol == pair[1])]


def _cell(frame: pd.DataFrame, name: str, attack: str) -> str:
    mine, twin = _series(frame, name, attack), _series(frame, STRUCTURE + name, attack)
    if mine.empty:
        return ""
    text = f"{mine.mean():.1f}"
    gap = paired(mine, twin)
    return f"**{text}**" if gap is not None and gap.mean > 0 and significant(gap) else text


def _above_gcn(frame: pd.DataFrame) -> str:
    """How often LaP's networks give more away than unprotected ones, and whether records are why."""
    lap, gcn = f"{PUBLISHED}lap", "gcn"
    asked = above = by_records = 0
    for _, part in frame.groupby("dataset"):
        for pair in _protocols(part):
            at = _at(part, pair)
            mine, twin, bare = (_series(at, name, LIRA) for name in (lap, STRUCTURE + lap, gcn))
            if mine.empty or twin.empty or bare.empty:
                continue
            gap, of_records = mean_interval(mine - bare), mean_interval(mine - twin)
            asked += 1
            above += gap.mean > 0 and significant(gap)
            by_records += of_records.mean > 0 and significant(of_records)
    if not asked:
        return ""
    return (
        f"LiRA finds more in {label(lap)}\nthan in the unprotected {label(gcn)} in {above} of {asked} settings,\n"
        f"and more than in its structure-only twin in {by_records}: a network remembers noise as well as records."
    )


def _of_graph(frame: pd.DataFrame, dataset: str) -> str:
    """How much of a tree the graph is."""
    deltas = frame[frame.attack == membership.GRAPH].set_index("metric").value
    if deltas.empty:
        return ""
    mean, most = (deltas[name] for name in membership.DELTAS)
    words = f"Gromov's four-point delta, sampled: mean {mean:.2f}, maximum {most:g}"
    printed = HYPERBOLICITY.get(dataset)
    return f"{words}; the paper prints {printed}." if printed is not None else f"{words}."


def _found(part: pd.DataFrame) -> dict[str, ConfidenceInterval]:
    """Per cent, by metric."""
    found = {str(metric): interval(100 * each.value.dropna()) for metric, each in part.groupby("metric")}
    return {metric: each for metric, each in found.items() if each is not None}


def worth(auc: ConfidenceInterval) -> float:
    """What an attack is worth to someone who knows in which direction it errs; in per cent."""
    return max(auc.mean, 100 - auc.mean)


def _printed(dataset: str, name: str, attack: str) -> tuple[float, float] | None:
    """The paper's AUC and precision, of the attack that is the paper's."""
    return TABLE_3.get((dataset, name)) if attack == membership.ATTACKS[0] else None


def _attacks(frame: pd.DataFrame, dataset: str) -> str:
    rows = []
    for (name, epsilon, attack), part in frame.groupby(["mechanism", "epsilon", "attack"], sort=False):
        found, proved = _found(part), part.iloc[0].epsilon_proved
        printed = _printed(dataset, str(name), str(attack)) or ("", "")
        rows.append(
            {
                "row": label(str(name)),
                "eps": f"{epsilon:g}",
                "proved": "none" if math.isinf(proved) else f"{proved:.3g}",
                "attack": attack,
                "paper AUC": printed[0],
                "paper precision": printed[1],
                "AUC": found["AUC"],
                "worth": f"{worth(found['AUC']):.1f}",
                **{metric: found.get(metric) for metric in ("precision", *_STRICT)},
            }
        )
    return as_table(rows)


def _figure(frame: pd.DataFrame) -> Any:
    """AUC by share and protocol: a panel for each data set and attack, filled for rows, hollow for twins."""
    datasets = list(dict.fromkeys(frame.dataset))
    pairs = _protocols(frame)
    names = [name for name in membership.MECHANISMS if (frame.mechanism == name).any()]
    figure, axes = panels(2 * len(datasets), width=3.6, height=0.8 + 0.42 * len(names), columns=len(datasets))
    for place, axis in enumerate(axes[: 2 * len(datasets)]):
        dataset = datasets[place % len(datasets)]
        attack = _COMPARED[place // len(datasets)]
        part = frame[frame.dataset == dataset]
        for turn, pair in enumerate(pairs):
            for prefix, filled in ((STRUCTURE, "none"), ("", "full")):
                points = [
                    (
                        _series(_at(part, pair), prefix + name, attack).mean(),
                        at + 0.12 * (turn - (len(pairs) - 1) / 2),
                    )
                    for at, name in enumerate(names)
                ]
                axis.plot(
                    *zip(*points, strict=True), marker="o", markersize=4, linestyle="none", fillstyle=filled,
                    color=f"C{turn}", label=f"{pair[1]}, {pair[0]:g} members" if filled == "full" else None,
                )  # fmt: skip
        if attack == membership.ATTACKS[0]:
            printed = [
                (TABLE_3[dataset, name][0], at) for at, name in enumerate(names) if (dataset, name) in TABLE_3
            ]
            axis.plot(
                [auc for auc, _ in printed], [at for _, at in printed], "kx", markersize=6, label="the paper's"
            )
        axis.axvline(50, color="0.6", linewidth=0.8, zorder=0)
        axis.set_yticks(range(len(names)), [label(name) for name in names] if place % len(datasets) == 0 else [])
        axis.set_ylim(len(names) - 0.5, -0.5)
        axis.set_xlim(35, 101)
        axis.set_xlabel("AUC (%); 50 is guessing")
        axis.set_title(f"{dataset}, {attack}", fontsize=9)
    figure.suptitle(_title(frame), fontsize=9)
    legend_below(figure, axes[0], 4)
    return figure


def _title(frame: pd.DataFrame) -> str:
    best = Closest.of(frame)
    return _HOLLOW if best is None else f"Closest to the paper: {best}, {best.apart:.1f} points apart\n{_HOLLOW}"


_HOLLOW = "filled: rows; hollow: their structure-only twins"


_README_ROWS = ("gcn", "published:lap", "structure-only:published:lap", "published:poindp")


def summary(frame: pd.DataFrame) -> str:
    """The stronger of LiRA and the paper's attack, by protocol, in a few rows for each data set."""
    asked = frame[frame.attack != membership.GRAPH]
    pairs, rows = _protocols(asked), []
    for dataset, part in asked.groupby("dataset", sort=False):
        for name in _README_ROWS:
            printed = TABLE_3.get((str(dataset), name))
            cells = []
            for pair in pairs:
                found = [_series(_at(part, pair), name, attack).mean() for attack in _COMPARED]
                cells.append("" if np.isnan(found).any() else f"{max(found):.1f}")
            if any(cells):
                rows.append([str(dataset), label(name), "" if printed is None else f"{printed[0]}", *cells])
    headers = ["data set", "row", "paper", *(f"{protocol}, {share:g}" for share, protocol in pairs)]
    return markdown(headers, rows) if rows else ""


def protocol_of_the_paper(frame: pd.DataFrame) -> str:
    """A sentence on which protocol is closest; empty where none can be compared."""
    best = Closest.of(frame[frame.attack != membership.GRAPH])
    if best is None:
        return ""
    return (
        f" The paper names no\nprotocol. {best} is closest to its {best.cells} printed AUCs,\n"
        f"{best.apart:.1f} points apart on average, others up to {best.worst:.1f}: {best.verdict}."
    )
