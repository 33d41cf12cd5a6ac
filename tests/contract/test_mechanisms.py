"""One suite over every public mechanism: what the protocol promises, at epsilon from 0.1 to 16."""

import dataclasses
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp_jax import features, guarantee
from ldp_jax import mechanism as protocol
from ldp_jax.mechanism import Box, Finite, Interval, Numeric
from tests.contract import checks

EPSILONS = (0.1, 1.0, 4.0, 16.0)


class Case(NamedTuple):
    """A public name, and how to make it with a budget of epsilon a record (a number, a tracer or a stack)."""

    public: str
    make: Callable[[Any], Any]


# Small dimensions: laws are integrated over every subset and value.
CASES = {
    "Laplace": Case("Laplace", features.Laplace),
    "Duchi": Case("Duchi", features.Duchi),
    "Piecewise": Case("Piecewise", features.Piecewise),
    "GeneralPiecewise-third": Case("GeneralPiecewise", lambda e: features.GeneralPiecewise(e, protocol.exp(e / 3))),
    "SquareWave": Case("SquareWave", features.SquareWave),
    "SquareWave-debias": Case("SquareWave", lambda e: features.SquareWave(e, debias=True)),
    "Sampled": Case("Sampled", lambda e: features.Sampled(features.Duchi(e / 2), 4, 2, scale=0.5)),
    "HDS": Case("HDS", lambda e: features.HDS(e, 3, 2)),
    "HDS-debias": Case("HDS", lambda e: features.HDS(e, 3, 1, debias=True)),
    "MultiBit": Case("MultiBit", lambda e: features.MultiBit(e, 3, 2)),
    "MultiPiecewise": Case("MultiPiecewise", lambda e: features.MultiPiecewise(e, 3, 2)),
    "LaplaceVector": Case("LaplaceVector", lambda e: features.LaplaceVector(e, 2)),
}
NOT_MECHANISMS = {"SparseReport"}

every_case = pytest.mark.parametrize("name", CASES)
every_epsilon = pytest.mark.parametrize("epsilon", EPSILONS)
numeric_case = pytest.mark.parametrize(
    "name", [name for name in CASES if isinstance(CASES[name].make(1.0), Numeric)]
)


def stacked(name: str) -> Any:
    return CASES[name].make(jnp.array(EPSILONS))


def one_record(m: Any) -> np.ndarray:
    return checks.records(m)[1].astype(np.float32)


def test_every_public_mechanism_is_in_this_suite():
    missing = set(features.__all__) - NOT_MECHANISMS - {case.public for case in CASES.values()}
    assert not missing, f"exported from ldp_jax.features without a case in this suite: {sorted(missing)}"


@every_case
def test_protocol(name):
    m = CASES[name].make(1.0)
    abilities = [protocol.Mechanism, protocol.HasDensity, protocol.HasMoments]
    if isinstance(m.domain(), Interval):
        abilities.append(protocol.HasInverse)
    assert all(isinstance(m, ability) for ability in abilities)
    assert type(m).__doc__
    for section in ("Guarantee", "Utility", "Numerics", "Reference"):
        assert f"{section}:" in type(m).__doc__, f"{type(m).__name__} has no section {section}"


# --- Data ------------------------------------------------------------------------------------------------


@every_case
@every_epsilon
def test_total_on_data(name, epsilon):
    checks.check_total(CASES[name].make(epsilon))


@numeric_case
@every_epsilon
def test_the_smallest_and_largest_uniforms_give_reports(name, epsilon):
    m = CASES[name].make(epsilon)
    ends = np.array([2.0**-24, 1 - 2.0**-24], np.float32)
    checks.assert_in_codomain(m.codomain(), m.from_uniform(ends[:, None], checks.SCALARS.astype(np.float32)))


@numeric_case
@pytest.mark.parametrize("epsilon", [1e-8, 88.0])  # float32 has no e^epsilon above 88.7
def test_nothing_overflows_at_small_and_large_epsilons(name, epsilon):
    m, x = CASES[name].make(epsilon), checks.SCALARS.astype(np.float32)
    u = np.array([2.0**-24, 0.1, 0.5, 0.9, 1 - 2.0**-24], np.float32)[:, None]
    y = m.from_uniform(u, x)
    checks.assert_in_codomain(m.codomain(), y)
    for values in (m.estimate(y), m.log_density(y, x), *checks.moments(m, x)):
        assert np.isfinite(values).all()
    assert (np.asarray(m.variance(x)) >= 0).all()


