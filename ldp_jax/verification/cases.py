"""Every public mechanism at small sizes.

The one list that the contract suite, the audit and its table read.

A mechanism that is exported and has no case here fails the suite. Others are added with
:func:`register`.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ldp_jax import curators, edges, features, hyperbolic
from ldp_jax.core import integer_tables
from ldp_jax.core.mechanism import exp
from ldp_jax.core.types import Scalar

EPSILONS = (0.1, 1.0, 4.0, 16.0)


class Case(NamedTuple):
    """A public name, and how to make it with a budget of epsilon a record (of lists: a bit).

    A law that is a formula takes a number, a tracer or a stack; a table takes a number.

    Attributes:
      public: the exported name that makes it.
      table: whether it is one of whole numbers.
      epsilons: where it is asked; ``largest`` is the largest budget that it accepts.
      audited: its label in the table of the audit; empty where the audit asks another size of the
        same name.
      contract: whether the contract suite asks it: its reports are few enough to be integrated.
      lists: on neighbour lists; ``central``: of a curator; ``hyperbolic``: their suites are their
        own.
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
    return features.Discrete.of(
        integer_tables.Table("whisper", masses, np.array([-1.0, 2.0], np.float32), "bins")
    )


_PRIOR = np.array([1.0, 2.0, 3.0, 2.0, 1.0, 0.5], np.float32)  # weights of the degrees 0 to 5

_POSTERIOR = (0.1, 0.4, 0.2, 0.3)  # public, of four classes

_PROJECTION = np.array([[0.6, 0.8, 0.0], [-0.8, 0.6, 1.0]], np.float32)

_GROUPS = np.array([0, 1, 0, 1, -1, 1], np.int32)


def _case(make: Callable[..., Any], label: str = "", **more: Any) -> Case:
    return Case("", make, audited=label, **more)


# Cases of another suite, or of a size that the audit alone asks.
_audited = functools.partial(_case, contract=False)
_of_list = functools.partial(_audited, lists=True)
_curator = functools.partial(_audited, central=True)
_hyperbolic = functools.partial(_audited, hyperbolic=True)


