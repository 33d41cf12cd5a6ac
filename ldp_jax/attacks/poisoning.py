r"""Poisoning: users who report to harm, what they do to the honest, and defences.

*Input* poisoning sends a false record through the honest mechanism; *output* poisoning sends any
value of the codomain. A mechanism that hides a record must stretch its estimates, and a liar's
report is stretched as much (:func:`leverage`). Functions replace the reports of the liars alone:
the honest noise is the same without them.
Reference: Cheu, Smith & Ullman, Manipulation attacks in local differential privacy (IEEE S&P 2021).
"""

import dataclasses
from typing import Any, Literal, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike
from typing_extensions import TypeAliasType

from ldp_jax.attacks._result import Poisoning
from ldp_jax.core import random, random_words, validate
from ldp_jax.core.mechanism import HasCoordinates, Mechanism, check_single, privatize
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.spaces import Finite, Interval, Product, Reports, Subset, as_records
from ldp_jax.core.types import AnyArray, Array, PRNGKey, Report, Values
from ldp_jax.core.validate import require
from ldp_jax.edges import count_neighbours
from ldp_jax.servers import Ask, ClassQuestion, CountQuestion, Users
from ldp_jax.servers.parts.records import each_user

Liars = TypeAliasType("Liars", Bool[np.ndarray, " n"])
"""Who lies, of n users."""

Lie = Literal["random", "worst"]
"""A report that no record made: uniform on the codomain, or the one whose estimate is furthest."""

CountLie = Literal["random", "worst", "friends", "classes", "response"]
"""``friends`` and ``classes`` are false records; a ``response`` is no noisy report, and has a true
one's size.
"""


def choose_liars(
    key: PRNGKey, n: int, share: float, among: Bool[np.ndarray, " n"] | None = None
) -> Liars:
    """The liars: ``share`` of the users ``among`` n, rounded.

    Under one key a smaller share's are among a larger's.

    >>> few, more = (
    ...     choose_liars(jax.random.key(0), 40, share) for share in (0.05, 0.5)
    ... )
    >>> int(few.sum()), int(more.sum()), bool(more[few].all())
    (2, 20, True)
    """
    validate.threefry(key)
    return random_words.some_of(key, share, validate.mask(n, among=among))


# --- Numbers, vectors and classes -----------------------------------------------------------------


def leverage(mechanism: Mechanism) -> float:
    """How much further apart two reports of a number may be than two records; 1 without privacy.

    ``ValueError`` for a stack of mechanisms, and as in :func:`lying_reports`.

    >>> from ldp_jax.features import Piecewise
    >>> [round(leverage(Piecewise(epsilon)), 2) for epsilon in (0.5, 1.0, 4.0)]
    [8.04, 4.08, 1.31]
    """
    check_single(mechanism)
    reports = np.asarray(_estimates(mechanism, _ends(mechanism.codomain())))
    records = np.asarray(mechanism.domain().extremes(), np.float64)
    return float(np.ptp(reports) / np.ptp(records))


