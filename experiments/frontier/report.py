"""Tables and figures of private friendships; nothing is computed but statistics."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from experiments._report import legend_below, markdown, panels, pyplot, save, signed, significant
from experiments.frontier import beyond_report, friendships
from experiments.frontier._points import interval_of, write_with_points
from experiments.frontier.friendships import ACCURACY, NAME
from experiments.frontier.methods import FEATURES, PILOTED, PLACEBO, PLAIN, PUBLISHED_METHODS, UNGUARDED_PLACEBO
from ldp_jax.guarantee import NEIGHBOUR_LIST, RELATIONSHIP
from ldp_jax.metrics import ConfidenceInterval, mean_interval

OVER_FEATURES, OVER_PLAIN, OVER_PUBLISHED = (
    "gain over features",
    "gain over plain counts",
    "gain over best published",
)
METRICS = (ACCURACY, OVER_FEATURES, OVER_PLAIN, OVER_PUBLISHED)
"""Of the tidy table of points, one row a draw."""

_KEY = ["dataset", "labels", "unit", "mechanism", "epsilon"]
_LIST, _PAIR = str(NEIGHBOUR_LIST), str(RELATIONSHIP)
_TRUE = "non-private"


_DEGREES = "noisy degree"


def points(frame: pd.DataFrame) -> pd.DataFrame:
    """Accuracy and gains in points, one row a draw; tidy.

    Gains are paired by draw. *Best published* is the best by the mean over these draws, features alone among
    them: a choice that sees the test, so that the gain over it is understated. A row per relationship is held
    against lists of half its epsilon, whose two ends cost as much.

    Args:
      frame: rows of :func:`~experiments.frontier.friendships.results_in`.
    """
    rows: list[dict[str, Any]] = []
    for (dataset, labels), part in frame[frame.metric == ACCURACY].groupby(["dataset", "labels"], sort=False):
        values = {
            key: 100 * one.set_index("seed").value
            for key, one in part.groupby(["unit", "mechanism", "epsilon"], sort=False)
        }
        for (unit, mechanism, epsilon), mine in values.items():
            per_list = epsilon / 2 if unit == _PAIR else epsilon
            beside = {
                OVER_FEATURES: values.get((_LIST, FEATURES, 0.0)),
                OVER_PLAIN: values.get((_LIST, PLAIN, per_list)),
                OVER_PUBLISHED: _best_published(values, per_list, mine.index),
            }
            found = {ACCURACY: mine}
            if 0 < epsilon < np.inf:
                found |= {name: (mine - other).dropna() for name, other in beside.items() if other is not None}
            rows += [
                {
                    "dataset": dataset, "labels": labels, "unit": unit, "mechanism": mechanism, "epsilon": epsilon,
                    "seed": seed, "metric": metric, "value": round(float(value), 4),
                }
                for metric, series in found.items()
                for seed, value in series.items()
            ]  # fmt: skip
    return pd.DataFrame(rows, columns=[*_KEY, "seed", "metric", "value"])


def _best_published(values: dict[Any, pd.Series], epsilon: float, draws: pd.Index) -> pd.Series | None:
    """The row of the best mean among features alone and published ones, over the draws that all of them have.

    None where none of these was run but noisy degrees, which are no match for anything.
    """
    names = [name for name in PUBLISHED_METHODS if (_LIST, name, epsilon) in values]
    if not set(names) - {_DEGREES}:
        return None
    published = [values[_LIST, name, epsilon] for name in names]
    alone = [values.get((_LIST, name, 0.0)) for name in (FEATURES, "features, perceptron")]
    known = [*published, *(series for series in alone if series is not None)]
    for series in known:
        draws = draws.intersection(series.index)
    return max((series[draws] for series in known), key=lambda series: series.mean()) if len(draws) else None


def write(out: Path) -> list[Path]:
    """frontier_edges.csv (points), frontier_edges.md and the figures."""
    frame = friendships.results_in(out).read()
    if frame.empty:
        return []
    found = points(frame)
    sections = ["# Private friendships: what the message is worth", _PREFACE]
    for (dataset, labels), part in found.groupby(["dataset", "labels"], sort=False):
        title = f"{dataset}, {_setting(str(labels))}"
        sections += [f"## {title}", table(part)]
    sections += ["## All graphs", _counted(found), _summary(found)]
    path, gained = out / f"{NAME}.png", out / f"{NAME}_gains.png"
    save(_figure(found), path)
    sections.insert(2, f"![Accuracy against epsilon]({path.name})")
    figures = [path]
    if len(found[(found.epsilon == 1.0) & (found.mechanism == PILOTED)]):
        save(_gains_figure(found), gained)
        sections.insert(3, f"![Gains over the features alone at epsilon 1]({gained.name})")
        figures.append(gained)
    return [*write_with_points(out, NAME, found, sections), *figures]


def _setting(labels: str) -> str:
    return "half of the labels" if labels == "half" else f"{labels} labels a class"


_PREFACE = """\
Made by `python -m experiments report` from `frontier_edges_accuracy.csv`; guarantees are in its manifest, and of a
run of yours `frontier_edges.csv` has every number in points, a row a draw. Features and some labels are public,
every user's neighbour list is private; the classes of the other users are asked for. Intervals are 95 % (Student,
over draws of labels, noise and training), differences paired by draw, bold where their interval leaves 0 out; with
k such differences k / 40 would be bold and positive by chance.

