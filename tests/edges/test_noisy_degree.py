"""NoisyDegree: what an edge costs, its law in whole graphs, noise from elsewhere, what is refused."""

import jax
import networkx as nx
import numpy as np
import pytest
from scipy import stats as scipy_stats

from ldp_jax import verification
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RELATIONSHIP
from ldp_jax.edges import DPRR, NoisyDegree, privatize_graph
from ldp_jax.graph import graphs
from tests import stats


@pytest.mark.parametrize("noise", ["laplace", "geometric"])
@pytest.mark.parametrize(("reporting", "epsilon"), [("full", 2.0), ("half", 1.0)])
def test_an_edge_costs_what_is_claimed(noise, reporting, epsilon):
    m = NoisyDegree(1.0, noise=noise, reporting=reporting)
    assert m.relationship().epsilon == epsilon == NoisyDegree(1.0).relationship(reporting).epsilon
    assert verification.relationship_supremum(m).epsilon == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize(("reporting", "epsilon"), [("full", 3.5), ("half", 1.5)])
def test_personal_budgets(reporting, epsilon):
    """The two largest together where both ends count an edge; else the second largest, its owner's."""
    m = NoisyDegree(np.array([2.0, 0.5, 1.5, 1.0]), reporting=reporting)
    assert m.relationship().epsilon == epsilon
    assert m.guarantee().epsilon == 2.0
    assert verification.relationship_supremum(m).epsilon == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize("reporting", ["full", "half"])
def test_whole_graphs_have_the_law(reporting):
    """A ring of 200 000: noise of scale 2 on the degree, 2, or on owned pairs, 1; no edge leaves a device.

    A distribution function that is off by 0.015 is seen.
    """
    n = 200_000
    nodes = np.arange(n)
    ring = graphs.from_edges(np.stack([nodes, (nodes + 1) % n], 1), n)
    noisy = privatize_graph(jax.random.key(0), ring, NoisyDegree(0.5), reporting=reporting)
    assert not len(noisy.graph.senders)
    owned = np.full(n, 2)
    if reporting == "half":
        low, high = np.minimum(nodes, (nodes + 1) % n), np.maximum(nodes, (nodes + 1) % n)
        owned = np.bincount(np.where((low + high) % 2 == 0, low, high), minlength=n)
    degree = 2 if reporting == "full" else 1  # of all, or all but the two ends where the ring is closed
    assert (owned == degree).sum() >= n - 2
    mine = noisy.degree[owned == degree]
    below = scipy_stats.laplace.cdf(0.0, loc=degree, scale=2.0)
    stats.assert_share((mine == 0).sum(), len(mine), below)
    law = lambda x: (scipy_stats.laplace.cdf(x, loc=degree, scale=2.0) - below) / (1 - below)
    stats.assert_ks(mine[mine > 0], law)
    assert noisy.guarantee[NEIGHBOUR_LIST].epsilon == 0.5
    assert noisy.guarantee[RELATIONSHIP].epsilon == (1.0 if reporting == "full" else 0.5)


@pytest.mark.parametrize("noise", ["laplace", "geometric"])
def test_its_degrees_are_those_of_dprr(noise):
    """The same key, budget and graph: one law, and one draw; each user has her own budget."""
    graph = graphs.from_edges(np.array(nx.barabasi_albert_graph(300, 3, seed=0).edges()), 300)
    budgets = np.where(np.arange(300) % 2 == 0, 0.5, 2.0).astype(np.float32)
    alone = privatize_graph(jax.random.key(1), graph, NoisyDegree(budgets, noise=noise)).degree
    beside = privatize_graph(jax.random.key(1), graph, DPRR(budgets, 1.0, noise=noise)).degree
    np.testing.assert_array_equal(alone, beside)
    if noise == "geometric":
        np.testing.assert_array_equal(alone, np.round(alone))


@pytest.mark.parametrize("noise", ["laplace", "geometric"])
def test_the_bias_of_clipping(noise):
    """100 000 users of degree 2 in a graph of 2 or more: mean of the noise to five standard errors (0.02)."""
    n = 100_000
    nodes = np.arange(n)
    ring = graphs.from_edges(np.stack([nodes, (nodes + 1) % n], 1), n)
    m = NoisyDegree(0.8, noise=noise)
    gap = privatize_graph(jax.random.key(2), ring, m).degree - 2
    expected = float(m.bias(2, n - 1))
    assert expected > 5 * gap.std() / np.sqrt(n)
    assert abs(gap.mean() - expected) < 5 * gap.std() / np.sqrt(n)


def test_noise_from_elsewhere_is_scaled_and_clipped():
    found = NoisyDegree(0.25).add_noise(
        np.array([1.0, -1.0, 0.125, 4.0]), np.array([1, 3, 2, 2]), np.array([9, 9, 9, 5])
    )
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, [5.0, 0.0, 2.5, 5.0])
    with pytest.raises(ValueError, match="noise must be laplace"):
        NoisyDegree(0.25, noise="geometric").add_noise([1.0], [1], [5])


@pytest.mark.usefixtures("untyped")
def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="reporting must be one of full, half; got 'half list'"):
        NoisyDegree(1.0, reporting="half list")
    with pytest.raises(ValueError, match="noise must be one of laplace, geometric"):
        NoisyDegree(1.0, noise="gaussian")
    for epsilon in (0.0, -1.0, np.nan, 101.0):
        with pytest.raises(ValueError, match="epsilon must be"):
            NoisyDegree(epsilon)
    with pytest.raises(ValueError, match="n must be given"):
        NoisyDegree(1.0).domain()
    with pytest.raises(ValueError, match="concrete epsilon"):
        jax.jit(lambda e: NoisyDegree(e).guarantee().epsilon)(1.0)
