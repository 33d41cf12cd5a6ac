"""One suite over every public mechanism: what the protocol promises, at epsilon from 0.1 to 16."""

import dataclasses
import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax import features, verification
from ldp_jax.core import mechanism as protocol
from ldp_jax.core import random_words, spaces
from ldp_jax.core.float64 import float64_on_cpu
from ldp_jax.core.mechanism import Analytic, Numeric, Worded
from ldp_jax.core.spaces import Ball, Box, Finite
from ldp_jax.edges import NeighbourCounts
from ldp_jax.verification import _programs, cases, empirical, statistics
from ldp_jax.verification.cases import EPSILONS
from tests.contract import checks
from tests.marks import untyped

CASES = {name: case for name, case in cases.CASES.items() if case.contract}
HYPERBOLIC = {name: case for name, case in cases.CASES.items() if case.hyperbolic}
NOT_MECHANISMS = {
    *("SparseReport", "BranchReport", "distribution", "importance_weights", "menu"),
    *("Alphabets", "PersonalAlphabets", "alphabets"),  # of many users at once
    *("Choice", "choose", "random_projection"),
}
ON_THE_BALL = ("PrivUnit", "PrivUnitG", "ProjUnit")  # their laws: tests/features/test_privunit.py

FORMULAS = [name for name, case in CASES.items() if not case.table]


def code(name: str) -> tuple[Any, ...]:
    """What decides which lines of code a report comes from, whatever the numbers are."""
    m = CASES[name].make(1.0)
    whole = isinstance(m, features.Sampled) and m.k == m.dim
    even = isinstance(m, features.DuchiVector) and m.dim % 2 == 0
    return type(m), type(getattr(m, "inner", None)), whole, even, getattr(m, "encoding", "")


CODES = list({code(name): name for name in CASES}.values())
# Without vectors whose coordinates are asked alone, but for one; without an even size, and a table
# of two outputs.
LIKE_OTHERS = {"Sampled", "MultiPiecewise", "Sampled-Hybrid", "DuchiVector-even", "Discrete"}
KINDS = [name for name in CODES if name not in LIKE_OTHERS]
# A table's draws are counted word by word in tests/core/test_integer_tables.py: one stands for all.
ONE = {name: case.make(1.0) for name, case in CASES.items()}
DRAWN = [n for n, m in ONE.items() if n == "Discrete" or not isinstance(m, features.Discrete)]
# One a file, whose budget is no integer table's: a table has its masses for its law.
FILES = {type(ONE[n]): n for n in reversed(DRAWN) if not CASES[n].table}.values()
every_case = pytest.mark.parametrize("name", CASES)
every_code = pytest.mark.parametrize("name", CODES)
every_kind = pytest.mark.parametrize("name", KINDS)
OTHERS = (*HYPERBOLIC, *ON_THE_BALL)
every_kind_and_others = pytest.mark.parametrize("name", [*KINDS, *OTHERS])
ANALYTIC = [n for n in {code(n): n for n in FORMULAS}.values() if isinstance(ONE[n], Analytic)]
analytic_code = pytest.mark.parametrize("name", ANALYTIC)
every_epsilon = pytest.mark.parametrize("place", range(4), ids=lambda place: f"{EPSILONS[place]:g}")
NUMERIC = [name for name in FORMULAS if isinstance(ONE[name], Numeric)]
WORDED = [name for name in FORMULAS if isinstance(ONE[name], Worded)]
numeric_case = pytest.mark.parametrize("name", NUMERIC)
word_case = pytest.mark.parametrize("name", ["Duchi", "ThreeOutputs"])
# whose coordinates' budgets are half of theirs
SHARED = {"HDS", "MultiBit", "Sampled", "Sampled-Hybrid"}
LARGEST = {name: cases.CASES[name].largest for name in (*FORMULAS, *OTHERS) if name not in SHARED}


def budget(name: str, place: int) -> float:
    return CASES[name].epsilons[place]


def made(name: str, place: int) -> Any:
    return CASES[name].make(budget(name, place))


