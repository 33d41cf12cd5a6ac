"""The server's side: reports in, outputs and estimates out, and a count of what was refused and why."""

import dataclasses
from typing import NamedTuple

import numpy as np

from ldp_jax.core.integer_tables import WORDS, Table
from ldp_jax.core.validate import whole
from ldp_jax.deployment import wire

__all__ = ["TRIPLE", "Decoded", "Rejected", "Vectors", "decode", "vectors"]


def __dir__() -> list[str]:
    return __all__


TRIPLE = np.dtype([("user", "<u8"), ("round", "<u4"), ("field", "<u4")])
"""What :func:`decode` remembers of a report, for one table."""


class Rejected(NamedTuple):
    """How many reports were refused, each for the first reason that applies.

    Attributes:
      damaged: no whole report with a right checksum: flipped, cut, joined, forged, sealed with another key or none,
        or of a version that is unknown here. Each stretch of such bytes counts once for every 36 bytes that were
        begun.
      version: of version 1, 28 bytes without a checksum.
      table: of another table.
      output: of this table, with an output that it has not.
      replayed: of a (user, round, field) that was reported before.

    >>> print(Rejected(damaged=2, version=0, table=0, output=0, replayed=1))
    3 reports refused: 2 damaged, forged or under another key; 1 replayed
    >>> print(Rejected(0, 10, 0, 0, 0))
    10 reports refused: 10 of version 1, which has no checksum (this reads version 2: update the devices)
    >>> Rejected(0, 10, 0, 0, 0).total
    10
    """

    damaged: int
    version: int
    table: int
    output: int
    replayed: int

    @property
    def total(self) -> int:
        """How many were refused, whatever the reason."""
        return sum(self)

    def __str__(self) -> str:
        said = (
            "damaged, forged or under another key",
            f"of version 1, which has no checksum (this reads version {wire.VERSION}: update the devices)",
            "of another table",
            "with an output that the table has not",
            "replayed",
        )
        return wire.refused(self, said)


@dataclasses.dataclass(frozen=True, eq=False)
class Decoded:
    """Reports that were accepted, in the order of the data.

    Attributes:
      user: uint64 [n], of each report.
      round: uint32 [n].
      field: uint32 [n].
      output: int32 [n], below ``table.outputs``.
      estimate: float32 [n] or [n, size]: ``table.values`` of the outputs.
      rejected: how many were not.
      seen: :data:`TRIPLE` [m], ascending and distinct: for the next call.
    """

    user: np.ndarray
    round: np.ndarray
    field: np.ndarray
    output: np.ndarray
    estimate: np.ndarray
    rejected: Rejected
    seen: np.ndarray


def decode(data: bytes, table: Table, *, key: bytes | None = None, seen: np.ndarray | None = None) -> Decoded:
    """Read reports on the server. Pure, and total: whatever the bytes, what is refused is counted, never raised.

    Damaged reports, reports of another version or table and outputs that the table has not are left out; so is
    every report of a (user, round, field) but the first, within the data and after earlier calls. Averaging replays
    would cost nobody privacy, but would let one user count more than once.

    After damage, or where bytes are missing, reading goes on at the next whole report
    (:mod:`ldp_jax.deployment.wire`), so uploads may be joined before they are read, and a cut upload costs the
    reports that it cuts alone.

    Args:
      data: reports, one after the other.
      table: the mechanism they should come from.
      key: the 32 bytes that the sender shares with the server, where there are any; one device's upload at a time
        where every device has its own. A key shows that its holder sent a report, not that ``user`` is hers:
        compare :attr:`Decoded.user` with whom the key was given to. Without one the checksum protects from accident
        alone.
      seen: what the last call on reports *of this table* returned, or None.

    Raises:
      ValueError: if key is not 32 bytes of entropy, or seen is not an array of :data:`TRIPLE`.
    """
    if key is not None:
        wire.entropy("key", key)
    seen = np.zeros(0, TRIPLE) if seen is None else seen
    if seen.dtype != TRIPLE or seen.ndim != 1:
        raise ValueError(f"seen must be TRIPLE [m], got {seen.dtype} {seen.shape}")
    reports, damaged, old = wire.read(data, key)
    known = reports["table"] == wire.prefix(table)
    good = known & (reports["output"] < table.outputs)
    reports = reports[good]

    # One stable sort of the old and the new: the first of equal triples comes first.
    user = np.concatenate([seen["user"], reports["user"]]).astype(np.uint64)
    place = _place(
        np.concatenate([seen["round"], reports["round"]]), np.concatenate([seen["field"], reports["field"]])
    )
    order = np.lexsort((place, user))
    new = _changes(user[order], place[order])
    first = np.zeros(len(order), bool)
    first[order] = new
    triples = np.zeros(int(new.sum()), TRIPLE)
    triples["user"] = user[order][new]
    triples["round"] = place[order][new] >> np.uint64(32)
    triples["field"] = place[order][new] & np.uint64(WORDS - 1)

    kept = reports[first[len(seen) :]]
    output = kept["output"].astype(np.int32)
    return Decoded(
        user=kept["user"].astype(np.uint64),
        round=kept["round"].astype(np.uint32),
        field=kept["field"].astype(np.uint32),
        output=output,
        estimate=table.values[output],
        rejected=Rejected(
            damaged=damaged,
            version=old,
            table=int((~known).sum()),
            output=int((known & ~good).sum()),
            replayed=len(reports) - len(kept),
        ),
        seen=triples,
    )


@dataclasses.dataclass(frozen=True, eq=False)
class Vectors:
    """Decoded fields, one row a (user, round), ascending.

    Attributes:
      user: uint64 [n].
      round: uint32 [n].
      index: int32 [n, k], ascending in each row: which coordinates.
      output: int32 [n, k]: what was reported of them.
      incomplete: how many (user, round) were left out.
    """

    user: np.ndarray
    round: np.ndarray
    index: np.ndarray
    output: np.ndarray
    incomplete: int


def vectors(decoded: Decoded, k: int, dim: int) -> Vectors:
    """Put the fields of each user's vector together: those (user, round) with exactly k fields, all below ``dim``.

    Raises:
      ValueError: if not 1 <= k <= dim < 2^31.
    """
    dim = whole(1, 2**31 - 1, dim=dim)
    k = whole(1, dim, k=k)
    order = np.lexsort((_place(decoded.round, decoded.field), decoded.user))
    user, round, field = decoded.user[order], decoded.round[order], decoded.field[order]
    start = np.flatnonzero(_changes(user, round))
    size = np.diff(np.append(start, len(user)))
    full = (size == k) & (field[start + size - 1] < dim)
    at = start[full][:, None] + np.arange(k)
    return Vectors(
        user=user[at[:, 0]],
        round=round[at[:, 0]],
        index=field[at].astype(np.int32),
        output=decoded.output[order][at],
        incomplete=len(start) - len(at),
    )


def _place(round: np.ndarray, field: np.ndarray) -> np.ndarray:
    return (round.astype(np.uint64) << np.uint64(32)) | field.astype(np.uint64)


def _changes(user: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Where a sorted pair of columns differs from the row before."""
    new = np.ones(len(user), bool)
    new[1:] = (user[1:] != user[:-1]) | (other[1:] != other[:-1])
    return new
