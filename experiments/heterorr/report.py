"""Tables and figures of HeteroRR's accuracy rows; nothing is computed but statistics."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from experiments._report import legend_below, markdown, panels, save, signed
from experiments._runner import write_atomically
from experiments.heterorr import accuracy, attacks
from experiments.heterorr.cells import LABEL_PROPAGATION, NON_PRIVATE, PUBLIC_RECORDS, RECORDS, RELEASED, TRUE
from experiments.heterorr.labels import COLOURS, LABELS, budget
from experiments.heterorr.published import CLAIMS
from experiments.heterorr.releases import EPSILON_0, FEATURES, LINK_PREDICTION, PUBLIC_EDGES, STRUCTURE
from ldp_jax.learning.metrics import ConfidenceInterval, mean_interval

SCORES = ("accuracy", "micro-F1")
_KEY = ["mechanism", "epsilon", "rho", "edges"]


def write(out: Path) -> list[Path]:
    """heterorr.md and its figures."""
    frame = accuracy.results_in(out).read().fillna({"edges": ""})
    if frame.empty:
        return []
    sections, written = ["# HeteroRR: private features, private edges", _PREFACE, _claims(frame)], []
    for level, title, make, stem, draw in (
        ("features", "Private features (Figure 6)", _features, "heterorr_figure6", _figure_6),
        ("edges", "Private edges (Figure 7)", _edges, "heterorr_figure7", _figure_7),
        ("both", "Private features and private edges (Figures 10 and 11)", _both, "heterorr_figure10", _figure_10),
    ):
        part = frame[frame.level == level]
        for dataset, of_set in part.groupby("dataset", sort=False):
            suffix = "" if dataset == part.dataset.iloc[0] else f"_{dataset}"
            path = out / f"{stem}{suffix}.png"
            save(draw(of_set), path)
            written.append(path)
            sections += [f"## {title}: {dataset}", f"![{title}]({path.name})", make(of_set)]
    path = out / f"{accuracy.NAME}.md"
    write_atomically(path, "\n\n".join(section for section in sections if section) + "\n")
    return [path, *written]


_PREFACE = """\
Made by `python -m experiments report` from `heterorr.csv`; configurations and guarantees are in its manifest. A GCN
of two layers (mean aggregation, 64 wide) classifies the nodes; half of them train it, a quarter each validates and
tests. Intervals are 95 % (Student, over seeds); differences are paired by seed, bold where their interval leaves 0
out. Labels are public but in the rows of LPGNN that say so. The paper's data are not public (FLICKR-MIR) or lack
their features here (PPI): `facebook100_caltech36`, attributes and friendships of students, stands in for both.

* **Features.** Every edge is public. A tenth of all users, drawn among the training nodes, have public records:
  their principal components are the embedding (48 coordinates, the paper's is ResNet-50's), their largest values
  its bounds, and a perceptron trained on them gives the importance of eq. 6; their masked gender the sensitivity of
  eq. 5. All other records are private. Every row, private or not, propagates what it has by 0, 2, 4, 8 or 16 steps
  of LPGNN's KProp, raw or standardised, whichever is best in validation.
* **LPGNN, labels private too** has half of its budget for the features and half for the label of every private user
  who trains or validates, forward correction and Drop; its structure-only twin spends the half of the labels.
* **structure-only** is the same mechanism on one public record for all private users; **features-only** the same
  release without any edge. **gain** is a row less its structure-only twin, **beyond public** a row less the better
  of *public records alone* (private users have the mean record, epsilon 0) and label propagation.
* **Edges.** Features are public; a share rho of the edges, at random, is private, and epsilon is per private edge
  under a trusted curator. *public edges alone* uses none of them; *public link prediction* adds as many pairs as
  there are private edges, best by common public neighbours; *public HRG* draws them from a dendrogram of the public
  edges. These three are at epsilon 0. **released** and **true** count pairs released as private edges.
* Three-outputs' mechanism is Duchi's at the budgets of a coordinate here, and so multi-bit's, where their numbers
  are the same.
