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

from ldp_jax import _tables, _validate
from ldp_jax.domains import NotApplicable, Records, Reports
from ldp_jax.features import Discrete, DuchiVector, RandomizedFeatures, Sampled
from ldp_jax.mechanism import HasInverse, HasWords, privacy_loss
from ldp_jax.verification import _lists
from ldp_jax.verification._blocks import in_blocks

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
      y: the report: a number, a pair (branch, value), or a tuple of these; of a neighbour list the noisy degree
        and what is sent of the bits.
      searched: the largest loss of the random search alone; the whole where everything was enumerated.
    """

    epsilon: float
    x: Any
    x_other: Any
    y: Any
    searched: float


def privacy_loss_supremum(mechanism: Any, records: Any = None) -> Supremum:
    """The supremum of log p(y | x) - log p(y | x') over records x, x' and reports y.

    Reports that are impossible under every record are skipped; one that is possible under some records alone makes
    the supremum infinite. It is the law that is asked, ``log_density``; whether the sampler follows it is another
    question (:mod:`ldp_jax.verification.empirical`). :class:`Discrete` tables are asked in integers, rounded up.
    For :class:`Sampled` the choice of coordinates is independent of the record and the values are independent given
    it, so the supremum is k times the inner one, whose witness is given; :class:`RandomizedFeatures` adds its
    features. For :class:`DuchiVector` the mass of a report is linear in each coordinate of the record, so that
    corners of the cube decide, and only how many of a corner's signs agree with the report matters. Other vectors
    of few finite values are enumerated over the corners and the centres of their domain. Mechanisms of
    :mod:`ldp_jax.edges` (n from 2 to 64) are asked about lists that differ in one bit: every degree, with the bit
    reported and not, at every critical noisy degree.

    Args:
      mechanism: one with a density, on one number or category, or one of the vector or list mechanisms above;
        parameters are one number each.
      records: stacked records to look at in place of the domain's critical ones, members or not; not for tables,
        lists and the vectors that have a rule of their own.

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
    if _has_law_of(mechanism, Sampled):
        inner = privacy_loss_supremum(mechanism.inner)
        return inner._replace(epsilon=mechanism.k * inner.epsilon, searched=mechanism.k * inner.searched)
    if _has_law_of(mechanism, RandomizedFeatures):
        return _sum_of_features(mechanism)
    if isinstance(mechanism, Discrete):
        return _of_table(mechanism.table())
    _check_numbers(mechanism, vectors=True)
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda leaf: jnp.float64(leaf), mechanism)
        if _has_law_of(mechanism, DuchiVector):
            return _of_signs(wide)
        codomain = wide.codomain()
        records = domain.critical_records() if records is None else jax.tree.map(jnp.float64, records)
        reports = codomain.critical_reports(records)
        if domain.all_adjacent and not codomain.continuous and not codomain.branches:
            return _of_columns(wide, records, reports)
        declared = _largest(wide, records, records, reports)
        searched = _random_search(wide, reports)
        hidden = math.isnan(searched.epsilon) or searched.epsilon > declared.epsilon
        larger = searched if hidden else declared  # NaN is not hidden
        if _beyond(wide, records, reports) > larger.epsilon * (1 + 1e-9):  # it grows without end
            larger = larger._replace(epsilon=math.inf)
        return larger._replace(searched=searched.epsilon)


def _has_law_of(mechanism: Any, kind: type) -> bool:
    """Whether a mechanism is of a kind, and no subclass with a density of its own."""
    return isinstance(mechanism, kind) and type(mechanism).log_density is kind.log_density


def _beyond(mechanism: Any, records: Any, reports: Any) -> float:
    """The largest loss far out in an infinite codomain, where a law of bounded loss has no more than before."""
    far = mechanism.codomain().far(reports)
    return -math.inf if far is None else _largest(mechanism, records, records, far).epsilon


