"""NoisyDegree: what an edge costs, its law in whole graphs, and its claim."""

import jax
import numpy as np
import pytest
from scipy import stats as scipy_stats

from ldp_jax import verification
from ldp_jax.edges import DPRR, NoisyDegree, privatize_graph
from ldp_jax.graph import graphs
from tests import stats
from tests.edges.small import ring


@pytest.mark.parametrize(("reporting", "alone", "personal"), [("full", 2.0, 3.5), ("half", 1.0, 1.5)])
def test_an_edge_costs_what_is_claimed(reporting, alone, personal):
    """Of personal budgets the two largest where both ends count an edge; else the second largest, its owner's."""
    for budget, epsilon in ((1.0, alone), (np.array([2.0, 0.5, 1.5, 1.0]), personal)):
        m = NoisyDegree(budget, noise="geometric", reporting=reporting)
        assert m.relationship().epsilon == epsilon == NoisyDegree(budget).relationship(reporting).epsilon
        assert verification.relationship_supremum(m).epsilon == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize("reporting", ["full", "half"])
def test_whole_graphs_have_the_law(reporting):
    """A ring of 50 000: noise of scale 2 on the degree, 2, or on owned pairs, 1, and the bias of clipping it.

    A distribution function that is off by 0.03 is seen.
    """
    n, degree = 50_000, 2 if reporting == "full" else 1
    nodes, m = np.arange(n), NoisyDegree(0.5)
    ring = graphs.from_edges(np.stack([nodes, (nodes + 1) % n], 1), n)
    noisy = privatize_graph(jax.random.key(0), ring, m, reporting=reporting)
    assert not len(noisy.graph.senders)
    mine = noisy.degree[1:-1]  # in a half matrix the ends, where the ring is closed, own another number
    below = scipy_stats.laplace.cdf(0.0, loc=degree, scale=2.0)
    stats.assert_share((mine == 0).sum(), len(mine), below)
    law = lambda x: (scipy_stats.laplace.cdf(x, loc=degree, scale=2.0) - below) / (1 - below)
    stats.assert_ks(mine[mine > 0], law)
    error = mine.std() / np.sqrt(n)
    assert abs((mine - degree).mean() - float(m.degree_bias(degree, n - 1))) < 5 * error


@pytest.mark.parametrize("noise", ["laplace", "geometric"])
def test_its_degrees_are_those_of_dprr(noise):
    """The same key, budget and graph: one law, and one draw; each user has a budget of their own."""
    budgets = np.tile(np.float32([0.5, 2.0]), 20)
    alone = privatize_graph(jax.random.key(1), ring(), NoisyDegree(budgets, noise=noise)).degree
    beside = privatize_graph(jax.random.key(1), ring(), DPRR(budgets, 1.0, noise=noise)).degree
    np.testing.assert_array_equal(alone, beside)
    assert (alone == np.round(alone)).all() == (noise == "geometric")


@pytest.mark.usefixtures("untyped")
def test_bad_arguments_are_refused():
    for make, said in (
        (lambda: NoisyDegree(1.0, reporting="half list"), "reporting must be one of full, half; got 'half list'"),
        (lambda: NoisyDegree(1.0, noise="gaussian"), "noise must be one of laplace, geometric"),
        (lambda: NoisyDegree(101.0), "epsilon must be"),
        (lambda: NoisyDegree(0.25, noise="geometric").add_noise([1.0], [1], [5]), "noise must be laplace"),
        (lambda: jax.jit(lambda e: NoisyDegree(e).guarantee().epsilon)(1.0), "concrete epsilon"),
    ):
        with pytest.raises(ValueError, match=said):
            make()
