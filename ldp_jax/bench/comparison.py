"""One table for all methods: the same panels, draws, baselines and intervals."""

import dataclasses
import hashlib
import inspect
import itertools
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Int

from ldp_jax import verification
from ldp_jax.bench import memory
from ldp_jax.bench.draws import HIDES, Draw, Hides, draw
from ldp_jax.bench.methods import RIVALS, Entry, Method, answer_of, proved_by
from ldp_jax.bench.page import figure_class, save
from ldp_jax.bench.rows import (
    ALL,
    ALONE,
    CEILING,
    DEFAULT,
    PLACEBO,
    PRIVATE,
    THIRDS,
    Comparison,
    Row,
    append,
    read,
)
from ldp_jax.core import random, validate
from ldp_jax.core.progress import Progress, phase, watched
from ldp_jax.core.pytree import digest
from ldp_jax.core.rounding import digits_up
from ldp_jax.datasets import Dataset, load
from ldp_jax.servers import simulate
from ldp_jax.servers.saved import fingerprint, versions

_SHOWN = {"proved": "", "in the limit": ", in the limit", "none": ", not proved"}

_CLASSES = 20  # of more, gains are not told class by class


class _Cell(NamedTuple):
    """A row of the table, and whether a refusal of it stops everything."""

    method: Method
    users: str
    epsilon: float
    own: bool

    @property
    def column(self) -> float:
        """The epsilon that a row says: infinite without noise."""
        return float("inf") if self.users == CEILING else self.epsilon

    def __str__(self) -> str:
        return f"{self.method.name}, {self.users}, epsilon {self.epsilon:g}"


