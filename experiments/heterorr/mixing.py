"""How long chains over hierarchical random graphs take to forget their start, on public edges."""

import dataclasses
import itertools
import math
from functools import lru_cache, partial

import jax
import numpy as np
import pandas as pd

from experiments import _runner
from experiments.heterorr.settings import Config
from ldp_jax import datasets
from ldp_jax.accounting.guarantee import EDGE_CENTRAL
from ldp_jax.curators import hrg
from ldp_jax.graph import graphs

NAME, CALLED = "heterorr_mixing", "chains"
WEIGHTS = (0.05, 0.25, 1.0)
CHAINS = 4
BLOCKS, SWEEPS = 40, 200
"""The log-likelihood is looked at after every 200 sweeps, 25 moves a node; the default release has
8 000 sweeps.
"""
GRAPHS = ("facebook100_caltech36", "ppi_nofeat")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(_runner.Cell):
    """One chain: the seed of its start and moves, and the power of the public edges' likelihood."""

    weight: float

    last_metric = property(lambda self: _named(BLOCKS))


def _named(block: int) -> str:
    return f"log-likelihood after {block * SWEEPS} sweeps"


results_in = partial(_runner.Results, name=NAME, cell=Cell)


@lru_cache(maxsize=1)
def connected(dataset: str) -> tuple[int, np.ndarray]:
    """Nodes that have an edge, and the edges between them; of a set of graphs, the first."""
    with _runner.asked("--parts", OSError):
        data = datasets.load(dataset)
    edges = graphs.to_edges(data.graph)
    if data.node_graph is not None:
        edges = edges[data.node_graph[edges[:, 0]] == 0]
    nodes, places = np.unique(edges, return_inverse=True)
    return len(nodes), places.reshape(-1, 2)


def plan(config: Config) -> dict[Cell, dict[str, int]]:
    settings = {"blocks": 8, "sweeps": 5} if config.smoke else {"blocks": BLOCKS, "sweeps": SWEEPS}
    return dict(
        Cell.of(
            settings, dataset, "mixing", EDGE_CENTRAL, "hrg", 0.0, seed, math.inf, weight=weight
        )
        for dataset, weight, seed in itertools.product(GRAPHS, WEIGHTS, range(CHAINS))
    )


def compute(cell: Cell, chosen: dict[str, int]) -> _runner.Found:
    blocks = chosen["blocks"]
    n, pairs = connected(cell.dataset)
    edges = hrg.Edges.of(pairs, np.zeros((0, 2), np.int64))
    start, key = jax.random.split(jax.random.key(cell.seed))
    scales = np.array((cell.weight, 0.0), np.float32)
    keys = jax.random.split(key, blocks)
    state = hrg.init(start, n, edges)
    _, heights = hrg.trace(keys, state, edges, scales, chosen["sweeps"])
    # The names are those of whole runs, so that a smoke run has the cell's last metric too.
    names = [_named(BLOCKS - blocks + 1 + block) for block in range(blocks)]
    values = np.asarray(heights[:, 0])
    return _runner.Found(
        {name: round(float(value), 3) for name, value in zip(names, values, strict=True)}
    )


def prepared(frame: pd.DataFrame) -> pd.DataFrame:
    """Each chain's log-likelihoods by sweeps, and how far the chains of a graph and weight agree.

    *r_hat* is of the second halves, *apart* the most between two chains at the end.
    """
    sweeps = frame.metric.str.extract(r"after (\d+) sweeps")[0].astype(float)
    parts = []
    for _, part in frame.assign(sweeps=sweeps, chain=frame.seed).groupby(["dataset", "weight"]):
        chains = part.pivot_table(index="sweeps", columns="chain", values="value")
        ends = chains.iloc[-1]
        agreed = part.assign(
            seed=0,
            r_hat=hrg.r_hat(chains.iloc[len(chains) // 2 :].to_numpy().T),
            end=ends.mean(),
            apart=ends.max() - ends.min(),
            wall=part.seconds.median(),
        )
        parts.append(agreed)
    return pd.concat(parts)
