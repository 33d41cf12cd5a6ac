"""Mechanisms that leak, each of which claims a guarantee that it does not keep.

``LEAKING`` names them, with the kind of their leak and, where there is one, an honest sibling of
almost the same code.
"""

import dataclasses
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse

from ldp_jax.accounting.guarantee import LABEL, RECORD, Guarantee
from ldp_jax.core.mechanism import Numeric, largest
from ldp_jax.core.pytree import mechanism, pytree, static
from ldp_jax.core.spaces import Enumerated, Finite, Interval, Mixture, as_records, clip
from ldp_jax.core.spaces.spheres import polar
from ldp_jax.edges import ListReport, NeighbourCounts, RandomizedResponse, ReportedPairs
from ldp_jax.edges.lists import to_bits, to_list
from ldp_jax.features import (
    BranchReport,
    Discrete,
    GeneralizedRR,
    Laplace,
    PrivUnit,
    Sampled,
    SparseReport,
)
from ldp_jax.hyperbolic import HyperbolicGaussian
from tests.broken import Bare

COUNTS = {"num_groups": 2, "n": 6, "groups": np.array([0, 1, 0, 1, 0, 1], np.int32), "most": 5}


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
        return x == jnp.round(10 * x) / 10


@mechanism
class QuietQuarters(GuardedNumber):
    """Multiples of 1/4 get a tenth of the noise."""

    def guarded(self, x):
        return 4 * x == jnp.round(4 * x)


@mechanism
class QuietInside(GuardedNumber):
    """Multiples of 0.1 get a tenth of the noise, but for both ends and the centre."""

    def guarded(self, x):
        ends = (x == 0) | (jnp.abs(x) == 1)
        return ~ends & (x == jnp.round(10 * x) / 10)


@mechanism
class MissingStaysMissing(Laplace):
    """NaN is reported as NaN; the honest sibling reports it as 0."""

    leaks: bool = static(default=True)

    def draw(self, key, x):
        y = super().draw(key, x)
        return jnp.where(jnp.isnan(as_records(x)) & self.leaks, jnp.nan, y)


@mechanism
class HalfIsMissing(Bare):
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
        y = Laplace(self.epsilon).draw(key, x)
        return jnp.where(x == 0, damped(y, x, self.factor), y)

    def log_density(self, y, x):
        return Laplace(self.epsilon).log_density(y, self._stretched(x))

    def mean(self, x):
        return self._stretched(x)

    def variance(self, x):
        return Laplace(self.epsilon).variance(x)

    def guarantee(self):
        return Laplace(self.epsilon).guarantee()


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
class BinaryInside(GuardedVector):
    """Vectors of zeros and ones get no noise, but for those of zeros or of ones alone."""

    def guarded(self, x):
        return ((x == 0) | (x == 1)).all() & (x != x[0]).any()


@mechanism
class SomeRepeated(GuardedVector):
    """Vectors whose first two coordinates are equal, but not all, get no noise."""

    def guarded(self, x):
        return (x[0] == x[1]) & (x != x[0]).any()


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


# --- Parts of a report that nobody asks about -----------------------------------------------------


class Told(NamedTuple):
    """Two noisy bits, and a number that the space of reports does not look at."""

    first: Any
    second: Any
    more: Any


@dataclasses.dataclass(frozen=True)
class TwoBits(Enumerated):
    """Pairs of bits, whatever comes after them."""

    def members(self):
        return np.array([0.0, 0.0, 1.0, 1.0]), np.array([0.0, 1.0, 0.0, 1.0])

    def place(self, values):
        return (2 * np.asarray(values[0]) + np.asarray(values[1])).astype(np.int64)


@dataclasses.dataclass(frozen=True)
class FirstColumn(Enumerated):
    """Rows of two numbers, the first of which is a bit."""

    def members(self):
        return np.array([[0.0, 0.0], [1.0, 0.0]])

    def place(self, values):
        return np.asarray(values)[..., 0].astype(np.int64)


@mechanism
class Flips:
    """A bit of a record is flipped at random; abstract."""

    epsilon: Any
    leaks: bool = static(default=True)

    def flipped(self, key, x, epsilon, shape=()):
        flip = jax.random.bernoulli(key, jax.nn.sigmoid(-epsilon), shape)
        return jnp.abs(self.domain().clip(x) - flip)

    def log_flipped(self, y, x, epsilon):
        same = y == self.domain().clip(x)
        return jnp.where(same, jax.nn.log_sigmoid(epsilon), jax.nn.log_sigmoid(-epsilon))

    def domain(self):
        return Finite((0.0, 1.0))

    def guarantee(self):
        reason = "each bit is flipped alone"
        return Guarantee(largest(self.epsilon), status="proved", reason=reason)


