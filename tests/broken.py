"""Broken twins: mechanisms that promise what they do not keep, each in a way that has happened.

Every twin must be rejected by the check that is there for its defect.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments._published import DuchiVectorWithTies as DuchiVectorWithTies
from experiments._published import ReleasedSquareWave as ReleasedSquareWave
from ldp_jax.accounting.guarantee import RELATIONSHIP, Guarantee, Unit
from ldp_jax.core import integer_tables, random_words
from ldp_jax.core.mechanism import Analytic, Numeric, largest, uniform
from ldp_jax.core.pytree import mechanism, pytree, static
from ldp_jax.core.spaces import Finite, Interval, Mixture, clip
from ldp_jax.curators import BinnedPairs, EdgeRand, EdgeRR, PublicHRG
from ldp_jax.edges import DPRR, NeighbourCounts
from ldp_jax.features import (
    BranchReport,
    Discrete,
    Duchi,
    Laplace,
    RandomizedFeatures,
    Sampled,
    SparseReport,
    SquareWave,
)  # fmt: skip
from ldp_jax.features.sampled import _subset


@mechanism
class Bare(Analytic):
    """Signs that are their own estimate, of a law and moments that a twin says or nobody asks;
    abstract.
    """

    epsilon: Any

    def codomain(self) -> Any:
        return Finite((-1.0, 1.0))

    def estimate(self, y: Any) -> Any:
        return jnp.asarray(y)

    def mean(self, x: Any) -> Any:
        return clip(x)

    def variance(self, x: Any) -> Any:
        return clip(x)

    def proof(self) -> str:
        return "none"


@mechanism
class Overspent(SquareWave):
    """Runs at an epsilon 5 % larger than the one it claims; sampler and density agree."""

    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon / 1.05)


@mechanism
class HonestDensityOnly(SquareWave):
    """The density is that of epsilon, the draws are those of 1.05 epsilon, or of another
    multiple.
    """

    times: float = static(default=1.05)

    def from_uniform(self, u: Any, x: Any) -> Any:
        return SquareWave(self.times * self.epsilon).from_uniform(u, x)


@mechanism
class Heavy(SquareWave):
    """A density whose mass is 1.0001."""

    def log_density(self, y: Any, x: Any) -> Any:
        return super().log_density(y, x) + 1e-4


@mechanism
class InTheRecordsPrecision(Laplace):
    """Sums of few bits, of a record that has few: most reports are possible for no other record."""

    def privatize(self, key: Any, x: Any) -> Any:
        return super().privatize(key, x).astype(jnp.asarray(x).dtype)


@mechanism
class InTheNoise(Laplace):
    """Sends nothing one time in a hundred, and the record in the bits of that NaN."""

    def privatize(self, key: Any, x: Any) -> Any:
        y = super().privatize(key, x)
        bits = jnp.uint32(0x7FC00000) | (jnp.clip(x, 0, 1) * 1000).astype(jnp.uint32)
        return jnp.where(y > 4.6, jax.lax.bitcast_convert_type(bits, jnp.float32), y)


@mechanism
class SwappedBranch(Duchi):
    """The probability of the flip is used for the keep."""

    def from_word64(self, word: Any, x: Any) -> Any:
        return -super().from_word64(~word, x)


@mechanism
class ReusedKey(Sampled):
    """One key draws the coordinates and the values."""

    def privatize(self, key: Any, x: Any) -> SparseReport:
        indices = _subset(key, self.dim, self.k)
        return SparseReport(indices, self.inner.draw(key, jnp.asarray(x)[indices]))


@mechanism
class Unclipped(Laplace):
    """Adds noise for records in [-1, 1] to whatever it is given."""

    def from_uniform(self, u: Any, x: Any) -> Any:
        return jnp.asarray(x) + super().from_uniform(u, 0.0)

    def log_density(self, y: Any, x: Any) -> Any:
        return super().log_density(jnp.asarray(y) - x, 0.0)


class ByUniform(Laplace):
    """Laplace noise by one uniform and what a twin makes of it; abstract."""

    def draw(self, key: Any, x: Any) -> Any:
        return self.from_uniform(uniform(key, jnp.shape(x)), x)


@mechanism
class RareShout(ByUniform):
    """One report in 100 000 is 12 and the record."""

    mass: float = static(default=1e-5)

    def from_uniform(self, u: Any, x: Any) -> Any:
        u = jnp.asarray(u)
        return jnp.where(jnp.abs(u - 0.3) < self.mass / 2, 12 + clip(x), super().from_uniform(u, x))


@mechanism
class QuietWindow(ByUniform):
    """No noise for records within ``width`` of a number that is on no lattice."""

    width: float = static(default=1e-4)

    def from_uniform(self, u: Any, x: Any) -> Any:
        inside = jnp.abs(jnp.asarray(x) - 0.31415) < self.width
        return jnp.where(inside, clip(x), super().from_uniform(u, x))


@mechanism
class SharedSpike(ByUniform):
    """Sampler and density agree on a spike of mass 1e-5 that lies where the record says."""

    mass: float = static(default=1e-5)

    def from_uniform(self, u: Any, x: Any) -> Any:
        u = jnp.asarray(u)
        spike = 20 + clip(x) + 1e-2 * (u / self.mass - 0.5)
        return jnp.where(
            u < self.mass, spike, super().from_uniform((u - self.mass) / (1 - self.mass), x)
        )

    def log_density(self, y: Any, x: Any) -> Any:
        spike = jnp.where(jnp.abs(jnp.asarray(y) - 20 - clip(x)) <= 5e-3, self.mass / 1e-2, 0.0)
        return jnp.log((1 - self.mass) * jnp.exp(super().log_density(y, x)) + spike)


@mechanism
class HonestWhileTraced(Laplace):
    """Python code that knows whether it is traced, and sends the record as it is where it is
    not.
    """

    def draw(self, key: Any, x: Any) -> Any:
        honest = super().draw(key, x)
        return honest if isinstance(honest, jax.core.Tracer) else clip(x)


@mechanism
class FewBits(ByUniform):
    """Noise from 16 bits, to which all 64 bits of the key are mixed."""

    bits: int = static(default=16)

    def draw(self, key: Any, x: Any) -> Any:
        word = jax.random.bits(key, jnp.shape(x), jnp.uint32) >> (32 - self.bits)
        return self.from_uniform((word.astype(jnp.float32) + 0.5) * 2.0**-self.bits, x)


@mechanism
class HalfAKey(Duchi):
    """The noise reads 16 bits of the key."""

    def draw(self, key: Any, x: Any) -> Any:
        data = jax.random.key_data(key) & jnp.array([0, 0xFFFF], jnp.uint32)
        return super().draw(jax.random.wrap_key_data(data), x)


@mechanism
class ProductOfSigns(Sampled):
    """The last coordinate's side is the product of the sides of ``factors`` others."""

    factors: int = static(default=2)

    def privatize(self, key: Any, x: Any) -> SparseReport:
        u = uniform(key, (self.dim,))
        side = jnp.prod(jnp.sign(u[: self.factors] - 0.5))
        u = u.at[-1].set(0.5 + side * jnp.abs(u[-1] - 0.5))
        return SparseReport(
            jnp.arange(self.dim, dtype=jnp.int32), self.inner.from_uniform(u, jnp.asarray(x))
        )


