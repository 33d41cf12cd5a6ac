"""Tables and figures of PoinDP; nothing is computed but statistics."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments import _report as show
from experiments._common import own_colours
from experiments._runner import Results
from experiments.poindp import accuracy, cells, gaps, membership, noise
from experiments.poindp import settings as rows_of
from ldp_jax.learning.metrics import ConfidenceInterval

_TEXT = show.prose("poindp")

WEIGHTED, MACRO, MICRO = cells.METRICS
_FIGURE_3_NAME = "poindp_figure3"

results_in = accuracy.results_in


def write(out: Path) -> list[Path]:
    frame = accuracy.results_in(out).read()
    levels = _levels(frame)
    of_noise, figures = noise.pages(out)
    figures |= {} if levels.empty else {_FIGURE_3_NAME: _figure_3(levels)}
    sections = [*_accuracy(frame), *gaps.section(out), *of_noise]
    text = "\n\n".join(["# PoinDP: hierarchy-aware noise for graph networks", *sections])
    pages = {accuracy.NAME: text} if sections else {}
    return [*show.publish(out, pages, figures), *membership.write(out)]


def _values(frame: pd.DataFrame) -> dict[tuple[Any, ...], pd.Series]:
    return show.by_seed(frame, ["mechanism", "epsilon", "metric"])


def _twin(key: tuple[Any, ...], prefix: str = rows_of.STRUCTURE) -> tuple[Any, ...]:
    return (prefix + key[0], *key[1:])


def _proved(frame: pd.DataFrame, name: str, epsilon: float) -> str:
    row = frame[(frame.mechanism == name) & (frame.epsilon == epsilon)].iloc[0]
    if math.isinf(row.epsilon_proved):
        return "-" if name in rows_of.NON_PRIVATE else "none"
    return f"{row.epsilon_proved:.3g}" + (f", {row.delta:g}" if row.delta else "")


def _accuracy(frame: pd.DataFrame) -> list[str]:
    if frame.empty:
        return []
    sections = [_TEXT.preface]
    budgets = [eps for eps in frame.epsilon.unique() if 0 < eps < np.inf] or [np.inf]
    tables = (
        ("Table 1", "random", max(budgets), _table_1),
        ("Table 1", "public", max(budgets), _table_1),
        ("Table 2", "random", min(budgets), _table_2),
    )
    for title, split, epsilon, make in tables:
        for dataset, part in frame[frame.split == split].groupby("dataset", sort=False):
            if table := make(part, str(dataset), epsilon):
                seeds = f"{part.seed.nunique()} seeds; config `{part.config.iloc[0]}`."
                sections += [
                    f"## {title}: {dataset}, {split} split, epsilon {epsilon:g}",
                    seeds,
                    table,
                ]
    levels = _levels(frame)
    if not levels.empty:
        title = "## Figure 3: training nodes from parts of the hierarchy"
        sections += [
            title,
            _TEXT.figure_3,
            f"![Figure 3]({_FIGURE_3_NAME}.png)",
            _table_of_figure_3(levels),
        ]
    return sections


def _levels(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[frame.dataset.isin(frame[frame.split == "inner"].dataset.unique())]


@show.tabled
def _table_1(frame: pd.DataFrame, dataset: str, epsilon: float) -> show.Rows:
    values = _values(frame)
    groups: tuple[tuple[tuple[str, ...], str, float], ...] = (
        (rows_of.NON_PRIVATE, "none", np.inf), ((rows_of.PUBLIC,), "no record", 0.0),
        (rows_of.AS_PUBLISHED, "as published", epsilon), (rows_of.SOUND, "sound", epsilon),
        (tuple(own_colours(frame.mechanism)), "your own", epsilon),
    )  # fmt: skip
    for group, privacy, eps in groups:
        for name in group:
            key = (name, eps, WEIGHTED)
            if key not in values:
                continue
            printed = rows_of.TABLE_1.get((dataset, name), ("", ""))
            over = (
                show.contrast(values, key, (rows_of.PUBLIC, 0.0, WEIGHTED))
                if name != rows_of.PUBLIC
                else None
            )
            yield {
                "row": rows_of.label(name),
                "privacy": privacy,
                "proved eps, delta": _proved(frame, name, eps),
                "paper W-F1": printed[0],
                "paper M-F1": printed[1],
                "W-F1": show.interval(values[key]),
                "macro-F1": show.interval(values.get((name, eps, MACRO))),
                "micro-F1": show.interval(values.get((name, eps, MICRO))),
                "structure-only W-F1": show.interval(values.get(_twin(key))),
                "features-only W-F1": show.interval(values.get(_twin(key, rows_of.FEATURES))),
                "gain": show.signed(show.contrast(values, key, _twin(key))),
                "over public": show.signed(over),
            }


@show.tabled
def _table_2(frame: pd.DataFrame, dataset: str, epsilon: float) -> show.Rows:
    values = _values(frame)
    if not any((name, epsilon, WEIGHTED) in values for name in rows_of.ABLATED[1:4]):
        return
    for name in (*rows_of.ABLATED, *rows_of.SHARES):
        whole = name.split(" without")[0]
        key = (name, epsilon, WEIGHTED)
        if key not in values:
            continue
        less = show.contrast(values, key, (whole, epsilon, WEIGHTED)) if name != whole else None
        yield {
            "row": rows_of.label(name),
            "proved eps, delta": _proved(frame, name, epsilon),
            "paper W-F1": rows_of.TABLE_2.get((dataset, name), ""),
            "W-F1": show.interval(values[key]),
            "less the whole": show.signed(less),
            "structure-only W-F1": show.interval(values.get(_twin(key))),
            "gain": show.signed(show.contrast(values, key, _twin(key))),
        }


_READINGS = {"random": "random", "inner": "inner, the text's top", "outer": "outer, the code's top"}
_SHOWN = (f"{rows_of.PUBLISHED}poindp", f"{rows_of.PRINTED}poindp", "radial")


def _by_epsilon(frame: pd.DataFrame, split: str, name: str) -> dict[float, pd.Series]:
    values = show.by_seed(
        frame[(frame.split == split) & (frame.metric == WEIGHTED)], ["mechanism", "epsilon"]
    )
    return {epsilon: values[other, epsilon] for other, epsilon in sorted(values) if other == name}


def _figure_3(frame: pd.DataFrame) -> Any:
    figure, axes = show.panels(len(_READINGS), width=3.6, height=3.2)
    for axis, split in zip(axes, _READINGS, strict=True):
        axis.set_xscale("log")
        lines = {
            name: _by_epsilon(frame, split, name)
            for name in (*_SHOWN, f"{rows_of.STRUCTURE}radial")
        }
        show.curves(axis, lines, rows_of.LABELS, rows_of.COLOURS, apart=0.04, markersize=3)
        axis.set(xlabel="nominal epsilon", ylabel="weighted F1 (%)")
        axis.set_title(f"training nodes: {_READINGS[split]}", fontsize=9)
    show.one_scale(axes)
    show.legend_below(figure, axes[0], 4)
    return figure


def _table_of_figure_3(frame: pd.DataFrame) -> str:
    return show.table(
        {
            "training nodes": split,
            "row": rows_of.label(name),
            "eps": f"{epsilon:g}",
            "W-F1": show.interval(series),
            "structure-only W-F1": show.interval(
                _by_epsilon(frame, split, rows_of.STRUCTURE + name).get(epsilon)
            ),
        }
        for split in _READINGS
        for name in _SHOWN
        for epsilon, series in _by_epsilon(frame, split, name).items()
    )


def digest(results: Results) -> str:
    attacked = membership.read(results.csv.parent)
    gains = list(filter(None, gains_of_sound_rows(results.read())))
    up, down, _ = show.counted(gains)
    match = membership.match(attacked[attacked.attack != membership.GRAPH])
    sections = [_TEXT.digest.format(all=len(gains), up=up, down=down), *match]
    return "\n\n".join(sections).replace("## ", "### ") if gains else ""


def gains_of_sound_rows(frame: pd.DataFrame) -> Iterator[ConfidenceInterval | None]:
    for _, part in frame[frame.metric == WEIGHTED].groupby(["dataset", "split"], sort=False):
        values: show.Values = show.by_seed(part, ["mechanism", "epsilon"])
        for key in values:
            if key[0] not in rows_of.AS_PUBLISHED and _twin(key) in values:
                yield show.contrast(values, key, _twin(key))