@pytest.mark.usefixtures("untyped")
@every_case
def test_whole_numbers_are_records(name):
    m = CASES[name].make(1.0)
    ones = np.ones(np.shape(one_record(m)))
    reports = [m.privatize(jax.random.key(0), x) for x in (ones, ones.astype(int), ones.astype(np.float16))]
    for other in reports[1:]:
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-3), reports[0], other)


@every_case
def test_users_are_independent(name):
    m = CASES[name].make(1.0)
    dim = m.domain().dim if isinstance(m.domain(), Box) else None
    checks.check_users_are_independent(lambda keys, xs: checks.draw_each(m, keys, xs), dim=dim)


# --- Programs --------------------------------------------------------------------------------------------


@every_case
@every_epsilon
def test_compiled_is_eager_and_vmap_is_a_loop(name, epsilon):
    m = CASES[name].make(epsilon)
    x = checks.records(m)[[0, 1, 2, 3, 4, 1]].astype(np.float32)
    together = checks.draw_each(m, jax.random.split(jax.random.key(5), 6), x)
    public = protocol.privatize(jax.random.key(5), m, x)
    keys = list(jax.random.split(jax.random.key(5), 6))
    alone = [m.privatize(key, record) for key, record in zip(keys[:3], x[:3], strict=True)]
    for i, report in enumerate(alone):
        jax.tree.map(
            lambda one, all_, i=i: np.testing.assert_allclose(all_[i], one, rtol=2e-5, atol=2e-5), report, together
        )
    jax.tree.map(np.testing.assert_array_equal, together, public)


@pytest.mark.parametrize("name", ["Laplace", "HDS"])
def test_blocks_of_users_change_nothing(name):
    m = CASES[name].make(1.0)
    x = checks.records(m)[[0, 1, 2, 3, 4, 1]].astype(np.float32)
    whole, blocks = (protocol.privatize(jax.random.key(6), m, x, block=block) for block in (None, 4))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), whole, blocks)


@every_case
def test_a_sweep_over_epsilon_is_one_program(name):
    traces = []

    @jax.jit
    def everything(m, key, x):
        traces.append(name)
        y = m.privatize(key, x)
        return m.estimate(y), m.log_density(y, x), m.mean(x), m.variance(x)

    singles = []
    for epsilon in EPSILONS:
        m = CASES[name].make(epsilon)
        singles.append(everything(m, jax.random.key(7), one_record(m)))
    assert len(traces) == 1
    # Personal budgets: the same through vmap over a stack.
    stack = stacked(name)
    x = one_record(m)
    swept = jax.jit(jax.vmap(lambda m: everything(m, jax.random.key(7), x)))(stack)
    for i, single in enumerate(singles):
        for a, b in zip(swept, single, strict=True):
            np.testing.assert_allclose(a[i], b, rtol=2e-4, atol=1e-5)


@pytest.mark.usefixtures("untyped")
@every_case
def test_only_threefry_keys(name):
    m = CASES[name].make(1.0)
    x = one_record(m)
    bad = [
        jax.random.key(0, impl="rbg"),
        jax.random.key(0, impl="unsafe_rbg"),
        jax.random.PRNGKey(0),
        np.zeros(2, np.uint32),
        0,
    ]
    for key in bad:
        with pytest.raises(ValueError, match="key must be a"):
            m.privatize(key, x)
        with pytest.raises(ValueError, match="key must be a"):
            protocol.privatize(key, m, x[None])
    with pytest.raises(ValueError, match="key must be a threefry2x32 key, got rbg"):
        jax.jit(m.privatize)(jax.random.key(0, impl="rbg"), x)


# --- The law ---------------------------------------------------------------------------------------------


@every_case
@every_epsilon
def test_density_sums_to_one(name, epsilon):
    checks.check_density_sums_to_one(CASES[name].make(epsilon))


