"""Small graphs of which some edges are private."""

import numpy as np

from ldp_jax.edges.curator import EdgeSplit
from ldp_jax.graph import graphs


def random_split(n, public, private, seed, hidden=None):
    """Random edges between n nodes; private ones between the nodes of ``hidden``, bool [n]."""
    rng = np.random.default_rng(seed)
    hidden = np.ones(n, bool) if hidden is None else hidden
    low, high = rng.permutation(np.stack(np.triu_indices(n, 1), 1)).T
    inside = np.flatnonzero(hidden[low] & hidden[high])[:private]
    rest = np.setdiff1d(np.arange(len(low)), inside, assume_unique=True)[:public]
    made = [graphs.from_edges(np.stack([low[at], high[at]], 1), n, pairs_in="rows") for at in (rest, inside)]
    return EdgeSplit(*made, hidden)


def loss_over_counts(law, most):
    """The largest |log ratio| of an output between counts that differ by one in one place.

    Args:
      law: float [*(most + 1), outputs], the law of the output given each vector of counts; what is rarer than 1e-9
        is left out, because noise is cut off at 1e-10 of its mass.
      most: how much each count can be.
    """
    worst = 0.0
    for axis in range(len(most)):
        a, b = np.moveaxis(law, axis, 0)[1:], np.moveaxis(law, axis, 0)[:-1]
        seen = (a > 1e-9) & (b > 1e-9)
        worst = max(worst, np.abs(np.log(a[seen] / b[seen])).max())
    return worst


def geometric_mass(epsilon, z):
    """P(z) of whole noise."""
    a = np.exp(-epsilon)
    return (1 - a) / (1 + a) * a ** np.abs(z)


def noisy_grid(most, epsilon, reach=24):
    """All vectors of noisy counts within reach, int [g, k], and their mass given each count, [*(most + 1), g]."""
    axes = [np.arange(-reach, m + reach + 1) for m in most]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(most))
    mass = np.ones((1,) * len(most) + (len(grid),))
    for axis, m in enumerate(most):
        shape = [1] * len(most) + [len(grid)]
        shape[axis] = m + 1
        mass = mass * geometric_mass(epsilon, grid[:, axis] - np.arange(m + 1)[:, None]).reshape(shape)
    return grid, mass
