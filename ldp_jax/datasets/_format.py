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
from ldp_jax.datasets._archive import MAX_BYTES, naming
from ldp_jax.datasets._arrays import csr_arrays, integers
from ldp_jax.datasets._dataset import Bounds, Dataset, check_bounds

_TEXT = ("source", "licence", "notes")
_NAMES = ("feature_names", "node_names", "class_names", "public_choices")
_FEATURES = ("x_indptr", "x_indices", "x_values", "x_shape")
_CLIPPED = "Feature values are clipped to the declared bounds."
_RESERVED = {"edges", "x", "y", "node_graph", "x_lower", "x_upper", *_FEATURES, *_TEXT, *_NAMES}
_RESERVED |= {"file", "allow_pickle"}  # arguments of np.savez


def build(
    name: str,
    arrays: Mapping[str, np.ndarray],
    where: str,
    *,
    bounds: Bounds | None = None,
    clip: bool = False,
    metadata: Mapping[str, Any] | None = None,
    max_bytes: int = MAX_BYTES,
) -> Dataset:
    """Check the arrays of the uniform format and make a data set of them.

    ``bounds`` and ``metadata`` stand above those of the arrays; ``max_bytes`` is of one dense
    record. A ``ValueError`` names the file ``where``, the array, and of the graph the place; never
    a value of ``x`` or ``y``.
    """
    from ldp_jax.graph import graphs  # brings jax, which naming the data sets does not need

    with naming(where):
        if "edges" not in arrays:
            raise ValueError(f"the array edges is missing, got {sorted(arrays)}")
        x, y, node_graph = _nodes(arrays, max_bytes)
        fields = _metadata(arrays, metadata or {})
        lower, upper = _bounds(arrays, bounds, name, x.shape[1])
        if clip:
            if (
                scipy.sparse.issparse(x) and not lower <= 0 <= upper
            ):  # said of the bounds alone, whatever is stored
                raise ValueError(
                    f"clip needs bounds around 0, which absent entries are; got {lower, upper}"
                )
            if isinstance(x, np.ndarray):
                x = np.clip(x, lower, upper)  # in the precision of x
            else:
                x.data = np.clip(x.data, lower, upper)
            fields["notes"] = " ".join(filter(None, [fields.get("notes"), _CLIPPED]))
        return Dataset(
            name=name,
            graph=graphs.from_edges(arrays["edges"], x.shape[0], pairs_in="rows"),
            x=x,
            y=y,
            lower=lower,
            upper=upper,
            node_graph=node_graph,
            extras={key: value for key, value in arrays.items() if key not in _RESERVED},
            **fields,
        )


def _nodes(
    arrays: Mapping[str, np.ndarray], max_bytes: int
) -> tuple[scipy.sparse.csr_array | np.ndarray, np.ndarray, np.ndarray | None]:
    """Features [n, d], labels, and the graph of each node.

    N comes from the first of them that is there.
    """
    x = _features(arrays)
    y = arrays.get("y")
    node_graph = arrays.get("node_graph")
    if x is not None and 4 * x.shape[1] > max_bytes:
        raise ValueError(
            f"x_shape declares {x.shape[1]} features: one dense record has {4 * x.shape[1]} bytes, and {max_bytes} "
            "are allowed (max_bytes=... allows another number)"
        )
    if node_graph is not None and (not node_graph.size or node_graph.ndim != 1):
        raise ValueError(
            f"a set of graphs must have a graph a node, got node_graph of shape {node_graph.shape}"
        )
    if x is None:
        rows = node_graph if node_graph is not None else y
        if rows is None or not rows.ndim:
            raise ValueError("the number of nodes is unknown: give y, or x_shape")
        x = scipy.sparse.csr_array((len(rows), 0), dtype=np.float32)
    if not x.shape[0]:
        raise ValueError("a graph must have a node, and there are none")
    if y is None:
        y = np.zeros((x.shape[0], 0), np.int8)  # no labels: enough for link prediction
    return x, integers("y", y, np.int8 if y.ndim == 2 else np.int32), node_graph


def _metadata(arrays: Mapping[str, np.ndarray], given: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {
        field: _text(field, arrays[field]) for field in _TEXT if field in arrays
    } | {**given}
    for field in _NAMES:
        if field in arrays:
            fields[field] = tuple(_text(field, arrays[field]).split("\n"))
    return fields


def _text(field: str, array: np.ndarray) -> str:
    if array.dtype != np.uint8 or array.ndim != 1:
        raise ValueError(
            f"{field} must be UTF-8 text as uint8 [bytes], got {array.dtype} of shape {array.shape}"
        )
    try:
        return array.tobytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{field} must be UTF-8 text, got other bytes from {error.start} on"
        ) from error


def _features(arrays: Mapping[str, np.ndarray]) -> scipy.sparse.csr_array | np.ndarray | None:
    absent = [key for key in _FEATURES if key not in arrays]
    if "x" in arrays:
        x = arrays["x"]
        if len(absent) < len(_FEATURES) or x.ndim != 2 or not len(x) or x.dtype.kind not in "biuf":
            raise ValueError(
                f"x must be real numbers [nodes, features], alone, got {x.dtype} of shape {x.shape}"
            )
        return x.astype(np.promote_types(x.dtype, np.float16), copy=False)
    if len(absent) == len(_FEATURES):
        return None
    if absent:
        raise ValueError(f"the arrays {', '.join(absent)} are missing beside the other x_ arrays")
    indptr, indices, values, shape = (arrays[key] for key in _FEATURES)
    x = checked_csr(indptr, indices, values, shape)
    x.sort_indices()
    rows = np.repeat(np.arange(x.shape[0], dtype=np.int64), np.diff(x.indptr))
    if (np.diff(rows * x.shape[1] + x.indices) == 0).any():
        raise ValueError("x_indices must name a column once a row, and a row names one twice")
    return x