def compare(
    method: Any,
    on: str | Dataset,
    *,
    hides: Hides = "features",
    epsilons: Sequence[float] = (1.0, 4.0),
    seeds: int = 5,
    panel: float = 0.1,
    against: str | Sequence[Any] = "all",
    model: Any = None,
    verify: bool = True,
    out: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Put anybody's method beside others: how many classes are found, at which epsilon?

    A seed draws a panel, whose labels are public, and all noise. Every method sees the same draws.
    Beside the own method stand what is known without private data, the permuted control, users
    who hold a public record, and the ceiling without noise. The driver computes the total epsilon
    of each row. A method whose guarantee exceeds its column is refused. All users are simulated,
    by keys that follow from the seed: the table is no private release of their data.

    Args:
      method: ``"module:Name"``, a class, a function or an instance: of a mechanism on numbers in
        [-1, 1], on vectors or on neighbour lists, or of a server
        (:class:`~ldp_jax.bench.methods.Method` says with which public facts it is made).
      on: a data set, or its name.
      hides: ``features`` (the graph, and records and labels of a panel, are public), ``edges``
        (features, and labels of a panel, are), or ``both`` (records and labels of a panel are).
      epsilons: budgets, per record or per bit of a list.
      seeds: how many draws, from 0.
      panel: share of each class whose labels are public.
      against: ``all`` methods of this library that fit; or the names of some, or others' methods.
      model: of nodes, trained on what the own mechanism gives in place of a logistic
        regression: ``"module:Name"``, a class, a function or an instance
        (:func:`~ldp_jax.bench.budgeted.model_of`).
      verify: whether a mechanism's claim is checked at the first epsilon.
      out: a folder for rows, picture and page. Rows that it has, of the same code, data and
        version, are not computed again.
      progress: told of each row (:data:`ldp_jax.core.progress.Progress`); by default shown after
        five seconds.

    ``ValueError`` for a data set or method that does not fit, ``TypeError`` for what is no method.

    >>> from ldp_jax import datasets, features
    >>> sizes = {"num_nodes": 80, "num_classes": 2, "num_features": 6}
    >>> made = datasets.synthetic(
    ...     jax.random.key(0), **sizes, mean_degree=4, homophily=0.7
    ... )
    >>> found = compare(
    ...     features.Duchi, made, epsilons=[2.0], seeds=2, against=[], verify=False
    ... )
    >>> found, list(found.scores("Duchi", 2.0))
    (Comparison(Duchi beside 0 others, 60 rows), [0, 1])
    """
    validate.one_of(HIDES, hides=hides)
    validate.whole(1, seeds=seeds)
    validate.require(len(epsilons) > 0, "epsilons must name a budget")
    for epsilon in epsilons:
        validate.positive(epsilons=epsilon)
    data = on if isinstance(on, Dataset) else load(on)
    own = Method.of(method) if model is None else Method.of(method).by(model)
    known = {one.name: one for one in RIVALS[hides]}
    wanted = [against] if isinstance(against, str) else against
    if against == "all":
        wanted = list(known)
    rivals = [known[one] if one in known else Method.of(one) for one in wanted]
    titles = [one.name for one in (own, *rivals)]
    validate.require(
        len(set(titles)) == len(titles),
        f"methods must have names of their own, as Method(name, make) has, got {', '.join(titles)}",
    )
    columns = [float(epsilon) for epsilon in epsilons]
    beside = itertools.product(columns, (PRIVATE, PLACEBO, DEFAULT))
    cells = [_Cell(own, users, epsilon, own=True) for epsilon, users in beside]
    cells.append(_Cell(own, CEILING, max(columns), own=True))
    others = itertools.product(columns, rivals)
    cells += [_Cell(rival, PRIVATE, epsilon, own=False) for epsilon, rival in others]
    folder = None if out is None else Path(out)
    if folder is not None:
        figure_class()  # before hours are spent
    stored = read(folder)
    facts = {"data": data.name, "hides": hides, "panel": panel}
    facts["versions"] = ", ".join(f"{name} {version}" for name, version in versions().items())
    x = data.x if isinstance(data.x, np.ndarray) else (data.x.indptr, data.x.indices, data.x.data)
    bounds = np.array([data.lower, data.upper], np.float64)
    names = np.array(data.class_names or ())
    data_digest = digest((np.asarray(data.edges), x, data.y, bounds, names)).hex()
    rows: list[Row] = []
    verdicts: dict[float, Any] = {}
    skipped: dict[str, str] = {}
    with watched("compare", progress):
        for seed in range(seeds):
            over = np.linspace(seed / seeds, (seed + 1) / seeds, len(cells) + 1)
            phase(f"draw {seed}", over[0], over[0])
            with watched("public facts"):
                here = draw(seed, data, hides, panel)
            alone = _rows(here.graph_alone().argmax(1), here, facts | {"seed": seed} | _NOTHING)
            rows += alone
            for number, cell in enumerate(cells):
                phase(f"draw {seed}: {cell}", over[number], over[number + 1])
                try:
                    entry = cell.method.enter(here, cell.epsilon)
                    name = facts | {"seed": seed} | _name(cell, entry, data_digest)
                    found = [row for row in stored if _is_of(row, name)]
                    if {row.among for row in found} != {row.among for row in alone}:
                        classes, cost = _played(entry, cell, here, seed)
                        found = _rows(classes, here, name | cost)
                        append(folder, found)
                except (TypeError, ValueError) as refusal:
                    if cell.own and cell.users != CEILING:
                        raise
                    skipped[str(cell)] = str(refusal).split("\n")[0]
                    continue
                rows += found
                if verify and cell.own and entry.mechanism is not None and not verdicts:
                    phase("verdict", over[number], over[number + 1])
                    key = jax.random.key(seed)
                    verdicts[cell.epsilon] = verification.check(entry.mechanism, key)
    made = Comparison(own.name, tuple(rows), verdicts, skipped)
    if folder is not None:
        save(made, folder)
    return made


# --- One run --------------------------------------------------------------------------------------

_NOTHING = {
    "method": ALONE,
    "users": PRIVATE,
    "epsilon": 0.0,
    "proved": 0.0,
    "guarantee": "nothing private is read",
    "seconds": 0.0,
    "memory": 0.0,
    "download": 0,
    "upload": 0,
    "made_of": "",
}
"""The row of what is known without private data."""


def _name(cell: _Cell, entry: Entry, data: str) -> dict[str, Any]:
    """The name that tells a cell's row from the others of its draw.

    ``made_of`` tells code, parameters and data apart; it is empty where they cannot be told.
    """
    made = entry.server if entry.mechanism is None else entry.mechanism
    sources = [_source(kind) for kind in _classes(made)]
    model = cell.method.model
    if model is not None:
        with np.printoptions(threshold=sys.maxsize):  # every number of an array is told
            bound = repr(_bound(model))
        sources += [_source(getattr(model, "func", model)), bound]
    source = "".join(sources) if all(sources) else ""
    try:
        parameters = fingerprint(made)
    except TypeError:  # a field that is no array, number or text
        source = ""
        parameters = ""
    told = source + parameters + data
    made_of = hashlib.sha256(told.encode()).hexdigest()[:10] if source else ""
    named = {"method": cell.method.name, "users": cell.users, "epsilon": cell.column}
    return named | {"made_of": made_of}


def _is_of(row: Row, name: dict[str, Any]) -> bool:
    return bool(name["made_of"]) and all(getattr(row, part) == name[part] for part in name)


def _bound(made: Any) -> tuple[Any, ...]:
    """The values that a function or a partial call holds beside its code."""
    held = getattr(getattr(made, "func", made), "__closure__", None) or ()
    inner = tuple(cell.cell_contents for cell in held)
    return getattr(made, "args", ()), getattr(made, "keywords", {}), inner


def _classes(made: Any) -> Iterator[type]:
    """The class of a method, and those of the dataclasses that it holds."""
    yield type(made)
    held = [*vars(made).values()] if dataclasses.is_dataclass(made) else []
    for inner in jax.tree.leaves(held, is_leaf=dataclasses.is_dataclass):
        if dataclasses.is_dataclass(inner) and not isinstance(inner, type):
            yield from _classes(inner)


def _source(made: Any) -> str:
    """The text of the file that defines a class or a function; empty where it was typed in."""
    try:
        file = inspect.getsourcefile(made)
    except (OSError, TypeError):
        return ""
    path = Path(file or "")
    return path.read_text() if path.is_file() else ""


def _played(
    entry: Entry, cell: _Cell, here: Draw, seed: int
) -> tuple[Int[np.ndarray, " n"], dict[str, Any]]:
    """The classes that one run finds, and its cost."""
    shuffle_key, key = random.split(random.fold_in(jax.random.key(seed), 1))
    if cell.users == PLACEBO:
        users = entry.users.shuffled(shuffle_key)
    elif cell.users == DEFAULT:
        users = entry.users.public_record(entry.default)
    else:
        users = entry.users.exact() if cell.users == CEILING else entry.users
    kept = memory.begin()
    start = time.perf_counter()
    released = simulate(key, entry.server, users)
    seconds = time.perf_counter() - start
    total = [
        f"{digits_up(one.epsilon)} per {unit}{_SHOWN[one.status]}"
        for unit, one in released.guarantee.items()
    ]
    cost = {
        "proved": proved_by(released.guarantee, here.hides),
        "guarantee": "; ".join(total),
        "seconds": round(seconds, 3),
        "memory": memory.risen(kept),
        "download": sum(one.download for one in released.rounds),
        "upload": sum(one.upload for one in released.rounds),
    }
    return answer_of(released.value, here.data.num_nodes), cost


def _rows(classes: Int[np.ndarray, " n"], here: Draw, named: dict[str, Any]) -> list[Row]:
    """A row for all who are scored, and one for each third and class of them."""
    scored = here.scored
    degree = np.bincount(np.asarray(here.data.graph.receivers), minlength=len(scored))
    cuts = np.quantile(degree[scored], (1 / 3, 2 / 3))
    third = np.searchsorted(cuts, degree, "left")
    groups = {ALL: scored}
    groups |= {name: scored & (third == place) for place, name in enumerate(THIRDS)}
    if here.data.num_classes <= _CLASSES:
        names = here.data.class_names or range(here.data.num_classes)
        groups |= {f"class {name}": scored & (here.data.y == c) for c, name in enumerate(names)}
    right = classes == here.data.y
    return [
        Row(**named, among=among, accuracy=round(float(right[who].mean()), 6))
        for among, who in groups.items()
        if who.any()
    ]
