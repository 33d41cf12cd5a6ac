"""A graph with records, and sets of graphs, drawn from models: for tests of any size."""

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse
from typing_extensions import TypeAliasType

from ldp_jax.core import validate
from ldp_jax.core.validate import require
from ldp_jax.datasets._dataset import Dataset
from ldp_jax.datasets.splits import generator

if TYPE_CHECKING:
    import jax

Number = TypeAliasType("Number", float | int)
"""A real number."""

_ROUNDS = 200
_SWAPS = 100  # proposed for each edge; the number of triangles stops falling after about ten
# Hubs are cut at this many times the least weight, or they would exhaust their pairs.
_LARGEST_WEIGHT = 30.0


def synthetic(
    key: "jax.Array",
    *,
    num_nodes: int,
    num_classes: int,
    num_features: int,
    mean_degree: Number,
    homophily: Number,
    degree_exponent: Number = 2.5,
    words_per_node: Number = 10.0,
    topicality: Number = 0.5,
) -> Dataset:
    """Draw an attributed degree-corrected block model with a chosen edge homophily.

    Classes are nearly equal in size. Each of ``num_nodes mean_degree / 2`` edges joins two nodes of
    one class with probability ``homophily``; within classes ends are drawn in proportion to node
    weights from a power law. Each of about ``words_per_node`` words of a node comes, with
    probability ``topicality``, from those of its class (word j belongs to class j mod
    ``num_classes``), else from all, in both cases by Zipf's law. A feature is 1 where its word was
    drawn. Time and memory are O(nodes + edges + words). ``ValueError`` for less than 2 classes,
    fewer nodes or features than classes, a probability outside [0, 1], a mean <= 0,
    ``degree_exponent`` (of the power law) <= 2, or a graph too dense for its number of nodes.

    >>> import jax
    >>> data = synthetic(
    ...     jax.random.key(0),
    ...     num_nodes=100,
    ...     num_classes=4,
    ...     num_features=50,
    ...     mean_degree=6,
    ...     homophily=0.8,
    ... )
    >>> data.num_edges, data.num_classes, data.scaled_rows(0, 3).shape
    (300, 4, (3, 50))
    """
    from ldp_jax.graph import graphs

    rng = generator(key)
    validate.integer_in(2, num_classes=num_classes)
    validate.integer_in(num_classes, 2**31 - 1, num_nodes=num_nodes, num_features=num_features)
    validate.positive(mean_degree=mean_degree, words_per_node=words_per_node)
    validate.in_range(0.0, 1.0, homophily=homophily, topicality=topicality)
    validate.in_range(2.0, np.inf, open_lower=True, degree_exponent=degree_exponent)
    y = rng.permutation(np.arange(num_nodes, dtype=np.int32) % num_classes)
    edges = _edges(rng, y, num_classes, mean_degree, homophily, degree_exponent)

    words = rng.poisson(words_per_node, num_nodes)
    node = np.repeat(np.arange(num_nodes), words)
    # The classes have equally frequent words.
    zipf = 1 / (1 + np.arange(num_features) // num_classes)
    word = rng.choice(num_features, len(node), p=zipf / zipf.sum())
    topical = rng.random(len(node)) < topicality
    word[topical] += y[node[topical]] - word[topical] % num_classes
    over = word >= num_features  # the last, incomplete group of words: back to the group before it
    word[over] -= num_classes

    node, word = np.divmod(np.unique(node * num_features + word), num_features)
    ones = np.ones(len(node), np.float32)
    starts = np.searchsorted(node, np.arange(num_nodes + 1)).astype(np.int32)
    shape = (num_nodes, num_features)
    return Dataset(
        name="synthetic",
        graph=graphs.from_edges(edges, num_nodes, pairs_in="rows"),
        x=scipy.sparse.csr_array((ones, word.astype(np.int32), starts), shape=shape),
        y=y,
        lower=0.0,
        upper=1.0,
        source="ldp_jax.datasets.synthetic",
        licence="drawn from a model; no rights",
    )


class _Weighted:
    """Nodes that are drawn within a class in proportion to their weights."""

    def __init__(self, y: np.ndarray, num_classes: int, weight: np.ndarray) -> None:
        self.order = np.argsort(y, kind="stable")
        self.total = np.concatenate([[0.0], np.cumsum(weight[self.order])])
        self.first = np.searchsorted(y[self.order], np.arange(num_classes + 1))
        self.mass = np.diff(self.total[self.first])

    def draw(self, rng: np.random.Generator, classes: np.ndarray) -> np.ndarray:
        first = self.first[classes]
        last = self.first[classes + 1] - 1
        point = self.total[first] + rng.random(len(classes)) * self.mass[classes]
        at = np.searchsorted(self.total, point, side="right") - 1
        return self.order[np.clip(at, first, last)]


def _edges(
    rng: np.random.Generator,
    y: np.ndarray,
    num_classes: int,
    mean_degree: Number,
    homophily: Number,
    degree_exponent: Number,
) -> np.ndarray:
    n = len(y)
    power_law = rng.random(n) ** (-1 / (degree_exponent - 1))
    nodes = _Weighted(y, num_classes, np.minimum(power_law, _LARGEST_WEIGHT))
    total = round(n * mean_degree / 2)
    within = int(rng.binomial(total, homophily))
    share = nodes.mass / nodes.mass.sum()

    def inside(count: int) -> tuple[np.ndarray, np.ndarray]:
        classes = rng.choice(num_classes, count, p=share**2 / np.sum(share**2))
        return classes, classes

    def across(count: int) -> tuple[np.ndarray, np.ndarray]:
        pairs = rng.choice(num_classes, (2, 2 * count + 8), p=share)
        a, b = pairs[:, pairs[0] != pairs[1]][:, :count]
        return a, b

    sizes = np.bincount(y).astype(np.int64)
    pairs_inside = int((sizes * (sizes - 1) // 2).sum())
    chosen = []
    for count, classes, room in (
        (within, inside, pairs_inside),
        (total - within, across, n * (n - 1) // 2 - pairs_inside),
    ):
        require(
            count <= room // 2,
            f"mean_degree must leave half of the pairs {classes.__name__} classes free: it asks "
            f"for {count} edges among {room} pairs, got {mean_degree}",
        )
        found = np.zeros(0, np.int64)
        for _ in range(_ROUNDS):  # the first distinct pairs that are drawn
            missing = count - len(found)
            if not missing:
                break
            one, other = classes(missing + missing // 4 + 8)
            u = nodes.draw(rng, one)
            v = nodes.draw(rng, other)
            code = np.concatenate([found, _code(u, v, n)[u != v]])
            _, first = np.unique(code, return_index=True)
            found = code[np.sort(first)][:count]
        lower = f"mean_degree must be lower for {n} nodes with such unequal weights"
        require(len(found) == count, f"{lower}, got {mean_degree}")
        chosen.append(found)
    code = np.concatenate(chosen)
    return np.stack([code // n, code % n], 1)


def synthetic_graphs(
    key: "jax.Array",
    *,
    num_graphs: int,
    num_nodes: tuple[int, int] = (20, 60),
    group_size: tuple[int, int] = (4, 12),
    within: Number = 0.8,
    across: Number = 0.02,
) -> Dataset:
    """Draw graphs of two classes that degrees cannot tell apart: communities (1), or rewired (0).

    Pairs within a group are joined with probability ``within``, others with ``across``. Half of the
    graphs, at random, are then rewired by double-edge swaps (a-b and c-d become a-d and c-b): every
    degree is kept, and all else is forgotten. Time and memory are O(pairs of nodes). ``num_nodes``
    >= 4 are the least and most nodes of a graph, ``group_size`` of a group; both are uniform.
    ``ValueError`` for a parameter outside its range, or 2^31 pairs of nodes.

    >>> import jax
    >>> data = synthetic_graphs(jax.random.key(0), num_graphs=10)
    >>> data.y.tolist(), int(data.node_graph.max())
    ([1, 0, 0, 1, 1, 1, 0, 0, 0, 1], 9)
    """
    from ldp_jax.graph import graphs

    rng = generator(key)
    validate.integer_in(2, 2**31 - 1, num_graphs=num_graphs)
    least, most = _range("num_nodes", num_nodes, 4)
    smallest, largest = _range("group_size", group_size, 1)
    validate.in_range(0.0, 1.0, within=within, across=across)
    require(
        num_graphs * most * (most - 1) // 2 <= 2**31,
        f"num_graphs times pairs of num_nodes must be below 2^31, got {num_graphs} of {most} nodes",
    )

    sizes = rng.integers(least, most + 1, num_graphs)
    first = np.cumsum(sizes) - sizes
    n = int(sizes.sum())
    node_graph = np.repeat(np.arange(num_graphs, dtype=np.int32), sizes)
    # More groups than are needed, as a group has a node.
    lengths = rng.integers(smallest, largest + 1, n + num_graphs)
    # Groups follow each other through all nodes, and a graph begins a new one.
    starts = np.zeros(n, bool)
    ends = np.cumsum(lengths)
    starts[ends[ends < n]] = True
    starts[first] = True
    group = np.cumsum(starts)

    # All pairs of nodes of one graph, and those of them that are joined.
    later = (first + sizes)[node_graph] - 1 - np.arange(n)  # the nodes of the graph after each
    u = np.repeat(np.arange(n), later)
    v = u + 1 + np.arange(len(u)) - np.repeat(np.cumsum(later) - later, later)
    chance = np.where(group[u] == group[v], within, across)
    joined = rng.random(len(u)) < chance

    y = rng.permutation(np.arange(num_graphs, dtype=np.int32) % 2)
    edges = np.stack([u[joined], v[joined]], 1)
    forgets = y[node_graph[edges[:, 0]]] == 0
    edges[forgets] = _rewired(rng, edges[forgets], node_graph)
    return Dataset(
        name="synthetic_graphs",
        graph=graphs.from_edges(edges, n, pairs_in="rows"),
        x=scipy.sparse.csr_array((n, 0), dtype=np.float32),
        y=y,
        lower=0.0,
        upper=1.0,
        node_graph=node_graph,
        source="ldp_jax.datasets.synthetic_graphs",
        licence="drawn from a model; no rights",
        class_names=("rewired", "communities"),
    )


def _range(name: str, pair: tuple[int, int], least: int) -> tuple[int, int]:
    require(len(pair) == 2, f"{name} must be the least and the most, got {pair}")
    low, high = pair
    validate.integer_in(least, **{name: low})
    validate.integer_in(low, 2**31 - 1, **{name: high})
    return low, high


def _rewired(rng: np.random.Generator, edges: np.ndarray, node_graph: np.ndarray) -> np.ndarray:
    """The graphs after ``_SWAPS`` rounds of double-edge swaps.

    In a round all edges of each graph propose to swap ends in random pairs.
    """
    n = len(node_graph)
    graph = node_graph[edges[:, 0]]
    for _ in range(_SWAPS):
        order = np.lexsort((rng.random(len(edges)), graph))  # random within each graph
        edges = edges[order]  # graphs keep their places: ``graph`` stays sorted
        turned = rng.random(len(edges)) < 0.5
        edges[turned] = edges[turned, ::-1]

        # The first edge of each pair, and what its swap would make.
        place = np.arange(len(edges)) - np.searchsorted(graph, graph)
        one = np.flatnonzero((place[:-1] % 2 == 0) & (graph[:-1] == graph[1:]))
        a, b = edges[one].T
        c, d = edges[one + 1].T
        there = _code(edges[:, 0], edges[:, 1], n)
        codes = np.concatenate([there, _code(a, d, n), _code(c, b, n)])
        _, inverse, count = np.unique(codes, return_inverse=True, return_counts=True)

        # Neither there nor proposed twice.
        alone = (count[inverse] == 1)[len(edges) :].reshape(2, -1).all(0)
        kept = alone & (a != d) & (c != b)
        edges[one[kept]] = np.stack([a, d], 1)[kept]
        edges[one[kept] + 1] = np.stack([c, b], 1)[kept]
    return edges


def _code(u: np.ndarray, v: np.ndarray, n: int) -> np.ndarray:
    return np.minimum(u, v).astype(np.int64) * n + np.maximum(u, v)
