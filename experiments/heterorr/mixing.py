"""How long chains of hierarchical random graphs take to forget where they began, on public edges."""

import dataclasses
import math
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import jax
import numpy as np
import pandas as pd

from experiments import _runner
from experiments._report import markdown, panels, save
from experiments._runner import Found, Results, UsageError, config_hash, run, write_atomically
from experiments.heterorr.config import Config
from ldp_jax import datasets
from ldp_jax.accounting.guarantee import EDGE_CENTRAL
from ldp_jax.edges.curator import hrg
from ldp_jax.graph import graphs

NAME = "heterorr_mixing"
WEIGHTS = (0.05, 0.25, 1.0)
CHAINS = 4
BLOCKS, SWEEPS = 40, 200
"""The log-likelihood is looked at after every 200 sweeps, 25 moves a node; the default release has 8 000 sweeps."""
GRAPHS = ("facebook100_caltech36", "ppi_nofeat")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(_runner.Cell):
    """One chain; ``seed`` is of its start and its moves.

    Attributes:
      weight: w, what the likelihood of the public edges is raised to.
    """

    weight: float

    @property
    def last_metric(self) -> str:
        """The log-likelihood at the end."""
        return _named(BLOCKS)


def _named(block: int) -> str:
    return f"log-likelihood after {block * SWEEPS} sweeps"


def results_in(out: Path) -> Results:
    """The rows of a folder."""
    return Results(out, NAME, Cell)


@lru_cache(maxsize=1)
def connected(dataset: str) -> tuple[int, np.ndarray]:
    """Nodes that have an edge, and the edges between them; of a set of graphs, the first.

    Raises:
      UsageError: where the data set cannot be had.
    """
    try:
        data = datasets.load(dataset)
    except (OSError, datasets.DataUnavailableError) as error:
        raise UsageError(f"--parts: {error}") from error
    edges = graphs.to_edges(data.graph)
    if data.node_graph is not None:
        edges = edges[data.node_graph[edges[:, 0]] == 0]
    nodes, places = np.unique(edges, return_inverse=True)
    return len(nodes), places.reshape(-1, 2)


def main(config: Config) -> None:
    """Compute what is missing."""
    blocks, sweeps = (8, 5) if config.smoke else (BLOCKS, SWEEPS)
    made = {"blocks": blocks, "sweeps": sweeps}
    planned = [
        Cell(
            dataset=dataset, task="mixing", mechanism="hrg", epsilon=0.0, seed=seed, epsilon_proved=math.inf,
            unit=str(EDGE_CENTRAL), config=config_hash(made), weight=weight,
        )
        for dataset in GRAPHS for weight in WEIGHTS for seed in range(CHAINS)
    ]  # fmt: skip

    def compute(cell: Cell, say: Callable[[str], None]) -> Found:
        n, pairs = connected(cell.dataset)
        edges = hrg.Edges.of(pairs, np.zeros((0, 2), np.int64))
        start, key = jax.random.split(jax.random.key(cell.seed))
        scales = np.array([cell.weight, 0.0], np.float32)
        _, trace = hrg.trace(jax.random.split(key, blocks), hrg.init(start, n, edges), edges, scales, sweeps)
        values = np.asarray(trace[:, 0], np.float64)
        # The names are those of whole runs, so that a smoke run has the cell's last metric too.
        names = [_named(BLOCKS - blocks + 1 + block) for block in range(blocks)]
        return Found({name: round(float(value), 3) for name, value in zip(names, values, strict=True)})

    run(planned, compute, results_in(config.out), settings=lambda cell: made, called="chains")


def traces(frame: pd.DataFrame) -> dict[tuple[str, float], pd.DataFrame]:
    """For each graph and weight a column a chain, by sweeps."""
    after = frame.metric.str.extract(r"after (\d+) sweeps")[0].astype(int)
    made = frame.assign(sweeps=after)
    return {
        (str(dataset), float(weight)): part.pivot_table(index="sweeps", columns="seed", values="value")
        for (dataset, weight), part in made.groupby(["dataset", "weight"])
    }


def write(out: Path) -> list[Path]:
    """The table and its figure."""
    frame = results_in(out).read()
    if frame.empty:
        return []
    found = traces(frame)
    names = list(dict.fromkeys(name for name, _ in found))
    figure, axes = panels(len(names) * len(WEIGHTS), width=3.4, height=2.6, columns=len(WEIGHTS))
    rows = []
    for axis, (dataset, weight) in zip(axes, ((n, w) for n in names for w in WEIGHTS), strict=True):
        chains = found[dataset, weight]
        half = chains.iloc[len(chains) // 2 :]
        r_hat = hrg.r_hat(half.to_numpy().T)
        axis.plot(chains.index / 8, chains.to_numpy(), linewidth=0.9)
        axis.set_title(f"{dataset}, w = {weight:g}, R-hat {r_hat:.2f}", fontsize=8)
        axis.set_xlabel("moves a node")
        axis.set_ylabel("log-likelihood")
        ends = chains.iloc[-1]
        rows.append(
            [dataset, f"{weight:g}", f"{r_hat:.3f}", f"{ends.mean():.0f}", f"{ends.max() - ends.min():.0f}"]
        )
    figure.tight_layout()
    path, picture = out / f"{NAME}.md", out / f"{NAME}.png"
    headers = ["graph", "w", "R-hat of the second half", "log-likelihood at the end", "between chains, at most"]
    write_atomically(path, f"# How chains forget where they began\n\n{_PREFACE}\n\n{markdown(headers, rows)}\n")
    save(figure, picture)
    return [path, picture]


_PREFACE = f"""\
Made by `python -m experiments report` from `heterorr_mixing.csv`: {CHAINS} chains of {BLOCKS * SWEEPS} sweeps
(about 1 000 moves a node) on all edges of a public graph, of `ppi_nofeat` its first. The law of a chain is the
likelihood to the power w. Above an R-hat of 1.05 the chains still show where they began: then what is released
depends on that, and a guarantee *in the limit* is not about it."""
