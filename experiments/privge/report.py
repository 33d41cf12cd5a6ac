"""Tables and figures of PrivGE / LDP-GE from its tidy rows; nothing is computed but statistics."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from experiments import _report as show
from experiments._runner import Results
from experiments.privge import accuracy, cells, summary
from experiments.privge.settings import HYPERPARAMETERS, KS, NAMED_GAPS, PUBLISHED_VALUES
from ldp_jax import features
from ldp_jax.core import mechanism
from ldp_jax.learning import bounds

_TEXT = show.prose("privge")

results_in = accuracy.results_in


def write(out: Path) -> list[Path]:
    frame = accuracy.results_in(out).read()
    if frame.empty:
        return []
    summaries = _of_folder(frame)
    raw = _of_folder(frame[frame.preprocessing == "raw"])
    sections = [
        "# Results",
        _TEXT.preface,
        "## Figure 1: worst-case error of one number",
        "![Figure 1](figure1.png)",
        _TEXT.figure_1,
        "## What the private features add",
        _TEXT.verdict,
        _verdict(summaries),
    ]
    figures = {"figure1": figure_1()}
    for task, title, stem in (
        ("node", "Node classification (Figure 2)", "figure2_node"),
        ("link", "Link prediction (Table III, Table 2)", "table3_link"),
    ):
        of_task = [one for one in summaries if one.task == task]
        if drawn := [one for one in of_task if one.epsilons()]:
            figures[stem], axes = show.panels(len(drawn), width=4.0)
            for axis, one in zip(axes, drawn, strict=True):
                summary.draw(axis, one)
            show.legend_below(figures[stem], axes[0])
            sections += [f"## {title}", f"![{title}]({stem}.png)", _tables(out, of_task)]
    sections += [_above(summaries, raw), _far(summaries, raw), _gaps(summaries)]
    for task, stem, title in (
        ("node", "figure3_k_node", "Figure 3"),
        ("link", "figure4_k_link", "Figure 4"),
    ):
        if (figure := figure_k(frame, task)) is not None:
            figures[stem] = figure
            sections += [
                f"## {title}: the k of HDS, {task} task",
                f"![{title}]({stem}.png)",
                _FIGURE_K,
            ]
    return show.publish(out, {"REPORT": "\n\n".join(filter(None, sections))}, figures)


def tables(out: Path) -> str:
    return _tables(out, _of_folder(accuracy.results_in(out).read()))


def _of_folder(frame: pd.DataFrame) -> list[summary.Summary]:
    return summary.summarise(frame, published_ks(frame))


def published_ks(frame: pd.DataFrame) -> dict[str, int]:
    """The k of HDS that tables show, by data set and task."""
    pairs = set(zip(frame.dataset, frame.task, strict=True))
    return {f"{d} {t}": cells.published_k(d, t) for d, t in pairs if d in HYPERPARAMETERS}


def digest(results: Results) -> str:
    summaries = _of_folder(results.read())
    rows = []
    for one in summaries:
        graph = one.find(cells.GRAPH_ALONE[one.task], 0.0)
        known = one.find(cells.NON_PRIVATE, math.inf)
        private = [line.value for line in one.lines if line.twin is not None]
        rows.append({
            "accuracy or AUC (%)": f"{one.dataset}, {one.task}", "seeds": one.seeds,
            "non-private": known and known.value,
            "best private": max(private, key=lambda value: value.mean, default=None),
            "best structure-only": one.best_value, "graph alone": graph and graph.value,
        })  # fmt: skip
    return "\n\n".join((_TEXT.verdict, _verdict(summaries), show.table(rows)))


_FIGURE_K = (
    "Solid: HDS with k sampled coordinates. Dotted: its structure-only twin. Bars are 95 "
    "% intervals."
)


def _tables(out: Path, summaries: Sequence[summary.Summary]) -> str:
    configs = accuracy.results_in(out).settings()
    return "\n\n".join(_table(one, configs[one.config]) for one in summaries)


def _table(one: summary.Summary, settings: Mapping[str, Any]) -> str:
    rows = []
    for line in one.lines:
        printed = PUBLISHED_VALUES.get((one.task, one.dataset, line.mechanism, line.epsilon))
        embedding = ", ".join(filter(None, (line.embedding, line.twin_embedding)))
        rows.append(
            {
                "mechanism": summary.LABELS.get(line.mechanism, line.mechanism),
                "eps": "" if line.mechanism in cells.GRAPH_ALONE.values() else f"{line.epsilon:g}",
                "k": None if line.twin is None else line.k,
                "paper": None if printed is None else f"{printed:.1f}",
                "ours": line.value,
                "structure-only": line.twin,
                "gain": show.signed(line.gain)
                if line.repeats is None
                else f"repeats eps {line.repeats:g}",
                "over best": show.signed(line.over_best),
                "embedding": embedding.replace("standardized", "std."),
            }
        )
    patience = settings.get("patience")
    mlp = f"MLP with {settings.get('layers')} layers of {settings.get('hidden')}"
    made = (
        f"{one.metric} in %, {one.seeds} seeds; at most {settings['epochs']} epochs, "
        f"{f'patience {patience}' if patience else 'none stopped early'}, batch "
        f"{settings['batch_size']}, "
        f"{mlp if settings['head'] == 'mlp' else 'logistic regression'}, alpha "
        f"{settings['alpha']:g}, "
        f"r {settings['r']:g}; config `{one.config}`."
    )
    if one.best is not None:
        name, epsilon, k = one.best
        label = summary.LABELS.get(name.removeprefix(cells.STRUCTURE), name)
        made += f" Best structure-only row: {label} at eps {epsilon:g}, k {k}, {one.best_value}."
    return f"### {one.dataset}, {one.task} task\n\n{made}\n\n{show.table(rows)}"


@show.tabled
def _verdict(summaries: Sequence[summary.Summary]) -> show.Rows:
    for one in summaries:
        if not (lines := one.counted()):
            continue
        up, down, over = summary.tally(lines)
        most = max(lines, key=lambda line: line.gain.mean if line.gain else -math.inf)
        yield {
            "data set, task": f"{one.dataset}, {one.task}",
            "private rows": len(lines),
            "not told apart": len(lines) - up - down,
            "above": up,
            "below": down,
            "mean gain": show.signed(one.mean_gain, 2),
            "largest gain": f"{summary.LABELS[most.mechanism]} at eps {most.epsilon:g}: "
            f"{show.signed(most.gain)}",
            "above the best structure-only row": over,
        }


def _claimed_above(
    summaries: Sequence[summary.Summary],
) -> Iterator[tuple[summary.Summary, summary.Line, float]]:
    """The rows of HDS that the paper prints above its non-private one, by so many points."""
    gaps = {
        ("node", name, epsilon): gap
        for name, epsilon, _, b, gap in NAMED_GAPS
        if b == cells.NON_PRIVATE
    }
    for (task, name, row, epsilon), value in PUBLISHED_VALUES.items():
        if task == "link" and row == "hds":
            gaps[task, name, epsilon] = (
                value - PUBLISHED_VALUES[task, name, cells.NON_PRIVATE, math.inf]
            )
    for (task, name, epsilon), gap in gaps.items():
        for one in summaries:
            line = (
                one.find("hds", epsilon)
                if (one.task, one.dataset) == (task, name) and gap > 0
                else None
            )
            if line is not None and line.over_non_private is not None:
                yield one, line, gap


def _above(summaries: Sequence[summary.Summary], raw: Sequence[summary.Summary]) -> str:
    """The paper's most striking claim, beside the rows that show where a score is from."""
    rows = []
    for chosen, ours in (("by validation", summaries), ("raw, as the paper's", raw)):
        for one, line, paper in _claimed_above(ours):
            non_private = one.find(cells.NON_PRIVATE, math.inf)
            rows.append(
                {
                    "data set, task": f"{one.dataset}, {one.task}",
                    "eps": f"{line.epsilon:g}",
                    "embedding": chosen,
                    "paper: HDS less non-private": f"{paper:+.1f}",
                    "ours": show.signed(line.over_non_private),
                    "HDS less structure-only": show.signed(line.gain),
                    "HDS": line.value,
                    "structure-only": line.twin,
                    "non-private": non_private.value if non_private else "",
                }
            )
    rows.sort(key=lambda row: [str(cell) for cell in row.values()])
    return (
        f"### Where the paper has HDS above its non-private row\n\n{show.table(rows)}"
        if rows
        else ""
    )


