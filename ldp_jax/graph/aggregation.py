r"""Sums over neighbours, :math:`y_i = \sum_{j \to i} w_{ji} h_j`, in three layouts of one linear map.

* :class:`Segments`: edges sorted by receiver, a sorted segment sum. Shapes depend on the numbers of nodes and edges
  alone, so one program serves many graphs, traced and stacked ones too.
* :class:`Tables`: nodes in classes of equal degree, a padded gather a class. About four times faster on a CPU, and
  far slower on a GPU, where each gather is a kernel; its shapes are those of one graph.
* :class:`NeighbourRows`: a few first neighbours of every node, then rows of further ones; batches share shapes.

:class:`Divided` is segments on the devices of a mesh, :class:`Induced` tables of which only edges within parts of
the nodes count. All are differentiable forward and backward. The transpose of a gather is a scatter, slow on every
backend; so gradients of gathers are given as gathers (:func:`linear`).
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Float

from ldp_jax.core import validate
from ldp_jax.core.pytree import pytree, static
from ldp_jax.core.sharding import divided_by, each_part
from ldp_jax.core.types import Array

_CHUNK = 16
"""Neighbours that are added up before a sum goes back to memory (:class:`Tables`)."""

_FEW = 256
"""Classes of fewer nodes add up :data:`_FEW_CHUNK` at a time: their sums stay in the cache, and compile faster."""

_FEW_CHUNK = 4

_LARGE = 2**15
"""Nodes above which 64 columns of their rows may be out of the cache (:func:`tables`)."""


def linear(forward: Callable[[Array], Array], transpose: Callable[[Array], Array], x: Array) -> Array:
    """``forward(x)`` of a linear map that keeps the shape of ``x``, whose transpose is given rather than derived.

    Unlike ``jax.custom_vjp``, it works in both modes and in any order: to JAX the map is the solution of ``y = x``.
    The closures of both functions are constants to a derivative.

    >>> doubled = lambda x: linear(lambda v: 2 * v, lambda v: 2 * v, x)
    >>> jax.grad(lambda x: doubled(x).sum())(jnp.ones(2)).tolist()
    [2.0, 2.0]
    """
    return jax.lax.custom_linear_solve(
        lambda y: y, x, solve=lambda _, b: forward(b), transpose_solve=lambda _, b: transpose(b)
    )


def _along(weights: Array, h: Array) -> Array:
    """Weights [m] or [m, k], with axes added until they multiply rows [m, ...] of ``h``."""
    return weights.reshape(weights.shape + (1,) * (h.ndim - weights.ndim))


def _check_ends(senders: Array | np.ndarray, receivers: Array | np.ndarray, size: int | None = None) -> None:
    """Refuse concrete ends of edges that are no ids, of different numbers, or not in order."""
    if np.shape(senders) != np.shape(receivers):
        shapes = f"{np.shape(senders)} and {np.shape(receivers)}"
        raise ValueError(f"senders and receivers must be as many, one of each an edge, got shapes {shapes}")
    validate.ids(size, senders=senders, receivers=receivers)
    if validate.concrete(receivers) and (np.diff(np.asarray(receivers).astype(np.int64), axis=-1) < 0).any():
        raise ValueError("receivers must not decrease: sort edges by receiver, then sender")


@pytree
class Segments:
    """Edges, int32 [m], sorted by receiver; the receiver of padding is the number of nodes."""

    senders: Array | np.ndarray
    receivers: Array | np.ndarray

    def __post_init__(self) -> None:
        _check_ends(self.senders, self.receivers)

    def sum(self, h: Float[Array, "n ..."], weights: Array | np.ndarray | None = None) -> Float[Array, "n ..."]:
        """The sum over the senders of each node's edges; 0 for a node without edges.

        Weights are float [m], or [m, k] for rows [k, ...] such as attention heads; None for 1.
        """
        rows = h.at[self.senders].get(mode="clip")
        if weights is not None:
            rows = rows * _along(jnp.asarray(weights), rows)
        return jax.ops.segment_sum(rows, self.receivers, num_segments=len(h), indices_are_sorted=True)


@pytree
class Tables:
    """Nodes by degree class; each class a table of as many neighbours for each of its nodes. See :func:`tables`.

    Attributes:
      neighbours: for each class int32 [width, rows], in the numbering of the classes; n in free places.
      order: int32 [n], the node in each row of the stacked classes.
      rank: int32 [n], the row of each node.
    """

    neighbours: tuple[Array, ...]
    order: Array
    rank: Array

    def by_class(self, values: Array) -> Array:
        """Bring rows by node into the order of the classes."""
        return values[self.order]

    def by_node(self, values: Array) -> Array:
        """Bring rows in the order of the classes back to nodes."""
        return values[self.rank]

    def sum_by_class(self, h: Float[Array, "n ..."]) -> Float[Array, "n ..."]:
        """:meth:`sum` of rows that stay in the order of the classes: for products that are repeated."""
        padded = _with_zero(h)
        return jnp.concatenate([_table_sum(table, padded) for table in self.neighbours])

    def sum(self, h: Float[Array, "n ..."]) -> Float[Array, "n ..."]:
        """The sum over the neighbours of each node; 0 for a node without edges."""
        return linear(self._sum, self._sum, h)  # the graph is symmetric

    def _sum(self, h: Array) -> Array:
        return self.by_node(self.sum_by_class(self.by_class(h)))


@pytree
class Induced:
    """Tables of a graph, of which only the edges within each of some parts of its nodes are there.

    ``parts`` are float32 [k, n], 1 for the nodes of each part, 0 for others; no node is in two. A product costs as
    much as that of the whole graph, once a part.

    >>> path = tables(np.array([1, 0, 2, 1]), np.array([0, 1, 1, 2]), 3)
    >>> Induced(path, jnp.array([[1.0, 1.0, 0.0]])).sum(jnp.array([1.0, 2.0, 4.0])).tolist()
    [2.0, 1.0, 0.0]
    """

    whole: Tables
    parts: Array

    def sum(self, h: Float[Array, "n ..."]) -> Float[Array, "n ..."]:
        """The sum over the neighbours of each node in its part; 0 for a node in no part."""
        total = jnp.zeros_like(h)
        for part in self.parts:
            inside = _along(part, h) > 0
            total = total + jnp.where(inside, self.whole.sum(jnp.where(inside, h, 0)), 0)
        return total


@pytree
class Divided:
    """Edges by receiver, int32 [devices, m] divided ``over`` a mesh; see :func:`divided`.

    ``receivers`` are non-decreasing rows of a device's block; their number where an edge is padding.
    """

    senders: Array
    receivers: Array
    over: NamedSharding = static()

    def rows(self, h: Float[Array, "n ..."]) -> Float[Array, "n ..."]:
        """Rows by node where their edges are: a block on each device, or all where these do not divide them."""
        return divided_by(h, _over_rows(self.over, len(h)))

    def sum(self, h: Float[Array, "n ..."]) -> Float[Array, "n ..."]:
        """The sum over the senders of each node's edges, by devices that gather all rows of ``h``."""
        (devices,), missing = self.over.spec, -len(h) % len(self.senders)

        def part(senders: Array, receivers: Array, own: Array) -> Array:
            rows = jax.lax.all_gather(own, devices, tiled=True).at[senders[0]].get(mode="promise_in_bounds")
            made = jax.ops.segment_sum(rows, receivers[0], num_segments=len(own), indices_are_sorted=True)
            return jax.lax.all_gather(made, devices, tiled=True) if missing else made

        filled = jnp.pad(h, ((0, missing), *((0, 0) for _ in h.shape[1:])))
        mapped = each_part(part, self.over, (P(devices),) * 3, P() if missing else P(devices))
        return mapped(self.senders, self.receivers, filled)[: len(h)]