* **piloted** is `ldp_jax.count_classes`; *per relationship* each pair has one owner, and what it is held against
  has half of the epsilon per list, since there both ends report. **placebo**: every user reports on another's list.
* **plain counts**: noisy counts by broadcast class beside the features, in a logistic regression. **best
  published**: the best by the mean of these very draws of features alone, noisy degrees, LPGNet moved to the local
  model, Blink, and the lists of DPRR and randomised response, these also in forms that nobody has published:
  through PageRank in place of a GCN, LPGNet's counts by public label.
* Of LPGNet, Blink, DPRR and randomised response the figure shows the variant that is best by the mean of these
  draws at each budget, and of the true graph the better of GCN and PageRank; the tables have all.
* Choices of every row (ridges, layers, when to stop) are made on labels that are held out."""


def table(part: pd.DataFrame) -> str:
    """Of one graph and setting, a line a row."""
    rows = []
    for (unit, mechanism, epsilon), one in part.groupby(["unit", "mechanism", "epsilon"], sort=False):
        gains = [interval_of(one, metric) for metric in METRICS[1:]]
        own = mechanism in (FEATURES, PLAIN)
        rows.append(
            [
                f"{mechanism}, per relationship" if unit == _PAIR else mechanism,
                f"{epsilon:g}",
                f"{one.seed.nunique()}",
                str(interval_of(one, ACCURACY)),
                "" if mechanism == FEATURES else signed(gains[0]),
                "" if own else signed(gains[1]),
                signed(gains[2]) if mechanism.startswith(PILOTED) else "",
            ]
        )
    headers = ["row", "eps", "draws", "accuracy (%)", "less features", "less plain counts", "less best published"]
    return markdown(headers, rows)


def shortfalls(found: pd.DataFrame) -> dict[tuple[str, str, float], ConfidenceInterval]:
    """Per list, piloted counts less the better by the mean of features and plain counts; by setting and budget.

    The better one is chosen by what it is judged by, so that the shortfall is overstated where both are close.
    """
    at = found[(found.unit == _LIST) & (found.metric == ACCURACY)]
    each = {
        key: one.set_index("seed").value for key, one in at.groupby(["dataset", "labels", "mechanism", "epsilon"])
    }
    made = {}
    for (dataset, labels, mechanism, epsilon), mine in each.items():
        plain, alone = each.get((dataset, labels, PLAIN, epsilon)), each.get((dataset, labels, FEATURES, 0.0))
        if mechanism == PILOTED and plain is not None and alone is not None:
            seeds = mine.index.intersection(plain.index).intersection(alone.index)
            better = max((plain[seeds], alone[seeds]), key=lambda one: one.mean())
            made[str(dataset), str(labels), float(epsilon)] = mean_interval((mine[seeds] - better).to_numpy())
    return made


def placebos(found: pd.DataFrame) -> dict[tuple[str, str, float], ConfidenceInterval]:
    """With the guard, placebos less features alone; by setting and budget."""
    rows = found[(found.mechanism == PLACEBO) & (found.metric == OVER_FEATURES)]
    return {
        (str(dataset), str(labels), float(epsilon)): mean_interval(one.value.to_numpy())
        for (dataset, labels, epsilon), one in rows.groupby(["dataset", "labels", "epsilon"], sort=False)
    }


def _named(each: dict[tuple[str, str, float], ConfidenceInterval]) -> str:
    """Settings and their budgets, in brackets; nothing where there are none."""
    by: dict[str, list[str]] = {}
    for dataset, labels, epsilon in each:
        by.setdefault(f"{dataset} {labels}", []).append(f"{epsilon:g}")
    words = [f"{name} at {', '.join(budgets)}" for name, budgets in by.items()]
    return f" ({'; '.join(words)})" if words else ""


def _misses(found: pd.DataFrame) -> dict[str, Any]:
    """How often piloted counts are more than a point below what is simpler, and placebos beside features."""
    short, fake = shortfalls(found), placebos(found)
    below = {key: one for key, one in short.items() if one.mean < -1.0}
    beside = {key: one for key, one in fake.items() if abs(one.mean) > 1.0}
    return {
        "asked": len(short), "short": len(below), "short_where": _named(below),
        "short_sure": sum(significant(one) for one in below.values()),
        "placebos": len(fake), "fooled": len(beside), "fooled_where": _named(beside),
        "fooled_sure": sum(significant(one) for one in fake.values()),
    }  # fmt: skip


def _counted(found: pd.DataFrame) -> str:
    """How many gains have an interval beside 0, how many where all are asked together, and what is missed."""
    rows, up, down = gains_of(found)
    at = found[(found.mechanism == PILOTED) & (found.unit == _LIST) & (found.metric == OVER_FEATURES)]
    strict = [
        mean_interval(one.value.to_numpy(), confidence=1 - 0.05 / rows)
        for _, one in at.groupby(["dataset", "labels", "epsilon"])
    ]
    return _COUNTED.format(
        rows=rows,
        up=up,
        down=down,
        up_all=sum(significant(one) and one.mean > 0 for one in strict),
        **_misses(found),
    )


_COUNTED = """\
Of {rows} gains of piloted counts over the features alone (graph, labels, epsilon per list) {up} have an interval
above 0, {down} below; where all are asked together (Bonferroni: level 1 - 0.05 / {rows}) {up_all} are above.
Against the better by the mean of features and plain counts the mean is more than one point below in {short} of
{asked}{short_where};
{short_sure} of these have an interval below 0. Placebos with the guard are in the mean more than one point beside
the features in {fooled} of {placebos}{fooled_where}; {fooled_sure} of all have an interval beside 0."""


def _worst(each: dict[tuple[str, str, float], ConfidenceInterval], setting: tuple[str, str]) -> str:
    """Over budgets, the least of a setting."""
    here = [one for (dataset, labels, _), one in each.items() if (dataset, labels) == setting]
    return signed(min(here, key=lambda one: one.mean, default=None))


def _summary(found: pd.DataFrame) -> str:
    """Of every graph and setting what is gained at epsilon 1, and over budgets what may be lost."""
    short, fakes = shortfalls(found), placebos(found)
    at = found[(found.epsilon == 1.0) & (found.unit == _LIST)]
    features = found[found.mechanism == FEATURES]
    rows = []
    for (dataset, labels), part in at.groupby(["dataset", "labels"], sort=False):
        mine, bare = (part[part.mechanism == name] for name in (PILOTED, UNGUARDED_PLACEBO))
        alone = features[(features.dataset == dataset) & (features.labels == labels)]
        rows.append(
            [
                f"{dataset}, {labels}",
                f"{mine.seed.nunique()}",
                str(interval_of(alone, ACCURACY)),
                str(interval_of(mine, ACCURACY) or ""),
                *(signed(interval_of(mine, metric)) for metric in METRICS[1:]),
                _worst(short, (str(dataset), str(labels))),
                _worst(fakes, (str(dataset), str(labels))),
                signed(interval_of(bare, OVER_FEATURES)),
            ]
        )
    headers = [
        "graph, labels", "draws", "features", "piloted, eps 1", "less features", "less plain counts",
        "less best published", "worst less better of features and plain counts", "worst placebo less features",
        "placebo without guard, eps 1",
    ]  # fmt: skip
    return markdown(headers, rows)


# --- Figure ----------------------------------------------------------------------------------------------------

_STYLES: dict[str, tuple[str, str, str]] = {
    "piloted counts (ours)": (PILOTED, "#c1272d", "o"),
    "plain counts": (PLAIN, "#e8963c", "s"),
    "LPGNet, local": ("lpgnet", "#7a5c99", "v"),
    "Blink": ("blink", "#5b8c5a", "^"),
    "DPRR": ("dprr", "#3b6fa0", "D"),
    "randomised response": ("rr,", "#7f7f7f", "x"),
}
"""By label: how the names of its rows begin, of which the best by the mean of the draws is shown at each budget."""


_PANELS = 8


def headline(found: pd.DataFrame) -> list[tuple[Any, pd.DataFrame]]:
    """The first graphs and settings that have more than one budget, at most eight; the first where none has."""
    groups = list(found[found.unit == _LIST].groupby(["dataset", "labels"], sort=False))
    many = [one for one in groups if one[1][one[1].mechanism == PILOTED].epsilon.nunique() > 1]
    return many[:_PANELS] or groups[:1]


def _figure(found: pd.DataFrame) -> Any:
    """A panel a graph and setting of :func:`headline`: accuracy against epsilon."""
    groups = headline(found[found.metric == ACCURACY])
    figure, axes = panels(len(groups), width=3.4, height=3.0, columns=2 if len(groups) == 4 else 4)
    for axis, ((dataset, labels), part) in zip(axes, groups, strict=True):
        draw(axis, part)
        axis.set_title(f"{dataset}, {_setting(str(labels))}", fontsize=9)
    legend_below(figure, axes[0], 4)
    return figure


def draw(axis: Any, part: pd.DataFrame) -> None:
    """Accuracy against epsilon of one graph and setting."""
    for label, (begins, colour, marker) in _STYLES.items():
        names = [name for name in part.mechanism.unique() if name.startswith(begins)]
        names = [name for name in names if not name.startswith(f"{PILOTED},")]  # not its placebo
        means = part[part.mechanism.isin(names)].pivot_table(index="epsilon", columns="mechanism", values="value")
        best = dict(zip(means.index, means.idxmax(axis=1), strict=True))
        shown = {
            epsilon: mean_interval(part[(part.mechanism == name) & (part.epsilon == epsilon)].value.to_numpy())
            for epsilon, name in best.items()
        }
        if shown:
            axis.errorbar(
                list(shown), [i.mean for i in shown.values()],
                yerr=[i.half_width if i.n > 1 else 0 for i in shown.values()],
                label=label, color=colour, marker=marker, markersize=4, capsize=2,
                linewidth=2.0 if begins == PILOTED else 1.2, zorder=3 if begins == PILOTED else 2,
            )  # fmt: skip
    for begins, label, style in (("features", "features alone", "--"), (_TRUE, "true graph, no privacy", "-")):
        means = part[part.mechanism.str.startswith(begins)].groupby("mechanism").value.mean()
        if len(means):
            axis.axhline(means.max(), color="black", linestyle=style, linewidth=1.0, label=label)
    axis.set_xscale("log", base=2)
    budgets = sorted(eps for eps in part.epsilon.unique() if 0 < eps < np.inf)
    axis.set_xticks(budgets, [f"{epsilon:g}" for epsilon in budgets])
    axis.set_xlabel("epsilon per bit of a neighbour list")
    axis.set_ylabel("test accuracy (%)")


_MARKS = {
    "true graph, no privacy": ("black", "|", 12),
    "best published": ("#3b6fa0", "D", 5),
    "plain counts": ("#e8963c", "s", 5),
    "piloted counts (ours)": ("#c1272d", "o", 6),
}


class Line(NamedTuple):
    """A graph and setting at epsilon 1, in points over the features alone.

    Attributes:
      name: of both.
      mine: piloted counts.
      plain: plain counts; None where there are none.
      published: the best published row, where lists were run.
      exact: the better of the rows that have the true graph.
    """

    name: str
    mine: ConfidenceInterval
    plain: ConfidenceInterval | None
    published: float | None
    exact: float | None


def gains(found: pd.DataFrame) -> list[Line]:
    """Of all graphs and settings, the largest gain last."""
    lines = []
    at = found[(found.epsilon == 1.0) & (found.unit == _LIST)]
    for (dataset, labels), part in at.groupby(["dataset", "labels"], sort=False):
        mine, plain = (interval_of(part[part.mechanism == name], OVER_FEATURES) for name in (PILOTED, PLAIN))
        if mine is None:
            continue
        own = part[part.mechanism == PILOTED].pivot_table(index="seed", columns="metric", values="value")
        over = (own[OVER_FEATURES] - own[OVER_PUBLISHED]).dropna() if OVER_PUBLISHED in own else own.iloc[:0, 0]
        whole = found[(found.dataset == dataset) & (found.labels == labels) & (found.metric == ACCURACY)]
        draws = whole.pivot_table(index="seed", columns="mechanism", values="value")
        true = [(draws[name] - draws[FEATURES]).mean() for name in draws if str(name).startswith(_TRUE)]
        lines.append(
            Line(
                f"{dataset}, {'half' if labels == 'half' else f'{labels} a class'}",
                mine,
                plain,
                float(over.mean()) if len(over) else None,
                float(max(true)) if true and FEATURES in draws else None,
            )
        )
    return sorted(lines, key=lambda line: line.mine.mean)


def _gains_figure(found: pd.DataFrame) -> Any:
    """A line a graph and setting, a mark a method."""
    lines = gains(found)
    made, axis = pyplot().subplots(figsize=(7.4, 0.3 * len(lines) + 1.5))
    axis.axvline(0.0, color="black", linestyle="--", linewidth=1.0, label="features alone")
    shown = {
        "piloted counts (ours)": [line.mine.mean for line in lines],
        "plain counts": [None if line.plain is None else line.plain.mean for line in lines],
        "best published": [line.published for line in lines],
        "true graph, no privacy": [line.exact for line in lines],
    }
    for label, (colour, marker, size) in _MARKS.items():
        values = np.array(shown[label], float)
        axis.plot(
            values, np.arange(len(lines)), label=label, color=colour, marker=marker, markersize=size,
            linestyle="none", zorder=3 if label.startswith(PILOTED) else 2,
        )  # fmt: skip
    axis.errorbar(
        [line.mine.mean for line in lines], np.arange(len(lines)),
        xerr=[line.mine.half_width if line.mine.n > 1 else 0.0 for line in lines],
        color=_MARKS["piloted counts (ours)"][0], capsize=2, linewidth=1.6, linestyle="none",
    )  # fmt: skip
    axis.set_yticks(range(len(lines)), [line.name for line in lines])
    axis.set_xlabel("accuracy less that of the features alone (points), epsilon 1 per bit of a list")
    axis.legend(loc="lower right", fontsize=8, frameon=True)
    made.tight_layout()
    return made


def gains_of(found: pd.DataFrame) -> tuple[int, int, int]:
    """Over graphs, settings and budgets per list: how many piloted rows, with a gain over features, with a loss."""
    rows = found[(found.mechanism == PILOTED) & (found.unit == _LIST) & (found.metric == OVER_FEATURES)]
    intervals = [mean_interval(one.value.to_numpy()) for _, one in rows.groupby(["dataset", "labels", "epsilon"])]
    up = sum(significant(i) and i.mean > 0 for i in intervals)
    return len(intervals), up, sum(significant(i) and i.mean < 0 for i in intervals)


# --- README ----------------------------------------------------------------------------------------------------

_README = """\
![Private friendships: counts by a broadcast class, noisy lists and features alone against epsilon]\
(experiments/results/{figure})

