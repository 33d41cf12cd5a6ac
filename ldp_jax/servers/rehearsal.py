r"""Rehearse before you collect.

Worlds of simulated users are drawn from public facts, and the server is run on each. Devices
report and the server reads as they would. Its classes are counted right or wrong, beside those
without any report. No user is asked, and no budget is spent. The worlds are those of
:mod:`~ldp_jax.servers.worlds.records`, :mod:`~ldp_jax.servers.worlds.lists`,
:mod:`~ldp_jax.servers.worlds.both`, :mod:`~ldp_jax.servers.worlds.links`, and of any other protocol
:class:`~ldp_jax.servers.worlds.stated.StatedUsers` or a class of one's own with their ``draw``.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.stats
from jaxtyping import Float
from typing_extensions import TypeAliasType

from ldp_jax.accounting.guarantee import RELATIONSHIP
from ldp_jax.core import random, validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.progress import Progress, phase, watched
from ldp_jax.core.types import PRNGKey
from ldp_jax.servers.driver import Server, simulate
from ldp_jax.servers.facts.counts import CountFacts
from ldp_jax.servers.facts.joint import JointFacts
from ldp_jax.servers.facts.panel import PanelFacts
from ldp_jax.servers.joint_privacy import JointPrivacy
from ldp_jax.servers.links import LinkFacts
from ldp_jax.servers.worlds.both import JointWorlds
from ldp_jax.servers.worlds.friends import StatedFriends as StatedFriends
from ldp_jax.servers.worlds.friends import echo as echo
from ldp_jax.servers.worlds.friends import homophily as homophily
from ldp_jax.servers.worlds.friends import overlap as overlap
from ldp_jax.servers.worlds.links import SCORES, LinkWorlds
from ldp_jax.servers.worlds.lists import ListWorlds
from ldp_jax.servers.worlds.records import OwnGain as OwnGain
from ldp_jax.servers.worlds.records import RecordWorlds
from ldp_jax.servers.worlds.world import Worlds

EPSILONS = (0.5, 1.0, 2.0, 4.0)
"""The epsilons to try. :attr:`Rehearsal.needed` is the smallest one worth asking for."""

WORLDS = 10
"""Fewer give intervals that are too narrow."""

LEAST_POINTS, LEAST_CHANCE = 0.5, 0.6
"""Below this mean gain, or this probability of a gain above 0, nothing should be collected. The
probability was chosen on citeseer, cora, blogcatalog and debian, as the coupling was.
"""

MODEL_ERROR, MODEL_SHARE = 1.25, 0.6
"""Standard deviation of the error that all worlds share: in points, and as a share of a gain of
which much is left. Both were chosen on named graphs.
"""

LISTS_BRING, LISTS_SHARE = 0.75, 0.5
"""Of lists, the part of the worlds' gain that is foretold, and their :data:`MODEL_SHARE`.

