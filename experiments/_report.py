"""Shared by all reports.

Tidy tables in Markdown, paired contrasts, curves with intervals in one style.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ParamSpec

import matplotlib as mpl
import numpy as np
import pandas as pd

from experiments._runner import BY, Results, config_hash, write_atomically
from ldp_jax.learning.metrics import ConfidenceInterval, mean_interval

_P = ParamSpec("_P")

Section = tuple[list[str], dict[str, Any], dict[str, pd.DataFrame]]
"""The texts of a section of a page, its figures, and tables that stand beside the page."""


def interval(values: Any) -> ConfidenceInterval | None:
    """The interval of the values that are there; None without any."""
    if isinstance(values, ConfidenceInterval):
        return values
    known = [] if values is None else np.asarray(values, np.float64)
    return mean_interval(known) if len(known) else None


def significant(interval: ConfidenceInterval | None) -> bool:
    """Whether a 95 % interval leaves 0 out."""
    return interval is not None and interval.n > 1 and abs(interval.mean) > interval.half_width


def counted(each: Iterable[ConfidenceInterval | None]) -> tuple[int, int, int]:
    """How many intervals are above 0, below it, and hold it."""
    known = [one for one in each if one is not None]
    sure = [one.mean > 0 for one in known if significant(one)]
    return sum(sure), len(sure) - sum(sure), len(known) - len(sure)


def first_sure(gains: Sequence[ConfidenceInterval | None], sign: int = 1) -> int:
    """The place from which on all intervals are on one side of 0.

    Their number where the last is not.
    """
    place = len(gains)
    while (
        place
        and (gain := gains[place - 1]) is not None
        and significant(gain)
        and sign * gain.mean > 0
    ):
        place -= 1
    return place


def ranked(frame: pd.DataFrame, names: Iterable[str], by: Sequence[str]) -> pd.DataFrame:
    """The rows in the order of some columns; mechanisms are in that of their ``names``."""
    order = {name: place for place, name in enumerate(names)}
    return frame.sort_values(
        list(by), key=lambda each: each.map(order) if each.name == "mechanism" else each
    )


def signed(interval: ConfidenceInterval | None, digits: int = 1) -> str:
    """A difference for a table; bold where its interval leaves 0 out."""
    text = "" if interval is None else f"{interval.mean:+.{digits}f}"
    if interval is not None and interval.n > 1:
        text += f" ± {interval.half_width:.{digits}f}"
    return f"**{text}**" if significant(interval) else text


def prose(page: str) -> SimpleNamespace:
    """The passages of a page by name.

    In ``prose/PAGE.md`` each follows a line ``<!-- name -->``.
    """
    text = (Path(__file__).parent / f"prose/{page}.md").read_text()
    _, *parts = re.split(r"^<!-- (\w+) -->\n", text, flags=re.MULTILINE)
    return SimpleNamespace(**dict(zip(parts[::2], map(str.strip, parts[1::2]), strict=True)))


def markdown(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table; None is an empty cell."""
    lines = ["| " + " | ".join(headers) + " |", "|" + "|".join([" --- "] * len(headers)) + "|"]
    return "\n".join(
        lines + ["| " + " | ".join("" if x is None else str(x) for x in row) + " |" for row in rows]
    )


def table(rows: Iterable[Mapping[str, Any]]) -> str:
    """A Markdown table of rows that name their columns; empty without a row."""
    rows = list(rows)
    return markdown(list(rows[0]), [list(row.values()) for row in rows]) if rows else ""


def publish(
    out: Path,
    pages: Mapping[str, str],
    figures: Mapping[str, Any],
    tables: Mapping[str, pd.DataFrame] | None = None,
) -> list[Path]:
    """Write pages and figures by their stems, and tables by the names of their CSVs."""
    texts = {f"{stem}.md": text + "\n" for stem, text in pages.items()}
    for name, frame in (tables or {}).items():
        texts[name] = frame.to_csv(index=False, lineterminator="\n")
    for name, text in texts.items():
        write_atomically(out / name, text)
    for stem, figure in figures.items():
        save(figure, out / f"{stem}.png")
    return [*(out / name for name in texts), *(out / f"{stem}.png" for stem in figures)]


