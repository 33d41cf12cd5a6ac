"""A ledger: the releases so far, against budgets that it keeps to. Float64, on the host, no JAX.

It composes as :mod:`ldp_jax.accounting.composition` and :mod:`ldp_jax.accounting.gaussian` do: no
epsilon, sigma or number of releases may depend on a record.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

from ldp_jax.accounting.gaussian import GaussianCurve
from ldp_jax.accounting.guarantee import (
    NEIGHBOUR_LIST,
    RECORD,
    RELATIONSHIP,
    WORDS,
    Budget,
    Guarantee,
    PipelineGuarantee,
    Unit,
    each_once,
    field_names,
    said_once,
    sequential,
)
from ldp_jax.core.checksum import Header, Public
from ldp_jax.core.rounding import add_up, digits_down, digits_up, rounded_down
from ldp_jax.core.shown import shown

__all__ = ["BudgetExceededError", "Ledger", "Release"]

__dir__ = lambda: __all__


_SLACK = 1e-9  # relative; float64 sums of what was meant to add up to the budget


class BudgetExceededError(ValueError):
    """A release does not fit what a :class:`Ledger` has left."""


_EDGES = "edges"  # the name of the field that pipelines give to a graph's edges


def _about(unit: Unit) -> set[str]:
    """The data of a user that a unit speaks of; another library's unit may speak of all."""
    fields = {field for field, _ in unit.parts}
    about = {"records"} if fields & {"record", "label"} else set()
    if fields & {"list", "pair", "graph"}:
        about.add(_EDGES)
    if fields - {"record", "label", "list", "pair", "graph"}:
        about |= {"records", _EDGES}
    return about


@runtime_checkable
class HasGuarantee(Protocol):
    """A result that says what it cost."""

    @property
    def guarantee(self) -> Guarantee | PipelineGuarantee:
        """The amount that was spent."""


@dataclasses.dataclass(frozen=True)
class Release:
    """One line of a :class:`Ledger`.

    A pipeline says its own ``protects`` and ``exposes``; a curve alone has ``unit``, ``adjacency``
    and ``delta``.

    Attributes:
      cost: a guarantee, a pipeline's guarantees for several units, or the curve of Gaussian noise.
      delta: where the ledger converts the curves of this unit.
      protects: fields whose values reach the release through the mechanism alone.
      exposes: fields that are used in the clear.
    """

    name: str
    cost: Guarantee | GaussianCurve | PipelineGuarantee
    unit: Unit | None = None
    adjacency: str = ""
    delta: float | None = None
    protects: Sequence[str] = ()
    exposes: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise ValueError(f"name must say what is released, got {self.name!r}")
        what = f"release {self.name!r}"
        protects, exposes = (
            field_names("protects", self.protects),
            field_names("exposes", self.exposes),
        )
        if isinstance(self.cost, PipelineGuarantee):
            if not self.cost.guarantees:
                raise ValueError(f"{what}: a PipelineGuarantee of no unit says nothing of its cost")
            if protects and set(protects) != set(self.cost.protected):
                said = ", ".join(self.cost.protected) or "nothing"
                raise ValueError(
                    f"{what}: its guarantee protects {said}, not {', '.join(protects)}"
                )
            protects = self.cost.protected
            exposes = tuple(dict.fromkeys((*self.cost.unprotected, *exposes)))
        object.__setattr__(self, "protects", protects)
        object.__setattr__(self, "exposes", exposes)
        if isinstance(self.cost, GaussianCurve):
            unit = RECORD if self.unit is None else self.unit
            object.__setattr__(self, "unit", unit)
            point = (
                1e-6 if self.delta is None else self.delta
            )  # any will do to find out what the words are
            object.__setattr__(
                self, "adjacency", self.cost.guarantee(point, unit, self.adjacency).adjacency
            )
            if self.delta is not None:
                object.__setattr__(self, "delta", float(self.delta))
        elif isinstance(self.cost, (Guarantee, PipelineGuarantee)):
            kind = type(self.cost).__name__
            if (self.delta, self.unit, self.adjacency) != (None, None, ""):
                raise ValueError(
                    f"{what}: a {kind} says its own delta, unit and adjacency; give them to a curve"
                )
            for guarantee in (
                [self.cost] if isinstance(self.cost, Guarantee) else self.cost.values()
            ):
                if not (guarantee.epsilon >= 0.0 and 0.0 <= guarantee.delta <= 1.0):
                    raise ValueError(f"{what}: epsilon must be >= 0 and delta in [0, 1]")
        else:
            got = f"got {shown(self.cost)}{': call it' * callable(self.cost)}"
            raise ValueError(
                f"{what} must cost a Guarantee, PipelineGuarantee or GaussianCurve, {got}"
            )
        both = set(protects) & set(exposes)
        if both:
            raise ValueError(f"{what} both protects and exposes {', '.join(sorted(both))}")

    @property
    def units(self) -> tuple[Unit, ...]:
        """The units that it states a loss for."""
        if isinstance(self.cost, PipelineGuarantee):
            return tuple(self.cost)
        return (self.cost.unit if isinstance(self.cost, Guarantee) else self.unit or RECORD,)

    def per(self, unit: Unit) -> Guarantee | GaussianCurve | None:
        """The cost per ``unit``; None where it does not say."""
        if isinstance(self.cost, PipelineGuarantee):
            return self.cost.get(unit)
        return self.cost if unit in self.units else None

    def __str__(self) -> str:
        if isinstance(self.cost, PipelineGuarantee):
            return " and ".join(
                f"{_pair(guarantee)} per {unit}" for unit, guarantee in self.cost.items()
            )
        return _cost(self.cost)


