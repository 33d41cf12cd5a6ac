r"""Rehearse before you collect.

Worlds are drawn from public facts, and the server is run on each of them.

In a world every private user has a class. Devices report and the server reads as they would, and
its classes are counted right or wrong, beside those without any report. Nobody is asked, and no
budget is spent.

* Records (of :class:`~ldp_jax.servers.PanelFacts`). Classes follow the structural posterior q.
  Those of friends are alike: their Gumbel noise is a Gaussian copula, of which a share
  :data:`COUPLING` is noise averaged over four hops, given the labels of the panel. A private user
  of class y has the classifier's scores of a member of that class whom structure knew about as
  well: of a near :math:`q(y)`. Members are drawn anew in each world, as often as there are, so that
  a small panel is as unsure as it is.
* Lists (of :class:`~ldp_jax.servers.counts.CountFacts`). Classes follow the public posterior, as
  sure of itself as held-out labels are; those of users of like features are alike, so that reports
  may teach more of features than few labels did. How alike, nobody knows: each world has another
  share of common noise. A list is what is stated of friendships (:class:`StatedFriends`): so many
  neighbours, a share h of them of the own class, the others of anybody's. Friends who are of the
  class that features say of a user, right or wrong, tell nothing new; nor do friends of the user's
  class whom features mislead as they do the user.
* Both (of :class:`~ldp_jax.servers.joint.JointFacts`). Classes follow the shares of the panel,
  scores are those of a member of the class, and lists are as stated. Each total is tried in several
  splits, and as one report that reads friends by the stated homophily, on the same worlds.
* Links (of :class:`~ldp_jax.servers.links.LinkFacts`). Everybody's list is that of a member of the
  pilot of the same group, counted by group. Members are drawn anew in each world. A tenth of the
  links is taken out of all lists, and told from as many pairs at random, by counts and by released
  degrees of the same epsilon.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats
from jax.scipy.special import log_ndtr, ndtri
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from ldp_jax.core import random, validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.float32 import matmul
from ldp_jax.core.progress import Progress, phase, watched
from ldp_jax.core.pytree import pytree
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import Array, PRNGKey, Scalar
from ldp_jax.core.whole_noise import MAX_EPSILON, MIN_EPSILON
from ldp_jax.edges import NeighbourCounts
from ldp_jax.graph.propagation import Operator
from ldp_jax.learning import metrics
from ldp_jax.servers.counts import CountFacts, CountServer
from ldp_jax.servers.driver import simulate
from ldp_jax.servers.joint import JointFacts, JointPrivacy, JointServer
from ldp_jax.servers.links import LinkFacts, link_scores
from ldp_jax.servers.parts.groups import check_labels, check_posterior
from ldp_jax.servers.parts.panel import MOST_EPSILON
from ldp_jax.servers.parts.rows import DenseRows, Rows, RowTables, laid_out
from ldp_jax.servers.parts.stack import combine, stack
from ldp_jax.servers.questions import Answers, ClassQuestion, CountQuestion, Question
from ldp_jax.servers.questions.both import BothQuestion
from ldp_jax.servers.reports import PanelFacts, ReportServer
from ldp_jax.servers.users import blanked

EPSILONS = (0.5, 1.0, 2.0, 4.0)
"""Of which the least that is worth asking for is looked for."""

SHARES = (1.0, 0.75, 0.5, 0.0)
"""Of a total, for the record: the splits that are tried, beside one report of both."""

WORLDS = 10
"""Fewer give intervals that are too narrow."""

LEAST_POINTS, LEAST_CHANCE = 0.5, 0.6
"""Of the mean gain, and of its probability to be above 0: below, nothing should be collected. The
chance was chosen on citeseer, cora, blogcatalog and debian, as the coupling was."""

MODEL_ERROR, MODEL_SHARE = 0.8, 0.4
"""Standard deviation of what all worlds get wrong alike: in points, and as a share of the mean
gain. Chosen on the same four graphs; the pages of the experiments say how often intervals hold with
them, and without."""

LEAST_LABELS = 50
"""Public labels: fewer cannot tell."""

COUPLING = 0.9
"""Share of the noise of a class that friends have in common."""

MOST_OVERLAP = 0.7
"""Of homophily, at most such a share follows what features say, if it is not stated: each world has
another.
"""

MOST_ECHO = 0.2
"""Of friends of one class, at most such a share is seen alike by features, if it is not stated: as
of overlap.
"""

SCORES = ("degrees", "degrees and same class", "counts", "counts and same class")
"""By which links are found. Degrees are released, counts are of neighbours by group."""

_HELD_OUT, _MOST_LINKS = 0.1, 5000  # of the links of a world, at most so many

_HOPS = 4  # over which noise is shared

# A donor is among this share of the class, at least so many, on either side; or of all of it, so
# often.
_NEAR, _LEAST_NEAR, _ANYBODY = 0.1, 3, 0.05

_MOST_ALIKE = (
    0.99  # homophily by which devices read friends; 1 would let one friend outweigh everything
)


_EVENLY = np.array(
    [0.8191725, 0.6710436, 0.5497005]
)  # multiples, less whole numbers, are spread evenly in a cube

# of the noise that users of like features may share; chosen on citeseer, cora, debian, caltech36
_LEAST_ALIKE = 0.5

_COLUMNS, _STEPS, _RIDGE = 64, 30, 0.01  # of the estimate of variances; of conjugate gradients


class StatedFriends(NamedTuple):
    """Known or assumed facts of private friendships.

    They are public, and no budget pays for them: state a guess. The true ones of a private graph
    are a release. :func:`~ldp_jax.predict_jointly` names them as unprotected where a rehearsal
    chose how a total is spent.

    Attributes:
      mean_degree: neighbours of a user, > 0 and fewer than there are users.
      homophily: share of neighbours of the own class, beyond chance, in [0, 1] (:func:`homophily`).
      spread: standard deviation of a degree over the mean, in [0, 10].
      overlap: of homophily, the share in [0, 1] that follows what features say of a user's class,
        right or wrong (:func:`overlap`); by default each world has another one, up to
        :data:`MOST_OVERLAP`. Not for joint totals.
      echo: of friends of one class, the share in [0, 1] whom features take for the same class,
        beyond chance (:func:`echo`); by default as of overlap, up to :data:`MOST_ECHO`. Not for
        joint totals.
    """

    mean_degree: float
    homophily: float
    spread: float = 1.0
    overlap: float | None = None
    echo: float | None = None


class Foreseen(NamedTuple):
    """The forecast for one epsilon.

    Points over no report, the 95 % interval of one collection, and P(gain > 0).
    """

    points: float
    low: float
    high: float
    chance: float

    def worth(self, labels: int) -> bool:
        """Whether to ask for reports, beside so many public labels."""
        return (
            labels >= LEAST_LABELS and self.points >= LEAST_POINTS and self.chance >= LEAST_CHANCE
        )


class Rehearsal(NamedTuple):
    """The results of the worlds; prints as a verdict and a table.

    Attributes:
      epsilons: ascending.
      gains: float64 [worlds, epsilons], points of accuracy on private users over no report. Of
        links, points of AUC by counts over released degrees, each by the better of two of
        :data:`SCORES`.
      without: float64 [worlds], accuracy without any report, in percent; of links, the AUC of one
        class alone.
      message: ``records``, ``lists``, ``records and lists`` or ``links``.
      users: how many would report.
      labels: how many are public; of links, how many lists.
      friends: what was stated, of lists.
      splits: of records and lists, the best split of each total or one report of both, to which the
        gains belong; else empty. It is chosen on the same worlds, so that the gains of close ones
        are a little too high.
      auc: of links, float64 [worlds, epsilons, 4], in percent, of each of :data:`SCORES`.
    """

    epsilons: tuple[float, ...]
    gains: Float[np.ndarray, "worlds epsilons"]
    without: Float[np.ndarray, " worlds"]
    message: str
    users: int
    labels: int
    friends: StatedFriends | None = None
    splits: tuple[JointPrivacy, ...] = ()
    auc: Float[np.ndarray, "worlds epsilons scores"] | None = None

    def foreseen(self, epsilon: float) -> Foreseen:
        """The forecast for one of :attr:`epsilons`."""
        if epsilon not in self.epsilons:
            raise ValueError(
                f"epsilon must be one that was rehearsed, {self.epsilons}, got {epsilon!r}"
            )
        gains = self.gains[:, self.epsilons.index(epsilon)]
        count = len(gains)
        mean = float(gains.mean())
        spread = float(gains.std(ddof=1)) * math.sqrt(1 + 1 / count)
        error = math.hypot(spread, MODEL_ERROR, MODEL_SHARE * mean)
        half = float(scipy.stats.t.ppf(0.975, count - 1)) * error
        return Foreseen(
            mean, mean - half, mean + half, float(scipy.stats.t.cdf(mean / error, count - 1))
        )

    def collect(self, epsilon: float) -> bool:
        """Whether to ask for reports of this epsilon."""
        return self.foreseen(epsilon).worth(self.labels)

    @property
    def needed(self) -> float | None:
        """The least epsilon that is worth asking for; None where there is none."""
        return next((one for one in self.epsilons if self.collect(one)), None)

    def __str__(self) -> str:
        links = self.auc is not None
        known = "public lists" if links else "public labels"
        yes, no = ("ask for counts", "ask for degrees") if links else ("collect", "do not collect")
        if self.labels < LEAST_LABELS:
            verdict = f"cannot tell: {self.labels} {known}, and it takes {LEAST_LABELS}"
        elif self.needed is None:
            verdict = (
                f"{no}: {LEAST_POINTS:g} points are not likely up to epsilon {self.epsilons[-1]:g}"
            )
        else:
            verdict = f"{yes}, at epsilon {self.needed:g} or more"
        stated = ""
        if self.friends is not None:
            told = f"{self.friends.mean_degree:g} friends and homophily {self.friends.homophily:g}"
            stated = f", of {told} as stated, public"
        alone = f"{self.without.mean():.1f} %"
        message = "lists" if links else self.message
        lines = [
            verdict,
            f"{self.users} {message} beside {self.labels} {known}, {len(self.gains)} worlds{stated}",
            f"by public classes the AUC is {alone}"
            if links
            else f"without any report {alone} are right",
            "epsilon   points   95 % interval    P(gain > 0)",
        ]
        for place, epsilon in enumerate(self.epsilons):
            told = self.foreseen(epsilon)
            interval = f"{told.low:+.1f} to {told.high:+.1f}"
            split = f"   {_words(self.splits[place])}" if self.splits else ""
            if self.auc is not None:
                split = f"   {SCORES[int(self.auc[:, place].mean(0).argmax())]}"
            lines.append(
                f"{epsilon:7g}   {told.points:+6.1f}   {interval:>14}   {told.chance:11.2f}{split}"
            )
        return "\n".join(lines)


def _words(privacy: JointPrivacy) -> str:
    return "one report of both" if privacy.both else f"{privacy.record:g} a record"


@implicit_promotion()
def rehearse(
    key: PRNGKey,
    public: PanelFacts | CountFacts | JointFacts | LinkFacts,
    epsilons: Sequence[float] = EPSILONS,
    *,
    friends: StatedFriends | None = None,
    worlds: int = WORLDS,
    progress: Progress | None = None,
) -> Rehearsal:
    """Say what reports will bring, before anybody reports. Costs no budget and asks nobody.

    To collect is recommended where the mean gain is at least 0.5 points and P(gain > 0) is at least
    0.6, beside at least 50 public labels. To find links, counts are held against released degrees,
    and it takes 50 public lists. The experiments hold verdicts against what came
    (``frontier_features.md``, ``frontier_edges.md``, ``frontier_joint.md``,
    ``frontier_beyond.md``): of lists, large gains are foretold too large.

    Args:
      key: of public randomness.
      public: of records, what :func:`~ldp_jax.servers.panel_facts` found, with true labels; of
        lists, what :func:`~ldp_jax.servers.counts.count_facts` found; of both, what
        :func:`~ldp_jax.servers.joint.joint_facts` found; of links, classes and the lists of a
        pilot, whose members are drawn at random.
      epsilons: of a report of a record, in (0, 20]; of a bit of a list, in [0.001, 40]; of both a
        total in (0, 20], whose best split is found (:attr:`Rehearsal.splits`, for
        ``predict_jointly``).
      friends: of lists: what is stated of them. It is assumed, not found: state the least that is
        believed.
      worlds: how many are drawn, at least 2.
      progress: told of each phase (:data:`ldp_jax.core.progress.Progress`).

    ``ValueError`` for private labels, an epsilon out of range, friends where there are none to be
    stated, or a pilot whose lists are of others or empty.

    >>> from ldp_jax import datasets
    >>> from ldp_jax.servers.counts import count_facts
    >>> data = datasets.synthetic(jax.random.key(0), num_nodes=300, num_classes=3, num_features=30,
    ...     mean_degree=8, homophily=0.8)
    >>> labels = np.where(np.arange(300) < 100, data.y, -1)
    >>> public = count_facts(jax.random.key(2), None, labels, num_classes=3)
    >>> found = rehearse(jax.random.key(1), public, (2.0,), friends=StatedFriends(8, 0.8), worlds=2)
    >>> found.collect(2.0), str(found).splitlines()[0]
    (True, 'collect, at epsilon 2 or more')
    """
    validate.host_key(key, "rehearse")
    worlds = validate.whole(2, worlds=worlds)
    if not isinstance(public, (PanelFacts, CountFacts, JointFacts, LinkFacts)):
        # its values may be private
        got = f"got {type(public).__name__}: docs/choosing.md has an example"
        raise ValueError(
            f"public must be of panel_facts, joint_facts, count_facts or LinkFacts, {got}"
        )
    of_lists = isinstance(public, (CountFacts, LinkFacts))
    least, most = (MIN_EPSILON, MAX_EPSILON) if of_lists else (0.0, MOST_EPSILON)
    each = list(epsilons) if np.iterable(epsilons) else [epsilons]
    asked = tuple(
        sorted(
            {validate.number(least, most, open_lower=not of_lists, epsilons=one) for one in each}
        )
    )
    if not asked:
        raise ValueError("epsilons must name one at least")
    if isinstance(public, LinkFacts):
        if friends is not None:
            raise ValueError("friends must be None of links, whose pilot shows them")
        return _of_links(key, public, asked, worlds, progress)
    if not isinstance(friends, StatedFriends | None):
        raise ValueError(
            f"friends must be StatedFriends(mean_degree, homophily), got {type(friends).__name__}"
        )
    if not isinstance(public, CountFacts) and public.known.keep < 1.0:
        raise ValueError(f"public must have true labels, got keep = {public.known.keep:g}")
    message = "lists"
    splits = []
    right = []
    private = validate.labels(public.labels) < 0
    with watched("rehearse", progress):
        phase("what is public", 0.0)
        if isinstance(public, PanelFacts) and public.taught is not None:
            public = public.taught  # the worlds have the classes of the panel alone
        elif isinstance(public, JointFacts):
            public = public._replace(numbering=None)
        if isinstance(public, PanelFacts):
            if friends is not None:
                raise ValueError("friends must be None of records, whose graph is public")
            message = "records"
            run = _of_records(key, public, asked)
        elif friends is None:
            raise ValueError(
                "friends must be stated of lists: servers.StatedFriends(mean_degree, homophily)"
            )
        elif isinstance(public, CountFacts):
            run = _of_lists(key, public, friends, asked)
        else:
            if friends.overlap is not None or friends.echo is not None:
                raise ValueError(
                    "overlap and echo must be None of joint totals: nobody has public features"
                )
            message = "records and lists"
            splits = [_splits(total) for total in asked]
            stated = _checked(friends, len(private))
            run = _of_both(key, public, stated, tuple(split for some in splits for split in some))
        for world in _phases(worlds):
            y, posteriors = run(world)
            found = [np.asarray(one).argmax(1) == np.asarray(y) for one in posteriors]
            right.append([100.0 * one[private].mean() for one in found])
    right = np.array(right)
    gains = right[:, 1:] - right[:, :1]
    taken = ()
    if splits:
        gains, taken = _best(gains, splits)
    users, labels = int(private.sum()), int((~private).sum())
    return Rehearsal(asked, gains, right[:, 0], message, users, labels, friends, taken)


def _phases(worlds: int) -> Iterator[int]:
    for world in range(worlds):
        phase(f"world {world + 1} of {worlds}", 0.1 + 0.9 * world / worlds)
        with watched("server"):
            yield world


def _splits(total: float) -> list[JointPrivacy]:
    """Those that leave a list nothing, or enough for whole noise; and one report of both."""
    enough = [share for share in SHARES if share == 1.0 or (1.0 - share) * total > 2 * MIN_EPSILON]
    each = [*(JointPrivacy.split(total, share) for share in enough), JointPrivacy(both=total)]
    return [dataclasses.replace(one, rehearsed=True) for one in each]


def _best(
    gains: Float[np.ndarray, "worlds splits"], splits: list[list[JointPrivacy]]
) -> tuple[Float[np.ndarray, "worlds totals"], tuple[JointPrivacy, ...]]:
    """The split of each total with the largest mean gain, the first of equals."""
    starts = np.cumsum([0, *map(len, splits)])
    best = [
        start + int(gains[:, start:stop].mean(0).argmax())
        for start, stop in itertools.pairwise(starts)
    ]
    each = [split for some in splits for split in some]
    return gains[:, best], tuple(each[place] for place in best)


# Everybody's class, and their posteriors: without any report, and with those of each epsilon or
# split.
_Classes = tuple[Array, Sequence[Array | np.ndarray]]

World = Callable[[int], _Classes]
"""Draws the world of a number."""


# --- Records --------------------------------------------------------------------------------------


def _of_records(key: PRNGKey, facts: PanelFacts, epsilons: tuple[float, ...]) -> World:
    spread_key, key = random.split(key)
    log_q = facts.structure.log_q
    servers = [ReportServer(facts, epsilon) for epsilon in epsilons]
    spread = shared_spread(spread_key, facts.op)

    def world(number: int) -> _Classes:
        class_key, donor_key, report_key = random.split(random.fold_in(key, number), 3)
        y = coupled_classes(class_key, facts.op, spread, log_q, facts.labels, np.float32(COUPLING))
        users = DrawnUsers(len(log_q), _drawn_scores(donor_key, facts, y, log_q, _NEAR))
        found = [log_q]
        for place, server in enumerate(servers):
            made = simulate(random.fold_in(report_key, place), server, users).value
            found.append(made.log_posterior)
        return y, found

    return world


def _drawn_scores(
    key: PRNGKey, facts: PanelFacts | JointFacts, y: Array, log_q: Array | np.ndarray, near: float
) -> np.ndarray:
    """The classifier's scores of donors, and of the panel its own."""
    labels = facts.labels
    panel = facts.known.nodes
    scored = np.asarray(facts.classifier.panel_scores)
    scores = scored[
        np.asarray(donors(key, y, log_q, labels[panel], log_q[panel], np.float32(near)))
    ]
    scores[panel] = scored
    return scores