def at_level(m: Any, menu: features.Discrete, level: Any) -> Any:
    """The mechanism ``m`` with another level of a menu in the place of its table."""
    if isinstance(m, features.Discrete):
        return menu.at(level)
    return dataclasses.replace(m, inner=menu.at(level))


def stacked(name: str) -> Any:
    """All budgets of a case as one mechanism: what personal budgets are."""
    case = cases.CASES[name]
    if not case.table:
        return case.make(np.float32(EPSILONS))
    single = [case.make(epsilon) for epsilon in case.epsilons]
    if isinstance(single[0], features.RandomizedFeatures):
        levels = len(single[0].inner.names)
        parts = [m.inner.at(level) for m in single for level in range(levels)]
        level = single[0].inner.level + levels * np.arange(len(single))[:, None]
        return dataclasses.replace(single[0], inner=features.menu(parts).at(level))
    tables = features.menu([m if isinstance(m, features.Discrete) else m.inner for m in single])
    return at_level(single[0], tables, np.arange(len(single)))


def unstacked(name: str, stack: Any, place: Any) -> Any:
    """One of a stack: a slice of a formula's parameters, a level of a menu."""
    if not cases.CASES[name].table:
        return jax.tree.map(lambda leaf: leaf[place], stack)
    inner = stack if isinstance(stack, features.Discrete) else stack.inner
    chosen = dataclasses.replace(inner, level=inner.level[place])
    return chosen if inner is stack else dataclasses.replace(stack, inner=chosen)


def one_record(m: Any) -> np.ndarray:
    return checks.records(m)[1].astype(np.float32)


def one_end(m: Any) -> np.ndarray:
    return checks.records(m)[-1].astype(np.float32)


def test_every_public_mechanism_is_in_this_suite():
    asked = {*NOT_MECHANISMS, *ON_THE_BALL, *(case.public for case in CASES.values())}
    assert set(features.__all__) <= asked


def test_cases_of_ones_own_are_added_once(monkeypatch):
    monkeypatch.setattr(cases, "CASES", dict(cases.CASES))
    mine = cases.Case("Duchi", lambda e: features.Duchi(e / 2))
    cases.register("mine", mine)
    assert cases.CASES["mine"] is mine
    with pytest.raises(ValueError, match="name must be a new one, got 'mine'"):
        cases.register("mine", mine)


@untyped  # records of every type, lists among them, are no ``Record``
@pytest.mark.parametrize("name", [*CASES, *OTHERS])
def test_total_on_data(name):
    """By the function that users have; the next tests ask every kind."""
    checks.assert_fits(verification.is_total(cases.CASES[name].make(1.0), jax.random.key(1)))


@pytest.mark.usefixtures("untyped")
def test_records_of_the_host_are_validated_by_the_space_and_never_by_the_mechanism():
    """Category 7 of four is the last one, without a word; the space says so, and not what the
    record is.
    """
    m = features.GeneralizedRR(1.0, 4)
    assert len({int(m.privatize(jax.random.key(0), x)) for x in (3, 7, 10**9)}) == 1
    m.domain().validate([0, 1, 2, 3])
    for bad, many in (([0, 7], 1), ([0.5, -1, 2], 2), ([math.nan], 1)):
        words = rf"labels must lie in Finite\(0, 1, 2, 3\): {many} of {len(bad)} records"
        with pytest.raises(ValueError, match=words):
            m.domain().validate(bad, "labels")
    features.Duchi(1.0).domain().validate(np.float32([-1.0, 1.0]))
    with pytest.raises(ValueError, match="2 of 3 records") as refused:
        features.HDS(1.0, 2, 1).domain().validate([[0.0, 1.0], [0.0, 7.5], [math.nan, 0.0]])
    assert "7.5" not in str(refused.value)


WIDE = (1e300, -1e300, 1e-310, math.nan)
ANY_SIZE = (
    2**63, -(2**63), 10**12, 10**400, -(10**400), True, np.bool_(False), math.inf, -math.inf,
    *WIDE, *map(np.float64, WIDE),
    np.float32(3e38), np.float16(7.0), np.int8(-3), np.uint64(2**64 - 1), np.int64(-(2**63)),
)  # fmt: skip


