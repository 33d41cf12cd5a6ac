"""The largest privacy loss of a mechanism: in integers where it is a table, else in float64 over critical points.

The densities of this library are piecewise smooth in the report and monotone between the breaks that the codomain
declares, and their extremes over records lie at the ends or the centre of the domain. So the supremum of
log p(y | x) - log p(y | x') is a maximum over finitely many points, up to the two sides of each break; a random
search over records and reports cross-checks that nothing larger was missed.
"""

import itertools
import math
from fractions import Fraction
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.core import integer_tables, validate
from ldp_jax.core.float64 import float64_on_cpu
from ldp_jax.core.mechanism import (
    HasCoordinates,
    HasCriticalPoints,
    HasInverse,
    HasTable,
    HasWords,
    Univariate,
    privacy_loss,
)
from ldp_jax.core.spaces import ByCoordinate, NotApplicable, Records, Reports, Vectors
from ldp_jax.verification import _lists
from ldp_jax.verification._blocks import in_blocks, take
from ldp_jax.verification._laws import law_of

_MAX_EPSILON = 700.0
_MOST_TRIPLES = 4_000_000  # records times reports that are enumerated
_SEARCH = 4096
"""Random pairs of records in the cross-check."""


class Supremum(NamedTuple):
    """The largest privacy loss found, and where.

    Attributes:
      epsilon: the loss; ``inf`` where one record makes possible what another makes impossible.
      x: the record in the numerator.
      x_other: the record in the denominator.
      y: the report: a number, a pair (branch, value), or a tuple of these; of a list the noisy degree and the bits.
      searched: the largest loss of the random search alone; the whole where everything was enumerated.
    """

    epsilon: float
    x: Any
    x_other: Any
    y: Any
    searched: float


def privacy_loss_supremum(mechanism: Any, records: Any = None) -> Supremum:
    """The supremum of log p(y | x) - log p(y | x') over adjacent records x, x' and reports y, by ``log_density``.

    Tables are asked in whole numbers, rounded up. Of coordinates with laws of their own the suprema of as many as
    are sent are added. Others are asked at critical records and reports, or where the mechanism says
    (:class:`~ldp_jax.core.mechanism.HasCriticalPoints`), and by a random search; lists (n from 2 to 64) at every
    degree.

    Args:
      mechanism: with a density; parameters are one number each.
      records: stacked records in place of the critical ones, members or not; not for tables, lists and coordinates.

    Raises:
      ValueError: for another mechanism, or whose epsilon is a stack or traced.

    >>> from ldp_jax.features import HDS, Duchi
    >>> round(privacy_loss_supremum(Duchi(1.0)).epsilon, 12)
    1.0
    >>> round(privacy_loss_supremum(HDS(2.0, dim=100, k=7)).epsilon, 12)
    2.0
    """
    domain, _ = spaces(mechanism)
    if domain.users:
        return Supremum(*_lists.supremum(mechanism))
    if isinstance(mechanism, HasCoordinates) and _of_its_density(mechanism, "coordinate"):
        return _of_coordinates(mechanism)
    if isinstance(mechanism, HasTable):
        return _of_table(mechanism.table())
    _check_numbers(mechanism, vectors=True)
    with float64_on_cpu():
        wide = jax.tree.map(lambda leaf: jnp.float64(leaf), mechanism)
        if isinstance(wide, HasCriticalPoints) and _of_its_density(mechanism, "critical_points"):
            return _of_columns(wide, *wide.critical_points())
        codomain = wide.codomain()
        records = domain.critical_records() if records is None else jax.tree.map(jnp.float64, records)
        reports = law_of(codomain).critical_reports(records)
        if domain.all_adjacent and not codomain.continuous and not codomain.branches:
            return _of_columns(wide, records, reports)
        declared = _largest(wide, records, records, reports)
        searched = _random_search(wide, reports)
        hidden = math.isnan(searched.epsilon) or searched.epsilon > declared.epsilon
        larger = searched if hidden else declared  # NaN is not hidden
        if _beyond(wide, records, reports) > larger.epsilon * (1 + 1e-9):  # it grows without end
            larger = larger._replace(epsilon=math.inf)
        return larger._replace(searched=searched.epsilon)


