"""Tables and figures of PrivGE / LDP-GE from its tidy rows; nothing is computed but statistics."""

from collections.abc import Mapping
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from experiments import _readme
from experiments._report import legend_below, markdown, panels, save, signed, significant
from experiments._runner import REFERENCE, write_atomically
from experiments.privge import accuracy, cells
from experiments.privge.cells import STRUCTURE
from experiments.privge.published import NAMED_GAPS, PUBLISHED_VALUES
from experiments.privge.settings import HYPERPARAMETERS, KS
from experiments.privge.summary import (
    COLOURS,
    LABELS,
    Reference,
    Summary,
    distinct,
    draw,
    identity,
    name_of,
    reference,
    summarise,
)
from ldp_jax import bounds, features, mechanism


def write(out: Path) -> list[Path]:
    """REPORT.md and its figures, from the rows of a folder, with the committed ones beside them."""
    results = accuracy.results_in(out)
    frame = results.read()
    if frame.empty:
        return []
    sections = ["# Results", _PREFACE]
    figure_1(out)
    sections.append("## Figure 1: worst-case error of one number\n\n![Figure 1](figure1.png)\n\n" + _FIGURE_1)
    written = [out / "figure1.png"]
    summaries, configs = summarise(frame, published_ks(frame)), results.describe()["configs"]
    own = out.resolve() == REFERENCE.resolve()
    committed = None if own else reference(accuracy.results_in(REFERENCE).read())
    sections.append(f"## What the private features add\n\n{_VERDICT}\n\n{_verdict(summaries, configs)}")
    for task, title, stem in (
        ("node", "Node classification (Figure 2)", "figure2_node"),
        ("link", "Link prediction (Table III)", "table3_link"),
    ):
        of_task = [s for s in summaries if s.task == task]
        if of_task:
            written.append(out / f"{stem}.png")
            _save_panels(of_task, configs, written[-1])
            sections.append(f"## {title}\n\n![{title}]({stem}.png)")
            sections += [_table(summary, configs, committed) for summary in of_task]
    sections.append(_gaps([s for s in summaries if _is_default(configs[s.config])]))
    for task, stem, title in (
        ("node", "figure3_k_node", "Figure 3"),
        ("link", "figure4_k_link", "Figure 4"),
    ):
        if figure_k(frame, configs, task, out / f"{stem}.png"):
            written.append(out / f"{stem}.png")
            sections.append(f"## {title}: the k of HDS, {task} task\n\n![{title}]({stem}.png)\n\n{_FIGURE_K}")
    written.insert(0, out / "REPORT.md")
    write_atomically(written[0], "\n\n".join(section for section in sections if section) + "\n")
    return written


def published_ks(frame: pd.DataFrame) -> dict[str, int]:
    """The k of HDS that tables show, by data set and task."""
    return {f"{d} {t}": cells.published_k(d, t) for t, d in _pairs(frame) if d in HYPERPARAMETERS}


def readme_sections(out: Path) -> dict[str, str]:
    """What the README says of private features and of speed, from the rows of a folder."""
    results = accuracy.results_in(out)
    frame, configs = results.read(), results.describe().get("configs", {})
    summaries = summarise(frame, published_ks(frame))
    return {
        "results": _readme.results(
            [s for s in summaries if _is_default(configs[s.config])], _verdict(summaries, configs)
        ),
        "benchmarks": _readme.benchmarks(
            out / "benchmarks.md", frame[[_is_default(configs[name]) for name in frame.config]]
        ),
    }


_PREFACE = """\
Made by `python -m experiments report` from `privge.csv`; versions, configurations and guarantees are in
`privge.manifest.json`. Intervals are 95 % (Student, over seeds); gains are paired by split and seed. A gain in
bold has an interval that leaves 0 out.

* **Every row**, private, structure-only or non-private, is trained twice on each seed, with the same keys: on its
  raw embedding and on its standardised one (every column to mean 0 and standard deviation 1). The table shows the
  one whose mean validation score over the seeds is higher, the raw one on ties; nothing else decides. It is one
  choice for all seeds, because the validation examples of one are too few to tell the two apart. **embedding** says
  which, for the row and, after the comma, for its structure-only row (a star: there was one alone). The CSV has
  both.
* **structure-only** is the same mechanism, budget, k and training, on one public record for all users, with
  noise of its own. What it reaches is the public graph's (and the labels'), not the private features'.
* **gain** is a mechanism less its own structure-only row; **over best** is a row less the best structure-only
  row of its data set and task, whichever mechanism, budget and k that is (rows of the k sweep too, where they have
  as many seeds as the others). The best of many rows is lucky as well as good: *over best* errs in the public
  graph's favour, *gain* in nobody's.
* **label prop.** propagates the training labels instead of features; its alpha and r are the best of 45 pairs on
  the validation nodes.
* Training stops after as many epochs without a better validation score as the line above each table says, the same
  for all its rows; the best epoch is kept.
* `epsilon_proved` is about the features of one user and of one row alone: rows of one seed share their noise, so
  that they can be compared, and publishing two of them would spend more than their sum.
* Labels and edges are not protected, in any row.
* All mechanisms share the hyper-parameters that are published for HDS; those of the others are unpublished.
* The private rows perturb features in [-1, 1], as in the papers; the non-private row propagates the features
  relative to the public default record (an absent word stays 0).
* *paper* is LDP-GE's figure where a number is printed; an empty cell is a figure that exists as a picture
  only."""

