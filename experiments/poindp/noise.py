"""Figures 4 to 6.

How much noise the paper's private networks put on each node, and where it is on the disk.
"""

import dataclasses
import math
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from experiments import _common, _runner
from experiments import _report as show
from experiments._runner import Found, Results, rounded
from experiments.poindp import accuracy, cells, networks
from experiments.poindp.settings import PRINTED, PUBLISHED, Config, Settings, label
from ldp_jax.accounting.guarantee import RECORD
from ldp_jax.learning.models import poindp

NAME, CALLED = "poindp_noise", "nodes"
METRICS = ("x", "y", "noise")
MECHANISMS = (
    *(f"{PUBLISHED}{name}" for name in ("poindp", "vanpd", "lap", "rddp", "atdp")),
    f"{PRINTED}poindp",
)
NODES = 400
"""Drawn at random, the same for all networks."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(_runner.Cell):
    """A node: its place on the disk, and the mean absolute noise on its outputs or features."""

    node: int
    last_metric = property(lambda self: METRICS[-1])


results_in = partial(Results, name=NAME, cell=Cell)


@lru_cache(maxsize=8)
def noise_of(bench: cells.Bench, name: str, epsilon: float) -> np.ndarray:
    """The mean absolute noise of each node, in the trained network's answers; float64 [n]."""
    here = bench.world
    settings = here.settings
    if name == f"{PUBLISHED}lap":
        added = cells.noise_of_lap(bench, epsilon) - jnp.asarray(cells.to_one(here.unit))
        return np.abs(np.asarray(added, np.float64)).mean(1)
    score = cells.train_on_records(bench, name, epsilon)
    model, kind = networks.network(name, settings, here.data.num_classes)
    quiet: Any = poindp(here.data.num_classes, settings.hidden, settings.dropout)
    plain = given = networks.inputs_of(kind, here.op, here.records, here.known, epsilon, settings)
    if kind == "noisy":
        quiet, _ = networks.network("gcn", settings, here.data.num_classes)
        plain = given.inputs
    return np.asarray(_added(score.variables, given, plain, model=model, quiet=quiet), np.float64)


@partial(jax.jit, static_argnames=("model", "quiet"))
def _added(variables: Any, given: Any, plain: Any, *, model: Any, quiet: Any) -> Any:
    noisy, _ = model.apply(variables, given, key=None, train=False)
    clean, _ = quiet.apply({"params": variables["params"]}, plain, key=None, train=False)
    return jnp.abs(noisy - clean).mean(1)


@_common.planned
def plan(config: Config) -> Iterator[tuple[Cell, Settings]]:
    datasets, epsilons = config.asked("noise")
    chosen = accuracy.resolved(config, datasets[0])
    data = cells.load(chosen.dataset)
    drawn = np.random.default_rng(chosen.base_seed).permutation(data.num_nodes)[:NODES]
    for name in filter(config.asks_for, MECHANISMS):
        proved = accuracy.cell_of(chosen, data.name, "random", name, epsilons[0], 0).epsilon_proved
        for node in np.sort(drawn).tolist():
            yield Cell.of(
                chosen, data.name, "noise", RECORD, name, epsilons[0], 0, proved, node=node
            )


def compute(cell: Cell, chosen: Settings) -> Found:
    bench = cells.prepare(chosen, "random", cell.seed)
    size = noise_of(bench, cell.mechanism, cell.epsilon)[cell.node]
    x, y = bench.world.places[cell.node]
    values = (x, y, size if math.isfinite(size) else math.nan)
    return Found(
        rounded(dict(zip(METRICS, values, strict=True))), notes=accuracy.notes(cell, chosen)
    )


SHARES = tuple(round(0.05 * place, 2) for place in range(1, 20))
QUANTILE, CORRELATION = "quantile", "correlation with the radius"
DISKS = {
    "poindp_figure5": (f"{PUBLISHED}vanpd", f"{PUBLISHED}poindp", f"{PRINTED}poindp"),
    "poindp_figure6": (f"{PUBLISHED}lap", f"{PUBLISHED}rddp", f"{PUBLISHED}atdp"),
}
"""The rows of each picture of the disk: the paper's two, and of ours one."""

Nodes = dict[str, pd.DataFrame]
"""The nodes of each mechanism: place, distance from the centre, and noise."""


