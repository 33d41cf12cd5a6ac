r"""What reports will be worth, from public facts, before anybody reports.

* Reports of records (:func:`advise`). A member of the panel has a structural posterior q and a class c that the
  device would send, both of models that have not seen the member. The report r follows a known law, so that the
  expectation over it is a finite sum: with :math:`T_r(y) = \sum_{c \in S} M_S(c | y) P(r | c)`, M the confusion of
  the panel without the member,

  .. math:: g = \sum_r P(r | c) \Big( w \log T_r(y) - \log \sum_{y'} q(y') T_r(y')^w \Big)

  is what the report is expected to take off the log-loss. The weight w is one for all, the best of a few for the
  panel: a small panel's confusion is too sure of itself. Whether so many reports can be seen to agree with
  structure, as the :mod:`guard <ldp_jax.pipeline.guard>` will ask, is foretold too. Reports of neighbours add more.
* Counts of neighbours (:func:`forecast`). A user with d neighbours has about :math:`d h` of the own class more than
  of any other, h the homophily; a share :math:`\rho` of these is counted in the right group, :math:`\rho` the
  reliability of the class that is broadcast. Whole noise of :math:`\epsilon` has a standard deviation of about
  :math:`\sqrt 2 / \epsilon`. Their ratio grows with :math:`z = \bar d \, h \, \rho \, \epsilon / 2`. After the
  pilot there is a better answer: the expected accuracy of :class:`~ldp_jax.pipeline.design.Design`.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from ldp_jax.core import validate
from ldp_jax.core.types import Array
from ldp_jax.features import alphabets
from ldp_jax.pipeline.guard import ROUNDING
from ldp_jax.pipeline.local_prediction import PanelFacts
from ldp_jax.pipeline.message import SMOOTHINGS, ScoredPanel, confusions
from ldp_jax.pipeline.panel import MOST_EPSILON

EPSILONS = (0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0)
"""Of which the least that is enough is looked for."""

LEAST_T = 2.0
"""Of the expected gain over its standard error: below, a panel does not tell it from nothing."""

LEAST_GUARD = 2.0
"""Of what the guard is expected to see: below, it would believe no report, and structure alone be returned."""

LEAST_MEMBERS = 100
"""Labels of a panel: below, gains of the panel alone have been seen (t of 4 on 35 labels)."""

WEIGHTS = (1.0, 0.75, 0.5, 0.35, 0.25)
"""Of reports beside structure, to choose from."""

LITTLE, MUCH = 0.7, 1.3
"""Of z, for the verdict on counts: rules of thumb, not bounds."""

_AT_A_TIME = 256
"""Members whose reports are gone through together."""


# --- Reports of records ----------------------------------------------------------------------------------------


class ExpectedGain(NamedTuple):
    """What own reports are expected to add, in the mean over the panel; made by :func:`expected_gain`.

    Attributes:
      log_loss: nats a user.
      standard_error: of it, over members.
      accuracy: in points, of deciding by q and the own report in place of q.
      accuracy_error: its standard error, in points.
      correlation: rho, how much of a class's variance a report explains: it is worth about rho labels.
      agreement: how much likelier a report is by the user's structural posterior than by the class shares, less 1:
        the mean of the guard's t.
      agreement_square: the mean of its square.
      members: how many were asked.
      smoothing: counts that the confusion was smoothed by.
      weight: w, of reports.
    """

    log_loss: float
    standard_error: float
    accuracy: float
    accuracy_error: float
    correlation: float
    agreement: float
    agreement_square: float
    members: int
    smoothing: float
    weight: float

    @property
    def t(self) -> float:
        """The gain over its standard error; 0 where there is no gain at all."""
        return self.log_loss / self.standard_error if self.standard_error > 0 else 0.0

    def guard(self, users: int) -> float:
        r"""What the guard is expected to see in reports of so many users: it believes none where this is below 2.

        :math:`\sum t / \sqrt{\sum t^2}`, less what roundings may add to t: see
        :func:`ldp_jax.pipeline.guard.strength`.
        """
        return math.sqrt(users) * (self.agreement - ROUNDING) / math.sqrt(max(self.agreement_square, 1e-30))


class Advice(NamedTuple):
    """Whether to collect, and why; prints as a verdict and a table.

    Attributes:
      collect: the verdict, for ``epsilon``.
      reason: one sentence for the verdict.
      epsilon: the epsilon that was asked about.
      needed: the least of the epsilons looked at that would be recommended; None where there is none.
      gains: by epsilon, what own reports are expected to add.
      users: how many would report.
    """

    collect: bool
    reason: str
    epsilon: float
    needed: float | None
    gains: dict[float, ExpectedGain]
    users: int

    @property
    def t(self) -> float:
        """The expected gain at :attr:`epsilon`, in standard errors."""
        return self.gains[self.epsilon].t

    @property
    def worth_in_labels(self) -> float:
        """About how many labels all reports together are worth: to be compared with the panel's."""
        return self.users * self.gains[self.epsilon].correlation

    def __str__(self) -> str:
        lines = [f"{'collect' if self.collect else 'do not collect'}: {self.reason}"]
        lines.append("epsilon   log-loss gain of the own report (nats)      t   guard   accuracy (points)")
        for epsilon, gain in self.gains.items():
            loss = f"{gain.log_loss:+.4f} +- {gain.standard_error:.4f}"
            points = f"{gain.accuracy:+.1f} +- {gain.accuracy_error:.1f}"
            seen = gain.guard(self.users)
            lines.append(f"{epsilon:7g}   {loss:>38}   {gain.t:4.1f}   {seen:5.1f}   {points:>17}")
        lines.append(
            f"{self.users} reports at epsilon {self.epsilon:g} are worth about {self.worth_in_labels:.0f} "
            f"labels; the panel has {self.gains[self.epsilon].members}"
        )
        return "\n".join(lines)


