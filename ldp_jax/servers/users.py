"""Users: the one door to private data.

They hold records, labels and neighbour lists, and answer questions.

Nothing else in :mod:`ldp_jax.servers` sees a private field. Variants of the users are the rows that
stand beside a result: :meth:`Users.public_record` (the graph-only baseline), :meth:`Users.shuffled`
(the permuted control), :meth:`Users.exact` (the ceiling without noise) and :meth:`Users.lying`
(malicious users).
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from ldp_jax.accounting.statement import Cost
from ldp_jax.core import random, random_words, validate
from ldp_jax.core.mechanism import Mechanism
from ldp_jax.core.spaces import as_records
from ldp_jax.core.types import PRNGKey, Report
from ldp_jax.edges import NeighbourList, Population
from ldp_jax.servers.parts import records as of_records
from ldp_jax.servers.questions.question import Answers, AnswersAll, HasExact, Question, User

_ROWS = 4096  # users whose lists are laid out at the same time

Lie = Callable[[PRNGKey, Question, Report, "Users", np.ndarray], Report]
"""What malicious users send: a function of a key, the question, honest reports, the users, and who
lies.
"""


@runtime_checkable
class Respondents(Protocol):
    """An answerer of questions: users, a simulated world, or a store of what devices sent."""

    @property
    def num_users(self) -> int:
        """How many users there are, asked or not."""

    def put(self, question: Question) -> Question:
        """The question as it is put to them: another one where they answer without noise."""

    def answer(self, key: PRNGKey, question: Question) -> Answers:
        """The answers of those who are asked, user i by the i-th key of ``key``."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Users:
    """Simulated users and their private data; on the host.

    Attributes:
      records: [n, ...] in the mechanism's domain, or what becomes dense a few rows at a time (a
        ``Dataset``, a ``np.memmap``), or rows of a classifier.
      labels: int [n]; -1 of users whose class is unknown, who cannot be asked for it.
      lists: an undirected graph, a set of graphs, or an :class:`~ldp_jax.edges.Population`.
      public: bool [n], users whose data the server knows, whom :meth:`shuffled` leaves as they
        are. By default there are none. A server asks them only where its question does.
      noiseless: whether questions are put without noise (:meth:`exact`).
      lie: what malicious users send (:meth:`lying`).
      liars: bool [n], who they are.

    ``ValueError`` where nothing is held, or fields are of different numbers of users.

    >>> users = Users(records=np.zeros((3, 2)), labels=[0, 1, 1])
    >>> users, users.num_users
    (Users(3 users with records, labels), 3)
    """

    records: Any = None
    labels: Any = None
    lists: Any = None
    public: Bool[np.ndarray, " n"] | None = None
    noiseless: bool = False
    lie: tuple[PRNGKey, Lie] | None = None
    liars: Bool[np.ndarray, " n"] | None = None

    def __post_init__(self) -> None:
        validate.unnamed(records=self.records, labels=self.labels)
        if self.lists is not None and not isinstance(self.lists, Population):
            object.__setattr__(self, "lists", Population.of(self.lists))
        sizes = self._sizes()
        validate.require(sizes, "users must hold records, labels or lists")
        shown = ", ".join(f"{name} of {size}" for name, size in sizes.items())
        alike = len(set(sizes.values())) == 1
        validate.require(alike, f"fields must be of the same users, got {shown}")
        for name in ("public", "liars"):
            given = getattr(self, name)
            if given is not None:
                object.__setattr__(self, name, validate.mask(self.num_users, **{name: given}))

    def _sizes(self) -> dict[str, int]:
        sizes = {}
        if self.records is not None:
            sizes["records"] = of_records.count(self.records)
        if self.labels is not None:
            sizes["labels"] = len(self.labels)
        if self.lists is not None:
            sizes["lists"] = len(self.lists.group)
        return sizes

    def __repr__(self) -> str:
        held = ", ".join(self._sizes())
        return f"Users({self.num_users} users with {held})"

    @property
    def num_users(self) -> int:
        """n."""
        return next(iter(self._sizes().values()))

    # --- Answers ---

    def put(self, question: Question) -> Question:
        """The question as it is put to these users: without noise for exact ones."""
        if not self.noiseless:
            return question
        if not isinstance(question, HasExact):
            raise TypeError(
                f"{type(question).__name__} has no exact(), the question without noise that a "
                "ceiling asks"
            )
        return question.exact()

    def answer(self, key: PRNGKey, question: Question) -> Answers:
        """The answers of those who are asked; the values of others are 0.

        ``ValueError`` for a label that is asked for and unknown (-1), and for labels of which one
        is NaN.
        """
        asked = np.asarray(question.asked)
        held = self.only(question.cost())
        if held.labels is not None:
            validate.known(held.labels, asked)
        if isinstance(question, AnswersAll):
            values = question.answer_all(key, held)
        else:
            values = held.one_by_one(key, question)
        if self.lie is not None:
            lie_key, lie = self.lie
            # Each answer has its own key, and so have the lies beside it.
            answer = np.asarray(jax.random.key_data(key))[-1]
            lie_key = random.fold_in(lie_key, answer)
            values = lie(lie_key, question, values, held, np.asarray(self.liars))
        return Answers(blanked(values, asked), asked)

    def only(self, cost: Cost) -> "Users":
        """The same users with the fields that an answer reads, and no others."""
        kept = {"records": "record", "labels": "label", "lists": "list"}
        unit = cost.guarantee.unit
        read = {name: field for name, field in kept.items() if cost.reads(field)}
        rule = f"users hold records, labels and lists, none of which is in the unit {unit}"
        validate.require(read, rule)
        lacking = [field for name, field in read.items() if getattr(self, name) is None]
        rule = f"users must hold what the question reads, and lack {', '.join(lacking)}s"
        validate.require(not lacking, rule)
        return dataclasses.replace(self, **dict.fromkeys(kept.keys() - read.keys()))

    def through(self, key: PRNGKey, mechanism: Mechanism, of: str) -> Report:
        """Every user's record, or label, through a mechanism."""
        held = np.asarray(self.labels) if of == "label" else self.records
        return of_records.perturbed(key, held, mechanism)

    def one_by_one(self, key: PRNGKey, question: Question) -> Report:
        """Every user's answer by the question's own ``answer``, vmapped.

        User i has the i-th key.
        """
        n = self.num_users
        counted = random.counted(of_records.key_for(key, self.records))
        parts = []
        for start in range(0, n, _ROWS):
            stop = min(start + _ROWS, n)
            own = np.arange(start, stop, dtype=np.int32)
            record = label = lists = None
            if self.records is not None:
                record = of_records.rows(self.records, start, stop)
            if self.labels is not None:
                label = as_records(np.asarray(self.labels)[start:stop])
            if self.lists is not None:
                lists = _lists(self.lists, start, stop)
            users = User(record, label, lists, jax.device_put(own))
            parts.append(_answers(counted, question, users))
        return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)

    # --- Variants ---

    def public_record(self, value: float = 0.0) -> "Users":
        """The graph-only baseline: everybody holds one public record, label 0 and an empty list.

        Their noise is never that of the private users under the same key: with additive noise the
        difference of both results would be the difference of the records.
        """
        fields: dict[str, Any] = {}
        if self.records is not None:
            fields["records"] = of_records.public_record(self.records, value)
        if self.labels is not None:
            fields["labels"] = np.zeros(self.num_users, np.int32)
        if self.lists is not None:
            nothing = np.zeros(0, np.int32)
            fields["lists"] = self.lists._replace(senders=nothing, receivers=nothing)
        return _Default(**vars(self) | fields)

    def shuffled(self, key: PRNGKey) -> "Users":
        """The permuted control.

        Private users report on data that are dealt out among them at random; where lists are within
        the graphs of a set, among those of each graph.
        """
        validate.threefry(key)
        holder = np.arange(self.num_users)
        private = holder if self.public is None else np.flatnonzero(~self.public)
        dealt_out = np.asarray(random.permutation(key, private))
        if self.lists is not None:  # users are in the order of their graphs
            graph = np.asarray(self.lists.group)[dealt_out]
            dealt_out = dealt_out[np.argsort(graph, kind="stable")]
        holder[private] = dealt_out
        fields: dict[str, Any] = {}
        if self.records is not None:
            fields["records"] = of_records.taken(self.records, holder)
        if self.labels is not None:
            fields["labels"] = np.asarray(self.labels)[holder]
        if self.lists is not None:  # nobody is in their own list
            has = np.argsort(holder)  # who has the list of each
            receivers = has[self.lists.receivers].astype(np.int32)
            senders = self.lists.senders
            order = np.lexsort((senders, receivers))
            order = order[receivers[order] != senders[order]]
            dealt = {"senders": senders[order], "receivers": receivers[order]}
            fields["lists"] = self.lists._replace(**dealt)
        return dataclasses.replace(self, **fields)

    def exact(self) -> "Users":
        """The ceiling: users who answer without noise.

        The guarantee is then an epsilon of infinity.
        """
        return dataclasses.replace(self, noiseless=True)

    def lying(self, key: PRNGKey, share: float, lie: Lie) -> "Users":
        """A share of the users is malicious, drawn at random; the noise of the honest ones stays.

        ``lie`` says what they send in place of their reports (:data:`Lie`).
        """
        who_key, lie_key = random.split(key)
        liars = random_words.some_of(who_key, share, np.ones(self.num_users, bool))
        return dataclasses.replace(self, lie=(lie_key, lie), liars=liars)


