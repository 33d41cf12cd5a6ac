r"""Attention, :math:`y_i = \sum_j \alpha_{ij} h_j`, over a node and its senders.

A weight :math:`\alpha_{ij} = \mathrm{softmax}_j \, \mathrm{LeakyReLU}(a_i + b_j)` is recomputed
from its two ends where it is needed: no array of all edges with a vector for each is made.
Exponents are shifted by the largest.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int32

from ldp_jax.core import long_sums, random
from ldp_jax.core.pytree import pytree, static
from ldp_jax.core.types import AnyArray, Array, PRNGKey
from ldp_jax.graph.aggregation import Divided, Induced, Segments, Tables, linear
from ldp_jax.learning.models._dropout import STEPS

_SLOPE = 0.2  # the slope of LeakyReLU below 0

_CACHED = 2**16  # numbers of the vectors of edges that a CPU works off at a time: 256 KB

_NOWHERE = np.iinfo(np.int32).max  # a place that no sum has

_AT_ONCE = 4  # heads that a block of threefry, 64 bits, is enough for

_Totals = TypeVar("_Totals")


def attend(
    neighbours: Segments | Tables | Induced | Divided,
    receiver: Float[Array, "n heads"],
    sender: Float[Array, "n heads"],
    h: Float[Array, "n heads width"],
    *,
    key: PRNGKey | None = None,
    rate: float = 0.0,
) -> Float[Array, "n heads width"]:
    """Weighted means of rows of ``h``; first derivatives in ``receiver``, ``sender`` and ``h``.

    The layout has no self-loops. With a key, a share ``rate`` of the weights, rounded to 16 bits,
    is dropped: those that the key and the two nodes decide, in every layout.
    """
    if isinstance(neighbours, (Induced, Divided)):
        raise TypeError(
            "attention weighs each edge, and graphs in parts have none: lay the graph out as "
            "segments on one device, operator(graph, 'segment')"
        )
    dropped = 0 if key is None else round(rate * STEPS)
    words = None
    if key is not None and dropped:
        # The key is used here alone: its words are drawn from again where a weight is needed.
        words = jax.random.key_data(random.split(key, -(-receiver.shape[1] // _AT_ONCE)))
    if isinstance(neighbours, Segments):
        edges = _Edges(neighbours.senders, neighbours.receivers, jnp.arange(len(h)))
        return _attend(dropped, edges, words, receiver, sender, h)

    # All tables as one list of edges, between rows of the layout.
    first = neighbours.first
    others = neighbours.others
    nodes = jnp.arange(first.shape[1], dtype=jnp.int32)
    whose = jnp.zeros(others.first.shape[1], jnp.int32).at[neighbours.place].max(nodes)
    rows = ((first, nodes), (others.first, whose), (others.more, whose[others.node]))
    senders = jnp.concatenate([names.T.ravel() for names, _ in rows])
    receivers = jnp.concatenate([jnp.repeat(ends, len(names)) for names, ends in rows])
    senders = jnp.where(senders == nodes[-1], len(nodes), senders)  # free places
    edges = _Edges(senders, receivers, neighbours.rows(nodes[:-1]), others.long)
    by_row = (neighbours.rows(values) for values in (receiver, sender, h))
    outputs = _attend(dropped, edges, words, *by_row)
    return neighbours.nodes(outputs)


@pytree
class _Edges:
    """Edges; one whose sender or receiver is n is padding."""

    senders: Int32[AnyArray, " m"]
    receivers: Int32[AnyArray, " m"]
    names: Int32[Array, " n"]  # what dropout knows the nodes by
    long: bool = static(default=True)  # whether a node may have many edges


def _over(
    edges: _Edges, width: int, step: Callable[..., _Totals], carry: _Totals, *places: Array
) -> _Totals:
    """``carry = step(carry, real, senders, receivers, *to)`` for all edges, some at a time.

    ``width`` is how many numbers a step makes of an edge. ``real``, bool [m, 1], says whether an
    edge is no padding; ``to`` is where it is added, by each of the ``places``.
    """
    m = len(edges.senders)
    n = len(edges.names)
    size = max(1, m)
    if jax.default_backend() == "cpu":
        size = max(1, min(m, _CACHED // width))
    blocks = max(1, -(-m // size))

    def in_blocks(part: AnyArray, fill: int) -> Array:
        part = jnp.pad(part, (0, blocks * size - m), constant_values=fill)
        return part.reshape(blocks, size)

    ends = [in_blocks(edges.senders, n), in_blocks(edges.receivers, n)]
    ends += [in_blocks(place, _NOWHERE) for place in places]

    def one(index: Array, carry: _Totals) -> _Totals:
        senders, receivers, *to = (part[index] for part in ends)
        real = ((senders < n) & (receivers < n))[:, None]
        return step(carry, real, senders, receivers, *to)

    return jax.lax.fori_loop(0, blocks, one, carry)


def _at(values: Array, ends: Array) -> Array:
    return values.at[ends].get(mode="clip")


def _places(edges: _Edges, end: str) -> list[Array]:
    """Where each edge is added by its sender or receiver, and then each part of a long sum."""
    by_sender = end == "sender"
    ends = edges.senders if by_sender else edges.receivers
    if not edges.long:
        return [jnp.asarray(ends)]
    places = long_sums.places_in_any_order if by_sender else long_sums.places
    return places(ends, len(edges.names))


def _sums(
    edges: _Edges,
    width: int,
    rows: Callable[..., tuple[Array, ...]],
    start: tuple[Array, ...],
    by: tuple[str, ...],
) -> list[Array]:
    """Add ``rows(real, senders, receivers)`` of all edges to arrays that ``start`` by node.

    Each array is summed ``by`` the sender or the receiver of an edge.
    """
    levels = {end: _places(edges, end) for end in dict.fromkeys(by)}

    def add(totals, real, senders, receivers, *to):
        at = dict(zip(levels, to, strict=True))
        made = zip(totals, by, rows(real, senders, receivers), strict=True)
        return tuple(long_sums.add(total, at[end], row) for total, end, row in made)

    room = tuple(
        long_sums.with_room(one, levels[end][1:]) for one, end in zip(start, by, strict=True)
    )
    found = _over(edges, width, add, room, *(level[0] for level in levels.values()))
    return [
        long_sums.fold(total, len(edges.names), levels[end][1:])
        for total, end in zip(found, by, strict=True)
    ]


def _leaky(scores: Array) -> Array:
    return jnp.where(scores > 0, scores, _SLOPE * scores)


def _slope(scores: Array) -> Array:
    return jnp.where(scores > 0, 1.0, _SLOPE)


def _kept(
    words: Array | None, dropped: int, receivers: Array, senders: Array, heads: int
) -> Array | float:
    """The factors of weights of edges: 0 or 1 / (1 - rate).

    Float32 [m, heads], or 1 without dropout.
    """
    if words is None:
        return 1.0
    ends = receivers.astype(jnp.uint32), senders.astype(jnp.uint32)
    bits = []
    for part in words:
        both = jnp.stack(random.threefry(part, *ends))
        bits += [both & (STEPS - 1), both >> 16]
    kept = jnp.concatenate(bits)[:heads] >= dropped
    factors = jnp.where(kept, STEPS / (STEPS - dropped), 0.0)
    return factors.astype(jnp.float32).T


def _outputs(
    dropped: int, edges: _Edges, words: Array | None, a: Array, b: Array, h: Array
) -> tuple[Array, Array]:
    """The weighted means, and the logarithm of what the weights of each node were divided by."""
    heads, width = h.shape[1:]

    def largest(most: Array, real: Array, senders: Array, receivers: Array) -> Array:
        scores = jnp.where(real, _at(b, senders), -jnp.inf)
        return most.at[receivers].max(scores, mode="drop")

    top = _leaky(a + _over(edges, heads, largest, b))  # LeakyReLU is monotone
    weigh, (weight, kept, _) = _weighing(dropped, edges, words, a, b, top)

    def rows(real, senders, receivers):
        weights, kept, _ = weigh(real, senders, receivers)
        return weights, kept[..., None] * _at(h, senders)

    start = weight, kept[..., None] * h
    total, vectors = _sums(edges, heads * width, rows, start, ("receiver", "receiver"))
    return vectors / total[..., None], top + jnp.log(total)


def _weighing(
    dropped: int, edges: _Edges, words: Array | None, a: Array, b: Array, shift: Array
) -> tuple[Callable[..., tuple], tuple[Array, Array, Array]]:
    """A function of edges, and its value for loops.

    It gives the weights, shifted; what dropout leaves of them; and the slopes of LeakyReLU.
    """

    def weigh(real, senders, receivers):
        scores = _at(a, receivers) + _at(b, senders)
        exponents = _leaky(scores) - _at(shift, receivers)
        weights = jnp.exp(jnp.where(real, exponents, -jnp.inf))
        names = _at(edges.names, receivers), _at(edges.names, senders)
        kept = weights * _kept(words, dropped, *names, a.shape[1])
        return weights, kept, _slope(scores)

    loop = a + b
    weight = jnp.exp(_leaky(loop) - shift)
    kept = weight * _kept(words, dropped, edges.names, edges.names, a.shape[1])
    return weigh, (weight, kept, _slope(loop))


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _attend(
    dropped: int, edges: _Edges, words: Array | None, a: Array, b: Array, h: Array
) -> Array:
    return _outputs(dropped, edges, words, a, b, h)[0]


@_attend.defjvp
def _attend_tangent(dropped: int, primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    """The derivative in a, b and h, and its transpose, over blocks of edges."""
    # With e_ij a score, s_ij the slope of LeakyReLU there, p the weights, and k what dropout
    # multiplies them by,
    #     y_i' = sum_j p_ij (k_ij (h_j' + e_ij' h_j) - e_ij' y_i),   e_ij' = s_ij (a_i' + b_j'),
    # and for the transpose, with g the cotangent of y, that of e_ij is
    #     p_ij (k_ij <g_i, h_j> - <g_i, y_i>).
    edges, words, a, b, h = primals
    outputs, norm = _outputs(dropped, edges, words, a, b, h)
    heads, width = h.shape[1:]
    weigh, (loop_weight, loop_kept, loop_slope) = _weighing(dropped, edges, words, a, b, norm)

    def forward(moved: Array) -> Array:
        h_dot = moved[..., :-2]
        a_dot = moved[..., -2]
        b_dot = moved[..., -1]

        def rows(real, senders, receivers):
            weights, kept, slope = weigh(real, senders, receivers)
            change = slope * (_at(a_dot, receivers) + _at(b_dot, senders))
            sent = _at(h_dot, senders) + change[..., None] * _at(h, senders)
            return kept[..., None] * sent, weights * change

        change = loop_slope * (a_dot + b_dot)
        sent = h_dot + change[..., None] * h
        start = loop_kept[..., None] * sent, loop_weight * change
        vectors, scores = _sums(edges, heads * width, rows, start, ("receiver", "receiver"))
        moved = vectors - scores[..., None] * outputs
        return jnp.pad(moved, ((0, 0), (0, 0), (0, 2)))  # linear keeps shapes

    def transpose(cotangent: Array) -> Array:
        g = cotangent[..., :-2]
        along = (g * outputs).sum(-1)

        def rows(real, senders, receivers):
            weights, kept, slope = weigh(real, senders, receivers)
            sent = _at(g, receivers)
            received = (sent * _at(h, senders)).sum(-1)
            to_scores = slope * (kept * received - weights * _at(along, receivers))
            return kept[..., None] * sent, to_scores, to_scores

        to_loop = loop_slope * (loop_kept * (g * h).sum(-1) - loop_weight * along)
        start = loop_kept[..., None] * g, to_loop, to_loop
        by = "sender", "receiver", "sender"
        to_h, to_a, to_b = _sums(edges, heads * width, rows, start, by)
        return jnp.concatenate([to_h, to_a[..., None], to_b[..., None]], -1)

    a_dot, b_dot, h_dot = tangents[2:]
    moved = jnp.concatenate([h_dot, a_dot[..., None], b_dot[..., None]], -1)
    return outputs, linear(forward, transpose, moved)[..., :-2]