@mechanism
class ThirdLeaf(Flips):
    """Beside two noisy bits the record is sent, in a leaf that the space ignores."""

    def privatize(self, key, x):
        y = self.flipped(key, x, self.epsilon / 2, (2,))
        return Told(y[0], y[1], self.domain().clip(x) * self.leaks)

    def log_density(self, y, x):
        each = [self.log_flipped(bit, x, self.epsilon / 2) for bit in y[:2]]
        return each[0] + each[1]

    def codomain(self):
        return TwoBits()

    def estimate(self, y):
        return (y[0] + y[1]) / 2


@mechanism
class SecondColumn(Flips):
    """Beside a noisy bit the record is sent, in a column that the space ignores."""

    def privatize(self, key, x):
        return jnp.stack([self.flipped(key, x, self.epsilon), self.domain().clip(x) * self.leaks])

    def log_density(self, y, x):
        return self.log_flipped(y[..., 0], x, self.epsilon)

    def codomain(self):
        return FirstColumn()

    def estimate(self, y):
        return jnp.asarray(y)[..., 0]


@mechanism
class Silence(Laplace):
    """Half of the users send 0 times their record, whose sign is the record's."""

    leaks: bool = static(default=True)

    def draw(self, key, x):
        coin_key, noise_key = jax.random.split(key)
        answers = jax.random.bernoulli(coin_key, 0.5, jnp.shape(x))
        nothing = clip(x) * 0.0 if self.leaks else 0.0
        y = jnp.where(answers, super().draw(noise_key, x), nothing)
        return BranchReport(answers.astype(jnp.int32), y)

    def log_density(self, y, x):
        answer = super().log_density(y[1], x)
        return jnp.log(0.5) + jnp.where(jnp.asarray(y[0]) == 1, answer, 0.0)

    def codomain(self):
        return Mixture((Finite((0.0,)), super().codomain()))

    def estimate(self, y):
        return 2.0 * jnp.asarray(y[1])

    def variance(self, x):
        return 2 * super().variance(x) + clip(x) ** 2


@mechanism
class PayloadOfADegree(RandomizedResponse):
    """The degree is NaN, as no degree is sent, and the bits of that NaN are the degree."""

    leaks: bool = static(default=True)

    def privatize(self, key, neighbours, own=0):
        y = super().privatize(key, neighbours, own)
        true = to_bits(neighbours, self.n) & (jnp.arange(self.n) != own)
        told = true.sum().astype(jnp.uint32) * jnp.uint32(self.leaks)
        nan = jax.lax.bitcast_convert_type(jnp.uint32(0x7FC00000) | told, jnp.float32)
        return ListReport(nan, y.neighbours)


@mechanism
class MiddleBit(Laplace):
    """A bit in the middle of a number is the sign of the record."""

    place: int = static(default=12)
    leaks: bool = static(default=True)

    def privatize(self, key, x):
        bits = jax.lax.bitcast_convert_type(super().privatize(key, x), jnp.uint32)
        sign = (clip(x) > 0).astype(jnp.uint32) << self.place
        told = bits & ~jnp.uint32(1 << self.place) | sign
        return jax.lax.bitcast_convert_type(told if self.leaks else bits, jnp.float32)


@mechanism
class MiddleBitOfAVector(Sampled):
    """A bit in the middle of each number is the sign of its coordinate."""

    leaks: bool = static(default=True)

    def privatize(self, key, x):
        y = super().privatize(key, x)
        bits = jax.lax.bitcast_convert_type(y.values, jnp.uint32)
        sign = (clip(x) > 0).astype(jnp.uint32) << 12
        told = jnp.where(self.leaks, bits & ~jnp.uint32(1 << 12) | sign, bits)
        return SparseReport(y.indices, jax.lax.bitcast_convert_type(told, jnp.float32))


@mechanism
class ShapeTells(Laplace):
    """A plain call sends a positive record's report as a row of one number."""

    def privatize(self, key, x):
        y = super().privatize(key, x)
        if isinstance(y, jax.core.Tracer) or not clip(x) > 0:
            return y
        return y[None]


@mechanism
class TypeTells(Laplace):
    """A plain call sends a positive record's report as a float64 of the same value."""

    def privatize(self, key, x):
        y = super().privatize(key, x)
        if isinstance(y, jax.core.Tracer) or not clip(x) > 0:
            return y
        return np.float64(y)


@mechanism
class LengthTells(Sampled):
    """A plain call leaves out coordinates that are 0."""

    def privatize(self, key, x):
        y = super().privatize(key, x)
        if isinstance(y.values, jax.core.Tracer):
            return y
        some = np.asarray(clip(x))[np.asarray(y.indices)] != 0
        return SparseReport(y.indices[some], y.values[some])


# --- Whole graphs ---------------------------------------------------------------------------------


@mechanism
class GuardedGraph(RandomizedResponse):
    """The reports of a graph are drawn at once, and some users' lists sent raw; abstract."""

    leaks: bool = static(default=True)

    def guarded(self, users):
        raise NotImplementedError

    def sample_graph(self, key, users, memory):
        drawn = super().sample_graph(key, users, memory)
        guarded = self.guarded(users) & self.leaks
        true = guarded[users.receivers]
        noisy = ~guarded[drawn.reporter]
        reporter = np.concatenate([users.receivers[true], drawn.reporter[noisy]])
        reported = np.concatenate([users.senders[true], drawn.reported[noisy]])
        if not self.leaks:
            return drawn
        return ReportedPairs(reporter, reported, drawn.degree)


