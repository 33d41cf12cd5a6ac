r"""The most that a protocol can cost each user, stated beforehand, and an account that keeps to it.

No JAX.

A protocol asks questions in rounds. The users whom it asks, and for how much, may depend on earlier
reports; a sum over what happened is then no epsilon. So a protocol states from public facts which
answers one user can be asked for at most. Each alternative is a :class:`Role`. The guarantee is
that of the worst role, and an :class:`Account` refuses a question that would exceed the statement.
Such a filter keeps adaptive sums sound, of epsilon and of delta, of Gaussian noise by its mu, and
of a fixed number of answers of one epsilon by advanced composition.
References: Rogers, Roth, Ullman and Vadhan (NeurIPS 2016), privacy filters; Whitehouse et al. (ICML
2023), full adaptivity; Smith and Thakurta (2022), Gaussian filters.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Bool, Int

from ldp_jax.accounting.composition import over_rounds, parallel, relationship, sequential
from ldp_jax.accounting.gaussian import GaussianCurve
from ldp_jax.accounting.guarantee import (
    LABEL,
    NEIGHBOUR_LIST,
    RECORD,
    RELATIONSHIP,
    Guarantee,
    PipelineGuarantee,
    Unit,
    joint_unit,
    own_words,
)
from ldp_jax.accounting.ledger import BudgetExceededError
from ldp_jax.core import validate

__all__ = ["Account", "Cost", "Role", "Statement"]

__dir__ = lambda: __all__

RECORD_AND_BIT = joint_unit(NEIGHBOUR_LIST, RECORD)
"""A user's record, or label, and one bit of the same user's list."""
RECORD_AND_LIST = Unit("record + whole neighbour list")
"""A user's record and all of their list: a unit of answers that read both at once."""

_FIELDS = {"record": "features", "label": "labels", "list": "edges", "graph": "edges"}


@dataclasses.dataclass(frozen=True)
class Cost:
    """The loss of one answer of one user, and how several such answers add up.

    Attributes:
      guarantee: of one answer. Its unit says what the answer reads: RECORD, LABEL, NEIGHBOUR_LIST
        (bit by bit), or a joint unit where one answer reads several fields at once.
      pair: of an answer that reads the list: the loss about one pair of users by the answers of
        both ends. By default both ends report the pair.
      owners: the name of the public rule by which one end of each pair reports it, where questions
        share one rule; empty where both ends do, or where each question may have a rule of its own.
      permanent: the name of an answer for good, which is drawn once and charged once; empty for
        fresh answers.
      curve: of Gaussian noise, whose answers compose by mu and are converted once, at ``delta``.
      delta: of all ``times`` answers together, for composition better than the sum; None for the
        sum.
      times: the most answers of a user.

    ``ValueError`` for times or a delta out of range, and for a pair's loss where no list is read.
    """

    guarantee: Guarantee
    pair: Guarantee | None = None
    owners: str = ""
    permanent: str = ""
    curve: GaussianCurve | None = None
    delta: float | None = None
    times: int = 1

    def __post_init__(self) -> None:
        validate.whole(1, times=self.times)
        if self.curve is not None and self.delta is None:
            raise ValueError("delta must be given with a curve, which is converted at it")
        if self.pair is None and self.reads("list"):
            bit = dataclasses.replace(self.guarantee, unit=NEIGHBOUR_LIST, adjacency="")
            object.__setattr__(self, "pair", relationship(bit, None if self.owners else bit))
        if self.pair is not None and not (self.reads("list") and self.pair.unit == RELATIONSHIP):
            raise ValueError(
                f"pair must be a guarantee per {RELATIONSHIP} of an answer that reads a list"
            )

    def reads(self, field: str) -> bool:
        """Whether the answer reads a field.

        Record, label, list, or that of another library's unit.
        """
        return any(field == read for read, _ in self.guarantee.unit.parts)

    def within(self, stated: "Cost") -> bool:
        """Whether one answer loses no more than one of ``stated``, in the same way."""
        alike = ("owners", "permanent")
        same = self.guarantee.unit == stated.guarantee.unit and all(
            getattr(self, name) == getattr(stated, name) for name in alike
        )
        if not same or not _no_more(self.guarantee, stated.guarantee):
            return False
        if self.curve is None or stated.curve is None:
            smaller = stated.curve is None
        else:
            smaller = self.curve.mu <= stated.curve.mu
        if self.pair is None or stated.pair is None:
            return smaller
        return smaller and _no_more(self.pair, stated.pair)

    def per(self, unit: Unit) -> Guarantee | None:
        """One answer's loss per ``unit`` of one user; None where the answer reads nothing of it.

        ``ValueError`` where the answer's guarantee is about smaller changes than those of the unit.
        """
        touched = [part for part in unit.parts if _touches(self.guarantee.unit, part)]
        if not touched:
            return None
        if not all(_covers(self.guarantee.unit, part) for part in touched):
            raise ValueError(
                f"an answer with a guarantee per {self.guarantee.unit} has none per {unit}"
            )
        if self.guarantee.unit == unit:
            return self.guarantee
        return dataclasses.replace(self.guarantee, unit=unit, adjacency=_words(unit))

    def total(self, one: Guarantee, times: int) -> Guarantee:
        """The loss of several answers, ``one`` being that of one of them."""
        if times == 1:
            return one
        if one.unit.rate is not None and not self.permanent:
            return one.repeated(times)  # rates of one distance add
        answers = "permanent" if self.permanent else "fresh"
        return over_rounds(
            one, times, answers=answers, delta=None if self.permanent else self.delta
        )