def lying_reports(
    key: PRNGKey,
    mechanism: Mechanism,
    reports: Report,
    liars: Liars,
    lie: Lie,
    towards: ArrayLike,
) -> Report:
    """Reports [n] of numbers or vectors, those of liars being lies: output poisoning.

    Args:
      key: of the liars.
      mechanism: that all were asked to report by, with budgets of each user's own or one; its
        codomain bounds the liars. ``ValueError`` where it has no ends, or is neither of numbers nor
        of numbers of coordinates.
      reports: of all users as if they were honest.
      liars: who lies.
      lie: ``random``, or ``worst``: the report whose estimate is largest in the direction
        ``towards``; of sampled coordinates it holds those that count most.
      towards: float [n], of vectors [n, d].

    >>> from ldp_jax.features import Piecewise
    >>> m = Piecewise(1.0)
    >>> liars = np.array([True, False])
    >>> sent = lying_reports(
    ...     jax.random.key(0), m, jnp.zeros(2), liars, "worst", np.ones(2)
    ... )
    >>> [round(value, 2) for value in sent.tolist()]
    [4.08, 0.0]
    """
    validate.threefry(key)
    validate.one_of(("random", "worst"), lie=lie)
    space = mechanism.codomain()
    towards = jnp.asarray(towards, jnp.float32)
    sparse = isinstance(space, Subset)
    inner = space.inner if isinstance(space, (Product, Subset)) else space
    values = reports.values if sparse else reports
    ends = _ends(inner).astype(values.dtype)
    ends = jnp.broadcast_to(ends, (len(values), ends.shape[-1]))  # of each user's own budget
    user = jnp.arange(len(values)).reshape(-1, *(1,) * (values.ndim - 1))
    if lie == "random" and isinstance(inner, Interval):
        made = random.uniform(key, values.shape, values.dtype, ends[user, 0], ends[user, 1])
    elif lie == "random":
        made = ends[user, random.randint(key, values.shape, 0, ends.shape[1])]
    else:
        wanted = (len(values), space.dim) if sparse else values.shape
        require(
            towards.shape == wanted,
            f"towards must be {list(wanted)}, as records are, got shape {towards.shape}",
        )
        if sparse:
            largest = jax.lax.top_k(jnp.abs(towards), space.sent)[1]
            indices = jnp.sort(largest, -1).astype(reports.indices.dtype)
            reports = _instead(reports, reports._replace(indices=indices), liars)
            towards = jnp.take_along_axis(towards, indices, 1)
        law = mechanism.coordinate(0) if isinstance(mechanism, HasCoordinates) else mechanism
        found = each_user(_estimates, law, ends)[user]
        made = ends[user, (towards[..., None] * found).argmax(-1)]
    return _instead(reports, reports._replace(values=made) if sparse else made, liars)


def _ends(space: Reports) -> Array:
    """Among these reports [K] are those of the largest and of the smallest estimate.

    [n, 2] where each user has a budget of their own.
    """
    if not isinstance(space, (Interval, Finite)):
        raise ValueError(
            f"mechanism must report numbers, or numbers of coordinates, got reports in {space}"
        )
    if isinstance(space, Finite):
        ends = space.members()
    else:
        ends = jnp.stack(jnp.broadcast_arrays(space.lower, space.upper), -1)
    if not np.isfinite(np.asarray(ends)).all():
        raise ValueError(f"reports must have ends, or one liar is enough: clip those in {space}")
    return ends


def _estimates(law: Mechanism, ends: Array) -> Array:
    """The server's estimates from these reports: a number each, not the shares of classes."""
    found = law.estimate(ends)
    require(
        np.shape(found) == np.shape(ends),
        f"mechanism must report numbers, got estimates of shape {np.shape(found)[1:]} of a report",
    )
    return found


def false_records(
    key: PRNGKey,
    mechanism: Mechanism,
    reports: Report,
    liars: Liars,
    records: ArrayLike,
) -> Report:
    """Reports [n], those of liars being honest ones of false ``records`` [n, ...].

    Input poisoning.
    """
    validate.threefry(key)
    given = as_records(records)
    n = len(jax.tree.leaves(reports)[0])
    if given.shape[:1] != (n,):  # one report would be that of every liar
        raise ValueError(f"records must be one a user, of {n}, got shape {given.shape}")
    return _instead(reports, privatize(key, mechanism, given), liars)


def _instead(reports: Report, lies: Report, liars: np.ndarray) -> Report:
    liars = validate.mask(len(jax.tree.leaves(reports)[0]), liars=liars)

    def one(honest: Array, lie: Array) -> Array:
        other_axes = (1,) * (jnp.ndim(honest) - 1)
        who = jnp.asarray(liars).reshape(-1, *other_axes)
        return jnp.where(who, lie, honest)

    return jax.tree.map(one, reports, lies)


