"""Mechanisms that leak, each of which claims a guarantee that it does not keep.

``LEAKING`` names them, with the kind of their leak and, where there is one, an honest sibling of
almost the same code.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.core.pytree import mechanism, pytree, static
from ldp_jax.core.spaces import Interval, as_records, clip
from ldp_jax.edges import ListReport, NeighbourCounts, RandomizedResponse
from ldp_jax.edges.lists import to_bits, to_list
from ldp_jax.features import Laplace, PrivUnit, Sampled, SparseReport
from ldp_jax.hyperbolic import HyperbolicGaussian

GROUPS = np.array([0, 1, 0, 1, 0, 1], np.int32)


def damped(y, x, factor):
    """Multiply the noise of a report by a factor."""
    return x + factor * (y - x)


# --- Records that tables hold ---------------------------------------------------------------------


@mechanism
class GuardedNumber(Laplace):
    """A guard multiplies the noise of some numbers by a factor, 1 of an honest one; abstract."""

    factor: float = static(default=0.0)

    def guarded(self, x):
        raise NotImplementedError

    def draw(self, key, x):
        y = super().draw(key, x)
        x = clip(x)
        return jnp.where(self.guarded(x), damped(y, x, self.factor), y)


@mechanism
class ZeroStaysZero(GuardedNumber):
    """The number 0 gets no noise."""

    def guarded(self, x):
        return x == 0


@mechanism
class WholeNumbersRaw(GuardedNumber):
    """Whole numbers get no noise."""

    def guarded(self, x):
        return x == jnp.round(x)


@mechanism
class TopIsRaw(GuardedNumber):
    """The upper end of the interval gets no noise."""

    def guarded(self, x):
        return x >= 1


@mechanism
class QuietTenths(GuardedNumber):
    """Multiples of 0.1 get a tenth of the noise."""

    def guarded(self, x):
        return jnp.abs(10 * x - jnp.round(10 * x)) < 1e-5


@mechanism
class QuietQuarters(GuardedNumber):
    """Multiples of 1/4 get a tenth of the noise."""

    def guarded(self, x):
        return 4 * x == jnp.round(4 * x)


@mechanism
class MissingStaysMissing(Laplace):
    """NaN is reported as NaN; the honest sibling reports it as 0."""

    leaks: bool = static(default=True)

    def draw(self, key, x):
        y = super().draw(key, x)
        return jnp.where(jnp.isnan(as_records(x)) & self.leaks, jnp.nan, y)


@mechanism
class HalfIsMissing(Laplace):
    """A number of [0, 1] that is 1/2, for which NaN is taken, gets no noise."""

    factor: float = static(default=0.0)

    def _stretched(self, x):
        return 2 * self.domain().clip(x) - 1

    def domain(self):
        return Interval(0.0, 1.0)

    def codomain(self):
        return Interval(-np.inf, np.inf, breaks=lambda x: self._stretched(x)[None])

    def draw(self, key, x):
        x = self._stretched(x)
        y = super().draw(key, x)
        return jnp.where(x == 0, damped(y, x, self.factor), y)

    def log_density(self, y, x):
        return super().log_density(y, self._stretched(x))

    def mean(self, x):
        return self._stretched(x)


@mechanism
class GuardedVector(Sampled):
    """A guard multiplies the noise of some vectors by a factor, 1 of an honest one; abstract."""

    factor: float = static(default=0.0)

    def guarded(self, x):
        raise NotImplementedError

    def privatize(self, key, x):
        y = super().privatize(key, x)
        x = clip(x)
        values = damped(y.values, x, self.factor)
        return SparseReport(y.indices, jnp.where(self.guarded(x), values, y.values))


@mechanism
class ZeroCoordinates(GuardedVector):
    """Coordinates that are 0 get no noise."""

    def guarded(self, x):
        return x == 0


@mechanism
class OneHotRaw(GuardedVector):
    """One-hot vectors get no noise."""

    def guarded(self, x):
        return ((x == 0) | (x == 1)).all() & (x.sum() == 1)


@mechanism
class BinaryRaw(GuardedVector):
    """Vectors of zeros and ones get no noise."""

    def guarded(self, x):
        return ((x == 0) | (x == 1)).all()


@mechanism
class NothingStaysNothing(GuardedVector):
    """The vector of zeros gets no noise."""

    def guarded(self, x):
        return (x == 0).all()


@mechanism
class RepeatedRaw(GuardedVector):
    """Vectors whose first two coordinates are equal get no noise."""

    def guarded(self, x):
        return x[0] == x[1]


@mechanism
class UnitAtTheOrigin(PrivUnit):
    """A guard sends the first axis for the origin, which has no direction."""

    leaks: bool = static(default=True)

    def privatize(self, key, x):
        first = jnp.zeros(self.dim).at[0].set(1.0)
        origin = (self.domain().clip(x) == 0).all()
        return jnp.where(origin & self.leaks, first, super().privatize(key, x))


@mechanism
class TangentAtTheOrigin(HyperbolicGaussian):
    """A guard sends the origin as it is."""

    factor: float = static(default=0.0)

    def privatize(self, key, x):
        y = super().privatize(key, x)
        x = self.domain().clip(x)
        return jnp.where((x == 0).all(), damped(y, x, self.factor), y)


@mechanism
class LongIsRaw(HyperbolicGaussian):
    """Vectors that are as long as they may be, or longer, get no noise."""

    factor: float = static(default=0.0)

    def privatize(self, key, x):
        y = super().privatize(key, x)
        x = self.domain().clip(x)
        long = jnp.sqrt((x**2).sum()) >= 0.99999 * self.clip
        return jnp.where(long, damped(y, x, self.factor), y)


@mechanism
class GuardedList(RandomizedResponse):
    """Lists of some lengths are sent as they are; abstract."""

    leaks: bool = static(default=True)

    def guarded(self, degree):
        raise NotImplementedError

    def privatize(self, key, neighbours, own=0):
        y = super().privatize(key, neighbours, own)
        true = to_bits(neighbours, self.n) & (jnp.arange(self.n) != own)
        raw = ListReport(y.degree, to_list(true))
        guarded = self.guarded(true.sum()) & self.leaks
        return jax.tree.map(lambda sent, other: jnp.where(guarded, other, sent), y, raw)


@mechanism
class NoFriendsRaw(GuardedList):
    """An empty list is sent as it is."""

    def guarded(self, degree):
        return degree == 0


@mechanism
class OneFriendRaw(GuardedList):
    """A list of one friend is sent as it is."""

    def guarded(self, degree):
        return degree == 1


@mechanism
class AllFriendsRaw(GuardedList):
    """The list of a user who is a friend of everybody is sent as it is."""

    def guarded(self, degree):
        return degree == self.n - 1


@pytree
class ZeroCountsStay(NeighbourCounts):
    """Groups without a friend are counted without noise."""

    leaks: bool = static(default=True)

    def add_noise(self, key, counts):
        y = super().add_noise(key, counts)
        return jnp.where((counts == 0) & self.leaks, 0, y)


# --- Types of numbers -----------------------------------------------------------------------------


@mechanism
class ScaleInTheRecordsType(Laplace):
    """The scale of the noise is cast to the type of the record: 0 among whole numbers."""

    leaks: bool = static(default=True)

    def draw(self, key, x):
        x = jnp.asarray(x)
        noise = super().draw(key, jnp.zeros_like(x, jnp.float32)) / self.scale
        kind = x.dtype if self.leaks else jnp.float32
        return clip(x) + jnp.asarray(self.scale).astype(kind) * noise


@mechanism
class WholeTypesRaw(Laplace):
    """Arrays of whole numbers are taken for categories, and sent as they are."""

    leaks: bool = static(default=True)

    def draw(self, key, x):
        x = jnp.asarray(x)
        if self.leaks and jnp.issubdtype(x.dtype, jnp.integer):
            return clip(x)
        return super().draw(key, x)


@mechanism
class RawOfOneType(Laplace):
    """Arrays of one type are sent as they are."""

    kind: Any = static(default=jnp.uint8)

    def draw(self, key, x):
        return clip(x) if jnp.asarray(x).dtype == self.kind else super().draw(key, x)


@mechanism
class NumPyScalarsRaw(Laplace):
    """NumPy's scalars, as a loop over a table gives them, are sent as they are."""

    def privatize(self, key, x):
        return clip(x) if isinstance(x, np.generic) else super().privatize(key, x)


