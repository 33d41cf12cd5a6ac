"""How near the graph product comes to what a machine can do: bytes that must move over a copy's.

The words of samplers are in ``discrete``, whose rows stand beside bare random words.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments._edge_benchmarks import chung_lu
from experiments._sides import Rows, Sides, interleaved
from ldp_jax.core import types
from ldp_jax.graph import graphs, propagation

GRAPHS = {"small": (20_000, 200_000), "large": (1_000_000, 10_000_000)}
"""Nodes and edges: rows of 32 columns are within a cache of 8 MB, or 16 times beyond it."""


@partial(jax.jit, donate_argnums=0)
def _in_place(x: types.Array) -> types.Array:
    return x + 1.0


@jax.jit
def _product(op: propagation.Operator, x: types.Array) -> types.Array:
    return op.average(x)


def roofline(repeats: int) -> Rows:
    """D^-1 A w on two graphs by turns with a copy; notes say which share of its rate it reaches.

    In the layout's own order each edge reads a row of w and an id, and each node writes a row.
    """
    count = 2**26 if jax.default_backend() == "cpu" else 2**30
    held = [jnp.ones(count, jnp.float32)]

    def copied(_: int) -> types.Array:
        # In place: the rate of memory, and not of the pages that a host makes.
        held[0] = _in_place(held[0])
        return held[0]

    sides: Sides = {"copy": (copied, f"x + 1 of {4 * count / 1e9:.1f} GB, in place")}
    moved = {"copy": 8.0 * count}
    for name, (nodes, pairs) in GRAPHS.items():
        graph: Any = graphs.from_edges(chung_lu(nodes, pairs), nodes)
        op = propagation.operator(graph)
        ends = len(graph.senders)
        for columns in (32, 256):
            x = np.random.default_rng(0).standard_normal((nodes, columns), dtype=np.float32)
            rows = op.rows(jnp.asarray(x))
            side = f"product, {name} graph, {columns} columns"
            note = f"{nodes:,} nodes, {ends:,} directed edges; layout {op.layout}"
            sides[side] = (lambda _, op=op, rows=rows: _product(op, rows), note)
            moved[side] = 4.0 * (ends * (columns + 1) + nodes * columns)

    found = interleaved("roofline", sides, repeats)
    walls = {
        name: np.median([row["wall_s"] for row in found if row["subject"] == name])
        for name in sides
    }
    rates = {name: moved[name] / walls[name] for name in sides}
    for row in found:
        rate = rates[row["subject"]]
        row["note"] += f"; {rate / 1e9:.3g} GB/s, {rate / rates['copy']:.2f} of a copy"
    return found