* EdgeRR and PrivHRG have no epsilon here: their guarantee is that of a chain's law, and chains of 8 000 sweeps have
  not reached it ([heterorr_mixing.md](heterorr_mixing.md)). All other epsilons are proved."""


def _scores(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[frame.metric.isin(SCORES)]


def _values(frame: pd.DataFrame) -> dict[tuple[Any, ...], pd.Series]:
    """Scores in per cent by seed, of each row."""
    return {key: 100 * part.set_index("seed").value for key, part in _scores(frame).groupby(_KEY, sort=False)}


def _less(one: pd.Series, other: pd.Series | None) -> ConfidenceInterval | None:
    if other is None:
        return None
    both = pd.concat([one, other], axis=1, join="inner").dropna()
    return mean_interval(both.iloc[:, 0] - both.iloc[:, 1]) if len(both) else None


def _name(mechanism: str) -> str:
    for prefix in (STRUCTURE, FEATURES):
        if mechanism.startswith(prefix):
            return f"{prefix.removesuffix(':')} {LABELS.get(mechanism.removeprefix(prefix), mechanism)}"
    return LABELS.get(mechanism, mechanism)


def best_public(values: dict[tuple[Any, ...], pd.Series]) -> pd.Series:
    """Of the rows at epsilon 0 the one with the best mean."""
    known = [series for (name, epsilon, _, _), series in values.items() if epsilon == 0]
    return max(known, key=lambda series: series.mean())


def _features(frame: pd.DataFrame) -> str:
    values = _values(frame)
    public = best_public(values)
    rows = []
    for (mechanism, epsilon, _, _), series in values.items():
        if mechanism.startswith((STRUCTURE, FEATURES)) and mechanism != FEATURES + NON_PRIVATE:
            continue
        twin = values.get((STRUCTURE + mechanism, epsilon, 0.0, ""))
        alone = values.get((FEATURES + mechanism, epsilon, 0.0, ""))
        private = 0 < epsilon < np.inf
        rows.append(
            [
                _name(mechanism),
                f"{epsilon:g}",
                str(mean_interval(series)),
                "" if twin is None else str(mean_interval(twin)),
                "" if alone is None else str(mean_interval(alone)),
                signed(_less(series, twin)),
                signed(_less(series, public)) if private else "",
            ]
        )
    headers = ["mechanism", "eps", "accuracy (%)", "structure-only", "features-only", "gain", "beyond public"]
    return _seeds(frame) + markdown(headers, rows)


def _edges(frame: pd.DataFrame) -> str:
    values = _values(frame)
    rows = []
    for (mechanism, epsilon, rho, _), series in values.items():
        alone = values.get((PUBLIC_EDGES, 0.0, rho, ""))
        guessed = values.get((LINK_PREDICTION, 0.0, rho, ""))
        of_row = frame[(frame.mechanism == mechanism) & (frame.epsilon == epsilon) & (frame.rho == rho)]
        counts = [of_row[of_row.metric == metric].value for metric in (RELEASED, TRUE)]
        rows.append(
            [
                _name(mechanism),
                f"{rho:g}",
                budget(str(mechanism), float(epsilon)),
                str(mean_interval(series)),
                *(f"{count.mean():.0f}" if len(count) else "" for count in counts),
                signed(_less(series, alone)) if mechanism != PUBLIC_EDGES else "",
                signed(_less(series, guessed)) if mechanism != LINK_PREDICTION else "",
            ]
        )
    headers = ["mechanism", "rho", "eps", "accuracy (%)", "released", "true", "less public edges alone"]
    return _seeds(frame) + markdown([*headers, "less public link prediction"], rows)


def _both(frame: pd.DataFrame) -> str:
    values = _values(frame)
    public = values.get((PUBLIC_RECORDS, 0.0, frame.rho.max(), PUBLIC_EDGES))
    rows = [
        [
            f"{_name(mechanism)} + {_name(edges)}",
            f"{epsilon:g}, {budget(edges, float(epsilon))}",
            str(mean_interval(series)),
            signed(_less(series, public)) if mechanism != PUBLIC_RECORDS else "",
        ]
        for (mechanism, epsilon, _, edges), series in values.items()
    ]
    headers = [
        "mechanisms",
        "eps of a record, and of a private edge",
        "accuracy (%)",
        "less public knowledge alone",
    ]
    return _seeds(frame) + markdown(headers, rows)


def _seeds(frame: pd.DataFrame) -> str:
    rhos = ", ".join(f"{rho:g}" for rho in sorted(frame.rho.unique()) if rho)
    return f"{frame.seed.nunique()} seeds{f', rho {rhos}' if rhos else ''}; config `{frame.config.iloc[0]}`.\n\n"


def _claims(frame: pd.DataFrame) -> str:
    """The paper's sentences beside paired two-tailed t-tests of the same mechanisms here."""
    rows = []
    for claim in CLAIMS:
        part = _scores(frame[(frame.level == claim.level) & (frame.rho.isin((0.0, frame.rho.max())))])
        for dataset, of_set in part.groupby("dataset", sort=False):
            # One number a seed, the mean over the budgets: budgets of one seed share its split.
            means = 100 * of_set.pivot_table(index="seed", columns=["mechanism", "epsilon"], values="value")
            if claim.mechanism not in means or claim.other not in means:
                continue
            mine, theirs = (means[[name]].mean(axis=1) for name in (claim.mechanism, claim.other))
            tested = stats.ttest_rel(mine, theirs) if len(mine) > 1 else None
            rows.append(
                [
                    claim.text,
                    str(dataset),
                    f"{_name(claim.mechanism)} less {_name(claim.other)}",
                    signed(mean_interval(mine - theirs)),
                    "" if tested is None else f"{tested.pvalue:.2g}",
                ]
            )
    if not rows:
        return ""
    lead = "Means over the budgets, one number a seed; p is that of a paired two-tailed t-test over seeds."
    return f"## The paper's claims\n\n{lead}\n\n" + markdown(["the paper", "data set", "here", "points", "p"], rows)


