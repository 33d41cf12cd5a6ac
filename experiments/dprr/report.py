"""Tables and Figures 4 to 6 of the graph experiment, from its tidy rows."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from experiments import _report as show
from experiments.dprr import cells
from experiments.dprr.cells import (
    COLOURS,
    LABELS,
    OF_ALL,
    WITHOUT_EPSILON,
    Classifier,
    Mechanism,
    Variant,
)
from ldp_jax.learning.metrics import ConfidenceInterval

_TEXT = show.prose("dprr")

SPLITS = ("dprr", "dprr-one-to-nine", "dprr-as-published")
CLASSIFIERS = {False: "GIN; perceptron", True: "random forest"}
Configs = Mapping[str, Mapping[str, Any]]
"""The settings of each ``config``, as the manifest has them."""
Twin = Callable[[Variant], Variant | None]
"""The row that a variant is compared with; None for others."""

EPSILON, PUBLIC = 1.0, 0.2
"""The budget and the share of public users that the paper's text speaks of; the network
classifies.
"""
CLAIMS: tuple[tuple[Mechanism, str], ...] = (
    ("non-private", "not below -10 or so"),
    ("rr", "significantly above 0"),
    ("local-lap", "significantly above 0"),
    ("non-private-part", "significantly above 0"),
)
"""The words of the authors on DPRR less other rows (section V-B); their figures are pictures."""


class Group(NamedTuple):
    """What names one line of a table; rows are one a seed and metric."""

    dataset: str
    public: float
    mechanism: Mechanism
    epsilon: float
    classifier: Classifier
    config: str

    @property
    def variant(self) -> Variant:
        return cells.variant_of(self._asdict())


def twin_of(variant: Variant) -> Variant | None:
    """Degrees alone, of the same budget.

    Released ones for a mechanism, the true ones for the whole graph.
    """
    if variant.mechanism in ("degrees", "true-degrees", "sizes", "non-private-part"):
        return None
    return variant._replace(
        mechanism="true-degrees" if variant.mechanism == "non-private" else "degrees"
    )


def _dprr_less(other: Mechanism) -> Twin:
    """DPRR against another mechanism of the same setting."""
    return lambda variant: (
        variant._replace(mechanism=other) if variant.mechanism == "dprr" else None
    )


def paired(
    frame: pd.DataFrame, configs: Configs, twin: Twin = twin_of, metric: str = "auc"
) -> dict[Group, ConfidenceInterval]:
    """A score less a twin's on the same graphs, in %, paired by seed.

    Both have the same epochs and trees.
    """
    of_metric = show.by_seed(frame[frame.metric == metric], Group._fields)
    rows = {Group(*key): values for key, values in of_metric.items()}

    def training(group: Group) -> list[Any]:
        return [configs[group.config].get(name) for name in ("epochs", "patience", "trees")]

    found = {}
    for mine in sorted(rows):
        other = twin(mine.variant)
        if other is None or other == mine.variant:
            continue
        twins = [
            values
            for group, values in rows.items()
            if (group.dataset, group.variant) == (mine.dataset, other)
            and training(group) == training(mine)
        ]
        if len(twins) == 1 and (gain := show.paired(rows[mine], twins[0])) is not None:
            found[mine] = gain
    return found


def lines(frame: pd.DataFrame, configs: Configs) -> str:
    """A table of all rows: one line a data set, setting, mechanism, classifier and budget."""
    gains = paired(frame, configs)
    values = show.by_seed(_ranked(frame), [*Group._fields, "metric"])
    return show.table(
        {
            "data set": group.dataset,
            "setting": cells.setting(group.public),
            "mechanism": LABELS[group.mechanism],
            "epsilon": "" if group.mechanism in WITHOUT_EPSILON else f"{group.epsilon:g}",
            "classifier": cells.training_of(configs[group.config]),
            "accuracy (%)": show.interval(values[*group, "accuracy"]),
            "AUC (%)": show.interval(values[*group, "auc"]),
            "AUC less degrees alone": show.signed(gains.get(group)),
            "seeds": len(values[*group, "auc"]),
        }
        for group in dict.fromkeys(Group(*key[:-1]) for key in values)
    )


def _ranked(frame: pd.DataFrame) -> pd.DataFrame:
    LABELS.learn(frame.mechanism.unique())
    forest = frame.assign(forest=frame.classifier == "forest")
    return show.ranked(forest, LABELS, ["dataset", "public", "mechanism", "forest", "epsilon"])


def summary(frame: pd.DataFrame) -> str:
    """AUC at one budget without public users.

    A row a mechanism, two columns a data set (by classifier).
    """
    at_budget = frame.epsilon.isin([0.0, EPSILON]) & (frame.public == 0) & (frame.metric == "auc")
    auc = frame[at_budget & ~frame.mechanism.isin(SPLITS[1:])]
    values = show.by_seed(_ranked(auc), ["mechanism", "dataset", "forest"])
    columns = [
        (dataset, forest) for dataset in sorted(auc.dataset.unique()) for forest in CLASSIFIERS
    ]
    rows = [
        [label, *(show.interval(values.get((name, *column))) for column in columns)]
        for name, label in LABELS.items()
        if (auc.mechanism == name).any()
    ]
    heads = [f"{dataset}: {CLASSIFIERS[forest]}" for dataset, forest in columns]
    return show.markdown([f"AUC (%), epsilon {EPSILON:g}", *heads], rows)


@show.tabled
def worth_of_edges(frame: pd.DataFrame, configs: Configs) -> show.Rows:
    """The gain of lists over degrees alone and over their own lengths, by budget.

    Nobody is public.
    """
    alone = frame[frame.public == 0]
    over_degrees, over_lengths = (
        paired(alone, configs, twin) for twin in (twin_of, _dprr_less("dprr-lengths"))
    )
    compared = {
        "DPRR less released degrees": ("dprr", over_degrees),
        "DPRR less lengths of its lists": ("dprr", over_lengths),
        "RR less released degrees": ("rr", over_degrees),
        "NonPriv-Full less true degrees": ("non-private", over_degrees),
    }
    epsilons = sorted({group.epsilon for group in (*over_degrees, *over_lengths) if group.epsilon})
    budgets = {**{f"epsilon {epsilon:g}": epsilon for epsilon in epsilons}, "no noise": 0.0}
    for dataset in sorted(alone.dataset.unique()):
        for words, (mechanism, gains) in compared.items():
            for forest, classifier in CLASSIFIERS.items():
                named = {
                    group.epsilon: show.signed(gain)
                    for group, gain in gains.items()
                    if (group.dataset, group.mechanism, group.variant.forest)
                    == (dataset, mechanism, forest)
                }
                if named:
                    by_budget = {
                        heading: named.get(epsilon, "") for heading, epsilon in budgets.items()
                    }
                    yield {
                        "AUC, difference": dataset,
                        "of": words,
                        "classifier": classifier,
                        **by_budget,
                    }


@show.tabled
def verdict(frame: pd.DataFrame, configs: Configs) -> show.Rows:
    """In how many settings DPRR's lists do better or worse than degrees alone of the same budget.

    A table.
    """
    each: dict[tuple[str, bool], list[ConfidenceInterval]] = {}
    for group, gain in paired(frame, configs).items():
        if group.mechanism == "dprr":
            each.setdefault((group.dataset, group.variant.forest), []).append(gain)
    for (dataset, forest), mine in sorted(each.items()):
        up, down, _ = show.counted(mine)
        means = [gain.mean for gain in mine]
        seeds = {gain.n for gain in mine}
        yield {
            "DPRR's lists against released degrees": dataset, "classifier": CLASSIFIERS[forest],
            "settings": len(mine), "clearly higher": up, "clearly lower": down,
            "mean differences of AUC": f"{min(means):+.1f} to {max(means):+.1f}",
            "seeds": " to ".join(str(n) for n in sorted({min(seeds), max(seeds)})),
        }  # fmt: skip


@show.tabled
def claims(frame: pd.DataFrame, configs: Configs) -> show.Rows:
    """The paper's words on DPRR against other rows, beside our differences."""
    for other, said in CLAIMS:
        twins = {Variant("dprr", EPSILON, PUBLIC): Variant(
            other, 0.0 if other in WITHOUT_EPSILON else EPSILON, 0.0 if other in OF_ALL else PUBLIC
        )}  # fmt: skip
        accuracy, auc = (
            paired(frame, configs, twins.get, metric) for metric in ("accuracy", "auc")
        )
        for group in auc:
            yield {
                f"epsilon {EPSILON:g}, {PUBLIC:.0%} public users, GIN; in points": group.dataset,
                "difference": f"DPRR less {LABELS[other]}",
                "the paper": said,
                "ours: accuracy": show.signed(accuracy.get(group)),
                "ours: AUC": show.signed(auc[group]),
            }


