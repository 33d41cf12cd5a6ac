"""k of d coordinates, each through a mechanism on one number."""

import dataclasses
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from ldp_jax.accounting.composition import sampled
from ldp_jax.accounting.guarantee import Guarantee, any_two
from ldp_jax.core import blocks, random, random_words, rounding, validate
from ldp_jax.core.mechanism import (
    Univariate,
    check_single,
    mechanism,
    one_record,
    require_protocol,
    static,
)
from ldp_jax.core.spaces import Box, Interval, NotApplicable, SparseReport, Subset, as_records
from ldp_jax.core.types import AnyArray, Array, PRNGKey, Record, Report, Scalar
from ldp_jax.features.duchi import Duchi
from ldp_jax.features.laplace import Laplace
from ldp_jax.features.piecewise import LARGEST_PIECEWISE, Piecewise
from ldp_jax.features.square_wave import SquareWave

_IN_CACHE = 2**13
"""Numbers of the subsets that are drawn together."""


@mechanism
class Sampled:
    r"""Draw k of ``dim`` coordinates without replacement, and report each through ``inner``.

    Law: a uniform subset S of k coordinates, k in [1, dim]; values of ``inner``, a mechanism on
    [-1, 1], are independent given S. Any mechanism on one number will do. One whose methods are
    elementwise (:class:`~ldp_jax.core.mechanism.Univariate`) is faster than one that is vmapped.
    Guarantee: k times that of ``inner``, which is at epsilon / k; tight over the cube.
    Utility: the estimate of coordinate j is s * inner.estimate(y_j) if j is in S, else 0, s the
    ``scale``. With m, v the mean and variance of the inner estimate its mean is
    :math:`\frac{k}{d} s m(x_j)`, its variance :math:`\frac{k}{d} s^2 (v(x_j) + m(x_j)^2)` less the
    squared mean. Scale d / k, the default, keeps an unbiased inner mechanism unbiased (LDP-GE eq.
    4-8); scale 1 gives HDS (eq. 10, 11).
    Numerics: Floyd's algorithm draws the subset in O(k^2) operations and O(k) memory.
    Reference: LDP-GE Algorithm 2; Wang et al., ICDE 2019, Algorithm 4.

    >>> m = Sampled(Duchi(0.5), dim=10, k=2)
    >>> (
    ...     m.guarantee().epsilon,
    ...     m.privatize(jax.random.key(0), jnp.zeros(10)).values.shape,
    ... )
    (1.0, (2,))
    """

    inner: Any
    dim: int = static()
    k: int = static()
    scale: float | None = static(default=None)

    def _check(self) -> None:
        validate.integer_in(1, dim=self.dim)
        validate.integer_in(1, self.dim, k=self.k)
        if self.scale is None:
            object.__setattr__(self, "scale", self.dim / self.k)
        validate.positive(scale=self.scale)
        require_protocol(self.inner, name="inner")
        validate.require(
            self.inner.domain() == Interval(-1.0, 1.0),
            f"inner must be a mechanism on [-1, 1], got one on {self.inner.domain()}",
        )

    @property
    def _gain(self) -> float:
        return cast(float, self.scale)  # set by _check where the caller left it out

    def privatize(self, key: PRNGKey, x: Record) -> SparseReport:
        """The sparse report of one record [dim]."""
        validate.threefry(key)
        check_single(self)
        x = one_record(x, self.dim)
        key, indices = self.choose(key)
        if self.k == self.dim:
            return self.report(key, indices, x)
        return self.report(key, indices, _chosen(x, indices))

    def reads_part(self) -> bool:
        """Whether coordinates are chosen first.

        Not where a subclass has a ``privatize`` of its own.
        """
        return type(self) is Sampled and self.k < self.dim

    def choose(self, key: PRNGKey) -> tuple[PRNGKey, Array]:
        """The key of the report, and which coordinates it is of."""
        if self.k == self.dim:
            return key, jnp.arange(self.dim, dtype=jnp.int32)
        key, subset_key = random.split(key)
        return key, _subset(subset_key, self.dim, self.k)

    def report(self, key: PRNGKey, indices: Array, values: Array) -> SparseReport:
        """The report of a record's values at chosen coordinates."""
        if self._elementwise:
            return SparseReport(indices, self.inner.draw(key, values))
        keys = random.split(key, self.k)
        return SparseReport(indices, jax.vmap(self.inner.privatize)(keys, values))

    @property
    def _elementwise(self) -> bool:
        """Whether the methods of ``inner`` take arrays, and ``draw`` makes its reports."""
        ours = isinstance(self.inner, Univariate)
        return ours and type(self.inner).privatize is Univariate.privatize

    def _inner(self, name: str, *numbers: Report) -> Array:
        """A method of ``inner`` of each number; ``NotApplicable`` where it has none."""
        method = getattr(self.inner, name, None)
        if method is None:
            raise NotApplicable(f"{type(self.inner).__name__} has no {name}")
        if self._elementwise:
            return method(*numbers)
        return jax.vmap(method)(*numbers)

    def coordinate(self, j: int) -> Univariate:
        """``inner``, for every coordinate."""
        return self.inner

    def log_density(self, y: SparseReport, x: Record) -> Array:
        """log p(y | x) of the set and its values; ``-inf`` for an impossible set."""
        indices = jnp.asarray(y.indices)
        x = as_records(x)
        inside = ((indices >= 0) & (indices < self.dim)).all()
        valid = inside & (indices[1:] > indices[:-1]).all()

        d = float(self.dim)
        k = float(self.k)
        log_sets = gammaln(d + 1) - gammaln(k + 1) - gammaln(d - k + 1)
        chosen = x[jnp.clip(indices, 0, self.dim - 1)]
        log_values = self._inner("log_density", y.values, chosen).sum()
        return jnp.where(valid, log_values - log_sets, -jnp.inf)

    def domain(self) -> Box:
        """[-1, 1]^dim; coordinates are clipped, NaN goes to 0."""
        return Box(self.dim)

    def codomain(self) -> Subset:
        """k sorted coordinates and their values."""
        return Subset(self.dim, self.k, self.inner.codomain())

    def guarantee(self) -> Guarantee:
        """k times the inner guarantee."""
        inner = self.inner.guarantee()
        made = sampled(inner, self.k, self.dim)
        adjacency = made.adjacency
        if any_two(inner.adjacency) == "any two":
            adjacency = f"any two vectors in [-1, 1]^{self.dim}"
        return dataclasses.replace(
            made,
            adjacency=adjacency,
            reason=f"{self.k} reports compose, the choice of coordinates is independent of the "
            f"record; each: {inner.reason}",
        )

    def estimate(self, y: SparseReport) -> Array:
        """[dim]: 0 where nothing was sent."""
        return self.estimate_columns(y, 0, self.dim)

    def estimate_columns(self, y: SparseReport, start: Scalar, width: int) -> Array:
        """Coordinates [start, start + width) of one user's estimate; ``start`` may be traced."""
        values = self._gain * self._inner("estimate", y.values)
        if self.k == self.dim:
            columns = start + jnp.arange(width)
            return values.at[columns].get(mode="fill", fill_value=0.0)
        place = jnp.asarray(y.indices - start).astype(jnp.uint32)  # below 0 it is beyond the last
        return jnp.zeros(width, values.dtype).at[place].set(values, mode="drop")

    def mean(self, x: Record) -> Array:
        """Mean of the estimate, by coordinate."""
        return self.k / self.dim * self._gain * self._inner("mean", x)

    def variance(self, x: Record) -> Array:
        """Variance of the estimate, by coordinate."""
        share = self.k / self.dim
        mean = self._inner("mean", x)
        variance = self._inner("variance", x)
        return share * self._gain**2 * (variance + (1 - share) * mean**2)


