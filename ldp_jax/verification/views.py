"""What is looked at in a report: every number of it, their sums, differences and bits."""

import dataclasses
import itertools
from typing import Any, NamedTuple

import jax
import numpy as np

from ldp_jax.core.spaces import ByCoordinate, Reports
from ldp_jax.core.types import Report
from ldp_jax.edges.lists import NeighbourList
from ldp_jax.verification._programs import is_float, raw

RESOLUTION = 1e-4
"""Numbers of a continuum are rounded to this share of their usual size: a float32 sampler's last
bits tell the record.
"""

LAST = 8
"""The last bits of a float32 number, of which small differences of numbers are zeros."""

ROUNDING = 1.0
"""The loss in one of the last bits, in nats, that float32 rounding may cause."""

_COLUMNS = 32  # numbers of a report that are looked at
_PAIRED = 4  # numbers of which all pairs are
_WITH_BITS = 8  # numbers whose bits are
_NAN = float(np.finfo(np.float64).max)
_INFINITE = _NAN / 2
_EXACT_STEPS = 2.0**53  # float64 holds every whole number below


class Views(NamedTuple):
    """Numbers of stacked reports by which two records may be told apart.

    Attributes:
      names: one a view.
      values: float64 [views, n], without NaN.
      bit_names: one a bit.
      bits: bool [bits, n].
    """

    names: list[str]
    values: np.ndarray
    bit_names: list[str]
    bits: np.ndarray


@dataclasses.dataclass(frozen=True)
class Viewer:
    """Which numbers of a report are looked at: at most 32, chosen at random once.

    ``scales`` [chosen, 2] have a step to which each is rounded and what lies in the middle of the
    usual ones; ``whole`` [arrays, 2] have those of all numbers of an array of the report.
    """

    codomain: Any
    chosen: np.ndarray
    scales: np.ndarray
    whole: np.ndarray
    with_bits: bool

    @classmethod
    def of(cls, codomain: Reports, y: Report, rng: np.random.Generator) -> "Viewer":
        """A viewer of such reports, by stacked ones of any records."""
        numbers, floats = _numbers(codomain, y)
        chosen = np.sort(rng.permutation(numbers.shape[1])[:_COLUMNS])
        reals = codomain.continuous
        scales = [_scale(numbers[:, column], reals and bool(floats[column])) for column in chosen]
        whole = [_scale(part, reals) for part in _parts(codomain, y)]
        return cls(codomain, chosen, np.array(scales), np.array(whole), reals)

    def views(self, y: Report, differing: np.ndarray | None = None) -> Views:
        """The views of stacked reports; ``differing`` [n] is where the two records are not alike.

        The number at that place is a view, if reports have as many numbers as records.
        """
        numbers, _ = _numbers(self.codomain, y)
        found = {}
        columns = []
        for column, (step, middle) in zip(self.chosen, self.scales, strict=True):
            number = rounded(numbers[:, column], step)
            columns.append(number)
            found[f"number {column}"] = number
            if len(columns) <= _PAIRED:
                found[f"|number {column} - {middle:.4g}|"] = np.abs(number - middle)
        if len(columns) > 1:
            found |= _of_all(np.stack(columns, 1))
        bits = {}
        for (i, one), (j, other) in itertools.combinations(list(enumerate(columns))[:_PAIRED], 2):
            with np.errstate(invalid="ignore", over="ignore"):
                found[f"difference of {i} and {j}"] = one - other
                found[f"product of {i} and {j}"] = one * other
            bits[f"{i} equals {j}"] = one == other
        if differing is not None:
            found |= self._where_they_differ(y, columns[0], differing)
        bits |= _bits(y) if self.with_bits else {}
        values = np.stack([_finite(column) for column in found.values()])
        several = np.stack(list(bits.values())) if bits else np.zeros((0, len(numbers)), bool)
        return Views(list(found), values, list(bits), several)

    def _where_they_differ(
        self, y: Report, first: np.ndarray, differing: np.ndarray
    ) -> dict[str, np.ndarray]:
        found = {}
        for part, (step, middle) in zip(_parts(self.codomain, y), self.whole, strict=True):
            if part.shape[1] <= max(1, differing.max()):
                continue
            one = rounded(part[np.arange(len(part)), differing], step)
            found["the number that differs"] = one
            found["the first number if that is high"] = np.where(one > middle, first, -_INFINITE)
            found["the first number if that is low"] = np.where(one > middle, -_INFINITE, first)
        return found