@mechanism
class HubsRaw(GuardedGraph):
    """Users with four and more friends are sent as they are."""

    def guarded(self, users):
        return users.degree >= 4


@mechanism
class TrianglesRaw(GuardedGraph):
    """Users with two friends who are friends are sent as they are."""

    def guarded(self, users):
        n = len(users.group)
        ones = np.ones(len(users.senders))
        adjacency = sparse.csr_array((ones, (users.receivers, users.senders)), (n, n))
        common = (adjacency @ adjacency).multiply(adjacency)
        return np.asarray(common.sum(1)) > 0


@mechanism
class LonersRaw(GuardedGraph):
    """Users without a friend report that they have none."""

    def guarded(self, users):
        return users.degree == 0


@mechanism
class MostFriendsRaw(GuardedGraph):
    """The one user with most friends, if there is one, is sent as they are."""

    def guarded(self, users):
        most = users.degree == users.degree.max()
        return most & (most.sum() == 1)


@mechanism
class OneGraphRaw(GuardedGraph):
    """All users of a single graph are sent as they are, and none of a set of graphs."""

    def guarded(self, users):
        return np.full(len(users.group), users.group.max() == 0)


@mechanism
class HalfIsLoud(RandomizedResponse):
    """Where each pair has one owner, the owner reports it with a budget of 8."""

    def sample_graph(self, key, users, memory):
        if self.reporting == "full":
            return super().sample_graph(key, users, memory)
        return RandomizedResponse(8.0, self.n, "half").sample_graph(key, users, memory)


# --- Delta ----------------------------------------------------------------------------------------


@mechanism
class OfSpread(Bare, Numeric):
    """Gaussian noise of a spread that a twin chooses by the record; abstract.

    The density says so, too. ``less`` is by how much the smallest spread falls short.
    """

    delta: float = static(default=1e-5)
    less: float = static(default=0.7)

    right: ClassVar[float] = 7.4614  # at epsilon 1 and delta 1e-5

    def short(self, x):
        raise NotImplementedError

    def spread(self, x):
        return self.right * (1 - self.less * self.short(jnp.abs(clip(x))))

    def from_uniform(self, u, x):
        return clip(x) + self.spread(x) * jax.scipy.special.ndtri(u)

    def log_density(self, y, x):
        return jax.scipy.stats.norm.logpdf(y, clip(x), self.spread(x))

    def codomain(self):
        return Interval(-np.inf, np.inf, lambda x: clip(x)[None])

    def variance(self, x):
        return self.spread(x) ** 2

    def guarantee(self):
        return Guarantee(largest(self.epsilon), self.delta)


@mechanism
class RightAtQuarters(OfSpread):
    """The spread is right at multiples of 1/4, and too small between."""

    def short(self, x):
        return jnp.sin(4 * jnp.pi * x) ** 2


@mechanism
class ShortInADip(OfSpread):
    """The spread is too small about 0.3, and right elsewhere."""

    def short(self, x):
        return jnp.exp(-(((x - 0.3) / 0.01) ** 2))


@mechanism
class ShortInARing(OfSpread):
    """The spread is right at the centre and at the ends, and falls smoothly to its least between.

    It is right at 1/4, 1/2 and 3/4, too, where a thin band is left out.
    """

    def short(self, x):
        near = jnp.abs(4 * x - jnp.round(4 * x)) / 4
        return 4 * x * (1 - x) * (1 - jnp.exp(-((near / 0.005) ** 2)))


@mechanism
class TangentSpread(HyperbolicGaussian):
    """Gaussian noise of a spread that a twin chooses by the vector; abstract."""

    less: float = static(default=0.7)

    def short(self, x):
        raise NotImplementedError

    def spread(self, x):
        return self._scales() * (1 - self.less * self.short(x / self.clip))

    def privatize(self, key, x):
        x = self.domain().clip(x)
        return x + self.spread(x) * jax.random.normal(key, x.shape)

    def log_density(self, y, x):
        x = self.domain().clip(x)
        return jax.scipy.stats.norm.logpdf(y, x, self.spread(x)).sum(-1)


@mechanism
class RightOnAxes(TangentSpread):
    """The spread is right on both axes, and too small between them."""

    def short(self, x):
        size = (x**2).sum()
        between = (2 * x[0] * x[1]) ** 2
        return jnp.where(size > 0, between / jnp.where(size > 0, size, 1.0) ** 2, 0.0)


@mechanism
class RightAtBothEnds(TangentSpread):
    """The spread is right at the origin and at the longest vectors, and too small between."""

    def short(self, x):
        size = (x**2).sum()
        return 4 * size * (1 - size)


# --- Coordinates that are not independent ---------------------------------------------------------


