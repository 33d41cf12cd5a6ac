"""Figure 7 of DPRR: how many neighbours each user reports, against how many they have."""

import dataclasses
import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import numpy as np
import pandas as pd
from scipy import stats

from experiments import _runner
from experiments._report import legend_below, panels, redraw
from experiments._runner import Found, Results, UsageError, config_hash, console, rounded, run
from experiments.dprr.cells import (
    COLOURS,
    LABELS,
    Mechanism,
    Variant,
    ledger,
    load,
    made_by,
    most_nodes,
    name_of,
)
from experiments.dprr.config import Config
from ldp_jax import edges
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST
from ldp_jax.graph import packing

NAME = "dprr_degrees"
FIGURE = "dprr_figure7"
COMPARED: tuple[Mechanism, ...] = ("dprr", "local-lap", "rr")
STARTS = np.array(
    [
        0,
        1,
        2,
        3,
        4,
        5,
        7,
        *(at * 10**power for power in range(6) for at in (10, 15, 20, 30, 50, 70)),
    ]
)
"""The first degree of each bin; bins are about equally wide in the logarithm."""
TRUE = Variant("non-private", 0.0, 0.0)
_TRUE_NAME = "true degrees"
"""The degrees themselves, and the mechanism of their rows."""
_LOW, _HIGH = 4, 10
_SHOWN, _FEW = 4000, 10
_LAST = "Spearman correlation of d and d~"


class Graphs(NamedTuple):
    """A part of a set of graphs."""

    dataset: str
    graphs: int
    rr_nodes: int


class Degrees(NamedTuple):
    """Users of a set of graphs.

    Arrays [users]: true degrees, other nodes of the user's graph, and its class.
    """

    true: np.ndarray
    others: np.ndarray
    label: np.ndarray


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(_runner.Cell):
    """One draw of all users' reports, or their true degrees."""

    last_metric = property(lambda self: "mean degree" if self.mechanism == _TRUE_NAME else _LAST)


results_in = partial(Results, name=NAME, cell=Cell)


def main(config: Config) -> None:
    """Compute what is missing, and the figure where it shows something else than last time."""
    results = results_in(config.out)
    asked = [Graphs(dataset, config.graphs, config.rr_nodes) for dataset in config.datasets]
    names = [
        name for name in COMPARED if name in config.mechanisms and (name != "rr" or config.rr_nodes)
    ]
    if not names:
        raise UsageError(
            "--mechanisms: degrees are compared of dprr, local-lap and rr (rr with --rr-nodes)"
        )
    variants = [
        TRUE,
        *(Variant(name, epsilon, 0.0) for name in names for epsilon in config.epsilons),
    ]
    with _runner.asked("--epsilons"):
        planned = dict(_cell(chosen, variant) for chosen in asked for variant in variants)
    run(planned, compute, results, called="sets of degrees", grid=config)
    if not config.whole:
        return
    nearest = min(config.epsilons, key=lambda epsilon: abs(epsilon - 1))
    shown = [variant for variant in variants if variant != TRUE and variant.epsilon == nearest]

    path = redraw(results, FIGURE, [asked, shown], lambda: plot(asked, shown, reported))
    console.print(f"figure: {path}", soft_wrap=True)


def compute(cell: Cell, settings: dict[str, Any]) -> Found:
    chosen = Graphs(**settings)
    users = degrees(load(*chosen))
    if cell.mechanism == _TRUE_NAME:
        found = {**_shares(users.true, users.label), "mean degree": users.true.mean()}
        return Found(rounded(found))
    variant = Variant(cell.mechanism, cell.epsilon, 0.0)
    made = made_by(variant, most_nodes(chosen))
    return Found(rounded(statistics(users, reported(chosen, variant), made)))


@cache
def reported(chosen: Graphs, variant: Variant) -> np.ndarray:
    """Noisy degrees, the same in rows and in the figure: their keys are fixed."""
    return noisy_degrees(load(*chosen), variant)


