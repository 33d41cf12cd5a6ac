"""One attributed graph, or one set of graphs, with what is public about it."""

import dataclasses
import math
import numbers
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from jaxtyping import Bool, Float32, Int32
from typing_extensions import TypeAliasType

from ldp_jax.core import validate
from ldp_jax.core.public_bounds import check_step, has_offset, scaled
from ldp_jax.core.validate import require
from ldp_jax.datasets._arrays import integers

Bounds = TypeAliasType("Bounds", tuple[float | int, float | int])
"""The public (lower, upper) of every feature value."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A graph, the records of its users, and the public metadata that a mechanism may rely on.

    The graph is public to the server; users hold ``x`` and ``y``. Bounds are declared, never
    computed from records.

    Attributes:
      graph: a ``jraph.GraphsTuple`` as :func:`ldp_jax.graph.graphs.from_edges` builds it, on the
        host.
      x: raw feature values of the source, float32 [n, d], sparse or dense; [n, 0] where there are
        none. Where the bounds are far from 0 for their width, values that were not float32 are kept
        in float64.
      y: one class a node, int32 [n], -1 (or None, NaN) where unknown; several labels a node, int8
        [n, k] of 0/1; or, for a set of graphs, one class a graph, int32 [graphs], all known.
      lower: public bound of every feature value, as ``upper``.
      node_graph: for a set of graphs, which graph each node is of, int32 [n]; else ``None``.
      extras: further arrays of the source, by name.
      notes: remarks for the reader of a result, such as what the data set stands in for.
      feature_names: of the columns of ``x``; they, ``node_names`` and ``class_names`` are ``None``
        where unknown.
      public_choices: choices that were computed from the records; guarantees name them as not
        protected.

    ``ValueError`` for fields that do not fit each other, and values of ``x`` outside the bounds; it
    names no value.

    >>> from ldp_jax import datasets
    >>> debian = datasets.load("debian")
    >>> debian
    Dataset('debian': 4375 nodes, 8453 edges, 896 features in [0, 1], 8 classes)
    >>> debian.scaled_rows(0, 2).shape
    (2, 896)
    """

    name: str
    graph: Any  # a jraph.GraphsTuple; unnamed here, so that importing the data sets imports no jax
    x: Any  # a csr_array, or dense
    y: np.ndarray
    lower: float | int
    upper: float | int
    node_graph: np.ndarray | None = None
    source: str = ""
    licence: str = ""
    extras: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    notes: str = ""
    feature_names: tuple[str, ...] | None = None
    node_names: tuple[str, ...] | None = None
    class_names: tuple[str, ...] | None = None
    public_choices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        from ldp_jax.graph import graphs

        graph = graphs.as_graph(self.graph)
        n = graphs.num_nodes(graph)
        y = validate.node_labels(self.y)
        node_graph = self.node_graph
        if node_graph is not None:
            node_graph = integers("node_graph", node_graph, np.int32)
        x = _records(self.x, n, self.lower, self.upper, self.name)
        _check_labels(y, n, node_graph, self.name, named=len(self.class_names or ()))
        if node_graph is not None:
            graphs.check_edges(np.asarray(graph.senders), np.asarray(graph.receivers), node_graph)
        checked = {
            "graph": graph,
            "x": x,
            "y": y.astype(np.int32 if y.ndim == 1 else np.int8),
            "node_graph": node_graph,
            # Python's own numbers: the difference of two of NumPy's small integers overflows.
            "lower": np.asarray(self.lower).item(),
            "upper": np.asarray(self.upper).item(),
        }
        for field, value in checked.items():
            object.__setattr__(self, field, value)
        lengths = {
            "feature_names": self.num_features,
            "node_names": n,
            "class_names": self.num_classes,
        }
        for field, length in lengths.items():
            names = getattr(self, field)
            if names is None:
                continue
            require(
                len(names) == length and not isinstance(names, (str, set, frozenset)),
                f"{field} of {self.name} must hold {length} names in order, "
                f"got a {type(names).__name__} of {len(names)}",
            )

    def __repr__(self) -> str:
        parts = [f"{self.num_nodes} nodes", f"{self.num_edges} edges"]
        if self.node_graph is not None:
            parts.insert(0, f"{int(self.node_graph[-1]) + 1} graphs")
        features = f"{self.num_features} features"
        if self.num_features:
            features += f" in [{self.lower:g}, {self.upper:g}]"
        parts += [features, f"{self.num_classes} classes"]
        return f"Dataset({self.name!r}: {', '.join(parts)})"

    @property
    def edges(self) -> Int32[np.ndarray, "m 2"]:
        """The undirected edges, each once with u < v, sorted; int32 [m, 2]."""
        from ldp_jax.graph import graphs

        return graphs.to_edges(self.graph)

    @property
    def num_nodes(self) -> int:
        """Nodes, over all graphs."""
        return self.x.shape[0]

    @property
    def num_edges(self) -> int:
        """Undirected edges, over all graphs."""
        return len(self.graph.senders) // 2

    @property
    def num_features(self) -> int:
        """Features of a node; 0 where there are none."""
        return self.x.shape[1]

    @property
    def num_classes(self) -> int:
        """Classes, from the largest and their names; labels where a node may carry several."""
        if self.y.ndim == 2:
            return self.y.shape[1]
        return max(int(self.y.max()) + 1, len(self.class_names or ()))

    @property
    def known(self) -> Bool[np.ndarray, " rows"]:
        """Which nodes (or graphs) have a label: all but those whose ``y`` is -1."""
        if self.y.ndim == 2:
            return np.ones(len(self.y), bool)
        return self.y >= 0

    def scaled_rows(self, start: int, stop: int) -> Float32[np.ndarray, "rows d"]:
        """The dense records of users ``start`` to ``stop``, scaled to [-1, 1] by public bounds."""
        return self._block(self.x, 0, start, stop)

    def scaled_columns(self, start: int, stop: int) -> Float32[np.ndarray, "n columns"]:
        """Dense features ``start`` to ``stop`` of all users, scaled to [-1, 1] by public bounds."""
        return self._block(self._columns, 1, start, stop)

    @cached_property
    def _columns(self) -> Any:
        return self.x.tocsc() if scipy.sparse.issparse(self.x) else self.x

    def _block(self, x: Any, axis: int, start: int, stop: int) -> np.ndarray:
        size = x.shape[axis]
        require(
            0 <= start <= stop <= size,
            f"start and stop must satisfy 0 <= start <= stop <= {size}, got {start} and {stop}",
        )
        block = x[:, start:stop] if axis else x[start:stop]
        dense = block.toarray() if scipy.sparse.issparse(block) else block
        return scaled(dense, self.lower, self.upper)

    def default_record(self) -> float:
        """The public value, scaled, of every coordinate in a structure-only run.

        -1 if ``lower`` is 0, else 0.
        """
        return -1.0 if self.lower == 0 else 0.0

    def top_features(self, k: int) -> "Dataset":
        """The same data with only the ``k`` features that the most nodes have.

        Ties go to the lower column. The choice comes from the records, and no mechanism protects
        it: ``notes`` and ``public_choices`` say so.
        """
        validate.integer_in(1, self.num_features, k=k)
        frequency = np.asarray((self.x != 0).sum(0)).ravel()
        keep = np.sort(np.argsort(-frequency, kind="stable")[:k])
        names = self.feature_names
        if names is not None:
            names = tuple(names[i] for i in keep)
        note = f"Only the {k} most frequent features."
        return dataclasses.replace(
            self,
            x=self.x[:, keep],
            feature_names=names,
            notes=f"{self.notes} {note}" if self.notes else note,
            public_choices=(*self.public_choices, f"the choice of the {k} most frequent features"),
        )


