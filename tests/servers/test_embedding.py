"""The main job in one call, against the naive dense computation; what it spends, and before
what.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from ldp_jax import datasets, edges, servers
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RECORD, RELATIONSHIP, Guarantee
from ldp_jax.core import mechanism
from ldp_jax.core.spaces import Box, Interval
from ldp_jax.core.types import Scalar, Values
from ldp_jax.features import HDS, LaplaceVector, MultiBit, Piecewise, PrivUnit, Sampled
from ldp_jax.graph import graphs, propagation
from ldp_jax.graph.propagation import operator, ppr_dense
from ldp_jax.servers import PublicRecord, embedding, private_embedding, private_embeddings
from ldp_jax.servers.embedding import standardize
from ldp_jax.servers.parts import records

N, D = 30, 7
ALPHA, R = 0.15, 0.3
EDGES = np.argwhere(np.triu(np.random.default_rng(0).uniform(size=(N, N)) < 0.1, 1))
GRAPH = graphs.from_edges(EDGES, N)
X = np.random.default_rng(1).uniform(-1, 1, (N, D)).astype(np.float32)
WIDE = np.random.default_rng(2).uniform(-1, 1, (N, 150)).astype(np.float32)
MECHANISMS = {
    "hds": HDS(2.0, D, 3),
    "multibit": MultiBit(2.0, D, 2),
    "laplace": LaplaceVector(2.0, D),
}
WIDE_MECHANISMS = [
    (HDS(1.0, 150, 40), True),
    (LaplaceVector(1.0, 150), False),
]  # and whether records are dense
each_kind = pytest.mark.parametrize("name", ["hds", "laplace"])  # some of the coordinates, and all


def embed(key=0, x=X, m=MECHANISMS["hds"], graph=GRAPH, **changes):
    return private_embedding(
        jax.random.key(key), graph, x, m, **{"alpha": ALPHA, "r": R, **changes}
    )


def naive(key, x, m):
    """One user after the other, every estimate dense, then a float64 solve."""
    keys = jax.random.split(jax.random.key(key), len(x))
    estimate = jax.jit(lambda key, row: m.estimate(m.privatize(key, row)))
    return ppr_dense(
        GRAPH, np.stack([estimate(*user) for user in zip(list(keys), x, strict=True)]), ALPHA, R
    )


@pytest.mark.parametrize("name", MECHANISMS)
def test_embedding_is_the_naive_computation(name):
    m = MECHANISMS[name]
    z = np.asarray(embed(m=m).z)
    expected = naive(0, X, m)
    assert z.dtype == np.float32
    assert np.linalg.norm(z - expected) <= 3e-5 * np.linalg.norm(expected)


def sparse_data(d=D):
    """0/1 words, whose public bounds are 0 and 1."""
    x = scipy.sparse.csr_array(
        (np.random.default_rng(3).uniform(size=(N, d)) < 0.2).astype(np.float32)
    )
    return datasets.Dataset("words", GRAPH, x, np.arange(N, dtype=np.int32) % 2, 0.0, 1.0)


@pytest.mark.parametrize("shape", [(3,), (1000, 10), (0, 2)])
def test_reports_that_are_put_together_on_the_host_are_not_copied(shape):
    """Else the reports of many users are in memory twice."""
    made = records._aligned(shape, np.dtype(np.float32))
    made[:] = 1.0
    assert made.shape == shape
    assert (
        made.ctypes.data == jax.device_put(made, jax.devices("cpu")[0]).unsafe_buffer_pointer()
        or not made.size
    )


@each_kind
def test_streaming_rows_changes_no_bit(name, monkeypatch):
    """Rows of a sparse data set a few at a time, a last block that is not full included; and all at
    once.
    """
    m = MECHANISMS[name]
    data = sparse_data()
    dense = 2 * data.x.toarray() - 1
    expected = servers.perturb(jax.random.key(4), dense, m)
    for rows in (records.BLOCK, 8):
        monkeypatch.setattr(records, "BLOCK", rows)
        jax.tree.map(
            np.testing.assert_array_equal, servers.perturb(jax.random.key(4), data, m), expected
        )
    jax.tree.map(
        np.testing.assert_array_equal, mechanism.privatize(jax.random.key(4), m, dense), expected
    )
    np.testing.assert_array_equal(embed(4, data, m).z, embed(4, dense, m).z)


def test_many_runs_are_the_single_ones_and_a_sweep_over_epsilon_is_one_program():
    before = embedding._private_embeddings._cache_size()
    op = operator(GRAPH)
    for epsilon in (0.1, 1.0, 4.0):
        m = HDS(epsilon, D, 3)
        keys = jax.vmap(jax.random.key)(jnp.arange(3))
        many = private_embeddings(keys, op, X, m, alpha=epsilon / 5, r=R)
        single = np.asarray(embed(2, m=m, graph=op, alpha=epsilon / 5).z)
        np.testing.assert_allclose(many[2], single, atol=1e-5 * np.abs(single).max())
    assert embedding._private_embeddings._cache_size() == before + 1


def test_many_runs_over_stacked_graphs():
    """Link prediction: each run has the graph of its own training edges."""
    rng = np.random.default_rng(5)
    half = len(EDGES) // 2
    many = [graphs.from_edges(EDGES[rng.permutation(len(EDGES))[:half]], N) for _ in range(3)]
    stack = jax.tree.map(
        lambda *leaves: jnp.stack(leaves), *(operator(graph, "segment") for graph in many)
    )
    keys = jax.vmap(jax.random.key)(jnp.arange(3))
    z = private_embeddings(keys, stack, X, MECHANISMS["hds"], alpha=ALPHA, r=R)
    for i, graph in enumerate(many):
        single = np.asarray(embed(i, graph=graph).z)
        np.testing.assert_allclose(z[i], single, atol=1e-4 * np.abs(single).max())


def test_wide_records_are_propagated_in_blocks_of_columns():
    """Streamed from the host or looped within a program, to rounding; the last block is not
    full.
    """
    m = HDS(2.0, WIDE.shape[1], 40)
    op = operator(GRAPH)
    z = np.asarray(embed(x=WIDE, m=m, graph=op).z)
    estimates = jax.jit(jax.vmap(m.estimate))(servers.perturb(jax.random.key(0), WIDE, m))
    expected = ppr_dense(GRAPH, estimates, ALPHA, R)
    assert np.linalg.norm(z - expected) <= 3e-5 * np.linalg.norm(expected)
    many = private_embeddings(jax.random.key(0)[None], op, WIDE, m, alpha=ALPHA, r=R)
    np.testing.assert_allclose(z, many[0], atol=1e-6 * np.abs(z).max())


@mechanism.mechanism
class Shifted:
    """Laplace noise on what is left of numbers less ``shift``, of any of which one is a record."""

    epsilon: Scalar
    shift: Values
    dim: int = mechanism.static(default=0)

    def privatize(self, key, x):
        shape = jnp.shape(x - self.shift)
        return x - self.shift + jax.random.laplace(key, shape) * 2 * max(self.dim, 1) / self.epsilon

    def estimate(self, y):
        return y + self.shift

    def guarantee(self):
        return Guarantee(mechanism.largest(self.epsilon))

    def domain(self):
        return Box(self.dim) if self.dim else Interval(-1.0, 1.0)

    codomain = domain


@mechanism.mechanism
class ShiftedByOne(Shifted):
    """Its shift is its own."""

    def stack_shape(self):
        return jnp.shape(self.epsilon)


@mechanism.mechanism
class ShiftedByUser(Shifted):
    """Its shift is one number a user."""

    def stack_shape(self):
        return jnp.shape(self.shift)


def test_an_array_of_as_many_numbers_as_users_is_read_as_its_mechanism_says_alone():
    """One number a user, or one a coordinate: either is a result, and nobody would see which."""
    n = 5
    shift = jnp.linspace(-1.0, 1.0, n)
    x = np.zeros((n, n), np.float32)
    reports = lambda m: np.asarray(servers.perturb(jax.random.key(0), x, m))
    for made in (Shifted(1.0, shift, n), Sampled(Shifted(1.0, shift), n, 1)):
        with pytest.raises(ValueError, match=r"Shifted holds an array of 5 .* stack_shape\(\)"):
            servers.perturb(jax.random.key(0), x, made)
    noise = reports(ShiftedByOne(1.0, 0 * shift, n))
    np.testing.assert_allclose(
        reports(ShiftedByOne(1.0, shift, n)) - noise, -np.tile(shift, (n, 1)), atol=1e-5
    )
    many = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, n), ShiftedByUser(1.0, shift, n))
    np.testing.assert_allclose(reports(many) - noise, -np.tile(shift, (n, 1)).T, atol=1e-5)
    with pytest.raises(ValueError, match=r"a mechanism with an array of its own has a stack_shape"):
        servers.perturb(jax.random.key(0), np.zeros((n + 1, n), np.float32), Shifted(1.0, shift, n))


def test_every_user_may_have_a_budget_of_her_own():
    """User i reports as under their own epsilon alone; estimates are by their own epsilon, too;
    rows may stream.
    """
    budgets = np.linspace(0.5, 4.0, N)
    m = HDS(budgets, D, 3, debias=True)
    data = sparse_data()
    x = 2 * data.x.toarray() - 1
    keys = jax.random.split(jax.random.key(4), N)

    @jax.jit
    def estimate(epsilon, key, row):
        one = HDS(epsilon, D, 3, debias=True)
        return one.estimate(one.privatize(key, row))

    estimates = np.stack(
        [estimate(*user) for user in zip(np.float32(budgets), list(keys), x, strict=True)]
    )
    for given in (x, data):
        result = embed(4, given, m)
        expected = ppr_dense(GRAPH, estimates, ALPHA, R)
        assert np.linalg.norm(result.z - expected) <= 3e-5 * np.linalg.norm(expected)
        assert result.guarantee[RECORD].epsilon == pytest.approx(4.0)
        assert "personal budgets" in result.guarantee.unprotected
    server = servers.EmbeddingServer(operator(GRAPH), m, ALPHA, R)
    assert server.statement().exposes == ("edges", "labels", "personal budgets")


def test_a_noisy_graph_comes_with_its_guarantee():
    """Features and edges: every unit of both, and the propagation over what was released, which is
    directed.
    """
    m = MECHANISMS["hds"]
    noisy = edges.privatize_graph(jax.random.key(5), GRAPH, edges.DPRR(1.0, 2.0), reporting="full")
    result = embed(graph=noisy)
    assert dict(result.guarantee) == {RECORD: m.guarantee(), **dict(noisy.guarantee)}
    assert set(result.guarantee) == {RECORD, NEIGHBOUR_LIST, RELATIONSHIP}
    assert result.guarantee.protected == ("features", "edges")
    assert result.guarantee.unprotected == ("labels", "number of nodes")
    estimates = np.asarray(jax.jit(jax.vmap(m.estimate))(servers.perturb(jax.random.key(0), X, m)))
    np.testing.assert_allclose(result.z, ppr_dense(noisy.graph, estimates, ALPHA, R), atol=2e-4)
    assert not graphs.is_symmetric(noisy.graph)


def test_records_outside_their_bounds_are_refused_without_a_word_about_them():
    key = jax.random.key(9)
    words = r"x must lie in \[-1, 1\], and some of it does not.* clip=True"
    for bad, of in ((1.5, np.asarray), (-np.inf, jnp.asarray), (np.nan, np.asarray)):
        x = of(np.where(np.arange(N)[:, None] == 3, bad, X))
        for call, given in ((private_embedding, key), (private_embeddings, key[None])):
            with pytest.raises(ValueError, match=words) as found:
                call(given, GRAPH, x, MECHANISMS["hds"], alpha=ALPHA, r=R)
            assert str(bad) not in str(found.value)
    jax.random.bits(key)


@pytest.mark.usefixtures("untyped")
def test_records_of_no_real_numbers_and_bounds_of_other_shapes_are_refused():
    for bad, clip in (
        (X.astype(str), False),
        (X + 1j, True),
        (jnp.asarray(X + 1j), False),
        (np.full(X.shape, None), True),
    ):
        with pytest.raises(TypeError, match="records must be real numbers, got"):
            embed(x=bad, clip=clip)
    lower = np.zeros(D)
    upper = np.ones(D)
    words = r"bounds must be \(lower, upper\), each .*: transpose pairs by column"
    for bounds in (
        1.0,
        (0.0, 1.0, 2.0),
        (lower[:2], upper[:2]),
        (lower[:, None], 5.0),
        [(0.0, 1.0)] * D,
    ):
        with pytest.raises(ValueError, match=words):
            embed(bounds=bounds)
    with pytest.raises(ValueError, match="must be arrays lower and upper"):
        embed(x=X[:, :2], m=HDS(1.0, 2, 1), bounds=((0.0, 5.0), (2.0, 8.0)))


def test_declared_bounds_are_mapped_to_the_mechanisms_domain():
    wide = 50.0 * X + 100.0
    z = embed(x=wide, bounds=(50.0, 150.0)).z
    np.testing.assert_allclose(z, embed().z, atol=1e-3)
    with pytest.raises(ValueError, match=r"x must lie in \[60, 150\]"):
        embed(x=wide, bounds=(60.0, 150.0))
    assert np.isfinite(embed(x=wide, bounds=(60.0, 150.0), clip=True).z).all()
    lower, upper = (
        np.linspace(-3.0, 0.0, X.shape[1]),
        np.linspace(1.0, 5.0, X.shape[1]),
    )  # one a column
    columns = lower + (upper - lower) * (X + 1) / 2
    np.testing.assert_allclose(
        embed(x=columns.astype(np.float32), bounds=(lower, upper)).z, z, atol=1e-3
    )
    with pytest.raises(ValueError, match="x must lie in the bounds of its columns"):
        embed(x=columns + 9.0, bounds=(lower, upper))
    for bounds in ((1.0, 1.0), (2.0, -2.0), (0.0, float("nan")), (upper, lower)):
        with pytest.raises(ValueError, match="bounds must be"):
            embed(bounds=bounds)
    with pytest.raises(ValueError, match="public bounds of their own"):
        embed(x=sparse_data(), bounds=(0.0, 1.0))


@each_kind
def test_one_users_record_changes_her_report_alone(name):
    m = MECHANISMS[name]
    other = X.copy()
    other[11] = -np.sign(other[11])
    before, after = (servers.perturb(jax.random.key(7), x, m) for x in (X, other))
    rest = np.arange(N) != 11
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[rest], b[rest]), before, after)
    # And the subset they report is chosen before their record is looked at.
    np.testing.assert_array_equal(before.indices[11], after.indices[11])
    assert not np.array_equal(before.values[11], after.values[11])


def test_a_structure_only_twin_recovers_nothing():
    """Both rows released under one key: the difference is no record, neither of one run nor in
    experiments.

    With one noise it is (record - public record) to float32 wherever noise is added; with two it
    spreads as two do.
    """
    public = PublicRecord(N, D, sparse_data().default_record())
    m = MECHANISMS["laplace"]
    assert (public.value, isinstance(public, records.RowSource)) == (-1.0, True)
    perturbed = lambda m, x: servers.perturb(jax.random.key(8), x, m)
    constant = np.full((N, D), -1.0, np.float32)  # what the attack needs
    private, twin, same = (perturbed(m, x) for x in (X, public, constant))
    attack = lambda report: np.asarray(private.values - report.values) - 1
    np.testing.assert_allclose(attack(same), X, atol=1e-4)
    assert np.abs(attack(twin) - X).mean() > m.inner.scale
    assert (
        abs(np.corrcoef(attack(twin).ravel(), X.ravel())[0, 1]) < 0.34
    )  # 210 records: 4.9 standard errors
    m = MECHANISMS["hds"]  # the coordinates that are sent, too, are drawn anew
    private, twin, same = (perturbed(m, x) for x in (X, public, constant))
    np.testing.assert_array_equal(private.indices, same.indices)
    assert not np.array_equal(private.indices, twin.indices)
    keys = jax.vmap(jax.random.key)(jnp.arange(8, 11))
    many = private_embeddings(keys, operator(GRAPH), public, m, alpha=ALPHA, r=R)
    np.testing.assert_allclose(many[0], embed(8, public, m).z, atol=1e-4 * np.abs(many[0]).max())
    dense = private_embeddings(
        jax.random.clone(keys), operator(GRAPH), constant, m, alpha=ALPHA, r=R
    )
    assert np.abs(np.asarray(dense - many)).max() > 0.01 * np.abs(many).max()


def test_records_of_any_size_are_clipped():
    """float64 beyond float32, with every floating-point flag trapped; the report of the clipped
    record.
    """
    m = MECHANISMS["hds"]
    x = X.astype(np.float64)
    x[0], x[1], x[2], x[3], x[4] = 1e300, -1e300, np.nan, 1e-310, -np.inf
    clipped = np.where(np.isnan(x), 0.0, np.clip(x, -1, 1)).astype(np.float32)
    with np.errstate(all="raise"):
        reports = servers.perturb(jax.random.key(3), x, m)
        z = embed(3, x, m, clip=True).z
    jax.tree.map(
        np.testing.assert_array_equal, reports, servers.perturb(jax.random.key(3), clipped, m)
    )
    np.testing.assert_array_equal(z, embed(3, clipped, m).z)
    far = np.abs(X) > 0.9
    of_device = jnp.asarray(np.where(far, np.inf * X, X))
    np.testing.assert_array_equal(
        embed(3, of_device, m, clip=True).z, embed(3, np.where(far, np.sign(X), X), m).z
    )


@pytest.mark.parametrize(("m", "dense"), WIDE_MECHANISMS, ids=["HDS", "LaplaceVector"])
@pytest.mark.parametrize("wide", [False, True], ids=["float32", "float64"])
def test_memory_is_what_the_compiled_programs_take(m, dense, wide):
    """Of arguments, results and temporaries together: at least that, and at most three times."""
    with jax.enable_x64(wide):
        taken, foretold = taken_and_foretold(m, dense)
    assert taken <= foretold <= 3 * taken + 8192 * (1 + wide)


def taken_and_foretold(m, dense):
    op = operator(GRAPH)
    rows = N if dense else min(N, records.BLOCK)
    given = jax.random.key(0), np.arange(rows), m, jax.ShapeDtypeStruct((rows, m.dim), jnp.float32)
    reports = jax.eval_shape(records.reports_of, *given)
    number = jnp.float32(0.1)
    taken = 0
    programs = [
        records.reports_of.lower(*given),
        embedding._propagate.lower(op, m, reports, None, number, number, number),
    ]
    for program in programs:
        used = program.compile().memory_analysis()
        taken = max(
            taken, used.argument_size_in_bytes + used.output_size_in_bytes + used.temp_size_in_bytes
        )
    return taken, embedding.embedding_memory(m, N, op.num_places, dense=dense)


def test_an_embedding_beyond_memory_is_refused_before_anything_is_spent():
    """3e6 x 1e4 from public sizes alone: no record is read, the key stays fresh."""

    class Wide:
        num_nodes = N
        num_features = 10_000

        def scaled_rows(self, start, stop):
            raise AssertionError("a record was read")

    key = jax.random.key(14)
    with pytest.raises(
        ValueError, match=r"memory of 1e-05 GB .* 30 nodes x 10000 features .* about \d+ such nodes"
    ):
        private_embedding(key, GRAPH, Wide(), HDS(1.0, 10_000, 5), alpha=ALPHA, r=R, memory=1e4)
    jax.random.bits(key)
    assert embedding.embedding_memory(HDS(1.0, 10_000, 20), 3_000_000, 10**8) > 2e11


@pytest.mark.parametrize("part", [np.s_[:-1], np.s_[:, 1:]])
def test_a_source_that_gives_less_is_refused(part):
    """A short last batch would be zeros, and a narrow one numbers of other columns."""

    class Short:
        num_nodes, num_features = WIDE.shape

        def scaled_rows(self, start, stop):
            return WIDE[start:stop][part]

    with pytest.raises(ValueError, match=rf"scaled_rows\(0, {N}\) of x must give shape"):
        private_embedding(
            jax.random.key(0), GRAPH, Short(), HDS(1.0, WIDE.shape[1], 5), alpha=ALPHA, r=R
        )


@pytest.mark.parametrize(
    "kind", [np.ndarray.tolist, pd.DataFrame, lambda x: np.ma.masked_outside(x, -0.7, 0.7)]
)
def test_a_source_gives_what_a_dense_array_may_be(kind):
    """A list, a table whose rows are those of a larger one, and gaps: NaN, and not what stands
    under them.
    """
    x = WIDE.astype(np.float64)
    x[0, 0] = 1e300  # of which no warning tells

    class Source:
        num_nodes, num_features = x.shape

        def scaled_rows(self, start, stop):
            return kind(x)[start:stop]

    m = HDS(1.0, x.shape[1], 5)
    key = jax.random.key(0)
    dense = records.perturb(key, kind(x), m)
    jax.tree.map(
        np.testing.assert_array_equal, records.perturb(jax.random.clone(key), Source(), m), dense
    )


def test_blocks_of_columns_are_the_embedding_and_begin_anywhere():
    """Those of a killed process go on; records of a file report what they do in memory."""
    m = HDS(2.0, WIDE.shape[1], 40)
    op = operator(GRAPH)
    key = jax.random.key(5)
    reports = records.perturb(key, WIDE, m)
    whole = servers.propagate(op, m, reports, alpha=ALPHA, r=R)
    blocks = dict(servers.propagate_blocks(op, m, reports, alpha=ALPHA, r=R))
    later = dict(servers.propagate_blocks(op, m, reports, alpha=ALPHA, r=R, start=32))
    assert list(later) == list(blocks)[1:]
    width = propagation.block_width()
    for start, block in blocks.items():
        np.testing.assert_allclose(
            block, whole[:, start : start + width], atol=1e-6 * np.abs(whole).max()
        )
    for start, block in later.items():
        np.testing.assert_array_equal(block, blocks[start])
    assert sum(block.shape[1] for block in blocks.values()) == WIDE.shape[1]
    with pytest.raises(ValueError, match="alpha must be"):  # before a block is asked for
        servers.propagate_blocks(op, m, reports, alpha=2.0, r=R)


def test_each_entry_hands_its_numbers_on():
    """A loose tolerance, which is seen, and another alpha and r, of one mechanism's reports."""
    m, op = MECHANISMS["laplace"], operator(GRAPH, "segment")
    key = lambda: jax.random.key(6)
    reports = records.perturb(key(), X, m)
    estimates = jax.vmap(m.estimate)(reports)
    numbers = {"alpha": 0.05, "r": 0.8, "tol": 0.3}
    expected = propagation.ppr(op, estimates, *numbers.values())
    size = np.abs(expected).max()
    assert np.abs(expected - propagation.ppr(op, estimates, 0.05, 0.8)).max() > 0.01 * size
    server = servers.EmbeddingServer(op, m, **numbers)
    answers = servers.Answers(reports, np.ones(N, bool))
    blocks = servers.propagate_blocks(op, m, reports, **numbers)
    for found in (
        private_embedding(key(), op, X, m, **numbers).z,
        private_embeddings(key()[None], op, X, m, **numbers)[0],
        servers.propagate(op, m, reports, **numbers),
        np.concatenate([block for _, block in blocks], 1),
        server.step(server.init(key()), answers),
    ):
        np.testing.assert_allclose(found, expected, atol=1e-5 * size)
    exact = embedding.non_private_embedding(op, X, **numbers)
    np.testing.assert_allclose(exact, propagation.ppr(op, X, *numbers.values()), atol=1e-6)