def _no_more(one: Guarantee, other: Guarantee) -> bool:
    return one.epsilon <= other.epsilon and one.delta <= other.delta


def _touches(unit: Unit, part: tuple[str, str]) -> bool:
    """Whether an answer of ``unit`` reads the field of a part; a record holds its label."""
    read = {field for field, _ in unit.parts}
    return part[0] in read or (part[0] == "record" and "label" in read)


def _covers(unit: Unit, part: tuple[str, str]) -> bool:
    """Whether a guarantee of ``unit`` bounds the changes of a part that it touches."""
    field, granularity = part
    held = dict(unit.parts)
    own = held.get(field, held.get("label") if field == "record" else None)
    return own in (granularity, "whole")


def _words(unit: Unit) -> str:
    if unit == RECORD_AND_BIT:
        return "two inputs that differ in one user's record, or label, and in one bit of their list"
    if unit == RECORD_AND_LIST:
        return "any two records and any two neighbour lists of one user"
    return own_words(unit)


@dataclasses.dataclass(frozen=True, eq=False)
class Role:
    """The answers that one user can be asked for at most, whatever is reported.

    Attributes:
      costs: of these answers, in any order.
      who: bool [n], the users who can have this role; None for everybody.
    """

    costs: tuple[Cost, ...]
    who: Bool[np.ndarray, " n"] | None = None

    def per(self, unit: Unit) -> Guarantee | None:
        """The loss of all answers per ``unit`` of one user.

        None where none reads anything of it.
        """
        found = [(cost, one) for cost in self.costs if (one := cost.per(unit)) is not None]
        parts = [cost.total(one, cost.times) for cost, one in found if cost.curve is None]
        curves = [cost for cost, _ in found if cost.curve is not None]
        if curves:
            parts.append(_of_curves(curves, unit))
        return sequential(*parts) if parts else None

    def after(self, history: "Role") -> "Role":
        """Both roles, one after the other; an answer for good that both name is one answer."""
        kept = {cost.permanent: cost for cost in history.costs if cost.permanent}
        earlier = [cost for cost in history.costs if not cost.permanent]
        for cost in self.costs:
            before = kept.get(cost.permanent) if cost.permanent else None
            if before is None:
                earlier.append(cost)
                continue
            worse = cost if before.within(cost) else before
            kept[cost.permanent] = dataclasses.replace(worse, times=cost.times + before.times)
        again = [kept.pop(cost.permanent) for cost in self.costs if cost.permanent in kept]
        who = _both(self.who, history.who)
        return Role((*earlier, *again, *kept.values()), who)


def _of_curves(costs: Sequence[Cost], unit: Unit) -> Guarantee:
    """Gaussian noise of several answers: by mu, converted once, at the largest delta."""
    curves = [cost.curve for cost in costs if cost.curve is not None for _ in range(cost.times)]
    delta = max(cost.delta for cost in costs if cost.delta is not None)
    return GaussianCurve(0.0).compose(*curves).guarantee(delta, unit, costs[0].guarantee.adjacency)


def _both(one: np.ndarray | None, other: np.ndarray | None) -> np.ndarray | None:
    if one is None or other is None:
        return other if one is None else one
    if one.shape != other.shape:
        raise ValueError(f"who must be of the same users, got {len(one)} and {len(other)}")
    return one & other


