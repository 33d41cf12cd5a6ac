"""A law in float64: the largest privacy loss, delta, mass and moments.

Tables are asked in whole numbers, other laws over critical points. Densities of this library are
monotone between the breaks of the codomain, with extremes at the ends or the centre of the domain.
A random search cross-checks the finitely many points that remain.
"""

import contextlib
import itertools
import math
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.core import integer_tables, random, validate
from ldp_jax.core.flags import standard_flags
from ldp_jax.core.float64 import float64_on_cpu
from ldp_jax.core.integer_tables import Table
from ldp_jax.core.mechanism import HasCoordinates, HasMoments, Randomizer, Univariate, WordRuns
from ldp_jax.core.spaces import ByCoordinate, NotApplicable, Records, Reports, Sphere, Vectors
from ldp_jax.core.types import AnyArray, Array, PRNGKey, Record, Report, Scalar, Values
from ldp_jax.edges.lists import NeighbourList, nodes_of
from ldp_jax.verification._laws import law_of, refuse_many, refuse_narrow, volume_of
from ldp_jax.verification._programs import (
    Exact,
    count_of,
    draws,
    estimates,
    is_float,
    joined,
    log_grid,
    logs_each,
    logs_of,
    lost,
    pairs_of,
    records_of,
    report_each,
    take,
    wide,
)
from ldp_jax.verification.statistics import Fit

_MAX_EPSILON = 700.0
_MOST_TRIPLES = 4_000_000  # records times reports that are enumerated
_SEARCH = 4096  # random pairs of records in the cross-check
_MANY = 80  # natural and random records, all pairs of which are asked by a coarse rule
_CLOUD = 8192  # reports of such a rule for vectors
_SUSPECTS = 6  # pairs that are then asked by an accurate one
_FAR = 2.0**10  # times as far out as critical reports
_CERTAIN = 0.99  # of its answer where the loss crosses epsilon on no axis
_MOST_NODES = 2_000_000
_EXACT = 1e-8  # how far a mass or a moment in float64 may be from its quadrature, relative

# A share of the largest estimate: one rounding, by which moments in float32 are off where
# estimates cancel
_ROUNDED = 2.0**-24

SIGMAS = 5.0
"""Standard errors that a mean of draws may be off by: 6e-7 of correct samplers are, in one
number.
"""


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
    larger = declared
    if math.isnan(searched.epsilon) or searched.epsilon > declared.epsilon:  # NaN is not hidden
        larger = searched
    if beyond > larger.epsilon * (1 + 1e-9):
        larger = larger._replace(epsilon=beyond)
    return larger._replace(searched=searched.epsilon)


def _of_its_density(mechanism: object, said: str) -> bool:
    """Whether a method is about the mechanism's density, and not about one a subclass replaced."""
    for kind in type(mechanism).__mro__:
        if said in vars(kind):
            return True
        if "log_density" in vars(kind):
            return False
    return True


def coordinate_laws(mechanism: HasCoordinates) -> list[tuple[Univariate, list[int]]]:
    """The laws of the coordinates, each with the coordinates that have it."""
    codomain = mechanism.codomain()
    if not isinstance(codomain, ByCoordinate):
        raise NotApplicable(f"reports must be of coordinates, got {codomain}")
    laws: dict[int, tuple[Univariate, list[int]]] = {}
    for j in range(codomain.dim):
        law = mechanism.coordinate(j)
        _, alike = laws.setdefault(id(law), (law, []))  # a law that is kept keeps its id
        alike.append(j)
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
    if hasattr(mechanism, "stack_shape"):
        stacked = mechanism.stack_shape()
    else:
        stacked = any(map(np.ndim, leaves))
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
    first, second = np.indices((n, n)).reshape(2, -1)
    adjacent = domain.adjacent(take(records, first), take(records, second))
    return np.asarray(adjacent).reshape(n, n)


