"""Records of mixed columns from a pandas table.

Declared bounds and categories, missing values, string labels.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float32, Int32

from ldp_jax.core import validate
from ldp_jax.core.public_bounds import check_step
from ldp_jax.core.shown import by_shapes, shown
from ldp_jax.datasets._dataset import Bounds, Dataset, check_bounds

if TYPE_CHECKING:
    import pandas

Missing = Literal["centre", "refuse"]
_T = TypeVar("_T")

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

    def dataset(self, name: str, graph: object) -> Dataset:
        """These records on a graph whose node i is the user of row i.

        ``ValueError`` for other numbers of nodes.
        """
        y = np.zeros((len(self.x), 0), np.int8) if self.y is None else self.y
        return Dataset(
            name, graph, self.x, y, 0, 1, feature_names=self.columns, node_names=tuple(map(str, self.names)),
            class_names=self.class_names or None,
        )  # fmt: skip


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
    """Declared columns of a table as records.

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
    >>> table = pandas.DataFrame({"age": [20, None], "job": ["cook", "smith"], "team": ["red", None]})
    >>> found = read_records(table, numbers={"age": (0, 80)}, categories={"job": ("cook", "smith")}, label="team",
    ...     nodes=[1, 0], missing="centre")
    >>> found.columns, found.x.tolist(), found.y.tolist()
    (('age', 'job=cook', 'job=smith'), [[0.5, 0.0, 1.0], [0.25, 1.0, 0.0]], [-1, 0])
    """
    validate.one_of(("centre", "refuse"), missing=missing)
    if not (hasattr(table, "reindex") and hasattr(table, "columns")):
        raise ValueError(
            f"table must be a pandas.DataFrame, users in its index, got {type(table).__name__}"
        )
    numbers = _declared(numbers, "numbers must be {column: (lower, upper)}")
    categories = _declared(categories, "categories must be {column: (word, ...)}")
    faults: list[str] = []
    if nodes is not None and not np.iterable(nodes):
        raise ValueError(
            "nodes must be the names of users, in the order of the graph's nodes, got a single number"
        )
    users = validate.names(table.index)
    names = users if nodes is None else validate.names(nodes)
    if isinstance(nodes, _UNORDERED):
        faults.append("nodes must be in the order of the graph's nodes, and a set has none")
    for what, given in (("users", users), ("nodes", names)):
        if len(set(given)) != len(given):
            faults.append(f"{what} must be named once each, and are not")
    strangers = set(users) - set(names)
    if strangers:
        hint = "interop.read(friends, nodes=table.index) has users without a friend, table.set_index names rows"
        faults.append(f"{len(strangers)} rows are of users that are not among the nodes: {hint}")
    if label is not None and not isinstance(label, str):
        faults.append(f"label must be the name of a column, a string, got {shown(label)}")
    wanted = [*numbers, *categories, *([label] if isinstance(label, str) else [])]
    faults += [
        f"column {name!r} is declared twice"
        for name in dict.fromkeys(wanted)
        if wanted.count(name) > 1
    ]
    known = ", ".join(map(str, table.columns[:20]))
    faults += [
        f"column {name!r} is not there, beside {known}"
        for name in wanted
        if name not in table.columns
    ]
    faults += [
        f"column {name!r} is there twice" for name in wanted if list(table.columns).count(name) > 1
    ]
    if not numbers and not categories:
        faults.append(
            "no column is declared: numbers={name: (lower, upper)} or categories={name: (word, ...)}"
        )
    if any("named once" in fault for fault in faults):
        _refuse(faults)

    table = table.reindex(names)
    refuse = missing == "refuse"
    there = {name for name in wanted if list(table.columns).count(name) == 1}
    numbers = {name: bounds for name, bounds in numbers.items() if name in there}
    categories = {name: words for name, words in categories.items() if name in there}
    blocks: list[np.ndarray] = []
    columns: list[str] = []
    for name, bounds in numbers.items():
        blocks.append(_numbers(table[name], bounds, refuse, clip, _said(faults, name)))
        columns.append(name)
    for name, words in categories.items():
        blocks.append(_one_hot(table[name], words, refuse, _said(faults, name)))
        columns += [f"{name}={word}" for word in words]
    twice = [name for name in columns if columns.count(name) > 1]
    if twice:
        faults.append(f"two columns would be called {twice[0]!r}: rename a column, or a word")
    y = None
    found = ()
    if isinstance(label, str) and label in there:
        y, found = _labels(table[label].astype(object), classes, _said(faults, label))
    _refuse(faults)
    x = np.concatenate(blocks, axis=1, dtype=np.float32)
    return Records(x, tuple(columns), np.asarray(table.index), y, tuple(map(str, found)))


def _declared(given: Mapping[str, _T] | None, wanted: str) -> dict[str, _T]:
    if given is not None and not hasattr(given, "keys"):
        raise ValueError(f"{wanted}, got {type(given).__name__}")
    return dict(() if given is None else given)


Say = Callable[[str], None]


def _said(faults: list[str], name: str) -> Say:
    return lambda fault: faults.append(f"column {name!r} {fault}")


def _refuse(faults: list[str]) -> None:
    if faults:
        raise ValueError(
            "table has " + ("a fault: " if len(faults) == 1 else "faults: ") + "; ".join(faults)
        )


def _numbers(
    column: "pandas.Series", bounds: Bounds, refuse: bool, clip: bool, say: Say
) -> np.ndarray:
    """[n, 1] in [0, 1]."""
    import pandas

    try:
        lower, upper = check_bounds(*bounds, str(column.name))
    except (TypeError, ValueError) as error:
        say(f"needs public bounds (lower, upper): {error}")
        return np.zeros((len(column), 1))
    try:
        kind = getattr(column.dtype, "numpy_dtype", column.dtype)
        check_step(kind if isinstance(kind, np.dtype) else np.float64, lower, upper)
    except ValueError as error:
        say(str(error).removeprefix("x "))
    if validate.are_categories(column):
        say(
            "must hold numbers, and holds categories: declare it among categories, or give it astype(float)"
        )
        return np.zeros((len(column), 1))
    numbers = pandas.to_numeric(column, errors="coerce")
    absent = column.isna().to_numpy()
    if numbers.dtype.kind == "c":
        say("must hold numbers, and does not everywhere")
        return np.zeros((len(column), 1))
    values = numbers.to_numpy(np.float64, na_value=np.nan)
    # Dates count nanoseconds, periods their number since 1970.
    dated = column.dtype.kind in "mM" or isinstance(column.dtype, pandas.PeriodDtype)
    if (np.isnan(values) & ~absent).any() or dated:
        say("must hold numbers, and does not everywhere")
    if absent.any() and refuse:
        say("misses values: missing='centre' puts them at the middle of the bounds")
    outside = ((values < lower) | (values > upper)).any()  # NaN is neither
    if outside and not clip:
        say(
            f"must be within its declared bounds ({lower:.9g}, {upper:.9g}), and is not: widen them, or clip=True"
        )
    scaled = (np.clip(values, lower, upper) - lower) / (upper - lower)
    return np.where(np.isnan(scaled), 0.5, scaled)[:, None]


def _one_hot(
    column: "pandas.Series", words: Sequence[Hashable], refuse: bool, say: Say
) -> np.ndarray:
    """[n, categories] of 0 and 1; a missing word is zeros."""
    absent = column.isna().to_numpy()
    if isinstance(words, (str, *_UNORDERED)) or len(set(words)) != len(words) or not len(words):
        say("must declare each category once, and at least one, in a tuple")
        return np.zeros((len(column), 1))
    made = np.stack([(column == word).to_numpy(bool, na_value=False) for word in words], 1)
    if (~made.any(1) & ~absent).any():
        say(
            "holds words that are not declared: declare each possible one, or make the others missing"
        )
    if absent.any() and refuse:
        say("misses words: missing='centre' gives them no category")
    return made


def _labels(
    column: "pandas.Series", classes: Sequence[Hashable] | None, say: Say
) -> tuple[np.ndarray, tuple[Hashable, ...]]:
    import pandas

    if isinstance(classes, (str, *_UNORDERED)):
        say("must declare its classes in order, in a tuple")
    if classes is not None and not {-1, "-1", ""}.isdisjoint(classes):
        say("may not declare a class -1 or '': they mark an unknown class")
    if classes is not None and len(set(classes)) < len(classes):
        say("must declare each class once")
        return np.full(len(column), -1, np.int32), ()
    unknown = (column.isna() | column.isin([-1, "-1", ""])).to_numpy(bool)
    found = list(dict.fromkeys(column[~unknown]))
    try:
        names = tuple(sorted(found) if classes is None else classes)
    except TypeError:
        names = tuple(sorted(found, key=str))
    y = pandas.Index(names, tupleize_cols=False).get_indexer(pandas.Index(column))
    if (y[~unknown] < 0).any():
        say("holds classes that are not declared")
    if not found:
        say("holds no label")
    # Beside an empty cell pandas reads whole numbers as floats.
    names = tuple(
        int(each) if isinstance(each, float) and each.is_integer() else each for each in names
    )
    if len(set(map(str, names))) < len(names):
        say("holds classes that are written alike, as 1 and '1'")
    return np.where(unknown, -1, y).astype(np.int32), names