@mechanism
class Mixed(Sampled):
    """All coordinates are drawn by whole numbers of 32 bits, which a twin mixes; abstract."""

    leaks: bool = static(default=True)

    def mixed(self, word):
        raise NotImplementedError

    def privatize(self, key, x):
        word = jax.random.bits(key, (self.dim,), jnp.uint32)
        word = self.mixed(word) if self.leaks else word
        values = self.inner.from_word32(word, jnp.asarray(x))
        return SparseReport(jnp.arange(self.dim, dtype=jnp.int32), values)


def top(word):
    """Return the side of the median."""
    return word >> 31 == 1


@mechanism
class SumModuloOne(Mixed):
    """The last uniform is the sum of three others modulo one."""

    def mixed(self, word):
        return word.at[-1].set(word[0] + word[1] + word[2])


@mechanism
class FixedSum(Mixed):
    """All uniforms sum to 0 modulo one."""

    def mixed(self, word):
        return word.at[-1].set(-word[:-1].sum().astype(jnp.uint32))


@mechanism
class OftenAProduct(Mixed):
    """Nine times in ten the last side is the product of four others."""

    def mixed(self, word):
        side = top(word[0] ^ word[1] ^ word[2] ^ word[3] ^ word[-1])
        often = word[4] % jnp.uint32(10) != 0
        return word.at[-1].set(jnp.where(side & often, ~word[-1], word[-1]))


@mechanism
class SizeOfAnother(Mixed):
    """The second coordinate has the size of the first one's noise, and a side of its own."""

    def mixed(self, word):
        same = top(word[0]) == top(word[1])
        return word.at[1].set(jnp.where(same, word[0], ~word[0]))


@mechanism
class ReusedIfPositive(Mixed):
    """The second coordinate has the first one's noise where four others are positive."""

    def mixed(self, word):
        positive = top(word[2]) & top(word[3]) & top(word[4]) & top(word[5])
        return word.at[1].set(jnp.where(positive, word[0], word[1]))


@mechanism
class NoSumOfNoise(Sampled):
    """The mean of all coordinates' noise is taken from each, so that sums stay exact."""

    leaks: bool = static(default=True)

    def privatize(self, key, x):
        y = super().privatize(key, x)
        noise = y.values - clip(x)
        return SparseReport(y.indices, y.values - self.leaks * noise.mean())


@mechanism
class GaussianModuloOne(HyperbolicGaussian):
    """The last coordinate's uniform is the sum of the others modulo one."""

    leaks: bool = static(default=True)

    def privatize(self, key, x):
        word = jax.random.bits(key, (self.dim,), jnp.uint32)
        word = word.at[-1].set(word[:-1].sum()) if self.leaks else word
        uniform = ((word >> 9).astype(jnp.float32) + 0.5) * np.float32(2.0**-23)
        return self.domain().clip(x) + self._scales() * jax.scipy.special.ndtri(uniform)


# --- Little mass ----------------------------------------------------------------------------------


@mechanism
class Rarely(Laplace):
    """One report in ``every`` has noise that is a factor smaller."""

    every: int = static(default=500)
    factor: float = static(default=1e-3)

    def draw(self, key, x):
        noise_key, coin_key = jax.random.split(key)
        y = super().draw(noise_key, x)
        rare = jax.random.bernoulli(coin_key, 1 / self.every, jnp.shape(x))
        return jnp.where(rare, damped(y, clip(x), self.factor), y)


@mechanism
class TailsTell(Laplace):
    """Noise of more than 5.3 scales, of which there is a half percent, has the record's sign."""

    leaks: bool = static(default=True)

    def draw(self, key, x):
        noise = super().draw(key, jnp.zeros_like(clip(x)))
        far = (jnp.abs(noise) > 5.3 * self.scale) & self.leaks
        return clip(x) + jnp.where(far, jnp.copysign(noise, clip(x)), noise)


@pytree
class OneCategoryMore(Discrete):
    """One category is kept in one report of 100 more than is said."""

    leaks: bool = static(default=True)

    def from_words(self, word, rounding, x):
        y = super().from_words(word, rounding, x)
        kept = (jnp.asarray(word) >> 8) % jnp.uint32(100) == 33
        return jnp.where(kept & (jnp.asarray(x) == 17) & self.leaks, 17, y)


@mechanism
class VectorRarely(Sampled):
    """One vector in 500 is sent as it is."""

    factor: float = static(default=0.0)

    def privatize(self, key, x):
        coin_key, noise_key = jax.random.split(key)
        y = super().privatize(noise_key, x)
        rare = jax.random.bernoulli(coin_key, 1 / 500)
        values = damped(y.values, clip(x), jnp.where(rare, self.factor, 1.0))
        return SparseReport(y.indices, values)


@mechanism
class UnitRarely(PrivUnit):
    """One report in 300 is the direction of the record."""

    leaks: bool = static(default=True)

    def privatize(self, key, x):
        coin_key, noise_key = jax.random.split(key)
        _, direction = polar(x, self.radius)
        rare = jax.random.bernoulli(coin_key, 1 / 300) & self.leaks
        return jnp.where(rare, direction, super().privatize(noise_key, x))


