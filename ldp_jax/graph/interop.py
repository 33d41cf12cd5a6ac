"""Graphs of other libraries, read and written; users keep the names that they had there.

No such library is imported before an object of it is seen.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, cast, runtime_checkable

import jax
import numpy as np
import scipy.sparse
from jaxtyping import Int

from ldp_jax.core import validate
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import Graph
from ldp_jax.graph import _files, graphs

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


@runtime_checkable
class _Geometric(Protocol):
    edge_index: object
    num_nodes: int


@runtime_checkable
class _Dgl(Protocol):
    def edges(self) -> tuple: ...

    def num_nodes(self) -> int: ...


class _Source(NamedTuple):
    """Directed pairs of node numbers [m, 2], the names, and the weights [m, ...] by what the source calls them."""

    pairs: Int[np.ndarray, "m 2"]
    names: Names
    weights: Mapping[str, object] = {}
    directed: bool = False


ENDINGS = tuple(_files.READERS)
"""Of the graph files that :func:`open_file` opens; each may have .gz behind it."""

_WEIGHTS = ("weight", "weights", "edge_weight", "edge_attr", "w")
"""Under these names, in letters of any case, libraries keep the weights of edges."""


def read(
    source: object,
    nodes: int | Iterable | None = None,
    *,
    pairs_in: Literal["rows", "columns"] | None = None,
    clean: bool = False,
) -> NamedGraph:
    """An undirected graph from another library's object, or from a file of :func:`open_file`.

    ========================================== =====================================
    =========================== source                                     nodes, in order
    ``nodes`` ========================================== =====================================
    =========================== networkx graph, graph file                 ``G.nodes``
    optional: order, isolated ones scipy sparse matrix [n, n]                 its rows
    optional: their names PyTorch Geometric or DGL graph             0, ..., num_nodes - 1
    optional: their names pandas table of two columns, and weight    as they first appear
    optional: order, isolated ones pandas table whose index is its columns    its index
    optional: order, isolated ones array [m, 2], or edge_index [2, m]         the numbers that it
    holds             needed: n, or the n names ``GraphsTuple``                            0, ..., n
    - 1                         optional: their names ==========================================
      ===================================== ===========================

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
    validate.one_of(("rows", "columns"), pairs_in=pairs_in or "rows")
    if isinstance(nodes, (np.ndarray, jax.Array)) and nodes.ndim == 0:
        nodes = nodes.item()
    found = _parse(source, nodes, pairs_in)
    n = len(found.names)
    if n == 0:
        raise ValueError("source must have a node, and is an empty graph")
    weights = {
        name: _weights(name, values, len(found.pairs)) for name, values in found.weights.items()
    }
    other = [name for name, values in weights.items() if (values != 1).any()]
    none = [values == 0 for values in weights.values() if values.ndim == 1]
    pairs = found.pairs[~np.any(none, 0)] if none else found.pairs
    low = pairs.min(1)
    high = pairs.max(1)
    loops = low == high
    code = low[~loops] * n + high[~loops]
    upwards = pairs[~loops, 0] == low[~loops]
    forward, repeats = np.unique(code[upwards], return_counts=True)
    backward, more = np.unique(code[~upwards], return_counts=True)
    both = np.intersect1d(forward, backward)
    single = len(forward) + len(backward) - 2 * len(both)
    faults = {
        "self-loops": int(loops.sum()),
        "repeated edges": int((repeats - 1).sum() + (more - 1).sum()),
        "edges without their reverse": single if len(both) or found.directed else 0,
    }
    if (any(faults.values()) or other) and not clean:
        counted = [f"{number} {what}" for what, number in faults.items() if number]
        listed = ", ".join([*counted, *(f"weights other than 1 in {name!r}" for name in other)])
        raise ValueError(
            f"source must be a simple undirected graph, got {listed}: clean=True drops self-loops, "
            "weights and edges of weight 0, merges repeats and takes an edge in one direction for both"
        )
    edges = np.stack(np.divmod(np.union1d(forward, backward), n), 1)
    return NamedGraph(graphs.from_edges(edges, n, pairs_in="rows"), found.names)