def hockey_stick(mechanism: Any, epsilon: float) -> float:
    r"""The least delta at which the law is (epsilon, delta)-private: the largest hockey-stick divergence.

    :math:`\max_{x, x'} \int \max(0, p(y \mid x) - e^\epsilon p(y \mid x')) \, dy` over critical records: a sum
    where reports are finite (for tables 0 exactly from their exact epsilon on), else Gauss-Legendre quadrature
    between the breaks of both records, good to about 1e-6 of the mass in a piece where the loss crosses epsilon.

    Args:
      mechanism: one with a density, on one number or category.
      epsilon: in [0, 700]; float64 has no e^epsilon beyond.

    Raises:
      ValueError: for another mechanism or a negative epsilon.

    >>> from ldp_jax.features import SquareWave
    >>> hockey_stick(SquareWave(1.0), 1.0) < 1e-12, hockey_stick(SquareWave(1.0), 0.5) > 0.1
    (True, True)
    """
    _validate.in_range(0.0, _MAX_EPSILON, epsilon=epsilon)
    if isinstance(mechanism, Discrete):
        table = mechanism.table()
        if epsilon >= table.epsilon:
            return 0.0
        masses = table.masses.astype(np.float64) / _tables.WORDS
        excess = (np.maximum(masses[i] - np.exp(epsilon) * masses, 0).sum(1).max() for i in range(len(masses)))
        return float(max(excess))
    _check_numbers(mechanism)
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda leaf: jnp.float64(leaf), mechanism)
        domain, codomain = mechanism.domain(), wide.codomain()
        records = domain.critical_records()
        first = jax.tree.map(lambda leaf: leaf[0], records)
        reports, weights = codomain.quadrature(records, lambda y: logs_of(wide, y, first))
        count = _count(records)
        each = [jax.tree.map(lambda leaf, i=i: leaf[i], records) for i in range(count)]
        density = np.exp(np.stack([logs_of(wide, reports, x) for x in each])) * np.asarray(weights)
        at = [np.repeat(np.arange(count), count), np.tile(np.arange(count), count)]
        pairs = (jax.tree.map(lambda leaf, i=i: np.asarray(leaf)[i], records) for i in at)
        adjacent = np.asarray(domain.adjacent(*pairs)).reshape(count, count)
    excess = (
        np.where(adjacent[i], np.maximum(row - np.exp(epsilon) * density, 0).sum(1), 0.0).max()
        for i, row in enumerate(density)
    )
    return float(max(excess))


def enumerated_supremum(mechanism: Sampled, limit: int = 4_000_000) -> Supremum:
    """The supremum of a :class:`Sampled` whose inner mechanism is a table, over all records, subsets and reports.

    Nothing is assumed: every record of the grid, every set of coordinates and every vector of outputs is visited,
    and its mass is a product of integers. It is what composition says it is, shown where it can be.

    Args:
      mechanism: with a :class:`Discrete` inner mechanism.
      limit: the most (record, report) pairs to visit.

    Raises:
      ValueError: for another inner mechanism, or more pairs than ``limit``.

    >>> from ldp_jax.features import GridSquareWave
    >>> small = Sampled(GridSquareWave(0.5, inputs=2), dim=3, k=2)
    >>> abs(enumerated_supremum(small).epsilon - 1.0) < 1e-6
    True
    """
    if not isinstance(mechanism.inner, Discrete):
        raise ValueError(
            "mechanism must sample coordinates of a Discrete mechanism: its gridded twin, for instance"
        )
    table = mechanism.inner.table()
    subsets = list(itertools.combinations(range(mechanism.dim), mechanism.k))
    records = list(itertools.product(range(table.inputs), repeat=mechanism.dim))
    outputs = list(itertools.product(range(table.outputs), repeat=mechanism.k))
    if len(subsets) * len(records) * len(outputs) > limit:
        raise ValueError(
            f"{len(subsets) * len(records) * len(outputs)} pairs are more than {limit}: take a coarser grid"
        )
    masses = table.masses.astype(object)
    best = (Fraction(0), (), (), ())
    for subset, output in itertools.product(subsets, outputs):
        # The mass of (subset, output) under every record, but for the subset's own, which all records share.
        mass = [math.prod(masses[record[j], y] for j, y in zip(subset, output, strict=True)) for record in records]
        high, low = max(range(len(mass)), key=mass.__getitem__), min(range(len(mass)), key=mass.__getitem__)
        ratio = Fraction(mass[high], mass[low])
        if ratio > best[0]:
            best = (ratio, records[high], records[low], (subset, output))
    loss = _tables.log_up(best[0])
    points = _points(mechanism.inner)
    return Supremum(loss, tuple(points[i] for i in best[1]), tuple(points[i] for i in best[2]), best[3], loss)


class FloatAudit(NamedTuple):
    """What the float32 arithmetic of a sampler gives away about two records.

    Attributes:
      impossible: the mass, under the first record, of reports that the second cannot give.
      impossible_other: the same the other way round.
      largest_loss: the largest absolute log ratio of masses among the reports that both can give; ``nan`` for none.
      reports: how many different reports the first record can give.
    """

    impossible: float
    impossible_other: float
    largest_loss: float
    reports: int


