"""How long chains of hierarchical random graphs take to forget where they began, on public edges."""

import dataclasses
import itertools
import math
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Float

from experiments import _report as show
from experiments import _runner
from experiments.heterorr.settings import Config
from ldp_jax import datasets
from ldp_jax.accounting.guarantee import EDGE_CENTRAL
from ldp_jax.core.types import Array, PRNGKeys
from ldp_jax.edges.curator import hrg
from ldp_jax.graph import graphs

NAME, CALLED = "heterorr_mixing", "chains"
WEIGHTS = (0.05, 0.25, 1.0)
CHAINS = 4
BLOCKS, SWEEPS = 40, 200
"""The log-likelihood is looked at after every 200 sweeps, 25 moves a node; the default release has 8 000 sweeps."""
GRAPHS = ("facebook100_caltech36", "ppi_nofeat")
REGRAFTS, LONGER = "hrg with regrafts", "hrg with regrafts, 5 times as long"
TEMPERED = "tempered hrg with regrafts"
MOVES = {"hrg": (SWEEPS, 0), REGRAFTS: (100, 100), LONGER: (500, 500), TEMPERED: (50, 50)}
"""Sweeps and regrafts of a block. A regraft costs about as much as a sweep: the first two cost the same."""
RUNGS, TURNS = 8, 5
"""Weights of a tempered chain, evenly from w to 0, and its exchanges in a block."""
EXCHANGES = "least share of exchanges"
CASES = {
    LONGER: (("facebook100_caltech36", 1.0), ("facebook100_caltech36", 0.05)),
    TEMPERED: (("facebook100_caltech36", 1.0), ("facebook100_caltech36", 0.05), ("ppi_nofeat", 0.05)),
}
"""Where the costly chains run."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(_runner.Cell):
    """One chain: ``seed`` is of start and moves, ``weight`` what the likelihood of public edges is raised to."""

    weight: float

    last_metric = property(lambda self: _named(BLOCKS, self.mechanism))


def _named(block: int, mechanism: str) -> str:
    return f"log-likelihood after {block * MOVES[mechanism][0]} sweeps"


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
    made = {name: _settings(name, config.smoke) for name in MOVES}
    cases = itertools.product(MOVES, GRAPHS, WEIGHTS, range(CHAINS))
    return dict(
        Cell.of(made[name], dataset, "mixing", EDGE_CENTRAL, name, 0.0, seed, math.inf, weight=weight)
        for name, dataset, weight, seed in cases if name not in CASES or (dataset, weight) in CASES[name]
    )  # fmt: skip


def compute(cell: Cell, chosen: dict[str, int]) -> _runner.Found:
    blocks, (n, pairs) = chosen["blocks"], connected(cell.dataset)
    edges = hrg.Edges.of(pairs, np.zeros((0, 2), np.int64))
    start, key = jax.random.split(jax.random.key(cell.seed))
    found = {}
    if cell.mechanism == TEMPERED:
        states = jax.vmap(lambda key: hrg.init(key, n, edges))(jax.random.split(start, RUNGS))
        keys = jax.random.split(key, blocks * TURNS)
        weights = jnp.linspace(cell.weight, 0.0, RUNGS)
        trace, swapped = tempered(keys, states, edges, weights, chosen["sweeps"] // TURNS)
        values, later = np.asarray(trace)[TURNS - 1 :: TURNS], np.asarray(swapped)[len(keys) // 2 :]
        found[EXCHANGES] = round(float(min(later[rung % 2 :: 2, rung].mean() for rung in range(RUNGS - 1))), 4)
    else:
        keys, state, scales = jax.random.split(key, blocks), hrg.init(start, n, edges), (cell.weight, 0.0)
        moves = chosen["sweeps"], chosen.get("regrafts", 0)
        values = np.asarray(hrg.trace(keys, state, edges, np.array(scales, np.float32), *moves)[1][:, 0])
    # The names are those of whole runs, so that a smoke run has the cell's last metric too.
    names = [_named(BLOCKS - blocks + 1 + block, cell.mechanism) for block in range(blocks)]
    return _runner.Found(found | {name: round(float(value), 3) for name, value in zip(names, values, strict=True)})


def _settings(mechanism: str, smoke: bool) -> dict[str, int]:
    sweeps, regrafts = (5, 5 * (mechanism != "hrg")) if smoke else MOVES[mechanism]
    made = {"blocks": 8 if smoke else BLOCKS, "sweeps": sweeps}
    made |= {"regrafts": regrafts} if regrafts else {}
    return made | ({"rungs": RUNGS, "turns": TURNS} if mechanism == TEMPERED else {})


@partial(jax.jit, static_argnames="sweeps")
def tempered(
    keys: PRNGKeys, states: hrg.State, edges: hrg.Edges, weights: Float[Array, " rungs"], sweeps: int
) -> tuple[Float[Array, " turns"], Float[Array, "turns rungs"]]:
    """Parallel tempering: after each turn, pairs of neighbouring weights exchange their states or not.

    The first of the weights, which have a state each of the public ``edges``, is the law that is asked for. A turn
    has ``sweeps`` of each state, and as many regrafts. Returns L_pub at the first weight after each turn, and
    whether rung i exchanged its state, 0 or 1.

    Reference: Geyer, Markov chain Monte Carlo maximum likelihood, 1991.
    """
    rungs = jnp.arange(len(weights))
    scales = jnp.stack([weights, jnp.zeros_like(weights)], 1)

    def advance(given: tuple[PRNGKeys, hrg.State, Array]) -> hrg.State:
        key, state, scale = given
        state = hrg.run(key, state, edges, scale, sweeps)
        return hrg.regraft(jax.random.fold_in(key, 0), state, edges, scale, sweeps)

    def turn(states: hrg.State, given: tuple[PRNGKeys, Array]) -> tuple[hrg.State, tuple[Array, Array]]:
        move, exchange = jax.random.split(given[0])
        states = jax.lax.map(advance, (jax.random.split(move, len(weights)), states, scales))
        height = jax.vmap(hrg.log_likelihood)(states)[:, 0]
        partner = jnp.clip(jnp.where((rungs + given[1]) % 2 == 0, rungs + 1, rungs - 1), 0, len(weights) - 1)
        partner = jnp.where(partner[partner] == rungs, partner, rungs)  # the last rung may have no neighbour
        coin = jax.random.uniform(exchange, weights.shape)[jnp.minimum(rungs, partner)]
        accept = jnp.log(coin) < (weights - weights[partner]) * (height[partner] - height)
        source = jnp.where(accept, partner, rungs)
        states = jax.tree.map(lambda leaf: leaf[source], states)
        return states, (height[source[0]], (source != rungs).astype(jnp.float32))

    return jax.lax.scan(turn, states, (keys, jnp.arange(len(keys)) % 2))[1]


def pages(frame: pd.DataFrame) -> tuple[dict[str, str], dict[str, Any]]:
    by, exchanged = ["dataset", "weight", "mechanism"], frame.metric == EXCHANGES
    sweeps = frame.metric.str.extract(r"after (\d+) sweeps")[0].astype(float)
    traces = frame[~exchanged].assign(sweeps=sweeps).groupby(by)
    # For each graph, weight and kind of moves a column a chain, by sweeps.
    found = {key: part.pivot_table(index="sweeps", columns="seed", values="value") for key, part in traces}
    names = list(dict.fromkeys(str(name) for name, _, _ in found))
    seconds, exchanges = frame.groupby(by).seconds.median(), frame[exchanged].groupby(by).value.min()
    figure, axes = show.panels(len(names) * len(WEIGHTS), width=3.4, height=2.6, columns=len(WEIGHTS))
    rows, reached, gain = [], [], []
    for axis, (dataset, weight) in zip(axes, itertools.product(names, WEIGHTS), strict=True):
        ends = {}
        for name in MOVES:
            if (key := (dataset, weight, name)) not in found:
                continue
            chains = found[key]
            r_hat, ends[name] = hrg.r_hat(chains.iloc[len(chains) // 2 :].to_numpy().T), chains.iloc[-1]
            if r_hat <= hrg.MIXED:
                reached.append(f"{dataset} at w = {weight:g} by {name}")
            colour = f"C{list(MOVES).index(name)}"
            lines = axis.plot(np.arange(1, len(chains) + 1) / len(chains), chains, linewidth=0.9, color=colour)
            lines[0].set_label(f"{name}, R-hat {r_hat:.2f}")
            rows.append({
                "graph": dataset, "w": f"{weight:g}", "moves": name, "wall s a chain": f"{seconds[key]:.1f}",
                "R-hat of the second half": f"{r_hat:.3f}",
                "log-likelihood at the end": f"{ends[name].mean():.0f}",
                "between chains, at most": f"{ends[name].max() - ends[name].min():.0f}",
                "exchanges, at least": f"{exchanges[key]:.2f}" if name == TEMPERED else "",
            })  # fmt: skip
        if {"hrg", REGRAFTS} <= set(ends):
            gain.append(ends[REGRAFTS].mean() - ends["hrg"].mean())
        axis.set(xlabel="share of the run", ylabel="log-likelihood")
        axis.set_title(f"{dataset}, w = {weight:g}", fontsize=8)
        axis.legend(fontsize=6)
    figure.tight_layout()
    said, whole = show.prose(NAME), BLOCKS * SWEEPS
    verdict = f"R-hat is at most {hrg.MIXED} in {len(reached)} of {len(rows)} rows: {', '.join(reached) or 'none'}."
    if gain:
        verdict += "\n" + said.gain.format(least=min(gain), most=max(gain), sweeps=whole)
    counts = {"chains": CHAINS, "blocks": BLOCKS, "rungs": RUNGS, "turns": TURNS, "sweeps": whole}
    preface = said.preface.format(mixed=hrg.MIXED, regrafts=REGRAFTS, tempered=TEMPERED, **counts)
    text = f"# How chains forget where they began\n\n{preface}\n\n{verdict}\n\n{show.table(rows)}"
    return {NAME: text}, {NAME: figure}
