"""Tables and figures of PoinDP; nothing is computed but statistics."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments._report import legend_below, markdown, panels, save, signed, significant
from experiments._runner import write_atomically
from experiments.poindp import accuracy, attack_report, gap_report, noise_report
from experiments.poindp.cells import METRICS
from experiments.poindp.config import Config
from experiments.poindp.labels import COLOURS, label, shown
from experiments.poindp.published import TABLE_1, TABLE_2
from experiments.poindp.settings import (
    ABLATED,
    AS_PUBLISHED,
    FEATURES,
    NON_PRIVATE,
    PRINTED,
    PUBLIC,
    PUBLISHED,
    SHARES,
    SOUND,
    STRUCTURE,
)
from ldp_jax.learning.metrics import ConfidenceInterval, mean_interval

Values = dict[tuple[str, float, str], pd.Series]
"""Per cent by seed, of each mechanism, epsilon and metric."""

WEIGHTED, MACRO, MICRO = METRICS


def write(out: Path) -> list[Path]:
    """poindp.md, poindp_membership.md and the figures."""
    written = [*_draw(out), *noise_report.draw(out), *attack_report.write(out)]
    text = as_markdown(out)
    if not text:
        return written
    path = out / f"{accuracy.NAME}.md"
    write_atomically(path, text)
    return [path, *written]


def as_markdown(out: Path) -> str:
    """poindp.md of the rows of a folder; empty where there are none."""
    sections = [*_accuracy(accuracy.results_in(out).read()), *gap_report.section(out), *noise_report.sections(out)]
    return "\n\n".join(["# PoinDP: hierarchy-aware noise for graph networks", *sections]) + "\n" if sections else ""


# --- Accuracy ----------------------------------------------------------------------------------------------------

_PREFACE = """\
Made by `python -m experiments report` from `poindp.csv`; configurations and guarantees are in its manifest.
Networks of two layers, 16 wide, at most 200 epochs, the best of them by validation; ours are means over splits,
keys and trainings with 95 % intervals (Student, over seeds), differences paired by seed, bold where their interval
leaves 0 out. The graph, and with it the Poincaré embedding that the hierarchy is, and the labels are public
throughout. Each record is scaled to length 1, and for networks on Amazon's records themselves to 5 (the authors
take these as they are, some 15 long).

* **paper** is what the paper prints. What it calls micro-F1 is compared with macro-F1: the authors' code computes
  that. Of one class a node micro-F1 is the accuracy.
* **As published**: noise in every epoch and in every answer, by the authors' code; *eq. 12* by the paper's formula.
  Nothing is proved of either, so **proved** says none; were each application private at its nominal epsilon, 200
  epochs and one answer would compose to 201 times that. VANPD puts Laplace noise of scale 1/eps on the outputs of a
  GCN, which have no bound. LaP puts it on features, once: of rows that sum to 1 that is a true local mechanism, at
  twice its nominal epsilon. RdDP is PoinDP with noise of random strength, AtDP with strength by attention. What
  scales the released noise never gets a gradient in that code, and gets none here.
* **Sound**: every user reports her own record once, at the nominal epsilon and delta 1e-5: 16 random projections
  of her features, as a tangent vector at the origin of the ball of length at most 1, by one of the two Gaussian
  mechanisms; or all features by Laplace noise, delta 0. *By level*: users of the inner third of the public
  hierarchy have all of epsilon, of the middle third half, of the outer third a quarter. PoinDP's network without
  noise is trained on the reports, those of the Gaussian mechanisms propagated by 0, 4 or 16 steps and standardised,
  whichever is best in validation. Nothing is spent afterwards, however often the network is trained or asked.
* **structure-only** is the same mechanism and network on one public record, 0, for all; **gain** is a row less that
  twin: what the private records add to the public graph in the hands of that network. **features-only** is a
  perceptron on the same reports, without any edge.
