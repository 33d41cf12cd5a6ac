"""Guarantees as objects that can be asked, added and printed, and budgets. Pure Python, float64.

Sums are exact and rounded up; a budget is rounded down: 0.1 and 0.9 are together
1.0000000000000002. Six significant digits are printed, rounded the same way, except where they
would be within 1e-12 of the number.
"""

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Literal, get_args

from ldp_jax.core.rounding import add_up, digits_down, digits_up, exactly, rounded_down, rounded_up
from ldp_jax.core.validate import one_of, require

__all__ = [
    "EDGE_CENTRAL",
    "LABEL",
    "NEIGHBOUR_LIST",
    "RECORD",
    "RELATIONSHIP",
    "WORDS",
    "Budget",
    "Guarantee",
    "PipelineGuarantee",
    "Status",
    "Unit",
    "metric",
]

__dir__ = lambda: __all__


Arithmetic = Literal["ideal", "exact"]
Status = Literal["proved", "in the limit", "none"]
"""What is known of a claim, from the strongest: a proof, a proof of a chain's stationary law, or
nothing.
"""
Trust = Literal["local", "shuffled", "central"]
"""Whom users trust: nobody, a shuffler who mixes what they report, or a curator who holds the data
of all.
"""


# --- units ----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Unit:
    """A unit of privacy.

    Attributes:
      name: the word that is printed.
      rate: for metric privacy alone, the loss per unit of distance: epsilon of the guarantee or
        budget that has the unit. Metric privacy is one unit at any rate.
    """

    name: str
    rate: float | None = dataclasses.field(default=None, compare=False)

    def __post_init__(self) -> None:
        require(
            isinstance(self.name, str) and self.name.strip(),
            "name of a unit must be a word",
            self.name,
        )
        require(
            (self.name == "metric") == (self.rate is not None),
            "a unit has a rate if it is metric privacy: write metric(rate)",
        )
        if self.rate is not None:
            object.__setattr__(self, "rate", rounded_up(exactly("rate", self.rate)))

    @property
    def parts(self) -> frozenset[tuple[str, str]]:
        """The data in which two inputs may differ: pairs of a field and how much of it.

        >>> sorted(Unit("neighbour-list + record").parts)
        [('list', 'bit'), ('record', 'whole')]
        """
        return frozenset(_PARTS.get(word, (word, "whole")) for word in self.name.split(" + "))

    def __str__(self) -> str:
        return self.name if self.rate is None else f"{self.name}({digits_up(self.rate)})"


_PARTS = {
    "neighbour-list": ("list", "bit"),
    "whole neighbour list": ("list", "whole"),
    "relationship": ("pair", "both ends"),
    "edge-central": ("graph", "one edge"),
    "metric": ("record", "distance"),
}
"""The parts of units by the words that name them; another word is a field of its own, whole."""


def joint_unit(*units: Unit) -> Unit:
    """The unit of two inputs that may differ in all of some units at once.

    >>> joint_unit(RECORD, NEIGHBOUR_LIST).name
    'neighbour-list + record'
    """
    return Unit(" + ".join(sorted(unit.name for unit in units)))


RECORD = Unit("record")
"""The whole record that one user's mechanism is given; which fields that is, a pipeline's
``protected`` says.
"""
LABEL = Unit("label")
"""The label alone of one user's record; it costs the record too, and a guarantee says both."""
NEIGHBOUR_LIST = Unit("neighbour-list")
"""One bit of one user's neighbour list; lists that differ in k bits cost k times as much."""
RELATIONSHIP = Unit("relationship")
"""One undirected edge, seen through the reports of both its ends."""
EDGE_CENTRAL = Unit("edge-central")
"""One edge, perturbed by a trusted curator who holds the whole graph."""


def metric(rate: float) -> Unit:
    """Metric privacy with loss ``rate`` times the distance of two records.

    Rates add, within one distance.

    >>> half = Guarantee(0.5, unit=metric(0.5))
    >>> print(half + half)
    epsilon 1 per metric(1) (two records at distance 1; ideal arithmetic; none)
    """
    return Unit("metric", rate)


WORDS = {
    RECORD: "any two records of one user",
    LABEL: "any two records of one user that differ in the label alone",
    NEIGHBOUR_LIST: "two neighbour lists of one user that differ in one bit",
    RELATIONSHIP: "two graphs that differ in one edge",
    EDGE_CENTRAL: "two graphs that differ in one edge",
}
"""Which two inputs a unit compares, where a guarantee does not say it in words of its own."""


_A_UNIT = "unit must be a Unit such as ldp_jax.accounting.guarantee.RECORD"


