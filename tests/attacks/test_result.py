"""How attacks are judged: against scikit-learn, naive loops and the coverage of the intervals."""

import jax
import numpy as np
import pytest
import sklearn.metrics
from scipy import stats

from ldp_jax.attacks import Targets, all_pairs, balanced_pairs, evaluate, table
from tests.stats import SIGNIFICANCE


def drawn(rng, n=40, *, effect=2.0, shift=2.0):
    """Pairs of n nodes whose scores and truth both depend on the nodes."""
    units = np.stack(np.triu_indices(n, 1), 1)
    node = rng.normal(size=(2, n))
    truth = rng.random(len(units)) < stats.norm.cdf(-1.0 + 0.3 * node[0][units].sum(1))
    scores = shift * truth + effect * node[1][units].sum(1) + rng.normal(size=len(units))
    return Targets(units, truth), scores


def test_metrics_are_scikit_learns_ties_and_all():
    targets, scores = drawn(np.random.default_rng(0))
    for values in (scores, np.round(scores), np.zeros_like(scores)):
        found = evaluate("any", values, targets)
        assert found.auc.mean == pytest.approx(sklearn.metrics.roc_auc_score(targets.truth, values))
        wanted = sklearn.metrics.average_precision_score(targets.truth, values)
        assert found.average_precision.mean == pytest.approx(wanted)
    for never in (0.0, -np.inf):
        found = evaluate("any", np.full_like(scores, never), targets)
        assert (found.auc.mean, found.tpr.mean) == pytest.approx((0.5, 0.01))
    assert (
        found.precision.mean == pytest.approx(found.density) == pytest.approx(targets.truth.mean())
    )


@pytest.mark.parametrize("density", [None, 0.05])
def test_what_is_believed_is_the_top_of_the_list_in_random_order(density):
    """Ties: the mean over random orders of what a loop finds."""
    rng = np.random.default_rng(1)
    targets, scores = drawn(rng)
    scores = np.round(2 * scores)
    truth = targets.truth
    found = evaluate("any", scores, targets, density=density)
    count = truth.sum() if density is None else density * len(truth)
    top = []
    for _ in range(1000):
        order = np.argsort(-(scores + rng.random(len(scores)) * 0.5), kind="stable")
        top.append(
            np.interp(count, np.arange(1, len(order) + 1), np.cumsum(truth[order])) / truth.sum()
        )
    assert abs(np.mean(top) - found.recall.mean) < 5 * np.std(top) / np.sqrt(len(top)) + 1e-9
    curve = sklearn.metrics.roc_curve(truth, scores, drop_intermediate=False)
    assert found.tpr.mean == pytest.approx(np.interp(0.01, *curve[:2]))
    assert found.precision.mean * count == pytest.approx(found.recall.mean * truth.sum())


def test_intervals_hold_what_they_say_where_pairs_share_nodes():
    """Of 100 small samples; the bad twin takes each pair for a unit of its own.

    Intervals that hold the truth in 60 % of samples fail all but 3 times in a million.
    """
    rng = np.random.default_rng(2)
    large, scores = drawn(rng, 1500)
    law = sklearn.metrics.roc_auc_score(large.truth, scores)
    hits = np.zeros(2, int)
    for _ in range(100):
        targets, scores = drawn(rng)
        for twin, units in enumerate((targets.units, np.arange(len(targets.units))[:, None])):
            auc = evaluate("any", scores, Targets(units, targets.truth)).auc
            hits[twin] += abs(auc.mean - law) <= auc.half_width
    least = int(stats.binom.ppf(SIGNIFICANCE, 100, 0.95))
    assert hits[0] >= least > hits[1]


def test_one_true_pair_has_no_interval():
    """Leaving out one of its nodes leaves nothing to find: the width is unknown, not 0."""
    found = evaluate("any", np.arange(6), all_pairs(np.arange(4), [[0, 1]]))
    assert (found.auc.mean, found.tpr.mean) == (0.0, 0.0)
    assert np.isnan(found.auc.half_width)


def test_differences_are_paired():
    rng = np.random.default_rng(3)
    targets, scores = drawn(rng)
    one = evaluate("one", scores, targets)
    better = evaluate(
        "better", scores + 0.3 * targets.truth + 0.05 * rng.normal(size=len(scores)), targets
    )
    gain = better.minus(one)
    assert gain.auc.mean == pytest.approx(better.auc.mean - one.auc.mean)
    assert gain.auc.mean - gain.auc.half_width > 0
    assert gain.auc.half_width < 0.5 * one.auc.half_width
    nothing = one.minus(one).metrics
    assert {found[:2] for found in nothing.values()} == {(0.0, 0.0)}
    narrow = evaluate("one", scores, targets, confidence=0.8)
    t = stats.t(39).ppf  # each of 40 nodes is left out once
    for found, wide in ((narrow, one), (narrow.minus(better), one.minus(better))):
        width = wide.auc.half_width * t(0.9) / t(0.975)
        assert found.auc.half_width == pytest.approx(width, rel=1e-6)
        assert found.auc.mean == wide.auc.mean


def test_a_difference_is_of_its_targets_and_at_its_confidence():
    targets, scores = drawn(np.random.default_rng(3))
    one, less = (
        evaluate(name, each, targets, confidence=0.8)
        for name, each in (("a", scores), ("b", -scores))
    )
    twice = one.minus(less).minus(less.minus(one)).auc
    assert twice.mean == pytest.approx(2 * one.minus(less).auc.mean)
    assert twice.half_width == pytest.approx(2 * one.minus(less).auc.half_width)
    others = targets._replace(truth=~targets.truth)
    other = evaluate("other", scores, others)
    for left, right in ((one.minus(less), other), (other, one.minus(less))):
        with pytest.raises(ValueError, match="must be of the"):
            left.minus(right)
    with pytest.raises(ValueError, match="must be of the rows of a minus b"):
        one.minus(less).minus(other.minus(evaluate("another", -scores, others)))


def test_tables_stand_beside_what_is_public():
    targets, scores = drawn(np.random.default_rng(4), 12)
    one = evaluate("one", scores, targets)
    two = evaluate("two", -scores, targets)
    assert str(one).startswith(f"one: AUC {one.auc.mean:.3f} ± {one.auc.half_width:.3f}, AP 0.")
    lines = table([one, two], beside=two).splitlines()
    assert lines[3].endswith("| +0.000 ± 0.000 |")
    assert {line.count("|") for line in lines} == {8}


def test_pairs_of_nodes():
    edges = [[5, 2], [2, 9], [0, 1]]
    units, truth = all_pairs([9, 2, 5, 7], edges, known=[[9, 5]])
    assert truth.tolist() == [True, False, True, False, False]
    assert np.sort(units, 1).tolist() == [[2, 9], [7, 9], [2, 5], [2, 7], [5, 7]]
    even = balanced_pairs(jax.random.key(0), [9, 2, 5, 7], edges, known=[[9, 5]])
    assert even.truth.tolist() == [True, True, False, False]