* **graph and labels alone** is the strongest that we have without any record or network: label propagation, a
  field, or a stack of both with regressions on spectral coordinates, whichever has the least log-loss on the
  training nodes, out of fold. **over public** is a row less that one."""


def _values(frame: pd.DataFrame) -> Values:
    grouped = frame.groupby(["mechanism", "epsilon", "metric"], sort=False)
    return {key: 100 * part.set_index("seed").value for key, part in grouped}


def _interval(values: Values, name: str, epsilon: float, metric: str) -> ConfidenceInterval | None:
    series = values.get((name, epsilon, metric))
    return None if series is None else mean_interval(series)


def _less(
    values: Values, name: str, other: str, epsilon: float, of_other: float | None = None
) -> ConfidenceInterval | None:
    one = values.get((name, epsilon, WEIGHTED))
    two = values.get((other, epsilon if of_other is None else of_other, WEIGHTED))
    if one is None or two is None:
        return None
    both = pd.concat([one, two], axis=1, join="inner").dropna()
    return mean_interval(both.iloc[:, 0] - both.iloc[:, 1]) if len(both) else None


def _proved(frame: pd.DataFrame, name: str, epsilon: float) -> str:
    row = frame[(frame.mechanism == name) & (frame.epsilon == epsilon)].iloc[0]
    if math.isinf(row.epsilon_proved):
        return "-" if name in NON_PRIVATE else "none"
    return f"{row.epsilon_proved:.3g}" + (f", {row.delta:g}" if row.delta else "")


def _accuracy(frame: pd.DataFrame) -> list[str]:
    if frame.empty:
        return []
    sections = [_PREFACE]
    budgets = [eps for eps in frame.epsilon.unique() if 0 < eps < np.inf] or [np.inf]
    budget, least = max(budgets), min(budgets)
    for split in ("random", "public"):
        for dataset, part in frame[frame.split == split].groupby("dataset", sort=False):
            made = _table_1(part, str(dataset), budget)
            if made:
                sections += [f"## Table 1: {dataset}, {split} split, epsilon {budget:g}", made]
    for dataset, part in frame[frame.split == "random"].groupby("dataset", sort=False):
        made = _table_2(part, str(dataset), least)
        if made:
            sections += [f"## Table 2: {dataset}, random split, epsilon {least:g}", made]
    levels = _levels(frame)
    if not levels.empty:
        sections += [
            "## Figure 3: training nodes from parts of the hierarchy",
            _FIGURE_3,
            f"![Figure 3]({_FIGURE_3_NAME})",
            _table_of_figure_3(levels),
        ]
    return sections


_FIGURE_3_NAME = "poindp_figure3.png"


def _levels(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of Figure 3."""
    return frame[frame.dataset.isin(frame[frame.split == "inner"].dataset.unique())]


def _draw(out: Path) -> list[Path]:
    levels = _levels(accuracy.results_in(out).read())
    if levels.empty:
        return []
    path = out / _FIGURE_3_NAME
    save(_figure_3(levels), path)
    return [path]


def _table_1(frame: pd.DataFrame, dataset: str, epsilon: float) -> str:
    values, rows = _values(frame), []
    groups: tuple[tuple[tuple[str, ...], str, float], ...] = (
        (NON_PRIVATE, "none", np.inf), ((PUBLIC,), "no record", 0.0), (AS_PUBLISHED, "as published", epsilon),
        (SOUND, "sound", epsilon),
    )  # fmt: skip
    for group, privacy, eps in groups:
        for name in group:
            if (name, eps, MICRO) not in values:
                continue
            printed = TABLE_1.get((dataset, name), ("", ""))
            twin = _interval(values, STRUCTURE + name, eps, WEIGHTED)
            rows.append(
                [
                    label(name),
                    privacy,
                    _proved(frame, name, eps),
                    *(str(number) for number in printed),
                    *(shown(_interval(values, name, eps, metric)) for metric in (WEIGHTED, MACRO, MICRO)),
                    shown(twin),
                    shown(_interval(values, FEATURES + name, eps, WEIGHTED)),
                    signed(_less(values, name, STRUCTURE + name, eps)),
                    "" if name == PUBLIC else signed(_less(values, name, PUBLIC, eps, 0.0)),
                ]
            )
    headers = ["row", "privacy", "proved eps, delta", "paper W-F1", "paper M-F1", "W-F1", "macro-F1", "micro-F1"]
    headers += ["structure-only W-F1", "features-only W-F1", "gain", "over public"]
    return _seeds(frame) + markdown(headers, rows) if rows else ""


