"""Evidence from noisy counts: how far labels bear it out, and the posterior of all together."""

import math
from typing import Any

import jax
import numpy as np

from ldp_jax.servers.facts.counts import CountFacts
from ldp_jax.servers.parts.device_classifier import count_regression
from ldp_jax.servers.parts.guard import guard
from ldp_jax.servers.parts.label_odds import family, preference, trust
from ldp_jax.servers.parts.self_training import FoldedLabels, label_evidence, self_train
from ldp_jax.servers.parts.stack import combine, stack

# Ways to weigh log q, log f, the law's evidence and the regression. The first is features alone.
_FEATURES = np.array((1.0, 0.0, 0.0, 0.0), np.float32)
_ALONE = family(_FEATURES)
_TAUGHT = (
    family(_FEATURES, (0.0, 0.0, 1.0, 0.0)),
    family((0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0)),
)
_REGRESSED = (
    family((0.0, 1 / 3, 1 / 3, 2 / 3)),
    family((0.0, 0.0, 0.0, 1.0)),
)

# The logarithm of the odds that reports tell labels nothing, before labels are asked. It was chosen
# on drawn worlds in which friends share what features say, right or wrong. It is no bound, since
# self-training has seen a label that friends report. The experiment "worlds" says what is lost.
_DOUBT = 3.5


def learned(
    facts: CountFacts, own: np.ndarray, counts: np.ndarray, round: np.ndarray, guarded: bool
) -> dict[str, Any]:
    """How far reports are believed, what they teach, and the posterior of all.

    Fields of :class:`~ldp_jax.servers.counts.PilotedCounts`.

    ``own`` [n, C] is the evidence of own reports, ``counts`` [n, 3 C] these by the groups of the
    second round. The guard is asked about reports of the second round alone: with those of the
    first the model agrees by its fit.
    """
    labels = facts.labels
    unlabelled = labels < 0
    reported = round > 0
    told = np.where(reported, labels, -1)
    known = np.flatnonzero(told >= 0)
    trusted = guard(own, np.exp(facts.log_q), unlabelled & (round == 2), told)
    strength = trusted.strength if guarded else 1.0
    evident = trusted.log_likelihood if guarded else own
    log_f = facts.log_q
    regression = np.zeros_like(facts.log_q)
    families = _TAUGHT
    if facts.rows is not None and strength > 0.0:
        # Evidence that is too sure of itself would teach too much.
        share = trust(facts.log_q[known], evident[known], told[known])
        of_labels = label_evidence(labels, facts.num_classes)
        lesson = np.where(unlabelled[:, None], np.float32(share) * evident, of_labels)
        log_f = self_train(facts.rows, lesson, facts.known)
    # A regression would know nothing of a class of which no labelled user reported.
    if strength > 0.0 and np.bincount(told[told >= 0], minlength=facts.num_classes).all():
        of_folds = facts.known.fold, facts.known.num_folds
        labelled = FoldedLabels(labels, facts.num_classes, *of_folds)
        regression = count_regression(facts.known.log_q, counts, labelled, reported)
        families = (*_TAUGHT, *_REGRESSED)

    scores = np.stack([facts.log_q, log_f, evident, regression], -1)
    doubt = _DOUBT if guarded else -math.inf
    found = preference(scores[known], told[known], _ALONE, families, doubt)
    taught = stack(scores[known], told[known], found.other)
    weights = found.chance * taught + (1.0 - found.chance) * found.alone
    arrays = {
        "log_posterior": combine(scores, weights),
        "log_f": log_f,
        "log_likelihood": evident,
        "log_regression": regression,
        "weights": weights.astype(np.float32),
    }
    made = {"strength": strength * found.chance, "by_labels": trusted.by_labels}
    return {**jax.device_put(arrays), **made}