def _shared(op: Operator, noise: Array) -> Array:
    """S w, noise averaged over a few hops: S is ((I + D^-1 A) / 2)^hops."""
    return op.nodes(
        jax.lax.fori_loop(0, _HOPS, lambda _, w: 0.5 * (w + op.average(w)), op.rows(noise))
    )


def _shared_back(op: Operator, w: Array) -> Array:
    degree = jnp.maximum(op.rows(op.degree), 1.0)[:, None]
    back = jax.lax.fori_loop(
        0, _HOPS, lambda _, w: 0.5 * (w + degree * op.average(w / degree)), op.rows(w)
    )
    return op.nodes(back)


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
    labels: Int[Array | np.ndarray, " n"],
    coupling: Scalar,
) -> Int[Array, " n"]:
    r"""Classes of which each follows its q, friends' are alike, and the panel's are its labels.

    Int32 [n].

    Class i is :math:`\arg\max_c \log q_{ic} + g_{ic}`, g Gumbel noise with the ranks of a Gaussian
    field of covariance :math:`\rho K + (1 - \rho) I`, K the correlation of shared noise, rho the
    ``coupling`` in [0, 1). The panel's noise is drawn given its labels, and the field given the
    panel's noise (Matheron's rule, by conjugate gradients). ``spread`` is :func:`shared_spread`;
    ``labels`` are -1 for those whose class is drawn.
    """
    shared_key, own_key, top_key, rest_key = random.split(key, 4)
    known = (labels >= 0)[:, None]
    # Gumbel noise given which class is the largest: the largest is free, the others are truncated
    # at it.
    top = random.gumbel(top_key, (len(log_q), 1))
    others = -jnp.logaddexp(-top, -(random.gumbel(rest_key, log_q.shape) + log_q))
    noise = jnp.where(jnp.arange(log_q.shape[1]) == labels[:, None], top, others) - log_q
    wanted = ndtri(jnp.clip(jnp.exp(-jnp.exp(-noise)), 1e-6, 1.0 - 1e-6))

    def covariance(w: Array) -> Array:
        return jnp.asarray(coupling) * _shared(op, _shared_back(op, w / spread)) / spread

    drawn = jnp.sqrt(coupling) * _shared(op, random.normal(shared_key, log_q.shape)) / spread
    drawn = drawn + jnp.sqrt(1.0 - coupling) * random.normal(own_key, log_q.shape)
    lacking = jnp.where(known, wanted - drawn, 0.0)

    def among_known(w: Array) -> Array:
        return jnp.where(known, covariance(w) + (1.0 - coupling + _RIDGE) * w, w)

    solved, _ = jax.scipy.sparse.linalg.cg(among_known, lacking, maxiter=_STEPS, tol=1e-2)
    field = drawn + covariance(jnp.where(known, solved, 0.0))
    found = (log_q - jnp.log(-log_ndtr(field))).argmax(1)
    return jnp.where(labels >= 0, labels, found).astype(jnp.int32)