def lying_places(
    key: PRNGKey,
    sizes: ArrayLike,
    reports: Int[Array, " n"],
    liars: Liars,
    lie: CountLie,
) -> Int[Array, " n"]:
    """Reported places in personal alphabets of ``sizes``, the likeliest class first.

    A liar's place is a lie: ``random`` is any place, ``worst`` the least likely class, ``response``
    the likeliest but one by what was broadcast: of all false classes it is believed most.

    >>> all_lie = np.ones(2, bool)
    >>> lying_places(
    ...     jax.random.key(0), [2, 4], jnp.zeros(2, int), all_lie, "worst"
    ... ).tolist()
    [1, 3]
    """
    validate.one_of(("random", "worst", "response"), lie=lie)
    last = jnp.asarray(sizes) - 1
    anywhere = random.randint(key, last.shape, 0, last + 1)
    made = {"random": anywhere, "worst": last, "response": jnp.minimum(last, 1)}[lie]
    return _instead(reports, made, liars)


# --- Counts of neighbours, and lists --------------------------------------------------------------


@runtime_checkable
class CountNoise(Protocol):
    """A mechanism that makes a report of counts, as :class:`ldp_jax.edges.NeighbourCounts` do."""

    def span(self) -> tuple[int, int]:
        """The smallest and the largest report."""

    def add_noise(self, key: PRNGKey, counts: Values) -> Array:
        """Honest reports of counts."""


def opposed_groups(
    posterior: Float[np.ndarray, "n classes"], groups: Int[np.ndarray, " n"], num_groups: int
) -> Int[np.ndarray, " n"]:
    """The broadcast group that holds least of each user's own class.

    Where friends speak most against it.

    >>> opposed_groups(np.eye(2)[[0, 0, 1]], np.array([0, 0, 1]), 2).tolist()
    [1, 1, 0]
    """
    inside = np.eye(num_groups)[groups] * (groups >= 0)[:, None]
    held = np.maximum(inside.sum(0), 1e-9)
    own = posterior @ ((posterior.T @ inside) / held)
    return np.where(inside.sum(0) > 0, own, np.inf).argmin(1)


def lying_counts(
    key: PRNGKey,
    noise: CountNoise,
    counts: Int[np.ndarray, "n groups"],
    reports: Int[AnyArray, "n groups"],
    liars: Liars,
    lie: CountLie,
    aimed: Int[np.ndarray, " n"],
    *,
    fakes: int,
) -> Int[np.ndarray, "n groups"]:
    """Reported counts, those of liars being lies about their true ``counts``.

    Args:
      key: of the liars.
      noise: the honest mechanism, whose ``span`` bounds a report.
      counts: true.
      reports: of all users as if they were honest.
      liars: who lies.
      lie: output: ``random`` numbers of the span; ``worst``, the largest in the group ``aimed`` at
        and the smallest in others; ``response``, all true friends in that group, without noise.
        Input: ``friends``, ``fakes`` more in that group; ``classes``, each group's friends in the
        next one.
      aimed: a group a user, such as :func:`opposed_groups`.
      fakes: false friends of a liar.
    """
    validate.threefry(key)
    validate.one_of(("random", "worst", "friends", "classes", "response"), lie=lie)
    low, high = noise.span()
    at = np.eye(counts.shape[1], dtype=np.int32)[aimed]
    if lie == "random":
        made = random.randint(key, counts.shape, low, high + 1)
    elif lie == "worst":
        made = np.where(at > 0, high, low)
    elif lie == "response":
        made = at * counts.sum(1, keepdims=True)
    elif lie == "friends":
        made = noise.add_noise(key, counts + fakes * at)
    else:
        made = noise.add_noise(key, np.roll(counts, 1, 1))
    sent = np.where(validate.mask(len(counts), liars=liars)[:, None], made, reports)
    # A lie may be larger than all reports.
    return sent.astype(np.promote_types(np.asarray(reports).dtype, np.int32))


