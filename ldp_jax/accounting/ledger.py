"""A ledger: the releases so far, against budgets that it keeps to. Float64, on the host, no JAX.

It composes as :mod:`ldp_jax.accounting.composition` and :mod:`ldp_jax.accounting.gaussian` do: no
epsilon, sigma or number of releases may depend on a record.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

from typing_extensions import TypeAliasType

from ldp_jax.accounting.gaussian import GaussianCurve
from ldp_jax.accounting.guarantee import (
    RECORD,
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
from ldp_jax.core.validate import require

__all__ = ["BudgetExceededError", "Ledger", "Release"]

__dir__ = lambda: __all__


Budgets = TypeAliasType("Budgets", float | Budget | Sequence[Budget] | None)
"""The most that releases may cost: a number, for a record's epsilon; a budget, or several, one a
unit; None for a record of releases only.
"""

_SLACK = 1e-9  # relative; float64 sums of what was meant to add up to the budget


class BudgetExceededError(ValueError):
    """A release does not fit what a :class:`Ledger` has left."""


_EDGES = "edges"  # the name of the field that pipelines give to a graph's edges


def _about(unit: Unit) -> set[str]:
    """Return the data of a user that a unit bounds: records, edges, or both where it is unknown."""
    homes = {"record": "records", "label": "records"}
    homes |= dict.fromkeys(("list", "pair", "graph"), _EDGES)
    found = {homes.get(field, "") for field, _ in unit.parts}
    return {"records", _EDGES} if "" in found else found


@runtime_checkable
class HasGuarantee(Protocol):
    """A result that says what it cost."""

    @property
    def guarantee(self) -> Guarantee | PipelineGuarantee:
        """The loss that the result cost."""


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
        require(
            isinstance(self.name, str) and self.name.strip(),
            "name must say what is released",
            self.name,
        )
        what = f"release {self.name!r}"
        cost = self.cost
        protects = field_names("protects", self.protects)
        exposes = field_names("exposes", self.exposes)

        if isinstance(cost, PipelineGuarantee):
            require(cost.guarantees, f"{what}: a PipelineGuarantee of no unit has no cost")
            require(
                not protects or set(protects) == set(cost.protected),
                f"protects of {what} must be those of its guarantee",
                protects,
            )
            protects = cost.protected
            exposes = tuple(dict.fromkeys((*cost.unprotected, *exposes)))
        both = sorted(set(protects) & set(exposes))
        require(not both, f"{what} both protects and exposes {', '.join(both)}")
        fields: dict[str, object] = {"protects": protects, "exposes": exposes}

        if isinstance(cost, GaussianCurve):
            unit = RECORD if self.unit is None else self.unit
            point = 1e-6 if self.delta is None else self.delta  # the words are always these
            words = cost.guarantee(point, unit, self.adjacency).adjacency  # which checks delta
            fields |= {"unit": unit, "adjacency": words}
            fields["delta"] = None if self.delta is None else float(self.delta)
        else:
            hint = ": call it" if callable(cost) else ""
            require(
                isinstance(cost, (Guarantee, PipelineGuarantee)),
                f"{what} must cost a Guarantee, PipelineGuarantee or GaussianCurve, "
                f"got {shown(cost)}{hint}",
            )
            require(
                (self.delta, self.unit, self.adjacency) == (None, None, ""),
                f"{what}: a {type(cost).__name__} says its own delta, unit and adjacency",
            )

        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def units(self) -> tuple[Unit, ...]:
        """The units that the release states a loss for."""
        if isinstance(self.cost, PipelineGuarantee):
            return tuple(self.cost)
        if isinstance(self.cost, Guarantee):
            return (self.cost.unit,)
        return (self.unit or RECORD,)

    def per(self, unit: Unit) -> Guarantee | GaussianCurve | None:
        """The cost per ``unit``; None where it does not say."""
        if isinstance(self.cost, PipelineGuarantee):
            return self.cost.get(unit)
        return self.cost if unit in self.units else None

    def __str__(self) -> str:
        if isinstance(self.cost, PipelineGuarantee):
            return " and ".join(f"{_pair(one)} per {unit}" for unit, one in self.cost.items())
        return _pair(self.cost)


def _pair(stated: Guarantee | Budget | GaussianCurve) -> str:
    if isinstance(stated, GaussianCurve):
        return f"mu {digits_up(stated.mu)}"
    digits = digits_up if isinstance(stated, Guarantee) else digits_down
    delta = f", delta {digits(stated.delta)}" if stated.delta else ""
    return f"epsilon {digits(stated.epsilon)}{delta}"


def _spent(releases: Sequence[Release], unit: Unit, budget: Budget | None) -> Guarantee:
    """Return the loss of one unit: guarantees add, curves compose and are converted once."""
    plain = []
    curves = []
    noisy = []  # the releases of these
    for release in releases:
        cost = release.per(unit)
        if isinstance(cost, Guarantee):
            plain.append(cost)
        elif cost is not None:
            curves.append(cost)
            noisy.append(release)
    if not plain and not curves:
        compared = WORDS.get(unit, "two inputs of this unit")
        return Guarantee(0.0, 0.0, unit, compared, status="proved", reason="nothing was released")
    if not curves:
        return sequential(*plain)

    named = [release.delta for release in noisy if release.delta is not None]
    if named:
        delta = max(named)
    else:
        require(
            budget is not None,
            f"release {noisy[-1].name!r}: with no budget to take it from, a curve needs a delta",
        )
        taken = add_up(guarantee.delta for guarantee in plain)
        delta = _less(budget.delta, taken) if budget else 0.0
    words = said_once(release.adjacency for release in noisy)
    total = GaussianCurve(0.0).compose(*curves)
    if delta >= 1e-300:
        return sequential(*plain, total.guarantee(delta, unit, words))
    epsilon = 0.0 if total.mu == 0.0 else math.inf  # without a delta Gaussian noise has no epsilon
    reason = "no delta is left for Gaussian noise"
    noise = Guarantee(epsilon, 0.0, unit, words, status="proved", reason=reason)
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
    >>> ledger = ledger.spend(
    ...     "features", released, protects=("features",), exposes=("edges",)
    ... )
    >>> for name in ("round 1", "round 2"):
    ...     ledger = ledger.spend(
    ...         name, GaussianCurve.of(1.0, 12.0), protects=("labels",)
    ...     )
    >>> print(ledger.explain())
    release   cost          unit    total so far                   protects  exposes
    features  epsilon 0.25  record  epsilon 0.25                   features  edges
    round 1   mu 0.0833334  record  epsilon 0.576585, delta 1e-06  labels    -
    round 2   mu 0.0833334  record  epsilon 0.72308, delta 1e-06   labels    -
    record: spent epsilon 0.72308, delta 1e-06 (ideal arithmetic; proved)
      of a budget of epsilon 1, delta 1e-06; epsilon 0.27692, delta 0 remains
    protected: features, labels; NOT protected: edges
    >>> try:
    ...     ledger.spend(
    ...         "again", Guarantee(0.5, status="proved", reason="Laplace noise")
    ...     )
    ... except BudgetExceededError as error:
    ...     print(str(error).split(": ")[0])
    release 'again' (epsilon 0.5) does not fit the budget per record
    """

    budget: Budgets = None
    releases: Sequence[Release] = ()

    KIND, VERSION = "ledger", 1

    def __post_init__(self) -> None:
        given: Any = () if self.budget is None else self.budget
        made = []
        for one in given if isinstance(given, (tuple, list)) else (given,):
            require(
                not isinstance(one, (Guarantee, PipelineGuarantee, GaussianCurve)),
                f"budget must be a Budget, got a {type(one).__name__}: write Budget(...)",
            )
            # A copy holds, whatever is done to the given one later.
            made.append(dataclasses.replace(one) if isinstance(one, Budget) else Budget(one))
        budgets = tuple(made)
        releases = tuple(self.releases)
        self._keep(budget=budgets, releases=releases)
        each_once("budget", budgets)
        if budgets:
            for release in releases:
                self._check_units(release)
        for unit in self._units():
            self._check_total(unit, [release for release in releases if unit in release.units])

    def _units(self) -> list[Unit]:
        return list(dict.fromkeys(unit for release in self.releases for unit in release.units))

    @property
    def budgets(self) -> tuple[Budget, ...]:
        """The budgets, one a unit; empty where only a record is kept."""
        return self.budget if isinstance(self.budget, tuple) else ()

    def _budget(self, unit: Unit) -> Budget | None:
        return next((budget for budget in self.budgets if budget.unit == unit), None)

    def _check_units(self, release: Release) -> None:
        """Refuse a release that has no budget, or hides what it costs under another one."""
        stated = release.units
        kept = [budget.unit for budget in self.budgets]
        touched = set[str]().union(*map(_about, stated))
        covered = set[str]().union(*(_about(unit) for unit in stated if unit in kept))
        read = touched | {_EDGES} & {*release.protects}
        missing = [unit for unit in kept if unit not in stated and _about(unit) & read]
        edges = [unit for unit in kept if _EDGES in _about(unit)]
        every = " and ".join(map(str, (*stated, *missing)))
        remedy = f": pass one PipelineGuarantee that states what it costs per {every}"
        if not touched <= covered:
            bare = next(unit for unit in stated if unit not in kept)
            known = ", ".join(map(str, kept))
            fault = f"is per {bare}, which has no budget; others are per {known}"
            fault += remedy if missing else ""
        elif missing:
            fault = f"does not say what it costs per {missing[0]}, which has a budget{remedy}"
        elif edges and _EDGES in release.exposes:
            fault = (
                f"uses edges in the clear, and there is a budget per {edges[0]}; if the edges were "
                "released under that budget, do not name them among what it exposes"
            )
        else:
            return
        raise BudgetExceededError(f"release {release.name!r} ({release}) {fault}")

    def _check_total(self, unit: Unit, releases: Sequence[Release]) -> None:
        """Refuse the releases of one unit if they exceed its budget; the last one is named."""
        budget = self._budget(unit)
        total = _spent(releases, unit, budget)
        if budget is None:
            return
        last = releases[-1]
        what = f"release {last.name!r} ({last})"
        if total.status == "none":
            why = total.reason or "no proof was given"
            raise BudgetExceededError(
                f"{what} proves nothing about {unit}, so no budget covers it: {why}"
            )
        pairs = ((total.epsilon, budget.epsilon), (total.delta, budget.delta))
        if all(spent <= most * (1.0 + _SLACK) for spent, most in pairs):
            return
        before = _spent(releases[:-1], unit, budget)
        left = _left(before, budget)
        remains = f"epsilon {digits_down(left.epsilon)}, delta {digits_down(left.delta)}"
        hint = ""
        if math.isinf(total.epsilon):
            hint = "; a Gaussian release needs a delta, and none is left"
        raise BudgetExceededError(
            f"{what} does not fit the budget per {budget.unit}: {_pair(before)} is spent, "
            f"{remains} remains of {_pair(budget)}; with it the total would be {_pair(total)}{hint}"
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

        >>> ledger, ages = (
        ...     Ledger(1.0),
        ...     Guarantee(0.75, status="proved", reason="Laplace noise"),
        ... )
        >>> (
        ...     ledger.spend("ages", ages).remaining(RECORD).epsilon,
        ...     ledger.remaining(RECORD).epsilon,
        ... )
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
        for budget in self.budgets:
            if budget.unit == unit:
                return _left(self.spent(unit), budget)
        raise ValueError(f"this ledger has no budget per {unit}")

    def total(self) -> PipelineGuarantee:
        """The cost of everything, unit by unit, and which fields no release exposes.

        >>> ledger = Ledger().spend(
        ...     "x", Guarantee(0.5), protects=["features"], exposes=["edges"]
        ... )
        >>> print(
        ...     ledger.spend("y", Guarantee(0.5), protects=["edges", "labels"]).total()
        ... )
        protected: features, labels; NOT protected: edges
          epsilon 1 per record (any two records of one user; ideal arithmetic; none)
        """
        protected = dict.fromkeys(field for release in self.releases for field in release.protects)
        exposed = dict.fromkeys(field for release in self.releases for field in release.exposes)
        hidden = tuple(field for field in protected if field not in exposed)
        return PipelineGuarantee(
            tuple(self.spent(unit) for unit in self._units()), hidden, tuple(exposed)
        )

    def explain(self) -> str:
        """The account as text: each release, then each unit's total, its budget and the rest."""
        rows: list[tuple[str, ...]] = []
        rows.append(("release", "cost", "unit", "total so far", "protects", "exposes"))
        for index, release in enumerate(self.releases):
            fields = [", ".join(names) or "-" for names in (release.protects, release.exposes)]
            name = release.name
            for unit in release.units:
                so_far = _spent(self.releases[: index + 1], unit, self._budget(unit))
                cost = release.per(unit)
                paid = _pair(cost) if cost else ""
                rows.append((name, paid, str(unit), _pair(so_far), *fields))
                name, *fields = "", "", ""  # one release of several units is named once
        lines = []
        if self.releases:
            widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
            lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]

        for unit in dict.fromkeys([*(budget.unit for budget in self.budgets), *self._units()]):
            spent = self.spent(unit)
            why = spent.status
            if spent.reason and spent.status != "proved":
                why += f": {spent.reason}"
            lines.append(
                f"{spent.unit}: spent {_pair(spent)} ({spent.arithmetic} arithmetic; {why})"
            )
            budget = self._budget(unit)
            if budget is not None:
                left = _left(spent, budget)
                remains = f"epsilon {digits_down(left.epsilon)}"
                if budget.delta:
                    remains += f", delta {digits_down(left.delta)}"
                lines.append(f"  of a budget of {_pair(budget)}; {remains} remains")
        lines.append(str(dataclasses.replace(self.total(), guarantees=())))
        if not self.budgets:
            lines.append("no budget: a record only")
        return "\n".join(lines)

    __str__ = explain

    def _parts(self) -> tuple[Header, bytes]:
        lines = []
        for release in self.releases:
            lines.append({"of": type(release.cost).__name__, **dataclasses.asdict(release)})
        return {"budget": [dataclasses.asdict(one) for one in self.budgets], "releases": lines}, b""

    @classmethod
    def _made(cls, header: Header, body: bytes) -> "Ledger":
        budgets = _objects(header["budget"], Budget)
        releases = []
        for line in _objects(header["releases"], dict):
            of = line.pop("of")
            cost = line.pop("cost")
            if of == "PipelineGuarantee":
                cost |= {"guarantees": tuple(Guarantee(**one) for one in cost["guarantees"])}
            releases.append(Release(cost=_COSTS[of](**cost), **line))
        return cls(budgets, releases)


_COSTS = {kind.__name__: kind for kind in (Guarantee, GaussianCurve, PipelineGuarantee)}


def _objects(written: Any, kind: Callable[..., Any] = dict) -> Any:
    """A JSON value with tuples for lists, and units; the outermost objects are of a kind."""
    if isinstance(written, list):
        return tuple(_objects(one, kind) for one in written)
    if isinstance(written, dict):
        inner = {name: _objects(value) for name, value in written.items()}
        return Unit(**inner) if inner.keys() == {"name", "rate"} else kind(**inner)
    return written


def _less(whole: float, part: float) -> float:
    """Return ``whole - part`` rounded down, and 0 for what float64 may have rounded."""
    if part == math.inf or part >= whole * (1.0 - _SLACK):
        return 0.0
    return rounded_down(Fraction(whole) - Fraction(part))


def _left(spent: Guarantee, budget: Budget) -> Budget:
    return Budget(
        _less(budget.epsilon, spent.epsilon), _less(budget.delta, spent.delta), budget.unit
    )
