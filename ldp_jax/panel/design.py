"""Which groups to ask for: every merge is tried on simulated users before anybody else reports."""

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from ldp_jax import _validate
from ldp_jax.panel._law import LEAST, law_of, log_likelihoods, log_pmf_table
from ldp_jax.panel.counts import draw_noise
from ldp_jax.panel.groups import MERGES, merge
from ldp_jax.types import Array, PRNGKey, Scalar

__all__ = ["Design", "design"]


def __dir__() -> list[str]:
    return __all__


class Design(NamedTuple):
    """The forecast of each merge, and the best one.

    Attributes:
      best: its name in :data:`~ldp_jax.panel.groups.MERGES`.
      gain: by name, how much the expected log posterior of a user's class rises with her report, in nats.
      accuracy: by name, the expected accuracy with her report.
      accuracy_without: the expected accuracy of the prior alone.
    """

    best: str
    gain: dict[str, float]
    accuracy: dict[str, float]
    accuracy_without: float


def design(
    key: PRNGKey,
    log_q: Float[Array, "n classes"],
    means: Float[Array, "classes rates fine"],
    weights: Float[Array, " rates"],
    dispersion: float,
    epsilon: Scalar,
    *,
    size: int,
    asked: Any = None,
    users: int = 1024,
) -> Design:
    """Step 5 of piloted counts: simulate users by the pilot's model and score the seven merges.

    The same users, counts and noise for all merges: what is compared is the grouping alone.

    Args:
      key: of public randomness.
      log_q: public posteriors.
      means: of each class at each rate by fine group (:func:`~ldp_jax.panel.pilot.expected_counts`).
      weights: the share of users at each rate.
      dispersion: s.
      epsilon: of each count.
      size: of the tables, static.
      asked: bool [n], who will report; all by default.
      users: simulated, static.
    """
    _validate.threefry(key)
    _validate.positive(epsilon=epsilon)
    classes = log_q.shape[1]
    columns = np.stack([merge(name, classes).column for name in MERGES])
    law = law_of(dispersion, size)
    asked = jnp.ones(len(log_q)) if asked is None else jnp.asarray(asked, jnp.float32)
    gains, right, without = _scores(
        key, log_q, asked, means, weights, law, jnp.asarray(epsilon, jnp.float32), columns, size=size, users=users
    )
    gain = dict(zip(MERGES, np.asarray(gains).tolist(), strict=True))
    accuracy = dict(zip(MERGES, np.asarray(right).tolist(), strict=True))
    return Design(max(gain, key=lambda name: gain[name]), gain, accuracy, float(without))


@partial(jax.jit, static_argnames=("size", "users"))
def _scores(
    key: PRNGKey,
    log_q: Array,
    asked: Array,
    means: Array,
    weights: Array,
    law: Any,
    epsilon: Array,
    columns: Int[Array, "merges fine"],
    *,
    size: int,
    users: int,
) -> tuple[Array, Array, Array]:
    who_key, class_key, rate_key, count_key, noise_key = jax.random.split(key, 5)
    q = log_q[jax.random.choice(who_key, len(log_q), (users,), p=asked / asked.sum())]
    y = jax.random.categorical(class_key, q)
    rate = jax.random.categorical(rate_key, jnp.log(weights), shape=(users,))
    counts = _draw(count_key, jnp.exp(log_pmf_table(law, jnp.maximum(means, LEAST), size)).cumsum(0), y, rate)
    noise = draw_noise(noise_key, epsilon, counts.shape)
    fine = counts.shape[1]

    def score(column: Array) -> tuple[Array, Array]:
        place = jnp.where(column < 0, fine, column)
        into = (place[:, None] == jnp.arange(fine)).astype(jnp.float32)  # [fine, groups]
        used = into.sum(0) > 0
        reports = jnp.where(used, counts @ into.astype(counts.dtype) + noise, 0)
        each = log_likelihoods(law, reports, means @ into, epsilon, size)
        evidence = jax.nn.logsumexp(each + jnp.log(weights), axis=-1)
        posterior = jax.nn.log_softmax(q + evidence)
        found = jnp.take_along_axis(posterior, y[:, None], 1)[:, 0] - jnp.take_along_axis(q, y[:, None], 1)[:, 0]
        return found.mean(), (posterior.argmax(-1) == y).mean()

    gains, right = jax.lax.map(score, columns)
    return gains, right, (q.argmax(-1) == y).mean()


def _draw(key: PRNGKey, below: Array, y: Array, rate: Array) -> Array:
    """Counts by bisection of their distribution functions [size, C, L, groups]; int32 [users, groups]."""
    size, groups = below.shape[0], below.shape[-1]
    u = jax.random.uniform(key, (len(y), groups))
    column = jnp.arange(groups)

    def halve(_: Any, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bounds
        middle = (low + high) // 2
        above = below[middle, y[:, None], rate[:, None], column] < u
        return jnp.where(above, middle + 1, low), jnp.where(above, high, middle)

    start = (jnp.zeros(u.shape, jnp.int32), jnp.full(u.shape, size - 1, jnp.int32))
    return jax.lax.fori_loop(0, math.ceil(math.log2(size)), halve, start)[0]
