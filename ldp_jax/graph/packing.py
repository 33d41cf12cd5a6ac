"""How sets of graphs are packed into a few static shapes, so that an epoch is one compiled program.

A :class:`~ldp_jax.graph.graphs.GraphSet` is checked once, on the host. :func:`pack` lays it out and finds the
shapes of its batches; :func:`deal` draws which graphs share a batch, :func:`assemble` builds one batch: both are
compiled, so a new order for every epoch costs no work on the host, no transfer and no new program.

Batches are dealt, not bucketed: graphs are sorted by size and cut into strata of as many graphs as there are
batches, and each batch gets one random graph of each stratum. All batches are then nearly of one size, whatever
the draw, and each is a stratified sample of the set. (Batches of graphs of one size would need no more padding,
but size tells the class in most sets of social graphs: each batch would be biased, and so would its batch norm.)
"""

from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from ldp_jax.core import validate
from ldp_jax.core.pytree import pytree, static
from ldp_jax.core.types import Array, Graph, PRNGKey
from ldp_jax.graph.aggregation import NeighbourRows, Segments, gather_sum
from ldp_jax.graph.graphs import GraphSet, as_graph

__all__ = [
    "Batch",
    "Graded",
    "GraphSet",
    "BatchLayout",
    "Packed",
    "Shape",
    "Waste",
    "assemble",
    "deal",
    "from_graphs",
    "pack",
    "whole",
]


def __dir__() -> list[str]:
    return __all__


BatchLayout = Literal["auto", "gather", "segment"]

_POOL = 16
"""Nodes that a readout adds up before the sum goes back to memory."""

_TRIALS = 32
"""Deals that a shape is measured by; later ones that do not fit, up to a fifth of them, are drawn again."""

_DRAWS = 100
"""After as many deals in a row that do not fit comes the deal by size, which does."""


def _starts(counts: np.ndarray) -> np.ndarray:
    """Where each run begins, and where the last ends."""
    return np.concatenate([[0], np.cumsum(counts)])


# --- Layout ----------------------------------------------------------------------------------------------------


class Shape(NamedTuple):
    """The static shape of some batches; each number is what one batch has room for.

    Attributes:
      batches: how many batches have it.
      graphs: graphs.
      nodes: nodes.
      edges: directed edges (what layout ``segment`` holds).
      rows: rows of neighbours after a node's first ones (layout ``gather``).
      rows_out: the same for the reversed edges.
    """

    batches: int
    graphs: int
    nodes: int
    edges: int
    rows: int
    rows_out: int


class Waste(NamedTuple):
    """The share of padding in the shapes, each in [0, 1].

    Attributes:
      graphs: of the places for graphs.
      nodes: of the places for nodes.
      edges: of the places for edges.
      gathers: layout ``gather``: of the neighbours that :meth:`Batch.sum_neighbours` adds up, those that are 0.
    """

    graphs: float
    nodes: float
    edges: float
    gathers: float


@pytree
class Graded:
    """:class:`~ldp_jax.graph.aggregation.NeighbourRows` of a whole set, numbered within each graph; -1 where none.

    Attributes:
      first: int32 [w, n].
      more: int32 [W, rows].
      node: int32 [rows].
      start: int32 [graphs + 2], the further rows of each graph.
    """

    first: Any
    more: Any
    node: Any
    start: Any


@pytree
class Packed:
    """A graph set laid out for compiled training; made by :func:`pack`. Pass it to compiled code as an argument.

    Attributes:
      labels: int32 [graphs + 1]; the last is the empty graph, which fills free places.
      node_start: int32 [graphs + 2], the nodes of each graph.
      strata: int32 [slots, batches], the graphs by falling size; ``graphs`` is the empty one.
      sizes: int32 [graphs + 1, 5], what each graph takes of the last five fields of :class:`Shape`.
      into: layout ``gather``: :class:`Graded` rows of the senders of each node, else None.
      out: layout ``gather``: the same of the receivers of each node; None where the set is symmetric, whose
        ``into`` serves both.
      senders: layout ``segment``: int32 [m], numbered within the graph, else None.
      receivers: the same.
      edge_start: layout ``segment``: int32 [graphs + 2], the edges of each graph, else None.
      shapes: the shapes of the batches, in the order of the columns of ``strata``.
      real: how many graphs, nodes and edges there are.
    """

    labels: Any
    node_start: Any
    strata: Any
    sizes: Any
    into: Any
    out: Any
    senders: Any
    receivers: Any
    edge_start: Any
    shapes: tuple[Shape, ...] = static()
    real: tuple[int, int, int] = static()

    @property
    def waste(self) -> Waste:
        """The share of all places in the batches of one epoch that hold padding."""
        places = [sum(shape.batches * shape[field] for shape in self.shapes) for field in range(1, 5)]
        graphs, nodes, edges, rows = places
        gathers = 0 if self.into is None else len(self.into.first) * nodes + len(self.into.more) * rows
        pairs = zip((*self.real, self.real[2]), (graphs, nodes, edges, gathers), strict=True)
        return Waste(*(1.0 - real / room if room else 0.0 for real, room in pairs))