def _records(x: Any, n: int, lower: Any, upper: Any, name: str) -> Any:
    """Records [n, d] that are checked, dense or sparse by rows, NaN where masked.

    They are float32; those with a public offset are float64, unless they are float32 already.
    """
    if not scipy.sparse.issparse(x):
        x = np.asarray(validate.in_order(x, f"x of {name}"))
        if x.dtype.kind == "O":
            # A cast would read words, dates or parts of complex numbers.
            require(
                all(one is None or isinstance(one, numbers.Real) for one in x.ravel()),
                f"x of {name} must be real numbers, got object",
            )
            x = x.astype(np.float64)
    elif x.format not in ("csr", "csc") or not x.has_canonical_format:
        x = scipy.sparse.csr_array(x, copy=True)
        x.sum_duplicates()
    require(x.shape[:1] == (n,), f"x of {name} must have one row a node ({n}), got shape {x.shape}")
    low, high = check_bounds(lower, upper, name)
    require(x.dtype.kind in "biuf", f"x of {name} must be real numbers, got {x.dtype}")
    check_step(x.dtype, low, high, f"x of {name}")
    wide = has_offset(low, high) and x.dtype != np.float32
    with np.errstate(over="ignore", invalid="ignore"):  # becomes infinite, which is refused
        x = x.astype(np.float64 if wide else np.float32, copy=False)
    validate_records(x, lower, upper, name)
    return x