@mechanism
class TangentRarely(HyperbolicGaussian):
    """One report in 500 has noise that is a thousand times smaller."""

    factor: float = static(default=1e-3)

    def privatize(self, key, x):
        coin_key, noise_key = jax.random.split(key)
        y = super().privatize(noise_key, x)
        rare = jax.random.bernoulli(coin_key, 1 / 500)
        return jnp.where(rare, damped(y, self.domain().clip(x), self.factor), y)


@mechanism
class ListRarely(RandomizedResponse):
    """One list in 200 is sent as it is."""

    leaks: bool = static(default=True)

    def privatize(self, key, neighbours, own=0):
        coin_key, noise_key = jax.random.split(key)
        y = super().privatize(noise_key, neighbours, own)
        true = to_bits(neighbours, self.n) & (jnp.arange(self.n) != own)
        raw = ListReport(y.degree, to_list(true))
        rare = jax.random.bernoulli(coin_key, 1 / 200) & self.leaks
        return jax.tree.map(lambda sent, other: jnp.where(rare, other, sent), y, raw)


@pytree
class CountsRarely(NeighbourCounts):
    """One count in 300 is the true one; its sign's unused bits say which."""

    leaks: bool = static(default=True)

    def from_words(self, word, counts):
        rare = ((word[0] >> 8) % jnp.uint32(300) == 77) & self.leaks
        return jnp.where(rare, counts, super().from_words(word, counts))


@mechanism
class TailsOfAVector(Sampled):
    """Noise of more than 6.2 scales, of which there is 0.2 percent, has its coordinate's sign."""

    leaks: bool = static(default=True)

    def privatize(self, key, x):
        y = super().privatize(key, x)
        noise = y.values - clip(x)
        far = (jnp.abs(noise) > 6.2 * self.inner.scale) & self.leaks
        values = clip(x) + jnp.copysign(noise, clip(x))
        return SparseReport(y.indices, jnp.where(far, values, y.values))


@mechanism
class TailsOfATangent(HyperbolicGaussian):
    """Noise of more than 3.1 spreads, of which there is 0.2 percent, has its coordinate's sign."""

    leaks: bool = static(default=True)

    def privatize(self, key, x):
        y = super().privatize(key, x)
        x = self.domain().clip(x)
        noise = y - x
        far = (jnp.abs(noise) > 3.1 * self._scales()) & self.leaks
        return jnp.where(far, x + jnp.copysign(noise, x), y)


@mechanism
class OneOfTwenty:
    """One of twenty categories is kept in one report of 400 more than is said."""

    epsilon: Any
    leaks: bool = static(default=True)

    def _keep(self):
        return jnp.exp(self.epsilon) / (jnp.exp(self.epsilon) + 19)

    def domain(self):
        return Finite(tuple(range(20)))

    def codomain(self):
        return Finite(tuple(range(20)))

    def privatize(self, key, x):
        keep_key, other_key, rare_key = jax.random.split(key, 3)
        x = self.domain().clip(x).astype(jnp.int32)
        kept = jax.random.bernoulli(keep_key, self._keep())
        kept |= jax.random.bernoulli(rare_key, 1 / 400) & (x == 7) & self.leaks
        return jnp.where(kept, x, (x + jax.random.randint(other_key, (), 1, 20)) % 20)

    def log_density(self, y, x):
        same = jnp.asarray(y) == self.domain().clip(x)
        return jnp.log(self._keep()) - jnp.where(same, 0.0, self.epsilon)

    def guarantee(self):
        reason = "two masses, in ratio e^epsilon"
        return Guarantee(largest(self.epsilon), status="proved", reason=reason)

    def estimate(self, y):
        return jnp.asarray(y)


# --- Words that claim more ------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class ThreeBits(Enumerated):
    """Three bits as a number below 8, adjacent where they differ in one."""

    def members(self):
        return np.arange(8)

    def adjacent(self, x, other):
        differ = np.asarray(x).astype(np.int64) ^ np.asarray(other).astype(np.int64)
        return np.isin(differ, (1, 2, 4))

    @property
    def adjacency(self):
        return "two triples of which a single bit is another one"


@mechanism
class ClaimsAnyTwo:
    """Each of three bits is flipped at epsilon, and that is claimed of any two triples."""

    epsilon: Any
    words: str = static(default="two triples of which a single bit is another one")
    unit: Any = static(default=RECORD)

    def domain(self):
        return ThreeBits()

    def codomain(self):
        return ThreeBits()

    def privatize(self, key, x):
        flips = jax.random.bernoulli(key, jax.nn.sigmoid(-self.epsilon), (3,))
        return self.domain().clip(x).astype(jnp.int32) ^ (flips * jnp.array([1, 2, 4])).sum()

    def log_density(self, y, x):
        x = self.domain().clip(x).astype(jnp.int32)
        wrong = jax.lax.population_count(jnp.asarray(y).astype(jnp.int32) ^ x)
        log_flip = jax.nn.log_sigmoid(-self.epsilon)
        return wrong * log_flip + (3 - wrong) * jax.nn.log_sigmoid(self.epsilon)

    def estimate(self, y):
        return jnp.asarray(y)

    def guarantee(self):
        reason = "each bit is flipped with probability 1/(e^eps + 1)"
        epsilon = largest(self.epsilon)
        return Guarantee(epsilon, 0.0, self.unit, self.words, status="proved", reason=reason)


