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
from tests.datasets.formats import ARRAYS, FORMATS, npz, planetoid_files, zipped

KEY = jax.random.key(0)
RING = np.stack([np.arange(40), (np.arange(40) + 1) % 40], 1)
NO_FEATURES = {key: None for key in ARRAYS if key.startswith("x_")}
NO_BOUNDS = {"x_lower": None, "x_upper": None}
A_SET = {**NO_FEATURES, "edges": [[0, 1], [2, 3]], "node_graph": [0, 0, 1, 1], "y": [0, 1]}


def mine(change, **options):
    """A user's file; a change to None drops the array."""

    def load(folder):
        arrays = {key: value for key, value in {**ARRAYS, **change}.items() if value is not None}
        (folder / "mine.npz").write_bytes(npz(**arrays))
        return datasets.load(folder / "mine.npz", **options)

    return load


def own_set(change):
    return mine({**A_SET, **change})


def raw(name, **parts):
    def read(_):
        return FORMATS[name].read({f"{part}.txt": text.encode() for part, text in parts.items()})

    return read


def powerful(text):
    archive = zipped({"dataset/P/P.txt": text.encode()})
    return lambda _: FORMATS["powerful-gnns"].read({"dataset.zip": archive})


def planetoid(part, data):
    def load(folder):
        for name, whole in (planetoid_files() | {f"ind.t.{part}": data}).items():
            (folder / name).write_bytes(whole)
        return datasets.load(folder, bounds=(0, 3))

    return load


def files(members, name):
    def load(folder):
        (folder / name).write_bytes(zipped(members))
        return datasets.load(folder / name)

    return load


def absent(name):
    return lambda folder: datasets.load(folder / name)


def small(x=((0.0, 3.0), (4.0, 0.0), (0.0, 1.0)), n=3, y=(0, 1, 0), upper=4.0, **fields):
    graph = graphs.from_edges([[0, 1], [2, 1]], n)
    return lambda _: Dataset("small", graph, np.asarray(x), np.array(y), 0.0, upper, **fields)


TWICE = scipy.sparse.csr_array((np.float32([0.6, 0.6]), [0, 0], [0, 2, 2, 2]), shape=(3, 2))

FILES = [
    (mine(NO_BOUNDS), r"bounds of the features of mine must be declared: pass bounds="),
    (mine(NO_FEATURES | {"y": None}), "the number of nodes is unknown"),
    (mine({"edges": None}), "the array edges is missing"),
    (mine({"edges": [[0, 3]]}), r"edges must join nodes in \[0, 3\)"),
    (mine({"edges": [[1, 1]]}), "edges must have no self-loops, got one at node 1"),
    (mine({"edges": [[0, 1], [1, 0]]}), r"edges must name each pair once, got \(0, 1\) twice"),
    (mine({"x": np.eye(3)}), "x must be real numbers .*, alone"),
    (mine({"y": [0, 1]}), "y of mine must have one row a node"),
    *(
        (mine({"y": y}), "y of mine must be classes 0..c-1, each with a member, or -1 where")
        for y in ([0, 1, -2], [-1, -1, -1], [-1, 1, 1], [0, 9, 0])
    ),
    (mine({"y": [0.0, 0.5, 0.0]}), "y must be integers, got float64$"),
    (mine({"y": [[0, 1], [1, 3], [0, 0]]}), "y of mine must be 0 or 1 in two axes$"),
    *(
        (mine({"x_values": [1, x]}), "x of mine must be finite, and is not everywhere$")
        for x in (np.nan, 1e300)
    ),
    (mine({"x_values": [1.875, np.nan]}, clip=True), "x of mine must be finite"),
    (mine({"x_values": [1.0, 1.5]}), "x of mine must be at most its declared upper bound 1,"),
    (mine({}, bounds=(0, 0.5)), "at most its declared upper bound 0.5, .*clip=True"),
    (mine({"x_values": [1.0, -0.5]}), "x of mine must be at least its declared lower bound 0,"),
    (mine({"x_lower": 0.5}), r"lower bound 0.5, .*\(an entry that is not stored is 0\)"),
    (mine({}, bounds=(0.5, 1), clip=True), "clip needs bounds around 0"),
    (mine({"x_indices": [1, 2]}), r"x_indices must be columns in \[0, 2\)$"),
    (mine({"x_indptr": [0, 2, 1, 2]}), "x_indptr must be 4 numbers that start at 0 and never fall"),
    *(
        (
            mine({"x_indptr": [0, 0, 0, len(j)], "x_indices": j, "x_values": [1.0] * len(j)}),
            "a row names one twice$",
        )
        for j in ([1, 1], [0, 1, 0])
    ),
    (own_set({"edges": [[1, 2]]}), "edges must stay in one graph, got 2 -> 1"),
    (own_set({"edges": [[3, 3]]}), "edges must have no self-loops"),
    (own_set({"node_graph": [0, 0, 2, 2]}), "rise by 0 or 1, .* got 2 at node 2"),
    (own_set({"node_graph": [0, 0, 1, 0], "edges": [[0, 1]]}), "rise by 0 or 1, .* got 0 at"),
    (own_set({"y": [0, 1, 1]}), r"one row a node \(4\) or one row a graph \(2\)"),
    (own_set({"node_graph": np.zeros(0, int), "y": np.zeros(0, int)}), "node_graph of shape"),
]