@dataclasses.dataclass(frozen=True, eq=False)
class Statement:
    """The roles that users can have, and which fields a protocol uses in the clear.

    Attributes:
      roles: alternatives; a user has one of them, and which one may depend on reports.
      exposes: public facts that are used in the clear, in words.
      protects: what is private, in words; by default the fields that the answers read.

    >>> from ldp_jax.accounting.guarantee import Guarantee
    >>> of_record = Cost(Guarantee(1.0, status="proved", reason="noise"))
    >>> of_list = Cost(Guarantee(1.0, unit=NEIGHBOUR_LIST, status="proved", reason="noise"))
    >>> print(Statement.of([of_record], [of_list]).guarantee())  # doctest: +ELLIPSIS
    protected: features, edges
      epsilon 1 per record (...)
      epsilon 1 per neighbour-list (...)
      epsilon 2 per relationship (...)
    """

    roles: tuple[Role, ...]
    exposes: tuple[str, ...] = ()
    protects: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        *roles: Role | Iterable[Cost],
        exposes: Sequence[str] = (),
        protects: Sequence[str] = (),
    ) -> "Statement":
        """A statement of some alternatives, each a role or the costs of everybody's."""
        made = (role if isinstance(role, Role) else Role(tuple(role)) for role in roles)
        return cls(tuple(made), tuple(exposes), tuple(protects))

    def __post_init__(self) -> None:
        if not any(role.costs for role in self.roles):
            raise ValueError(
                "a statement must name an answer: a protocol that asks nobody has no cost"
            )

    @property
    def costs(self) -> tuple[Cost, ...]:
        """All costs of all roles, each once, however often it may be asked for."""
        once = (dataclasses.replace(cost, times=1) for role in self.roles for cost in role.costs)
        return tuple(dict.fromkeys(once))

    def per(self, unit: Unit) -> Guarantee | None:
        """The loss of the worst user, or of the worst pair of users.

        None where nothing is read of the unit.
        """
        if unit == RELATIONSHIP:
            found = [_of_pair(one, other) for one, other in self._pairs()]
        else:
            found = [role.per(unit) for role in self.roles if _somebody(role.who)]
        known = [one for one in found if one is not None]
        return parallel(*known) if known else None

    def units(self) -> tuple[Unit, ...]:
        """The units that the guarantee names."""
        read = dict.fromkeys(cost.guarantee.unit for cost in self.costs)
        fields = {field for unit in read for field, _ in unit.parts}
        whole = RECORD_AND_LIST in read
        both = any(
            any(cost.reads("list") for cost in role.costs)
            and any(cost.reads("record") or cost.reads("label") for cost in role.costs)
            for role in self.roles
        )
        wanted = {
            RECORD: fields & {"record", "label"}
            and not any(unit.rate is not None for unit in read),
            LABEL: LABEL in read,
            NEIGHBOUR_LIST: "list" in fields,
            RELATIONSHIP: "list" in fields,
            RECORD_AND_BIT: both,
            RECORD_AND_LIST: whole
            and all(cost.guarantee.unit == RECORD_AND_LIST for cost in self.costs),
        }
        others = [unit for unit in read if unit not in wanted]
        return (*(unit for unit, named in wanted.items() if named), *others)

    def guarantee(self) -> PipelineGuarantee:
        """The guarantee of the protocol, whatever its users report.

        The worst role, unit by unit.
        """
        found = (self.per(unit) for unit in self.units())
        read = {field for cost in self.costs for field, _ in cost.guarantee.unit.parts}
        named = [name for field, name in _FIELDS.items() if field in read]
        others = sorted(read - set(_FIELDS))
        protected = self.protects or (*dict.fromkeys(named), *others)
        return PipelineGuarantee(
            tuple(one for one in found if one is not None), protected, self.exposes
        )

    def after(self, history: "Statement") -> "Statement":
        """This protocol on users who took part in an earlier one.

        Every role after every earlier role.

        A user may have had no role before, or have none now.
        """
        never = Role(())
        roles = itertools.product((*self.roles, never), (*history.roles, never))
        exposes = dict.fromkeys((*history.exposes, *self.exposes))
        protects = dict.fromkeys((*history.protects, *self.protects))
        combined = tuple(role.after(before) for role, before in roles)
        return Statement(
            combined, tuple(exposes), tuple(name for name in protects if name not in exposes)
        )

    def _pairs(self) -> Iterable[tuple[Role, Role]]:
        """The roles that two different users can have; one of them may never be asked."""
        for role in self.roles:
            if _somebody(role.who):
                yield role, Role(())
        for one, other in itertools.combinations_with_replacement(self.roles, 2):
            if not (_somebody(one.who) and _somebody(other.who)):
                continue
            if one.who is None or other.who is None or (one.who | other.who).sum() > 1:
                yield one, other


def _somebody(who: np.ndarray | None) -> bool:
    return who is None or bool(who.any())


