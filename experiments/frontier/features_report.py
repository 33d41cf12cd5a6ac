"""Tables and figures of private features beside a public panel.

Nothing is computed but statistics.
"""

from typing import Any

import numpy as np
import pandas as pd

from experiments import _report as show
from experiments._common import own_colours
from experiments._runner import Results
from experiments.frontier import _points, features, rehearsal_report
from experiments.frontier import features_methods as methods
from experiments.frontier.features_methods import LOCAL, PLACEBO, PRIVGE
from ldp_jax.learning.metrics import ConfidenceInterval

_TEXT = show.prose("frontier_features")
NAME, results_in = features.NAME, features.results_in

OVER_BEST, OVER_CHOSEN = "gain over best structure-only", "gain over chosen structure-only"
STRENGTH = "strength of the guard"
SHOWN, SHOWN_ALONE = "correlation with the true embedding", "that of structure alone"
"""Metrics beside accuracy: points, but for the guard's strength and correlations."""

_KEY = [*_points.PANEL, "members", "mechanism", "epsilon"]
_CELL = [*_points.PANEL, "epsilon"]


def points(frame: pd.DataFrame) -> pd.DataFrame:
    """Accuracy and gains in points, one row a draw; tidy.

    *Best structure-only* is the best by the mean, of rows with all draws: a choice that sees the
    test, so that the gain over it is understated. *Chosen* is the row that the panel's log-loss
    prefers in each draw.
    """
    rows = []
    seen = _points.pick(frame, mechanism=methods.FIDELITY)
    seen = seen.assign(panel=[f"{float(setting):g}" for setting in seen.panel])
    for (dataset, panel, members), parts in _points.by_panel(frame):
        values = {key: 100 * one.value for key, one in parts.items()}
        best, chosen = (
            values.get((name, 0.0)) for name in (best_structure(values), methods.CHOSEN)
        )
        beside = {OVER_BEST: best, OVER_CHOSEN: chosen}
        for (mechanism, epsilon), mine in values.items():
            found = {_points.ACCURACY: mine}
            if epsilon > 0:
                found |= _points.differences(mine, beside)
                found[STRENGTH] = pd.to_numeric(parts[mechanism, epsilon].strength).dropna()
            if mechanism == PRIVGE:
                of_this = _points.pick(seen, dataset=dataset, panel=panel, epsilon=epsilon)
                for name, metric in (
                    (SHOWN, methods.CORRELATION),
                    (SHOWN_ALONE, methods.STRUCTURE_CORRELATION),
                ):
                    found[name] = _points.pick(of_this, metric=metric).set_index("seed").value
            rows.append(((dataset, panel, members, mechanism, epsilon), found))
    return _points.tidy(_KEY, rows)


def best_structure(values: dict[Any, pd.Series]) -> str | None:
    """The structure-only row of the best mean, of those with the most draws.

    None where there is none.
    """
    known = {
        name: series for (name, _), series in values.items() if name.startswith(methods.STRUCTURE)
    }
    most = max(map(len, known.values()), default=0)
    whole = {name: series.mean() for name, series in known.items() if len(series) == most}
    return max(whole, key=lambda name: whole[name]) if whole else None


def pages(frame: pd.DataFrame) -> tuple[dict[str, str], dict[str, Any], pd.DataFrame]:
    found = points(frame)
    sections = [
        "# Private features beside a public panel: what a report is worth",
        _TEXT.preface,
        _counted(found),
    ]
    figures = {NAME: _figure(found)}
    sections.append(f"![Gains over structure alone]({NAME}.png)")
    if sizes := _of_sizes(found):
        figures[f"{NAME}_panels"] = _size_figure(sizes)
        sections.append(f"![Gain against the size of the panel]({NAME}_panels.png)")
    foretold = rehearsal_report.outcomes(
        frame, _points.pick(found, mechanism=LOCAL, metric=OVER_CHOSEN)
    )
    sections += ["## All graphs", summary(found)]
    if said := alphabets(found):
        sections += ["## A few likely classes, or all", _TEXT.alphabets, said]
    about = "the panel and the graph alone", "chosen structure"
    sections += rehearsal_report.sections(foretold, figures, NAME, *about)
    for (dataset, setting), part in found.groupby(_points.PANEL, sort=False):
        title = f"## {dataset}, a panel of {_points.panel_words(str(setting))}"
        sections += [title, table(part), _public_table(part)]
    return {NAME: "\n\n".join(sections)}, figures, found


def _is_private(part: pd.DataFrame) -> pd.Series:
    return (part.epsilon > 0) & np.isfinite(part.epsilon)


