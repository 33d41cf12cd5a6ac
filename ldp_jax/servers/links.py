r"""Which pairs are linked, from noisy counts of neighbours by group.

User u reports :math:`r_{ug}`, the number of neighbours in group g with noise. If they are anybody
of that group, the chance that v is one of them is :math:`m_{ug(v)} / n_{g(v)}`, m the true count
and :math:`n_g` the size of the group. Both ends report, so the score of a pair is

.. math:: s_{uv} = \log \frac{\hat m_{ug(v)}}{n_{g(v)}} + \log \frac{\hat m_{vg(u)}}{n_{g(u)}},

with :math:`\hat m` the count drawn towards its mean over users by the share of its variance that is
noise (the best linear estimate). With one group it is the product of released degrees.
"""

import dataclasses
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from ldp_jax.accounting.statement import Role, Statement
from ldp_jax.core import validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.long_sums import column_means
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import AnyArray, Array, PRNGKey, Scalar
from ldp_jax.edges.neighbour_counts import checked_groups
from ldp_jax.servers.parts.count_evidence import noise_variance
from ldp_jax.servers.parts.list_entries import public_entries
from ldp_jax.servers.questions import Answers, Asked, CountQuestion

# The least mean of neighbours in a group, and the least estimate as a share of it.
_LEAST_MEAN, _LEAST_SHARE = 1e-3, 0.05


class LinkFacts(NamedTuple):
    """Public facts where links are to be found.

    Classes as far as they are known, and the lists of a pilot.

    Attributes:
      log_q: float [n, C], natural logarithms of a posterior of classes, where no user's depends on
        their own label.
      labels: int [n] in [0, C), -1 for users who have none.
      pilot: int [m], distinct users who let anybody read their whole lists.
      friends: int [entries, 2], all entries of these lists: a member of the pilot, and who is in
        their list.
    """

    log_q: Float[AnyArray, "n classes"]
    labels: Int[np.ndarray, " n"]
    pilot: Int[np.ndarray, " m"]
    friends: Int[np.ndarray, "entries 2"]

    __repr__ = by_shapes

    @property
    def groups(self) -> Int[np.ndarray, " n"]:
        """The class that is broadcast of each user: their label, else the likeliest."""
        likeliest = np.asarray(self.log_q).argmax(1)
        return np.where(self.labels >= 0, self.labels, likeliest).astype(np.int32)

    def check_pilot(self) -> Int[np.ndarray, "entries 2"]:
        """Check the pilot, and return the entries of its lists.

        ``ValueError`` for a member who is named twice, and for entries of other users' lists.
        """
        n = len(self.labels)
        validate.ids(n, "the users", pilot=self.pilot)
        pilot = np.asarray(self.pilot, int)
        rule = "pilot must name each member once"
        validate.require(len(np.unique(pilot)) == len(pilot), rule)
        return public_entries(n, pilot, friends=self.friends)

    def same_class(self, pairs: Int[np.ndarray, "p 2"]) -> Float[np.ndarray, " p"]:
        r"""The log of how much likelier two users are of one class than two at random.

        It may be added to :func:`link_scores`. It helps where friends are mostly of one class, and
        harms elsewhere.

        >>> log_q = np.log([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.1, 0.9]])
        >>> facts = LinkFacts(
        ...     log_q, np.full(4, -1), np.zeros(0, int), np.zeros((0, 2), int)
        ... )
        >>> np.exp(facts.same_class(np.array([[0, 1], [0, 2]]))).round(2).tolist()
        [1.64, 0.36]
        """
        q = np.exp(np.asarray(self.log_q))
        known = self.labels >= 0
        q[known] = np.eye(q.shape[1])[self.labels[known]]
        share = np.maximum(column_means(q), 1e-9)
        one, other = np.asarray(pairs).T
        ratio = (q[one] * q[other] / share).sum(1)
        return np.log(np.maximum(ratio, 1e-3))


