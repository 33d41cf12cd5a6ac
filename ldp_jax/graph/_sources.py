"""The edges and names of nodes in other libraries' objects; no such library is imported first."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import jax
import numpy as np
import scipy.sparse

from ldp_jax.core import validate
from ldp_jax.graph import _files

if TYPE_CHECKING:
    import networkx
    import pandas

_WEIGHTS = ("weight", "weights", "edge_weight", "edge_attr", "w")
"""Under these names, in letters of any case, libraries keep the weights of edges."""

_NODES = "one of the nodes"

Nodes = int | Iterable | None
"""How many nodes there are, or their names; None where the source says."""


@runtime_checkable
class _Geometric(Protocol):
    edge_index: object
    num_nodes: int


@runtime_checkable
class _Dgl(Protocol):
    def edges(self) -> tuple: ...

    def num_nodes(self) -> int: ...


@dataclass(frozen=True)
class _Source:
    """Directed pairs of node numbers [m, 2], the names [n], and the weights [m, ...] by name."""

    pairs: np.ndarray
    names: np.ndarray
    weights: Mapping[str, object] = field(default_factory=dict)
    directed: bool = False


def simple_edges(
    source: object, nodes: Nodes, pairs_in: str | None, clean: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Undirected edges [m, 2], each once, and names [n], as :func:`ldp_jax.graph.interop.read`."""
    validate.one_of(("rows", "columns"), pairs_in=pairs_in or "rows")
    if isinstance(nodes, (np.ndarray, jax.Array)) and nodes.ndim == 0:
        nodes = nodes.item()
    return _simple(_parse(source, nodes, pairs_in), clean)


def numbered_edges(source: object) -> tuple[np.ndarray, int] | None:
    """The edges and number of nodes of an object that can be read in one way alone, or None.

    These are networkx graphs of the nodes 0, ..., n - 1, and scipy matrices, PyTorch Geometric and
    DGL graphs with each edge in both directions: in one alone an edge may be a directed one. No
    message may name a private edge.
    """
    of_networkx = validate.is_of("networkx", source)
    nodes = None
    try:
        if of_networkx:
            found = {*cast("networkx.Graph", source).nodes}
            nodes = range(len(found))
            if found != {*nodes}:
                return None
        elif not (scipy.sparse.issparse(source) or isinstance(source, (_Geometric, _Dgl))):
            return None
        parsed = _parse(source, nodes, None)
        edges, names = _simple(parsed, clean=False)
    except (ValueError, TypeError, AttributeError):
        return None
    if not of_networkx and len(parsed.pairs) != 2 * len(edges):
        return None
    return edges, len(names)


def _simple(found: _Source, clean: bool) -> tuple[np.ndarray, np.ndarray]:
    n = len(found.names)
    validate.require(n, "source must have a node, and is an empty graph")
    pairs = found.pairs
    other = []
    absent = np.zeros(len(pairs), bool)
    for name, given in found.weights.items():
        values = _weights(name, given, len(pairs))
        if (values != 1).any():
            other.append(f"weights other than 1 in {name!r}")
        if values.ndim == 1:
            absent |= values == 0
    pairs = pairs[~absent]
    low = pairs.min(1)
    high = pairs.max(1)
    loops = low == high
    code = low[~loops] * n + high[~loops]
    upwards = pairs[~loops, 0] == low[~loops]
    forward, repeats = np.unique(code[upwards], return_counts=True)
    backward, more = np.unique(code[~upwards], return_counts=True)
    both = np.intersect1d(forward, backward)
    one_way = len(forward) + len(backward) - 2 * len(both)
    if not len(both) and not found.directed:  # an undirected graph, each edge once
        one_way = 0
    faults = {
        "self-loops": loops.sum(),
        "repeated edges": (repeats - 1).sum() + (more - 1).sum(),
        "edges without their reverse": one_way,
    }
    listed = [f"{number} {what}" for what, number in faults.items() if number] + other
    validate.require(
        clean or not listed,
        f"source must be a simple undirected graph, got {', '.join(listed)}: clean=True drops "
        "self-loops, weights and edges of weight 0, merges repeats and takes an edge in one "
        "direction for both",
    )
    edges = np.divmod(np.union1d(forward, backward), n)
    return np.stack(edges, 1), found.names