def validate_records(x: Any, lower: float | int, upper: float | int, name: str) -> None:
    """Refuse records [n, d], dense or sparse, that are not finite numbers within their bounds.

    The message names the bound, and neither by how much it is broken, nor for whom, nor how often.

    >>> validate_records(np.array([[0.0, 1.0]]), 0, 1, "mine")
    >>> validate_records(np.array([[0.0, 3.0]]), 0, 1, "mine")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: x of mine must be at most its declared upper bound 1, and is not: ...
    """
    lower, upper = check_bounds(lower, upper, name)
    sparse = scipy.sparse.issparse(x)
    values = x.tocsr().data if sparse else np.asarray(x)
    require(values.dtype.kind in "biuf", f"x of {name} must be real numbers, got {values.dtype}")
    require(np.isfinite(values).all(), f"x of {name} must be finite, and is not everywhere")
    # Against a Python float NumPy compares in the precision of the values: float32(0.3) is within
    # 0.3.
    above = (values >= lower).all()
    below = (values <= upper).all()
    absent = ""
    if sparse:
        absent = " (an entry that is not stored is 0)"
        full = len(values) == math.prod(x.shape)
        above = above and (full or lower <= 0)
        below = below and (full or upper >= 0)
    for good, bound in (
        (above, f"at least its declared lower bound {lower:.9g}"),
        (below, f"at most its declared upper bound {upper:.9g}"),
    ):
        require(
            good,
            f"x of {name} must be {bound}, and is not{absent}: declare bounds that hold for every "
            "possible record (bounds=(lower, upper), or x_lower and x_upper in the file), or clip "
            "every record to them (clip=True)",
        )


def check_bounds(lower: Any, upper: Any, name: str) -> tuple[float, float]:
    """Bounds as two numbers.

    ``ValueError`` unless float32 can scale records from them to [-1, 1].
    """
    limits = np.finfo(np.float32)
    most = float(limits.max)
    least = float(limits.tiny)
    low = validate.number(-most, most, **{f"lower bound of {name}": lower})
    high = validate.number(-most, most, **{f"upper bound of {name}": upper})
    require(
        least <= high - low <= 2 / least,
        f"bounds of {name} must be lower < upper, apart by {least:.2g} to {2 / least:.2g}, "
        f"got ({low}, {high})",
    )
    return low, high


def _check_labels(
    y: np.ndarray, n: int, node_graph: np.ndarray | None, name: str, *, named: int
) -> None:
    """Refuse labels that do not fit; a class without a member must be among the ``named`` first."""
    units = {n: "node"}
    if node_graph is not None:
        shape = node_graph.shape
        require(shape == (n,), f"node_graph of {name} must have shape ({n},), got {shape}")
        rise = np.diff(node_graph, prepend=0)
        wrong = np.flatnonzero((rise < 0) | (rise > (np.arange(n) > 0)))
        if len(wrong):
            at = wrong[0]
            raise ValueError(
                f"node_graph of {name} must start at 0 and rise by 0 or 1, so that each graph has "
                f"a node, got {node_graph[at]} at node {at}"
            )
        units[int(node_graph[-1]) + 1] = "graph"
    require(
        y.ndim in (1, 2) and np.issubdtype(y.dtype, np.integer),
        f"y of {name} must be integers with one or two axes, got {y.dtype} of shape {y.shape}",
    )
    wanted = " or ".join(f"one row a {unit} ({size})" for size, unit in units.items())
    require(len(y) in units, f"y of {name} must have {wanted}, got shape {y.shape}")
    if y.ndim == 2:
        require(np.isin(y, (0, 1)).all(), f"y of {name} must be 0 or 1 in two axes")
        return

    known = y[y >= 0]
    least = 0
    rule = "classes 0..c-1, each with a member"
    if units[len(y)] == "node":
        least = -1
        rule += ", or -1 where the class of a node is unknown"
    inside = len(known) and least <= y.min() and int(y.max()) < max(len(y), named)
    require(inside and (named or np.bincount(known).all()), f"y of {name} must be {rule}")
