"""Private data that helps: messages that say something of a user's class, and what a server makes of them.

Piloted counts (:func:`piloted_counts`) are for private neighbour lists: users count their neighbours by public
groups. Each step is a pure function of its own module: :mod:`groups <ldp_jax.panel.groups>`,
:mod:`counts <ldp_jax.panel.counts>`, :mod:`pilot <ldp_jax.panel.pilot>`, :mod:`design <ldp_jax.panel.design>`,
:mod:`self_training <ldp_jax.panel.self_training>`, :mod:`guard <ldp_jax.panel.guard>`,
:mod:`stack <ldp_jax.panel.stack>`.
"""

from ldp_jax.panel.counts import (
    Evidence,
    evidence,
    geometric_noise,
    geometric_noise_log_pmf,
    log_likelihood,
    neighbour_counts,
    table_size,
)
from ldp_jax.panel.design import Design, design
from ldp_jax.panel.groups import MERGES, Merge, class_shares, fine_groups, merge, merged
from ldp_jax.panel.guard import Guarded, guard, likelihood_ratios, strength
from ldp_jax.panel.pilot import GroupShares, expected_counts, group_shares, pilot
from ldp_jax.panel.piloted import PilotedCounts, Question, piloted_counts
from ldp_jax.panel.rows import Rows, feature_rows
from ldp_jax.panel.self_training import (
    FeaturesPosterior,
    SelfTrained,
    features_posterior,
    folds,
    label_evidence,
    self_train,
)
from ldp_jax.panel.stack import combine, stack

__all__ = [
    "MERGES",
    "Design",
    "Evidence",
    "FeaturesPosterior",
    "GroupShares",
    "Guarded",
    "Merge",
    "PilotedCounts",
    "Question",
    "Rows",
    "SelfTrained",
    "class_shares",
    "combine",
    "design",
    "evidence",
    "expected_counts",
    "feature_rows",
    "features_posterior",
    "fine_groups",
    "folds",
    "geometric_noise",
    "geometric_noise_log_pmf",
    "group_shares",
    "guard",
    "label_evidence",
    "likelihood_ratios",
    "log_likelihood",
    "merge",
    "merged",
    "neighbour_counts",
    "pilot",
    "piloted_counts",
    "self_train",
    "stack",
    "strength",
    "table_size",
]


def __dir__() -> list[str]:
    return __all__
