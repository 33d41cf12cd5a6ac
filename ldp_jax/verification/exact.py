"""The largest privacy loss of a mechanism.

In integers where it is a table, else in float64 over critical points.

Densities of this library are monotone between the breaks of the codomain, with extremes at the ends
or the centre of the domain. A random search cross-checks the finitely many points that remain.
"""

import functools
import itertools
import math
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.core import integer_tables, random, validate
from ldp_jax.core.flags import standard_flags
from ldp_jax.core.float64 import float64_on_cpu
from ldp_jax.core.integer_tables import Table
from ldp_jax.core.mechanism import HasCoordinates, Randomizer, Univariate, WordRuns
from ldp_jax.core.spaces import ByCoordinate, NotApplicable, Records, Reports, Vectors
from ldp_jax.core.types import AnyArray, Array, Record, Report, Scalar, Values
from ldp_jax.edges import HasBitLaw, Reporting
from ldp_jax.edges.lists import NeighbourList, nodes_of
from ldp_jax.verification._laws import law_of
from ldp_jax.verification._programs import (
    Exact,
    count_of,
    log_grid,
    logs_of,
    losses_of,
    lost,
    report_each,
    take,
    wide,
)
from ldp_jax.verification.records import joined, pairs_of, records_of

_MAX_EPSILON = 700.0
_MOST_TRIPLES = 4_000_000  # records times reports that are enumerated
_SEARCH = 4096  # random pairs of records in the cross-check
_MANY = 80  # natural and random records, all pairs of which are asked by a coarse rule
_CLOUD = 8192  # reports of such a rule for vectors
_SUSPECTS = 6  # pairs that are then asked by an accurate one
_CERTAIN = 0.99  # of its answer where the loss crosses epsilon on no axis


@runtime_checkable
class HasTable(Protocol):
    """Reports drawn from a table of whole numbers: the loss is a ratio of two of them."""

    def table(self) -> Table:
        """The table that is sampled."""


@runtime_checkable
class HasInverse(Protocol):
    """A continuous law on numbers, drawn from one uniform; ``Numeric`` says its 2^23 values."""

    def from_uniform(self, u: Record, x: Record) -> Array:
        """The inverse distribution function of the report at ``u`` in (0, 1); elementwise."""


@runtime_checkable
class HasWords(Protocol):
    """A law of finitely many reports, which do not fall as the 64 bits that draw them rise."""

    def from_word64(self, word: AnyArray, x: Record) -> Array:
        """The report under random bits uint32 [2, ...], the most significant first; elementwise."""


@runtime_checkable
class HasWordRuns(Protocol):
    """Noise from a table of more words than can be bisected, in known runs."""

    def word_runs(self) -> WordRuns:
        """The runs."""

    def from_words(self, word: AnyArray, x: Record) -> Array:
        """One number of the report under random bits uint32 [words, ...]; elementwise."""

    def log_likelihood(self, y: Record, x: Record) -> Array:
        """log P of one number of the report; elementwise."""


class Supremum(NamedTuple):
    """The largest privacy loss found, and where.

    ``y`` is a number, a pair (branch, value), or a tuple of these; of a list the noisy degree and
    the bits. The loss is ``inf`` where ``x_other`` makes a report impossible; ``searched`` is that
    of the random search alone.
    """

    epsilon: float
    x: Report
    x_other: Report
    y: Report
    searched: float


