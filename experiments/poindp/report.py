"""Tables and figures of PoinDP; nothing is computed but statistics."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments._report import (
    Values,
    by_seed,
    contrast,
    counted,
    curves,
    interval,
    legend_below,
    one_scale,
    panels,
    publish,
    signed,
    table,
)
from experiments.poindp import accuracy, attack_report, gap_report, membership, noise_report
from experiments.poindp import settings as rows_of
from experiments.poindp.cells import METRICS
from experiments.poindp.labels import COLOURS, LABELS, label
from experiments.poindp.published import TABLE_1, TABLE_2
from experiments.poindp.settings import FEATURES, PRINTED, PUBLIC, PUBLISHED, STRUCTURE
from ldp_jax.learning.metrics import ConfidenceInterval

WEIGHTED, MACRO, MICRO = METRICS
_FIGURE_3_NAME = "poindp_figure3"


def write(out: Path) -> list[Path]:
    """poindp.md, poindp_membership.md and the figures."""
    levels = _levels(accuracy.results_in(out).read())
    figures = {} if levels.empty else {_FIGURE_3_NAME: _figure_3(levels)}
    text = as_markdown(out)
    pages = {accuracy.NAME: text.removesuffix("\n")} if text else {}
    return [*publish(out, pages, figures | noise_report.figures(out)), *attack_report.write(out)]


def as_markdown(out: Path) -> str:
    """poindp.md of the rows of a folder; empty where there are none."""
    sections = [*_accuracy(accuracy.results_in(out).read()), *gap_report.section(out), *noise_report.sections(out)]
    return "\n\n".join(["# PoinDP: hierarchy-aware noise for graph networks", *sections]) + "\n" if sections else ""


# --- Accuracy ----------------------------------------------------------------------------------------------------

_PREFACE = """\
Made by `python -m experiments report` from `poindp.csv`; configurations and guarantees are in its manifest.
Networks of two layers, 16 wide, at most 200 epochs, the best of them by validation; ours are means over splits,
keys and trainings with 95 % intervals (Student, over seeds), differences paired by seed, bold where their interval
leaves 0 out. The graph, and with it the Poincaré embedding that the hierarchy is, and the labels are public
throughout. Each record is scaled to length 1, and for networks on Amazon's records themselves to 5 (the authors
take these as they are, some 15 long).

* **paper** is what the paper prints. What it calls micro-F1 is compared with macro-F1: the authors' code computes
  that. Of one class a node micro-F1 is the accuracy.
* **As published**: noise in every epoch and in every answer, by the authors' code; *eq. 12* by the paper's formula.
  Nothing is proved of either, so **proved** says none; were each application private at its nominal epsilon, 200
  epochs and one answer would compose to 201 times that. VANPD puts Laplace noise of scale 1/eps on the outputs of a
  GCN, which have no bound. LaP puts it on features, once: of rows that sum to 1 that is a true local mechanism, at
  twice its nominal epsilon. RdDP is PoinDP with noise of random strength, AtDP with strength by attention. What
  scales the released noise never gets a gradient in that code, and gets none here.
* **Sound**: every user reports their own record once, at the nominal epsilon and delta 1e-5: 16 random projections
  of their features, as a tangent vector at the origin of the ball of length at most 1, by one of the two Gaussian
  mechanisms; or all features by Laplace noise, delta 0. *By level*: users of the inner third of the public
  hierarchy have all of epsilon, of the middle third half, of the outer third a quarter. PoinDP's network without
  noise is trained on the reports, those of the Gaussian mechanisms propagated by 0, 4 or 16 steps and standardised,
  whichever is best in validation. Nothing is spent afterwards, however often the network is trained or asked.
* **structure-only** is the same mechanism and network on one public record, 0, for all; **gain** is a row less that
  twin: what the private records add to the public graph in the hands of that network. **features-only** is a
  perceptron on the same reports, without any edge.
