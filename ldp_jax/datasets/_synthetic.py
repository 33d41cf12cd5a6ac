"""A graph and records drawn from a model, for tests and demonstrations of any size."""

from typing import Any

import numpy as np
import scipy.sparse

from ldp_jax.datasets._dataset import Dataset

_ROUNDS = 200
_LARGEST_WEIGHT = 30.0  # hubs are cut at this many times the least weight, or they would exhaust their pairs


def synthetic(
    key: Any,
    *,
    num_nodes: int,
    num_classes: int,
    num_features: int,
    mean_degree: float | int,
    homophily: float | int,
    degree_exponent: float | int = 2.5,
    words_per_node: float | int = 10.0,
    topicality: float | int = 0.5,
) -> Dataset:
    """Draw an attributed degree-corrected block model with a chosen edge homophily.

    Classes are as equal in size as can be, in random order. There are ``num_nodes mean_degree / 2``
    edges, rounded; each joins two nodes of one class with probability ``homophily``. Its ends are drawn
    within classes in proportion to node weights from a power law; loops and repeats are drawn again.
    Records are bags of words: each of about ``words_per_node`` words of a node comes, with probability
    ``topicality``, from the words of its class (word j belongs to class j mod ``num_classes``), else from
    all words, in both cases by Zipf's law; a feature is 1 where its word was drawn. Time and memory are
    O(nodes + edges + words).

    Args:
      key: a typed threefry key; the same key gives the same data.
      num_nodes: at least ``num_classes``.
      num_classes: at least 2.
      num_features: at least ``num_classes``.
      mean_degree: > 0.
      homophily: expected share of edges within a class, in [0, 1].
      degree_exponent: of the power law of node weights, > 2.
      words_per_node: mean number of words drawn for a node, > 0.
      topicality: how much the records say about the class, in [0, 1].

    Returns:
      The data set; its bounds are (0, 1).

    Raises:
      ValueError: for a parameter outside its range, or a graph too dense for its number of nodes.

    >>> import jax
    >>> data = synthetic(
    ...     jax.random.key(0), num_nodes=100, num_classes=4, num_features=50, mean_degree=6, homophily=0.8
    ... )
    >>> data.num_edges, data.num_classes, data.scaled_rows(0, 3).shape
    (300, 4, (3, 50))
    """
    import jax

    from ldp_jax import _validate, graphs

    _validate.threefry(key)
    _validate.integer_in(2, num_classes=num_classes)
    _validate.integer_in(num_classes, 2**31 - 1, num_nodes=num_nodes)
    _validate.integer_in(num_classes, 2**31 - 1, num_features=num_features)
    _validate.positive(mean_degree=mean_degree)
    _validate.in_range(0.0, 1.0, homophily=homophily)
    _validate.in_range(2.0, np.inf, open_lower=True, degree_exponent=degree_exponent)
    _validate.positive(words_per_node=words_per_node)
    _validate.in_range(0.0, 1.0, topicality=topicality)

    # The draws are host work of data-dependent size, so the key seeds a NumPy generator.
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())
    y = rng.permutation(np.arange(num_nodes, dtype=np.int32) % num_classes)
    edges = _edges(rng, y, num_classes, mean_degree, homophily, degree_exponent)
    return Dataset(
        name="synthetic",
        graph=graphs.from_edges(edges, num_nodes),
        x=_words(rng, y, num_classes, num_features, words_per_node, topicality),
        y=y,
        lower=0.0,
        upper=1.0,
        source="ldp_jax.datasets.synthetic",
        licence="drawn from a model; no rights",
    )


