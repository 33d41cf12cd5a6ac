"""What is no number stays apart from every number, and NaN from the infinities."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.core.pytree import mechanism, static
from ldp_jax.core.spaces import Interval, Vectors, clip
from ldp_jax.features import Laplace
from ldp_jax.verification import epsilon_lower_bound, largest_lower_bound
from ldp_jax.verification.views import Viewer
from tests.marks import untyped

SENT = np.float32([-np.inf, -3e38, -1e30, -0.5, 0.0, 0.5, 1e30, 3e38, np.inf, np.nan])


@pytest.mark.parametrize("dim", [0, 1, 3])
def test_what_is_no_number_has_a_place_of_its_own_in_the_order(dim):
    """Ten reports, which no rounding joins; the scales are those of honest ones."""
    rng = np.random.default_rng(0)
    space = Vectors(dim=dim) if dim else Interval(-np.inf, np.inf)
    honest = rng.normal(size=(500, dim) if dim else 500).astype(np.float32)
    sent = np.repeat(SENT[:, None], dim, 1) if dim else SENT
    views = Viewer.of(space, honest, rng).views(sent)
    for number in range(dim or 1):
        values = views.values[views.names.index(f"number {number}")]
        assert np.isfinite(values).all()
        assert (np.diff(values) > 0).all()


@mechanism
class NotANumber(Laplace):
    """A third of the reports is no number: NaN of positive records, and one infinity of others."""

    instead: float = static(default=np.inf)
    columns: int = static(default=0)

    def privatize(self, key, x):
        y = super().privatize(key, x)
        none = jnp.where(clip(x) > 0, jnp.nan, self.instead)
        sent = jnp.where(y > 1, none, y)
        return jnp.broadcast_to(sent, (self.columns,)) if self.columns else sent

    def log_density(self, y, x):
        return super().log_density(jnp.ravel(y)[0], x)


@untyped
@pytest.mark.parametrize("columns", [0, 2])
@pytest.mark.parametrize("instead", [np.inf, -np.inf, np.nan])
def test_nan_and_the_infinities_are_told_apart(instead, columns):
    """Where both records send NaN, nothing is told but that the number was high."""
    m = NotANumber(0.2, instead, columns)
    found = epsilon_lower_bound(m, jax.random.key(1), 20_000)
    assert (found.epsilon > 1.0) == (not np.isnan(instead)), found


@untyped
def test_the_game_about_many_records_tells_them_apart():
    assert largest_lower_bound(NotANumber(0.2), jax.random.key(2), 20_000).epsilon > 1.0