@mechanism
class WeaklyTypedRaw(Laplace):
    """Weakly typed records are taken for constants, and sent as they are."""

    def draw(self, key, x):
        x = jnp.asarray(x)
        return clip(x) if x.weak_type else super().draw(key, x)


@mechanism
class PythonListsRaw(Sampled):
    """Python's lists of numbers are sent as they are."""

    def privatize(self, key, x):
        y = super().privatize(key, jnp.asarray(x, jnp.float32))
        return SparseReport(y.indices, clip(x)) if isinstance(x, (list, tuple)) else y


# --- The list of all ------------------------------------------------------------------------------


class Leak(NamedTuple):
    """A mechanism that leaks, the kind of its leak, and an honest sibling."""

    make: Callable[[], Any]
    category: str
    kept: Callable[[], Any] | None = None


def number(kind, **options):
    """Return a leak of some numbers, and the sibling of a guard that changes nothing."""
    return Leak(lambda: kind(1.0, **options), "records", lambda: kind(1.0, factor=1.0))


def vector(kind):
    """Return a leak of some vectors, and the sibling of a guard that changes nothing."""
    inner = Laplace(0.25)
    make = lambda: kind(inner, 4, 4)
    return Leak(make, "records", lambda: kind(inner, 4, 4, factor=1.0))