# In the order of the audit's table; before a hyphen is the public name. Small dimensions: laws are
# integrated over every subset and value.
CASES: dict[str, Case] = {
    "Laplace": _case(features.Laplace, "Laplace", largest=22.0),
    "Duchi": _case(features.Duchi, "Duchi"),
    "Piecewise": _case(features.Piecewise, "Piecewise", largest=40.0),
    "SuboptimalPiecewise": _case(features.SuboptimalPiecewise, "PM-SUB", largest=30.0),
    "OptimalPiecewise": _case(features.OptimalPiecewise, "PM-OPT", largest=30.0),
    "GeneralPiecewise-three": _audited(
        lambda e: features.GeneralPiecewise(e, 3.0), "Piecewise, t = 3"
    ),
    "GeneralPiecewise-third": _case(
        lambda e: features.GeneralPiecewise(e, exp(e / 3)), largest=30.0
    ),
    "Hybrid": _case(features.Hybrid, "Hybrid", largest=40.0),
    "ThreeOutputs": _case(features.ThreeOutputs, "Three outputs"),
    "SquareWave": _case(features.SquareWave, "Square wave"),
    "SquareWave-debias": _case(lambda e: features.SquareWave(e, debias=True)),
    "DuchiVector-even": _case(lambda e: features.DuchiVector(e, 4), "Duchi, d = 4"),
    "DuchiVector": _case(lambda e: features.DuchiVector(e, 3)),
    # On the ball, whose suite is their own: what a cap is must be known when they are made.
    "PrivUnit": _audited(lambda e: features.PrivUnit(e, 3), "PrivUnit, d = 3", largest=44.0),
    "PrivUnitG": _audited(lambda e: features.PrivUnitG(e, 3), "PrivUnitG, d = 3", largest=44.0),
    "ProjUnit": _audited(
        lambda e: features.ProjUnit(e, _PROJECTION), "ProjUnit, 3 to 2", largest=44.0
    ),
    "HDS-four": _audited(lambda e: features.HDS(e, 4, 2), "HDS, 2 of 4"),
    "HDS": _case(lambda e: features.HDS(e, 3, 2)),
    "HDS-debias": _case(lambda e: features.HDS(e, 3, 1, debias=True)),
    "MultiBit-four": _audited(lambda e: features.MultiBit(e, 4, 2), "Multi-bit, 2 of 4"),
    "MultiBit": _case(lambda e: features.MultiBit(e, 3, 2)),
    "MultiPiecewise-four": _audited(
        lambda e: features.MultiPiecewise(e, 4, 2), "Multi-piecewise, 2 of 4"
    ),
    "MultiPiecewise": _case(lambda e: features.MultiPiecewise(e, 3, 2), largest=80.0),
    "LaplaceVector-three": _audited(lambda e: features.LaplaceVector(e, 3), "Laplace, d = 3"),
    "LaplaceVector": _case(lambda e: features.LaplaceVector(e, 2), largest=44.0),
    "Sampled": _case(lambda e: features.Sampled(features.Duchi(e / 2), 4, 2, scale=0.5)),
    "Sampled-Hybrid-four": _audited(
        lambda e: features.Sampled(features.Hybrid(e / 2), 4, 2), "Sampled hybrid, 2 of 4"
    ),
    "Sampled-Hybrid": _case(lambda e: features.Sampled(features.Hybrid(e / 2), 3, 2)),
    "GeneralizedRR-eight": _audited(lambda e: features.GeneralizedRR(e, 8), "Generalised RR, 8"),
    "GeneralizedRR": _case(lambda e: features.GeneralizedRR(e, 4), table=True),
    "PersonalAlphabet": _case(
        lambda e: features.PersonalAlphabet(e, _POSTERIOR), "Personal alphabet", table=True
    ),
    "FeatureRR-three": _audited(lambda e: features.FeatureRR(e, 6, dim=3), "FeatureRR, d = 3"),
    "FeatureRR": _case(lambda e: features.FeatureRR(e, 5, dim=2), table=True),
    "RandomizedFeatures-six": _audited(
        lambda e: features.FeatureRR(e, 6, [0.2, 0.3, 0.5]), "FeatureRR, weighted"
    ),
    "RandomizedFeatures": _case(lambda e: features.FeatureRR(e, 4, [0.5, 1.0, 0.5]), table=True),
    "GridSquareWave-default": _audited(features.GridSquareWave, "Grid square wave"),
    "GridSquareWave": _case(lambda e: features.GridSquareWave(e, 17), table=True),
    "GridSquareWave-debias": _case(
        lambda e: features.GridSquareWave(e, 16, debias=True), table=True
    ),
    "GridPiecewise-default": _audited(features.GridPiecewise, "Grid piecewise"),
    "GridPiecewise": _case(lambda e: features.GridPiecewise(e, 17), table=True),
    # Above epsilon 5 or so eleven inputs are refused (a test of its own).
    "LPOptimal": _case(features.LPOptimal, "LP-optimal", table=True, epsilons=(0.1, 1.0, 4.0, 5.0)),
    "Sampled-grid-default": _audited(
        lambda e: features.Sampled(features.GridSquareWave(e / 2), 4, 2, scale=1.0),
        "Grid HDS, 2 of 4",
    ),
    "Sampled-grid": _case(
        lambda e: features.Sampled(features.GridSquareWave(e / 2, 5), 3, 2, scale=1.0), table=True
    ),
    "Discrete-menu": _audited(lambda e: features.menu([features.GeneralizedRR(e, 2)]), "a table"),
    "Discrete": _case(whisper, table=True),
    # These lists have six nodes; the loss is per bit of one list.
    "DPRR": _of_list(lambda e: edges.DPRR(0.1 * e, 0.9 * e, n=6), "DPRR"),
    "DPRR-geometric": _of_list(
        lambda e: edges.DPRR(0.1 * e, 0.9 * e, n=6, noise="geometric"), "DPRR, whole noise"
    ),
    "DPRR-prior": _of_list(
        lambda e: edges.DPRR(0.1 * e, 0.9 * e, prior=_PRIOR, n=6), "DPRR, public prior"
    ),
    "RandomizedResponse": _of_list(
        lambda e: edges.RandomizedResponse(e, n=6), "Randomised response"
    ),
    "LocalLap": _of_list(lambda e: edges.LocalLap.from_epsilon(e, n=6), "LocalLap"),
    "NoisyDegree": _of_list(lambda e: edges.NoisyDegree(e, n=6), "Noisy degree"),
    "NoisyDegree-geometric": _of_list(
        lambda e: edges.NoisyDegree(e, n=6, noise="geometric"), "Noisy degree, whole noise"
    ),
    # Two groups of six nodes, and one node in none; so few counts that all reports of whole noise
    # can be listed.
    "NeighbourCounts": _of_list(
        lambda e: edges.NeighbourCounts(e, 2, n=6, groups=_GROUPS, most=5),
        "Neighbour counts, 6 nodes",
    ),
    # These graphs have four or five nodes, on which chains need few sweeps; LapGraph's own count
    # would have 1 % of so few pairs.
    "EdgeRR": _curator(lambda e: curators.EdgeRR.from_epsilon(e, sweeps=64), "EdgeRR"),
    "PrivHRG": _curator(lambda e: curators.PrivHRG(e, sweeps=64), "PrivHRG"),
    "PublicHRG": _curator(lambda e: curators.PublicHRG(e, sweeps=64), "PublicHRG"),
    "BinnedPairs": _curator(curators.BinnedPairs, "BinnedPairs"),
    "EdgeRand": _curator(curators.EdgeRand, "EdgeRand"),
    "LapGraph": _curator(lambda e: curators.LapGraph.from_epsilon(e, share=0.5), "LapGraph"),
    # Vectors have two numbers; Gaussian noise is calibrated on the host, so that its epsilon is
    # numbers, no tracer.
    "HyperbolicGaussian": _hyperbolic(
        lambda e: hyperbolic.HyperbolicGaussian(e, 1e-5, clip=1.5), "Hyperbolic Gaussian"
    ),
    "RadialAngularGaussian": _hyperbolic(
        lambda e: hyperbolic.RadialAngularGaussian(e, 1e-5, clip=1.5, radial_share=0.3),
        "Radial-angular Gaussian",
    ),
    "HyperbolicExponential": _hyperbolic(
        lambda e: hyperbolic.HyperbolicExponential(e, radius=2.0),
        "Hyperbolic exponential",
        largest=22.0,
    ),
}
CASES = {name: case._replace(public=name.partition("-")[0]) for name, case in CASES.items()}


def register(name: str, case: Case) -> None:
    """Add a case to :data:`CASES`, for the suite and for the audit where ``audited`` is a label.

    ``ValueError`` for a name that is taken.
    """
    if name in CASES:
        raise ValueError(
            f"name must be a new one, got {name!r}, which is a case of {CASES[name].public}"
        )
    CASES[name] = case
