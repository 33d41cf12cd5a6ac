"""Tables and figures of HeteroRR's accuracy rows; nothing is computed but statistics."""

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from experiments import _common, _runner
from experiments import _report as show
from experiments.heterorr import accuracy
from experiments.heterorr.cells import (
    LABEL_PROPAGATION,
    NON_PRIVATE,
    PUBLIC_RECORDS,
    RECORDS,
    RELEASED,
    TRUE,
)
from experiments.heterorr.releases import (
    EPSILON_0,
    FEATURES,
    LINK_PREDICTION,
    PUBLIC_EDGES,
    STRUCTURE,
)
from experiments.heterorr.settings import COLOURS, LABELS, budget
from ldp_jax.learning.metrics import ConfidenceInterval, mean_interval

_TEXT = show.prose("heterorr")

SCORES = ("accuracy", "micro-F1")
CLAIMS = (
    (
        "FeatureRR +7.6 % over LPGNN, its best baseline (FLICKR-MIR, p 3e-5)",
        "features",
        "featurerr",
        "lpgnn",
    ),
    (
        "FeatureRR +2.6 % over Three-outputs, its best baseline (PPI, p 0.0031)",
        "features",
        "featurerr",
        "three-outputs",
    ),
    (
        "EdgeRR +6.3 % over LapGraph, its best baseline (FLICKR-MIR, p 3.6e-9)",
        "edges",
        "edgerr",
        "lap-graph",
    ),
)
"""Sentences of section V, and the rows here that ask the same: their level, the paper's mechanism
and the other.
"""
BELOW = ("lpgnn-labels", "edge-rand")
"""Rows far below all others: they leave the axes, which say so, that the others can be told
apart.
"""


results_in = accuracy.results_in


def pages(frame: pd.DataFrame) -> tuple[dict[str, str], dict[str, Any]]:
    sections = ["# HeteroRR: private features, private edges", _TEXT.preface, _claims(frame)]
    figures = {}
    for level_name, title, make, stem, draw in (
        ("features", "Private features (Figure 6)", _features, "heterorr_figure6", _figure_6),
        ("edges", "Private edges (Figure 7)", _edges, "heterorr_figure7", _figure_7),
        (
            "both",
            "Private features and private edges (Figures 10 and 11)",
            _both,
            "heterorr_figure10",
            _figure_10,
        ),
    ):
        part = frame[frame.level == level_name]
        for dataset, of_set in part.groupby("dataset", sort=False):
            name = stem if dataset == part.dataset.iloc[0] else f"{stem}_{dataset}"
            figures[name] = draw(of_set)
            rhos = ", ".join(f"{rho:g}" for rho in sorted(of_set.rho.unique()) if rho)
            seeds = of_set.seed.nunique()
            config = of_set.config.iloc[0]
            made = f"{seeds} seeds{f', rho {rhos}' if rhos else ''}; config `{config}`."
            sections += [f"## {title}: {dataset}", f"![{title}]({name}.png)", made, make(of_set)]
    return {accuracy.NAME: "\n\n".join(filter(None, sections))}, figures


def _values(frame: pd.DataFrame) -> dict[tuple[Any, ...], pd.Series]:
    """Scores by mechanism, epsilon, rho and mechanism on edges ("" where that is the first)."""
    scores = frame[frame.metric.isin(SCORES)].fillna({"edges": ""})
    return show.by_seed(scores, ["mechanism", "epsilon", "rho", "edges"])


def _name(mechanism: str) -> str:
    if _common.is_own(mechanism):
        return mechanism
    prefix, _, name = mechanism.partition(":")
    return f"{prefix} {LABELS.get(name, name)}" if name else LABELS.get(prefix, prefix)


def _private(epsilon: float) -> bool:
    return 0 < epsilon < np.inf


