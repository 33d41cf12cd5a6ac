"""What one user does to her neighbour list, and the same for a whole graph at once."""

from ldp_jax.edges.dprr import DPRR
from ldp_jax.edges.local_laplace import LapReport, LocalLap
from ldp_jax.edges.neighbour_lists import ListReport, NeighbourList
from ldp_jax.edges.randomized_response import RandomizedResponse
from ldp_jax.edges.whole_graph import NoisyGraph, privatize_graph, public_part

__all__ = [
    "DPRR",
    "LapReport",
    "ListReport",
    "LocalLap",
    "NeighbourList",
    "NoisyGraph",
    "RandomizedResponse",
    "privatize_graph",
    "public_part",
]


def __dir__() -> list[str]:
    return __all__
