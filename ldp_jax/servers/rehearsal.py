r"""Rehearse before you collect.

Worlds of simulated users are drawn from public facts, and the server is run on each. Devices
report and the server reads as they would. Its classes are counted right or wrong, beside those
without any report. Nobody is asked, and no budget is spent. The worlds are those of
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
from ldp_jax.core.whole_noise import MAX_EPSILON, MIN_EPSILON
from ldp_jax.servers.counts import CountServer
from ldp_jax.servers.driver import Server, simulate
from ldp_jax.servers.facts.counts import CountFacts
from ldp_jax.servers.facts.joint import JointFacts
from ldp_jax.servers.facts.panel import PanelFacts
from ldp_jax.servers.joint import JointPrivacy
from ldp_jax.servers.links import LinkFacts
from ldp_jax.servers.parts.panel import MOST_EPSILON
from ldp_jax.servers.reports import ReportServer
from ldp_jax.servers.worlds.both import JointWorlds, splits
from ldp_jax.servers.worlds.friends import StatedFriends as StatedFriends
from ldp_jax.servers.worlds.links import SCORES, found_links
from ldp_jax.servers.worlds.lists import ListWorlds
from ldp_jax.servers.worlds.measures import echo as echo
from ldp_jax.servers.worlds.measures import homophily as homophily
from ldp_jax.servers.worlds.measures import overlap as overlap
from ldp_jax.servers.worlds.own_report import OwnGain as OwnGain
from ldp_jax.servers.worlds.own_report import ReportSample
from ldp_jax.servers.worlds.records import RecordWorlds
from ldp_jax.servers.worlds.world import World, Worlds

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

Friends of one user are of one circle more often than worlds draw them, and tell less. Both were
chosen on named graphs, without facebook100_simmons81 and facebook100_princeton12.
"""

LEAST_LABELS = 50
"""Public labels that a verdict takes."""

_RECORDS = 40  # of the panel, of which the gain by one's own report is the mean

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

        What all worlds get wrong alike grows with the gain, and not where little is left to gain.

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
        signal = abs(points) * min(max(1.0 - points / left, 0.0), 1.0) if left > 0.0 else 0.0
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
      gains: float64 [worlds, epsilons], points of accuracy on private users over no report. What
        is foretold of lists is :data:`LISTS_BRING` of them. Of links, points of AUC by counts over
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
        same epsilon could add; else empty. What is gained beyond it comes from others' reports.
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
        """What gains are over, in percent: accuracy without reports; of links, AUC by degrees."""
        if epsilon not in self.epsilons:
            raise ValueError(
                f"epsilon must be one that was rehearsed, {self.epsilons}, got {epsilon!r}"
            )
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
        heading = "epsilon   points   95 % interval    P(gain > 0)"
        rows = (self._row(place) for place in range(len(self.epsilons)))
        return "\n".join([self._verdict(), *self._beside(), heading, *rows])

    def _verdict(self) -> str:
        if self.labels is not None and self.labels < LEAST_LABELS:
            return f"cannot tell: {self.labels} {self._known()}, and it takes {LEAST_LABELS}"
        yes = "collect" if self.auc is None else "ask for counts"
        no = "do not collect" if self.auc is None else "ask for degrees"
        if self.needed is None:
            return f"{no}: at epsilon {self.epsilons[-1]:g} {self._expected(self.epsilons[-1])}"
        return f"{yes}, at epsilon {self.needed:g} or more: {self._expected(self.needed)}"

    def _expected(self, epsilon: float) -> str:
        told = self.foreseen(epsilon)
        return f"{told.points:.1f} points are expected ({told.low:.1f} to {told.high:.1f})"

    def _known(self) -> str:
        return "public labels" if self.auc is None else "public lists"

    def _beside(self) -> tuple[str, str]:
        """How much was simulated, and how right one is without reports."""
        message = self.message if self.auc is None else "lists"
        beside = "" if self.labels is None else f" beside {self.labels} {self._known()}"
        stated = ""
        if self.friends is not None:
            degree, alike = self.friends.mean_degree, self.friends.homophily
            stated = f", of {degree:g} friends and homophily {alike:g} as stated, public"
        alone = f"{self.without.mean():.1f} %"
        without = f"without any report {alone} are right"
        if self.auc is not None:
            without = f"by public classes the AUC is {alone}"
        return f"{self.users} {message}{beside}, {len(self.gains)} worlds{stated}", without

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
        numbers = (
            f"{self.epsilons[place]:7g}   {told.points:+6.1f}   {interval:>14}   "
            f"{told.chance:11.2f}"
        )
        return f"{numbers}   {best}".rstrip()