Worlds draw the friends of one user independently, and gain more than came on most named graphs.
Both were chosen on these, without facebook100_simmons81 and facebook100_princeton12.
"""

LEAST_LABELS = 50
"""Public labels that a verdict takes."""

_FROM_FACTS = (RecordWorlds, ListWorlds, JointWorlds, LinkWorlds)


Facts = TypeAliasType("Facts", PanelFacts | CountFacts | JointFacts | LinkFacts)
"""What is public of records, lists, both or links."""


class Foreseen(NamedTuple):
    """The forecast for one epsilon.

    Points over no report, the 95 % interval of one collection, and P(gain > 0).
    """

    points: float
    low: float
    high: float
    chance: float

    @classmethod
    def of(
        cls, points: float, spread: float, worlds: int, left: float, share: float = MODEL_SHARE
    ) -> "Foreseen":
        """The forecast by so many worlds.

        The error that all simulations share grows with the gain, unless little is left to gain.

        Args:
          points: their mean gain.
          spread: standard deviation of their gains, in points.
          worlds: how many, at least 2.
          left: points that there are to gain, below which the interval stays.
          share: the error that all worlds share, of a gain of which much is left.

        >>> few = Foreseen.of(8.0, spread=1.0, worlds=10, left=10.0)
        >>> [round(end, 1) for end in (few.low, few.high)]
        [4.2, 10.0]
        """
        of_worlds = spread * math.sqrt(1 + 1 / worlds)
        signal = 0.0
        if left > 0.0:
            signal = abs(points) * min(max(1.0 - points / left, 0.0), 1.0)
        error = math.hypot(of_worlds, MODEL_ERROR, share * signal)
        # Welch and Satterthwaite: the error that all share is known, the spread is estimated.
        freedom = (worlds - 1) * (error / max(of_worlds, 1e-9)) ** 4
        half = float(scipy.stats.t.ppf(0.975, freedom)) * error
        chance = float(scipy.stats.t.cdf(points / error, freedom))
        return cls(points, points - half, max(min(points + half, left), points), chance)

    def worth(self, labels: int | None) -> bool:
        """Whether to ask for reports, beside so many public labels; None where none are needed."""
        told = labels is None or labels >= LEAST_LABELS
        return told and self.points >= LEAST_POINTS and self.chance >= LEAST_CHANCE


class Rehearsal(NamedTuple):
    """The results of the worlds; prints as a verdict and a table.

    Attributes:
      epsilons: ascending.
      gains: float64 [worlds, epsilons], points of accuracy on private users over no report. The
        forecast for lists is ``LISTS_BRING`` of them. For links, points of AUC by counts over
        released degrees, each by the better of two of :data:`SCORES`.
      without: float64 [worlds], accuracy without any report, in percent; of links, the AUC of one
        class alone.
      message: ``records``, ``lists``, ``records and lists`` or ``links``.
      users: how many would report.
      labels: how many are public; of links, how many lists; None where none are needed.
      friends: what was stated, of lists.
      splits: of records and lists, the best split of each total or one report of both, to which the
        gains belong; else empty. It is chosen on the same worlds, so that the gains of close ones
        are a little too high.
      auc: of links, float64 [worlds, epsilons, 4], in percent, of each of :data:`SCORES`.
      own: of records, what one's own report adds to one's own decision, and what any report of the
        same epsilon could add; else empty. A gain beyond it comes from others' reports.
    """

    epsilons: tuple[float, ...]
    gains: Float[np.ndarray, "worlds epsilons"]
    without: Float[np.ndarray, " worlds"]
    message: str
    users: int
    labels: int | None
    friends: StatedFriends | None = None
    splits: tuple[JointPrivacy, ...] = ()
    auc: Float[np.ndarray, "worlds epsilons scores"] | None = None
    own: tuple[OwnGain, ...] = ()

    def foreseen(self, epsilon: float) -> Foreseen:
        """The forecast for one of :attr:`epsilons`."""
        left = 100.0 - self.base(epsilon)
        gains = self.gains[:, self.epsilons.index(epsilon)]
        share = MODEL_SHARE
        if self.message == "lists":
            gains = LISTS_BRING * gains
            share = LISTS_SHARE
        return Foreseen.of(float(gains.mean()), float(gains.std(ddof=1)), len(gains), left, share)

    def base(self, epsilon: float) -> float:
        """The baseline of gains, in percent: accuracy without reports, or the AUC by degrees."""
        rule = f"epsilon must be one that was rehearsed, {self.epsilons}"
        validate.require(epsilon in self.epsilons, rule, epsilon)
        if self.auc is None:
            return float(self.without.mean())
        return float(self.auc[:, self.epsilons.index(epsilon), :2].mean(0).max())

    def collect(self, epsilon: float) -> bool:
        """Whether to ask for reports of this epsilon."""
        return self.foreseen(epsilon).worth(self.labels)

    @property
    def needed(self) -> float | None:
        """The least epsilon that is worth asking for; None where there is none."""
        return next((one for one in self.epsilons if self.collect(one)), None)

    def __str__(self) -> str:
        # The advice.
        known = "public labels" if self.auc is None else "public lists"
        yes = "collect" if self.auc is None else "ask for counts"
        no = "do not collect" if self.auc is None else "ask for degrees"
        told = self.foreseen(self.needed or self.epsilons[-1])
        expected = f"{told.points:.1f} points are expected ({told.low:.1f} to {told.high:.1f})"
        if self.labels is not None and self.labels < LEAST_LABELS:
            verdict = f"cannot tell: {self.labels} {known}, and it takes {LEAST_LABELS}"
        elif self.needed is None:
            verdict = f"{no}: at epsilon {self.epsilons[-1]:g} {expected}"
        else:
            verdict = f"{yes}, at epsilon {self.needed:g} or more: {expected}"

        # How much was simulated, and how right one is without reports.
        message = self.message if self.auc is None else "lists"
        drawn = f"{self.users} {message}"
        if self.labels is not None:
            drawn += f" beside {self.labels} {known}"
        drawn += f", {len(self.gains)} worlds"
        if self.friends is not None:
            degree, alike = self.friends.mean_degree, self.friends.homophily
            drawn += f", of {degree:g} friends and homophily {alike:g} as stated, public"
        without = f"without any report {self.without.mean():.1f} % are right"
        if self.auc is not None:
            without = f"by public classes the AUC is {self.without.mean():.1f} %"

        heading = "epsilon   points   95 % interval    P(gain > 0)"
        rows = (self._row(place) for place in range(len(self.epsilons)))
        return "\n".join([verdict, drawn, without, heading, *rows])

    def _row(self, place: int) -> str:
        told = self.foreseen(self.epsilons[place])
        interval = f"{told.low:+.1f} to {told.high:+.1f}"
        best = ""
        if self.splits:
            privacy = self.splits[place]
            best = "one report of both" if privacy.both else f"{privacy.record:g} a record"
        if self.auc is not None:
            best = SCORES[int(self.auc[:, place].mean(0).argmax())]
        if self.own:
            points, limit, error = self.own[place]
            best = f"{points:+.1f} by the own report, of at most {limit:+.1f} +- {error:.1f}"
        start = f"{self.epsilons[place]:7g}   {told.points:+6.1f}   {interval:>14}   "
        return f"{start}{told.chance:11.2f}   {best}".rstrip()


@implicit_promotion()
def rehearse(
    key: PRNGKey,
    public: "Facts | Server | Sequence[Server]",
    epsilons: Sequence[float] | None = None,
    *,
    friends: StatedFriends | None = None,
    drawn: Worlds | None = None,
    worlds: int = WORLDS,
    progress: Progress | None = None,
) -> Rehearsal:
    """Say what reports will bring, before anybody reports. Costs no budget and asks nobody.

    To collect is recommended where the mean gain is at least 0.5 points and P(gain > 0) is at least
    0.6, beside at least 50 public labels. To find links, counts are held against released degrees,
    and it takes 50 public lists. The experiments hold verdicts against what came
    (``frontier_features.md``, ``frontier_edges.md``, ``frontier_joint.md``,
    ``frontier_beyond.md``): of lists, large gains are some points off.

    Args:
      key: of public randomness.
      public: of records, what :func:`~ldp_jax.servers.panel_facts` found, with true labels; of
        lists, what :func:`~ldp_jax.servers.facts.counts.count_facts` found; of both, what
        :func:`~ldp_jax.servers.facts.joint.joint_facts` found; of links, classes and the lists of a
        pilot, whose members are drawn at random. Or a server of one's own, or several that differ
        in epsilon, whose result is classes [n] or has ``log_posterior``.
      epsilons: of a report of a record, in (0, 20]; of a bit of a list, in [0.001, 40]; of both a
        total in (0, 20], whose best split is found (:attr:`Rehearsal.splits`, for
        ``predict_jointly``). By default 0.5, 1, 2 and 4. Servers of one's own have their own.
      friends: of lists: what is stated of them. It is assumed, not found: state the least that is
        believed.
      drawn: who draws users for servers of one's own, such as
        :class:`~ldp_jax.servers.worlds.stated.StatedUsers`; None for facts.
      worlds: how many are drawn, at least 2.
      progress: told of each phase (:data:`ldp_jax.core.progress.Progress`).

    ``ValueError`` for private labels, an epsilon out of range, friends where there are none to be
    stated, or a pilot whose lists are of others or empty.

    >>> import jax
    >>> from ldp_jax import datasets
    >>> from ldp_jax.servers.facts.counts import count_facts
    >>> data = datasets.synthetic(
    ...     jax.random.key(0),
    ...     num_nodes=300,
    ...     num_classes=3,
    ...     num_features=30,
    ...     mean_degree=8,
    ...     homophily=0.8,
    ... )
    >>> labels = np.where(np.arange(300) < 100, data.y, -1)
    >>> public = count_facts(jax.random.key(2), None, labels, num_classes=3)
    >>> stated = StatedFriends(8, 0.8)
    >>> found = rehearse(
    ...     jax.random.key(1), public, (2.0,), friends=stated, worlds=2
    ... )
    >>> found.collect(2.0), str(found).split(":")[0]
    (True, 'collect, at epsilon 2 or more')
    """
    validate.host_key(key, "rehearse")
    worlds = validate.whole(2, worlds=worlds)
    if drawn is not None:
        rule = "epsilons and friends must be None where users are drawn for servers of one's own"
        validate.require(epsilons is None and friends is None, rule)
        return _of_servers(key, public, drawn, worlds, progress)
    kind: Any = next((one for one in _FROM_FACTS if isinstance(public, one.OF)), None)
    if kind is None:  # the values of what was given may be private
        raise ValueError(
            "public must be of panel_facts, joint_facts, count_facts or LinkFacts, or servers "
            f"whose users are drawn=StatedUsers(...), got {type(public).__name__}: "
            "docs/choosing.md has an example"
        )
    low, high = kind.RANGE
    epsilons = EPSILONS if epsilons is None else epsilons
    each = list(epsilons) if np.iterable(epsilons) else [epsilons]
    each = {validate.number(low, high, open_lower=low == 0.0, epsilons=one) for one in each}
    validate.require(each, "epsilons must name one at least")
    asked = tuple(sorted(each))
    if kind.STATED:
        rule = "friends must be stated of lists: servers.StatedFriends(mean_degree, homophily)"
        validate.require(isinstance(friends, StatedFriends), rule)
    else:
        rule = f"friends must be None of {kind.MESSAGE}, whose public facts show them"
        validate.require(friends is None, rule)
    facts: Any = public  # of the kind that was found
    keep = getattr(getattr(facts, "known", None), "keep", 1.0)
    validate.require(keep == 1.0, f"public must have true labels, got keep = {keep:g}")
    judged = validate.labels(facts.labels) < 0
    users = int(judged.sum())
    labels = len(judged) - users
    own: tuple[OwnGain, ...] = ()
    with watched("rehearse", progress):
        phase("what is public", 0.0)
        given = (facts, friends) if kind.STATED else (facts,)
        draws, key = kind.of(key, *given)
        if isinstance(draws, LinkWorlds):
            auc, alone = draws.found(key, asked, _phases(worlds))
            sizes = (len(judged), len(facts.pilot))
            return Rehearsal(asked, draws.gains(auc), alone, kind.MESSAGE, *sizes, auc=auc)
        tried = draws.servers(asked)
        servers = [server for some in tried for server in some]
        if isinstance(draws, RecordWorlds):
            own = draws.own(random.fold_in(key, worlds), servers)
        right = _right(key, servers, draws, worlds)
    gains, best = _best(right[:, 1:] - right[:, :1], tried)
    splits = tuple(one.privacy for one in best) if isinstance(draws, JointWorlds) else ()
    without = right[:, 0]
    return Rehearsal(asked, gains, without, kind.MESSAGE, users, labels, friends, splits, own=own)


def _of_servers(
    key: PRNGKey, servers: Any, drawn: Worlds, worlds: int, progress: Progress | None
) -> Rehearsal:
    """The rehearsal of servers of one's own."""
    servers = list(servers) if isinstance(servers, Sequence) else [servers]
    for one in servers:
        is_server = isinstance(one, Server)
        rule = f"public must be servers where users are drawn, got {type(one).__name__}"
        validate.require(is_server, rule)
    rule = f"drawn must have draw(key, number), got {type(drawn).__name__}"
    validate.require(isinstance(drawn, Worlds), rule)

    def most(server: Server) -> float:
        """The epsilon that it asks of one user, in any unit but relationships."""
        stated = server.statement().guarantee()
        return max(one.epsilon for unit, one in stated.items() if unit != RELATIONSHIP)

    servers.sort(key=most)
    asked = tuple(map(most, servers))
    rule = (
        "servers must differ in epsilon, by which their rows are found: rehearse equal ones apart"
    )
    validate.require(len(set(asked)) == len(asked), rule)
    with watched("rehearse", progress):
        right = _right(key, servers, drawn, worlds)
    world = drawn.draw(random.fold_in(key, 0), 0)
    users = int(world.judged.sum())
    without = right[:, 0]
    gains = right[:, 1:] - right[:, :1]
    return Rehearsal(asked, gains, without, "users", users, None)