class _Default(Users):
    """Users who all hold the public default, with keys of their own."""

    def answer(self, key: PRNGKey, question: Question) -> Answers:
        folds_itself = isinstance(self.records, of_records.PublicRecord)
        if not (folds_itself and question.cost().reads("record")):
            key = random.fold_in(key, of_records.STRUCTURE_ONLY)
        return super().answer(key, question)


def blanked(values: Report, who: Bool[np.ndarray, " n"]) -> Report:
    """Reports with 0 in the place of those of others.

    A report of a form of its own blanks itself.
    """
    if hasattr(values, "blanked"):
        return values.blanked(who)
    if who.all():
        return values

    def one(leaf: Any) -> Any:
        xp = np if isinstance(leaf, np.ndarray) else jnp
        kept = who.reshape(-1, *(1,) * (leaf.ndim - 1))
        return xp.where(kept, leaf, xp.zeros((), leaf.dtype))

    return jax.tree.map(one, values)


@jax.jit
def _answers(key: PRNGKey, question: Question, users: User) -> Report:
    """The reports of some users, each with the key of its number."""
    keys = jax.vmap(random.fold_in, (None, 0))(key, users.own)
    return jax.vmap(question.answer)(keys, users)


def _lists(users: Population, start: int, stop: int) -> NeighbourList:
    """The lists of some users, stacked, in room for the longest of them, a power of two."""
    n = len(users.group)
    begin, end = np.searchsorted(users.receivers, (start, stop))
    owner = users.receivers[begin:end] - start
    count = np.bincount(owner, minlength=stop - start).astype(np.int32)
    room = 1 << max(int(count.max(initial=1)) - 1, 0).bit_length()
    ids = np.full((stop - start, room), n, np.int32)
    first = np.cumsum(count) - count
    place = np.arange(end - begin) - np.repeat(first, count)
    ids[owner, place] = users.senders[begin:end]
    return NeighbourList(ids, count)
