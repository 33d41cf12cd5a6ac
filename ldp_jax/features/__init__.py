"""Mechanisms on numbers, vectors and categories: one file for each published one."""

from ldp_jax.core.personal_alphabets import Alphabets, alphabets
from ldp_jax.features import distribution
from ldp_jax.features.choice import Choice, choose
from ldp_jax.features.discrete import Discrete, menu
from ldp_jax.features.duchi import Duchi
from ldp_jax.features.duchi_vector import DuchiVector
from ldp_jax.features.feature_rr import FeatureRR, RandomizedFeatures, importance_weights
from ldp_jax.features.generalized_rr import GeneralizedRR
from ldp_jax.features.gridded import GridPiecewise, GridSquareWave
from ldp_jax.features.hybrid import BranchReport, Hybrid
from ldp_jax.features.laplace import Laplace
from ldp_jax.features.lp_optimal import LPOptimal
from ldp_jax.features.personal_alphabet import PersonalAlphabet, PersonalAlphabets
from ldp_jax.features.piecewise import (
    GeneralPiecewise,
    OptimalPiecewise,
    Piecewise,
    SuboptimalPiecewise,
)
from ldp_jax.features.privunit import PrivUnit, PrivUnitG
from ldp_jax.features.projunit import ProjUnit, random_projection
from ldp_jax.features.sampled import (
    HDS,
    LaplaceVector,
    MultiBit,
    MultiPiecewise,
    Sampled,
    SparseReport,
)
from ldp_jax.features.square_wave import SquareWave
from ldp_jax.features.three_outputs import ThreeOutputs

__all__ = [
    "HDS",
    "Alphabets",
    "BranchReport",
    "Choice",
    "Discrete",
    "Duchi",
    "DuchiVector",
    "FeatureRR",
    "GeneralPiecewise",
    "GeneralizedRR",
    "GridPiecewise",
    "GridSquareWave",
    "Hybrid",
    "LPOptimal",
    "Laplace",
    "LaplaceVector",
    "MultiBit",
    "MultiPiecewise",
    "OptimalPiecewise",
    "PersonalAlphabet",
    "PersonalAlphabets",
    "Piecewise",
    "PrivUnit",
    "PrivUnitG",
    "ProjUnit",
    "RandomizedFeatures",
    "Sampled",
    "SparseReport",
    "SquareWave",
    "SuboptimalPiecewise",
    "ThreeOutputs",
    "alphabets",
    "choose",
    "distribution",
    "importance_weights",
    "menu",
    "random_projection",
]

__dir__ = lambda: __all__