# --- In any protocol ------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Lies:
    """Answers of malicious users to a server's questions (:meth:`ldp_jax.servers.Users.lying`).

    Questions about numbers and vectors are answered by :func:`lying_reports`, about classes of
    records by :func:`lying_places`, and about counts of neighbours by :func:`lying_counts`.

    Attributes:
      how: which lie; each of the three says which ones it knows. ``random`` is known to all.
      known: float [n, C], what is public of everybody's class: counts are aimed against it
        (:func:`opposed_groups`). By default they are aimed at the smallest group.
      fakes: false friends of a malicious user.

    ``TypeError`` for another kind of question.

    >>> from ldp_jax.features import GeneralizedRR
    >>> from ldp_jax.servers import Share, simulate
    >>> server = Share(GeneralizedRR(8.0, 2), 1000)
    >>> users = Users(labels=np.zeros(1000, int))
    >>> malicious = users.lying(jax.random.key(1), 0.5, Lies("random"))
    >>> shares = (
    ...     simulate(jax.random.key(0), server, one).value
    ...     for one in (users, malicious)
    ... )
    >>> [bool(share[1] > 0.2) for share in shares]
    [False, True]
    """

    how: CountLie = "random"
    known: Float[np.ndarray, "n classes"] | None = None
    fakes: int = 0

    __repr__ = by_shapes

    def __call__(
        self, key: PRNGKey, question: Any, reports: Report, users: Users, liars: np.ndarray
    ) -> Report:
        """The reports, those of the ``liars`` being lies."""
        if isinstance(question, ClassQuestion):
            sizes = question.alphabets.sizes
            return lying_places(key, sizes, jnp.asarray(reports), liars, self.how)
        if isinstance(question, CountQuestion):
            groups = np.asarray(question.groups)
            num_groups = question.num_groups
            if self.known is None:
                sizes = np.bincount(groups[groups >= 0], minlength=num_groups)
                aimed = np.full(len(groups), sizes.argmin())
            else:
                aimed = opposed_groups(self.known, groups, num_groups)
            return lying_counts(
                key,
                question.mechanism,
                count_neighbours(users.lists, groups, num_groups),
                np.asarray(reports),
                liars,
                self.how,
                aimed,
                fakes=self.fakes,
            )
        if isinstance(question, Ask):
            space = question.mechanism.codomain()
            towards = np.ones(np.shape(jax.tree.leaves(reports)[0]), np.float32)
            if isinstance(space, Subset):  # not of the coordinates that are sent alone
                towards = np.ones((len(towards), space.dim), np.float32)
            lie: Any = self.how  # refused there where it is none of numbers
            return lying_reports(key, question.mechanism, reports, liars, lie, towards)
        raise TypeError(f"no lie is known about a {type(question).__name__}")


def believable_counts(
    reports: Int[np.ndarray, "n groups"],
    epsilon: float,
    sizes: Int[np.ndarray, " groups"],
    *,
    doubt: float = 1e-6,
) -> Bool[np.ndarray, " n"]:
    r"""Trim counts that the sizes of groups, the noise and the degrees of others do not allow.

    A count is within [0, size] but for noise, which exceeds :math:`\log(2 / doubt) / \epsilon` with
    probability ``doubt``. A total is at most three interquartile ranges above the upper quartile,
    on the scale of :math:`\log(1 + r)`; a quarter of the reports may be lies before these move
    freely. Honest hubs may go too.

    >>> believable_counts(
    ...     np.array([[3, 1]] * 9 + [[0, 500]]), 1.0, np.array([1000, 1000])
    ... ).sum()
    np.int64(9)
    """
    validate.positive(epsilon=epsilon)
    validate.in_range(0.0, 1.0, open_lower=True, doubt=doubt)
    tail = np.ceil(np.log(2 / doubt) / epsilon)
    inside = (reports >= -tail) & (reports <= sizes + tail)
    total = reports.sum(1)
    if not len(total):
        return inside.all(1)
    lower, upper = np.quantile(np.log1p(np.maximum(total, 0)), (0.25, 0.75))
    fence = np.expm1(upper + 3 * (upper - lower))
    most = fence + tail * np.sqrt(reports.shape[1])
    return inside.all(1) & (total <= most)