# --- guarantees and budgets -----------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Guarantee:
    """An (epsilon, delta) guarantee for one unit of privacy.

    Attributes:
      epsilon: the largest privacy loss; ``math.inf`` means no protection.
      delta: by how much a set's mass may exceed e^epsilon times its mass under the other input.
      unit: of privacy.
      adjacency: in words, which two inputs are compared, "any two ..." where all are; by default
        the unit's own.
      arithmetic: ``ideal`` for a proof over real numbers (float32 samplers), ``exact`` over sampled
        integers.
      status: ``proved``, ``in the limit`` (of a chain's stationary law) or ``none``.
      reason: one sentence for the status; only ``none`` may go without.
      trust: ``local`` where users perturb their own data, ``shuffled`` where a trusted shuffler
        mixes such reports (:func:`ldp_jax.accounting.shuffle.amplified`), ``central`` where a
        trusted curator holds all data. Different ones do not add. EDGE_CENTRAL is always central, a
        neighbour list or a relationship always local.

    >>> half = Guarantee(0.5, status="proved", reason="randomised response")
    >>> (half + half).epsilon
    1.0
    >>> print(half + half)  # doctest: +ELLIPSIS
    epsilon 1 per record (any two records of one user; ideal arithmetic; proved: randomised ...
    >>> print(Guarantee(0.5, unit=EDGE_CENTRAL))  # doctest: +ELLIPSIS
    epsilon 0.5 per edge-central (two graphs that differ in one edge; towards all but a trusted ...

    ``ValueError`` for fields out of range, a status without a reason, a unit of local reports with
    a curator, and a unit without words of its own that comes without.
    """

    epsilon: float
    delta: float = 0.0
    unit: Unit = RECORD
    adjacency: str = ""
    arithmetic: Arithmetic = "ideal"
    status: Status = "none"
    reason: str = ""
    trust: Trust = "local"

    def __post_init__(self) -> None:
        _freeze_pair(self, rounded_up)
        require(self.delta <= 1.0, "delta must be in [0, 1]", self.delta)
        one_of(get_args(Arithmetic), arithmetic=self.arithmetic)
        one_of(get_args(Status), status=self.status)
        one_of(get_args(Trust), trust=self.trust)
        require(
            self.status == "none" or self.reason.strip(),
            f"reason must say why the status is {self.status!r}",
            self.reason,
        )
        if not self.adjacency.strip():
            object.__setattr__(self, "adjacency", own_words(self.unit))
        if self.unit == EDGE_CENTRAL:
            object.__setattr__(self, "trust", "central")
        else:
            require(
                self.trust == "local" or self.unit not in (NEIGHBOUR_LIST, RELATIONSHIP),
                f"trust must be 'local' per {self.unit}, which is about what users report "
                f"themselves; what a curator releases of a graph is per {EDGE_CENTRAL}",
            )

    def __add__(self, other: "Guarantee") -> "Guarantee":
        return sequential(self, other) if isinstance(other, Guarantee) else NotImplemented

    def repeated(self, times: int) -> "Guarantee":
        """Sequential composition of ``times`` independent releases under this guarantee.

        >>> Guarantee(0.5, delta=1e-6).repeated(4).epsilon
        2.0
        """
        return dataclasses.replace(
            self,
            epsilon=add_up((self.epsilon,), times),
            delta=min(1.0, add_up((self.delta,), times)),
        )

    def __str__(self) -> str:
        delta = f", delta {digits_up(self.delta)}" if self.delta else ""
        reason = f": {self.reason}" if self.reason else ""
        trusted = {"shuffled": "shuffler", "central": "curator"}.get(self.trust)
        trust = f"towards all but a trusted {trusted}; " if trusted else ""
        return (
            f"epsilon {digits_up(self.epsilon)}{delta} per {self.unit} "
            f"({self.adjacency}; {trust}{self.arithmetic} arithmetic; {self.status}{reason})"
        )


@dataclasses.dataclass(frozen=True)
class Budget:
    """A limit of the loss per unit, which promises and proves nothing.

    >>> print(Budget(1.0, delta=1e-6))
    at most epsilon 1, delta 1e-06 per record
    """

    epsilon: float
    delta: float = 0.0
    unit: Unit = RECORD

    def __post_init__(self) -> None:
        _freeze_pair(self, rounded_down, "budget's ")
        require(
            math.isfinite(self.epsilon),
            f"budget's epsilon per {self.unit} must be finite",
            self.epsilon,
        )
        require(self.delta < 1.0, f"budget's delta per {self.unit} must be in [0, 1)", self.delta)

    def __str__(self) -> str:
        delta = f", delta {digits_down(self.delta)}" if self.delta else ""
        return f"at most epsilon {digits_down(self.epsilon)}{delta} per {self.unit}"


