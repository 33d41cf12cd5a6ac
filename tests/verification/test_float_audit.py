"""What float32 samplers give away, counted over all 2^23 uniforms; tables give nothing away."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.core.mechanism import privatize
from ldp_jax.features import (
    Duchi,
    DuchiVector,
    FeatureRR,
    GeneralizedRR,
    GridPiecewise,
    GridSquareWave,
    Hybrid,
    Laplace,
    Sampled,
    SquareWave,
    ThreeOutputs,
)
from ldp_jax.verification import float_audit
from tests.marks import untyped

TOTAL = 2**23
TABLES = {
    "GridPiecewise": lambda epsilon: GridPiecewise(epsilon, 33),
    "GeneralizedRR": lambda epsilon: GeneralizedRR(epsilon, 5),
    "FeatureRR": lambda epsilon: FeatureRR(epsilon, 6, dim=1).coordinate(0),
}


def test_it_counts_what_a_loop_counts():
    """Against sets of reports made here; detects one uniform of 2^23. A narrow high piece repeats
    its reports.
    """
    m = SquareWave(16.0)
    x = 0.3
    other = -0.7
    found = float_audit(m, x, other)
    assert found.reports < TOTAL / 10
    assert found.impossible > 0.95
    assert 10 < found.largest_loss < 16
    uniforms = (np.arange(TOTAL, dtype=np.float32) + np.float32(0.5)) / np.float32(TOTAL)
    push = jax.jit(lambda made, u, record: made.from_uniform(u, record))
    mine, theirs = (np.sort(push(m, uniforms, jnp.float32(record))) for record in (x, other))
    at = np.minimum(np.searchsorted(theirs, mine), TOTAL - 1)
    assert found.impossible == (theirs[at] != mine).mean()
    assert found.reports == 1 + (np.diff(mine) > 0).sum()
    # It is the law that runs: what is drawn is among the reports that were counted.
    drawn = np.asarray(privatize(jax.random.key(0), m, jnp.full(10_000, x, jnp.float32)))
    assert (mine[np.minimum(np.searchsorted(mine, drawn), TOTAL - 1)] == drawn).all()


@untyped
@pytest.mark.parametrize("make", [Duchi, ThreeOutputs])
@pytest.mark.parametrize("epsilon", [0.1, 30.0])
def test_finite_reports_have_their_loss(make, epsilon):
    """Nothing is impossible; the loss is epsilon to the 2e-7 that float32 thresholds resolve, also
    at 30.
    """
    found = float_audit(make(epsilon), -1.0, 1.0)
    assert found.impossible == found.impossible_other == 0.0
    assert found.reports == (2 if make is Duchi or epsilon < math.log(2) else 3)
    assert found.largest_loss == pytest.approx(epsilon, rel=2e-7)
    assert float_audit(make(epsilon), 1.0, 7.0)[:3] == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("name", TABLES)
def test_tables_give_nothing_away(name):
    """0 impossible, and a loss of at most the exact epsilon, attained over pairs of records; exact
    in integers.
    """
    m = TABLES[name](16.0)
    exact = m.guarantee().epsilon
    domain = m.domain()
    low, middle, high = (
        (0.0, 2.0, m.inputs - 1.0)
        if m.encoding == "category"
        else (domain.lower, 0.3, domain.upper)
    )
    found = [float_audit(m, *pair) for pair in ((low, high), (high, middle), (middle, low))]
    assert all(one.impossible == one.impossible_other == 0.0 for one in found)
    assert {one.reports for one in found} == {m.table().outputs}
    losses = [one.largest_loss for one in found]
    assert min(losses) > 0.0
    assert exact * (1 - 1e-3) <= max(losses) <= exact


def test_a_record_between_two_points_of_a_grid_is_the_mixture_of_their_rows():
    """Over 2^55: detects one word of one step of the rounding, against float64 (1e-12)."""
    m = GridPiecewise(2.0, 5)
    masses = m.table().masses.astype(np.float64)
    mixed = lambda x: np.apply_along_axis(
        lambda mass: np.interp(x, np.linspace(-1, 1, 5), mass), 0, masses
    )
    for x, other in ((0.3125, -0.8125), (-1.0, 0.125), (0.5, 0.625)):
        loss = np.abs(np.log(mixed(x) / mixed(other))).max()
        assert float_audit(m, x, other).largest_loss == pytest.approx(loss, abs=1e-12)
    assert float_audit(m, 1.0, 7.0)[:3] == (0.0, 0.0, 0.0)


def test_what_draws_otherwise_is_refused():
    for m, message in (
        (Hybrid(1.0), "from_uniform"),
        (DuchiVector(1.0, 3), "from_uniform"),
        (Sampled(GridSquareWave(1.0), 4, 2), "from_uniform"),
        (Duchi(np.array([1.0, 2.0])), "one concrete number"),
    ):
        with pytest.raises(ValueError, match=message):
            float_audit(m, -1.0, 1.0)


@pytest.mark.parametrize("epsilon", [8.0, 16.0])
def test_as_many_reports_are_one_records_alone_as_laplace_says(epsilon):
    """Words of -1 whose report is below all of 1, by bisection; cells of 512 words are a tenth of
    them at 8.
    """
    report = jax.jit(Laplace(epsilon).from_word32)
    least = report(np.uint32(0), 1.0)
    low = 0
    high = 2**31
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if report(np.uint32(middle), -1.0) < least else (low, middle)
    assert high / 2**32 == pytest.approx(math.exp(epsilon - 22.18) / 2, rel=0.1)