* **graph and labels alone** is the strongest that we have without any record or network: label propagation, a
  field, or a stack of both with regressions on spectral coordinates, whichever has the least log-loss on the
  training nodes, out of fold. **over public** is a row less that one."""


def _values(frame: pd.DataFrame) -> dict[tuple[Any, ...], pd.Series]:
    return by_seed(frame, ["mechanism", "epsilon", "metric"])


def _twin(key: tuple[Any, ...], prefix: str = STRUCTURE) -> tuple[Any, ...]:
    return (prefix + key[0], *key[1:])


def _proved(frame: pd.DataFrame, name: str, epsilon: float) -> str:
    row = frame[(frame.mechanism == name) & (frame.epsilon == epsilon)].iloc[0]
    if math.isinf(row.epsilon_proved):
        return "-" if name in rows_of.NON_PRIVATE else "none"
    return f"{row.epsilon_proved:.3g}" + (f", {row.delta:g}" if row.delta else "")


def _accuracy(frame: pd.DataFrame) -> list[str]:
    if frame.empty:
        return []
    sections = [_PREFACE]
    budgets = [eps for eps in frame.epsilon.unique() if 0 < eps < np.inf] or [np.inf]
    tables = (("Table 1", "random", max(budgets), _table_1), ("Table 1", "public", max(budgets), _table_1),
              ("Table 2", "random", min(budgets), _table_2))  # fmt: skip
    for title, split, epsilon, make in tables:
        for dataset, part in frame[frame.split == split].groupby("dataset", sort=False):
            if rows := make(part, str(dataset), epsilon):
                seeds = f"{part.seed.nunique()} seeds; config `{part.config.iloc[0]}`."
                sections += [f"## {title}: {dataset}, {split} split, epsilon {epsilon:g}", seeds, table(rows)]
    levels = _levels(frame)
    if not levels.empty:
        title = "## Figure 3: training nodes from parts of the hierarchy"
        sections += [title, _FIGURE_3, f"![Figure 3]({_FIGURE_3_NAME}.png)", _table_of_figure_3(levels)]
    return sections


def _levels(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of Figure 3."""
    return frame[frame.dataset.isin(frame[frame.split == "inner"].dataset.unique())]


def _table_1(frame: pd.DataFrame, dataset: str, epsilon: float) -> list[dict[str, Any]]:
    values, rows = _values(frame), []
    groups: tuple[tuple[tuple[str, ...], str, float], ...] = (
        (rows_of.NON_PRIVATE, "none", np.inf), ((PUBLIC,), "no record", 0.0),
        (rows_of.AS_PUBLISHED, "as published", epsilon), (rows_of.SOUND, "sound", epsilon),
    )  # fmt: skip
    for group, privacy, eps in groups:
        for name in group:
            key = (name, eps, WEIGHTED)
            if key not in values:
                continue
            printed = TABLE_1.get((dataset, name), ("", ""))
            over = contrast(values, key, (PUBLIC, 0.0, WEIGHTED)) if name != PUBLIC else None
            rows.append(
                {
                    "row": label(name),
                    "privacy": privacy,
                    "proved eps, delta": _proved(frame, name, eps),
                    "paper W-F1": printed[0],
                    "paper M-F1": printed[1],
                    "W-F1": interval(values[key]),
                    "macro-F1": interval(values.get((name, eps, MACRO))),
                    "micro-F1": interval(values.get((name, eps, MICRO))),
                    "structure-only W-F1": interval(values.get(_twin(key))),
                    "features-only W-F1": interval(values.get(_twin(key, FEATURES))),
                    "gain": signed(contrast(values, key, _twin(key))),
                    "over public": signed(over),
                }
            )
    return rows


