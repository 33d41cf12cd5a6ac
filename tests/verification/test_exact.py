"""The exact rung: it finds the claimed epsilon to the last digits, and more than that in a broken twin."""

import math

import jax
import jax.numpy as jnp
import pytest

from ldp_jax.core.float64 import float64_on_cpu
from ldp_jax.core.pytree import mechanism
from ldp_jax.core.spaces import Interval, clip
from ldp_jax.features import Duchi, Laplace, Piecewise
from ldp_jax.verification import exact, privacy_loss_supremum
from tests import broken


@mechanism
class _Overspending(Duchi):
    """Duchi's law at a budget that is 5 % above the claimed one."""

    def log_density(self, y, x):
        return Duchi(jnp.asarray(self.epsilon) * 1.05).log_density(y, x)


@mechanism
class _Bumped(_Overspending):
    """A law that gives one narrow band of records away: no declared point lies in it."""

    def log_density(self, y, x):
        bump = 2.0 * jnp.exp(-(((clip(x) - 0.33) / 0.02) ** 2))
        return jax.nn.log_sigmoid(jnp.asarray(y) * bump)


def test_twins_are_found_also_where_the_declared_points_miss_them():
    found = privacy_loss_supremum(_Bumped(1.0))
    assert found.epsilon == found.searched
    assert found.epsilon > 1.0
    assert privacy_loss_supremum(_Overspending(1.0)).epsilon == pytest.approx(1.05)


def test_a_witness_attains_the_supremum():
    found = privacy_loss_supremum(Piecewise(2.0))
    with float64_on_cpu():
        law = jax.jit(lambda x: Piecewise(2.0).log_density(found.y, x))
        loss = law(found.x) - law(found.x_other)
    assert float(loss) == pytest.approx(found.epsilon)


@mechanism
class _Slow(broken.Bare):
    """A loss that grows with the report: 1.9e-3 of it, so that the declared points alone see next to nothing."""

    def log_density(self, y, x):
        return jax.scipy.stats.norm.logpdf(y, clip(x), 32.0)

    def from_uniform(self, u, x):
        return clip(x) + 32.0 * jax.scipy.stats.norm.ppf(u)

    def codomain(self):
        return Interval(-math.inf, math.inf, lambda x: clip(x)[None])


def test_far_reports_of_an_infinite_codomain_are_asked():
    """What is seen at a thousand times the farthest declared report decides, on either side and in a mixture."""
    with float64_on_cpu():
        records, reports = jnp.linspace(-1.0, 1.0, 9), jnp.array([-3.0, 0.0, 3.0])
        # At y = 3000 between -1 and 1: 2 y / sigma^2.
        assert exact._beyond(_Slow(1.0), records, reports) == pytest.approx(6000 / 1024)
        assert exact._beyond(Laplace(1.0), records, reports) == pytest.approx(1.0)
        assert exact._beyond(Duchi(1.0), records, reports) == -math.inf
        pairs = (jnp.array([0, 0, 1, 1, 1]), jnp.array([-1.0, 1.0, -3.0, 0.0, 3.0]))
        assert exact._beyond(broken.GaussianBranch(1.0), records, pairs) == pytest.approx(6000 / 16)
    assert privacy_loss_supremum(_Slow(1.0)).epsilon == math.inf