def test_records_of_a_file_report_what_they_do_in_memory(tmp_path, monkeypatch):
    x = (WIDE + 1) / 2
    m = HDS(2.0, WIDE.shape[1], 40)
    np.save(tmp_path / "x.npy", x)
    stored = np.load(tmp_path / "x.npy", mmap_mode="r")
    monkeypatch.setattr(records, "BLOCK", 8)
    np.testing.assert_array_equal(
        embed(x=stored, m=m, bounds=(0, 1)).z, embed(x=x, m=m, bounds=(0, 1)).z
    )
    with pytest.raises(ValueError, match="x must lie in"):
        embed(x=stored, m=m, bounds=(0, 0.999))
    with pytest.warns(UserWarning, match="give bounds="):
        np.testing.assert_array_equal(embed(x=stored, m=m).z, embed(x=x, m=m).z)


def test_a_server_of_embeddings_is_the_one_call_and_the_silent_contribute_nothing():
    """By the same reports; those of silent users are zeros, whatever the estimate of a zero report
    is.
    """
    m = MECHANISMS["hds"]
    op = operator(GRAPH)
    server = servers.EmbeddingServer(op, m, ALPHA, R)
    asked = server.init(jax.random.key(0))
    reports = records.perturb(jax.random.key(4), X, m)
    everybody = np.ones(N, bool)
    np.testing.assert_array_equal(
        server.step(asked, servers.Answers(reports, everybody)), embed(4).z
    )
    silent = everybody.copy()
    silent[::3] = False
    estimates = np.where(silent[:, None], jax.vmap(m.estimate)(reports), 0.0)
    found = server.step(asked, servers.Answers(reports, silent))
    np.testing.assert_allclose(
        found, propagation.ppr(op, estimates, ALPHA, R), atol=1e-5 * np.abs(estimates).max()
    )
    exact = servers.simulate(jax.random.key(1), server, servers.Users(records=X).exact())
    np.testing.assert_allclose(exact.value, propagation.ppr(op, X, ALPHA, R), atol=1e-5)