class Batch(NamedTuple):
    """Some graphs side by side, padded to a static shape: what a graph model is applied to.

    Attributes:
      labels: int32 [graphs]; 0 in free places.
      graph_mask: bool [graphs], which places hold a graph.
      nodes_per_graph: float32 [graphs]; 0 in free places.
      node_graph: int32 [nodes], the place of each node's graph, non-decreasing; ``graphs`` where padded.
      node_mask: bool [nodes], which are nodes.
      into: who is added up for each node: :class:`~ldp_jax.graph.aggregation.NeighbourRows` or
        :class:`~ldp_jax.graph.aggregation.Segments`.
      out: the rows of the reversed edges; None where those of ``into`` serve.
    """

    labels: Any
    graph_mask: Any
    nodes_per_graph: Any
    node_graph: Any
    node_mask: Any
    into: Any
    out: Any

    def sum_neighbours(self, h: Float[Array, "nodes d"]) -> Float[Array, "nodes d"]:
        """The sum of ``h`` over the senders of each node's edges; 0 for a node without, and for padding.

        Differentiable in ``h``, forward and backward; see :mod:`ldp_jax.graph.aggregation`.
        """
        return self.into.sum(h) if isinstance(self.into, Segments) else self.into.sum(h, self.out)

    def mean_nodes(self, h: Float[Array, "nodes d"]) -> Float[Array, "graphs d"]:
        """The mean of ``h`` over the nodes of each graph; 0 in free places. Differentiable in ``h``."""
        total = _pool(h, self.node_graph, self.nodes_per_graph)
        return total / jnp.maximum(self.nodes_per_graph, 1.0)[:, None]


