"""What data sets refuse: files, arrays, tables and parameters that break a rule, by its name."""

import jax
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from ldp_jax import datasets
from ldp_jax.datasets import Dataset, _archive, _arrays
from ldp_jax.datasets.splits import link_split, node_split
from ldp_jax.graph import graphs
from tests.datasets.formats import ARRAYS, FORMATS, dumps, npz, planetoid_files, zipped

KEY = jax.random.key(0)
EIGHT = {"num_nodes": 8, "num_classes": 2}
RING = np.stack([np.arange(40), (np.arange(40) + 1) % 40], 1)
NO_FEATURES = {key: None for key in ARRAYS if key.startswith("x_")}
NO_BOUNDS = {"x_lower": None, "x_upper": None}
A_SET = {**NO_FEATURES, "edges": [[0, 1], [2, 3]], "node_graph": [0, 0, 1, 1], "y": [0, 1]}
ONES = np.ones((3, 2))
TWICE = scipy.sparse.csr_array((np.float32([0.6, 0.6]), [0, 0], [0, 2, 2, 2]), shape=(3, 2))
TABLE = pd.DataFrame(
    {"age": [18, 50, None, 90], "city": ["ulm", None, "bern", "ulm"], "team": list("rb r")},
    index=["ana", "bo", "cy", "dee"],
)
CLASSES = ("r", "b", " ")


def a_file(folder, change):
    """A user's file; a change to None drops the array, bounds and clip are arguments."""
    options = {key: change[key] for key in ("bounds", "clip") if key in change}
    arrays = {key: array for key, array in {**ARRAYS, **change}.items() if array is not None}
    (folder / "mine.npz").write_bytes(npz(**{k: a for k, a in arrays.items() if k not in options}))
    datasets.load(folder / "mine.npz", **options)


def a_set(folder, change):
    a_file(folder, {**A_SET, **change})


def tu(_, parts):
    FORMATS["TU attributes" if "attributes" in str(parts) else "TU"].read(
        {f"{part}.txt": text.encode() for part, text in parts.items()}
    )


def powerful(_, text):
    archive = zipped({"dataset/P/P.txt": text.encode()})
    FORMATS["powerful-gnns"].read({"dataset.zip": archive})


def planetoid(folder, change):
    for name, data in (planetoid_files() | change).items():
        (folder / name).write_bytes(data)
    datasets.load(folder, bounds=(0, 3))


def an_archive(folder, members):
    (folder / "mine.zip").write_bytes(zipped(dict.fromkeys(members, b"")))
    datasets.load(folder / "mine.zip")


def lines(_, bad):
    _arrays.table(f"1, 2\n\n\x0c 3,4\r\n{bad}\n".encode(), "f", "edge", 2)


def an_object(_, change):
    fields = {"x": ONES, "y": [0, 1, 0], "lower": 0, "upper": 1} | change
    Dataset("mine", graphs.from_edges([[0, 1], [2, 1]], 3), **fields)


def links(_, edges):
    link_split(KEY, edges, 40)


def drawn(_, change):
    sizes = {"num_nodes": 3000, "num_classes": 4, "num_features": 200, "mean_degree": 8.0}
    datasets.synthetic(KEY, **sizes | {"homophily": 0.7} | change)


def drawn_set(_, change):
    datasets.synthetic_graphs(KEY, **{"num_graphs": 6} | change)


def a_table(_, change):
    given = {
        "table": TABLE,
        "numbers": {"age": (10, 90)},
        "categories": {"city": ("bern", "ulm")},
        "label": "team",
        "missing": "centre",
    }
    datasets.read_records(**given | change)


def call(_, function):
    function()


