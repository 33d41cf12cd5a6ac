"""Graphs: what is refused, and what is kept."""

import itertools

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp_jax.graph import graphs

EDGES = [[3, 0], [0, 1], [2, 1]]


def test_both_directions_sorted_by_receiver_then_sender():
    graph = graphs.from_edges(EDGES, num_nodes=5)
    pairs = list(zip(graph.receivers.tolist(), graph.senders.tolist(), strict=True))
    assert pairs == sorted({(a, b) for u, v in EDGES for a, b in ((u, v), (v, u))})
    assert graph.senders.dtype == graph.receivers.dtype == np.int32
    assert (graph.n_node.tolist(), graph.n_edge.tolist(), graphs.num_nodes(graph)) == ([5], [6], 5)
    assert graph.nodes is graph.edges is graph.globals is None  # nothing private travels in it
    assert jax.jit(lambda r: graphs.degree(r, 5))(graph.receivers).tolist() == [
        2.0,
        2.0,
        1.0,
        1.0,
        0.0,
    ]


@given(st.integers(1, 12), st.randoms(use_true_random=False))
def test_edges_round_trip(n, random):
    pairs = [(u, v) for u in range(n) for v in range(u + 1, n) if random.random() < 0.3]
    given_ = [pair if random.random() < 0.5 else pair[::-1] for pair in pairs]
    random.shuffle(given_)
    graph = graphs.from_edges(np.array(given_, np.int64).reshape(-1, 2), n, pairs_in="rows")
    assert list(map(tuple, graphs.to_edges(graph).tolist())) == pairs
    senders, receivers, m = graphs.validate_symmetric(graph)
    np.testing.assert_array_equal((senders, receivers), (graph.senders, graph.receivers))
    assert m == n


def test_two_pairs_of_two_readings_are_refused_until_one_is_named():
    """0-1 and 2-3 as rows, 0-2 and 1-3 as the columns of an edge_index: nothing is guessed."""
    both = np.array([[0, 1], [2, 3]])
    words = r"0 - 1 and 2 - 3 with pairs_in='rows', or 0 - 2 and 1 - 3 with pairs_in='columns'"
    with pytest.raises(ValueError, match=words):
        graphs.from_edges(both, num_nodes=4)
    for pairs_in, edges in (("rows", [[0, 1], [2, 3]]), ("columns", [[0, 2], [1, 3]])):
        assert (
            graphs.to_edges(graphs.from_edges(both, num_nodes=4, pairs_in=pairs_in)).tolist()
            == edges
        )
    for one in (
        [[0, 1], [1, 2]],
        [[0, 1], [2, 1]],
    ):  # the same edges in rows and columns; columns with a loop
        assert graphs.to_edges(graphs.from_edges(one, num_nodes=3)).tolist() == [[0, 1], [1, 2]]
    graph = graphs.from_edges([[0, 1, 3], [1, 2, 0]], num_nodes=4, pairs_in="columns")
    assert graphs.to_edges(graph).tolist() == [[0, 1], [0, 3], [1, 2]]
    for none, pairs_in in (([], "columns"), ([], "rows"), (np.zeros((0, 2), int), "rows")):
        graph = graphs.from_edges(none, num_nodes=3, pairs_in=pairs_in)
        assert (graphs.to_edges(graph).shape, graphs.validate_symmetric(graph)[2]) == ((0, 2), 3)


def test_codes_of_node_pairs_do_not_overflow():
    """u * n + v needs 64 bits from n = 46 341 on."""
    n = 2_000_000
    edges = np.array([[n - 1, n - 2], [0, n - 1], [5, n - 2]], np.int32)
    graph = graphs.from_edges(edges, n)
    assert graphs.to_edges(graph).tolist() == [[0, n - 1], [5, n - 2], [n - 2, n - 1]]
    graphs.validate_symmetric(graph)


def test_more_edges_than_32_bits_count_are_counted(monkeypatch):
    """Of a view of one number, which no check reads in full."""
    monkeypatch.setattr(graphs, "ids", lambda *size, **ends: None)
    many = np.broadcast_to(np.int32(0), 2**31)
    assert graphs.directed(many, many, 1).n_edge.tolist() == [2**31]
    assert graphs.directed([0], [0], 1).n_edge.dtype == np.int32


def test_blocks_of_edges_change_nothing(monkeypatch):
    """What is done block by block to 10^8 edges, with blocks of three edges."""
    rng = np.random.default_rng(0)
    n = 40
    pairs = np.stack(np.triu_indices(40, 1), 1)
    pairs = pairs[rng.permutation(len(pairs))[:100]]
    pairs = np.where(rng.random((100, 1)) < 0.5, pairs, pairs[:, ::-1])
    whole = graphs.from_edges(pairs, n)
    monkeypatch.setattr(graphs, "_BLOCK", 3)
    blocked = graphs.from_edges(pairs, n)
    np.testing.assert_array_equal(
        (blocked.senders, blocked.receivers), (whole.senders, whole.receivers)
    )
    order = rng.permutation(200)
    for graph in (
        whole,
        whole._replace(senders=whole.senders[order], receivers=whole.receivers[order]),
    ):
        np.testing.assert_array_equal(
            graphs.validate_symmetric(graph)[:2], (whole.senders, whole.receivers)
        )
    for at in (0, 101, 199):  # an edge without its reverse, one given twice
        u, v = whole.senders[at], whole.receivers[at]
        missing = whole._replace(
            senders=np.delete(whole.senders, at), receivers=np.delete(whole.receivers, at)
        )
        with pytest.raises(ValueError, match=f"symmetric.* got {v} -> {u} alone"):
            graphs.validate_symmetric(missing)
        twice = whole._replace(
            senders=np.insert(whole.senders, at, u), receivers=np.insert(whole.receivers, at, v)
        )
        with pytest.raises(ValueError, match=f"got {u} -> {v} twice"):
            graphs.validate_symmetric(twice)
        with pytest.raises(ValueError, match="each pair once"):
            graphs.from_edges(np.insert(pairs, 5, [u, v], axis=0), n)