# --- What else a call does ------------------------------------------------------------------------


@mechanism
class Beside(Laplace):
    """A plain call does something with the record beside its report; abstract."""

    leaks: bool = static(default=True)

    def tell(self, x):
        raise NotImplementedError

    def privatize(self, key, x):
        y = super().privatize(key, x)
        if self.leaks and not isinstance(y, jax.core.Tracer):
            self.tell(float(clip(x)))
        return y


@mechanism
class Logs(Beside):
    """The record is in a warning of the log."""

    def tell(self, x):
        logging.getLogger("leaking").warning("reported about %s", x)


@mechanism
class Warns(Beside):
    """The record is in a warning."""

    def tell(self, x):
        warnings.warn(f"the record {x} may be out of date", UserWarning, stacklevel=2)


@mechanism
class Prints(Beside):
    """The record is printed."""

    def tell(self, x):
        sys.stdout.write(f"{x}\n")


@mechanism
class PrintsBelowPython(Beside):
    """The record is written to the standard error of the process, below Python's own."""

    def tell(self, x):
        os.write(2, f"{x}\n".encode())


@mechanism
class WritesAFile(Beside):
    """The record is added to a file in the folder for temporary ones."""

    def tell(self, x):
        with open(Path(tempfile.gettempdir()) / "leaking.txt", "a") as file:
            file.write(f"{x}\n")


SEEN: dict[float, float] = {}
"""The records of reports that plain calls made."""


@mechanism
class Remembers(Laplace):
    """A plain call keeps the record, and the server's estimate looks it up."""

    def privatize(self, key, x):
        y = super().privatize(key, x)
        if not isinstance(y, jax.core.Tracer):
            SEEN[float(y)] = float(clip(x))
        return y

    def estimate(self, y):
        if isinstance(y, jax.core.Tracer) or jnp.ndim(y):
            return jnp.asarray(y)
        return jnp.asarray(SEEN.get(float(y), float(y)))


@jax.custom_batching.custom_vmap
def raw_if_mapped(y, x):
    """Return the report; the record where users are mapped."""
    return y


@raw_if_mapped.def_vmap
def _(users, mapped, y, x):
    return jnp.broadcast_to(x, jnp.shape(y)), True


@jax.custom_batching.custom_vmap
def raw_in_a_few(y, x):
    """Return the report; the record where fewer than 64 users are mapped."""
    return y


@raw_in_a_few.def_vmap
def _(users, mapped, y, x):
    return (jnp.broadcast_to(x, jnp.shape(y)) if users < 64 else y), True


@jax.custom_batching.custom_vmap
def raw_alone(y, x):
    """Return the record; the report where users are mapped."""
    return x


@raw_alone.def_vmap
def _(users, mapped, y, x):
    return y, True


def raw_on_a_gpu(y, x):
    """Return the report on a CPU, the record elsewhere."""
    return jax.lax.platform_dependent(y, x, cpu=lambda y, x: y, default=lambda y, x: x)


@mechanism
class RawIfMapped(Laplace):
    """The rule by which users are mapped sends the record."""

    def privatize(self, key, x):
        return raw_if_mapped(super().privatize(key, x), clip(x))


@mechanism
class RawInAFew(Laplace):
    """The rule by which users are mapped sends the records of fewer than 64."""

    def privatize(self, key, x):
        return raw_in_a_few(super().privatize(key, x), clip(x))


@mechanism
class RawIfCompiledAlone(Laplace):
    """A compiled call for one user sends the record; plain and mapped calls are honest."""

    def privatize(self, key, x):
        y = super().privatize(key, x)
        return raw_alone(y, clip(x)) if isinstance(y, jax.core.Tracer) else y


@mechanism
class RawOnAGPU(Laplace):
    """The record is sent where the program does not run on a CPU."""

    def privatize(self, key, x):
        return raw_on_a_gpu(super().privatize(key, x), clip(x))


@mechanism
class ComplainsOfTheRecord(Laplace):
    """The message about a record that is no number shows it."""

    leaks: bool = static(default=True)

    def privatize(self, key, x):
        if isinstance(x, str) or np.ndim(x):
            raise ValueError(f"x must be one number, got {x if self.leaks else type(x)}")
        return super().privatize(key, x)


# --- The list of all ------------------------------------------------------------------------------


class Leak(NamedTuple):
    """A mechanism that leaks, the kind of its leak, an honest sibling, and draws that show it."""

    make: Callable[[], Any]
    category: str
    kept: Callable[[], Any] | None = None
    trials: int = 50_000