def prepared(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the last data set and epsilon, and of each mechanism what its nodes have in sum.

    That is the noise below which a share of them is, and its correlation with the radius; *chance*
    is what bounds the latter where noise knows no hierarchy.
    """
    last = frame.iloc[-1]
    frame = frame[(frame.dataset == last.dataset) & (frame.epsilon == last.epsilon)]
    nodes = _nodes(frame)
    made = []
    for name, part in nodes.items():
        row = {"dataset": last.dataset, "mechanism": name, "epsilon": last.epsilon, "seed": 0}
        row |= {"nodes": len(part), "chance": _chance(nodes)}
        made.append({**row, "metric": CORRELATION, "share": 0.0, "value": _with_radius(part)})
        made += [
            {**row, "metric": QUANTILE, "share": share, "value": part.noise.quantile(share)}
            for share in SHARES
        ]
    return pd.concat([frame, pd.DataFrame(made)], ignore_index=True)


def _nodes(frame: pd.DataFrame) -> Nodes:
    rows = frame[frame.metric.isin(METRICS)]
    wide = rows.pivot_table(index=["mechanism", "node"], columns="metric", values="value")
    wide["distance"] = 2 * np.arctanh(np.minimum(np.hypot(wide.x, wide.y), 1 - 1e-6))
    parts = {name: part.droplevel(0) for name, part in wide.groupby(level=0)}
    return {name: parts[name] for name in MECHANISMS if name in parts}


def disks(report: Any, spec: Any) -> Any:
    """The disk above, and below it the same with true distances from the centre.

    One colour scale.
    """
    from matplotlib.colors import LogNorm
    from matplotlib.patches import Circle

    nodes = _nodes(report.frame)
    names = DISKS[spec["file"]]
    title = "{dataset}, epsilon {epsilon:g}".format(**report.frame.iloc[-1])
    drawn = [name for name in names if name in nodes]
    figure, axes = show.panels(2 * len(names), width=3.2, height=2.8, columns=len(names))
    figure.subplots_adjust(left=0.01, right=0.92, bottom=0.01, top=0.86, wspace=0.03, hspace=0.03)
    for axis in axes:
        axis.set_axis_off()
    if not drawn:
        return figure
    colours = LogNorm(
        *np.nanquantile(np.concatenate([nodes[name].noise for name in drawn]), [0.02, 0.98])
    )
    for name in drawn:
        place = names.index(name)
        part = nodes[name].dropna().sort_values("noise")  # the darkest last: on top
        stretch = part.distance / np.maximum(np.hypot(part.x, part.y), 1e-9)
        rim = math.ceil(part.distance.max())
        above, below = axes[place], axes[place + len(names)]
        for axis, scale, rings in ((above, 1.0, (1.0,)), (below, stretch, range(2, rim + 1, 2))):
            axis.set_aspect("equal")
            for ring in rings:
                axis.add_patch(
                    Circle((0, 0), ring, fill=False, color="0.8", linewidth=0.6, zorder=1)
                )
                if axis is below:
                    axis.text(
                        0,
                        -ring,
                        f"{ring}",
                        fontsize=6,
                        color="0.3",
                        ha="center",
                        va="center",
                        zorder=3,
                        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.85},
                    )
            dots = axis.scatter(
                part.x * scale,
                part.y * scale,
                c=part.noise,
                cmap="viridis_r",
                norm=colours,
                s=7,
                linewidths=0,
                zorder=2,
            )
            most = 1.04 * max(rings)
            axis.set_xlim(-most, most)
            axis.set_ylim(-most, most)
        above.set_title(
            f"{label(name)}: correlation with the radius {_with_radius(part):+.2f}", fontsize=8
        )
    figure.colorbar(dots, ax=axes, shrink=0.6, aspect=35, fraction=0.03, extend="both", pad=0.01)
    # As the paper reads its figures.
    fading = (
        ", ".join(label(name) for name in drawn if _with_radius(nodes[name]) < -_chance(nodes))
        or "no network"
    )
    found = f"Mean absolute noise fades with the radius in {fading}, of {len(drawn)}"
    figure.suptitle(f"{found}\n{title}; above the disk, below hyperbolic distances", fontsize=9)
    return figure


def _chance(nodes: Nodes) -> float:
    """95 % of correlations are within this of 0, of noise that knows no hierarchy."""
    return 1.96 / math.sqrt(max(map(len, nodes.values())) - 1)


def _with_radius(part: pd.DataFrame) -> float:
    """Spearman's correlation of a node's noise with its distance from the centre."""
    part = part.dropna()
    return float(part.noise.rank().corr(part.distance.rank()))
