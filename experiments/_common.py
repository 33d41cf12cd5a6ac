"""Shared by the papers' experiments.

Loading, checks of words, plans, label propagation, standard columns.
"""

import dataclasses
import hashlib
import json
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse

from experiments._report import is_own
from experiments._runner import (
    BY,
    Found,
    Grid,
    UsageError,
    asked,
    check_out,
    check_positive,
    console,
    parted,
    rounded,
    run,
)
from ldp_jax import datasets
from ldp_jax.bench.budgeted import called, model_of, on_classes, on_vectors
from ldp_jax.bench.classes import OfOneHot
from ldp_jax.bench.named import Named, named
from ldp_jax.core.mechanism import require_protocol
from ldp_jax.graph import graphs, propagation
from ldp_jax.learning import metrics, models, training

_P = ParamSpec("_P")
_C = TypeVar("_C")
_S = TypeVar("_S")

FOUND = ("validation", "chosen")
"""Columns that identify no row: the validation score, and what was chosen by it."""


def own_method(option: str, word: str) -> Named:
    """The object that ``module:Name``, or a call with literals, names; else a UsageError."""
    with asked(option):
        return named(word)


def making(word: str, epsilon: float) -> AbstractContextManager[None]:
    """Whatever fails while somebody's own method is made is a UsageError of one sentence."""
    return asked(f"--mechanisms {word} at epsilon {epsilon:g}", Exception)


def own_vectors(word: str, epsilon: float, dim: int) -> Any:
    """Somebody's own mechanism on vectors of ``dim`` numbers, or on one number."""
    with making(word, epsilon):
        return on_vectors(named(word).make, epsilon, dim)


def own_classes(word: str, epsilon: float, classes: int, dim: int) -> OfOneHot | None:
    """Somebody's own mechanism on classes; None of one on other records, as vectors of ``dim``."""
    with making(word, epsilon):
        made = called(named(word).make, epsilon, dim=dim, num_classes=classes)
        require_protocol(made)
        return on_classes(made, epsilon, classes)


def check_methods(option: str, names: Iterable[str], known: Iterable[str], out: Path) -> None:
    """Refuse names that are unknown, and rows of a method that has changed since.

    The folder of the rows keeps a digest of each own method's file, in ``own_methods.json``. A
    method that has begun no row there may change.
    """
    own = {name: own_method(option, name).digest for name in names if is_own(name)}
    words = [*known, "module:Name of your own"]
    unknown = [name for name in names if name not in own and name not in words]
    if unknown:
        raise UsageError(f"{option}: no {', '.join(unknown)}; there are {'; '.join(words)}")
    path = out / "own_methods.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    for name, digest in own.items():
        quoted = name.replace('"', '""')
        begun = [file for file in out.glob("*.csv") if quoted in file.read_text()]
        begun += out.glob("checkpoints/*")
        if begun and kept.get(name, digest) != digest:
            raise UsageError(
                f"{option} {name}: its file has changed since rows of {out} were computed. Give "
                f"another --out, or remove its rows and {path}"
            )
    if own:
        check_out(out)
        path.write_text(json.dumps(kept | own, indent=1))


@lru_cache
def own_model(word: str, outputs: int, **sizes: float) -> models.Model:
    """The model that a word names; equal words have equal programs."""
    return model_of(named(word).make, outputs, **sizes)


def check_models(
    words: Sequence[str],
    tried: tuple[Any, tuple[int, ...]],
    out: Path,
    option: str = "--models",
    known: Iterable[str] = (),
) -> None:
    """Refuse own models that do not give as many outputs for each example as are asked for.

    They are ``tried`` on inputs of examples of a shape; no number is computed.
    """
    check_methods(option, words, known, out)
    inputs, examples = tried
    key = jax.random.key(0)
    for word in filter(is_own, words):
        model = None
        try:
            model = own_model(word, _TRIED, layers=2, hidden=8, dropout=0.5)
            variables = jax.eval_shape(model.init, key, inputs)
            for train in (False, True):
                apply = partial(model.apply, key=key, train=train)
                found, _ = jax.eval_shape(apply, variables, inputs)
                if found.shape != (*examples, _TRIED):
                    raise ValueError(
                        f"outputs must be of shape {(*examples, _TRIED)} where outputs={_TRIED}, "
                        f"got {found.shape}"
                    )
        except Exception as error:
            given = f" on {type(inputs).__name__} of {examples} examples" if model else ""
            what = f"{type(error).__name__}: {error}".splitlines()[0]
            raise UsageError(f"{option} {word}{given}: {what}") from error