@pytest.mark.parametrize("kind", [np.int16, np.uint8, np.uint32, np.int64, np.uint64])
def test_ends_may_be_whole_numbers_of_any_kind(kind):
    pairs = np.array([[2, 1], [0, 2], [0, 1]], kind)
    made = graphs.from_edges(pairs, 3, pairs_in="rows")
    given_ = made._replace(senders=made.senders.astype(kind), receivers=made.receivers.astype(kind))
    assert graphs.to_edges(given_).tolist() == [[0, 1], [0, 2], [1, 2]]
    assert [end.dtype for end in graphs.validate_symmetric(given_)[:2]] == [np.int32, np.int32]


def test_asymmetric_graphs_are_refused():
    one = graphs.directed([0, 1, 1], [1, 0, 2], 4)
    with pytest.raises(ValueError, match="graph 0 must be symmetric.* got 1 -> 2 alone"):
        graphs.validate_symmetric(one)
    two = one._replace(n_node=np.array([1, 3]), senders=np.array([3]), receivers=np.array([2]))
    with pytest.raises(ValueError, match="graph 1 must be symmetric.* got 3 -> 2 alone"):
        graphs.validate_symmetric(two)


PARTIAL_ORDERS = {
    "random": lambda s, r, noise: np.lexsort((noise,)),
    "by receiver": lambda s, r, noise: np.lexsort((noise, r)),
    "by sender": lambda s, r, noise: np.lexsort((noise, s)),
    "by receiver, senders falling": lambda s, r, noise: np.lexsort((-s, r)),
    "one pair exchanged": lambda s, r, noise: np.r_[1, 0, 2 : len(s)],
    "last pair exchanged": lambda s, r, noise: np.r_[: len(s) - 2, len(s) - 1, len(s) - 2],
}


@pytest.mark.parametrize("order", PARTIAL_ORDERS)
def test_edges_in_any_order_are_those_of_the_sorted_graph(order):
    """Order by one end alone is no order of edges."""
    rng = np.random.default_rng(0)
    pairs = np.stack(np.triu_indices(12, 1), 1)
    graph = graphs.from_edges(pairs[rng.random(len(pairs)) < 0.4], 12, pairs_in="rows")
    senders = np.asarray(graph.senders)
    receivers = np.asarray(graph.receivers)
    place = PARTIAL_ORDERS[order](senders, receivers, rng.random(len(senders)))
    given_ = graphs.directed(senders[place], receivers[place], 12)
    assert graphs.is_symmetric(given_)
    np.testing.assert_array_equal(graphs.to_edges(given_), graphs.to_edges(graph))
    np.testing.assert_array_equal(graphs.validate_symmetric(given_)[:2], (senders, receivers))
    made = graphs.GraphSet.from_edges(senders[place], receivers[place], np.zeros(12, int), [0])
    np.testing.assert_array_equal((made.senders, made.receivers), (senders, receivers))


@pytest.mark.parametrize("order", PARTIAL_ORDERS)
def test_an_edge_that_is_there_twice_is_refused_in_any_order(order):
    """Also where other edges of the receiver stand between the two."""
    rng = np.random.default_rng(1)
    graph = graphs.from_edges([[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]], 4)
    for twice in range(len(graph.senders)):
        senders = np.append(graph.senders, graph.senders[twice])
        receivers = np.append(graph.receivers, graph.receivers[twice])
        place = PARTIAL_ORDERS[order](senders, receivers, rng.random(len(senders)))
        with pytest.raises(ValueError, match="each edge once"):
            graphs.GraphSet.from_edges(senders[place], receivers[place], np.zeros(4, int), [0])


def test_a_graph_is_symmetric_where_each_edge_and_its_reverse_are_as_many():
    """All pairs of edges of six nodes, and drawn ones with some reverses, against a matrix."""
    rng = np.random.default_rng(0)
    every = np.array([(a, b) for a in range(6) for b in range(6) if a != b])
    drawn = list(itertools.combinations_with_replacement(every, 2))
    for _ in range(300):
        some = every[rng.integers(0, 30, rng.integers(1, 4))]
        drawn.append([*some, *some[: rng.integers(0, 4), ::-1]])
    found = []
    for edges in drawn:
        count = np.zeros((6, 6), int)
        np.add.at(count, tuple(np.transpose(edges)), 1)
        found.append(graphs._undirected(*np.transpose(edges)) is not None)
        assert found[-1] == (count == count.T).all(), edges
    assert 50 < sum(found) < 700


def test_an_edge_is_refused_by_what_is_wrong_with_it_at_whichever_end():
    """Of two graphs of three and two nodes every pair of ids, those beyond both ends too."""
    node_graph = np.array([0, 0, 0, 1, 1])
    good = np.array([0, 3])
    for pair in itertools.product(range(-2, 7), repeat=2):
        ends = [np.append(good, end) for end in pair]
        ends[1][:2] += 1
        if not all(0 <= end < 5 for end in pair):
            refusal = r"edges must join nodes in \[0, 5\)"
        elif node_graph[pair[0]] != node_graph[pair[1]]:
            refusal = "edges must stay in one graph"
        elif pair[0] == pair[1]:
            refusal = f"no self-loops, got one at node {pair[0]}"
        else:
            graphs.check_edges(*ends, node_graph)
            continue
        with pytest.raises(ValueError, match=refusal):
            graphs.check_edges(*ends, node_graph)
