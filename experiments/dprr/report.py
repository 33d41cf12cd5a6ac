"""Tables and Figures 4 to 6 of the graph experiment, from its tidy rows."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd
from rich import box
from rich.table import Table

from experiments._report import METRIC_LABELS, counted, errorbars, interval, markdown, panels, signed
from experiments._report import paired as of_series
from experiments.dprr.cells import (
    COLOURS,
    LABELS,
    OF_ALL,
    WITHOUT_EPSILON,
    Classifier,
    Mechanism,
    Variant,
    setting,
    training_of,
    variant_of,
)
from experiments.dprr.published import CLAIMS, EPSILON, PUBLIC
from ldp_jax.learning.metrics import ConfidenceInterval, mean_interval

HEADER = [
    "data set",
    "setting",
    "mechanism",
    "epsilon",
    "classifier",
    "accuracy (%)",
    "AUC (%)",
    "AUC less degrees alone",
    "seeds",
]
SPLITS = ("dprr", "dprr-one-to-nine", "dprr-as-published")
GROUP = ["dataset", "public", "mechanism", "epsilon", "classifier", "config"]
CLASSIFIERS = {False: "GIN; perceptron", True: "random forest"}
Configs = Mapping[str, Mapping[str, Any]]
"""The settings of each ``config``, as the manifest has them."""


def twin_of(variant: Variant) -> Variant | None:
    """Degrees alone, of the same budget: released ones for a mechanism, the true ones for the whole graph."""
    if variant.mechanism in ("degrees", "true-degrees", "sizes", "non-private-part"):
        return None
    return variant._replace(mechanism="true-degrees" if variant.mechanism == "non-private" else "degrees")


class Group(NamedTuple):
    """The rows of one line of a table, in the order of ``GROUP``: one a seed and metric."""

    dataset: str
    public: float
    mechanism: Mechanism
    epsilon: float
    classifier: Classifier
    config: str

    @property
    def variant(self) -> Variant:
        """What is compared."""
        return variant_of(self._asdict())


def paired(
    frame: pd.DataFrame,
    configs: Configs,
    twin: Callable[[Variant], Variant | None] = twin_of,
    metric: str = "auc",
) -> dict[Group, ConfidenceInterval]:
    """A score less that of a twin on the same graphs, paired on the seeds that both have, in %.

    Forests are compared with forests; GIN with the perceptron of the same epochs and patience.
    """
    scores = frame[frame.metric == metric]
    rows: dict[Group, pd.Series] = {
        Group(*key): 100 * part.set_index("seed").value for key, part in scores.groupby(GROUP)
    }
    found = {}
    for mine, values in rows.items():
        other = twin(mine.variant)
        if other is None or other == mine.variant:
            continue
        twins = [
            theirs
            for group, theirs in rows.items()
            if (group.dataset, group.variant) == (mine.dataset, other)
            and _same_training(configs[mine.config], configs[group.config])
        ]
        if len(twins) == 1 and (gain := of_series(values, twins[0])) is not None:
            found[mine] = gain
    return found


def _same_training(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(one.get(name) == other.get(name) for name in ("epochs", "patience", "trees"))


def lines(
    frame: pd.DataFrame, configs: Configs, reference: pd.DataFrame | None = None
) -> tuple[list[str], list[list[str]]]:
    """Header and one line a data set, setting, mechanism, classifier and budget.

    Args:
      frame: the rows.
      configs: their settings.
      reference: committed rows; the AUC of those of the same settings gets a column of its own.
    """
    gains = paired(frame, configs)
    committed = {} if reference is None else dict(list(reference.groupby(GROUP)))
    made = []
    for key, part in _ranked(frame).groupby(GROUP, sort=False):
        group = Group(*key)
        shown = "" if group.mechanism in WITHOUT_EPSILON else f"{group.epsilon:g}"
        row = [
            group.dataset,
            setting(group.public),
            LABELS[group.mechanism],
            shown,
            training_of(configs[group.config]),
        ]
        row += _scores(part)
        if reference is not None:
            row.append(_scores(committed[key])[1] if key in committed else "")
        made.append([*row, signed(gains.get(group)), str(part.seed.nunique())])
    header = list(HEADER)
    if reference is not None:
        header.insert(7, "committed AUC (%)")
    return header, made


def _scores(part: pd.DataFrame) -> list[str]:
    return [str(mean_interval(100 * part[part.metric == metric].value)) for metric in ("accuracy", "auc")]


def _ranked(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows in the order of tables."""
    order = {name: place for place, name in enumerate(LABELS)}
    known = frame.assign(forest=frame.classifier == "forest", rank=frame.mechanism.map(order))
    return known.sort_values(["dataset", "public", "rank", "forest", "epsilon"], kind="stable")