_FIGURE_1 = """\
Left, the worst-case variance of the estimate over x in [-1, 1], as LDP-GE's Figure 1. Right, the worst-case mean
squared error. The square wave's raw report is biased: its small variance at small budgets is that of a report
which hardly depends on x, and its squared error there is above 1, which the constant 0 reaches without any data.
Debiased, its variance is like the others'."""

_FIGURE_K = "Solid: HDS with k sampled coordinates. Dotted: its structure-only twin. Bars are 95 % intervals."


def _pairs(frame: pd.DataFrame) -> list[tuple[str, str]]:
    return [(str(t), str(d)) for (d, t), _ in frame.groupby(["dataset", "task"], sort=False)]


def _percent(summary: Summary, name: str, epsilon: float) -> str:
    value = PUBLISHED_VALUES.get((summary.task, summary.dataset, name, epsilon))
    return f"{value:.1f}" if value is not None else ""


def _described(settings: dict) -> str:
    """What distinguishes a configuration, in a line."""
    patience = settings.get("patience")
    stopping = f"patience {patience}" if patience else "none stopped early"
    words = [f"at most {settings['epochs']} epochs, {stopping}", f"batch {settings['batch_size']}"]
    if settings["head"] == "mlp":
        words.append(f"MLP with {settings['layers']} layers of {settings['hidden']}")
    else:
        words.append("logistic regression")
    words.append(f"alpha {settings['alpha']:g}, r {settings['r']:g}")
    return ", ".join(words)


def _table(summary: Summary, configs: Mapping, committed: Reference | None = None) -> str:
    rows = []
    for line in summary.lines:
        private = line.twin is not None
        rows.append(
            [
                LABELS.get(line.mechanism, line.mechanism),
                f"{line.epsilon:g}" if line.mechanism != "label-propagation" else "",
                f"{line.k}" if private else "",
                _percent(summary, line.mechanism, line.epsilon),
                str(line.value),
                *([] if committed is None else [str(committed.get(identity(summary, line), ""))]),
                str(line.twin) if private else "",
                signed(line.gain),
                signed(line.over_best),
                ", ".join(filter(None, (line.embedding, line.twin_embedding))).replace("standardized", "std."),
            ]
        )
    ours = ["ours"] if committed is None else ["yours", "committed"]
    headers = ["mechanism", "eps", "k", "paper", *ours, "structure-only", "gain", "over best", "embedding"]
    what = _described(configs[summary.config])
    best = ""
    if summary.best is not None:
        best = f" Best structure-only row: {name_of(summary.best)}, {summary.best_value}."
    return (
        f"### {summary.dataset}, {summary.task} task\n\n"
        f"{summary.metric} in %, {summary.seeds} seeds; {what}; config `{summary.config}`.{best}\n\n"
        + markdown(headers, rows)
    )


def _verdict(summaries: list[Summary], configs: dict) -> str:
    """Say plainly, by the numbers, where a score is the graph's."""
    rows = []
    for summary in summaries:
        gains = [(line, line.gain) for line in distinct(summary.lines) if line.gain is not None]
        if not gains:
            continue
        up = [gain for _, gain in gains if significant(gain) and gain.mean > 0]
        down = [gain for _, gain in gains if significant(gain) and gain.mean < 0]
        over = [
            line for line, _ in gains if significant(line.over_best) and line.over_best and line.over_best.mean > 0
        ]
        most, largest = max(gains, key=lambda pair: pair[1].mean)
        average = float(np.mean([gain.mean for _, gain in gains]))
        rows.append(
            [
                f"{summary.dataset}, {summary.task}{_unlike_the_rest(configs[summary.config])}",
                f"{len(gains)}",
                f"{len(gains) - len(up) - len(down)}",
                f"{len(up)}",
                f"{len(down)}",
                f"{average:+.2f}",
                f"{LABELS[most.mechanism]} at eps {most.epsilon:g}: {signed(largest)}",
                f"{len(over)}",
            ]
        )
    headers = [
        "data set, task", "private rows", "not told apart", "above", "below", "mean gain", "largest gain",
        "above the best structure-only row",
    ]  # fmt: skip
    return markdown(headers, rows)


_VERDICT = """\
For each table: how many private rows (mechanism and budget) have a gain over their own structure-only
row whose 95 % interval holds 0 (*not told apart*), is above it, or is below it. Budgets at which a mechanism's
scores agree to 0.1 points are one row; rows of one table share their splits. Not told apart means that these
runs show no use of the private features; how large a gain they leave possible is what the intervals below say."""


