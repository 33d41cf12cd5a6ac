"""Tables and figures of PrivGE / LDP-GE from its tidy rows; nothing is computed but statistics."""

import math
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from experiments import _readme
from experiments._report import errorbars, legend_below, markdown, panels, save, signed, table
from experiments._runner import REFERENCE, write_atomically
from experiments.privge import accuracy, cells
from experiments.privge.cells import GRAPH_ALONE, NON_PRIVATE, STRUCTURE
from experiments.privge.published import NAMED_GAPS, PUBLISHED_VALUES
from experiments.privge.settings import HYPERPARAMETERS, KS
from experiments.privge.summary import (
    COLOURS,
    LABELS,
    Line,
    Reference,
    Summary,
    draw,
    identity,
    name_of,
    reference,
    summarise,
    tally,
)
from ldp_jax import features
from ldp_jax.core import mechanism
from ldp_jax.learning import bounds


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
        if any(s.epsilons() for s in of_task):
            written.append(out / f"{stem}.png")
            _save_panels([s for s in of_task if s.epsilons()], configs, written[-1])
            sections.append(f"## {title}\n\n![{title}]({stem}.png)")
            sections += [_table(summary, configs, committed) for summary in of_task]
    usual = [s for s in summaries if _is_default(configs[s.config])]
    sections += [_above(usual, _raw(frame)), _far(usual, _raw(frame)), _gaps(usual)]
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


def _raw(frame: pd.DataFrame) -> list[Summary]:
    """The same on the raw embedding alone, which is the paper's."""
    return summarise(frame[frame.preprocessing == "raw"], published_ks(frame))


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
            usual := [s for s in summaries if _is_default(configs[s.config])],
            _verdict(summaries, configs),
            _above_in_words(usual, _raw(frame)),
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
  the validation nodes. **link indices** stand in its place for links: the best in validation of common neighbours,
  resource allocation and preferential attachment on the training graph.
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
        ours: dict[str, Any] = {"ours" if committed is None else "yours": line.value}
        if committed is not None:
            ours["committed"] = committed.get(identity(summary, line))
        rows.append(
            {
                "mechanism": LABELS.get(line.mechanism, line.mechanism),
                "eps": f"{line.epsilon:g}" if line.mechanism not in GRAPH_ALONE.values() else "",
                "k": line.k if private else "",
                "paper": _percent(summary, line.mechanism, line.epsilon),
                **ours,
                "structure-only": line.twin,
                "gain": signed(line.gain) if line.repeats is None else f"repeats eps {line.repeats:g}",
                "over best": signed(line.over_best),
                "embedding": ", ".join(filter(None, (line.embedding, line.twin_embedding))).replace(
                    "standardized", "std."
                ),
            }
        )
    what = _described(configs[summary.config])
    best = ""
    if summary.best is not None:
        best = f" Best structure-only row: {name_of(summary.best)}, {summary.best_value}."
    return (
        f"### {summary.dataset}, {summary.task} task\n\n"
        f"{summary.metric} in %, {summary.seeds} seeds; {what}; config `{summary.config}`.{best}\n\n" + table(rows)
    )


def _verdict(summaries: list[Summary], configs: dict) -> str:
    """Say plainly, by the numbers, where a score is the graph's."""
    rows = []
    for summary in summaries:
        counted = summary.counted()
        gains = [(line, line.gain) for line in counted if line.gain is not None]
        if not gains:
            continue
        up, down, over = tally(counted)
        most, largest = max(gains, key=lambda pair: pair[1].mean)
        rows.append(
            {
                "data set, task": f"{summary.dataset}, {summary.task}{_unlike_the_rest(configs[summary.config])}",
                "private rows": len(counted),
                "not told apart": len(counted) - up - down,
                "above": up,
                "below": down,
                "mean gain": signed(summary.mean_gain, 2),
                "largest gain": f"{LABELS[most.mechanism]} at eps {most.epsilon:g}: {signed(largest)}",
                "above the best structure-only row": over,
            }
        )
    return table(rows)


