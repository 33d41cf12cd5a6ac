"""Benchmarks of a curator's chain and of LinkTeller.

Sides that take turns, and what they are compared with.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from experiments import _references, _sides
from experiments.heterorr import mixing
from ldp_jax import attacks, curators, datasets
from ldp_jax.curators import hrg
from ldp_jax.graph import graphs, propagation
from ldp_jax.learning import models, training

SWEEPS = 2000
SINGLE, SHARE = "one move a step", 20
"""The single moves are a twentieth as many: their seconds are given for as many moves as ours."""


def chain_sides() -> tuple[str, _sides.Sides, float]:
    """Moves on the PPI graph 0, a fifth of whose edges are private.

    Sweeps, and one move a step of a scan.
    """
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
    single = lambda repeat: single_moves(keys(repeat), state, edges, scales, moves // SHARE).count
    about = (
        f"{n} nodes, {len(pairs.public) + len(pairs.private)} edges; {SWEEPS} sweeps of n / 8 moves"
    )
    sides: _sides.Sides = {"ldp_jax": (swept, about)}
    if _sides.installed("central", "numba"):
        chain = _references.dendrogram_chain(state, edges, scales)
        about = "single moves; each internal node holds a list of the edges that it joins"
        sides["numba"] = (lambda repeat: chain(repeat, moves), about)
    about = f"the same chain, a move for each step of a compiled scan; of 1/{SHARE} as many moves, times {SHARE}"
    sides[SINGLE] = (single, about)
    return title, sides, moves


@partial(jax.jit, static_argnames="moves")
def single_moves(
    key: Any, state: hrg.State, edges: hrg.Edges, scales: Any, moves: int
) -> hrg.State:
    """The chain as one writes it first.

    An internal node and a side are drawn, and one move is made or not.
    """
    n = (state.tree.slot.shape[-1] + 1) // 2
    kinds = jnp.stack([jnp.asarray(edges.kind) == kind for kind in (0, 1)])

    def term(count: Any, pairs: Any) -> Any:
        share = jnp.clip(count / pairs, 1e-30, 1.0)
        found = count * jnp.log(share) + (pairs - count) * jnp.log1p(-share)
        return jnp.where((count > 0) & (count < pairs), found, 0.0)

    def move(state: Any, key: Any) -> tuple[hrg.State, None]:
        (children, slot, size), lca, count = state
        node_key, side_key, accept_key = jax.random.split(key, 3)
        r = jax.random.randint(node_key, (), 1, n - 1)
        slot_x, slot_z = 2 * r + jax.random.randint(side_key, (), 0, 2), slot[r] ^ 1
        p = slot[r] >> 1
        x = children[slot_x]
        y = children[slot_x ^ 1]
        z = children[slot_z]
        start = hrg.positions(state.tree)
        place = start[n - 1 + jnp.asarray(edges.ends)]
        at_p, at_r = lca == p, lca == r
        in_x = at_p & ((place >= start[x]) & (place < start[x] + size[x])).any(0)
        between = (kinds & in_x).sum(1)
        new_p, new_r = between + count[:, r], count[:, p] - between
        a, b, c = (size[node].astype(jnp.float32) for node in (x, y, z))
        change = term(new_p, a * (b + c)) + term(new_r, b * c) - term(count[:, p], (a + b) * c)
        change = (jnp.asarray(scales) * (change - term(count[:, r], a * b))).sum()
        made = jnp.log(jax.random.uniform(accept_key)) < change
        after = hrg.State(
            hrg.Dendrogram(
                children.at[slot_x].set(z).at[slot_z].set(x),
                slot.at[x].set(slot_z).at[z].set(slot_x),
                size.at[r].set(size[y] + size[z]),
            ),
            jnp.where(at_r, p, jnp.where(at_p & ~in_x, r, lca)),
            count.at[:, p].set(new_p).at[:, r].set(new_r),
        )
        return jax.tree.map(lambda new, old: jnp.where(made, new, old), after, state), None

    return jax.lax.scan(move, jax.tree.map(jnp.asarray, state), jax.random.split(key, moves))[0]


def linkteller_sides(nodes: int = 500) -> tuple[str, _sides.Sides]:
    """All pairs of some nodes of blogcatalog, three convolutions.

    Derivatives, and the paper's way.
    """
    data = datasets.load("blogcatalog")
    x = jnp.asarray(data.scaled_rows(0, data.num_nodes))
    labels = np.asarray(data.y, np.int32)
    op = propagation.operator(data.graph)
    inputs = models.NodeInputs(op, x)
    model = models.gcn(3, 16, data.num_classes)
    order = np.random.default_rng(0).permutation(len(x)).astype(np.int32)
    parts = [training.Examples(part, labels[part]) for part in np.split(order, [2000, 2500])]
    fitted = training.fit(
        jax.random.key(0), model, training.on_graph(training.node_classification), inputs, *parts,
        settings=training.Settings(optax.adam(0.01), epochs=10, batch_size=2000),
    )  # fmt: skip
    asked = lambda repeat: np.sort(
        np.random.default_rng(repeat).choice(len(x), nodes, replace=False)
    )
    edges = graphs.to_edges(data.graph)

    def ours(repeat: int) -> Any:
        targets = attacks.all_pairs(asked(repeat), edges)
        return attacks.linkteller(model, fitted.variables, inputs, targets).scores

    read = jax.jit(
        lambda variables, op, x: model.apply(variables, (op, x), key=None, train=False)[0]
    )
    raised = jax.jit(lambda x, node: x.at[node].multiply(1.01))

    def differences(repeat: int) -> Any:
        who = asked(repeat)
        value = read(fitted.variables, op, x)[who]
        moved = [read(fitted.variables, op, raised(x, node))[who] - value for node in who]
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