def as_markdown(frame: pd.DataFrame, configs: Configs) -> str:
    hours = (
        frame[frame.metric == "auc"].seconds.sum() / 3600
    )  # each training writes its seconds with both scores
    tables = [
        summary(frame),
        worth_of_edges(frame, configs),
        verdict(frame, configs),
        claims(frame, configs),
    ]
    parts = [
        *tables,
        _TEXT.notes,
        f"All rows together took {hours:.1f} hours.",
        lines(frame, configs),
    ]
    return "\n\n".join(filter(None, parts))


def digest(frame: pd.DataFrame, configs: Configs) -> str:
    forests = frame[frame.classifier == "forest"]
    return "\n\n".join(
        (_TEXT.lead, summary(frame), worth_of_edges(forests, configs), verdict(frame, configs))
    )


def _found(frame: pd.DataFrame, configs: Configs, of_splits: bool, metric: str) -> str:
    """For a title: in how many settings DPRR's lists are worth more, and less, than a twin."""
    twin = _dprr_less("dprr-one-to-nine") if of_splits else twin_of
    gains = [
        g for group, g in paired(frame, configs, twin, metric).items() if group.mechanism == "dprr"
    ]
    up, down, _ = show.counted(gains)
    other = "the split 1 : 9" if of_splits else "degrees alone"
    return f"of {len(gains)} settings DPRR above {other} in {up}, below in {down}" if gains else ""


