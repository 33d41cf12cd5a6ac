r"""Personalized PageRank on the server.

:math:`Z = \sum_l \alpha (1-\alpha)^l (D^{r-1} A D^{-r})^l X`.

Z solves :math:`(I - (1-\alpha) P) Z = \alpha X`, :math:`P = D^{r-1} A D^{-r}`, whose spectrum is
within [-1, 1]: Chebyshev semi-iteration reaches an error of 1e-5 in 26 products at alpha = 0.1
where the power series needs 110. The iteration runs on :math:`W = D^{-r} Z`, for which the operator
is :math:`D^{-1} A` whatever r is: no edge weights, one division a row. A node without edges keeps z
= alpha x.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Bool, Float

from ldp_jax.core import validate
from ldp_jax.core.pytree import pytree, static
from ldp_jax.core.sharding import each_part, placement, varying
from ldp_jax.core.types import Array, Graph, Numbers, Scalar
from ldp_jax.graph import aggregation, graphs
from ldp_jax.graph.aggregation import Divided, Induced, Segments, Tables

__all__ = [
    "OperatorLayout",
    "Operator",
    "block_width",
    "chebyshev_steps",
    "kprop",
    "kprop_many",
    "operator",
    "ppr",
    "ppr_by_blocks",
    "ppr_dense",
    "ppr_push",
    "ppr_rows",
    "take_columns",
    "traced_operator",
]

__dir__ = lambda: __all__


OperatorLayout = Literal["auto", "segment", "ell"]
"""A product (:func:`operator`) is a sorted segment sum, or gathers of padded rows."""
Normalisation = Literal["mean", "symmetric"]

_DENSE = 40
"""Bytes a pair of nodes of a dense solve: five float64 matrices."""


@pytree
class Operator:
    """D^-1 A of a graph, ready to be multiplied with; made by :func:`operator`.

    Attributes:
      degree: float32 [n], how many edges end at each node.
      neighbours: a layout of :mod:`ldp_jax.graph.aggregation`.
      directed: whether an edge may lack its reverse; then there are segments, and :func:`ppr` adds
        up the power series, because Chebyshev iteration may diverge.
    """

    degree: Float[Array, "*runs n"]
    neighbours: Segments | Tables | Induced | Divided
    directed: bool = static(default=False)

    @property
    def num_nodes(self) -> int:
        """How many nodes the graph has."""
        return self.degree.shape[-1]

    @property
    def num_places(self) -> int:
        """How many neighbours are gathered in a product.

        The edges of both directions, and padding.
        """
        sums = self.neighbours
        if isinstance(sums, (Segments, Divided)):
            return sums.senders.size
        rows = sums.whole if isinstance(sums, Induced) else sums
        return rows.first.size + rows.others.first.size + rows.others.more.size

    @property
    def layout(self) -> str:
        """``segment`` or ``ell``."""
        return "segment" if isinstance(self.neighbours, (Segments, Divided)) else "ell"

    def sum(self, h: Float[Array, "n ..."]) -> Float[Array, "n ..."]:
        """The sum over the senders of each node's edges; its own transpose on a symmetric graph."""
        sums = self.neighbours
        if self.directed:
            return sums.sum(h)
        return aggregation.linear(sums.sum, sums.sum, h)

    def average(self, w: Float[Array, "n c"]) -> Float[Array, "n c"]:
        """D^-1 A w, of :meth:`rows`; 0 for a node without edges."""
        sums = self.neighbours
        total = sums.add_up(w) if isinstance(sums, Tables) else sums.sum(w)
        return total / jnp.maximum(self.rows(self.degree), 1.0)[:, None]

    def rows(self, values: Array) -> Array:
        """Bring values by node into the layout's own order, which may have a row of 0 more."""
        return self.neighbours.rows(values) if isinstance(self.neighbours, Tables) else values

    def nodes(self, values: Array) -> Array:
        """Bring values in the layout's own order back to nodes."""
        return self.neighbours.nodes(values) if isinstance(self.neighbours, Tables) else values

    def induced(self, *parts: Bool[Array, " n"]) -> "Operator":
        """The operator that keeps the edges within each of some parts of the nodes.

        A program may decide the parts. No node is in two parts.

        >>> path = operator(graphs.from_edges([[0, 1], [1, 2]], 3))
        >>> path.induced(jnp.array([True, True, False])).degree.tolist()
        [1.0, 1.0, 0.0]
        """
        n = self.num_nodes
        sums = self.neighbours
        validate.require(
            parts and all(part.shape == (n,) and part.dtype == bool for part in parts),
            f"parts must be bool [{n}] each, at least one, got "
            f"{[f'{part.dtype}{list(part.shape)}' for part in parts]}",
        )
        validate.require(
            not all(map(validate.concrete, parts)) or np.sum(parts, 0).max(initial=0) <= 1,
            "parts must have no node in common, and two of them have",
        )
        if isinstance(sums, (Induced, Divided)):
            raise TypeError(
                "parts of parts are not laid out: ask the operator of the whole graph on one device"
            )
        if isinstance(sums, Tables):
            within = Induced(sums, jnp.stack(parts).astype(jnp.float32))
            degree = within.sum(jnp.ones(n, jnp.float32))
            return dataclasses.replace(self, degree=degree, neighbours=within)
        kept = jnp.zeros(sums.senders.shape, bool)
        for part in parts:
            sends = part.at[sums.senders].get(mode="clip")
            receives = part.at[sums.receivers].get(mode="clip")
            kept = kept | (sends & receives)
        receivers = jnp.where(kept, sums.receivers, n)  # the others become padding, last
        order = jnp.argsort(receivers, stable=True)
        sums = Segments(sums.senders[order], receivers[order])
        return dataclasses.replace(self, degree=graphs.degree(sums.receivers, n), neighbours=sums)


