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
import math
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
    any_two,
    joint_unit,
    narrowed,
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

_JOINT_WORDS = {
    RECORD_AND_BIT: "two inputs that differ in one user's record, or label, and in one bit of "
    "their list",
    RECORD_AND_LIST: "any two records and any two neighbour lists of one user",
}
_FIELDS = {"record": "features", "label": "labels", "list": "edges", "graph": "edges"}


@dataclasses.dataclass(frozen=True)
class Cost:
    """The loss of one answer of one user, and how several such answers add up.

    Attributes:
      guarantee: of one answer. Its unit says what the answer reads: RECORD, LABEL, NEIGHBOUR_LIST
        (bit by bit), or a joint unit where one answer reads several fields at once.
      pair: of an answer that reads the list: the loss about one pair of users by the answers of
        both ends. By default both ends report the pair.
      owners: the name of the public rule by which one end of each pair reports it in all
        questions; empty where both ends may, in one question or in two. Without a name each end's
        answers are charged.
      permanent: the name of an answer for good, which is drawn once and charged once; empty for
        fresh answers. An :class:`Account` refuses to ask a user for it again.
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
        validate.require(
            self.curve is None or self.delta is not None,
            "delta must be given with a curve, which is converted at it",
        )
        if self.pair is None and self.reads("list"):
            bit = self.per(NEIGHBOUR_LIST)
            assert bit is not None
            object.__setattr__(self, "pair", relationship(bit, None if self.owners else bit))
        if self.pair is not None:
            validate.require(
                self.reads("list") and self.pair.unit == RELATIONSHIP,
                f"pair must be a guarantee per {RELATIONSHIP} of an answer that reads a list",
            )
            validate.require(
                self.curve is None or not self.owners or self.bit() == self.pair,
                "pair must be the loss of its owner's answer alone where a curve composes it",
            )

    def reads(self, field: str) -> bool:
        """Whether the answer reads a field: record, label, list, or that of another unit."""
        return field in dict(self.guarantee.unit.parts)

    def within(self, stated: "Cost") -> bool:
        """Whether one answer loses no more than one of ``stated``, in the same way.

        It must also be proved as well, over the same or exact arithmetic, for as many pairs of
        inputs, and towards the same people.
        """
        mine = (self.guarantee.unit, self.guarantee.trust, self.owners, self.permanent)
        if mine != (stated.guarantee.unit, stated.guarantee.trust, stated.owners, stated.permanent):
            return False
        together = parallel(self.guarantee, stated.guarantee)
        for name in ("status", "arithmetic"):
            if getattr(together, name) != getattr(stated.guarantee, name):
                return False
        words = self.guarantee.adjacency
        if any_two(words) != "any two" and words != stated.guarantee.adjacency:
            return False
        if self.curve is None or stated.curve is None:
            smaller = stated.curve is None
        else:
            smaller = self.curve.mu <= stated.curve.mu
        losses = [(self.guarantee, stated.guarantee)]
        if self.pair is not None and stated.pair is not None:
            losses.append((self.pair, stated.pair))
        return smaller and all(
            one.epsilon <= most.epsilon and one.delta <= most.delta for one, most in losses
        )

    def per(self, unit: Unit) -> Guarantee | None:
        """One answer's loss per ``unit`` of one user; None where the answer reads nothing of it.

        ``ValueError`` where the answer's guarantee is about smaller changes than those of the unit.
        """
        read = dict(self.guarantee.unit.parts)
        touched = False
        for field, granularity in unit.parts:
            held = read.get(field, read.get("label") if field == "record" else None)
            if held is None:
                continue
            touched = True
            validate.require(
                held in (granularity, "whole"),
                f"an answer with a guarantee per {self.guarantee.unit} has none per {unit}",
            )
        if not touched:
            return None
        if self.guarantee.unit == unit:
            return self.guarantee
        words = _JOINT_WORDS[unit] if unit in _JOINT_WORDS else own_words(unit)
        words = narrowed(words, self.guarantee.adjacency)
        return dataclasses.replace(self.guarantee, unit=unit, adjacency=words)

    def bit(self) -> Guarantee:
        """One end's answer's loss about one pair, of an answer that reads the list."""
        seen = self.per(NEIGHBOUR_LIST)
        assert seen is not None
        alone = relationship(seen)
        pair = self.pair
        # The answer of one end tells no more of the pair than the answers of both.
        if pair is not None and pair.epsilon <= alone.epsilon and pair.delta <= alone.delta:
            return pair
        return alone

    def without_noise(self) -> "Cost":
        """The cost of the same answer without noise: an epsilon of infinity."""
        return dataclasses.replace(
            self,
            guarantee=_lost(self.guarantee),
            pair=None if self.pair is None else _lost(self.pair),
            curve=None,
            delta=None,
        )

    def total(self, one: Guarantee, times: int) -> Guarantee:
        """The loss of several answers, ``one`` being that of one of them."""
        if times == 1:
            return one
        if one.unit.rate is not None and not self.permanent:
            return one.repeated(times)  # rates of one distance add
        if self.permanent:
            return over_rounds(one, times, answers="permanent")
        return over_rounds(one, times, answers="fresh", delta=self.delta)


def _lost(one: Guarantee) -> Guarantee:
    return dataclasses.replace(
        one, epsilon=math.inf, delta=0.0, status="none", reason="users answered without noise"
    )


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
        """The loss of all answers per ``unit`` of one user; None where none reads it."""
        found = [(cost, cost.per(unit), cost.times) for cost in self.costs]
        return _composed([(cost, one, times) for cost, one, times in found if one], unit)

    def after(self, history: "Role", kept: bool = True) -> "Role":
        """Both roles, one after the other; an answer for good that both name is one answer.

        It is one only where it was ``kept``, and one cost covers the other; else both are charged.
        """
        costs = list(history.costs)
        for cost in self.costs:
            place = next((i for i, before in enumerate(costs) if _is_again(cost, before)), None)
            if place is None or not kept:
                costs.append(cost)
                continue
            before = costs[place]
            worse = cost if before.within(cost) else before
            costs[place] = dataclasses.replace(worse, times=cost.times + before.times)
        who = [one for one in (self.who, history.who) if one is not None]
        if len(who) == 2:
            validate.require(len(who[0]) == len(who[1]), "who must be of the same users", *who)
        both = np.logical_and.reduce(who) if who else None
        return Role(tuple(costs), both)


def _is_again(cost: Cost, before: Cost) -> bool:
    """Whether a cost is of the answer for good that ``before`` is of."""
    return bool(cost.permanent) and (cost.within(before) or before.within(cost))


@dataclasses.dataclass(frozen=True, eq=False)
class Statement:
    """The roles that users can have, and which fields a protocol uses in the clear.

    Attributes:
      roles: alternatives; a user has one of them, and which one may depend on reports.
      exposes: public facts that are used in the clear, in words.
      protects: what is private, in words; by default the fields that the answers read.

    >>> from ldp_jax.accounting.guarantee import Guarantee
    >>> of_record = Cost(Guarantee(1.0, status="proved", reason="noise"))
    >>> of_list = Cost(
    ...     Guarantee(1.0, unit=NEIGHBOUR_LIST, status="proved", reason="noise")
    ... )
    >>> print(
    ...     Statement.of([of_record], [of_list]).guarantee()
    ... )  # doctest: +ELLIPSIS
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
        return cls(
            tuple(role if isinstance(role, Role) else Role(tuple(role)) for role in roles),
            tuple(exposes),
            tuple(protects),
        )

    def __post_init__(self) -> None:
        validate.require(
            any(role.costs for role in self.roles),
            "a statement must name an answer: a protocol that asks nobody has no cost",
        )

    @property
    def costs(self) -> tuple[Cost, ...]:
        """All costs of all roles, each once, however often it may be asked for."""
        once = (dataclasses.replace(cost, times=1) for role in self.roles for cost in role.costs)
        return tuple(dict.fromkeys(once))

    def per(self, unit: Unit) -> Guarantee | None:
        """The loss of the worst user, or of the worst pair; None where nothing reads the unit."""
        real = [role for role in self.roles if role.who is None or role.who.any()]
        if unit != RELATIONSHIP:
            found = [role.per(unit) for role in real]
        else:
            found = [_of_pair(one, Role(())) for one in real]  # the other end is never asked
            for one, other in itertools.combinations_with_replacement(real, 2):
                if one.who is None or other.who is None or (one.who | other.who).sum() > 1:
                    found.append(_of_pair(one, other))  # of two different users
        known = [one for one in found if one is not None]
        return parallel(*known) if known else None

    def units(self) -> tuple[Unit, ...]:
        """The units that the guarantee names.

        ``ValueError`` where some answers lose by the distance of two records, and others about any
        two records or labels.
        """
        read = dict.fromkeys(cost.guarantee.unit for cost in self.costs)
        fields = {field for unit in read for field, _ in unit.parts}
        together = False  # one role reads the record, or the label, and the list
        for role in self.roles:
            own = {field for cost in role.costs for field, _ in cost.guarantee.unit.parts}
            together |= "list" in own and bool(own & {"record", "label"})
        apart = any(unit.rate is not None for unit in read)
        of_any_two = {field for unit in read if unit.rate is None for field, _ in unit.parts}
        validate.require(
            not (apart and of_any_two & {"record", "label"}),
            "a loss per unit of distance and a loss about any two records have no common total: "
            "ask different users, in two protocols",
        )
        wanted = {
            RECORD: bool(fields & {"record", "label"}) and not apart,
            LABEL: LABEL in read,
            NEIGHBOUR_LIST: "list" in fields,
            RELATIONSHIP: "list" in fields,
            RECORD_AND_BIT: together,
            RECORD_AND_LIST: list(read) == [RECORD_AND_LIST],
        }
        others = [unit for unit in read if unit not in wanted]
        return (*(unit for unit, named in wanted.items() if named), *others)

    def guarantee(self) -> PipelineGuarantee:
        """The guarantee of the protocol, whatever users report: the worst role, unit by unit."""
        found = (self.per(unit) for unit in self.units())
        protected = self._private()
        if any(math.isinf(cost.guarantee.epsilon) for cost in self.costs):
            # Fields that were answered without noise are in the clear.
            protected = tuple(name for name in protected if name not in self.exposes)
        return PipelineGuarantee(
            tuple(one for one in found if one is not None), protected, self.exposes
        )

    def without_noise(self) -> "Statement":
        """The same answers as they are, without noise: nothing is protected, in any unit."""
        roles = []
        for role in self.roles:
            costs = tuple(cost.without_noise() for cost in role.costs)
            roles.append(dataclasses.replace(role, costs=costs))
        exposes = dict.fromkeys((*self.exposes, *self._private()))
        return Statement(tuple(roles), tuple(exposes))

    def _private(self) -> tuple[str, ...]:
        """The fields that are private, in words."""
        read = {field for cost in self.costs for field, _ in cost.guarantee.unit.parts}
        named = [name for field, name in _FIELDS.items() if field in read]
        return self.protects or (*dict.fromkeys(named), *sorted(read - set(_FIELDS)))

    def after(self, history: "Statement", *, kept: bool = True) -> "Statement":
        """This protocol on users who took part in an earlier one: every role after every other.

        A user may have had no role before, or have none now. Answers for good are charged anew
        where users have not ``kept`` them.
        """
        never = Role(())
        roles = itertools.product((*self.roles, never), (*history.roles, never))
        exposes = dict.fromkeys((*history.exposes, *self.exposes))
        protects = dict.fromkeys((*history.protects, *self.protects))
        return Statement(
            tuple(role.after(before, kept) for role, before in roles),
            tuple(exposes),
            tuple(name for name in protects if name not in exposes),
        )


