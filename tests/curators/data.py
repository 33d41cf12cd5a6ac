"""Small graphs of which some edges are private."""

import numpy as np
import pytest

from ldp_jax.curators import BinnedPairs, EdgeRand, EdgeRR, EdgeSplit, LapGraph, PrivHRG, PublicHRG
from ldp_jax.graph import graphs

# Chains of eight sweeps, one program for all: they need not come far.
MECHANISMS = {
    "EdgeRR": lambda e: EdgeRR(e / 2, e / 2, sweeps=8),
    "EdgeRR, as published": lambda e: EdgeRR.as_published(e / 2, e / 2, sweeps=2),
    "PrivHRG": lambda e: PrivHRG(e, sweeps=8),
    "PublicHRG": lambda e: PublicHRG(e, sweeps=8),
    "BinnedPairs": BinnedPairs,
    "BinnedPairs, laplace": lambda e: BinnedPairs(e, noise="laplace"),
    "EdgeRand": EdgeRand,
    "LapGraph": lambda e: LapGraph.from_epsilon(e, share=0.5),
}
every_mechanism = pytest.mark.parametrize("name", MECHANISMS)
HIDDEN = np.arange(30) % 5 != 0
"""24 of 30 nodes are private: all chains have one size, and few programs."""


def random_split(n, public, private, seed, hidden=None):
    """Random edges between n nodes; private ones between the nodes of ``hidden``, bool [n]."""
    rng = np.random.default_rng(seed)
    hidden = np.ones(n, bool) if hidden is None else hidden
    low, high = rng.permutation(np.stack(np.triu_indices(n, 1), 1)).T
    inside = np.flatnonzero(hidden[low] & hidden[high])[:private]
    rest = np.setdiff1d(np.arange(len(low)), inside, assume_unique=True)[:public]
    made = [
        graphs.from_edges(np.stack([low[at], high[at]], 1), n, pairs_in="rows")
        for at in (rest, inside)
    ]
    return EdgeSplit(*made, hidden)
