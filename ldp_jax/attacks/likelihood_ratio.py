"""The likelihood-ratio test on a planted secret: the strongest attacker, for audits."""

from collections.abc import Callable
from functools import partial

import jax
import numpy as np
from jaxtyping import PyTree
from scipy import stats

from ldp_jax.attacks._result import Attack, Targets, evaluate, rows_of
from ldp_jax.core import random, validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.types import Array, Numbers, PRNGKey, PRNGKeys
from ldp_jax.core.validate import require


def planted_edge(
    key: PRNGKey,
    observe: Callable[[PRNGKey, PyTree], Array],
    without: PyTree,
    with_edge: PyTree,
    *,
    shadows: int = 400,
    runs: int = 400,
    at_once: int | None = None,
) -> Attack:
    """Run everything with a planted edge and without it, and tell both by :func:`likelihood_ratio`.

    Args:
      key: a threefry key.
      observe: ``observe(key, world)`` -> float, the attacker's view of one run: perturbation,
        training and query. It is traced; give views that cannot be to :func:`likelihood_ratio`.
      without: the world without the edge, a pytree such as ``(graph, x)``; an argument of the
        program.
      with_edge: the same with it. Arrays of the same shapes (padded edges) share one program.
      shadows: the attacker's runs of each world, at least 8.
      runs: of each world, to be told apart; at least 2.
      at_once: runs that are vmapped together; None for one at a time.

    >>> flipped = lambda key, bit: 1.0 * (bit ^ jax.random.bernoulli(key, 0.25))
    >>> found = planted_edge(jax.random.key(0), flipped, False, True)
    >>> abs(found.auc.mean - 0.75) < 0.06
    True
    """
    validate.threefry(key)
    validate.integer_in(8, shadows=shadows)
    validate.integer_in(2, runs=runs)
    seen = []
    counts = (shadows, shadows, runs, runs)
    for part, count, world in zip(
        random.split(key, 4), counts, (without, with_edge) * 2, strict=True
    ):
        keys = random.split(part, count)
        seen.append(np.asarray(_observed(keys, world, observe=observe, at_once=at_once)))
    return likelihood_ratio(*seen)


@partial(jax.jit, static_argnames=("observe", "at_once"))
def _observed(
    keys: PRNGKeys, world: PyTree, *, observe: Callable[..., Array], at_once: int | None
) -> Array:
    return jax.lax.map(lambda key: observe(key, world).reshape(-1), keys, batch_size=at_once)


@implicit_promotion()
def likelihood_ratio(
    shadows_without: Numbers,
    shadows_with: Numbers,
    observed_without: Numbers,
    observed_with: Numbers,
    *,
    ridge: float = 0.1,
) -> Attack:
    r"""Tell runs with a planted edge from runs without it, by shadow runs of both kinds.

    A run of perturbation, training and query shows a vector, such as the posteriors of u, v and
    their neighbours. Half of the shadows give the direction
    :math:`w = (S + \lambda \, \mathrm{diag} S)^{-1} (\mu_1 - \mu_0)`; the other half give normal
    laws of the projections on w, and the score of a run is
    :math:`\log N(w \cdot y; m_1, s_1) - \log N(w \cdot y; m_0, s_0)`.

    Shadows, float [a, q] and [b, q], are the attacker's runs without the edge and with it, at least
    8 of each; those observed, [c, q] and [d, q], are to be told apart, and independent of the
    shadows. ``ridge`` is lambda >= 0. Scores are of the runs without the edge, then of those with
    it, and intervals over runs. The TPR at 1 % FPR, of (epsilon, 0) at most 0.01 e^epsilon, is an
    estimate: :func:`ldp_jax.verification.private_edge_lower_bound` bounds it. ``ValueError`` for
    runs of different lengths, too few of them, or ones that are not finite.

    Reference: Carlini et al., Membership inference attacks from first principles (IEEE S&P 2022),
    section V, with one target and a learned direction.

    >>> rng = np.random.default_rng(0)
    >>> runs = [rng.normal(mean, 1.0, (400, 2)) for mean in (0.0, 1.5, 0.0, 1.5)]
    >>> likelihood_ratio(*runs).auc.mean > 0.9
    True
    """
    without = rows_of("shadows_without", shadows_without, np.float64, least=8)
    with_edge = rows_of("shadows_with", shadows_with, np.float64, least=8)
    observed = [
        rows_of("observed_without", observed_without, np.float64, least=2),
        rows_of("observed_with", observed_with, np.float64, least=2),
    ]
    lengths = [runs.shape[1] for runs in (without, with_edge, *observed)]
    require(len(set(lengths)) == 1, f"all runs must show as many numbers, got {lengths}")
    ridge = validate.number(0.0, ridge=ridge)
    first = [without[::2], with_edge[::2]]
    spread = sum(np.atleast_2d(np.cov(part, rowvar=False)) for part in first) / 2
    variances = np.diag(spread)
    # A score that never varies gets a tiny variance: it decides alone where it differs, and not at
    # all where it does not.
    floor = 1e-12 * max(1.0, float(variances.max()))
    matrix = spread + np.diag(ridge * variances + floor)
    direction = np.linalg.solve(matrix, first[1].mean(0) - first[0].mean(0))

    runs = np.concatenate(observed)
    logs = []
    for part in (without[1::2], with_edge[1::2]):
        along = part @ direction
        mean = along.mean()
        deviation = max(along.std(ddof=1), 1e-12 * (1.0 + abs(mean)))
        law = stats.norm(mean, deviation)
        logs.append(law.logpdf(runs @ direction))
    scores = logs[1] - logs[0]
    truth = np.arange(len(runs)) >= len(observed[0])
    targets = Targets(np.arange(len(runs))[:, None], truth)
    return evaluate("likelihood ratio", scores, targets)
