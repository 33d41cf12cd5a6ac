"""Mechanisms on neighbour lists: the loss per bit of every user."""

import math
from typing import Any

import jax
import numpy as np

from ldp_jax.core.float64 import float64_on_cpu
from ldp_jax.core.mechanism import check_single
from ldp_jax.core.spaces import NotApplicable
from ldp_jax.edges.lists import NeighbourList, listed, nodes_of, stacked
from ldp_jax.edges.spaces import Lists
from ldp_jax.verification._programs import losses_of, report_each, take, wide

_MOST_NODES = 64  # of which all degrees and critical reports are enumerated
_SEARCH = 4096  # random pairs of lists in the cross-check


def supremum(m: Any) -> tuple[float, Any, Any, Any, float]:
    """The fields of a :class:`~ldp_jax.verification.exact.Supremum` over lists that differ in one bit.

    At the critical reports and by a random search; lists are tuples of nodes.
    """
    check_single(m)
    n = m.domain().users
    if not 1 < n <= _MOST_NODES:
        raise NotApplicable(
            f"ask a mechanism of 2 to {_MOST_NODES} nodes, got n = {n}: its law has n - 1 as a number"
        )
    rows = [_critical(m), _searched(m)]
    with float64_on_cpu():
        losses = [np.abs(losses_of(wide(m), *each)) for each in rows]
    largest = [float(part.max()) for part in losses]
    which = int(math.isnan(largest[1]) or largest[1] > largest[0] * (1 + 1e-9))  # NaN is not hidden
    y, x, other, _ = take(rows[which], int(losses[which].argmax()))
    return largest[which], nodes_of(x), nodes_of(other), m.codomain().plain(y), largest[1]


def _critical(m: Any) -> Any:
    """Reports where the loss may be largest, lists of every degree, the same with one node more, and users."""
    codomain, rows = m.codomain(), []
    words = np.asarray(jax.random.key_data(jax.random.key(0)))[None]
    for x, other in m.domain().critical_pairs():

        def draw(x: NeighbourList = x) -> Any:
            drawn = report_each(words, m, jax.tree.map(lambda leaf: leaf[None], x), np.zeros(1, np.int32))
            return take(drawn, 0)

        rows += [(y, x, other) for y in codomain.around(x, other, draw)]
    y, x, other = zip(*rows, strict=True)
    reports = jax.tree.map(lambda *leaves: np.stack(leaves), *y)
    return reports, stacked(x), stacked(other), np.zeros(len(rows), np.int32)


def _searched(m: Any) -> Any:
    """Reports drawn of random lists of random users, the lists, and the same with a random bit changed."""
    own, x, other = m.domain().neighbours_of_all(np.random.default_rng(0), _SEARCH)  # no privacy depends on it
    own = own.astype(np.int32)
    keys = jax.random.split(jax.random.key(0), _SEARCH)
    return wide(report_each(jax.random.key_data(keys), m, x, own)), x, other, own


def bits_of(lists: Any, n: int) -> np.ndarray:
    """Stacked lists as bits [m, n]."""
    ids = np.asarray(NeighbourList(*lists).ids)
    bits = np.zeros((len(ids), n + 1), bool)
    np.put_along_axis(bits, ids, True, 1)
    return bits[:, :n]


def all_lists(domain: Lists) -> NeighbourList:
    """Every list of user 0, stacked."""
    others = domain.others
    codes = range(1 << len(others))
    return stacked([listed([v for at, v in enumerate(others) if code >> at & 1], domain.users) for code in codes])