def operator(
    graph: Graph,
    layout: OperatorLayout = "auto",
    *,
    allow_directed: bool = False,
    places: int | None = None,
    mesh: Mesh | None = None,
) -> Operator:
    """Check a graph on the host and lay it out for repeated products; do it once.

    Args:
      graph: a concrete ``GraphsTuple``, symmetric, as :func:`ldp_jax.graph.graphs.from_edges` makes
        it.
      layout: ``ell`` is a gather of padded rows of neighbours, for a CPU; its shapes are those of
        one graph. ``segment`` is a sorted segment sum, far faster on a GPU; one program serves all
        graphs of as many nodes and edges. ``auto`` is ``ell`` on a CPU, ``segment`` elsewhere.
      allow_directed: whether to take a graph that is not symmetric, too, in the layout ``segment``:
        P averages over the senders of a node's edges, such as the neighbours that a user reported.
      places: room for so many edges, both directions counted, the rest padding; of layout
        ``segment``. One program then serves graphs whose numbers of edges differ, such as noisy
        ones.
      mesh: devices that share the nodes and their edges, of layout ``segment``, for graphs beyond
        one of them. Each has a block of rows of Z. Rows stay divided where their number is a
        multiple of that of the devices; nodes without edges may fill them up.
    """
    validate.one_of(get_args(OperatorLayout), layout=layout)
    graph = graphs.as_graph(graph)
    if places is not None:
        validate.integer_in(len(graph.senders), places=places)
        validate.one_of(("segment",), layout=layout)
    directed = allow_directed and not graphs.is_symmetric(graph)
    if directed:
        n = graphs.num_nodes(graph)
        ends = (np.asarray(graph.senders), np.asarray(graph.receivers))
        senders, receivers = graphs.sorted_edges(*ends, np.zeros(n, np.int32))
    else:
        senders, receivers, n = graphs.validate_symmetric(graph)
    if mesh is not None:
        validate.require(
            places is None, "places must be None with a mesh, whose devices have room enough"
        )
        validate.one_of(("auto", "segment"), layout=layout)
        return Operator(*aggregation.divided(senders, receivers, n, mesh), directed)
    # jnp.asarray would compile a program for each shape that is brought to the device.
    degree = jax.device_put(np.bincount(receivers, minlength=n).astype(np.float32))
    elsewhere = layout == "auto" and jax.default_backend() != "cpu"
    if directed or layout == "segment" or elsewhere:
        padding = (0, 0 if places is None else places - len(senders))
        senders = jax.device_put(np.pad(senders, padding))
        receivers = jax.device_put(np.pad(receivers, padding, constant_values=n))
        return Operator(degree, Segments(senders, receivers), directed)
    return Operator(degree, aggregation.tables(senders, receivers, n))


