"""Graph files of other programs, opened by the readers of networkx and SciPy."""

import gzip
import io
import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import scipy.sparse

if TYPE_CHECKING:
    import networkx

MAX_BYTES = 2**31

_METIS = "networkit.nxadapter.nk2nx(networkit.graphio.METISGraphReader().read(path)) of networkit"
_HINTS = {
    ".graph": _METIS,
    ".metis": _METIS,
    ".csv": "pandas.read_csv(path)[[one, other]], the columns of both ends,",
    ".tsv": "pandas.read_csv(path, sep='\\t')[[one, other]], the columns of both ends,",
    ".parquet": "pandas.read_parquet(path)[[one, other]], the columns of both ends,",
    ".dot": "networkx.nx_agraph.read_dot(path)",
    ".gv": "networkx.nx_agraph.read_dot(path)",
    ".adjlist": "networkx.read_adjlist(path)",
    ".g6": "networkx.read_graph6(path)",
    ".s6": "networkx.read_sparse6(path)",
    ".npz": "ldp_jax.load(path).graph, or scipy.sparse.load_npz(path) of an adjacency matrix,",
    ".npy": "numpy.load(path), an array of edges,",
    ".mat": "an adjacency matrix in scipy.io.loadmat(path)",
    ".pt": "what torch.load(path) makes",
    ".zip": "ldp_jax.load(path).graph",
}
"""Other ways to make an object that can be read, by the ending of a file."""


class _Other(ValueError):
    """A reason that may be shown: it holds nothing of the file."""


def opened(path: Path, max_bytes: int) -> "networkx.Graph | scipy.sparse.coo_array":
    """Open a graph file, as :func:`ldp_jax.graph.interop.open_file` says."""
    ending = path.suffix.lower()
    packed = ending == ".gz"
    if packed:
        ending = Path(path.stem).suffix.lower()
    if ending not in READERS:
        hint = f"interop.read takes {_HINTS.get(ending, 'objects')} too"
        allowed = ", ".join(READERS)
        raise ValueError(f"{path} must end in {allowed} (or so and .gz) to be opened: {hint}")
    called, read = READERS[ending]
    if called.startswith("networkx"):
        try:
            import networkx as networkx
        except ImportError as error:
            raise ImportError(f"networkx opens {path.name}: pip install networkx") from error
    try:
        with gzip.open(path) if packed else path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise ValueError(f"{path} must be a whole file of gzip, and is not") from None
    if len(data) > max_bytes:
        raise ValueError(f"{path} has more than {max_bytes} bytes: max_bytes=... allows more")
    try:
        return read(data, max_bytes)
    except _Other as error:
        raise ValueError(f"{path} {error}") from None
    except Exception as error:  # a parser raises what it likes, and shows what is in the file
        kind = type(error).__name__
        raise ValueError(f"{path} must be what {called} reads, which raised {kind}") from None


_XML_NODE = re.compile(rb"<(?:\w+:)?node[\s/>]")


def _xml(data: bytes, reader: str) -> "networkx.Graph":
    import networkx

    made = getattr(networkx, reader)(io.BytesIO(data))
    return _whole(made, len(_XML_NODE.findall(data)))


def _gml(data: bytes, _: int) -> "networkx.Graph":
    import networkx

    try:
        return _numbered(networkx.read_gml(io.BytesIO(data)))
    except networkx.NetworkXError:  # nodes without labels
        return networkx.read_gml(io.BytesIO(data), label="id")


def _pajek(data: bytes, _: int) -> "networkx.Graph":
    """Refuse a second section of edges, and lists of them: the reader would misread both."""
    import networkx

    text = data.decode("utf-8-sig")
    sections = re.findall(r"^\*(\w+)[ \t]*(\d*)", text.lower(), re.MULTILINE)
    names = [name for name, _ in sections if name != "network"]
    known = names[:1] == ["vertices"] and {*names[1:]} <= {"edges", "arcs", "matrix"}
    if not known or len(names) > 2:
        raise _Other(
            "must have one section of *Vertices and one of *Edges, *Arcs or *Matrix, and has others"
        )
    count = next(int(number) for name, number in sections if name == "vertices")
    return _whole(networkx.parse_pajek(text), count)


def _json(data: bytes, _: int) -> "networkx.Graph":
    import networkx

    found = json.loads(data)
    edges = [key for key in ("links", "edges") if isinstance(found, dict) and key in found]
    if len(edges) != 1 or "nodes" not in found:
        raise _Other(
            "must be node-link JSON, an object of nodes and links (or edges), and is not: "
            "networkx.adjacency_graph and networkx.cytoscape_graph read other layouts"
        )
    graph = networkx.node_link_graph(found, edges=edges[0])
    if len(graph) != len(found["nodes"]):
        raise _Other(_STRAY)
    return graph


_STRAY = "must name each node once, and every end of an edge among the nodes, and does not"


def _whole(graph: "networkx.Graph", count: int) -> "networkx.Graph":
    """A graph of as many nodes as its file declares.

    The readers make one node of two, and add strays.
    """
    if len(graph) != count:
        raise _Other(_STRAY)
    return _numbered(graph)


