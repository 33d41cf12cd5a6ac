r"""Sums over neighbours, :math:`y_i = \sum_{j \to i} w_{ji} h_j`, in three layouts.

* :class:`Segments`: edges sorted by receiver, a sorted segment sum. Shapes depend on the numbers of
  nodes and edges alone, so one program serves many graphs, traced and stacked ones too.
* :class:`NeighbourRows`: a few first neighbours of every node, then rows of further ones; batches
  share shapes.
* :class:`Tables`: rows of one symmetric graph, of nodes near each other: for a CPU. A GPU is far
  slower with them; their shapes are those of one graph.

:class:`Divided` is segments on the devices of a mesh, :class:`Induced` tables of which only edges
within parts of the nodes count. All are differentiable forward and backward. The transpose of a
gather is a scatter, slow on every backend; so gradients of gathers are given as gathers
(:func:`linear`). Many neighbours are added up in parts, and then the parts
(:mod:`ldp_jax.core.long_sums`): the sum of a hub rounds hardly more than any other.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Float

from ldp_jax.core import long_sums, validate
from ldp_jax.core.pytree import pytree, static
from ldp_jax.core.sharding import divided_by, each_part
from ldp_jax.core.types import AnyArray, Array

_FIRST, _FURTHER = 4, 8
"""Neighbours in a node's own row and in each further one: wide rows waste places, narrow ones are
more sums.
"""

_LARGE = 2**15
"""Nodes above which 32 columns of their rows may be out of the cache (:func:`tables`)."""

_HUB = 2**10
"""Neighbours beyond which a node is near too many others for any order to put it beside them."""


def linear(
    forward: Callable[[Array], Array], transpose: Callable[[Array], Array], x: Array
) -> Array:
    """Apply a linear map that keeps the shape of ``x``, with its transpose given, not derived.

    Unlike ``jax.custom_vjp``, it works in both modes and in any order: to JAX the map is the
    solution of ``y = x``. The closures of both functions are constants to a derivative.

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


def _check_ends(senders: AnyArray, receivers: AnyArray, size: int | None = None) -> None:
    """Refuse concrete ends of edges that are no ids, of different numbers, or not in order."""
    validate.require(
        np.shape(senders) == np.shape(receivers),
        "senders and receivers must be as many, one of each an edge, got shapes "
        f"{np.shape(senders)} and {np.shape(receivers)}",
    )
    validate.ids(size, senders=senders, receivers=receivers)
    validate.require(
        not validate.concrete(receivers) or (receivers[..., 1:] >= receivers[..., :-1]).all(),
        "receivers must not decrease: sort edges by receiver, then sender",
    )


@pytree
class Segments:
    """Edges, int32 [m], sorted by receiver; the receiver of padding is the number of nodes."""

    senders: AnyArray
    receivers: AnyArray

    def __post_init__(self) -> None:
        _check_ends(self.senders, self.receivers)

    def sum(
        self, h: Float[Array, "n ..."], weights: AnyArray | None = None
    ) -> Float[Array, "n ..."]:
        """The sum over the senders of each node's edges; 0 for a node without edges.

        Weights are float [m], or [m, k] for rows [k, ...] such as attention heads; None for 1. The
        derivative of a weighted sum adds the edges of a sender one after another.
        """

        def forward(h):
            rows = h.at[self.senders].get(mode="clip")
            if weights is not None:
                rows = rows * _along(jnp.asarray(weights), rows)
            return long_sums.segment_sum(rows, self.receivers, len(h))

        def transposed(h):
            order = long_sums.sorted_order(self.senders)
            rows = h.at[self.receivers[order]].get(mode="fill", fill_value=0)
            return long_sums.segment_sum(rows, self.senders[order], len(h))

        return forward(h) if weights is not None else linear(forward, transposed, h)