def _unlike_the_rest(settings: dict) -> str:
    """In brackets, what sets a configuration apart from the committed ones."""
    return "" if settings["head"] == ("mlp" if settings["task"] == "node" else "logistic") else " (other head)"


def _gaps(summaries: list[Summary]) -> str:
    rows = []
    for dataset, epsilon, first, second, published in NAMED_GAPS:
        summary = next((s for s in summaries if s.dataset == dataset and s.task == "node"), None)
        budgets = (epsilon, float("inf") if second == "non-private" else epsilon)
        a, b = (summary.find(*row) if summary else None for row in zip((first, second), budgets, strict=True))
        if a is None or b is None:
            continue
        label = f"{dataset}, eps {epsilon:g}: {LABELS[first]} less {LABELS[second]}"
        rows.append([label, f"{published:+.1f}", f"{a.value.mean - b.value.mean:+.1f}"])
    if not rows:
        return ""
    return (
        "### The margins that the paper names\n\nMean accuracy of one mechanism less that of another, in points;\n"
        "our embeddings are raw or standardised by validation, the paper's raw.\n\n"
        + markdown(["rows", "paper", "ours"], rows)
    )


def _is_default(settings: dict) -> bool:
    """With the task's own head."""
    return not _unlike_the_rest(settings)


def _save_panels(summaries: list[Summary], configs: dict, path: Path) -> None:
    figure, axes = panels(len(summaries))
    for axis, summary in zip(axes, summaries, strict=True):
        draw(axis, summary, _unlike_the_rest(configs[summary.config]).replace(" (", "\n("))
    legend_below(figure, axes[0])
    save(figure, path)


def figure_1(out: Path) -> None:
    """Worst-case variance, and worst-case mean squared error, against epsilon."""
    epsilons = jnp.linspace(0.25, 8.0, 125)
    grid = jnp.linspace(-1.0, 1.0, 41)
    family = {
        "Laplace": (features.Laplace, COLOURS["laplace"], "-"),
        "Piecewise": (features.Piecewise, COLOURS["piecewise"], "-"),
        "Multi-bit (Duchi)": (features.Duchi, COLOURS["multibit"], "-"),
        "square wave, raw": (features.SquareWave, COLOURS["hds"], "-"),
        "square wave, debiased": (lambda e: features.SquareWave(e, debias=True), COLOURS["hds"], "--"),
    }
    figure, axes = panels(2, width=4.2, height=3.2)
    for label, (make, colour, style) in family.items():
        made = jax.vmap(make)(epsilons)
        for axis, moment in zip(axes, (lambda m: m.variance(grid), lambda m: mechanism.mse(m, grid)), strict=True):
            worst = [bounds.worst_case(row) for row in jax.vmap(moment)(made)]
            axis.plot(epsilons, worst, color=colour, ls=style, label=label)
    for axis, title in zip(axes, ("worst-case variance", "worst-case mean squared error"), strict=True):
        axis.set(yscale="log", xlabel="epsilon", ylabel=title, title=title, ylim=(1e-2, 1e2))
        axis.axhline(1.0, color="black", lw=0.8, ls=":", label="the constant 0 (squared error)")
    legend_below(figure, axes[0], columns=3)
    save(figure, out / "figure1.png")


def figure_k(frame: pd.DataFrame, configs: dict, task: str, path: Path) -> bool:
    """HDS against its k, a panel a data set and configuration; False where there is nothing to draw."""
    part = frame[(frame.task == task) & frame.mechanism.isin(["hds", f"{STRUCTURE}hds"])]
    many = [s for s in summarise(part) if len({line.k for line in s.lines} & set(KS)) > 2]
    if not many:
        return False
    figure, axes = panels(len(many), width=4.6)
    shades = {1.0: "#9bd1d6", 2.0: "#00798c", 3.0: "#003f49"}
    for axis, summary in zip(axes, many, strict=True):
        note = _unlike_the_rest(configs[summary.config]).replace(" (", "\n(")
        for epsilon, colour in shades.items():
            lines = sorted((x for x in summary.lines if x.epsilon == epsilon and x.twin), key=lambda x: x.k)
            if len(lines) < 2:
                continue
            ks = [x.k for x in lines]
            half = [np.nan_to_num(x.value.half_width) for x in lines]
            axis.errorbar(
                ks, [x.value.mean for x in lines], half, color=colour, marker="o", ms=4, capsize=2,
                label=f"HDS, eps {epsilon:g}",
            )  # fmt: skip
            axis.plot(ks, [x.twin.mean for x in lines if x.twin], color=colour, ls=":", marker="x", ms=4)
        axis.set(
            xscale="log", xlabel="k", ylabel=f"{summary.metric} (%)", title=f"{summary.dataset}, {task} task{note}"
        )
        axis.set_xticks(KS, [str(k) for k in KS])
        axis.minorticks_off()
    legend_below(figure, axes[0])
    save(figure, path)
    return True
