"""Noisy counts of a user's neighbours in each of a few public groups."""

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core import random_words, validate, whole_noise
from ldp_jax.core.mechanism import WordRuns, check_derived
from ldp_jax.core.pytree import pytree, static
from ldp_jax.core.types import AnyArray, Array, PRNGKey, Scalar, Values
from ldp_jax.edges import checks
from ldp_jax.edges.lists import NeighbourList
from ldp_jax.edges.neighbour_lists import OnLists, Reporting
from ldp_jax.edges.spaces import CountReports


@pytree
class NeighbourCounts(OnLists):
    r"""Report the noisy number of neighbours in each of K public groups, and no neighbour.

    Law: :math:`y_k = c_k + z_k` with :math:`c_k = |\{v \in N : g(v) = k\}|`, at most ``most``, and
    independent discrete Laplace noise, :math:`P(z) \propto e^{-\epsilon |z|}`. A node whose group
    is negative counts nowhere. In ``half`` reporting c counts owned pairs.
    Guarantee: epsilon per bit of a list, whatever K is, since a bit moves one count by one. Per
    edge 2 epsilon, and epsilon in ``half`` (:meth:`relationship`). Groups are public.
    Utility: unbiased, variance :math:`2a/(1-a)^2` with :math:`a = e^{-\epsilon}` for each count,
    whatever the size of its group.
    Numerics: discrete Laplace noise is a sign and a number below 2^96, compared with cumulative
    whole numbers: its loss is a ratio of integers and ``arithmetic`` is ``exact``. A report is
    clipped to ``span()``, beyond which noise has a mass below 2^-66.
    Reference: Ghosh et al., STOC 2009; counts by group as a message: Qin et al., CCS 2017 (LDPGen),
    and under a trusted curator Kolluri et al., CCS 2022 (LPGNet).

    Args:
      epsilon: in [0.001, 40]; one concrete number, of which the host makes a table.
      num_groups: K, at least 1.
      n: nodes of the graph, for one user's view.
      groups: int [n] in [-1, K), public, for one user's view, or given with each call; -1 counts a
        node nowhere.
      most: the largest count; a larger one is taken for it. Public, at most 2^20.
      reporting: ``full`` or ``half``.

    >>> m = NeighbourCounts(1.0, num_groups=2, n=5)
    >>> m.guarantee().arithmetic, m.guarantee().epsilon <= 1.0
    ('exact', True)
    >>> mine = NeighbourList.of([1, 2, 4], n=5)
    >>> m.privatize(
    ...     jax.random.key(0), mine, groups=jnp.array([0, 0, 1, 1, -1])
    ... ).shape
    (2,)
    """

    epsilon: float = static()
    num_groups: int = static()
    n: int | None = static(default=None)
    groups: Values | None = None
    most: int = static(default=65_535)
    reporting: Reporting = static(default="full")
    thresholds: Array | None = dataclasses.field(init=False, repr=False, default=None)

    budgets: ClassVar[dict[str, float]] = {"epsilon": whole_noise.MAX_EPSILON}
    reportings: ClassVar[tuple[Reporting, ...]] = ("full", "half")

    def __post_init__(self) -> None:
        checks.concrete(
            "the host makes a table of it, so make one mechanism for each epsilon outside jit and "
            "vmap, and give privatize_counts one or a menu of them",
            epsilon=self.epsilon,
        )
        # Static: one spelling of a budget, so that it is hashable and no second program.
        object.__setattr__(self, "epsilon", whole_noise.checked_epsilon(self.epsilon))
        validate.integer_in(1, num_groups=self.num_groups)
        whole_noise.checked_most(self.most)
        self._check()
        if self.groups is not None and validate.concrete(self.groups):
            groups = checked_groups(self.groups, self._size(), self.num_groups)
            object.__setattr__(self, "groups", jnp.asarray(groups))
        object.__setattr__(self, "thresholds", jax.device_put(self._noise.thresholds))

    @property
    def _noise(self) -> whole_noise.WholeNoise:
        return whole_noise.whole_noise(float(self.epsilon), self.most)

    def span(self) -> tuple[int, int]:
        """The smallest and the largest report."""
        margin = self._noise.margin
        return -margin, self.most + margin

    def stack_shape(self) -> tuple[int, ...]:
        """() for one mechanism: its arrays are a table and public groups, not a stack."""
        return ()

    def true_counts(
        self,
        neighbours: NeighbourList,
        own: Scalar,
        groups: Values | None = None,
    ) -> Array:
        """The counts of one user without noise, int32 [K]: private.

        Arguments are those of :meth:`privatize`.
        """
        bits, owned, _, _ = self._record(neighbours, own)
        if groups is None:
            groups = self.groups
        if groups is None:
            raise ValueError("groups must be given, int [n]: the public group of every node")
        validate.require(
            np.shape(groups) == (self.n,),
            f"groups must have shape ({self.n},), got {np.shape(groups)}",
        )
        if validate.concrete(groups):
            groups = checked_groups(groups, self._size(), self.num_groups)
        groups = jnp.asarray(groups)
        known = bits & owned & (groups >= 0) & (groups < self.num_groups)
        group = jnp.where(known, groups, 0)
        counts = jnp.zeros(self.num_groups, jnp.int32).at[group].add(known.astype(jnp.int32))
        return jnp.minimum(counts, self.most)

    def privatize(
        self,
        key: PRNGKey,
        neighbours: NeighbourList,
        own: Scalar = 0,
        groups: Values | None = None,
    ) -> Array:
        """Draw the report of one user, int32 [K], in O(n); ``vmap`` it.

        ``groups`` are public, int [n]; by default the mechanism's own. Traced ones outside [-1, K)
        count nowhere.
        """
        validate.threefry(key)
        return self.add_noise(key, self.true_counts(neighbours, own, groups))

    def add_noise(self, key: PRNGKey, counts: Values) -> Array:
        """Clip counts to [0, ``most``] and add independent noise; int32."""
        if not isinstance(counts, jax.Array):  # a number of the host may be beyond 32 bits
            counts = np.clip(np.asarray(counts), 0, self.most).astype(np.int32)
        counts = jnp.clip(jnp.asarray(counts), 0, self.most).astype(jnp.int32)
        words = _words(key, counts.shape, 1 + whole_noise.WORDS)
        return self.from_words(words, counts)

    def from_words(self, word: AnyArray, counts: AnyArray) -> Array:
        """Reports under random bits uint32 [4, ...]: a sign, and a number below 2^96."""
        table = jnp.asarray(self.thresholds)
        bits = jnp.asarray(word, jnp.uint32)
        return with_noise(table, bits, counts, self.noise_sizes(), self.span())

    def noise_sizes(self) -> tuple[int, int]:
        """Steps of bisection that find nearly every magnitude, and the largest one."""
        return self._noise.near, self._noise.reach

    def word_runs(self) -> WordRuns:
        """Runs of numbers below 2^96 between two thresholds, with both signs."""
        size = 4 * whole_noise.WORDS  # bytes
        table = np.ascontiguousarray(np.asarray(self.thresholds).T.astype(">u4"))
        starts = sorted({0, *(int.from_bytes(row.tobytes(), "big") for row in table)})
        ends = [*starts[1:], 1 << 8 * size]

        def words(numbers: list[int]) -> np.ndarray:
            packed = b"".join(number.to_bytes(size, "big") for number in numbers)
            rows = np.frombuffer(packed, ">u4").reshape(len(numbers), -1).astype(np.uint32)
            signs = [np.insert(rows, 0, sign, 1) for sign in (0, 1)]
            return np.concatenate(signs).T

        both = 2 << 8 * size  # numbers with a sign
        share = [Fraction(end - start, both) for start, end in zip(starts, ends, strict=True)]
        pairs = sorted({(0, 1), (self.most - 1, self.most)})
        return WordRuns(words(starts), words([end - 1 for end in ends]), share * 2, pairs)

    def log_density(self, y: Values, x: NeighbourList, own: Scalar = 0) -> Array:
        """The log mass of a report given a list."""
        y = jnp.asarray(y)
        return self.log_likelihood(y, self.true_counts(x, own)).sum(-1)

    def log_likelihood(self, y: Values, counts: Values) -> Array:
        """log p of each reported number given the true count; elementwise."""
        y = jnp.asarray(y)
        counts = jnp.asarray(counts)
        low, high = self.span()
        kind = jnp.result_type(float)
        inside, ends = (jnp.asarray(side, kind) for side in self._noise.log_masses)
        possible = (y >= low) & (y <= high) & (y == jnp.round(y))
        gap = jnp.where(possible, jnp.abs(y - counts), 0)
        at = jnp.clip(gap, 0, len(inside) - 1).astype(jnp.int32)
        mass = jnp.where((y == low) | (y == high), ends[at], inside[at])
        return jnp.where(possible, mass, -jnp.inf)

    def bit_reports(self, owned: int) -> tuple[np.ndarray, np.ndarray]:
        """Every whole number of the span; no bit is sent."""
        low, high = self.span()
        numbers = np.arange(low, high + 1.0)
        return numbers, np.full(len(numbers), np.nan)

    def bit_log_density(
        self,
        noisy: Scalar,
        sent: Scalar,
        degree: Scalar,
        bit: Scalar,
        owned: Scalar,
    ) -> Array:
        """log p of the bit's count, with all true pairs in it."""
        return self.log_likelihood(noisy, jnp.minimum(jnp.asarray(degree), self.most))

    def codomain(self, own: int = 0) -> CountReports:
        """K numbers."""
        return CountReports(self.num_groups, self.span())

    def estimate(self, y: Values, own: Scalar = 0) -> Array:
        """The counts: the report itself, which is unbiased; post-processing."""
        return jnp.asarray(y, jnp.float32)

    def noise_variance(self) -> float:
        r"""The variance of one count: :math:`2a/(1-a)^2`, a = e^-epsilon.

        >>> round(NeighbourCounts(1.0, 1).noise_variance(), 4)
        1.8413
        """
        a = np.exp(-self.epsilon)
        return float(2 * a / np.expm1(-self.epsilon) ** 2)

    def proof(self) -> str:
        """The noise of one number."""
        return "a bit moves one count by one; each has whole noise of its own"

    def sums(self) -> np.ndarray:
        """The loss, computed from the noise's integers."""
        return np.array(self._noise.loss)

    def guarantee(self) -> Guarantee:
        """epsilon per bit of a list."""
        check_derived(self, "thresholds")
        return dataclasses.replace(super().guarantee(), arithmetic="exact")


