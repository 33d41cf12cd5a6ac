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
from ldp_jax.core.types import Graph, Values
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

    def graph_of(pairs: Values) -> Graph:
        rows = np.array(pairs, np.int32).reshape(-1, 2)
        return graphs.from_edges(rows, n, pairs_in="rows")

    return EdgeSplit(graph_of(public), graph_of(private))


def candidates_of(split: EdgeSplit) -> Int[np.ndarray, "c 2"]:
    """The pairs that may be private edges, in order."""
    pairs = split.pairs()
    every = pairs_of(len(pairs.nodes))
    public = np.isin(pairs.codes(every), pairs.public)
    return pairs.nodes[every[~public]]


def release_laws(m: CentralMechanism, split: EdgeSplit) -> Float[np.ndarray, "graphs sets"]:
    """The log mass of each set of pairs given each graph of private edges, both by their bits."""
    if isinstance(m, HasReleaseLaw):
        pairs = candidates_of(split)
        public = graphs.to_edges(split.public)
        laws = []
        for bits in bits_of(len(pairs)):
            one = split_of(public, split.num_nodes, pairs[bits > 0])
            laws.append(np.asarray(m.release_law(one), np.float64))
        log = np.stack(laws)
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
    cost_wrong = np.logaddexp(0, epsilon)  # minus the logarithm of its probability
    cost_right = np.logaddexp(0, -epsilon)
    return -wrong * cost_wrong - (count - wrong) * cost_right


@_known.register(LapGraph)
def _lap_graph(m: LapGraph, split: EdgeSplit) -> np.ndarray:
    """The mass of T, and of a set to be the T largest noisy bits, by quadrature over the next."""
    count = len(candidates_of(split))
    true, size, both = np.indices((count + 1,) * 3)
    rest_true = true - both
    rest = count - size
    possible = (both <= size) & (rest_true >= 0) & (rest_true <= rest)

    of_size = _clipped_laplace(size - true, size == 0, size == count, float(m.epsilon_count))
    powers = np.where(possible, (both, size - both, rest_true, rest - rest_true), 0)
    of_set = _top(powers, float(m.epsilon_edges))
    with np.errstate(divide="ignore"):
        log = np.log(np.where(possible, of_size * of_set, 0.0))

    sets = np.arange(1 << count)
    sizes = np.bitwise_count(sets).astype(np.int64)
    overlap = np.bitwise_count(sets[:, None] & sets).astype(np.int64)
    return log[sizes[:, None], sizes, overlap]


def _clipped_laplace(
    away: np.ndarray, first: np.ndarray, last: np.ndarray, rate: float
) -> np.ndarray:
    """The mass of Laplace noise within 1/2 of a whole number; beyond it too at both ends."""
    low = np.where(first, -np.inf, away - 0.5)
    high = np.where(last, np.inf, away + 0.5)
    # An interval below 0 has the mass of its mirror image.
    mirrored = high <= 0
    near = np.where(mirrored, -high, low)
    far = np.where(mirrored, -low, high)

    tail = lambda z: np.exp(-rate * np.abs(z)) / 2
    return np.where(near >= 0, tail(near) - tail(far), 1 - tail(near) - tail(far))


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

    # The integral over the largest of the other bits, a true or a false one.
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
    bins = np.arange(len(sizes))
    bin_of = np.full(len(pairs.nodes) ** 2, len(sizes) - 1)
    bin_of[codes] = np.repeat(bins, sizes)[: len(codes)]
    every_code = pairs.codes(np.searchsorted(pairs.nodes, every))
    inside = bin_of[every_code] == bins[:, None]
    counts = bits_of(len(every)) @ inside.T  # of each set and bin

    # The mass of each vector of noisy counts, for each kind of graph.
    epsilon = float(m.epsilon)
    reach = math.ceil(_REACH / epsilon) + 2
    axes = [np.arange(-reach, size + reach + 1) for size in sizes]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(sizes))
    kinds, kind_of = np.unique(counts, axis=0, return_inverse=True)
    a = math.exp(-epsilon)
    mass = (1 - a) / (1 + a) * a ** np.abs(grid - kinds[:, None])
    mass = mass.prod(-1)

    near = consistent(grid, sizes)
    steps = math.lcm(*range(1, len(sizes) + 1))  # consistent counts are multiples of its inverse
    found = np.zeros((len(kinds), len(kinds)))
    for step in range(steps):
        rounded = whole(np.full(len(near), (step + 0.5) / steps), near, sizes)
        for released, kind in enumerate(kinds):
            found[:, released] += mass[:, (rounded == kind).all(1)].sum(1) / steps

    log_factorial = lambda number: special.gammaln(number + 1)
    log_sets = log_factorial(sizes) - log_factorial(kinds) - log_factorial(sizes - kinds)
    with np.errstate(divide="ignore"):
        log = np.log(found) - log_sets.sum(1)
    kind_of = kind_of.ravel()
    return log[kind_of[:, None], kind_of]
