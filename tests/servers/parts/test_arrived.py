"""Rows of devices, in any order, by users whose numbers are no places."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest

from ldp_jax.features import GeneralizedRR, GridSquareWave, Sampled
from ldp_jax.graph import graphs
from ldp_jax.graph.propagation import operator, ppr_dense
from ldp_jax.servers import DeviceUsers, EmbeddingServer, simulate
from ldp_jax.servers.parts.arrived import (
    numbers_by_node,
    outputs_by_node,
    reports_by_node,
    table_of,
    vectors_by_node,
)
from tests.marks import untyped

NODES = np.array([40, 7, 19, 2**60 + 1, 3])  # of places 0 to 4
M = Sampled(GridSquareWave(2.0), 6, 2)
LAST = table_of(M).outputs - 1


def rows(user, output, digest, **more):
    return SimpleNamespace(
        user=np.array(user, np.uint64), output=np.array(output, np.int32), digest=digest, **more
    )


def test_outputs_are_of_users_who_were_asked_by_their_table():
    tables = [table_of(GeneralizedRR(epsilon, 3)) for epsilon in (1.0, 2.0)]
    asked = np.array([True, True, False, False, False])
    given = {table.digest: (table, who) for table, who in zip(tables, (asked, ~asked), strict=True)}
    some = [
        rows([3, 19, 2**60, 7], [2, 1, 2, 2], tables[1].digest),  # one no node, one not asked
        rows([7, 40], [1, 2], tables[0].digest, field=np.array([0, 1])),  # of another field
    ]
    values, reported = outputs_by_node(given, NODES, some)
    assert values.tolist() == [0, 1, 1, 0, 2]
    assert reported.tolist() == [False, True, True, False, True]
    for wrong, why in (
        (rows([40], [1], b"no"), "by another"),
        (rows([40], [3], tables[0].digest), "output must be in"),
        (rows([40, 40], [1, 1], tables[0].digest), "one a user"),
        (rows([7], [1], tables[0].digest), "one a user"),
    ):
        with pytest.raises(ValueError, match=why):
            outputs_by_node(given, NODES, [*some, wrong])
    with pytest.raises(ValueError, match="5 distinct users"):
        outputs_by_node(given, np.array([1, 2, 3, 4, 4]), [])


@untyped
def test_numbers_are_of_users_who_are_their_places():
    question = SimpleNamespace(numbers=2, digest=b"asked")
    asked = np.array([True, False, True, True])
    found = rows([3, 9, 1, 0], [[5, -6], [1, 1], [2, 2], [7, 8]], b"asked")
    numbers, reported = numbers_by_node(question, asked, np.arange(4), [found])
    assert numbers.tolist() == [[7, 8], [0, 0], [0, 0], [5, -6]]
    assert reported.tolist() == [True, False, False, True]
    for wrong, why in (
        (rows([2], [[1, 1]], b"other"), "answer another"),
        (rows([2], [[1, 1, 1]], b"asked"), r"output must be \[1, 2\]"),
        (rows([2, 2], [[1, 1]] * 2, b"asked"), "one a user"),
        (rows([3], [[1, 1]], b"asked"), "one a user"),
    ):
        with pytest.raises(ValueError, match=why):
            numbers_by_node(question, asked, np.arange(4), [found, wrong])
    with pytest.raises(ValueError, match="nodes must be 4"):
        numbers_by_node(question, asked, np.arange(4)[::-1], [])


def test_vectors_are_of_all_nodes_and_of_those_who_were_asked():
    digest = table_of(M).digest
    given = [3, 5, 40], [[LAST, 0], [1, 1], [0, 1]]
    vectors = rows(*given, digest, index=np.array([[0, 5], [1, 2], [2, 3]]))
    found, reported, strangers = vectors_by_node(M, NODES, 5, vectors)
    assert found.indices.tolist() == [[2, 3], [0, 0], [0, 0], [0, 0], [0, 5]]
    assert found.values.tolist() == [[0, 1], [0, 0], [0, 0], [0, 0], [LAST, 0]]
    assert (reported.tolist(), strangers) == ([True, False, False, False, True], 1)
    asked = np.array([False, True, True, True, True])
    later = rows([7, 40], [[1, 1]] * 2, digest, index=np.array([[3, 4]] * 2))
    made, reported = reports_by_node(M, asked, NODES, [vectors, later])
    assert made.indices.tolist() == [[0, 0], [3, 4], [0, 0], [0, 0], [0, 5]]
    assert made.values.tolist() == [[0, 0], [1, 1], [0, 0], [0, 0], [LAST, 0]]
    assert reported.tolist() == [False, True, False, False, True]
    with pytest.raises(ValueError, match="several of some"):
        reports_by_node(M, asked, NODES, [vectors, vectors])
    for change, why in (
        ({"digest": b"no"}, "another table"),
        ({"user": np.array([3, 3, 40], np.uint64)}, "several of some"),
        ({"output": vectors.output.astype(float)}, "whole numbers"),
        ({"output": vectors.output[:, :1]}, r"must be \[3, 2\]"),
        ({"output": vectors.output + 1}, "output must be in"),
        ({"index": vectors.index + 1}, "index must be in"),
        ({"index": vectors.index[:, ::-1]}, "must ascend"),
        ({"index": vectors.index * [[1, 0], [1, 1], [1, 1]]}, "must ascend"),
    ):
        with pytest.raises(ValueError, match=why):
            vectors_by_node(M, NODES, 5, SimpleNamespace(**vars(vectors) | change))


def test_reports_of_some_users_are_embedded_by_numbers_that_are_asked():
    """Estimates of those who reported, and 0 of the others, by a dense solve."""
    graph = graphs.from_edges([[0, 1], [1, 2], [2, 3], [3, 4], [0, 2]], num_nodes=5)
    index, output = np.array([[0, 5], [1, 2], [2, 3]]), [[LAST, 0], [1, 1], [0, 1]]
    vectors = rows([3, 5, 40], output, table_of(M).digest, index=index)
    server = EmbeddingServer(operator(graph), M, 0.3, 0.2, 1e-7)
    found = simulate(jax.random.key(0), server, DeviceUsers(NODES, lambda _: [vectors]))
    given, reported, _ = vectors_by_node(M, NODES, 5, vectors)
    x = np.asarray(jax.vmap(M.estimate)(given)) * reported[:, None]
    np.testing.assert_allclose(found.value, ppr_dense(graph, x, 0.3, 0.2), atol=1e-5)
    assert found.rounds[0].reported == reported.sum() == 2
    (one,) = found.guarantee.guarantees
    assert one == M.guarantee()
    assert set(found.guarantee.protected) == {"features"}
    assert set(found.guarantee.unprotected) == {"edges", "labels"}