@standard_flags()
def privacy_loss_supremum(mechanism: Any, records: Values | None = None) -> Supremum:
    """The supremum of log p(y | x) - log p(y | x') over adjacent records and all reports.

    Tables are asked in whole numbers, rounded up; of coordinates with laws of their own, as many
    suprema are added as are sent. Others are asked at critical records and reports, or where the
    mechanism says (``critical_points()``), and by a random search;
    lists (n from 2 to 64) at every degree. Stacked ``records``, members or not, take the place of
    critical ones.

    >>> from ldp_jax.features import HDS, Duchi
    >>> round(privacy_loss_supremum(Duchi(1.0)).epsilon, 12)
    1.0
    >>> round(privacy_loss_supremum(HDS(2.0, dim=100, k=7)).epsilon, 12)
    2.0
    """
    domain, _ = spaces(mechanism)
    if isinstance(mechanism, HasCoordinates) and _of_its_density(mechanism, "coordinate"):
        return _of_coordinates(mechanism)
    if isinstance(mechanism, HasTable):
        return _of_table(mechanism.table())
    check_numbers(mechanism, vectors=True)
    with float64_on_cpu():
        m = wide(mechanism)
        if hasattr(m, "critical_points") and _of_its_density(mechanism, "critical_points"):
            asked, reports = m.critical_points()
        else:
            critical = domain.critical_records
            asked = critical() if records is None else jax.tree.map(np.float64, records)
            reports = law_of(m.codomain()).critical_reports(asked)
        declared = _largest(m, asked, reports)
        beyond = _beyond(m, asked, reports)
    searched = _random_search(mechanism, reports)
    hidden = math.isnan(searched.epsilon) or searched.epsilon > declared.epsilon
    larger = searched if hidden else declared  # NaN is not hidden
    if beyond > larger.epsilon * (1 + 1e-9):
        larger = larger._replace(epsilon=beyond)
    return larger._replace(searched=searched.epsilon)


def _of_its_density(mechanism: object, said: str) -> bool:
    """Whether a method is about the mechanism's density, and not about one a subclass replaced."""
    kinds = type(mechanism).__mro__
    place = lambda name: next((i for i, kind in enumerate(kinds) if name in vars(kind)), len(kinds))
    return place(said) <= place("log_density")


def coordinate_laws(mechanism: HasCoordinates) -> list[tuple[Univariate, list[int]]]:
    """The laws of the coordinates, each with the coordinates that have it."""
    codomain = mechanism.codomain()
    if not isinstance(codomain, ByCoordinate):
        raise NotApplicable(f"reports must be of coordinates, got {codomain}")
    laws: dict[int, tuple[Univariate, list[int]]] = {}
    for j in range(codomain.dim):
        law = mechanism.coordinate(j)
        laws.setdefault(id(law), (law, []))[1].append(
            j
        )  # which is kept, so that its id stays its own
    return list(laws.values())


def spaces(mechanism: Any) -> tuple[Records, Reports]:
    """A mechanism's domain and codomain; refused where they do not say what verification asks."""
    domain = mechanism.domain()
    codomain = mechanism.codomain()
    for space, kind in ((domain, Records), (codomain, Reports)):
        if not isinstance(space, kind):
            raise NotApplicable(
                f"{type(space).__name__} does not say what verification asks (see {kind.__name__})"
            )
    return domain, codomain


def check_numbers(mechanism: Randomizer, *, vectors: bool = False) -> None:
    """Refuse other reports than one number (or, if asked, a vector), and stacks and tracers."""
    _, codomain = spaces(mechanism)
    if not (codomain.branches or vectors):
        raise NotApplicable(
            f"mechanism must report one number, got {type(mechanism).__name__} on {codomain}"
        )
    leaves = jax.tree.leaves(mechanism)
    stacked = (
        mechanism.stack_shape() if hasattr(mechanism, "stack_shape") else any(map(np.ndim, leaves))
    )
    if stacked or not all(map(validate.concrete, leaves)):
        raise ValueError(
            "mechanism must have one concrete number for each parameter: take one of a stack"
        )


# --- Delta ----------------------------------------------------------------------------------------


