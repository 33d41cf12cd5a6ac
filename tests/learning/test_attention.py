"""Attention: against dense matrices, in value and both modes of differentiation, dropout and
all.
"""

import itertools
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.graph.propagation import operator
from ldp_jax.learning.models import _attention, gat
from tests.learning.test_node_models import OUT, D, N, close, dense, example, padded
from tests.stats import assert_share

HEADS, WIDTH = 3, 4
RATE = 0.375


def averaged(adjacency, a, b, h, kept):
    """Attention by dense matrices [receivers, senders], one for each head; weights are multiplied
    by ``kept``.
    """
    scores = a[:, None] + b[None]
    scores = np.where(scores > 0, scores, 0.2 * scores)
    scores = np.where(adjacency[..., None] > 0, scores, -np.inf)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return np.einsum("ijk,jkf->ikf", weights / weights.sum(1, keepdims=True) * kept, h)


@cache
def numbers():
    """Scores far apart: exponentials of them overflow without a shift."""
    rng = np.random.default_rng(4)
    a, b, h = (rng.normal(size=(N, HEADS, *more)).astype(np.float32) for more in ((), (), (WIDTH,)))
    return [jnp.asarray(part) for part in (60 * a, 60 * b, h)]


@jax.jit
def attended(neighbours, a, b, h, seed, moved):
    """The sums, and their derivatives: along ``moved``, and backward from the sum of sines."""
    function = lambda a, b, h: _attention.attend(
        neighbours, a, b, h, key=jax.random.key(seed), rate=RATE
    )
    value, tangent = jax.jvp(function, (a, b, h), moved)
    return (
        value,
        tangent,
        jax.grad(lambda *args: jnp.sin(function(*args)).sum(), argnums=(0, 1, 2))(a, b, h),
    )


@cache
def kept(seed):
    """What the weights are multiplied by, dense [receiver, sender, head]."""
    words = jax.random.key_data(jax.random.split(jax.random.key(seed), 1))
    receivers, senders = (part.ravel() for part in jnp.indices((N, N)))
    return np.asarray(
        _attention._kept(words, round(RATE * 2**16), receivers, senders, HEADS)
    ).reshape(N, N, HEADS)


@pytest.mark.parametrize("layout", ["segment", "ell"])
def test_dropout_is_of_weights_after_the_softmax(layout, monkeypatch):
    """The same for the same key in every layout; edges are worked off 9 at a time, the last block
    not full.
    """
    monkeypatch.setattr(_attention, "_CACHED", 9 * HEADS * WIDTH)
    graph, _ = example()
    neighbours = operator(graph, layout).neighbours
    given = numbers()
    rng = np.random.default_rng(5)
    moved = [jnp.asarray(rng.normal(size=part.shape), jnp.float32) for part in given]

    def at(step):
        parts = (
            np.asarray(p, np.float64) + step * np.asarray(d, np.float64)
            for p, d in zip(given, moved, strict=True)
        )
        return averaged(dense(graph), *parts, kept(7))

    wanted = at(0.0)
    change = (at(1e-6) - at(-1e-6)) / 2e-6
    value, tangent, gradient = attended(neighbours, *given, 7, tuple(moved))
    close(value, wanted)
    close(tangent, change, 1e-4)
    along = sum((np.asarray(g, np.float64) * d).sum() for g, d in zip(gradient, moved, strict=True))
    assert along == pytest.approx((np.cos(wanted) * change).sum(), rel=1e-4)


def test_weights_are_dropped_at_the_rate_and_independently():
    """Of 4800 weights: sees a rate that is off by 0.07, and heads, or directions, that go
    together.
    """
    multiplied = kept(8)
    assert set(np.unique(multiplied)) == {0.0, np.float32(1 / (1 - RATE))}
    stays = multiplied > 0
    assert_share(stays.sum(), stays.size, 1 - RATE)
    for one, two in ((stays[..., 0], stays[..., 1]), (stays[..., 1], stays[..., 2])):
        assert_share((one & two).sum(), one.size, (1 - RATE) ** 2)
    above = np.triu_indices(N, 1)
    assert_share(
        (stays & stays.transpose(1, 0, 2))[above].sum(), HEADS * len(above[0]), (1 - RATE) ** 2
    )
    assert not np.array_equal(multiplied, kept(9))


ONE = {"layers": 1, "output_heads": HEADS, "outputs": OUT}


@pytest.mark.usefixtures("untyped")
def test_the_numbers_of_other_models_are_not_taken_for_heads():
    with pytest.raises(TypeError, match="positional"):
        gat(2, 64, 3)


@pytest.mark.parametrize("rates", [(0.5, 0.5), (0.0, 0.5)])
def test_dropout_is_keyed_and_only_in_training(rates):
    """Of a node without neighbours each number of the record, and each head, is 0 or twice as
    much; as it is where its rate is 0.
    """
    graph, x = example()
    inputs = (padded(graph), x)
    model = gat(**ONE, dropout=rates[0], attention_dropout=rates[1])
    shapes = jax.eval_shape(gat(**ONE).init, jax.random.key(0), inputs)
    rng = np.random.default_rng(6)
    variables = jax.tree.map(
        lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), jnp.float32), shapes
    )
    variables["params"]["bias_0"] *= 0
    once = jax.jit(lambda key, inputs: model.apply(variables, inputs, key=key, train=True)[0])
    first, second, again = (once(jax.random.key(seed), inputs) for seed in (0, 1, 0))
    np.testing.assert_array_equal(first, again)
    assert (first != second).any(1)[:-2].mean() > 0.9
    both = jax.jit(
        lambda inputs: [
            m.apply(variables, inputs, key=None, train=False)[0] for m in (model, gat(**ONE))
        ]
    )
    close(*map(np.asarray, both(inputs)))
    rows, heads = (
        np.array(list(itertools.product((0.0, 2.0) if rate else (1.0,), repeat=size)))
        for rate, size in zip(rates, (D, HEADS), strict=True)
    )
    kernel = np.asarray(variables["params"]["Dense_0"]["kernel"]).reshape(D, HEADS, OUT)
    possible = (
        np.einsum("rd,dko,hk->rho", rows * np.asarray(x[-1]), kernel, heads).reshape(-1, OUT)
        / HEADS
    )
    assert np.abs(possible - first[-1]).max(1).min() < 1e-5