def advise(facts: PanelFacts, epsilon: float, *, epsilons: tuple[float, ...] = EPSILONS) -> Advice:
    """Say whether reports of private users will add to what is public already. Costs no budget and asks nobody.

    To collect is recommended where the log-loss that own reports are expected to take off structure's, out of fold,
    is more than twice its standard error on a panel of at least 100 labels, and where the guard is expected to
    believe so many reports of that epsilon. Reports of neighbours add more, so that accuracy tends to be higher.

    Args:
      facts: what :func:`~ldp_jax.pipeline.local_prediction.panel_facts` found, with true labels.
      epsilon: of a report, in (0, 20].
      epsilons: where the least that is enough is looked for.

    Raises:
      ValueError: for an epsilon out of range, or private labels.
    """
    epsilon = validate.number(0.0, MOST_EPSILON, open_lower=True, epsilon=epsilon)
    asked = [validate.number(0.0, MOST_EPSILON, open_lower=True, epsilons=one) for one in epsilons]
    if facts.known.keep < 1.0:
        raise ValueError(
            f"facts must have true labels, which gains are measured by, got keep = {facts.known.keep:g}"
        )
    log_q = np.asarray(facts.structure.log_q)[facts.known.nodes]
    gains = {}
    for each in sorted({*asked, epsilon}):
        inside = alphabets(np.exp(log_q), each).mask
        gains[each] = expected_gain(log_q, facts.scored, inside, each)
    users = int((facts.labels < 0).sum())
    needed = next((each for each, gain in gains.items() if _recommended(gain, users)), None)
    collect, reason = _recommended(gains[epsilon], users), _reason(gains, epsilon, users, needed)
    return Advice(collect, reason, epsilon, needed, gains, users)


def _recommended(gain: ExpectedGain, users: int) -> bool:
    return gain.members >= LEAST_MEMBERS and gain.t > LEAST_T and gain.guard(users) > LEAST_GUARD


def _reason(gains: dict[float, ExpectedGain], epsilon: float, users: int, needed: float | None) -> str:
    gain = gains[epsilon]
    if gain.members < LEAST_MEMBERS:
        return (
            f"a panel of {gain.members} labels cannot tell, whatever its t of {gain.t:.1f}: it takes about "
            f"{LEAST_MEMBERS}"
        )
    if _recommended(gain, users):
        adds = f"own reports alone are expected to add {gain.accuracy:.1f} points"
        if gain.accuracy <= 0.0:
            adds = "own reports sharpen posteriors, but no points are expected of them alone"
        return f"t = {gain.t:.1f} at epsilon {epsilon:g} on a panel of {gain.members}; {adds}"
    more = f"nor does epsilon {max(gains):g} do" if needed is None else f"epsilon {needed:g} would do"
    if gain.t > LEAST_T:
        return (
            f"{users} reports of epsilon {epsilon:g} say so little that the guard would not believe them "
            f"({gain.guard(users):.1f} of its standard errors, of {LEAST_GUARD:g}); {more}"
        )
    return (
        f"t = {gain.t:.1f} at epsilon {epsilon:g} on a panel of {gain.members} does not exceed {LEAST_T:g}: "
        f"records are not seen to know more than structure; {more}"
    )


