"""Mechanisms on one user's neighbour list, and the same for a whole graph at once."""

from ldp_jax.core.ownership import Ownership, ownership
from ldp_jax.edges import curator as curator
from ldp_jax.edges._one_by_one import HasServer, OneUsersView
from ldp_jax.edges.blink import (
    DegreePrior,
    NoisyLinks,
    PosteriorLinks,
    Variant,
    degree_prior,
    posterior_links,
    private_links,
)
from ldp_jax.edges.dprr import DPRR
from ldp_jax.edges.lists import LapReport, ListReport, NeighbourList
from ldp_jax.edges.local_laplace import LocalLap
from ldp_jax.edges.neighbour_counts import NeighbourCounts
from ldp_jax.edges.neighbour_lists import HasBitLaw, Reporting
from ldp_jax.edges.noisy_degree import NoisyDegree
from ldp_jax.edges.population import HasGraphSampler, Population, ReportedPairs
from ldp_jax.edges.randomized_response import RandomizedResponse
from ldp_jax.edges.whole_counts import NoisyCounts, count_neighbours, privatize_counts
from ldp_jax.edges.whole_graph import NoisyGraph, privatize_graph, public_part

__all__ = [
    "DPRR",
    "DegreePrior",
    "HasBitLaw",
    "HasGraphSampler",
    "HasServer",
    "LapReport",
    "ListReport",
    "LocalLap",
    "NeighbourCounts",
    "NeighbourList",
    "NoisyCounts",
    "NoisyDegree",
    "NoisyGraph",
    "NoisyLinks",
    "OneUsersView",
    "Ownership",
    "Population",
    "PosteriorLinks",
    "RandomizedResponse",
    "Reporting",
    "ReportedPairs",
    "Variant",
    "count_neighbours",
    "degree_prior",
    "ownership",
    "posterior_links",
    "private_links",
    "privatize_counts",
    "privatize_graph",
    "public_part",
]

__dir__ = lambda: __all__
