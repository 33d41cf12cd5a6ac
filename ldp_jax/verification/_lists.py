"""Mechanisms on neighbour lists: the loss per bit of every user, and whether their law is drawn."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.core import validate
from ldp_jax.core.float64 import float64_on_cpu
from ldp_jax.core.mechanism import check_single
from ldp_jax.core.spaces import NotApplicable
from ldp_jax.core.types import Array, PRNGKey
from ldp_jax.edges.lists import NeighbourList, listed, nodes_of, stacked
from ldp_jax.verification import statistics
from ldp_jax.verification._blocks import in_blocks
from ldp_jax.verification.statistics import Fit

_MOST_NODES = 64  # of which all degrees and critical reports are enumerated
_SEARCH = 4096  # random pairs of lists in the cross-check
_TOTAL = 1e-4  # how far the mass of a density may be from 1, by quadrature


class ListLoss(NamedTuple):
    """The largest loss found, and where; lists as tuples of nodes, a report as (degree, list or noisy bits)."""

    epsilon: float
    x: Any
    x_other: Any
    y: Any
    searched: float


@jax.jit
def reports(words: Any, m: Any, x: NeighbourList, own: Any) -> Any:
    keys = jax.random.wrap_key_data(words)
    return jax.vmap(lambda key, x, own: m.privatize(key, x, own))(keys, x, own)


def report_each(words: Any, m: Any, x: NeighbourList, own: Any) -> Any:
    """The report of each of stacked lists, by a key and an owner each; the keys as the words that they hold."""
    return in_blocks(lambda rows: reports(rows[0], m, *rows[1:]), (words, x, own))


def draws(key: PRNGKey, m: Any, x: NeighbourList, own: int, n: int) -> Any:
    """n reports of one list, a key of its own each."""
    validate.threefry(key)
    many = jax.tree.map(lambda leaf: np.broadcast_to(leaf, (n, *np.shape(leaf))), (x, np.int32(own)))
    return report_each(jax.random.key_data(jax.random.split(key, n)), m, *many)


@jax.jit
def _logs(m: Any, y: Any, x: NeighbourList, own: Any) -> Array:
    return jax.vmap(lambda report: m.log_density(report, x, own))(y)


@jax.jit
def _losses(m: Any, y: Any, x: NeighbourList, other: NeighbourList, own: Any) -> Array:
    """|log p(y | x) - log p(y | x')| of many triples; 0 where neither is possible."""

    def one(y: Any, x: NeighbourList, other: NeighbourList, own: Any) -> Array:
        a, b = m.log_density(y, x, own), m.log_density(y, other, own)
        neither = jnp.isneginf(a) & jnp.isneginf(b)
        return jnp.abs(jnp.where(neither, 0.0, a) - jnp.where(neither, 0.0, b))

    return jax.vmap(one)(y, x, other, own)


# --- Exact -----------------------------------------------------------------------------------------------------


def supremum(m: Any) -> ListLoss:
    """The largest loss over lists that differ in one bit, at the critical reports and by a random search."""
    check_single(m)
    n = m.domain().users
    if not 1 < n <= _MOST_NODES:
        raise NotApplicable(
            f"ask a mechanism of 2 to {_MOST_NODES} nodes, got n = {n}: its law has n - 1 as a number"
        )
    triples = [_critical(m), _searched(m)]
    with float64_on_cpu():
        asked = jax.tree.map(wide, m)
        losses = [in_blocks(lambda rows: _losses(asked, *rows), triple) for triple in triples]
    largest = [float(part.max()) for part in losses]
    which = int(math.isnan(largest[1]) or largest[1] > largest[0] * (1 + 1e-9))  # NaN is not hidden
    y, x, other, _ = jax.tree.map(lambda leaf: leaf[int(losses[which].argmax())], triples[which])
    return ListLoss(largest[which], nodes_of(x), nodes_of(other), m.codomain().plain(y), largest[1])


def wide(leaf: Any) -> Array:
    """A parameter in float64; whole numbers stay."""
    whole = np.asarray(leaf).dtype.kind in "iu"
    return jnp.asarray(leaf) if whole else jnp.asarray(leaf, jnp.float64)


def _critical(m: Any) -> Any:
    """Lists of every degree with one node more, and the reports where their loss may be largest."""
    codomain, triples = m.codomain(), []
    words = np.asarray(jax.random.key_data(jax.random.key(0)))[None]
    for x, other in m.domain().critical_pairs():

        def draw(x: NeighbourList = x) -> Any:
            drawn = report_each(words, m, jax.tree.map(lambda leaf: leaf[None], x), np.zeros(1, np.int32))
            return jax.tree.map(lambda leaf: leaf[0], drawn)

        triples += [(y, x, other) for y in codomain.around(x, other, draw)]
    y, x, other = zip(*triples, strict=True)
    reports = jax.tree.map(lambda *leaves: np.stack(leaves), *y)
    return reports, stacked(x), stacked(other), np.zeros(len(triples), np.int32)


def _searched(m: Any) -> Any:
    """Random lists of random users that differ in a random bit, with reports drawn from one of them."""
    rng = np.random.default_rng(0)  # no privacy depends on it
    own, *lists = m.domain().neighbours_of_all(rng, _SEARCH)
    own = own.astype(np.int32)
    keys = jax.random.split(jax.random.key(0), _SEARCH)
    y = jax.tree.map(
        lambda leaf: np.asarray(leaf, np.float64) if np.asarray(leaf).dtype == np.float32 else np.asarray(leaf),
        report_each(jax.random.key_data(keys), m, lists[0], own),
    )
    return y, *lists, own


# --- By draws --------------------------------------------------------------------------------------------------


def fit(m: Any, key: PRNGKey, x: NeighbourList, trials: int, significance: float) -> Fit:
    """G tests of whole reports of every user, all about the list ``x`` of user 0, with their places changed.

    User i's list has i's place and user 0's exchanged. User 0 has ``trials`` draws and half of the significance,
    the others as much together; the smallest defect is user 0's, another's about sqrt(n) times as large.
    """
    domain = m.domain()
    n = domain.users
    user_key, key = jax.random.split(key)
    fits = [_fit(m, user_key, x, 0, trials, significance / 2)]
    for own, user_key in zip(range(1, n), jax.random.split(key, n - 1) if n > 1 else (), strict=True):
        fits.append(_fit(m, user_key, domain.seen_by(own, x), own, max(100, trials // n), significance / (2 * n)))
    worst = max(fits, key=lambda fit: (not fit.fits, fit.statistic / fit.threshold if fit.threshold else 0.0))
    return worst._replace(smallest_defect=fits[0].smallest_defect, draws=trials)


def _fit(m: Any, key: PRNGKey, x: NeighbourList, own: int, trials: int, significance: float) -> Fit:
    return fit_of(m, x, own, jax.tree.map(np.asarray, draws(key, m, x, own, trials)), significance)


def fit_of(m: Any, x: NeighbourList, own: int, y: Any, significance: float) -> Fit:
    """A G test of stacked whole reports of one user's list, by the cells of their space."""
    codomain, trials = m.codomain(own), len(jax.tree.leaves(y)[0])
    if not codomain.contains(y).all():
        return Fit(False, "impossible reports", math.inf, 0.0, 1 / trials, trials)
    with float64_on_cpu():
        asked = jax.tree.map(wide, m)
        mass, cell = codomain.cells(x, lambda y: in_blocks(lambda rows: _logs(asked, rows, x, own), y))
    if abs(mass.sum() - 1) > _TOTAL:
        return Fit(False, "density of total mass 1", float(mass.sum()), 1.0, _TOTAL, trials)
    return statistics.g_test(np.bincount(cell(y), minlength=mass.size), mass, significance=significance)


def bits_of(lists: Any, n: int) -> np.ndarray:
    """Stacked lists as bits [m, n]."""
    ids = np.asarray(NeighbourList(*lists).ids)
    bits = np.zeros((len(ids), n + 1), bool)
    np.put_along_axis(bits, ids, True, 1)
    return bits[:, :n]


def all_lists(domain: Any) -> NeighbourList:
    """Every list of user 0, stacked."""
    others = domain.others
    codes = range(1 << len(others))
    return stacked([listed([v for at, v in enumerate(others) if code >> at & 1], domain.users) for code in codes])