@implicit_promotion()
def rehearse(
    key: PRNGKey,
    public: "Facts | Server | Sequence[Server]",
    epsilons: Sequence[float] = EPSILONS,
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
    ``frontier_beyond.md``): of lists, large gains are foretold too large.

    Args:
      key: of public randomness.
      public: of records, what :func:`~ldp_jax.servers.panel_facts` found, with true labels; of
        lists, what :func:`~ldp_jax.servers.facts.counts.count_facts` found; of both, what
        :func:`~ldp_jax.servers.facts.joint.joint_facts` found; of links, classes and the lists of a
        pilot, whose members are drawn at random. Or a server of one's own, or several that differ
        in epsilon, whose result is classes [n] or has ``log_posterior``.
      epsilons: of a report of a record, in (0, 20]; of a bit of a list, in [0.001, 40]; of both a
        total in (0, 20], whose best split is found (:attr:`Rehearsal.splits`, for
        ``predict_jointly``). Servers of one's own have their own.
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
        return _of_servers(key, public, drawn, worlds, progress)
    if not isinstance(public, (PanelFacts, CountFacts, JointFacts, LinkFacts)):
        # The values of what was given may be private.
        raise ValueError(
            "public must be of panel_facts, joint_facts, count_facts or LinkFacts, or servers whose"
            " "
            f"users are drawn=StatedUsers(...), got {type(public).__name__}: docs/choosing.md has "
            "an example"
        )
    asked = _checked_epsilons(public, epsilons)
    if isinstance(public, LinkFacts):
        if friends is not None:
            raise ValueError("friends must be None of links, whose pilot shows them")
        with watched("rehearse", progress):
            found = found_links(key, public, asked, _phases(worlds))
        users = len(public.labels)
        lists = len(public.pilot)
        return Rehearsal(asked, found.gains(), found.alone, "links", users, lists, auc=found.auc)
    if not isinstance(friends, StatedFriends | None):
        wanted = "StatedFriends(mean_degree, homophily)"
        raise ValueError(f"friends must be {wanted}, got {type(friends).__name__}")
    if not isinstance(public, CountFacts) and public.known.keep < 1.0:
        raise ValueError(f"public must have true labels, got keep = {public.known.keep:g}")
    judged = validate.labels(public.labels) < 0
    tried: list[list[JointPrivacy]] = []
    own: tuple[OwnGain, ...] = ()
    with watched("rehearse", progress):
        phase("what is public", 0.0)
        if isinstance(public, PanelFacts):
            if friends is not None:
                raise ValueError("friends must be None of records, whose graph is public")
            message = "records"
            facts = public if public.taught is None else public.taught
            draws, key = RecordWorlds.of(key, facts)
            servers = [ReportServer(facts, epsilon) for epsilon in asked]
            sample = ReportSample.of(random.fold_in(key, worlds), facts, records=_RECORDS)
            own = tuple(sample.gain(one.question.mask, one.epsilon) for one in servers)
        elif friends is None:
            raise ValueError(
                "friends must be stated of lists: servers.StatedFriends(mean_degree, homophily)"
            )
        elif isinstance(public, CountFacts):
            message = "lists"
            draws, key = ListWorlds.of(key, public, friends)
            servers = [CountServer(public, epsilon) for epsilon in asked]
        else:
            if not (friends.overlap is friends.echo is None):
                raise ValueError(
                    "overlap and echo must be None of joint totals: nobody has public features"
                )
            message = "records and lists"
            draws = JointWorlds(public._replace(numbering=None), friends)
            tried = [splits(total) for total in asked]
            servers = [draws.server(one) for some in tried for one in some]
        right = _right(key, servers, draws, worlds)
    gains = right[:, 1:] - right[:, :1]
    chosen: tuple[JointPrivacy, ...] = ()
    if tried:
        gains, chosen = _best(gains, tried)
    users = int(judged.sum())
    labels = len(judged) - users
    without = right[:, 0]
    return Rehearsal(asked, gains, without, message, users, labels, friends, chosen, own=own)


