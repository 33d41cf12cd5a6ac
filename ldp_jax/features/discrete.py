"""Finite mechanisms as integer tables: privacy that holds in the arithmetic that is run."""

import dataclasses
from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core import integer_tables, random, random_words, validate
from ldp_jax.core.float32 import einsum
from ldp_jax.core.integer_tables import Encoding, Table
from ldp_jax.core.mechanism import Univariate
from ldp_jax.core.pytree import pytree, static
from ldp_jax.core.spaces import Finite, Interval, as_records
from ldp_jax.core.types import AnyArray, Array, PRNGKey, Record, Report, Scalar
from ldp_jax.features._logs import log_mass

_DOMAINS = {"grid": "any two numbers in [-1, 1]", "bins": "any two numbers in [0, 1]"}
_STEP = 2.0**-23

Words = AnyArray | np.integer | int


@pytree
class Discrete(Univariate):
    r"""A finite mechanism given by whole numbers over 2^32; build one with :meth:`of`.

    Law: the record becomes a row (``grid``: rounded at random to a neighbouring point of [-1, 1],
    its mean kept; ``bins``: its bin of [0, 1]; ``category``: itself), and
    :math:`P(y \mid \text{row}) = m_{row, y} / 2^{32}`. The report is the index y of an output.
    Guarantee: the logarithm of the largest ratio of two masses of one column, exact for the words
    that are drawn.
    Utility: the estimate is the output's value; mean and variance are those of the table, between
    two grid points :math:`(1 - f)\,v_i + f\,v_{i+1} + f (1 - f) (\mu_{i+1} - \mu_i)^2`.

    Numerics: one 32-bit word is compared with the cumulative masses that share its leading bits;
    another rounds. Records are first rounded to multiples of 2^-22.

    Reference: none; see Mironov, CCS 2012, for what floating-point noise gives away.

    Attributes:
      search: uint32 [levels * inputs, 3 * 2^b]: for each first b + 1 bits of a word how many
        cumulative masses they reach, and the next one; then these masses.
      steps: int32, how many steps of bisection find those beyond the next one.
      values: float32 [levels * outputs, ...], the server's estimates.
      counts: int32 [levels], outputs of each level.
      level: int32, which table; an array where users or coordinates differ.

    >>> from ldp_jax.features import GeneralizedRR
    >>> m = GeneralizedRR(1.0, categories=3)
    >>> m.guarantee().arithmetic, m.guarantee().epsilon <= 1.0
    ('exact', True)
    """

    search: Array
    steps: Scalar
    values: Array
    counts: Array
    inputs: int = static()
    encoding: Encoding = static()
    names: tuple[str, ...] = static()
    level: Scalar = 0

    @classmethod
    def of(cls, *tables: Table) -> "Discrete":
        """A mechanism from a table.

        From several that fit, a public menu of levels (see :meth:`at`).
        """
        validate.require(tables, "tables must hold at least one table")
        kinds = {(table.inputs, table.encoding, table.values.shape[1:]) for table in tables}
        validate.require(
            len(kinds) <= 1,
            f"tables of one menu must agree in inputs, encoding, estimates, got {sorted(kinds)}",
        )
        ((inputs, encoding, estimate),) = kinds
        size = 1 + max(table.thresholds.shape[1] for table in tables)
        validate.require(
            3 * len(tables) * inputs * size < 2**31,
            f"tables must be fewer: {len(tables)} of {inputs} x {size} are beyond indices",
        )
        search, steps = [], []
        values = np.zeros((len(tables), size, *estimate), np.float32)
        for place, table in enumerate(tables):
            thresholds = integer_tables.padded(table.thresholds, size)
            guide, further = _guide(thresholds, table.outputs)
            search.append(np.hstack([guide, thresholds]))
            steps.append(further)
            values[place, : table.outputs] = table.values
        leaves = {
            "search": np.concatenate(search),
            "steps": np.int32(max(steps)),
            "values": np.concatenate(values),
            "counts": np.array([table.outputs for table in tables], np.int32),
            "level": np.int32(0),
        }
        # jnp.asarray would compile a program for each shape that is brought to the device.
        return cls(
            **jax.device_put(leaves),
            inputs=inputs,
            encoding=encoding,
            names=tuple(table.name for table in tables),
        )

    def __repr__(self) -> str:
        kind = type(self).__name__
        levels = len(self.names)
        if levels > 1:
            return f"{kind}({self.names[0]}, {levels} levels, {self.inputs} inputs)"
        leaves = jax.tree.leaves(self)  # None within a tree of axes or shardings
        known = [isinstance(leaf, jax.Array) and validate.concrete(leaf) for leaf in leaves]
        if known != [True] * 5:
            return f"{kind}({self.names[0]}, {self.inputs} inputs, {self.encoding})"
        made = self.table(0)
        size = f"inputs={self.inputs}, outputs={made.outputs}"
        return f"{made.name}(epsilon={made.epsilon:.6g}, {size})"

    def at(self, level: Scalar) -> "Discrete":
        """The same menu at another level.

        A number, or an array of public levels (one a user, through ``vmap``).

        A level beyond the menu is the nearest one. A level must not depend on a record.
        """
        most = len(self.names) - 1
        if isinstance(level, jax.Array):
            at = jnp.clip(level, 0, most).astype(jnp.int32)
        else:
            at = jax.device_put(np.clip(level, 0, most).astype(np.int32))
        return dataclasses.replace(self, level=at)

    def table(self, level: int | None = None) -> Table:
        """The integer table of one concrete level (by default, this one's)."""
        if level is None:
            validate.require(
                validate.concrete(self.level) and not np.ndim(self.level),
                "table() needs one concrete level: say which",
            )
            level = int(self.level)
        validate.integer_in(0, len(self.names) - 1, level=level)
        levels = len(self.names)
        outputs = int(np.asarray(self.counts)[level])
        search = np.asarray(self.search).reshape(levels, self.inputs, -1)[level]
        guide, thresholds = np.split(search, [2 * self._size], axis=1)
        cumulative = thresholds[:, : outputs - 1].astype(np.int64)
        masses = np.diff(cumulative, prepend=0, append=integer_tables.WORDS, axis=1)
        values = np.asarray(self.values)[level * self._size :][:outputs]
        made = Table(self.names[level], masses.astype(np.uint32), values, self.encoding)
        wanted, steps = _guide(thresholds, outputs)
        if (guide != wanted).any() or self.steps < steps:
            # Reports would not have the law of the thresholds.
            raise ValueError("search and steps must be those that Discrete.of makes of a table")
        return made

    @property
    def thresholds(self) -> Array:
        """uint32 [levels * inputs, 2^b], cumulative masses."""
        return self.search[:, 2 * self._size :]

    @property
    def _size(self) -> int:
        return self.search.shape[-1] // 3

    def stack_shape(self) -> tuple[int, ...]:
        """The shape of the level: tables are no stack."""
        return jnp.shape(self.level)

    def from_words(self, word: Words, rounding: Words, x: Record) -> Array:
        """Reports of records under uniform uint32 words, as the client's; elementwise."""
        word = jnp.asarray(word).astype(jnp.uint32)
        rounding = jnp.asarray(rounding).astype(jnp.uint32)
        row, part = self._rows(x)
        up = integer_tables.rounds_up(rounding, part).astype(jnp.int32)
        return self._entry((row + up) * self.search.shape[1], word)

    @partial(jax.jit, inline=True)  # an eager loop is compiled at each call
    def _entry(self, start: Array, word: Array) -> Array:
        """The entry that a word falls on, of the row that begins at ``start``."""
        rest = 32 - self._size.bit_length()  # bits of a word that choose no entry of the guide

        def first(start: Array, word: Array) -> Array:
            found = jnp.take(self.search, start + (word >> rest).astype(jnp.int32), mode="clip")
            beyond = word & (2**rest - 1) > found & (2**rest - 1)
            return (found >> rest).astype(jnp.int32) + beyond.astype(jnp.int32)

        def further(i: Array, place: Array) -> Array:
            step = 1 << (self.steps - 1 - i)
            found = jnp.take(self.search, start + place + (2 * self._size + step - 1), mode="clip")
            beyond = (place + step < self.counts[self.level]) & (word >= found)
            return jnp.where(beyond, place + step, place)

        # Always the case; but a CPU's compiler would draw the words again beside each gather that
        # may read them.
        place = jax.lax.cond(
            self.steps >= 0, first, lambda start, word: start + word.astype(jnp.int32), start, word
        )
        return jax.lax.fori_loop(0, self.steps, further, place)

    def draw(self, key: PRNGKey, x: Record) -> Array:
        """Independent reports of one user's numbers.

        Two words each from one key (one without a grid).
        """
        shape = jnp.broadcast_shapes(jnp.shape(x), jnp.shape(self.level))  # none shares a word
        if self.encoding == "grid":
            word, rounding = random_words.words(key, shape)
        else:
            word = rounding = random.bits(key, shape, jnp.uint32)
        return self.from_words(word, rounding, x)

    def _rows(self, x: Record) -> tuple[Array, Array]:
        row, part = integer_tables.split(jnp, as_records(x), self.inputs, self.encoding)
        return row + self.level * self.inputs, part

    def _masses(self) -> Array:
        """uint32 [levels * inputs, 2^b]; 0 for padding."""
        edges = jnp.pad(self.thresholds[:, :-1], ((0, 0), (1, 0)))
        masses = jnp.diff(edges, append=jnp.zeros((len(edges), 1), jnp.uint32), axis=1)  # mod 2^32
        last = jnp.repeat(self.counts, self.inputs)[:, None] - 1
        place = jnp.arange(self._size)[None]
        # The last mass is 2^32 less what comes before.
        return jnp.where(place < last, masses, jnp.where(place == last, -edges, 0))

    def log_density(self, y: Report, x: Record) -> Array:
        """log P(y | x): two neighbouring rows, mixed as the rounding mixes them."""
        y = jnp.asarray(y)
        index = jnp.clip(y, 0, self._size - 1).astype(jnp.int32)
        possible = (index == y) & (index < self.counts[self.level])
        row, f, above = self._mixed(x)
        masses = self._masses().astype(jnp.result_type(float))
        mixed = (1 - f) * masses[row, index] + f * masses[above, index]
        return log_mass(jnp.where(possible, mixed * 2.0**-32, 0.0))

    def _mixed(self, x: Record) -> tuple[Array, Array, Array]:
        """A row, the weight of the next, and the next (itself at the top, with weight 0)."""
        row, part = self._rows(x)
        f = part.astype(jnp.result_type(float)) * _STEP
        above = row + (part > 0).astype(row.dtype)
        return row, f, above

    def domain(self) -> Interval | Finite:
        """[-1, 1], [0, 1] or the categories."""
        if self.encoding == "category":
            return Finite(tuple(range(self.inputs)))
        return Interval(-1.0 if self.encoding == "grid" else 0.0, 1.0)

    def codomain(self) -> Finite:
        """The outputs of the widest level that :attr:`level` may be."""
        outputs = np.asarray(self.counts)
        if validate.concrete(self.level):
            outputs = outputs[np.asarray(self.level)]
        return Finite(tuple(range(int(outputs.max()))))

    def guarantee(self) -> Guarantee:
        """The exact loss of the table; the largest where levels differ."""
        validate.require(
            all(validate.concrete(leaf) for leaf in jax.tree.leaves(self)),
            "guarantee() needs a concrete epsilon; ask for it outside jit, vmap and grad",
        )
        losses = [self.table(level).epsilon for level in np.unique(np.asarray(self.level)).tolist()]
        return Guarantee(
            max(losses),
            adjacency=_DOMAINS.get(self.encoding, f"any two of {self.inputs} categories"),
            arithmetic="exact",
            status="proved",
            reason="the largest ratio of two whole numbers in a column of the sampled table",
        )

    def estimate(self, y: Report) -> Array:
        """The value of the output."""
        return self.values[self.level * self._size + jnp.asarray(y).astype(jnp.int32)]

    def _moments(self, x: Record) -> tuple[Array, Array]:
        """Mean and variance of the estimate, by a mixture of two rows."""
        levels = len(self.names)
        estimate = self.values.shape[1:]
        values = self.values.reshape(levels, -1, *estimate).astype(jnp.result_type(float))
        masses = self._masses().astype(values.dtype)
        share = masses.reshape(levels, self.inputs, -1) * 2.0**-32

        def of_input(share: Array) -> tuple[Array, Array]:
            """The reports of one input at each level, so that no array holds all."""
            mean = einsum("lk,lk...->l...", share, values)
            variance = einsum("lk,lk...->l...", share, (values - mean[:, None]) ** 2)
            return mean, variance

        by_row = lambda leaf: leaf.swapaxes(0, 1).reshape(-1, *estimate)
        mean, variance = map(by_row, jax.lax.map(of_input, share.swapaxes(0, 1)))

        row, f, above = self._mixed(x)
        f = f.reshape(f.shape + (1,) * len(estimate))
        mixed_mean = (1 - f) * mean[row] + f * mean[above]
        within = (1 - f) * variance[row] + f * variance[above]
        between = f * (1 - f) * (mean[above] - mean[row]) ** 2
        return mixed_mean, within + between

    def mean(self, x: Record) -> Array:
        """Mean of the estimate: linear between grid points."""
        return self._moments(x)[0]

    def variance(self, x: Record) -> Array:
        """Variance of the estimate, the rounding to the grid included."""
        return self._moments(x)[1]


