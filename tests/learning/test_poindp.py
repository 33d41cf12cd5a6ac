"""PoinDP's network and HyperIMBA's: their noise by its law, and what it depends on."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from ldp_jax.graph import graphs
from ldp_jax.graph.propagation import operator
from ldp_jax.learning.models import PlacedInputs, PoinDPInputs, gcn, hyperimba, poindp

N = 400
D = 3
OUT = 25


@cache
def inputs(epsilon=0.5):
    rng = np.random.default_rng(0)
    edges = np.stack([np.arange(1, N), (np.arange(1, N) - 1) // 3], 1)
    rows = [jnp.asarray(rng.normal(size=(N, d)), jnp.float32) for d in (D, 2)]
    sensitivity = jnp.asarray(rng.uniform(0.5, 2.0, (N, 2)), jnp.float32)
    op = operator(graphs.from_edges(edges, N), "segment")
    return PoinDPInputs(
        op, rows[0], 0.3 * rows[1], sensitivity, jnp.float32(epsilon), jnp.float32(1e-4)
    )


@cache
def made(**words):
    """The variables of a model without dropout, and what gives its outputs."""
    model = poindp(OUT, 4, 0.0, **words)
    variables = jax.jit(model.init)(jax.random.key(0), inputs())
    return variables, jax.jit(
        lambda variables, inputs: model.apply(variables, inputs, key=None, train=False)[0]
    )


def noise(given=None, branches=("intra",), **words):
    """What a model adds to its outputs without noise, and its variables."""
    variables, run = made(branches=branches, **words)
    _, quiet = made(branches=branches)
    params = {name: variables["params"][name] for name in ("Dense_0", "bias_0", "bias_1", "kernel")}
    given = given or inputs()
    return np.asarray(
        run(variables, given) - quiet({"params": params}, given), np.float64
    ), variables


def test_printed_noise_is_that_of_eq_12():
    found, _ = noise(inputs(20.0), noise="printed")
    sigma = np.sqrt(2 * np.log(1.25 / 1e-4)) * np.asarray(inputs().sensitivity)[:, 1:] / 2 / 20.0
    assert np.abs(found).max() < 1.0
    z = 2 * np.arctanh(found) / sigma
    # 10 000 draws: a scale that is wrong by 15 % has p below 1e-6.
    assert stats.kstest(z.ravel(), "norm").pvalue > 1e-6
    assert stats.kstest(1.15 * z.ravel(), "norm").pvalue < 1e-6
    # Without allocation each of two branches has half of the budget, and noise of its own.
    both, _ = noise(inputs(20.0), branches=("inter", "intra"), noise="printed", allocate=False)
    half = np.sqrt(2 * np.log(1.25 / 1e-4)) * np.asarray(inputs().sensitivity) / 20.0
    at, weight = np.polynomial.hermite_e.hermegauss(40)
    variance = np.tanh(half[..., None] * at / 2) ** 2 @ weight / weight.sum()
    assert (both / np.sqrt(variance.sum(1, keepdims=True))).var() == pytest.approx(1, abs=0.07)
    loud, _ = noise(inputs(0.01), noise="printed")
    # At any budget it is within 1: outputs that one record allows are impossible under another.
    assert 0.99 < np.abs(loud).mean() <= np.abs(loud).max() <= 1.0 + 1e-5


def test_released_noise_is_within_a_scale_that_is_read_from_places():
    found, variables = noise(noise="released")
    np.testing.assert_array_equal(
        noise(noise="released")[0], found
    )  # the same question, the same answer
    fixed = {
        name: np.asarray(leaf, np.float64)
        for name, leaf in variables["noise"].items()
        if name != "words"
    }
    leaky = lambda v, slope: np.where(v > 0, v, slope * v)
    places = np.asarray(inputs().places, np.float64)
    places = places + np.pi * (places < 0)
    inner = [leaky(places @ fixed[f"intra_{k}_in"], 0.2) @ fixed[f"intra_{k}_out"] for k in (0, 1)]
    read = [leaky(inner[k] + fixed[f"intra_{k}_bias"], 0.01) for k in (0, 1)]
    sigma = np.sqrt(np.abs(np.concatenate(read, 1).sum(1, keepdims=True)) / (2 * 0.5))
    assert (np.abs(found) <= sigma + 1e-5).all()
    some = (sigma > 0.05)[:, 0]  # where float32 outputs show the noise
    z = 2 * np.arctanh(np.clip(found / sigma, -1 + 1e-9, 1 - 1e-9))[some]
    assert some.mean() > 0.9
    # Some 10 000 draws: a scale that is wrong by 15 % has p below 1e-6.
    assert stats.kstest(z.ravel(), "norm").pvalue > 1e-6
    other = noise(noise="released", strength="random")[0]  # a variant is noise of another strength
    assert np.abs(np.abs(found).mean(1) - np.abs(other).mean(1)).max() > 1e-2


def test_as_released_nothing_that_makes_the_noise_is_learned_and_as_printed_the_share_is():
    shapes = [
        set(
            jax.eval_shape(poindp(OUT, 4, 0.0, **words).init, jax.random.key(0), inputs())["params"]
        )
        for words in (
            {"noise": "released"},
            {"noise": "printed"},
            {"noise": "printed", "allocate": False},
        )
    ]
    assert shapes[0] == {"Dense_0", "bias_0", "bias_1", "kernel"}
    assert ["allocation_in" in names for names in shapes] == [False, True, False]
    insensitive = inputs()._replace(sensitivity=None)
    with pytest.raises(ValueError, match="sensitivity"):
        jax.eval_shape(poindp(OUT, 4, 0.0, noise="printed").init, jax.random.key(0), insensitive)


def test_without_noise_each_branch_is_a_gcn_with_elu():
    variables, run = made(branches=("intra",))
    params = variables["params"]
    flat = gcn(1, 1, 4, normalisation="symmetric")
    last = gcn(1, 1, OUT, normalisation="symmetric")

    @jax.jit
    def naive(graph, x):
        first = {"params": {"Dense_0": params["Dense_0"], "bias_0": params["bias_0"]}}
        hidden = jax.nn.elu(flat.apply(first, (graph, x), key=None, train=False)[0])
        second = {
            "params": {"Dense_0": {"kernel": params["kernel"][0]}, "bias_0": params["bias_1"][0]}
        }
        return last.apply(second, (graph, hidden), key=None, train=False)[0]

    np.testing.assert_allclose(
        run(variables, inputs()), naive(inputs().graph, inputs().x), atol=1e-5
    )


def placed(places):
    return PlacedInputs(inputs().graph, inputs().x, places)


def test_weights_and_the_term_of_a_place_are_those_of_the_places():
    """One layer in float64; alpha 0 and equal places leave the mean over neighbours."""
    model = hyperimba(1, 4, OUT, alpha=0.5)
    variables = jax.jit(model.init)(jax.random.key(0), placed(inputs().places))
    apply = jax.jit(
        lambda m, v, given: m.apply(v, given, key=None, train=False)[0], static_argnums=0
    )
    params = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), variables["params"])
    leaky = lambda v, slope: np.where(v > 0, v, slope * v)
    places, x = (np.asarray(rows, np.float64) for rows in (inputs().places, inputs().x))

    def read(name):
        inner = leaky(places @ params[f"{name}_in"]["kernel"], 0.2)
        return inner @ params[f"{name}_out"]["kernel"] + params[f"{name}_out"]["bias"]

    joined = inputs().graph.neighbours
    adjacency = np.eye(N)
    adjacency[joined.receivers, joined.senders] = 1.0
    weights = np.where(
        adjacency > 0, np.exp(leaky(read("receiver_0") + read("sender_0").T, 0.2)), 0.0
    )
    weights /= weights.sum(1, keepdims=True)
    wanted = (
        weights @ (x @ params["Dense_0"]["kernel"])
        + 0.5 * leaky(read("place_0"), 0.01)
        + params["bias_0"]
    )
    got = apply(model, variables, placed(inputs().places))
    np.testing.assert_allclose(got, wanted, atol=1e-5)
    plain = hyperimba(1, 4, OUT, alpha=0.0, weights="degree")
    of_gcn = apply(gcn(1, 1, OUT, normalisation="symmetric"), variables, inputs()[:2])
    got = apply(plain, variables, placed(inputs().places))
    np.testing.assert_allclose(got, of_gcn, atol=1e-5)
