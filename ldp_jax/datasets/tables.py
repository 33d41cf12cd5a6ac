"""Records of mixed columns from a pandas table.

Declared bounds and categories, missing values, string labels.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Float32, Int32

from ldp_jax.core import validate
from ldp_jax.core.public_bounds import check_step
from ldp_jax.core.shown import by_shapes, shown
from ldp_jax.core.validate import require
from ldp_jax.datasets._dataset import Bounds, Dataset, check_bounds

if TYPE_CHECKING:
    import pandas

Missing = Literal["centre", "refuse"]
Expect = Callable[[object, str], None]  # notes a fault of a column unless a condition holds

_UNORDERED = set, frozenset  # of strings each process has an order of its own


class Records(NamedTuple):
    """The records of the users ``names`` as numbers in [0, 1].

    Attributes:
      x: float32 [n, d]; numbers scaled by their declared bounds, then a 0/1 column for each
        declared category.
      columns: the d names, as ``age`` and ``country=SI``.
      y: int32 [n], -1 where the class is unknown; None without labels.
    """

    x: Float32[np.ndarray, "n d"]
    columns: tuple[str, ...]
    names: np.ndarray
    y: Int32[np.ndarray, " n"] | None = None
    class_names: tuple[str, ...] = ()

    __repr__ = by_shapes

    @property
    def num_nodes(self) -> int:
        """How many users."""
        return len(self.x)

    @property
    def num_features(self) -> int:
        """d, how many numbers a record has."""
        return self.x.shape[1]

    def scaled_rows(self, start: int, stop: int) -> Float32[np.ndarray, "rows d"]:
        """The records of users ``start`` to ``stop``, from [0, 1] to [-1, 1].

        So these records are given to :func:`ldp_jax.private_embedding` without bounds.
        """
        return 2 * self.x[start:stop] - 1

    def dataset(self, name: str, graph: object) -> Dataset:
        """These records on a graph whose node i is the user of row i.

        ``ValueError`` for other numbers of nodes.
        """
        y = self.y
        if y is None:
            y = np.zeros((len(self.x), 0), np.int8)
        return Dataset(
            name,
            graph,
            self.x,
            y,
            0,
            1,
            feature_names=self.columns,
            node_names=tuple(map(str, self.names)),
            class_names=self.class_names or None,
        )


def read_records(
    table: "pandas.DataFrame",
    *,
    numbers: Mapping[str, Bounds] | None = None,
    categories: Mapping[str, Sequence[Hashable]] | None = None,
    label: str | None = None,
    classes: Sequence[Hashable] | None = None,
    nodes: Iterable[Hashable] | None = None,
    missing: Missing = "refuse",
    clip: bool = False,
) -> Records:
    """Make records of the declared columns of a table.

    Everything that is declared is public, and nothing is fitted.

    Args:
      table: one row a user, named by its index.
      numbers: the public (lower, upper) of each column of numbers.
      categories: the public categories of each column of words.
      label: the column of classes; an empty cell or -1, a number or a word, is an unknown class.
      classes: the public names of the classes; by default those that occur, sorted.
      nodes: the users in the order of the graph's nodes, by default of the table; one without a row
        misses all.
      missing: ``centre`` puts a number at the middle of its bounds, and no category at all;
        ``refuse`` raises.
      clip: move numbers outside their bounds to the nearest bound; else they are refused.

    ``ValueError`` with all faults of the table at once, and no value of a record. Bounds are taken
    off in float64; a column of float32 whose numbers are more than 1e-3 of the width apart at its
    bounds is a fault.

    >>> import pandas
    >>> columns = {
    ...     "age": [20, None],
    ...     "job": ["cook", "smith"],
    ...     "team": ["red", None],
    ... }
    >>> found = read_records(
    ...     pandas.DataFrame(columns),
    ...     numbers={"age": (0, 80)},
    ...     label="team",
    ...     categories={"job": ("cook", "smith")},
    ...     nodes=[1, 0],
    ...     missing="centre",
    ... )
    >>> found.columns, found.x.tolist(), found.y.tolist()
    (('age', 'job=cook', 'job=smith'), [[0.5, 0.0, 1.0], [0.25, 1.0, 0.0]], [-1, 0])
    """
    validate.one_of(get_args(Missing), missing=missing)
    require(
        hasattr(table, "reindex") and hasattr(table, "columns"),
        f"table must be a pandas.DataFrame, users in its index, got {type(table).__name__}",
    )
    for name, declared, form in (
        ("numbers", numbers, "(lower, upper)"),
        ("categories", categories, "(word, ...)"),
    ):
        require(
            declared is None or hasattr(declared, "keys"),
            f"{name} must be {{column: {form}}}, got {type(declared).__name__}",
        )
    numbers = dict(numbers or {})
    categories = dict(categories or {})
    require(
        nodes is None or np.iterable(nodes),
        "nodes must be the names of users, in the order of the graph's nodes, got one",
    )

    faults: list[str] = []

    def expect(holds: object, fault: str) -> None:
        if not holds:
            faults.append(fault)

    def refuse() -> None:
        title = "a fault" if len(faults) == 1 else "faults"
        require(not faults, f"table has {title}: {'; '.join(faults)}")

    users = validate.names(table.index)
    names = users if nodes is None else validate.names(nodes)
    for what, listed in (("users", users), ("nodes", names)):
        expect(len(set(listed)) == len(listed), f"{what} must be named once each, and are not")
    refuse()
    expect(
        not isinstance(nodes, _UNORDERED),
        "nodes must be in the order of the graph's nodes, and a set has none",
    )
    strangers = len(set(users) - set(names))
    expect(
        not strangers,
        f"{strangers} rows are of users that are not among the nodes: interop.read(friends, "
        "nodes=table.index) has users without a friend, table.set_index names rows",
    )
    expect(
        numbers or categories,
        "no column is declared: numbers={name: (lower, upper)} or categories={name: (word, ...)}",
    )
    labels = [label] if isinstance(label, str) else []
    expect(
        labels or label is None,
        f"label must be the name of a column, a string, got {shown(label)}",
    )
    wanted = [*numbers, *categories, *labels]
    known = ", ".join(map(str, table.columns[:20]))
    found = Counter(table.columns)
    for name in dict.fromkeys(wanted):
        expect(wanted.count(name) == 1, f"column {name!r} is declared twice")
        expect(found[name], f"column {name!r} is not there, beside {known}")
        expect(found[name] < 2, f"column {name!r} is there twice")
    there = lambda name: found[name] == 1

    # True and 1 are one name to Python, and two to pandas.
    _, rows = table.index.reindex(names)
    lost = 0 if rows is None else len(users) - strangers - (rows >= 0).sum()
    expect(not lost, f"{lost} rows are of users whose names are of another type among the nodes")
    table = table.reindex(names)
    of = lambda name: lambda holds, fault: expect(holds, f"column {name!r} {fault}")
    complete = missing == "refuse"
    blocks: list[np.ndarray] = []
    columns: list[str] = []
    for name in filter(there, numbers):
        blocks.append(_numbers(table[name], numbers[name], complete, clip, of(name)))
        columns.append(name)
    for name in filter(there, categories):
        blocks.append(_one_hot(table[name], categories[name], complete, of(name)))
        columns += [f"{name}={word}" for word in categories[name]]
    twice = [name for name in columns if columns.count(name) > 1]
    expect(not twice, f"two columns would be called {twice[:1]}: rename a column, or a word")
    y = None
    class_names = ()
    for name in filter(there, labels):
        y, class_names = _labels(table[name].astype(object), classes, of(name))
    refuse()
    x = np.concatenate(blocks, axis=1, dtype=np.float32)
    return Records(x, tuple(columns), np.asarray(table.index), y, class_names)


def _numbers(
    column: "pandas.Series", bounds: Bounds, complete: bool, clip: bool, expect: Expect
) -> np.ndarray:
    """Numbers [n, 1] in [0, 1]; one that is missing is 0.5."""
    import pandas

    nothing = np.zeros((len(column), 1))
    try:
        lower, upper = check_bounds(*bounds, str(column.name))
    except (TypeError, ValueError) as error:
        expect(False, f"needs public bounds (lower, upper): {error}")
        return nothing
    try:
        kind = getattr(column.dtype, "numpy_dtype", column.dtype)
        if not isinstance(kind, np.dtype):
            kind = np.float64
        check_step(kind, lower, upper)
    except ValueError as error:
        expect(False, str(error).removeprefix("x "))
    if validate.are_categories(column):
        remedy = "declare it among categories, or give it astype(float)"
        expect(False, f"must hold numbers, and holds categories: {remedy}")
        return nothing
    numbers = pandas.to_numeric(column, errors="coerce")
    # Dates count nanoseconds, periods their number since 1970.
    dated = column.dtype.kind in "mM" or isinstance(column.dtype, pandas.PeriodDtype)
    if dated or numbers.dtype.kind == "c":
        expect(False, "must hold numbers, and does not everywhere")
        return nothing
    values = numbers.to_numpy(np.float64, na_value=np.nan)
    absent = column.isna().to_numpy()
    expect(not (np.isnan(values) & ~absent).any(), "must hold numbers, and does not everywhere")
    remedy = "missing='centre' puts them at the middle of the bounds"
    expect(not (complete and absent.any()), f"misses values: {remedy}")
    outside = ((values < lower) | (values > upper)).any()  # NaN is neither
    expect(
        clip or not outside,
        f"must be within its declared bounds ({lower:.9g}, {upper:.9g}), and is not: "
        "widen them, or clip=True",
    )
    scaled = (np.clip(values, lower, upper) - lower) / (upper - lower)
    return np.where(np.isnan(scaled), 0.5, scaled)[:, None]


def _one_hot(
    column: "pandas.Series", words: Sequence[Hashable], complete: bool, expect: Expect
) -> np.ndarray:
    """[n, categories] of 0 and 1; a missing word is zeros."""
    if isinstance(words, (str, *_UNORDERED)) or len(set(words)) != len(words) or not len(words):
        expect(False, "must declare each category once, and at least one, in a tuple")
        return np.zeros((len(column), 1))
    absent = column.isna().to_numpy()
    made = np.stack([(column == word).to_numpy(bool, na_value=False) for word in words], 1)
    expect(
        (made.any(1) | absent).all(),
        "holds words that are not declared: declare each possible one, or make the others missing",
    )
    remedy = "missing='centre' gives them no category"
    expect(not (complete and absent.any()), f"misses words: {remedy}")
    return made


def _labels(
    column: "pandas.Series", classes: Sequence[Hashable] | None, expect: Expect
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Classes [n], -1 where unknown, and their names."""
    import pandas

    marks = {-1, "-1", ""}
    unknown = (column.isna() | column.isin(list(marks))).to_numpy(bool)
    found = list(dict.fromkeys(column[~unknown]))
    if classes is None:
        try:
            names = sorted(found)
        except TypeError:
            names = sorted(found, key=str)
    else:
        expect(
            not isinstance(classes, (str, *_UNORDERED)),
            "must declare its classes in order, in a tuple",
        )
        expect(
            marks.isdisjoint(classes),
            "may not declare a class -1 or '': they mark an unknown class",
        )
        names = list(dict.fromkeys(classes))
        expect(len(names) == len(classes), "must declare each class once")
    y = pandas.Index(names, tupleize_cols=False).get_indexer(pandas.Index(column))
    expect((y[~unknown] >= 0).all(), "holds classes that are not declared")
    expect(found, "holds no label")
    # Beside an empty cell pandas reads whole numbers as floats.
    written = []
    for name in names:
        if isinstance(name, float) and name.is_integer():
            name = int(name)
        written.append(str(name))
    expect(len(set(written)) == len(written), "holds classes that are written alike, as 1 and '1'")
    return np.where(unknown, -1, y).astype(np.int32), tuple(written)
