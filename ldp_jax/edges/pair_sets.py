"""Sets of pairs in place of a matrix: those of the largest noisy bits, and random false ones.

A server that keeps the T largest values A_ij + Lap(1 / epsilon) looks at their order alone. So a
value is replaced by its score: the chance that the noise of a false pair is larger. Scores of false
pairs are independent uniforms, of which at most the T smallest matter; which pairs have them is
independent of their values.
"""

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.core import random
from ldp_jax.core.types import Array, PRNGKey
from ldp_jax.edges.draws import below, contains, ordinal, padded, smallest, uniforms

# If more than this share of a graph's pairs is true or wanted, false ones come from a list of all.
_DENSE = 0.5
# Times the expected number of pairs, and some more, are drawn at once; if too few, once more.
_MARGIN = 1.1
_EXTRA = 8


def largest(
    keys: tuple[PRNGKey, PRNGKey, PRNGKey],
    epsilon: float,
    true: np.ndarray,
    edges: np.ndarray,
    false: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Choose the pairs of the largest noisy bits: which true ones, and how many false [graphs].

    ``true`` is the graph of each true pair. In each graph ``edges`` pairs are chosen, and ``false``
    pairs are false.
    """
    true_key, least_key, among_key = keys
    least = np.minimum(edges, false)
    among = np.repeat(np.arange(len(edges)), least)
    true_score = _true_scores(uniforms(true_key, len(true)), epsilon)

    # The (least + 1)-th smallest of as many uniforms as there are false pairs, 1 where there are
    # ``least``; below it, ``least`` are independent uniforms. Spacings of the hazards -log(1 - s)
    # are independent: the j-th is exponential, of rate false - j, j from 0.
    some_larger = least < false
    which = np.repeat(np.arange(len(false)), np.where(some_larger, least + 1, 0))
    rate = false[which] - ordinal(which)
    spacing = -np.log(uniforms(least_key, len(which))) / rate
    hazard = np.bincount(which, weights=spacing, minlength=len(false))
    ceiling = np.where(some_larger, -np.expm1(-hazard), 1.0)

    false_score = ceiling[among] * uniforms(among_key, len(among))
    owner = np.concatenate([true, among])
    chosen = smallest(np.concatenate([true_score, false_score]), owner, edges)
    is_true = chosen < len(true)
    false_of = owner[chosen[~is_true]]
    return chosen[is_true], np.bincount(false_of, minlength=len(edges))


def _true_scores(u: np.ndarray, epsilon: float) -> np.ndarray:
    """The scores of true pairs: P(Lap > 1 + L) where P(Lap > L) = u, without logarithms."""
    shrink = np.exp(-epsilon)
    rest = np.maximum(1 - u, 2.0**-65)
    within_one = shrink / (4 * rest)  # L in [-1, 0]
    below = np.where(rest >= shrink / 2, within_one, 1 - rest / shrink)
    return np.where(u <= 0.5, u * shrink, below)


def false_pairs(
    key: PRNGKey,
    wanted: np.ndarray,
    size: np.ndarray,
    true: np.ndarray,
    true_count: np.ndarray,
) -> np.ndarray:
    """Draw ``wanted`` distinct false pairs of each graph, all sets alike, as codes in no order.

    Nodes are numbered through, ``size`` in a graph; the code of a pair is low * nodes + high. The
    ``true`` codes, sorted, are not false. Uniform pairs are drawn with replacement; the first that
    are neither true nor drawn before make a uniform set. Graphs of which most pairs are true or
    wanted are done by a list of all pairs.
    """
    pairs = size * (size - 1) // 2
    dense = wanted + true_count > _DENSE * pairs
    first = np.cumsum(size) - size
    width = np.int64(max(size.sum(), 1))
    list_key, key = random.split(key)
    found = [_from_all(list_key, np.where(dense, wanted, 0), size, true)]
    missing = np.where(dense, 0, wanted)
    chance = (pairs - true_count - wanted + 1) / np.maximum(pairs, 1)
    turn = 0
    while missing.any():
        enough = np.ceil(_MARGIN * missing / np.maximum(chance, 1e-300)).astype(np.int64)
        graph = np.repeat(np.arange(len(size)), enough + _EXTRA * (missing > 0))
        sizes = padded(size[graph].astype(np.int32), 2)
        ends = _ends(random.fold_in(key, turn), sizes)
        low, high = (first[graph] + np.asarray(end)[: len(graph)] for end in ends)
        code = low * width + high

        # Of those that are not true the first of each code, as many as are missing.
        new = np.flatnonzero(~contains(true, code))
        _, first_of_code = np.unique(code[new], return_index=True)
        new = new[np.sort(first_of_code)]
        new = new[ordinal(graph[new]) < missing[graph[new]]]

        missing = missing - np.bincount(graph[new], minlength=len(size))
        turn += 1
        found.append(code[new])
        if missing.any():
            true = np.sort(np.concatenate([true, code[new]]), kind="stable")
    return np.concatenate(found)


def other_pairs(key: PRNGKey, wanted: int, places: int, known: np.ndarray) -> np.ndarray:
    """:func:`false_pairs` of one graph: pairs of places that are not among sorted known codes."""
    return false_pairs(key, np.array([wanted]), np.array([places]), known, np.array([len(known)]))


@jax.jit
def _ends(key: PRNGKey, size: Array) -> tuple[Array, Array]:
    """Uniform pairs of distinct places below ``size``, the lower one first."""
    one_key, other_key = random.split(key)
    one = below(one_key, size)
    other = below(other_key, size - 1)
    other = other + (other >= one)
    return jnp.minimum(one, other), jnp.maximum(one, other)


def _from_all(key: PRNGKey, wanted: np.ndarray, size: np.ndarray, true: np.ndarray) -> np.ndarray:
    """``wanted`` false pairs of each graph, from a list of all pairs where any is wanted."""
    first = np.cumsum(size) - size
    graph = np.repeat(np.arange(len(size)), size)
    node = np.arange(len(graph))
    higher = np.where(wanted[graph] > 0, (first + size)[graph] - 1 - node, 0)
    low = np.repeat(node, higher)
    code = low * np.int64(max(len(graph), 1)) + low + 1 + ordinal(low)
    false = ~contains(true, code)
    code = code[false]
    owner = graph[low[false]]
    return code[smallest(uniforms(key, len(code)), owner, wanted)]
