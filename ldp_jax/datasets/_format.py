"""The uniform format: one ``.npz`` a data set, numpy arrays alone, never a pickle.

Beside the arrays that :func:`ldp_jax.datasets.load` lists, a file may hold ``node_graph`` of a set
of graphs, and UTF-8 text as uint8 arrays: ``source``, ``licence``, ``notes``, and
``feature_names``, ``node_names``, ``class_names``, ``public_choices`` with one a line. Any other
array is an extra.
"""

import contextlib
import io
import os
import secrets
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from ldp_jax.core.shown import shown
from ldp_jax.core.validate import require
from ldp_jax.datasets._archive import MAX_BYTES, check_size
from ldp_jax.datasets._arrays import Arrays, csr_arrays, integers
from ldp_jax.datasets._dataset import Bounds, Dataset, check_bounds

_TEXT = ("source", "licence", "notes")
_NAMES = ("feature_names", "node_names", "class_names", "public_choices")
_FEATURES = ("x_indptr", "x_indices", "x_values", "x_shape")
_CLIPPED = "Feature values are clipped to the declared bounds."
_RESERVED = {"edges", "x", "y", "node_graph", "x_lower", "x_upper", *_FEATURES, *_TEXT, *_NAMES}
_RESERVED |= {"file", "allow_pickle"}  # arguments of np.savez


def build(
    name: str,
    arrays: Arrays,
    *,
    bounds: Bounds | None = None,
    clip: bool = False,
    metadata: Mapping[str, Any] | None = None,
    max_bytes: int = MAX_BYTES,
) -> Dataset:
    """Check the arrays of the uniform format and make a data set of them.

    ``bounds`` and ``metadata`` stand above those of the arrays; ``max_bytes`` is of one dense
    record. A ``ValueError`` names the array, and of the graph the place; never a value of ``x`` or
    ``y``.
    """
    from ldp_jax.graph import graphs  # brings jax, which naming the data sets does not need

    require("edges" in arrays, f"the array edges is missing, got {sorted(arrays)}")
    x = _features(arrays)
    y = arrays.get("y")
    node_graph = arrays.get("node_graph")
    if node_graph is not None:
        require(
            node_graph.size and node_graph.ndim == 1,
            f"a set of graphs must have a graph a node, got node_graph of shape {node_graph.shape}",
        )
    if x is None:
        rows = node_graph if node_graph is not None else y
        require(
            rows is not None and rows.ndim, "the number of nodes is unknown: give y, or x_shape"
        )
        assert rows is not None
        x = scipy.sparse.csr_array((len(rows), 0), dtype=np.float32)
    n, width = x.shape
    require(n, "a graph must have a node, and there are none")
    check_size(f"x_shape declares {width} features: one dense record has", 4 * width, max_bytes)
    if y is None:
        y = np.zeros((n, 0), np.int8)  # no labels: enough for link prediction
    fields = _text(arrays) | dict(metadata or {})
    lower, upper = _bounds(arrays, bounds, name, width)
    if clip:
        if isinstance(x, np.ndarray):
            x = np.clip(x, lower, upper)  # in the precision of x
        else:
            # The message depends on the bounds alone, whatever is stored.
            require(
                lower <= 0 <= upper,
                f"clip needs bounds around 0, which absent entries are; got {lower, upper}",
            )
            x.data = np.clip(x.data, lower, upper)
        fields["notes"] = " ".join(filter(None, [fields.get("notes"), _CLIPPED]))
    return Dataset(
        name=name,
        graph=graphs.from_edges(arrays["edges"], n, pairs_in="rows"),
        x=x,
        y=integers("y", y, np.int8 if y.ndim == 2 else np.int32),
        lower=lower,
        upper=upper,
        node_graph=node_graph,
        extras={key: value for key, value in arrays.items() if key not in _RESERVED},
        **fields,
    )


def _text(arrays: Arrays) -> dict[str, Any]:
    """The texts among the arrays; names are tuples of their lines."""
    fields: dict[str, Any] = {}
    for field in (*_TEXT, *_NAMES):
        if field not in arrays:
            continue
        array = arrays[field]
        require(
            array.dtype == np.uint8 and array.ndim == 1,
            f"{field} must be UTF-8 text as uint8 [bytes], got {array.dtype} of {array.shape}",
        )
        try:
            text = array.tobytes().decode("utf-8")
        except UnicodeDecodeError as error:
            at = error.start
            raise ValueError(f"{field} must be UTF-8 text, got other bytes from {at} on") from error
        fields[field] = tuple(text.split("\n")) if field in _NAMES else text
    return fields


def _features(arrays: Arrays) -> scipy.sparse.csr_array | np.ndarray | None:
    absent = [key for key in _FEATURES if key not in arrays]
    none = len(absent) == len(_FEATURES)
    if "x" in arrays:
        x = arrays["x"]
        require(
            none and x.ndim == 2 and len(x) and x.dtype.kind in "biuf",
            f"x must be real numbers [nodes, features], alone, got {x.dtype} of shape {x.shape}",
        )
        return x.astype(np.promote_types(x.dtype, np.float16), copy=False)
    if none:
        return None
    require(not absent, f"the arrays {', '.join(absent)} are missing beside the other x_ arrays")
    indptr, indices, values, shape = (arrays[key] for key in _FEATURES)
    x = checked_csr(indptr, indices, values, shape)
    x.sort_indices()
    rows = np.repeat(np.arange(x.shape[0], dtype=np.int64), np.diff(x.indptr))
    require(
        np.diff(rows * x.shape[1] + x.indices).all(),
        "x_indices must name a column once a row, and a row names one twice",
    )
    return x