# One program, outside jit too.
_words = jax.jit(random_words.words, static_argnames=("shape", "count"))


@jax.jit
def with_noise(
    thresholds: Array,
    word: Array,
    counts: AnyArray,
    sizes: tuple[Scalar, Scalar],
    span: tuple[Scalar, Scalar],
) -> Array:
    """Add discrete Laplace noise by random bits uint32 [4, ...] to counts."""
    high = thresholds[0]
    bits = thresholds.shape[1].bit_length()
    last = np.uint32(2**32 - 1)

    def found(beyond: Callable[[Array], Array], steps: Scalar) -> Array:
        """Bisection among the first 2^steps - 1 thresholds: how many are at or below a number."""

        def halve(at: Array, place: Array) -> Array:
            step = jnp.left_shift(1, steps - 1 - at)
            return jnp.where(beyond(place + step - 1), place, place + step)

        return jax.lax.fori_loop(0, steps, halve, jnp.zeros_like(word[0], jnp.int32))

    # Nearly every number is below the first threshold whose first word is the last, and its first
    # word is in none.
    near, reach = sizes
    place = found(lambda at: word[1] < high[at], near)
    below = high[jnp.maximum(place - 1, 0)]
    unsure = (word[1] == last) | ((place > 0) & (word[1] == below))
    steps = jnp.where(unsure.any(), bits, 0)
    exact = found(lambda at: random_words.less(word[1:], thresholds[:, at]), steps)

    size = jnp.minimum(jnp.where(unsure, exact, place), reach)
    noise = jnp.where(word[0] & 1 == 0, size, -size)
    return jnp.clip(counts + noise, *span)


def checked_groups(
    groups: Values | None,
    n: int,
    num_groups: int,
    least: int = -1,
    name: str = "groups",
) -> Int[np.ndarray, " n"]:
    """Public numbers of users in [least, num_groups), as int32 [n]; ``ValueError`` for others."""
    validate.unnamed(**{name: groups})
    groups = validate.complete(**{name: groups})
    validate.require(
        groups.shape == (n,) and groups.dtype.kind in "iu",
        f"{name} must be int [{n}], one for every node, got {groups.dtype} {list(groups.shape)}",
    )
    if not ((groups >= least) & (groups < num_groups)).all():
        given = f"{groups.min()} to {groups.max()}"
        raise ValueError(f"{name} must be in [{least}, {num_groups}), got {given}")
    return groups.astype(np.int32)