def summary(frame: pd.DataFrame, epsilon: float = 1.0) -> str:
    """AUC at one budget without public users: a row a mechanism, two columns a data set (by classifier)."""
    at_budget = frame.epsilon.isin([0.0, epsilon]) & (frame.public == 0) & (frame.metric == "auc")
    auc = _ranked(frame[at_budget])
    auc = auc[~auc.mechanism.isin(SPLITS[1:])]
    columns = [(str(dataset), forest) for dataset in sorted(auc.dataset.unique()) for forest in (False, True)]
    rows = []
    for name, label in LABELS.items():
        here = [
            100 * auc[(auc.dataset == d) & (auc.forest == f) & (auc.mechanism == name)].value for d, f in columns
        ]
        if any(len(part) for part in here):
            rows.append([label, *(str(mean_interval(part)) if len(part) else "" for part in here)])
    heads = [f"{dataset}: {CLASSIFIERS[forest]}" for dataset, forest in columns]
    return markdown([f"AUC (%), epsilon {epsilon:g}", *heads], rows)


def worth_of_edges(frame: pd.DataFrame, configs: Configs) -> str:
    """What lists add to degrees alone and to their own lengths, by budget, and without noise; nobody is public."""
    alone = frame[frame.public == 0]
    compared: dict[str, tuple[Mechanism, dict[Group, ConfidenceInterval]]] = {
        "DPRR less released degrees": ("dprr", paired(alone, configs)),
        "DPRR less lengths of its lists": ("dprr", paired(alone, configs, _lengths_of)),
        "RR less released degrees": ("rr", paired(alone, configs)),
        "NonPriv-Full less true degrees": ("non-private", paired(alone, configs)),
    }
    epsilons = sorted({group.epsilon for _, gains in compared.values() for group in gains if group.epsilon})
    rows = []
    for dataset in sorted(alone.dataset.unique()):
        for words, (mechanism, gains) in compared.items():
            for forest in (False, True):
                named = {
                    group.epsilon: signed(gain)
                    for group, gain in gains.items()
                    if (group.dataset, group.mechanism, group.variant.forest) == (dataset, mechanism, forest)
                }
                if named:
                    cells = [named.get(epsilon, "") for epsilon in (*epsilons, 0.0)]
                    rows.append([str(dataset), words, CLASSIFIERS[forest], *cells])
    heads = [*(f"epsilon {epsilon:g}" for epsilon in epsilons), "no noise"]
    return markdown(["AUC, difference", "of", "classifier", *heads], rows) if rows else ""


def _lengths_of(variant: Variant) -> Variant | None:
    return variant._replace(mechanism="dprr-lengths") if variant.mechanism == "dprr" else None


def verdict(frame: pd.DataFrame, configs: Configs) -> str:
    """In how many settings DPRR's lists do better or worse than degrees alone of the same budget; a table."""
    rows = []
    gains = {group: gain for group, gain in paired(frame, configs).items() if group.mechanism == "dprr"}
    for dataset, forest in sorted({(group.dataset, group.variant.forest) for group in gains}):
        mine = [gain for group, gain in gains.items() if (group.dataset, group.variant.forest) == (dataset, forest)]
        up, down, _ = counted(mine)
        means = sorted(gain.mean for gain in mine)
        rows.append(
            [
                dataset, CLASSIFIERS[forest], len(mine), up, down, f"{means[0]:+.1f} to {means[-1]:+.1f}",
                " to ".join(str(n) for n in sorted({min(gain.n for gain in mine), max(gain.n for gain in mine)})),
            ]
        )  # fmt: skip
    heads = [
        "DPRR's lists against released degrees", "classifier", "settings", "clearly higher", "clearly lower",
        "mean differences of AUC", "seeds",
    ]  # fmt: skip
    return markdown(heads, rows) if rows else ""


def claims(frame: pd.DataFrame, configs: Configs) -> str:
    """What the paper says in words of DPRR against other rows, beside our differences; a table."""
    rows = []
    for claim in CLAIMS:
        accuracy, auc = (paired(frame, configs, claim.twin, metric) for metric in ("accuracy", "auc"))
        for group in sorted(auc, key=lambda group: group.dataset):
            shown = [signed(found.get(group)) for found in (accuracy, auc)]
            rows.append([group.dataset, f"DPRR less {LABELS[claim.other]}", claim.said, *shown])
    what = f"epsilon {EPSILON:g}, {PUBLIC:.0%} public users, GIN; in points"
    return markdown([what, "difference", "the paper", "ours: accuracy", "ours: AUC"], rows) if rows else ""