_Answers = list[tuple[Cost, Guarantee, int]]
"""Costs, the loss of one answer in some unit, and how many answers there are."""


def _composed(answers: _Answers, unit: Unit) -> Guarantee | None:
    """Return the loss of all answers; None where there are none."""
    parts = []
    curves = []  # they compose by mu, and are converted once, at the largest delta
    deltas = []
    words = ""
    for cost, one, times in answers:
        if cost.curve is None or cost.delta is None:
            parts.append(cost.total(one, times))
            continue
        curves += [cost.curve] * times
        deltas.append(cost.delta)
        words = words or one.adjacency
    if curves:
        noise = GaussianCurve(0.0).compose(*curves)
        parts.append(noise.guarantee(max(deltas), unit, words))
    return sequential(*parts) if parts else None


def _of_pair(one: Role, other: Role) -> Guarantee | None:
    """Return the loss about the pair of two users by the answers of both.

    Each end's answer costs what a bit costs, or the answers of both ends together if that is less.
    Where questions share a named rule of owners, the pair has one owner in all of them, the worse
    end, and the answers of both ends to a question cost ``pair``.
    """
    fresh: dict[Cost, int] = {}
    apart: _Answers = []  # by ends that may both report the pair
    by_rule: dict[str, tuple[_Answers, _Answers]] = {}
    words = own_words(RELATIONSHIP)
    for place, role in enumerate((one, other)):
        for cost in role.costs:
            if not cost.reads("list"):
                continue
            assert cost.pair is not None
            words = narrowed(words, cost.guarantee.adjacency)
            if cost.owners:
                ends = by_rule.setdefault(cost.owners, ([], []))
                ends[place].append((cost, cost.pair, cost.times))
            elif cost.permanent:
                apart.append((cost, cost.bit(), cost.times))
            else:
                kind = dataclasses.replace(cost, times=1)
                fresh[kind] = fresh.get(kind, 0) + cost.times
    apart += [(cost, cost.bit(), times) for cost, times in fresh.items()]
    parts = [_composed(apart, RELATIONSHIP)]
    for ends in by_rule.values():
        owned = [_composed(end, RELATIONSHIP) for end in ends]
        parts.append(parallel(*(end for end in owned if end is not None)))
    known = [part for part in parts if part is not None]
    if not known:
        return None
    return dataclasses.replace(sequential(*known), adjacency=words)


