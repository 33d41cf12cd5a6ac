"""Attacks: inferences from a model or a release, beside the inferences from public knowledge alone.

Every attack takes what the attacker sees and the :class:`Targets` in question, and returns an
:class:`Attack`. The truth within the targets is for the verdict; no score depends on it. An attack
that finds nothing shows its own limits, the ``guarantee()`` of a mechanism those of all attacks.

>>> import numpy as np
>>> secret = all_pairs(np.arange(4), [[0, 1], [2, 3]])
>>> alike = np.array([[0.9, 0.1], [0.8, 0.2], [0.2, 0.8], [0.3, 0.7]])
>>> public = degree_product([[0, 2]], 4, secret)
>>> link_stealing(alike, secret, distance="euclidean").minus(public).auc.mean
0.625
"""

from ldp_jax.attacks import poisoning
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
from ldp_jax.attacks.public_knowledge import common_neighbours, degree_product, feature_similarity
from ldp_jax.attacks.shadows import Shadows, ask_shadows, shadow_models

__all__ = [
    "Attack",
    "Difference",
    "Distance",
    "Perceptron",
    "Poisoning",
    "Reconstruction",
    "Shadows",
    "Targets",
    "all_pairs",
    "ask_shadows",
    "attribute_inference",
    "balanced_pairs",
    "common_neighbours",
    "degree_product",
    "evaluate",
    "evaluate_membership",
    "feature_similarity",
    "inferred_edges",
    "inversion",
    "likelihood_ratio",
    "link_stealing",
    "linkteller",
    "lira",
    "log_odds",
    "planted_edge",
    "poisoning",
    "public_mean",
    "rmia",
    "shadow_models",
    "table",
    "trained_link_stealing",
    "trained_membership",
]

__dir__ = lambda: __all__
