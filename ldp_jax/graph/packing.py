"""How sets of graphs are packed into a few static shapes, so that an epoch is one compiled program.

Nodes that no sum over neighbours can tell apart are one node with a count. Graphs are sorted by
size and cut into strata of as many graphs as there are batches; each batch gets one random graph of
each stratum, so that all are nearly of one size.
"""

import itertools
import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Bool, Float, Int

from ldp_jax.core import long_sums, random, validate
from ldp_jax.core.pytree import pytree, static
from ldp_jax.core.sharding import divided_by
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import AnyArray, Array, Graph, PRNGKey
from ldp_jax.graph.aggregation import (
    NeighbourRows,
    Segments,
    gather_sum,
    has_long,
    rows_of_neighbours,
)
from ldp_jax.graph.graphs import GraphSet, as_graph, whole_numbers
from ldp_jax.graph.merging import merged

__all__ = [
    "Batch",
    "GraphSet",
    "Packed",
    "Shape",
    "assemble",
    "deal",
    "from_graphs",
    "in_shapes",
    "pack",
    "whole",
]

__dir__ = lambda: __all__


_POOL = 16  # nodes that a readout adds up before the sum goes back to memory

# Deals that a shape is measured by; later ones that do not fit, up to a fifth of them, are drawn
# again
_TRIALS = 32

_DRAWS = 100  # after as many deals in a row that do not fit comes the deal by size, which does


def _filled(values: AnyArray, places: int, value: int) -> np.ndarray:
    """An array with so many places along its last axis."""
    missing = places - values.shape[-1]
    other_axes = [(0, 0)] * (values.ndim - 1)
    return np.pad(values, [*other_axes, (0, missing)], constant_values=value)


def _starts(counts: np.ndarray) -> np.ndarray:
    """Where each run begins, and where the last ends."""
    return np.concatenate([[0], np.cumsum(counts)])


# --- Layout ---------------------------------------------------------------------------------------


class Shape(NamedTuple):
    """The static shape of some ``batches``: the room of each.

    ``rows`` are of neighbours after a node's first ones, ``rows_out`` the same for the reversed
    edges. ``part`` is the room of each of the devices that share a batch, where there are several.
    """

    batches: int
    graphs: int
    nodes: int
    edges: int
    rows: int
    rows_out: int
    part: "Shape | None" = None


@pytree
class _Graded:
    """``NeighbourRows`` of a whole set, numbered within each graph; -1 if free.

    ``start`` is by graph.
    """

    first: AnyArray
    more: AnyArray
    node: AnyArray
    start: AnyArray
    long: bool = static()

    def filled(self, nodes: int, rows: int) -> "_Graded":
        """The same with so many places, of which no graph has the further ones."""
        first = _filled(self.first, nodes, -1)
        more = _filled(self.more, rows, -1)
        return _Graded(first, more, _filled(self.node, rows, 0), self.start, self.long)


@pytree
class Packed:
    """A graph set laid out for compiled training; made by :func:`pack`.

    Pass it to compiled code as an argument.

    Attributes:
      labels: int32 [graphs + 1]; the last is the empty graph, which fills free places.
      nodes_per_graph: float32 [graphs + 1].
      node_start: int32 [graphs + 2], the places of the nodes of each graph.
      node_count: float32, for how many nodes each place stands.
      strata: int32 [slots, batches], the graphs by falling size; ``graphs`` is the empty one.
      sizes: int32 [graphs + 1, 5], the room of each graph in the last five fields of
        :class:`Shape`.
      into: rows of the senders of each node.
      out: rows of the receivers of each node; None where ``into`` serves both: of a symmetric set,
        not merged.
      kind: int32 [batches], the group of each batch; the largest graphs move within theirs alone.
      room: int32 [batches, 5], what a deal may take in the last five fields of :class:`Shape`.
      shapes: the shapes of the batches, in the order of the columns of ``strata``.
      over: the devices that share each batch.
    """

    labels: AnyArray
    nodes_per_graph: AnyArray
    node_start: AnyArray
    node_count: AnyArray
    strata: AnyArray
    sizes: AnyArray
    into: _Graded
    out: _Graded | None
    kind: AnyArray
    room: AnyArray
    shapes: tuple[Shape, ...] = static()
    over: NamedSharding | None = static(default=None)

    def __len__(self) -> int:
        return len(self.labels) - 1