@pytest.mark.usefixtures("untyped")
@every_kind
def test_host_numbers_of_any_size_are_records(name):
    """Every warning an error, every floating-point flag trapped: an exception would say what a
    record is.

    Each gives the report of the record that it is clipped to.
    """
    m = CASES[name].make(1.0)
    domain = m.domain()
    ends = domain.values if isinstance(domain, Finite) else (domain.lower, domain.upper)
    clipped = lambda value: value if value != value else min(max(value, ends[0]), ends[-1])
    of = (lambda value: [value] * domain.dim) if isinstance(domain, Box) else (lambda value: value)
    same = lambda a, b: jax.tree.map(np.testing.assert_array_equal, a, b)
    few = [1e300, -1e300, 1e-310] * 2
    meant = np.array([of(float(clipped(value))) for value in ANY_SIZE], np.float32)
    with np.errstate(all="raise"):
        given = np.stack([np.asarray(spaces.as_records(of(value))) for value in ANY_SIZE])
        one = m.privatize(jax.random.key(0), of(10**400))
        host = protocol.privatize(jax.random.key(2), m, np.array([of(value) for value in few]))
    keys = jax.random.split(jax.random.key(1), len(meant))
    reports = checks.draw_each(m, keys, given)
    checks.assert_in_codomain(m.codomain(), reports)
    same(reports, checks.draw_each(m, jax.random.clone(keys), meant))
    same(one, m.privatize(jax.random.key(0), meant[3]))
    records = np.array([of(float(clipped(value))) for value in few], np.float32)
    same(host, protocol.privatize(jax.random.key(2), m, records))


@every_kind_and_others
def test_laws_of_records_outside_the_domain_are_those_of_the_clipped(name):
    """log_density, mean and variance; a defect of one bit is seen, but of moments on a ball.

    There a record is scaled once more than the record that it is taken for: four float32 spacings.
    """
    m = cases.CASES[name].make(1.0)
    bad, good = m.domain().outside()
    y = checks.draw_each(m, jax.random.split(jax.random.key(1), len(bad)), good)
    outside, inside = (_programs.log_grid(m, y, records) for records in (bad, good))
    np.testing.assert_array_equal(outside, inside)
    if not isinstance(m, protocol.HasMoments):
        assert np.isfinite(outside).all()
        return
    outside, inside = (checks.moments_of_many(m, records) for records in (bad, good))
    assert np.isfinite(outside).all()
    rounding = 5e-7 if isinstance(m.domain(), Ball) else 0.0
    np.testing.assert_allclose(outside, inside, rtol=rounding, atol=0.0)


def test_errors_are_the_variance_and_the_squared_bias_of_the_clipped():
    m = CASES["SquareWave"].make(1.0)
    bad, good = (np.asarray(x, np.float32) for x in m.domain().outside())
    error = jax.jit(jax.vmap(protocol.mse, (None, 0)))
    mean, variance = checks.moments_of_many(m, good)
    np.testing.assert_allclose(error(m, good), variance + (mean - good) ** 2, rtol=1e-6)
    np.testing.assert_array_equal(error(m, bad), error(m, good))
    with pytest.raises(ValueError, match="mse is for numbers and vectors"):
        protocol.mse(CASES["GeneralizedRR"].make(1.0), 1.0)


@jax.jit
def at_words(m: Any, word: Any, x: Any) -> Any:
    """Reports under chosen words, and their estimates, log densities, means and variances."""
    if isinstance(m, Numeric):
        y = m.from_word32(word, x)
    else:
        y = m.from_word64(jnp.stack([word, word]), x)
    return y, m.estimate(y), m.log_density(y, x), m.mean(x), m.variance(x)