class _Weighted:
    """Nodes of each class in proportion to their weights: the class first, then a point on its weights."""

    def __init__(self, y: np.ndarray, num_classes: int, weight: np.ndarray) -> None:
        self.order = np.argsort(y, kind="stable")
        self.total = np.concatenate([[0.0], np.cumsum(weight[self.order])])
        self.first = np.searchsorted(y[self.order], np.arange(num_classes + 1))
        self.mass = np.diff(self.total[self.first])

    def draw(self, rng: np.random.Generator, classes: np.ndarray) -> np.ndarray:
        point = self.total[self.first[classes]] + rng.random(len(classes)) * self.mass[classes]
        at = np.searchsorted(self.total, point, side="right") - 1
        return self.order[np.clip(at, self.first[classes], self.first[classes + 1] - 1)]


def _edges(
    rng: np.random.Generator,
    y: np.ndarray,
    num_classes: int,
    mean_degree: float | int,
    homophily: float | int,
    degree_exponent: float | int,
) -> np.ndarray:
    n = len(y)
    weight = np.minimum(rng.random(n) ** (-1 / (degree_exponent - 1)), _LARGEST_WEIGHT)
    nodes = _Weighted(y, num_classes, weight)
    total = round(n * mean_degree / 2)
    within = int(rng.binomial(total, homophily))
    share = nodes.mass / nodes.mass.sum()

    def inside(count: int) -> tuple[np.ndarray, np.ndarray]:
        classes = rng.choice(num_classes, count, p=share**2 / np.sum(share**2))
        return classes, classes

    def across(count: int) -> tuple[np.ndarray, np.ndarray]:
        a, b = rng.choice(num_classes, (2, 2 * count + 8), p=share)
        return a[a != b][:count], b[a != b][:count]

    sizes = np.bincount(y, minlength=num_classes).astype(np.int64)
    pairs_inside = int((sizes * (sizes - 1) // 2).sum())
    chosen = []
    for count, classes, room, kind in (
        (within, inside, pairs_inside, "within classes"),
        (total - within, across, n * (n - 1) // 2 - pairs_inside, "across classes"),
    ):
        if count > room // 2:
            raise ValueError(
                f"mean_degree must leave half of the pairs {kind} free: it asks for {count} edges among "
                f"{room} pairs, got {mean_degree}"
            )
        chosen.append(_distinct(rng, nodes, classes, count, n, mean_degree))
    code = np.concatenate(chosen)
    return np.stack([code // n, code % n], 1)


def _distinct(rng: Any, nodes: _Weighted, classes: Any, count: int, n: int, mean_degree: float | int) -> np.ndarray:
    """``count`` distinct pairs, the first that are drawn."""
    found = np.zeros(0, np.int64)
    for _ in range(_ROUNDS):
        missing = count - len(found)
        if not missing:
            return found
        one, other = classes(missing + missing // 4 + 8)
        u, v = nodes.draw(rng, one), nodes.draw(rng, other)
        code = np.concatenate([found, (np.minimum(u, v) * n + np.maximum(u, v))[u != v]])
        _, first = np.unique(code, return_index=True)
        found = code[np.sort(first)][:count]
    raise ValueError(f"mean_degree must be lower for {n} nodes with such unequal weights, got {mean_degree}")


def _words(
    rng: np.random.Generator,
    y: np.ndarray,
    num_classes: int,
    num_features: int,
    words_per_node: float | int,
    topicality: float | int,
) -> scipy.sparse.csr_array:
    n = len(y)
    node = np.repeat(np.arange(n), rng.poisson(words_per_node, n))
    zipf = 1 / (1 + np.arange(num_features) // num_classes)  # the classes have equally frequent words
    word = rng.choice(num_features, len(node), p=zipf / zipf.sum())
    topical = rng.random(len(node)) < topicality
    word[topical] += y[node[topical]] - word[topical] % num_classes
    over = word >= num_features  # the last, incomplete group of words: back to the group before it
    word[over] -= num_classes
    code = np.unique(node * num_features + word)
    indptr = np.searchsorted(code, np.arange(n + 1) * num_features)
    return scipy.sparse.csr_array(
        (np.ones(len(code), np.float32), (code % num_features).astype(np.int32), indptr.astype(np.int32)),
        shape=(n, num_features),
    )