@show.tabled
def table(part: pd.DataFrame) -> show.Rows:
    for (mechanism, epsilon), one in part[_is_private(part)].groupby(
        ["mechanism", "epsilon"], sort=False
    ):
        strength, shown, alone = (
            _points.interval_of(one, metric) for metric in (STRENGTH, SHOWN, SHOWN_ALONE)
        )
        row = {
            "row": mechanism,
            "eps": f"{epsilon:g}",
            "draws": one.seed.nunique(),
            "accuracy (%)": _points.interval_of(one, _points.ACCURACY),
            "less best structure-only": show.signed(_points.interval_of(one, OVER_BEST)),
            "less chosen": show.signed(_points.interval_of(one, OVER_CHOSEN)),
            "guard's s": "" if strength is None else f"{strength.mean:.2f}",
        }
        if (part.metric == SHOWN).any():
            row["fidelity"] = (
                "" if shown is None or alone is None else f"{shown.mean:.2f} ({alone.mean:.2f})"
            )
        yield row


def _public_table(part: pd.DataFrame) -> str:
    """What is said without private records, and with all of them; the best first."""
    rows = [
        (str(mechanism), one.seed.nunique(), _points.interval_of(one, _points.ACCURACY))
        for mechanism, one in part[~_is_private(part)].groupby("mechanism", sort=False)
    ]
    rows.sort(key=lambda row: -row[2].mean if row[2] else 0.0)
    return show.markdown(["row without reports, or without privacy", "draws", "accuracy (%)"], rows)


def best_name(part: pd.DataFrame) -> str | None:
    """Of one graph and panel, the best structure-only row by the mean of its draws."""
    at = _points.pick(part, metric=_points.ACCURACY, epsilon=0.0)
    return best_structure(
        {(name, 0.0): one.value for name, one in at.groupby("mechanism", sort=False)}
    )


def _budgets(part: pd.DataFrame) -> list[float]:
    return sorted(_points.pick(part, mechanism=LOCAL).epsilon.unique())


def _helps_from(part: pd.DataFrame, metric: str) -> str:
    """The least budget from which all gains have an interval above 0, or that there is none."""
    budgets = _budgets(part)
    first = show.first_sure(
        [_points.interval_of(part, metric, mechanism=LOCAL, epsilon=at) for at in budgets]
    )
    return f"{budgets[first]:g}" if first < len(budgets) else "none"


def _true(part: pd.DataFrame, metric: str) -> ConfidenceInterval | None:
    rows = _points.intervals(
        part[part.mechanism.str.startswith(methods.TRUE)], ["mechanism"], metric=metric
    )
    return max(rows.values(), key=lambda one: one.mean, default=None)


def _worst(part: pd.DataFrame, mechanism: str) -> str:
    """Over budgets, the least gain over what the panel chose: what a user may lose."""
    rows = _points.intervals(part, ["epsilon"], mechanism=mechanism, metric=OVER_CHOSEN)
    return show.signed(min(rows.values(), key=lambda one: one.mean, default=None))


@show.tabled
def summary(found: pd.DataFrame) -> show.Rows:
    """A line a graph and panel: from which budget reports help, and what may be lost."""
    budgets = _budgets(found)
    for (dataset, panel), part in found.groupby(_points.PANEL, sort=False):
        each = _points.intervals(part, ["epsilon"], mechanism=LOCAL, metric=OVER_BEST)
        yield {
            "graph, panel (members)": f"{dataset}, {panel} ({part.members.iloc[0]})",
            "draws": part.seed.nunique(),
            "best structure-only (%)": _points.interval_of(
                part, _points.ACCURACY, mechanism=best_name(part)
            ),
            "chosen (%)": _points.interval_of(part, _points.ACCURACY, mechanism=methods.CHOSEN),
            **{
                f"eps {epsilon:g}, less best": show.signed(each.get((epsilon,)))
                for epsilon in budgets
            },
            "best non-private (%)": _true(part, _points.ACCURACY),
            "above best from eps": _helps_from(part, OVER_BEST),
            "above chosen from eps": _helps_from(part, OVER_CHOSEN),
            "worst less chosen": _worst(part, LOCAL),
            "worst placebo less chosen": _worst(part, PLACEBO),
            "without the guard": _worst(part, methods.UNGUARDED_PLACEBO),
        }


@show.tabled
def alphabets(found: pd.DataFrame) -> show.Rows:
    """What a plain alphabet is worth beside a personal one."""
    for (dataset, setting), part in found.groupby(_points.PANEL, sort=False):
        at = _points.pick(part, metric=_points.ACCURACY).set_index("seed")
        for epsilon in _budgets(part):
            plain = _points.pick(at, mechanism=methods.PLAIN, epsilon=epsilon)
            if plain.empty:
                continue
            personal = _points.pick(at, mechanism=LOCAL, epsilon=epsilon)
            gain = _points.interval_of(part, OVER_BEST, mechanism=LOCAL, epsilon=epsilon)
            yield {
                "graph, panel": f"{dataset}, {setting}",
                "eps": f"{epsilon:g}",
                "a few, less best structure-only": show.signed(gain),
                "all, less a few": show.signed(show.paired(plain.value, personal.value)),
            }


def gains(found: pd.DataFrame, mechanism: str, metric: str) -> dict[Any, ConfidenceInterval]:
    """By graph, panel and budget."""
    return _points.intervals(found, _CELL, mechanism=mechanism, metric=metric)