def open_file(
    path: str | os.PathLike[str], *, max_bytes: int = _files.MAX_BYTES
) -> "networkx.Graph | scipy.sparse.coo_array":
    r"""A graph file as another library's object, which :func:`read` takes, as it takes the path itself.

    ================================ =============================
    =========================================== ending                           reader
    names ================================ =============================
    =========================================== .graphml, .gexf                  networkx
    the ids of the nodes .gml                             networkx                      labels, or
    ids where not all have their own .net, .paj (Pajek)               networkx
    labels .json (node-link)                networkx                      ids
    .edgelist, .edges, .txt          networkx                      the two words of each line
    .mtx (MatrixMarket)              scipy                         rows, from 0
    ================================ =============================
    ===========================================

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


def read_numbered(source: object) -> Graph | None:
    """The graph of an object that can be read in one way alone, or None.

    No message may name a private edge.

    A networkx graph of the nodes 0, ..., n - 1; a scipy matrix, PyTorch Geometric or DGL graph that
    holds each edge in both directions: an edge in one of them alone may be a directed one.

    >>> both, one = scipy.sparse.csr_array([[0, 1], [1, 0]]), scipy.sparse.csr_array([[0, 1], [0, 0]])
    >>> read_numbered(both).senders.tolist(), read_numbered(one)
    ([1, 0], None)
    """
    of_networkx = validate.is_of("networkx", source)
    names = None
    try:
        if of_networkx:
            names = range(len(found := set(cast("networkx.Graph", source).nodes)))
            if found != {*names}:
                return None
        elif not (scipy.sparse.issparse(source) or isinstance(source, (_Geometric, _Dgl))):
            return None
        graph = read(source, names).graph
        if of_networkx or len(_parse(source, None, None).pairs) == len(graph.senders):
            return graph
    except (ValueError, TypeError, AttributeError):
        pass
    return None


def to_edge_index(graph: Graph) -> Int[np.ndarray, "2 edges"]:
    """Both directions of each edge as PyTorch Geometric has them, int32 [2, 2 m].

    >>> to_edge_index(graphs.from_edges([[0, 1]], num_nodes=2)).tolist()
    [[1, 0], [0, 1]]
    """
    graph = graphs.as_graph(graph)
    return np.stack([np.asarray(graph.senders), np.asarray(graph.receivers)])


def to_scipy(graph: Graph) -> scipy.sparse.csr_array:
    """The adjacency matrix [n, n] of zeros and ones, float32.

    >>> to_scipy(graphs.from_edges([[0, 1]], num_nodes=2)).toarray().tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    n = graphs.num_nodes(graph)
    senders, receivers = to_edge_index(graph)
    return scipy.sparse.csr_array(
        (np.ones(len(senders), np.float32), (receivers, senders)), shape=(n, n)
    )


def to_networkx(graph: Graph, names: Names | None = None) -> "networkx.Graph":
    """A networkx graph, of an undirected noisy graph too, whose nodes have their names.

    >>> to_networkx(*read([[0, 1]], nodes=["ana", "bo"])).edges
    EdgeView([('ana', 'bo')])
    """
    import networkx

    made = networkx.Graph()
    users = _named(graphs.num_nodes(graph), names).tolist()
    made.add_nodes_from(users)
    made.add_edges_from((users[u], users[v]) for u, v in graphs.to_edges(graph).tolist())
    return made


