"""Mechanisms that leak about few records, across coordinates, or by a hair: each is refused, or not shown."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax import verification
from ldp_jax.accounting.guarantee import LABEL, RECORD, WORDS, Guarantee
from ldp_jax.core.mechanism import largest, uniform
from ldp_jax.core.pytree import mechanism, static
from ldp_jax.core.spaces import Interval, NotApplicable, clip
from ldp_jax.edges import ListReport, NeighbourCounts, RandomizedResponse
from ldp_jax.features import Duchi, Laplace, Sampled, SparseReport
from ldp_jax.hyperbolic import HyperbolicGaussian
from ldp_jax.verification import verdict
from tests import broken
from tests.marks import untyped

SIGMA = 8.7303  # delta 5e-7 at epsilon 1, of two records that are 2 apart
GROUPS = np.array([0, 1, 0, 1, 0, 1], np.int32)


@mechanism
class ThinTail(broken.Bare):
    """Gaussian noise whose true delta at epsilon 1 is 5e-7, and which claims another."""

    delta: float = static(default=1e-12)
    sigma: float = static(default=SIGMA)

    def guarantee(self):
        return Guarantee(largest(self.epsilon), self.delta)

    def from_uniform(self, u, x):
        return clip(x) + self.sigma * jax.scipy.special.ndtri(u)

    def log_density(self, y, x):
        return jax.scipy.stats.norm.logpdf(y, clip(x), self.sigma)

    def codomain(self):
        return Interval(-np.inf, np.inf, lambda x: clip(x)[None])

    def variance(self, x):
        return self.sigma**2 + 0.0 * clip(x)


@mechanism
class RawFour(RandomizedResponse):
    """Lists of exactly four friends are sent as they are."""

    def privatize(self, key, neighbours, own=0):
        y = RandomizedResponse(self.epsilon, self.n).privatize(key, neighbours, own)
        return jax.tree.map(
            lambda a, b: jnp.where(neighbours.count == 4, b, a), y, ListReport(y.degree, neighbours)
        )


class TrueFour(NeighbourCounts):
    """Counts that sum to four are sent as they are."""

    def add_noise(self, key, counts):
        return jnp.where(counts.sum() == 4, counts, super().add_noise(key, counts))


jax.tree_util.register_pytree_node(
    TrueFour,
    lambda m: ((m.groups, m.thresholds), (m.epsilon, m.num_groups, m.n, m.most)),
    lambda aux, leaves: TrueFour(*aux[:2], n=aux[2], groups=leaves[0], most=aux[3]),
)


def quadrant(x):
    return (jnp.asarray(x)[..., 0] > 0) & (jnp.asarray(x)[..., 1] > 0)


@mechanism
class QuietQuadrant(HyperbolicGaussian):
    """Noise is a thousand times too small in one quadrant."""

    def privatize(self, key, x):
        y = HyperbolicGaussian.privatize(self, key, x)
        return jnp.where(quadrant(x), x + 1e-3 * (y - x), y)


@mechanism
class FarNoise(Sampled):
    """Coordinate 70 has the noise of coordinate 5."""

    def privatize(self, key, x):
        u = uniform(key, (self.dim,))
        u = u.at[70].set(u[5])
        return SparseReport(jnp.arange(self.dim, dtype=jnp.int32), self.inner.from_uniform(u, jnp.asarray(x)))


@mechanism
class RaisesBelowZero(Laplace):
    """A plain call with a negative record raises."""

    def draw(self, key, x):
        if not isinstance(x, jax.core.Tracer) and np.any(np.asarray(x) < 0):
            raise ValueError("negative")
        return super().draw(key, x)


@mechanism
class ClaimsPerLabel(Laplace):
    """A mechanism on numbers that claims something of labels, or compares records that differ in it alone."""

    unit: Any = static(default=LABEL)

    def guarantee(self):
        return Guarantee(largest(self.epsilon), unit=self.unit, adjacency=WORDS[LABEL])


@mechanism
class DeafToOne(Laplace):
    """Whoever asks for a budget of a half gets four."""

    def from_uniform(self, u, x):
        return Laplace(jnp.where(jnp.asarray(self.epsilon) == 0.5, 4.0, self.epsilon)).from_uniform(u, x)


LEAKS = {
    "delta far too small": (lambda: ThinTail(1.0), "law"),
    "lists of four friends raw": (lambda: RawFour(1.0, 6), "records"),
    "counts of four true": (lambda: TrueFour(1.0, 2, n=6, groups=GROUPS, most=5), "records"),
    "a quiet quadrant": (lambda: QuietQuadrant(1.0, 1e-5, clip=1.5), "records"),
    "noise reused far away": (lambda: FarNoise(Laplace(1 / 80), 80, 80), "coordinates"),
    "an exception below zero": (lambda: RaisesBelowZero(1.0), "pure"),
    "a unit of labels": (lambda: ClaimsPerLabel(1.0), "unit"),
    "words of labels": (lambda: ClaimsPerLabel(1.0, RECORD), "unit"),
}


def asked_of(m, rung, trials=50_000):
    """The answer of one rung of a verdict."""
    table = verdict.Questions(m, jax.random.key(6), trials, 1e-6).table()
    question = next(question for question in table if question[0] == rung)
    return verdict.ask(m, *question, key=jax.random.key(7))


@untyped
@pytest.mark.parametrize("name", LEAKS)
def test_what_leaks_is_refused_by_the_rung_that_is_there_for_it(name):
    """At a quarter of the draws of a default verdict; of pairs of coordinates 5 000 are enough."""
    make, rung = LEAKS[name]
    m = make()
    found = asked_of(m, rung, 5_000 if rung == "coordinates" else 50_000)
    assert found.holds is False, str(found)
    assert ("raised" in found.reason) == (rung == "pure"), found.reason
    assert rung in verdict.needed(m) | {"pure"}


@untyped
def test_a_budget_that_is_ignored_is_refused():
    """Of words nothing is asked where they are not what a mechanism draws from."""
    assert [asked_of(DeafToOne(0.5), rung, 5_000).holds for rung in ("sampler", "game", "words")] == [
        False,
        False,
        None,
    ]
    with pytest.raises(ValueError, match="holds a stack of shape"):
        verification.check(DeafToOne(np.array([1.0, 0.5])), jax.random.key(7), trials=5_000)


def test_what_quadrature_cannot_show_is_not_shown():
    """A true delta of 1e-15 is below float64's sums; the same noise at 1e-6 holds, with its limit."""
    _, limit, kept = verdict.delta_of(ThinTail(1.0, 6e-7), 1.0, 6e-7)
    assert kept
    assert limit == pytest.approx(6e-7, rel=0.01)
    with pytest.raises(NotApplicable, match="the least that quadrature shows"):
        verdict.delta_of(ThinTail(1.0, 1e-15, sigma=16.0), 1.0, 1e-15)
    unasked = verdict.Rung("law", "the loss", np.nan, np.nan, None, "too small", needed=True)
    found = verdict.Verdict("ThinTail", "1e-15", (unasked,))
    assert not found
    assert found.missing == (unasked,)
    assert "NOT SHOWN: no answer to law" in str(found)


@untyped
def test_many_records_are_asked_and_what_region_of_them_is_found():
    fit = verification.matches_everywhere(Laplace(1.0), jax.random.key(9), trials=20_000)
    assert fit.fits
    assert fit.records == 128
    assert (1 - fit.smallest_defect) ** 128 == pytest.approx(1e-6)


def test_arguments_are_refused_as_arguments(untyped):
    for wrong in (
        *({"trials": 1}, {"significance": 2}, {"significance": 0.0}),
        *({"key": jax.random.PRNGKey(0)}, {"key": jax.random.key(0, impl="rbg")}),
    ):
        with pytest.raises(ValueError, match="trials|significance|key"):
            verification.check(Duchi(1.0), **{"key": jax.random.key(0), **wrong})
