"""One attributed graph, or one set of graphs, with what is public about it."""

import dataclasses
import numbers
from collections.abc import Mapping
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
from jaxtyping import Bool, Float32, Int32

from ldp_jax.core import validate
from ldp_jax.core.public_bounds import check_step, has_offset, scaled
from ldp_jax.datasets._arrays import integers

Bounds: TypeAlias = tuple[float | int, float | int]
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

        object.__setattr__(self, "graph", graphs.as_graph(self.graph))
        n = graphs.num_nodes(self.graph)
        object.__setattr__(self, "y", validate.node_labels(self.y))
        if not scipy.sparse.issparse(self.x):
            object.__setattr__(self, "x", _real(self.x, self.name))
        elif self.x.format not in ("csr", "csc") or not self.x.has_canonical_format:
            summed = scipy.sparse.csr_array(self.x, copy=True)
            summed.sum_duplicates()
            object.__setattr__(self, "x", summed)
        if self.x.shape[:1] != (n,):
            raise ValueError(
                f"x of {self.name} must have one row a node ({n}), got shape {self.x.shape}"
            )
        object.__setattr__(
            self, "x", _kept(self.x, *check_bounds(self.lower, self.upper, self.name), self.name)
        )
        validate_records(self.x, self.lower, self.upper, self.name)
        for field in (
            "lower",
            "upper",
        ):  # the difference of two of NumPy's small integers overflows
            bound = getattr(self, field)
            object.__setattr__(
                self, field, bound.item() if isinstance(bound, (np.generic, np.ndarray)) else bound
            )
        if self.node_graph is not None:
            object.__setattr__(
                self, "node_graph", integers("node_graph", self.node_graph, np.int32)
            )
        _check_labels(self.y, n, self.node_graph, self.name, named=len(self.class_names or ()))
        object.__setattr__(self, "y", self.y.astype(np.int32 if self.y.ndim == 1 else np.int8))
        if self.node_graph is not None:
            graphs.check_edges(
                np.asarray(self.graph.senders), np.asarray(self.graph.receivers), self.node_graph
            )
        lengths = {
            "feature_names": self.num_features,
            "node_names": n,
            "class_names": self.num_classes,
        }
        for field, length in lengths.items():
            names = getattr(self, field)
            if names is not None and (
                len(names) != length or isinstance(names, (str, set, frozenset))
            ):
                got = f"{type(names).__name__} of {len(names)}"
                raise ValueError(
                    f"{field} of {self.name} must hold {length} names in order, got a {got}"
                )

    def __repr__(self) -> str:
        graphs = "" if self.node_graph is None else f"{int(self.node_graph[-1]) + 1} graphs, "
        features = f"{self.num_features} features"
        if self.num_features:
            features += f" in [{self.lower:g}, {self.upper:g}]"
        return (
            f"Dataset({self.name!r}: {graphs}{self.num_nodes} nodes, {self.num_edges} edges, {features}, "
            f"{self.num_classes} classes)"
        )

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
        return np.ones(len(self.y), bool) if self.y.ndim == 2 else self.y >= 0

    @cached_property
    def _columns(self) -> Any:
        return self.x.tocsc() if scipy.sparse.issparse(self.x) else self.x

    def scaled_rows(self, start: int, stop: int) -> Float32[np.ndarray, "rows d"]:
        """The records of users ``start`` to ``stop``, scaled to [-1, 1] by the public bounds.

        Dense.
        """
        _check_block(start, stop, self.num_nodes)
        return self._scaled(self.x[start:stop])

    def scaled_columns(self, start: int, stop: int) -> Float32[np.ndarray, "n columns"]:
        """Features ``start`` to ``stop`` of all users, scaled to [-1, 1] by the public bounds.

        Dense.
        """
        _check_block(start, stop, self.num_features)
        return self._scaled(self._columns[:, start:stop])

    def _scaled(self, block: Any) -> np.ndarray:
        return scaled(
            block.toarray() if scipy.sparse.issparse(block) else block, self.lower, self.upper
        )

    def default_record(self) -> float:
        """The public value, scaled, of every coordinate in a structure-only run.

        -1 if ``lower`` is 0, else 0.
        """
        return -1.0 if self.lower == 0 else 0.0

    def top_features(self, k: int) -> "Dataset":
        """The same data with only the ``k`` features that the most nodes have.

        Ties go to the lower column.

        The choice comes from the records, and no mechanism protects it: ``notes`` and
        ``public_choices`` say so.
        """
        validate.integer_in(1, self.num_features, k=k)
        frequency = np.asarray((self.x != 0).sum(0)).ravel()
        keep = np.sort(np.argsort(-frequency, kind="stable")[:k])
        names = self.feature_names
        return dataclasses.replace(
            self,
            x=self.x[:, keep],
            feature_names=None if names is None else tuple(names[i] for i in keep),
            notes=" ".join(filter(None, [self.notes, f"Only the {k} most frequent features."])),
            public_choices=(*self.public_choices, f"the choice of the {k} most frequent features"),
        )


def _kept(x: Any, lower: float, upper: float, name: str) -> Any:
    """Records in float32.

    Those with a public offset in float64, unless they are float32 already.
    """
    if x.dtype.kind not in "biuf":
        raise ValueError(f"x of {name} must be real numbers, got {x.dtype}")
    check_step(x.dtype, lower, upper, f"x of {name}")
    wide = has_offset(lower, upper) and x.dtype != np.float32
    with np.errstate(over="ignore", invalid="ignore"):  # becomes infinite, which is refused
        return x.astype(np.float64 if wide else np.float32, copy=False)