def hours(frame: pd.DataFrame) -> float:
    """How long all trainings took together: each writes its seconds with both of its scores."""
    return float(frame[frame.metric == "auc"].seconds.sum()) / 3600


NOTES = """\
Means and 95 % intervals (Student) over seeds: each splits the graphs and draws the noise anew. epsilon is per
bit of one neighbour list; per edge it is twice that for DPRR, RR and the degrees (both ends report it) and 1.1
times for LocalLap. *AUC less degrees alone* is the difference to the released degrees of the same budget, for
NonPriv-Full to the true degrees, on the seeds that both have: a forest's to a forest's, GIN's to a perceptron's
of the same rule of stopping; bold, and *clearly* higher or lower, where its interval leaves 0 out.

*GIN; perceptron*: trained by epochs, at most so many, stopped by patience, the epoch chosen by validation
accuracy; GIN where graphs are released, a perceptron on the statistics where numbers are. *Random forest*:
fixed settings, on statistics of the release alone: of lists, quantiles over users of the lists' lengths, of how
many users name each, of how many do so in both directions and of the lengths of the listed users' lists, and
counts of triangles; of degrees or lengths, their quantiles; and the public number of nodes always. *Released
degrees alone*: the whole budget on the degree, no edge. *Lengths of DPRR's lists*: how many neighbours each
user reported, from DPRR's own reports, no edge. *Published split*: its true epsilon per bit is in the CSV
(`epsilon_proved`), above the one that it is named by where the degree's share is raised. *The paper*: what its
text says in words, of trainings of up to 500 epochs; ours are shorter, which the table of all rows says.
*communities* is generated (`datasets.synthetic_graphs`): graphs of communities against the same graphs with every
degree kept and all else forgotten.

A trained row repeats bit for bit on one machine, whatever is computed beside it. Another number of cores or
another processor rounds otherwise, and training amplifies that: DPRR at epsilon 1 on 600 graphs, seed 0, has
AUC 81.63 as committed, 81.22 on two cores of another machine and 81.17 on one core of it, with the same reports
and the same accuracy. Forests have no such spread: only their input could differ."""


def as_markdown(frame: pd.DataFrame, configs: Configs) -> str:
    """The tables of results."""
    took = f"All rows together took {hours(frame):.1f} hours."
    tables = [
        summary(frame), worth_of_edges(frame, configs), verdict(frame, configs), claims(frame, configs),
    ]  # fmt: skip
    parts = [*tables, NOTES, took, markdown(*lines(frame, configs))]
    return "\n\n".join(part for part in parts if part)


def show(frame: pd.DataFrame, configs: Configs, console: Any, reference: pd.DataFrame | None = None) -> None:
    """The table in a terminal, with the committed rows of the same settings beside it."""
    header, made = lines(frame, configs, reference)
    view = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="graph classification: means and 95 % intervals")
    for place, name in enumerate(header):
        view.add_column(name, justify="left" if place in (0, 1, 2, 4) else "right")
    for line in made:
        view.add_row(*(cell.replace("*", "") for cell in line))
    console.print(view)
    console.print(verdict(frame, configs))


def _curve(axis: Any, rows: pd.DataFrame, by: str, name: str, offset: float, places: dict[float, int]) -> None:
    values = {place: 100 * rows[rows[by] == value].value for value, place in places.items()}
    shown = {place + offset: each for place, part in values.items() if (each := interval(part)) is not None}
    errorbars(axis, shown, color=COLOURS[name], ms=4, lw=1.4, label=LABELS[name])


def _found(frame: pd.DataFrame, configs: Configs, names: Sequence[str], dataset: str, metric: str) -> str:
    """In a title: in how many of the settings that are drawn DPRR's lists are worth more, and less, than a twin."""
    rows = frame[frame.dataset == dataset]
    of_splits = set(names) == set(SPLITS)
    twin = _one_to_nine if of_splits else twin_of
    gains = [g for group, g in paired(rows, configs, twin, metric).items() if group.mechanism == "dprr"]
    up, down, _ = counted(gains)
    other = "the split 1 : 9" if of_splits else "degrees alone"
    return f"of {len(gains)} settings DPRR above {other} in {up}, below in {down}" if gains else ""


def _one_to_nine(variant: Variant) -> Variant | None:
    return variant._replace(mechanism="dprr-one-to-nine") if variant.mechanism == "dprr" else None