_VERDICT = """\
For each table: how many private rows (mechanism and budget) have a gain over their own structure-only
row whose 95 % interval holds 0 (*not told apart*), is above it, or is below it. A row that repeats another budget's
within 0.05 points in every seed is one release, and counts once. Rows of a table share splits, keys and baselines,
so they are no independent trials: *mean gain* is the mean over the rows of each seed, with an interval over seeds,
one number a table. Not told apart means that these runs show no use of the private features;
how large a gain they leave possible is what the intervals below say."""


def _unlike_the_rest(settings: dict) -> str:
    """In brackets, what sets a configuration apart from the committed ones."""
    return "" if settings["head"] == ("mlp" if settings["task"] == "node" else "logistic") else " (other head)"


class Above(NamedTuple):
    """A row of HDS that the paper prints above its non-private one.

    Attributes:
      summary: of our rows of the same data set and task.
      line: our row.
      paper: HDS less non-private there, in points.
    """

    summary: Summary
    line: Line
    paper: float


def _claimed_above(summaries: list[Summary]) -> list[Above]:
    gaps = {("node", name, epsilon): gap for name, epsilon, _, b, gap in NAMED_GAPS if b == NON_PRIVATE}
    for (task, name, row, epsilon), value in PUBLISHED_VALUES.items():
        if task == "link" and row == "hds":
            gaps[task, name, epsilon] = value - PUBLISHED_VALUES[task, name, NON_PRIVATE, math.inf]
    return [
        Above(summary, line, gap)
        for (task, name, epsilon), gap in gaps.items()
        for summary in summaries
        if gap > 0 and (summary.task, summary.dataset) == (task, name)
        if (line := summary.find("hds", epsilon)) is not None and line.over_non_private is not None
    ]


def _above(summaries: list[Summary], raw: list[Summary]) -> str:
    """The paper's most striking claim, beside the rows that show where a score is from."""
    rows = []
    for chosen, ours in (("by validation", summaries), ("raw, as the paper's", raw)):
        for one in _claimed_above(ours):
            non_private = one.summary.find(NON_PRIVATE, math.inf)
            rows.append(
                {
                    "data set, task": f"{one.summary.dataset}, {one.summary.task}",
                    "eps": f"{one.line.epsilon:g}",
                    "embedding": chosen,
                    "paper: HDS less non-private": f"{one.paper:+.1f}",
                    "ours": signed(one.line.over_non_private),
                    "HDS less structure-only": signed(one.line.gain),
                    "HDS": one.line.value,
                    "structure-only": one.line.twin,
                    "non-private": non_private.value if non_private else "",
                }
            )
    rows.sort(key=lambda row: [str(cell) for cell in row.values()])
    return f"### Where the paper has HDS above its non-private row\n\n{table(rows)}" if rows else ""


def _above_in_words(summaries: list[Summary], raw: list[Summary]) -> str:
    """The same of the link task at its lowest budget, a line a data set; "" without such rows."""
    said = {}
    for chosen, ours in (("", summaries), ("; on the raw embedding, which is the paper's, ", raw)):
        for one in _claimed_above(ours):
            name, line = one.summary.dataset, one.line
            if one.summary.task != "link" or line.epsilon != min(one.summary.epsilons()):
                continue
            hds, other = (
                PUBLISHED_VALUES["link", name, row, epsilon]
                for row, epsilon in (("hds", line.epsilon), (NON_PRIVATE, math.inf))
            )
            less = [signed(x).replace("*", "") for x in (line.over_non_private, line.gain)]
            start = f"* {name}: the paper prints {hds:.1f} against {other:.1f}; ours is "
            said[name] = (
                said.get(name, start) + f"{chosen}{less[0]} points, and {less[1]} to HDS without private features"
            )
    lines = "\n".join(textwrap.fill(f"{text}.", 115, subsequent_indent="  ") for text in said.values())
    return (
        f"\n\nThe paper has HDS above its non-private row on links of two graphs (AUC):\n\n{lines}" if said else ""
    )


FAR = 5.0
"""Points between a link row and the paper's that are listed."""