def _of_its_density(mechanism: Any, said: str) -> bool:
    """Whether what a method says is said of the mechanism's density, and not of one that a subclass replaced."""
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
        laws.setdefault(id(law), (law, []))[1].append(j)  # which is kept, so that its id stays its own
    return list(laws.values())


def _beyond(mechanism: Any, records: Any, reports: Any) -> float:
    """The largest loss far out in an infinite codomain, where a law of bounded loss has no more than before."""
    far = law_of(mechanism.codomain()).far(reports)
    return -math.inf if far is None else _largest(mechanism, records, records, far).epsilon


def hockey_stick(mechanism: Any, epsilon: float, *, panels: int = 64) -> float:
    r"""The least delta at which the law is (epsilon, delta)-private: the largest hockey-stick divergence.

    :math:`\max_{x, x'} \int \max(0, p(y \mid x) - e^\epsilon p(y \mid x')) \, dy` over critical records: a sum
    where reports are finite, else quadrature, good to 1e-6 of the mass of a piece where the loss crosses epsilon.
    Vectors of independent numbers are integrated over the numbers whose laws differ, at most three, good to 3e-4 of
    delta.

    Args:
      mechanism: with a density, on one number or category, or whose reports are such vectors.
      epsilon: in [0, 700].
      panels: between two breaks of a line.

    Raises:
      ValueError: for another mechanism or a negative epsilon.

    >>> from ldp_jax.features import SquareWave
    >>> hockey_stick(SquareWave(1.0), 1.0) < 1e-12, hockey_stick(SquareWave(1.0), 0.5) > 0.1
    (True, True)
    """
    validate.in_range(0.0, _MAX_EPSILON, epsilon=epsilon)
    if isinstance(mechanism, HasTable):
        table = mechanism.table()
        if epsilon >= table.epsilon:
            return 0.0
        masses = table.masses.astype(np.float64) / integer_tables.WORDS
        excess = (np.maximum(masses[i] - np.exp(epsilon) * masses, 0).sum(1).max() for i in range(len(masses)))
        return float(max(excess))
    independent = isinstance(spaces(mechanism)[1], Vectors)
    _check_numbers(mechanism, vectors=independent)
    with float64_on_cpu():
        wide = jax.tree.map(lambda leaf: jnp.float64(leaf), mechanism)
        domain, codomain = mechanism.domain(), wide.codomain()
        records = domain.critical_records()
        if independent:
            return _hockey_stick_of_vectors(wide, records, epsilon)
        first = jax.tree.map(lambda leaf: leaf[0], records)
        reports, weights = law_of(codomain).quadrature(records, lambda y: logs_of(wide, y, first), panels=panels)
        count = _count(records)
        each = [take(records, i) for i in range(count)]
        density = np.exp(np.stack([logs_of(wide, reports, x) for x in each])) * np.asarray(weights)
        at = [np.repeat(np.arange(count), count), np.tile(np.arange(count), count)]
        pairs = (take(records, i) for i in at)
        adjacent = np.asarray(domain.adjacent(*pairs)).reshape(count, count)
    excess = (
        np.where(adjacent[i], np.maximum(row - np.exp(epsilon) * density, 0).sum(1), 0.0).max()
        for i, row in enumerate(density)
    )
    return float(max(excess))


def _hockey_stick_of_vectors(mechanism: Any, records: np.ndarray, epsilon: float) -> float:
    """The largest over adjacent pairs of records, both ways; with x64 enabled."""
    codomain, domain = mechanism.codomain(), mechanism.domain()
    found = [0.0]
    for x, other in itertools.combinations(records, 2):
        if not domain.adjacent(x[None], other[None])[0]:
            continue
        logs = [lambda y, x=record: logs_of(mechanism, y, x) for record in (x, other)]
        reports, weights = law_of(codomain).between(*logs)
        p, q = (np.exp(log(reports)) for log in logs)
        found += [float(weights @ np.maximum(a - np.exp(epsilon) * b, 0)) for a, b in ((p, q), (q, p))]
    return max(found)


