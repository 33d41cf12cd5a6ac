"""Private data that helps: messages that say something of a user's class, and what a server makes of them.

Piloted counts (:func:`piloted_counts`) are for private neighbour lists: users count their neighbours by public
groups. Each step is a pure function of its own module: :mod:`groups <ldp_jax.panel.groups>`,
:mod:`counts <ldp_jax.panel.counts>`, :mod:`pilot <ldp_jax.panel.pilot>`, :mod:`design <ldp_jax.panel.design>`,
:mod:`self_training <ldp_jax.panel.self_training>`, :mod:`guard <ldp_jax.panel.guard>`,
:mod:`count_regression <ldp_jax.panel.count_regression>`, :mod:`stack <ldp_jax.panel.stack>`. The same counts find
links: :mod:`links <ldp_jax.panel.links>`.

Local prediction (:func:`local_prediction`) is for private records: devices report the class that a public
classifier predicts. Its steps: :mod:`structure <ldp_jax.panel.structure>`,
:mod:`device_classifier <ldp_jax.panel.device_classifier>`, :mod:`message <ldp_jax.panel.message>`,
:mod:`field <ldp_jax.panel.field>`, the guard and the stack, :mod:`prediction <ldp_jax.panel.prediction>`. Whether
it will help is asked before: :mod:`advice <ldp_jax.panel.advice>`.
"""

from ldp_jax.panel.advice import ExpectedGain, expected_gain
from ldp_jax.panel.count_regression import count_regression
from ldp_jax.panel.counts import (
    Evidence,
    evidence,
    geometric_noise_log_pmf,
    log_likelihood,
    table_size,
)
from ldp_jax.panel.design import Design, design
from ldp_jax.panel.device_classifier import DeviceClassifier, device_classifier, panel_regression
from ldp_jax.panel.field import Observations, class_field, observations, precision_weighted_ppr
from ldp_jax.panel.forecast import Forecast, forecast, homophily, reliability
from ldp_jax.panel.groups import MERGES, Merge, class_shares, fine_groups, merge, merged
from ldp_jax.panel.guard import Guarded, guard, likelihood_ratios, strength
from ldp_jax.panel.links import link_scores
from ldp_jax.panel.message import (
    SMOOTHINGS,
    confusions,
    likeliest_density_evidence,
    likeliest_evidence,
    message_evidence,
    restricted_confusion,
)
from ldp_jax.panel.pilot import GroupShares, expected_counts, group_shares, pilot
from ldp_jax.panel.piloted import CountRound, PilotedCounts, piloted_counts
from ldp_jax.panel.prediction import (
    Broadcast,
    ClassReports,
    LocalPrediction,
    PanelFacts,
    ReadReports,
    check_panel,
    local_prediction,
    panel_facts,
)
from ldp_jax.panel.reported_labels import label_observations, reported_evidence, reported_shares, soft_labels
from ldp_jax.panel.rows import DenseRows, Rows, feature_rows, scaled_rows
from ldp_jax.panel.self_training import (
    FeaturesPosterior,
    SelfTrained,
    features_posterior,
    folds,
    label_evidence,
    self_train,
)
from ldp_jax.panel.stack import combine, likeliest, stack, stack_out_of_fold
from ldp_jax.panel.structure import StructurePosterior, label_log_loss, structure_posterior

__all__ = [
    "MERGES",
    "SMOOTHINGS",
    "Broadcast",
    "DenseRows",
    "Design",
    "DeviceClassifier",
    "Evidence",
    "ExpectedGain",
    "FeaturesPosterior",
    "Forecast",
    "GroupShares",
    "Guarded",
    "LocalPrediction",
    "Merge",
    "Observations",
    "PanelFacts",
    "PilotedCounts",
    "CountRound",
    "ReadReports",
    "ClassReports",
    "Rows",
    "SelfTrained",
    "StructurePosterior",
    "check_panel",
    "class_field",
    "class_shares",
    "combine",
    "confusions",
    "count_regression",
    "design",
    "device_classifier",
    "evidence",
    "expected_counts",
    "expected_gain",
    "feature_rows",
    "features_posterior",
    "fine_groups",
    "folds",
    "forecast",
    "geometric_noise_log_pmf",
    "group_shares",
    "guard",
    "homophily",
    "label_evidence",
    "label_log_loss",
    "label_observations",
    "likelihood_ratios",
    "link_scores",
    "likeliest",
    "likeliest_density_evidence",
    "likeliest_evidence",
    "local_prediction",
    "log_likelihood",
    "merge",
    "merged",
    "message_evidence",
    "observations",
    "panel_facts",
    "panel_regression",
    "pilot",
    "piloted_counts",
    "precision_weighted_ppr",
    "reliability",
    "reported_evidence",
    "reported_shares",
    "restricted_confusion",
    "scaled_rows",
    "self_train",
    "soft_labels",
    "stack",
    "stack_out_of_fold",
    "strength",
    "structure_posterior",
    "table_size",
]


def __dir__() -> list[str]:
    return __all__