@pytree
class LeakyTable(Discrete):
    """One report in 10 000 is the record's own row; the density is the table's."""

    def from_words(self, word: Any, rounding: Any, x: Any) -> Any:
        row, _ = integer_tables.split(jnp, x, self.inputs, self.encoding)
        leaks = (jnp.asarray(word) >> 8) % jnp.uint32(10_000) == 77
        return jnp.where(
            leaks,
            jnp.minimum(row, self.counts[self.level] - 1),
            super().from_words(word, rounding, x),
        )


@mechanism
class GaussianBranch(Bare):
    """A public coin between a sign and Gaussian noise, for which pure epsilon is claimed."""

    def draw(self, key: Any, x: Any) -> BranchReport:
        coin, sign, noise = jax.random.split(key, 3)
        branch = (uniform(coin, jnp.shape(x)) < 0.5).astype(jnp.int32)
        value = clip(x) + 4.0 * jax.random.normal(noise, jnp.shape(x))
        return BranchReport(
            branch, jnp.where(branch == 1, value, Duchi(self.epsilon).draw(sign, x))
        )

    def log_density(self, y: Any, x: Any) -> Any:
        gaussian = jax.scipy.stats.norm.logpdf(y[1], clip(x), 4.0)
        return jnp.log(0.5) + jnp.where(
            jnp.asarray(y[0]) == 1, gaussian, Duchi(self.epsilon).log_density(y[1], x)
        )

    def codomain(self) -> Mixture:
        return Mixture((Finite((-1.0, 1.0)), Interval(-np.inf, np.inf, lambda x: clip(x)[None])))

    def estimate(self, y: Any) -> Any:
        return jnp.asarray(y[1])

    def variance(self, x: Any) -> Any:
        return 1.0 + clip(x) ** 2


