"""Generalised randomised response over a public candidate set of classes for each user."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core import integer_tables, personal_alphabets, random, validate
from ldp_jax.core.pytree import pytree
from ldp_jax.core.spaces import as_records
from ldp_jax.core.types import Array, Numbers, PRNGKey, Record, Report, Scalar
from ldp_jax.features.discrete import Discrete

_FEW = 16  # classes of which alphabets of every size have a table


def PersonalAlphabet(epsilon: Scalar, prior: Numbers) -> Discrete:
    """Report a class within one user's candidate set, the classes that public facts make likeliest.

    Law: S holds the k likeliest classes of ``prior``, the likeliest first, k as in
    :func:`~ldp_jax.features.alphabets`; the report is a place in S. A class of S is reported truly
    with probability e^epsilon / (e^epsilon + k - 1), as each other place with 1 / (e^epsilon + k -
    1). For a class outside S each place has 1/k.
    Guarantee: at most epsilon per record, exact in integers (:class:`Discrete`), for an alphabet
    from public facts.
    Utility: the estimate [C] is the posterior of the class given the report, by the prior and the
    table.

    ``epsilon`` is in (0, 20]; ``prior`` [C] has 2 to 512 public probabilities of the user's class.
    Reference: Ghazi et al., Deep learning with label differential privacy, NeurIPS 2021, Algorithms
    1 and 2.

    >>> m = PersonalAlphabet(2.0, [0.05, 0.5, 0.05, 0.4])
    >>> # The estimate of the report "the first place", which is class 1:
    >>> [round(p, 2) for p in m.estimate(0).tolist()]
    [0.05, 0.82, 0.05, 0.09]
    """
    epsilon = integer_tables.checked_epsilon(epsilon)
    prior = personal_alphabets.checked_prior(prior)
    validate.shaped("classes", prior=prior)
    found = personal_alphabets.alphabets(prior[None], epsilon)
    by_place = personal_alphabets.table(epsilon, int(found.sizes[0]), len(prior))
    masses = by_place.masses[np.argsort(found.order[0])]  # from places to classes
    joint = prior[:, None] * (masses / integer_tables.WORDS)
    values = (joint / joint.sum(0)).T.astype(np.float32)
    return Discrete.of(dataclasses.replace(by_place, masses=masses, values=values))


@pytree
class PersonalAlphabets:
    """The personal alphabets of n users, and their reports, in one program.

    Build one with :meth:`of`.

    Users with alphabets of one size share a table.
    Guarantee: that of :func:`PersonalAlphabet`, the largest of the users'; exact in integers.

    Attributes:
      inner: the tables on places, one level a size; its level [n] has one for each user.
      order: int32 [n, C], each user's classes, the likeliest first.
      prior: float32 [n, C], the public probabilities.

    >>> m = PersonalAlphabets.of(1.0, [[0.8, 0.1, 0.1], [0.2, 0.4, 0.4]])
    >>> m.sizes.tolist(), m.mask.tolist()
    ([2, 2], [[True, True, False], [False, True, True]])
    >>> y = m.privatize(jax.random.key(0), m.best(jnp.zeros((2, 3))))
    >>> m.estimate(y).shape, m.log_likelihoods(y).shape
    ((2, 3), (2, 3))
    """

    inner: Discrete
    order: Array
    prior: Array

    @classmethod
    def of(cls, epsilon: Scalar, prior: Numbers) -> "PersonalAlphabets":
        """The alphabets of users with public posteriors ``prior`` [n, C].

        :func:`~ldp_jax.features.alphabets`.
        """
        found = personal_alphabets.alphabets(prior, epsilon)
        classes = found.order.shape[1]
        sizes = np.unique(found.sizes)
        if classes <= _FEW:  # a table of each size, so that programs are the same for all epsilons
            sizes = np.arange(2, classes + 1)
        tables = [personal_alphabets.table(epsilon, size, classes) for size in sizes.tolist()]
        level = np.searchsorted(sizes, found.sizes).astype(np.int32)
        prior = personal_alphabets.checked_prior(prior).astype(np.float32)
        return cls(
            inner=Discrete.of(*tables).at(level),
            order=jax.device_put(found.order),
            prior=jax.device_put(prior),
        )

    @property
    def sizes(self) -> Array:
        """The size of each alphabet, int32 [n]."""
        return self.inner.counts[self.inner.level]

    @property
    def mask(self) -> np.ndarray:
        """Which classes are in whose alphabet, bool [n, C]; on the host."""
        order, counts, level = map(np.asarray, (self.order, self.inner.counts, self.inner.level))
        return personal_alphabets.Alphabets(order, counts[level]).mask

    def best(self, scores: Record) -> Array:
        """The class of the best score [n, C] within each alphabet, int32 [n]; NaN is the worst."""
        return _best(self, as_records(scores))

    def privatize(self, key: PRNGKey, x: Record) -> Array:
        """One report a user: a place in the user's alphabet, int32 [n], for classes x [n].

        User i draws from ``jax.random.split(key, n)[i]``, as
        ``PersonalAlphabet(epsilon, prior[i])`` would.
        """
        validate.threefry(key)
        if validate.concrete(self.inner.thresholds):
            self.guarantee()
        x = as_records(x)
        validate.shaped(len(self.order), x=x)
        return _privatize(key, self, x)

    def classes(self, y: Report) -> Array:
        """The reported classes, int32 [n]."""
        return jnp.take_along_axis(self.order, jnp.asarray(y)[:, None], 1)[:, 0]

    @jax.jit
    def log_likelihoods(self, y: Report) -> Array:
        """log P(report i | class c) of each user and every class, [n, C]."""
        places = np.arange(self.order.shape[1], dtype=np.int32)
        found = self.order[..., None] == places[None, None]  # users, places and classes
        place = (found * places[None, :, None]).sum(1)
        of_user = lambda level, y, place: self.inner.at(level).log_density(y, place)
        return jax.vmap(of_user)(self.inner.level, jnp.asarray(y), place)

    def estimate(self, y: Report) -> Array:
        """The posterior of each user's class, [n, C]."""
        joint = self.prior * jnp.exp(self.log_likelihoods(y))
        return joint / joint.sum(1, keepdims=True)

    def guarantee(self) -> Guarantee:
        """The largest of the users'."""
        found = self.inner.guarantee()
        return dataclasses.replace(
            found,
            adjacency=f"any two of {self.order.shape[1]} classes of one user",
            reason=f"alphabets come from public facts; {found.reason}",
        )


def best_place(scores: Array, order: Array, size: Array | int) -> Array:
    """The place of one user's best score [C] among the first ``size`` classes of ``order``.

    NaN is the worst.
    """
    by_place = scores.astype(jnp.float32)[order]
    inside = (jnp.arange(len(order)) < size) & ~jnp.isnan(by_place)
    return jnp.argmax(jnp.where(inside, by_place, -jnp.inf)).astype(jnp.int32)


@jax.jit
def _best(m: PersonalAlphabets, scores: Array) -> Array:
    place = jax.vmap(best_place)(scores, m.order, m.sizes)
    return jnp.take_along_axis(m.order, place[:, None], 1)[:, 0]


@jax.jit
def _privatize(key: PRNGKey, m: PersonalAlphabets, x: Array) -> Array:
    keys = random.split(key, len(m.order))
    named, _ = integer_tables.split(jnp, x, m.order.shape[1], "category")
    place = jnp.argmax(m.order == named[:, None], 1)
    of_user = lambda level, key, place: m.inner.at(level).privatize(key, place)
    return jax.vmap(of_user)(m.inner.level, keys, place)