def expected_gain(
    log_q: Float[Array | np.ndarray, "panel classes"],
    panel: ScoredPanel,
    alphabets: Bool[Array | np.ndarray, "panel classes"],
    epsilon: float,
) -> ExpectedGain:
    """The expected gain of one report a user by generalised randomised response within an alphabet.

    Nothing is drawn, and no private user is asked. The confusion is smoothed by as many counts as make reports of
    the panel's members likeliest under their classes, each by the others' records. The weight is the one of
    :data:`WEIGHTS` that gains the panel most.

    ``log_q`` is what structure says of the panel's members out of fold, ``alphabets`` the classes among which their
    devices would choose.

    Raises:
      ValueError: for fewer than two members, sizes that do not fit, labels outside [0, C), an alphabet of no class,
        or an epsilon out of range.

    >>> log_q = np.log(np.full((60, 3), 1 / 3, np.float32))
    >>> labels = np.arange(60) % 3
    >>> sure = np.eye(3, dtype=np.float32)[labels]
    >>> found = expected_gain(log_q, ScoredPanel(sure, labels), np.ones((60, 3), bool), 2.0)
    >>> round(found.log_loss, 2), round(found.accuracy), found.t > 2
    (0.43, 45, True)
    """
    epsilon = validate.number(0.0, open_lower=True, epsilon=epsilon)
    scores, labels, inside = jnp.asarray(panel.scores), np.asarray(panel.labels), np.asarray(alphabets)
    if len(labels) < 2 or not len(log_q) == len(scores) == len(labels) == len(inside):
        raise ValueError(
            f"log_q, scores, labels and alphabets must be of the same two members or more, got {len(log_q)}, "
            f"{len(scores)}, {len(labels)} and {len(inside)}"
        )
    classes = np.shape(log_q)[1]
    if labels.min() < 0 or labels.max() >= classes:
        raise ValueError(f"labels must be in [0, {classes}), got {labels.min()} to {labels.max()}")
    if not inside.any(1).all():
        raise ValueError("alphabets must hold a class of each member's at least")
    by_smoothing = {}
    for smoothing in SMOOTHINGS:
        table, which = confusions(panel, inside, smoothing)
        members = _Member(jnp.asarray(log_q), scores, jnp.asarray(labels), jnp.asarray(inside), jnp.asarray(which))
        made = _members(members, table, jnp.float32(epsilon), jnp.float32(smoothing))
        by_smoothing[smoothing] = [np.asarray(each, np.float64) for each in made]
    smoothing = max(by_smoothing, key=lambda one: by_smoothing[one][0].sum())
    _, gains, decided, rho, agreement, square = by_smoothing[smoothing]
    weight = int(gains.sum(0).argmax())
    gain, right = gains[:, weight], decided[:, weight]
    errors = [float(each.std(ddof=1)) / math.sqrt(len(each)) for each in (gain, 100 * right)]
    return ExpectedGain(
        log_loss=float(gain.mean()), standard_error=errors[0],
        accuracy=float(100 * right.mean()), accuracy_error=errors[1],
        correlation=float(np.clip(rho.mean(), 0.0, 1.0)),
        agreement=float(agreement.mean()), agreement_square=float(square.mean()),
        members=len(labels), smoothing=smoothing, weight=WEIGHTS[weight],
    )  # fmt: skip


class _Member(NamedTuple):
    """Of a member, or stacked: structure's posterior, scores, label, alphabet, and the place of its confusion."""

    log_q: Array
    scores: Array
    label: Array
    inside: Array
    which: Array


@jax.jit
def _members(members: _Member, table: Array, epsilon: Array, smoothing: Array) -> tuple[Array, ...]:
    """For each member, expected over reports: log-likelihood by the class, gains [weights] of both, rho, t, t^2."""
    classes = members.scores.shape[1]
    size = jax.nn.one_hot(members.label, classes).sum(0)
    prior = size / size.sum()
    variance = jnp.maximum(1.0 - (prior**2).sum(), 1e-6)

    def one(member: _Member) -> tuple[Array, ...]:
        log_q, scores, label, inside, which = member
        log_q = jax.nn.log_softmax(log_q)
        places = inside.sum()
        other = jnp.exp(-epsilon) / (1.0 + (places - 1) * jnp.exp(-epsilon))
        more = -jnp.expm1(-epsilon) / (1.0 + (places - 1) * jnp.exp(-epsilon))
        sent = jax.nn.one_hot(jnp.argmax(jnp.where(inside, scores, -jnp.inf)), classes)
        # The panel's confusion without the member's record.
        rest = (table[which, label] * (size[label] + smoothing) - sent) / (size[label] - 1.0 + smoothing)
        confusion = table[which].at[label].set(jnp.maximum(rest, 0.0))
        report = jnp.where(inside, other + more * sent, 0.0)  # P(r | sent)
        log_t = jnp.where(inside, jnp.log(other + more * confusion), 0.0)  # [class, report]
        joint = log_q[:, None] + jnp.asarray(WEIGHTS)[:, None, None] * log_t  # [weight, class, report]
        marginal = jax.nn.logsumexp(joint, axis=1)
        gains = joint[:, label] - log_q[label] - marginal
        decided = (joint.argmax(1) == label).astype(jnp.float32) - (log_q.argmax() == label)
        by_anybody = jnp.log(jnp.maximum(prior, 1e-30))[:, None] + log_t
        away = ((jax.nn.softmax(by_anybody, axis=0) - prior[:, None]) ** 2).sum(0) / variance
        agreement = jnp.expm1(marginal[0] - jax.nn.logsumexp(by_anybody, axis=0))
        each = (log_t[label], gains, decided, away, agreement, agreement**2)
        return tuple(value @ report for value in each)

    return jax.lax.map(one, members, batch_size=_AT_A_TIME)


