"""What is expected of counts before they are collected."""

import jax
import numpy as np
import pytest

from ldp_jax.pipeline.forecast import forecast, homophily, reliability
from tests.pipeline.planted import blocks, some_labels

pytestmark = pytest.mark.usefixtures("quickly_compiled")


def test_z_grows_with_each_of_its_facts_and_the_verdict_with_z():
    found = forecast(10.0, 0.5, 0.8, 1.0)
    assert found.z == pytest.approx(2.0)
    assert [forecast(10.0, 0.5, 0.8, epsilon).worth for epsilon in (0.3, 0.5, 1.0)] == ["little", "some", "much"]
    assert forecast(5.0, 0.5, 0.8, 2.0).z == forecast(10.0, 0.25, 0.8, 2.0).z == forecast(10.0, 0.5, 0.4, 2.0).z


def test_homophily_of_a_block_model_is_the_planted_one():
    graph, y, _ = blocks(n=900, homophily=0.7)
    pairs = np.stack([graph.senders, graph.receivers], 1)
    # 6 300 edges, of which 0.8 are alike: a standard deviation of 0.008.
    assert homophily(pairs, y) == pytest.approx(0.7, abs=0.04)
    assert homophily(pairs, np.random.default_rng(0).permutation(y)) == pytest.approx(0.0, abs=0.04)
    assert homophily(pairs, some_labels(y, 0.5)) == pytest.approx(0.7, abs=0.08)
    assert homophily([[0, 1]], np.zeros(2, int)) == 0.0  # one class: nothing can be alike beyond chance


def test_a_label_is_reliable_and_a_constant_posterior_is_chance():
    log_q = np.log(np.full((4, 2), 0.5))
    assert reliability(jax.numpy.asarray(log_q), np.array([0, 1, -1, -1])) == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mean_degree": 0.0}, "mean_degree must be"),
        ({"homophily": 1.5}, "homophily must be"),
        ({"reliability": float("nan")}, "reliability must be"),
        ({"epsilon": -1.0}, "epsilon must be"),
    ],
)
def test_what_is_no_fact_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        forecast(**{"mean_degree": 4.0, "homophily": 0.5, "reliability": 0.5, "epsilon": 1.0, **changes})
    with pytest.raises(ValueError, match="state a guess"):
        homophily([[0, 1]], np.array([0, -1]))
    for pairs, message in (
        (np.zeros((2, 5), int), r"pairs must be integers of shape \[pairs, 2\], got int64 of shape \(2, 5\)"),
        ([[0.0, 1.0]], "pairs must be integers"),
        ([[0, -1]], r"pairs must join nodes in \[0, 2\), got -1 to 0"),
        ([[0, 2]], "pairs must join nodes"),
    ):
        with pytest.raises(ValueError, match=message):
            homophily(pairs, np.array([0, 1]))