@show.tabled
def _features(frame: pd.DataFrame) -> show.Rows:
    values = _values(frame)
    # Of the rows at epsilon 0 the one with the best mean.
    public = max(
        (series for key, series in values.items() if key[1] == 0), key=lambda series: series.mean()
    )
    for (mechanism, epsilon, *rest), series in values.items():
        if mechanism.startswith((STRUCTURE, FEATURES)) and mechanism != FEATURES + NON_PRIVATE:
            continue
        twin, alone = (
            values.get((prefix + mechanism, epsilon, *rest)) for prefix in (STRUCTURE, FEATURES)
        )
        yield {
            "mechanism": _name(mechanism),
            "eps": f"{epsilon:g}",
            "accuracy (%)": show.interval(series),
            "structure-only": show.interval(twin),
            "features-only": show.interval(alone),
            "gain": show.signed(show.paired(series, twin)),
            "beyond public": show.signed(show.paired(series, public)) if _private(epsilon) else "",
        }


@show.tabled
def _edges(frame: pd.DataFrame) -> show.Rows:
    values = _values(frame)
    counts = frame.groupby(["mechanism", "epsilon", "rho", "metric"]).value.mean()
    for key, series in values.items():
        mechanism, epsilon, rho, _ = key
        row = {
            "mechanism": _name(mechanism), "rho": f"{rho:g}", "eps": budget(mechanism, epsilon),
            "accuracy (%)": show.interval(series),
        }  # fmt: skip
        for words, metric in (("released", RELEASED), ("true", TRUE)):
            count = counts.get((mechanism, epsilon, rho, metric))
            row[words] = "" if count is None else f"{count:.0f}"
        for words, other in (
            ("public edges alone", PUBLIC_EDGES),
            ("public link prediction", LINK_PREDICTION),
        ):
            gain = show.contrast(values, key, (other, 0.0, rho, "")) if mechanism != other else None
            row[f"less {words}"] = show.signed(gain)
        yield row


@show.tabled
def _both(frame: pd.DataFrame) -> show.Rows:
    values = _values(frame)
    public = values.get((PUBLIC_RECORDS, 0.0, frame.rho.max(), PUBLIC_EDGES))
    for (mechanism, epsilon, _, edges), series in values.items():
        beyond = None if edges == PUBLIC_EDGES else show.paired(series, public)
        yield {
            "mechanisms": f"{_name(mechanism)} + {_name(edges)}",
            "eps of a record, and of a private edge": f"{epsilon:g}, {budget(edges, epsilon)}",
            "accuracy (%)": show.interval(series),
            "less public knowledge alone": show.signed(beyond),
        }


def _claims(frame: pd.DataFrame) -> str:
    """The paper's sentences beside paired two-tailed t-tests of the same mechanisms here."""
    rows = []
    for text, of_level, mechanism, other in CLAIMS:
        part = frame[
            (frame.level == of_level)
            & frame.rho.isin((0.0, frame.rho.max()))
            & frame.metric.isin(SCORES)
        ]
        for dataset, of_set in part.groupby("dataset", sort=False):
            # One number a seed, the mean over the budgets: budgets of one seed share its split.
            means = 100 * of_set.pivot_table(
                index="seed", columns=["mechanism", "epsilon"], values="value"
            )
            if mechanism not in means or other not in means:
                continue
            # Of the budgets that both have, the seeds that have all.
            each = pd.DataFrame(means[mechanism] - means[other]).dropna(axis=1, how="all").dropna()
            if each.empty:
                continue
            less = each.mean(axis=1)
            tested = stats.ttest_1samp(less, 0.0) if len(less) > 1 else None
            rows.append(
                {
                    "the paper": text,
                    "data set": dataset,
                    "here": f"{_name(mechanism)} less {_name(other)}",
                    "points": show.signed(mean_interval(less)),
                    "p": "" if tested is None else f"{tested.pvalue:.2g}",
                }
            )
    lead = (
        "Means over the budgets, one number a seed; p is that of a paired two-tailed t-test "
        "over seeds."
    )
    return f"## The paper's claims\n\n{lead}\n\n{show.table(rows)}" if rows else ""


