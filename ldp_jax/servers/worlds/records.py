"""Worlds of private records beside a public graph.

Classes follow the structural posterior q. Friends have like classes: their Gumbel noise is a
Gaussian copula, of which a share :data:`COUPLING` is noise averaged over four hops, given the
labels of the panel. A simulated user of class y takes the scores of a panel member of class y with
a similar posterior. Members are drawn anew in each world, as often as there are, so that a small
panel is as unsure as it is.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri
from jaxtyping import Bool, Float, Int

from ldp_jax.core import random
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import AnyArray, Array, PRNGKey, Scalar
from ldp_jax.graph.propagation import Operator
from ldp_jax.servers.facts.joint import JointFacts
from ldp_jax.servers.facts.panel import PanelFacts
from ldp_jax.servers.parts.panel import MOST_EPSILON
from ldp_jax.servers.parts.report_limit import own_report, report_limit, weights
from ldp_jax.servers.reports import ReportServer
from ldp_jax.servers.worlds.users import DrawnUsers
from ldp_jax.servers.worlds.world import World, by_field, calibrated, places_below

COUPLING = 0.9
"""Share of the noise of a class that friends have in common."""

_HOPS = 4  # over which noise is shared

# A donor is among this share of the class, at least so many, on either side; or of all of it, so
# often.
_NEAR = 0.1
_LEAST_NEAR = 3
_ANYBODY = 0.05

# of the estimate of variances; of conjugate gradients
_COLUMNS = 64
_STEPS = 30
_RIDGE = 0.01

SAMPLED = 100
"""Users, and records, of which gains by one's own report are the mean."""

_RECORDS = 40  # of these in a rehearsal


@dataclasses.dataclass(frozen=True, eq=False)
class RecordWorlds:
    """Draws users with private records.

    Attributes:
      OF: the facts that these worlds are drawn from; ``MESSAGE``: what is reported; ``RANGE``:
        epsilons that may be tried; ``STATED``: whether friends must be stated.
      facts: public (:func:`~ldp_jax.servers.panel_facts`).
      spread: see :func:`shared_spread`.
    """

    OF = PanelFacts
    MESSAGE = "records"
    RANGE = (0.0, MOST_EPSILON)
    STATED = False

    facts: PanelFacts
    spread: Float[Array, "n one"]

    __repr__ = by_shapes

    @classmethod
    def of(cls, key: PRNGKey, facts: PanelFacts) -> "tuple[RecordWorlds, PRNGKey]":
        """The worlds, and the key that is left to draw them."""
        facts = facts if facts.taught is None else facts.taught
        spread_key, key = random.split(key)
        return cls(facts, shared_spread(spread_key, facts.op)), key

    def servers(self, epsilons: Sequence[float]) -> list[list[ReportServer]]:
        """The server of each epsilon."""
        return [[ReportServer(self.facts, epsilon)] for epsilon in epsilons]

    def own(self, key: PRNGKey, servers: Sequence[Any]) -> "tuple[OwnGain, ...]":
        """The gain that each server has from a user's own report."""
        sample = ReportSample.of(key, self.facts, records=_RECORDS)
        return tuple(sample.gain(one.question.mask, one.epsilon) for one in servers)

    def draw(self, key: PRNGKey, number: int) -> World:
        """One world."""
        facts = self.facts
        class_key, donor_key, report_key = random.split(key, 3)
        log_q = facts.structure.log_q
        y = coupled_classes(
            class_key, facts.op, self.spread, log_q, facts.labels, np.float32(COUPLING)
        )
        users = DrawnUsers(len(log_q), drawn_scores(donor_key, facts, y, log_q, _NEAR))
        return World(users, y, log_q, facts.labels < 0, report_key)


def drawn_scores(
    key: PRNGKey,
    facts: PanelFacts | JointFacts,
    y: Int[Array, " n"],
    log_q: Float[AnyArray, "n classes"],
    near: float,
) -> Float[np.ndarray, "n classes"]:
    """The classifier's scores of donors (:func:`donors`), and of the panel its own."""
    labels = facts.labels
    panel = facts.known.nodes
    scored = np.asarray(facts.classifier.panel_scores)
    of_whom = donors(key, y, log_q, labels[panel], log_q[panel], np.float32(near))
    scores = scored[np.asarray(of_whom)]
    scores[panel] = scored
    return scores