@dataclasses.dataclass(frozen=True, eq=False)
class Account:
    """The answers of each user so far, within a statement; charging returns a new account.

    Attributes:
      statement: what is kept to.
      answers: int32 [n, costs], how often each user was asked for each of ``statement.costs``.

    >>> from ldp_jax.accounting.guarantee import Guarantee
    >>> once = Cost(Guarantee(1.0, status="proved", reason="noise"))
    >>> account = Account.of(Statement.of([once]), 2).charge(
    ...     once, np.array([True, False])
    ... )
    >>> account.charge(once, np.array([True, True]))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ldp_jax.accounting.ledger.BudgetExceededError: the question exceeds the statement for 1 of ...
    """

    statement: Statement
    answers: Int[np.ndarray, "n costs"]

    @classmethod
    def of(cls, statement: Statement, users: int) -> "Account":
        """An account of ``users`` who were asked for nothing yet."""
        for role in statement.roles:
            validate.mask(users, **{"who of a role": role.who})
        return cls(statement, np.zeros((users, len(statement.costs)), np.int32))

    def charge(self, cost: Cost, asked: Bool[np.ndarray, " n"]) -> "Account":
        """Charge users for one answer; ``BudgetExceededError`` beyond the statement.

        It takes the place of the stated answer that covers it most closely and is still left.
        ``ValueError`` for users who gave this answer for good before.
        """
        costs = self.statement.costs
        found = [place for place, stated in enumerate(costs) if cost.within(stated)]
        if cost.permanent:
            again = int((asked & (self.answers[:, found] > 0).any(1)).sum())
            validate.require(
                not again,
                f"{again} users gave the permanent answer {cost.permanent!r} before: it is charged "
                "once, so keep it in the state, and do not ask for it again",
            )
        if not found:
            raise BudgetExceededError(
                f"the question costs {cost.guarantee}, and the statement names no such answer"
            )

        def slack(place: int) -> tuple[bool, float, float]:
            stated = costs[place]
            pair = 0.0 if stated.pair is None else stated.pair.epsilon
            return not stated.within(cost), stated.guarantee.epsilon, pair

        beyond = 0
        for place in sorted(found, key=slack):
            answers = self.answers.copy()
            answers[asked, place] += 1
            beyond = int((asked & ~self._within(answers)).sum())
            if not beyond:
                return dataclasses.replace(self, answers=answers)
        raise BudgetExceededError(
            f"the question exceeds the statement for {beyond} of its {int(asked.sum())} users: "
            "state beforehand every answer that one user can be asked for (Statement.of)"
        )

    def _within(self, answers: Int[np.ndarray, "n costs"]) -> Bool[np.ndarray, " n"]:
        """The users whose answers some role allows."""
        costs = self.statement.costs
        allowed = np.zeros(len(answers), bool)
        for role in self.statement.roles:
            most = np.zeros(len(costs), np.int64)
            for one in role.costs:
                most[costs.index(dataclasses.replace(one, times=1))] += one.times
            fits = (answers <= most).all(1)
            allowed |= fits if role.who is None else fits & role.who
        return allowed

    def realised(self) -> PipelineGuarantee | None:
        """The guarantee if the questions had been fixed beforehand; None where there are none."""
        if not self.answers.any():
            return None
        rows, member = np.unique(self.answers, axis=0, return_inverse=True)
        roles = []
        for place, row in enumerate(rows.tolist()):
            costs = []
            for cost, times in zip(self.statement.costs, row, strict=True):
                if times:
                    costs.append(dataclasses.replace(cost, times=times))
            roles.append(Role(tuple(costs), member.reshape(-1) == place))
        return dataclasses.replace(self.statement, roles=tuple(roles)).guarantee()
