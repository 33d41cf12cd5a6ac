"""What the reports of all experiments share: Markdown tables, signed differences, figures in one style."""

import math
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl

from ldp_jax.learning.metrics import ConfidenceInterval

METRIC_LABELS = {"accuracy": "test accuracy (%)", "auc": "test AUC (%)"}


def significant(interval: ConfidenceInterval | None) -> bool:
    """Whether a 95 % interval leaves 0 out."""
    return interval is not None and interval.n > 1 and abs(interval.mean) > interval.half_width


def signed(interval: ConfidenceInterval | None, digits: int = 1) -> str:
    """A difference for a table; bold where its interval leaves 0 out."""
    if interval is None:
        return ""
    text = f"{interval.mean:+.{digits}f}" + (f" ± {interval.half_width:.{digits}f}" if interval.n > 1 else "")
    return f"**{text}**" if significant(interval) else text


def markdown(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(headers) + " |", "|" + "|".join([" --- "] * len(headers)) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def pyplot() -> Any:
    """Matplotlib without a display, in the house style."""
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(
        {
            "figure.dpi": 130,
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.alpha": 0.25,
            "legend.frameon": False,
        }
    )
    return plt


def save(figure: Any, path: Any) -> None:
    """Write a figure and let its memory go."""
    figure.savefig(path)
    pyplot().close(figure)


def panels(count: int, width: float = 3.6, height: float = 3.0, columns: int = 3) -> tuple[Any, list[Any]]:
    """A figure of ``count`` panels, as a grid, and its axes."""
    plt = pyplot()
    across = min(count, columns)
    down = math.ceil(count / across)
    figure, axes = plt.subplots(down, across, figsize=(width * across, height * down + 0.6), squeeze=False)
    flat = list(axes.flat)
    for spare in flat[count:]:
        spare.set_visible(False)
    return figure, flat[:count]


def legend_below(figure: Any, axis: Any, columns: int = 4) -> None:
    """One legend for all panels, under them."""
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=columns, fontsize=8)
    figure.tight_layout(rect=(0, 0.04 + 0.11 / figure.get_figheight() * 3, 1, 1))