def _parse(source: Any, nodes: Nodes, pairs_in: str | None) -> _Source:
    if isinstance(source, (str, os.PathLike)):
        source = _files.opened(Path(source), _files.MAX_BYTES)
    if all(hasattr(source, part) for part in ("senders", "receivers", "n_node", "n_edge")):
        pairs = np.stack([_host(end, "source") for end in (source.senders, source.receivers)], 1)
        weights = {} if source.edges is None else {"edges": source.edges}
        n = int(np.sum(_host(source.n_node, "n_node")))
        return _numbered(pairs, n, nodes, weights)
    if scipy.sparse.issparse(source):
        matrix = scipy.sparse.coo_array(source)
        validate.require(
            matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1],
            f"source must be an adjacency matrix [n, n], got shape {matrix.shape}",
        )
        return _numbered(np.stack(matrix.coords, 1), matrix.shape[0], nodes, {"data": matrix.data})
    if validate.is_of("networkx", source):
        return _parse_networkx(source, nodes)
    if hasattr(source, "to_pandas") and hasattr(source, "columns"):  # a table of Arrow, polars
        source = source.to_pandas()
    if validate.is_of("pandas", source):
        return _parse_table(source, nodes, pairs_in)
    if isinstance(source, (list, tuple)) or hasattr(source, "__array__"):  # tensors too
        return _parse_array(_host(source, "source"), nodes, pairs_in)
    if isinstance(source, _Geometric) and hasattr(source, "edge_index"):
        given = {name: getattr(source, name, None) for name in _WEIGHTS}
        weights = {name: values for name, values in given.items() if values is not None}
        pairs = _host(source.edge_index, "edge_index").T
        return _numbered(pairs, int(source.num_nodes), nodes, weights)
    if isinstance(source, _Dgl):
        pairs = np.stack([_host(end, "edges") for end in source.edges()], 1)
        given = getattr(source, "edata", {})
        weights = {name: given[name] for name in given if _is_weight(name)}
        return _numbered(pairs, int(source.num_nodes()), nodes, weights)
    raise ValueError(
        "source must be a networkx graph, a scipy sparse matrix, a pandas table, an array of "
        "edges, a GraphsTuple, the path of a graph file, or have edge_index and num_nodes, got "
        f"{type(source).__name__}"
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
    validate.require(
        array.shape[:1] == (count,) and not np.isnan(array).any(),
        f"weights in {name!r} must be a number for each edge: some may be missing",
    )
    return array


def _parse_networkx(graph: "networkx.Graph", nodes: Nodes) -> _Source:
    nodes = _given_names(nodes, len(graph))
    names = _named(_in_order(graph.nodes) if nodes is None else nodes)
    number = {name: place for place, name in enumerate(names.tolist())}
    _all_named({*graph.nodes} - {*number})
    edges = list(graph.edges(data=True))
    weights: dict[str, list] = {}
    for place, (_, _, attributes) in enumerate(edges):
        for name, value in attributes.items():
            if _is_weight(name):
                weights.setdefault(name, [1] * len(edges))[place] = value
    ends = [(number[u], number[v]) for u, v, _ in edges]
    pairs = np.array(ends, np.int64).reshape(-1, 2)
    return _Source(pairs, names, weights, graph.is_directed())


def _parse_table(table: "pandas.DataFrame", nodes: Nodes, pairs_in: str | None) -> _Source:
    import pandas

    if isinstance(nodes, (int, np.integer)):
        raise ValueError("nodes must be names, as the table has them, got a number")
    validate.require(
        pairs_in != "columns",
        "pairs_in must be 'rows' of a table of an edge a row: table.T turns another",
    )

    def places(ends, names):
        """The place of each end among the names."""
        index = pandas.Index(names, tupleize_cols=False)
        found = index.get_indexer(pandas.Index(ends, tupleize_cols=False))
        _all_named({*ends[found < 0]})
        return found.astype(np.int64)

    if _is_matrix(table, pairs_in):
        own = _named(table.index)
        names = _named(_in_order(own.tolist()) if nodes is None else nodes)
        values = table.loc[:, table.index].to_numpy().ravel()
        values = _weights("the matrix", values, len(own) ** 2)
        stored = np.flatnonzero(values)
        cells = np.stack(np.divmod(stored, len(own)), 1)
        pairs = places(own.astype(object), names)[cells]
        return _Source(pairs, names, {"the matrix": values[stored]})

    weights = {}
    if table.ndim == 2 and table.columns.is_unique:
        named = [name for name in table.columns if _is_weight(name) and name.lower() != "w"]
        weights = {name: table[name].to_numpy() for name in named}
        table = table.drop(columns=named)
    validate.require(
        table.ndim == 2 and table.shape[1] == 2,
        "source must be a table of two columns, the ends of each edge, and perhaps a third, "
        "named weight, or a matrix whose index is its columns; got shape "
        f"{table.shape} without weights: table[[one, other]] chooses, "
        "scipy.sparse.csr_array(table) is of a matrix without names",
    )
    validate.require(
        not table.isna().to_numpy().any(),
        "source must name both ends of each edge, and misses some",
    )
    ends = table.to_numpy(object).ravel()
    names = _named(_in_order(pandas.unique(ends)) if nodes is None else nodes)
    return _Source(places(ends, names).reshape(-1, 2), names, weights)


def _is_matrix(table: "pandas.DataFrame", pairs_in: str | None) -> bool:
    """Whether the index of a table holds the names of its columns.

    ``ValueError`` for what may be two edges too.
    """
    square = table.ndim == 2 and table.shape[0] == table.shape[1]
    if pairs_in or not square or {*table.index} != {*table.columns}:
        return False
    if list(table.index) != [0, 1] or list(table.columns) != [0, 1]:
        return True
    validate.require(
        any(dtype.kind not in "biuf" for dtype in table.dtypes),
        "source of shape (2, 2) must say how it is read: as two edges with pairs_in='rows', or "
        "as an adjacency matrix by scipy.sparse.csr_array(table)",
    )
    return False


def _parse_array(edges: np.ndarray, nodes: Nodes, pairs_in: str | None) -> _Source:
    if nodes is None:
        raise ValueError("nodes must say how many nodes an array of edges has, or their names")
    names = np.arange(nodes) if isinstance(nodes, (int, np.integer)) else _named(nodes)
    validate.require(
        names.dtype.kind not in "iu" or (names == np.arange(len(names))).all(),
        "nodes must not be numbers in another order beside an array, whose numbers may be "
        "places or names: give a pandas table of two columns for names, or the number of nodes",
    )
    if edges.size == 0:
        return _Source(np.zeros((0, 2), np.int64), names)
    if edges.ndim != 2 or 2 not in edges.shape or not np.issubdtype(edges.dtype, np.integer):
        hint = ""
        if edges.ndim == 2:
            hint = ": of an adjacency matrix give scipy.sparse.csr_array(it)"
        if edges.dtype.kind in "OUS":
            hint = ": of names give pandas.DataFrame(it)"
        got = f"{edges.dtype} of shape {edges.shape}"
        raise ValueError(f"source must be integers [m, 2] or [2, m], got {got}{hint}")
    if edges.shape == (2, 2) and pairs_in is None:
        (a, b), (c, d) = edges.tolist()
        raise ValueError(
            f"source of shape (2, 2) must say how it is read: {a} - {b} and {c} - {d} with "
            f"pairs_in='rows', or {a} - {c} and {b} - {d} with pairs_in='columns'"
        )
    if pairs_in == "columns" or (pairs_in is None and len(edges) == 2):
        edges = edges.T
    wanted = "[2, m]" if pairs_in == "columns" else "[m, 2]"
    validate.require(
        edges.shape[1] == 2, f"source must have shape {wanted}, got another with {pairs_in=}"
    )
    # In 64 bits a larger number would be negative.
    validate.ids(len(names), _NODES, source=edges)
    return _Source(edges.astype(np.int64), names)


def _numbered(pairs: np.ndarray, n: int, nodes: Nodes, weights: Mapping[str, object]) -> _Source:
    """The source of a library that numbers its nodes."""
    names = np.arange(n)
    nodes = _given_names(nodes, n)
    if nodes is not None:
        names = _named(nodes)
        validate.require(len(names) == n, f"nodes must name {n} nodes, got {len(names)} names")
    shaped = pairs.ndim == 2 and pairs.shape[1] == 2 and np.issubdtype(pairs.dtype, np.integer)
    validate.require(
        shaped or not pairs.size,
        f"edge_index must be integers of shape [2, m], got {pairs.dtype} of {pairs.ndim} axes",
    )
    validate.ids(n, _NODES, edge_index=pairs)
    return _Source(pairs.reshape(-1, 2).astype(np.int64), names, weights)


def _given_names(nodes: Nodes, n: int) -> Iterable | None:
    """Names of nodes, where they are given, of a source that has n nodes."""
    if not isinstance(nodes, (int, np.integer)):
        return nodes
    validate.require(nodes == n, f"nodes must be {n}, as the source has them, got {nodes}")
    return None


def named(names: Iterable | None, n: int) -> np.ndarray:
    """The names of n nodes; their numbers by default."""
    return _numbered(np.zeros((0, 2), np.int64), n, names, {}).names


def _named(names: Iterable) -> np.ndarray:
    """Names in order, each once, as one array of words, of whole numbers, or of objects."""
    validate.require(
        not isinstance(names, (set, frozenset)), "nodes must be names in order, and a set has none"
    )
    validate.require(
        not hasattr(names, "columns"),
        "nodes must be names, got a table, which may be its index or a column",
    )
    listed = [one.item() if isinstance(one, np.generic) else one for one in validate.names(names)]
    kinds = {type(name) for name in listed}
    # Names of one simple type make an array of it; tuples stay names.
    simple = len(kinds) <= 1 and all(issubclass(kind, (str, int)) for kind in kinds)
    made = np.array(listed) if simple else np.empty(0)
    # Whole numbers of 64 bits, and words that end in NUL, stay as they are.
    if not simple or made.dtype.kind == "f" or made.tolist() != listed:
        made = np.empty(len(listed), object)
        made[:] = listed
    validate.require(
        len({*made.tolist()}) == len(made), "nodes must name each node once, and repeat some"
    )
    if not simple:
        numbers = {str(name) for name in listed if isinstance(name, int)}
        both = numbers.intersection(name for name in listed if isinstance(name, str))
        if both:
            got = f"got {min(both)!r} as a number and as text: astype(str)"
            raise ValueError(f"nodes must name each node once, {got}")
    return made


def _in_order(names: Iterable) -> list:
    """Names as they come; the numbers 0 to n - 1 ascending, as rows by number are."""
    listed = list(names)
    return sorted(listed) if {*listed} == {*range(len(listed))} else listed


def _all_named(missing: set) -> None:
    if missing:
        got = f"and miss {len(missing)}, as {next(iter(missing))!r}"
        raise ValueError(f"nodes must name every node of the source, {got}")


def _host(values: object, name: str) -> np.ndarray:
    """A tensor of any library as an array; ``ValueError`` where it hides an entry."""
    for step in ("detach", "cpu"):  # of a tensor that is trained, or lies on a device
        values = getattr(values, step, lambda here=values: here)()
    return validate.complete(**{name: values})
