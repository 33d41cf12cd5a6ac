"""Attacks: inferences from a model or a release, beside the inferences from public knowledge alone.

Every attack takes what the attacker sees and the :class:`Targets` in question, and returns an :class:`Attack`:
scores, and metrics with intervals. The truth within the targets is for the verdict; no score depends on it. An
attack that finds nothing shows the limits of the attack, the ``guarantee()`` of a mechanism those of all attacks.

>>> import numpy as np
>>> secret = all_pairs(np.arange(4), [[0, 1], [2, 3]])
>>> alike = np.array([[0.9, 0.1], [0.8, 0.2], [0.2, 0.8], [0.3, 0.7]])
>>> link_stealing(alike, secret).minus(degree_product([[0, 2]], 4, secret)).auc.mean
0.625
"""

from ldp_jax.attacks._classifier import Perceptron
from ldp_jax.attacks._result import (
    Attack,
    Difference,
    Poisoning,
    Reconstruction,
    Targets,
    all_pairs,
    balanced_pairs,
    evaluate,
    evaluate_membership,
    table,
)
from ldp_jax.attacks.attribute import attribute_inference, inferred_edges
from ldp_jax.attacks.inversion import inversion, public_mean
from ldp_jax.attacks.likelihood_ratio import likelihood_ratio, planted_edge
from ldp_jax.attacks.link_stealing import Distance, link_stealing, trained_link_stealing
from ldp_jax.attacks.linkteller import linkteller
from ldp_jax.attacks.membership import lira, log_odds, rmia, trained_membership
from ldp_jax.attacks.poisoning import (
    CountLie,
    CountNoise,
    Lie,
    believable_counts,
    choose_liars,
    degrees_by_both_ends,
    false_records,
    harm,
    leverage,
    lying_counts,
    lying_lists,
    lying_places,
    lying_reports,
    opposed_groups,
)
from ldp_jax.attacks.public_knowledge import common_neighbours, degree_product, feature_similarity
from ldp_jax.attacks.shadows import Shadows, ask_shadows, shadow_models

__all__ = [
    "Attack",
    "CountLie",
    "CountNoise",
    "Difference",
    "Distance",
    "Lie",
    "Perceptron",
    "Poisoning",
    "Reconstruction",
    "Shadows",
    "Targets",
    "all_pairs",
    "ask_shadows",
    "attribute_inference",
    "balanced_pairs",
    "believable_counts",
    "choose_liars",
    "common_neighbours",
    "degree_product",
    "degrees_by_both_ends",
    "evaluate",
    "evaluate_membership",
    "false_records",
    "feature_similarity",
    "harm",
    "inferred_edges",
    "inversion",
    "leverage",
    "likelihood_ratio",
    "link_stealing",
    "linkteller",
    "lira",
    "log_odds",
    "lying_counts",
    "lying_lists",
    "lying_places",
    "lying_reports",
    "opposed_groups",
    "planted_edge",
    "public_mean",
    "rmia",
    "shadow_models",
    "table",
    "trained_link_stealing",
    "trained_membership",
]


def __dir__() -> list[str]:
    return __all__
