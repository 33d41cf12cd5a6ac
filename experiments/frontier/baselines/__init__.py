"""Other methods for public features, some public labels, and private neighbour lists.

A baseline is ``run(key, asked, epsilon)``: it simulates the users of the private graph through the
library's mechanisms, at epsilon per bit of a list. All choices are made on a fifth of the labels,
held out.
"""

from collections.abc import Callable
from typing import Any

from experiments.frontier.baselines import lists, simple
from experiments.frontier.baselines._released import Answer, Asked

__all__ = ["BASELINES"]

BASELINES: dict[str, Callable[[Any, Asked, float], Answer]] = {
    "features": simple.logistic,
    "features, perceptron": simple.perceptron,
    "plain counts": simple.plain_counts,
    "noisy degree": simple.noisy_degree,
    "lpgnet, 1 round": simple.one_round,
    "lpgnet, 2 rounds": simple.two_rounds,
    "dprr, gcn": lists.dprr_gcn,
    "dprr, ppr": lists.dprr_ppr,
    "rr, gcn": lists.rr_gcn,
    "rr, ppr": lists.rr_ppr,
    "blink hard, gcn": lists.hard_gcn,
    "blink soft, gcn": lists.soft_gcn,
    "blink hybrid, gcn": lists.hybrid_gcn,
    "blink soft, ppr": lists.soft_ppr,
    "blink hybrid, ppr": lists.hybrid_ppr,
    "non-private, gcn": simple.true_gcn,
    "non-private, ppr": simple.true_ppr,
    "lpgnet by label, 1 round": simple.one_round_by_label,
    "lpgnet by label, 2 rounds": simple.two_rounds_by_label,
}
"""In the order in which they were added: a name's place is a part of its rows' keys."""
