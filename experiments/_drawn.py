"""Figures that a ``report.toml`` declares: panels of lines by a column, or marks a setting."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from experiments import _report as show
from experiments._lines import Line, Lines, Spec, distinct, grouped, listed
from ldp_jax.learning.metrics import ConfidenceInterval

Points = Mapping[Any, ConfidenceInterval]


def drawn(report: Any, spec: Spec) -> Any | None:
    """The figure of a page's lines; None where there is nothing to draw."""
    if "draw" in spec:
        from experiments._declared import function

        return function(spec["draw"])(report, spec)
    lines = report.select(spec)
    return _marks(report, spec, lines) if "y" in spec else _panels(report, spec, lines)


def _series(report: Any, spec: Spec, lines: Lines) -> list[dict[str, Any]]:
    """The declared lines of a figure, and one for each of somebody's own methods.

    One with ``by`` is there for each name in that column, with the name's label and colour.
    """
    made = []
    for one in spec["lines"]:
        where = listed(one.get("where", []))
        if "by" not in one:
            made.append({**one, "where": where})
            continue
        every = report.select({"where": [*listed(spec.get("where", [])), *where]})
        values = sorted(distinct(every, one["by"]), key=_rank(report))
        for place, value in enumerate(values):
            label = report.word(value)
            if "shades" in one:
                colour = one["shades"][max(place - len(values), -len(one["shades"]))]
            else:
                colour = one.get("colour") or report.colours.get(value, "black")
            name = one.get("name", "{label}").format(label=label)
            given = {"name": name, "colour": colour, "where": [*where, {one["by"]: value}]}
            made.append(one | given | (_own(report, value) if show.is_own(value) else {}))
    known = {one["name"] for one in made}
    for name in filter(show.is_own, distinct(lines, "mechanism")):
        if report.word(name) not in known:
            made.append(
                {
                    **spec.get("own", {}),
                    **_own(report, name),
                    "name": report.word(name),
                    "where": [{"mechanism": name}],
                }
            )
    return made


def _own(report: Any, name: Any) -> dict[str, Any]:
    """A star, and a colour of its own."""
    return {"colour": report.colours[name], "marker": "*", "size": 9}


def _rank(report: Any) -> Callable[[Any], Any]:
    order = {name: place for place, name in enumerate(report.labels)}
    return lambda name: name if isinstance(name, float) else (order.get(name, len(order)), name)


def _points(report: Any, spec: Spec, one: Spec, lines: Lines, by: Sequence[str]) -> Points:
    """The answers of one series by the values of some columns."""
    asked = {"measure": spec.get("measure", "value"), **one}
    found = {
        key: report.ask(asked, some, by)
        for key, some in grouped(report.select(one, lines), by).items()
    }
    return {key: answer for key, answer in found.items() if answer is not None}


def _style(one: Spec) -> dict[str, Any]:
    given = {"color": "colour", "marker": "marker", "linestyle": "style", "markersize": "size",
             "linewidth": "width"}  # fmt: skip
    found = {key: one[name] for key, name in given.items() if name in one}
    return {"markersize": 4, **found, "label": one["name"]}


def _panels(report: Any, spec: Spec, lines: Lines) -> Any | None:
    """A panel for each value of some columns; means and intervals of lines against a column."""
    groups = report.groups(lines, spec["panels"], {"sorted": True, **spec, "order": []})
    shown = {}
    for key, some in groups.items():
        series = []
        for one in _series(report, spec, some):
            if points := _points(report, spec, one, some, [spec["x"]]):
                series.append((one, {place: at for (place,), at in points.items()}))
        places = {place for _, points in series for place in points}
        if len(places) >= spec.get("least_points", 1):
            shown[key] = series
    if not shown:
        return None
    if "order" in spec:
        gain = lambda key: report.ask(spec["order"], groups[key])
        shown = dict(sorted(shown.items(), key=lambda one: -getattr(gain(one[0]), "mean", 0.0)))
    columns = min(len(shown), spec.get("columns", 3))
    width = spec.get("width", 3.6) if len(shown) > 1 else max(spec.get("width", 3.6), 5.5)
    figure, axes = show.panels(len(shown), width, spec.get("height", 3.0), columns)
    for axis, (key, series) in zip(axes, shown.items(), strict=True):
        _panel(report, spec, axis, series, groups[key])
        title = _named(report, spec["panel"], spec["panels"], key)
        found = report.sentence(spec["found"], groups[key]) if "found" in spec else ""
        axis.set_title("\n".join(filter(None, (title, found))), fontsize=8)
    if spec.get("shared") == "all":
        show.one_scale(axes)
    elif spec.get("shared") == "row":
        for start in range(0, len(axes), columns):
            _same_limits(axes[start : start + columns])
    for axis in axes[::columns]:
        axis.set_ylabel(spec["label"])
    if "heading" in spec and (heading := report.sentence(spec["heading"])):
        figure.suptitle(heading, fontsize=10)
    show.legend_below(figure, axes, spec.get("legend", 4))
    return figure