@pytest.mark.parametrize("name", [*NUMERIC, *WORDED])
# float32 has no normal e^-epsilon from 87.4 on
@pytest.mark.parametrize("epsilon", [1e-8, 1.0, 86.0])
def test_nothing_overflows_at_small_and_large_epsilons(name, epsilon):
    m = CASES[name].make(min(epsilon, cases.CASES[name].largest))
    x = checks.SCALARS.astype(np.float32)
    word = np.array([0, 511, 512, 2**31, 2**32 - 1], np.uint32)[:, None]
    y, *values = at_words(m, word, x)
    checks.assert_in_codomain(m.codomain(), y)
    assert all(np.isfinite(value).all() for value in values)
    assert (np.asarray(values[-1]) >= 0).all()


@untyped
@every_kind_and_others
def test_reports_are_functions_of_the_record_and_the_whole_key(name):
    """Compiled or eager, of one user or of many, with each bit of the key."""
    m = cases.CASES[name].make(1.0)
    checks.assert_fits(verification.is_pure(m, jax.random.key(120), calls=1))
    checks.assert_fits(verification.uses_the_whole_key(m, jax.random.key(121)))
    x = checks.records(m)[[0, 1, 2, 3, 4, 1]].astype(np.float32)
    public = protocol.privatize(jax.random.key(5), m, x)
    each = checks.draw_each(m, jax.random.split(jax.random.key(5), 6), x)
    # Numbers may differ by a fused product and sum; whole numbers, signs and outputs may not.
    size = 0.0 if cases.CASES[name].table or not m.codomain().continuous else 2e-5
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=size, atol=size), each, public)