# --- Figures ---------------------------------------------------------------------------------------------------


def _lines(
    axis: Any, values: dict[tuple[Any, ...], pd.Series], rho: float, prefix: str = "", edges: str = ""
) -> None:
    """Every mechanism against epsilon."""
    for name, colour in COLOURS.items():
        points = sorted(
            (epsilon, mean_interval(series))
            for (mechanism, epsilon, of, other), series in values.items()
            if mechanism == prefix + name and of == rho and other == edges and 0 < epsilon < np.inf
        )
        if points:
            axis.errorbar(
                [epsilon for epsilon, _ in points], [i.mean for _, i in points],
                yerr=[i.half_width for _, i in points], label=LABELS[name], color=colour, marker="o", markersize=3,
                capsize=2, linewidth=1.2,
            )  # fmt: skip


def _level_lines(axis: Any, values: dict[tuple[Any, ...], pd.Series], names: dict[str, Any], rho: float) -> None:
    for (mechanism, _, of, _), series in values.items():
        if mechanism in names and of == rho:
            axis.axhline(
                series.mean(), linestyle=names[mechanism], color="black", linewidth=0.9, label=_name(mechanism)
            )


def _axis(axis: Any, title: str, epsilons: Any) -> None:
    axis.set_xscale("log")
    axis.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axis.minorticks_off()
    axis.set_xlabel("epsilon")
    axis.set_ylabel("test accuracy (%)")
    axis.set_title(title, fontsize=9)


BELOW = ("lpgnn-labels", "edge-rand")
"""Rows far below all others: they leave the axes, which say so, that the others can be told apart."""


def _without(axis: Any, series: Any, label: str) -> None:
    """Fit an axis to what is not below, and say what is."""
    axis.relim()
    held = [(s.min(), s.max()) for (name, *_), s in series if name.rpartition(":")[2] not in BELOW]
    low, high = min(at for at, _ in held), max(at for _, at in held)
    axis.set_ylim(low - 0.05 * (high - low), high + 0.1 * (high - low))
    left = [s.mean() for (name, *_), s in series if name.rpartition(":")[2] in BELOW]
    if left:
        axis.text(0.02, 0.02, f"{label}: from {min(left):.0f} %", transform=axis.transAxes, fontsize=7)


