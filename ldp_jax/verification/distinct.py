"""How often one report is sent: noise of too few bits, and values that are sent as they are."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from ldp_jax.core import validate
from ldp_jax.core.types import PRNGKey
from ldp_jax.verification._laws import law_of
from ldp_jax.verification.empirical import draws, typical_record
from ldp_jax.verification.exact import logs_of, spaces
from ldp_jax.verification.statistics import SIGNIFICANCE, Fit

TRIALS = 1 << 20
_UNIFORM = 2.0**-23
"""The mass of one float32 uniform, which is what a report of a continuum has at least."""


def distinct_reports(
    mechanism: Any, key: PRNGKey, x: Any = None, *, trials: int = TRIALS, significance: float = SIGNIFICANCE
) -> Fit:
    """Whether no single report of one record comes more often than its law and float32 allow.

    A report of a finite law may come as often as its mass says; one of a continuum has a mass of 2^-23 and of the
    four float32 spacings around it. Vectors are counted whole.

    Args:
      mechanism: with ``log_density``, on numbers or vectors.
      key: a typed threefry key.
      x: the record; by default one off the centre.
      trials: draws.
      significance: how often a correct sampler may be rejected.

    >>> from ldp_jax.features import SquareWave
    >>> distinct_reports(SquareWave(1.0), jax.random.key(0), trials=100_000).fits
    True
    """
    validate.integer_in(1000, trials=trials)
    spaces(mechanism)
    x = typical_record(mechanism) if x is None else mechanism.domain().given(x)
    return counted(mechanism, x, draws(mechanism, key, x, trials), significance)


def counted(mechanism: Any, x: Any, y: Any, significance: float) -> Fit:
    """The same of stacked reports of a record."""
    codomain, y = mechanism.codomain(), jax.tree.map(np.asarray, y)
    trials = len(jax.tree.leaves(y)[0])
    rows = np.concatenate(
        [np.ascontiguousarray(leaf).reshape(trials, -1).view(np.uint32) for leaf in jax.tree.leaves(y)], 1
    )
    whole = np.ascontiguousarray(rows).view([("", np.uint32)] * rows.shape[1]).ravel()
    _, first, count = np.unique(whole if rows.shape[1] > 1 else rows[:, 0], return_index=True, return_counts=True)
    often = np.argsort(-count, kind="stable")[:_MOST]
    picked = jax.tree.map(lambda leaf: leaf[first[often]], y)
    mass = _mass(mechanism, codomain, picked, x)
    chance = stats.binom.sf(count[often] - 1, trials, np.clip(mass, 0.0, 1.0))
    limit = significance / len(count)
    worst = float(chance.min())
    return Fit(
        worst >= limit, "distinct reports", -math.log10(max(worst, 1e-300)), -math.log10(limit), 30 / trials, trials
    )


_MOST = 4096  # reports, the most frequent, whose mass is asked


def _mass(mechanism: Any, codomain: Any, y: Any, x: Any) -> np.ndarray:
    """The most that a report may weigh."""
    # Rounding may have put a report just beyond the break that it was drawn on the other side of.
    nudges = (-2, 0, 2) if codomain.continuous else (0,)
    beside = [jax.tree.map(lambda leaf, by=by: _nudged(leaf, by) if by else leaf, y) for by in nudges]
    x = jax.tree.map(jnp.asarray, x)
    logs = np.max([np.asarray(logs_of(mechanism, at, x), np.float64) for at in beside], 0)
    volume, atom = law_of(codomain).volume(y)
    return np.exp(logs) * volume * (1 + 1e-4) + np.where(atom, 0.0, _UNIFORM)


def _nudged(leaf: np.ndarray, by: int) -> np.ndarray:
    """Floating-point values moved by some spacings."""
    return leaf + by * np.spacing(np.abs(leaf)) if np.issubdtype(leaf.dtype, np.floating) else leaf