@standard_flags()
def hockey_stick(mechanism: Exact, epsilon: float, *, panels: int = 64) -> float:
    r"""The least delta at which the law is (epsilon, delta)-private.

    The largest hockey-stick divergence.

    :math:`\max_{x, x'} \int \max(0, p(y \mid x) - e^\epsilon p(y \mid x')) \, dy` over critical
    records, and the worst pairs of 80 natural and random ones by a coarse rule: a sum, or
    quadrature by ``panels`` between two breaks, good to 1e-6 of a piece where the loss crosses
    epsilon. Vectors of independent numbers are integrated over the at most three whose laws differ,
    good to 3e-4 of delta; of such a pair 1 % is left out, and where more numbers differ it counts
    by a lower bound.

    >>> from ldp_jax.features import SquareWave
    >>> (
    ...     hockey_stick(SquareWave(1.0), 1.0) < 1e-12,
    ...     hockey_stick(SquareWave(1.0), 0.5) > 0.1,
    ... )
    (True, True)
    """
    validate.in_range(0.0, _MAX_EPSILON, epsilon=epsilon)
    if isinstance(mechanism, HasTable):
        table = mechanism.table()
        if epsilon >= table.epsilon:
            return 0.0
        masses = table.masses.astype(np.float64) / integer_tables.WORDS
        return float(_excess(masses, epsilon).max())
    independent = isinstance(spaces(mechanism)[1], Vectors)
    check_numbers(mechanism, vectors=independent)
    if independent:
        return _hockey_stick_of_vectors(mechanism, epsilon)
    domain = mechanism.domain()
    many = _many_records(domain)
    with float64_on_cpu():
        m = wide(mechanism)
        suspects = _suspects(domain, many, _masses(m, many, 4), epsilon)
        records = joined(take(many, np.unique(suspects)), domain.critical_records())
        excess = _excess(_masses(m, records, panels), epsilon)
        return float(excess[adjacency(domain, records)].max())


def adjacency(domain: Records, records: Values) -> np.ndarray:
    """Which pairs of stacked records are adjacent, bool [records, records]."""
    n = count_of(records)
    pairs = (
        take(records, place) for place in (np.repeat(np.arange(n), n), np.tile(np.arange(n), n))
    )
    return np.asarray(domain.adjacent(*pairs)).reshape(n, n)


