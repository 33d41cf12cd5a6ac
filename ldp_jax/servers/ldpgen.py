r"""LDPGen: a synthetic graph from two rounds of noisy degree vectors.

The server divides users at random into two groups. Each user u sends a degree vector, the number
:math:`\delta^u_j` of friends in each group j, with discrete Laplace noise of rate
:math:`\epsilon_1`. The server clusters users by these vectors into :math:`k_1` groups
:math:`\xi^1` (k-means). Users send their degree vectors over these groups, with noise of rate
:math:`\epsilon_2`. The server clusters them again, into :math:`\xi^2`, and moves each vector to the
new groups, as if friends were spread evenly within an old one:

.. math:: \hat\delta^u_i = \sum_j \frac{|\xi^1_j \cap \xi^2_i|}{|\xi^1_j|}\,\delta^u_j.

A pair of groups (a, b) then has :math:`(M_{ab} + M_{ba}) / 2` links, or :math:`M_{aa} / 2` within
one, with :math:`M_{ab} = \sum_{u \in a} \hat\delta^u_b`.

**Links within a group** are drawn in two phases, by the law of BTER. The expected inner degree
:math:`d_u` of a user is :math:`\max(\hat\delta^u_a, 0)`, scaled so that a group's sum is
:math:`M_{aa}`. Users of a group are sorted by it and cut into affinity blocks, of which each user
fills the part :math:`1 / (d_u + 1)`: users of one degree d have blocks of d + 1. A pair of one
block is linked with chance

.. math:: \rho_r = \rho \Bigl(1 - \frac12 \Bigl(
   \frac{\log(1 + d_r)}{\log(1 + \max_u d_u)}\Bigr)^2 \Bigr),

where :math:`d_r` is the least degree of the block and :math:`\rho` the ``affinity``. All other
links, within a group and between two, are drawn by the law of Chung and Lu. Their ends are in
proportion to :math:`\max(\hat\delta^u_b, 0)` in a and :math:`\max(\hat\delta^v_a, 0)` in b, and
within a group to what a user's block leaves of :math:`d_u`. The affinity changes no pair of
groups' mean number of links. Blocks bring triangles back as far as friends are in one group: among
16 groups of like degrees few are.

**Number of groups.** With :math:`\eta_u` the sum of a user's first vector, rounded into [1, n - 1],

.. math:: k_1 = \Bigl\lceil \frac1n \sum_u \Bigl(\frac{\eta_u}2 + \frac{\eta_u^2 / 4 - (1 +
   \sqrt 5)\,\eta_u + 1}{\epsilon_2}\Bigr) \Bigr\rceil,

as public implementations of the paper have it. It grows with the square of degrees, and beyond the
number of users; so it is cut at ``most_groups``.

**Where this differs from the paper.** Noise is whole, so that its loss is exact. Totals are sums of
unbiased counts: counts that are clipped at 0 one by one would add :math:`1 / (2\epsilon_2)` links
for each user and group. A link that is drawn twice is drawn again, until the graph has half the sum
of all counts, or twice as many were drawn. BTER's blocks are of whole degrees; here they are of
degrees within a group, so that pairs of groups keep their links. Its authors choose :math:`\rho`
and its fall by the graph; here both are public numbers, 0.95 and one half, for which no graph was
asked.
The published budget is :math:`\epsilon_1 + \epsilon_2` for a bit of one list. The driver computes
the same, and prints twice as much for a pair of users, whose two lists both tell of it. A random
division tells degrees, and no communities: communities are found as far as their members' degrees
differ.

Reference: Qin, Yu, Yang, Khalil, Xiao and Ren, *Generating Synthetic Decentralized Social Graphs
with Local Differential Privacy* (CCS 2017), section 4, phases I to III; Seshadhri, Kolda and Pinar,
*Community structure and scale-free collections of Erdos-Renyi graphs* (Physical Review E 85, 2012).
"""

import dataclasses
from typing import NamedTuple

import jax  # noqa: F401 - the examples below
import numpy as np
import scipy.cluster.vq
from jaxtyping import Float, Int

from ldp_jax.accounting.statement import Statement
from ldp_jax.core import random, validate
from ldp_jax.core.pytree import pytree
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import Graph, PRNGKey
from ldp_jax.servers.parts.synthetic_graph import draw_graph
from ldp_jax.servers.questions import Answers, CountQuestion, count_cost

_RESTARTS = 5  # of k-means


class SyntheticGraph(NamedTuple):
    """A synthetic graph of the same users.

    Attributes:
      graph: undirected.
      groups: int [n], the group of each user, by which links were drawn.
    """

    graph: Graph
    groups: Int[np.ndarray, " n"]

    __repr__ = by_shapes


@pytree
class VectorsAsked:
    """Users are asked for degree vectors.

    Attributes:
      question: the open one.
      key: of the server's randomness in this round.
      refined: whether groups are those of k-means, and not of a random division.
    """

    question: CountQuestion
    key: PRNGKey
    refined: bool