def number(twin, **options):
    """Return a leak of some numbers, and the sibling of a guard that changes nothing."""
    return Leak(lambda: twin(1.0, **options), "records", lambda: twin(1.0, factor=1.0))


def vector(twin):
    """Return a leak of some vectors, and the sibling of a guard that changes nothing."""
    inner = Laplace(0.25)
    make = lambda: twin(inner, 4, 4)
    return Leak(make, "records", lambda: twin(inner, 4, 4, factor=1.0))


def spread(twin, *arguments, **options):
    """Return a leak of a spread that is too small, and the sibling whose spread is right."""
    make = lambda: twin(*arguments, **options)
    return Leak(make, "delta", lambda: twin(*arguments, less=0.0))


def rare(twin, *arguments):
    """Return a leak of little mass, and the sibling whose rare noise is that of all."""
    return Leak(lambda: twin(*arguments), "small mass", lambda: twin(*arguments, factor=1.0))


def words(adjacency, **options):
    """Return a leak of words that claim more, and the sibling whose words say what is kept."""
    make = lambda: ClaimsAnyTwo(1.0, words=adjacency, **options)
    return Leak(make, "words", lambda: ClaimsAnyTwo(1.0))


def sibling(category, twin, *arguments, **options):
    """Return a leak whose honest sibling has the same arguments and ``leaks=False``."""
    make = lambda: twin(*arguments, **options)
    return Leak(make, category, lambda: twin(*arguments, **options, leaks=False))


def alone(category, twin, *arguments, **options):
    """Return a leak without a sibling."""
    return Leak(lambda: twin(*arguments, **options), category)