def lying_lists(
    key: PRNGKey,
    pairs: Int[np.ndarray, "m 2"],
    claims: Int[np.ndarray, "c 2"],
    n: int,
    *,
    keep: float = 1.0,
) -> Int[np.ndarray, "k 2"]:
    """Reported pairs (reporter, reported) of n users, of which liars claim some.

    Sent as they are, or kept with a probability. ``ValueError`` for a pair that is there twice, of
    one user, or of others than n.

    ``keep`` below 1 is input poisoning through randomised response; what was reported of these
    pairs is replaced.

    >>> lying_lists(
    ...     jax.random.key(0), np.array([[0, 1], [1, 0]]), np.array([[1, 2]]), 3
    ... ).tolist()
    [[0, 1], [1, 0], [1, 2]]
    """
    validate.in_range(0.0, 1.0, keep=keep)
    reported = _codes(n, pairs=pairs)
    claimed = _codes(n, claims=claims)
    sent = claimed[np.asarray(random.uniform(key, claimed.shape) < keep)]
    honest = reported[~np.isin(reported, claimed)]
    return np.stack(np.divmod(np.union1d(honest, sent), n), 1)


def _codes(n: int, **kwargs: Any) -> Int[np.ndarray, " m"]:
    """Pairs as whole numbers, first * n + second."""
    ((name, given),) = kwargs.items()
    first, second = validate.pairs(n, "of the users", **{name: given}).T
    codes = first * n + second
    once = len(np.unique(codes)) == len(codes) and (first != second).all()
    require(once, f"{name} must be pairs of two users, each once")
    return codes


def degrees_by_both_ends(
    pairs: Int[np.ndarray, "m 2"], n: int, flip: float, *, checked: bool
) -> Float[np.ndarray, " n"]:
    r"""Degrees from lists that both ends report by randomised response.

    Cross-checked, or the mean of both ends. ``pairs`` are those of :func:`lying_lists`, refused
    alike.

    With b, b' the bits of a pair and q their ``flip``, a pair counts
    :math:`(b - q)(b' - q) / (1 - 2q)^2` where ``checked``: 0 in expectation wherever an honest end
    has no such friend, whatever the other end sends. Without, :math:`(b + b' - 2q) / (2 - 4q)`,
    which one lie moves by :math:`1 / (2 - 4q)`. The check's variance is :math:`v^2` a pair without
    an edge and the mean's :math:`v / 2`, :math:`v = q (1 - q) / (1 - 2q)^2`.

    >>> degrees_by_both_ends(
    ...     np.array([[0, 1], [1, 0], [0, 2]]), 3, 0.0, checked=True
    ... ).tolist()
    [1.0, 1.0, 0.0]
    """
    validate.number(0.0, 0.5, open_upper=True, flip=flip)
    codes = _codes(n, pairs=pairs)
    first, second = np.divmod(codes, n)
    claims = np.bincount(np.append(first, second), minlength=n)  # of either end
    if not checked:
        return (claims / 2 - flip * (n - 1)) / (1 - 2 * flip)
    mutual = np.isin(codes, second * n + first, assume_unique=True)
    both = np.bincount(first[mutual], minlength=n)
    products = both - flip * claims + flip**2 * (n - 1)
    return products / (1 - 2 * flip) ** 2


# --- Results --------------------------------------------------------------------------------------


def harm(name: str, honest: ArrayLike, poisoned: ArrayLike, liars: Liars) -> Poisoning:
    """The harm of liars to others, from a value a user without them and with them.

    Larger values are better. Users who lack one of both (NaN) count in neither.

    >>> right = np.array([1.0, 1.0, 0.0, 1.0])
    >>> print(
    ...     harm(
    ...         "worst",
    ...         right,
    ...         [1.0, 0.0, 0.0, 0.0],
    ...         np.array([False, False, False, True]),
    ...     )
    ... )
    worst: without liars 0.667 ± 1.434, with liars 0.333 ± 1.434, harm 0.333 ± 1.434; 1 of 4 lie
    """
    validate.aligned(honest=honest, poisoned=poisoned)
    before = validate.numbers(honest=honest)
    after = validate.numbers(poisoned=poisoned)
    require(
        before.ndim == 1 and after.shape == before.shape,
        f"honest and poisoned must be a value a user, got shapes {before.shape}, {after.shape}",
    )
    liars = validate.mask(len(before), liars=liars)
    left_out = liars | np.isnan(before) | np.isnan(after)
    before[left_out] = np.nan
    after[left_out] = np.nan
    require(
        not np.isnan(before - after).all(),
        "liars must leave a user who is honest, with a value without them and with them",
    )
    return Poisoning.of(name, before, after, int(liars.sum()))
