"""Render Markdown tables and PNG figures from the tidy CSVs; nothing is computed but statistics."""

import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from experiments import _privge_cells as cells
from experiments import privge
from experiments._paper import NAMED_GAPS, PUBLISHED
from experiments._report import (
    COLOURS,
    LABELS,
    STRUCTURE,
    Summary,
    draw,
    legend_below,
    markdown,
    name_of,
    panels,
    pyplot,
    signed,
    significant,
    summarise,
)
from experiments._runner import DEFAULT_OUT, Results, console
from experiments._settings import KS
from experiments._settings import PUBLISHED as PUBLISHED_SETTINGS
from ldp_jax import features, mechanism, utility


@dataclasses.dataclass(frozen=True)
class Config:
    """Tables and figures from the CSVs in a folder: REPORT.md and PNGs beside them."""

    out: Path = DEFAULT_OUT
    """where the CSVs are and the report goes"""


def main(config: Config) -> None:
    """Write the report."""
    results = Results(config.out, privge.NAME)
    frame = results.read()
    sections = ["# Results", _PREFACE]
    figure_1(config.out)
    sections.append("## Figure 1: worst-case error of one number\n\n![Figure 1](figure1.png)\n\n" + _FIGURE_1)
    if frame.empty:
        console.print(f"{results.csv} has no rows yet: run python -m experiments privge")
    else:
        chosen_k = {f"{d} {t}": cells.published_k(d, t) for t, d in _pairs(frame) if d in PUBLISHED_SETTINGS}
        summaries = summarise(frame, chosen_k)
        configs = results.describe()["configs"]
        sections.append(_verdict(summaries))
        for task, title, stem in (
            ("node", "Node classification (Figure 2)", "figure2_node"),
            ("link", "Link prediction (Table III)", "table3_link"),
        ):
            of_task = [s for s in summaries if s.task == task]
            if of_task:
                _save_panels(of_task, config.out / f"{stem}.png")
                sections.append(f"## {title}\n\n![{title}]({stem}.png)")
                sections += [_table(summary, configs) for summary in of_task]
        sections.append(_gaps(summaries))
        for task, stem, title in (
            ("node", "figure3_k_node", "Figure 3"),
            ("link", "figure4_k_link", "Figure 4"),
        ):
            if figure_k(frame, task, config.out / f"{stem}.png"):
                sections.append(f"## {title}: the k of HDS, {task} task\n\n![{title}]({stem}.png)\n\n{_FIGURE_K}")
    text = "\n\n".join(section for section in sections if section) + "\n"
    path = config.out / "REPORT.md"
    path.write_text(text)
    console.print(f"report: {path}", soft_wrap=True)


_PREFACE = """\
Made by `python -m experiments report` from `privge.csv`; versions, configurations and guarantees are in
`privge.manifest.json`. Intervals are 95 % (Student, over seeds); gains are paired by split and seed. A gain in
bold has an interval that leaves 0 out.

* **structure-only** is the same mechanism, budget, k, keys and training, on one public record for all users.
  What it reaches is the public graph's (and the labels'), not the private features'.
* **gain** is a mechanism less its own structure-only row; **over best** is a row less the best structure-only
  row of its table, whichever mechanism and budget that is.
* Labels and edges are not protected, in any row. Embeddings are standardised column by column.
* All mechanisms share the hyper-parameters that are published for HDS; those of the others are unpublished.
* The private rows perturb features in [-1, 1], as in the papers; the non-private row propagates the features
  relative to the public default record (0/1 features stay 0/1).
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
    value = PUBLISHED.get((summary.task, summary.dataset, name, epsilon))
    return f"{value:.1f}" if value is not None else ""


def _described(settings: dict) -> str:
    """What distinguishes a configuration, in a line."""
    words = [f"{settings['epochs']} epochs", f"batch {settings['batch_size']}"]
    if settings["head"] == "mlp":
        words.append(f"MLP with {settings['layers']} layers of {settings['hidden']}")
    else:
        words.append("logistic regression")
    words.append(f"alpha {settings['alpha']:g}, r {settings['r']:g}")
    words.append("standardised" if settings["standardize"] else "NOT standardised (the paper's)")
    return ", ".join(words)


def _table(summary: Summary, configs: dict) -> str:
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
                str(line.twin) if private else "",
                signed(line.gain),
                signed(line.over_best),
            ]
        )
    headers = ["mechanism", "eps", "k", "paper", "ours", "structure-only", "gain", "over best"]
    what = _described(configs[summary.config])
    best = f" Best structure-only row: {name_of(summary.best)}." if summary.best is not None else ""
    return (
        f"### {summary.dataset}, {summary.task} task\n\n"
        f"{summary.metric} in %, {summary.seeds} seeds; {what}; config `{summary.config}`.{best}\n\n"
        + markdown(headers, rows)
    )


def _verdict(summaries: list[Summary]) -> str:
    """Say plainly, by the numbers, where a score is the graph's."""
    rows = []
    for summary in summaries:
        private = [line for line in summary.lines if line.gain is not None]
        if not private or private[0].gain is None or private[0].gain.n < 2:
            continue
        up = [line for line in private if significant(line.gain) and line.gain is not None and line.gain.mean > 0]
        down = [line for line in private if significant(line.gain) and line.gain is not None and line.gain.mean < 0]
        over = [
            line for line in private
            if significant(line.over_best) and line.over_best is not None and line.over_best.mean > 0
        ]  # fmt: skip
        most = max(private, key=lambda line: line.gain.mean if line.gain is not None else -np.inf)
        rows.append(
            [
                f"{summary.dataset}, {summary.task}",
                str(len(private)),
                str(len(private) - len(up) - len(down)),
                str(len(up)),
                str(len(down)),
                f"{LABELS[most.mechanism]} at eps {most.epsilon:g}: {signed(most.gain)}",
                str(len(over)),
            ]
        )
    headers = [
        "data set, task", "private rows", "equal to structure-only", "above it", "below it", "largest gain",
        "above the best structure-only row",
    ]  # fmt: skip
    return (
        "## What the private features add\n\n"
        "For each table: how many private rows (mechanism and budget) have a gain over their own\n"
        "structure-only row whose 95 % interval holds 0 (*equal*), is above it, or is below it. One row in forty\n"
        "lands on each side by chance alone. Equal means: the score is that of the public graph, and no private\n"
        "feature is needed for it.\n\n" + markdown(headers, rows)
    )