def _shared(op: Operator, noise: Array) -> Array:
    """S w, noise averaged over a few hops: S is ((I + D^-1 A) / 2)^hops."""
    hop = lambda _, w: 0.5 * (w + op.average(w))
    return op.nodes(jax.lax.fori_loop(0, _HOPS, hop, op.rows(noise)))


def _shared_back(op: Operator, w: Array) -> Array:
    """S transposed times w."""
    degree = jnp.maximum(op.rows(op.degree), 1.0)[:, None]
    hop = lambda _, w: 0.5 * (w + degree * op.average(w / degree))
    return op.nodes(jax.lax.fori_loop(0, _HOPS, hop, op.rows(w)))


@jax.jit
def shared_spread(key: PRNGKey, op: Operator) -> Float[Array, "n one"]:
    """The standard deviation of shared noise at each node, from 64 draws; float32 [n, 1]."""
    made = _shared(op, random.normal(key, (op.num_nodes, _COLUMNS)))
    return jnp.sqrt((made**2).mean(1, keepdims=True))


@jax.jit
def coupled_classes(
    key: PRNGKey,
    op: Operator,
    spread: Float[Array, "n one"],
    log_q: Float[Array, "n classes"],
    labels: Int[AnyArray, " n"],
    coupling: Scalar,
) -> Int[Array, " n"]:
    r"""Classes of which each follows its q, friends' are alike, and the panel's are its labels.

    Int32 [n].

    Class i is :math:`\arg\max_c \log q_{ic} + g_{ic}`, g Gumbel noise with the ranks of a Gaussian
    field of covariance :math:`\rho K + (1 - \rho) I`, K the correlation of shared noise, rho the
    ``coupling`` in [0, 1). The noise of each of the panel is drawn given their own label, and the
    field given the panel's noise (Matheron's rule, by conjugate gradients). ``spread`` is
    :func:`shared_spread`; ``labels`` are -1 for those whose class is drawn.
    """
    shared_key, own_key, top_key, rest_key = random.split(key, 4)
    known = (labels >= 0)[:, None]
    # Gumbel noise given which class is the largest: the largest is free, the others are truncated
    # at it.
    top = random.gumbel(top_key, (len(log_q), 1))
    others = -jnp.logaddexp(-top, -(random.gumbel(rest_key, log_q.shape) + log_q))
    is_label = jnp.arange(log_q.shape[1]) == labels[:, None]
    noise = jnp.where(is_label, top, others) - log_q
    rank = jnp.exp(-jnp.exp(-noise))
    wanted = ndtri(jnp.clip(rank, 1e-6, 1.0 - 1e-6))

    def covariance(w: Array) -> Array:
        return jnp.asarray(coupling) * _shared(op, _shared_back(op, w / spread)) / spread

    drawn = jnp.sqrt(coupling) * _shared(op, random.normal(shared_key, log_q.shape)) / spread
    drawn = drawn + jnp.sqrt(1.0 - coupling) * random.normal(own_key, log_q.shape)
    lacking = jnp.where(known, wanted - drawn, 0.0)

    def among_known(w: Array) -> Array:
        return jnp.where(known, covariance(w) + (1.0 - coupling + _RIDGE) * w, w)

    solved, _ = jax.scipy.sparse.linalg.cg(among_known, lacking, maxiter=_STEPS, tol=1e-2)
    field = drawn + covariance(jnp.where(known, solved, 0.0))
    return by_field(log_q, field, labels)