def by_models(release: str, words: Iterable[str]) -> list[str]:
    """The rows of a release: that of the paper's model, and of each own one."""
    return [release, *(f"{release}{BY}{word}" for word in words)]


def few_nodes() -> tuple[models.NodeInputs, tuple[int]]:
    """Inputs on which models of nodes are tried, and how many nodes there are."""
    ring = graphs.from_edges([[0, 1], [1, 2], [2, 3], [3, 4], [0, 4]], num_nodes=5)
    return models.NodeInputs(propagation.operator(ring), np.zeros((5, 4), np.float32)), (5,)


_TRIED = 3  # outputs that an own model is asked for before rows are computed


class Score(NamedTuple):
    """A trained row: its test metrics, the validation score that chose it, and what it chose."""

    values: Mapping[str, Any]
    validation: float
    chosen: str = ""
    variables: Any = None

    def found(self) -> Found:
        """Its rows, rounded to six digits."""
        return Found(
            rounded(self.values), rounded({"validation": self.validation}) | {"chosen": self.chosen}
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of trained rows, beyond what identifies them.

    Their hash is the column ``config``.

    Attributes:
      dataset: name, or path of a user's file.
      data: short sha256 of the arrays that were loaded.
      hidden: width of the layers.
      dropout: share of hidden values dropped in training.
      learning_rate: of Adam.
      weight_decay: L2, added to the gradient.
      epochs: at most so many; the best of them by validation is kept.
      patience: training stops after as many epochs without a better validation score.
      base_seed: seed s of a run is folded into this one.
    """

    dataset: str
    data: str
    hidden: int
    dropout: float
    learning_rate: float
    weight_decay: float
    epochs: int
    patience: int
    base_seed: int

    def for_training(self, batch_size: int) -> training.Settings:
        optimizer = training.adam(self.learning_rate, self.weight_decay)
        return training.Settings(optimizer, self.epochs, batch_size, self.patience)


LABEL_ALPHAS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9)
LABEL_RS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Decay factors and convolution coefficients that label propagation chooses from by validation."""


def best(scores: Sequence[Score]) -> Score:
    """The best score in validation; the first of equals."""
    return max(scores, key=lambda score: score.validation)


def load(name: str, bounds: tuple[float, float] | None = None) -> datasets.Dataset:
    """A data set; the features of one graph are sparse, however its file holds them."""
    data = datasets.load(name, bounds=bounds)
    if sparse.issparse(data.x) or data.node_graph is not None:
        return data
    return dataclasses.replace(data, x=sparse.csr_array(data.x))


def fingerprint(data: datasets.Dataset, dataset: str) -> str:
    """A short digest of the arrays of a data set, by which rows of changed data are others.

    Of a user's file, ``dataset``, it is of the public split and of the sets of nodes, too.
    """
    x = sparse.csr_array(data.x)
    bounds = np.array([data.lower, data.upper], np.float64)
    arrays = [bounds, data.edges, x.indptr, x.indices, x.data, data.y]
    if is_file(dataset):
        further = (data.extras.get("split"), data.node_graph)
        arrays += [array for array in further if array is not None]
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:10]


def is_file(dataset: str) -> bool:
    """Whether a data set is a file of the user, which may change, and none known by name."""
    return dataset not in datasets.names()


def of_plan(data: datasets.Dataset, settings: Any) -> datasets.Dataset:
    """The data of a row's settings; a UsageError where a file holds other ones by now, or here."""
    if is_file(settings.dataset) and fingerprint(data, settings.dataset) != settings.data:
        raise UsageError(
            f"--datasets {settings.dataset}: the file is not the one that this row was planned by. "
            "It must be the same on all machines; if it has changed, start workers anew and run "
            "the command again"
        )
    return data


def told(file: str, paper: str) -> dict[str, Any]:
    """A paper's part of a file of this folder, such as the numbers in ``published.toml``."""
    return tomllib.loads((Path(__file__).parent / file).read_text())[paper]