def _cell(chosen: Graphs, variant: Variant) -> tuple[Cell, dict[str, Any]]:
    n_max = most_nodes(chosen)
    proved = math.inf if variant == TRUE else ledger(variant, n_max).spent(NEIGHBOUR_LIST).epsilon
    name = _TRUE_NAME if variant == TRUE else variant.mechanism
    row = name_of(chosen), "degrees", NEIGHBOUR_LIST, name, variant.epsilon, 0, proved
    return Cell.of(chosen._asdict(), *row)


def degrees(whole: packing.GraphSet) -> Degrees:
    true = np.bincount(whole.receivers, minlength=len(whole.node_graph))
    return Degrees(
        true, whole.nodes_per_graph[whole.node_graph] - 1, whole.labels[whole.node_graph]
    )


def noisy_degrees(whole: packing.GraphSet, variant: Variant) -> np.ndarray:
    """How many neighbours each user reports: row i of the noisy matrix, the edges into i.

    Int [users].
    """
    name = int(config_hash([variant.mechanism, variant.epsilon]), 16) % 2**31
    made = made_by(variant, int(whole.nodes_per_graph.max()))
    key = jax.random.fold_in(jax.random.key(0), name)
    noisy = edges.privatize_graph(key, whole, made)
    return np.bincount(noisy.graph.receivers, minlength=len(whole.node_graph))


def bins(values: np.ndarray) -> np.ndarray:
    return np.searchsorted(STARTS, values, "right") - 1


def bin_name(place: int) -> str:
    first = STARTS[place]
    last = STARTS[place + 1] - 1
    return f"{first}" if first == last else f"{first}-{last}"


def statistics(users: Degrees, noisy: np.ndarray, made: Any) -> dict[str, float]:
    """Statistics of the noisy degrees.

    Of each bin of the true degree, of each class, and of all users.
    """
    found: dict[str, Any] = {}
    pairs = pd.DataFrame({"true": users.true, "noisy": noisy})
    for place, part in pairs.groupby(bins(users.true)):
        low, high = np.quantile(part.noisy, (0.05, 0.95))
        values = {
            "users": len(part), "true_mean": part.true.mean(), "noisy_mean": part.noisy.mean(),
            "noisy_5_percent": low, "noisy_95_percent": high,
        }  # fmt: skip
        found |= {
            f"{name}, degree {bin_name(int(str(place)))}": value for name, value in values.items()
        }
    found |= _shares(noisy, users.label)
    gap = noisy - users.true
    found |= {
        "true mean degree": users.true.mean(), "mean degree": noisy.mean(), "bias": gap.mean(),
        "mean absolute error": np.abs(gap).mean(), "share that report nobody": (noisy == 0).mean(),
    }  # fmt: skip
    if isinstance(made, edges.DPRR):
        found["expected bias of d*"] = np.asarray(
            made.degree_bias(users.true, users.others), np.float64
        ).mean()
    found[_LAST] = stats.spearmanr(users.true, noisy).statistic
    return found


def _shares(values: np.ndarray, label: np.ndarray) -> dict[str, float]:
    counts = _counts(values, label)
    return {
        f"share, class {c}, degree {bin_name(place)}": counts[c, place] / counts[c].sum()
        for c, place in np.argwhere(counts)
    }


def _counts(values: np.ndarray, label: np.ndarray) -> np.ndarray:
    shape = int(label.max()) + 1, len(STARTS)
    return np.bincount(label * shape[1] + bins(values), minlength=shape[0] * shape[1]).reshape(
        shape
    )


