"""Tables and figures of private friendships; nothing is computed but statistics."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from experiments import _report as show
from experiments._common import own_colours
from experiments._runner import Results
from experiments.frontier import _points, friendships, methods, rehearsal_report
from experiments.frontier.methods import CEILING, FEATURES, PILOTED, PLAIN, PUBLISHED_METHODS
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RELATIONSHIP
from ldp_jax.learning.metrics import ConfidenceInterval, mean_interval

_TEXT = show.prose("frontier_edges")
NAME, results_in = friendships.NAME, friendships.results_in

OVER_FEATURES, OVER_PLAIN, OVER_PUBLISHED = (
    f"gain over {other}" for other in ("features", "plain counts", "best published")
)
METRICS = (_points.ACCURACY, OVER_FEATURES, OVER_PLAIN, OVER_PUBLISHED)
SETTING = ["dataset", "labels"]
_KEY = [*SETTING, "unit", "mechanism", "epsilon"]
_LIST = str(NEIGHBOUR_LIST)
_PAIR = str(RELATIONSHIP)
ALONE = (FEATURES, "features, perceptron")
"""What public features say, which the best published row is chosen among too."""


def points(frame: pd.DataFrame) -> pd.DataFrame:
    """Accuracy and gains in points, one row a draw; tidy.

    *Best published* is the best by the mean over these draws, features alone among them: a choice
    that sees the test, so that the gain over it is understated. A row per relationship is compared
    with lists of half its epsilon, whose two ends cost as much.
    """
    rows = []
    for setting, part in frame[frame.metric == _points.ACCURACY].groupby(SETTING, sort=False):
        values = show.by_seed(part, ["unit", "mechanism", "epsilon"])
        published: dict[Any, pd.Series | None] = {}  # by budget and draws, which many rows share
        for (unit, mechanism, epsilon), mine in values.items():
            per_list = epsilon / 2 if unit == _PAIR else epsilon
            if (asked := (per_list, *mine.index)) not in published:
                published[asked] = _best_published(values, per_list, mine.index)
            beside = {
                OVER_FEATURES: values.get((_LIST, FEATURES, 0.0)),
                OVER_PLAIN: values.get((_LIST, PLAIN, per_list)),
                OVER_PUBLISHED: published[asked],
            }
            gained = _points.differences(mine, beside) if 0 < epsilon < np.inf else {}
            rows.append(((*setting, unit, mechanism, epsilon), {_points.ACCURACY: mine, **gained}))
    return _points.tidy(_KEY, rows)


def _best_published(
    values: dict[Any, pd.Series], epsilon: float, draws: pd.Index
) -> pd.Series | None:
    """All draws of the best row by the mean over shared draws.

    None where none was run but noisy degrees.
    """
    names = [name for name in PUBLISHED_METHODS if (_LIST, name, epsilon) in values]
    if not set(names) - {"noisy degree"}:
        return None
    rows = [(name, epsilon) for name in names] + [
        (name, 0.0) for name in ALONE if (_LIST, name, 0.0) in values
    ]
    known = [values[_LIST, *row] for row in rows]
    for series in known:
        draws = draws.intersection(series.index)
    mean = lambda series: (series if series.index.equals(draws) else series[draws]).mean()
    return max(known, key=mean) if len(draws) else None


def pages(frame: pd.DataFrame) -> tuple[dict[str, str], dict[str, Any], pd.DataFrame]:
    found = points(frame)
    sections = ["# Private friendships: what the message is worth", _TEXT.preface]
    for (dataset, labels), part in found.groupby(SETTING, sort=False):
        known = "half of the labels" if labels == "half" else f"{labels} labels a class"
        sections += [f"## {dataset}, {known}", table(part)]
    lines = gains(found)
    short = shortfalls(found)
    said = _counted(found, short), worth(lines), _ceiling(lines), _summary(found, lines, short)
    sections += filter(None, ("## All graphs", *said))
    figures = (
        {f"{NAME}_gains": _gains_figure(lines, shown_at(found)), NAME: _figure(found, lines)}
        if lines
        else {}
    )
    titles = ("Gains over the features alone", "Gains against epsilon")
    sections[2:2] = [
        f"![{title}]({stem}.png)" for title, stem in zip(titles, figures, strict=False)
    ]
    measured = _points.pick(found, mechanism=PILOTED, unit=_LIST, metric=OVER_FEATURES)
    foretold = rehearsal_report.outcomes(frame, measured, "labels", methods.WORLDS)
    told = (
        "features, labels, and friendships stated as they are (mean degree, spread, homophily, "
        "overlap, echo)"
    )
    # That features mislead friends alike was seen on the last two.
    chosen = (*rehearsal_report.CHOSEN_ON_LISTS, "facebook_pages", "amazon_photo")
    about = told, "features alone", chosen
    sections += rehearsal_report.sections(foretold, figures, NAME, *about)
    return {NAME: "\n\n".join(sections)}, figures, found


def _short_setting(labels: str) -> str:
    return labels if labels == "half" else f"{labels} a class"


@show.tabled
def table(part: pd.DataFrame) -> show.Rows:
    for (unit, mechanism, epsilon), one in part.groupby(
        ["unit", "mechanism", "epsilon"], sort=False
    ):
        features, plain, published = (
            show.signed(_points.interval_of(one, metric)) for metric in METRICS[1:]
        )
        yield {
            "row": f"{mechanism}, per relationship" if unit == _PAIR else mechanism,
            "eps": f"{epsilon:g}",
            "draws": one.seed.nunique(),
            "accuracy (%)": _points.interval_of(one, _points.ACCURACY),
            "less features": "" if mechanism == FEATURES else features,
            "less plain counts": "" if mechanism in (FEATURES, PLAIN) else plain,
            "less best published": published if mechanism.startswith(PILOTED) else "",
        }


def shortfalls(found: pd.DataFrame) -> dict[Any, ConfidenceInterval]:
    """Two-round counts less the better of features and plain counts, per list."""
    rows = _points.pick(found, unit=_LIST, metric=_points.ACCURACY)
    rows = rows[rows.mechanism.isin([PILOTED, PLAIN, FEATURES])].groupby(
        [*SETTING, "mechanism", "epsilon"]
    )
    each = {key: one.set_index("seed").value for key, one in rows}
    made = {}
    for (*setting, mechanism, epsilon), mine in each.items():
        plain = each.get((*setting, PLAIN, epsilon))
        alone = each.get((*setting, FEATURES, 0.0))
        if mechanism == PILOTED and plain is not None and alone is not None:
            seeds = mine.index.intersection(plain.index).intersection(alone.index)
            better = max((plain[seeds], alone[seeds]), key=lambda one: one.mean())
            made[*setting, epsilon] = mean_interval((mine[seeds] - better).to_numpy())
    return made


def placebos(found: pd.DataFrame) -> dict[Any, ConfidenceInterval]:
    """With the guard, placebos less features alone; by setting and budget."""
    return _points.intervals(
        found, [*SETTING, "epsilon"], mechanism=methods.PLACEBO, metric=OVER_FEATURES
    )


def _named(each: dict[Any, ConfidenceInterval]) -> str:
    """Settings and their budgets, in brackets; nothing where there are none."""
    by: dict[str, list[str]] = {}
    for dataset, labels, epsilon in each:
        by.setdefault(f"{dataset} {labels}", []).append(f"{epsilon:g}")
    words = [f"{name} at {', '.join(budgets)}" for name, budgets in by.items()]
    return f" ({'; '.join(words)})" if words else ""


def _misses(found: pd.DataFrame, short: dict[Any, ConfidenceInterval]) -> dict[str, Any]:
    """How often two-round counts lose a point to simpler rows, and permuted controls differ."""
    fake = placebos(found)
    below = {key: one for key, one in short.items() if one.mean < -1.0}
    beside = {key: one for key, one in fake.items() if abs(one.mean) > 1.0}
    return {
        "asked": len(short), "short": len(below), "short_where": _named(below),
        "short_sure": sum(show.significant(one) for one in below.values()),
        "placebos": len(fake), "fooled": len(beside), "fooled_where": _named(beside),
        "fooled_sure": sum(show.significant(one) for one in fake.values()),
    }  # fmt: skip


def _counted(found: pd.DataFrame, short: dict[Any, ConfidenceInterval]) -> str:
    """How many gains have an interval beside 0, alone and after Bonferroni, and what is missed."""
    of_piloted = {"mechanism": PILOTED, "unit": _LIST, "metric": OVER_FEATURES}
    rows, up, down, up_all = _points.together(found, [*SETTING, "epsilon"], **of_piloted)
    return _TEXT.counted.format(rows=rows, up=up, down=down, up_all=up_all, **_misses(found, short))


def _worst(each: dict[Any, ConfidenceInterval], setting: tuple[str, str]) -> str:
    """Over budgets, the least of a setting."""
    here = [one for (dataset, labels, _), one in each.items() if (dataset, labels) == setting]
    return show.signed(min(here, key=lambda one: one.mean, default=None))


@show.tabled
def _summary(
    found: pd.DataFrame, lines: "list[Line]", short: dict[Any, ConfidenceInterval]
) -> show.Rows:
    """Of every graph and setting what is gained at epsilon 1, and over budgets what may be lost."""
    fakes = placebos(found)
    epsilon = shown_at(found)
    for line in lines:
        setting = line.dataset, line.labels
        at = _points.pick(
            found, dataset=line.dataset, labels=line.labels, epsilon=epsilon, unit=_LIST
        )
        unguarded = _points.interval_of(at, OVER_FEATURES, mechanism=methods.UNGUARDED_PLACEBO)
        fewer = (
            f" ({line.cost.n} draws)" if line.cost is not None and line.cost.n < line.mine.n else ""
        )
        yield {
            "graph, labels": ", ".join(setting),
            "draws": line.mine.n,
            "features": line.features,
            f"piloted, eps {epsilon:g}": _points.interval_of(
                at, _points.ACCURACY, mechanism=PILOTED
            ),
            "less features": show.signed(line.mine),
            "less plain counts": show.signed(line.added),
            "less best published": show.signed(line.over),
            "published rows and features alone": line.among or "",
            "without noise, less piloted": show.signed(line.cost) + fewer,
            "worst less better of features and plain counts": _worst(short, setting),
            "worst placebo less features": _worst(fakes, setting),
            "placebo without guard": show.signed(unguarded),
        }


class Line(NamedTuple):
    """One graph and setting at one epsilon per bit: points over features alone, paired by draw."""

    dataset: str
    labels: str
    """whose are public"""
    features: ConfidenceInterval | None
    """the accuracy (%) of the features alone"""
    mine: ConfidenceInterval
    """piloted counts"""
    plain: ConfidenceInterval | None
    """plain counts"""
    added: ConfidenceInterval | None
    """piloted counts less plain counts"""
    published: float | None
    """the best published row, where lists were run"""
    over: ConfidenceInterval | None
    """piloted counts less that row"""
    among: int
    """how many rows that is the best of, features alone among them"""
    cost: ConfidenceInterval | None
    """the same classifier on counts without noise less piloted counts, over the draws of both"""

    @property
    def ceiling(self) -> float | None:
        """What is gained without noise: what is with it, and what noise costs."""
        return None if self.cost is None else self.mine.mean + self.cost.mean


def shown_at(found: pd.DataFrame) -> float:
    """The budget of pictures and counts.

    1, or the least one where a run of a user's has no rows of that.
    """
    budgets = _points.pick(found, unit=_LIST, mechanism=PILOTED).epsilon
    return 1.0 if (budgets == 1.0).any() else float(budgets.min())


def gains(found: pd.DataFrame) -> list[Line]:
    """Of all graphs and settings, in alphabetical order, at the budget of :func:`shown_at`."""
    lines = []
    epsilon = shown_at(found)
    for (dataset, labels), part in _points.pick(found, unit=_LIST).groupby(SETTING):
        at = _points.pick(part, epsilon=epsilon)
        mine, plain = (
            _points.interval_of(at, OVER_FEATURES, mechanism=name) for name in (PILOTED, PLAIN)
        )
        if mine is None:
            continue
        own = _points.pick(at, mechanism=PILOTED)
        features = _points.interval_of(part, _points.ACCURACY, mechanism=FEATURES)
        over = _points.interval_of(own, OVER_PUBLISHED)
        paired = own.pivot_table(index="seed", columns="metric", values="value")
        published = (
            None if over is None else float((paired[OVER_FEATURES] - paired[OVER_PUBLISHED]).mean())
        )
        scores = _points.pick(part, metric=_points.ACCURACY)
        draws = scores.pivot_table(index="seed", columns="mechanism", values="value")
        exact = draws[CEILING] - draws[FEATURES] if CEILING in draws else pd.Series(dtype=float)
        cost = (exact - paired[OVER_FEATURES]).dropna().to_numpy()
        known = {*at.mechanism} & {*PUBLISHED_METHODS} | {*part.mechanism} & {*ALONE}
        lines.append(
            Line(
                str(dataset),
                str(labels),
                features,
                mine,
                plain,
                _points.interval_of(own, OVER_PLAIN),
                published,
                over,
                len(known) if over is not None else 0,
                mean_interval(cost) if len(cost) else None,
            )
        )
    return lines


_STYLES: dict[str, tuple[str, str, str]] = {
    "piloted counts (ours)": (PILOTED, "#c1272d", "o"),
    "plain counts": (PLAIN, "#e8963c", "s"),
    "LPGNet, local": ("lpgnet", "#7a5c99", "v"),
    "Blink": ("blink", "#5b8c5a", "^"),
    "DPRR": ("dprr", "#3b6fa0", "D"),
    "randomised response": ("rr,", "#7f7f7f", "x"),
}
"""By label: how the names of its rows begin, of which the best by the mean of the draws is shown at
each budget.
"""


def _figure(found: pd.DataFrame, lines: list[Line]) -> Any:
    """Of all graphs and settings a panel, the largest gain first: gains against epsilon.

    A row has one scale.
    """
    parts = dict(list(_points.pick(found, unit=_LIST).groupby(SETTING)))
    lines = sorted(lines, key=lambda line: -line.mine.mean)
    across = min(len(lines), 8)
    width = 2.3 if len(lines) > 3 else 7.0 / len(lines)
    figure, axes = show.panels(len(lines), width=width, height=2.2, columns=across)
    for axis, line in zip(axes, lines, strict=True):
        draw(axis, parts[line.dataset, line.labels], line.ceiling)
        axis.set_title(f"{line.dataset}, {_short_setting(line.labels)}", fontsize=8)
    for start in range(0, len(axes), across):
        of_row = axes[start : start + across]
        seen = np.concatenate(
            [np.append(mark.get_ydata(), 0.0) for axis in of_row for mark in axis.lines]
        )
        room = 0.1 * max(np.ptp(seen), 1.0)
        for axis in of_row:
            axis.set_ylim(np.nanmin(seen) - room, np.nanmax(seen) + room)
        of_row[0].set_ylabel("points over features")
    fullest = max(axes, key=lambda axis: len(axis.get_legend_handles_labels()[0]))
    figure.suptitle(f"{_won(lines, shown_at(found))} (gain against epsilon per bit of a list)")
    show.legend_below(figure, fullest, 4)
    return figure


def draw(axis: Any, part: pd.DataFrame, ceiling: float | None) -> None:
    """Gains over the features alone, in points, against epsilon of one graph and setting."""
    part = _points.pick(part, metric=OVER_FEATURES)
    own = {name: (name, colour, "*") for name, colour in own_colours(part.mechanism).items()}
    for label, (begins, colour, marker) in (_STYLES | own).items():
        names = [name for name in part.mechanism.unique() if name.startswith(begins)]
        names = [name for name in names if not name.startswith(f"{PILOTED},")]  # not its placebo
        means = part[part.mechanism.isin(names)].pivot_table(
            index="epsilon", columns="mechanism", values="value"
        )
        best = dict(zip(means.index, means.idxmax(axis=1), strict=True))
        shown = {
            epsilon: mean_interval(
                _points.pick(part, mechanism=name, epsilon=epsilon).value.to_numpy()
            )
            for epsilon, name in best.items()
        }
        _points.plot_gains(axis, shown, label, colour, marker, 2.0 if begins == PILOTED else 1.2)
    axis.axhline(0.0, color="black", linestyle="--", linewidth=1.0, label="features alone")
    if ceiling is not None:
        axis.axhline(ceiling, color="black", linewidth=1.0, label=_NO_NOISE)


_NO_NOISE = "piloted counts without noise, no privacy"
_MARKS = {
    _NO_NOISE: ("black", "|", 12),
    "best published": ("#3b6fa0", "D", 5),
    "plain counts": ("#e8963c", "s", 5),
    "piloted counts (ours)": ("#c1272d", "o", 6),
}


def _gains_figure(lines: list[Line], epsilon: float) -> Any:
    """A line a graph and setting, the largest gain on top; a mark a method."""
    lines = sorted(lines, key=lambda line: line.mine.mean)
    made, axis = show.pyplot().subplots(figsize=(7.4, 0.24 * len(lines) + 1.5))
    axis.axvline(0.0, color="black", linestyle="--", linewidth=1.0, label="features alone")
    shown = {
        "piloted counts (ours)": [line.mine.mean for line in lines],
        "plain counts": [None if line.plain is None else line.plain.mean for line in lines],
        "best published": [line.published for line in lines],
        _NO_NOISE: [line.ceiling for line in lines],
    }
    for label, (colour, marker, size) in _MARKS.items():
        values = np.array(shown[label], float)
        axis.plot(
            values,
            np.arange(len(lines)),
            label=label,
            color=colour,
            marker=marker,
            markersize=size,
            linestyle="none",
            zorder=3 if label.startswith("piloted counts (") else 2,
        )
    _points.plot_means(
        axis,
        dict(enumerate(line.mine for line in lines)),
        color=_MARKS["piloted counts (ours)"][0],
        capsize=2,
        linewidth=1.6,
    )
    names = [f"{line.dataset}, {_short_setting(line.labels)}" for line in lines]
    _points.plot_settings(axis, names, _won(lines, epsilon), "the features alone")
    return made


def _won(lines: list[Line], epsilon: float) -> str:
    """The finding at the budget shown, for a title."""
    up, down, same = show.counted(line.mine for line in lines)
    of = f"{up + down + same} settings"
    return f"At epsilon {epsilon:g} counts beat the features alone in {up} of {of}, lose in {down}"


def digest(results: Results) -> str:
    found = points(results.read())
    lines = gains(found)
    return "\n\n".join(
        filter(None, (_counted(found, shortfalls(found)), worth(lines), _ceiling(lines)))
    )


def worth(lines: list[Line]) -> str:
    """What of the gain is counting at all, and what the pilot, the law and the guard add."""
    both = [(line.mine, line.plain.mean) for line in lines if line.plain is not None]
    if not both:
        return ""
    mine, plain = np.mean([(ours.mean, simple) for ours, simple in both], axis=0)
    most = sum(
        simple > ours.mean / 2 for ours, simple in both if show.significant(ours) and ours.mean > 0
    )
    up, down, _ = show.counted(line.added for line in lines)
    sure, _, _ = show.counted(line.mine for line in lines)
    return _TEXT.worth.format(
        mine=mine, plain=plain, added=mine - plain, most=most, sure=sure, up=up, down=down
    )


def _ceiling(lines: list[Line]) -> str:
    """What noise costs, against the same classifier on counts without any."""
    each = [line.cost for line in lines if line.cost is not None]
    if not each:
        return ""
    more, less, _ = show.counted(each)
    return (
        f"Noise costs {np.mean([one.mean for one in each]):.1f} points: without it the same "
        "classifier is above in "
        f"{more} of {len(each)} settings, below in {less}."
    )


def gains_of_lists(found: pd.DataFrame, ending: str) -> list[ConfidenceInterval]:
    """At the budget shown, gains over the features of rows of noisy lists whose names end so."""
    at = _points.pick(found, epsilon=shown_at(found), unit=_LIST, metric=OVER_FEATURES)
    rows = at[at.mechanism.isin(PUBLISHED_METHODS) & at.mechanism.str.endswith(f", {ending}")]
    return list(_points.intervals(rows, [*SETTING, "mechanism"]).values())