OTHERS = [
    # Sets of graphs.
    (powerful("1\n2 0\n0 1 1\n0 1 2\n"), r"P/P.txt: neighbours in graph 0 must be 1 nodes"),
    (powerful("1\n2 0\n0 1 1\n0 1 0\nend\n"), "P/P.txt must end after 1 graphs, got another word$"),
    (powerful("2\n2 0\n0 1 1\n0 1 0\n2 0\n0 1 1\n0 0\n"), "must list all edges in both directions"),
    (powerful("2\n2 0\n0 1 1\n0 1 0\n0 1\n"), "graph 1 must have a node, got 0"),
    (powerful("2\n1 0\n0 0\n2 0\n0 1 1.5\n"), "got another word in graph 1$"),
    (raw("TU", A="1, 6\n"), r"T_A.txt must hold pairs of nodes in \[1, 5\], .* got \(1, 6\)"),
    (raw("TU", A="1, 3\n"), "edges must stay in one graph"),
    (raw("TU", A="1, 2\n2, 1\n3, 5\n"), "T must list all edges in both directions"),
    (raw("TU", indicator="1\n1\n2\n2\n"), r"pairs of nodes in \[1, 4\], .* got \(3, 5\)"),
    (raw("TU", indicator="1\n1\n2\n2\n3\n"), r"graphs in \[1, 2\], .* got graph 3 for node 5"),
    (raw("TU", indicator="1\n1\n1\n1\n1\n"), r"one row a graph \(1\)"),
    (raw("TU", A="", indicator="", labels=""), "a set of graphs must have a graph a node"),
    (raw("TU attributes", node_attributes="1, 2\n"), r"a line for each node \(5\), got 1$"),
    *(
        (
            raw("TU attributes", **{part: "1, x\n"}),
            f"each line of T_{part}.txt must hold as many real numbers, ",
        )
        for part in ("node_attributes", "graph_attributes")
    ),
    *(
        (
            lambda _, bad=bad: _arrays.table(
                f"1, 2\n\n\x0c 3,4\r\n{bad}\n".encode(), "f", "edge", 2
            ),
            "each line of f must hold 2 whole numbers .* for edge 3$",
        )
        for bad in ("2", "5, ", "1, 2 # 3", "1, 2\x0c3", "1, 2\r3, 4", "1, 2,", "1,, 2", "1,\n2")
    ),
    *(
        (lambda _, text=text: _arrays.whole_numbers(text), "whole numbers must be in")
        for text in (b"1 99999999999999999999", b"9223372036854775807", b"-9223372036854775808")
    ),
    (
        files({"dataset/P/P.txt": b"", "dataset/Q/Q.txt": b""}, "all.zip"),
        "must hold one set of graphs, .* got dataset/P/P.txt, dataset/Q/Q.txt",
    ),
    (files({"words.md": b""}, "none.zip"), "must hold one set of graphs, .* got words.md"),
    (lambda _: _archive.read_member(zipped({"a": b""}), "X.txt"), "must hold X.txt, got a"),
    *(
        (lambda _, data=data: _archive.read_member(data, "a"), "the archive is no readable zip")
        for data in (b"", zipped({"a": b"words"})[:50])
    ),
    # Planetoid.
    (planetoid("graph", b"cos\nsystem\n(S'true'\ntR."), "pickles of .* raised UnpicklingError"),
    *(
        (planetoid("test.index", text), "each node once in test.index")
        for text in (b"7\n7\n", b"7\n3\n", b"7\n-5\n")
    ),
    (planetoid("test.index", b"7\n"), "a line of test.index for each test row"),
    (planetoid("test.index", b"7\n99999999999\n"), "features fit in"),
    (planetoid("test.index", b"7\nx\n"), "raised ValueError"),
    (planetoid("graph", planetoid_files()["ind.t.y"]), "raised TypeError"),
    # Files that another reader opens.
    (absent("a.csv"), "interop.read takes pandas.read_csv"),
    (absent("a.graph"), "METISGraphReader"),
    (absent("a.abc"), "must end in .graphml"),
    # Fields of a data set.
    (small(n=4), r"x of small must have one row a node \(4\), got shape \(3, 2\)"),
    (lambda _: Dataset("m", graphs.from_edges([[0, 1]], 2), None, [0, 1], 0, 1), "one row a node"),
    *((small(y=y), "y of small must be int") for y in (("a", None, "b"), (0.5, None, 1))),
    *(
        (small(**{f"{of}_names": names}), f"{of}_names of small must hold . names in order")
        for of, names in (
            ("feature", ("a",)),
            ("node", ("a",)),
            ("class", ("a",)),
            ("class", {"a", "b"}),
            ("class", "ab"),
        )
    ),
    (small(node_graph=np.int32([0, 0])), r"node_graph of small must have shape \(3,\)"),
    (small(node_graph=[0.0, 0.0, 1.0]), "node_graph must be integers"),
    (small(node_graph=[0, 0, 1]), "edges must stay in one graph"),
    # Records that a cast would make up, or that a mask hides.
    *(
        (small(x), "x of small must be real numbers")
        for x in (
            np.ones((3, 2)) * 1j,
            np.ones((3, 2)).astype(str),
            np.ones((3, 2)).astype(str).astype(object),
            np.ones((3, 2)).astype("timedelta64[s]"),
        )
    ),
    (
        lambda _: Dataset(
            "m",
            graphs.from_edges([[0, 1]], 2),
            np.ma.array(np.eye(2), mask=np.eye(2)),
            [0, 1],
            0,
            1,
        ),
        "x of m must be finite",
    ),
    (
        lambda _: Dataset("m", graphs.from_edges([[0, 1]], 3), TWICE, np.zeros(3, int), 0.0, 1.0),
        "x of m must be at most its declared upper bound 1, and",
    ),
    # Splits and models.
    (lambda _: node_split(KEY, 3), "leave a part of 3 without any member"),
    (lambda _: node_split(KEY, 10, (1.0, 0.0, 0.0)), "shares must be three numbers"),
    (lambda _: node_split(jax.random.key(0, impl="rbg"), 40), "key must be a threefry"),
    (lambda _: link_split(0, RING, 40), "key must be a typed"),
    (lambda _: link_split(KEY, RING[:4], 40), "leave a part of 4 without any member"),
    (lambda _: link_split(KEY, RING, 8), "leave too few pairs without an edge among 8"),
    (lambda _: link_split(KEY, np.append(RING, RING[:1, ::-1], 0), 40), "name each pair once"),
    (lambda _: link_split(KEY, np.append(RING, [[7, 7]], 0), 40), "self-loops, got one at node 7"),
    (
        lambda _: link_split(KEY, np.append(RING, [[7, 40]], 0), 40),
        "edges must join nodes in .0, 40",
    ),
    # Beside two ends a weight, which was sorted among them.
    (lambda _: link_split(KEY, np.insert(RING, 2, 5, 1), 40), r"integers of shape \[m, 2\]"),
    (lambda _: link_split(KEY, RING + 0.5, 40), "edges must be integers"),
]