@jax.jit
def donors(
    key: PRNGKey,
    y: Int[Array, " n"],
    log_q: Float[Array, "n classes"],
    labels: Int[Array | np.ndarray, " panel"],
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
    drawn = order[start[of] + _below(member_key, size[of])]
    known = of + _under_one(jnp.take_along_axis(panel_log_q[drawn], of[:, None], 1)[:, 0])
    place = jnp.argsort(known)  # by class, then by what structure knew
    mine = y + _under_one(jnp.take_along_axis(log_q, y[:, None], 1)[:, 0])
    count, first = size[y], start[y]
    reach = jnp.maximum(jnp.ceil(near * count).astype(jnp.int32), _LEAST_NEAR)
    width = jnp.minimum(2 * reach, count)
    low = jnp.clip(jnp.searchsorted(known[place], mine) - reach, first, first + count - width)
    anybody = random.uniform(which_key, y.shape) < _ANYBODY
    chosen = jnp.where(anybody, first + _below(any_key, count), low + _below(near_key, width))
    return drawn[place[chosen]]


def _below(key: PRNGKey, count: Array) -> Array:
    return jnp.minimum((random.uniform(key, count.shape) * count).astype(jnp.int32), count - 1)


def _under_one(log_p: Array) -> Array:
    return jnp.minimum(jnp.exp(log_p), 0.999)


# --- Lists ----------------------------------------------------------------------------------------


_Stated = tuple[np.float32, np.float32, np.float32]  # mean degree, homophily, spread


def _checked(friends: StatedFriends, n: int) -> _Stated:
    """The stated facts; refused where no friendships of n users are like them."""
    return (
        np.float32(validate.number(0.0, n - 1.0, open_lower=True, mean_degree=friends.mean_degree)),
        np.float32(validate.number(0.0, 1.0, homophily=friends.homophily)),
        np.float32(validate.number(0.0, 10.0, spread=friends.spread)),
    )


def _of_lists(
    key: PRNGKey, public: CountFacts, friends: StatedFriends, epsilons: tuple[float, ...]
) -> World:
    stated = _checked(friends, len(public.labels))
    if friends.overlap is not None:
        validate.number(0.0, 1.0, overlap=friends.overlap)
    if friends.echo is not None:
        validate.number(0.0, 1.0, echo=friends.echo)
    told = friends.overlap, friends.echo
    rows = public.rows
    log_q = public.known.log_q
    labels = np.asarray(public.labels)
    spread_key, unknown_key, key = random.split(key, 3)
    # What labels that a model has not seen say of how sure it may be.
    tempered = combine(log_q[..., None], stack(log_q[..., None], labels, (1.0,), ridge=1.0))
    ridge = public.known.ridge
    noise = None if rows is None or ridge is None else _LikeFeatures.of(spread_key, rows)
    # By the ridge a score varies by 1 / ridge with features, beside its Gumbel noise of variance
    # pi^2 / 6.
    most = np.array(
        [0.0 if ridge is None else 1.0 / (1.0 + ridge * math.pi**2 / 6.0), MOST_OVERLAP, MOST_ECHO]
    )
    least = most * [_LEAST_ALIKE, 0.0, 0.0]
    first = np.asarray(random.uniform(unknown_key, (3,)), np.float64)

    def world(number: int) -> _Classes:
        class_key, draw_key, report_key = random.split(random.fold_in(key, number), 3)
        alike, *unknown = least + (most - least) * (
            (first + number * _EVENLY) % 1.0
        )  # nobody knows them
        if noise is None:
            y = _drawn_classes(class_key, tempered, labels)
        else:
            y = _alike_classes(class_key, noise, tempered, labels, np.float32(alike))
        given = [guess if one is None else one for guess, one in zip(unknown, told, strict=True)]
        users = _drawn_users(draw_key, y, tempered, stated, np.asarray(given, np.float32))
        found = [log_q]
        for place, epsilon in enumerate(epsilons):
            count_key = random.fold_in(report_key, place)
            made = simulate(
                count_key, CountServer(public, epsilon), DrawnUsers(len(labels), friends=users)
            )
            found.append(made.value.log_posterior)
        return y, found

    return world


def _of_both(
    key: PRNGKey, facts: JointFacts, stated: _Stated, splits: tuple[JointPrivacy, ...]
) -> World:
    """Worlds of private records and lists; each split is tried on the same users."""
    n = len(facts.labels)
    log_q = np.tile(facts.log_prior, (n, 1))
    entries = max(1, round(float(stated[0]) * n))
    alike = min(float(stated[1]), _MOST_ALIKE)

    def world(number: int) -> _Classes:
        draw_key, donor_key, report_key = random.split(random.fold_in(key, number), 3)
        class_key, rate_key, list_key = random.split(draw_key, 3)
        y = _drawn_classes(class_key, log_q, facts.labels)
        users = _drawn_users(rate_key, y, log_q, stated, np.zeros(2, np.float32))
        scores = _drawn_scores(donor_key, facts, y, log_q, 1.0)
        owners, friends = _drawn_lists(list_key, users, y, entries)
        drawn = DrawnUsers(n, scores, users, (np.asarray(owners), np.asarray(friends)))
        found = [log_q]
        for split in splits:
            # One key: the same noise for all splits, so that not chance tells close ones apart.
            server = JointServer(split, facts, homophily=alike)
            found.append(simulate(jax.random.clone(report_key), server, drawn).value.log_posterior)
        return y, found

    return world


class _Users(NamedTuple):
    """A world: classes as rows of 0 and 1 [n, C], as features say [n], those of alike friends, expected degrees."""

    of_class: Array
    said: Array
    alike: Array
    rate: Array
    homophily: Array
    echo: Array


@dataclasses.dataclass(frozen=True, eq=False)
class DrawnUsers:
    """Simulated users: worlds draw what devices would find, not records or lists.

    Attributes:
      num_users: n.
      scores: float32 [n, C], which devices find of records; None where no record is asked for.
      friends: how many friends each has, and of whom; None where no list is asked for.
      lists: entries of lists, as owners and friends; None where counts alone are asked for.
    """

    num_users: int
    scores: Float[np.ndarray, "n classes"] | None = None
    friends: "_Users | None" = None
    lists: tuple[Int[np.ndarray, " m"], Int[np.ndarray, " m"]] | None = None

    __repr__ = by_shapes

    def put(self, question: Question) -> Question:
        """The question as it is."""
        return question

    def answer(self, key: PRNGKey, question: Question) -> Answers:
        """The answers of those who are asked, by the question's own mechanism."""
        asked = np.asarray(question.asked)
        if isinstance(question, CountQuestion) and self.friends is not None:
            count_key, noise_key = random.split(key)
            groups = jnp.asarray(question.groups)
            counts = _drawn_counts(count_key, self.friends, groups, num_groups=question.num_groups)
            values = np.asarray(question.mechanism.add_noise(noise_key, counts))
        elif (
            isinstance(question, BothQuestion)
            and self.scores is not None
            and self.lists is not None
        ):
            values = question.reports(key, self.scores, *self.lists)
        elif isinstance(question, ClassQuestion) and self.scores is not None:
            values = question.reports(key, self.scores)
        else:
            raise TypeError(f"nothing is drawn that answers a {type(question).__name__}")
        return Answers(blanked(values, asked), asked)


@pytree
class _LikeFeatures:
    """Noise that users of like features share.

    Averages over users by the products of their centred rows.
    """

    rows: RowTables | DenseRows
    mean: Array  # of the rows, [d]
    spread: Array  # the standard deviation of a user's noise, [n, 1]

    @classmethod
    def of(cls, key: PRNGKey, rows: Rows | DenseRows) -> "_LikeFeatures":
        laid = laid_out(rows)
        n = rows.shape[0]
        mean = laid.transposed(jnp.ones((laid.shape[0], 1), jnp.float32))[:, 0] / n
        bare = cls(laid, mean, jnp.ones((n, 1), jnp.float32))
        made = _shared_noise(bare, random.normal(key, (n, _COLUMNS)))
        return cls(laid, mean, jnp.sqrt((made**2).mean(1, keepdims=True) + 1e-12))


@jax.jit
def _shared_noise(alike: _LikeFeatures, noise: Array) -> Array:
    n = len(noise)
    padded = jnp.pad(noise - noise.mean(0), ((0, alike.rows.shape[0] - n), (0, 0)))
    weights = alike.rows.transposed(padded)
    return (alike.rows.times(weights)[:n] - matmul(alike.mean, weights)) / alike.spread


@jax.jit
def _alike_classes(
    key: PRNGKey, alike: _LikeFeatures, log_q: Array, labels: Array, share: Scalar
) -> Array:
    """Classes of which each follows its q; a ``share`` of their noise is common to like users.

    Labels are kept.
    """
    shared_key, own_key = random.split(key)
    field = jnp.sqrt(share) * _shared_noise(alike, random.normal(shared_key, log_q.shape))
    field = field + jnp.sqrt(1.0 - share) * random.normal(own_key, log_q.shape)
    found = (log_q - jnp.log(-log_ndtr(field))).argmax(1)
    return jnp.where(labels >= 0, labels, found).astype(jnp.int32)


@jax.jit
def _drawn_classes(key: PRNGKey, log_q: Array, labels: Array) -> Array:
    return jnp.where(labels >= 0, labels, random.categorical(key, log_q))


@jax.jit
def _drawn_users(
    key: PRNGKey, y: Array, log_q: Array, stated: tuple[Array, Array, Array], misled: Array
) -> _Users:
    """Log-normal expected degrees, and friends of whom a share, the overlap, of the alike ones follows q.

    ``misled`` are overlap and echo.
    """
    (mean_degree, homophily, spread), (overlap, echo) = stated, misled
    variance = jnp.log1p(spread**2)  # of the logarithm
    rate = mean_degree * jnp.exp(jnp.sqrt(variance) * random.normal(key, y.shape) - 0.5 * variance)
    of_class = jax.nn.one_hot(y, log_q.shape[1], dtype=jnp.float32)
    # As many friends are of the own class as was stated; where q is often wrong, q has less of a
    # share.
    right = (jnp.exp(log_q) * of_class).sum(1).mean()
    chance = (of_class.mean(0) ** 2).sum()
    beyond = 1.0 - (right - chance) / (1.0 - chance)
    overlap = jnp.minimum(overlap, (1.0 - homophily) / jnp.maximum(beyond, 1e-3))
    alike = (1.0 - overlap) * of_class + overlap * jnp.exp(log_q)
    share = homophily / jnp.maximum(1.0 - overlap * beyond, homophily)
    return _Users(of_class, log_q.argmax(1), alike, rate, share, echo)


@partial(jax.jit, static_argnames="num_groups")
def _drawn_counts(key: PRNGKey, users: _Users, groups: Array, *, num_groups: int) -> Array:
    """Neighbours by group, int32 [n, K]: a share of them alike, the rest of anybody's class.

    Poisson.
    """
    size = users.of_class.sum(0)
    classes = users.of_class.shape[1]
    of_group = jax.nn.one_hot(groups, num_groups, dtype=jnp.float32)
    shares = matmul(users.of_class.T, of_group) / jnp.maximum(size, 1.0)[:, None]  # of a class
    friends = users.homophily * users.alike + (1.0 - users.homophily) * size / len(groups)
    # Of friends of the own class, the echo have groups as those have of whom features say the same.
    y = users.of_class.argmax(1)
    like = y * classes + users.said
    each = jnp.pad(of_group, ((0, 0), (0, 1)), constant_values=1.0).astype(jnp.int32)
    found = jax.ops.segment_sum(each, like, classes**2)[like]
    own = users.echo * (friends * users.of_class).sum(1, keepdims=True)
    expected = matmul(friends, shares) + own * (found[:, :-1] / found[:, -1:] - shares[y])
    return jax.random.poisson(
        key, users.rate[:, None] * jnp.maximum(expected, 0.0), dtype=jnp.int32
    )


@partial(jax.jit, static_argnames="entries")
def _drawn_lists(key: PRNGKey, users: _Users, y: Array, entries: int) -> tuple[Array, Array]:
    """Owners of entries by rate, and their friends, a share alike and the rest anybody.

    Int32 [entries] each.
    """
    owner_key, alike_key, friend_key = random.split(key, 3)
    ends = users.rate.cumsum()
    size = users.of_class.sum(0).astype(jnp.int32)
    owners = jnp.searchsorted(ends, random.uniform(owner_key, (entries,)) * ends[-1])
    mine = y[jnp.minimum(owners, len(y) - 1)]
    alike = random.uniform(alike_key, (entries,)) < users.homophily
    first, count = (
        jnp.where(alike, (size.cumsum() - size)[mine], 0),
        jnp.where(alike, size[mine], len(y)),
    )
    return jnp.minimum(owners, len(y) - 1), jnp.argsort(y)[first + _below(friend_key, count)]


# --- Links ----------------------------------------------------------------------------------------


@pytree
class _Pilot:
    """What worlds take of it.

    Of users their groups [n], and those by which they get lists (``like`` [n]). Of members their
    group [m], counts [m, K] and the first place [m] of their entries. Of entries the friend's group
    and the score of one class.
    """

    groups: Array
    like: Array
    of_member: Array
    counts: Array
    start: Array
    of_friend: Array
    alike: Array

    @classmethod
    def of(cls, facts: LinkFacts) -> "_Pilot":
        groups = facts.groups
        pilot = np.asarray(facts.pilot)
        friends = np.asarray(facts.friends)
        n, num_groups = np.shape(facts.log_q)
        place = np.full(n, len(pilot))
        place[pilot] = np.arange(len(pilot))
        order = np.argsort(place[friends[:, 0]], kind="stable")
        member, friend = place[friends[order, 0]], friends[order, 1]
        counts = np.zeros((len(pilot), num_groups), np.int32)
        np.add.at(counts, (member, groups[friend]), 1)
        size = np.bincount(groups[pilot], minlength=num_groups)
        like = np.where(size[groups] > 0, groups, size.argmax()).astype(np.int32)
        start = np.searchsorted(member, np.arange(len(pilot)))
        alike = facts.same_class(friends[order])
        made = groups, like, groups[pilot], counts, start, groups[friend], alike.astype(np.float32)
        return cls(*map(jnp.asarray, made))


def _of_links(
    key: PRNGKey,
    facts: LinkFacts,
    epsilons: tuple[float, ...],
    worlds: int,
    progress: Progress | None,
) -> Rehearsal:
    facts = _checked_pilot(facts)
    n, num_groups = np.shape(facts.log_q)
    nobody = np.zeros(n, np.int32)
    of_pilot = _Pilot.of(facts)
    size = min(math.ceil(_HELD_OUT * len(facts.friends) / len(facts.pilot) * n / 2), _MOST_LINKS)
    auc, alone = [], []
    with watched("rehearse", progress):
        for world in _phases(worlds):
            draw_key, other_key, report_key = random.split(random.fold_in(key, world), 3)
            counts, linked, alike = _drawn_links(draw_key, of_pilot, size=size)
            others = np.asarray(random.randint(other_key, (size, 2), 0, n))
            alike = jnp.concatenate([alike, jnp.asarray(facts.same_class(others), jnp.float32)])
            pairs = np.concatenate([np.asarray(linked), others])
            found = []
            for place, epsilon in enumerate(epsilons):
                degree_key, count_key = random.split(random.fold_in(report_key, place))
                # As NoisyDegree sends it: clipped.
                degree = NeighbourCounts(epsilon, 1).add_noise(
                    degree_key, counts.sum(1, keepdims=True)
                )
                degree = jnp.clip(degree, 0, n - 1)
                reports = NeighbourCounts(epsilon, num_groups).add_noise(count_key, counts)
                scores = (
                    link_scores(degree, nobody, pairs, epsilon),
                    link_scores(reports, facts.groups, pairs, epsilon),
                )
                found.append(
                    [_percent(one + more, size) for one in scores for more in (0.0, alike)]
                )
            auc.append(found)
            alone.append(_percent(alike, size))
    auc = np.array(auc)
    each = auc.reshape(*auc.shape[:2], 2, 2)  # by degrees and by counts
    best = np.take_along_axis(each, each.mean(0).argmax(2)[None, ..., None], 3)[..., 0]
    gains = best[..., 1] - best[..., 0]
    return Rehearsal(epsilons, gains, np.array(alone), "links", n, len(facts.pilot), auc=auc)


def _percent(scores: Array, size: int) -> float:
    return 100.0 * float(metrics.auc(scores[:size], scores[size:]))


def _checked_pilot(facts: LinkFacts) -> LinkFacts:
    """The facts with labels as whole numbers; what does not fit is refused."""
    log_q = np.asarray(facts.log_q)
    labels = validate.labels(facts.labels)
    pilot = np.asarray(facts.pilot)
    check_posterior(log_q)
    n = len(log_q)
    check_labels(labels, log_q.shape[1])
    if len(labels) != n:
        raise ValueError(f"labels must be of the {n} users of log_q, got {len(labels)}")
    validate.ids(n, "the users", pilot=pilot)
    if not len(friends := validate.pairs(n, "the users", friends=facts.friends)):
        raise ValueError("friends must be entries of lists, one at least")
    if len(np.unique(pilot)) < len(pilot) or not np.isin(friends[:, 0], pilot).all():
        raise ValueError(
            "pilot must name each member once, and friends must be of their lists alone"
        )
    if len(np.unique(friends, axis=0)) < len(friends) or (friends[:, 0] == friends[:, 1]).any():
        raise ValueError("friends must name each entry once, and nobody as their own friend")
    return LinkFacts(log_q, labels, pilot, friends)


@partial(jax.jit, static_argnames="size")
def _drawn_links(key: PRNGKey, pilot: _Pilot, *, size: int) -> tuple[Array, Array, Array]:
    """Counts by group int32 [n, K], and links that are in none of them.

    Ends [size, 2], and scores of one class.

    One end is an entry of a list. The other is of the group that the list names, by their entries
    of the first end's group: links between two groups are stubs that are matched at random.
    """
    donor_key, owner_key, entry_key, friend_key, rest_key = random.split(key, 5)
    groups = pilot.groups
    n, num_groups = (len(pilot.groups), pilot.counts.shape[1])
    even = jnp.zeros((n, num_groups), jnp.float32)
    donor = donors(
        donor_key, pilot.like, even, pilot.of_member, even[: len(pilot.of_member)], np.float32(1.0)
    )
    counts = pilot.counts[donor]
    degree = counts.sum(1)
    ends = degree.cumsum()
    one = jnp.searchsorted(
        ends, _below(owner_key, jnp.broadcast_to(ends[-1], (size,))), side="right"
    )
    one = jnp.minimum(one, n - 1)
    entry = jnp.minimum(
        pilot.start[donor[one]] + _below(entry_key, degree[one]), len(pilot.alike) - 1
    )
    of_one, of_other = groups[one], pilot.of_friend[entry]
    order = jnp.argsort(groups)
    people = (groups[:, None] == jnp.arange(num_groups)).sum(0)
    first = people.cumsum() - people
    # Stubs of all users, first by the group that they go to, then by the owner's.
    stubs = jnp.concatenate([jnp.zeros(1, jnp.int32), counts[order].T.ravel().cumsum()])
    row = of_one * n + first[of_other]
    low, high = stubs[row], stubs[row + people[of_other]]
    matched = (
        jnp.searchsorted(stubs, low + _below(friend_key, high - low), side="right") - 1 - of_one * n
    )
    anybody = first[of_other] + _below(rest_key, people[of_other])
    other = order[jnp.clip(jnp.where(high > low, matched, anybody), 0, n - 1)]
    left = counts.at[one, of_other].add(-1).at[other, of_one].add(-1)
    return jnp.maximum(left, 0), jnp.stack([one, other], 1), pilot.alike[entry]


def homophily(pairs: ArrayLike, labels: Int[np.ndarray, " n"]) -> float:
    r"""How far friends are alike, beyond chance: :math:`(s - s_0) / (1 - s_0)`, at least 0.

    s is the share of pairs whose ends have one label, :math:`s_0` what random pairs of these ends
    would have. ``pairs`` [pairs, 2] are public friendships, such as those of labelled users who
    consent; those with an end that has no label (-1) are left out. A handful of pairs says little.
    ``ValueError`` for pairs of another shape (an ``edge_index`` is [2, pairs]: give its transpose),
    a node outside [0, n), a user paired with themselves, or no pair with two labels.

    >>> homophily([[0, 1], [2, 3], [1, 2]], np.array([0, 0, 1, 1]))
    0.333...
    """
    labels = validate.node_labels(labels)
    ends = labels[_labelled_pairs(pairs, labels)]
    return _beyond_chance(ends, np.zeros(len(ends), np.int64))


def echo(
    pairs: ArrayLike, labels: Int[np.ndarray, " n"], log_q: Float[np.ndarray | Array, "n classes"]
) -> float:
    """How far features take friends of one class for the same class, right or wrong, beyond chance.

    In [0, 1].

    That is :func:`homophily` of the likeliest classes by features, among pairs of one class.
    Arguments and errors are as of :func:`overlap`; 0 where no pair is of one class.

    >>> y, seen = np.zeros(4, int), np.log([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.1, 0.9]])
    >>> echo([[0, 1], [2, 3]], y, seen), echo([[0, 2], [1, 3]], y, seen)
    (1.0, 0.0)
    """
    labels, ends = _known_pairs(pairs, labels, log_q)
    same = ends[labels[ends[:, 0]] == labels[ends[:, 1]]]
    return (
        _beyond_chance(np.asarray(log_q).argmax(1)[same], labels[same[:, 0]]) if len(same) else 0.0
    )


def _beyond_chance(ends: Int[np.ndarray, "pairs two"], part: Int[np.ndarray, " pairs"]) -> float:
    """How far both ends of pairs have one class, beyond what random pairs of the ends of each part would have."""
    table = np.zeros((part.max() + 1, ends.max() + 1))
    np.add.at(table, (part[:, None], ends), 1.0)
    shares = table[part] / table[part].sum(1, keepdims=True)
    chance, alike = float((shares**2).sum(1).mean()), float((ends[:, 0] == ends[:, 1]).mean())
    return max(0.0, (alike - chance) / (1.0 - chance)) if chance < 1.0 else 0.0


def overlap(
    pairs: ArrayLike, labels: Int[np.ndarray, " n"], log_q: Float[np.ndarray | Array, "n classes"]
) -> float:
    r"""How much of homophily features say already: :math:`b / (a + b)` in [0, 1].

    The class of a friend is regressed on the own class (a) and on the posterior q of it by features
    (b): friends of users whose features mislead may be of the class that features say. ``pairs``,
    ``labels`` and errors are as of :func:`homophily`; ``log_q`` [n, C] must not have seen the own
    label. ``ValueError`` where it is none.

    >>> y, seen = np.array([0, 0, 1, 1]), np.log([[0.9, 0.1], [0.1, 0.9], [0.1, 0.9], [0.9, 0.1]])
    >>> overlap([[0, 1], [2, 3]], y, seen), overlap([[0, 3], [1, 2]], y, seen)
    (0.0, 1.0)
    """
    labels, ends = _known_pairs(pairs, labels, log_q)
    ends = np.concatenate([ends, ends[:, ::-1]])
    of_class = np.eye(np.shape(log_q)[1])[np.maximum(labels, 0)]
    mean = of_class[ends].mean((0, 1))
    own, friend = (of_class[side] - mean for side in ends.T)
    known = np.stack([own.ravel(), (np.exp(log_q)[ends[:, 0]] - mean).ravel()], 1)
    a, b = np.maximum(np.linalg.lstsq(known, friend.ravel(), rcond=None)[0], 0.0)
    return float(b / (a + b)) if a + b > 0 else 0.0


def _known_pairs(
    pairs: ArrayLike, labels: ArrayLike, log_q: np.ndarray | Array
) -> tuple[np.ndarray, np.ndarray]:
    labels = validate.node_labels(labels)
    ends = _labelled_pairs(pairs, labels)
    if np.ndim(log_q) != 2 or len(log_q) != len(labels) or np.max(labels) >= np.shape(log_q)[1]:
        raise ValueError(
            f"log_q must have a row for each of {len(labels)} users and a column for each class"
        )
    check_posterior(np.asarray(log_q))
    return labels, ends


def _labelled_pairs(
    pairs: ArrayLike, labels: Int[np.ndarray, " n"]
) -> Int[np.ndarray, "pairs two"]:
    pairs = validate.pairs(len(labels), "the nodes", pairs=pairs)
    if (pairs[:, 0] == pairs[:, 1]).any():
        raise ValueError("pairs must join two users, and one joins a user with themselves")
    pairs = pairs[(labels[pairs] >= 0).all(-1)]
    if not len(pairs):
        raise ValueError(
            "pairs must hold one of two labelled users, got none: state a guess of the homophily"
        )
    return pairs
