"""Small graphs of which some edges are private."""

import numpy as np

from ldp_jax.curators import EdgeSplit
from ldp_jax.graph import graphs


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