def _grid(
    frame: pd.DataFrame, keep: Any, configs: Configs, by: str, names: Sequence[str], label: str
) -> Any | None:
    """Accuracy and AUC (rows) of each data set (columns) against a column, on one scale.

    None without two of it.
    """
    flat = frame.mechanism.isin(OF_ALL)
    chosen = frame[keep & ~flat & frame.mechanism.isin(list(names))]
    moving = chosen[chosen.mechanism != "non-private-part"]
    datasets = [str(name) for name, part in moving.groupby("dataset") if part[by].nunique() > 1]
    if not datasets:
        return None
    drawn = frame[keep | flat | (frame.mechanism == "degrees")]
    alone = len(datasets) == 1
    means = []
    figure, axes = show.panels(
        2 * len(datasets), width=5.0 if alone else 4.2, height=2.7, columns=len(datasets)
    )
    for place, axis in enumerate(axes):
        metric = ("accuracy", "auc")[place // len(datasets)]
        dataset = datasets[place % len(datasets)]
        rows = chosen[(chosen.dataset == dataset) & (chosen.metric == metric)]
        places = {value: at for at, value in enumerate(sorted(rows[by].unique()))}
        points: dict[str, dict[float, pd.Series]] = {
            name: {} for name in names if (rows.mechanism == name).any()
        }
        for (name, value), part in rows.groupby(["mechanism", by]):
            points[str(name)][places[value]] = 100 * part.value
            means.append(100 * part.value.mean())
        show.curves(axis, points, LABELS, COLOURS, apart=0.06, ms=4, lw=1.4)
        for name, style in (("non-private", "-"), ("true-degrees", "-."), ("sizes", "--")):
            here = (frame.mechanism == name) & (frame.dataset == dataset)
            values = frame[here & (frame.metric == metric)].value
            if len(values):
                means.append(100 * values.mean())
                show.level(axis, means[-1], LABELS[name], style, color=COLOURS[name], linewidth=1.1)
        axis.set_xticks(range(len(places)), [f"{value:g}" for value in places])
        axis.set(xlabel=label, ylabel=show.METRIC_LABELS[metric])
        title = [dataset] if place < len(datasets) else []
        title.append(
            _found(drawn[drawn.dataset == dataset], configs, set(names) == set(SPLITS), metric)
        )
        axis.set_title("\n".join(title), fontsize=7)
    # Student's intervals of three splits can be wider than what they are about: they are cut, not
    # the means.
    for axis in axes:
        axis.set_ylim(max(0, min(means) - 12), min(102, max(means) + 12))
    show.legend_below(figure, axes, 2 if alone else 4, LABELS.values())
    return figure


def figures(frame: pd.DataFrame, configs: Configs) -> dict[str, Any]:
    frame = _ranked(frame)
    others = [name for name in LABELS if name not in SPLITS[1:]]
    trained, forests = frame[~frame.forest], frame[frame.forest]
    nobody = trained.public == 0
    splits = frame[frame.mechanism.isin(SPLITS[1:])]
    of_splits = trained.dataset.isin(splits.dataset.unique()) & trained.epsilon.isin(
        splits.epsilon.unique()
    )
    at_one = trained.epsilon.isin([0.0, 1.0])
    by_epsilon = "epsilon per bit of a list (no public users)"
    of_split = "epsilon that the split is made for"
    made = {
        "dprr_figure4": _grid(
            trained, at_one, configs, "public", others, "share of public users (epsilon 1)"
        ),
        "dprr_figure5": _grid(trained, nobody, configs, "epsilon", others, by_epsilon),
        "dprr_forest": _grid(forests, forests.public == 0, configs, "epsilon", others, by_epsilon),
        "dprr_figure6": _grid(trained, of_splits & nobody, configs, "epsilon", SPLITS, of_split),
    }
    return {name: figure for name, figure in made.items() if figure is not None}