def _grid(
    frame: pd.DataFrame,
    configs: Configs,
    by: str,
    names: Sequence[str],
    keep: Callable[[pd.DataFrame], Any],
    label: str,
    forest: bool = False,
) -> Any | None:
    """Accuracy and AUC (rows) of each data set (columns) against a column; None where nothing has two values.

    All panels have one scale: data sets on which nothing differs look it.
    """
    frame = _ranked(frame)
    frame = frame[frame.forest == forest]
    flat = frame.mechanism.isin(OF_ALL)
    chosen = frame[keep(frame) & ~flat & frame.mechanism.isin(list(names))]
    moving = chosen[~chosen.mechanism.isin(["non-private-part"])]
    datasets = [str(name) for name, part in moving.groupby("dataset") if part[by].nunique() > 1]
    if not datasets:
        return None
    alone, means = len(datasets) == 1, []
    figure, axes = panels(2 * len(datasets), width=5.0 if alone else 4.2, height=2.7, columns=len(datasets))
    for place, axis in enumerate(axes):
        metric, dataset = ("accuracy", "auc")[place // len(datasets)], datasets[place % len(datasets)]
        rows = chosen[(chosen.dataset == dataset) & (chosen.metric == metric)]
        places = {value: at for at, value in enumerate(sorted(rows[by].unique()))}
        present = [name for name in names if (rows.mechanism == name).any()]
        for at, name in enumerate(present):
            _curve(axis, rows[rows.mechanism == name], by, name, 0.06 * (at - (len(present) - 1) / 2), places)
        means += [100 * part.mean() for _, part in rows.groupby(["mechanism", by]).value]
        for name, style in (("non-private", "-"), ("true-degrees", "-."), ("sizes", "--")):
            value = frame[(frame.dataset == dataset) & (frame.metric == metric) & (frame.mechanism == name)].value
            if len(value):
                means.append(100 * value.mean())
                axis.axhline(means[-1], color=COLOURS[name], ls=style, lw=1.1, label=LABELS[name])
        axis.set_xticks(range(len(places)), [f"{value:g}" for value in places])
        axis.set(xlabel=label, ylabel=METRIC_LABELS[metric])
        title = [dataset] if place < len(datasets) else []
        drawn = frame[keep(frame) | flat | (frame.mechanism == "degrees")]
        axis.set_title("\n".join([*title, _found(drawn, configs, names, dataset, metric)]), fontsize=7)
    # Student's intervals of three splits can be wider than what they are about: they are cut, not the means.
    for axis in axes:
        axis.set_ylim(max(0, min(means) - 12), min(102, max(means) + 12))
    _legend(figure, axes, columns=2 if alone else 4)
    return figure


def _legend(figure: Any, axes: Sequence[Any], columns: int) -> None:
    """One legend under all panels, of what any of them shows, in the order of the tables."""
    shown: dict[str, Any] = {}
    for axis in axes:
        handles, labels = axis.get_legend_handles_labels()
        shown |= dict(zip(labels, handles, strict=True))
    ordered = [label for label in LABELS.values() if label in shown]
    figure.legend([shown[label] for label in ordered], ordered, loc="lower center", ncols=columns, fontsize=8)
    room = 0.15 + 0.19 * -(-len(ordered) // columns)  # inches
    figure.tight_layout(rect=(0, room / figure.get_figheight(), 1, 1))


def figures(frame: pd.DataFrame, configs: Configs) -> dict[str, Any]:
    """Figures 4 to 6 (GIN and perceptron) and Figure 5 again (forest), those that the rows suffice for, by file."""
    others = [name for name in LABELS if name not in SPLITS[1:]]
    split_sets = frame[frame.mechanism.isin(SPLITS[1:])]
    no_public = "epsilon per bit of a list (no public users)"

    def of_splits(rows: pd.DataFrame) -> Any:
        compared = rows.dataset.isin(split_sets.dataset.unique()) & rows.epsilon.isin(split_sets.epsilon.unique())
        return compared & (rows.public == 0)

    made = {
        "dprr_figure4": _grid(
            frame,
            configs,
            "public",
            others,
            lambda rows: rows.epsilon.isin([0.0, 1.0]),
            "share of public users (epsilon 1)",
        ),
        "dprr_figure5": _grid(frame, configs, "epsilon", others, lambda rows: rows.public == 0, no_public),
        "dprr_forest": _grid(
            frame, configs, "epsilon", others, lambda rows: rows.public == 0, no_public, forest=True
        ),
        "dprr_figure6": _grid(frame, configs, "epsilon", SPLITS, of_splits, "epsilon that the split is made for"),
    }
    return {name: figure for name, figure in made.items() if figure is not None}