def _many_records(domain: Records) -> Values:
    """Stacked natural and random records in float64, many of which are adjacent."""
    rng = np.random.default_rng(0)  # no privacy depends on it
    if domain.all_adjacent:
        return _decimals(records_of(domain, rng, _MANY))
    _, x, other = pairs_of(domain, rng, _MANY // 2)
    return _decimals(joined(x, other))


def _decimals(records: Values) -> Values:
    """Float32 numbers as those that tables mean by them: 0.1 becomes float64's 0.1."""

    def decimal(leaf: Any) -> np.ndarray:
        numbers = np.asarray(leaf)
        if numbers.dtype.kind != "f":
            return numbers
        return numbers.astype(np.float32).astype(str).astype(np.float64)

    return jax.tree.map(decimal, records)


def _masses(mechanism: Exact, records: Values, panels: int) -> np.ndarray:
    """Densities of stacked records, times the weights of a rule for all of them."""
    densest = lambda y: log_grid(mechanism, y, records).max(0)
    quadrature = law_of(mechanism.codomain()).quadrature
    reports, weights = quadrature(records, densest, panels=panels)
    return np.exp(log_grid(mechanism, reports, records)) * np.asarray(weights)


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

    found = [0.0]
    with float64_on_cpu():
        m = wide(mechanism)
        for x, other in itertools.combinations(domain.critical_records(), 2):
            if domain.adjacent(x[None], other[None])[0]:
                found.append(_excess_between(m, x, other, epsilon))

        masses = _cloud(m, many, wide(drawn))
        for one, two in _suspects(domain, many, masses, epsilon).T:
            try:
                found.append(_CERTAIN * _excess_between(m, many[one], many[two], epsilon))
            except NotApplicable:  # too many numbers: by a lower bound
                excess = np.maximum(masses[one] - np.exp(epsilon) * masses[two], 0)
                found.append(excess.sum() - 6 * excess.std() * math.sqrt(_CLOUD))
    return float(np.max(found))


def _cloud(mechanism: Exact, records: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Densities over that of drawn reports which are spread about their centre, to see tails."""
    dim = drawn.shape[1]
    spread = 1 + 1.5 / math.sqrt(dim)
    centre = drawn.mean(0)
    mixture = np.exp(log_grid(mechanism, drawn, records)).mean(0)
    proposal = mixture * len(drawn) / spread**dim
    logs = log_grid(mechanism, centre + spread * (drawn - centre), records)
    return np.exp(logs) / np.where(proposal > 0, proposal, np.inf)


def _excess_between(mechanism: Exact, x: np.ndarray, other: np.ndarray, epsilon: float) -> float:
    """The larger excess of two records of a vector, either way; with x64 enabled."""
    log = lambda y: logs_of(mechanism, y, x)
    other_log = lambda y: logs_of(mechanism, y, other)
    reports, weights = law_of(mechanism.codomain()).between(log, other_log)
    densities = np.exp([log(reports), other_log(reports)])
    return float(_excess(densities * weights, epsilon).max())


# --- Where the loss is largest --------------------------------------------------------------------


def _of_table(table: Table) -> Supremum:
    masses = table.masses.astype(np.float64)
    y = int((masses.max(0) / masses.min(0)).argmax())
    n = table.inputs
    match table.encoding:  # a record for each row
        case "grid":
            points = np.linspace(-1.0, 1.0, n)
        case "category":
            points = np.arange(float(n))
        case _:
            points = (np.arange(n) + 0.5) / n
    x = float(points[masses[:, y].argmax()])
    other = float(points[masses[:, y].argmin()])
    return Supremum(table.epsilon, x, other, y, table.epsilon)


def _of_coordinates(mechanism: HasCoordinates) -> Supremum:
    """The sum over the coordinates that are sent and lose most.

    Their witnesses, or that of the one law of all.
    """
    laws = coordinate_laws(mechanism)
    sent = mechanism.codomain().sent
    each = [privacy_loss_supremum(law) for law, _ in laws]
    if len(each) == 1:
        only = each[0]
        return only._replace(epsilon=sent * only.epsilon, searched=sent * only.searched)
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
    refuse_many(count, _MOST_TRIPLES, f"{count} records and reports")
    logs = log_grid(mechanism, reports, records)
    if domain.all_adjacent:  # the worst pair of each report
        x = logs.argmax(0)[None]
        other = logs.argmin(0)[None]
    else:
        adjacent = np.argwhere(adjacency(domain, records))
        x, other = np.repeat(adjacent.T[:, :, None], logs.shape[1], 2)
    mine = np.take_along_axis(logs, x, 0)
    others = np.take_along_axis(logs, other, 0)
    loss = lost(mine, others)

    worst = np.unravel_index(loss.argmax(), loss.shape)  # NaN is not hidden
    epsilon = float(loss[worst])
    report = _plain(reports, int(worst[1]))
    first, second = (_plain(records, int(side[worst])) for side in (x, other))
    return Supremum(epsilon, first, second, report, epsilon)


def _beyond(mechanism: Exact, records: Values, reports: Report) -> float:
    """The largest loss far out in an infinite codomain; infinite where it still grows there."""
    domain, codomain = spaces(mechanism)
    known = jax.tree.map(np.asarray, reports)

    def scaled(by: float) -> Report:
        return jax.tree.map(lambda leaf: leaf * by if is_float(leaf) else leaf, known)

    def sizes(y: Report) -> np.ndarray:
        """The largest number of each report."""
        leaves = [np.abs(leaf).reshape(len(leaf), -1) for leaf in jax.tree.leaves(y)]
        return np.concatenate(leaves, 1).max(1)

    far = scaled(_FAR)
    farther = sizes(far) > 2 * sizes(known).max()
    there = np.flatnonzero(np.asarray(codomain.contains(far)) & farther)
    if domain.users or not len(there):  # critical reports about lists are far
        return -math.inf
    near = _largest(mechanism, records, take(scaled(_FAR / 16), there)).epsilon
    most = _largest(mechanism, records, take(far, there)).epsilon
    if most <= near * (1 + 1e-6) or math.isnan(most):
        return float(np.fmax(near, most))
    return math.inf


def _random_search(mechanism: Exact, known: Report) -> Supremum:
    """The largest loss over random pairs of records, between known reports and at drawn ones."""
    rng = np.random.default_rng(0)  # no privacy depends on it
    domain = mechanism.domain()
    owners, x, other = pairs_of(domain, rng, _SEARCH)
    adjacent = domain.adjacent(x, other)
    keys = jax.random.key_data(random.split(jax.random.key(0), _SEARCH))
    single = jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), x)
    drawn = report_each(keys, mechanism, single, *owners)
    with float64_on_cpu():
        m = wide(mechanism)
        found = [wide(drawn)]
        if not domain.users:
            found.append(_between(mechanism.codomain(), known, rng))
        x, other = map(_decimals, (x, other))
        losses = []
        for y in found:
            logs = [logs_each(m, y, record, *owners) for record in (x, other)]
            losses.append(np.where(adjacent, lost(*logs), -np.inf))
    losses = np.stack(losses)
    which, pair = map(int, np.unravel_index(losses.argmax(), losses.shape))
    loss = float(losses[which, pair])
    y = _plain(found[which], pair)
    return Supremum(loss, _plain(x, pair), _plain(other, pair), y, loss)


def _between(codomain: Any, known: Report, rng: np.random.Generator) -> Report:
    """Random reports between two known ones of a continuum; known ones where none are between."""
    one, other = (take(known, rng.integers(0, count_of(known), _SEARCH)) for _ in range(2))
    share = rng.random(_SEARCH)
    if len(codomain.branches) > 1:
        branch, value = one
        other_branch, other_value = other
        real = np.array([part.continuous for part in codomain.branches])
        alike = real[branch] & (branch == other_branch)
        return branch, value + np.where(alike, share * (other_value - value), 0.0)
    if not codomain.continuous or not isinstance(one, np.ndarray):
        return one

    shape = (-1, *(1,) * (one.ndim - 1))  # one number a report
    mixed = one + share.reshape(shape) * (other - one)
    if isinstance(codomain, Sphere):
        length = np.linalg.norm(mixed, axis=1, keepdims=True)
        mixed *= np.linalg.norm(one, axis=1, keepdims=True) / np.maximum(length, 1e-12)
    inside = np.asarray(codomain.contains(mixed))
    return np.where(inside.reshape(shape), mixed, one)


# --- Mass and moments -----------------------------------------------------------------------------


def law(mechanism: Exact, x: Values) -> tuple[Report, np.ndarray, float]:
    """Stacked reports of a rule about one record, and their masses; with x64 enabled.

    Reports of coordinates have a product rule for every set of them. The third is the mass that
    float64 may put on the other side of a break.
    """
    _, codomain = spaces(mechanism)
    log_density = lambda y: logs_of(mechanism, y, x)
    if isinstance(mechanism, HasCoordinates):
        reports, weights, misplaced = _rule_of_coordinates(mechanism, np.asarray(x))
        density = np.exp(np.float64(log_density(reports)))
    else:
        one = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], x)
        reports, weights = law_of(codomain).quadrature(one, log_density)
        density = np.exp(np.float64(log_density(reports)))
        misplaced = _misplaced(codomain, reports, density)
    return reports, np.asarray(weights) * density, misplaced


def _rule_of_coordinates(
    mechanism: HasCoordinates, x: np.ndarray
) -> tuple[Report, np.ndarray, float]:
    codomain = mechanism.codomain()
    dim, k = codomain.dim, codomain.sent
    what = f"the reports of {k} of {dim} coordinates"
    refuse_many(math.comb(dim, k), _MOST_NODES, what)
    lines = []
    off = []
    for j, x_j in enumerate(x):
        one = mechanism.coordinate(j)
        log_density = lambda y, one=one, x_j=x_j: logs_of(one, y, x_j)
        space = one.codomain()
        ends = (-getattr(space, "lower", 0.0), getattr(space, "upper", 0.0))
        # Tails come in panels that double, the last falls by up to e^-25: quarters of it are good
        # to 1e-15 of the whole. Other pieces are constant or short.
        panels, order = (4, 8) if math.inf in ends else (1, 4)
        record = jnp.asarray(x_j)[None]
        y, weights = law_of(space).quadrature(record, log_density, panels=panels, order=order)
        lines.append((y, np.asarray(weights)))
        off.append(_misplaced(space, y, np.exp(log_density(y))))

    subsets = list(itertools.combinations(range(dim), k))
    most = max(len(weights) for _, weights in lines)
    refuse_many(len(subsets) * most**k, _MOST_NODES, what)
    indices = []
    values = []
    weights = []
    for chosen in subsets:
        some = [lines[j] for j in chosen]
        places = np.indices([len(weight) for _, weight in some]).reshape(k, -1)
        picked = [take(line, at) for line, at in zip(some, places, strict=True)]
        drawn, factors = zip(*picked, strict=True)
        values.append(jax.tree.map(lambda *leaves: np.stack(leaves, 1), *drawn))
        weights.append(np.prod(factors, 0))
        indices.append(np.tile(chosen, (places.shape[1], 1)))
    every = jax.tree.map(lambda *leaves: np.concatenate(leaves), *values)
    reports = codomain.of_entries(np.concatenate(indices), every)
    return reports, np.concatenate(weights), k * max(off)


def _misplaced(space: Reports, y: Report, density: np.ndarray) -> float:
    """The mass that float64 may put on the other side of a break.

    Four spacings of the densest number.
    """
    if not space.branches:
        return 0.0
    volume, atom = volume_of(space, y)  # four spacings, of float64 as the numbers are
    found = float(np.where(atom, 0.0, volume * density).max())
    refuse_narrow(found)
    return found


@jax.jit
def _closed_forms(mechanism: HasMoments, x: Values) -> tuple[Scalar, Scalar]:
    return mechanism.mean(x), mechanism.variance(x)


def _moments(mechanism: Randomizer, reports: Report, mass: np.ndarray) -> list[np.ndarray]:
    """Mean, variance and fourth central moment of the estimate, its largest size, its rounding.

    With x64 enabled; the rounding is 0 unless the estimate is of float32 all the same.
    """
    values = np.asarray(estimates(mechanism, reports))
    rounded = values.dtype == np.float32
    values = values.astype(np.float64)
    mass = mass.reshape(-1, *[1] * (values.ndim - 1))
    mean = (mass * values).sum(0)
    variance = (mass * (values - mean) ** 2).sum(0)
    fourth = (mass * (values - mean) ** 4).sum(0)
    largest = np.abs(values).max()
    rounding = _ROUNDED * largest if rounded else 0.0
    return [np.asarray(found) for found in (mean, variance, fourth, largest, rounding)]


def _records(mechanism: Randomizer, x: Values | None) -> list[Report]:
    """The record that is given; else a typical one, the centre and both extremes; float64."""
    domain, _ = spaces(mechanism)
    found = [x]
    if x is None:
        found = [domain.typical(), domain.centre(), *domain.extremes()]
    return [jax.tree.map(np.float64, record) for record in found]


@standard_flags()
def sums_to_one(mechanism: Exact, x: Values | None = None) -> Fit:
    """Whether the density sums to 1 in float64.

    The tolerance is 1e-8 and four spacings of the densest number, 1e-4 at most.

    >>> from ldp_jax.features import Laplace
    >>> sums_to_one(Laplace(1.0)).fits
    True
    """
    with float64_on_cpu():
        laws = [law(mechanism, record) for record in _records(mechanism, x)]
    _, masses, misplaced = zip(*laws, strict=True)
    return _total([mass.sum() for mass in masses], max(misplaced))


def _total(found: list[float], misplaced: float) -> Fit:
    worst = float(np.max(np.abs(np.array(found) - 1)))  # NaN is not hidden
    limit = _EXACT + misplaced
    return Fit(worst <= limit, "total mass", worst, limit, limit, 0)


@standard_flags()
def matches_moments(mechanism: Exact, x: Values | None = None) -> Fit:
    """Whether ``mean`` and ``variance`` are those of the estimate under the density.

    To 1e-8 in float64, and what :func:`sums_to_one` allows times the largest estimate, or the
    square of twice it, beside the rounding of an estimate in float32; in float32 to 1e-5 of a mean
    and 3e-5 of a variance, 1e-6, and one rounding of the largest estimate.

    >>> from ldp_jax.features import Piecewise
    >>> matches_moments(Piecewise(1.0)).fits
    True
    """
    return integrals(mechanism, x)[1]


def integrals(mechanism: Exact, x: Values | None = None) -> tuple[Fit, Fit]:
    """The answers of :func:`sums_to_one` and :func:`matches_moments`, from one quadrature."""
    worst = 0.0
    said_of = "moments"
    totals = []
    largest = 0.0
    misplaced = 0.0
    for record in _records(mechanism, x):
        with float64_on_cpu():
            reports, mass, off = law(mechanism, record)
            totals.append(mass.sum())
            misplaced = max(misplaced, off)
            *true, _, size, rounding = _moments(mechanism, reports, mass)
            largest = max(largest, float(size))
            long = [np.asarray(moment) for moment in _closed_forms(mechanism, record)]
        rough = _closed_forms(mechanism, jax.tree.map(np.float32, record))
        short = [np.asarray(moment) for moment in rough]
        names = ("mean", "variance")
        exactly = (
            _EXACT + misplaced * largest + rounding,
            1e-12 + misplaced * (2 * largest) ** 2 + 8 * rounding * largest,
        )
        rounded = (1e-6 + _ROUNDED * largest, 1e-6 + _ROUNDED * largest**2)
        compared = [
            *zip(names, long, true, (_EXACT, _EXACT), exactly, strict=True),
            *zip(names, short, long, (1e-5, 3e-5), rounded, strict=True),
        ]
        for place, (name, said, right, relative, absolute) in enumerate(compared):
            of_float32 = place > 1
            if of_float32 and not worst <= 1.0:
                break
            tolerance = absolute + relative * np.abs(right)
            away = np.abs(said - right) / tolerance
            farthest = int(np.argmax(away))
            numbers = [f"{float(np.ravel(value)[farthest]):.6g}" for value in (said, right)]
            if of_float32 and not away.max() <= 1.0:
                raise NotApplicable(
                    f"{name} is {numbers[0]} in float32 and {numbers[1]} in float64: "
                    "its formula cancels"
                )
            if not away.max() <= worst:  # NaN is not hidden
                worst = float(away.max())
                said_of = f"{name} is said to be {numbers[0]}, and is {numbers[1]}"
    return _total(totals, misplaced), Fit(worst <= 1.0, said_of, worst, 1.0, _EXACT, 0)


@standard_flags()
def draws_have_moments(
    mechanism: Randomizer, key: PRNGKey, x: Values | None = None, *, trials: int = 200_000
) -> Fit:
    """Whether estimates of draws have the stated mean and variance, within five standard errors.

    The standard errors are the law's; of vectors whose reports are too many to count, those of the
    draws.

    >>> from ldp_jax.features import Duchi
    >>> draws_have_moments(Duchi(1.0), jax.random.key(0)).fits
    True
    """
    validate.integer_in(1000, trials=trials)
    domain, _ = spaces(mechanism)
    record = domain.typical() if x is None else domain.given(x)
    return moments_of(mechanism, record, draws(mechanism, key, record, trials))


def moments_of(mechanism: Randomizer, x: Values, y: Report) -> Fit:
    """The same of stacked reports of a record."""
    values = np.asarray(estimates(mechanism, y), np.float64)
    trials = count_of(y)
    fourth = ((values - values.mean(0)) ** 4).mean(0)
    with float64_on_cpu():
        record = wide(x)
        mean, variance = map(np.float64, _closed_forms(mechanism, record))
        if isinstance(mechanism, Exact):
            with contextlib.suppress(NotApplicable):
                reports, mass, _ = law(mechanism, record)
                # Else the rule has missed a piece that is too narrow for it.
                if abs(mass.sum() - 1) < 0.01:
                    _, _, fourth, _, _ = _moments(mechanism, reports, mass)

    error = np.sqrt(variance / trials)
    of_squares = np.maximum(fourth - variance**2, 0.0)
    error_of_variance = np.sqrt(of_squares / trials) + error**2
    tiny = 1e-6 / SIGMAS  # what float32 rounds an estimate by
    off_mean = np.abs(values.mean(0) - mean) / (error + tiny)
    drawn = ((values - mean) ** 2).mean(0)
    off_variance = np.abs(drawn - variance) / (error_of_variance + tiny)
    worst = float(np.max([np.max(off_mean), np.max(off_variance)]))
    if math.isnan(worst):
        worst = math.inf
    smallest = float(np.max(2 * SIGMAS * error))
    return Fit(worst <= SIGMAS, "moments of draws", worst, SIGMAS, smallest, trials)