def drawn(**changes):
    sizes = {"num_nodes": 3000, "num_classes": 4, "num_features": 200, "mean_degree": 8.0}
    return lambda _: datasets.synthetic(KEY, **sizes | {"homophily": 0.7} | changes)


def drawn_set(**changes):
    return lambda _: datasets.synthetic_graphs(KEY, **{"num_graphs": 6} | changes)


MODELS = [
    (drawn(num_classes=1), "num_classes"),
    (drawn(num_nodes=3), "num_nodes"),
    (drawn(mean_degree=0.0), "mean_degree"),
    (drawn(homophily=1.1), "homophily"),
    (drawn(degree_exponent=2.0), "degree_exponent"),
    (drawn(topicality=float("nan")), "topicality"),
    (drawn(num_nodes=20, mean_degree=18.0), "mean_degree must leave half of the pairs .* got 18"),
    (drawn_set(num_graphs=1), "num_graphs"),
    (drawn_set(num_nodes=(9,)), "num_nodes must be the least and the most"),
    (drawn_set(within=1.1), "within"),
    (drawn_set(num_nodes=(4, 10**6)), "must be below"),
]

TABLE = pd.DataFrame(
    {"age": [18, 50, None, 90], "city": ["ulm", None, "bern", "ulm"], "team": list("rb r")},
    index=["ana", "bo", "cy", "dee"],
)