class Batch(NamedTuple):
    """Some graphs side by side, padded to a static shape: the input of a graph model.

    A place of a node stands for one or several, whose rows are equal in every layer of a model that
    starts from equal rows. Statistics over nodes must weigh by ``node_count``; a draw for a place
    is one for all of its nodes.

    Where devices share it, nodes are those of one device after the other, and ``nodes_per_graph``,
    ``node_graph``, ``into`` and ``out`` have a leading axis of devices; the first one has the first
    graph, the next one the second.

    Attributes:
      labels: int32 [graphs]; 0 in free places.
      graph_mask: bool [graphs], which places hold a graph.
      nodes_per_graph: float32 [graphs]; 0 in free places.
      node_graph: int32 [nodes], the place of each node's graph, non-decreasing; ``graphs`` where
        padded.
      node_count: float32 [nodes], for how many nodes each place stands; 0 where padded.
      into: the senders of each node.
      out: the rows of the reversed edges; None where those of ``into`` serve.
    """

    labels: Int[Array, " graphs"]
    graph_mask: Bool[Array, " graphs"]
    nodes_per_graph: Float[Array, " graphs"]
    node_graph: Int[Array, " nodes"]
    node_count: Float[Array, " nodes"]
    into: NeighbourRows | Segments
    out: NeighbourRows | None

    __repr__ = by_shapes

    def sum_neighbours(self, h: Float[Array, "nodes d"]) -> Float[Array, "nodes d"]:
        """The sum of ``h`` over the senders of each node's edges; 0 for padding.

        Differentiable in both modes.
        """
        if isinstance(self.into, Segments):
            return self.into.sum(h)
        parts = h.reshape(*self.node_graph.shape, h.shape[1])
        total = NeighbourRows.sum
        each = total if parts.ndim == 2 else jax.vmap(total)
        return each(self.into, parts, self.out).reshape(h.shape)

    def mean_nodes(self, h: Float[Array, "nodes d"]) -> Float[Array, "graphs d"]:
        """The mean of ``h`` over the nodes of each graph; 0 in free places.

        ``h`` has ``jax.grad`` alone.
        """
        h = h * self.node_count[:, None]
        counts = self.nodes_per_graph
        parts = h.reshape(*self.node_graph.shape, h.shape[1])
        alone = parts.ndim == 2
        pool = _pool if alone else jax.vmap(_pool)
        total = pool(parts, self.node_graph, counts)
        means = total / jnp.maximum(counts, 1.0)[..., None]
        if alone:
            return means
        return means.swapaxes(0, 1).reshape(-1, h.shape[1])[: len(self.labels)]