def _seeds(frame: pd.DataFrame) -> str:
    return f"{frame.seed.nunique()} seeds; config `{frame.config.iloc[0]}`.\n\n"


def _table_2(frame: pd.DataFrame, dataset: str, epsilon: float) -> str:
    values, rows = _values(frame), []
    whole = {name: name.split(" without")[0] for name in (*ABLATED, *SHARES)}
    for name, of in whole.items():
        if (name, epsilon, WEIGHTED) not in values:
            continue
        printed = TABLE_2.get((dataset, name), "")
        rows.append(
            [
                label(name),
                _proved(frame, name, epsilon),
                str(printed),
                shown(_interval(values, name, epsilon, WEIGHTED)),
                signed(_less(values, name, of, epsilon)) if name != of else "",
                shown(_interval(values, STRUCTURE + name, epsilon, WEIGHTED)),
                signed(_less(values, name, STRUCTURE + name, epsilon)),
            ]
        )
    headers = ["row", "proved eps, delta", "paper W-F1", "W-F1", "less the whole", "structure-only W-F1", "gain"]
    complete = any(name in ABLATED[1:4] for name, eps, _ in values if eps == epsilon)
    return _seeds(frame) + markdown(headers, rows) if complete else ""


_FIGURE_3 = """\
*inner*: 30 % of the third of the nodes that is nearest to the centre of the disk trains, the top of the hierarchy
in the paper's words; *outer*: of the third farthest from it, the top in the authors' code, which takes the largest
norms. What is the top by one reading is the bottom by the other. A tenth of all other nodes validates, the rest are
the test."""

_READINGS = {"random": "random", "inner": "inner, the text's top", "outer": "outer, the code's top"}


def _figure_3(frame: pd.DataFrame) -> Any:
    names = (f"{PUBLISHED}poindp", f"{PRINTED}poindp", "radial", f"{STRUCTURE}radial")
    figure, axes = panels(len(_READINGS), width=3.6, height=3.2)
    for axis, split in zip(axes, _READINGS, strict=True):
        values = _values(frame[frame.split == split])
        for turn, name in enumerate(names):
            points = sorted(
                (eps * 1.04 ** (turn - 1.5), mean_interval(s))  # side by side
                for (m, eps, k), s in values.items()
                if (m, k) == (name, WEIGHTED)
            )
            if points:
                axis.errorbar(
                    [eps for eps, _ in points], [i.mean for _, i in points], yerr=[i.half_width for _, i in points],
                    label=label(name), color=COLOURS[name], marker="o", markersize=3, capsize=2,
                )  # fmt: skip
        axis.set_xscale("log")
        axis.set_xlabel("nominal epsilon")
        axis.set_ylabel("weighted F1 (%)")
        axis.set_title(f"training nodes: {_READINGS[split]}", fontsize=9)
    low, high = min(a.get_ylim()[0] for a in axes), max(a.get_ylim()[1] for a in axes)
    for axis in axes:
        axis.set_ylim(low, high)
    legend_below(figure, axes[0], 4)
    return figure


def _table_of_figure_3(frame: pd.DataFrame) -> str:
    rows = []
    for split in _READINGS:
        values = _values(frame[frame.split == split])
        for name in (f"{PUBLISHED}poindp", f"{PRINTED}poindp", "radial"):
            for eps in sorted(e for m, e, k in values if (m, k) == (name, WEIGHTED)):
                rows.append(
                    [
                        split, label(name), f"{eps:g}", shown(_interval(values, name, eps, WEIGHTED)),
                        shown(_interval(values, STRUCTURE + name, eps, WEIGHTED)),
                    ]
                )  # fmt: skip
    return markdown(["training nodes", "row", "eps", "W-F1", "structure-only W-F1"], rows)


# --- README ------------------------------------------------------------------------------------------------------