def _far(summaries: list[Summary], raw: list[Summary]) -> str:
    """Link rows far from the paper's, and what the paper's own embedding, the raw one, reaches."""
    plain = {(s.config, x.mechanism, x.epsilon): x.value for s in raw for x in s.lines}
    rows: list[list[str]] = []
    counts = {name: [0, 0, 0] for name in LABELS}
    for summary in (s for s in summaries if s.task == "link"):
        for line in summary.lines:
            theirs = PUBLISHED_VALUES.get(("link", summary.dataset, line.mechanism, line.epsilon))
            if theirs is None:
                continue
            on_raw = plain.get((summary.config, line.mechanism, line.epsilon))
            gap = line.value.mean - theirs
            far = (True, abs(gap) > FAR, on_raw is not None and abs(on_raw.mean - theirs) > FAR)
            counts[line.mechanism] = [a + b for a, b in zip(counts[line.mechanism], far, strict=True)]
            if abs(gap) > FAR:
                numbers = [f"{theirs:.1f}", str(line.value), f"{gap:+.1f}", str(on_raw or ""), str(line.twin or "")]
                rows.append([summary.dataset, LABELS[line.mechanism], f"{line.epsilon:g}", *numbers])
    if not rows:
        return ""
    by_row = [[LABELS[name], *map(str, count)] for name, count in counts.items() if count[0]]
    headers = ["data set", "mechanism", "eps", "paper", "ours", "difference", "ours, raw", "structure-only"]
    return "\n\n".join(
        (
            f"### Link rows more than {FAR:g} points from the paper",
            "The tables show the embedding that validation chooses; the paper's is the raw one. Its splits and the "
            "hyper-parameters of all mechanisms but HDS are unpublished.",
            markdown(
                ["mechanism", "rows with a printed number", "of them far", "far on the raw embedding"], by_row
            ),
            markdown(headers, rows),
        )
    )


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
    figure, axes = panels(len(summaries), width=4.0)
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
    worst: dict[str, list[list[float]]] = {}
    for label, (make, colour, style) in family.items():
        made = jax.vmap(make)(epsilons)
        worst[label] = []
        for axis, moment in zip(axes, (lambda m: m.variance(grid), lambda m: mechanism.mse(m, grid)), strict=True):
            worst[label].append([bounds.worst_case(row) for row in jax.vmap(moment)(made)])
            axis.plot(epsilons, worst[label][-1], color=colour, ls=style, label=label)
    variance, error = np.array(worst["square wave, raw"])
    least = variance <= np.min([of_row[0] for of_row in worst.values()], 0)
    titles = (
        f"The raw square wave varies least up to epsilon {float(epsilons[least][-1]):.1f},",
        f"but up to {float(epsilons[error > 1][-1]):.1f} its error is above the constant 0's",
    )
    labels = ("worst-case variance", "worst-case mean squared error")
    for axis, label, title in zip(axes, labels, titles, strict=True):
        axis.set(yscale="log", xlabel="epsilon", ylabel=label, ylim=(1e-2, 1e2))
        axis.set_title(title, fontsize=9)
        axis.axhline(1.0, color="black", lw=0.8, ls=":", label="the constant 0 (squared error)")
    legend_below(figure, axes[0], columns=3)
    save(figure, out / "figure1.png")


def _by_k(summary: Summary) -> str:
    """What the largest k changes at the lowest budget, with private features and without."""
    lines = sorted((x for x in summary.lines if x.epsilon == min(summary.epsilons()) and x.twin), key=lambda x: x.k)
    first, last = lines[0], lines[-1]
    private = last.value.mean - first.value.mean
    public = last.twin.mean - first.twin.mean if last.twin and first.twin else 0.0
    return (
        f"k {first.k} to {last.k}: HDS {private:+.1f}, structure-only {public:+.1f} points (eps {first.epsilon:g})"
    )


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
            label = f"HDS, eps {epsilon:g}"
            errorbars(axis, {x.k: x.value for x in lines}, color=colour, ms=4, label=label)
            axis.plot(
                [x.k for x in lines], [x.twin.mean for x in lines if x.twin], color=colour, ls=":", marker="x", ms=4
            )
        axis.set(xscale="log", xlabel="k", ylabel=f"{summary.metric} (%)")
        axis.set_title(f"{summary.dataset}, {task} task{note}\n{_by_k(summary)}", fontsize=9)
        axis.set_xticks(KS, [str(k) for k in KS])
        axis.minorticks_off()
    legend_below(figure, axes[0])
    save(figure, path)
    return True
