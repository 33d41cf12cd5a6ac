"""Every public mechanism at small sizes: the one list that the contract suite, the audit and its table read.

A mechanism that is exported and has no case here fails the suite. Others are added with :func:`register`.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ldp_jax import edges, features, hyperbolic
from ldp_jax.core import integer_tables
from ldp_jax.core.mechanism import exp
from ldp_jax.core.types import Scalar
from ldp_jax.edges import curator

EPSILONS = (0.1, 1.0, 4.0, 16.0)


class Case(NamedTuple):
    """A public name, and how to make it with a budget of epsilon a record (of lists: a bit).

    A law that is a formula takes a number, a tracer or a stack; a table takes a number, and a stack of budgets is a
    menu of levels.

    Attributes:
      public: the exported name that makes it.
      table: whether it is one of whole numbers.
      epsilons: where it is asked; ``largest`` is the largest budget that it accepts.
      audited: its label in the table of the audit; empty where the audit asks another size of the same name.
      contract: whether the contract suite asks it: its reports are few enough to be integrated.
      lists: a mechanism on neighbour lists, whose suite is its own.
      central: of a curator who holds the graph, with a budget for one private edge; its suite is its own.
      hyperbolic: a mechanism on hyperbolic vectors or points, whose suite is its own.
    """

    public: str
    make: Callable[..., Any]
    table: bool = False
    epsilons: tuple[float, ...] = EPSILONS
    largest: float = 100.0
    audited: str = ""
    contract: bool = True
    lists: bool = False
    central: bool = False
    hyperbolic: bool = False


def whisper(epsilon: Scalar) -> features.Discrete:
    """A law of nobody's: two outputs at the edge of epsilon, and values that are not symmetric."""
    epsilon = integer_tables.checked_epsilon(epsilon)
    high = 1 / (1 + math.exp(-epsilon))
    masses = integer_tables.integer_masses(np.array([[high, 1 - high], [1 - high, high]]), epsilon)
    return features.Discrete.of(integer_tables.Table("whisper", masses, np.array([-1.0, 2.0], np.float32), "bins"))


_PRIOR = np.array([1.0, 2.0, 3.0, 2.0, 1.0, 0.5], np.float32)  # weights of the degrees 0 to 5

_POSTERIOR = (0.1, 0.4, 0.2, 0.3)  # public, of four classes

_PROJECTION = np.array([[0.6, 0.8, 0.0], [-0.8, 0.6, 1.0]], np.float32)

_GROUPS = np.array([0, 1, 0, 1, -1, 1], np.int32)


def _audited(label: str, public: str, make: Callable[[float], object], **more: Any) -> Case:
    """A size that the audit alone asks."""
    return Case(public, make, audited=label, contract=False, **more)


def _hyperbolic(public: str, make: Callable[..., object], **more: Any) -> Case:
    """A mechanism whose suite is that of hyperbolic vectors."""
    return Case(public, make, contract=False, hyperbolic=True, **more)