def _many_records(domain: Records) -> Values:
    """Stacked natural and random records in float64, many of which are adjacent."""
    rng = np.random.default_rng(0)  # no privacy depends on it
    if domain.all_adjacent:
        return _decimals(records_of(domain, rng, _MANY))
    _, x, other = pairs_of(domain, rng, _MANY // 2)
    return _decimals(joined(x, other))


def _decimals(records: Values) -> Values:
    """Float32 numbers as those that tables mean by them: 0.1 becomes float64's 0.1."""
    return jax.tree.map(
        lambda leaf: (
            leaf.astype(np.float32).astype(str).astype(np.float64)
            if leaf.dtype.kind == "f"
            else leaf
        ),
        jax.tree.map(np.asarray, records),
    )


def _masses(mechanism: Exact, records: Values, panels: int) -> np.ndarray:
    """Densities of stacked records, times the weights of a rule for all of them."""
    densest = lambda y: log_grid(mechanism, y, records).max(0)
    rule = law_of(mechanism.codomain()).quadrature(records, densest, panels=panels)
    return np.exp(log_grid(mechanism, rule[0], records)) * np.asarray(rule[1])


def _excess(masses: np.ndarray, epsilon: float) -> np.ndarray:
    """The sums of max(0, p - e^epsilon q) of all rows p and q."""
    others = np.exp(epsilon) * masses
    return np.stack([np.maximum(row - others, 0).sum(1) for row in masses])


def _suspects(domain: Records, records: Values, masses: np.ndarray, epsilon: float) -> np.ndarray:
    """The places [2, pairs] of the adjacent records whose laws differ most by a coarse rule."""
    excess = np.where(adjacency(domain, records), _excess(masses, epsilon), -1.0)
    worst = np.argsort(excess, axis=None)[-_SUSPECTS:]  # NaN, too
    return np.stack(np.unravel_index(worst, excess.shape))


def _hockey_stick_of_vectors(mechanism: Exact, epsilon: float) -> float:
    """The largest over adjacent pairs of critical records, and over suspects, both ways."""
    domain = mechanism.domain()
    many = np.asarray(_many_records(domain))
    words = jax.random.key_data(random.split(jax.random.key(0), _CLOUD))
    each = many[np.arange(_CLOUD) % len(many)].astype(np.float32)
    drawn = report_each(words, mechanism, each)
    with float64_on_cpu():
        m = wide(mechanism)
        masses = _cloud(m, many, wide(drawn))
        records = domain.critical_records()
        found = [
            _excess_between(m, x, other, epsilon)
            for x, other in itertools.combinations(records, 2)
            if domain.adjacent(x[None], other[None])[0]
        ]
        for one, two in _suspects(domain, many, masses, epsilon).T:
            try:
                found.append(_CERTAIN * _excess_between(m, many[one], many[two], epsilon))
            except NotApplicable:  # too many numbers: by a lower bound
                excess = np.maximum(masses[one] - np.exp(epsilon) * masses[two], 0)
                found.append(excess.sum() - 6 * excess.std() * math.sqrt(_CLOUD))
    return float(np.max([0.0, *found]))


def _cloud(mechanism: Exact, records: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Densities over that of drawn reports which are spread about their centre, to see tails."""
    dim = drawn.shape[1]
    spread = 1 + 1.5 / math.sqrt(dim)
    centre = drawn.mean(0)
    density = np.exp(log_grid(mechanism, drawn, records)).mean(0) * len(drawn) / spread**dim
    logs = log_grid(mechanism, centre + spread * (drawn - centre), records)
    return np.exp(logs) / np.where(density > 0, density, np.inf)


def _excess_between(mechanism: Exact, x: np.ndarray, other: np.ndarray, epsilon: float) -> float:
    """The larger excess of two records of a vector, either way; with x64 enabled."""
    logs = [lambda y, x=record: logs_of(mechanism, y, x) for record in (x, other)]
    reports, weights = law_of(mechanism.codomain()).between(*logs)
    return float(_excess(np.stack([np.exp(log(reports)) * weights for log in logs]), epsilon).max())


# --- Where the loss is largest --------------------------------------------------------------------


def _of_table(table: integer_tables.Table) -> Supremum:
    masses = table.masses
    high = masses.argmax(0)
    low = masses.argmin(0)
    columns = range(table.outputs)
    ratios = [Fraction(int(masses[high[y], y]), int(masses[low[y], y])) for y in columns]
    y = max(columns, key=ratios.__getitem__)
    loss = integer_tables.log_up(ratios[y])
    n = table.inputs
    points = np.linspace(-1.0, 1.0, n)  # a record for each row
    if table.encoding != "grid":
        points = np.arange(float(n)) if table.encoding == "category" else (np.arange(n) + 0.5) / n
    return Supremum(loss, float(points[high[y]]), float(points[low[y]]), y, loss)


def _of_coordinates(mechanism: HasCoordinates) -> Supremum:
    """The sum over the coordinates that are sent and lose most.

    Their witnesses, or that of the one law of all.
    """
    laws = coordinate_laws(mechanism)
    sent = mechanism.codomain().sent
    each = [privacy_loss_supremum(law) for law, _ in laws]
    if len(each) == 1:
        return each[0]._replace(epsilon=sent * each[0].epsilon, searched=sent * each[0].searched)
    placed = [(j, found) for (_, at), found in zip(laws, each, strict=True) for j in at]
    most = sorted(placed, key=lambda pair: -pair[1].epsilon)[:sent]
    parts = [found for _, found in sorted(most, key=lambda pair: pair[0])]
    epsilon, x, other, y, searched = zip(*parts, strict=True)
    return Supremum(math.fsum(epsilon), x, other, y, math.fsum(searched))


def _plain(stacked: Values, place: int) -> Report:
    """One of stacked values as numbers: a float, or a tuple; of lists the nodes."""
    if isinstance(stacked, NeighbourList):
        return nodes_of(take(stacked, place))
    if isinstance(stacked, tuple):
        return tuple(_plain(leaf, place) for leaf in stacked)
    value = np.asarray(stacked)[place]
    return float(value) if value.ndim == 0 else tuple(value.tolist())


def _largest(mechanism: Exact, records: Values, reports: Report) -> Supremum:
    count = count_of(records) * count_of(reports)
    domain = mechanism.domain()
    if count > _MOST_TRIPLES:
        raise NotApplicable(
            f"{count} records and reports are more than {_MOST_TRIPLES}: ask a smaller dim"
        )
    logs = log_grid(mechanism, reports, records)
    every = np.arange(logs.shape[1])
    if domain.all_adjacent:
        pairs = [(logs.argmax(0), logs.argmin(0))]  # of each report
    else:
        pairs = [
            (np.full(len(every), i), np.full(len(every), j))
            for i, j in np.argwhere(adjacency(domain, records))
        ]
    loss = np.stack([lost(logs[high, every], logs[low, every]) for high, low in pairs])
    pair, y = np.unravel_index(loss.argmax(), loss.shape)  # NaN is not hidden
    x, other = (_plain(records, int(side[y])) for side in pairs[pair])
    return Supremum(float(loss[pair, y]), x, other, _plain(reports, int(y)), float(loss[pair, y]))


def _beyond(mechanism: Exact, records: Values, reports: Report) -> float:
    """The largest loss far out in an infinite codomain; infinite where it still grows there."""
    far = law_of(mechanism.codomain()).far(reports)
    if far is None:
        return -math.inf
    nearer = jax.tree.map(
        lambda leaf: leaf / 16 if np.issubdtype(leaf.dtype, np.floating) else leaf, far
    )
    near, most = (_largest(mechanism, records, at).epsilon for at in (nearer, far))
    ends = most <= near * (1 + 1e-6) or math.isnan(most)
    return float(np.fmax(near, most)) if ends else math.inf


def _random_search(mechanism: Exact, known: Report) -> Supremum:
    """The largest loss over random pairs of records, at random and at drawn reports."""
    rng = np.random.default_rng(0)  # no privacy depends on it
    codomain = mechanism.codomain()
    domain = mechanism.domain()
    owners, x, other = pairs_of(domain, rng, _SEARCH)
    adjacent = domain.adjacent(x, other)
    drawn = None
    if domain.users or (codomain.continuous and len(codomain.branches) < 2):
        keys = jax.random.key_data(random.split(jax.random.key(0), _SEARCH))
        single = jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), x)
        drawn = report_each(keys, mechanism, single, *owners)
    with float64_on_cpu():
        m = wide(mechanism)
        found = [] if domain.users else [law_of(m.codomain()).search(rng, known, _SEARCH)]
        found += [] if drawn is None else [wide(drawn)]
        y = jax.tree.map(lambda *leaves: np.concatenate(leaves), *found)
        x, other = (
            jax.tree.map(lambda leaf: np.concatenate([leaf] * len(found)), _decimals(side))
            for side in (x, other)
        )
        losses = losses_of(m, y, x, other, *owners)
        losses = np.where(np.tile(adjacent, len(found)), losses, -np.inf)
    best = int(losses.argmax())
    return Supremum(
        float(losses[best]),
        _plain(x, best),
        _plain(other, best),
        _plain(y, best),
        float(losses[best]),
    )


# --- An edge, through the reports of all users ---

NODES = 4
_BLOCK = 64  # reports

Pair = tuple[int, int]
Owners = dict[Pair, int] | None
"""The reporter of each pair; None where both are."""


class RelationshipLoss(NamedTuple):
    """The largest log ratio of the joint laws of all reports, with an edge and without it."""

    epsilon: float
    edge: tuple[int, int]
    graph: tuple[tuple[int, int], ...]


@standard_flags()
def relationship_supremum(
    mechanism: object, reporting: Reporting | None = None
) -> RelationshipLoss:
    """The largest loss about one edge, through the reports of all users, enumerated.

    Over all graphs on four nodes and all six edges, a sum over users, each taken over critical
    reports. A pair is reported by both ends (``full``), or by the end of the smaller budget, with
    equal budgets either; the degree is of the whole list (``half list``) or of the owned pairs.
    ``ValueError`` for what is no :class:`~ldp_jax.edges.HasBitLaw`, or budgets that are not one or
    four.

    >>> from ldp_jax.edges import DPRR
    >>> round(relationship_supremum(DPRR(0.3, 0.7), "half list").epsilon, 9)
    1.3
    """
    if not isinstance(mechanism, HasBitLaw):
        raise NotApplicable(
            f"{type(mechanism).__name__} has no law of one bit of a list, as edges.HasBitLaw"
        )
    reporting = mechanism.reporting if reporting is None else reporting
    validate.one_of(mechanism.reportings, reporting=reporting)
    users = [mechanism.of_users(lambda leaf, i=i: _one_of(leaf, i)) for i in range(NODES)]
    budgets = [user.guarantee().epsilon for user in users]
    same = all(user == users[0] for user in users)
    pairs = list(itertools.combinations(range(NODES), 2))
    best = RelationshipLoss(0.0, (0, 1), ())
    loss = functools.cache(lambda user, *view: _loss(users[user], *view))
    for owners, edge in itertools.product(_ownerships(budgets, pairs, reporting), pairs):
        # Both ends have other pairs beside the edge, so the worst graph is that of each end.
        ends = []
        for user in edge:
            mine = [pair for pair in pairs if user in pair]
            reports = owners is None or owners[edge] == user
            if owners is not None and reporting == "half":
                mine = [pair for pair in mine if owners[pair] == user]
            others = [pair for pair in mine if pair != edge]
            if reports or reporting == "half list":
                ask = partial(loss, 0 if same else user, len(mine))
                degrees = range(len(others) + 1)
                ends.append([(ask(degree, reports), others[:degree]) for degree in degrees])
        for way in (0, 1):
            worst = [max(end, key=lambda one, way=way: one[0][way]) for end in ends]
            total = sum(both[way] for both, _ in worst)
            if total > best.epsilon:
                best = RelationshipLoss(total, edge, tuple(sum((graph for _, graph in worst), [])))
    return best


def _one_of(leaf: Scalar, place: int) -> Scalar:
    if np.ndim(leaf) == 0:
        return leaf
    if np.shape(leaf) != (NODES,):
        raise ValueError(f"budgets must be one number or [{NODES}], got shape {np.shape(leaf)}")
    return float(np.asarray(leaf, np.float64)[place])


def _ownerships(budgets: list[float], pairs: list[Pair], reporting: str) -> list[Owners]:
    """The reporter of each pair.

    Both answers for pairs of equal budgets, the lower end or the higher one.
    """
    if reporting == "full":
        return [None]
    return [
        {(i, j): i if (budgets[i], tie * i) < (budgets[j], tie * j) else j for i, j in pairs}
        for tie in (1, -1)
    ]


def _loss(m: HasBitLaw, owned: int, degree: int, reports: bool) -> tuple[float, float]:
    """The largest log ratio of one user's report with and without the edge, both ways round."""
    noisy, sent = m.bit_reports(owned)
    room = -(len(noisy) // -_BLOCK) * _BLOCK  # repeated: of one shape, whatever is owned
    with float64_on_cpu():
        numbers = (
            np.resize(noisy, room).astype(np.float64),
            np.resize(sent, room).astype(np.float64),
        )
        there, without = (
            np.asarray(
                _logs(
                    wide(m),
                    *numbers,
                    *map(np.float64, (degree + bit, bit if reports else np.nan, owned)),
                )
            )
            for bit in (1, 0)
        )
    ratio = lost(there, without)
    ratio = np.where(np.isnan(ratio), math.inf, ratio)  # NaN is not hidden
    return float(ratio.max()), float((-ratio).max())


@jax.jit
def _logs(
    m: HasBitLaw, noisy: Array, sent: Array, degree: Array, bit: Array, owned: Array
) -> Array:
    return m.bit_log_density(noisy, sent, degree, bit, owned) + jnp.zeros(noisy.shape)