def _table_2(frame: pd.DataFrame, dataset: str, epsilon: float) -> list[dict[str, Any]]:
    values, rows = _values(frame), []
    for name in (*rows_of.ABLATED, *rows_of.SHARES):
        whole, key = name.split(" without")[0], (name, epsilon, WEIGHTED)
        if key not in values:
            continue
        less = contrast(values, key, (whole, epsilon, WEIGHTED)) if name != whole else None
        rows.append(
            {
                "row": label(name),
                "proved eps, delta": _proved(frame, name, epsilon),
                "paper W-F1": TABLE_2.get((dataset, name), ""),
                "W-F1": interval(values[key]),
                "less the whole": signed(less),
                "structure-only W-F1": interval(values.get(_twin(key))),
                "gain": signed(contrast(values, key, _twin(key))),
            }
        )
    complete = any(name in rows_of.ABLATED[1:4] for name, eps, _ in values if eps == epsilon)
    return rows if complete else []


_FIGURE_3 = """\
*inner*: 30 % of the third of the nodes that is nearest to the centre of the disk trains, the top of the hierarchy
in the paper's words; *outer*: of the third farthest from it, the top in the authors' code, which takes the largest
norms. What is the top by one reading is the bottom by the other. A tenth of all other nodes validates, the rest are
the test."""

_READINGS = {"random": "random", "inner": "inner, the text's top", "outer": "outer, the code's top"}
_SHOWN = (f"{PUBLISHED}poindp", f"{PRINTED}poindp", "radial")


def _by_epsilon(frame: pd.DataFrame, split: str, name: str) -> dict[float, pd.Series]:
    values = by_seed(frame[(frame.split == split) & (frame.metric == WEIGHTED)], ["mechanism", "epsilon"])
    return {epsilon: values[other, epsilon] for other, epsilon in sorted(values) if other == name}


def _figure_3(frame: pd.DataFrame) -> Any:
    figure, axes = panels(len(_READINGS), width=3.6, height=3.2)
    for axis, split in zip(axes, _READINGS, strict=True):
        axis.set_xscale("log")
        lines = {name: _by_epsilon(frame, split, name) for name in (*_SHOWN, f"{STRUCTURE}radial")}
        curves(axis, lines, LABELS, COLOURS, apart=0.04, markersize=3)
        axis.set(xlabel="nominal epsilon", ylabel="weighted F1 (%)")
        axis.set_title(f"training nodes: {_READINGS[split]}", fontsize=9)
    one_scale(axes)
    legend_below(figure, axes[0], 4)
    return figure


def _table_of_figure_3(frame: pd.DataFrame) -> str:
    return table(
        {
            "training nodes": split,
            "row": label(name),
            "eps": f"{epsilon:g}",
            "W-F1": interval(series),
            "structure-only W-F1": interval(_by_epsilon(frame, split, STRUCTURE + name).get(epsilon)),
        }
        for split in _READINGS
        for name in _SHOWN
        for epsilon, series in _by_epsilon(frame, split, name).items()
    )


# --- Findings ----------------------------------------------------------------------------------------------------


def digest(out: Path) -> str:
    """What the rows of a folder say in short."""
    frame, attacked = accuracy.results_in(out).read(), attack_report.read(out)
    gains = list(filter(None, gains_of_sound_rows(frame)))
    up, down, _ = counted(gains)
    words = (
        f"Of {len(gains)} sound rows (mechanism, budget, data set and split) the gain over the same mechanism on "
        f"one public record has an interval above 0 in {up}, below in {down}; rows of a split are not independent."
    )
    match = attack_report.match(attacked[attacked.attack != membership.GRAPH])
    return "\n\n".join([words, *match]).replace("## ", "### ") if gains else ""


def gains_of_sound_rows(frame: pd.DataFrame) -> Iterator[ConfidenceInterval | None]:
    """Of every sound row over its twin."""
    for _, part in frame[frame.metric == WEIGHTED].groupby(["dataset", "split"], sort=False):
        values: Values = by_seed(part, ["mechanism", "epsilon"])
        for key in values:
            if key[0] not in rows_of.AS_PUBLISHED and _twin(key) in values:
                yield contrast(values, key, _twin(key))