def _freeze_pair(
    made: Guarantee | Budget, rounded: Callable[[Fraction | float], float], whose: str = ""
) -> None:
    """Round epsilon and delta to the safe side, as float64, and check the unit."""
    require(isinstance(made.unit, Unit), _A_UNIT, made.unit)
    for name in ("epsilon", "delta"):
        label = f"{whose}{name} per {made.unit}" if whose else name
        object.__setattr__(made, name, rounded(exactly(label, getattr(made, name))))
    if made.unit.rate is not None:  # of a sum, and of a delta, that is another one
        object.__setattr__(made, "unit", metric(made.epsilon))


def own_words(unit: Unit) -> str:
    """Which two inputs a unit compares, in the library's own words."""
    if unit.rate is not None:
        return "two records at distance 1"
    require(
        unit in WORDS,
        f"adjacency must say in words which two inputs are compared: the unit {unit} has no words",
    )
    return WORDS[unit]


def any_two(adjacency: str) -> str:
    """Return ``any two`` if an adjacency compares every input with every other, else ``two``.

    It reads words: "any two ..." promises every pair, unless a word of distance or likeness
    follows.

    >>> any_two("any two numbers in [-1, 1] at most 0.1 apart")
    'two'
    >>> (
    ...     any_two(WORDS[RECORD]),
    ...     any_two(WORDS[LABEL]),
    ...     any_two("two hours that follow each other"),
    ... )
    ('any two', 'two', 'two')
    """
    fewer = any(word in _ORIGIN.sub("", adjacency) for word in _FEWER)
    return "any two" if adjacency.startswith("any two ") and not fewer else "two"


_ORIGIN = re.compile(r"within distance \S+ of the origin")
_FEWER = (
    "differ", "adjacent", "neighbouring", "neighboring", "adjoining", "each other", "one another",
    "apart", "away", "close", "near", "distance", "within", "up to", "similar", "equal", "agree",
    "share", "between", "consecutive", "success", "follow", "except", "but for", "same record",
    "with the same",
)  # fmt: skip
"""Words by which an adjacency compares some inputs alone."""


def compares_all(adjacency: str) -> bool:
    """Whether an adjacency is every pair of inputs that its unit compares, and not some alone.

    >>> compares_all(WORDS[LABEL]), compares_all("two hours that follow each other")
    (True, False)
    """
    own = (*WORDS.values(), "two neighbour lists that differ in one bit")
    each = adjacency.split("; ")
    return all(any_two(one) == "any two" or one in own for one in each)


def narrowed(words: str, adjacency: str) -> str:
    """The words of a unit for a guarantee in another one, whose own words may be about fewer pairs.

    >>> narrowed("any two labels", "two hours that follow each other")
    'two hours that follow each other, in the place of any two labels'
    """
    place = ", in the place of "
    own = adjacency.split(place)[0]
    known = compares_all(adjacency) or words.startswith(own)
    return words if known else f"{own}{place}{words}"


def said_once(texts: Iterable[str]) -> str:
    """Different texts, each once, in order."""
    return "; ".join(dict.fromkeys(text for text in texts if text))


def sequential(*guarantees: Guarantee) -> Guarantee:
    """Compose several releases about the same record: epsilon and delta add, within one unit.

    The sum is rounded up once, has the weakest status with its reasons, and is ``exact`` only if
    all are. ``ValueError`` if none is given, their units differ, or some are local and some
    central.
    Reference: Dwork and Roth (2014), Theorem 3.16.

    >>> sequential(
    ...     Guarantee(0.5), Guarantee(1.0), Guarantee(1.5, delta=1e-6)
    ... ).epsilon
    3.0
    """
    unit = one_unit(guarantees, "sequential")
    delta = min(1.0, add_up(guarantee.delta for guarantee in guarantees))
    return merged(guarantees, add_up(guarantee.epsilon for guarantee in guarantees), delta, unit)


def merged(
    guarantees: Sequence[Guarantee], epsilon: float, delta: float, unit: Unit, adjacency: str = ""
) -> Guarantee:
    """Return one guarantee over several, with the weakest status and arithmetic of all.

    The adjacency is by default all of theirs.
    """
    status = max((one.status for one in guarantees), key=get_args(Status).index)
    exact = all(one.arithmetic == "exact" for one in guarantees)
    # Where one compares few inputs so does the whole, which then does not begin with "any two".
    each = sorted((one.adjacency for one in guarantees), key=lambda one: any_two(one) == "any two")
    return Guarantee(
        epsilon,
        delta,
        unit,
        adjacency or said_once(each),
        "exact" if exact else "ideal",
        status,
        said_once(one.reason for one in guarantees if one.status == status),
        one_trust(guarantees),
    )