@partial(jax.jit, inline=True)  # an eager loop is compiled at each call
def _chosen(x: Array, indices: Array) -> Array:
    """The numbers at some places.

    One after the other: beside a gather a CPU's compiler vectorises no random bits. Unsigned
    indices are not asked for their sign.
    """
    one = lambda _, place: (None, x.at[place].get(mode="promise_in_bounds"))
    return jax.lax.scan(one, None, indices.astype(jnp.uint32))[1]


@partial(jax.jit, static_argnames=("dim", "k"))  # an eager loop is compiled at each call
def _subset(key: PRNGKey, dim: int, k: int) -> Array:
    """A uniform sorted k-subset of range(dim).

    Floyd's algorithm, each step an insertion into a sorted row.
    """
    tops = np.arange(dim - k, dim, dtype=np.int32)
    # The draws of randint(key, (k,), 0, tops + 1), whose two blocks of words are one program here.
    block = lambda key: random_words.words(key, (k,), 1)[0]
    high, low = jax.vmap(block)(random.split(key))
    small = np.uint16 if dim < 2**16 else np.int32  # half the memory that each step goes through
    draws = random_words.below_from_words(high, low, tops + 1)
    return _inserted(draws.astype(small), tops.astype(small))


@jax.custom_batching.custom_vmap
def _inserted(draws: Array, tops: AnyArray) -> Array:
    """Floyd's subsets of draws [k, ...], each below or at its top [k]; sorted, int32 [k, ...]."""

    def insert(chosen: Array, step: tuple[Array, AnyArray]) -> tuple[Array, None]:
        draw, top = step
        new = jnp.where((chosen == draw[None]).any(0), top, draw)
        below = jnp.concatenate([jnp.zeros_like(chosen[:1]), chosen[:-1]])
        return jnp.maximum(jnp.minimum(chosen, new[None]), below), None

    none = jnp.zeros_like(draws) + tops[-1] + 1  # varies where draws do
    return jax.lax.scan(insert, none, (draws, tops))[0].astype(jnp.int32)