FAR = 5.0
"""Points between a link row and the paper's that are listed."""


def _far(summaries: Sequence[summary.Summary], raw: Sequence[summary.Summary]) -> str:
    """Link rows far from the paper's, and the same rows on the paper's embedding, the raw one."""
    plain = {
        (one.config, line.mechanism, line.epsilon): line.value for one in raw for line in one.lines
    }
    rows, counts = [], []
    for one, line in (
        (link, line) for link in summaries if link.task == "link" for line in link.lines
    ):
        theirs = PUBLISHED_VALUES.get(("link", one.dataset, line.mechanism, line.epsilon))
        if theirs is None:
            continue
        on_raw = plain.get((one.config, line.mechanism, line.epsilon))
        gap = line.value.mean - theirs
        counts.append({
            "mechanism": summary.LABELS[line.mechanism], "rows with a printed number": True,
            "of them far": abs(gap) > FAR,
            "far on the raw embedding": on_raw is not None and abs(on_raw.mean - theirs) > FAR,
        })  # fmt: skip
        if abs(gap) > FAR:
            rows.append(
                {
                    "data set": one.dataset,
                    "mechanism": summary.LABELS[line.mechanism],
                    "eps": f"{line.epsilon:g}",
                    "paper": f"{theirs:.1f}",
                    "ours": line.value,
                    "difference": f"{gap:+.1f}",
                    "ours, raw": on_raw,
                    "structure-only": line.twin,
                }
            )
    if not rows:
        return ""
    each = pd.DataFrame(counts).groupby("mechanism").sum()
    each = each.loc[
        [label for label in summary.LABELS.values() if label in each.index]
    ].reset_index()
    title = f"### Link rows more than {FAR:g} points from the paper"
    counted = show.markdown([*map(str, each)], each.to_numpy().tolist())
    return "\n\n".join((title, _TEXT.far, counted, show.table(rows)))