@pytest.mark.parametrize(
    "name", [*KINDS, *HYPERBOLIC, "PrivUnit", "PrivUnitG"]
)  # a ProjUnit has one budget
def test_a_sweep_over_epsilon_is_one_program(name):
    """A user a budget, in one program: what personal budgets give is what each budget alone
    gives.
    """
    stack = stacked(name)
    case = cases.CASES[name]
    x = one_record(case.make(1.0))

    @jax.jit
    @jax.vmap
    def everything(place):
        m = unstacked(name, stack, place)
        y = m.privatize(jax.random.key(7), x)
        moments = (m.mean(x), m.variance(x)) if isinstance(m, protocol.HasMoments) else ()
        return y, m.estimate(y), m.log_density(y, x), *moments

    swept = everything(np.arange(4))
    programs = []
    for place, epsilon in enumerate(case.epsilons):
        m = case.make(epsilon)
        y = checks.draw_each(m, jax.random.key(7)[None], x[None])
        programs.append(_programs._reports._cache_size())
        moments = checks.moments_of_many(m, x[None]) if isinstance(m, protocol.HasMoments) else ()
        alone = y, _programs.estimates(m, y), _programs.logs_of(m, y, x), *moments
        for together, single in zip(jax.tree.leaves(swept), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(together[place], single[0], rtol=2e-4, atol=1e-5)
    if not case.table:  # whose levels are what is swept
        assert len(set(programs)) == 1
    with pytest.raises(ValueError, match="holds a stack"):
        stack.privatize(jax.random.key(0), x)


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("name", [*CODES, *OTHERS])
def test_what_is_no_key_no_record_or_several_is_refused(name):
    """Of records by their type and shape alone: NumPy drops imaginary parts in silence."""
    m = cases.CASES[name].make(1.0)
    x = one_record(m)
    key = jax.random.key
    rbg = [key(0, impl=impl) for impl in ("rbg", "unsafe_rbg")]
    for bad in (*rbg, jax.random.PRNGKey(0), np.zeros(2, np.uint32), 0):
        with pytest.raises(ValueError, match="key must be a"):
            m.privatize(bad, x)
        with pytest.raises(ValueError, match="key must be a"):
            protocol.privatize(bad, m, x[None])
    with pytest.raises(ValueError, match="key must be a threefry2x32 key, got rbg"):
        jax.jit(m.privatize)(rbg[0], x)
    for many in (np.stack([x, x]), np.append(x, x)):
        with pytest.raises(ValueError, match="x must be one"):
            m.privatize(key(0), many)
    for value in ("0.3", b"0.3", 1j, None):
        of = [value] * len(x) if np.ndim(x) else value
        given = [] if value is None else [of, np.array(of)]  # a bare None is an empty tree
        for record in (*given, np.array(of, object), *([jnp.array(of)] if value == 1j else [])):
            words = "records must be real numbers, got (complex|str|bytes|NoneType)"
            with pytest.raises(TypeError, match=words):
                m.privatize(key(0), record)


@untyped
@every_case
@every_epsilon
def test_density_sums_to_one_and_moments_are_its_own(name, place):
    checks.check_density_and_moments(made(name, place))


@untyped
@every_case
@every_epsilon
def test_largest_loss_is_the_claim(name, place):
    """A formula claims the epsilon that it was made with; a table what its integers lose, which is
    no more.
    """
    m = made(name, place)
    epsilon = budget(name, place)
    found = checks.check_loss(m)
    if CASES[name].table:
        assert 0.99 * epsilon <= m.guarantee().epsilon <= epsilon
    else:
        assert m.guarantee().epsilon == pytest.approx(epsilon, rel=1e-12)
        assert found == pytest.approx(epsilon, rel=1e-9)


@untyped
@pytest.mark.parametrize(
    "name", [*DRAWN[4:], *DRAWN[:4]]
)  # CI draws those that it does not integrate
@pytest.mark.parametrize(
    "at", [(1, 1), (1, 3), (4, 0), (4, 2)], ids=["1-1", "1-16", "4-0.1", "4-4"]
)
def test_draws_fit_the_density(name, at):
    """And the moments: one batch of draws at a record off the centre, or at an end."""
    which, place = at
    m = made(name, place)
    checks.check_draws(m, checks.records(m)[which])


@untyped
@pytest.mark.parametrize("name", FILES)
def test_draws_of_half_and_of_twice_the_budget_are_of_another_law(name):
    """Each file: 8 000 reports of an end at epsilon 2, 1 and 4, against the law at 2."""
    m = CASES[name].make(2.0)
    x = one_end(CASES[name].make(2.0))
    for place, (epsilon, same) in enumerate([(2.0, True), (1.0, False), (4.0, False)]):
        y = _programs.draws(CASES[name].make(epsilon), jax.random.key(place), x, 8_000)
        fit = empirical.fit_of(m, jax.random.key(9), x, y, statistics.SIGNIFICANCE)
        assert fit.fits == same, str(fit)


@word_case
def test_words_are_drawn_and_ordered(name):
    """A draw is ``from_word64`` of its key's words; reports do not fall as the words rise."""
    m = CASES[name].make(2.0)
    key = jax.random.key(11)
    word = random_words.words(jax.random.clone(key))
    assert m.privatize(key, np.float32(0.3)) == m.from_word64(word, np.float32(0.3))
    number = np.sort(np.random.default_rng(0).integers(0, 2**64, 4096, np.uint64))
    word = np.stack([number >> np.uint64(32), number & np.uint64(2**32 - 1)]).astype(np.uint32)
    drawn = jax.jit(m.from_word64)(word[..., None], np.float32(checks.SCALARS))
    assert (np.diff(np.asarray(drawn), axis=0) >= 0).all()


of_word32 = jax.jit(lambda m, word, x: m.from_word32(word, x))


@numeric_case
def test_words_are_the_uniforms_of_the_inverse_and_rare_tails_are_drawn(name):
    """All but the first and the last of the 2^23 cells are ``from_uniform`` of their middle, to the
    bit.

    At the largest epsilon the record 0 reaches either end of the domain, and beyond where the law
    goes beyond. Before the last 9 bits were used nothing came from the tails of Laplace from
    epsilon 16 on.
    """
    m = CASES[name].make(2.0)
    x = np.full(4096, 0.3, np.float32)
    cell = np.random.default_rng(0).integers(1, 2**23 - 1, 4096)
    word = (cell * 512 + np.random.default_rng(1).integers(0, 512, 4096)).astype(np.uint32)
    u = ((cell + 0.5) / 2**23).astype(np.float32)
    np.testing.assert_array_equal(
        of_word32(m, word, x), jax.jit(lambda m, u, x: m.from_uniform(u, x))(m, u, x)
    )
    m = CASES[name].make(cases.CASES[name].largest)
    ends = np.resize(np.uint32([0, 2**32 - 1]), 4096)
    low, high = np.asarray(of_word32(m, ends, 0 * x))[:2]
    assert np.isfinite([low, high]).all()
    assert low == -high
    assert high >= (1.0 if name == "Laplace" else 0.5)
    # and one end of the domain reaches the other
    assert name != "Laplace" or of_word32(m, ends, np.full(4096, -1.0, np.float32))[1] >= 1.0


@pytest.mark.parametrize("name", LARGEST)
def test_epsilon_is_refused_where_the_arithmetic_ends(name):
    most = LARGEST[name]
    cases.CASES[name].make(most)
    words = rf"epsilon must be .*({most:g}|log t).*, got {most * 1.05:g}"
    with pytest.raises(ValueError, match=words):
        cases.CASES[name].make(most * 1.05)


@analytic_code
def test_a_stack_shares_no_word(name):
    """``draw`` of a stack on one record: as many words as budgets; equal budgets give different
    reports.
    """
    stack = jax.tree.map(lambda leaf: jnp.full(64, leaf), CASES[name].make(1.0))
    y = jax.jit(lambda stack, key: stack.draw(key, np.float32(0.3)))(stack, jax.random.key(12))
    value = np.asarray(y[1] if isinstance(y, tuple) else y)
    assert value.shape == (64,)
    assert len(np.unique(value)) > 1
    with pytest.raises(ValueError, match="shapes"):
        stack.draw(jax.random.key(13), np.zeros(3, np.float32))


@pytest.mark.parametrize("name", [*ANALYTIC, "DuchiVector", "Sampled-Hybrid"])
def test_gradient_in_epsilon(name):
    """Finite in float32 (reverse mode, where a NaN hides behind ``where``); equal to differences in
    float64.

    Of vectors that are sampled one: the rest is their coordinates'.
    """
    make = CASES[name].make
    u = np.array([0.013, 0.37, 0.77, 0.9913])

    def numbers(epsilon, y, x, u):
        m = make(epsilon)
        inner = m if isinstance(m, Analytic) else getattr(m, "inner", None)
        values = [m.log_density(y, x), m.mean(x), m.variance(x)]
        if isinstance(inner, Numeric):
            values.append(inner.from_uniform(u, jnp.ravel(x)[:1]))
        return (jnp.concatenate([jnp.ravel(v) for v in values]),) * 2

    both = jax.jit(jax.jacrev(numbers, has_aux=True))  # gradient, value
    for epsilon, x in itertools.product(EPSILONS, checks.records(make(1.0))[1:3]):
        keys = jax.random.split(jax.random.key(10), 6)
        y = checks.draw_each(make(epsilon), keys, np.float32([x] * 6))
        y = jax.tree.map(lambda leaf: leaf[0], y)
        single = np.asarray(both(epsilon, y, np.float32(x), np.float32(u))[0])
        assert np.isfinite(single).all(), f"epsilon {epsilon}, x {x}: {single}"
        wide = lambda leaf: np.asarray(leaf, float if leaf.dtype == np.float32 else None)
        y = jax.tree.map(wide, y)
        with float64_on_cpu():
            h = 1e-6 * epsilon
            gradient, _ = both(epsilon, y, x, u)
            above, below = (both(e, y, x, u)[1] for e in (epsilon + h, epsilon - h))
        difference = (np.asarray(above) - np.asarray(below)) / (2 * h)
        np.testing.assert_allclose(gradient, difference, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", [*CASES, *ON_THE_BALL])
def test_protocol_guarantee_and_tree(name, monkeypatch):
    case = cases.CASES[name]
    m, same, other = (case.make(epsilon) for epsilon in (1.0, 1.0, 2.0))
    abilities = [protocol.Mechanism, protocol.HasDensity, protocol.HasMoments]
    assert all(isinstance(m, ability) for ability in abilities)
    checks.assert_documented(m)
    g = other.guarantee()
    assert (g.epsilon <= 2.0) if case.table else (g.epsilon == pytest.approx(2.0, rel=1e-12))
    assert g.delta == 0.0
    checks.assert_proved(g, arithmetic="exact" if case.table else "ideal")
    if name != "ProjUnit":  # Personal budgets: what holds for all of them is the largest.
        size = 1e-3 if case.table else 1e-6
        assert stacked(name).guarantee().epsilon == pytest.approx(max(case.epsilons), rel=size)
    with pytest.raises(ValueError, match="concrete"):
        jax.jit(lambda e: case.make(e).guarantee().epsilon)(1.0)
    assert (m == same) is True
    assert hash(m) == hash(same)
    assert (m == other) is (m == 1.0) is False

    def never(self, *args, **kwargs):
        raise AssertionError("a tree was rebuilt through the constructor")

    for part, built in itertools.product(
        (m, getattr(m, "inner", m)), ("__init__", "__post_init__")
    ):
        if hasattr(part, built):
            monkeypatch.setattr(type(part), built, never)
    leaves, structure = jax.tree.flatten(m)
    assert jax.tree.unflatten(structure, leaves) == m
    assert type(jax.tree.map(lambda _: None, m)) is type(m)


CONSTRUCTORS = {cases.CASES[name].public: cases.CASES[name].make for name in (*CASES, *OTHERS)}
# Those that are made of tables, or of a mechanism:
for without in ("Discrete", "RandomizedFeatures", "Sampled", "ProjUnit"):
    del CONSTRUCTORS[without]
CONSTRUCTORS["GeneralPiecewise"] = lambda e: features.GeneralPiecewise(e, 2.0)


BAD_EPSILONS = {
    **{str(bad): bad for bad in (0, math.nan, math.inf, True, None, 1j)},
    **{"-1": -1.0, "'1'": "1"},
    # in full where no record may stand in its place
    r"(-2|float64\[2\]|float32\[2\])": np.array([1.0, -2.0]),
    r"(na[n]|float32\[2\])": jnp.array([1.0, jnp.nan]),
    r"\(0[.0]*, \d+[.0]*\], got 1000": 1000.0,
}


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("constructor", CONSTRUCTORS)
def test_bad_epsilon_is_refused(constructor):
    for shown, epsilon in BAD_EPSILONS.items():
        with pytest.raises(ValueError, match=rf"epsilon must be .*{shown}"):
            CONSTRUCTORS[constructor](epsilon)


@every_code
def test_entry_points_check_what_was_not_constructed(name):
    """``vmap(Mechanism)`` and ``tree.map`` pass a bad epsilon or table by the constructor; nothing
    is released.
    """
    m = CASES[name].make(1.0)
    x = np.zeros((2, *np.shape(one_record(m))))
    if CASES[name].table:
        bad = jax.tree.map(lambda leaf: leaf * 0 if leaf.dtype == np.uint32 else leaf, m)
        stack = bad
        words = r"must sum to 2\^32"
    else:
        bad = jax.tree.map(lambda leaf: -leaf, m)
        words = "must be finite and > 0"
        stack = jax.vmap(CASES[name].make)(jnp.array([1.0, -1.0]))
        with pytest.raises(ValueError, match=r"holds a stack of shape \(2,\)"):
            protocol.privatize(jax.random.key(0), stack, x)
    for broken in (bad, stack):
        with pytest.raises(ValueError, match=words):
            broken.guarantee()
    with pytest.raises(ValueError, match=words):
        protocol.privatize(jax.random.key(0), bad, x)


@pytest.mark.parametrize(
    "m",
    [
        *(cases.CASES[name].make(4.0) for name in (*ON_THE_BALL, "HyperbolicExponential")),
        NeighbourCounts(1.0, num_groups=2),
    ],
    ids=lambda m: type(m).__name__,
)
def test_leaves_beside_those_of_their_parameters_promise_nothing(m):
    """Halved leaves are other caps, rims and tables than those of half the budget."""
    assert jax.tree.map(jnp.asarray, m).guarantee() == m.guarantee()
    halved = jax.tree.map(lambda leaf: leaf // 2 if np.ndim(leaf) > 1 else leaf / 2, m)
    with pytest.raises(ValueError, match=r"(cap|rim|thresholds) must be what .* makes of its"):
        halved.guarantee()