def to_table(names: Names, columns: Mapping[str, np.ndarray]) -> "pandas.DataFrame":
    """A pandas table with a row a user: of a matrix [n, k] a column for each of its k numbers.

    ``ValueError`` for a column without a row for each name, or two columns of one name.

    >>> to_table(np.array(["ana", "bo"]), {"class": np.array([1, 0]), "z": np.eye(2)}).columns.tolist()
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
        new = (
            {name: values}
            if values.ndim == 1
            else {f"{name}{k}": values[:, k] for k in range(values.shape[1])}
        )
        if twice := made.keys() & new:
            raise ValueError(
                f"columns must have names of their own, got {', '.join(sorted(twice))} twice"
            )
        made |= new
    return pandas.DataFrame(made, index=pandas.Index(names, name="user"))


def _parse(source: object, nodes: int | Iterable | None, pairs_in: str | None) -> _Source:
    if isinstance(source, (str, os.PathLike)):
        source = open_file(source)
    if isinstance(source, graphs.GraphsTuple):
        weights = {} if source.edges is None else {"edges": source.edges}
        source = source._replace(edges=None)
        return _numbered(to_edge_index(source).T, graphs.num_nodes(source), nodes, weights)
    if scipy.sparse.issparse(source):
        matrix = scipy.sparse.coo_array(source)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"source must be an adjacency matrix [n, n], got shape {matrix.shape}")
        return _numbered(np.stack(matrix.coords, 1), matrix.shape[0], nodes, {"data": matrix.data})
    if validate.is_of("networkx", source):
        return _parse_networkx(cast("networkx.Graph", source), nodes)
    if hasattr(source, "to_pandas") and hasattr(source, "columns"):  # a table of Arrow, polars
        source = cast("Any", source).to_pandas()
    if validate.is_of("pandas", source):
        return _parse_table(cast("pandas.DataFrame", source), nodes, pairs_in)
    if isinstance(source, (list, tuple)) or hasattr(source, "__array__"):  # tensors too
        if nodes is None:
            raise ValueError(
                "nodes must say how many nodes there are, or their names: an array has edges alone"
            )
        names = np.arange(nodes) if isinstance(nodes, (int, np.integer)) else _named(None, nodes)
        if names.dtype.kind in "iu" and (names != np.arange(len(names))).any():
            raise ValueError(
                "nodes must not be numbers in another order beside an array, whose numbers may be places or names: "
                "give a pandas table of two columns for names, or the number of nodes for places"
            )
        return _Source(_rows(_host(source, "source"), pairs_in, len(names)), names)
    if isinstance(source, _Geometric) and hasattr(source, "edge_index"):
        given = {name: getattr(source, name, None) for name in _WEIGHTS}
        weights = {name: values for name, values in given.items() if values is not None}
        return _numbered(
            _host(source.edge_index, "edge_index").T, int(source.num_nodes), nodes, weights
        )
    if isinstance(source, _Dgl):
        pairs = np.stack([_host(end, "edges") for end in source.edges()], 1)
        weights = {
            name: values
            for name, values in getattr(source, "edata", {}).items()
            if _is_weight(name)
        }
        return _numbered(pairs, int(source.num_nodes()), nodes, weights)
    raise ValueError(
        "source must be a networkx graph, a scipy sparse matrix, a pandas table, an array of edges, a GraphsTuple, "
        f"the path of a graph file, or have edge_index and num_nodes, got {type(source).__name__}"
    )


def _is_weight(name: object) -> bool:
    return isinstance(name, str) and name.lower() in _WEIGHTS


def _weights(name: str, values: object, count: int) -> np.ndarray:
    """Weights of edges [count, ...] as numbers; the message shows none of them."""
    array = _host(values, name)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.dtype.kind not in "biufc":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError):
            array = np.full(array.shape, np.nan)
    if array.shape[:1] != (count,) or np.isnan(array).any():
        raise ValueError(
            f"weights in {name!r} must be a number for each edge, and are not: some may be missing"
        )
    return array


def _parse_networkx(graph: "networkx.Graph", nodes: int | Iterable | None) -> _Source:
    nodes = _given_names(nodes, len(graph))
    names = _named(None, _in_order(graph.nodes) if nodes is None else nodes)
    if unknown := {*graph.nodes} - {*names.tolist()}:
        raise _unnamed(unknown)
    edges = list(graph.edges(data=True))
    weights: dict[str, list] = {}
    for place, (_, _, attributes) in enumerate(edges):
        for name, value in attributes.items():
            if _is_weight(name):
                weights.setdefault(name, [1] * len(edges))[place] = value
    number = {name: place for place, name in enumerate(names.tolist())}
    pairs = np.array([(number[u], number[v]) for u, v, _ in edges], np.int64).reshape(-1, 2)
    return _Source(pairs, names, weights, graph.is_directed())


def _parse_table(
    table: "pandas.DataFrame", nodes: int | Iterable | None, pairs_in: str | None
) -> _Source:
    import pandas

    if isinstance(nodes, (int, np.integer)):
        raise ValueError("nodes must be names, as the table has them, got a number")
    if pairs_in == "columns":
        raise ValueError(
            "pairs_in must be 'rows' of a table, which has an edge a row: table.T turns another"
        )
    if _is_matrix(table, pairs_in):
        return _parse_adjacency(table, nodes)
    weights = {}
    if table.ndim == 2 and table.columns.is_unique:
        named = [name for name in table.columns if _is_weight(name) and name.lower() != "w"]
        weights = {name: table[name].to_numpy() for name in named}
        table = table.drop(columns=named)
    if table.ndim != 2 or table.shape[1] != 2:
        raise ValueError(
            "source must be a table of two columns, the ends of each edge, and perhaps a third, named "
            f"weight, or a matrix whose index is its columns; got shape {table.shape} without weights: "
            "table[[one, other]] chooses, scipy.sparse.csr_array(table) is of a matrix without names"
        )
    if table.isna().to_numpy().any():
        raise ValueError("source must name both ends of each edge, and misses some")
    ends = table.to_numpy(object).ravel()
    names = _named(None, _in_order(pandas.unique(ends)) if nodes is None else nodes)
    return _Source(_found(ends, names).reshape(-1, 2), names, weights)


def _is_matrix(table: "pandas.DataFrame", pairs_in: str | None) -> bool:
    """Whether the index of a table holds the names of its columns.

    ``ValueError`` for what may be two edges too.
    """
    if (
        pairs_in
        or table.ndim != 2
        or table.shape[0] != table.shape[1]
        or {*table.index} != {*table.columns}
    ):
        return False
    if list(table.index) != [0, 1] or list(table.columns) != [0, 1]:
        return True
    if all(dtype.kind in "biuf" for dtype in table.dtypes):
        raise ValueError(
            "source of shape (2, 2) must say how it is read: as two edges with pairs_in='rows', or as an adjacency "
            "matrix by scipy.sparse.csr_array(table)"
        )
    return False


def _parse_adjacency(table: "pandas.DataFrame", nodes: Iterable | None) -> _Source:
    own = _named(None, table.index)
    names = _named(None, _in_order(own.tolist()) if nodes is None else nodes)
    place = _found(own.astype(object), names)
    values = _weights("the matrix", table.loc[:, table.index].to_numpy().ravel(), len(own) ** 2)
    stored = np.flatnonzero(values)
    pairs = place[np.stack(np.divmod(stored, len(own)), 1)]
    return _Source(pairs, names, {"the matrix": values[stored]})


def _found(ends: np.ndarray, names: Names) -> np.ndarray:
    """The place of each end among the names."""
    import pandas

    places = pandas.Index(names, tupleize_cols=False).get_indexer(
        pandas.Index(ends, tupleize_cols=False)
    )
    if (places < 0).any():
        raise _unnamed(set(ends[places < 0]))
    return places.astype(np.int64)


def _rows(edges: np.ndarray, pairs_in: str | None, n: int) -> np.ndarray:
    """Pairs as rows; what may be read in two ways is refused."""
    if edges.size == 0:
        return np.zeros((0, 2), np.int64)
    if edges.ndim != 2 or 2 not in edges.shape or not np.issubdtype(edges.dtype, np.integer):
        hint = ": of an adjacency matrix give scipy.sparse.csr_array(it)" if edges.ndim == 2 else ""
        hint = ": of names give pandas.DataFrame(it)" if edges.dtype.kind in "OUS" else hint
        raise ValueError(
            f"source must be integers [m, 2] or [2, m], got {edges.dtype} of shape {edges.shape}{hint}"
        )
    if edges.shape == (2, 2) and pairs_in is None:
        (a, b), (c, d) = edges.tolist()
        raise ValueError(
            f"source of shape (2, 2) must say how it is read: {a} - {b} and {c} - {d} with pairs_in='rows', or "
            f"{a} - {c} and {b} - {d} with pairs_in='columns'"
        )
    columns = pairs_in == "columns" if pairs_in else edges.shape[0] == 2
    if edges.shape[0 if columns else 1] != 2:
        raise ValueError(
            f"source must have shape {'[2, m]' if columns else '[m, 2]'}, got {edges.shape}"
        )
    validate.ids(
        n, "one of the nodes", source=edges
    )  # in 64 bits a larger number would be negative
    return (edges.T if columns else edges).astype(np.int64)


def _numbered(
    pairs: np.ndarray,
    n: int,
    nodes: int | Iterable | None,
    weights: Mapping[str, object] | None = None,
) -> _Source:
    nodes = _given_names(nodes, n)
    if pairs.size and (
        pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer)
    ):
        raise ValueError(
            f"edge_index must be integers of shape [2, m], got {pairs.dtype} of {pairs.ndim} axes"
        )
    validate.ids(n, "one of the nodes", edge_index=pairs)
    return _Source(pairs.reshape(-1, 2).astype(np.int64), _named(n, nodes), weights or {})


def _given_names(nodes: int | Iterable | None, n: int) -> Iterable | None:
    """Names of nodes, where they are given, of a source that has n nodes."""
    if not isinstance(nodes, (int, np.integer)):
        return nodes
    if nodes != n:
        raise ValueError(f"nodes must be {n}, as the source has them, got {nodes}")
    return None


def _named(n: int | None, names: Iterable | None) -> Names:
    """Names of n nodes, each once; their numbers by default."""
    if names is None:
        return np.arange(n or 0)
    if isinstance(names, (set, frozenset)):
        raise ValueError("nodes must be names in order, and a set has none")
    if hasattr(names, "columns"):
        raise ValueError(
            "nodes must be names, got a table, which may be its index or a column: give that"
        )
    listed = [
        name.item() if isinstance(name, np.generic) else name for name in validate.names(names)
    ]
    # Names of one simple type make an array of it; tuples stay names.
    simple = len({type(name) for name in listed}) <= 1 and isinstance(
        listed[0] if listed else 0, (str, int)
    )
    made = np.array(listed) if simple else np.empty(0)
    # Whole numbers of 64 bits, and words that end in NUL, stay as they are.
    if not simple or made.dtype.kind == "f" or made.tolist() != listed:
        made = np.empty(len(listed), object)
        made[:] = listed
    if n is not None and len(made) != n:
        raise ValueError(f"nodes must name {n} nodes, got {len(made)} names")
    if len(set(made.tolist())) != len(made):
        raise ValueError("nodes must name each node once, and repeat some")
    numbers = set() if simple else {str(name) for name in listed if isinstance(name, int)}
    if both := numbers.intersection(name for name in listed if isinstance(name, str)):
        raise ValueError(
            f"nodes must name each node once, got {min(both)!r} as a number and as text: astype(str)"
        )
    return made


def _in_order(names: Iterable) -> list:
    """Names as they come.

    The numbers 0 to n - 1 ascending: whoever uses these has other rows by them.
    """
    listed = list(names)
    return sorted(listed) if set(listed) == set(range(len(listed))) else listed


def _unnamed(ends: set) -> ValueError:
    return ValueError(
        f"nodes must name every node of the source, and miss {len(ends)}, as {next(iter(ends))!r}"
    )


def _host(values: object, name: str) -> np.ndarray:
    """A tensor of any library as an array; ``ValueError`` where it hides an entry."""
    for step in ("detach", "cpu"):  # of a tensor that is trained, or lies on a device
        values = getattr(values, step, lambda here=values: here)()
    return validate.complete(**{name: values})