@jax.custom_vjp
def _pool(h: Array, node_graph: Array, counts: Array) -> Array:
    """Sums over contiguous runs of nodes: some nodes at a time, then their sums, which are few."""
    nodes = len(h)
    graphs = len(counts)
    sizes = jnp.diff(jnp.searchsorted(node_graph, jnp.arange(graphs + 1)))
    pieces = -(-sizes // _POOL)
    graph, piece, inside = _runs(pieces, (nodes + (_POOL - 1) * graphs) // _POOL)
    offset = jnp.cumsum(sizes) - sizes
    within = _POOL * piece + jnp.arange(_POOL)[:, None]
    used = inside & (within < sizes[graph])
    table = jnp.where(used, offset[graph] + within, nodes)
    padded = jnp.concatenate([h, jnp.zeros((1, h.shape[1]), h.dtype)])
    sums = gather_sum(jnp.zeros((table.shape[1], h.shape[1]), h.dtype), table, padded)
    target = jnp.where(inside, graph, graphs)
    return long_sums.segment_sum(sums, target, graphs)


_pool.defvjp(
    lambda h, node_graph, counts: (_pool(h, node_graph, counts), node_graph),
    lambda node_graph, cotangent: (
        cotangent.at[node_graph].get(mode="fill", fill_value=0.0),
        None,
        None,
    ),
)


def _runs(counts: Array, size: int) -> tuple[Array, Array, Array]:
    """Lay runs of ``counts`` places side by side.

    The run of each place, its place therein, whether it has one.
    """
    ends = jnp.cumsum(counts)
    place = jnp.arange(size, dtype=jnp.int32)
    run = jnp.searchsorted(ends, place, side="right").astype(jnp.int32)
    inside = run < len(counts)
    run = jnp.minimum(run, len(counts) - 1)
    return run, place - (ends - counts)[run], inside


def pack(
    graph_set: GraphSet,
    batch_size: int,
    *,
    shapes: int = 2,
    mesh: Mesh | None = None,
    merge: bool = True,
    like: GraphSet | None = None,
) -> Packed:
    """Lay a graph set out for batches of a few static shapes; on the host, once.

    Batches have at most ``batch_size`` graphs, and nearly equally many. They have at most
    ``shapes`` shapes; each is compiled, and more of them waste less. :func:`deal` repeats a draw
    that does not fit. All devices of a ``mesh`` share each batch, which has the graphs that it has
    on one. Without ``merge`` each node has a place.

    ``like`` is a set that this one is a part of. Then all batches have one shape, which follows the
    larger set, in steps: other parts of as many graphs, and of sets about as dense, have the same.

    >>> pairs = GraphSet.from_edges(
    ...     [1, 0, 3, 2], [0, 1, 2, 3], [0, 0, 1, 1, 2], [0, 1, 1]
    ... )
    >>> pack(pairs, batch_size=2).shapes
    (Shape(batches=2, graphs=2, nodes=2, edges=1, rows=0, rows_out=0, part=None),)
    """
    validate.integer_in(1, batch_size=batch_size, shapes=shapes)
    parts = 1
    over = None
    if mesh is not None:
        validate.require(
            not mesh.is_multi_process,
            "mesh must be of devices of one process: batches are not shared by several",
        )
        validate.require(like is None, "like must be None where devices of a mesh share batches")
        parts = mesh.size
        # The axes are automatic, whatever those of the mesh are: programs index rows.
        over = NamedSharding(Mesh(mesh.devices, mesh.axis_names), P(mesh.axis_names))

    graphs = len(graph_set)
    wider = (None, None)
    if like is not None:
        wider = _laid_out(like, merge, wider, both_ways=True)[2:]
    sizes, count, into, out = _laid_out(graph_set, merge, wider, both_ways=like is not None)

    batches = -(-graphs // batch_size)
    slots = -(-graphs // batches)
    strata = _strata(sizes, slots, batches)
    loads = _trial_loads(sizes, strata)
    top = sizes[strata[0], 1:3].sum(1)
    found = []
    room = []
    largest = np.pad(sizes[strata].max(1), ((0, -slots % parts), (0, 0)))
    for begin, end in _classes(top, shapes):
        most = loads[begin:end].max(0)
        most[0] = slots
        largest[0] = sizes[strata[0, begin:end]].max(0)  # the other strata are dealt to all shapes
        part = None
        if mesh is not None:
            of_devices = largest.reshape(-1, parts, 5).sum(0)
            part = Shape(1, *of_devices.max(0).tolist())
        found.append(Shape(end - begin, *most.tolist(), part=part))
        room += [most] * (end - begin)
    kind = np.repeat(np.arange(len(found)), [shape.batches for shape in found])

    if like is not None:
        shape = _shared_shape(like, slots, batches, loads.max(0))
        found = [shape]
        assert out is not None  # both ways
        count = _filled(count, batches * shape.nodes, 0)
        into = into.filled(batches * shape.nodes, batches * shape.rows)
        out = out.filled(batches * shape.nodes, batches * shape.rows_out)
    made = Packed(
        labels=np.append(graph_set.labels, 0),
        nodes_per_graph=np.append(graph_set.nodes_per_graph, 0).astype(np.float32),
        node_start=_starts(sizes[:, 1]),
        node_count=count.astype(np.float32),
        strata=strata,
        sizes=sizes,
        into=into,
        out=out,
        kind=kind,
        room=np.stack(room),
        shapes=tuple(found),
        over=over,
    )
    narrow = lambda leaf: leaf.astype(np.float32 if leaf.dtype.kind == "f" else np.int32)
    # Unlike jnp.asarray, this compiles no program for each new shape.
    return jax.device_put(jax.tree.map(narrow, made))


def _laid_out(
    graph_set: GraphSet, merge: bool, like: tuple, *, both_ways: bool
) -> tuple[np.ndarray, np.ndarray, _Graded, _Graded | None]:
    """The graphs' sizes, the nodes' counts, and the rows ``into`` and ``out`` of nodes.

    Rows are as wide as those of ``like``.

    Unless ``both_ways``, rows into a node serve for those out of it where they are the same.
    """
    graphs = len(graph_set)
    laid: Any = merged(graph_set) if merge else graph_set
    senders = laid.senders
    receivers = laid.receivers
    node_graph = laid.node_graph
    count = laid.count if merge else np.ones(len(node_graph), np.int32)
    nodes = np.bincount(node_graph, minlength=graphs)
    edges = np.bincount(node_graph[receivers], minlength=graphs)
    first = _starts(nodes)[node_graph]
    into, rows = _neighbours(senders, receivers, node_graph, first, graphs, like[0])
    out = None
    rows_out = rows
    if both_ways or len(node_graph) < len(graph_set.node_graph) or not graph_set.symmetric:
        order = np.lexsort((receivers, senders))
        ends = receivers[order], senders[order]
        out, rows_out = _neighbours(*ends, node_graph, first, graphs, like[1])
    sizes = np.zeros((graphs + 1, 5), np.int64)
    sizes[:graphs] = np.stack([np.ones(graphs, np.int64), nodes, edges, rows, rows_out], 1)
    return sizes, count, into, out


def _strata(sizes: np.ndarray, slots: int, batches: int) -> np.ndarray:
    """The graphs by falling size, as rows of one graph for each batch."""
    graphs = len(sizes) - 1
    order = np.argsort(-sizes[:graphs, 1:3].sum(1), kind="stable")
    free = np.full(slots * batches - graphs, graphs)
    return np.append(order, free).reshape(slots, batches)


def _shared_shape(like: GraphSet, slots: int, batches: int, needed: np.ndarray) -> Shape:
    """The shape of all batches of a part of a set, with room for what is needed.

    Rooms are steps from a batch of the whole set by its public sizes. Parts of as many graphs have
    few of them, under any noise.
    """
    graphs = len(like)
    sizes = np.zeros((graphs + 1, 5), np.int64)
    sizes[:graphs, :2] = np.stack([np.ones(graphs, np.int64), like.nodes_per_graph], 1)
    usual = _trial_loads(sizes, _strata(sizes, slots, -(-graphs // slots))).max(0)[1]
    # A part of few graphs is less like the whole than a part of many.
    spread = 2 / np.sqrt(slots * batches) - 2 / np.sqrt(max(graphs, slots * batches))
    base = usual * (1 + spread)

    # One batch is a small part of the work: there room for the base costs little.
    few = batches == 1
    least = np.maximum(needed, base if few else 1.0)

    def room(places: float, step: float) -> int:
        steps = np.ceil(np.log(places / base) / np.log(step))
        return int(np.ceil(base * step**steps))

    nodes = room(float(least[1]), 2.0 if few else math.sqrt(2.0))
    rows = room(float(least[3:].max()), 2.0)
    return Shape(batches, slots, nodes, 0, rows, rows)  # edges stand in rows


def _trial_loads(sizes: np.ndarray, strata: np.ndarray) -> np.ndarray:
    """The room of the batch of each of the largest graphs, over some deals; [batches, 5]."""
    loads = sizes[strata].sum(0)  # the deal by size: it must fit
    draws = np.random.default_rng(0)  # decides how much room there is, and nothing else
    for _ in range(_TRIALS):
        rest = sum((draws.permutation(row) for row in sizes[strata[1:]]), np.zeros_like(loads))
        loads = np.maximum(loads, sizes[strata[0]] + rest)
    return loads


def _neighbours(
    senders: np.ndarray,
    receivers: np.ndarray,
    node_graph: np.ndarray,
    first_node: np.ndarray,
    graphs: int,
    like: _Graded | None,
) -> tuple[_Graded, np.ndarray]:
    """Rows of the senders of each node, as wide as others, and the number of rows of each graph.

    Edges are sorted by receiver.
    """
    n = len(node_graph)
    degree = np.bincount(receivers, minlength=n)
    start = np.cumsum(degree) - degree
    local = senders - first_node[senders]
    widths = _widths(degree) if like is None else (len(like.first), len(like.more))
    first, more, node = rows_of_neighbours(local, start, degree, widths, free=-1)
    per_graph = np.bincount(node_graph[node], minlength=graphs)
    # Free places name no graph, which has no rows.
    begin = np.append(_starts(per_graph), len(node)).astype(np.int32)
    long = has_long(node) or (like is not None and like.long)
    inside = (node - first_node[node]).astype(np.int32)
    return _Graded(first, more, inside, begin, long=long), per_graph


def _widths(degree: np.ndarray) -> tuple[int, int]:
    """How many first neighbours, and how many in a further row.

    The least work for these degrees.
    """
    # A row's sum goes back to memory by a scatter, which costs about as much as four gathers.
    choices = list(itertools.product((1, 2, 4, 8, 16), (2, 4, 8, 16)))
    work = []
    for head, width in choices:
        further = np.maximum(degree - head, 0)
        rows = int((-(-further // width)).sum())
        work.append(len(degree) * head + (width + 4) * rows)
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
    end = n
    runs = []
    for _, begin in reversed(cuts[: pieces + 1]):
        runs.append((int(begin[end]), end))
        end = int(begin[end])
    return runs[::-1]


# --- Batches --------------------------------------------------------------------------------------


@jax.jit
def deal(packed: Packed, key: PRNGKey | None = None) -> tuple[Int[Array, "batches slots"], ...]:
    """Draw which graphs share a batch, and in which order the batches come.

    Without a key in the order of size.

    For each shape the graphs of its batches, int32 [batches, slots], each once; free places hold
    their number.
    """
    strata = packed.strata
    if key is not None:

        def draw(attempt):
            order = random.uniform(random.fold_in(key, attempt), strata.shape)
            # The largest graphs of the batches decide the shapes: they move within their group
            # alone.
            order = order.at[0].add(packed.kind.astype(jnp.float32))
            return jnp.take_along_axis(strata, jnp.argsort(order, axis=1), axis=1)

        def unfit(carry):
            attempt, strata = carry
            load = packed.sizes[strata].sum(0)
            return (load > packed.room).any() & (attempt < _DRAWS)

        def redraw(carry):
            attempt = carry[0] + 1
            return attempt, jnp.where(attempt < _DRAWS, draw(attempt), strata)

        _, strata = jax.lax.while_loop(unfit, redraw, (jnp.int32(0), draw(jnp.int32(0))))
    return in_shapes(packed, strata.T)


def in_shapes(packed: Packed, values: AnyArray) -> tuple[Array, ...]:
    """Values by batch, for each shape those of its batches."""
    ends = np.cumsum([shape.batches for shape in packed.shapes])
    return tuple(jnp.split(values, ends[:-1]))


@partial(jax.jit, static_argnames="shape")
def assemble(packed: Packed, graphs: Int[AnyArray, " slots"], shape: Shape) -> Batch:
    """Put ``graphs`` that :func:`deal` drew for ``shape`` in one batch, which devices may share."""
    graphs = jnp.asarray(graphs)
    over = packed.over
    if over is None or shape.part is None:
        return _assemble(packed, graphs, shape)
    devices = over.mesh.size
    filled = jnp.pad(graphs, (0, -len(graphs) % devices), constant_values=len(packed))
    part = partial(_assemble, packed, shape=shape.part)
    each = jax.vmap(part)(filled.reshape(-1, devices).T)
    each = jax.tree.map(lambda leaf: divided_by(leaf, over), each)
    # Each node with its device; each graph in its place, which dropout knows.
    count = each.node_count.reshape(-1)
    labels = packed.labels[graphs]
    return each._replace(labels=labels, graph_mask=graphs < len(packed), node_count=count)


def _assemble(packed: Packed, graphs: Array, shape: Shape) -> Batch:
    counts = packed.node_start[graphs + 1] - packed.node_start[graphs]
    slot, within, inside = _runs(counts, shape.nodes)
    offset = jnp.cumsum(counts) - counts
    node = jnp.where(inside, packed.node_start[graphs[slot]] + within, 0)

    def renumber(local, offsets, real):
        return jnp.where(real & (local >= 0), local + offsets, shape.nodes)

    def rows(source, room):
        begin = source.start[graphs]
        row_slot, row_within, row_inside = _runs(source.start[graphs + 1] - begin, room)
        row = jnp.where(row_inside, begin[row_slot] + row_within, 0)
        return NeighbourRows(
            renumber(source.first[:, node], offset[slot], inside),
            renumber(source.more[:, row], offset[row_slot], row_inside),
            renumber(source.node[row], offset[row_slot], row_inside),
            long=source.long,
        )

    real = graphs < len(packed)
    return Batch(
        labels=packed.labels[graphs],
        graph_mask=real,
        nodes_per_graph=packed.nodes_per_graph[graphs],
        node_graph=jnp.where(inside, slot, len(graphs)),
        node_count=jnp.where(inside, packed.node_count[node], 0.0),
        into=rows(packed.into, shape.rows),
        out=None if packed.out is None else rows(packed.out, shape.rows_out),
    )


def whole(graph_set: GraphSet) -> Batch:
    """Put all graphs of a set in one batch without padding, in their order."""
    packed = pack(graph_set, len(graph_set), shapes=1)
    return assemble(packed, np.arange(len(graph_set), dtype=np.int32), packed.shapes[0])


def from_graphs(
    graph: Graph, labels: Int[AnyArray, " graphs"] | None = None, *, padded: bool = False
) -> Batch:
    """Make a batch of a ``jraph.GraphsTuple`` of graphs, as ``jraph.batch`` makes it.

    The graph may be traced.

    Args:
      graph: edges in any order; its ``nodes``, where there are any, give the number of nodes, and
        nothing else.
      labels: int [graphs], 0 by default; of padding graphs anything.
      padded: by ``jraph.pad_with_graphs``: the last graph with a node, and all after it, are
        padding.

    >>> from ldp_jax.graph import graphs
    >>> batch = from_graphs(graphs.from_edges([[0, 1], [1, 2]], num_nodes=4))
    >>> (
    ...     batch.sum_neighbours(jnp.ones((4, 1)))[:, 0].tolist(),
    ...     batch.graph_mask.tolist(),
    ... )
    ([1.0, 2.0, 1.0, 0.0], [True])
    """
    graph = as_graph(graph)
    leaves = jax.tree.leaves(graph.nodes)
    if leaves:
        n = leaves[0].shape[0]
    elif validate.concrete(graph.n_node):
        n = int(np.sum(np.asarray(graph.n_node)))
    else:
        raise ValueError(
            "graph must have nodes where it is traced: an array [n, ...], which says how many"
        )
    counts = jnp.asarray(graph.n_node, jnp.int32)
    places = jnp.arange(len(counts))
    count = len(counts) - 1 - jnp.argmax(counts[::-1] > 0) if padded else len(counts)
    real = places < count
    counts = jnp.where(real, counts, 0)
    run, _, inside = _runs(counts, n)
    senders = jnp.asarray(graph.senders, jnp.int32)
    receivers = jnp.asarray(graph.receivers, jnp.int32)
    receivers = jnp.where(receivers < counts.sum(), receivers, n)
    order = jnp.argsort(receivers, stable=True)
    known = jnp.zeros(len(counts), jnp.int32)
    if labels is not None:
        validate.shaped(len(counts), labels=labels)
        if validate.concrete(labels):
            labels = whole_numbers("labels", labels, "graph")
        known = jnp.asarray(labels, jnp.int32)
    return Batch(
        labels=jnp.where(real, known, 0),
        graph_mask=real,
        nodes_per_graph=counts.astype(jnp.float32),
        node_graph=jnp.where(inside, run, len(counts)),
        node_count=inside.astype(jnp.float32),
        into=Segments(senders[order], receivers[order]),
        out=None,
    )