def checked_csr(
    indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, shape: np.ndarray, of: str = "x"
) -> scipy.sparse.csr_array:
    """A matrix of floats from the arrays of its CSR form, named after ``of`` in messages.

    SciPy follows damaged ones out of its memory.
    """
    shape = integers(f"{of}_shape", shape, np.int64)
    require(
        shape.shape == (2,) and shape[0] >= 1 and shape[1] >= 0,
        f"{of}_shape must be two sizes, [nodes, features], got {shape.tolist()}",
    )
    n, d = shape.tolist()
    most = np.iinfo(np.int32).max
    require(d <= most, f"{of}_shape must have at most {most} columns, got {d}")
    indptr = integers(f"{of}_indptr", indptr, np.int64)
    indices = integers(f"{of}_indices", indices, np.int32)
    require(
        indptr.shape == (n + 1,) and indptr[0] == 0 and (np.diff(indptr) >= 0).all(),
        f"{of}_indptr must be {n + 1} numbers that start at 0 and never fall",
    )
    require(
        indices.ndim == 1 == values.ndim and indptr[-1] == len(indices) == len(values),
        f"{of}_indices and values must be as long as {of}_indptr says at its end",
    )
    kind = values.dtype
    require(kind.kind in "biuf", f"{of}_values must be real numbers, got {kind}")
    require(((indices >= 0) & (indices < d)).all(), f"{of}_indices must be columns in [0, {d})")
    values = values.astype(np.promote_types(kind, np.float32))
    return scipy.sparse.csr_array((values, indices, indptr.astype(np.int32)), shape=(n, d))


def _bounds(arrays: Arrays, given: Any, name: str, width: int) -> tuple[float, float]:
    if given is not None:
        require(
            isinstance(given, (tuple, list, np.ndarray)) and len(given) == 2,
            f"bounds must be a pair (lower, upper), got {shown(given)}",
        )
        lower, upper = given
    elif "x_lower" in arrays and "x_upper" in arrays:
        for field in ("x_lower", "x_upper"):
            value = arrays[field]
            require(
                value.size == 1 and value.dtype.kind in "iuf",
                f"{field} must be one real number, got {value.dtype} of shape {value.shape}",
            )
        lower = arrays["x_lower"].item()
        upper = arrays["x_upper"].item()
    else:
        require(
            not width,
            f"bounds of the features of {name} must be declared: pass bounds=(lower, upper), or "
            "store x_lower and x_upper in the file. They must be known without looking at the "
            "records",
        )
        return 0.0, 1.0
    return check_bounds(lower, upper, name)


def to_arrays(dataset: Dataset) -> Arrays:
    """The arrays of the uniform format that :func:`build` makes the same data set of."""
    taken = ", ".join(sorted(_RESERVED & set(dataset.extras)))
    require(not taken, f"extras must not use the names of the format, got {taken}")
    x = dataset.x
    features = csr_arrays(x, x.dtype) if scipy.sparse.issparse(x) else {"x": np.asarray(x)}
    arrays: Arrays = {
        "edges": dataset.edges,
        **features,
        "x_lower": np.array(dataset.lower, np.float64),
        "x_upper": np.array(dataset.upper, np.float64),
        "y": dataset.y,
    }
    if dataset.node_graph is not None:
        arrays["node_graph"] = dataset.node_graph
    for field in (*_TEXT, *_NAMES):
        text = getattr(dataset, field)
        if not text:
            continue
        if field in _NAMES:
            for name in text:
                require("\n" not in name, f"{field} must be names of one line, got {name!r}")
            text = "\n".join(text)
        arrays[field] = np.frombuffer(text.encode("utf-8"), np.uint8)
    return {**arrays, **dataset.extras}


def save(dataset: Dataset, path: str | os.PathLike[str]) -> None:
    """Write a data set as one ``.npz`` of the uniform format, whole or not at all.

    Equal data have equal bytes.

    >>> import tempfile
    >>> from ldp_jax import datasets
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     datasets.save(datasets.load("debian"), f"{folder}/mine.npz")
    ...     datasets.load(f"{folder}/mine.npz").num_edges
    8453
    """
    path = Path(path)
    require(path.suffix == ".npz", f"path must end in .npz, got {str(path)!r}")
    data = packed(dataset)
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def packed(dataset: Dataset) -> bytes:
    """The bytes that :func:`save` writes."""
    buffer = io.BytesIO()
    arrays: dict[str, Any] = to_arrays(dataset)
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


@contextlib.contextmanager
def replacing(path: Path) -> Generator[Path]:
    """A temporary path beside ``path``: it takes its place if the block ends well, or vanishes."""
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    # Less what the umask takes: others may read a shared cache.
    temporary.touch(0o666, exist_ok=False)
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