def _of_pair(one: Role, other: Role) -> Guarantee | None:
    """The loss about the pair of two users, by the answers of both.

    Each question's owner is the worse end.

    An answer that both give costs ``pair``, one that a single end gives what a bit costs. Where
    several questions share one rule, the pair has one owner in all of them.
    """
    times: dict[Cost, list[int]] = {}
    for place, role in enumerate((one, other)):
        for cost in role.costs:
            if cost.reads("list"):
                times.setdefault(dataclasses.replace(cost, times=1), [0, 0])[place] += cost.times
    parts = []
    by_rule: dict[str, list[list[Guarantee]]] = {}
    for cost, (first, second) in times.items():
        bit = _seen_once(cost)
        if cost.owners:
            ends = by_rule.setdefault(cost.owners, [[], []])
            for end, many in zip(ends, (first, second), strict=True):
                if many:
                    end.append(cost.total(bit, many))
            continue
        both = min(first, second)
        single = abs(first - second)
        if both and cost.pair is not None:
            parts.append(cost.total(cost.pair, both))
        if single:
            parts.append(cost.total(bit, single))
    for ends in by_rule.values():
        parts.append(parallel(*(sequential(*end) for end in ends if end)))
    if not parts:
        return None
    words = own_words(RELATIONSHIP)
    return dataclasses.replace(sequential(*parts), adjacency=words)


def _seen_once(cost: Cost) -> Guarantee:
    """The loss about a pair by the answer of one end: no more than by the answers of both."""
    bit = cost.per(NEIGHBOUR_LIST)
    assert bit is not None
    alone = relationship(bit)
    pair = cost.pair
    if pair is not None and pair.epsilon < alone.epsilon and pair.delta <= alone.delta:
        return pair
    return alone


@dataclasses.dataclass(frozen=True, eq=False)
class Account:
    """The answers of each user so far, within a statement.

    It never changes, charging returns a new one.

    Attributes:
      statement: what is kept to.
      answers: int32 [n, costs], how often each user was asked for each of ``statement.costs``.

    >>> from ldp_jax.accounting.guarantee import Guarantee
    >>> once = Cost(Guarantee(1.0, status="proved", reason="noise"))
    >>> account = Account.of(Statement.of([once]), 2).charge(once, np.array([True, False]))
    >>> account.charge(once, np.array([True, True]))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ldp_jax.accounting.ledger.BudgetExceededError: the question exceeds the statement for 1 of its 2 users: ...
    """

    statement: Statement
    answers: Int[np.ndarray, "n costs"]

    @classmethod
    def of(cls, statement: Statement, users: int) -> "Account":
        """An account of ``users`` who were asked for nothing yet."""
        for role in statement.roles:
            if role.who is not None and role.who.shape != (users,):
                raise ValueError(
                    f"who of a role must be bool [{users}], got shape {role.who.shape}"
                )
        return cls(statement, np.zeros((users, len(statement.costs)), np.int32))

    def charge(self, cost: Cost, asked: Bool[np.ndarray, " n"]) -> "Account":
        """Charge those who are asked for one answer.

        ``BudgetExceededError`` beyond the statement.
        """
        found = [place for place, stated in enumerate(self.statement.costs) if cost.within(stated)]
        if not found:
            raise BudgetExceededError(
                f"the question costs {cost.guarantee}, and the server's statement names no such answer"
            )
        place = min(found, key=lambda at: self.statement.costs[at].guarantee.epsilon)
        answers = self.answers.copy()
        answers[asked, place] += 1
        beyond = asked & ~self._allowed(answers)
        if beyond.any():
            raise BudgetExceededError(
                f"the question exceeds the statement for {int(beyond.sum())} of its {int(asked.sum())} users: "
                "state beforehand every answer that one user can be asked for (Statement.of)"
            )
        return dataclasses.replace(self, answers=answers)

    def realised(self) -> PipelineGuarantee | None:
        """The guarantee as if what was asked had been fixed beforehand: for information.

        None for nothing.
        """
        costs = self.statement.costs
        rows, member = np.unique(self.answers, axis=0, return_inverse=True)
        roles = []
        for place, row in enumerate(rows):
            mine = tuple(
                dataclasses.replace(cost, times=int(many))
                for cost, many in zip(costs, row, strict=True)
                if many
            )
            roles.append(Role(mine, member.reshape(-1) == place))
        if not rows.any():
            return None
        return dataclasses.replace(self.statement, roles=tuple(roles)).guarantee()

    def _allowed(self, answers: np.ndarray) -> np.ndarray:
        """The users for whom some role allows so many answers."""
        costs = self.statement.costs
        found = np.zeros(len(answers), bool)
        for role in self.statement.roles:
            most = np.zeros(len(costs), np.int64)
            for cost in role.costs:
                most[costs.index(dataclasses.replace(cost, times=1))] += cost.times
            fits = (answers <= most).all(1)
            found |= fits if role.who is None else fits & role.who
        return found