def test_guarantee_names_what_is_and_what_is_not_protected():
    spent = embed().guarantee
    assert dict(spent) == {RECORD: MECHANISMS["hds"].guarantee()}
    assert str(spent).startswith(
        "protected: features; NOT protected: edges, labels\n  epsilon 2 per record"
    )
    chosen = embed(x=sparse_data(D + 1).top_features(D)).guarantee
    assert chosen.unprotected == ("edges", "labels", "the choice of the 7 most frequent features")


def test_bad_input_is_refused_before_anything_is_spent():
    """The key is still fresh afterwards: the key checker would refuse a second use."""
    key = jax.random.key(9)
    one_way = GRAPH._replace(senders=GRAPH.senders[1:], receivers=GRAPH.receivers[1:])
    for changes, message in (
        (
            {"mechanism": HDS(1.0, D + 1, 3)},
            rf"mechanism is for Box\(dim={D + 1}, .*\), records have {D} features",
        ),
        ({"mechanism": Piecewise(1.0)}, r"mechanism is for Interval.*: features.Sampled"),
        ({"mechanism": PrivUnit(1.0, dim=D)}, rf"mechanism is for Ball.* have {D} features$"),
        ({"x": scipy.sparse.csr_array(X)}, "x must be dense or a Dataset, got a sparse matrix"),
        ({"x": X[1:]}, "x must have a row for each of 30 nodes, got 29"),
        ({"alpha": float("nan")}, "alpha must be in .* got nan"),
        ({"memory": 0.0}, "memory must be finite and > 0"),
        ({"memory": float("nan")}, "memory must be finite and > 0"),
        (
            {"mechanism": jax.tree.map(lambda leaf: -leaf, HDS(1.0, D, 3))},
            "epsilon must be finite and > 0",
        ),
        ({"x": PublicRecord(N, D, 5.0)}, "value must be"),
        ({"mechanism": HDS(jnp.ones(2), D, 3)}, "holds a stack"),
        ({"graph": one_way}, "must be symmetric"),
    ):
        given = {
            "graph": GRAPH,
            "x": X,
            "mechanism": MECHANISMS["hds"],
            "alpha": ALPHA,
            "r": R,
            **changes,
        }
        with pytest.raises(ValueError, match=message):
            private_embedding(key, **given)
    jax.random.bits(key)