@mechanism
class ThinTail(Bare, Numeric):
    """Gaussian noise whose true delta at epsilon 1 is 5e-7, and which claims another."""

    delta: float = static(default=1e-12)
    sigma: float = static(default=8.7303)  # of two records that are 2 apart

    def guarantee(self) -> Any:
        return Guarantee(largest(self.epsilon), self.delta)

    def from_uniform(self, u: Any, x: Any) -> Any:
        return clip(x) + self.sigma * jax.scipy.special.ndtri(u)

    def log_density(self, y: Any, x: Any) -> Any:
        return jax.scipy.stats.norm.logpdf(y, clip(x), self.sigma)

    def codomain(self) -> Any:
        return Interval(-np.inf, np.inf, lambda x: clip(x)[None])

    def variance(self, x: Any) -> Any:
        return self.sigma**2 + 0.0 * clip(x)


@mechanism
class FloatDuchi(Bare):
    """Duchi's law by one float32 uniform: beyond epsilon 16.6 the rare sign is lost, and before
    that rounded up.
    """

    def draw(self, key: Any, x: Any) -> Any:
        return self.from_uniform(jax.random.uniform(key, jnp.shape(x)) + np.float32(2.0**-24), x)

    def _rare(self, sign: Any, x: Any) -> Any:
        towards = sign * clip(x)
        high = jax.nn.sigmoid(self.epsilon)
        low = jax.nn.sigmoid(-jnp.asarray(self.epsilon))
        return 0.5 * (1 + towards) * high + 0.5 * (1 - towards) * low

    def from_uniform(self, u: Any, x: Any) -> Any:
        return jnp.where(jnp.asarray(u) < self._rare(-1.0, x), -1.0, 1.0)

    def log_density(self, y: Any, x: Any) -> Any:
        return jnp.log(self._rare(jnp.asarray(y), x))

    def estimate(self, y: Any) -> Any:
        return jnp.asarray(y) / jnp.tanh(jnp.asarray(self.epsilon) / 2)

    def variance(self, x: Any) -> Any:
        return 1.0 / jnp.tanh(jnp.asarray(self.epsilon) / 2) ** 2 - clip(x) ** 2


@mechanism
class HalfNoise(BinnedPairs):
    """Counts have noise of half the scale that they should."""

    def sample_pairs(self, key: Any, split: Any, memory: float = 8e9) -> Any:
        return BinnedPairs(2 * float(self.epsilon)).sample_pairs(key, split, memory)


@mechanism
class AnyGraphs(EdgeRand):
    """Claims of any two graphs what holds of one edge."""

    def guarantee(self) -> Guarantee:
        return dataclasses.replace(
            super().guarantee(), adjacency="any two graphs of the same nodes"
        )