TWINS = ("structure-only", "features-only")
"""Before a row's name: the same without a private record, and without an edge."""
OWN_COLOURS = (
    "#e6194b", "#911eb4", "#f58231", "#3cb44b", "#9a6324", "#f032e6", "#808000", "#000075",
)  # fmt: skip


class RowNames(dict[str, str]):
    """Names of rows, or their colours; somebody's own method has its word, or a colour."""

    def __init__(self, known: Mapping[str, str], own: Sequence[str] = ()) -> None:
        super().__init__(known)
        self.own = own

    def __missing__(self, name: str) -> str:
        if not is_own(name):
            raise KeyError(name)
        taken = sum(map(is_own, self))
        self[name] = self.own[taken % len(self.own)] if self.own else name
        return self[name]

    def of(self, name: str) -> str:
        """The name of a row; a prefix such as ``structure-only:`` comes before it.

        >>> RowNames({"hds": "HDS"}).of("structure-only:hds")
        'structure-only HDS'
        """
        release, model = parted(name)
        if model:
            return f"{self.of(release)}{BY}{model}"
        prefix, _, rest = name.partition(":")
        if name in self or is_own(name):
            return self[name]
        return f"{prefix} {self.of(rest)}" if prefix in TWINS and rest else name

    def learn(self, names: Iterable[str]) -> None:
        """Take in somebody's own methods, so that a loop over all rows meets them."""
        for name in filter(is_own, names):
            self[name]


def row_names(paper: str) -> tuple[RowNames, RowNames]:
    """Names of rows in tables and figures, and their colours: ``names.toml``."""
    known = told("names.toml", paper)
    colours = {key: one[1] for key, one in known.items() if one[1:]}
    return RowNames({key: one[0] for key, one in known.items()}), RowNames(colours, OWN_COLOURS)


def said_of(data: datasets.Dataset, row: str, promised: object) -> dict[str, dict[str, Any]]:
    """For a manifest: the origin of a data set, and what a row promises, where it does."""
    origin = {"source": data.source, "licence": data.licence, "notes": data.notes}
    said: dict[str, dict[str, Any]] = {"data": {data.name: origin}}
    return said | ({} if promised is None else {"guarantees": {row: str(promised)}})


def usable(load: Callable[[str], datasets.Dataset], name: str, hint: str = "") -> datasets.Dataset:
    """One graph with features, or a UsageError.

    ``hint`` follows the message about undeclared bounds.
    """
    try:
        data = load(name)
    except (ValueError, OSError) as error:
        shown = hint if "must be declared" in str(error) else ""
        raise UsageError(f"--datasets {name}: {error}{shown}") from error
    if data.node_graph is not None:
        raise UsageError(
            f"--datasets {name}: this is a set of graphs, which python -m experiments dprr "
            "classifies"
        )
    if data.num_features == 0:
        raise UsageError(
            f"--datasets {name}: it has no features, so there is nothing private to perturb"
        )
    if data.y is not None and (data.y < 0).any():
        raise UsageError(f"--datasets {name}: some nodes have no class (-1): leave those out")
    return data


def check_words(
    config: Any, *, positive: Sequence[str] = (), shares: Sequence[str] = (),
    known: Mapping[str, Collection[str]] | None = None,
) -> None:  # fmt: skip
    """Refuse the first field that is not positive, a share in (0, 1), or of known words."""
    option = {name: f"--{name.replace('_', '-')}" for name in vars(config)}
    for name in positive:
        if (value := getattr(config, name)) is not None:
            check_positive(option[name], *np.atleast_1d(value))
    for name in shares:
        if not all(0 < share < 1 for share in getattr(config, name)):
            given = " ".join(map(str, getattr(config, name)))
            raise UsageError(f"{option[name]} must be shares above 0 and below 1, got {given}")
    for name, words in (known or {}).items():
        if unknown := [word for word in getattr(config, name) if word not in words]:
            raise UsageError(
                f"{option[name]}: no {', '.join(unknown)}; there are {'; '.join(words)}"
            )


def check_labels(settings: Iterable[str]) -> None:
    """Refuse settings that do not say whose labels are public."""
    for setting in settings:
        if setting != "half" and not (setting.isdecimal() and int(setting) > 0):
            raise UsageError(
                f"--labels must be half, or a number of users of each class, got {setting}"
            )


