"""What one user does to a number or a vector; one file a published mechanism."""

from ldp_jax.features.duchi import Duchi
from ldp_jax.features.laplace import Laplace
from ldp_jax.features.piecewise import GeneralPiecewise, Piecewise
from ldp_jax.features.sampled import HDS, LaplaceVector, MultiBit, MultiPiecewise, Sampled, SparseReport
from ldp_jax.features.square_wave import SquareWave

__all__ = [
    "HDS",
    "Duchi",
    "GeneralPiecewise",
    "Laplace",
    "LaplaceVector",
    "MultiBit",
    "MultiPiecewise",
    "Piecewise",
    "Sampled",
    "SparseReport",
    "SquareWave",
]