def _cost(cost: Guarantee | GaussianCurve) -> str:
    return f"mu {digits_up(cost.mu)}" if isinstance(cost, GaussianCurve) else _pair(cost)


def _pair(stated: Guarantee | Budget) -> str:
    digits = digits_up if isinstance(stated, Guarantee) else digits_down
    delta = f", delta {digits(stated.delta)}" if stated.delta else ""
    return f"epsilon {digits(stated.epsilon)}{delta}"


def _spent(releases: Sequence[Release], unit: Unit, budget: Budget | None) -> Guarantee:
    """Everything of one unit: guarantees add, curves compose and are converted once."""
    costs = [(release, release.per(unit)) for release in releases]
    plain = [cost for _, cost in costs if isinstance(cost, Guarantee)]
    curves = [(release, cost) for release, cost in costs if isinstance(cost, GaussianCurve)]
    if not plain and not curves:
        words = WORDS.get(unit, "two inputs of this unit")
        return Guarantee(0.0, 0.0, unit, words, status="proved", reason="nothing was released")
    if not curves:
        return sequential(*plain)
    named = [release.delta for release, _ in curves if release.delta is not None]
    taken = add_up(guarantee.delta for guarantee in plain)
    if not named and budget is None:
        raise ValueError(
            f"release {curves[-1][0].name!r}: with no budget to take it from, a curve needs a delta"
        )
    delta = max(named) if named else _less(budget.delta, taken) if budget else 0.0
    words = said_once(release.adjacency for release, _ in curves)
    total = GaussianCurve(0.0).compose(*(curve for _, curve in curves))
    if delta < 1e-300:  # without a delta Gaussian noise promises nothing
        epsilon = 0.0 if total.mu == 0.0 else math.inf
        reason = "no delta is left for Gaussian noise"
        noise = Guarantee(epsilon, 0.0, unit, words, status="proved", reason=reason)
    else:
        noise = total.guarantee(delta, unit, words)
    return sequential(*plain, noise)


