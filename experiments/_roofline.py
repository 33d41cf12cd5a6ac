"""How near the hot paths come to what a machine can do.

Bytes and words that must move, over measured rates.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments._edge_benchmarks import chung_lu
from experiments._sides import Rows, Sides, interleaved, key_of
from ldp_jax import edges, features
from ldp_jax.core import mechanism as mechanisms
from ldp_jax.core import random, types
from ldp_jax.graph import graphs, propagation

USERS = 100_000
FEATURES = 1_000
SAMPLED = 10
GRAPHS = {"small": (20_000, 200_000), "large": (1_000_000, 10_000_000)}
"""Nodes and edges: rows of 32 columns are within a cache of 8 MB, or 16 times beyond it."""


class _Path(NamedTuple):
    """A hot path: what is timed, and what must move even if nothing is moved twice."""

    run: Callable[[int], Any]
    moved: float
    """bytes, or random words where ``words``"""
    words: bool
    note: str


@partial(jax.jit, donate_argnums=0)
def _in_place(x: types.Array) -> types.Array:
    return x + 1.0


@partial(jax.jit, static_argnames="count")
def _words(key: types.Array, *, count: int) -> types.Array:
    return random.bits(key, (count,))


@jax.jit
def _product(op: propagation.Operator, x: types.Array) -> types.Array:
    return op.average(x)


def roofline(repeats: int) -> Rows:
    """Every hot path by turns with a copy and with random words.

    Notes say which share of these it reaches.
    """
    count = 2**26 if jax.default_backend() == "cpu" else 2**30
    held = [jnp.ones(count, jnp.float32)]

    def copied(
        _: int,
    ) -> types.Array:  # in place: the rate of memory, and not of the pages that a host makes
        held[0] = _in_place(held[0])
        return held[0]

    paths = {
        "copy": _Path(copied, 8.0 * count, False, f"x + 1 of {4 * count / 1e9:.1f} GB, in place"),
        "random words": _Path(
            lambda repeat: _words(key_of(repeat), count=count // 4), count // 4, True,
            "threefry, unrolled; 32 bits a word",
        ),
    }  # fmt: skip
    for name, (nodes, pairs) in GRAPHS.items():
        graph = graphs.from_edges(chung_lu(nodes, pairs), nodes)
        for columns in (32, 256):
            paths[f"product, {name} graph, {columns} columns"] = _of_product(graph, columns)
        paths[f"counts, {name} graph"] = _of_counts(graph)
    paths["HDS"] = _of_records()
    paths["table"] = _of_table(count // 4)
    sides: Sides = {name: (path.run, path.note) for name, path in paths.items()}
    rows = interleaved("roofline", sides, repeats)
    walls = {
        name: np.median([row["wall_s"] for row in rows if row["subject"] == name]) for name in paths
    }
    rates = {name: path.moved / walls[name] for name, path in paths.items()}
    for row in rows:
        path, rate = paths[row["subject"]], rates[row["subject"]]
        share = rate / rates["random words" if path.words else "copy"]
        what = f"{rate / 1e9:.3g} G words/s" if path.words else f"{rate / 1e9:.3g} GB/s"
        row["note"] += f"; {what}, {share:.2f} of {'random words' if path.words else 'a copy'}"
    return rows


def _of_product(graph: Any, columns: int) -> _Path:
    """D^-1 A w in the layout's own order: each edge reads a row of w and an id.

    Each node writes a row.
    """
    op = propagation.operator(graph)
    n = op.num_nodes
    m = len(graph.senders)
    x = op.rows(
        jnp.asarray(np.random.default_rng(0).standard_normal((n, columns), dtype=np.float32))
    )
    moved = 4.0 * (m * (columns + 1) + n * columns)
    return _Path(
        lambda _: _product(op, x),
        moved,
        False,
        f"{n:,} nodes, {m:,} directed edges; layout {op.layout}",
    )


def _of_counts(graph: Any) -> _Path:
    """Counts of neighbours in 10 groups.

    Each edge is read once, and a count is written for each node and group.
    """
    n = graphs.num_nodes(graph)
    m = len(graph.senders)
    groups = np.random.default_rng(0).integers(0, 10, n)
    mechanism = edges.NeighbourCounts(1.0, 10)

    def run(repeat: int) -> Any:
        return edges.privatize_counts(key_of(repeat), graph, mechanism, groups).counts

    return _Path(
        run,
        8.0 * m + 40.0 * n,
        False,
        f"{n:,} nodes, {m:,} directed edges, 10 groups; from the host",
    )


def _of_records() -> _Path:
    """HDS reports k of d values.

    Two random words choose each coordinate, and one draws its report.
    """
    hds = features.HDS(1.0, FEATURES, SAMPLED)
    x = jnp.asarray(np.random.default_rng(0).random((USERS, FEATURES), np.float32) * 2 - 1)
    note = f"{USERS:,} users, {SAMPLED} of {FEATURES:,} values reported; three words a value"
    return _Path(
        lambda repeat: mechanisms.privatize(key_of(repeat), hds, x),
        3.0 * USERS * SAMPLED,
        True,
        note,
    )


def _of_table(count: int) -> _Path:
    """Draws from an integer table, a key of its own a user: one word each."""
    table = features.GeneralizedRR(1.0, 256)
    categories = jnp.asarray(np.random.default_rng(0).integers(0, 256, count, dtype=np.int32))
    note = f"{count:,} users, a 256 x 256 table; one word each"
    return _Path(
        lambda repeat: mechanisms.privatize(key_of(repeat), table, categories), count, True, note
    )
