"""Is a report a function of its arguments, and of the whole key?"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.core import validate
from ldp_jax.core.spaces import NotApplicable
from ldp_jax.core.types import PRNGKey
from ldp_jax.verification.empirical import report_each, report_each_retraced
from ldp_jax.verification.statistics import Fit

FUSED = 2e-5
"""How far, relative and absolute, an eager report may be from a compiled one: fused multiply-adds round once."""


def is_pure(mechanism: Any, key: PRNGKey, *, calls: int = 4) -> Fit:
    """Whether ``privatize`` gives the same report traced, eager, traced again and eager again.

    Both extreme records, the typical one, the centre and ``calls`` random ones are reported by a compiled program,
    by plain calls with NumPy and with JAX arrays, and by the program of a second trace where that is another one.
    Whole numbers must be equal, others to 2e-5; what a plain call raises is raised.

    Args:
      mechanism: any; epsilon one number.
      key: a typed threefry key.
      calls: random records.

    Returns:
      A :class:`Fit` whose statistic is how many reports differ.

    >>> from ldp_jax.features import Duchi
    >>> is_pure(Duchi(1.0), jax.random.key(0)).fits
    True
    """
    validate.integer_in(1, calls=calls)
    domain, count = mechanism.domain(), 4 + calls
    record_key, key = jax.random.split(key)
    random = domain.sample(np.random.default_rng(np.asarray(jax.random.key_data(record_key))), calls)
    known = [*domain.extremes(), domain.typical(), domain.centre()]
    many = jax.tree.map(
        lambda leaf, *more: np.concatenate([np.stack(more).astype(leaf.dtype), leaf]), random, *known
    )
    data = np.asarray(jax.random.key_data(jax.random.split(key, count)))
    keys = lambda: jax.random.wrap_key_data(jnp.asarray(data))  # the same keys, on purpose: nothing is released

    def eager(as_given: Any) -> Any:
        given = lambda place: jax.tree.map(lambda leaf: as_given(leaf[place]), many)
        reports = [mechanism.privatize(one, given(place)) for place, one in enumerate(keys())]
        return jax.tree.map(lambda *leaves: np.stack(leaves), *reports)

    first = report_each(data, mechanism, many)
    others = [eager(np.asarray), report_each_retraced(data, mechanism, many), eager(jnp.asarray)]
    different = sum(_differ(first, jax.tree.map(np.asarray, other), count) for other in others if other is not None)
    return Fit(different == 0, "eager and traced", float(different), 0.0, 1.0 / (3 * count), 3 * count)


def _differ(a: Any, b: Any, calls: int) -> int:
    """How many of the reports differ."""
    differ = np.zeros(calls, bool)
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        if np.issubdtype(one.dtype, np.floating):
            off = ~np.isclose(one, other, rtol=FUSED, atol=FUSED, equal_nan=True)
        else:
            off = one != other
        differ |= off.reshape(calls, -1).any(1)
    return int(differ.sum())


def uses_the_whole_key(mechanism: Any, key: PRNGKey, *, calls: int = 256) -> Fit:
    """Whether every one of the 64 bits of a key changes what is reported, at a record in the middle of the domain.

    Each of ``calls`` keys is compared with the same key with one bit changed.

    Args:
      mechanism: any; epsilon one number.
      key: a typed threefry key.
      calls: keys.

    Raises:
      ValueError: where two independent reports differ with a probability below 0.06.

    >>> from ldp_jax.features import Duchi
    >>> uses_the_whole_key(Duchi(1.0), jax.random.key(0)).fits
    True
    """
    validate.integer_in(64, calls=calls)
    x = mechanism.domain().centre()
    data = np.asarray(jax.random.key_data(jax.random.split(key, calls)))
    flips = np.concatenate([np.zeros((1, 2), np.uint32), *(np.eye(2, dtype=np.uint32) << b for b in range(32))])
    flipped = (data[None] ^ flips[:, None]).reshape(-1, 2)
    many = jax.tree.map(lambda leaf: np.broadcast_to(leaf, (len(flipped), *np.shape(leaf))), x)
    reports = report_each(flipped, mechanism, many)
    changed = np.zeros((len(flips) - 1, calls), bool)
    varied = np.zeros(calls - 1, bool)
    for leaf in jax.tree.leaves(reports):
        leaf = np.asarray(leaf).reshape(len(flips), calls, -1)
        same = (leaf[1:] == leaf[:1]) | ((leaf[1:] != leaf[1:]) & (leaf[:1] != leaf[:1]))
        changed |= ~same.all(-1)
        one, next_one = leaf[0, 1:], leaf[0, :-1]
        varied |= ((one != next_one) & ((one == one) | (next_one == next_one))).any(-1)  # NaN is what is not sent
    if varied.mean() < 0.06:
        raise NotApplicable(
            f"reports of one record differ in {varied.mean():.2g} of the pairs: ask another epsilon"
        )
    dropped = int((~changed.any(1)).sum())
    return Fit(dropped == 0, "bits of the key", float(dropped), 0.0, 1 - math.pow(1e-6 / 64, 1 / calls), calls)