@every_case
@every_epsilon
def test_moments_are_those_of_the_density(name, epsilon):
    checks.check_moments_are_those_of_the_density(CASES[name].make(epsilon))


@every_case
@every_epsilon
def test_largest_loss_is_the_claim(name, epsilon):
    m = CASES[name].make(epsilon)
    assert m.guarantee().epsilon == pytest.approx(epsilon, rel=1e-12)
    checks.check_loss(m)


@every_case
@given(data=st.data())
def test_no_record_and_report_lose_more(name, data):
    """Random search beside the critical points, over records inside and outside the domain; float64."""
    m = CASES[name].make(data.draw(st.sampled_from(EPSILONS)))
    vector = isinstance(m.domain(), Box)
    number = st.floats(-1.5, 1.5)
    record = st.lists(number, min_size=m.domain().dim, max_size=m.domain().dim) if vector else number
    x = np.array([data.draw(record), data.draw(record)])
    inner = m.inner if vector else m
    codomain = inner.codomain()
    finite = isinstance(codomain, Finite)
    reach = 3.0 if finite or np.isinf(float(codomain.upper)) else float(codomain.upper)
    value = st.sampled_from(codomain.values) if finite else st.floats(-reach, reach)
    if vector:
        subsets = list(itertools.combinations(range(m.dim), m.k))
        values = data.draw(st.lists(value, min_size=m.k, max_size=m.k))
        y = features.SparseReport(
            np.array([data.draw(st.sampled_from(subsets))], np.int32), np.array([values], float)
        )
    else:
        y = np.array([data.draw(value)])
    with jax.enable_x64(True):
        logs = np.asarray(checks.pairwise(m, y, x))[:, 0]
    if np.isfinite(logs).any():
        assert abs(logs[0] - logs[1]) <= m.guarantee().epsilon * (1 + 1e-6)


@every_case
@every_epsilon
def test_privacy_loss_of_float32_densities(name, epsilon):
    """``privacy_loss`` on drawn reports; a difference of float32 logarithms is good to 1e-5."""
    m = CASES[name].make(epsilon)
    x = checks.records(m)[[0, 1, 2, 3, 4, 1]].astype(np.float32)
    y = checks.draw_each(m, jax.random.split(jax.random.key(8), len(x)), x)
    loss = checks.losses(m, y, x, x[::-1])
    assert (np.abs(loss) <= epsilon + 1e-5 * (1 + epsilon)).all()


@every_case
@every_epsilon
@pytest.mark.parametrize("which", [1, 2])
def test_draws_fit_the_density(name, epsilon, which):
    m = CASES[name].make(epsilon)
    checks.check_sampler_fits(m, checks.records(m)[which])


@every_case
@every_epsilon
def test_draws_have_the_closed_forms_moments(name, epsilon):
    m = CASES[name].make(epsilon)
    for i in (1, 4):
        checks.check_sample_moments(m, checks.records(m)[i])


@every_case
def test_mse_is_variance_and_squared_bias(name):
    m = CASES[name].make(1.0)
    for x in checks.records(m).astype(np.float32):
        expected = np.asarray(m.variance(x)) + (np.asarray(m.mean(x)) - x) ** 2
        np.testing.assert_allclose(protocol.mse(m, x), expected, rtol=1e-6)


@numeric_case
@every_epsilon
def test_from_uniform_is_the_inverse_distribution_function(name, epsilon):
    """The probability of the reports up to from_uniform(u) is u; float64, away from the jumps of Duchi."""
    m = CASES[name].make(epsilon)
    u = np.linspace(0.01, 0.99, 33)
    for x in checks.SCALARS:
        with jax.enable_x64(True):
            y = np.asarray(m.from_uniform(u, x))
            assert (np.diff(y) >= 0).all()
            if isinstance(m.codomain(), Finite):
                share = np.exp(float(m.log_density(-1.0, x)))
                np.testing.assert_array_equal(y, np.where(u < share, -1.0, 1.0))
        if isinstance(m.codomain(), Interval):
            np.testing.assert_allclose(checks._distribution(m, x)[0](y), u, atol=2e-4)


# --- Gradients -------------------------------------------------------------------------------------------