def _of_servers(
    key: PRNGKey, servers: Any, drawn: Worlds, worlds: int, progress: Progress | None
) -> Rehearsal:
    """The rehearsal of servers of one's own."""
    servers = tuple(servers) if isinstance(servers, Sequence) else (servers,)
    for one in servers:
        if not isinstance(one, Server):
            raise ValueError(
                f"public must be servers where users are drawn, got {type(one).__name__}"
            )
    if not isinstance(drawn, Worlds):
        raise ValueError(f"drawn must have draw(key, number), got {type(drawn).__name__}")
    costs = [_epsilon(server) for server in servers]
    order = np.argsort(costs, kind="stable")
    asked = tuple(costs[place] for place in order)
    with watched("rehearse", progress):
        right = _right(key, [servers[place] for place in order], drawn, worlds)
    world = drawn.draw(random.fold_in(key, 0), 0)
    users = int(np.asarray(world.judged).sum())
    return Rehearsal(asked, right[:, 1:] - right[:, :1], right[:, 0], "users", users, None)


def _epsilon(server: Server) -> float:
    """The most that the server asks of one user, in any unit but relationships."""
    stated = server.statement().guarantee()
    return max(one.epsilon for unit, one in stated.items() if unit != RELATIONSHIP)


def _right(
    key: PRNGKey, servers: Sequence[Server], draws: Worlds, worlds: int
) -> Float[np.ndarray, "worlds servers"]:
    """Percent of the judged users whose class is right: without any report, and by each server."""
    found = []
    for number in _phases(worlds):
        world = draws.draw(random.fold_in(key, number), number)
        values = [world.without]
        for place, server in enumerate(servers):
            run_key = random.again(world.key)
            if not world.one_noise:
                run_key = random.fold_in(run_key, place)
            values.append(simulate(run_key, server, world.users).value)
        found.append([_accuracy(world, value) for value in values])
    return np.array(found)


def _accuracy(world: World, value: Any) -> float:
    classes = np.asarray(getattr(value, "log_posterior", value))
    if classes.ndim == 2:
        classes = classes.argmax(1)
    truth = np.asarray(world.classes)
    if classes.shape != truth.shape:
        raise ValueError(
            f"a server's result must be classes [{len(truth)}] or have log_posterior "
            f"[{len(truth)}, C], got a {type(value).__name__}"
        )
    return 100.0 * (classes == truth)[np.asarray(world.judged)].mean()


def _checked_epsilons(public: Any, epsilons: Sequence[float]) -> tuple[float, ...]:
    """The epsilons to try, ascending."""
    each = list(epsilons) if np.iterable(epsilons) else [epsilons]
    if isinstance(public, (CountFacts, LinkFacts)):
        found = {validate.number(MIN_EPSILON, MAX_EPSILON, epsilons=one) for one in each}
    else:
        found = {validate.number(0.0, MOST_EPSILON, open_lower=True, epsilons=one) for one in each}
    if not found:
        raise ValueError("epsilons must name one at least")
    return tuple(sorted(found))


def _phases(worlds: int) -> Iterator[int]:
    for world in range(worlds):
        over, until = 0.1 + 0.9 * np.array([world, world + 1]) / worlds
        phase(f"world {world + 1} of {worlds}", over, until)
        with watched("server"):
            yield world


def _best(
    gains: Float[np.ndarray, "worlds splits"], tried: list[list[JointPrivacy]]
) -> tuple[Float[np.ndarray, "worlds totals"], tuple[JointPrivacy, ...]]:
    """The split of each total with the largest mean gain, the first of equals."""
    best = []
    chosen = []
    start = 0
    for some in tried:
        place = int(gains[:, start : start + len(some)].mean(0).argmax())
        best.append(start + place)
        chosen.append(some[place])
        start += len(some)
    return gains[:, best], tuple(chosen)