def _real(x: Any, name: str) -> np.ndarray:
    """Dense records, NaN where masked.

    Refused where a cast would read words, dates or parts of complex numbers.
    """
    dense = np.asarray(validate.in_order(x, f"x of {name}"))
    mixed = dense.ravel() if dense.dtype.kind == "O" else ()
    if dense.dtype.kind in "cmMSU" or not all(
        one is None or isinstance(one, numbers.Real) for one in mixed
    ):
        raise ValueError(f"x of {name} must be real numbers, got {dense.dtype}")
    return dense.astype(np.float64) if dense.dtype.kind == "O" else dense


def validate_records(x: Any, lower: float | int, upper: float | int, name: str) -> None:
    """Refuse records [n, d], dense or sparse, that are not finite numbers within their declared bounds.

    The message names the bound, and neither by how much it is broken, nor for whom, nor how often.

    >>> validate_records(np.array([[0.0, 1.0]]), 0, 1, "mine")
    >>> validate_records(np.array([[0.0, 3.0]]), 0, 1, "mine")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: x of mine must be at most its declared upper bound 1, and is not: declare bounds that ...
    """
    lower, upper = check_bounds(lower, upper, name)
    sparse = scipy.sparse.issparse(x)
    values = x.tocsr().data if sparse else np.asarray(x)
    if values.dtype.kind not in "biuf":
        raise ValueError(f"x of {name} must be real numbers, got {values.dtype}")
    if not np.isfinite(values).all():
        raise ValueError(f"x of {name} must be finite, and is not everywhere")
    zeros = sparse and len(values) < x.shape[0] * x.shape[1]
    # Against a Python float NumPy compares in the precision of the values: float32(0.3) is within
    # 0.3.
    for good, bound in (
        (
            (values >= lower).all() and not (zeros and lower > 0),
            f"at least its declared lower bound {lower:.9g}",
        ),
        (
            (values <= upper).all() and not (zeros and upper < 0),
            f"at most its declared upper bound {upper:.9g}",
        ),
    ):
        if not good:
            absent = " (an entry that is not stored is 0)" if sparse else ""
            raise ValueError(
                f"x of {name} must be {bound}, and is not{absent}: declare bounds that hold for every possible "
                "record (bounds=(lower, upper), or x_lower and x_upper in the file), or clip every record to them "
                "(clip=True)"
            )


def _check_block(start: int, stop: int, size: int) -> None:
    if not 0 <= start <= stop <= size:
        raise ValueError(
            f"start and stop must satisfy 0 <= start <= stop <= {size}, got {start} and {stop}"
        )


def check_bounds(lower: Any, upper: Any, name: str) -> tuple[float, float]:
    """Bounds as two numbers.

    ``ValueError`` unless float32 can scale records from them to [-1, 1].
    """
    limits = np.finfo(np.float32)
    most, least = float(limits.max), float(limits.tiny)
    named = {"lower": lower, "upper": upper}
    low, high = (
        validate.number(-most, most, **{f"{end} bound of {name}": at}) for end, at in named.items()
    )
    if not least <= high - low <= 2 / least:
        wanted = f"lower < upper, apart by {least:.2g} to {2 / least:.2g}"
        raise ValueError(f"bounds of {name} must be {wanted}, got ({low}, {high})")
    return low, high


def _check_labels(
    y: np.ndarray, n: int, node_graph: np.ndarray | None, name: str, *, named: int = 0
) -> None:
    """Refuse labels that do not fit; a class without a member must be among the ``named`` first."""
    lengths = {n: "node"}
    if node_graph is not None:
        if node_graph.shape != (n,):
            raise ValueError(f"node_graph of {name} must have shape ({n},), got {node_graph.shape}")
        rise = np.diff(node_graph, prepend=0)
        if len(wrong := np.flatnonzero((rise < 0) | (rise > (np.arange(n) > 0)))):
            at = int(wrong[0])
            got = int(node_graph[at])
            due = int(node_graph[at - 1]) + 1 if at else 0
            empty = f": graph {due} has no node" if got > due else ""
            raise ValueError(
                f"node_graph of {name} must start at 0 and rise by 0 or 1, got {got} at node {at}{empty}"
            )
        lengths[int(node_graph[-1]) + 1] = "graph"
    if y.ndim not in (1, 2) or not np.issubdtype(y.dtype, np.integer):
        raise ValueError(
            f"y of {name} must be integers with one or two axes, got {y.dtype} of shape {y.shape}"
        )
    if len(y) not in lengths:
        wanted = " or ".join(f"one row a {unit} ({length})" for length, unit in lengths.items())
        raise ValueError(f"y of {name} must have {wanted}, got shape {y.shape}")
    if y.ndim == 2:
        if not np.isin(y, (0, 1)).all():
            raise ValueError(f"y of {name} must be 0 or 1 in two axes")
        return
    least = -1 if lengths[len(y)] == "node" else 0
    known = y[y >= 0]
    outside = not len(known) or y.min() < least or int(y.max()) >= max(len(y), named)
    if outside or not (named or np.bincount(known).all()):
        unknown = ", or -1 where the class of a node is unknown" if least else ""
        raise ValueError(f"y of {name} must be classes 0..c-1, each with a member{unknown}")
