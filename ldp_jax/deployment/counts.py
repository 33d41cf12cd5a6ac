"""Reports of neighbours by group: their bytes, and the counts that a server reads from them.

**Layout.** 32 bytes and 4 for each of the K counts, little-endian, no padding (:func:`layout`)::

    0        version     2 bytes, 257: no report of records begins so
    2        num_groups  2 bytes, K
    4        question    8 bytes, the first of the question's SHA-256
    12       user        8 bytes
    20       round       4 bytes
    24       counts      4 K bytes, signed: noise may be below zero
    24 + 4 K checksum    8 bytes: BLAKE2b with a digest of 8 bytes of "ldp_jax 1 answer" | all bytes before it

A report is whole or it is none: no K - 1 counts of one user are ever read. What a checksum is for, with a key and
without one, :mod:`ldp_jax.deployment.wire` says; so it does of streams: reports of the question that is read begin
wherever their first twelve bytes and a right checksum stand, and reading goes on after damage. Where the twelve
bytes stand again before a report has ended, it was cut, since counts do not spell a digest: so whatever the bytes,
reading takes time in proportion to them. Reports of other questions are told from damage where they stand one after
the other, or between reports of this one.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import numpy as np

from ldp_jax.core.validate import whole
from ldp_jax.deployment import wire
from ldp_jax.deployment.question import MAX_GROUPS, Question

__all__ = ["COUNTS_VERSION", "DecodedCounts", "RejectedCounts", "decode_counts", "layout", "pack_counts"]


def __dir__() -> list[str]:
    return __all__


COUNTS_VERSION = 257
"""Of the report bytes."""

_TAG = b"ldp_jax 1 answer"
_HEAD = 24  # bytes before the counts


@functools.lru_cache(maxsize=64)
def layout(num_groups: int) -> np.dtype:
    """One report of K counts: 32 + 4 K bytes.

    Raises:
      ValueError: for K that is not in [1, 32 767].

    >>> layout(10).itemsize
    72
    """
    return np.dtype(
        [
            ("version", "<u2"),
            ("num_groups", "<u2"),
            ("question", "V8"),
            ("user", "<u8"),
            ("round", "<u4"),
            ("counts", "<i4", (whole(1, MAX_GROUPS, num_groups=num_groups),)),
            ("checksum", "V8"),
        ]
    )


def pack_counts(question: Question, counts: Any, user: int, key: bytes | None) -> bytes:
    """The report of one user.

    Args:
      question: what was asked.
      counts: noisy, whole numbers [K].
      user: who.
      key: for the checksum, or None.
    """
    numbers = np.asarray(counts, "<i4").tobytes()
    signed = _mark(question) + user.to_bytes(8, "little") + question.round.to_bytes(4, "little") + numbers
    return signed + wire.tag(wire.tag_start(_TAG, key), signed)


class RejectedCounts(NamedTuple):
    """How many reports were refused, each for the first reason that applies.

    Attributes:
      damaged: no whole report with a right checksum: flipped, cut, joined, forged, sealed with another key or none.
        Each stretch of such bytes counts once for every report of this question that was begun.
      question: of another question.
      impossible: of this question, by a user who is no node of its graph, of another round, or with a count that
        its noise cannot give.
      replayed: of a user who reported before.

    >>> print(RejectedCounts(damaged=2, question=0, impossible=0, replayed=1))
    3 reports refused: 2 damaged, forged or under another key; 1 replayed
    """

    damaged: int
    question: int
    impossible: int
    replayed: int

    @property
    def total(self) -> int:
        """How many were refused, whatever the reason."""
        return sum(self)

    def __str__(self) -> str:
        return wire.refused(
            self,
            ("damaged, forged or under another key", "of another question", "that no device sends", "replayed"),
        )


@dataclasses.dataclass(frozen=True, eq=False)
class DecodedCounts:
    """Reports that were accepted, in the order of the data.

    Attributes:
      user: int64 [users], each once.
      counts: int32 [users, K], noisy: the unbiased estimates of how many neighbours each user has in each group.
      rejected: how many were not.
      seen: int64 [m], ascending and distinct: who has reported, for the next call.
    """

    user: np.ndarray
    counts: np.ndarray
    rejected: RejectedCounts
    seen: np.ndarray

    def by_node(self, num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
        """Counts int32 [n, K], zeros for who did not report, and who did, bool [n].

        So :func:`ldp_jax.pipeline.piloted.piloted_counts` wants them of every round.

        Raises:
          ValueError: if n is not above every user.

        >>> DecodedCounts(np.array([2]), np.int32([[5]]), RejectedCounts(0, 0, 0, 0), np.array([2])).by_node(3)
        (array([[0],
               [0],
               [5]], dtype=int32), array([False, False,  True]))
        """
        n = whole(int(self.user.max(initial=-1)) + 1, num_nodes=num_nodes)
        counts, reported = np.zeros((n, self.counts.shape[1]), np.int32), np.zeros(n, bool)
        counts[self.user], reported[self.user] = self.counts, True
        return counts, reported


def decode_counts(
    data: bytes, question: Question, *, key: bytes | None = None, seen: np.ndarray | None = None
) -> DecodedCounts:
    """Read the reports of one question. Pure, and total: whatever the bytes, what is refused is counted.

    Of each user the first report counts, within the data and after earlier calls.

    Args:
      data: reports, one after the other.
      question: what was asked.
      key: the 32 bytes that the sender shares with the server, where there are any, as of
        :func:`ldp_jax.deployment.decode`: compare :attr:`DecodedCounts.user` with whom it was given to.
      seen: what the last call *on this question* returned, or None.

    Raises:
      ValueError: if key is not 32 bytes of entropy, or seen is not int64 [m].

    >>> from ldp_jax.deployment import Device, ListSession
    >>> asked = Question(0, groups=[0, 0, 1, 1, -1], num_groups=2, epsilon=1.0, most=20)
    >>> session = ListSession(Device.from_secret(bytes(range(32))), budget=1.5)
    >>> sent = session.report(asked, [1, 2, 4], user=0)
    >>> read = decode_counts(sent + sent[:-1], asked)  # once whole, once cut
    >>> read.user.tolist(), read.counts.shape, read.rejected.damaged
    ([0], (1, 2), 1)
    >>> print(decode_counts(sent, asked, seen=read.seen).rejected)
    1 reports refused: 1 replayed
    """
    if key is not None:
        wire.entropy("key", key)
    seen = np.zeros(0, np.int64) if seen is None else seen
    if seen.dtype != np.int64 or seen.ndim != 1:
        raise ValueError(f"seen must be int64 [m], got {seen.dtype} {seen.shape}")
    kind, start = layout(question.num_groups), wire.tag_start(_TAG, key)
    found = wire.whole_messages(data, _mark(question), kind.itemsize, start, once=True)
    damaged = others = 0
    for stretch in wire.between(data, found, kind.itemsize):
        many, rest = _others(stretch, start)
        others += many
        damaged += -(-rest // kind.itemsize)
    reports = np.frombuffer(b"".join([data[at : at + kind.itemsize] for at in found]), kind)

    noise = question.noise
    inside = (reports["counts"] >= -noise.margin) & (reports["counts"] <= question.most + noise.margin)
    known = (reports["user"] < question.num_nodes) & (reports["round"] == question.round) & inside.all(1)
    good = reports[known]
    everyone, first = np.unique(np.concatenate([seen, good["user"].astype(np.int64)]), return_index=True)
    kept = good[np.sort(first[first >= len(seen)]) - len(seen)]
    return DecodedCounts(
        user=kept["user"].astype(np.int64),
        counts=kept["counts"].astype(np.int32),
        rejected=RejectedCounts(damaged, others, int((~known).sum()), len(good) - len(kept)),
        seen=everyone,
    )


def _mark(question: Question) -> bytes:
    """The first bytes of all its reports."""
    return COUNTS_VERSION.to_bytes(2, "little") + question.num_groups.to_bytes(2, "little") + question.digest[:8]


def _others(stretch: bytes, start: Any) -> tuple[int, int]:
    """How many whole reports a stretch begins with, of whatever questions, and how many bytes are left after them.

    One hash of no more than what is left for each: what is claimed to be long costs no more than it is.
    """
    at = many = 0
    version = COUNTS_VERSION.to_bytes(2, "little")
    while stretch.startswith(version, at) and len(stretch) - at > _HEAD:
        num_groups = int.from_bytes(stretch[at + 2 : at + 4], "little")
        end = at + _HEAD + 4 * num_groups + wire.TAG_BYTES
        if not 1 <= num_groups <= MAX_GROUPS or end > len(stretch):
            break
        signed = stretch[at : end - wire.TAG_BYTES]
        if wire.tag(start, signed) != stretch[end - wire.TAG_BYTES : end]:
            break
        at, many = end, many + 1
    return many, len(stretch) - at