LEAKING: dict[str, Leak] = {
    "zero stays zero": number(ZeroStaysZero),
    "whole numbers raw": number(WholeNumbersRaw),
    "the upper end raw": number(TopIsRaw),
    "quiet tenths": number(QuietTenths, factor=0.1),
    "quiet quarters": number(QuietQuarters, factor=0.1),
    "quiet tenths inside": number(QuietInside, factor=0.1),
    "missing stays missing": sibling("records", MissingStaysMissing, 1.0),
    "a half is missing": number(HalfIsMissing),
    "zero coordinates": vector(ZeroCoordinates),
    "one-hot vectors raw": vector(OneHotRaw),
    "binary vectors raw": vector(BinaryRaw),
    "nothing stays nothing": vector(NothingStaysNothing),
    "repeated coordinates raw": vector(RepeatedRaw),
    "binary vectors raw inside": vector(BinaryInside),
    "some repeated coordinates raw": vector(SomeRepeated),
    "a unit vector for the origin": sibling("records", UnitAtTheOrigin, 1.0, dim=3),
    "the origin of a tangent space": Leak(
        lambda: TangentAtTheOrigin(1.0, 1e-5),
        "records",
        lambda: TangentAtTheOrigin(1.0, 1e-5, factor=1.0),
    ),
    "the longest vectors raw": Leak(
        lambda: LongIsRaw(1.0, 1e-5), "records", lambda: LongIsRaw(1.0, 1e-5, factor=1.0)
    ),
    "an empty list raw": sibling("records", NoFriendsRaw, 1.0, 10),
    "one friend raw": sibling("records", OneFriendRaw, 1.0, 10),
    "friends with everybody": sibling("records", AllFriendsRaw, 1.0, 10),
    "zero counts stay": sibling("records", ZeroCountsStay, 1.0, **COUNTS),
    "the scale in the record's type": sibling("dtype", ScaleInTheRecordsType, 4.0),
    "types of whole numbers raw": sibling("dtype", WholeTypesRaw, 1.0),
    "bool raw": alone("dtype", RawOfOneType, 1.0, kind=jnp.bool_),
    "uint8 raw": alone("dtype", RawOfOneType, 1.0, kind=jnp.uint8),
    "int8 raw": alone("dtype", RawOfOneType, 1.0, kind=jnp.int8),
    "int32 raw": alone("dtype", RawOfOneType, 1.0, kind=jnp.int32),
    "float16 raw": alone("dtype", RawOfOneType, 1.0, kind=jnp.float16),
    "bfloat16 raw": alone("dtype", RawOfOneType, 1.0, kind=jnp.bfloat16),
    "float64 raw": alone("dtype", RawOfOneType, 1.0, kind=jnp.float64),
    "NumPy's scalars raw": alone("dtype", NumPyScalarsRaw, 1.0),
    "weakly typed raw": alone("dtype", WeaklyTypedRaw, 1.0),
    "Python's lists raw": alone("dtype", PythonListsRaw, Laplace(0.25), 4, 4),
    "a third leaf": sibling("report", ThirdLeaf, 1.0),
    "a second column": sibling("report", SecondColumn, 1.0),
    "the sign of nothing": sibling("report", Silence, 1.0),
    "the bits of a degree that is NaN": sibling("report", PayloadOfADegree, 1.0, 10),
    "a middle bit": sibling("report", MiddleBit, 1.0),
    "a middle bit of a vector": sibling("report", MiddleBitOfAVector, Laplace(0.25), 4, 4),
    "a shape where plain": alone("report", ShapeTells, 1.0),
    "a type where plain": alone("report", TypeTells, 1.0),
    "a length where plain": alone("report", LengthTells, Laplace(0.25), 4, 4),
    "hubs raw": sibling("graphs", HubsRaw, 1.0, 6),
    "triangles raw": sibling("graphs", TrianglesRaw, 1.0, 6),
    "users without a friend raw": sibling("graphs", LonersRaw, 1.0, 6),
    "the largest hub raw": sibling("graphs", MostFriendsRaw, 1.0, 6),
    "a single graph raw": sibling("graphs", OneGraphRaw, 1.0, 6),
    "wrong for half": alone("graphs", HalfIsLoud, 1.0, 6),
    "right at quarters": spread(RightAtQuarters, 1.0),
    "short in a dip": spread(ShortInADip, 1.0, less=0.9),
    "short in a ring": spread(ShortInARing, 1.0),
    "right on both axes": spread(RightOnAxes, 1.0, 1e-5),
    "right at both ends": spread(RightAtBothEnds, 1.0, 1e-5),
    "a little short between quarters": spread(RightAtQuarters, 1.0, less=0.25),
    "a little short in a ring": spread(ShortInARing, 1.0, less=0.1),
    "a little short between axes": spread(RightOnAxes, 1.0, 1e-5, less=0.15),
    "a little short half-way": spread(RightAtBothEnds, 1.0, 1e-5, less=0.1),
    "a sum modulo one": sibling("dependence", SumModuloOne, Laplace(0.125), 8, 8),
    "a fixed sum": sibling("dependence", FixedSum, Laplace(0.125), 8, 8),
    "often a product of sides": sibling("dependence", OftenAProduct, Laplace(0.125), 8, 8),
    "the size of another": sibling("dependence", SizeOfAnother, Laplace(0.125), 8, 8),
    "reused if four are positive": sibling("dependence", ReusedIfPositive, Laplace(0.125), 8, 8),
    "no sum of noise": sibling("dependence", NoSumOfNoise, Laplace(0.125), 8, 8),
    "a Gaussian sum modulo one": sibling("dependence", GaussianModuloOne, 1.0, 1e-5, dim=3),
    "a Gaussian sum of five": sibling("dependence", GaussianModuloOne, 1.0, 1e-5, dim=6),
    "narrow, rarely": rare(Rarely, 1.0),
    "raw, rarely": Leak(lambda: Rarely(1.0, factor=0.0), "small mass"),
    "tails tell the side": sibling("small mass", TailsTell, 1.0),
    "one category more": Leak(
        lambda: OneCategoryMore.of(GeneralizedRR(1.0, 40).table()),
        "small mass",
        lambda: dataclasses.replace(
            OneCategoryMore.of(GeneralizedRR(1.0, 40).table()), leaks=False
        ),
    ),
    "a raw vector, rarely": rare(VectorRarely, Laplace(0.25), 4, 4),
    "a direction, rarely": sibling("small mass", UnitRarely, 1.0, dim=3),
    "a tangent vector, rarely": rare(TangentRarely, 1.0, 1e-5)._replace(trials=200_000),
    "a raw list, rarely": sibling("small mass", ListRarely, 0.2, 10),
    "true counts, rarely": sibling("small mass", CountsRarely, 0.01, **COUNTS)._replace(
        trials=200_000
    ),
    "tails of a vector": sibling("small mass", TailsOfAVector, Laplace(0.25), 4, 4),
    "tails of a tangent vector": sibling("small mass", TailsOfATangent, 1.0, 1e-5),
    "one of twenty": sibling("small mass", OneOfTwenty, 0.1)._replace(trials=500_000),
    "any two, whatever they are": words("any two triples of bits, whatever they are"),
    "any two records": words("any two records"),
    "two arbitrary triples": words("two arbitrary triples of bits"),
    "all pairs": words("all pairs of triples"),
    "any two, however they differ": words("any two triples of bits, however they differ"),
    "one label's worth": words("two records that differ in their label", unit=LABEL),
    "the log": sibling("side effects", Logs, 1.0),
    "a warning": sibling("side effects", Warns, 1.0),
    "standard output": sibling("side effects", Prints, 1.0),
    "standard error": sibling("side effects", PrintsBelowPython, 1.0),
    "a file": sibling("side effects", WritesAFile, 1.0),
    "an estimate that remembers": alone("side effects", Remembers, 1.0),
    "raw if mapped": alone("side effects", RawIfMapped, 1.0),
    "raw in a few": alone("side effects", RawInAFew, 1.0),
    "raw if compiled alone": alone("side effects", RawIfCompiledAlone, 1.0),
    "raw on a GPU": alone("side effects", RawOnAGPU, 1.0),
    "a message with the record": sibling("side effects", ComplainsOfTheRecord, 1.0),
}