@_inserted.def_vmap
def _of_users(users: int, _: list[bool], draws: Array, tops: AnyArray) -> tuple[Array, bool]:
    """Users last, whom a processor takes several at a time.

    Each of a row's places is compared for all of them.
    """

    def some(start: Scalar, size: int) -> Array:
        part = jax.lax.dynamic_slice_in_dim(draws, start, size, allow_negative_indices=False)
        subsets = _inserted(jnp.moveaxis(part, 0, -1), tops)
        return jnp.moveaxis(subsets, -1, 0)

    return blocks.by_blocks(some, users, max(1, _IN_CACHE // len(tops))), True


def _sampled_k(epsilon: Scalar, dim: int, k: int | None, per_coordinate: float) -> int:
    """k, or the papers' floor(epsilon / per_coordinate) within [1, dim]."""
    validate.positive(epsilon=epsilon)
    if k is not None:
        return k
    validate.require(
        isinstance(epsilon, (int, float)),
        "k must be given when epsilon is traced or a stack: it fixes the shape of the report",
    )
    return max(1, min(dim, int(epsilon / per_coordinate)))


def _share(epsilon: Scalar, dim: int, k: int, most: float) -> Scalar:
    """epsilon / k rounded down, at most ``most``."""
    validate.integer_in(1, dim=dim)
    validate.integer_in(1, dim, k=k)
    validate.in_range(0.0, most * k, open_lower=True, epsilon=epsilon)
    if isinstance(epsilon, (int, float)):
        return rounding.share(epsilon, k)
    if not validate.concrete(epsilon):
        return jnp.asarray(epsilon) / k
    whole = np.asarray(epsilon, np.float64)
    part = (whole / k).astype(np.float32)
    above = k * part.astype(np.float64) > whole
    return jnp.asarray(np.where(above, np.nextafter(part, np.float32(0)), part))


def HDS(epsilon: Scalar, dim: int, k: int, *, debias: bool = False) -> Sampled:
    """High-dimensional square wave: k coordinates through :class:`SquareWave` at epsilon / k.

    The estimate has the mean k C x / dim, C of SquareWave (LDP-GE eq. 10), or x with ``debias``.

    >>> HDS(1.0, dim=1433, k=20).guarantee().epsilon
    1.0
    """
    inner = SquareWave(_share(epsilon, dim, k, SquareWave.LARGEST), debias)
    return Sampled(inner, dim, k, scale=None if debias else 1.0)


def MultiBit(epsilon: Scalar, dim: int, k: int | None = None) -> Sampled:
    """The multi-bit mechanism: k coordinates through :class:`Duchi` at epsilon / k (LDP-GE 6-8).

    k is floor(epsilon / 2.18) within [1, dim] by default (Sajadmanesh & Gatica-Perez, CCS 2021).

    >>> MultiBit(5.0, dim=100).k
    2
    """
    k = _sampled_k(epsilon, dim, k, 2.18)
    return Sampled(Duchi(_share(epsilon, dim, k, Duchi.LARGEST)), dim, k)


def MultiPiecewise(epsilon: Scalar, dim: int, k: int | None = None) -> Sampled:
    """The piecewise mechanism on vectors (LDP-GE eq. 3-5).

    K coordinates through :func:`Piecewise` at epsilon / k.

    k is floor(epsilon / 2.5) within [1, dim] by default (Wang et al., ICDE 2019).

    >>> MultiPiecewise(5.0, dim=100).k
    2
    """
    k = _sampled_k(epsilon, dim, k, 2.5)
    return Sampled(Piecewise(_share(epsilon, dim, k, LARGEST_PIECEWISE)), dim, k)


def LaplaceVector(epsilon: Scalar, dim: int) -> Sampled:
    """The Laplace mechanism on vectors: every coordinate through :class:`Laplace` at epsilon / dim.

    >>> LaplaceVector(1.0, dim=4).variance(jnp.zeros(4)).tolist()
    [128.0, 128.0, 128.0, 128.0]
    """
    return Sampled(Laplace(_share(epsilon, dim, dim, Laplace.LARGEST)), dim, dim)
