r"""Which pairs are linked, from noisy counts of neighbours by group.

User u reports :math:`r_{ug}`, the number of neighbours in group g with noise. If they are anybody
of that group, the chance that v is one of them is :math:`m_{ug(v)} / n_{g(v)}`, m the true count
and :math:`n_g` the size of the group. Both ends report, so the score of a pair is

.. math:: s_{uv} = \log \frac{\hat m_{ug(v)}}{n_{g(v)}} + \log \frac{\hat m_{vg(u)}}{n_{g(u)}},

with :math:`\hat m` the count drawn towards its mean over users by the share of its variance that is
noise (the best linear estimate). With one group it is the product of released degrees.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from ldp_jax.core import validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.long_sums import column_means
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import Array, Scalar
from ldp_jax.edges.neighbour_counts import checked_groups
from ldp_jax.servers.parts.count_evidence import noise_variance

# Of neighbours in a group: what their mean is at least, and an estimate as a share of it.
_LEAST_MEAN, _LEAST_SHARE = 1e-3, 0.05


class LinkFacts(NamedTuple):
    """What is public where links are to be found.

    Classes as far as they are known, and the lists of a pilot.

    Attributes:
      log_q: float [n, C], natural logarithms of a posterior of classes, where no user's depends on
        their own label.
      labels: int [n] in [0, C), -1 for users who have none.
      pilot: int [m], distinct users who let anybody read their whole lists.
      friends: int [entries, 2], all entries of these lists: a member of the pilot, and who is in
        their list.
    """

    log_q: Float[Array | np.ndarray, "n classes"]
    labels: Int[np.ndarray, " n"]
    pilot: Int[np.ndarray, " m"]
    friends: Int[np.ndarray, "entries 2"]

    __repr__ = by_shapes

    @property
    def groups(self) -> Int[np.ndarray, " n"]:
        """The class that is broadcast of each user: their label, else the likeliest."""
        return np.where(self.labels >= 0, self.labels, np.asarray(self.log_q).argmax(1)).astype(
            np.int32
        )

    def same_class(self, pairs: Int[np.ndarray, "p 2"]) -> Float[np.ndarray, " p"]:
        r"""How much likelier two users are of one class than two at random, of which the logarithm is taken.

        It may be added to :func:`link_scores`. It helps where friends are mostly of one class, and
        harms elsewhere.

        >>> log_q = np.log([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.1, 0.9]])
        >>> facts = LinkFacts(log_q, np.full(4, -1), np.zeros(0, int), np.zeros((0, 2), int))
        >>> np.exp(facts.same_class(np.array([[0, 1], [0, 2]]))).round(2).tolist()
        [1.64, 0.36]
        """
        q = np.exp(np.asarray(self.log_q))
        known = self.labels >= 0
        q[known] = np.eye(q.shape[1])[self.labels[known]]
        share = np.maximum(column_means(q), 1e-9)
        one, other = np.asarray(pairs).T
        return np.log(np.maximum((q[one] * q[other] / share).sum(1), 1e-3))


@implicit_promotion()
def link_scores(
    reports: Int[Array | np.ndarray, "n groups"],
    groups: Int[Array | np.ndarray, " n"],
    pairs: Int[Array | np.ndarray, "m 2"],
    epsilon: Scalar,
) -> Float[Array, " m"]:
    """How likely pairs are linked, as a score to rank them by; float32 [m].

    Guarantee: that of the reports; this is post-processing. Scores find private links too, as far
    as epsilon lets.

    Args:
      reports: counts with whole noise, of everybody: ``counts`` of
        :func:`ldp_jax.edges.privatize_counts`.
      groups: public, in [0, K), by which neighbours were counted; of an end in no group (-1) the
        other end's total is taken, over the number of users who are in one.
      pairs: users, in [0, n).
      epsilon: of each count; 40 for counts that are exact.

    >>> reports = np.array([[3, 0], [4, 1], [0, 5], [1, 4]])
    >>> made = link_scores(reports, np.array([0, 0, 1, 1]), np.array([[0, 1], [2, 3], [0, 2]]), 5.0)
    >>> made.round(1).tolist()
    [1.1..., 1.6..., -5.8...]
    """
    validate.positive(epsilon=epsilon)
    if hasattr(reports, "counts"):
        raise ValueError(
            f"reports must be integers [n, K], got {type(reports).__name__}: give its counts"
        )
    noise = np.float32(noise_variance(float(epsilon)))
    n, num_groups = np.shape(reports)
    groups = checked_groups(np.asarray(groups), n, num_groups)
    pairs = validate.pairs(n, "the users of reports", pairs=pairs)
    places = (np.asarray(given, np.int32) for given in (groups, pairs))
    return _link_scores(
        jnp.asarray(reports), *map(jnp.asarray, places), noise, num_groups=num_groups
    )


@partial(jax.jit, static_argnames="num_groups")
def _link_scores(
    reports: Array, groups: Array, pairs: Array, noise: Array, *, num_groups: int
) -> Array:
    counts = jnp.concatenate([reports, reports.sum(1, keepdims=True)], 1).astype(jnp.float32)
    place = jnp.where(groups < 0, num_groups, groups)
    size = jnp.zeros(num_groups, jnp.int32).at[place].add(1, mode="drop").astype(jnp.float32)
    size = jnp.maximum(jnp.append(size, size.sum()), 1.0)
    noise = jnp.append(jnp.full(num_groups, noise), num_groups * noise)
    mean = jnp.maximum(counts.mean(0), _LEAST_MEAN)
    signal = jnp.clip(1.0 - noise / jnp.maximum(counts.var(0), 1e-9), 0.0, 1.0)
    log_rate = jnp.log(jnp.maximum(mean + signal * (counts - mean), _LEAST_SHARE * mean) / size)
    one, other = pairs.T
    return log_rate[one, place[other]] + log_rate[other, place[one]]