def redraw(results: Results, stem: str, content: Any, draw: Callable[[], Any]) -> Path:
    """Draw a figure if its file is missing, or the manifest knows it with other content."""
    path = results.csv.with_name(f"{stem}.png")
    digest = config_hash(content)
    if not path.exists() or results.describe().get("figures", {}).get(stem) != digest:
        save(draw(), path)
        results.append([], notes={"figures": {stem: digest}})
    return path


def pyplot() -> Any:
    """Matplotlib without a display, in the house style."""
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    style = {
        "figure.dpi": 130,
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.25,
        "legend.frameon": False,
    }
    plt.rcParams.update(style)
    return plt


def save(figure: Any, path: Any) -> None:
    """Write a figure and let its memory go."""
    figure.savefig(path)
    pyplot().close(figure)


def panels(
    count: int, width: float = 3.6, height: float = 3.0, columns: int = 3
) -> tuple[Any, list[Any]]:
    """A figure of ``count`` panels, as a grid, and its axes."""
    plt = pyplot()
    across = min(count, columns)
    down = math.ceil(count / across)
    figure, axes = plt.subplots(
        down, across, figsize=(width * across, height * down + 0.6), squeeze=False
    )
    flat = list(axes.flat)
    for spare in flat[count:]:
        spare.set_visible(False)
    return figure, flat[:count]


def errorbars(axis: Any, shown: Mapping[Any, ConfidenceInterval], **style: Any) -> None:
    """Means and their intervals against the keys; nothing where there are none."""
    if shown:
        half = [one.half_width if one.n > 1 else 0.0 for one in shown.values()]
        style = {"marker": "o", "capsize": 2, **style}
        axis.errorbar(list(shown), [one.mean for one in shown.values()], yerr=half, **style)


_PREFIXES = "published:|printed:|structure-only:|features-only:"


def is_own(name: object) -> bool:
    """Whether a row is of a method or a model that is none of this library's, ``module:Name``.

    >>> [
    ...     is_own(name)
    ...     for name in (
    ...         "mine:Stairs(steps=5)",
    ...         "published:lap",
    ...         "structure-only:hds",
    ...         "hds by mine:Network",
    ...         "structure-only:hds by mine:Network",
    ...     )
    ... ]
    [True, False, False, True, False]
    """
    return re.match(rf"(?!{_PREFIXES})(.+{BY})?[\w.]+:[^\W\d]", str(name)) is not None


def level(axis: Any, height: float, label: str, style: Any = "-", **more: Any) -> None:
    """A horizontal line for a row that has no x."""
    axis.axhline(
        height, **{"color": "black", "linestyle": style, "linewidth": 0.9, "label": label, **more}
    )


def one_scale(axes: Sequence[Any]) -> None:
    """The same limits of y for all panels."""
    ends = np.array([axis.get_ylim() for axis in axes])
    for axis in axes:
        axis.set_ylim(ends.min(), ends.max())


def legend_below(figure: Any, axes: Any, columns: int = 4) -> None:
    """One legend for all panels, under them, of what one axis or several show."""
    shown: dict[str, Any] = {}
    for axis in axes if isinstance(axes, Sequence) else [axes]:
        handles, labels = axis.get_legend_handles_labels()
        shown |= dict(zip(labels, handles, strict=True))
    if figure.get_figwidth() < 5.0:
        columns = min(columns, 2)
    if any(map(is_own, shown)):  # long names
        inches = 0.6 + 0.063 * max(map(len, shown))
        columns = max(1, min(columns, int(figure.get_figwidth() / inches)))
        figure.set_figheight(figure.get_figheight() + 0.19 * len(shown) / columns)
    figure.legend(shown.values(), shown, loc="lower center", ncols=columns, fontsize=8)
    height = figure.get_figheight()
    room = max(0.04 + 0.33 / height, (0.15 + 0.19 * math.ceil(len(shown) / columns)) / height)
    figure.tight_layout(rect=(0, room, 1, 1))