# --- Counts of neighbours --------------------------------------------------------------------------------------


class Forecast(NamedTuple):
    """What to expect; prints as a sentence.

    Attributes:
      z: signal over noise of a user's own class in their report.
      worth: ``little``, ``some`` or ``much``.
    """

    z: float
    worth: str

    def __str__(self) -> str:
        verdict = {
            "little": "do not collect: features alone are about as good",
            "some": "run the pilot, and let its forecast decide",
            "much": "collect",
        }[self.worth]
        return f"z = {self.z:.2f}: counts will add {self.worth}; {verdict}"


def forecast(mean_degree: float, homophily: float, reliability: float, epsilon: float) -> Forecast:
    """z and a verdict, from public facts or stated guesses.

    Args:
      mean_degree: neighbours of a user, > 0.
      homophily: share of neighbours of the own class, beyond chance (:func:`homophily`).
      reliability: how often the class broadcast for a neighbour is right (:func:`reliability`).
      epsilon: of a list's bit.

    >>> print(forecast(43.4, 0.19, 0.71, 1.0))
    z = 2.93: counts will add much; collect
    >>> print(forecast(2.7, 0.7, 0.68, 1.0))
    z = 0.64: counts will add little; do not collect: features alone are about as good
    """
    validate.number(0.0, open_lower=True, mean_degree=mean_degree)
    validate.number(0.0, 1.0, homophily=homophily)
    validate.number(0.0, 1.0, reliability=reliability)
    validate.number(0.0, open_lower=True, epsilon=epsilon)
    z = mean_degree * homophily * reliability * epsilon / 2
    return Forecast(z, "little" if z < LITTLE else "some" if z < MUCH else "much")


def reliability(log_q: Float[Array | np.ndarray, "n classes"], labels: Int[np.ndarray, " n"]) -> float:
    """How often the class that is broadcast for a user is right: always of a label, else as often as q expects.

    >>> reliability(np.log([[0.5, 0.5], [0.9, 0.1]]), np.array([0, -1]))
    0.95
    """
    labels = np.asarray(labels)
    sure = np.exp(np.asarray(log_q, np.float64)).max(-1)
    return float(np.where(labels >= 0, 1.0, sure).mean())


def homophily(pairs: ArrayLike, labels: Int[np.ndarray, " n"]) -> float:
    r"""How far friends are alike, beyond chance: :math:`(s - s_0) / (1 - s_0)`, at least 0.

    s is the share of pairs whose ends have one label, :math:`s_0` what random pairs of these ends would have.

    ``pairs`` [pairs, 2] are public friendships, such as those of labelled users who consent; those with an end that
    has no label (-1) are left out.

    Raises:
      ValueError: for pairs of another shape (an ``edge_index`` is [2, pairs]: give its transpose), a node outside
        [0, n), or where no pair has labels at both ends.

    >>> homophily([[0, 1], [2, 3], [1, 2]], np.array([0, 0, 1, 1]))
    0.333...
    """
    labels, pairs = np.asarray(labels), np.asarray(pairs)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
        raise ValueError(f"pairs must be integers of shape [pairs, 2], got {pairs.dtype} of shape {pairs.shape}")
    if len(pairs) and (pairs.min() < 0 or pairs.max() >= len(labels)):
        raise ValueError(f"pairs must join nodes in [0, {len(labels)}), got {pairs.min()} to {pairs.max()}")
    ends = labels[pairs]
    ends = ends[(ends >= 0).all(-1)]
    if not len(ends):
        raise ValueError("pairs must hold one of two labelled users, got none: state a guess of the homophily")
    share = np.bincount(ends.ravel()) / ends.size
    chance = float((share**2).sum())
    alike = float((ends[:, 0] == ends[:, 1]).mean())
    return max(0.0, (alike - chance) / (1.0 - chance)) if chance < 1.0 else 0.0
