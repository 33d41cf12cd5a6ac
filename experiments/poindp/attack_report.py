"""Table 3: what attacks on membership find, and how much of a tree the graph is."""

import math
from pathlib import Path
from typing import Any

import pandas as pd

from experiments._report import legend_below, markdown, panels, save
from experiments._runner import write_atomically
from experiments.poindp import membership
from experiments.poindp.labels import label, shown
from experiments.poindp.published import HYPERBOLICITY, TABLE_3
from ldp_jax.metrics import ConfidenceInterval, mean_interval

LIRA = "LiRA online"
_STRICT = ("TPR at 1 % FPR", "TPR at 0.1 % FPR")

_ABOUT = """\
Made by `python -m experiments report` from `poindp_membership.csv`. Each of the trained networks is the target in
turn and the others are the attacker's; every network is trained on a random half of the nodes, on the graph of
these alone, and is asked about all nodes on the whole graph (TSTF) or about each without edges (0-hop). AUC,
precision (as many taken for members as are) and the share of members above all but 1 % and 0.1 % of the others:
means over targets, 95 % intervals (Student), which take targets that share nodes for more independent than they
are. *worth* is max(AUC, 1 - AUC) of the mean: an attack that is worse than guessing is one whose sign is turned,
as the paper's 37.4 of PoinDP on amazon_photo is one of 62.6.

A split of the nodes of a graph is not exchangeable: members were trained among their neighbours and are asked among
others. An attack finds that too, where no record leaks (*structure-only*, whose networks have seen no record), and
the bound that differential privacy puts on an attacker of independent records need not apply. Labels and edges of
members are protected by no row."""


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
    parts = ["# Membership inference on graph networks (Table 3)", _ABOUT, f"![AUC of each attack]({picture})"]
    for dataset, part in frame.groupby("dataset", sort=False):
        attacked = part[part.attack != membership.GRAPH]
        targets = attacked.seed.nunique()
        words = " ".join(([f"{targets} targets."] if targets else []) + [_of_graph(part, str(dataset))])
        for protocol, asked in attacked.groupby("protocol", sort=False):
            parts += [f"## {dataset}, {protocol}", words, _attacks(asked, str(dataset), str(protocol))]
    return "\n\n".join(parts) + "\n"


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
    return {
        str(metric): mean_interval(100 * each.value.dropna())
        for metric, each in part.groupby("metric")
        if each.value.notna().any()
    }


def worth(auc: ConfidenceInterval) -> float:
    """What an attack is worth to someone who knows in which direction it errs; in per cent."""
    return max(auc.mean, 100 - auc.mean)


def _printed(dataset: str, name: str, attack: str, protocol: str) -> tuple[float, float] | None:
    """The paper's AUC and precision, of the attack that is the paper's."""
    mine = attack == membership.ATTACKS[0] and protocol == "TSTF"
    return TABLE_3.get((dataset, name)) if mine else None


def _attacks(frame: pd.DataFrame, dataset: str, protocol: str) -> str:
    rows = []
    for (name, epsilon, attack), part in frame.groupby(["mechanism", "epsilon", "attack"], sort=False):
        found, proved = _found(part), part.iloc[0].epsilon_proved
        printed = _printed(dataset, str(name), str(attack), protocol) or ("", "")
        rows.append(
            [
                label(str(name)),
                f"{epsilon:g}",
                "none" if math.isinf(proved) else f"{proved:.3g}",
                str(attack),
                *(str(number) for number in printed),
                shown(found["AUC"]),
                f"{worth(found['AUC']):.1f}",
                *(shown(found.get(metric)) for metric in ("precision", *_STRICT)),
            ]
        )
    headers = ["row", "eps", "proved", "attack", "paper AUC", "paper precision", "AUC", "worth", "precision"]
    return markdown([*headers, *_STRICT], rows)


def _figure(frame: pd.DataFrame) -> Any:
    """AUC of each attack on each row: a panel for each data set and protocol."""
    groups = list(frame.groupby(["dataset", "protocol"], sort=False))
    names = [name for name in membership.MECHANISMS if (frame.mechanism == name).any()]
    attacks = [attack for attack in membership.ATTACKS if (frame.attack == attack).any()]
    across = min(len(groups), 2)
    height = 0.6 + 0.42 * len(names)
    figure, axes = panels(len(groups), width=4.4, height=height, columns=across)
    for place, (axis, ((dataset, protocol), part)) in enumerate(zip(axes, groups, strict=True)):
        for turn, attack in enumerate(attacks):
            rows = part[part.attack == attack]
            found = {
                at: _found(rows[rows.mechanism == name])["AUC"]
                for at, name in enumerate(names)
                if (rows.mechanism == name).any()
            }
            low = [0.0 if math.isnan(auc.half_width) else auc.half_width for auc in found.values()]
            axis.errorbar(
                [auc.mean for auc in found.values()], [at + 0.14 * (turn - 2) for at in found], xerr=low,
                fmt="o", markersize=3.5, capsize=1.5, elinewidth=0.8, label=attack,
            )  # fmt: skip
        printed = {
            at: both[0]
            for at, name in enumerate(names)
            if (both := _printed(str(dataset), name, membership.ATTACKS[0], str(protocol)))
        }
        # Of every panel, that the legend of the first has it.
        axis.plot(list(printed.values()), list(printed), "kx", markersize=5, label="the paper's")
        axis.axvline(50, color="0.6", linewidth=0.8, zorder=0)
        axis.set_yticks(range(len(names)), [label(name) for name in names] if place % across == 0 else [])
        axis.set_ylim(len(names) - 0.5, -0.5)
        axis.set_xlabel("AUC (%); 50 is guessing")
        axis.set_title(f"{dataset}, {protocol}", fontsize=9)
    legend_below(figure, axes[0], 3)
    return figure


README_PROTOCOL = "TSTF"
_README_ROWS = ("gcn", "published:poindp", "hyperbolic", "structure-only:hyperbolic")


def summary(frame: pd.DataFrame) -> str:
    """LiRA and the paper's attack on the whole graph, in a few rows, for each data set."""
    rows = []
    asked = frame[frame.protocol == README_PROTOCOL]
    for dataset, part in asked.groupby("dataset", sort=False):
        for name in _README_ROWS:
            mine = part[part.mechanism == name]
            by = {attack: _found(mine[mine.attack == attack]) for attack in (membership.ATTACKS[0], LIRA)}
            if not all(by.values()):
                continue
            trained, lira = by[membership.ATTACKS[0]], by[LIRA]
            printed = TABLE_3.get((str(dataset), name))
            rows.append(
                [
                    str(dataset),
                    label(name),
                    "" if printed is None else f"{printed[0]}",
                    shown(trained["AUC"]),
                    shown(lira["AUC"]),
                    f"{max(worth(trained['AUC']), worth(lira['AUC'])):.1f}",
                    shown(lira.get(_STRICT[0])),
                ]
            )
    headers = ["data set", "row", "paper AUC", "AUC, the paper's attack", "AUC, LiRA", "better of both, turned"]
    return markdown([*headers, "LiRA's TPR at 1 % FPR"], rows) if rows else ""