@dataclasses.dataclass(frozen=True)
class Ledger(Public):
    """The releases so far, against a budget; it never changes, spending returns a new one.

    ``Ledger.from_bytes(ledger.to_bytes()) == ledger``; a
    :class:`ldp_jax.deployment.store.ReportStore` keeps one.

    Within a unit, guarantees add. Gaussian curves compose first, through mu, and are converted
    once: at the largest ``delta`` that one names, or at all the budget's delta that the guarantees
    leave. Units of edges (a bit of a list, a relationship, an edge of a curator's graph) are not
    free of each other, nor are records, labels and metric privacy, nor an unknown unit and any
    other. So a release states its cost for each budget that speaks of the same data, in one
    :class:`~ldp_jax.accounting.guarantee.PipelineGuarantee`. One that uses ``edges`` in the clear
    is refused where edges have a budget. Fields and units that it names are believed.

    Attributes:
      budget: a number, for a record's epsilon; a :class:`~ldp_jax.accounting.guarantee.Budget`, or
        several, one a unit; () or None to keep a record only.
      releases: in order.

    Raises:
      ValueError: for an invalid budget, or two of one unit.
      BudgetExceededError: if the releases exceed a budget (by more than 1e-9 of it); where there
        are budgets, if a release has none, does not state its loss for all that it touches, or has
        status ``none``.

    >>> ledger = Ledger(Budget(1.0, delta=1e-6))
    >>> released = Guarantee(0.25, status="proved", reason="Laplace noise")
    >>> ledger = ledger.spend("features", released, protects=("features",), exposes=("edges",))
    >>> for name in ("round 1", "round 2"):
    ...     ledger = ledger.spend(name, GaussianCurve.of(1.0, 12.0), protects=("labels",))
    >>> print(ledger.explain())
    release   cost          unit    total so far                   protects  exposes
    features  epsilon 0.25  record  epsilon 0.25                   features  edges
    round 1   mu 0.0833334  record  epsilon 0.576585, delta 1e-06  labels    -
    round 2   mu 0.0833334  record  epsilon 0.72308, delta 1e-06   labels    -
    record: spent epsilon 0.72308, delta 1e-06 (ideal arithmetic; proved)
      of a budget of epsilon 1, delta 1e-06; epsilon 0.27692, delta 0 remains
    protected: features, labels; NOT protected: edges
    >>> try:
    ...     ledger.spend("again", Guarantee(0.5, status="proved", reason="Laplace noise"))
    ... except BudgetExceededError as error:
    ...     print(str(error).split(": ")[0])
    release 'again' (epsilon 0.5) does not fit the budget per record
    """

    budget: float | Budget | Sequence[Budget] | None = None
    releases: Sequence[Release] = ()

    KIND, VERSION = "ledger", 1

    def __post_init__(self) -> None:
        budgets = _budgets(self.budget)
        object.__setattr__(self, "budget", budgets)
        object.__setattr__(self, "releases", tuple(self.releases))
        each_once("budget", budgets)
        for release in self.releases if budgets else ():
            self._check_units(release)
        for unit in dict.fromkeys(unit for release in self.releases for unit in release.units):
            self._check_total(unit, [release for release in self.releases if unit in release.units])

    @property
    def budgets(self) -> tuple[Budget, ...]:
        """The budgets, one a unit; empty where only a record is kept."""
        return self.budget if isinstance(self.budget, tuple) else ()

    def _budget(self, unit: Unit) -> Budget | None:
        return next((budget for budget in self.budgets if budget.unit == unit), None)

    def _check_units(self, release: Release) -> None:
        """Refuse a release that has no budget, or hides what it costs under another one."""
        kept = [budget.unit for budget in self.budgets]
        what = f"release {release.name!r} ({release})"
        stated = release.units
        touched = set[str]().union(*map(_about, stated))
        covered = set[str]().union(*(_about(unit) for unit in stated if unit in kept))
        speaks_of = touched | {_EDGES} & {*release.protects}
        missing = [unit for unit in kept if unit not in stated and _about(unit) & speaks_of]
        every = " and ".join(map(str, (*stated, *missing)))
        example = (
            ", as that of privatize_graph"
            if {NEIGHBOUR_LIST, RELATIONSHIP} <= {*stated, *missing}
            else ""
        )
        remedy = f"pass one PipelineGuarantee that states what it costs per {every}{example}"
        if not touched <= covered:
            bare = next(unit for unit in stated if unit not in kept)
            known = ", ".join(map(str, kept))
            hint = f"; {remedy}" if missing else ""
            raise BudgetExceededError(
                f"{what} is per {bare}, which has no budget; others are per {known}{hint}"
            )
        if missing:
            raise BudgetExceededError(
                f"{what} does not say what it costs per {missing[0]}, which has a budget: {remedy}"
            )
        open_to = [unit for unit in kept if _EDGES in _about(unit)]
        if open_to and _EDGES in release.exposes:
            raise BudgetExceededError(
                f"{what} uses edges in the clear, and there is a budget per {open_to[0]}; if the edges that it "
                "uses were released under that budget, do not name them among what it exposes"
            )

    def _check_total(self, unit: Unit, releases: Sequence[Release]) -> None:
        """Refuse the releases of one unit if they exceed its budget.

        The last one is the one that is named.
        """
        last = releases[-1]
        budget = self._budget(unit)
        what = f"release {last.name!r} ({last})"
        total = _spent(releases, unit, budget)
        if budget is None:
            return
        if total.status == "none":
            why = total.reason or "no proof was given"
            raise BudgetExceededError(
                f"{what} proves nothing about {budget.unit}, so no budget covers it: {why}"
            )
        if total.epsilon <= budget.epsilon * (1.0 + _SLACK) and total.delta <= budget.delta * (
            1.0 + _SLACK
        ):
            return
        before = _spent(releases[:-1], unit, budget)
        left = _left(before, budget)
        hint = (
            "; a Gaussian release needs a delta, and none is left"
            if math.isinf(total.epsilon)
            else ""
        )
        raise BudgetExceededError(
            f"{what} does not fit the budget per {budget.unit}: {_pair(before)} is spent, "
            f"epsilon {digits_down(left.epsilon)}, delta {digits_down(left.delta)} remains of {_pair(budget)}; "
            f"with it the total would be {_pair(total)}{hint}"
        )

    def spend(
        self,
        name: str,
        release: Guarantee | PipelineGuarantee | GaussianCurve | HasGuarantee,
        *,
        protects: Sequence[str] = (),
        exposes: Sequence[str] = (),
        delta: float | None = None,
        unit: Unit | None = None,
        adjacency: str | None = None,
    ) -> "Ledger":
        """A new ledger with one release more; this one stays as it is.

        A curve is of the sensitivity ``unit``, RECORD by default, of two inputs that ``adjacency``
        says in words; ``delta`` in [1e-300, 1) is needed where no budget has one. See
        :class:`Release` for the fields.

        Raises:
          BudgetExceededError: if it does not fit.
          ValueError: if an argument is out of range, or repeats what the release says itself.

        >>> ledger, ages = Ledger(1.0), Guarantee(0.75, status="proved", reason="Laplace noise")
        >>> ledger.spend("ages", ages).remaining(RECORD).epsilon, ledger.remaining(RECORD).epsilon
        (0.25, 1.0)
        """
        cost: Any = release
        if not isinstance(release, (Guarantee, PipelineGuarantee, GaussianCurve)):
            cost = getattr(release, "guarantee", release)
        line = Release(name, cost, unit, adjacency or "", delta, protects, exposes)
        return Ledger(self.budget, (*self.releases, line))

    def spent(self, unit: Unit) -> Guarantee:
        """The cost of the releases of ``unit`` together; epsilon 0 where there are none.

        >>> Ledger().spend("ages", Guarantee(0.5)).spent(RECORD).epsilon
        0.5
        """
        return _spent(self.releases, unit, self._budget(unit))

    def remaining(self, unit: Unit) -> Budget:
        """The rest of the budget of ``unit``, rounded down, at least 0.

        Later curves share earlier ones' delta.

        >>> Ledger(1.0).remaining(RECORD).epsilon
        1.0
        """
        budget = self._budget(unit)
        if budget is None:
            raise ValueError(f"this ledger has no budget per {unit}")
        return _left(self.spent(unit), budget)

    def total(self) -> PipelineGuarantee:
        """The cost of everything, unit by unit, and which fields no release exposes.

        >>> ledger = Ledger().spend("x", Guarantee(0.5), protects=["features"], exposes=["edges"])
        >>> print(ledger.spend("y", Guarantee(0.5), protects=["edges", "labels"]).total())
        protected: features, labels; NOT protected: edges
          epsilon 1 per record (any two records of one user; ideal arithmetic; none)
        """
        exposed = tuple(
            dict.fromkeys(field for release in self.releases for field in release.exposes)
        )
        protected = dict.fromkeys(field for release in self.releases for field in release.protects)
        units = dict.fromkeys(unit for release in self.releases for unit in release.units)
        hidden = tuple(field for field in protected if field not in exposed)
        return PipelineGuarantee(tuple(self.spent(unit) for unit in units), hidden, exposed)

    def explain(self) -> str:
        """The account as text.

        Each release, then each unit's total, its budget and the rest, rounded safely.
        """
        rows = [("release", "cost", "unit", "total so far", "protects", "exposes")]
        for index, release in enumerate(self.releases):
            protects, exposes = (
                ", ".join(names) or "-" for names in (release.protects, release.exposes)
            )
            for place, unit in enumerate(release.units):
                so_far = _spent(self.releases[: index + 1], unit, self._budget(unit))
                cost = release.per(unit)
                row = (
                    release.name,
                    _cost(cost) if cost else "",
                    str(unit),
                    _pair(so_far),
                    protects,
                    exposes,
                )
                rows.append(
                    row if place == 0 else ("", *row[1:4], "", "")
                )  # one release, several units
        widths = [max(len(row[column]) for row in rows) for column in range(6)]
        lines = (
            ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
            if self.releases
            else []
        )
        units = dict.fromkeys(
            [*(b.unit for b in self.budgets), *(unit for r in self.releases for unit in r.units)]
        )
        for unit in units:
            spent = self.spent(unit)
            budget = self._budget(unit)
            reason = f": {spent.reason}" if spent.status != "proved" and spent.reason else ""
            lines.append(
                f"{spent.unit}: spent {_pair(spent)} ({spent.arithmetic} arithmetic; {spent.status}{reason})"
            )
            if budget is not None:
                left = _left(spent, budget)
                remains = f"epsilon {digits_down(left.epsilon)}"
                remains += f", delta {digits_down(left.delta)}" if budget.delta else ""
                lines.append(f"  of a budget of {_pair(budget)}; {remains} remains")
        total = self.total()
        lines.append(str(dataclasses.replace(total, guarantees=())))
        if not self.budgets:
            lines.append("no budget: a record only")
        return "\n".join(lines)

    __str__ = explain

    def _parts(self) -> tuple[Header, bytes]:
        lines = [{"of": _kind(line.cost), **dataclasses.asdict(line)} for line in self.releases]
        return {"budget": [dataclasses.asdict(one) for one in self.budgets], "releases": lines}, b""

    @classmethod
    def _made(cls, header: Header, body: bytes) -> "Ledger":
        budgets = _objects(header["budget"], Budget)
        releases = []
        for line in _objects(header["releases"], dict):
            of, cost = line.pop("of"), line.pop("cost")
            if of == "PipelineGuarantee":
                cost |= {"guarantees": tuple(Guarantee(**one) for one in cost["guarantees"])}
            releases.append(Release(cost=_COSTS[of](**cost), **line))
        return cls(budgets, releases)


