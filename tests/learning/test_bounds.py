"""Theorems 2 to 4: the observed error is within the (1 - delta) bound, the constants are the
paper's.
"""

import dataclasses

import jax
import numpy as np
import pytest

from ldp_jax import datasets, servers
from ldp_jax.features import (
    HDS,
    GeneralPiecewise,
    Hybrid,
    Laplace,
    LaplaceVector,
    MultiBit,
    MultiPiecewise,
    Sampled,
)
from ldp_jax.graph.propagation import operator, ppr, ppr_rows
from ldp_jax.learning import bounds

DIM = 30
MECHANISMS = {
    "hds": HDS(1.0, DIM, 5),
    "hds-debiased": HDS(1.0, DIM, 5, debias=True),
    "laplace": LaplaceVector(1.0, DIM),
    "piecewise": MultiPiecewise(5.0, DIM),
    "multibit": MultiBit(5.0, DIM),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_bound_is_of_the_deviation_and_of_the_bias_of_the_worst_record(name):
    """Of drawn rows: its parts are those of a grid of records, and both are in the total."""
    mechanism = MECHANISMS[name]
    rng = np.random.default_rng(0)
    grid = np.linspace(-1, 1, 41).astype(np.float32)
    off = np.abs(np.asarray(mechanism.mean(grid)) - grid).max()
    for _ in range(3):
        rows = rng.dirichlet(np.ones(20), 6) * rng.uniform(0.3, 3.0, (6, 1))
        bound = bounds.error_bound(mechanism, rows, rng.uniform(0.01, 0.5))
        np.testing.assert_allclose(bound.bias, off * rows.sum(1), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(bound.total, bound.deviation + bound.bias, rtol=1e-12)
        assert (bound.deviation > 0).all()
        assert bound.variance >= float(np.asarray(mechanism.variance(grid)).max()) * (1 - 1e-5)


@pytest.fixture(scope="module")
def op():
    data = datasets.synthetic(
        jax.random.key(3),
        num_nodes=100,
        num_classes=3,
        num_features=DIM,
        mean_degree=5.0,
        homophily=0.8,
    )
    return operator(data.graph, "segment")


@pytest.mark.parametrize(
    ("name", "r"),
    [("hds", 0.5), ("hds-debiased", 0.0), ("laplace", 0.5), ("piecewise", 0.0), ("multibit", 0.0)],
)
def test_observed_error_is_within_the_bound(name, r, op):
    """At delta = 0.1 and 200 runs, a node may exceed its bound in at most 43 runs (binomial tail
    below 1e-6).

    The smallest defect this detects: a bound that fails in more than about 22 % of the runs.
    """
    mechanism = MECHANISMS[name]
    runs = 200
    nodes = 100
    x = jax.random.uniform(jax.random.key(0), (nodes, DIM), minval=-1.0, maxval=1.0)
    z = ppr(op, x, 0.2, r)
    keys = jax.random.split(jax.random.key(1), runs)
    private = servers.private_embeddings(keys, op, x, mechanism, alpha=0.2, r=r)
    errors = np.abs(np.asarray(private - z)).max(2)  # [runs, nodes]
    bound = bounds.error_bound(mechanism, ppr_rows(op, np.arange(nodes), 0.2, r), 0.1)
    assert ((errors > bound.total).sum(0) <= 43).all()
    # Not vacuous: within a factor 40 of what is seen (Bernstein and the union bound are loose by
    # about 10).
    assert (bound.total < 40 * np.median(errors, 0)).all()


def test_constants_are_those_of_the_proofs():
    """Eq. 27 and 28 for Laplace, and Bernstein's form in eq. 19 with the largest Pi(v, u) = 1."""
    d = 50
    epsilon = 2.0
    delta = 0.05
    log = np.log(2 * d / delta)
    flat = np.full((1, 1000), 1e-3)
    peaked = np.eye(1, 10)
    laplace = LaplaceVector(epsilon, d)
    np.testing.assert_allclose(
        bounds.error_bound(laplace, flat, delta).total,
        4 * d / epsilon * np.sqrt(2 * log * 1e-3),
        rtol=1e-6,
    )
    np.testing.assert_allclose(
        bounds.error_bound(laplace, peaked, delta).total, 8 * d / epsilon * log, rtol=1e-6
    )
    hds = HDS(epsilon, d, 5)
    bound = bounds.error_bound(hds, peaked, delta)
    tau = bound.deviation[0]
    b = float(hds.inner.b)
    exponent = tau**2 / (2 * bound.variance + 4 / 3 * tau * (b + 1))
    np.testing.assert_allclose(2 * d * np.exp(-exponent), delta, rtol=1e-5)


ROWS = np.ones((1, 3))
UNSCALED = dataclasses.replace(MultiBit(1.0, 4), scale=1.0)
FINE = HDS(1.0, 4, 2)


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize(
    ("mechanism", "rows", "delta", "message"),
    [
        (Sampled(Hybrid(1.0), 4, 4), ROWS, 0.1, "no theorem is about Hybrid"),
        (Sampled(Laplace(1.0), 4, 2), ROWS, 0.1, "needs k = d .*got k=2"),
        (UNSCALED, ROWS, 0.1, "scale must be d / k"),
        (Laplace(1.0), ROWS, 0.1, "mechanism must be of vectors"),
        (FINE, ROWS[0], 0.1, "rows must be finite"),
        (FINE, ROWS * np.nan, 0.1, "rows must be finite"),
        (FINE, ROWS, 1.0, "delta must be in"),
    ],
)
def test_what_no_theorem_covers_is_refused(mechanism, rows, delta, message):
    with pytest.raises(ValueError, match=message):
        bounds.error_bound(mechanism, rows, delta)


@pytest.mark.parametrize("make", [lambda: MultiPiecewise(5.0, 12, 3), lambda: MultiBit(5.0, 12, 3)])
def test_the_constants_of_theorem_4(make):
    """tau solves 2d exp(-tau^2 / (2V + 2M tau / 3)) = delta; M is 2 d/k A over the peak: 1e-5 of
    each is seen.
    """
    mechanism = make()
    delta = 0.05
    rows = np.array([[0.5, 0.25, -0.25]])
    bound = bounds.error_bound(mechanism, rows, delta)
    root = np.exp(5.0 / 3 / 2)  # of the share epsilon / k
    largest = (
        (root + 1) / (root - 1)
        if isinstance(mechanism.inner, GeneralPiecewise)
        else 1 / np.tanh(5.0 / 6)
    )
    assert bound.range == pytest.approx(2 * 12 / 3 * largest, rel=1e-5)
    variance = max(
        float(np.max(np.asarray(mechanism.variance(np.float32(x))))) for x in (0.0, 0.5, 1.0)
    )
    assert bound.variance == pytest.approx(variance, rel=1e-5)
    # |Pi_v|_2^2
    tau = bound.total[0]
    spread = bound.variance * 0.375
    exponent = tau**2 / (2 * spread + 2 / 3 * bound.range * 0.5 * tau)
    np.testing.assert_allclose(24 * np.exp(-exponent), delta, rtol=1e-5)