@every_case
def test_gradient_in_epsilon(name):
    """Finite in float32 (reverse mode, where a NaN hides behind ``where``); equal to differences in float64."""
    make = CASES[name].make
    u = np.array([0.013, 0.37, 0.77, 0.9913])

    def numbers(epsilon, y, x, u):
        m = make(epsilon)
        inner, first = (m, x) if isinstance(m, Numeric) else (m.inner, x[0])
        values = [m.log_density(y, x), m.mean(x), m.variance(x), inner.from_uniform(u, first)]
        return (jnp.concatenate([jnp.ravel(v) for v in values]),) * 2

    both = jax.jit(jax.jacrev(numbers, has_aux=True))  # gradient, value
    for epsilon, x in itertools.product(EPSILONS, checks.records(make(1.0))[1:3]):
        y = checks.draw_each(make(epsilon), jax.random.split(jax.random.key(10), 6), np.float32([x] * 6))
        y = jax.tree.map(lambda leaf: leaf[0], y)
        single = np.asarray(both(epsilon, y, np.float32(x), np.float32(u))[0])
        assert np.isfinite(single).all(), f"epsilon {epsilon}, x {x}: {single}"
        y = jax.tree.map(lambda leaf: np.asarray(leaf, float if leaf.dtype == np.float32 else None), y)
        with jax.enable_x64(True):
            h = 1e-6 * epsilon
            (gradient, _), (_, above), (_, below) = (both(e, y, x, u) for e in (epsilon, epsilon + h, epsilon - h))
        difference = (np.asarray(above) - np.asarray(below)) / (2 * h)
        np.testing.assert_allclose(gradient, difference, rtol=1e-4, atol=1e-4)


# --- Pytrees ---------------------------------------------------------------------------------------------


@every_case
def test_pytree_laws(name, monkeypatch):
    make = CASES[name].make
    m, same, other = make(1.0), make(1.0), make(2.0)
    assert (m == same) is True
    assert hash(m) == hash(same)
    assert (m == other) is False
    assert (m == 1.0) is False
    assert jax.tree.leaves(m)[0] == pytest.approx(jax.tree.leaves(other)[0] / 2)
    field = dataclasses.fields(m)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(m, field, 1.0)
    stack, checked = jax.vmap(make)(jnp.array(EPSILONS)), stacked(name)
    assert {np.shape(leaf) for leaf in jax.tree.leaves(stack)} == {(len(EPSILONS),)}
    assert jax.tree.structure(stack) == jax.tree.structure(checked) == jax.tree.structure(m)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), stack, checked)

    def never(self, *args, **kwargs):
        raise AssertionError("a tree was rebuilt through the constructor")

    parts = {type(m)} | ({type(m.inner)} if hasattr(m, "inner") else set())
    for part in parts:
        monkeypatch.setattr(part, "__init__", never)
        monkeypatch.setattr(part, "__post_init__", never)
    leaves, structure = jax.tree.flatten(m)
    assert jax.tree.unflatten(structure, leaves) == m
    assert jax.tree.map(lambda leaf: leaf, m) == m
    placeholders = jax.tree.map(lambda _: None, m)
    assert type(placeholders) is type(m)
    paths = jax.tree_util.tree_flatten_with_path(m)[0]
    assert "epsilon" in jax.tree_util.keystr(paths[0][0])


# --- Parameters ------------------------------------------------------------------------------------------

CONSTRUCTORS = {
    "Laplace": features.Laplace,
    "Duchi": features.Duchi,
    "SquareWave": features.SquareWave,
    "Piecewise": features.Piecewise,
    "GeneralPiecewise": lambda e: features.GeneralPiecewise(e, 2.0),
    "Sampled": lambda e: features.Sampled(features.Duchi(e), 3, 2),
    "HDS": lambda e: features.HDS(e, 3, 2),
    "MultiBit": lambda e: features.MultiBit(e, 3, 2),
    "MultiPiecewise": lambda e: features.MultiPiecewise(e, 3, 2),
    "LaplaceVector": lambda e: features.LaplaceVector(e, 3),
}