def one_unit(guarantees: Sequence[Guarantee], name: str) -> Unit:
    """The unit that all guarantees share; ``name`` is the composition's, for the message."""
    require(guarantees, f"{name} needs at least one guarantee, got none")
    units = list(dict.fromkeys(guarantee.unit for guarantee in guarantees))
    several = ", ".join(map(str, units))
    require(
        len(units) == 1,
        f"units do not add: {name} needs guarantees of one unit, got {several}; "
        "report both, or see composition.joint",
    )
    return units[0]


def one_trust(guarantees: Sequence[Guarantee]) -> Trust:
    """The trust model that all guarantees share."""
    found = sorted({one.trust for one in guarantees}, key=get_args(Trust).index)
    require(
        len(found) == 1,
        f"{' and '.join(found)} guarantees do not add: local ones need no trust, shuffled ones a "
        "shuffler, central ones a curator who sees the data; report both",
    )
    return found[0]


def each_once(name: str, made: Sequence[Guarantee] | Sequence[Budget]) -> None:
    """Refuse two guarantees or budgets of one unit."""
    for unit, times in Counter(one.unit for one in made).items():
        require(times == 1, f"{name} must name each unit once, got {unit} {times} times")


def field_names(name: str, value: Iterable[str]) -> tuple[str, ...]:
    """Names of fields as a tuple."""
    names = tuple(value)
    texts = all(isinstance(one, str) and one.strip() for one in names)
    require(
        texts and not isinstance(value, str), f"{name} must be a sequence of field names", value
    )
    return names


@dataclasses.dataclass(frozen=True)
class PipelineGuarantee(Mapping[Unit, Guarantee]):
    """The cost of a whole pipeline: one guarantee a unit, and which fields are protected.

    ``ValueError`` for two guarantees of one unit (:meth:`of` adds them), a field that is both
    protected and not, or one string in place of several names.

    >>> released = Guarantee(1.0, status="proved", reason="Laplace noise")
    >>> fields = {"protected": ["features"], "unprotected": ["edges", "labels"]}
    >>> spent = PipelineGuarantee.of([released], **fields)
    >>> spent[RECORD].epsilon
    1.0
    >>> print(spent)
    protected: features; NOT protected: edges, labels
      epsilon 1 per record (any two records of one user; ideal arithmetic; proved: Laplace noise)
    """

    guarantees: tuple[Guarantee, ...]
    protected: tuple[str, ...] = ()
    unprotected: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "guarantees", tuple(self.guarantees))
        for name in ("protected", "unprotected"):
            object.__setattr__(self, name, field_names(name, getattr(self, name)))
        for guarantee in self.guarantees:
            require(isinstance(guarantee, Guarantee), "guarantees must be Guarantees", guarantee)
        each_once("guarantees", self.guarantees)
        both = sorted(set(self.protected) & set(self.unprotected))
        require(not both, f"fields cannot be protected and unprotected: {', '.join(both)}")

    @classmethod
    def of(
        cls, spent: Iterable[Guarantee], *, protected: Iterable[str], unprotected: Iterable[str]
    ) -> "PipelineGuarantee":
        """Compose the releases of a pipeline sequentially, unit by unit."""
        by_unit: dict[Unit, list[Guarantee]] = {}
        for one in spent:
            by_unit.setdefault(one.unit, []).append(one)
        return cls(
            tuple(sequential(*each) for each in by_unit.values()),
            field_names("protected", protected),
            field_names("unprotected", unprotected),
        )

    def __getitem__(self, unit: Unit) -> Guarantee:
        for guarantee in self.guarantees:
            if guarantee.unit == unit:
                return guarantee
        raise KeyError(f"{_A_UNIT} of {' or '.join(map(str, self)) or 'none'}, got {unit!r}")

    def __iter__(self) -> Iterator[Unit]:
        return (guarantee.unit for guarantee in self.guarantees)

    def __len__(self) -> int:
        return len(self.guarantees)

    def __str__(self) -> str:
        fields = f"protected: {', '.join(self.protected) or 'nothing'}"
        if self.unprotected:
            fields += f"; NOT protected: {', '.join(self.unprotected)}"
        return "\n".join([fields, *(f"  {guarantee}" for guarantee in self.guarantees)])
