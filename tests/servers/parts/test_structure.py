"""What structure is read from, of small graphs and of large ones: whom the panel reaches,
eigenvectors, friends.
"""

import jax
import numpy as np
import pytest

from ldp_jax.graph import graphs, interop
from ldp_jax.graph.propagation import kprop, operator, ppr
from ldp_jax.servers.parts import structure
from ldp_jax.servers.parts.rows import feature_rows
from ldp_jax.servers.parts.self_training import FoldedLabels, folds
from ldp_jax.servers.parts.structure import (
    leading_vectors,
    shared_friends,
    spectral_coordinates,
    structure_posterior,
    sums_by_folds,
)
from tests.servers.planted import blocks

FOLDS = 3
N = 360
PANEL = np.arange(0, 360, 4)


@pytest.fixture(scope="module")
def data():
    graph, y, x = blocks(n=300, degree=8.0)
    labels = np.where(np.arange(300) < 60, y, -1)
    return graph, y, x, labels, folds(jax.random.key(0), labels, FOLDS)


@pytest.mark.usefixtures("untyped")
def test_what_does_not_fit_is_refused(data):
    graph, _, x, labels, fold = data
    for changed, rows, message in (
        (labels[:-1], None, r"labels must be int \[300\]"),
        (labels, feature_rows(x), "rows must be of the panel's 60 members"),
    ):
        with pytest.raises(ValueError, match=message):
            structure_posterior(graph, FoldedLabels(changed, 3, fold, FOLDS), rows=rows)


def test_coordinates_are_eigenvectors(data):
    graph = data[0]
    friends = interop.to_scipy(graph).toarray().astype(float)
    scale = 1 / np.sqrt(np.maximum(friends.sum(1), 1))
    matrix = scale[:, None] * friends * scale
    found = spectral_coordinates(graph, 8).astype(float)
    values = np.linalg.eigvalsh(matrix)[::-1][:8]
    np.testing.assert_allclose(found.T @ found, np.eye(8), atol=1e-4)
    np.testing.assert_allclose(found.T @ matrix @ found, np.diag(values), atol=0.01)


def test_a_graph_of_fewer_nodes_than_columns_has_columns_of_zeros():
    found = spectral_coordinates(graphs.from_edges([[0, 1], [1, 2], [2, 3]], 4), 5)
    assert found.shape == (4, 5)
    assert not found[:, 2:].any()
    assert found[:, :2].any(0).all()