@jax.jit
def donors(
    key: PRNGKey,
    y: Int[Array, " n"],
    log_q: Float[Array, "n classes"],
    labels: Int[AnyArray, " panel"],
    panel_log_q: Float[Array, "panel classes"],
    near: Scalar,
) -> Int[Array, " n"]:
    """For each user a member of the same class whom structure knew about as well.

    Int32 [n], places in the panel.

    Members are drawn anew first, as many of each class as there are, so that some are nobody's
    donors. ``near`` is the share of a class, on either side, among whom a donor is; 1 for all of
    it.
    """
    member_key, near_key, any_key, which_key = random.split(key, 4)
    size = (labels[:, None] == jnp.arange(log_q.shape[1])).sum(0)
    start = size.cumsum() - size
    order = jnp.argsort(labels)
    of = labels[order]
    drawn = order[start[of] + places_below(member_key, size[of])]
    known = of + _probability(panel_log_q[drawn], of)
    place = jnp.argsort(known)  # by class, then by what structure knew
    mine = y + _probability(log_q, y)

    count = size[y]
    first = start[y]
    reach = jnp.maximum(jnp.ceil(near * count).astype(jnp.int32), _LEAST_NEAR)
    width = jnp.minimum(2 * reach, count)
    low = jnp.searchsorted(known[place], mine) - reach
    low = jnp.clip(low, first, first + count - width)
    anybody = random.uniform(which_key, y.shape) < _ANYBODY
    of_all = first + places_below(any_key, count)
    near_by = low + places_below(near_key, width)
    return drawn[place[jnp.where(anybody, of_all, near_by)]]


def _probability(log_q: Array, y: Array) -> Array:
    """That of each one's class y, below 1."""
    of_class = jnp.take_along_axis(log_q, y[:, None], 1)[:, 0]
    return jnp.minimum(jnp.exp(of_class), 0.999)


# --- What one's own report adds to one's own decision, by the panel's model: nobody reports ---


class OwnGain(NamedTuple):
    """The points that one's own report adds to one's own decision, by the panel's model.

    ``limit`` is what the best report of the same epsilon would add, and ``error`` half of its 95 %
    interval over users.
    """

    points: float
    limit: float
    error: float


class ReportSample(NamedTuple):
    """Private users, and what they and records of the panel have in common.

    Attributes:
      users: which.
      joint: P(record, class), of :func:`weights`.
      log_f: what the classifier says of the records.
    """

    users: Int[np.ndarray, " users"]
    joint: Float[np.ndarray, "users records classes"]
    log_f: Float[np.ndarray, "records classes"]

    __repr__ = by_shapes

    @classmethod
    def of(
        cls, key: PRNGKey, facts: PanelFacts, users: int = SAMPLED, records: int = SAMPLED
    ) -> "ReportSample":
        """A sample; posteriors are as sure of themselves as labels that they have not seen are."""
        user_key, record_key = random.split(key)
        labels = facts.labels
        panel = facts.known.nodes
        private = np.flatnonzero(labels < 0)
        who = np.asarray(random.permutation(user_key, private))[:users]
        which = np.asarray(random.permutation(record_key, len(panel)))[:records]
        log_q = calibrated(facts.structure.log_q, labels)[who]
        log_f = calibrated(facts.classifier.panel_scores, labels[panel])[which]
        return cls(who, weights(log_q, log_f), log_f)

    def limit(self, epsilon: float) -> Float[np.ndarray, " users"]:
        """The accuracy that the best report of this epsilon would add for each user."""
        return report_limit(self.joint, epsilon) - self._public()

    def today(
        self, alphabets: Bool[np.ndarray, "n classes"], epsilon: float
    ) -> Float[np.ndarray, " users"]:
        """The accuracy that the best class of each user's candidate set adds."""
        found = own_report(self.joint, self.log_f, np.asarray(alphabets)[self.users], epsilon)
        return found - self._public()

    def gain(self, alphabets: Bool[np.ndarray, "n classes"], epsilon: float) -> OwnGain:
        """The means over users."""
        most = 100.0 * self.limit(epsilon)
        error = 1.96 * float(most.std()) / math.sqrt(len(most))
        points = 100.0 * float(self.today(alphabets, epsilon).mean())
        return OwnGain(points, float(most.mean()), error)

    def _public(self) -> Float[np.ndarray, " users"]:
        return self.joint.sum(1).max(1)
