r"""A device that holds a neighbour list: how many neighbours in each public group, with noise of its own.

It is the deployed twin of :class:`ldp_jax.edges.NeighbourCounts` with whole noise and full reporting: the same law,
from the same integers, and of equal words the same numbers.

**One round.** The server sends everybody one :class:`~ldp_jax.deployment.question.Question`: a round, an epsilon
and the public group of *every* node. The device looks up its own neighbours in it, adds whole noise to each count,
and sends K numbers (:mod:`ldp_jax.deployment.counts`). :class:`ListSession` does this, once for each question and
within a budget.

**What reaches the server** is the report, of a length that K fixes, and that the device reported: nothing else.

* *All groups to everybody*, which is what this module does: one file, the same for all, so that to fetch it says
  nothing of a list. Of 10^6 nodes it has 1 MB in up to 128 groups and 2 MB beyond; any cache may hold it.
* *The groups of one's own neighbours, on request,* would be 8 bytes a neighbour, and would tell the server the
  whole list, whatever epsilon is. No call here asks for them.
* *The part of the file that holds one's neighbours* would tell in which parts they are, and in which they are not.
* *Neighbours who tell each other their groups*, end to end, would spare the file, but not by a question that the
  device fills in itself: a report shows a digest of its question, and lists can be tried until one has that digest.

How long a report takes depends a little on the length of the list: send it at a time of its own.

**Words.** Count k of a (question, user) is drawn with four 32-bit words of its own: the last bit of the first is
the sign, the others are a number below 2^96, most significant first, that is compared with the cumulative masses of
the noise (``ldp_jax.core.whole_noise``). They are bytes 16 (k mod 4) to 16 (k mod 4) + 15 of the 64 bytes of
BLAKE2b keyed with the device's secret, of ::

    "ldp_jax 1 counts" | SHA-256 of the question (32 bytes) | user (8) | round (4) | floor(k / 4) (4)

integers and words little-endian; nothing of the list enters.

**What is guaranteed.** For each bit of the list the loss of the noise's integers, once a question for all K counts
together, since a neighbour is in one group; exact, towards anyone who cannot tell keyed BLAKE2b from uniform words,
and whatever groups the server chose, of a single node even. A list that differs in d neighbours loses d times that.
Of a pair both ends report, so that per relationship it is the sum of both. Where every device reports on what is
its own by one public rule, ``rule = ownership(...)`` and
``session.report(question, rule.owned(user, neighbours), user=user)``, it is one of both. That all have one rule
must show, as it does of the question by its digest: a server that gave two would see both ends. Questions add
up, and the memory is kept and sealed as that of :class:`~ldp_jax.deployment.device.Session`, on the same terms
(:mod:`ldp_jax.deployment.device`), but begins with "ldp-lists 1\n". Budgets of lists and of records are apart:
features and friends are different units, and one device may have a session of each.

**Two rounds.** 200 users in two communities, of which 40 say theirs in public. The first 100 users are asked how
many of their neighbours said which; the others then report by what the server made of that:

>>> import hashlib
>>> from ldp_jax.deployment import decode_counts
>>> rng = np.random.default_rng(0)
>>> community = np.arange(200) % 2
>>> likely = np.where(community[:, None] == community, 0.25, 0.01)
>>> friends = np.triu(rng.random((200, 200)) < likely, 1)
>>> lists = [np.flatnonzero(row) for row in friends | friends.T]  # each on a device of its own
>>> secrets = [hashlib.blake2b(b"%d" % user, digest_size=32).digest() for user in range(200)]
>>> sessions = [ListSession(Device.from_secret(secret), budget=1.0) for secret in secrets]
>>> def ask(question, users):  # what is sent, and what the server reads
...     sent = [sessions[user].report(question, lists[user], user=user) for user in users]
...     return decode_counts(b"".join(sent), question)
>>> said = np.where(np.arange(200) < 40, community, -1)
>>> first = ask(Question(0, said, num_groups=2, epsilon=1.0, most=200), range(100))
>>> guess = said.copy()
>>> guess[first.user] = np.where(said[first.user] < 0, first.counts.argmax(1), said[first.user])
>>> second = ask(Question(1, guess, num_groups=2, epsilon=1.0, most=200), range(100, 200))
>>> guess[second.user] = second.counts.argmax(1)
>>> second.counts.shape, second.rejected.total, bool((guess == community)[100:].mean() > 0.9)
((100, 2), 0, True)
>>> print(sessions[150].spent())  # doctest: +ELLIPSIS
epsilon 1 per neighbour-list (any two histories of one device that differ in one neighbour; releases: 1; exact ...

``ldp_jax.pipeline.piloted.piloted_counts`` makes more of such reports; :meth:`DecodedCounts.by_node` is what it
reads.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, SupportsIndex

import numpy as np

from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST
from ldp_jax.core.list_ids import host_ids
from ldp_jax.core.validate import whole
from ldp_jax.deployment.counts import pack_counts
from ldp_jax.deployment.device import Device, Memory, ReplayError, itself
from ldp_jax.deployment.question import MAX_GROUPS, Question

__all__ = ["ListSession"]


def __dir__() -> list[str]:
    return __all__


class ListSession(Memory):
    """Reports of one device on its neighbour list, their memory and budget: the only way to report.

    Every check depends on question and user and on the budget alone. A list may hold anything: what is no node of
    the graph, the user herself and repeats are dropped, and an empty list is a list. So no error says anything of
    it, and the memory holds noisy counts alone, which the server was sent. Safe to share between threads.

    Args:
      device: whose reports these are.
      budget: the largest epsilon that all reports of the device together may lose for one bit of its list, finite
        and > 0: a number, or a :class:`~ldp_jax.accounting.guarantee.Budget` of neighbour lists without delta. A
        report costs what the integers of its noise lose, whatever the question calls itself. The memory keeps the
        budget.
      key: 32 bytes that the collector shares (:attr:`Device.shared_key`), for checksums that nobody else can make;
        or None, for plain ones. The memory does not keep it.

    Raises:
      ValueError: for a budget or a key that is none.

    >>> from ldp_jax.deployment import decode_counts
    >>> asked = Question(0, groups=[0, 0, 1, 1, -1], num_groups=2, epsilon=1.0, most=20)
    >>> session = ListSession(Device.from_secret(bytes(range(32))), budget=1.5)
    >>> sent = session.report(asked, [1, 2, 4], user=0)
    >>> len(sent), decode_counts(sent, asked).counts.shape
    (40, (1, 2))
    >>> session.report(asked, [1, 2, 3, 4], user=0)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ldp_jax.deployment.device.ReplayError: user 0 reported on this question of round 0 before: ...
    >>> session.resend(asked, user=0) == sent
    True
    >>> again = Question(1, asked.groups, num_groups=2, epsilon=1.0, most=20)
    >>> session.report(again, [1, 2, 4], user=0)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ldp_jax.deployment.device.BudgetError: 1 reports at epsilon 1.0 each do not fit: ...
    """

    _format = b"ldp-lists 1\n"
    _unit = NEIGHBOUR_LIST
    _of, _each = "question", "report"
    _adjacency = "any two histories of {} that differ in one neighbour"
    _masses = 2**97 + 1

    def _held(self, row: list[Any]) -> tuple[int, ...]:
        (counts,) = row
        if not isinstance(counts, list) or not 1 <= len(counts) <= MAX_GROUPS:
            raise ValueError("a report of no counts")
        return tuple(whole(-(2**31), 2**31 - 1, count=count) for count in counts)

    def _row(self, held: tuple[int, ...]) -> list[Any]:
        return [list(held)]

    def _many(self, held: tuple[int, ...]) -> int:
        return 1

    def report(
        self,
        question: Question,
        neighbours: Iterable[Any],
        *,
        user: SupportsIndex,
    ) -> bytes:
        """The report of one list.

        Args:
          question: what is asked, as the server sent it to everybody.
          neighbours: the ids of the user's neighbours: a list, set, array or whatever can be iterated.
          user: her own node, which is never counted.

        Returns:
          32 + 4 K bytes.

        Raises:
          ValueError: if user is not an integer in [0, n), or the question's noise would reach beyond 2^20.
          ReplayError: if she reported on this question before, whatever the list.
          BudgetError: if a report loses more than the device accepts or has left, whatever the list.
        """
        question = itself(question, Question)
        who = whole(0, question.num_nodes - 1, user=user)
        key, noise = (question.digest, who, question.round), question.noise
        with self._lock:
            if key in self._released:
                raise ReplayError(
                    f"user {who} reported on this question of round {question.round} before: resend() gives those "
                    "bytes"
                )
            self._check_budget(noise.ratio, 1)
            counts = _counts(question, neighbours, who)
            words = self._device.count_words(question.digest, question.num_groups, user=who, round=question.round)
            noisy = noise.report(words, counts)
            sent = pack_counts(question, noisy, who, self._key)
            self._losses[key[0]] = noise.ratio
            self._released[key] = tuple(noisy.tolist())
            self._pay(noise.ratio, 1)
        return sent

    def resend(self, question: Question, *, user: SupportsIndex) -> bytes:
        """The bytes of an earlier report, for a retry. It costs nothing: the collector was sent the same numbers.

        Raises:
          ValueError: if there was none, or user is not an integer in [0, n).
        """
        question = itself(question, Question)
        who = whole(0, question.num_nodes - 1, user=user)
        with self._lock:
            held = self._released.get((question.digest, who, question.round))
            if held is None:
                raise ValueError(f"nothing to resend for user {who}, round {question.round}")
            return pack_counts(question, held, who, self._key)

    @classmethod
    def from_bytes(
        cls, device: Device, data: bytes, *, at_least: SupportsIndex = 0, key: bytes | None = None
    ) -> "ListSession":
        """Go on where :meth:`to_bytes` left off, within the same budget.

        Args:
          device: whose memory it is.
          data: the memory.
          at_least: the newest :attr:`counter` that is known from elsewhere.
          key: as for a new session.

        Raises:
          ValueError: as :meth:`ldp_jax.deployment.Session.from_bytes`, whose memory is refused here too.
        """
        session = cls(device, budget=math.ulp(0.0), key=key)
        session._restore(data, at_least)
        return session


def _counts(question: Question, neighbours: Any, own: int) -> np.ndarray:
    """How many neighbours are in each group, int64 [K]."""
    of_numpy = isinstance(neighbours, Sequence) or hasattr(neighbours, "__array__")
    if isinstance(neighbours, Iterable) and not of_numpy:  # of a set, NumPy would make one thing
        neighbours = list(neighbours)
    n = question.num_nodes
    known = np.unique(host_ids(neighbours, n))
    groups = np.asarray(question.groups)[known[(known < n) & (known != own)]]
    return np.bincount(groups[groups >= 0], minlength=question.num_groups)