def _share_above(pairs: Any) -> str:
    """How many of some rows have an interval above what stands beside them."""
    gains = [_less(series, other) for series, other in pairs if other is not None]
    return f"{_above(gains)} of {len(gains)}"


def _budgets(frame: pd.DataFrame) -> list[float]:
    return sorted(eps for eps in frame.epsilon.unique() if 0 < eps < np.inf)


def _figure_6(frame: pd.DataFrame) -> Any:
    values, budgets = _values(frame), _budgets(frame)
    figure, axes = panels(3, width=3.9, height=3.4)
    known: dict[str, Any] = {NON_PRIVATE: "-", RECORDS: (0, (1, 1)), PUBLIC_RECORDS: "--", LABEL_PROPAGATION: "-."}
    titles = (("", "released features and edges"), (STRUCTURE, "structure-only"), (FEATURES, "features-only"))
    for axis, (prefix, title) in zip(axes, titles, strict=True):
        _lines(axis, values, 0.0, prefix)
        shown = known if prefix != FEATURES else {FEATURES + NON_PRIVATE: "-"}
        _level_lines(axis, values, shown, 0.0)
        _axis(axis, title, budgets)
    private = {key: s for key, s in values.items() if key[2] == 0.0 and 0 < key[1] < np.inf}
    whole = [(key, s) for key, s in private.items() if not key[0].startswith(FEATURES)]
    for axis in axes[:2]:
        _without(axis, whole, LABELS["lpgnn-labels"])
    beside = [
        (s, values.get((STRUCTURE + key[0], *key[1:]))) for key, s in whole if not key[0].startswith(STRUCTURE)
    ]
    figure.suptitle(
        f"Private features: {_share_above(beside)} rows are above their structure-only twin", fontsize=10
    )
    legend_below(figure, axes[0], 6)
    return figure


def _figure_7(frame: pd.DataFrame) -> Any:
    values, rho = _values(frame), frame.rho.max()
    figure, axes = panels(2, width=5.2, height=3.6)
    _lines(axes[0], values, rho)
    known = {NON_PRIVATE: "-", PUBLIC_EDGES: "--", LINK_PREDICTION: "-.", EPSILON_0[2]: ":"}
    _level_lines(axes[0], values, known, rho)
    _axis(axes[0], f"rho {rho:g}", _budgets(frame[frame.rho == rho]))
    rhos = sorted(frame.rho.unique())
    for name, colour in COLOURS.items():
        points = [(r, mean_interval(values[name, 1.0, r, ""])) for r in rhos if (name, 1.0, r, "") in values]
        if points:
            axes[1].errorbar(
                [r for r, _ in points], [i.mean for _, i in points], yerr=[i.half_width for _, i in points],
                color=colour, marker="o", markersize=3, capsize=2, linewidth=1.2,
            )  # fmt: skip
    for name, style in known.items():
        points = [(r, s.mean()) for (m, _, r, _), s in values.items() if m == name]
        axes[1].plot(*zip(*points, strict=True), linestyle=style, color="black", linewidth=0.9)
    private = [(key, s) for key, s in values.items() if 0 < key[1] < np.inf]
    true = [(key, s) for key, s in values.items() if key[0] == NON_PRIVATE]
    for axis, shown in zip(
        axes, ([p for p in private if p[0][2] == rho], [p for p in private if p[0][1] == 1.0]), strict=True
    ):
        _without(axis, [*shown, *true], LABELS["edge-rand"])
    beside = [(s, values.get((PUBLIC_EDGES, 0.0, key[2], ""))) for key, s in private]
    figure.suptitle(f"Private edges: {_share_above(beside)} rows are above the public edges alone", fontsize=10)
    axes[1].set_xlabel("rho, the share of private edges")
    axes[1].set_title("epsilon 1", fontsize=9)
    legend_below(figure, axes[0], 5)
    return figure