@pytree
class NeighbourRows:
    """The ``first`` neighbours, int32 [w, n], of each node, then rows of ``more``, int32 [W, rows].

    Free places are n. ``node`` int32 [rows] says whose a row is; non-decreasing, n where a row is
    padding. Without ``long`` no node has more than 32 further rows, and none is added up in parts.
    """

    first: AnyArray
    more: AnyArray
    node: AnyArray
    long: bool = static(default=True)

    def __post_init__(self) -> None:
        validate.ids(first=self.first, more=self.more, node=self.node)

    def sum(
        self, h: Float[Array, "n ..."], transpose: "NeighbourRows | None" = None
    ) -> Float[Array, "n ..."]:
        """The sum over the neighbours of each node.

        ``transpose`` has the reversed edges of directed graphs.
        """
        out = transpose or self
        forward = lambda h: self.add_up(_with_zeros(h))
        transposed = lambda h: out.add_up(_with_zeros(h))
        return linear(forward, transposed, h)

    def add_up(self, padded: Float[Array, "places ..."]) -> Float[Array, "n ..."]:
        """:meth:`sum` of rows and one of zeros, which free places name.

        Its derivative is a scatter.
        """
        count = self.first.shape[1]
        if self.long:
            at, *parts = long_sums.places(self.node, count)
        else:
            at = jnp.asarray(self.node)
            parts = []
        space = (0, sum(map(len, parts)))
        zeros_at = len(padded) - 1
        first = jnp.pad(jnp.asarray(self.first), ((0, 0), space), constant_values=zeros_at)

        def sums(table):
            zeros = jnp.zeros_like(padded, shape=(table.shape[1], *padded.shape[1:]))
            return gather_sum(zeros, table, padded)

        total = long_sums.add(sums(first), at, sums(self.more), in_order=not parts)
        return long_sums.fold(total, count, parts)


def _with_zeros(values: Array) -> Array:
    """Values, and a row of zeros after them."""
    # Zeros like the values vary among devices where these do.
    return jnp.concatenate([values, jnp.zeros_like(values, shape=(1, *values.shape[1:]))])


@pytree
class Tables:
    """Rows of the neighbours of a symmetric graph's nodes, which are renumbered.

    See :func:`tables`.

    Attributes:
      first: int32 [4, n + 1], in the new numbers; n is a node without neighbours, which free places
        name.
      others: of the nodes that have more than 4, by ``place`` int32 [n + 1]; the last place is of
        no node.
      order: int32 [n], the node of each new number; None where all keep their own.
      rank: int32 [n], the new number of each node, or None.
    """

    first: AnyArray
    others: NeighbourRows
    place: AnyArray
    order: Array | None
    rank: Array | None

    def rows(self, values: Array) -> Array:
        """Bring values [n, ...] by node into the new order [n + 1, ...], whose last row is 0."""
        return _with_zeros(values if self.order is None else values[self.order])

    def nodes(self, values: Array) -> Array:
        """Bring values in the order of the new numbers back to nodes."""
        return values[:-1] if self.rank is None else values[self.rank]

    def sum(self, h: Float[Array, "n ..."]) -> Float[Array, "n ..."]:
        """The sum over the neighbours of each node; 0 for a node without edges."""

        def total(h):
            return self.nodes(self.add_up(self.rows(h)))

        return linear(total, total, h)  # the graph is symmetric

    def add_up(self, padded: Float[Array, "places ..."]) -> Float[Array, "places ..."]:
        """:meth:`sum` in the order of the new numbers."""
        # Sums of some nodes are gathered by all: a scatter would read and write the sums of all
        # once more.
        total = gather_sum(jnp.zeros_like(padded), self.first, padded)
        if self.others.first.shape[1] == 1:
            return total
        return gather_sum(total, self.place[None], self.others.add_up(padded))


@pytree
class Induced:
    """Tables of a graph that keep only the edges within each of some parts of its nodes.

    ``parts`` are float32 [k, n], 1 for the nodes of each part, 0 for others; no node is in two. A
    product costs as much as that of the whole graph, once a part.

    >>> path = tables(np.array([1, 0, 2, 1]), np.array([0, 1, 1, 2]), 3)
    >>> Induced(path, jnp.array([[1.0, 1.0, 0.0]])).sum(
    ...     jnp.array([1.0, 2.0, 4.0])
    ... ).tolist()
    [2.0, 1.0, 0.0]
    """

    whole: Tables
    parts: Array

    def sum(self, h: Float[Array, "n ..."]) -> Float[Array, "n ..."]:
        """The sum over the neighbours of each node in its part; 0 for a node in no part."""
        total = jnp.zeros_like(h)
        for part in self.parts:
            inside = _along(part, h) > 0
            summed = self.whole.sum(jnp.where(inside, h, 0))
            total = total + jnp.where(inside, summed, 0)
        return total