def test_every_constructor_is_checked():
    assert set(CONSTRUCTORS) == set(features.__all__) - NOT_MECHANISMS


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("constructor", CONSTRUCTORS)
@pytest.mark.parametrize(
    ("epsilon", "shown"),
    [
        (0, "0"),
        (-1.0, "-1"),
        (math.nan, "nan"),
        (math.inf, "inf"),
        ("1", "'1'"),
        (True, "True"),
        (None, "None"),
        (1j, "1j"),
        (np.array([1.0, -2.0]), "-2"),
        (jnp.array([1.0, jnp.nan]), "nan"),
        (1000.0, r"\(0.0, \d+.0\], got 1000"),
    ],
    ids=str,
)
def test_bad_epsilon_is_refused(constructor, epsilon, shown):
    with pytest.raises(ValueError, match=rf"epsilon must be .*{shown}"):
        CONSTRUCTORS[constructor](epsilon)


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("make", [features.HDS, features.MultiBit, features.MultiPiecewise])
@pytest.mark.parametrize("k", [0, -1, 4, 1.5, True, "2"])
def test_bad_k_is_refused(make, k):
    with pytest.raises(ValueError, match=rf"k must be a whole number in \[1, 3\], got '?{k}"):
        make(1.0, 3, k)


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: features.Sampled(features.Duchi(1.0), 3, 5), r"k must be a whole number in \[1, 3\], got 5"),
        (lambda: features.HDS(1.0, 0, 1), "dim must be a whole number >= 1, got 0"),
        (lambda: features.LaplaceVector(1.0, 2.5), "dim must be a whole number >= 1, got 2.5"),
        (lambda: features.Sampled(features.Duchi(1.0), 3, 2, scale=0.0), "scale must be .* got 0"),
        (lambda: features.Sampled(features.Duchi(1.0), 3, 2, scale=math.inf), "scale must be .* got inf"),
        (lambda: features.GeneralPiecewise(1.0, 0.0), "t must be finite and > 0, got 0"),
        (lambda: features.GeneralPiecewise(1.0, math.nan), "t must be finite and > 0, got nan"),
        (lambda: features.MultiBit(jnp.ones(2), 3), "k must be given"),
    ],
)
def test_other_bad_parameters_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@every_case
def test_entry_points_check_what_was_not_constructed(name):
    """``vmap(Mechanism)`` and ``tree.map`` pass a bad epsilon by the constructor; nothing is released from it."""
    m = CASES[name].make(1.0)
    x = np.zeros((2, *np.shape(one_record(m))))
    bad = jax.tree.map(lambda leaf: -leaf, m)
    stack = jax.vmap(CASES[name].make)(jnp.array([1.0, -1.0]))
    for broken in (bad, stack):
        with pytest.raises(ValueError, match=r"must be finite and > 0"):
            broken.guarantee()
    with pytest.raises(ValueError, match=r"must be finite and > 0"):
        protocol.privatize(jax.random.key(0), bad, x)
    with pytest.raises(ValueError, match=r"holds a stack of shape \(2,\)"):
        protocol.privatize(jax.random.key(0), stack, x)


@every_case
def test_one_key_draws_one_report(name):
    """Several records or epsilons under one key would share its randomness: refused, by shape alone."""
    m = CASES[name].make(1.0)
    x = one_record(m)
    with pytest.raises(ValueError, match="x must be one"):
        m.privatize(jax.random.key(0), np.stack([x, x]))
    with pytest.raises(ValueError, match="holds a stack"):
        stacked(name).privatize(jax.random.key(0), x)


# --- Guarantees ------------------------------------------------------------------------------------------


@every_case
def test_guarantee(name):
    g = CASES[name].make(2.0).guarantee()
    assert g.epsilon == pytest.approx(2.0, rel=1e-12)
    assert (g.delta, g.unit, g.arithmetic, g.status) == (0.0, guarantee.RECORD, "ideal", "proved")
    assert g.reason
    assert g.adjacency.startswith("any two")
    # Personal budgets: what holds for all of them is the largest.
    assert stacked(name).guarantee().epsilon == pytest.approx(max(EPSILONS), rel=1e-6)
    with pytest.raises(ValueError, match="needs a concrete epsilon"):
        jax.jit(lambda e: CASES[name].make(e).guarantee().epsilon)(1.0)