def test_bad_keys_and_one_spent_once_are_refused():
    key = jax.random.key(10)
    weak = jax.random.key(0, impl="rbg")
    for call, given in ((private_embedding, weak), (private_embeddings, weak[None])):
        with pytest.raises(ValueError, match="threefry2x32 key, got rbg"):
            call(given, GRAPH, X, MECHANISMS["hds"], alpha=ALPHA, r=R)
    private_embedding(key, GRAPH, X, MECHANISMS["hds"], alpha=ALPHA, r=R)
    with pytest.raises(jax.errors.KeyReuseError):
        private_embedding(key, GRAPH, X, MECHANISMS["hds"], alpha=ALPHA, r=R)


def test_non_private_embedding_is_the_pagerank_of_features_relative_to_the_default(
    monkeypatch,
):
    monkeypatch.setattr(embedding, "_COLUMNS", 3)
    data = sparse_data()
    for x, features in ((X, X), (data, 2 * data.x.toarray())):
        z = servers.non_private_embedding(GRAPH, x, alpha=ALPHA, r=R)
        np.testing.assert_allclose(z, ppr_dense(GRAPH, features, ALPHA, R), atol=1e-4)


def test_standardize_and_constant_columns():
    """Mean 0 and standard deviation 1; a constant column, however large and however rounded,
    becomes 0.
    """
    rng = np.random.default_rng(11)
    z = rng.normal(size=(500, 6)).astype(np.float32) * [1, 1e-6, 1e6, 1, 1, 1] + [
        0,
        0,
        0,
        100,
        0,
        0,
    ]
    z[:, 4], z[:, 5] = 1234.567, 0.0
    z[::2, 4] += np.spacing(np.float32(1234.567))
    z = jnp.asarray(z, jnp.float32)
    out = np.asarray(jax.jit(standardize)(z))
    np.testing.assert_allclose(out.mean(0), 0.0, atol=1e-5)
    np.testing.assert_allclose(out.std(0), [1, 1, 1, 1, 0, 0], atol=1e-4)
    assert not out[:, 4:].any()
    assert np.isfinite(jax.jit(jax.grad(lambda z: (standardize(z) ** 3).sum()))(z)).all()