@implicit_promotion()
def link_scores(
    reports: Int[AnyArray, "n groups"],
    groups: Int[AnyArray, " n"],
    pairs: Int[AnyArray, "m 2"],
    epsilon: Scalar,
    *,
    reported: Bool[np.ndarray, " n"] | None = None,
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
      reported: whose counts are read; another user's are taken to be the mean. Everybody's by
        default.

    >>> reports = np.array([[3, 0], [4, 1], [0, 5], [1, 4]])
    >>> made = link_scores(
    ...     reports, np.array([0, 0, 1, 1]), np.array([[0, 1], [2, 3], [0, 2]]), 5.0
    ... )
    >>> made.round(1).tolist()
    [1.1..., 1.6..., -5.8...]
    """
    validate.positive(epsilon=epsilon)
    rule = f"reports must be integers [n, K], got {type(reports).__name__}"
    validate.require(not hasattr(reports, "counts"), f"{rule}: give its counts")
    counts = jnp.asarray(reports)
    whole = jnp.issubdtype(counts.dtype, jnp.integer)
    validate.require(whole, f"{rule} of {counts.dtype}, whose noise is not that of counts")
    noise = np.float32(noise_variance(float(epsilon)))
    n, num_groups = counts.shape
    groups = checked_groups(np.asarray(groups), n, num_groups)
    pairs = validate.pairs(n, "the users of reports", pairs=pairs)
    places = (np.asarray(given, np.int32) for given in (groups, pairs))
    if reported is not None:
        reported = validate.mask(n, reported=reported)
        reported = None if reported.all() else reported
    return _link_scores(counts, *map(jnp.asarray, places), noise, reported, num_groups=num_groups)


@partial(jax.jit, static_argnames="num_groups")
def _link_scores(
    reports: Array,
    groups: Array,
    pairs: Array,
    noise: Array,
    reported: Array | None,
    *,
    num_groups: int,
) -> Array:
    counts = jnp.concatenate([reports, reports.sum(1, keepdims=True)], 1).astype(jnp.float32)
    place = jnp.where(groups < 0, num_groups, groups)
    size = jnp.zeros(num_groups, jnp.int32).at[place].add(1, mode="drop").astype(jnp.float32)
    size = jnp.maximum(jnp.append(size, size.sum()), 1.0)
    noise = jnp.append(jnp.full(num_groups, noise), num_groups * noise)
    read = None if reported is None else jnp.asarray(reported)[:, None]
    mean = jnp.maximum(counts.mean(0, where=read), _LEAST_MEAN)
    variance = jnp.maximum(counts.var(0, where=read), 1e-9)
    signal = jnp.clip(1.0 - noise / variance, 0.0, 1.0)
    if read is not None:
        counts = jnp.where(read, counts, mean)
    estimate = jnp.maximum(mean + signal * (counts - mean), _LEAST_SHARE * mean)
    log_rate = jnp.log(estimate / size)
    one, other = pairs.T
    return log_rate[one, place[other]] + log_rate[other, place[one]]


@dataclasses.dataclass(frozen=True, eq=False)
class LinkServer:
    """Ranks pairs of users by how likely they are linked, from counts of neighbours by class.

    Each user outside the pilot reports, once, how many neighbours are of each class
    (:attr:`LinkFacts.groups`). The pilot's lists are public, and are counted as they are.
    Guarantee: epsilon per bit of a list, and 2 epsilon per pair of users, which both ends report.

    Attributes:
      facts: of classes, and the pilot's lists; the pilot may be empty.
      epsilon: of each count, in [0.001, 40].
      pairs: int [m, 2], the pairs that are ranked; public.

    The result is float32 [m], a score for each pair (:func:`link_scores`), to which
    :meth:`LinkFacts.same_class` may be added. A silent user counts as
    the mean of those who reported. ``ValueError`` for pairs of others than the users of the facts,
    and for entries of the lists of users outside the pilot, which are private.

    >>> from ldp_jax.graph import graphs
    >>> from ldp_jax.servers import Users, simulate
    >>> log_q = np.log(np.where(np.eye(2)[[0, 0, 0, 1, 1, 1]] > 0, 0.9, 0.1))
    >>> facts = LinkFacts(
    ...     log_q, np.full(6, -1), np.zeros(0, int), np.zeros((0, 2), int)
    ... )
    >>> server = LinkServer(facts, 10.0, np.array([[0, 1], [0, 3]]))
    >>> users = Users(
    ...     lists=graphs.from_edges([[0, 1], [1, 2], [3, 4]], num_nodes=6)
    ... )
    >>> scores = simulate(jax.random.key(0), server, users).value
    >>> bool(scores[0] > scores[1])
    True
    """

    facts: LinkFacts
    epsilon: float
    pairs: Int[np.ndarray, "m 2"]

    __repr__ = by_shapes

    def __post_init__(self) -> None:
        n = len(self.facts.labels)
        validate.pairs(n, "the users", pairs=self.pairs)
        self.facts.check_pilot()

    @property
    def question(self) -> CountQuestion:
        """Counts by class, of everybody outside the pilot."""
        asked = np.ones(len(self.facts.labels), bool)
        asked[np.asarray(self.facts.pilot, int)] = False
        num_groups = np.shape(self.facts.log_q)[1]
        return CountQuestion(self.facts.groups, asked, num_groups=num_groups, epsilon=self.epsilon)

    def statement(self) -> Statement:
        """One report of counts."""
        question = self.question
        role = Role((question.cost(),), np.asarray(question.asked))
        exposes = ("what classes were found by",)
        if len(self.facts.pilot):
            exposes = (*exposes, "lists of the pilot")
        return Statement.of(role, exposes=exposes)

    def init(self, key: PRNGKey) -> Asked:
        """Users are asked for counts."""
        return Asked(self.question)

    def step(self, state: Asked, answers: Answers) -> Float[Array, " m"]:
        """The score of each pair."""
        question = state.question
        counts = np.array(answers.values, np.int32)
        reported = np.array(answers.reported)
        pilot = np.asarray(self.facts.pilot, int)
        counts[pilot] = 0
        reported[pilot] = True
        owner, friend = np.asarray(self.facts.friends, int).T
        group = self.facts.groups[friend]
        grouped = group >= 0
        np.add.at(counts, (owner[grouped], group[grouped]), 1)
        epsilon = question.epsilon
        return link_scores(counts, self.facts.groups, self.pairs, epsilon, reported=reported)
