"""Benchmarks of a curator's chain and of LinkTeller.

Sides that take turns, and what they are compared with.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments import _sides
from experiments.heterorr import mixing
from ldp_jax import attacks, curators, datasets
from ldp_jax.curators import hrg
from ldp_jax.graph import graphs, propagation
from ldp_jax.learning import models

SWEEPS = 2000


def chain_sides() -> tuple[str, _sides.Sides, float]:
    """Moves on the PPI graph 0, a fifth of whose edges are private."""
    n, ends = mixing.connected("ppi_nofeat")
    graph = graphs.from_edges(ends.astype(np.int32), n, pairs_in="rows")
    split = curators.split_edges(jax.random.key(1), graph, 0.2)
    pairs = split.pairs()
    edges = hrg.Edges.of(pairs.places(pairs.public), pairs.places(pairs.private))
    scales = curators.EdgeRR(0.5, 0.5).scales(n)
    moves = SWEEPS * n // 8
    state = hrg.run(jax.random.key(2), hrg.init(jax.random.key(3), n, edges), edges, scales, SWEEPS)
    keys = lambda repeat: jax.random.fold_in(jax.random.key(4), repeat)
    title = f"HRG chain on PPI graph 0, {moves:,} moves"
    swept = lambda repeat: hrg.run(keys(repeat), state, edges, scales, SWEEPS).count
    about = (
        f"{n} nodes, {len(pairs.public) + len(pairs.private)} edges; {SWEEPS} sweeps of n / 8 moves"
    )
    sides: _sides.Sides = {"ldp_jax": (swept, about)}
    if _sides.installed("central", "numba"):
        from ldp_jax.curators import single_moves

        single = lambda repeat: single_moves.run(keys(repeat), state, edges, scales, SWEEPS).count
        sides["numba"] = (
            single,
            "EdgeRR(chain='numba'): single moves on the list of a node's edges",
        )
    return title, sides, moves


def linkteller_sides(nodes: int = 500) -> tuple[str, _sides.Sides]:
    """All pairs of some nodes of blogcatalog, three convolutions.

    Derivatives, and the paper's way.
    """
    data = datasets.load("blogcatalog")
    x = jnp.asarray(data.scaled_rows(0, data.num_nodes))
    op = propagation.operator(data.graph)
    inputs = models.NodeInputs(op, x)
    model = models.gcn(3, 16, data.num_classes)
    variables = jax.jit(model.init)(jax.random.key(0), inputs)
    asked = lambda repeat: np.sort(
        np.random.default_rng(repeat).choice(len(x), nodes, replace=False)
    )
    edges = graphs.to_edges(data.graph)

    def ours(repeat: int) -> Any:
        targets = attacks.all_pairs(asked(repeat), edges)
        return attacks.linkteller(model, variables, inputs, targets).scores

    read = jax.jit(
        lambda variables, op, x: model.apply(variables, (op, x), key=None, train=False)[0]
    )
    raised = jax.jit(lambda x, node: x.at[node].multiply(1.01))

    def differences(repeat: int) -> Any:
        who = asked(repeat)
        value = read(variables, op, x)[who]
        moved = [read(variables, op, raised(x, node))[who] - value for node in who]
        influence = np.linalg.norm(np.stack([np.asarray(one) for one in moved]) / 0.01, axis=-1)
        return influence + influence.T

    sides: _sides.Sides = {
        "ldp_jax": (
            ours,
            f"{nodes * (nodes - 1) // 2:,} pairs; derivatives pushed through one linearisation",
        ),
        "finite differences": (
            differences,
            "a compiled pass of the network for each node, as published",
        ),
    }
    return f"LinkTeller, all pairs of {nodes} nodes of blogcatalog", sides