def _right(
    key: PRNGKey, servers: Sequence[Server], draws: Worlds, worlds: int
) -> Float[np.ndarray, "worlds servers"]:
    """Percent of the judged users whose class is right: without any report, and by each server."""
    found = []
    for number in _phases(worlds):
        world = draws.draw(random.fold_in(key, number), number)
        truth = np.asarray(world.classes)
        values = [world.without]
        for place, server in enumerate(servers):
            run_key = random.again(world.key)
            if not world.one_noise:
                run_key = random.fold_in(run_key, place)
            values.append(simulate(run_key, server, world.users).value)
        right = []
        for value in values:
            classes = np.asarray(getattr(value, "log_posterior", value))
            if classes.ndim == 2:
                classes = classes.argmax(1)
            n = len(truth)
            rule = f"a server's result must be classes [{n}] or have log_posterior [{n}, C]"
            fits = classes.shape == truth.shape
            validate.require(fits, f"{rule}, got a {type(value).__name__}")
            right.append(100.0 * (classes == truth)[world.judged].mean())
        found.append(right)
    return np.array(found)


def _phases(worlds: int) -> Iterator[int]:
    for world in range(worlds):
        over, until = 0.1 + 0.9 * np.array([world, world + 1]) / worlds
        phase(f"world {world + 1} of {worlds}", over, until)
        with watched("server"):
            yield world


def _best(
    gains: Float[np.ndarray, "worlds tried"], tried: Sequence[Sequence[Any]]
) -> tuple[Float[np.ndarray, "worlds epsilons"], list[Any]]:
    """The alternative of each epsilon with the largest mean gain, the first of equals."""
    best = []
    chosen = []
    start = 0
    for some in tried:
        place = int(gains[:, start : start + len(some)].mean(0).argmax())
        best.append(start + place)
        chosen.append(some[place])
        start += len(some)
    return gains[:, best], chosen
