"""The laws of curators' releases on few nodes, by enumeration: what verification compares."""

import functools
import math
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int
from scipy import special

from ldp_jax.core import validate
from ldp_jax.core.quadrature import unit_rule
from ldp_jax.core.spaces import NotApplicable
from ldp_jax.core.types import Values
from ldp_jax.curators.all_dendrograms import bits_of, pairs_of
from ldp_jax.curators.binned_pairs import BinnedPairs
from ldp_jax.curators.edge_rand import EdgeRand
from ldp_jax.curators.lap_graph import LapGraph
from ldp_jax.curators.noisy_counts import consistent, whole
from ldp_jax.curators.release import CentralMechanism
from ldp_jax.curators.split import EdgeSplit
from ldp_jax.graph import graphs

# Whole noise is enumerated to e^-30 of its mass, on the same numbers for all graphs: no ratio
# becomes larger
_REACH = 30.0


@runtime_checkable
class HasReleaseLaw(Protocol):
    """A central mechanism that knows the law of its release.

    The library's own mechanisms have their laws in this module.
    """

    def release_law(self, split: EdgeSplit) -> Float[np.ndarray, " sets"]:
        """The log mass of each set of pairs (0, 1), (0, 2), .

        But public edges, set i by the bits of i.
        """


def split_of(public: Values, n: int, private: Values = ()) -> EdgeSplit:
    """The split of public and private edges, each a list of pairs, over n nodes."""
    both = (np.array(pairs, np.int32).reshape(-1, 2) for pairs in (public, private))
    return EdgeSplit(*(graphs.from_edges(pairs, n, pairs_in="rows") for pairs in both))


def candidates_of(split: EdgeSplit) -> Int[np.ndarray, "c 2"]:
    """The pairs that may be private edges, in order."""
    pairs = split.pairs()
    every = pairs_of(len(pairs.nodes))
    return pairs.nodes[every[~np.isin(pairs.codes(every), pairs.public)]]


def release_laws(m: CentralMechanism, split: EdgeSplit) -> Float[np.ndarray, "graphs sets"]:
    """The log mass of each set of pairs given each graph of private edges, both by their bits."""
    if isinstance(m, HasReleaseLaw):
        pairs = candidates_of(split)
        public = graphs.to_edges(split.public)
        each = [split_of(public, split.num_nodes, pairs[bits > 0]) for bits in bits_of(len(pairs))]
        log = np.stack([np.asarray(m.release_law(one), np.float64) for one in each])
    else:
        log = _known(m, split)
    sums = np.exp(log).sum(1)
    validate.require(np.abs(sums - 1).max() <= 1e-6, "release_law must give masses that sum to 1")
    return log


@functools.singledispatch
def _known(m: CentralMechanism, split: EdgeSplit) -> np.ndarray:
    raise NotApplicable(f"mechanism must have a release_law, got {type(m).__name__}")


@_known.register(EdgeRand)
def _edge_rand(m: EdgeRand, split: EdgeSplit) -> np.ndarray:
    """Every pair is told wrongly with probability 1 / (e^eps + 1)."""
    count = len(candidates_of(split))
    epsilon = float(m.epsilon)
    sets = np.arange(1 << count)
    wrong = np.bitwise_count(sets[:, None] ^ sets).astype(np.int64)
    return -wrong * np.logaddexp(0, epsilon) - (count - wrong) * np.logaddexp(0, -epsilon)


@_known.register(LapGraph)
def _lap_graph(m: LapGraph, split: EdgeSplit) -> np.ndarray:
    """The mass of T, and of a set to be the T largest noisy bits, by quadrature over the next."""
    count = len(candidates_of(split))
    true, size, both = np.indices((count + 1,) * 3)
    rest_true, rest = true - both, count - size
    possible = (both <= size) & (rest_true >= 0) & (rest_true <= rest)
    number = _clipped_laplace(size - true, size == 0, size == count, float(m.epsilon_count))
    powers = np.where(possible, (both, size - both, rest_true, rest - rest_true), 0)
    with np.errstate(divide="ignore"):
        log = np.log(np.where(possible, number * _top(powers, float(m.epsilon_edges)), 0.0))
    sets = np.arange(1 << count)
    sizes, overlap = (
        np.bitwise_count(each).astype(np.int64) for each in (sets, sets[:, None] & sets)
    )
    return log[sizes[:, None], sizes, overlap]