@pytree
class Divided:
    """Edges by receiver, int32 [devices, m] divided ``over`` a mesh; see :func:`divided`.

    ``receivers`` are non-decreasing rows of a device's block; their number where an edge is
    padding.
    """

    senders: Array
    receivers: Array
    over: NamedSharding = static()

    def rows(self, h: Float[Array, "n ..."]) -> Float[Array, "n ..."]:
        """Rows by node where their edges are.

        A block on each device, or all where these do not divide them.
        """
        return divided_by(h, _over_rows(self.over, len(h)))

    def sum(self, h: Float[Array, "n ..."]) -> Float[Array, "n ..."]:
        """The sum over the senders of each node's edges; devices gather all rows of ``h``."""
        (devices,) = self.over.spec
        missing = -len(h) % len(self.senders)

        def part(senders, receivers, own):
            everyone = jax.lax.all_gather(own, devices, tiled=True)
            rows = everyone.at[senders[0]].get(mode="promise_in_bounds")
            made = long_sums.segment_sum(rows, receivers[0], len(own))
            return jax.lax.all_gather(made, devices, tiled=True) if missing else made

        filled = jnp.pad(h, ((0, missing), *((0, 0) for _ in h.shape[1:])))
        blocks = P(devices)
        mapped = each_part(part, self.over, (blocks,) * 3, P() if missing else blocks)
        return mapped(self.senders, self.receivers, filled)[: len(h)]


def _over_rows(over: NamedSharding, num_nodes: int) -> NamedSharding:
    return over if num_nodes % over.mesh.size == 0 else NamedSharding(over.mesh, P())


