"""Graph files of other programs: the graph and the names come back, and nothing is guessed in
silence.
"""

import builtins
import gzip
import json

import networkx
import numpy as np
import pytest
import scipy.io
import scipy.sparse

from ldp_jax import datasets
from ldp_jax.graph import graphs, interop
from tests.datasets.formats import damaged

FRIENDS = networkx.Graph([("ana", "bo"), ("bo", "cy"), ("cy", "ana"), ("cy", "dee")])
FRIENDS.add_node("eve")
NUMBERS = networkx.Graph([(3, 0), (0, 2), (2, 1)])  # first seen in another order


def named(found):
    """Edges as pairs of names, and the names."""
    graph, names = found
    return {frozenset(names[pair].tolist()) for pair in graphs.to_edges(graph)}, names.tolist()


def write_json(graph, path, edges):
    path.write_text(json.dumps(networkx.node_link_data(graph, edges=edges)))


def write_matrix(graph, path):
    scipy.io.mmwrite(path, networkx.to_scipy_sparse_array(graph, sorted(graph), dtype=int))


def write_named_pajek(graph, path):
    """The section that names the network has a number, which is none of nodes."""
    networkx.write_pajek(graph, path)
    path.write_text(f"*Network 3 of friends\n{path.read_text()}")


WRITERS = {
    "a.graphml": networkx.write_graphml,
    "a.gexf": networkx.write_gexf,
    "a.gml": networkx.write_gml,
    "a.net": networkx.write_pajek,
    "a.paj": write_named_pajek,
    "links.json": lambda graph, path: write_json(graph, path, "links"),
    "edges.json": lambda graph, path: write_json(graph, path, "edges"),
    "a.GraphML": networkx.write_graphml,
    "a.graphml.gz": networkx.write_graphml,
}
LISTS = {
    "a.edgelist": networkx.write_edgelist,
    "a.edges": lambda graph, path: networkx.write_edgelist(graph, path, data=False, delimiter=","),
    "a.txt": lambda graph, path: networkx.write_edgelist(graph, path, data=False),
    "a.txt.gz": lambda graph, path: networkx.write_edgelist(graph, path, data=False),
}


@pytest.mark.parametrize("name", [*WRITERS, *LISTS])
def test_names_and_edges_come_back(tmp_path, name):
    path = tmp_path / name
    friends = FRIENDS if name in WRITERS else FRIENDS.subgraph(["ana", "bo", "cy", "dee"])
    {**WRITERS, **LISTS}[name](friends, path)
    wanted = {frozenset(edge) for edge in friends.edges}, list(friends)
    for given in (path, str(path)):
        edges, names = named(interop.read(given))
        assert (edges, sorted(names)) == (wanted[0], sorted(wanted[1]))
    data = datasets.load(path)
    assert named((data.graph, np.array(data.node_names))) == (edges, names)
    assert (data.num_features, data.num_classes, data.source) == (0, 0, str(path))


@pytest.mark.parametrize("name", [*WRITERS, *LISTS])
def test_names_that_are_whole_numbers_are_numbers_in_order(tmp_path, name):
    """Rows of features by number are those of the nodes."""
    path = tmp_path / name
    {**WRITERS, **LISTS}[name](NUMBERS, path)
    graph, names = interop.read(path)
    assert names.tolist() == [0, 1, 2, 3]
    assert graphs.to_edges(graph).tolist() == [[0, 2], [0, 3], [1, 2]]


def test_a_number_that_is_written_otherwise_stays_a_name(tmp_path):
    (tmp_path / "a.edges").write_text("007 7\n1 7\n")
    assert interop.read(tmp_path / "a.edges").names.tolist() == ["007", "7", "1"]
    (tmp_path / "a.txt").write_text("007 7\n")  # one edge: no set of graphs, which are long
    assert datasets.load(tmp_path / "a.txt").node_names == ("007", "7")


