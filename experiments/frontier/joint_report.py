"""Tables and the figure of joint privacy; nothing is computed but statistics."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from experiments import _report as show
from experiments._common import own_colours
from experiments._runner import Results
from experiments.frontier import _points, joint
from experiments.frontier import joint_methods as methods
from experiments.frontier.joint_methods import (
    CEILING,
    JOINT,
    LISTS,
    NOTHING,
    ONE,
    PUBLIC_ALONE,
    RECORDS,
    TRUE_ALL,
)
from ldp_jax.learning.metrics import ConfidenceInterval

_TEXT = show.prose("frontier_joint")
NAME, results_in = joint.NAME, joint.results_in

OVER_NOTHING, OVER_RECORDS = "gain over nothing asked", "gain over record alone"
OVER_JOINT = "gain over joint"
SHARE, FORESEEN = "record's share of the total", "accuracy foreseen"
"""Metrics beside accuracy: points, but for the record's share, in [0, 1], and 2 of one report of
both.
"""

LITTLE = 0.1
"""Of the way from nothing asked to true records and graph: what regains less has cost
everything.
"""

_KEY = [*_points.PANEL, "members", "mechanism", "epsilon"]


def points(frame: pd.DataFrame) -> pd.DataFrame:
    """Accuracy and gains in points, one row a draw, gains paired by draw; tidy."""
    rows = []
    for names, parts in _points.by_panel(_with_ceilings(frame)):
        values = {key: 100 * one.value for key, one in parts.items()}
        for (mechanism, epsilon), mine in values.items():
            beside = {
                OVER_NOTHING: values.get((NOTHING, 0.0)),
                OVER_RECORDS: values.get((RECORDS, epsilon)),
            }
            if mechanism == ONE:
                beside[OVER_JOINT] = values.get((JOINT, epsilon))
            found = {_points.ACCURACY: mine, **_points.differences(mine, beside)}
            if 0 < epsilon < np.inf:
                record, bit = (
                    pd.to_numeric(parts[mechanism, epsilon][each]) for each in ("record", "list")
                )
                one_report = record + bit > 1.001 * epsilon  # the whole total goes into each
                found[SHARE] = ((record + bit * one_report) / epsilon).dropna()
                found[FORESEEN] = 100 * pd.to_numeric(parts[mechanism, epsilon].foreseen).dropna()
            rows.append(((*names, mechanism, epsilon), found))
    return _points.tidy(_KEY, rows)


def _with_ceilings(frame: pd.DataFrame) -> pd.DataFrame:
    """The best reports, which one row holds by total, as accuracies of a row of their own."""
    total = frame.metric.str.extract(f"{CEILING} at (.+)", expand=False)
    made = frame[total.notna()].assign(
        mechanism=CEILING, epsilon=total.astype(float), metric=_points.ACCURACY
    )
    return pd.concat([frame[frame.mechanism != methods.BEST], made])


def pages(frame: pd.DataFrame) -> tuple[dict[str, str], dict[str, Any], pd.DataFrame]:
    found = points(frame)
    sections = [
        "# Records, friendships and labels private at once: what one total buys",
        _TEXT.preface, _TEXT.told, verdict(found),
        f"![Accuracy against the total]({NAME}.png)", "## All graphs", summary(found),
    ]  # fmt: skip
    for (dataset, setting), part in found.groupby(_points.PANEL, sort=False):
        sections += [f"## {dataset}, a panel of {_points.panel_words(str(setting))}", _table(part)]
    return {NAME: "\n\n".join(sections)}, {NAME: _figure(found)}, found


def _interval(
    part: pd.DataFrame, mechanism: str, epsilon: float, metric: str
) -> ConfidenceInterval | None:
    return _points.interval_of(part, metric, mechanism=mechanism, epsilon=epsilon)


def _less(part: pd.DataFrame, *rows: tuple[str, float]) -> ConfidenceInterval | None:
    """The difference of two rows in points, paired by draw."""
    at = _points.pick(part, metric=_points.ACCURACY).set_index("seed")
    return show.paired(
        *(_points.pick(at, mechanism=name, epsilon=epsilon).value for name, epsilon in rows)
    )


def totals(part: pd.DataFrame) -> list[float]:
    return sorted(_points.pick(part, mechanism=JOINT).epsilon.unique())


def regained(part: pd.DataFrame, mechanism: str, total: float) -> float | None:
    """The share of the way from nothing asked to true records on the true graph."""
    at = _points.pick(part, metric=_points.ACCURACY).set_index("seed")
    rows = (mechanism, total), (NOTHING, 0.0), (TRUE_ALL, np.inf)
    each = [_points.pick(at, mechanism=name, epsilon=epsilon).value for name, epsilon in rows]
    mine, nothing, true = pd.concat(each, axis=1, join="inner").mean()
    return float((mine - nothing) / (true - nothing)) if true > nothing else None


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def verdict(found: pd.DataFrame) -> str:
    """Where joint privacy costs all gain, and whether a list is worth its budget."""
    everything = []
    unseen = []
    up = []
    down = []
    listed = []
    panels = found.groupby(_points.PANEL, sort=False)
    cells = [(*names, part, total) for names, part in panels for total in totals(part)]
    for dataset, _, part, total in cells:
        words = f"{dataset} at {total:g}"
        mine = (JOINT, total)
        share = regained(part, *mine)
        if share is not None and share < LITTLE:
            everything.append(words)
        if _sign(_interval(part, *mine, OVER_NOTHING)) <= 0:
            unseen.append(words)
        if sign := _sign(_interval(part, *mine, OVER_RECORDS)):
            (up if sign > 0 else down).append(words)
        if _sign(_less(part, mine, (LISTS, total))) < 0:
            listed.append(words)
    return (
        f"**Joint privacy costs everything** (less than {LITTLE:.0%} of the way from nothing "
        "asked to true data is "
        f"regained) on {_listed(everything)}; no gain over nothing asked is seen on "
        f"{_listed(unseen)}. Of "
        f"{len(cells)} settings what was chosen is above the whole total on the record in "
        f"{len(up)} "
        f"({_listed(up)}), below it in {len(down)} ({_listed(down)}); below the whole total on "
        "the list in "
        f"{len(listed)} ({_listed(listed)}).{_of_placebos(cells, methods.PLACEBO)}"
        f"{_of_checks(cells, JOINT, methods.CHECKED, methods.CHECKED_PLACEBO)}"
        f"{_of_one_report(cells)}{_of_ceilings(cells)}"
    )


_Cells = list[tuple[str, str, pd.DataFrame, float]]
"""A graph, its panel, their rows and a total."""


def _of_one_report(cells: _Cells) -> str:
    """What one report of record and list brings beside two."""
    gains = [
        (f"{name} at {total:g}", _interval(part, ONE, total, OVER_JOINT))
        for name, _, part, total in cells
    ]
    known = [(words, gain) for words, gain in gains if gain is not None]
    if not known:
        return ""
    up, down = ([words for words, gain in known if _sign(gain) == sign] for sign in (1, -1))
    means = [gain.mean for _, gain in known]
    return (
        "\n\n**One report of the record and the whole list** costs the total whatever differs in "
        "both. It is "
        f"above joint in {len(up)} of {len(known)} settings ({_listed(up)}) by up to "
        f"{max(means):.1f} points, and "
        f"below it in {len(down)} ({_listed(down)}) by up to {-min(means):.1f}."
        f"{_of_placebos(cells, methods.ONE_PLACEBO)}"
        f"{_of_checks(cells, ONE, methods.ONE_CHECKED, methods.ONE_CHECKED_PLACEBO)}"
    )


def _of_ceilings(cells: _Cells) -> str:
    """How far joint is from what no report of the class that is found exceeds."""
    found = {
        f"{name} at {total:g}": (regained(part, JOINT, total), regained(part, CEILING, total))
        for name, _, part, total in cells
    }
    both = {
        words: (mine, most)
        for words, (mine, most) in found.items()
        if mine is not None and most is not None
    }
    if not both:
        return ""
    above = [words for words, (mine, most) in both.items() if mine > most]
    near = sum(0 <= most - mine <= LITTLE for mine, most in both.values())
    far = max(both, key=lambda words: both[words][1] - both[words][0])
    mine, most = both[far]
    return (
        "\n\n**The ceiling of one report**: devices that know the class that true records and "
        "graph give, and "
        f"report it by the best of all mechanisms, regain no more. Of {len(both)} settings joint "
        "is at most "
        f"{LITTLE:.0%} of the way below it in {near}, above it in {len(above)} ({_listed(above)}: "
        "a split protects "
        f"a list bit by bit), and farthest below it on {far} ({mine:.0%}, ceiling {most:.0%})."
    )


def _sign(gain: ConfidenceInterval | None) -> float:
    """Of a gain whose interval leaves 0 out; else 0."""
    return np.sign(gain.mean) if gain is not None and show.significant(gain) else 0.0


def _of_placebos(cells: _Cells, placebo: str) -> str:
    """How often records and lists of others do harm, and how much."""
    found = [_interval(part, placebo, total, OVER_NOTHING) for _, _, part, total in cells]
    known = [one for one in found if one is not None]
    if not known:
        return ""
    below = [one for one in known if _sign(one) < 0]
    most = f", by up to {-min(one.mean for one in below):.1f} points" if below else ""
    return (
        " With records and lists of other private users (placebo) it is below nothing asked in "
        f"{len(below)} of "
        f"{len(known)}{most}: beside a panel alone nothing tells that records are somebody "
        "else's, and the panel's "
        "own lists are true."
    )


def _of_checks(cells: _Cells, true: str, checked: str, placebo: str) -> str:
    """What a check of the panel mends, and what it costs where reports are true."""
    fakes = [_interval(part, placebo, total, OVER_NOTHING) for _, _, part, total in cells]
    costs = [_less(part, (checked, total), (true, total)) for _, _, part, total in cells]
    harm = [one for one in fakes if one is not None]
    means = [one.mean for one in costs if one is not None]
    if not harm or not means:
        return ""
    return (
        " Where some of the panel reports as private users do (checked), the placebo is below "
        "nothing asked in "
        f"{sum(_sign(one) < 0 for one in harm)} of {len(harm)}, at worst "
        f"{min(one.mean for one in harm):+.1f} "
        f"points. True reports lose by that check {-min(means):.1f} points at most, "
        f"{-np.mean(means):.1f} in the "
        "mean."
    )


def _listed(words: list[str]) -> str:
    return ", ".join(words) or "none"


@show.tabled
def summary(found: pd.DataFrame) -> show.Rows:
    for (dataset, setting), part in found.groupby(_points.PANEL, sort=False):
        for total in totals(part):
            foreseen = _interval(part, JOINT, total, FORESEEN)
            mine = (JOINT, total)
            yield {
                "graph, panel (members)": f"{dataset}, {setting} ({part.members.iloc[0]})",
                "total": f"{total:g}",
                "nothing asked (%)": _interval(part, NOTHING, 0.0, _points.ACCURACY),
                "joint (%)": _interval(part, JOINT, total, _points.ACCURACY),
                "foreseen (%)": "" if foreseen is None else f"{foreseen.mean:.1f}",
                "less nothing asked": show.signed(_interval(part, JOINT, total, OVER_NOTHING)),
                "less record alone": show.signed(_interval(part, JOINT, total, OVER_RECORDS)),
                "less list alone": show.signed(_less(part, mine, (LISTS, total))),
                "one report (%)": _interval(part, ONE, total, _points.ACCURACY),
                "one report, less joint": show.signed(_interval(part, ONE, total, OVER_JOINT)),
                "record's share (draws)": _shares(part, JOINT, total),
                "labels too, less joint": show.signed(
                    _less(part, (methods.LABELS_TOO, total), mine)
                ),
                "placebo, less nothing asked": show.signed(
                    _interval(part, methods.PLACEBO, total, OVER_NOTHING)
                ),
                "checked placebo": show.signed(
                    _interval(part, methods.CHECKED_PLACEBO, total, OVER_NOTHING)
                ),
                "checked, less joint": show.signed(_less(part, (methods.CHECKED, total), mine)),
                "public graph, less joint": show.signed(_less(part, (methods.PUBLIC, total), mine)),
                "public graph without reports, less joint": show.signed(
                    _less(part, (PUBLIC_ALONE, 0.0), mine)
                ),
                "non-private (%)": _interval(part, TRUE_ALL, np.inf, _points.ACCURACY),
                "regained": _percent(regained(part, JOINT, total)),
                "ceiling of one report": _percent(regained(part, CEILING, total)),
            }


def _shares(part: pd.DataFrame, mechanism: str, total: float) -> str:
    """Which share of the total records got, and in how many draws."""
    counts = (
        _points.pick(part, mechanism=mechanism, epsilon=total, metric=SHARE)
        .value.round(2)
        .value_counts()
    )
    words = {share: "one report" if share > 1 else f"{share:.0%}" for share in counts.index}
    return ", ".join(f"{words[share]} ({count})" for share, count in counts.items())


@show.tabled
def _table(part: pd.DataFrame) -> show.Rows:
    for (mechanism, epsilon), one in part.groupby(["mechanism", "epsilon"], sort=False):
        row = (str(mechanism), float(epsilon))
        over = partial(_points.interval_of, one)
        yield {
            "row": row[0],
            "total": f"{epsilon:g}" if 0 < epsilon < np.inf else "",
            "draws": one.seed.nunique(),
            "accuracy (%)": over(_points.ACCURACY),
            "less nothing asked": "" if mechanism == NOTHING else show.signed(over(OVER_NOTHING)),
            "less record alone": "" if mechanism == RECORDS else show.signed(over(OVER_RECORDS)),
            "record's share (draws)": _shares(part, *row),
            "regained": _percent(regained(part, *row)),
        }


_STYLES: dict[str, tuple[str, str, str, float, str]] = {
    "record and list private (joint)": (JOINT, "#c1272d", "o", 2.0, "-"),
    "one report of both": (ONE, "#b5179e", "P", 1.6, "-"),
    "the panel's labels too": (methods.LABELS_TOO, "#e8963c", "s", 1.2, "-"),
    "record alone": (RECORDS, "#7a5c99", "v", 1.0, "--"),
    "list alone": (LISTS, "#2f7d4f", "^", 1.0, "--"),
    "friendships public, record private": (methods.PUBLIC, "#3b6fa0", "D", 1.4, "-"),
    "ceiling of one report": (CEILING, "#8c8c8c", "_", 1.2, ":"),
}


def _figure(found: pd.DataFrame) -> Any:
    """A panel a graph: accuracy against the total, between nothing asked and the truth."""
    groups = list(found.groupby(_points.PANEL, sort=False))
    figure, axes = show.panels(len(groups), width=4.0 if len(groups) > 1 else 6.5, height=3.2)
    for axis, ((dataset, setting), part) in zip(axes, groups, strict=True):
        _draw(axis, part)
        axis.set_title(f"{dataset}, a panel of {_points.panel_words(str(setting))}", fontsize=9)
    show.legend_below(figure, axes[0], 4 if len(groups) > 1 else 3)
    return figure


def _draw(axis: Any, part: pd.DataFrame) -> None:
    """Bars are the intervals of gains over nothing asked, which are paired by draw."""
    nothing, true = (
        _interval(part, *row, _points.ACCURACY) for row in ((NOTHING, 0.0), (TRUE_ALL, np.inf))
    )
    own = own_colours(part.mechanism)
    budgets = sorted({*totals(part), *part[part.mechanism.isin(list(own))].epsilon})
    styles = _STYLES | {name: (name, colour, "*", 1.6, "-") for name, colour in own.items()}
    for label, (name, colour, marker, width, line) in styles.items():
        shown = {}
        for total in budgets:
            at, gain = (
                _interval(part, name, total, metric) for metric in (_points.ACCURACY, OVER_NOTHING)
            )
            if at is not None and gain is not None:
                shown[total] = gain._replace(mean=at.mean)
        show.errorbars(
            axis,
            shown,
            label=label,
            color=colour,
            marker=marker,
            markersize=4,
            linewidth=width,
            linestyle=line,
            zorder=3 if name == JOINT else 2,
        )
    if nothing is not None:
        axis.axhline(
            nothing.mean, color="black", linewidth=1.2, linestyle=":", label="nothing asked"
        )
    if true is not None:
        axis.axhline(
            true.mean, color="black", linewidth=1.0, label="true records and graph, no privacy"
        )
    show.log_ticks(axis, budgets, base=2)
    axis.set(xlabel="total epsilon of a user", ylabel="test accuracy (%)")


def digest(results: Results) -> str:
    return f"{_TEXT.told}\n\n{verdict(points(results.read()))}"