def divided(
    senders: np.ndarray, receivers: np.ndarray, num_nodes: int, mesh: Mesh
) -> tuple[Float[Array, " n"], Divided]:
    """Lay the degrees and sorted edges of a graph out for all devices of a mesh, on the host.

    Every device has room for as many edges as the fullest one.
    """
    over = NamedSharding(mesh, P(mesh.axis_names))
    rows = -(-num_nodes // mesh.size)
    first_row = rows * np.arange(mesh.size + 1)
    start = np.searchsorted(receivers, first_row)
    place = start[:-1, None] + np.arange(np.diff(start).max())
    place = np.where(place < start[1:, None], place, len(senders))  # padding
    own = np.append(receivers, num_nodes)[place] - first_row[:-1, None]
    ends = np.append(senders, 0)[place], np.where(place == len(senders), rows, own)
    degree = np.bincount(receivers, minlength=num_nodes).astype(np.float32)

    def put(values, to):  # on hosts that each have the graph, too
        return jax.make_array_from_callback(values.shape, to, lambda index: values[index])

    own_senders, own_receivers = (put(end.astype(np.int32), over) for end in ends)
    return put(degree, _over_rows(over, num_nodes)), Divided(own_senders, own_receivers, over)


def tables(senders: np.ndarray, receivers: np.ndarray, num_nodes: int) -> Tables:
    """Lay a symmetric graph out by rows of neighbours, on the host, once.

    Edges are as :func:`ldp_jax.graph.graphs.validate_symmetric` returns them. Beyond 2^15 nodes
    neighbours get numbers near each other, so that their rows are more often in the cache. A graph
    with hubs keeps its numbers: no order puts a hub's neighbours beside it, and SciPy takes the
    square of its degree to find one.
    """
    _check_ends(senders, receivers, validate.whole(0, num_nodes=num_nodes))
    degree = np.bincount(receivers, minlength=num_nodes + 1)
    start = np.cumsum(degree) - degree
    order = None
    rank = None
    large = num_nodes > _LARGE and len(senders) < 2**31  # SciPy orders by 32 bits
    if large and degree.max() <= _HUB:
        # Reverse Cuthill and McKee: in their order neighbours are near each other.
        links = np.ones(len(senders), np.int8), senders.astype(np.int32), start.astype(np.int32)
        matrix = scipy.sparse.csr_array(links, shape=(num_nodes, num_nodes))
        order = scipy.sparse.csgraph.reverse_cuthill_mckee(matrix, symmetric_mode=True)
        rank = np.empty_like(order)
        rank[order] = np.arange(num_nodes, dtype=np.int32)
        start, degree = (np.append(values[order], values[-1]) for values in (start, degree))
    first = _pieces(senders, start, start + degree, _FIRST, num_nodes)

    many = np.append(np.flatnonzero(degree > _FIRST), num_nodes)
    place = np.full(num_nodes + 1, len(many) - 1, np.int32)
    place[many] = np.arange(len(many))
    left = start[many] + _FIRST, np.maximum(degree[many] - _FIRST, 0)
    head, more, node = rows_of_neighbours(senders, *left, (_FURTHER, _FURTHER), num_nodes)
    if not len(node):
        # A row of nobody: without a scatter XLA would make the sums anew for each gather.
        more = np.full((_FURTHER, 1), num_nodes, np.int32)
        node = np.array([len(many) - 1], np.int32)
    if rank is not None:
        number = np.append(rank, np.int32(num_nodes))
        first = number[first]
        head = number[head]
        more = number[more]
    # jnp.asarray would compile a program for each table that is brought to the device.
    first, place, order, rank = jax.device_put((first, place, order, rank))
    others = NeighbourRows(*jax.device_put((head, more, node)), long=has_long(node))
    return Tables(first, others, place, order, rank)


def has_long(node: np.ndarray) -> bool:
    """Whether some node has more further rows than are added up in one go."""
    return bool((node[long_sums.BLOCK :] == node[: -long_sums.BLOCK]).any())


def rows_of_neighbours(
    senders: np.ndarray, start: np.ndarray, degree: np.ndarray, widths: tuple[int, int], free: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Make the tables of :class:`NeighbourRows` of these widths, with ``free`` in free places.

    The neighbours of a node are ``degree`` of the senders, from ``start`` on; both are integers
    [n].
    """
    head, width = widths
    rows = -(-np.maximum(degree - head, 0) // width)
    node = np.repeat(np.arange(len(degree), dtype=np.int32), rows)
    # Where row 0 of all rows would start, if it were the node's.
    further = start + head - width * (np.cumsum(rows) - rows)
    end = start + degree
    first = _pieces(senders, start, end, head, free)
    begin = further[node] + width * np.arange(len(node))
    return first, _pieces(senders, begin, end[node], width, free), node


def _pieces(
    senders: np.ndarray, start: np.ndarray, end: np.ndarray, width: int, free: int
) -> np.ndarray:
    """Senders from ``start``, at most to ``end``; int32 [width, rows]."""
    table = np.full((width, len(start)), free, np.int32)
    if not len(senders):
        return table
    for place, column in enumerate(table):
        at = start + place
        np.copyto(column, senders.take(at, mode="clip"), where=at < end)
    return table


def gather_sum(total: Array, table: AnyArray, padded: Array) -> Array:
    """Add to ``total`` the rows of ``padded`` that each column of ``table`` names.

    Fused into one pass.
    """
    numbers = jax.lax.GatherDimensionNumbers(
        offset_dims=tuple(range(1, padded.ndim)), collapsed_slice_dims=(0,), start_index_map=(0,)
    )
    for place in range(len(table)):
        # In XLA's terms: jax.numpy's indexing would take most of the time to trace and compile a
        # product.
        names = jax.lax.slice_in_dim(table, place, place + 1).reshape(-1, 1)
        row = (1, *padded.shape[1:])
        rows = jax.lax.gather(padded, names, numbers, row, mode="promise_in_bounds")
        total = total + rows
    return total