@jax.custom_vjp
def _pool(h: Array, node_graph: Array, counts: Array) -> Array:
    """Sums over contiguous runs of nodes: some nodes at a time, then their sums, which are few."""
    nodes, graphs = len(h), len(counts)
    sizes = counts.astype(jnp.int32)
    pieces = -(-sizes // _POOL)
    graph, piece, inside = _runs(pieces, (nodes + (_POOL - 1) * graphs) // _POOL)
    offset = jnp.cumsum(sizes) - sizes
    within = _POOL * piece + jnp.arange(_POOL)[:, None]
    table = jnp.where(inside & (within < sizes[graph]), offset[graph] + within, nodes)
    padded = jnp.concatenate([h, jnp.zeros((1, h.shape[1]), h.dtype)])
    sums = gather_sum(jnp.zeros((table.shape[1], h.shape[1]), h.dtype), table, padded)
    target = jnp.where(inside, graph, graphs)
    return jax.ops.segment_sum(sums, target, num_segments=graphs, indices_are_sorted=True)


def _pool_forward(h: Array, node_graph: Array, counts: Array) -> Any:
    return _pool(h, node_graph, counts), node_graph


def _pool_backward(node_graph: Array, cotangent: Array) -> Any:
    return cotangent.at[node_graph].get(mode="fill", fill_value=0.0), None, None


_pool.defvjp(_pool_forward, _pool_backward)


def _runs(counts: Array, size: int) -> tuple[Array, Array, Array]:
    """Lay runs of ``counts`` places side by side: the run of each place, its place therein, whether it has one."""
    ends = jnp.cumsum(counts)
    place = jnp.arange(size, dtype=jnp.int32)
    run = jnp.searchsorted(ends, place, side="right").astype(jnp.int32)
    inside = run < len(counts)
    run = jnp.minimum(run, len(counts) - 1)
    return run, place - (ends - counts)[run], inside


def pack(graph_set: GraphSet, batch_size: int, *, shapes: int = 2, layout: BatchLayout = "auto") -> Packed:
    """Lay a graph set out for batches of a few static shapes; on the host, once.

    The batches of an epoch are as many as hold all graphs and have nearly equally many graphs each, so no batch
    norm meets a last batch of one graph. A shape has room for the largest of its batches in some deals (a fixed
    number, the same for the same set); :func:`deal` draws again what does not fit. What one very large graph adds
    is paid by the batches of its own shape alone.

    Args:
      graph_set: the graphs.
      batch_size: at most how many graphs a batch has.
      shapes: at most how many shapes; each is compiled, and more of them waste less.
      layout: how :meth:`Batch.sum_neighbours` adds up. ``gather`` (what ``auto`` is) gathers a node's neighbours
        some at a time, forward and backward, five times faster than ``segment`` on a CPU; ``segment`` is a sorted
        segment sum with JAX's own gradient.

    >>> pairs = GraphSet.from_edges([1, 0, 3, 2], [0, 1, 2, 3], [0, 0, 1, 1, 2], [0, 1, 1])
    >>> pack(pairs, batch_size=2).shapes
    (Shape(batches=2, graphs=2, nodes=3, edges=2, rows=0, rows_out=0),)
    """
    validate.integer_in(1, batch_size=batch_size)
    validate.integer_in(1, shapes=shapes)
    validate.one_of(("auto", "gather", "segment"), layout=layout)
    graphs = len(graph_set)
    nodes, edges = graph_set.nodes_per_graph, graph_set.edges_per_graph
    into = out = senders = receivers = edge_start = None
    rows = rows_out = np.zeros(graphs, np.int64)
    first = _starts(nodes)[graph_set.node_graph]
    if layout == "segment":
        own = _starts(nodes)[graph_set.node_graph[graph_set.receivers]]
        senders, receivers = (_int32(ends - own) for ends in (graph_set.senders, graph_set.receivers))
        edge_start = _int32(np.append(_starts(edges), edges.sum()))
    else:
        into, rows = _neighbours(graph_set.senders, graph_set.receivers, graph_set.node_graph, first, graphs)
        rows_out = rows
        if not graph_set.symmetric:
            order = np.lexsort((graph_set.receivers, graph_set.senders))
            reverse = graph_set.receivers[order], graph_set.senders[order]
            out, rows_out = _neighbours(*reverse, graph_set.node_graph, first, graphs)

    order = np.argsort(-(nodes + edges), kind="stable")
    batches = -(-graphs // batch_size)
    slots = -(-graphs // batches)
    strata = np.append(order, np.full(slots * batches - graphs, graphs)).reshape(slots, batches)
    sizes = np.zeros((graphs + 1, 5), np.int64)
    sizes[:graphs] = np.stack([np.ones(graphs, np.int64), nodes, edges, rows, rows_out], 1)
    loads = _trial_loads(sizes, strata)
    top = (nodes + edges)[strata[0]]
    found = []
    for begin, end in _classes(top, shapes):
        room = loads[begin:end].max(0)
        room[0] = slots
        found.append(Shape(end - begin, *room.tolist()))
    return Packed(
        labels=_int32(np.append(graph_set.labels, 0)),
        node_start=_int32(np.append(_starts(nodes), nodes.sum())),
        strata=_int32(strata),
        sizes=_int32(sizes),
        into=into,
        out=out,
        senders=senders,
        receivers=receivers,
        edge_start=edge_start,
        shapes=tuple(found),
        real=(graphs, int(nodes.sum()), int(edges.sum())),
    )


def _trial_loads(sizes: np.ndarray, strata: np.ndarray) -> np.ndarray:
    """What the batch of each of the largest graphs takes at most, over some deals; [batches, 5]."""
    loads = sizes[strata].sum(0)  # the deal by size: it must fit
    draws = np.random.default_rng(0)  # decides how much room there is, and nothing else
    for _ in range(_TRIALS):
        rest = sum((draws.permutation(row) for row in sizes[strata[1:]]), np.zeros_like(loads))
        loads = np.maximum(loads, sizes[strata[0]] + rest)
    return loads


def _int32(values: np.ndarray) -> Array:
    return jnp.asarray(values.astype(np.int32))


def _neighbours(
    senders: np.ndarray, receivers: np.ndarray, node_graph: np.ndarray, first_node: np.ndarray, graphs: int
) -> tuple[Graded, np.ndarray]:
    """Rows of the senders of each node, from edges sorted by receiver; and how many rows each graph has."""
    n = len(node_graph)
    degree = np.bincount(receivers, minlength=n)
    head, width = _widths(degree)
    place = np.arange(len(receivers)) - _starts(degree)[receivers]
    local = senders - first_node[senders]
    early = place < head
    first = np.full((head, n), -1, np.int32)
    first[place[early], receivers[early]] = local[early]
    rows = -(-np.maximum(degree - head, 0) // width)
    more = np.full((width, rows.sum()), -1, np.int32)
    late = place[~early] - head
    more[late % width, _starts(rows)[receivers[~early]] + late // width] = local[~early]
    node = np.repeat(np.arange(n) - first_node, rows)
    per_graph = np.bincount(node_graph, rows, minlength=graphs).astype(np.int64)
    start = np.append(_starts(per_graph), rows.sum())
    return Graded(jnp.asarray(first), jnp.asarray(more), _int32(node), _int32(start)), per_graph


def _widths(degree: np.ndarray) -> tuple[int, int]:
    """How many first neighbours, and how many in a further row: the least work for these degrees.

    A row's sum goes back to memory by a scatter, which costs about as much as four gathers.
    """
    choices = [(head, width) for head in (1, 2, 4, 8, 16) for width in (2, 4, 8, 16)]
    work = [
        len(degree) * head + (width + 4) * int((-(-np.maximum(degree - head, 0) // width)).sum())
        for head, width in choices
    ]
    return choices[int(np.argmin(work))]


def _classes(sizes: np.ndarray, most: int) -> list[tuple[int, int]]:
    """Cut falling sizes into at most ``most`` runs with the least padding to each run's largest."""
    n = len(sizes)
    best = np.full(n + 1, np.inf)
    best[0] = 0.0
    cuts = []
    for _ in range(min(most, n)):
        # from[b] + the padding of the run b..e to its first, which is its largest
        ends = np.arange(n + 1)
        padding = np.append(sizes, 0)[:, None] * (ends - ends[:, None])
        cost = np.where(ends[:, None] < ends, best[:, None] + padding, np.inf)
        cost[0, 0] = 0.0
        now = cost.min(0)
        cuts.append((now[n], cost.argmin(0)))
        best = now
    pieces = int(np.argmin([value for value, _ in cuts]))  # the fewest on ties
    end, runs = n, []
    for _, begin in reversed(cuts[: pieces + 1]):
        runs.append((int(begin[end]), end))
        end = int(begin[end])
    return runs[::-1]


# --- Batches ---------------------------------------------------------------------------------------------------


@jax.jit
def deal(packed: Packed, key: PRNGKey | None = None) -> tuple[Int[Array, "batches slots"], ...]:
    """Draw which graphs share a batch, and in which order the batches come; traced or not.

    Args:
      packed: as :func:`pack` makes it.
      key: a threefry key; None deals in the order of size.

    Returns:
      For each shape the graphs of its batches, int32 [batches, slots]; the number of graphs stands for a free
      place. Each graph is dealt once.
    """
    strata = packed.strata
    kind = np.repeat(np.arange(len(packed.shapes)), [shape.batches for shape in packed.shapes])
    if key is not None:
        room = jnp.asarray([shape[1:] for shape in packed.shapes])[kind]

        def draw(attempt: Array) -> Array:
            order = jax.random.uniform(jax.random.fold_in(key, attempt), strata.shape)
            # The largest graphs of the batches decide the shapes: they move within their shape alone.
            order = order.at[0].add(jnp.asarray(kind, jnp.float32))
            return jnp.take_along_axis(strata, jnp.argsort(order, axis=1), axis=1)

        def again(carry: Any) -> Array:
            return (packed.sizes[carry[1]].sum(0) > room).any() & (carry[0] < _DRAWS)

        def redraw(carry: Any) -> Any:
            attempt = carry[0] + 1
            return attempt, jnp.where(attempt < _DRAWS, draw(attempt), strata)

        _, strata = jax.lax.while_loop(again, redraw, (jnp.int32(0), draw(jnp.int32(0))))
    return tuple(jnp.split(strata.T, np.flatnonzero(np.diff(kind)) + 1))


@partial(jax.jit, static_argnames="shape")
def assemble(packed: Packed, graphs: Int[Array | np.ndarray, " slots"], shape: Shape) -> Batch:
    """Put graphs side by side in one batch of a static shape; traced or not.

    Args:
      packed: as :func:`pack` makes it.
      graphs: the graphs of the batch, as :func:`deal` gives them.
      shape: the shape they were dealt for.
    """
    graphs = jnp.asarray(graphs)
    counts = packed.node_start[graphs + 1] - packed.node_start[graphs]
    slot, within, inside = _runs(counts, shape.nodes)
    offset = jnp.cumsum(counts) - counts
    node = jnp.where(inside, packed.node_start[graphs[slot]] + within, 0)

    def renumber(local: Array, offsets: Array, real: Array) -> Array:
        return jnp.where(real & (local >= 0), local + offsets, shape.nodes)

    def rows(source: Graded | None, room: int) -> NeighbourRows | None:
        if source is None:
            return None
        begin = source.start[graphs]
        row_slot, row_within, row_inside = _runs(source.start[graphs + 1] - begin, room)
        row = jnp.where(row_inside, begin[row_slot] + row_within, 0)
        return NeighbourRows(
            renumber(source.first[:, node], offset[slot], inside),
            renumber(source.more[:, row], offset[row_slot], row_inside),
            renumber(source.node[row], offset[row_slot], row_inside),
        )

    into = rows(packed.into, shape.rows)
    if packed.edge_start is not None:
        begin = packed.edge_start[graphs]
        edge_slot, edge_within, edge_inside = _runs(packed.edge_start[graphs + 1] - begin, shape.edges)
        edge = jnp.where(edge_inside, begin[edge_slot] + edge_within, 0)
        into = Segments(
            *(renumber(ends[edge], offset[edge_slot], edge_inside) for ends in (packed.senders, packed.receivers))
        )
    real = graphs < len(packed.labels) - 1
    return Batch(
        labels=packed.labels[graphs],
        graph_mask=real,
        nodes_per_graph=counts.astype(jnp.float32),
        node_graph=jnp.where(inside, slot, len(graphs)),
        node_mask=inside,
        into=into,
        out=rows(packed.out, shape.rows_out),
    )


def whole(graph_set: GraphSet, *, layout: BatchLayout = "auto") -> Batch:
    """All graphs of a set in one batch without padding, in their order: for a look at a few graphs, and tests."""
    packed = pack(graph_set, len(graph_set), shapes=1, layout=layout)
    return assemble(packed, np.arange(len(graph_set), dtype=np.int32), packed.shapes[0])


def from_graphs(graph: Graph, labels: Any = None, *, padded: bool = False) -> Batch:
    """A ``jraph.GraphsTuple`` of one or more graphs, as ``jraph.batch`` makes it, as a batch; traced or not.

    Args:
      graph: its ``nodes``, ``edges`` and ``globals`` are not looked at, except that ``nodes``, where there are any,
        say how many nodes there are. Edges may come in any order.
      labels: int [graphs], 0 by default; of padding graphs anything.
      padded: whether ``jraph.pad_with_graphs`` made it: then the last graph that has a node, and the empty ones
        after it, are padding. They are outside the masks, and contribute nothing to sums, means and batch norms.

    Raises:
      ValueError: where ``n_node`` is traced and there are no ``nodes``: nothing then says how many nodes there are.

    >>> from ldp_jax.graph import graphs
    >>> batch = from_graphs(graphs.from_edges([[0, 1], [1, 2]], num_nodes=4))
    >>> batch.sum_neighbours(jnp.ones((4, 1)))[:, 0].tolist(), batch.graph_mask.tolist()
    ([1.0, 2.0, 1.0, 0.0], [True])
    """
    leaves = jax.tree.leaves(as_graph(graph).nodes)
    if leaves:
        n = leaves[0].shape[0]
    elif validate.concrete(graph.n_node):
        n = int(np.sum(np.asarray(graph.n_node)))
    else:
        raise ValueError("graph must have nodes where it is traced: an array [n, ...] that says how many there are")
    counts = jnp.asarray(graph.n_node, jnp.int32)
    places = jnp.arange(len(counts))
    real = places < (len(counts) - 1 - jnp.argmax(counts[::-1] > 0) if padded else len(counts))
    counts = jnp.where(real, counts, 0)
    run, _, inside = _runs(counts, n)
    senders, receivers = jnp.asarray(graph.senders, jnp.int32), jnp.asarray(graph.receivers, jnp.int32)
    receivers = jnp.where(receivers < counts.sum(), receivers, n)
    order = jnp.argsort(receivers, stable=True)
    known = jnp.zeros(len(counts), jnp.int32) if labels is None else jnp.asarray(labels, jnp.int32)
    return Batch(
        labels=jnp.where(real, known, 0),
        graph_mask=real,
        nodes_per_graph=counts.astype(jnp.float32),
        node_graph=jnp.where(inside, run, len(counts)),
        node_mask=inside,
        into=Segments(senders[order], receivers[order]),
        out=None,
    )
