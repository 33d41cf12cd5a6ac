"""Graphs of other libraries, read and written; users keep the names that they had there.

No such library is imported before an object of it is seen.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import scipy.sparse
from jaxtyping import Int

from ldp_jax.core import validate
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import Graph
from ldp_jax.graph import _files, _sources, graphs

if TYPE_CHECKING:
    import networkx
    import pandas

Names = np.ndarray
"""One name a node, in the order of nodes: strings, integers, or any hashable objects."""


class NamedGraph(NamedTuple):
    """An undirected graph of n nodes, and their names [n].

    Row i of all results is about ``names[i]``.
    """

    graph: Graph
    names: Names

    __repr__ = by_shapes


ENDINGS = tuple(_files.READERS)
"""The endings of graph files that :func:`open_file` opens; each may have .gz behind it."""


def read(
    source: object,
    nodes: _sources.Nodes = None,
    *,
    pairs_in: Literal["rows", "columns"] | None = None,
    clean: bool = False,
) -> NamedGraph:
    """Read an undirected graph from another library's object, or from a file of :func:`open_file`.

    ===================================  =======================  ==========================
    source                               nodes, in order          ``nodes``
    ===================================  =======================  ==========================
    networkx graph, graph file           ``G.nodes``              optional: order, isolated
    scipy sparse matrix [n, n]           its rows                 optional: their names
    PyTorch Geometric or DGL graph       0, ..., num_nodes - 1    optional: their names
    pandas table of edges, and weights   as they first appear     optional: order, isolated
    pandas table, index like columns     its index                optional: order, isolated
    array [m, 2], or edge_index [2, m]   the numbers it holds     needed: n, or the n names
    ``GraphsTuple``                      0, ..., n - 1            optional: their names
    ===================================  =======================  ==========================

    Where networkx or pandas name nodes by the numbers 0 to n - 1, these are in order, as rows of
    features are. Each edge may be there once, or each in both directions. Anything else is refused,
    unless ``clean``; so is a directed networkx graph where an edge has no reverse. Tables of other
    libraries are read by their ``to_pandas``.

    One rule holds for weights in all sources: those that are not all 1 are refused, unless
    ``clean``, which leaves out edges of weight 0 and gives the others the weight 1. Weights are
    what a scipy matrix stores, zeros too, and edge attributes called weight, weights, edge_weight,
    edge_attr or w, in any case. A table may have a column that is called so, but w. Missing
    weights, ends and names are refused, as are arrays with masked entries.

    Args:
      source: see above.
      nodes: how many nodes there are, or their names.
      pairs_in: of arrays: ``rows`` [m, 2] or ``columns`` [2, m]; needed where the shape is [2, 2].
        A 2 x 2 pandas table of numbers without names is two edges with ``rows``.
      clean: drop self-loops and weights, merge repeated edges, and take an edge in one direction
        for both.

    ``ValueError`` for other objects, names that do not fit, or edges of no simple undirected graph.

    >>> import networkx
    >>> graph, names = read(networkx.Graph([("ana", "bo"), ("bo", "cy")]))
    >>> names.tolist(), graph.senders.tolist()
    (['ana', 'bo', 'cy'], [1, 0, 2, 1])
    >>> read(np.array([[0, 1, 1, 2], [1, 0, 2, 1]]), nodes=4).graph.n_node.tolist()
    [4]
    """
    edges, names = _sources.simple_edges(source, nodes, pairs_in, clean)
    return NamedGraph(graphs.from_edges(edges, len(names), pairs_in="rows"), names)


def open_file(
    path: str | os.PathLike[str], *, max_bytes: int = _files.MAX_BYTES
) -> "networkx.Graph | scipy.sparse.coo_array":
    r"""Open a graph file as an object that :func:`read` takes, as it takes the path itself.

    ==========================  ========  ==============================================
    ending                      reader    names
    ==========================  ========  ==============================================
    .graphml, .gexf             networkx  the ids of the nodes
    .gml                        networkx  labels, or ids where not all have their own
    .net, .paj (Pajek)          networkx  labels
    .json (node-link)           networkx  ids
    .edgelist, .edges, .txt     networkx  the two words of each line
    .mtx (MatrixMarket)         scipy     rows, from 0
    ==========================  ========  ==============================================

    Each may be packed with gzip (.gz). Names in text that are all whole numbers become numbers. A
    line of an edge list may have a weight, or the attributes that networkx writes; lines that begin
    with # or % are comments.

    Args:
      path: of the file.
      max_bytes: the most that the file may have, unpacked.

    ``ValueError`` for another ending, which says what reads such a file, and for a file that does
    not fit; ``ImportError`` where networkx is not installed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(f"{folder}/friends.edgelist").write_text("ana bo\nbo cy\n")
    ...     read(f"{folder}/friends.edgelist").names.tolist()
    ['ana', 'bo', 'cy']
    """
    validate.integer_in(1, max_bytes=max_bytes)
    return _files.opened(Path(path), max_bytes)


def to_edge_index(graph: Graph) -> Int[np.ndarray, "2 edges"]:
    """List both directions of each edge as PyTorch Geometric has them, int32 [2, 2 m].

    >>> to_edge_index(graphs.from_edges([[0, 1]], num_nodes=2)).tolist()
    [[1, 0], [0, 1]]
    """
    graph = graphs.as_graph(graph)
    return np.stack([np.asarray(graph.senders), np.asarray(graph.receivers)])


def to_scipy(graph: Graph) -> scipy.sparse.csr_array:
    """Make the adjacency matrix [n, n] of zeros and ones, float32.

    >>> to_scipy(graphs.from_edges([[0, 1]], num_nodes=2)).toarray().tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    n = graphs.num_nodes(graph)
    senders, receivers = to_edge_index(graph)
    return scipy.sparse.csr_array(
        (np.ones(len(senders), np.float32), (receivers, senders)), shape=(n, n)
    )


def to_networkx(graph: Graph, names: Names | None = None) -> "networkx.Graph":
    """Make a networkx graph whose nodes have their names, of an undirected noisy graph too.

    >>> to_networkx(*read([[0, 1]], nodes=["ana", "bo"])).edges
    EdgeView([('ana', 'bo')])
    """
    import networkx

    made = networkx.Graph()
    users = _sources.named(names, graphs.num_nodes(graph)).tolist()
    made.add_nodes_from(users)
    made.add_edges_from((users[u], users[v]) for u, v in graphs.to_edges(graph).tolist())
    return made


def to_table(names: Names, columns: Mapping[str, np.ndarray]) -> "pandas.DataFrame":
    """Make a pandas table with a row for each user, and k columns for a matrix [n, k].

    ``ValueError`` for a column without a row for each name, or two columns of one name.

    >>> columns = {"class": np.array([1, 0]), "z": np.eye(2)}
    >>> to_table(np.array(["ana", "bo"]), columns).columns.tolist()
    ['class', 'z0', 'z1']
    """
    import pandas

    made: dict[str, np.ndarray] = {}
    for name, given in columns.items():
        values = np.asarray(given)
        if len(values) != len(names):
            raise ValueError(
                f"column {name!r} must have {len(names)} rows, one a name, got {len(values)}"
            )
        new = {name: values}
        if values.ndim > 1:
            new = {f"{name}{k}": values[:, k] for k in range(values.shape[1])}
        twice = made.keys() & new
        if twice:
            raise ValueError(
                f"columns must have names of their own, got {', '.join(sorted(twice))} twice"
            )
        made |= new
    return pandas.DataFrame(made, index=pandas.Index(names, name="user"))
