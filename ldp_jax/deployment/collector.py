"""Decode reports on the server: outputs, estimates, and a count of what was refused and why."""

import dataclasses
from typing import NamedTuple

import numpy as np

from ldp_jax.core.integer_tables import Table
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.validate import require, whole
from ldp_jax.deployment import wire
from ldp_jax.deployment.codecs import codec_of, read
from ldp_jax.deployment.neighbours import NeighbourQuestion

TRIPLE = np.dtype([("user", "<u8"), ("round", "<u4"), ("field", "<u4")])
"""What :func:`decode` remembers of a report, for one table or question; the field of counts is
0.
"""


class Rejected(NamedTuple):
    """How many reports were refused, each for the first reason that applies.

    Attributes:
      damaged: no whole report of a known version with a right checksum; once for every report that
        was begun.
      foreign: about another table or question.
      impossible: an output beyond the table; counts by no node of the graph, of another round, or
        beyond the noise.
      replayed: of a (user, round, field) that was reported before.

    >>> print(Rejected(damaged=2, foreign=0, impossible=0, replayed=1))
    3 reports refused: 2 damaged, forged or under another key; 1 replayed
    """

    damaged: int
    foreign: int
    impossible: int
    replayed: int

    @property
    def total(self) -> int:
        """How many were refused, whatever the reason."""
        return sum(self)

    def __str__(self) -> str:
        reasons = {
            "damaged, forged or under another key": self.damaged,
            "about another table or question": self.foreign,
            "that no device sends": self.impossible,
            "replayed": self.replayed,
        }
        found = "; ".join(f"{count} {why}" for why, count in reasons.items() if count)
        return f"{self.total} reports refused" + (f": {found}" if found else "")


@dataclasses.dataclass(frozen=True, eq=False)
class Decoded:
    """Reports that were accepted, in the order of the data.

    Attributes:
      user: uint64 [n], of each report; ``round`` and ``field``, 0 for counts, are uint32 [n].
      output: int32 [n], below ``table.outputs``; or the noisy counts of a question, int32 [n, K].
      estimate: float32 [n] or [n, size], unbiased: ``table.values`` of the outputs, or the counts.
      rejected: how many were not.
      seen: :data:`TRIPLE` [m], ascending and distinct: for the next call; of a store, which has its
        own, none.
    """

    user: np.ndarray
    round: np.ndarray
    field: np.ndarray
    output: np.ndarray
    estimate: np.ndarray
    rejected: Rejected
    seen: np.ndarray
    digest: bytes

    __repr__ = by_shapes


def decode(
    data: bytes,
    asked: Table | NeighbourQuestion,
    *,
    key: bytes | None = None,
    seen: np.ndarray | None = None,
) -> Decoded:
    """Decode reports on the server; whatever the bytes, what is refused is counted, never raised.

    The first report of each (user, round, field) counts, within the data and after earlier calls.
    After damage reading goes on at the next whole report (:mod:`ldp_jax.deployment.wire`): uploads
    may be joined.

    Args:
      data: reports, one after the other.
      asked: the table that they should come from, or the question that they answer.
      key: the 32 bytes that the sender shares with the server, where there are any; one device's
        upload at a time. A key shows that its holder sent a report, not who ``user`` is: compare
        :attr:`Decoded.user`.
      seen: what the last call *about the same table or question* returned, or None.
    """
    if key is not None:
        wire.entropy("key", key)
    seen = np.zeros(0, TRIPLE) if seen is None else seen
    require(seen.dtype == TRIPLE and seen.ndim == 1, "seen must be TRIPLE [m]", seen)
    codec = codec_of(asked)
    reports, damaged, foreign = read(data, codec, key)
    known = codec.known(reports)
    good = known & codec.possible(reports)
    foreign = foreign + int((~known).sum())
    impossible = int((known & ~good).sum())
    reports = reports[good]
    sent = np.zeros(len(reports), TRIPLE)
    for name in ("user", "round", "field"):
        if name in (codec.layout.fields or ()):
            sent[name] = reports[name]

    # One stable sort of the old and the new: the first of equal triples comes first.
    triples = np.concatenate([seen, sent])
    order = np.lexsort((triples["field"], triples["round"], triples["user"]))
    new = _changes(triples[order])
    first = np.zeros(len(order), bool)
    first[order] = new

    mine = first[len(seen) :]
    kept = sent[mine]
    output = codec.output(reports[mine])
    return Decoded(
        user=kept["user"].copy(),
        round=kept["round"].copy(),
        field=kept["field"].copy(),
        output=output,
        estimate=codec.estimate(output),
        rejected=Rejected(damaged, foreign, impossible, len(sent) - len(kept)),
        seen=triples[order[new]],
        digest=codec.digest,
    )


@dataclasses.dataclass(frozen=True, eq=False)
class Vectors:
    """Decoded fields, one row a (user, round), ascending.

    ``index`` int32 [n, k] is ascending in each row: which coordinates; ``output`` int32 [n, k] is
    what was reported of them. ``incomplete`` counts the (user, round) that were left out.
    """

    user: np.ndarray
    round: np.ndarray
    index: np.ndarray
    output: np.ndarray
    incomplete: int
    digest: bytes

    __repr__ = by_shapes


def vectors(decoded: Decoded, k: int, dim: int) -> Vectors:
    """The vectors of those (user, round) with exactly k fields, all below ``dim``."""
    dim = whole(1, 2**31 - 1, dim=dim)
    k = whole(1, dim, k=k)
    order = np.lexsort((decoded.field, decoded.round, decoded.user))
    user = decoded.user[order]
    round = decoded.round[order]
    field = decoded.field[order]
    start = np.flatnonzero(_changes(user) | _changes(round))
    size = np.diff(np.append(start, len(user)))
    full = (size == k) & (field[start + size - 1] < dim)
    at = start[full][:, None] + np.arange(k)
    return Vectors(
        user=user[at[:, 0]],
        round=round[at[:, 0]],
        index=field[at].astype(np.int32),
        output=decoded.output[order][at],
        incomplete=len(start) - len(at),
        digest=decoded.digest,
    )


def _changes(rows: np.ndarray) -> np.ndarray:
    return np.append([True], rows[1:] != rows[:-1])[: len(rows)]
