"""Friendships: how far friends are alike where they are public, and those of simulated users."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from ldp_jax.core import random, validate
from ldp_jax.core.float32 import matmul
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import AnyArray, Array, PRNGKey
from ldp_jax.servers.parts.groups import check_posterior
from ldp_jax.servers.worlds.world import places_below

MOST_OVERLAP = 0.7
"""The largest share of homophily that follows what features say, where none is stated: each world
has another share.
"""

MOST_ECHO = 0.2
"""The largest share of friends of one class whom features see alike, where none is stated: each
world has another share.
"""


class StatedFriends(NamedTuple):
    """Known or assumed facts of private friendships.

    They are public, and no budget pays for them: state a guess. The true ones of a private graph
    are a release. :func:`~ldp_jax.predict_jointly` names them as unprotected where a rehearsal
    chose how a total is spent.

    Attributes:
      mean_degree: neighbours of a user, > 0 and fewer than there are users.
      homophily: share of neighbours of the own class, beyond chance, in [0, 1]
        (:func:`homophily`).
      spread: standard deviation of a degree over the mean, in [0, 10].
      overlap: of homophily, the share in [0, 1] that follows what features say of a user's class,
        right or wrong (:func:`overlap`); by default each world
        has another one, up to :data:`MOST_OVERLAP`. Not for joint totals.
      echo: of friends of one class, the share in [0, 1] whom features take for the same class,
        beyond chance (:func:`echo`); by default as of overlap, up
        to :data:`MOST_ECHO`. Not for joint totals.
    """

    mean_degree: float
    homophily: float
    spread: float = 1.0
    overlap: float | None = None
    echo: float | None = None

    def checked(self, n: int) -> tuple[np.float32, np.float32, np.float32]:
        """Mean degree, homophily and spread; refused where n users have no such friendships."""
        degree = validate.number(0.0, n - 1.0, open_lower=True, mean_degree=self.mean_degree)
        alike = validate.number(0.0, 1.0, homophily=self.homophily)
        spread = validate.number(0.0, 10.0, spread=self.spread)
        return np.float32(degree), np.float32(alike), np.float32(spread)


class Friends(NamedTuple):
    """The friendships of a world.

    Attributes:
      of_class: float32 [n, C], classes as rows of 0 and 1.
      said: int [n], the classes that features say.
      alike: float32 [n, C], the classes of friends who are alike.
      rate: float32 [n], expected degrees.
      homophily: the share of friends who are alike.
      echo: see :class:`StatedFriends`.
    """

    of_class: Array
    said: Array
    alike: Array
    rate: Array
    homophily: Array
    echo: Array

    __repr__ = by_shapes


@jax.jit
def drawn_classes(key: PRNGKey, log_q: Array, labels: Array) -> Array:
    """Classes by their posteriors; labels are kept."""
    return jnp.where(labels >= 0, labels, random.categorical(key, log_q))


@jax.jit
def drawn_friends(
    key: PRNGKey, y: Array, log_q: Array, stated: tuple[Array, Array, Array], misled: Array
) -> Friends:
    """Log-normal expected degrees, and the classes of friends.

    A share of the friends who are alike, the overlap, follows q. ``misled`` are overlap and echo.
    """
    mean_degree, homophily, spread = stated
    overlap, echo = misled
    variance = jnp.log1p(spread**2)
    log_rate = jnp.sqrt(variance) * random.normal(key, y.shape) - 0.5 * variance
    rate = mean_degree * jnp.exp(log_rate)
    of_class = jax.nn.one_hot(y, log_q.shape[1], dtype=jnp.float32)
    # As many friends are of the own class as was stated; where q is often wrong, q has less of a
    # share.
    right = (jnp.exp(log_q) * of_class).sum(1).mean()
    chance = (of_class.mean(0) ** 2).sum()
    beyond = 1.0 - (right - chance) / (1.0 - chance)
    overlap = jnp.minimum(overlap, (1.0 - homophily) / jnp.maximum(beyond, 1e-3))
    alike = (1.0 - overlap) * of_class + overlap * jnp.exp(log_q)
    share = homophily / jnp.maximum(1.0 - overlap * beyond, homophily)
    return Friends(of_class, log_q.argmax(1), alike, rate, share, echo)


@partial(jax.jit, static_argnames="num_groups")
def drawn_counts(key: PRNGKey, friends: Friends, groups: Array, *, num_groups: int) -> Array:
    """Neighbours by group, int32 [n, K]: Poisson, a share of them alike, the rest of any class."""
    size = friends.of_class.sum(0)
    classes = friends.of_class.shape[1]
    of_group = jax.nn.one_hot(groups, num_groups, dtype=jnp.float32)
    shares = matmul(friends.of_class.T, of_group) / jnp.maximum(size, 1.0)[:, None]  # of a class
    anybody = (1.0 - friends.homophily) * size / len(groups)
    of_friends = friends.homophily * friends.alike + anybody
    # A share ``echo`` of friends of the own class has groups like users with the same predictions.
    y = friends.of_class.argmax(1)
    like = y * classes + friends.said
    each = jnp.pad(of_group, ((0, 0), (0, 1)), constant_values=1.0).astype(jnp.int32)
    found = jax.ops.segment_sum(each, like, classes**2)[like]
    own = friends.echo * (of_friends * friends.of_class).sum(1, keepdims=True)
    usual = matmul(of_friends, shares)
    shares_of_like = found[:, :-1] / found[:, -1:]
    expected = usual + own * (shares_of_like - shares[y])
    rate = friends.rate[:, None] * jnp.maximum(expected, 0.0)
    return jax.random.poisson(key, rate, dtype=jnp.int32)


@partial(jax.jit, static_argnames="entries")
def drawn_lists(key: PRNGKey, friends: Friends, y: Array, entries: int) -> tuple[Array, Array]:
    """Owners of entries by rate, and their friends, a share alike and the rest anybody.

    Int32 [entries] each.
    """
    owner_key, alike_key, friend_key = random.split(key, 3)
    last = len(y) - 1
    ends = friends.rate.cumsum()
    size = friends.of_class.sum(0).astype(jnp.int32)
    owners = jnp.searchsorted(ends, random.uniform(owner_key, (entries,)) * ends[-1])
    owners = jnp.minimum(owners, last)
    mine = y[owners]
    alike = random.uniform(alike_key, (entries,)) < friends.homophily
    first = jnp.where(alike, (size.cumsum() - size)[mine], 0)
    count = jnp.where(alike, size[mine], len(y))
    by_class = jnp.argsort(y)
    return owners, by_class[first + places_below(friend_key, count)]


# --- Measured on public friendships ---


def homophily(pairs: ArrayLike, labels: Int[np.ndarray, " n"]) -> float:
    r"""How far friends are alike, beyond chance: :math:`(s - s_0) / (1 - s_0)`, at least 0.

    s is the share of pairs whose ends have one label, :math:`s_0` what random pairs of these ends
    would have. ``pairs`` [pairs, 2] are public friendships, such as those of labelled users who
    consent; those with an end that has no label (-1) are left out. A handful of pairs says little.
    ``ValueError`` for pairs of another shape (an ``edge_index`` is [2, pairs]: give its transpose),
    a node outside [0, n), a user paired with themselves, or no pair with two labels.

    >>> homophily([[0, 1], [2, 3], [1, 2]], np.array([0, 0, 1, 1]))
    0.333...
    """
    labels, ends = _known_pairs(pairs, labels)
    return _beyond_chance(labels[ends], np.zeros(len(ends), np.int64))


def echo(
    pairs: ArrayLike, labels: Int[np.ndarray, " n"], log_q: Float[AnyArray, "n classes"]
) -> float:
    """How far features take friends of one class for the same class, right or wrong, beyond chance.

    In [0, 1].

    That is :func:`homophily` of the likeliest classes by features, among pairs of one class.
    Arguments and errors are as of :func:`overlap`; 0 where no pair is of one class.

    >>> y, seen = (
    ...     np.zeros(4, int),
    ...     np.log([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.1, 0.9]]),
    ... )
    >>> echo([[0, 1], [2, 3]], y, seen), echo([[0, 2], [1, 3]], y, seen)
    (1.0, 0.0)
    """
    labels, ends = _known_pairs(pairs, labels, log_q)
    same = ends[labels[ends[:, 0]] == labels[ends[:, 1]]]
    if not len(same):
        return 0.0
    said = np.asarray(log_q).argmax(1)
    return _beyond_chance(said[same], labels[same[:, 0]])


def _beyond_chance(ends: Int[np.ndarray, "pairs two"], part: Int[np.ndarray, " pairs"]) -> float:
    """How far both ends of pairs have one class, beyond random pairs of the ends of each part."""
    table = np.zeros((part.max() + 1, ends.max() + 1))
    np.add.at(table, (part[:, None], ends), 1.0)
    shares = table[part] / table[part].sum(1, keepdims=True)
    chance = float((shares**2).sum(1).mean())
    if chance >= 1.0:
        return 0.0
    alike = float((ends[:, 0] == ends[:, 1]).mean())
    return max(0.0, (alike - chance) / (1.0 - chance))


def overlap(
    pairs: ArrayLike, labels: Int[np.ndarray, " n"], log_q: Float[AnyArray, "n classes"]
) -> float:
    r"""How much of homophily features say already: :math:`b / (a + b)` in [0, 1].

    The class of a friend is regressed on the own class (a) and on the posterior q of it by features
    (b): friends of users whose features mislead may be of the class that features say. ``pairs``,
    ``labels`` and errors are as of :func:`homophily`; ``log_q`` [n, C] must not have seen the own
    label. ``ValueError`` where it is none.

    >>> y, seen = (
    ...     np.array([0, 0, 1, 1]),
    ...     np.log([[0.9, 0.1], [0.1, 0.9], [0.1, 0.9], [0.9, 0.1]]),
    ... )
    >>> overlap([[0, 1], [2, 3]], y, seen), overlap([[0, 3], [1, 2]], y, seen)
    (0.0, 1.0)
    """
    labels, ends = _known_pairs(pairs, labels, log_q)
    ends = np.concatenate([ends, ends[:, ::-1]])
    of_class = np.eye(np.shape(log_q)[1])[np.maximum(labels, 0)]
    mean = of_class[ends].mean((0, 1))
    own, friend = (of_class[side] - mean for side in ends.T)
    said = np.exp(log_q)[ends[:, 0]] - mean
    known = np.stack([own.ravel(), said.ravel()], 1)
    slopes, *_ = np.linalg.lstsq(known, friend.ravel(), rcond=None)
    a, b = np.maximum(slopes, 0.0)
    return float(b / (a + b)) if a + b > 0 else 0.0


def _known_pairs(
    pairs: ArrayLike, labels: ArrayLike, log_q: AnyArray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Labels, and pairs of two users who have one; what does not fit is refused."""
    labels = validate.node_labels(labels)
    ends = validate.pairs(len(labels), "the nodes", pairs=pairs)
    rule = "pairs must join two users, and one joins a user with themselves"
    validate.require((ends[:, 0] != ends[:, 1]).all(), rule)
    ends = ends[(labels[ends] >= 0).all(-1)]
    rule = "pairs must hold one of two labelled users, got none: state a guess of the homophily"
    validate.require(len(ends), rule)
    if log_q is not None:
        rule = f"log_q must have a row for each of {len(labels)} users and a column for each class"
        fits = np.ndim(log_q) == 2 and len(log_q) == len(labels)
        validate.require(fits and np.max(labels) < np.shape(log_q)[1], rule)
        check_posterior(np.asarray(log_q))
    return labels, ends