def test_with_an_operator_it_is_a_part_of_a_program_and_a_traced_graph_or_mechanism_is_refused():
    op = operator(GRAPH)
    mechanism = MECHANISMS["hds"]
    keys = lambda: jax.random.split(jax.random.key(8), 2)

    def one(key, op, mechanism):
        return private_embedding(key, op, jnp.asarray(X), mechanism, alpha=ALPHA, r=R).z

    found = jax.jit(jax.vmap(lambda key: one(key, op, mechanism)))(keys())
    wanted = [np.asarray(one(key, op, mechanism)) for key in keys()]
    np.testing.assert_allclose(found, wanted, atol=1e-4 * np.abs(wanted).max())
    for given in ((op, HDS(1.0, D, 3)), (GRAPH, HDS(1.0, D, 3))):
        with pytest.raises(
            ValueError, match="where they are traced, use perturb, propagate and an Operator"
        ):
            jax.jit(lambda graph, m: one(jax.random.key(9), graph, m))(*given)


def test_records_that_are_all_in_the_upper_half_are_warned_of():
    """Whoever forgets bounds=(0, 1) moves each record to the middle of what it should be."""
    m = HDS(1.0, dim=16, k=2)
    graph = graphs.from_edges([[0, 1], [1, 2]], num_nodes=4)
    x = np.random.default_rng(0).uniform(0, 1, (4, 16))
    embed = lambda x, **more: private_embedding(
        jax.random.key(0), graph, x, m, alpha=0.5, r=0.5, **more
    )
    with pytest.warns(UserWarning, match=r"every number of x is in \[0, 1\].*bounds=\(0, 1\)"):
        plain = embed(x)
    np.testing.assert_array_equal(embed(x, bounds=(-1, 1)).z, plain.z)
    for fine in (x - 0.01, np.zeros((4, 16)), -x):
        embed(fine)
    embed(x, bounds=(0, 1))