def _figure_10(frame: pd.DataFrame) -> Any:
    values, budgets = _values(frame), _budgets(frame)
    figure, axes = panels(1, width=5.6, height=3.6)
    for name, edges in dict.fromkeys((m, e) for m, eps, _, e in values if 0 < eps < np.inf):
        points = [(eps, mean_interval(s)) for (m, eps, _, e), s in values.items() if (m, e) == (name, edges)]
        axes[0].errorbar(
            [eps for eps, _ in points], [i.mean for _, i in points], yerr=[i.half_width for _, i in points],
            color=COLOURS[name], label=f"{LABELS[name]} + {LABELS[edges]}", marker="o", markersize=3, capsize=2,
        )  # fmt: skip
    for (mechanism, epsilon, _, edges), series in values.items():
        if not 0 < epsilon < np.inf:
            style = "-" if mechanism == NON_PRIVATE else "--"
            label = _name(mechanism) if mechanism == edges else f"{_name(mechanism)}, {_name(edges)}"
            axes[0].axhline(series.mean(), linestyle=style, color="black", linewidth=0.9, label=label)
    _axis(axes[0], "", budgets)
    axes[0].set_xlabel("epsilon of a record, and of a private edge")
    legend_below(figure, axes[0], 2)
    return figure


# --- README ----------------------------------------------------------------------------------------------------


def readme_sections(out: Path) -> dict[str, str]:
    """What the README says: accuracy at epsilon 1 beside what is public, and who finds private edges.

    Nothing where a folder's rows are not those of the committed plan.
    """
    frame = accuracy.results_in(out).read().fillna({"edges": ""})
    told = attacks.results_in(out).read()
    if frame.empty or told.empty or set(frame.level) != set(accuracy.LEVELS):
        return {}
    (dataset,) = frame.dataset.unique()
    features, edges = (_values(frame[frame.level == level]) for level in ("features", "edges"))
    rho = frame.rho.max()
    public = best_public(features)
    alone = edges[PUBLIC_EDGES, 0.0, rho, ""]
    rows = []
    beyond, gains, of_twins = [], [], []
    for (name, epsilon, _, _), series in features.items():
        if not 0 < epsilon < np.inf or name.startswith((STRUCTURE, FEATURES)):
            continue
        twin = features[STRUCTURE + name, epsilon, 0.0, ""]
        beyond.append(_less(series, public))
        gains.append(_less(series, twin))
        of_twins.append(_less(twin, public))
        if epsilon == 1.0:
            shown = signed(gains[-1]), signed(beyond[-1])
            rows.append([_name(name), str(mean_interval(series)), *shown, "", "", ""])
    of_edges = []
    auc = told[told.metric == attacks.METRICS[-1]].groupby(["mechanism", "epsilon", "attack"]).value.mean()
    counts = frame[(frame.level == "edges") & (frame.rho == rho)].pivot_table(
        index=["mechanism", "epsilon"], columns="metric", values="value"
    )
    for (name, epsilon, of, _), series in edges.items():
        if of != rho or not 0 < epsilon < np.inf:
            continue
        of_edges.append(_less(series, alone))
        if epsilon == 1.0:
            found = counts.loc[(name, 1.0)]
            shown = f"{found[TRUE]:.0f} of {found[RELEASED]:.0f}"
            leak = auc.get((name, 1.0, attacks.LINKTELLER))
            cells = ["", signed(of_edges[-1]), shown, "" if leak is None else f"{leak:.2f}"]
            rows.append([_name(name), str(mean_interval(series)), "", *cells])
    headers = [
        "epsilon 1", "accuracy (%)", "less structure-only twin", "less public knowledge", "less public edges alone",
        "true of released private edges", "AUC of LinkTeller",
    ]  # fmt: skip
    known = {
        name: mean_interval(features[name, epsilon, 0.0, ""])
        for name, epsilon in (
            (RECORDS, np.inf),
            (NON_PRIVATE, np.inf),
            (PUBLIC_RECORDS, 0.0),
            (LABEL_PROPAGATION, 0.0),
        )
    }
    guess = mean_interval(edges[LINK_PREDICTION, 0.0, rho, ""])
    section = _README.format(
        dataset=dataset,
        rho=rho,
        seeds=frame.seed.nunique(),
        above=_above(beyond),
        features=len(beyond),
        twins_above=_above(of_twins),
        gains_above=_above(gains),
        gains_below=sum(gain is not None and -gain.mean > gain.half_width for gain in gains),
        edges_above=_above(of_edges),
        edges=len(of_edges),
        whole=known[RECORDS],
        embedded=known[NON_PRIVATE],
        public=known[PUBLIC_RECORDS],
        labels=known[LABEL_PROPAGATION],
        all_edges=mean_interval(edges[NON_PRIVATE, np.inf, rho, ""]),
        alone=mean_interval(alone),
        guess=guess,
        true=auc[NON_PRIVATE, np.inf, attacks.LINKTELLER],
        model=auc[PUBLIC_EDGES, 0.0, attacks.LINKTELLER],
        nobody=auc["public knowledge", 0.0, attacks.BESIDE],
        table=markdown(headers, rows),
    )
    return {"heterorr": section}