def _named(report: Any, template: str, columns: Sequence[str], key: Sequence[Any]) -> str:
    """A panel or a setting in words."""
    return template.format(
        **{name: report.word(value) for name, value in zip(columns, key, strict=True)}
    )


def _same_limits(axes: Sequence[Any]) -> None:
    """The same limits of y for some panels, of means and levels: long bars are cut."""
    heights = [
        np.ravel(line.get_ydata())
        for axis in axes
        for line in axis.lines
        if line.get_label()[0] != "_"
    ]
    heights += [np.ravel(bars[0].get_ydata()) for axis in axes for bars in axis.containers]
    seen = np.concatenate(heights)
    room = 0.1 * max(np.ptp(seen), 1.0)
    for axis in axes:
        axis.set_ylim(seen.min() - room, seen.max() + room)


def _panel(report: Any, spec: Spec, axis: Any, series: Any, lines: list[Line]) -> None:
    """Lines on equally spaced places or logarithms, a little apart, and levels of other rows."""
    if "scale_of_y" in spec:
        near_zero = {"linthresh": 1.0} if spec["scale_of_y"] == "symlog" else {}
        axis.set_yscale(spec["scale_of_y"], **near_zero)
        axis.yaxis.set_major_formatter("{x:.3g}")
    values = sorted({x for _, points in series for x in points})
    logarithmic = spec.get("scale_of_x") == "log"
    place = {x: np.log(x) if logarithmic else at for at, x in enumerate(values)}
    apart = spec.get("apart", 0.0)
    colours = list(dict.fromkeys(one["colour"] for one, _ in series))
    for one, points in series:  # a row and its twin have one colour, and stand together
        shift = apart * (colours.index(one["colour"]) - (len(colours) - 1) / 2)
        there = {place[x] + shift: points[x] for x in sorted(points)}
        style = _style(one)
        if one.get("bars", True):
            show.errorbars(axis, there, **{"linewidth": 1.3, **style})
        else:
            means = [at.mean for at in there.values()]
            axis.plot(list(there), means, **{"linewidth": 1.1, **style})
    for one in spec.get("levels", ()):
        at = one.get("at_height")
        if at is None:
            found = report.ask({"measure": spec.get("measure", "value"), **one}, lines)
            at = None if found is None else found.mean
        if at is not None:
            colour = one.get("colour", "black")
            show.level(axis, at, one["name"], one.get("style", "-"), color=colour)
    size = 7 if len(values) > 12 or any(isinstance(x, str) for x in values) else None
    ticks = {x: at for x, at in place.items() if x in spec.get("ticks", values)}
    axis.set_xticks(list(ticks.values()), [report.word(x) for x in ticks], fontsize=size)
    axis.set_xlabel(spec.get("axis", spec["x"]))


def _marks(report: Any, spec: Spec, lines: Lines) -> Any | None:
    """A line for each setting, the largest of the first series on top; a mark for each series."""
    series = [
        (one, points)
        for one in _series(report, spec, lines)
        if (points := _points(report, spec, one, lines, spec["y"]))
    ]
    if not series:
        return None
    groups = grouped(lines, spec["y"])
    order = spec.get("order") or {"measure": spec["measure"], **spec["lines"][0]}
    height = {key: report.ask(order, some, spec["y"]) for key, some in groups.items()}
    keys = sorted(filter(height.get, groups), key=lambda key: height[key].mean)
    figure, axis = show.pyplot().subplots(figsize=(7.4, 0.24 * len(keys) + 1.8))
    axis.axvline(0.0, color="black", linestyle="--", linewidth=1.0, label=spec["zero"])
    for turn, (one, points) in enumerate(series):
        there = {at: points[key] for at, key in enumerate(keys) if key in points}
        style = {"linestyle": "none", "zorder": 4 if turn == 0 else 2, "marker": "o", **_style(one)}
        half = [at.half_width if at.n > 1 else 0.0 for at in there.values()]
        bars = {"xerr": half, "capsize": 1.5} if one.get("bars", True) else {}
        axis.errorbar([at.mean for at in there.values()], list(there), **bars, **style)
    words = [_named(report, spec["panel"], spec["y"], key) for key in keys]
    axis.set_yticks(np.arange(len(keys)), words)
    axis.set_ylim(-0.8, len(keys) - 0.2)
    axis.set_xlabel(spec["label"])
    axis.legend(loc="lower right", fontsize=8, frameon=True)
    axis.set_title(report.sentence(spec["heading"]), fontsize=10, loc="right")
    figure.tight_layout()
    return figure
