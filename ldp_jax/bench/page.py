"""A comparison as text, as a picture and as one page."""

import base64
import html
import io
import math
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ldp_jax.bench.rows import (
    ALL,
    ALONE,
    CEILING,
    DEFAULT,
    PLACEBO,
    PRIVATE,
    THIRDS,
    Comparison,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw", "save", "text"]

__dir__ = lambda: __all__

OWN = "#e6194b"
OTHERS = ("#00798c", "#edae49", "#7b2d8b", "#66a182", "#2e4057", "#c77cff")
MARKERS = "osDv^P"

Table = list[list[str]]
"""Cells, of which the first line is the header."""


def text(made: Comparison) -> str:
    """Tables and verdicts, as they are printed."""
    parts = [heading(made)]
    for table in (scores(made), among(made)):
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = []
        for line in table:
            cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
            lines.append("  ".join(cells).rstrip())
        parts.append("\n".join(lines))
    parts += [f"{name}: left out, {why}" for name, why in made.skipped.items()]
    parts += [str(verdict) for verdict in made.verdicts.values()]
    return "\n\n".join(parts)


def heading(made: Comparison) -> str:
    """A sentence about the data and the draws of the numbers."""
    one = made.rows[0]
    seeds = len({row.seed for row in made.rows})
    return (
        f"{one.data}: {one.hides} private, panel {100 * one.panel:g}% of each class, "
        f"{seeds} draws. Accuracy in % of the other users, 95 % intervals."
    )


def scores(made: Comparison) -> Table:
    """A line for each method, kind of users and budget."""
    header = ["method", "users", "epsilon", "accuracy", "gain", "own less it"]
    header += ["worst draw", "guarantee", "bytes out", "bytes back", "seconds", "peak MB"]
    lines = [header]
    listed = [(ALONE, PRIVATE, 0.0)]
    for epsilon in made.epsilons:
        listed += [(made.own, users, epsilon) for users in (PRIVATE, PLACEBO, DEFAULT)]
        listed += [(name, PRIVATE, epsilon) for name in made.methods[1:]]
    listed.append((made.own, CEILING, math.inf))
    for method, users, epsilon in listed:
        found = [
            row
            for row in made.rows
            if (row.method, row.users, row.epsilon, row.among) == (method, users, epsilon, ALL)
        ]
        if not found:
            continue
        worst = min(made.scores(method, epsilon, users).values())
        rival = users == PRIVATE and method not in (made.own, ALONE)
        lines.append(
            [
                method,
                "" if method == ALONE else users,
                f"{epsilon:g}",
                str(made.mean(method, epsilon, users)),
                "" if method == ALONE else _signed(made.gain(method, epsilon, users)),
                _signed(made.over(method, epsilon)) if rival else "",
                f"{worst:.1f}",
                found[0].guarantee,
                str(found[0].download),
                str(found[0].upload),
                f"{statistics.median(row.seconds for row in found):.1f}",
                f"{max(row.memory for row in found) / 1e6:.0f}",
            ]
        )
    return lines


def among(made: Comparison) -> Table:
    """The gain of the own method by third of degree and by class: who gains, and who loses."""
    names = dict.fromkeys(row.among for row in made.rows if row.method == made.own)
    lines = [["gain of", *(f"epsilon {epsilon:g}" for epsilon in made.epsilons)]]
    for name in [*THIRDS, *(name for name in names if name not in (ALL, *THIRDS))]:
        if name in names:
            gains = [_signed(made.gain(made.own, e, among=name)) for e in made.epsilons]
            lines.append([name, *gains])
    return lines


def _signed(gain: Any) -> str:
    return str(gain) if str(gain).startswith("-") else f"+{gain}"


def draw(made: Comparison, *, ax: "Axes | None" = None) -> "Axes":
    """Points gained against epsilon: the own method in its own colour, and what stands beside it.

    It draws on ``ax``, or on new axes, and returns the axes; it needs matplotlib.
    """
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")[1]
    ax.axhline(0.0, color="#444444", lw=1.0, label=ALONE)
    if made.scores(made.own, math.inf, CEILING):
        most = made.gain(made.own, math.inf, CEILING).mean
        ax.axhline(most, color=OWN, ls="--", lw=1.0, label="without noise")
    own = {"color": OWN, "label": made.own, "lw": 2.4, "marker": "*", "ms": 11}
    permuted = {"color": OWN, "label": "permuted", "lw": 1.4, "ls": ":", "marker": "x"}
    curves: list[tuple[str, str, dict[str, Any]]] = [
        (made.own, PRIVATE, own),
        (made.own, PLACEBO, permuted),
    ]
    for place, name in enumerate(made.methods[1:]):
        style = {"color": OTHERS[place % len(OTHERS)], "marker": MARKERS[place % len(MARKERS)]}
        curves.append((name, PRIVATE, style | {"label": name, "lw": 1.4, "ms": 4}))
    for place, (name, users, style) in enumerate(curves):
        found = {e: made.gain(name, e, users) for e in made.epsilons if made.scores(name, e, users)}
        apart = 1.012 ** (place - (len(curves) - 1) / 2)  # so that no interval hides another one
        spread = [one.half_width if one.n > 1 else 0.0 for one in found.values()]
        means = [one.mean for one in found.values()]
        at = [epsilon * apart for epsilon in found]
        ax.errorbar(at, means, yerr=spread, capsize=2, elinewidth=0.8, **style)
    ax.set(xscale="log", xlabel="epsilon", ylabel="points over what is known without private data")
    ax.set_xticks(made.epsilons, [f"{epsilon:g}" for epsilon in made.epsilons])
    ax.set_xlim(made.epsilons[0] / 1.3, made.epsilons[-1] * 1.3)
    ax.minorticks_off()
    ax.grid(alpha=0.25)
    one = made.rows[0]
    ax.set_title(f"{one.data}, {one.hides} private: {len(made.methods)} methods", fontsize=10)
    ax.legend(fontsize=8, framealpha=0.9)
    return ax


def save(made: Comparison, folder: Path) -> Path:
    """Write the picture and the page; the path of the page."""
    folder.mkdir(parents=True, exist_ok=True)
    figure = figure_class()(figsize=(6.4, 4.0), layout="constrained")
    draw(made, ax=figure.subplots())
    picture = io.BytesIO()
    figure.savefig(picture, dpi=150)
    (folder / "bench.png").write_bytes(picture.getvalue())
    path = folder / "bench.html"
    path.write_text(page(made, picture.getvalue()))
    return path


def figure_class() -> Any:
    """Matplotlib's ``Figure``. ``ImportError`` where there is none."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'ldp_jax[bench]'") from error
    return Figure


def page(made: Comparison, picture: bytes) -> str:
    """One page that needs no other file."""
    encoded = base64.b64encode(picture).decode()
    notes = [f"{name}: left out, {why}" for name, why in made.skipped.items()]
    parts = [
        f"<h1>{html.escape(made.own)}</h1>",
        f"<p>{html.escape(heading(made))}</p>",
        f'<img alt="accuracy against epsilon" src="data:image/png;base64,{encoded}">',
        _table(scores(made)),
        f"<h2>Who gains, who loses</h2>{_table(among(made))}",
        *(f"<p>{html.escape(note)}</p>" for note in notes),
        *(
            f"<h2>Verdict at epsilon {e:g}</h2><pre>{html.escape(str(verdict))}</pre>"
            for e, verdict in made.verdicts.items()
        ),
        f"<p>{html.escape(made.rows[0].versions)}</p>",
    ]
    return _PAGE.format(title=html.escape(f"{made.own} beside others"), body="\n".join(parts))


def _table(lines: Table) -> str:
    row = lambda cells, tag: "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells)
    body = "".join(f"<tr>{row(cells, 'td')}</tr>" for cells in lines[1:])
    return f"<div><table><tr>{row(lines[0], 'th')}</tr>{body}</table></div>"


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 80rem;
  margin: 2rem auto; padding: 0 1rem; }}
img {{ max-width: min(100%, 44rem); background: white; }}
div {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; }}
th, td {{ padding: 0.25rem 0.7rem; text-align: left; white-space: nowrap;
  border-bottom: 1px solid #8884; }}
pre {{ white-space: pre-wrap; overflow-wrap: anywhere; font-size: 12px; }}
</style></head><body>
{body}
</body></html>
"""
