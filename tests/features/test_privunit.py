"""Mechanisms on the ball: the law of a cap, its best size, its sampler, and what it loses."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special

from ldp_jax import verification
from ldp_jax.core.mechanism import mse, privatize
from ldp_jax.features import (
    DuchiVector,
    LaplaceVector,
    MultiBit,
    PrivUnit,
    PrivUnitG,
    ProjUnit,
    ThreeOutputs,
    choose,
    random_projection,
)
from ldp_jax.verification import cases, statistics
from tests import stats
from tests.contract.checks import assert_fits
from tests.marks import untyped

KINDS = {"PrivUnit": PrivUnit, "PrivUnitG": PrivUnitG}
ON_THE_BALL = ("PrivUnit", "PrivUnitG", "ProjUnit")
kinds = pytest.mark.parametrize("kind", KINDS)
every_case = pytest.mark.parametrize("name", ON_THE_BALL)

in_cap = jax.jit(lambda m, exponential: m._in_cap(exponential))


def mass_beyond(kind, dim, cut):
    """P(component >= cut) of the uniform law."""
    if kind == "PrivUnitG":
        return special.ndtr(-cut * np.sqrt(dim))
    return special.betainc((dim - 1) / 2, 0.5, 1 - cut**2) / 2


def error_by_quadrature(kind, dim, epsilon, cut):
    """The squared length of a report over the squared mean of its component along the record."""
    if kind == "PrivUnit":  # by the angle
        component = np.cos
        law = lambda t: np.sin(t) ** (dim - 2)
        cuts = (0.0, math.acos(cut), math.pi)
    else:
        component, law = lambda w: w, lambda w: np.exp(-dim * w**2 / 2)
        far = 12 / math.sqrt(dim)
        cuts = (cut + far, cut, -far)

    def moment(k):
        each = lambda t: component(t) ** k * law(t)
        beyond, before = (integrate.quad(each, *sorted(e))[0] for e in itertools.pairwise(cuts))
        return math.exp(epsilon) * beyond + before

    second = 1 if kind == "PrivUnit" else moment(2) / moment(0) + (dim - 1) / dim
    return second / (moment(1) / moment(0)) ** 2


@kinds
@pytest.mark.parametrize(("dim", "epsilon"), [(2, 1.0), (1433, 12.0)])
def test_the_cap_is_the_best_one_of_the_published_form(kind, dim, epsilon):
    """Its error is that of the published form by quadrature, to 1e-6, and no cap around it has a
    smaller one.
    """
    m = KINDS[kind](epsilon, dim)
    error = m.worst_error()
    if m.cap.cut < 0.999:
        assert error == pytest.approx(error_by_quadrature(kind, dim, epsilon, m.cap.cut), rel=1e-6)
    for cut in m.cap.cut * np.array([0.5, 0.8, 0.95, 1.05, 1.2, 2.0]):
        if kind == "PrivUnitG" or cut < 0.999:
            assert error <= error_by_quadrature(kind, dim, epsilon, float(cut)) * (1 + 1e-9)
    q = float(mass_beyond(kind, dim, m.cap.cut))
    assert m.cap.anywhere == pytest.approx(1 / (1 + math.expm1(epsilon) * q), rel=1e-7)
    assert m.cap.log_whole == pytest.approx(
        math.log1p(math.expm1(epsilon) * q), rel=1e-6, abs=1e-12
    )


@kinds
def test_a_traced_budget_has_the_caps_of_a_stack(kind):
    """Bit by bit: the host calibrates both in float64."""
    epsilons = jnp.array([0.5, 2.0, 4.0])
    stack = KINDS[kind](epsilons, 5)
    mapped = jax.jit(jax.vmap(lambda epsilon: KINDS[kind](epsilon, 5)))(epsilons)
    assert mapped == stack
    assert mapped.guarantee() == stack.guarantee()
    with pytest.raises(jax.errors.JaxRuntimeError, match="epsilon must be in"):
        jax.block_until_ready(jax.jit(lambda epsilon: KINDS[kind](epsilon, 5).cap.cut)(-1.0))


@kinds
@pytest.mark.parametrize("dim", [2, 1433])
def test_the_component_along_is_the_inverse_of_its_tail(kind, dim):
    """Of exponentials from 1e-4 to 44, as 64 bits give them: to 1e-4 of the tail, as far as float32
    tells.
    """
    exponential = np.float32([1e-4, 0.01, 0.3, 1.0, 3.0, 10.0, 20.0, 44.0])
    for epsilon in (0.1, 4.0):
        m = KINDS[kind](epsilon, dim)
        along = np.asarray(jax.vmap(lambda e, m=m: in_cap(m, e)[0])(exponential), np.float64)
        assert (np.diff(along) >= -1e-6).all()
        log_mass = lambda cut: np.log(mass_beyond(kind, dim, cut))
        with np.errstate(divide="ignore", invalid="ignore"):  # nothing is beyond 1
            tail = log_mass(along) - log_mass(m.cap.cut)
            # What the tail changes by where the component moves by two float32 spacings.
            moved = log_mass(along * (1 - 2.0**-22)) - log_mass(along)
        precise = moved < 0.1
        assert precise[:3].all()
        assert (np.abs(tail + exponential)[precise] < 1e-4 + moved[precise]).all()


@untyped
@pytest.mark.parametrize(("dim", "epsilon"), [(2, 3.0), (2, 30.0), (3, 20.0)])
def test_no_report_is_the_record(dim, epsilon):
    """A cosine that rounds to 1 would send the record's own direction, which no other record's law
    does.

    The sine is asked over all that words can give; nearly every report at 30 is so near that its
    cosine is 1.
    """
    m = PrivUnit(epsilon, dim)
    x = np.eye(1, dim, dtype=np.float32)[0]
    _, across = jax.jit(jax.vmap(m._in_cap))(np.linspace(0, 60, 512, dtype=np.float32))
    assert (np.asarray(across) > 0).all()
    reports = np.asarray(privatize(jax.random.key(1), m, np.tile(x, (1024, 1))))
    assert not (reports == x).all(1).any()
    assert verification.empirical.counted(m, x, reports, statistics.SIGNIFICANCE).fits
    assert verification.is_pure(m, jax.random.key(0), calls=2).fits  # each of them is eager


def test_a_direction_is_turned_as_often_as_its_length_says():
    """4 000 reports that are in a half of the sphere: a share that is off by 0.04 is seen."""
    m = PrivUnit(20.0, 3, radius=2.0)
    u = np.float32([0.6, 0.0, -0.8])
    for length in (2.0, 1.0, 0.0):
        y = np.asarray(privatize(jax.random.key(3), m, np.tile(length * u, (4000, 1))))
        towards = y @ (u if length else np.eye(3, dtype=np.float32)[0])
        stats.assert_share(int((towards > 0).sum()), 4000, (1 + length / 2) / 2)
    covariance = np.asarray(m.covariance(u))
    np.testing.assert_allclose(np.diag(covariance), m.variance(u), rtol=1e-5)
    np.testing.assert_allclose(covariance, covariance.T)
    across = np.cross(u, [0.0, 1.0, 0.0])
    np.testing.assert_allclose(covariance @ across, covariance[1, 1] * across, rtol=1e-5, atol=1e-6)


def test_what_is_outside_the_narrowest_cap_is_drawn():
    """Of 64-bit words 256 do at the largest budget: were it none, a report would exclude
    records.
    """
    assert PrivUnit(44.0, 2).cap.anywhere > 2.0**-56


@untyped
@every_case
def test_the_largest_loss_is_the_claim(name):
    """To 1e-9 of it; a projection may keep records apart that lose the most."""
    m = cases.CASES[name].make(2.0)
    loss = verification.privacy_loss_supremum(m).epsilon
    assert (0.0 if name == "ProjUnit" else 2.0 * (1 - 1e-9)) <= loss <= 2.0 * (1 + 1e-9)


@untyped
@every_case
def test_the_sampler_has_the_law(name):
    m = cases.CASES[name].make(2.0)
    assert_fits(verification.matches_density(m, jax.random.key(2), trials=20_000))
    assert_fits(verification.matches_moments(m, m.domain().typical()))


def test_projections_keep_what_they_span():
    """5 000 reports: an estimate that is off by ten standard errors is seen."""
    p = np.asarray(random_projection(jax.random.key(0), 20, 5))
    np.testing.assert_allclose(p @ p.T, 4 * np.eye(5), atol=1e-5)
    rows = p / 2  # orthonormal: nothing is shortened
    m = ProjUnit(3.0, rows, radius=2.0)
    x = 1.5 * rows[1] + 0.1 * np.ones(20, np.float32)
    assert m.privatize(jax.random.key(1), x).shape == (5,)
    np.testing.assert_allclose(m.mean(x), rows.T @ (rows @ x), atol=1e-5)
    assert_fits(verification.draws_have_moments(m, jax.random.key(1), x, trials=5_000))


@pytest.mark.parametrize("epsilon", [0.5, 2.58])  # three outputs have their worst error within
def test_choose_takes_the_least_error(epsilon):
    found = choose("cube", None, 1, epsilon)
    worst = lambda m: float(jax.jit(mse)(m, np.linspace(-1, 1, 201).astype(np.float32)).max())
    assert found.error == pytest.approx(worst(found.mechanism), rel=1e-3)
    assert found.errors["ThreeOutputs"] == pytest.approx(worst(ThreeOutputs(epsilon)), rel=1e-3)
    assert found.errors["Duchi"] == pytest.approx(math.tanh(epsilon / 2) ** -2, rel=1e-6)
    assert list(found.errors.values()) == sorted(found.errors.values())
    assert set(found.errors) == {
        "Laplace", "Duchi", "Piecewise", "OptimalPiecewise", "Hybrid", "ThreeOutputs", "SquareWave"
    }  # fmt: skip


def test_choose_asks_for_the_length_of_records():
    epsilon = 0.5
    short = choose("cube", 1.0, 50, epsilon)
    long = choose("cube", None, 50, epsilon)
    ball = choose("ball", 3.0, 50, epsilon)
    assert short.errors["PrivUnit"] < long.errors["PrivUnit"] / 40
    assert type(short.mechanism) is PrivUnit
    assert "DuchiVector" in long.errors
    assert ball.errors["PrivUnit"] == pytest.approx(9 * short.errors["PrivUnit"], rel=1e-6)
    # No record of a cube is longer than its diagonal, whatever bound is given.
    assert choose("cube", 20.0, 50, epsilon).errors == long.errors


def test_choose_among_mechanisms_on_classes():
    assert choose("classes", None, 2, 3.0).mechanism.table().inputs == 2
    few = choose("classes", None, 4, 3.0)
    assert few.mechanism.table().name == "GeneralizedRR"
    large = choose("classes", None, 100, 25.0)  # records of length 1, of which none is 0
    assert type(large.mechanism) is PrivUnit
    for found, record in ((few, 0), (large, jnp.eye(100)[0])):
        error = np.asarray(found.mechanism.variance(record), np.float64).sum()
        assert found.error == pytest.approx(error, rel=1e-4)
    many = choose("classes", None, 1000, 0.5)
    assert type(many.mechanism) is PrivUnit
    assert "GeneralizedRR" in many.refused


@pytest.mark.parametrize("seed", range(3))
def test_the_error_of_a_choice_is_that_of_the_worst_record_within_the_norm(seed):
    """Drawn norms and dims, all numbers of equal coordinates that fit, and 2 000 sizes of them."""
    rng = np.random.default_rng(seed)
    dim = int(rng.integers(2, 9))
    epsilon = float(rng.uniform(0.5, 6.0))
    bound = float(rng.uniform(0.6, 2.5))
    found = choose("cube", bound, dim, epsilon)
    size = np.linspace(0, min(1.0, bound), 2001).astype(np.float32)
    many = np.arange(dim + 1)[:, None]
    for make in (LaplaceVector, MultiBit, DuchiVector):
        m = make(epsilon, dim)
        number = np.asarray(jax.jit(m.variance)(np.tile(size, (dim, 1)).T)[:, 0], np.float64)
        errors = many * number + (dim - many) * number[0]
        worst = errors[many * size**2 <= bound**2].max()
        assert found.errors[make.__name__] == pytest.approx(worst, rel=5e-3)