**Private friendships that help.** Every user's neighbour list is private; features and some labels are public.
At epsilon 1, {gcn_up} of {gcn} rows of noisy lists through a GCN, as published, have an interval above the
features alone, and {ppr_up} of {ppr} through PageRank. Counts of neighbours by a class that the server broadcasts:
in {up} of {rows} settings (graph, labels, epsilon per list) `ldp.count_classes` is above the features alone, in
{down} below. Against the better by the mean of features and plain counts it is more than one point below in
{short} of {asked}{short_where}, with an interval below 0 in {short_sure}.
With another's list (placebo) it is more than one point beside the features in {fooled} of {placebos}{fooled_where}.
At epsilon 1:

{table}

These are {shown} of {settings} settings, the first that were asked at several epsilons; the picture has all.
Piloted counts are above the best published row in
{published_up} of the {published} settings where lists were run, below it in {published_down}; by the mean of the
draws they are below it in {published_less}{published_where}.

![What is gained over the features alone at epsilon 1, graph by graph: by piloted counts, plain counts, the best \
published method and the true graph](experiments/results/{gained})

{draws} draws of labels, noise and training, intervals of 95 % paired by draw. *Plain counts*: the same message in a
logistic regression. *Best published* is the best by the mean of these very draws of the features alone, noisy
degrees, LPGNet, Blink, DPRR's and randomised response's lists, where lists were run; *true graph*: the better of a
GCN and PageRank, or the latter alone. All graphs and rows, per relationship too, and placebos:
[frontier_edges.md](experiments/results/frontier_edges.md); `python -m experiments frontier` computes them.{beyond}
"""


def readme_sections(out: Path) -> dict[str, str]:
    """What the README says of private friendships; nothing where there are no rows."""
    frame = friendships.results_in(out).read()
    if frame.empty:
        return {}
    found = points(frame)
    rows, up, down = gains_of(found)
    at = found[(found.epsilon == 1.0) & (found.unit == _LIST) & (found.mechanism == PILOTED)]
    lines = []
    first = [name for name, _ in headline(found)]
    for (dataset, labels), part in at.groupby(["dataset", "labels"], sort=False):
        if (dataset, labels) not in first:
            continue
        of_graph = found[(found.dataset == dataset) & (found.labels == labels)]
        exact = [mean_interval(one.to_numpy()) for one in _exact(of_graph)]
        lines.append(
            [
                f"{dataset}, {_setting(str(labels))}",
                str(interval_of(of_graph[of_graph.mechanism == FEATURES], ACCURACY)),
                str(interval_of(part, ACCURACY)),
                signed(interval_of(part, OVER_FEATURES)),
                signed(interval_of(part, OVER_PLAIN)),
                signed(interval_of(part, OVER_PUBLISHED)),
                str(max(exact, key=lambda interval: interval.mean)) if exact else "",
            ]
        )
    headers = [
        "graph",
        "features (%)",
        "piloted counts (%)",
        "less features",
        "less plain counts",
        "less best published",
        "true graph (%)",
    ]
    noisy = {}
    for name in ("gcn", "ppr"):
        noisy[name], noisy[f"{name}_up"] = _above(found, name)
    text = _README.format(
        **noisy, figure=f"{NAME}.png", gained=f"{NAME}_gains.png", up=up, down=down, rows=rows,
        table=markdown(headers, lines), draws=_draws(at), beyond=beyond_report.readme_words(out),
        shown=len(lines), settings=at.groupby(["dataset", "labels"]).ngroups, **_against_published(at),
        **_misses(found),
    )  # fmt: skip
    return {"friendships": text}


def _against_published(at: pd.DataFrame) -> dict[str, Any]:
    """In how many settings piloted counts are above the best published row, in how many and where below it."""
    rows = at[at.metric == OVER_PUBLISHED].groupby(["dataset", "labels"], sort=False)
    each = {f"{dataset} {labels}": mean_interval(one.value.to_numpy()) for (dataset, labels), one in rows}
    less = [name for name, interval in each.items() if interval.mean < 0]
    return {
        "published": len(each),
        "published_up": sum(significant(one) and one.mean > 0 for one in each.values()),
        "published_down": sum(significant(one) and one.mean < 0 for one in each.values()),
        "published_less": len(less),
        "published_where": f" ({', '.join(less)})" if less else "",
    }


def _above(found: pd.DataFrame, ending: str) -> tuple[int, int]:
    """At epsilon 1, how many rows of noisy lists whose names end so, and how many are above the features alone."""
    at = found[(found.epsilon == 1.0) & (found.unit == _LIST) & (found.metric == OVER_FEATURES)]
    rows = at[at.mechanism.isin(PUBLISHED_METHODS) & at.mechanism.str.endswith(f", {ending}")]
    each = [mean_interval(one.value.to_numpy()) for _, one in rows.groupby(["dataset", "labels", "mechanism"])]
    return len(each), sum(significant(interval) and interval.mean > 0 for interval in each)


def _exact(part: pd.DataFrame) -> list[pd.Series]:
    """The accuracies of each row that has the true graph."""
    rows = part[part.mechanism.str.startswith(_TRUE) & (part.metric == ACCURACY)]
    return [one.value for _, one in rows.groupby("mechanism")]


def _draws(part: pd.DataFrame) -> str:
    counts = part.groupby(["dataset", "labels"]).seed.nunique()
    return f"{counts.min()}" if counts.nunique() == 1 else f"{counts.min()} to {counts.max()}"