REFUSED = {
    a_file: [
        (NO_BOUNDS, r"bounds of the features of mine must be declared: pass bounds="),
        ({"x_upper": None}, "bounds of the features of mine must be declared"),
        ({"x_lower": None}, "bounds of the features of mine must be declared"),
        (NO_FEATURES | {"y": None}, "the number of nodes is unknown"),
        ({"x_shape": None}, "the arrays x_shape are missing beside the other x_ arrays"),
        ({"edges": None}, "the array edges is missing"),
        ({"edges": [[0, 3]]}, r"edges must join nodes in \[0, 3\)"),
        ({"edges": [[1, 1]]}, "edges must have no self-loops, got one at node 1"),
        ({"edges": [[0, 1], [1, 0]]}, r"edges must name each pair once, got \(0, 1\) twice"),
        ({"x": np.eye(3)}, "x must be real numbers .*, alone"),
        ({"y": [0, 1]}, "y of mine must have one row a node"),
        ({"y": [0, 1, -2]}, "y of mine must be classes 0..c-1, each with a member, or -1 where"),
        ({"y": [-1, -1, -1]}, "y of mine must be classes"),
        ({"y": [0, 9, 0]}, "y of mine must be classes"),
        ({"y": [0.0, 0.5, 0.0]}, "y must be integers, got float64$"),
        ({"y": [[0, 1], [1, 3], [0, 0]]}, "y of mine must be 0 or 1 in two axes$"),
        ({"x_values": [1, np.nan]}, "x of mine must be finite, and is not everywhere$"),
        ({"x_values": [1, 1e300]}, "x of mine must be finite"),
        ({"x_values": [1.0, 1.5]}, "x of mine must be at most its declared upper bound 1,"),
        ({"bounds": (0, 0.5)}, "at most its declared upper bound 0.5, .*clip=True"),
        ({"x_values": [1.0, -0.5]}, "x of mine must be at least its declared lower bound 0,"),
        ({"x_lower": 0.5}, r"lower bound 0.5, .*\(an entry that is not stored is 0\)"),
        ({"bounds": (0.5, 1), "clip": True}, "clip needs bounds around 0"),
        ({"x_indices": [1, 2]}, r"x_indices must be columns in \[0, 2\)$"),
        ({"x_indptr": [0, 2, 1, 2]}, "x_indptr must be 4 numbers that start at 0 and never fall"),
        ({"x_indptr": [1, 1, 1, 2]}, "x_indptr must be 4 numbers that start at 0 and never fall"),
        ({"x_indptr": [0, 1, 2]}, "x_indptr must be 4 numbers that start at 0 and never fall"),
        ({"x_shape": [0, 2]}, "x_shape must be two sizes"),
        ({"x_indptr": [0, 0, 0, 2], "x_indices": [1, 1]}, "a row names one twice$"),
        (
            {"x_indptr": [0, 0, 0, 3], "x_indices": [0, 1, 0], "x_values": [1.0] * 3},
            "a row names one twice$",
        ),
    ],
    a_set: [
        ({"edges": [[1, 2]]}, "edges must stay in one graph, got 2 -> 1"),
        ({"node_graph": [0, 0, 2, 2]}, "rise by 0 or 1, .* got 2 at node 2"),
        ({"node_graph": [0, 0, 1, 0], "edges": [[0, 1]]}, "rise by 0 or 1, .* got 0 at node 3"),
        ({"y": [0, 1, 1]}, r"one row a node \(4\) or one row a graph \(2\)"),
        ({"node_graph": np.zeros(0, int), "y": np.zeros(0, int)}, "node_graph of shape"),
    ],
    powerful: [
        ("1\n2 0\n0 1 1\n0 1 2\n", "P/P.txt: neighbours in graph 0 must be 1 nodes"),
        ("1\n2 0\n0 1 1\n0 1 0\nend\n", "P/P.txt must end after 1 graphs, got another word$"),
        ("2\n2 0\n0 1 1\n0 1 0\n2 0\n0 1 1\n0 0\n", "P/P.txt must list all edges in both"),
        ("2\n2 0\n0 1 1\n0 1 0\n0 1\n", "P/P.txt: graph 1 must have a node, got 0"),
        ("2\n1 0\n0 0\n2 0\n0 1 1.5\n", "P/P.txt .* got another word in graph 1$"),
    ],
    tu: [
        ({"A": "1, 6\n"}, r"T_A.txt must hold pairs of nodes in \[1, 5\], .* got \(1, 6\)"),
        ({"A": "1, 3\n"}, "edges must stay in one graph"),
        ({"A": "1, 2\n2, 1\n3, 5\n"}, "T must list all edges in both directions"),
        ({"indicator": "1\n1\n2\n2\n"}, r"pairs of nodes in \[1, 4\], .* got \(3, 5\)"),
        ({"indicator": "1\n1\n2\n2\n3\n"}, r"graphs in \[1, 2\], .* got graph 3 for node 5"),
        ({"indicator": "1\n1\n1\n1\n1\n"}, "T: each graph must have a node"),
        ({"indicator": "1\n1\n2\n2\n2\n", "labels": "1\n0\n1\n0\n1\n"}, "T: each graph must"),
        ({"A": "", "indicator": "", "labels": ""}, "a set of graphs must have a graph a node"),
        ({"node_attributes": "1, 2\n"}, r"a line for each node \(5\), got 1$"),
        ({"node_attributes": "1, 2 # 3\n" * 5}, "each line of T_node_attributes.txt must hold as"),
        ({"node_attributes": "1, 2\n3\n"}, "each line of T_node_attributes.txt must hold as many"),
        ({"graph_attributes": "1, x\n"}, "each line of T_graph_attributes.txt must hold as many"),
    ],
    lines: [
        (bad, "each line of f must hold 2 whole numbers .* for edge 3$")
        for bad in ("2", "5, ", "1, 2 # 3", "1, 2\x0c3", "1, 2\r3, 4", "1, 2,", "1,, 2", "1,\n2")
    ],
    an_archive: [
        (["dataset/P/P.txt", "Q/Q.txt"], "must hold one set of graphs, .* got dataset/P/P.txt, Q"),
        (["words.md"], "must hold one set of graphs, .* got words.md"),
    ],
    planetoid: [
        ({"ind.t.graph": b"cos\nsystem\n(S'true'\ntR."}, "pickles of .* raised UnpicklingError"),
        ({"ind.t.graph": planetoid_files()["ind.t.y"]}, "raised TypeError"),
        ({"ind.t.test.index": b"7\n7\n"}, "each node once in test.index"),
        (
            {"ind.t.ty": dumps(np.array([[0.5, 0.5, 0.0], [0, 0, 1]]))},
            "rows of 0 and of at most one 1",
        ),
        ({"ind.t.ty": dumps(np.array([[1, 1, 0], [0, 0, 1]]))}, "rows of 0 and of at most one 1"),
        ({"ind.t.test.index": b"7\n-5\n"}, "each node once in test.index"),
        ({"ind.t.test.index": b"7\n"}, "a line of test.index for each test row"),
        ({"ind.t.test.index": b"7\n99999999999\n"}, "features fit in"),
        ({"ind.t.test.index": b"7\nx\n"}, "raised ValueError"),
    ],
    an_object: [
        ({"x": ONES[:2]}, r"x of mine must have one row a node \(3\), got shape \(2, 2\)"),
        ({"x": None}, "x of mine must"),
        ({"x": ONES * 1j}, "x of mine must be real numbers, got complex"),
        ({"x": ONES.astype(str)}, "x of mine must be real numbers, got <U"),
        ({"x": ONES.astype(str).astype(object)}, "x of mine must be real numbers, got object"),
        ({"x": ONES.astype("timedelta64[s]")}, "x of mine must be real numbers, got timedelta"),
        ({"x": np.ma.array(ONES, mask=ONES > 0)}, "x of mine must be finite"),  # NaN where masked
        ({"x": TWICE}, "x of mine must be at most its declared upper bound 1"),  # summed before
        ({"y": ["a", None, "b"]}, "y of mine must be integers"),
        ({"y": [0.5, None, 1]}, "y of mine must be integers"),
        ({"feature_names": ("a",)}, "feature_names of mine must hold 2 names in order"),
        ({"node_names": ("a",)}, "node_names of mine must hold 3 names in order"),
        ({"class_names": {"a", "b"}}, "class_names of mine must hold 2 names in order, got a set"),
        ({"class_names": "ab"}, "class_names of mine must hold 2 names in order, got a str"),
        ({"node_graph": np.int32([0, 0])}, r"node_graph of mine must have shape \(3,\)"),
        ({"node_graph": [0.0, 0.0, 1.0]}, "node_graph must be integers"),
        ({"node_graph": [0, 0, 1]}, "edges must stay in one graph"),
    ],
    links: [
        (RING[:4], "leave a part of 4 without any member"),
        (np.argwhere(np.ones((40, 40))), "leave too few pairs without an edge among 40 nodes"),
        (np.append(RING, RING[:1, ::-1], 0), "name each pair once"),
        (np.append(RING, [[7, 7]], 0), "self-loops, got one at node 7"),
        (np.insert(RING, 2, 5, 1), r"integers of shape \[m, 2\]"),  # a weight, sorted among ends
    ],
    drawn: [
        ({"num_classes": 1}, "num_classes"),
        ({"num_nodes": 3}, "num_nodes"),
        ({"mean_degree": 0.0}, "mean_degree"),
        ({"homophily": 1.1}, "homophily"),
        ({"degree_exponent": 2.0}, "degree_exponent"),
        ({"topicality": float("nan")}, "topicality"),
        ({"num_nodes": 20, "mean_degree": 18.0}, "mean_degree must leave half of the pairs"),
        (EIGHT | {"homophily": 1.0, "mean_degree": 1.75}, "for 7 edges among 12 pairs"),
        (EIGHT | {"homophily": 0.0, "mean_degree": 2.25}, "for 9 edges among 16 pairs"),
    ],
    drawn_set: [
        ({"num_graphs": 1}, "num_graphs"),
        ({"num_nodes": (9,)}, "num_nodes must be the least and the most"),
        ({"num_nodes": (9, 8)}, r"num_nodes must be a whole number in \[9"),
        ({"group_size": (9, 8)}, r"group_size must be a whole number in \[9"),
        ({"within": 1.1}, "within"),
        ({"across": -0.1}, "across"),
        ({"num_nodes": (4, 10**6)}, "must be below"),
    ],
    a_table: [
        ({"table": TABLE["age"]}, "table must be a pandas.DataFrame, .*, got Series"),
        ({"numbers": {}, "categories": {}}, "no column is declared"),
        ({"categories": {"age": (1,)}}, "'age' is declared twice"),
        ({"nodes": ["ana", "bo", "cy"]}, "1 rows are of users that are not among the nodes"),
        ({"nodes": [*TABLE.index, "ana"]}, "nodes must be named once"),
        (
            {"table": TABLE[:2].reset_index(drop=True), "nodes": [True, False]},  # 1 and 0
            "2 rows are of users whose names are of another type",
        ),
        ({"nodes": {*TABLE.index}}, "nodes must be in the order of the graph's nodes"),
        ({"numbers": {"age": (5, 5), "size": (0, 1)}}, "'size' is not.*'age'.*lower < upper"),
        ({"numbers": {"age": (20, 60)}}, r"'age' must be within its declared bounds \(20, 60\)"),
        ({"numbers": ["age"]}, r"numbers must be {column: \(lower, upper\)}, got list"),
        ({"categories": "city"}, r"categories must be {column: \(word, ...\)}, got str"),
        ({"categories": {"city": {"ulm", "bern"}}}, "'city' must declare each category once"),
        ({"categories": {"city": "ulm"}}, "'city' must declare each category once"),
        (
            {"table": TABLE.assign(**{"city=ulm": 1}), "numbers": {"city=ulm": (0, 1)}},
            r"two columns would be called \['city=ulm'\]",
        ),
        ({"label": ["r", "b", None, "r"]}, "label must be the name of a column, a string"),
        ({"classes": (*CLASSES, "-1")}, "'team' may not declare a class -1"),
        ({"classes": (*CLASSES, "r")}, "'team' must declare each class once"),
        ({"classes": (*CLASSES, 1, "1")}, "'team' holds classes that are written alike"),
        ({"classes": {*CLASSES}}, "'team' must declare its classes in order"),
    ],
    call: [
        (lambda: datasets.load("a.csv"), "interop.read takes pandas.read_csv"),
        (lambda: datasets.load("a.graph"), "METISGraphReader"),
        (lambda: datasets.load("a.abc"), "must end in .graphml"),
        (lambda: _arrays.whole_numbers(b"1 99999999999999999999"), "whole numbers must be in"),
        (lambda: _arrays.whole_numbers(b"-9223372036854775808"), "whole numbers must be in"),
        (lambda: _arrays.simple_edges([[0, 1], [3, -1]]), r"node ids .*, got \[\[3, -1\]\]"),
        (lambda: _arrays.simple_edges([[2**31, 0]]), r"node ids .*, got \[\[2147483648, 0\]\]"),
        (lambda: _archive.read_member(zipped({"a": b""}), "X.txt"), "must hold X.txt, got a"),
        (lambda: node_split(KEY, 3), "leave a part of 3 without any member"),
        (lambda: node_split(KEY, 10, (1.0, 0.0, 0.0)), "shares must be three numbers"),
        (lambda: node_split(jax.random.key(0, impl="rbg"), 40), "key must be a threefry"),
        (lambda: link_split(0, RING, 40), "key must be a typed"),
    ],
}
REFUSED[a_table] += [
    (
        {"table": TABLE.assign(age=pd.Categorical([18, 50, 20, 90]))},
        "'age' must hold numbers, and holds categories",
    ),
    (
        {"table": TABLE.assign(age=np.float32([1e8] * 4)), "numbers": {"age": (1e8, 1e8 + 10)}},
        "a fault: column 'age' .*apart",
    ),
]
REFUSED[a_table] += [
    ({"table": TABLE.assign(age=values)}, "'age' must hold numbers")
    for values in (
        pd.period_range("1990", periods=4, freq="Y"),
        pd.date_range("1990", periods=4),
        np.array([1 + 1j, 2, 3, 4]),
        np.array([1 + 1j, 2, 3, 4], object),
    )
]


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize(
    ("make", "given", "match"),
    [(make, *row) for make, rows in REFUSED.items() for row in rows],
)
def test_what_breaks_a_rule_is_refused(tmp_path, make, given, match):
    with pytest.raises(ValueError, match=match) as caught:
        make(tmp_path, given)
    assert make not in (a_file, a_set) or "mine.npz: " in str(caught.value)