def planned(cells: Callable[_P, Iterable[tuple[_C, _S]]]) -> Callable[_P, dict[_C, _S]]:
    """The plan of the cells, each with its settings, that a function yields."""

    def plan(*given: _P.args, **more: _P.kwargs) -> dict[_C, _S]:
        return dict(cells(*given, **more))

    return plan


def run_parts(config: Any, parts: Mapping[str, ModuleType], rest: ModuleType | None = None) -> None:
    """Compute the missing rows of the parts that are asked for.

    Plans refuse bad input before the first row.

    Parts without a module of their own are those of ``rest``, which comes first. A module has
    ``results_in(out)``, ``plan(config)``, a mapping from cells in the order of their computation to
    their settings, and ``compute(cell, settings)``, which finds a cell's rows; perhaps
    ``check(cell, settings)``, which refuses one.
    """
    config.check()
    asked = [rest] if rest is not None and {*config.parts} - {*parts} else []
    asked += [part for name, part in parts.items() if name in config.parts]
    for part, cells in [(part, part.plan(config)) for part in asked]:
        more = {"check": part.check} if hasattr(part, "check") else {}
        run(
            cells,
            part.compute,
            part.results_in(config.out),
            called=getattr(part, "CALLED", "rows"),
            grid=config,
            **more,
        )


def announce(config: Grid, write: Callable[[Path], Iterable[Path]]) -> None:
    """Write the reports of a folder, and say which files they are; of a share there are none."""
    if config.share:
        shown = f"reports of all shares: python -m experiments report --out {config.out}"
        console.print(shown, soft_wrap=True, highlight=False)
    if not config.whole:
        return
    for path in write(config.out):
        console.print(f"written: {path}", soft_wrap=True, highlight=False)


def label_propagation(
    op: Any, parts: Sequence[Any], settings: Any, *, tol: float, classes: int
) -> Any:
    """PageRank of the training labels.

    The classes by the graph alone, without any feature and without training. A node that no label
    reaches is of the largest class.

    ``parts`` are the examples of training, validation and test; validation takes the first best
    pair of the settings' ``label_alphas`` and ``label_rs``. Returns test accuracy, validation
    accuracy, and the pair in words.
    """
    grid = [(alpha, r) for alpha in settings.label_alphas for r in settings.label_rs]
    columns = jnp.asarray(grid, jnp.float32).T
    validations, tests = _label_propagation(op, *parts, *columns, jnp.float32(tol), classes=classes)
    place = int(np.argmax(validations))
    alpha, r = grid[place]
    return float(tests[place]), float(validations[place]), f"alpha {alpha:g} r {r:g}"


@partial(jax.jit, static_argnames="classes")
def _label_propagation(
    op: Any, train: Any, validation: Any, test: Any, alphas: Any, rs: Any, tol: Any, *, classes: int
) -> Any:
    known = jnp.zeros((op.num_nodes, classes)).at[train.index, train.label].set(1.0)
    sizes = known.sum(0)

    def one(pair: Any) -> Any:
        alpha, r = pair
        scores = propagation.ppr(op, known, alpha, r, tol)
        nothing = (scores == 0).all(1, keepdims=True)  # of a node that no label reaches
        scores = jnp.where(nothing, sizes, scores)
        return tuple(
            metrics.accuracy(scores[part.index], part.label) for part in (validation, test)
        )

    return jax.lax.map(one, (alphas, rs))


@jax.jit
def estimates(mechanism: Any, reports: Any) -> Any:
    return jax.vmap(mechanism.estimate)(reports)


_COLUMNS = 512  # standardised at a time: float64 copies stay small


def standardized(z: Any) -> Any:
    """Every column to mean 0 and standard deviation 1; a constant column to 0.

    On the host in float64: XLA's float32 column sums depend on how many threads share them, which
    trained rows then show in points.
    """
    host = np.asarray(z)
    out = np.empty_like(host)
    for start in range(0, host.shape[1], _COLUMNS):
        block = host[:, start : start + _COLUMNS].astype(np.float64)
        centred = block - block.mean(0)
        deviation = np.sqrt((centred**2).mean(0))
        constant = deviation <= 1e-6 * np.abs(block).max(
            0
        )  # float32 noise around one value is no signal
        out[:, start : start + _COLUMNS] = np.where(
            constant, 0.0, centred / np.where(constant, 1.0, deviation)
        )
    return jnp.asarray(out)
