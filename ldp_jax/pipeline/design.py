"""Which groups to ask for: every merge is tried on simulated users before anybody else reports."""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from ldp_jax.core import validate
from ldp_jax.core.types import Array, PRNGKey, Scalar
from ldp_jax.pipeline.counts import LEAST, Law, law_of, log_likelihoods, log_pmf_table
from ldp_jax.pipeline.groups import MERGES, merge


class Design(NamedTuple):
    """The forecast of each merge, and the best one.

    Attributes:
      best: its name in :data:`~ldp_jax.pipeline.groups.MERGES`.
      gain: by name, how much the expected log posterior of a user's class rises with their report, in nats.
      accuracy: by name, the expected accuracy with their report.
      accuracy_without: the expected accuracy of the prior alone.
    """

    best: str
    gain: dict[str, float]
    accuracy: dict[str, float]
    accuracy_without: float


class CountModel(NamedTuple):
    """What a round of counts is expected to be.

    Attributes:
      means: float32 [C, L, G] (:func:`~ldp_jax.pipeline.pilot.expected_counts`).
      weights: float32 [L], the share of users at each rate.
      dispersion: s.
    """

    means: Float[Array | np.ndarray, "classes rates groups"]
    weights: Float[Array | np.ndarray, " rates"]
    dispersion: float


def design(
    key: PRNGKey,
    log_q: Float[Array | np.ndarray, "n classes"],
    model: CountModel,
    epsilon: Scalar,
    *,
    size: int,
    asked: Bool[np.ndarray, " n"] | None = None,
    users: int = 1024,
) -> Design:
    """Step 5 of piloted counts: simulate users by the pilot's model and score the seven merges.

    The same users, counts and noise for all merges: what is compared is the grouping alone.

    Args:
      key: of public randomness.
      log_q: public posteriors.
      model: of counts by fine group.
      epsilon: of each count.
      size: of the tables, static.
      asked: who will report; all by default.
      users: simulated, static.

    >>> means = jnp.array([[[3.0, 1.0] * 3], [[1.0, 3.0] * 3]])  # friends of all tiers tell classes alike
    >>> q = jnp.full((8, 2), np.log(0.5), jnp.float32)
    >>> plan = design(jax.random.key(0), q, CountModel(means, jnp.ones(1), math.inf), 1.0, size=256)
    >>> plan.best, round(plan.accuracy_without, 1), round(plan.accuracy[plan.best], 1)  # one noise, not three
    ('labelled + predicted', 0.5, 0.9)
    """
    validate.threefry(key)
    validate.positive(epsilon=epsilon)
    columns = np.stack([merge(name, log_q.shape[1]).column for name in MERGES])
    simulated = _Simulated(model.means, model.weights, law_of(model.dispersion, size))
    nodes = np.arange(len(log_q)) if asked is None else np.flatnonzero(np.asarray(asked))
    among = (np.pad(nodes, (0, len(log_q) - len(nodes))).astype(np.int32), np.int32(len(nodes)))
    found = _scores(key, log_q, among, simulated, np.float32(epsilon), columns, users=users, size=size)
    gains, right, without = map(np.asarray, found)
    gain = dict(zip(MERGES, gains.tolist(), strict=True))
    accuracy = dict(zip(MERGES, right.tolist(), strict=True))
    return Design(max(gain, key=lambda name: gain[name]), gain, accuracy, float(without))


class _Simulated(NamedTuple):
    """A :class:`CountModel` with the law of its dispersion."""

    means: Array | np.ndarray
    weights: Array | np.ndarray
    law: Law


@partial(jax.jit, static_argnames=("users", "size"))
def _scores(
    key: PRNGKey,
    log_q: Array,
    among: tuple[Array, Array],
    model: _Simulated,
    epsilon: Array,
    columns: Array,
    *,
    users: int,
    size: int,
) -> tuple[Array, Array, Array]:
    (nodes, count), (means, weights, law) = among, model
    fine = means.shape[-1]
    who_key, key = jax.random.split(key)
    u = jax.random.uniform(key, (users, 3 * fine + 2))
    q = log_q[nodes[jax.random.randint(who_key, (users,), 0, count)]]
    y = (jnp.exp(q).cumsum(-1)[:, :-1] < u[:, :1]).sum(-1)
    rate = (weights.cumsum()[:-1] < u[:, 1:2]).sum(-1)
    # A scan: a cumulative sum of XLA on CPUs takes seconds to compile.
    mass = jnp.exp(log_pmf_table(law, jnp.maximum(means, LEAST), size))
    _, below = jax.lax.scan(lambda total, part: (total + part,) * 2, jnp.zeros_like(means), mass)
    counts = _draw(u[:, 2 : fine + 2], below, y, rate)
    # Two-sided noise is the difference of two one-sided ones.
    one, other = jnp.split(jnp.floor(-jnp.log1p(-u[:, fine + 2 :]) / epsilon), 2, axis=1)
    noise = (one - other).astype(jnp.int32)

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


def _draw(u: Array, below: Array, y: Array, rate: Array) -> Array:
    """Counts by bisection of their distribution functions [size, C, L, groups]; int32 [users, groups]."""
    size, column = below.shape[0], jnp.arange(below.shape[-1])

    def halve(_: object, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bounds
        middle = (low + high) // 2
        above = below[middle, y[:, None], rate[:, None], column] < u
        return jnp.where(above, middle + 1, low), jnp.where(above, high, middle)

    start = (jnp.zeros(u.shape, jnp.int32), jnp.full(u.shape, size - 1, jnp.int32))
    return jax.lax.fori_loop(0, math.ceil(math.log2(size)), halve, start)[0]
