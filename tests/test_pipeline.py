"""The main job: what it computes, what it says it spent, and what it refuses before spending."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax import datasets, pipeline
from ldp_jax.datasets import splits
from ldp_jax.features import HDS, Duchi, LaplaceVector, MultiBit, Sampled
from ldp_jax.guarantee import RECORD
from ldp_jax.propagation import operator, ppr_dense


@pytest.fixture(scope="module")
def data():
    return datasets.synthetic(
        jax.random.key(0), num_nodes=90, num_classes=3, num_features=70, mean_degree=5.0, homophily=0.8
    )


@pytest.mark.parametrize(
    "make", [lambda d: HDS(1.0, d, 9), lambda d: LaplaceVector(1.0, d), lambda d: MultiBit(4.0, d)]
)
def test_it_is_estimate_then_pagerank(make, data):
    """70 columns are more than one block of 64: blocks of estimates give what the dense matrix gives."""
    m, key = make(data.num_features), jax.random.key(1)
    x = data.scaled_rows(0, data.num_nodes)
    reports = jax.vmap(m.privatize)(jax.random.split(jax.random.clone(key), data.num_nodes), jnp.asarray(x))
    wanted = ppr_dense(data.graph, jax.vmap(m.estimate)(reports), 0.2, 0.4)
    z, spent = pipeline.private_embedding(key, data.graph, data, m, alpha=0.2, r=0.4)
    np.testing.assert_allclose(z, wanted, atol=3e-5 * np.abs(wanted).max())
    assert spent[RECORD].epsilon == pytest.approx(m.guarantee().epsilon)


def test_streamed_rows_are_dense_rows_bit_for_bit(data, monkeypatch):
    m, key = HDS(1.0, data.num_features, 9), jax.random.key(1)
    dense = pipeline.perturb(key, data.scaled_rows(0, data.num_nodes), m)
    monkeypatch.setattr(pipeline, "_ROWS", 32)  # 90 = 32 + 32 + 26
    streamed = pipeline.perturb(jax.random.clone(key), data, m)
    jax.tree.map(np.testing.assert_array_equal, dense, streamed)


def test_many_embeddings_are_the_embeddings_one_by_one(data):
    m, keys = HDS(1.0, data.num_features, 9), jax.random.split(jax.random.key(2), 2)
    x = data.scaled_rows(0, data.num_nodes)
    op = operator(data.graph)
    many = pipeline.private_embeddings(jax.random.clone(keys), op, x, m, 0.2, 0.4)
    for i in range(2):
        one = pipeline.private_embedding(keys[i], op, x, m, alpha=0.2, r=0.4)
        np.testing.assert_allclose(many[i], one.z, atol=1e-6)


def test_a_sweep_over_epsilon_is_one_program(data):
    op, x = operator(data.graph), data.scaled_rows(0, data.num_nodes)
    run = lambda seed, epsilon: pipeline.private_embeddings(
        jax.random.split(jax.random.key(seed), 1), op, x, HDS(epsilon, data.num_features, 9), 0.2, 0.4
    )
    run(0, 1.0)
    before = pipeline._private_embeddings._cache_size()
    for seed, epsilon in ((1, 0.01), (2, 5.0)):
        run(seed, epsilon)
    assert pipeline._private_embeddings._cache_size() == before


def test_the_guarantee_names_what_is_not_protected(data):
    m = HDS(1.0, 20, 5)
    few = data.top_features(20)
    spent = pipeline.private_embedding(jax.random.key(0), few.graph, few, m, alpha=0.2, r=0.4).guarantee
    assert spent.protected == ("features",)
    assert spent.unprotected == ("edges", "labels", "the choice of the 20 most frequent features")
    assert spent[RECORD].epsilon == pytest.approx(1.0)


def test_a_public_record_gives_what_the_same_constant_gives(data):
    m, key = HDS(1.0, data.num_features, 9), jax.random.key(3)
    public = pipeline.PublicRecord(data.num_nodes, data.num_features, -1.0)
    z = pipeline.private_embedding(key, data.graph, public, m, alpha=0.2, r=0.4).z
    constant = np.full((data.num_nodes, data.num_features), -1.0, np.float32)
    other = pipeline.private_embedding(jax.random.clone(key), data.graph, constant, m, alpha=0.2, r=0.4).z
    np.testing.assert_array_equal(z, other)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": 2.0}, "alpha must be"),
        ({"r": -1.0}, "r must be"),
        ({"tol": 0.0}, "tol must be"),
        ({"mechanism": HDS(1.0, 8, 2)}, "mechanism is for Box.*70 features"),
        ({"mechanism": Duchi(1.0)}, "mechanism is for Interval"),
        ({"x": np.zeros((4, 70), np.float32)}, "a row for each of 90 nodes, got 4"),
        ({"x": np.zeros(70, np.float32)}, r"shape \[n, d\]"),
        ({"mechanism": jax.tree.map(lambda e: -e, HDS(1.0, 70, 2))}, "epsilon must be finite and > 0"),
        ({"mechanism": Sampled(Duchi(np.array([1.0, 2.0])), 70, 2)}, "holds a stack"),
        ({"key": jax.random.key(0, impl="rbg")}, "threefry2x32"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_spent(change, message, data, monkeypatch):
    monkeypatch.setattr(pipeline, "_privatize", lambda *_: pytest.fail("a report was drawn"))
    arguments = {
        "key": jax.random.key(0), "x": data, "mechanism": HDS(1.0, 70, 2), "alpha": 0.2, "r": 0.4, **change,
    }  # fmt: skip
    key, x, m = (arguments.pop(name) for name in ("key", "x", "mechanism"))
    with pytest.raises(ValueError, match=message):
        pipeline.private_embedding(key, data.graph, x, m, **arguments)


def test_non_private_rows_are_relative_to_the_default_record(data):
    z = pipeline.non_private_embedding(data.graph, data, alpha=0.2, r=0.4)
    wanted = ppr_dense(data.graph, data.scaled_rows(0, data.num_nodes) - data.default_record(), 0.2, 0.4)
    np.testing.assert_allclose(z, wanted, atol=1e-4)


def test_standardize():
    z = jnp.asarray(np.random.default_rng(0).standard_normal((50, 3)) * [1, 100, 0] + [5, -3, 7], jnp.float32)
    out = np.asarray(pipeline.standardize(z))
    np.testing.assert_allclose(out[:, :2].mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(out[:, :2].std(0), 1, rtol=1e-4)
    assert (out[:, 2] == 0).all()


# --- splits ----------------------------------------------------------------------------------------------


def test_node_split_is_a_partition():
    split = splits.node_split(jax.random.key(0), 101)
    assert sorted(np.concatenate(split).tolist()) == list(range(101))
    assert [len(part) for part in split] == [50, 25, 26]
    again, other = splits.node_split(jax.random.key(0), 101), splits.node_split(jax.random.key(1), 101)
    assert (again.train == split.train).all()
    assert (other.train != split.train).any()


def test_link_split_keeps_parts_apart(data):
    for edges in (data.edges, data.edges[:, ::-1]):
        split = splits.link_split(jax.random.key(0), edges, data.num_nodes)
        true = {tuple(e) for e in data.edges.tolist()}
        parts = [[tuple(e) for e in part.tolist()] for part in split]
        assert set().union(*map(set, parts[:3])) == true
        assert sum(map(len, parts[:3])) == len(true)
        non_edges = [pair for part in parts[3:] for pair in part]
        assert len(set(non_edges)) == len(non_edges) == len(true)
        assert not set(non_edges) & true
        assert all(u < v for u, v in non_edges)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda key: splits.node_split(key, 100, (0.5, 0.5, 0.5)), "sum to 1"),
        (lambda key: splits.node_split(key, 2), "without any member"),
        (lambda key: splits.link_split(key, np.array([[0, 1], [0, 2], [1, 2]]), 3), "too few pairs"),
        (
            lambda key: splits.link_split(key, np.array([[i, i + 1] for i in range(40)] + [[1, 0]]), 90),
            "each pair once",
        ),
    ],
)
def test_bad_splits_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(jax.random.key(0))