@dataclasses.dataclass(frozen=True)
class LDPGenServer:
    """Draws a synthetic graph from two rounds of noisy degree vectors.

    The law is that of :mod:`ldp_jax.servers.ldpgen`.
    Guarantee: per bit of a list the sum of both epsilons, and twice that per pair of users, which
    both ends report; exact. The graph is post-processing.
    Utility: the number of links between two groups is unbiased up to those that noise makes
    negative. A silent user has the mean vector of those who reported.

    Attributes:
      num_users: n.
      epsilon_first: of each count in the first round, in [0.001, 40].
      epsilon_second: of each count in the second round.
      num_groups: of the second round, in [1, n]; by default found from noisy degrees.
      most_groups: the largest number of groups that is found.
      affinity: the chance of a link in a block of small degree, in [0, 1]; at 0 all links are drawn
        by the law of Chung and Lu, and few triangles are left.

    The result is a :class:`SyntheticGraph`. ``ValueError`` for numbers out of range.

    >>> from ldp_jax.graph import graphs
    >>> from ldp_jax.servers import Users, simulate
    >>> ring = graphs.from_edges(
    ...     [[i, (i + 1) % 30] for i in range(30)], num_nodes=30
    ... )
    >>> server = LDPGenServer(30, 0.5, 0.5)
    >>> found = simulate(jax.random.key(0), server, Users(lists=ring))
    >>> (
    ...     found.value.groups.shape,
    ...     [round(one.epsilon, 3) for one in found.guarantee.values()],
    ... )
    ((30,), [1.0, 2.0])
    """

    num_users: int
    epsilon_first: float
    epsilon_second: float
    num_groups: int | None = None
    most_groups: int = 16
    affinity: float = 0.95

    def __post_init__(self) -> None:
        validate.whole(2, num_users=self.num_users)
        validate.whole(1, most_groups=self.most_groups)
        if self.num_groups is not None:
            validate.whole(1, self.num_users, num_groups=self.num_groups)
        validate.in_range(0.0, 1.0, affinity=self.affinity)
        self.statement()

    def statement(self) -> Statement:
        """Two degree vectors of each user."""
        return Statement.of(
            [count_cost(self.epsilon_first), count_cost(self.epsilon_second)],
            exposes=("number of nodes",),
        )

    def init(self, key: PRNGKey) -> VectorsAsked:
        """Users are asked for their friends in each half of a random division."""
        half_key, key = random.split(key)
        halves = np.asarray(random.permutation(half_key, self.num_users)) % 2
        return VectorsAsked(self._question(halves, 2, self.epsilon_first), key, False)

    def step(self, state: VectorsAsked, answers: Answers) -> VectorsAsked | SyntheticGraph:
        """The question over the groups of k-means, or the synthetic graph."""
        cluster_key, key = random.split(state.key)
        counts = np.array(answers.values, float)
        reported = answers.reported
        counts[~reported] = counts[reported].mean(0) if reported.any() else 0.0
        if not state.refined:
            found = self._found(counts.sum(1)) if self.num_groups is None else self.num_groups
            groups = _clustered(cluster_key, counts, found)
            question = self._question(groups, found, self.epsilon_second)
            return VectorsAsked(question, key, True)
        before = np.asarray(state.question.groups)
        k = state.question.num_groups
        groups = _clustered(cluster_key, counts, k)
        share = np.zeros((k, k))
        np.add.at(share, (before, groups), 1 / np.bincount(before)[before])
        drawn = draw_graph(random.generator(key), counts @ share, groups, self.affinity)
        return SyntheticGraph(drawn, groups)

    def _question(
        self, groups: Int[np.ndarray, " n"], num_groups: int, epsilon: float
    ) -> CountQuestion:
        everybody = np.ones(self.num_users, bool)
        return CountQuestion(groups, everybody, num_groups=num_groups, epsilon=epsilon)

    def _found(self, degrees: Float[np.ndarray, " n"]) -> int:
        """The published number of groups, from noisy degrees."""
        half = np.clip(degrees.round(), 1, self.num_users - 1) / 2
        quadratic = half**2 - 2 * (1 + 5**0.5) * half + 1
        each = half + quadratic / self.epsilon_second
        most = min(self.most_groups, self.num_users)
        return int(np.clip(np.ceil(each.mean()), 1, most))


def _clustered(key: PRNGKey, vectors: Float[np.ndarray, "n groups"], k: int) -> np.ndarray:
    """The cluster of each vector, of at most k, by k-means."""
    centres, _ = scipy.cluster.vq.kmeans(vectors, k, _RESTARTS, rng=random.generator(key))
    groups, _ = scipy.cluster.vq.vq(vectors, centres)
    return groups.astype(np.int32)
