"""Abilities that verification asks of some mechanisms alone."""

from typing import Protocol, runtime_checkable

from ldp_jax.core.integer_tables import Table
from ldp_jax.core.mechanism import WordRuns
from ldp_jax.core.types import AnyArray, Array, Record


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