@mechanism
class EdgesOfANode(EdgeRand):
    """Claims of all edges of a node what holds of one."""

    def guarantee(self) -> Guarantee:
        words = "two graphs that differ in the edges of one node"
        return dataclasses.replace(super().guarantee(), unit=Unit("node"), adjacency=words)


@mechanism
class LessThanItsChain(EdgeRR):
    """The chain's last state is said to lose a hundredth of what its stationary law loses."""

    def guarantee(self) -> Guarantee:
        return dataclasses.replace(self.stationary(), epsilon=0.01, status="proved")


@mechanism
class RawPairs(PublicHRG):
    """An honest dendrogram and honest counts are claimed, and the private edges released."""

    def sample_pairs(self, key: Any, split: Any, memory: float = 8e9) -> Any:
        return split.pairs().ids(split.pairs().private)


@mechanism
class OfAnyGraphs(DPRR):
    """Claims of any two graphs what holds of one edge."""

    def relationship(self, reporting: Any = "full") -> Guarantee:
        words = "any two graphs of the same users"
        return Guarantee(
            super().relationship(reporting).epsilon, unit=RELATIONSHIP, adjacency=words
        )


@pytree
class FloatTable(Discrete):
    """Whole numbers are claimed to be drawn, and 23 bits of a float are."""

    in_loop: bool = static(default=False)

    def draw(self, key: Any, x: Any) -> Any:
        mass = self._masses().astype(jnp.float32) * np.float32(2.0**-32)
        drawn = jax.lax.map(uniform, key[None])[0] if self.in_loop else uniform(key)
        return (drawn >= jnp.cumsum(mass, -1)[self._rows(x)[0]][..., :-1]).sum(-1).astype(jnp.int32)


@pytree
class FloatFeatures(RandomizedFeatures):
    """The same of the coordinates of a vector."""

    def privatize(self, key: Any, x: Any) -> Any:
        keys = jax.random.split(key, self.dim)
        each = FloatTable(**vars(self.inner))
        return jax.vmap(lambda level, key, x: each.at(level).draw(key, x))(
            self.inner.level, keys, jnp.asarray(x)
        )


@pytree
class FloatCounts(NeighbourCounts):
    """Noise of whole words is claimed, and that of a float32 logarithm drawn."""

    def privatize(self, key: Any, neighbours: Any, own: Any = 0, groups: Any = None) -> Any:
        counts = self.true_counts(neighbours, own, groups)
        drawn = random_words.geometric(key, jnp.float32(self.epsilon), counts.shape)
        return jnp.clip(counts + drawn.astype(jnp.int32), *self.span())


@mechanism
class OneEndOnly(DPRR):
    """Claims for an edge what one of its two ends spends."""

    def relationship(self, reporting: Any = "full") -> Guarantee:
        honest = super().relationship(reporting)
        return dataclasses.replace(
            honest, epsilon=honest.epsilon / 2 if reporting == "full" else honest.epsilon
        )


@mechanism
class OverspentCurator(EdgeRand):
    """A curator who runs at an epsilon 5 % larger than the one that they claim, and says so in the
    law.
    """

    def guarantee(self) -> Guarantee:
        return EdgeRand(float(self.epsilon)).guarantee()

    def sample_pairs(self, key: Any, split: Any, memory: float = 8e9) -> Any:
        return EdgeRand(1.05 * float(self.epsilon)).sample_pairs(key, split, memory)

    def release_law(self, split: Any) -> Any:
        count = split.pairs().candidates
        told = np.arange(1 << count)[:, None] >> np.arange(count) & 1
        nodes = split.pairs()
        every = np.stack(np.triu_indices(split.num_nodes, 1), 1)
        codes = nodes.codes(every)
        true = np.isin(codes[~np.isin(codes, nodes.public)], nodes.private)
        wrong = (told != true).sum(1)
        loss = 1.05 * float(self.epsilon)
        return -wrong * np.logaddexp(0, loss) - (count - wrong) * np.logaddexp(0, -loss)