def _gaps(summaries: Sequence[summary.Summary]) -> str:
    rows = []
    for dataset, epsilon, first, second, published in NAMED_GAPS:
        found = [one for one in summaries if (one.dataset, one.task) == (dataset, "node")]
        budgets = (epsilon, math.inf if second == cells.NON_PRIVATE else epsilon)
        a, b = (
            found[0].find(*row) if found else None
            for row in zip((first, second), budgets, strict=True)
        )
        if a is not None and b is not None:
            label = (
                f"{dataset}, eps {epsilon:g}: {summary.LABELS[first]} less {summary.LABELS[second]}"
            )
            ours = a.value.mean - b.value.mean
            rows.append({"rows": label, "paper": f"{published:+.1f}", "ours": f"{ours:+.1f}"})
    return (
        f"### The margins that the paper names\n\n{_TEXT.gaps}\n\n{show.table(rows)}"
        if rows
        else ""
    )


def figure_1() -> Any:
    """Worst-case variance, and worst-case mean squared error, against epsilon."""
    epsilons = jnp.linspace(0.25, 8.0, 125)
    grid = jnp.linspace(-1.0, 1.0, 41)
    family = {
        "Laplace": (features.Laplace, summary.COLOURS["laplace"], "-"),
        "Piecewise": (features.Piecewise, summary.COLOURS["piecewise"], "-"),
        "Multi-bit (Duchi)": (features.Duchi, summary.COLOURS["multibit"], "-"),
        "square wave, raw": (features.SquareWave, summary.COLOURS["hds"], "-"),
        "square wave, debiased": (
            lambda e: features.SquareWave(e, debias=True),
            summary.COLOURS["hds"],
            "--",
        ),
    }
    figure, axes = show.panels(2, width=4.2, height=3.2)
    moments_of = lambda made: (made.variance(grid), mechanism.mse(made, grid))
    worst: dict[str, list[list[float]]] = {}
    for label, (make, colour, style) in family.items():
        moments = jax.jit(jax.vmap(lambda epsilon, make=make: moments_of(make(epsilon))))(epsilons)
        worst[label] = [
            [bounds.worst_case(row) for row in np.asarray(moment)] for moment in moments
        ]
        for axis, line in zip(axes, worst[label], strict=True):
            axis.plot(epsilons, line, color=colour, ls=style, label=label)
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
    show.legend_below(figure, axes[0], columns=3)
    return figure


def _by_k(one: summary.Summary) -> str:
    """The change from the least to the largest k at the lowest budget that has several."""
    several = [x for x in one.epsilons() if sum(line.epsilon == x for line in one.lines) > 1]
    lowest = min(several or one.epsilons())
    lines = sorted((x for x in one.lines if x.epsilon == lowest and x.twin), key=lambda x: x.k)
    first, last = lines[0], lines[-1]
    mine = last.value.mean - first.value.mean
    public = last.twin.mean - first.twin.mean if last.twin and first.twin else 0.0
    return (
        f"k {first.k} to {last.k}: HDS {mine:+.1f}, structure-only {public:+.1f} points (eps "
        f"{first.epsilon:g})"
    )


def figure_k(frame: pd.DataFrame, task: str) -> Any | None:
    """HDS against its k, a panel a data set and configuration.

    None where there is nothing to draw.
    """
    part = frame[(frame.task == task) & frame.mechanism.isin(["hds", f"{cells.STRUCTURE}hds"])]
    many = [
        one for one in summary.summarise(part) if len({line.k for line in one.lines} & set(KS)) > 2
    ]
    if not many:
        return None
    figure, axes = show.panels(len(many), width=4.6)
    shades = {1.0: "#9bd1d6", 2.0: "#00798c", 3.0: "#003f49"}
    for axis, one in zip(axes, many, strict=True):
        show.log_ticks(axis, KS)
        axis.set(xlabel="k", ylabel=f"{one.metric} (%)")
        for epsilon, colour in shades.items():
            lines = {x.k: x for x in one.lines if x.epsilon == epsilon and x.twin}
            if len(lines) > 1:
                name = f"HDS, eps {epsilon:g}"
                values = {k: line.value for k, line in lines.items()}
                show.curves(axis, {name: values}, {name: name}, {name: colour}, ms=4)
                summary.twin_curve(axis, {k: lines[k].twin for k in sorted(lines)}, color=colour)
        axis.set_title(f"{one.dataset}, {task} task\n{_by_k(one)}", fontsize=9)
    show.legend_below(figure, axes[0])
    return figure