class FloatAudit(NamedTuple):
    """The leak of a sampler's float32 arithmetic about two records.

    Attributes:
      impossible: the mass, under the first record, of reports that the second cannot give.
      impossible_other: the same the other way round.
      largest_loss: the largest absolute log ratio of masses of reports that both give; ``nan`` for none.
      reports: how many different reports the first record can give.
    """

    impossible: float
    impossible_other: float
    largest_loss: float
    reports: int


def float_audit(mechanism: Any, x: float, x_other: float) -> FloatAudit:
    """Push all 2^23 float32 uniforms through a sampler's inverse distribution function, for two records.

    ``privatize`` of these mechanisms draws one of them, so this is the law that runs. Tables are read over all 2^32
    words; few reports of a 64-bit word are counted over all 2^64, by bisection.

    Args:
      mechanism: with ``from_uniform``, ``from_word64`` or ``table``; epsilon one number.
      x: a record.
      x_other: another.

    Raises:
      ValueError: for a mechanism that draws otherwise.

    >>> from ldp_jax.features import GridSquareWave, Laplace
    >>> float_audit(Laplace(1.0), 0.0, 1.0).impossible > 0.3
    True
    >>> float_audit(GridSquareWave(1.0), -1.0, 1.0).impossible
    0.0
    """
    if isinstance(mechanism, HasTable):
        table = mechanism.table()
        (row, part), (other, other_part) = (
            integer_tables.split(np, v, table.inputs, table.encoding) for v in (x, x_other)
        )
        first, second = _exact_law(table, int(row), int(part)), _exact_law(table, int(other), int(other_part))
        ratios = [max(Fraction(a, b), Fraction(b, a)) for a, b in zip(first, second, strict=True)]
        return FloatAudit(0.0, 0.0, integer_tables.log_up(max(ratios)), table.outputs)
    if not isinstance(mechanism, (HasInverse, HasWords)):
        raise NotApplicable(f"{type(mechanism).__name__} has no from_uniform: it draws otherwise")
    _check_numbers(mechanism)
    if isinstance(mechanism, HasWords):
        return _audit_counts(*(_word_counts(mechanism, record) for record in (x, x_other)))
    total = 2**23
    u = (np.arange(total, dtype=np.float32) + np.float32(0.5)) / np.float32(total)
    (ours, mine), (theirs, others) = (
        np.unique(np.asarray(_from_uniform(mechanism, u, jnp.float32(record))), return_counts=True)
        for record in (x, x_other)
    )
    shared, at, at_other = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
    losses = np.abs(np.log(mine[at]) - np.log(others[at_other]))
    return FloatAudit(
        float(1.0 - mine[at].sum() / total),
        float(1.0 - others[at_other].sum() / total),
        float(losses.max()) if len(shared) else math.nan,
        len(ours),
    )


def _audit_counts(mine: list[int], others: list[int]) -> FloatAudit:
    """From how many of the 2^64 words give each report."""
    both = [(a, b) for a, b in zip(mine, others, strict=True) if a and b]
    lost, lost_other = (1 - Fraction(sum(side), 2**64) for side in zip(*both, strict=True))
    loss = max(max(Fraction(a, b), Fraction(b, a)) for a, b in both)
    return FloatAudit(float(lost), float(lost_other), integer_tables.log_up(loss), sum(a > 0 for a in mine))