def checked_csr(
    indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, shape: np.ndarray, of: str = "x"
) -> scipy.sparse.csr_array:
    """A matrix of floats from the arrays of its CSR form.

    SciPy follows damaged ones out of its memory.
    """
    shape = integers(f"{of}_shape", shape, np.int64)
    if shape.shape != (2,) or shape[0] < 1 or shape[1] < 0:
        raise ValueError(f"{of}_shape must be two sizes, [nodes, features], got {shape.tolist()}")
    n, d = int(shape[0]), int(shape[1])
    if d > np.iinfo(np.int32).max:
        raise ValueError(f"{of}_shape must have at most {np.iinfo(np.int32).max} columns, got {d}")
    indptr, indices = (
        integers(f"{of}_indptr", indptr, np.int64),
        integers(f"{of}_indices", indices, np.int32),
    )
    if indptr.shape != (n + 1,) or indptr[0] != 0 or (np.diff(indptr) < 0).any():
        raise ValueError(f"{of}_indptr must be {n + 1} numbers that start at 0 and never fall")
    if indices.ndim != 1 or values.ndim != 1 or not indptr[-1] == len(indices) == len(values):
        raise ValueError(f"{of}_indices and values must be as long as {of}_indptr says at its end")
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{of}_values must be real numbers, got {values.dtype}")
    if len(indices) and (indices.min() < 0 or indices.max() >= d):
        raise ValueError(f"{of}_indices must be columns in [0, {d})")
    values = values.astype(np.promote_types(values.dtype, np.float32))
    return scipy.sparse.csr_array((values, indices, indptr.astype(np.int32)), shape=(n, d))


def _bounds(
    arrays: Mapping[str, np.ndarray], given: object, name: str, width: int
) -> tuple[float, float]:
    if given is not None:
        if not isinstance(given, (tuple, list, np.ndarray)) or len(given) != 2:
            raise ValueError(f"bounds must be a pair (lower, upper), got {shown(given)}")
        return check_bounds(given[0], given[1], name)
    if "x_lower" in arrays and "x_upper" in arrays:
        lower, upper = arrays["x_lower"], arrays["x_upper"]
        for field, value in (("x_lower", lower), ("x_upper", upper)):
            if value.size != 1 or value.dtype.kind not in "iuf":
                raise ValueError(
                    f"{field} must be one real number, got {value.dtype} of shape {value.shape}"
                )
        return check_bounds(lower.item(), upper.item(), name)
    if width:
        raise ValueError(
            f"bounds of the features of {name} must be declared: pass bounds=(lower, upper), or store "
            "x_lower and x_upper in the file. They must be known without looking at the records"
        )
    return 0.0, 1.0


def to_arrays(dataset: Dataset) -> dict[str, np.ndarray]:
    """The arrays of the uniform format that :func:`build` makes the same data set of."""
    taken = sorted(_RESERVED & set(dataset.extras))
    if taken:
        raise ValueError(f"extras must not use the names of the format, got {', '.join(taken)}")
    x = dataset.x
    features = csr_arrays(x, x.dtype) if scipy.sparse.issparse(x) else {"x": np.asarray(x)}
    arrays: dict[str, np.ndarray] = {
        "edges": dataset.edges,
        **features,
        "x_lower": np.array(dataset.lower, np.float64),
        "x_upper": np.array(dataset.upper, np.float64),
        "y": dataset.y,
    }
    if dataset.node_graph is not None:
        arrays["node_graph"] = dataset.node_graph
    for field in _TEXT:
        if getattr(dataset, field):
            arrays[field] = text_array(getattr(dataset, field))
    for field in _NAMES:
        names = getattr(dataset, field)
        if names:
            for name in names:
                if "\n" in name:
                    raise ValueError(f"{field} must be names of one line, got {name!r}")
            arrays[field] = text_array("\n".join(names))
    return {**arrays, **dataset.extras}


def text_array(text: str) -> np.ndarray:
    """UTF-8 text as a uint8 array."""
    return np.frombuffer(text.encode("utf-8"), np.uint8)


def save(dataset: Dataset, path: str | os.PathLike[str]) -> None:
    """Write a data set as one ``.npz`` of the uniform format: equal data, equal bytes.

    Whole or not at all.

    >>> import tempfile
    >>> from ldp_jax import datasets
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     datasets.save(datasets.load("debian"), f"{folder}/mine.npz")
    ...     datasets.load(f"{folder}/mine.npz").num_edges
    8453
    """
    path = Path(path)
    if path.suffix != ".npz":
        raise ValueError(f"path must end in .npz, got {str(path)!r}")
    data = packed(dataset)
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def packed(dataset: Dataset) -> bytes:
    """The bytes that :func:`save` writes."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **to_arrays(dataset))  # pyrefly: ignore[bad-argument-type]
    return buffer.getvalue()


@contextlib.contextmanager
def replacing(path: Path) -> Generator[Path]:
    """A temporary path beside ``path`` that takes its place if the block ends well, and vanishes if not."""
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    temporary.touch(
        0o666, exist_ok=False
    )  # less what the umask takes: others may read a shared cache
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