def _guide(thresholds: np.ndarray, outputs: int) -> tuple[np.ndarray, int]:
    """The guide of one table [inputs, 2^(b + 1)], and the steps that its fullest bucket leaves.

    An entry is how many thresholds are at or below the first word of its bucket, followed by how
    far beyond that word the next one is, less 1: at most all the other bits, which say that it is
    in no word of the bucket.

    Chen and Asau, "On generating random variates from an empirical distribution" (AIIE Transactions
    6, 1974).
    """
    inputs, size = thresholds.shape
    buckets = 2 * size
    rest = 32 - size.bit_length()
    edges = np.full((inputs, outputs), 2**32)
    edges[:, :-1] = thresholds[:, : outputs - 1]

    # How many thresholds lie in each bucket: each counts in the first that begins no earlier.
    after = -(-edges[:, :-1] >> rest)
    code = after + (buckets + 1) * np.arange(inputs)[:, None]
    found = np.bincount(code.ravel(), minlength=inputs * (buckets + 1)).reshape(inputs, -1)
    fullest = int(found[:, 1:].max())

    reached = found[:, :-1].cumsum(1)
    first_words = np.arange(buckets) << rest
    beyond = np.take_along_axis(edges, reached, 1) - first_words - 1
    guide = (reached << rest) + np.minimum(beyond, 2**rest - 1)
    return guide.astype(np.uint32), (fullest - 1).bit_length()


def menu(mechanisms: Sequence[Discrete]) -> Discrete:
    """One mechanism with a public menu of levels.

    Personal budgets for table mechanisms, in one program.

    Level i is the i-th mechanism's; until :meth:`Discrete.at` chooses, the level is that of the
    largest loss.

    >>> from ldp_jax.features import GeneralizedRR
    >>> levels = menu([GeneralizedRR(epsilon, 4) for epsilon in (0.5, 2.0)])
    >>> one = lambda level, key, x: levels.at(level).privatize(key, x)
    >>> keys = jax.random.split(jax.random.key(0), 2)
    >>> jax.vmap(one)(jnp.array([0, 1]), keys, jnp.array([3, 3])).shape
    (2,)
    """
    tables = [made.table() for made in mechanisms]
    made = Discrete.of(*tables)
    return made.at(np.argmax([table.epsilon for table in tables]))