def table(given=TABLE, **change):
    declared = {
        "numbers": {"age": (10, 90)},
        "categories": {"city": ("bern", "ulm")},
        "label": "team",
        "missing": "centre",
    }
    return lambda _: datasets.read_records(given, **declared | change)


TABLES = [
    (table(TABLE["age"]), "table must be a pandas.DataFrame, .*, got Series"),
    (table(numbers={}, categories={}), "no column is declared"),
    (table(categories={"age": (1,)}), "'age' is declared twice"),
    (table(nodes=["ana", "bo", "cy"]), "1 rows are of users that are not among the nodes"),
    (table(nodes=["ana", "bo", "cy", "dee", "ana"]), "nodes must be named once"),
    (table(numbers={"age": (5, 5), "height": (0, 1)}), "'height' is not.*'age'.*lower < upper"),
    (table(numbers={"age": (20, 60)}), r"'age' must be within its declared bounds \(20, 60\)"),
    (table(classes=("r", "b", " ", "-1")), "'team' may not declare a class -1"),
    (table(classes=("r", "b", " ", "r")), "'team' must declare each class once"),
    (table(classes=("r", "b", " ", 1, "1")), "'team' holds classes that are written alike"),
    *((table(classes=some), "declare its classes in order") for some in ({"r", "b", " "}, "rb ")),
    *(
        (table(categories={"city": words}), "'city' must declare each category once, .* in a tuple")
        for words in ({"ulm", "bern"}, pd.Index([]), "ulm")
    ),
    (table(numbers=["age"]), r"numbers must be {column: \(lower, upper\)}, got list"),
    (table(categories="city"), r"categories must be {column: \(word, ...\)}, got str"),
    (table(label=["r", "b", None, "r"]), "label must be the name of a column, a string"),
    (table(nodes=set(TABLE.index)), "nodes must be in the order of the graph's nodes"),
    *(
        (table(TABLE.assign(age=values)), "'age' must hold numbers")
        for values in (
            pd.period_range("1990", periods=4, freq="Y"),
            pd.date_range("1990", periods=4),
            np.array([1 + 1j, 2, 3, 4]),
            np.array([1 + 1j, 2, 3, 4], object),
        )
    ),
]


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize(("call", "match"), [*OTHERS, *MODELS, *TABLES])
def test_what_breaks_a_rule_is_refused(tmp_path, call, match):
    with pytest.raises(ValueError, match=match):
        call(tmp_path)


@pytest.mark.parametrize(("call", "match"), FILES)
def test_a_file_that_breaks_a_rule_is_refused_by_its_name(tmp_path, call, match):
    with pytest.raises(ValueError, match=f"mine.npz: .*({match})"):
        call(tmp_path)