def _lines(values: show.Values, rho: float, prefix: str = "") -> dict[str, dict[float, pd.Series]]:
    found = {name: {} for name in COLOURS}
    for (mechanism, epsilon, of, edges), series in values.items():
        name = mechanism.removeprefix(prefix)
        of_prefix = mechanism.startswith(prefix) and (name in COLOURS or _common.is_own(name))
        if of_prefix and (of, edges) == (rho, "") and _private(epsilon):
            found.setdefault(name, {})[epsilon] = series
    return {name: points for name, points in found.items() if points}


def _levels(axis: Any, values: show.Values, styles: dict[str, Any], rho: float) -> None:
    for (mechanism, _, of, _), series in values.items():
        if mechanism in styles and of == rho:
            show.level(axis, series.mean(), _name(mechanism), styles[mechanism])


def _axis(axis: Any, title: str, frame: pd.DataFrame) -> None:
    show.log_ticks(axis, sorted(epsilon for epsilon in frame.epsilon.unique() if _private(epsilon)))
    axis.set(xlabel="epsilon", ylabel="test accuracy (%)")
    axis.set_title(title, fontsize=9)


def _without(axis: Any, rows: show.Values, label: str) -> None:
    """Fit an axis to the rows that are not far below, and name the others."""
    axis.relim()
    low = {key: s for key, s in rows.items() if key[0].rpartition(":")[2] in BELOW}
    shown = [s for key, s in rows.items() if key not in low]
    bottom = min(s.min() for s in shown)
    top = max(s.max() for s in shown)
    axis.set_ylim(bottom - 0.05 * (top - bottom), top + 0.1 * (top - bottom))
    if low:
        words = f"{label}: from {min(s.mean() for s in low.values()):.0f} %"
        axis.text(0.02, 0.02, words, transform=axis.transAxes, fontsize=7)


def _title(figure: Any, private: str, gains: list[ConfidenceInterval | None], beside: str) -> None:
    above = f"{show.counted(gains)[0]} of {sum(gain is not None for gain in gains)}"
    figure.suptitle(f"{private}: {above} rows are above {beside}", fontsize=10)


def _figure_6(frame: pd.DataFrame) -> Any:
    values = _values(frame)
    figure, axes = show.panels(3, width=3.9, height=3.4)
    known: dict[str, Any] = {
        NON_PRIVATE: "-",
        RECORDS: (0, (1, 1)),
        PUBLIC_RECORDS: "--",
        LABEL_PROPAGATION: "-.",
    }
    titles = (
        ("", "released features and edges"),
        (STRUCTURE, "structure-only"),
        (FEATURES, "features-only"),
    )
    for axis, (prefix, title) in zip(axes, titles, strict=True):
        _axis(axis, title, frame)
        show.curves(axis, _lines(values, 0.0, prefix), LABELS, COLOURS, markersize=3, linewidth=1.2)
        _levels(axis, values, known if prefix != FEATURES else {FEATURES + NON_PRIVATE: "-"}, 0.0)
    whole = {
        key: s for key, s in values.items() if _private(key[1]) and not key[0].startswith(FEATURES)
    }
    for axis in axes[:2]:
        _without(axis, whole, LABELS["lpgnn-labels"])
    _title(figure, "Private features", _over_twins(values), "their structure-only twin")
    show.legend_below(figure, axes[0], 6)
    return figure