def prepared(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows with what users of few neighbours and of many have and report, from the bins."""
    found = frame.metric.str.extract(r"^(users|true_mean|noisy_mean), degree (\d+)")
    binned = frame.assign(of=found[0], start=found[1].astype(float)).dropna(subset="start")
    key = ["dataset", "mechanism", "epsilon"]
    made = []
    for names, part in binned.groupby(key):
        wide = part.pivot_table(index="start", columns="of", values="value")
        few = f"at most {_LOW}", wide[wide.index <= _LOW]
        many = f"at least {_HIGH}", wide[wide.index >= _HIGH]
        for words, some in (few, many):
            count = some.users.sum()
            values = {"share of users": count / wide.users.sum()}
            if count:
                values["neighbours"] = (some.true_mean * some.users).sum() / count
                values["reported"] = (some.noisy_mean * some.users).sum() / count
            place = dict(zip(key, names, strict=True))
            for name, value in values.items():
                made.append({**place, "metric": f"{name}, {words}", "value": value, "seed": 0})
    return pd.concat([frame, pd.DataFrame(made)], ignore_index=True)


def plot(
    asked: list[Graphs], shown: list[Variant], reported: Callable[[Graphs, Variant], np.ndarray]
) -> Any:
    """One row a data set.

    Noisy against true degrees of each mechanism, then degrees of each class.
    """
    across = len(shown) + 1
    figure, axes = panels(len(asked) * across, width=3.4, height=3.0, columns=across)
    for row, chosen in enumerate(asked):
        *scatters, last = axes[row * across : (row + 1) * across]
        users = degrees(load(*chosen))
        top = 1.3 * max(users.true.max(), *(reported(chosen, variant).max() for variant in shown))
        for axis, variant in zip(scatters, shown, strict=True):
            _scatter(axis, users.true, reported(chosen, variant), COLOURS[variant.mechanism])
            _from_zero(axis.xaxis, axis.set_xscale)
            _from_zero(axis.yaxis, axis.set_yscale)
            title = f"{chosen.dataset}: {LABELS[variant.mechanism]}, epsilon {variant.epsilon:g}"
            axis.set(xlim=(-0.5, top), ylim=(-0.5, top), xlabel="true degree d", title=title)
        scatters[0].set_ylabel("noisy degree d~")
        dprr = next(
            (reported(chosen, variant) for variant in shown if variant.mechanism == "dprr"), None
        )
        _classes(last, users, dprr)
        last.set_title(f"{chosen.dataset}: classes")
    legend_below(figure, axes, 6)
    return figure


def _from_zero(axis: Any, set_scale: Any) -> None:
    """Linear up to 1 and logarithmic beyond: most degrees are small, and some are 0."""
    set_scale("symlog", linthresh=1)
    axis.set_major_formatter(lambda value, _: f"{value:g}")


def _scatter(axis: Any, true: np.ndarray, noisy: np.ndarray, colour: str) -> None:
    rng = np.random.default_rng(0)
    some = rng.permutation(len(true))[:_SHOWN]
    shift = rng.uniform(
        -0.3, 0.3, (2, len(some))
    )  # most users have few neighbours: else one dot hides hundreds
    axis.scatter(
        true[some] + shift[0],
        noisy[some] + shift[1],
        s=2,
        alpha=0.25,
        color=colour,
        lw=0,
        rasterized=True,
    )
    ends = [0, max(true.max(), noisy.max())]
    axis.plot(ends, ends, color="black", ls="--", lw=0.9, label="d~ = d")
    grouped = pd.DataFrame({"true": true, "noisy": noisy}).groupby(bins(true))
    mean = grouped.mean()[grouped.size() >= _FEW]
    axis.plot(
        mean.true,
        mean.noisy,
        color="black",
        lw=1.2,
        marker="o",
        ms=2.5,
        label="mean of d~ in a bin of d",
    )


def _classes(axis: Any, users: Degrees, dprr: np.ndarray | None) -> None:
    true = _counts(users.true, users.label)
    noisy = None if dprr is None else _counts(dprr, users.label)
    used = true.sum(0) if noisy is None else true.sum(0) + noisy.sum(0)
    last = int(np.flatnonzero(used).max()) + 1
    for c in range(len(true)):
        for counts, style, words in ((true, "-", "true"), (noisy, "--", "DPRR")):
            if counts is not None:
                share = 100 * counts[c, :last] / counts[c].sum()
                share[share == 0] = np.nan
                axis.stairs(
                    share,
                    STARTS[: last + 1],
                    baseline=None,
                    color=f"C{c}",
                    ls=style,
                    label=f"class {c}, {words}",
                )
    _from_zero(axis.xaxis, axis.set_xscale)
    axis.set(
        yscale="log", xlim=(0, None), xlabel="degree", ylabel="users of the class in a bin (%)"
    )