class Gains(NamedTuple):
    """Of all private rows: records over the row's own twin, private edges over the public edges alone."""

    records: list[ConfidenceInterval | None]
    edges: list[ConfidenceInterval | None]


def gains(out: Path) -> Gains:
    """The gains of the rows in a folder; empty where it has none of the committed plan."""
    frame = accuracy.results_in(out).read().fillna({"edges": ""})
    if frame.empty or set(frame.level) != set(accuracy.LEVELS):
        return Gains([], [])
    features, edges = (_values(frame[frame.level == level]) for level in ("features", "edges"))
    rho = frame.rho.max()
    records = [
        _less(series, features[STRUCTURE + name, epsilon, 0.0, ""])
        for (name, epsilon, _, _), series in features.items()
        if 0 < epsilon < np.inf and not name.startswith((STRUCTURE, FEATURES))
    ]
    alone = edges[PUBLIC_EDGES, 0.0, rho, ""]
    released = [_less(series, alone) for (_, e, of, _), series in edges.items() if of == rho and 0 < e < np.inf]
    return Gains(records, released)


def _above(gains: list[ConfidenceInterval | None]) -> int:
    return sum(gain is not None and gain.mean > gain.half_width for gain in gains)


_README = """\
HeteroRR's question on `{dataset}` (the paper's data are not public): a GCN of private features (every edge
public), and of private edges (every feature public, a share {rho:g} of the edges private under a trusted curator);
{seeds} seeds, intervals of 95 %.

* **Features.** Non-private records give {whole}, their public embedding {embedded}; the records of a
  public tenth of the users, and nothing of the others, {public}; label propagation {labels}. Of
  {features} private rows (mechanisms and budgets) {above} have an interval above the better of these two, and so
  have {twins_above} of their structure-only twins, to which all private users gave one public record: a row's gain
  over its own twin is above 0 in {gains_above}, below in {gains_below}.
* **Edges.** All edges give {all_edges}; the public ones alone {alone}, with public link
  prediction {guess}. Of {edges} private rows at rho {rho:g} {edges_above} have an interval above the public
  edges.
* **Leakage.** LinkTeller finds private edges of a model of all edges with an AUC of {true:.2f}, and with
  {model:.2f} by a model that has never seen one; common public neighbours find them with {nobody:.2f}, without
  any model.

{table}

![Private edges against epsilon, beside public edges alone and all edges](experiments/results/heterorr_figure7.png)

All rows, twins and other budgets: [heterorr.md](experiments/results/heterorr.md); attacks:
[heterorr_attacks.md](experiments/results/heterorr_attacks.md); how chains of hierarchical random graphs mix:
[heterorr_mixing.md](experiments/results/heterorr_mixing.md); images that an attacker reconstructs from private
embeddings: [heterorr_inversion.md](experiments/results/heterorr_inversion.md). `python -m experiments heterorr`
computes them.
"""