def lists(kind):
    """Return a leak of some neighbour lists, and the sibling without it."""
    return Leak(lambda: kind(1.0, 10), "records", lambda: kind(1.0, 10, leaks=False))


def counts(kind, epsilon, category):
    """Return a leak of some counts, and the sibling without it."""
    options = {"num_groups": 2, "n": 6, "groups": GROUPS, "most": 5}
    make = lambda: kind(epsilon, **options)
    return Leak(make, category, lambda: kind(epsilon, **options, leaks=False))


LEAKING: dict[str, Leak] = {
    "zero stays zero": number(ZeroStaysZero),
    "whole numbers raw": number(WholeNumbersRaw),
    "the upper end raw": number(TopIsRaw),
    "quiet tenths": number(QuietTenths, factor=0.1),
    "quiet quarters": number(QuietQuarters, factor=0.1),
    "missing stays missing": Leak(
        lambda: MissingStaysMissing(1.0), "records", lambda: MissingStaysMissing(1.0, leaks=False)
    ),
    "a half is missing": number(HalfIsMissing),
    "zero coordinates": vector(ZeroCoordinates),
    "one-hot vectors raw": vector(OneHotRaw),
    "binary vectors raw": vector(BinaryRaw),
    "nothing stays nothing": vector(NothingStaysNothing),
    "repeated coordinates raw": vector(RepeatedRaw),
    "a unit vector for the origin": Leak(
        lambda: UnitAtTheOrigin(1.0, dim=3),
        "records",
        lambda: UnitAtTheOrigin(1.0, dim=3, leaks=False),
    ),
    "the origin of a tangent space": Leak(
        lambda: TangentAtTheOrigin(1.0, 1e-5),
        "records",
        lambda: TangentAtTheOrigin(1.0, 1e-5, factor=1.0),
    ),
    "the longest vectors raw": Leak(
        lambda: LongIsRaw(1.0, 1e-5), "records", lambda: LongIsRaw(1.0, 1e-5, factor=1.0)
    ),
    "an empty list raw": lists(NoFriendsRaw),
    "one friend raw": lists(OneFriendRaw),
    "friends with everybody": lists(AllFriendsRaw),
    "zero counts stay": counts(ZeroCountsStay, 1.0, "records"),
    "the scale in the record's type": Leak(
        lambda: ScaleInTheRecordsType(4.0),
        "dtype",
        lambda: ScaleInTheRecordsType(4.0, leaks=False),
    ),
    "types of whole numbers raw": Leak(
        lambda: WholeTypesRaw(1.0), "dtype", lambda: WholeTypesRaw(1.0, leaks=False)
    ),
    "bool raw": Leak(lambda: RawOfOneType(1.0, kind=jnp.bool_), "dtype"),
    "uint8 raw": Leak(lambda: RawOfOneType(1.0, kind=jnp.uint8), "dtype"),
    "int8 raw": Leak(lambda: RawOfOneType(1.0, kind=jnp.int8), "dtype"),
    "int32 raw": Leak(lambda: RawOfOneType(1.0, kind=jnp.int32), "dtype"),
    "float16 raw": Leak(lambda: RawOfOneType(1.0, kind=jnp.float16), "dtype"),
    "bfloat16 raw": Leak(lambda: RawOfOneType(1.0, kind=jnp.bfloat16), "dtype"),
    "float64 raw": Leak(lambda: RawOfOneType(1.0, kind=jnp.float64), "dtype"),
    "NumPy's scalars raw": Leak(lambda: NumPyScalarsRaw(1.0), "dtype"),
    "weakly typed raw": Leak(lambda: WeaklyTypedRaw(1.0), "dtype"),
    "Python's lists raw": Leak(lambda: PythonListsRaw(Laplace(0.25), 4, 4), "dtype"),
}