_COSTS = {kind.__name__: kind for kind in (Guarantee, GaussianCurve, PipelineGuarantee)}


def _kind(cost: Guarantee | GaussianCurve | PipelineGuarantee) -> str:
    return next(name for name, kind in _COSTS.items() if isinstance(cost, kind))


def _objects(written: Any, kind: Callable[..., Any] = dict) -> Any:
    """A JSON value with tuples for lists, and units; the outermost objects are of a kind."""
    if isinstance(written, list):
        return tuple(_objects(one, kind) for one in written)
    if isinstance(written, dict):
        inner = {name: _objects(value) for name, value in written.items()}
        return Unit(**inner) if inner.keys() == {"name", "rate"} else kind(**inner)
    return written


def _budgets(given: Any) -> tuple[Budget, ...]:
    """A ledger's budgets as objects that hold whatever was done to the given ones."""
    if given is None:
        return ()
    if isinstance(given, (Budget, Guarantee, PipelineGuarantee, str)) or not hasattr(
        given, "__iter__"
    ):
        given = (given,)
    budgets = []
    for one in given:
        if isinstance(one, (Guarantee, PipelineGuarantee, GaussianCurve)):
            kind = type(one).__name__
            raise ValueError(
                f"budget must be a Budget, got a {kind}: a promise is no limit; write Budget(...)"
            )
        budgets.append(
            Budget(one.epsilon, one.delta, one.unit) if isinstance(one, Budget) else Budget(one)
        )
    return tuple(budgets)


def _less(whole: float, part: float) -> float:
    """``whole - part`` rounded down, where float64's rounding of a whole budget counts as nothing."""
    if part == math.inf or part >= whole * (1.0 - _SLACK):
        return 0.0
    return rounded_down(Fraction(whole) - Fraction(part))


def _left(spent: Guarantee, budget: Budget) -> Budget:
    return Budget(
        _less(budget.epsilon, spent.epsilon), _less(budget.delta, spent.delta), budget.unit
    )