@pytest.mark.parametrize("dense", [False, True])
def test_matrix_market(tmp_path, dense):
    adjacency = networkx.to_scipy_sparse_array(NUMBERS, range(4), dtype=float)
    scipy.io.mmwrite(tmp_path / "a.mtx", adjacency.toarray() if dense else adjacency)
    (tmp_path / "a.mtx.gz").write_bytes(gzip.compress((tmp_path / "a.mtx").read_bytes()))
    for name in ("a.mtx", "a.mtx.gz"):
        graph, names = interop.read(tmp_path / name)
        assert names.tolist() == [0, 1, 2, 3]
        assert graphs.to_edges(graph).tolist() == [[0, 2], [0, 3], [1, 2]]
        assert datasets.load(tmp_path / name).num_edges == 3
    assert interop.read(tmp_path / "a.mtx", nodes=list("abcd")).names.tolist() == list("abcd")
    pattern = "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 2\n"
    (tmp_path / "p.mtx").write_text(pattern)
    assert graphs.to_edges(interop.read(tmp_path / "p.mtx").graph).tolist() == [[0, 1], [1, 2]]
    (tmp_path / "p.mtx").write_text(pattern.replace("3 3 2", f"{10**15} {10**15} 2"))
    with pytest.raises(ValueError, match="declares 1000000000000000 rows"):
        interop.read(tmp_path / "p.mtx")


@pytest.mark.parametrize(
    "name", ["a.graphml", "a.gexf", "a.gml", "a.net", "links.json", "a.edgelist"]
)
def test_weights_and_directions_of_files_have_the_one_rule(tmp_path, name):
    path = tmp_path / name
    write = {**WRITERS, **LISTS}[name]
    weighted = networkx.Graph()
    weighted.add_edge("ana", "bo", weight=2.0)
    weighted.add_edge("bo", "cy", weight=1.0)
    write(weighted, path)
    with pytest.raises(ValueError, match="weights other than 1 in 'weight'"):
        interop.read(path)
    with pytest.raises(ValueError, match=f"{name}: .*weights other than 1 in 'weight'.*clean=True"):
        datasets.load(path)
    wanted = {frozenset(("ana", "bo")), frozenset(("bo", "cy"))}
    assert named(interop.read(path, clean=True))[0] == wanted
    assert datasets.load(path, clean=True).num_edges == 2
    mixed = networkx.DiGraph([("ana", "bo"), ("bo", "ana"), ("bo", "cy")])
    write(mixed, path)
    with pytest.raises(ValueError, match="1 edges without their reverse"):
        interop.read(path)
    assert named(interop.read(path, clean=True))[0] == wanted
    write(mixed.to_undirected().to_directed(), path)
    assert named(interop.read(path))[0] == wanted


def test_lists_of_edges_as_they_are_found(tmp_path):
    path = tmp_path / "a.txt"
    for text in (
        "# FromNodeId\tToNodeId\n0\t2\n2\t1\n",  # SNAP
        "% sym unweighted\n% 2 3 3\n0 2\n2 1\n",  # KONECT
        "0, 2\n2, 1\n",
        "0 2 1\n2 1 1\n",
        "\ufeff0 2\r\n2 1\r\n\r\n",
        "0 2 {'since': 2019}\n2 1 {'since': 2020}\n",
    ):
        path.write_text(text)
        graph, names = interop.read(path)
        assert (names.tolist(), graphs.to_edges(graph).tolist()) == ([0, 1, 2], [[0, 2], [1, 2]])
    path.write_text("0 1\n1 2\n0 1\n")
    with pytest.raises(ValueError, match="1 repeated edges"):
        interop.read(path)
    path.write_text("ana bo\n")
    assert interop.read(path, nodes=["ana", "bo", "cy"]).graph.n_node.tolist() == [3]


MATRIX = "%%MatrixMarket matrix coordinate integer symmetric\n3 3 2\n"

PAJEK = '*Vertices 2\n1 "a"\n2 "b"\n*Edges\n'
STRAY = '{"nodes": [{"id": 1}], "links": [{"source": 1, "target": 2}]}'
NO_SQUARE = "%%MatrixMarket matrix coordinate pattern general\n2 3 1\n1 3\n"
NESTED = '<node id="a"/><node id="b"><graph edgedefault="undirected"><node id="c"/></graph></node>'


def graphml(inside):
    return (
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
        f'<graph edgedefault="undirected">{inside}</graph></graphml>'
    )