def _numbered(graph: "networkx.Graph") -> "networkx.Graph":
    """Make names that are all whole numbers numbers, which ``interop.read`` puts in order."""
    import networkx

    whole = re.compile(r"0|[1-9]\d{0,18}")
    if not all(isinstance(name, str) and whole.fullmatch(name) for name in graph):
        return graph
    return networkx.relabel_nodes(graph, {name: int(name) for name in graph})


def _edge_list(data: bytes, _: int) -> "networkx.Graph":
    """Lines of two names, and perhaps a weight or the attributes that networkx writes."""
    import networkx

    text = [line.strip() for line in data.decode("utf-8-sig").splitlines()]
    lines = [line for line in text if line and line[0] not in "#%"]
    plain = [line.split("{")[0] for line in lines]  # without attributes
    delimiter = "," if plain and "," in plain[0] else None
    words = [[word.strip() for word in line.split(delimiter)] for line in plain]
    if any(len(line) < 2 or not all(line[:2]) for line in words):
        raise _Other("must name two nodes a line, and does not everywhere")
    header = len(words) > 1 and not any(map(_is_number, words[0][:2]))
    if header and all(_is_number(word) for line in words[1:] for word in line[:2]):
        raise _Other(
            "has a first line of words above lines of numbers, which may be an edge or a header: "
            "put # before a header"
        )
    widths = {len(line) for line in words}
    if len(widths) > 1:
        raise _Other(_COLUMNS)
    data_in = (("weight", float),) if widths == {3} else True
    # Each line is an edge, which read compares with the others.
    made = networkx.MultiDiGraph()
    try:
        parse: Callable = networkx.parse_edgelist
        parse(lines, comments=None, delimiter=delimiter, create_using=made, data=data_in)
    except (TypeError, IndexError):
        raise _Other(_COLUMNS) from None
    if delimiter:
        made = networkx.relabel_nodes(made, {name: name.strip() for name in made})
    # Lines that name no pair in both directions are undirected edges.
    pairs = {(u, v) for u, v in made.edges() if u != v}
    one_way = pairs.isdisjoint((v, u) for u, v in pairs)
    return _numbered(made.to_undirected() if one_way else made)


_COLUMNS = (
    "must have two names a line, and perhaps a weight in all lines, and does not everywhere: "
    "pandas.read_csv(path, sep=..., usecols=...) reads other columns"
)


def _is_number(word: str) -> bool:
    return word.lstrip("-").isdigit()


_WHOLE = rb"[+-]?\d{1,18}"
_REAL = rb"[+-]?(?:nan|inf(?:inity)?|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)"
_FIELDS = {
    "pattern": [],
    "integer": [_WHOLE],
    "unsigned-integer": [_WHOLE],
    "complex": [_REAL, _REAL],
}


def _matrix_market(data: bytes, max_bytes: int) -> scipy.sparse.coo_array:
    """Compare lines with their form before SciPy reads them.

    Its reader may end the process, or skip words, where a line has another form.
    """
    import scipy.io

    rows, _, entries, layout, field, _ = scipy.io.mminfo(io.BytesIO(data))
    if 8 * max(rows, entries) > max_bytes:
        raise _Other(
            f"declares {rows} rows and {entries} entries, for which {max_bytes} bytes are too few"
        )
    places = [rb"\d{1,18}"] * 2 if layout == "coordinate" else []
    words = rb"[ \t]+".join([*places, *_FIELDS.get(field, [_REAL])])
    line = re.compile(rb"(?!.*\S{40})[ \t]*" + words + rb"[ \t\r]*", re.IGNORECASE)
    below = []  # without empty lines and comments
    for each in data.split(b"\n")[1:]:
        if each.strip() and each.lstrip()[:1] != b"%":
            below.append(each)
    if not all(map(line.fullmatch, below[1:])):
        raise _Other(
            f"must hold a {layout} entry of kind {field} a line, as its header says, and does not"
        )
    return scipy.sparse.coo_array(scipy.io.mmread(io.BytesIO(data + b"\n")))


_EDGE_LIST = "networkx.read_edgelist", _edge_list

READERS: dict[
    str, tuple[str, Callable[[bytes, int], "networkx.Graph | scipy.sparse.coo_array"]]
] = {
    ".graphml": ("networkx.read_graphml", lambda data, _: _xml(data, "read_graphml")),
    ".gexf": ("networkx.read_gexf", lambda data, _: _xml(data, "read_gexf")),
    ".gml": ("networkx.read_gml", _gml),
    ".net": ("networkx.read_pajek", _pajek),
    ".paj": ("networkx.read_pajek", _pajek),
    ".json": ("networkx.node_link_graph", _json),
    ".mtx": ("scipy.io.mmread", _matrix_market),
    ".edgelist": _EDGE_LIST,
    ".edges": _EDGE_LIST,
    ".txt": _EDGE_LIST,
}
"""By the ending of a file, the reader that is called, and how."""
