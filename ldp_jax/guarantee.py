"""What a mechanism promises, as an object that can be asked, added and printed. Pure Python, float64."""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Literal

Arithmetic = Literal["ideal", "exact"]
Status = Literal["proved", "in the limit", "none"]

_ORDER: dict[str, int] = {"proved": 0, "in the limit": 1, "none": 2}


@dataclasses.dataclass(frozen=True)
class Unit:
    """What one unit of privacy protects.

    Attributes:
      name: the word that is printed.
      rate: for metric privacy alone, the loss per unit of distance.
    """

    name: str
    rate: float | None = None

    def __str__(self) -> str:
        return self.name if self.rate is None else f"{self.name}({self.rate:g})"


RECORD = Unit("record")
"""The whole record that one user's mechanism is given; which fields that is, a pipeline's ``protected`` says."""
NEIGHBOUR_LIST = Unit("neighbour-list")
"""One bit of one user's neighbour list; a whole list of degree g costs g times as much."""
RELATIONSHIP = Unit("relationship")
"""One undirected edge, seen through the reports of both its ends."""
EDGE_CENTRAL = Unit("edge-central")
"""One edge, perturbed by a trusted curator who holds the whole graph."""


def metric(rate: float) -> Unit:
    """Metric privacy with loss ``rate`` times the distance of two records; it never adds to another unit."""
    return Unit("metric", rate)


@dataclasses.dataclass(frozen=True)
class Guarantee:
    """An (epsilon, delta) guarantee for one unit of privacy.

    Attributes:
      epsilon: the largest privacy loss; ``math.inf`` means no protection.
      delta: the mass that may lose more than epsilon.
      unit: what is protected.
      adjacency: in words, which two inputs are compared.
      arithmetic: ``ideal`` where the proof is over real numbers (float32 samplers), ``exact`` where it is
        over the integers that are sampled from.
      status: ``proved``, ``in the limit`` (of a chain's stationary law) or ``none``.
      reason: one sentence that says why the status is what it is.

    ``+`` is sequential composition within a unit:

    >>> (Guarantee(0.5) + Guarantee(1.0)).epsilon
    1.5
    >>> print(Guarantee(0.5) + Guarantee(1.0))
    epsilon 1.5 per record (any two records of one user; ideal arithmetic; proved)
    """

    epsilon: float
    delta: float = 0.0
    unit: Unit = RECORD
    adjacency: str = "any two records of one user"
    arithmetic: Arithmetic = "ideal"
    status: Status = "proved"
    reason: str = ""

    def __post_init__(self) -> None:
        if math.isnan(self.epsilon) or self.epsilon < 0:
            raise ValueError(f"epsilon must be >= 0, got {self.epsilon}")
        if not 0.0 <= self.delta <= 1.0:
            raise ValueError(f"delta must be in [0, 1], got {self.delta}")

    def __add__(self, other: "Guarantee") -> "Guarantee":
        if not isinstance(other, Guarantee):
            return NotImplemented
        if self.unit != other.unit:
            raise ValueError(f"units do not add: {self.unit} and {other.unit}; report both")
        weaker = max(self, other, key=lambda g: _ORDER[g.status])
        both = self.adjacency == other.adjacency
        exact = self.arithmetic == other.arithmetic == "exact"
        return Guarantee(
            epsilon=add_up((self.epsilon, other.epsilon)) if exact else self.epsilon + other.epsilon,
            delta=min(1.0, self.delta + other.delta),
            unit=self.unit,
            adjacency=self.adjacency if both else f"{self.adjacency}; {other.adjacency}",
            arithmetic="exact" if exact else "ideal",
            status=weaker.status,
            reason=weaker.reason,
        )

    def repeated(self, times: int) -> "Guarantee":
        """Sequential composition of ``times`` independent releases under this guarantee."""
        if times < 1:
            raise ValueError(f"times must be >= 1, got {times}")
        exact = self.arithmetic == "exact"
        return dataclasses.replace(
            self,
            epsilon=add_up((self.epsilon,), times) if exact else self.epsilon * times,
            delta=min(1.0, self.delta * times),
        )

    def __str__(self) -> str:
        delta = f", delta {_rounded_up(self.delta)}" if self.delta else ""
        reason = f": {self.reason}" if self.reason else ""
        return (
            f"epsilon {_rounded_up(self.epsilon)}{delta} per {self.unit} "
            f"({self.adjacency}; {self.arithmetic} arithmetic; {self.status}{reason})"
        )


def add_up(epsilons: Iterable[float], times: int = 1) -> float:
    """The sum of epsilons, ``times`` over, rounded up: what is exact stays at or above the truth.

    >>> add_up([0.1] * 3) > 0.3, add_up([0.5], times=3)
    (True, 1.5)
    """
    known = list(epsilons)
    if any(math.isinf(epsilon) for epsilon in known):
        return math.inf
    exact = times * sum(map(Fraction, known), Fraction(0))
    nearest = float(exact)
    return math.nextafter(nearest, math.inf) if Fraction(nearest) < exact else nearest


def _rounded_up(epsilon: float) -> str:
    """Six significant digits, rounded up: what is printed must hold (to 1e-11 of it, float64's own rounding).

    >>> _rounded_up(0.1), _rounded_up(1.00000149), _rounded_up(3 * (1.1 / 3))
    ('0.1', '1.00001', '1.1')
    """
    if epsilon == 0 or math.isinf(epsilon):
        return f"{epsilon:g}"
    unit = 10.0 ** (math.floor(math.log10(epsilon)) - 5)
    nearest = round(epsilon / unit)  # kept where only float64 rounding is in the way
    digits = nearest if abs(epsilon / unit - nearest) < 1e-6 else math.ceil(epsilon / unit)
    return f"{digits * unit:.6g}"


@dataclasses.dataclass(frozen=True)
class PipelineGuarantee(Mapping[Unit, Guarantee]):
    """What a whole pipeline spends: one guarantee a unit, and which fields it does and does not protect.

    >>> spent = PipelineGuarantee.of(
    ...     [Guarantee(1.0)], protected=["features"], unprotected=["edges", "labels"]
    ... )
    >>> spent[RECORD].epsilon
    1.0
    >>> print(spent)
    protected: features; NOT protected: edges, labels
      epsilon 1 per record (any two records of one user; ideal arithmetic; proved)
    """

    guarantees: tuple[Guarantee, ...]
    protected: tuple[str, ...] = ()
    unprotected: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, spent: Iterable[Guarantee], *, protected: Iterable[str], unprotected: Iterable[str]
    ) -> "PipelineGuarantee":
        """Compose the releases of a pipeline sequentially, unit by unit."""
        total: dict[Unit, Guarantee] = {}
        for guarantee in spent:
            known = total.get(guarantee.unit)
            total[guarantee.unit] = guarantee if known is None else known + guarantee
        return cls(tuple(total.values()), tuple(protected), tuple(unprotected))

    def __getitem__(self, unit: Unit) -> Guarantee:
        for guarantee in self.guarantees:
            if guarantee.unit == unit:
                return guarantee
        raise KeyError(unit)

    def __iter__(self) -> Iterator[Unit]:
        return (guarantee.unit for guarantee in self.guarantees)

    def __len__(self) -> int:
        return len(self.guarantees)

    def __str__(self) -> str:
        fields = f"protected: {', '.join(self.protected) or 'nothing'}"
        if self.unprotected:
            fields += f"; NOT protected: {', '.join(self.unprotected)}"
        return "\n".join([fields, *(f"  {guarantee}" for guarantee in self.guarantees)])