def chebyshev_steps(alpha: Scalar, tol: Scalar) -> Array:
    r"""Count the products that :func:`ppr` makes.

    The least even m with :math:`1 / T_{m+1}(1 / (1-\alpha)) \le tol`.

    >>> int(chebyshev_steps(0.1, 1e-5))
    26
    """
    decay = jnp.clip(1.0 - jnp.asarray(alpha, jnp.float32), 1e-6, 1 - 1e-7)
    tol = jnp.clip(jnp.asarray(tol, jnp.float32), 1e-8, 1.0)  # float32 reaches nothing below
    steps = jnp.arccosh(1.0 / tol) / jnp.arccosh(1.0 / decay)
    return 2 * (jnp.ceil(steps).astype(jnp.int32) // 2)


def _powers_of_degrees(op: Operator, r: Array) -> Array:
    """D^r as a column, in the layout's own order; an isolated node counts as degree 1."""
    return jnp.maximum(op.rows(op.degree), 1.0)[:, None] ** r


def semi_iteration(
    step: Callable[[Array], Array], source: Array, decay: Array, steps: Array
) -> Array:
    """Solve z = step(z) + source by Chebyshev semi-iteration.

    The spectrum of step is within [-decay, decay], and ``steps`` is even. The start 0 makes the
    first iterate the source without a product.
    """

    def after(newer, older, omega):
        omega = 1.0 / (1.0 - 0.25 * decay**2 * omega)
        return older + omega * (step(newer) + source - older), omega

    def two(_, carry):
        # Two steps write each iterate where it was. One step would swap them by copies.
        older, newer, omega = carry
        older, omega = after(newer, older, omega)
        newer, omega = after(older, newer, omega)
        return older, newer, omega

    # omega_1 = 1 and omega_2 = 1 / (1 - decay^2 / 2): a start of 2 makes the recurrence give
    # omega_2 first.
    start = jnp.zeros_like(source), source, jnp.full_like(decay, 2.0)
    _, z, _ = jax.lax.fori_loop(0, steps // 2, two, start)
    return z


def block_width() -> int:
    """Columns worked on at a time; on a CPU so few that its caches hold what neighbours share."""
    # A column of narrower rows costs more to gather and to scatter, too.
    return 32 if jax.default_backend() == "cpu" else 1024


@partial(jax.jit, static_argnames="width")
def take_columns(x: Float[Array, "n c"], start: Scalar, *, width: int) -> Float[Array, "n width"]:
    """Columns [start, start + width)."""
    return jax.lax.dynamic_slice_in_dim(x, start, width, 1)


def _blocked(function: Callable[[Array], Array], x: Array) -> Array:
    """Apply a map of columns to blocks of them, one after the other, within a program.

    It gives [..., n, c].
    """
    # A block has some columns of each device: a program does not see how columns are divided.
    n, columns = x.shape
    width = block_width()
    if columns <= width:
        return function(x)
    within = jax.sharding.get_abstract_mesh().manual_axes  # in jax.shard_map x is one part
    parts = 1 if within else math.gcd(columns, jax.device_count())
    width = max(1, width // parts)
    own = columns // parts
    missing = -own % width
    padded = jnp.pad(x.reshape(n, parts, own), ((0, 0), (0, 0), (0, missing)))

    def one(start):
        block = jax.lax.dynamic_slice_in_dim(padded, start, width, 2)
        made = function(block.reshape(n, -1))
        return made.reshape(*made.shape[:-1], parts, width)

    pieces = jnp.moveaxis(jax.lax.map(one, jnp.arange(0, own, width)), 0, -2)
    lead = pieces.shape[:-3]
    return pieces.reshape(*lead, parts, -1)[..., :own].reshape(*lead, columns)


@partial(jax.jit, static_argnames=("function", "lead", "over"))
def _by_parts(
    function: Callable[..., Array],
    op: Operator,
    x: Array,
    *numbers: Array,
    lead: tuple[None, ...] = (),
    over: NamedSharding | None = None,
) -> Array:
    """``function(op, x, ...)``, [*lead, n, c], where x is divided.

    Devices exchange rows for columns, and back.
    """
    if isinstance(op.neighbours, Divided):
        return function(op, op.neighbours.rows(x), *numbers)
    if over is None:
        return function(*varying(op, x, *numbers))
    rows, columns = over.spec

    def part(op, x, *numbers):
        if rows is None:
            return function(*varying(op, x, *numbers))
        width = x.shape[1]
        x = jnp.pad(x, ((0, 0), (0, -width % jax.lax.axis_size(rows))))
        x = jax.lax.all_to_all(x, rows, 1, 0, tiled=True)
        made = function(*varying(op, x, *numbers))
        made = jax.lax.all_to_all(made, rows, made.ndim - 2, made.ndim - 1, tiled=True)
        return made[..., :width]

    specs = (P(), over.spec, *(P() for _ in numbers))
    return each_part(part, over, specs, P(*lead, rows, columns))(op, x, *numbers)


@jax.custom_jvp
def _not_differentiated(alpha: Array, r: Array) -> tuple[Array, Array]:
    """alpha and r as they are; a derivative in them is refused."""
    return alpha, r


@_not_differentiated.defjvp
def _refuse(primals: tuple, tangents: tuple) -> tuple:
    # The closures of a linear solve are constants to JAX: without this a gradient would be 0.
    raise TypeError(
        "ppr has no derivative in alpha and r: differentiate the sum over l of alpha (1 - alpha)^l "
        "times the powers that kprop_many makes, or take differences of ppr"
    )


def _pages(op: Operator, x: Array, alpha: Array, r: Array, tol: Array) -> Array:
    """Z by Chebyshev iteration; for a directed graph by the power series."""
    decay = 1.0 - alpha

    def series(x):
        # Until decay^m <= tol.
        log_decay = jnp.log(jnp.clip(decay, 1e-6, 1 - 1e-7))
        steps = jnp.ceil(jnp.log(tol) / log_decay).astype(jnp.int32)
        power = _powers_of_degrees(op, r)
        source = alpha * op.rows(x) / power
        onward = lambda _, w: decay * op.average(w) + source
        return op.nodes(jax.lax.fori_loop(0, steps, onward, source) * power)

    if op.directed:
        return _blocked(series, x)
    steps = chebyshev_steps(alpha, tol)

    def pages(columns, r):
        def chebyshev(x):
            power = _powers_of_degrees(op, r)
            source = alpha * op.rows(x) / power
            onward = lambda w: decay * op.average(w)
            return op.nodes(semi_iteration(onward, source, decay, steps) * power)

        return _blocked(chebyshev, columns)

    # The transpose of P_r is P_(1-r).
    return aggregation.linear(lambda b: pages(b, r), lambda b: pages(b, 1.0 - r), x)


@partial(jax.jit, donate_argnums=0)
def _ppr_into(out: Array, op: Operator, x: Array, start: Array, *numbers: Array) -> Array:
    made = _by_parts(_pages, op, x, *numbers).astype(out.dtype)
    return jax.lax.dynamic_update_slice_in_dim(out, made, start, 1)


def ppr_by_blocks(
    op: Operator,
    block: Callable[[np.int32], Float[Array, "n width"]],
    columns: int,
    alpha: Scalar,
    r: Scalar,
    tol: Scalar = 1e-5,
) -> Float[Array, "n columns"]:
    """Propagate columns that the host makes block by block, as :func:`ppr` does.

    One program serves all blocks of a graph.

    ``block(start)`` gives the columns from ``start`` on: :func:`block_width` of them, or all where
    there are fewer. The last block may overlap the one before it.
    """
    _check(alpha, r, tol)
    numbers = [np.float32(number) for number in (alpha, r, tol)]
    width = block_width()
    if columns <= width:
        return _by_parts(_pages, op, block(np.int32(0)), *numbers)
    starts = [*range(0, columns - width, width), columns - width]
    if isinstance(op.neighbours, Divided):  # whose rows stay divided
        *pieces, last = [
            _by_parts(_pages, op, block(np.int32(start)), *numbers) for start in starts
        ]
        missing = columns - width * len(pieces)
        return jnp.concatenate([*pieces, last[:, -missing:]], axis=1)
    made = block(np.int32(0))
    # On a mesh each device has the whole of a block.
    where = made.sharding if isinstance(made.sharding, NamedSharding) else None
    empty = np.zeros((op.num_nodes, columns), jnp.result_type(made, jnp.float32))
    z = jax.device_put(empty, where)
    for start in starts:
        if start:
            made = block(np.int32(start))  # there are never more than two blocks
        z = _ppr_into(z, op, made, np.int32(start), *numbers)
    return z


def _as_operator(op_or_graph: Operator | Graph, num_nodes: int | None = None) -> Operator:
    """An operator as it is, or that of a graph; a traced graph is not checked."""
    if isinstance(op_or_graph, Operator):
        return op_or_graph
    graph = graphs.as_graph(op_or_graph)
    if validate.concrete(graph.senders):
        return operator(graph)
    if num_nodes is None:
        raise ValueError(
            "graph is traced and does not tell how many nodes it has: use traced_operator(graph, n)"
        )
    return traced_operator(graph, num_nodes)


def traced_operator(graph: Graph, num_nodes: int) -> Operator:
    """The ``segment`` operator of a traced graph, also under ``vmap``.

    Unchecked: symmetric, sorted by receiver.
    """
    graph = graphs.as_graph(graph)
    senders = jnp.asarray(graph.senders)
    receivers = jnp.asarray(graph.receivers)
    return Operator(graphs.degree(receivers, num_nodes), Segments(senders, receivers))


def _check(
    alpha: Scalar, r: Scalar, tol: Scalar = 1.0, kind: type[np.floating] = np.float32
) -> None:
    shapes = {name: np.shape(one) for name, one in (("alpha", alpha), ("r", r), ("tol", tol))}
    several = [f"{name} of shape {shape}" for name, shape in shapes.items() if shape]
    validate.require(
        not several, f"alpha, r and tol must be numbers, got {', '.join(several)}: vmap over them"
    )
    validate.in_range(0.0, 1.0, open_lower=True, alpha=alpha, tol=tol)
    validate.in_range(0.0, 1.0, r=r)
    validate.require(
        not validate.concrete(alpha) or kind(1.0) - kind(alpha) < 1.0,
        f"alpha must be at least {np.finfo(kind).epsneg / 2:.0e}, or 1 - alpha is 1 in "
        f"{kind.__name__}",
        alpha,
    )


def _check_rows(num_nodes: int, x: Numbers) -> None:
    validate.require(
        np.shape(x)[:1] == (num_nodes,),
        f"x must have a row for each of {num_nodes} nodes, got shape {np.shape(x)}",
    )


def _given(op_or_graph: Operator | Graph, x: Numbers) -> tuple[Operator, Array]:
    """The operator and the columns of x, float32 or float64 [n, c]."""
    kind = type(x).__name__
    validate.unnamed(x=x)
    validate.require(not hasattr(x, "toarray"), f"x must be dense, got {kind}: give x.toarray()")
    validate.require(np.ndim(x), f"x must have a row for each node, got {kind} of shape ()")
    validate.require(not np.iscomplexobj(x), f"x must be of real numbers, got a complex {kind}")
    if not isinstance(x, jax.Array) and np.asarray(x).dtype.kind != "f":
        # JAX would take the whole number 2^32 + 3 for 3.
        x = validate.numbers(x=x).astype(np.float32)
    columns = jnp.asarray(x)
    columns = columns.astype(jnp.promote_types(columns.dtype, jnp.float32))
    op = _as_operator(op_or_graph, columns.shape[0])
    _check_rows(op.num_nodes, x)
    return op, columns[:, None] if columns.ndim == 1 else columns


def ppr(
    op_or_graph: Operator | Graph,
    x: Numbers,
    alpha: Scalar,
    r: Scalar,
    tol: Scalar = 1e-5,
) -> Array:
    r"""Propagate the columns of x by personalized PageRank, with Chebyshev semi-iteration.

    One compiled program for every alpha, r and tol: all are traced, and so is the number of
    products.

    Args:
      op_or_graph: an :class:`Operator`, or a graph to build one from: checked where it is concrete;
        a traced one must be symmetric and sorted by receiver. A directed operator's power series is
        added up.
      x: [n] or [n, c] float. Columns that are divided among devices stay where they are; rows are
        exchanged for columns, and back. An operator of a mesh takes any x to its own rows.
      alpha: decay factor in (0, 1]; small alpha looks far.
      r: convolution coefficient in [0, 1].
      tol: bound on the relative error in the :math:`D^{1/2-r}`-weighted Euclidean norm, column by
        column, in ideal arithmetic. Below 1e-8 it is taken as 1e-8. Rounding in float32 usually
        adds 1e-7 / alpha, whatever the degrees are. It never adds more than 1e-5 l / alpha. Here l
        is the logarithm of the largest degree to the base 32, rounded up, and at least 1. For a
        directed operator the relative error is that of W = D^-r Z in the largest entry.

    Returns:
      Z, of the shape of x, divided as x is, or as the operator. It is linear in x, and
      differentiable in x, forward and backward (of a directed operator forward alone); a derivative
      in alpha or r is refused. On explicit axes JAX refuses ``jax.grad`` outside ``jax.jit`` and
      ``jax.set_mesh(mesh)``.

    Reference: LDP-GE eq. 2, 17. Golub & Varga, Numer. Math. 1961 (semi-iteration).

    >>> graph = graphs.from_edges([[0, 1], [1, 2]], num_nodes=4)
    >>> z = ppr(graph, jnp.array([1.0, 0.0, 0.0, 1.0]), alpha=0.5, r=0.5)
    >>> np.asarray(z, float).round(3).tolist()
    [0.583, 0.236, 0.083, 0.5]
    """
    _check(alpha, r, tol)
    op, columns = _given(op_or_graph, x)
    over = placement(columns)
    known = all(map(validate.concrete, jax.tree.leaves((columns, op, alpha, r, tol))))
    whole = over is None and not isinstance(op.neighbours, Divided)
    if known and whole and columns.shape[1] > block_width():
        take = partial(take_columns, columns, width=block_width())
        return ppr_by_blocks(op, take, columns.shape[1], alpha, r, tol)
    alpha, r, tol = (jnp.asarray(v, jnp.float32) for v in (alpha, r, tol))
    z = _by_parts(_pages, op, columns, *_not_differentiated(alpha, r), tol, over=over)
    return z[:, 0] if np.ndim(x) == 1 else z


def _pushed(op: Operator, x: Array, alpha: Array, r: Array, r_max: Array) -> Array:
    power = _powers_of_degrees(op, r)

    def above(carry):
        return (jnp.abs(carry[1]) > r_max).any()

    def sweep(carry):
        reserve, residue = carry
        active = jnp.where(jnp.abs(residue) > r_max, residue, 0.0)
        pushed = (1.0 - alpha) * op.average(active)
        return reserve + alpha * active, residue - active + pushed

    residue = op.rows(x) / power
    reserve, left = jax.lax.while_loop(above, sweep, (jnp.zeros_like(residue), residue))
    # What is not a number is above no threshold, and would be left out.
    reserve = jnp.where(jnp.isnan(left).any(0), jnp.nan, reserve)
    return op.nodes(reserve * power)


def ppr_push(
    op_or_graph: Operator | Graph,
    x: Numbers,
    alpha: Scalar,
    r: Scalar,
    r_max: float = 1e-5,
) -> Array:
    """Propagate the columns of x by personalized PageRank, with backward push.

    Each sweep pushes all residues above the threshold at once.

    As in PrivGE, a push gives each neighbour u the residue over |N(u)|, not |N(v)| as in LDP-GE
    Algorithm 3 line 4.

    Args:
      op_or_graph: an :class:`Operator`, or a concrete symmetric graph.
      x: [n] or [n, c]; a column with a number that is not finite comes out as NaN.
      alpha: decay factor in (0, 1].
      r: convolution coefficient in [0, 1].
      r_max: threshold; row v is off by at most r_max * max(1, degree_v)^r. Rounding in float32
        adds at most 1e-5 l / alpha of the largest entry of D^-r x, times that power, with l as in
        :func:`ppr`. Usually it adds 1e-7 / alpha.

    Reference: LDP-GE Algorithm 3, PrivGE Algorithm 3.

    >>> graph = graphs.from_edges([[0, 1], [1, 2]], num_nodes=4)
    >>> z = ppr_push(graph, jnp.array([1.0, 0.0, 0.0, 1.0]), alpha=0.5, r=0.5)
    >>> np.asarray(z, float).round(3).tolist()
    [0.583, 0.236, 0.083, 0.5]
    """
    _check(alpha, r)
    validate.positive(r_max=r_max)
    op, columns = _given(_as_operator(op_or_graph), x)
    numbers = (jnp.asarray(v, jnp.float32) for v in (alpha, r, r_max))
    z = _by_parts(_pushed, op, columns, *numbers, over=placement(columns))
    return z[:, 0] if np.ndim(x) == 1 else z


def ppr_dense(
    graph: Graph, x: Numbers, alpha: float, r: float, *, memory: float = 4e9
) -> Float[np.ndarray, "..."]:
    """Propagate x by personalized PageRank, with a dense float64 solve on the host.

    It takes directed graphs, too, and is for tests and small graphs.

    ``ValueError`` where ``memory`` bytes do not hold five matrices of n^2 float64.

    >>> graph = graphs.from_edges([[0, 1], [1, 2]], num_nodes=4)
    >>> ppr_dense(graph, [1.0, 0.0, 0.0, 1.0], alpha=0.5, r=0.5).round(3).tolist()
    [0.583, 0.236, 0.083, 0.5]
    """
    _check(alpha, r, kind=np.float64)
    x = validate.numbers(x=validate.in_order(x, "x"))
    graph = graphs.as_graph(graph)
    n = graphs.num_nodes(graph)
    _check_rows(n, x)
    validate.positive(memory=memory)
    if _DENSE * float(n) ** 2 > memory:
        fit = math.isqrt(int(memory / _DENSE))
        raise ValueError(
            f"memory of {memory / 1e9:.3g} GB does not hold a dense solve of {n} nodes "
            f"({_DENSE * n**2 / 1e9:.3g} GB): at most {fit} nodes would fit; use ppr, whose memory "
            "grows with the edges, or raise memory"
        )
    adjacency = np.zeros((n, n))
    np.add.at(adjacency, (np.asarray(graph.receivers), np.asarray(graph.senders)), 1.0)
    degree = np.maximum(adjacency.sum(1), 1.0)
    transition = degree[:, None] ** (r - 1.0) * adjacency * degree[None, :] ** -r
    matrix = np.eye(n) - (1.0 - alpha) * transition
    return np.linalg.solve(matrix, alpha * x)


def ppr_rows(
    op_or_graph: Operator | Graph,
    nodes: Numbers,
    alpha: Scalar,
    r: Scalar,
    tol: Scalar = 1e-5,
) -> Array:
    """Compute rows of the PageRank matrix Pi itself, [len(nodes), n].

    A row says how much each node sends to the row's node.

    For r = 0 and a node with edges a row sums to 1; otherwise it does not.

    >>> graph = graphs.from_edges([[0, 1], [1, 2]], num_nodes=4)
    >>> ppr_rows(graph, [0, 3], alpha=0.5, r=0.0).sum(1).round(4).tolist()
    [1.0, 0.5]
    """
    _check(alpha, r)
    op = _as_operator(op_or_graph)
    validate.require(
        not op.directed,
        "op_or_graph must be symmetric: the rows of a directed graph's matrix are no PageRank",
    )
    validate.require(np.ndim(nodes) == 1, f"nodes must be a list, got shape {np.shape(nodes)}")
    validate.ids(op.num_nodes, nodes=nodes)
    nodes = np.asarray(nodes).astype(np.int32)  # an empty list has no integers
    seeds = jnp.zeros((op.num_nodes, len(nodes)), jnp.float32)
    seeds = seeds.at[nodes, jnp.arange(len(nodes))].set(1.0)
    return ppr(op, seeds, alpha, 1.0 - jnp.asarray(r), tol).T  # Pi_r' = Pi_(1-r)


_EXPONENTS = {"mean": 0.0, "symmetric": 0.5}
"""r of D^(r-1) A D^-r."""


def _powers(op: Operator, x: Array, r: Array, gaps: Array) -> Array:
    """P^K x for the K that ``gaps`` adds up to: [s, n, c]."""

    def of_block(x):
        degree = jnp.maximum(op.rows(op.degree), 1.0)[:, None]

        def onward(w, gap):
            def walk(w):
                return jax.lax.fori_loop(0, gap, lambda _, w: op.average(w), w)

            if op.directed:
                w = walk(w)
            else:  # (D^-1 A)' = D (D^-1 A) D^-1 where A is symmetric.
                w = aggregation.linear(walk, lambda w: degree * walk(w / degree), w)
            return w, op.nodes(w * degree**r)

        return jax.lax.scan(onward, op.rows(x) / degree**r, gaps)[1]

    return _blocked(of_block, x)


def kprop(
    op_or_graph: Operator | Graph,
    x: Numbers,
    steps: Scalar,
    *,
    normalisation: Normalisation = "symmetric",
) -> Array:
    r"""Average noise out by K sums over neighbours: KProp, without self-loops and parameters.

    :math:`(D^{-1/2} A D^{-1/2})^K X`, or :math:`(D^{-1} A)^K X`. One compiled program for every K,
    which is traced.

    Args:
      op_or_graph: as for :func:`ppr`. On a directed operator D counts the edges that end at a node.
      x: [n] or [n, d] float: estimates of noisy records, or one-hot noisy labels with 0 where none
        is given.
      steps: K >= 0; may be traced.
      normalisation: ``symmetric``, which weighs an edge by 1 / sqrt(d_u d_v), or ``mean`` over the
        neighbours.

    Returns:
      P^K X, of the shape of x; 0 for a node without edges and K >= 1. It is linear in x and
      differentiable in x, forward and backward (of a directed operator forward alone). Float32
      rounds it by at most 5e-6 l K of P^K abs(X), with l as in :func:`ppr`, and usually by 1e-7 K.

    Reference: Sajadmanesh & Gatica-Perez, Locally private graph neural networks (CCS 2021), KProp
    (GCN, mean).

    >>> path = graphs.from_edges([[0, 1], [1, 2]], num_nodes=4)
    >>> kprop(
    ...     path, jnp.array([1.0, 0.0, 3.0, 5.0]), 2, normalisation="mean"
    ... ).tolist()
    [2.0, 0.0, 2.0, 0.0]
    """
    if isinstance(steps, jax.Array) and validate.concrete(steps) and steps.ndim == 0:
        steps = steps.item()
    if validate.concrete(steps):
        steps = validate.whole(0, steps=steps)
    made = _kprop_of(op_or_graph, x, jnp.asarray(steps, jnp.int32)[None], normalisation)
    return made[0, :, 0] if np.ndim(x) == 1 else made[0]


def kprop_many(
    op_or_graph: Operator | Graph,
    x: Numbers,
    steps: Sequence[int] = (0, 2, 4, 8, 16),
    *,
    normalisation: Normalisation = "symmetric",
) -> Array:
    """Apply :func:`kprop` for several numbers of steps, in one pass up to the largest.

    The result is [s, n] or [s, n, d], in the order of ``steps``; one program serves all menus of
    equal length.

    >>> path = graphs.from_edges([[0, 1], [1, 2]], num_nodes=3)
    >>> kprop_many(
    ...     path, jnp.array([1.0, 0.0, 3.0]), (2, 0, 1), normalisation="mean"
    ... ).tolist()
    [[2.0, 0.0, 2.0], [1.0, 0.0, 3.0], [0.0, 2.0, 0.0]]
    """
    numbers = np.array([validate.whole(0, steps=k) for k in steps], np.int32)
    validate.require(len(numbers), "steps must name at least one number of steps, got none")
    order = np.argsort(numbers, kind="stable")
    gaps = np.diff(numbers[order], prepend=np.int32(0))
    made = _kprop_of(op_or_graph, x, jnp.asarray(gaps), normalisation)[np.argsort(order)]
    return made[..., 0] if np.ndim(x) == 1 else made


def _kprop_of(op_or_graph: Operator | Graph, x: Numbers, gaps: Array, normalisation: str) -> Array:
    validate.one_of(tuple(_EXPONENTS), normalisation=normalisation)
    op, columns = _given(op_or_graph, x)
    r = jnp.float32(_EXPONENTS[normalisation])
    return _by_parts(_powers, op, columns, r, gaps, lead=(None,), over=placement(columns))