def leaves_of(y: Report) -> list[np.ndarray]:
    """The leaves of stacked reports, [n, ...]; a neighbour list is one, as bits."""
    whole = lambda part: isinstance(part, NeighbourList)
    parts = jax.tree.leaves(y, is_leaf=whole)
    return [_as_bits(part) if whole(part) else np.asarray(part) for part in parts]


def _as_bits(lists: NeighbourList) -> np.ndarray:
    """Stacked lists as bits int8 [n, nodes], and a column for numbers that are no nodes."""
    ids = np.asarray(lists.ids)
    nodes = ids.shape[1]
    bits = np.zeros((len(ids), nodes + 1), np.int8)
    np.put_along_axis(bits, np.clip(ids, 0, nodes), 1, 1)
    return bits[:, :nodes]


def _parts(codomain: Any, y: Report) -> list[np.ndarray]:
    """The arrays of a report, float64 [n, width]; of sampled coordinates NaN where not sent."""
    found = [leaf.reshape(len(leaf), -1).astype(np.float64) for leaf in leaves_of(y)]
    if isinstance(codomain, ByCoordinate) and codomain.sent < codomain.dim:
        indices, values = codomain.entries(y)
        for leaf in jax.tree.leaves(values):
            dense = np.full((len(indices), codomain.dim), np.nan)
            np.put_along_axis(dense, np.asarray(indices), np.asarray(leaf, np.float64), 1)
            found.append(dense)
    return found


def _numbers(codomain: Any, y: Report) -> tuple[np.ndarray, np.ndarray]:
    """All numbers of stacked reports, float64 [n, c], and which of them are of a floating type."""
    parts = _parts(codomain, y)
    floats = [is_float(leaf) for leaf in leaves_of(y)]
    floats += [True] * (len(parts) - len(floats))
    each = [np.full(part.shape[1], kind) for part, kind in zip(parts, floats, strict=True)]
    return np.concatenate(parts, 1), np.concatenate(each)


def _scale(numbers: np.ndarray, reals: bool) -> tuple[float, float]:
    """The step to which numbers are rounded, 0 for whole ones, and a number in their middle."""
    usual = numbers[np.isfinite(numbers)]
    if not len(usual):
        return 0.0, 0.0
    step = RESOLUTION * float(np.quantile(np.abs(usual), 0.9)) if reals else 0.0
    return step, float(np.median(np.unique(usual)))


def rounded(column: np.ndarray, step: float) -> np.ndarray:
    """Numbers to a step; as they are where it is 0."""
    if step <= 0:
        return column
    with np.errstate(over="ignore"):  # a number so far out has no digits below a step
        steps = np.round(column / step)
        return np.where(np.abs(steps) < _EXACT_STEPS, steps * step, column)


def _of_all(numbers: np.ndarray) -> dict[str, np.ndarray]:
    """Statistics of the numbers of each report."""
    there = np.isfinite(numbers)
    known = np.where(there, numbers, 0.0)
    return {
        "sum": known.sum(1),
        "size": np.sqrt((known**2).sum(1)),
        "largest": np.where(there, numbers, -_INFINITE).max(1),
        "smallest": np.where(there, numbers, _INFINITE).min(1),
        "zeros": (known == 0).sum(1).astype(np.float64),
        "sign of the product": np.sign(known).prod(1),
    }


def _finite(column: np.ndarray) -> np.ndarray:
    """Numbers in order, the infinities far out and NaN beyond them."""
    return np.nan_to_num(column, nan=_NAN, posinf=_INFINITE, neginf=-_INFINITE)


def _bits(y: Report) -> dict[str, np.ndarray]:
    """The bits of the first floating numbers of stacked reports, and their parities with the next.

    The last bits of float32 numbers are named so.
    """
    floats = [leaf for leaf in leaves_of(y) if is_float(leaf)]
    columns = [column for leaf in floats for column in raw(leaf).reshape(len(leaf), -1).T]
    found = {}
    for number, column in enumerate(columns[:_WITH_BITS]):
        width = 23 if column.dtype.itemsize == 4 else 8 * column.dtype.itemsize - 6
        bits = [(column >> column.dtype.type(place)) & 1 == 1 for place in range(width)]
        for place, bit in enumerate(bits):
            last = "last " if place < LAST else ""
            found[f"{last}bit {place} of {number}"] = bit
            if place + 1 < width:
                found[f"{last}bits {place} and {place + 1} of {number}"] = bit ^ bits[place + 1]
    return found