def _word_counts(mechanism: Any, x: float) -> list[int]:
    """How many of the 2^64 words give each of a few reports, in their order: the report rises with the word."""
    codomain = mechanism.codomain()
    values = np.sort(np.asarray(codomain.values, np.float32))
    low, high = [0] * len(values), [2**64] * len(values)  # the first word whose report is above the value
    for _ in range(65):  # 2^64 + 1 places
        middle = [min((a + b) // 2, 2**64 - 1) for a, b in zip(low, high, strict=True)]
        words = np.array([[w >> 32 for w in middle], [w & 0xFFFFFFFF for w in middle]], np.uint32)
        above = np.asarray(_from_word64(mechanism, words, jnp.float32(x))) > values
        steps = list(zip(low, middle, high, above, strict=True))
        low = [m + 1 if a < b and not up else a for a, m, b, up in steps]
        high = [m if a < b and up else b for a, m, b, up in steps]
    ends = [0, *low]
    return [after - before for before, after in itertools.pairwise(ends)]


@jax.jit
def _from_uniform(mechanism: Any, u: Any, x: Any) -> Any:
    return mechanism.from_uniform(u, x)


@jax.jit
def _from_word64(mechanism: Any, words: Any, x: Any) -> Any:
    return mechanism.from_word64(words, x)


@jax.jit
def _logs(mechanism: Any, y: Any, x: Any) -> Any:
    return jax.vmap(lambda report: mechanism.log_density(report, x))(y)


def logs_of(mechanism: Any, y: Any, x: Any) -> np.ndarray:
    """log p of stacked reports about one record."""
    return in_blocks(lambda rows: _logs(mechanism, rows, x), y)


def spaces(mechanism: Any) -> tuple[Records, Reports]:
    """A mechanism's domain and codomain.

    Raises:
      NotApplicable: where they do not say what verification asks.
    """
    domain, codomain = mechanism.domain(), mechanism.codomain()
    for space, kind in ((domain, Records), (codomain, Reports)):
        if not isinstance(space, kind):
            raise NotApplicable(f"{type(space).__name__} does not say what verification asks (see {kind.__name__})")
    return domain, codomain


def _check_numbers(mechanism: Any, *, vectors: bool = False) -> None:
    _, codomain = spaces(mechanism)
    if not (codomain.branches or vectors):
        raise NotApplicable(
            f"mechanism must report one number, got {type(mechanism).__name__} with codomain {codomain}"
        )
    leaves = jax.tree.leaves(mechanism)
    stacked = mechanism.stack_shape() if hasattr(mechanism, "stack_shape") else any(map(np.ndim, leaves))
    if stacked or not all(map(validate.concrete, leaves)):
        raise ValueError(
            "mechanism must have one concrete number for each parameter: take one of a stack at a time"
        )


def _exact_law(table: integer_tables.Table, row: int, part: int) -> list[int]:
    """A record's masses over 2^55: two neighbouring rows, mixed as the rounding mixes them."""
    above = min(row + 1, table.inputs - 1)
    whole = 2**23
    return [
        (whole - part) * int(a) + part * int(b) for a, b in zip(table.masses[row], table.masses[above], strict=True)
    ]


def _points(table: integer_tables.Table) -> list[float]:
    """A record for each row of a table."""
    n = table.inputs
    if table.encoding == "category":
        return list(map(float, range(n)))
    if table.encoding == "bins":
        return [(i + 0.5) / n for i in range(n)]
    return np.linspace(-1.0, 1.0, n).tolist()


def _of_table(table: integer_tables.Table) -> Supremum:
    masses = table.masses
    high, low = masses.argmax(0), masses.argmin(0)
    columns = range(table.outputs)
    ratios = [Fraction(int(masses[high[y], y]), int(masses[low[y], y])) for y in columns]
    y = max(columns, key=ratios.__getitem__)
    loss = integer_tables.log_up(ratios[y])
    points = _points(table)
    return Supremum(loss, points[high[y]], points[low[y]], y, loss)


def _of_coordinates(mechanism: HasCoordinates) -> Supremum:
    """The sum over the coordinates that are sent and lose most; their witnesses, or that of the one law of all."""
    laws, sent = coordinate_laws(mechanism), mechanism.codomain().sent
    each = [privacy_loss_supremum(law) for law, _ in laws]
    if len(each) == 1:
        return each[0]._replace(epsilon=sent * each[0].epsilon, searched=sent * each[0].searched)
    placed = [(j, found) for (_, at), found in zip(laws, each, strict=True) for j in at]
    most = sorted(placed, key=lambda pair: -pair[1].epsilon)[:sent]
    parts = [found for _, found in sorted(most, key=lambda pair: pair[0])]
    total, searched = (math.fsum(getattr(part, field) for part in parts) for field in ("epsilon", "searched"))
    x, other, y = (tuple(getattr(part, field) for part in parts) for field in ("x", "x_other", "y"))
    return Supremum(total, x, other, y, searched)


@jax.jit
def _grid(mechanism: Any, records: Any, reports: Any) -> Any:
    return jax.lax.map(lambda x: jax.vmap(lambda y: mechanism.log_density(y, x))(reports), records)


@jax.jit
def _losses(mechanism: Any, x: Any, other: Any, y: Any) -> Any:
    return jax.vmap(lambda y, x, other: privacy_loss(mechanism, y, x, other))(y, x, other)


@jax.jit
def _drawn(mechanism: Any, keys: Any, x: Any) -> Any:
    return jax.vmap(mechanism.privatize)(keys, x)


def _count(stacked: Any) -> int:
    return len(jax.tree.leaves(stacked)[0])


def _plain(stacked: Any, place: int) -> Any:
    """One of stacked values as numbers: a float, or a tuple."""
    if isinstance(stacked, tuple):
        return tuple(_plain(leaf, place) for leaf in stacked)
    value = np.asarray(stacked)[place]
    return float(value) if value.ndim == 0 else tuple(value.tolist())


def _of_columns(mechanism: Any, records: Any, reports: Any) -> Supremum:
    """All records against all reports, by the largest and the smallest of each report: any two are adjacent."""
    count = _count(records) * _count(reports)
    if count > _MOST_TRIPLES:
        raise NotApplicable(f"{count} records and reports are more than {_MOST_TRIPLES}: ask a smaller dim")
    logs = np.asarray(_grid(mechanism, jax.tree.map(jnp.asarray, records), jax.tree.map(jnp.asarray, reports)))
    high, low = logs.max(0), logs.min(0)
    losses = np.where(np.isneginf(high), -np.inf, high - np.where(np.isneginf(high), 0.0, low))
    losses = np.where(np.isnan(logs).any(0), np.nan, losses)  # NaN is not hidden
    y = int(losses.argmax())
    x, other = (_plain(records, int(i)) for i in (logs[:, y].argmax(), logs[:, y].argmin()))
    return Supremum(float(losses[y]), x, other, _plain(reports, y), float(losses[y]))


def _witness(mechanism: Any, x: Any, other: Any, y: Any) -> Supremum:
    """The largest loss among triples of equal length, of adjacent records."""
    losses = in_blocks(lambda rows: _losses(mechanism, *rows), (x, other, y))
    losses = np.where(mechanism.domain().adjacent(x, other), losses, -np.inf)
    best = int(losses.argmax())
    return Supremum(float(losses[best]), _plain(x, best), _plain(other, best), _plain(y, best), float(losses[best]))


def _largest(mechanism: Any, x: Any, other: Any, y: Any) -> Supremum:
    """The largest loss among all triples."""
    axes = np.meshgrid(*(np.arange(_count(each)) for each in (x, other, y)), indexing="ij")
    picked = [take(each, axis) for each, axis in zip((x, other, y), (axis.ravel() for axis in axes), strict=True)]
    return _witness(mechanism, *picked)


def _random_search(mechanism: Any, reports: Any) -> Supremum:
    """The largest loss over random pairs of records, at random reports and at reports drawn from one of them."""
    rng = np.random.default_rng(0)  # no privacy depends on it
    codomain = mechanism.codomain()
    x, other = mechanism.domain().neighbours(rng, _SEARCH)
    y = law_of(codomain).search(rng, reports, _SEARCH)
    if not codomain.continuous or len(codomain.branches) > 1:
        return _witness(mechanism, x, other, y)
    if isinstance(mechanism, HasInverse):
        drawn = _from_uniform(mechanism, rng.uniform(0.0, 1.0, _SEARCH), x)
    else:
        keys = jax.random.split(jax.random.key(0), _SEARCH)
        drawn = _drawn(mechanism, keys, x)
    both = lambda a, b: np.concatenate([a, np.asarray(b, a.dtype)])
    twice = lambda records: jax.tree.map(lambda leaf: np.concatenate([leaf, leaf]), records)
    return _witness(mechanism, twice(x), twice(other), jax.tree.map(both, y, drawn))