def _over_rows(over: NamedSharding, num_nodes: int) -> NamedSharding:
    return over if num_nodes % over.mesh.size == 0 else NamedSharding(over.mesh, P())


def divided(
    senders: np.ndarray, receivers: np.ndarray, num_nodes: int, mesh: Mesh
) -> tuple[Float[Array, " n"], Divided]:
    """The degrees and the edges of a graph, sorted by receiver, laid out for all devices of a mesh, on the host.

    Every device has room for as many edges as the fullest one.
    """
    over = NamedSharding(mesh, P(mesh.axis_names))
    rows = -(-num_nodes // mesh.size)
    start = np.searchsorted(receivers, rows * np.arange(mesh.size + 1))
    place = start[:-1, None] + np.arange(np.diff(start).max())
    place = np.where(place < start[1:, None], place, len(senders))  # padding
    own = np.append(receivers, num_nodes)[place] - rows * np.arange(mesh.size)[:, None]
    ends = np.append(senders, 0)[place], np.where(place == len(senders), rows, own)
    degree = np.bincount(receivers, minlength=num_nodes).astype(np.float32)

    def put(values: np.ndarray, to: NamedSharding) -> Array:  # on hosts that each have the graph, too
        return jax.make_array_from_callback(values.shape, to, lambda index: values[index])

    own_senders, own_receivers = (put(end.astype(np.int32), over) for end in ends)
    return put(degree, _over_rows(over, num_nodes)), Divided(own_senders, own_receivers, over)


def tables(senders: np.ndarray, receivers: np.ndarray, num_nodes: int, *, spare: int = 1024) -> Tables:
    """Lay a symmetric graph out by degree class, on the host, once: widths are some of 0, 1, 2, 3, 4, 6, 8, ...

    Edges are as :func:`ldp_jax.graph.graphs.validate_symmetric` returns them. A class is left out, and its nodes go
    to the next wider one, where that costs at most ``spare`` places of padding: gathering is faster than compiling
    a table. Beyond 2^15 nodes a class's neighbours are near each other, more often in the cache.
    """
    _check_ends(senders, receivers, validate.whole(0, num_nodes=num_nodes))
    # jnp.asarray would compile a program for each table that is brought to the device.
    n, m = num_nodes, len(senders)
    degree = np.bincount(receivers, minlength=n)
    widths = [0]
    while widths[-1] < degree.max(initial=0):
        power = 2 ** int(math.log2(max(1, widths[-1])))
        widths.append(1 if widths[-1] == 0 else (power * 3) // 2 if widths[-1] == power > 1 else power * 2)
    widths = _fewer(widths, degree, spare)
    bucket = np.searchsorted(widths, degree)
    large = n > _LARGE and m < 2**31  # SciPy orders by 32 bits
    near = _by_neighbourhood(senders, degree) if large else np.arange(n, dtype=np.int32)
    order = near[np.argsort(bucket[near], kind="stable")]
    rank = np.empty(n, np.int32)
    rank[order] = np.arange(n, dtype=np.int32)
    start = np.concatenate([[0], np.cumsum(degree)])
    named = np.append(rank[senders], n).astype(np.int32)  # in the classes' numbering; n is a row of zeros
    neighbours = []
    for index, width in enumerate(widths):
        rows = order[bucket[order] == index]
        if len(rows):
            place = start[rows][None, :] + np.arange(width)[:, None]
            edge = np.where(np.arange(width)[:, None] < degree[rows][None, :], place, m)
            neighbours.append(jax.device_put(named[edge]))
    return Tables(tuple(neighbours), jax.device_put(order), jax.device_put(rank))


def _by_neighbourhood(senders: np.ndarray, degree: np.ndarray) -> np.ndarray:
    """Nodes in the order of reverse Cuthill and McKee, in which neighbours are near each other; int32."""
    start = np.concatenate([[0], np.cumsum(degree)]).astype(np.int32)
    arrays = np.ones(len(senders), np.int8), np.ascontiguousarray(senders, np.int32), start
    matrix = scipy.sparse.csr_array(arrays, shape=(len(degree), len(degree)))
    return scipy.sparse.csgraph.reverse_cuthill_mckee(matrix, symmetric_mode=True).astype(np.int32)


def _fewer(widths: list[int], degree: np.ndarray, spare: int) -> list[int]:
    """The widths that remain where classes of few nodes are left out."""
    rows = np.bincount(np.searchsorted(widths, degree), minlength=len(widths))
    kept, moved = [], 0
    for width, wider, here in zip(widths, widths[1:], rows.tolist(), strict=False):
        moved += here
        if moved * (wider - width) > spare:
            kept.append(width)
            moved = 0
    return [*kept, widths[-1]]


def _with_zero(h: Array) -> Array:
    """``h`` and a row of zeros, which padding names."""
    return jnp.concatenate([h, jnp.zeros((1, *h.shape[1:]), h.dtype)])


def gather_sum(total: Array, table: Array | np.ndarray, padded: Array) -> Array:
    """Add to ``total`` the rows of ``padded`` that each column of ``table`` names: fused into one pass."""
    numbers = jax.lax.GatherDimensionNumbers(
        offset_dims=tuple(range(1, padded.ndim)), collapsed_slice_dims=(0,), start_index_map=(0,)
    )
    for place in range(len(table)):
        # In XLA's terms: jax.numpy's indexing would take most of the time to trace and compile a product.
        names = jax.lax.slice_in_dim(table, place, place + 1).reshape(-1, 1)
        rows = jax.lax.gather(padded, names, numbers, (1, *padded.shape[1:]), mode="promise_in_bounds")
        total = total + rows
    return total


def _table_sum(table: Array, padded: Array) -> Array:
    """Sum of the rows that each column of ``table`` names, a few neighbours at a time."""
    width, rows = table.shape
    zero = jnp.zeros_like(padded, shape=(rows, *padded.shape[1:]))  # varies among devices where h does
    most = _CHUNK if rows >= _FEW else _FEW_CHUNK
    if width <= most:
        return gather_sum(zero, table, padded)
    chunk = math.gcd(width, most)
    chunks = table.reshape(width // chunk, chunk, rows)
    return jax.lax.fori_loop(0, width // chunk, lambda j, total: gather_sum(total, chunks[j], padded), zero)


@pytree
class NeighbourRows:
    """The ``first`` neighbours, int32 [w, n], of each node, then rows of ``more``, int32 [W, rows]: for batches.

    Free places are n. ``node`` int32 [rows] says whose a row is; non-decreasing, n where a row is padding.
    """

    first: Array | np.ndarray
    more: Array | np.ndarray
    node: Array | np.ndarray

    def __post_init__(self) -> None:
        validate.ids(first=self.first, more=self.more, node=self.node)

    def sum(self, h: Float[Array, "n d"], transpose: "NeighbourRows | None" = None) -> Float[Array, "n d"]:
        """The sum over the neighbours of each node; ``transpose`` has the reversed edges of directed graphs."""
        return linear(self._sum, (transpose or self)._sum, h)

    def _sum(self, h: Array) -> Array:
        padded = _with_zero(h)
        total = gather_sum(jnp.zeros_like(h), self.first, padded)
        more = gather_sum(jnp.zeros((self.more.shape[1], h.shape[1]), h.dtype), self.more, padded)
        return total.at[self.node].add(more, indices_are_sorted=True, mode="drop")
