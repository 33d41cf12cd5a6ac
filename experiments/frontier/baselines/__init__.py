"""What else can be done where node features and some labels are public and every user's neighbour list is private.

Each baseline is a pure function of a key, the private graph (whose users it simulates, through the library's own
mechanisms), public features, public labels (-1 where there is none), epsilon per bit of a list, and the number of
classes. All choices are made on labels that are held out, a fifth of them: networks stop by them, and regressions
choose their ridge by each fifth in turn.
"""

from collections.abc import Callable
from typing import Any

from experiments.frontier.baselines import blink, features_only, lists, lpgnet, non_private
from experiments.frontier.baselines._released import Released
from experiments.frontier.baselines.noisy_degree import noisy_degree
from experiments.frontier.baselines.plain_counts import plain_counts

__all__ = ["BASELINES", "Released"]

BASELINES: dict[str, Callable[[Any, Any, Any, Any, float, int], Released]] = {
    "features": features_only.logistic,
    "features, perceptron": features_only.perceptron,
    "plain counts": plain_counts,
    "noisy degree": noisy_degree,
    "lpgnet, 1 round": lpgnet.one_round,
    "lpgnet, 2 rounds": lpgnet.two_rounds,
    "dprr, gcn": lists.dprr_gcn,
    "dprr, ppr": lists.dprr_ppr,
    "rr, gcn": lists.rr_gcn,
    "rr, ppr": lists.rr_ppr,
    "blink hard, gcn": blink.hard_gcn,
    "blink soft, gcn": blink.soft_gcn,
    "blink hybrid, gcn": blink.hybrid_gcn,
    "blink soft, ppr": blink.soft_ppr,
    "blink hybrid, ppr": blink.hybrid_ppr,
    "non-private, gcn": non_private.gcn,
    "non-private, ppr": non_private.ppr,
    "lpgnet by label, 1 round": lpgnet.one_round_by_label,
    "lpgnet by label, 2 rounds": lpgnet.two_rounds_by_label,
}
"""By name, in the order in which they were added: a name's place is a part of its rows' keys.

A baseline is ``run(key, graph, features, labels, epsilon, num_classes)``, features as
:func:`ldp_jax.pipeline.rows.feature_rows` makes them, or None.
"""
