"""Scores of attacks: distances against SciPy's, and what blocks, repeats and signs must not
change.
"""

from functools import partial
from typing import get_args

import jax
import numpy as np
import pytest
import scipy.spatial.distance

from ldp_jax.attacks import (
    Distance,
    Targets,
    _result,
    attribute_inference,
    common_neighbours,
    degree_product,
    feature_similarity,
    link_stealing,
    lira,
    poisoning,
    public_knowledge,
    rmia,
)
from ldp_jax.core.mechanism import privatize
from ldp_jax.core.spaces import Finite
from ldp_jax.features import Piecewise, Sampled
from ldp_jax.verification.cases import CASES


def drawn(rng, n):
    """All pairs of n nodes, of which some are true."""
    pairs = np.stack(np.triu_indices(n, 1), 1)
    return Targets(pairs, rng.random(len(pairs)) < 0.4)


@pytest.mark.parametrize("distance", get_args(Distance))
def test_a_score_is_minus_the_distance_of_scipy(distance):
    """Drawn probabilities, and logits of both signs: there the size of a sum is no sum of sizes."""
    rng = np.random.default_rng(0)
    targets = drawn(rng, 12)
    logits = rng.normal(0.3, 2.0, (12, 5))
    logits[:3, 1] = 0.0
    for answers in (rng.dirichlet(np.ones(5), 12), logits):
        wanted = [
            getattr(scipy.spatial.distance, distance)(*answers[pair]) for pair in targets.units
        ]
        found = link_stealing(answers, targets, distance=distance)
        np.testing.assert_allclose(found.scores, -np.array(wanted), rtol=1e-9, atol=1e-12)
        alike = feature_similarity(answers, targets, distance=distance)
        np.testing.assert_array_equal(alike.scores, found.scores)
        assert alike.name == f"feature similarity ({distance})"


def test_blocks_of_pairs_and_of_groups_change_nothing(monkeypatch):
    """Scores of common neighbours, distances, and intervals, by blocks of three and at once."""
    rng = np.random.default_rng(0)
    targets = drawn(rng, 14)
    pairs = targets.units
    answers = rng.dirichlet(np.ones(5), 14)
    public = pairs[rng.random(len(pairs)) < 0.5]
    found = lambda: (common_neighbours(public, 14, targets), link_stealing(answers, targets))
    whole = found()
    for module, size in ((public_knowledge, 3), (_result, 3 * len(pairs))):
        monkeypatch.setattr(module, "_BLOCK", size)
    for one, other in zip(whole, found(), strict=True):
        np.testing.assert_allclose(one.scores, other.scores, rtol=1e-12)
        for metric, interval in one.metrics.items():
            np.testing.assert_allclose(interval, other.metrics[metric], rtol=1e-12)


@pytest.mark.parametrize("attack", [common_neighbours, degree_product])
def test_an_edge_that_is_given_twice_or_as_a_loop_is_no_other_knowledge(attack):
    """Drawn public edges, all again turned round, with loops: scores are those of a set."""
    rng = np.random.default_rng(0)
    targets = drawn(rng, 10)
    pairs = targets.units
    once = pairs[rng.random(len(pairs)) < 0.5]
    matrix = np.zeros((10, 10))
    matrix[tuple(once.T)] = matrix[tuple(once[:, ::-1].T)] = 1
    degree = matrix.sum(0)
    wanted = matrix @ matrix if attack is common_neighbours else np.outer(degree, degree)
    loops = np.repeat(rng.integers(0, 10, (3, 1)), 2, 1)
    found = attack(np.concatenate([once, once[:, ::-1], loops]), 10, targets)
    np.testing.assert_array_equal(found.scores, wanted[tuple(pairs.T)])


@pytest.mark.parametrize("name", ["Piecewise", "SquareWave", "Discrete", "Sampled"])
def test_the_worst_lie_is_the_furthest_in_its_direction(name):
    """Drawn directions of both signs, and reports that are not symmetric: no end is further, liar
    by liar.
    """
    rng = np.random.default_rng(0)
    m = Sampled(Piecewise(0.7), 3, 3) if name == "Sampled" else CASES[name].make(0.7)
    towards = rng.normal(size=(40, 3) if name == "Sampled" else 40).astype(np.float32)
    liars = rng.random(40) < 0.7
    honest = privatize(jax.random.key(0), m, rng.uniform(-1, 1, towards.shape).astype(np.float32))
    found = poisoning.lying_reports(jax.random.key(1), m, honest, liars, "worst", towards)
    law, sent = (m.inner, found.values) if name == "Sampled" else (m, found)
    space = law.codomain()
    ends = space.members() if isinstance(space, Finite) else np.array([space.lower, space.upper])
    ends = np.asarray(law.estimate(np.asarray(ends, np.asarray(sent).dtype)))
    further = np.where(towards > 0, towards * ends.max(), towards * ends.min())
    np.testing.assert_allclose(
        (towards * np.asarray(law.estimate(sent)))[liars], further[liars], rtol=1e-6
    )


PAIRS = np.stack(np.triu_indices(12, 1), 1)
ANSWERS = np.random.default_rng(1).dirichlet(np.ones(4), 12)
PUBLIC = PAIRS[::3]


@pytest.mark.parametrize(
    ("attack", "units"),
    [
        (partial(link_stealing, ANSWERS), PAIRS),
        (partial(feature_similarity, ANSWERS), PAIRS),
        (partial(common_neighbours, PUBLIC, 12), PAIRS),
        (partial(degree_product, PUBLIC, 12), PAIRS),
        (
            partial(attribute_inference, PUBLIC, 12, np.arange(4), np.arange(4) < 2),
            np.arange(4, 12)[:, None],
        ),
    ],
)
def test_no_score_reads_the_truth_that_it_is_judged_by(attack, units):
    truth = np.arange(len(units)) % 3 == 0
    one, other = (attack(Targets(units, each)).scores for each in (truth, ~truth))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "attack", [lira, rmia, partial(lira, variance="node"), partial(rmia, form="offline")]
)
def test_no_score_of_a_node_reads_the_target_models_own_membership(attack):
    rng = np.random.default_rng(0)
    member = rng.random((7, 20)) < 0.5
    confidences = rng.normal(size=(7, 20))
    before = attack(confidences, member).scores
    moved = 0
    for target, node in rng.integers(0, (7, 20), (6, 2)):
        turned = member.copy()
        turned[target, node] ^= True
        after = attack(confidences, turned).scores
        assert after[target, node] == pytest.approx(before[target, node], rel=1e-9, abs=1e-12)
        moved += (np.delete(after, target, 0) != np.delete(before, target, 0)).any()
    assert moved  # it decides the scores of others; a rank may stay