def float_audit(mechanism: Any, x: float, x_other: float) -> FloatAudit:
    """Push all 2^23 float32 uniforms through a sampler's inverse distribution function, for two records.

    ``privatize`` of these mechanisms draws one of them, so this is the law that runs, not the one on paper:
    whatever its epsilon, a report that one record gives and the other cannot tells them apart for certain. For
    :class:`Discrete` both figures are read from the table over all 2^32 words; for a mechanism of few reports that
    draws a 64-bit word they are counted over all 2^64, by bisection.

    Args:
      mechanism: with ``from_uniform`` or ``from_word64``, or a :class:`Discrete`; epsilon one number.
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
    if isinstance(mechanism, Discrete):
        table = mechanism.table()
        (row, part), (other, other_part) = (
            _tables.split(np, v, table.inputs, table.encoding) for v in (x, x_other)
        )
        first, second = _exact_law(table, int(row), int(part)), _exact_law(table, int(other), int(other_part))
        ratios = [max(Fraction(a, b), Fraction(b, a)) for a, b in zip(first, second, strict=True)]
        return FloatAudit(0.0, 0.0, _tables.log_up(max(ratios)), table.outputs)
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
    return FloatAudit(float(lost), float(lost_other), _tables.log_up(loss), sum(a > 0 for a in mine))


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
    if not all(_validate.concrete(leaf) and np.ndim(leaf) == 0 for leaf in leaves):
        raise ValueError(
            "mechanism must have one concrete number for each parameter: take one of a stack at a time"
        )


def _exact_law(table: _tables.Table, row: int, part: int) -> list[int]:
    """A record's masses over 2^55: two neighbouring rows, mixed as the rounding mixes them."""
    above = min(row + 1, table.inputs - 1)
    whole = 2**23
    return [
        (whole - part) * int(a) + part * int(b) for a, b in zip(table.masses[row], table.masses[above], strict=True)
    ]


def _points(mechanism: Discrete) -> list[float]:
    """A record for each row of a table."""
    n = mechanism.inputs
    if mechanism.encoding == "category":
        return list(map(float, range(n)))
    if mechanism.encoding == "bins":
        return [(i + 0.5) / n for i in range(n)]
    return np.linspace(-1.0, 1.0, n).tolist()


def _of_table(table: _tables.Table) -> Supremum:
    masses = table.masses
    high, low = masses.argmax(0), masses.argmin(0)
    columns = range(table.outputs)
    ratios = [Fraction(int(masses[high[y], y]), int(masses[low[y], y])) for y in columns]
    y = max(columns, key=ratios.__getitem__)
    loss = _tables.log_up(ratios[y])
    points = _points(Discrete.of(table))
    return Supremum(loss, points[high[y]], points[low[y]], y, loss)


def _sum_of_features(mechanism: RandomizedFeatures) -> Supremum:
    levels = np.asarray(mechanism.inner.level)
    each = {level: _of_table(mechanism.inner.table(level)) for level in np.unique(levels).tolist()}
    parts = [each[level] for level in levels.tolist()]
    total = math.fsum(part.epsilon for part in parts)
    x, other, y = (tuple(getattr(part, field) for part in parts) for field in ("x", "x_other", "y"))
    return Supremum(total, x, other, y, total)


def _of_signs(mechanism: Any) -> Supremum:
    dim = mechanism.dim
    corners = jnp.where(jnp.arange(dim) < jnp.arange(dim + 1)[:, None], 1.0, -1.0)
    logs = np.asarray(jax.lax.map(lambda x: mechanism.log_density(jnp.ones(dim), x), corners))
    high, low = int(logs.argmax()), int(logs.argmin())
    loss = float(logs[high] - logs[low])
    x, other = (tuple(np.asarray(corners[i]).tolist()) for i in (high, low))
    return Supremum(loss, x, other, (1.0,) * dim, loss)


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
    picked = [
        jax.tree.map(lambda leaf, at=axis: np.asarray(leaf)[at], each)
        for each, axis in zip((x, other, y), (axis.ravel() for axis in axes), strict=True)
    ]
    return _witness(mechanism, *picked)


def _random_search(mechanism: Any, reports: Any) -> Supremum:
    """The largest loss over random pairs of records, at random reports and at reports drawn from one of them."""
    rng = np.random.default_rng(0)  # no privacy depends on it
    codomain = mechanism.codomain()
    x, other = mechanism.domain().neighbours(rng, _SEARCH)
    y = codomain.search(rng, reports, _SEARCH)
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
