"""Poincaré embeddings: the gradient, one step against a dense one, a tree that is found, and its
reconstruction.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.hyperbolic import embedding
from ldp_jax.hyperbolic.numerics import gap
from ldp_jax.hyperbolic.optimizers import apply_updates, riemannian_sgd
from tests.hyperbolic import reference as ref

TREE = np.maximum((np.arange(40) - 1) // 3, 0)
PAIRS = embedding.closure(TREE)


def pair_losses(points, pairs, drawn, apart):
    """The loss of each pair as the paper writes it."""
    u, v = points[pairs[:, 0]], points[pairs[:, 1]]
    squared = lambda x, y: ((x - y) ** 2).sum(-1) / (gap(x, 1.0) * gap(y, 1.0))[..., 0]
    d = lambda squared: 2 * jnp.arcsinh(jnp.sqrt(squared))
    close = d(squared(u, v))
    far = d(jnp.where(apart > 0, squared(u[:, None], points[drawn][None]), 1.0))
    return close + jnp.log(jnp.exp(-close) + (apart * jnp.exp(-far)).sum(1))


def test_the_gradient_is_that_of_the_loss():
    rng = np.random.default_rng(0)
    points = jnp.asarray(ref.points(rng, (30,), 3, 5.0, 1.0))
    pairs = np.arange(16).reshape(8, 2)
    drawn = np.arange(16, 28)
    apart = (rng.random((8, 12)) < 0.8).astype(np.float32)
    weight = np.float32([1, 1, 0, 1, 1, 1, 1, 1])[:, None]
    rows = np.concatenate([pairs[:, 0], pairs[:, 1], drawn])
    cut = lambda x: (x[:8], x[8:16], x[16:])
    losses, found = jax.jit(embedding._gradient)(
        cut(points[rows]), cut(gap(points, 1.0)[rows]), apart, weight
    )

    @jax.jit
    @partial(jax.value_and_grad, has_aux=True)
    def loss(x):
        each = pair_losses(x, pairs, drawn, apart)
        return (each * weight[:, 0]).sum(), each

    (_, each), wanted = loss(points)
    np.testing.assert_allclose(losses, each, rtol=1e-5)
    scale = ref.length(wanted)[rows]
    assert (ref.length(np.asarray(found) - np.asarray(wanted)[rows]) <= 1e-4 * scale).all()


def test_a_step_is_the_dense_one_on_the_rows_it_touches():
    """Nodes that come several times in a batch, as roots and drawn ones do, get one step with the
    sum.
    """
    n = 60
    start = ref.points(np.random.default_rng(1), (n,), 2, 1.0, 1.0)
    table = embedding._table(PAIRS)
    given = map(jnp.asarray, (start, PAIRS, table, np.float32(0.05)))
    plan = {"burn_in": 0, "epochs": 1, "batch_size": len(PAIRS), "negatives": 15}
    found = embedding._train(jax.random.key(3), *given, **plan)
    # The same key leads to the same nodes.
    (epoch,) = jax.random.split(jax.random.key(3), 1)
    _, epoch = jax.random.split(epoch)
    drawn = np.asarray(jax.random.randint(jax.random.split(epoch, 1)[0], (15,), 0, n))
    assert len(set(drawn)) < 15
    related = np.eye(n, dtype=bool)
    related[tuple(PAIRS.T)] = True
    # The hash passes over a few more: they are left out, so that the loss is the same.
    heads = PAIRS[:, :1]
    bits = int(np.log2(len(table)))
    passed = table[embedding._slot(heads.astype(np.uint32), drawn.astype(np.uint32)[None], bits)]
    apart = 1.0 - (related[heads, drawn] | passed)
    optimizer = riemannian_sgd(0.05)

    @jax.jit
    def dense(start):
        loss, slope = jax.value_and_grad(lambda x: pair_losses(x, PAIRS, drawn, apart).sum())(start)
        updates, _ = optimizer.update(slope, optimizer.init(start), start)
        return loss, apply_updates(start, updates)

    loss, wanted = jax.tree.map(np.asarray, dense(jnp.asarray(start)))
    touched = np.unique(np.concatenate([PAIRS.reshape(-1), drawn]))
    np.testing.assert_allclose(found.points[touched], wanted[touched], atol=2e-5)
    rest = np.setdiff1d(np.arange(n), touched)
    assert len(rest)
    np.testing.assert_array_equal(found.points[rest], start[rest])
    assert float(found.losses[0]) == pytest.approx(float(loss) / len(PAIRS), rel=1e-5)


def test_a_tree_is_found():
    """Of 40 nodes, in the disk."""
    tree = embedding.embed(jax.random.key(0), PAIRS, 40, epochs=150, batch_size=8, negatives=20)
    result = embedding.reconstruction(tree.points, PAIRS)
    assert result.mean_rank < 1.5  # 13 at the start: a sampler of wrong nodes does not get there
    assert result.mean_average_precision > 0.8
    depth = np.array([(PAIRS[:, 0] == node).sum() for node in range(40)])
    level = [np.asarray(embedding.radius(tree.points))[depth == k].mean() for k in range(4)]
    assert (np.diff(level) > 1).all(), level
    assert tree.losses.shape == (160,)
    assert np.isfinite(tree.losses).all()
    assert tree.losses[-1] < 0.5 * tree.losses[0]


def test_the_table_misses_no_pair_and_takes_few_others():
    rng = np.random.default_rng(0)
    pairs = np.unique(rng.integers(0, 5000, (20_000, 2)), axis=0).astype(np.int32)
    table = embedding._table(pairs)
    bits = int(np.log2(len(table)))
    place = lambda some: embedding._slot(*some.astype(np.uint32).T, bits)
    assert table[place(pairs)].all()
    others = rng.integers(5000, 2**31, (20_000, 2))
    assert table[place(others)].mean() < 1 / 16


def test_closure_goes_up_to_the_root():
    assert len(PAIRS) == sum(len(set(up(node))) for node in range(40))
    for node in range(40):
        assert PAIRS[PAIRS[:, 0] == node, 1].tolist() == up(node)
    assert embedding.closure([0, 1]).shape == (0, 2)


def up(node):
    found = []
    while node:
        node = int(TREE[node])
        found.append(node)
    return found