_README = """\
Noise that follows a hierarchy (PoinDP), at epsilon {epsilon:g}. *As published*, noise falls into every epoch and
every answer, nothing is composed, and **nothing is proved**: that column is no private accuracy. In sound rows each
user's features are reported once, at a proved epsilon of {epsilon:g} (delta 1e-5; Laplace: 0); the graph and the
labels are public. Weighted F1 in %, random split, means and 95 % intervals over {seeds} splits; *gain* is over the
same mechanism on one public record for all users: what private records add to the public graph. *Graph and labels
alone* is the strongest that we have without any record: what each row is worth is seen beside it.

{table}

Of {rows} sound rows (mechanism, budget, data set and split) the gain has an interval above 0 in {up} and below 0 in
{down}; rows of one split are not independent.{figure}

All rows, ablations (Table 2), and where the published noise falls on the disk (Figures 4 to 6):
[poindp.md](experiments/results/poindp.md); `python -m experiments poindp` computes them.
"""

_README_FIGURE_3 = """

![Training nodes from the top and from the bottom of the hierarchy, and at random](experiments/results/{name})"""

_README_ATTACKS = """
Which nodes a network was trained on (Table 3, at epsilon {epsilon:g}): AUC in % of the stronger of the paper's
attack and LiRA, by protocol and share of the nodes that are members.{protocol}

{table}

Each of {targets} networks is the target in turn. *structure-only* networks have seen no record. All attacks,
rows and their twins: [poindp_membership.md](experiments/results/poindp_membership.md).
"""


def readme_sections(out: Path) -> dict[str, str]:
    """What the README says of PoinDP; nothing where a folder has no rows of the committed plan's budget."""
    frame = accuracy.results_in(out).read()
    epsilon = Config.epsilon
    at = frame[(frame.split == "random") & frame.epsilon.isin([0.0, epsilon, np.inf])]
    lines = []
    for dataset, part in at.groupby("dataset", sort=False):
        values = _values(part)
        if (SOUND[0], epsilon, WEIGHTED) not in values:
            continue
        line = [str(dataset), str(part.seed.nunique())]
        line += [shown(_interval(values, name, np.inf, WEIGHTED)) for name in ("poindp", "mlp")]
        line.append(shown(_interval(values, PUBLIC, 0.0, WEIGHTED)))
        line.append(shown(_interval(values, f"{PUBLISHED}poindp", epsilon, WEIGHTED)))
        for name in _README_SOUND:
            line.append(shown(_interval(values, name, epsilon, WEIGHTED)))
            line.append(signed(_less(values, name, STRUCTURE + name, epsilon)))
        lines.append(line)
    if not lines:
        return {}
    gains = list(filter(None, gains_of_sound_rows(frame)))
    headers = [
        "data set",
        "splits",
        "PoinDP, no noise",
        "MLP, no edges, no noise",
        label(PUBLIC),
        "PoinDP as published",
    ]
    headers += [word for name in _README_SOUND for word in (label(name), "gain")]
    seeds = sorted({line[1] for line in lines})
    text = _README.format(
        epsilon=epsilon, seeds=" to ".join(dict.fromkeys((seeds[0], seeds[-1]))), table=markdown(headers, lines),
        rows=len(gains), up=sum(significant(gain) and gain.mean > 0 for gain in gains),
        down=sum(significant(gain) and gain.mean < 0 for gain in gains),
        figure="" if _levels(frame).empty else _README_FIGURE_3.format(name=_FIGURE_3_NAME),
    )  # fmt: skip
    attacked = attack_report.read(out)
    table = attack_report.summary(attacked)
    if table:
        text += _README_ATTACKS.format(
            table=table, epsilon=min(attacked.epsilon), targets=attacked.seed.nunique(),
            protocol=attack_report.protocol_of_the_paper(attacked),
        )  # fmt: skip
    return {"poindp": text}


_README_SOUND = ("hyperbolic", "radial", "laplace")


def gains_of_sound_rows(frame: pd.DataFrame) -> Iterator[ConfidenceInterval | None]:
    """Of every sound row over its twin."""
    for _, part in frame.groupby(["dataset", "split"], sort=False):
        values = _values(part)
        for name, epsilon, metric in values:
            if metric == WEIGHTED and (STRUCTURE + name, epsilon, WEIGHTED) in values and name not in AS_PUBLISHED:
                yield _less(values, name, STRUCTURE + name, epsilon)