def _clipped_laplace(
    away: np.ndarray, first: np.ndarray, last: np.ndarray, rate: float
) -> np.ndarray:
    """The mass of Laplace noise within 1/2 of a whole number; beyond it too at both ends."""
    low = np.where(first, -np.inf, away - 0.5)
    high = np.where(last, np.inf, away + 0.5)
    low, high = np.where(high <= 0, -high, low), np.where(high <= 0, -low, high)  # mirrored
    tail = lambda z: np.exp(-rate * np.abs(z)) / 2
    return np.where(low >= 0, tail(low) - tail(high), 1 - tail(low) - tail(high))


def _top(powers: np.ndarray, rate: float) -> np.ndarray:
    """P(all released bits are above all others).

    ``powers`` count the true and false bits that are released, and the true and false others.
    """
    u, du = unit_rule(32)
    x, dx = unit_rule(256)
    # A bit's number is below 0, between 0 and 1, or above 1. A true and a false bit are below it
    # with the chances ``below``, and above it with the chances ``above``. Densities are the rate
    # times the smaller of the two.
    far = u * math.exp(-rate) / 2
    near = u / 2
    of_true = np.exp(-rate * (1 - x)) / 2
    of_false = np.exp(-rate * x) / 2
    below = np.concatenate([[far, near], [of_true, 1 - of_false], [1 - near, 1 - far]], 1)
    above = np.concatenate([[1 - far, 1 - near], [1 - of_true, of_false], [near, far]], 1)
    weight = np.concatenate([du / u, dx * rate, du / u])
    true, false, rest_true, rest_false = powers[..., None]
    largest = rest_true * np.minimum(below[0], above[0]) / below[0]
    largest = largest + rest_false * np.minimum(below[1], above[1]) / below[1]
    each = below[0] ** rest_true * below[1] ** rest_false * above[0] ** true * above[1] ** false
    some = powers[2] + powers[3] > 0
    return np.where(some, (largest * each * weight).sum(-1), 1.0)


@_known.register(BinnedPairs)
def _binned_pairs(m: BinnedPairs, split: EdgeSplit) -> np.ndarray:
    """All noisy counts of the bins, all roundings; sets of as many pairs of each bin are alike."""
    if m.noise != "geometric":
        raise NotApplicable("noise must be geometric, whose laws are sums")
    pairs = split.pairs()
    every = candidates_of(split)
    codes, sizes = m.ranked(split)
    place = np.full(len(pairs.nodes) ** 2, len(sizes) - 1)
    place[codes] = np.repeat(np.arange(len(sizes)), sizes)[: len(codes)]
    inside = (
        place[pairs.codes(np.searchsorted(pairs.nodes, every))] == np.arange(len(sizes))[:, None]
    )
    counts = bits_of(len(every)) @ inside.T  # of each set and bin

    epsilon = float(m.epsilon)
    reach = math.ceil(_REACH / epsilon) + 2
    axes = [np.arange(-reach, size + reach + 1) for size in sizes]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(sizes))
    steps = math.lcm(*range(1, len(sizes) + 1))  # consistent counts are multiples of its inverse
    near = consistent(grid, sizes)
    kinds, kind_of = np.unique(counts, axis=0, return_inverse=True)
    a = math.exp(-epsilon)
    mass = (1 - a) / (1 + a) * a ** np.abs(grid - kinds[:, None])
    mass = mass.prod(-1)  # of each kind of graph and each vector of noisy counts
    found = np.zeros((len(kinds), len(kinds)))
    for step in range(steps):
        rounded = whole(np.full(len(near), (step + 0.5) / steps), near, sizes)
        for place_of, kind in enumerate(kinds):
            found[:, place_of] += mass[:, (rounded == kind).all(1)].sum(1) / steps
    alike = (
        special.gammaln(sizes + 1) - special.gammaln(kinds + 1) - special.gammaln(sizes - kinds + 1)
    )
    with np.errstate(divide="ignore"):
        log = np.log(found) - alike.sum(1)
    kind_of = kind_of.ravel()
    return log[kind_of[:, None], kind_of]