# In the order of the audit's table. Small dimensions: laws are integrated over every subset and value.
CASES: dict[str, Case] = {
    "Laplace": Case("Laplace", features.Laplace, largest=22.0, audited="Laplace"),
    "Duchi": Case("Duchi", features.Duchi, audited="Duchi"),
    "Piecewise": Case("Piecewise", features.Piecewise, largest=40.0, audited="Piecewise"),
    "SuboptimalPiecewise": Case(
        "SuboptimalPiecewise", features.SuboptimalPiecewise, largest=30.0, audited="PM-SUB"
    ),
    "OptimalPiecewise": Case("OptimalPiecewise", features.OptimalPiecewise, largest=30.0, audited="PM-OPT"),
    "GeneralPiecewise-three": _audited(
        "Piecewise, t = 3", "GeneralPiecewise", lambda e: features.GeneralPiecewise(e, 3.0)
    ),
    "GeneralPiecewise-third": Case(
        "GeneralPiecewise", lambda e: features.GeneralPiecewise(e, exp(e / 3)), largest=30.0
    ),
    "Hybrid": Case("Hybrid", features.Hybrid, largest=40.0, audited="Hybrid"),
    "ThreeOutputs": Case("ThreeOutputs", features.ThreeOutputs, audited="Three outputs"),
    "SquareWave": Case("SquareWave", features.SquareWave, audited="Square wave"),
    "SquareWave-debias": Case("SquareWave", lambda e: features.SquareWave(e, debias=True)),
    "DuchiVector-even": Case("DuchiVector", lambda e: features.DuchiVector(e, 4), audited="Duchi, d = 4"),
    "DuchiVector": Case("DuchiVector", lambda e: features.DuchiVector(e, 3)),
    # On the ball, whose suite is their own: what a cap is must be known when they are made.
    "PrivUnit": Case(
        "PrivUnit", lambda e: features.PrivUnit(e, 3), contract=False, largest=60.0, audited="PrivUnit, d = 3"
    ),
    "PrivUnitG": Case(
        "PrivUnitG", lambda e: features.PrivUnitG(e, 3), contract=False, largest=60.0, audited="PrivUnitG, d = 3"
    ),
    "ProjUnit": Case(
        "ProjUnit",
        lambda e: features.ProjUnit(e, _PROJECTION),
        contract=False,
        largest=60.0,
        audited="ProjUnit, 3 to 2",
    ),
    "HDS-four": _audited("HDS, 2 of 4", "HDS", lambda e: features.HDS(e, 4, 2)),
    "HDS": Case("HDS", lambda e: features.HDS(e, 3, 2)),
    "HDS-debias": Case("HDS", lambda e: features.HDS(e, 3, 1, debias=True)),
    "MultiBit-four": _audited("Multi-bit, 2 of 4", "MultiBit", lambda e: features.MultiBit(e, 4, 2)),
    "MultiBit": Case("MultiBit", lambda e: features.MultiBit(e, 3, 2)),
    "MultiPiecewise-four": _audited(
        "Multi-piecewise, 2 of 4", "MultiPiecewise", lambda e: features.MultiPiecewise(e, 4, 2)
    ),
    "MultiPiecewise": Case("MultiPiecewise", lambda e: features.MultiPiecewise(e, 3, 2), largest=80.0),
    "LaplaceVector-three": _audited("Laplace, d = 3", "LaplaceVector", lambda e: features.LaplaceVector(e, 3)),
    "LaplaceVector": Case("LaplaceVector", lambda e: features.LaplaceVector(e, 2), largest=44.0),
    "Sampled": Case("Sampled", lambda e: features.Sampled(features.Duchi(e / 2), 4, 2, scale=0.5)),
    "Sampled-Hybrid-four": _audited(
        "Sampled hybrid, 2 of 4", "Sampled", lambda e: features.Sampled(features.Hybrid(e / 2), 4, 2)
    ),
    "Sampled-Hybrid": Case("Sampled", lambda e: features.Sampled(features.Hybrid(e / 2), 3, 2)),
    "GeneralizedRR-eight": _audited("Generalised RR, 8", "GeneralizedRR", lambda e: features.GeneralizedRR(e, 8)),
    "GeneralizedRR": Case("GeneralizedRR", lambda e: features.GeneralizedRR(e, 4), table=True),
    "PersonalAlphabet": Case(
        "PersonalAlphabet",
        lambda e: features.PersonalAlphabet(e, _POSTERIOR),
        table=True,
        audited="Personal alphabet",
    ),
    "FeatureRR-three": _audited("FeatureRR, d = 3", "FeatureRR", lambda e: features.FeatureRR(e, 6, dim=3)),
    "FeatureRR": Case("FeatureRR", lambda e: features.FeatureRR(e, 5, dim=2), table=True),
    "RandomizedFeatures-six": _audited(
        "FeatureRR, weighted", "RandomizedFeatures", lambda e: features.FeatureRR(e, 6, [0.2, 0.3, 0.5])
    ),
    "RandomizedFeatures": Case(
        "RandomizedFeatures", lambda e: features.FeatureRR(e, 4, [0.5, 1.0, 0.5]), table=True
    ),
    "GridSquareWave-default": _audited("Grid square wave", "GridSquareWave", features.GridSquareWave),
    "GridSquareWave": Case("GridSquareWave", lambda e: features.GridSquareWave(e, 17), table=True),
    "GridSquareWave-debias": Case(
        "GridSquareWave", lambda e: features.GridSquareWave(e, 16, debias=True), table=True
    ),
    "GridPiecewise-default": _audited("Grid piecewise", "GridPiecewise", features.GridPiecewise),
    "GridPiecewise": Case("GridPiecewise", lambda e: features.GridPiecewise(e, 17), table=True),
    # Above epsilon 5 or so eleven inputs are refused (a test of its own).
    "LPOptimal": Case(
        "LPOptimal", features.LPOptimal, table=True, epsilons=(0.1, 1.0, 4.0, 5.0), audited="LP-optimal"
    ),
    "Sampled-grid-default": _audited(
        "Grid HDS, 2 of 4", "Sampled", lambda e: features.Sampled(features.GridSquareWave(e / 2), 4, 2, scale=1.0)
    ),
    "Sampled-grid": Case(
        "Sampled", lambda e: features.Sampled(features.GridSquareWave(e / 2, 5), 3, 2, scale=1.0), table=True
    ),
    "Discrete-menu": _audited("a table", "Discrete", lambda e: features.menu([features.GeneralizedRR(e, 2)])),
    "Discrete": Case("Discrete", whisper, table=True),
    # Of six nodes; the loss is per bit of one list.
    "DPRR": _audited("DPRR", "DPRR", lambda e: edges.DPRR(0.1 * e, 0.9 * e, n=6), lists=True),
    "DPRR-geometric": _audited(
        "DPRR, whole noise", "DPRR", lambda e: edges.DPRR(0.1 * e, 0.9 * e, n=6, noise="geometric"), lists=True
    ),
    "DPRR-prior": _audited(
        "DPRR, public prior", "DPRR", lambda e: edges.DPRR(0.1 * e, 0.9 * e, prior=_PRIOR, n=6), lists=True
    ),
    "RandomizedResponse": _audited(
        "Randomised response", "RandomizedResponse", lambda e: edges.RandomizedResponse(e, n=6), lists=True
    ),
    "LocalLap": _audited("LocalLap", "LocalLap", lambda e: edges.LocalLap.from_epsilon(e, n=6), lists=True),
    "NoisyDegree": _audited("Noisy degree", "NoisyDegree", lambda e: edges.NoisyDegree(e, n=6), lists=True),
    "NoisyDegree-geometric": _audited(
        "Noisy degree, whole noise",
        "NoisyDegree",
        lambda e: edges.NoisyDegree(e, n=6, noise="geometric"),
        lists=True,
    ),
    # Two groups of six nodes, and one node in none; so few counts that all reports of whole noise can be listed.
    "NeighbourCounts": Case(
        "NeighbourCounts",
        lambda e: edges.NeighbourCounts(e, 2, n=6, groups=_GROUPS, most=5),
        contract=False,
        lists=True,
        audited="Neighbour counts, 6 nodes",
    ),
    "NeighbourCounts-laplace": Case(
        "NeighbourCounts",
        lambda e: edges.NeighbourCounts(e, 2, n=6, groups=_GROUPS, noise="laplace"),
        contract=False,
        lists=True,
    ),
    # Of four or five nodes, on which chains need few sweeps; LapGraph's own count would have 1 % of so few pairs.
    "EdgeRR": _audited("EdgeRR", "EdgeRR", lambda e: curator.EdgeRR.from_epsilon(e, sweeps=64), central=True),
    "PrivHRG": _audited("PrivHRG", "PrivHRG", lambda e: curator.PrivHRG(e, sweeps=64), central=True),
    "PublicHRG": _audited("PublicHRG", "PublicHRG", lambda e: curator.PublicHRG(e, sweeps=64), central=True),
    "BinnedPairs": _audited("BinnedPairs", "BinnedPairs", curator.BinnedPairs, central=True),
    "EdgeRand": _audited("EdgeRand", "EdgeRand", curator.EdgeRand, central=True),
    "LapGraph": _audited(
        "LapGraph", "LapGraph", lambda e: curator.LapGraph.from_epsilon(e, share=0.5), central=True
    ),
    # Of two numbers; Gaussian noise is calibrated on the host, so that its epsilon is numbers, no tracer.
    "HyperbolicGaussian": _hyperbolic(
        "HyperbolicGaussian",
        lambda e: hyperbolic.HyperbolicGaussian(e, 1e-5, clip=1.5),
        audited="Hyperbolic Gaussian",
    ),
    "RadialAngularGaussian": _hyperbolic(
        "RadialAngularGaussian",
        lambda e: hyperbolic.RadialAngularGaussian(e, 1e-5, clip=1.5, radial_share=0.3),
        audited="Radial-angular Gaussian",
    ),
    "HyperbolicExponential": _hyperbolic(
        "HyperbolicExponential",
        lambda e: hyperbolic.HyperbolicExponential(e, radius=2.0),
        largest=22.0,
        audited="Hyperbolic exponential",
    ),
}


def register(name: str, case: Case) -> None:
    """Add a case of one's own to :data:`CASES`, for the suite and for the audit (where ``audited`` is a label).

    ``ValueError`` for a name that is taken.
    """
    if name in CASES:
        raise ValueError(f"name must be a new one, got {name!r}, which is a case of {CASES[name].public}")
    CASES[name] = case