REFUSED = [
    ("a.txt", "from to\n0 2\n2 1\n", "may be an edge or a header"),
    ("a.txt", "from to 1\n0 2 1\n2 1 1\n", "may be an edge or a header"),
    ("a.txt", "from to w\n0 2 x\n2 1 y\n", "may be an edge or a header"),
    ("a.txt", "0 2\n1\n", "must name two nodes a line"),
    ("a.txt", "0,2\n,1\n", "must name two nodes a line"),
    ("a.txt", "0 2 1 99\n2 1 1 98\n", "two names a line, and perhaps a weight"),
    ("a.txt", "0 2 1\n2 1\n", "a number for each edge|and perhaps a weight"),
    ("a.txt", "# nothing\n", "is an empty graph"),
    ("a.txt.gz", "0 1", "a whole file of gzip"),
    ("a.edges", b"\xff\xfe", "read_edgelist reads, which raised UnicodeDecodeError$"),
    ("a.graphml", "<graphml>secret", "read_graphml reads, which raised ParseError$"),
    ("a.graphml", graphml('<node id="a"/><node id="a"/>'), "each node once"),
    ("a.graphml", graphml('<node id="a"/><edge source="a" target="b"/>'), "each node once"),
    ("a.graphml", graphml(NESTED), "each node once"),
    ("a.gexf", "<gexf></gexf>", "read_gexf reads, which raised NetworkXError$"),
    ("a.gml", "graph [ edge [ source 0 target 1 ] ]", "which raised NetworkXError$"),
    ("a.net", PAJEK.replace("b", "a") + "1 2\n", "each node once"),
    ("a.net", PAJEK + "1 3\n", "each node once"),
    ("a.net", PAJEK + "1 2\n*Arcs\n2 1\n", "one section"),
    ("a.net", PAJEK.replace("Edges", "Edgeslist") + "1 2 1\n", "one section"),
    ("a.json", "{", "node_link_graph reads, which raised JSONDecodeError$"),
    ("a.json", '{"nodes": [], "adjacency": []}', "adjacency_graph"),
    ("a.json", STRAY, "each node once"),
    ("a.mtx", "1 2 3", "mmread reads, which raised ValueError$"),
    ("a.mtx", MATRIX + "2 1 1\0 3 2 1\n", "entry of kind integer a line"),  # SciPy dies of it
    ("a.mtx", MATRIX + "2 1 1 3 2 1\n3 1 1\n", "entry of kind integer a line"),
    ("a.mtx", NO_SQUARE, r"\[n, n\]"),
    ("a.graph", "3 2\n2\n1 3\n2\n", "METISGraphReader"),
    ("a.csv", "from,to\n0,1\n", r"pandas\.read_csv"),
    ("a.npz", "", r"ldp_jax\.load"),
    ("a.abc", "", r"must end in \.graphml, .*\.mtx.*interop\.read takes objects too"),
]


@pytest.mark.parametrize(("name", "text", "message"), REFUSED)
def test_what_does_not_fit_is_refused_without_a_word_of_the_file(tmp_path, name, text, message):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=message) as caught:
        interop.read(path)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_gml_without_labels_or_with_equal_ones_is_named_by_ids(tmp_path):
    for label in ("", 'label "x"'):
        text = f"graph [ node [ id 5 {label} ] node [ id 7 {label} ] edge [ source 5 target 7 ] ]"
        (tmp_path / "a.gml").write_text(text)
        assert interop.read(tmp_path / "a.gml").names.tolist() == [5, 7]


@pytest.mark.usefixtures("untyped")
def test_a_file_of_more_bytes_than_allowed_is_refused(tmp_path):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"0 1\n" * 1000))
    for call in (interop.open_file, datasets.load):
        with pytest.raises(ValueError, match="has more than 100 bytes"):
            call(path, max_bytes=100)
    with pytest.raises(ValueError, match="max_bytes must be a whole number"):
        interop.open_file(path, max_bytes=0)


def test_without_networkx_the_message_says_what_to_install(tmp_path, monkeypatch):
    networkx.write_gml(FRIENDS, tmp_path / "a.gml")
    real = builtins.__import__

    def without(name, *rest):
        if name.partition(".")[0] == "networkx":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"networkx opens a\.gml: pip install networkx"):
        interop.read(tmp_path / "a.gml")


@pytest.mark.parametrize(
    "name", ["a.graphml", "a.gexf", "a.gml", "a.net", "links.json", "a.edgelist", "a.mtx"]
)
def test_damaged_files_raise_value_errors_alone(tmp_path, name):
    """Warnings included, which are errors here."""
    path = tmp_path / name
    {**WRITERS, **LISTS, "a.mtx": write_matrix}[name](FRIENDS, path)
    data = path.read_bytes()
    refused = 0
    for seed in range(40):
        rng = np.random.default_rng([7, seed])
        path.write_bytes(damaged(rng, "a.txt", data))
        try:
            interop.read(path)
        except ValueError:
            refused += 1
    assert refused
