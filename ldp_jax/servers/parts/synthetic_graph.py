"""A synthetic graph from the number of friends that each user has in each group."""

import numpy as np
from jaxtyping import Float, Int

from ldp_jax.core.types import Graph
from ldp_jax.graph import graphs

_FALL = 0.5  # of the chance of a link in a block, from degree 0 to the largest degree


def draw_graph(
    rng: np.random.Generator,
    counts: Float[np.ndarray, "n groups"],
    groups: Int[np.ndarray, " n"],
    affinity: float,
) -> Graph:
    """A graph with half as many links as the sum of counts, in O(links log users)."""
    n, k = counts.shape
    totals = np.zeros((k, k))
    np.add.at(totals, groups, counts)
    links = max(round(totals.sum() / 2), 0)
    if not links:
        return graphs.from_edges([], n)

    # The first phase of BTER, within groups; the second one draws what it leaves.
    weights = np.maximum(counts, 0.0) + 1e-9
    inner = np.arange(n), groups
    within = np.maximum(np.diag(totals), 0.0)
    weight_within = np.bincount(groups, weights[inner], k)
    scale = within / (weight_within + 1e-9)
    degrees = weights[inner] * scale[groups]
    dense, expected = _in_blocks(rng, degrees, groups, affinity)

    weights[inner] = np.maximum(degrees - expected, 1e-9)
    done = np.diag(np.bincount(groups[dense[:, 0]], minlength=k))
    chance = np.maximum(totals + totals.T - 4 * done, 1e-9).ravel()
    cells = rng.choice(k * k, 2 * links, p=chance / chance.sum())
    one, other = np.divmod(cells, k)

    # Users by group, for each group that they count: a sum up to each, of all groups in a row.
    order = np.argsort(groups, kind="stable")
    first = np.searchsorted(groups[order], np.arange(k + 1))
    ends = np.append(0.0, weights[order].T.cumsum())

    def drawn(mine: np.ndarray, counted: np.ndarray) -> np.ndarray:
        """A member of each group ``mine``, by the count of the group ``counted``."""
        low = counted * n + first[mine]
        high = counted * n + first[mine + 1]
        total = ends[high] - ends[low]
        place = ends[low] + rng.random(len(mine)) * total
        rising = np.argsort(place)  # a search for rising numbers stays in the cache
        found = np.empty_like(rising)
        found[rising] = np.searchsorted(ends, place[rising], "right") - 1
        return order[np.clip(found, low, high - 1) % n]

    sparse = np.stack([drawn(one, other), drawn(other, one)], 1)
    pairs = np.sort(np.concatenate([rng.permutation(dense), sparse]))
    pairs = pairs[pairs[:, 0] < pairs[:, 1]]
    _, first_of_each = np.unique(pairs @ [n, 1], return_index=True)
    kept = np.sort(first_of_each)[:links]
    return graphs.from_edges(pairs[kept], n, pairs_in="rows")


def _in_blocks(
    rng: np.random.Generator,
    degrees: Float[np.ndarray, " n"],
    groups: Int[np.ndarray, " n"],
    affinity: float,
) -> tuple[Int[np.ndarray, "links 2"], Float[np.ndarray, " n"]]:
    """Links within blocks of like degree, and how many of them each user can expect.

    A user of degree d fills 1 / (d + 1) of a block, so that all blocks together have at most half
    as many pairs as the sum of degrees. Chance orders users of one degree, since the order of users
    may tell of communities.
    """
    order = np.lexsort((rng.random(len(groups)), degrees, groups))
    inner = degrees[order]
    group = groups[order]
    before = np.append(0.0, np.cumsum(1 / (inner + 1)))[:-1]
    first = np.searchsorted(group, group)
    filled = before - before[first]
    block = group * len(order) + np.floor(filled + 1e-9)
    start = np.searchsorted(block, block)
    size = np.searchsorted(block, block, "right") - start
    fall = np.log1p(inner[start]) / np.log1p(inner.max() + 1e-9)
    chance = affinity * (1 - _FALL * fall**2)

    # Each user meets the users of the block who stand before.
    user = np.arange(len(order))
    met = user - start
    one = np.repeat(user, met)
    other = np.arange(len(one)) - np.repeat(met.cumsum() - user, met)
    linked = rng.random(len(one)) < chance[one]
    pairs = np.stack([one, other], 1)[linked]
    expected = chance * (size - 1)
    return order[pairs], expected[np.argsort(order)]