@pytest.mark.parametrize("ends", [[[0, i] for i in range(1, 60)], np.zeros((0, 2), int)])
def test_a_graph_of_few_eigenvalues_has_the_same_coordinates_again(ends):
    """Restarts of the Lanczos process are random: alphabets of one key must not be."""
    graph = graphs.from_edges(ends, 60)
    first, again = (spectral_coordinates(graph, 16) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert first.any() == (len(ends) > 0)


RING = np.arange(300)
HUB = np.zeros(900, int)
SPECTRA = {
    "wide": np.concatenate(
        [np.stack([RING, np.roll(RING, 1)], 1) + 1000, np.stack([HUB, np.arange(1, 901)], 1)]
    ),
    "of low rank": np.array([[i, 20 + j] for i in range(20) for j in range(100)]),
    "none": np.zeros((0, 2), int),
    "of few nodes": np.array([[0, 1], [1, 2], [2, 0], [2, 3]]),
}


@pytest.mark.parametrize("name", SPECTRA)
def test_shared_friends_are_those_of_exact_arithmetic(name):
    """The same iteration in float64, by QR: float32 loses no direction beside one that is 30 times
    as long.
    """
    ends = SPECTRA[name]
    graph = graphs.from_edges(ends, n := int(ends.max(initial=3)) + 2)
    friends = interop.to_scipy(graph).toarray().astype(float)
    weighed = friends * np.log(n / np.maximum(friends.sum(0), 1))
    weighed /= np.maximum(np.linalg.norm(weighed, axis=1, keepdims=True), 1e-12)
    block = np.random.default_rng(0).standard_normal((n, min(16 + structure._WIDER, n)), np.float32)
    for _ in range(structure._ROUNDS):
        block = np.linalg.qr(weighed @ (weighed.T @ block))[0]
    left, values, _ = np.linalg.svd(block.T @ weighed, full_matrices=False)
    exact = (block @ (left * values))[:, :16]
    found = shared_friends(graph, 16)
    np.testing.assert_allclose(found @ found.T, exact @ exact.T, atol=2e-3)


@pytest.fixture(scope="module")
def islands():
    """A planted graph, with a pair and two nodes on their own; labels of a quarter, and their
    folds.
    """
    graph, y, _ = blocks(n=N - 4, degree=8.0)
    graph = graphs.from_edges(np.append(graphs.to_edges(graph), [[N - 4, N - 3]], axis=0), N)
    y = np.append(y, [0, 1, 2, 0])
    labels = np.where(np.isin(np.arange(N), PANEL), y, -1)
    return graph, y, FoldedLabels(labels, 3, folds(jax.random.key(0), labels, 5), 5)


@pytest.mark.parametrize("kind", [2, 0.1])
def test_sums_leave_out_a_member_s_fold(islands, kind, monkeypatch):
    """70 columns, which are worked on some at a time: no array of nodes and members is made."""
    op = operator(islands[0])
    known = islands[2]
    values = np.random.default_rng(0).normal(size=(len(PANEL), 70)).astype(np.float32)
    seeds = np.eye(N, dtype=np.float32)[:, PANEL]
    if isinstance(kind, int):
        reach = kprop(op, seeds, kind, normalisation="mean")
    else:
        reach = ppr(op, seeds, kind, 0.0, 1e-7)
    fold = np.where(known.labels < 0, -1, known.fold)
    wanted = (np.asarray(reach) * (fold[:, None] != fold[PANEL])) @ values
    sizes = set()
    reached = structure._reached

    def watched(op, x, *given, **named):
        sizes.add(x.shape)
        return reached(op, x, *given, **named)

    monkeypatch.setattr(structure, "_reached", watched)
    np.testing.assert_allclose(
        sums_by_folds(op, known, values, kind), wanted, atol=3e-3
    )  # to 1e-3 of a column
    ((n, width),) = sizes  # one program
    assert n == N
    assert width * known.num_folds <= structure.block_width()


def test_a_node_that_no_label_reaches_has_the_prior_and_what_is_nearer_weighs_more(islands):
    """A pair and two lonely nodes without a label have the prior, whatever it is."""
    graph, _, known = islands
    op = operator(graph)
    rng = np.random.default_rng(0)
    lonely = np.arange(N - 4, N)
    labels = np.where(np.isin(np.arange(N), lonely), -1, known.labels)
    known = FoldedLabels(labels, 3, known.fold, 5)
    truth = np.eye(3, dtype=np.float32)[labels[known.nodes]]
    columns = np.concatenate([truth, np.ones((len(truth), 1), np.float32)], 1)
    for kind in (1, 2, 0.3, 0.1):
        sums = sums_by_folds(op, known, columns, kind)
        np.testing.assert_allclose(sums[:, :3].sum(1), sums[:, 3], atol=2e-3)
        assert (sums >= 0).all()
        assert not sums[lonely].any()
        for _ in range(3):  # a skewed prior: an even one would hide which is taken
            prior = rng.dirichlet([8.0, 1.0, 3.0]).astype(np.float32)
            shares = structure._smoothed(sums, prior)
            np.testing.assert_allclose(shares[lonely], np.tile(prior, (4, 1)), rtol=1e-5)
            np.testing.assert_allclose(shares.sum(1), 1.0, atol=5e-3)
            nearer = sums[:, 3] > sums[:, 3].mean()
            away = np.abs(shares - prior).mean(1)
            assert away[nearer].mean() > away[~nearer].mean()


def test_sources_are_posteriors_of_which_none_has_seen_a_nodes_own_label(islands):
    """Each sums to one; another label of a member changes sources of others and none of its own."""
    graph, y, known = islands
    first = structure_posterior(graph, known)
    shares = np.exp(np.asarray(first.sources))
    np.testing.assert_allclose(shares.sum(1), 1.0, atol=5e-3)
    np.testing.assert_allclose(np.exp(np.asarray(first.log_q)).sum(1), 1.0, atol=1e-5)
    member = int(known.nodes[7])
    labels = known.labels.copy()
    labels[member] = (labels[member] + 1) % 3
    other = structure_posterior(graph, FoldedLabels(labels, 3, known.fold, 5))
    change = np.abs(np.exp(np.asarray(other.sources)) - shares).max(1)
    prior = 1 / len(known.nodes)  # class shares of the panel alone are of all its members
    assert change[member].max() < 1.5 * prior
    assert (change.max(0) > 0.01).all()


def test_leading_vectors_span_what_eigenvectors_span(islands):
    graph = islands[0]
    found = leading_vectors(operator(graph), 8)
    exact = spectral_coordinates(graph, 8).astype(float)
    np.testing.assert_allclose(found.T @ found, np.eye(8), atol=1e-4)
    kept = np.linalg.svd(exact[:, :4].T @ found)[
        1
    ]  # three classes and the pair; the rest is the edge of the bulk
    assert kept.min() > 0.999


def test_structure_says_of_a_large_graph_what_it_says_of_a_small_one(islands, monkeypatch):
    """Who the blocks are; of a small one test_from_reports asks the same."""
    graph, y, known = islands
    monkeypatch.setattr(structure, "MANY", 0)
    found = structure_posterior(graph, known)
    assert (found.classes == y)[known.labels < 0].mean() > 0.9
    assert found.log_loss[found.chosen] < 0.5 * np.log(3)


def test_designs_are_directions_of_length_one_beside_profiles_of_degrees(islands):
    """Columns beyond the count of eigenvectors are 0; a profile has the mean 0 and a third."""
    graph, _, _ = islands
    friends = interop.to_scipy(graph).toarray().astype(float)
    degree = friends.sum(1)
    size = np.log1p(degree)
    around = friends @ size / np.maximum(degree, 1)
    profile = np.stack([size, around, size - around], 1)
    profile = (profile - profile.mean(0)) / (3 * profile.std(0))
    made = structure._spectral_designs(graph, operator(graph))
    coordinates = spectral_coordinates(graph, 64).astype(float)
    parts = {f"spectral {k}": coordinates * (np.arange(64) < k) for k in (16, 32, 64)}
    parts["shared friends"] = shared_friends(graph, 64).astype(float)
    assert set(made) == set(parts)
    for name, part in parts.items():
        length = np.linalg.norm(part, axis=1, keepdims=True)
        due = np.concatenate([part / np.maximum(length, 1e-12), profile], 1)
        seen = length[:, 0] > 1e-6  # of no friend there is rounding alone
        np.testing.assert_allclose(made[name][seen], due[seen], atol=1e-5)
        assert np.isfinite(made[name]).all()


def test_records_are_reduced_to_their_leading_directions():
    """The Gram matrix of the panel is that of the coordinates, as far as they go."""
    rng = np.random.default_rng(0)
    rows = feature_rows(rng.normal(size=(12, 5)))
    gram = rows.dense().astype(float) @ rows.dense().T
    whole = structure._record_coordinates(rows, 20)
    assert whole.shape == (12, 20)
    np.testing.assert_allclose(whole @ whole.T, gram, atol=1e-6)
    values, vectors = np.linalg.eigh(gram)
    few = structure._record_coordinates(rows, 2)
    due = (vectors[:, -2:] * values[-2:]) @ vectors[:, -2:].T
    np.testing.assert_allclose(few @ few.T, due, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(few, axis=0), np.sqrt(values[[-1, -2]]), rtol=1e-5)