def _counted(found: pd.DataFrame) -> str:
    """How many gains have an interval beside 0, alone and after Bonferroni's correction."""
    k, up, down, up_all = _points.together(found, _CELL, mechanism=LOCAL, metric=OVER_BEST)
    chosen_up, chosen_down, _ = show.counted(gains(found, LOCAL, OVER_CHOSEN).values())
    return (
        f"There are {k} gains of local prediction over the best structure-only row (graph, panel, "
        f"epsilon). {up} "
        f"have an interval above 0, {down} below; at the joint level (Bonferroni, 1 - 0.05 / {k}) "
        f"{up_all} are "
        f"above. Over the row chosen on the panel {chosen_up} are above, {chosen_down} below."
    )


def digest(results: Results) -> str:
    return _counted(points(results.read()))


_SHADES = ("#f4b6b0", "#e0736c", "#c1272d", "#6b0f14")
"""Of budgets, the largest the darkest."""
_BESIDE = (
    ("true records, no privacy", "black", "|", 12, 2),
    ("placebo: others' records", "#3b6fa0", "D", 4, 3),
)


def _figure(found: pd.DataFrame) -> Any:
    """A line a graph and panel, all of them, the largest gain on top; a mark a budget."""
    budgets = _budgets(found)
    rows: list[tuple[Any, ...]] = []
    for (dataset, panel), part in found.groupby(_points.PANEL, sort=False):
        mine, fakes = (
            [
                _points.interval_of(part, OVER_BEST, mechanism=name, epsilon=epsilon)
                for epsilon in budgets
            ]
            for name in (LOCAL, PLACEBO)
        )
        if any(mine):
            words = _points.panel_words(str(panel)).replace("of each class", "a class")
            fake = next(filter(None, fakes[::-1]), None)
            rows.append((f"{dataset}, {words}", mine, _true(part, OVER_BEST), fake, part))
    rows.sort(key=lambda row: max(one.mean for one in row[1] if one is not None))
    parts = [row[-1] for row in rows]
    made, axis = show.pyplot().subplots(figsize=(7.4, 0.24 * len(rows) + 1.7))
    axis.axvline(
        0.0,
        color="#3b6fa0",
        linestyle="--",
        linewidth=1.2,
        label="the graph and the panel alone, best row",
    )
    for label, colour, marker, size, column in _BESIDE:
        values = [np.nan if row[column] is None else row[column].mean for row in rows]
        style = {"marker": marker, "markersize": size, "linestyle": "", "zorder": 4}
        axis.plot(values, np.arange(len(rows)), label=label, color=colour, **style)
    for number, epsilon in enumerate(budgets):
        colour = _SHADES[max(number - len(budgets), -len(_SHADES))]
        _points.plot_means(
            axis,
            dict(enumerate(row[1][number] for row in rows)),
            marker="o",
            markersize=5,
            color=colour,
            capsize=1.5,
            linewidth=1.0,
            label=f"private reports, epsilon {epsilon:g}",
        )
    for name, colour in own_colours(found.mechanism).items():
        budget = found[found.mechanism == name].epsilon.max()
        mine = [
            _points.interval_of(part, OVER_BEST, mechanism=name, epsilon=budget) for part in parts
        ]
        style = {"marker": "*", "color": colour, "label": f"{name}, epsilon {budget:g}"}
        _points.plot_means(axis, dict(enumerate(mine)), markersize=9, **style)
    up, down, _ = show.counted(each := gains(found, LOCAL, OVER_BEST).values())
    won = (
        f"Reports beat the graph and the panel alone in {up} of {len(each)} settings and "
        f"budgets, lose in {down}"
    )
    names = [name for name, *_ in rows]
    _points.plot_settings(axis, names, won, "the best row from the graph and the panel alone")
    return made


def _of_sizes(found: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Graphs that were asked with three panels or more."""
    return [
        (str(name), part)
        for name, part in found.groupby("dataset", sort=False)
        if part.panel.nunique() > 2
    ]


def _size_figure(groups: list[tuple[str, pd.DataFrame]]) -> Any:
    """Gain over the best structure-only row against the panel's size, a line a budget."""
    figure, axes = show.panels(len(groups), width=4.0, height=3.2)
    for axis, (name, part) in zip(axes, groups, strict=True):
        for epsilon, of_budget in _points.pick(part, mechanism=LOCAL, metric=OVER_BEST).groupby(
            "epsilon"
        ):
            shown = {
                size: one
                for (size,), one in sorted(_points.intervals(of_budget, ["members"]).items())
            }
            show.errorbars(axis, shown, label=f"eps {epsilon:g}", markersize=4, linewidth=1.4)
        axis.axhline(0.0, color="black", linewidth=1.0)
        show.log_ticks(axis, sorted(part.members.unique()))
        axis.set(xlabel="members of the panel", ylabel="gain over best structure-only (points)")
        axis.set_title(name, fontsize=9)
    show.legend_below(figure, axes[0], 4)
    return figure