def _gaps(summaries: list[Summary]) -> str:
    rows = []
    for dataset, epsilon, first, second, published in NAMED_GAPS:
        summary = next((s for s in summaries if s.dataset == dataset and s.task == "node"), None)
        a, b = (summary.find(name, epsilon) if summary else None for name in (first, second))
        if a is None or b is None:
            continue
        label = f"{dataset}, eps {epsilon:g}: {LABELS[first]} less {LABELS[second]}"
        rows.append([label, f"{published:+.1f}", f"{a.value.mean - b.value.mean:+.1f}"])
    if not rows:
        return ""
    return (
        "### The margins that the paper names\n\nMean accuracy of one mechanism less that of another, in points;\n"
        "our embeddings are standardised, the paper's are not.\n\n" + markdown(["rows", "paper", "ours"], rows)
    )


def _save_panels(summaries: list[Summary], path: Path) -> None:
    figure, axes = panels(len(summaries))
    for axis, summary in zip(axes, summaries, strict=True):
        draw(axis, summary)
    legend_below(figure, axes[0])
    figure.savefig(path)
    pyplot().close(figure)


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
            worst = [utility.worst_case(row) for row in jax.vmap(moment)(made)]
            axis.plot(epsilons, worst, color=colour, ls=style, label=label)
    for axis, title in zip(axes, ("worst-case variance", "worst-case mean squared error"), strict=True):
        axis.set(yscale="log", xlabel="epsilon", ylabel=title, title=title, ylim=(1e-2, 1e2))
        axis.axhline(1.0, color="black", lw=0.8, ls=":", label="the constant 0 (squared error)")
    legend_below(figure, axes[0], columns=3)
    figure.savefig(out / "figure1.png")
    pyplot().close(figure)


def figure_k(frame: pd.DataFrame, task: str, path: Path) -> bool:
    """HDS against its k, a panel a data set; False where there is nothing to draw."""
    part = frame[(frame.task == task) & frame.mechanism.isin(["hds", f"{STRUCTURE}hds"])]
    many = [
        d for d, group in part.groupby("dataset", sort=False) if group.k.isin(KS).sum() and group.k.nunique() > 2
    ]
    if not many:
        return False
    figure, axes = panels(len(many), width=4.6)
    shades = {1.0: "#9bd1d6", 2.0: "#00798c", 3.0: "#003f49"}
    for axis, dataset in zip(axes, many, strict=True):
        for summary in summarise(part[part.dataset == dataset]):
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
            axis.set(xscale="log", xlabel="k", ylabel=f"{summary.metric} (%)", title=f"{dataset}, {task} task")
            axis.set_xticks(KS, [str(k) for k in KS])
            axis.minorticks_off()
    legend_below(figure, axes[0])
    figure.savefig(path)
    pyplot().close(figure)
    return True