def _figure_7(frame: pd.DataFrame) -> Any:
    values = _values(frame)
    rho = frame.rho.max()
    figure, axes = show.panels(2, width=5.2, height=3.6)
    known = {NON_PRIVATE: "-", PUBLIC_EDGES: "--", LINK_PREDICTION: "-.", EPSILON_0[2]: ":"}
    _axis(axes[0], f"rho {rho:g}", frame[frame.rho == rho])
    show.curves(axes[0], _lines(values, rho), LABELS, COLOURS, markersize=3, linewidth=1.2)
    _levels(axes[0], values, known, rho)
    rhos = sorted(frame.rho.unique())
    for name, colour in COLOURS.items():
        shown = {
            r: mean_interval(values[name, 1.0, r, ""]) for r in rhos if (name, 1.0, r, "") in values
        }
        show.errorbars(axes[1], shown, color=colour, markersize=3, linewidth=1.2)
    for name, style in known.items():
        points = [(r, s.mean()) for (m, _, r, _), s in values.items() if m == name]
        axes[1].plot(*zip(*points, strict=True), linestyle=style, color="black", linewidth=0.9)
    private = {key: s for key, s in values.items() if _private(key[1])}
    true = {key: s for key, s in values.items() if key[0] == NON_PRIVATE}
    for axis, place, at in ((axes[0], 2, rho), (axes[1], 1, 1.0)):
        _without(
            axis,
            {key: s for key, s in private.items() if key[place] == at} | true,
            LABELS["edge-rand"],
        )
    _title(figure, "Private edges", _over_public(values), "the public edges alone")
    axes[1].set_xlabel("rho, the share of private edges")
    axes[1].set_title("epsilon 1", fontsize=9)
    show.legend_below(figure, axes[0], 5)
    return figure


def _figure_10(frame: pd.DataFrame) -> Any:
    values = _values(frame)
    figure, axes = show.panels(1, width=5.6, height=3.6)
    for name, edges in dict.fromkeys((m, e) for m, eps, _, e in values if _private(eps)):
        shown = {
            eps: mean_interval(s) for (m, eps, _, e), s in values.items() if (m, e) == (name, edges)
        }
        label = f"{LABELS[name]} + {LABELS[edges]}"
        show.errorbars(axes[0], shown, color=COLOURS[name], label=label, markersize=3)
    for (mechanism, epsilon, _, edges), series in values.items():
        if not _private(epsilon):
            label = (
                _name(mechanism) if mechanism == edges else f"{_name(mechanism)}, {_name(edges)}"
            )
            show.level(axes[0], series.mean(), label, "-" if mechanism == NON_PRIVATE else "--")
    _axis(axes[0], "", frame)
    axes[0].set_xlabel("epsilon of a record, and of a private edge")
    show.legend_below(figure, axes[0], 2)
    return figure


Gains = list[ConfidenceInterval | None]


def digest(results: _runner.Results) -> str:
    frame = results.read()
    records, edges = gains(frame)
    above, below, _ = show.counted(records)
    more, less, _ = show.counted(edges)
    words = (
        f"Of {len(records)} rows of private features {above} are above their structure-only twin, "
        f"{below} below. "
        f"Of {len(edges)} rows of private edges with an epsilon {more} are above public edges "
        f"alone, {less} below."
    )
    return f"{words}\n\n{_claims(frame).replace('## ', '### ')}" if records else ""


def gains(frame: pd.DataFrame) -> tuple[Gains, Gains]:
    """Of records over their twin, of edges with an epsilon over the public ones.

    Empty without the whole plan.
    """
    if frame.empty or set(frame.level) != set(accuracy.LEVELS):
        return [], []
    features = _values(frame[frame.level == "features"])
    edges = _values(frame[(frame.level == "edges") & (frame.epsilon_proved < np.inf)])
    return _over_twins(features), _over_public(edges)


def _over_twins(values: show.Values) -> Gains:
    """Of private records over their structure-only twins."""
    mine = [
        key for key in values if _private(key[1]) and not key[0].startswith((STRUCTURE, FEATURES))
    ]
    return [show.contrast(values, key, (STRUCTURE + key[0], *key[1:])) for key in mine]


def _over_public(values: show.Values) -> Gains:
    """Of private edges over the public ones."""
    return [
        show.contrast(values, key, (PUBLIC_EDGES, 0.0, key[2], ""))
        for key in values
        if _private(key[1])
    ]
