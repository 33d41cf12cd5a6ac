"""Edges under a trusted curator, who holds the whole graph.

Releases with edge-level central privacy.

``release(key, split, mechanism)`` is the whole API; an :class:`EdgeSplit` says which edges are
public. Where every edge is private, ``ldp_jax.edges.privatize_graph(key, graph, mechanism)`` is the
same.
"""

from ldp_jax.curators import connections, hrg
from ldp_jax.curators.binned_pairs import BinnedPairs
from ldp_jax.curators.edge_rand import EdgeRand
from ldp_jax.curators.edge_rr import EdgeRR, PrivHRG
from ldp_jax.curators.lap_graph import LapGraph
from ldp_jax.curators.public_hrg import PublicHRG
from ldp_jax.curators.release import (
    CentralMechanism,
    DendrogramLaw,
    HasDendrogram,
    HasStationaryLaw,
    promised,
    release,
)
from ldp_jax.curators.split import EdgeSplit, split_edges

__all__ = [
    "BinnedPairs",
    "CentralMechanism",
    "DendrogramLaw",
    "EdgeRR",
    "EdgeRand",
    "EdgeSplit",
    "HasDendrogram",
    "HasStationaryLaw",
    "LapGraph",
    "PrivHRG",
    "PublicHRG",
    "connections",
    "hrg",
    "promised",
    "release",
    "split_edges",
]

__dir__ = lambda: __all__
