"""One cell of HeteroRR: what is released of records and edges, and a GCN trained on it."""

import dataclasses
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments import _common, _runner
from experiments._common import Score, best, label_propagation, standardized
from experiments.heterorr import releases
from experiments.heterorr.settings import (
    EDGE_MECHANISMS,
    FEATURE_MECHANISMS,
    LABEL_STEPS,
    LONG_CHAINS,
    PRIVATE_LABELS,
    Settings,
)
from ldp_jax import curators, datasets, servers
from ldp_jax.accounting.guarantee import EDGE_CENTRAL, Guarantee, PipelineGuarantee
from ldp_jax.bench.classes import OfOneHot
from ldp_jax.core.mechanism import privatize
from ldp_jax.datasets import splits
from ldp_jax.graph import graphs, propagation
from ldp_jax.learning import label_training, models, training
from ldp_jax.learning.models import NodeInputs

NON_PRIVATE, RECORDS = "non-private", "non-private records"
PUBLIC_RECORDS, LABEL_PROPAGATION = "public records alone", "label-propagation"
"""At the features level: only the public users' records are known, at epsilon 0; and no record at
all.
"""

RELEASED, TRUE = "released private pairs", "true among them"
AGREED = "chains agree"
"""Metrics of released edges."""

_PLACES = (
    1024  # edge lists are padded to a multiple of a quarter of the power of two below: few programs
)
_FEW = 20  # epochs that take no longer than to compile a program
_DRAWS = 2**18  # of reports, by which one of somebody's own mechanism is measured: to 0.001
_LABELS = np.uint32(0x1ABE1)  # folded into a seed's key for the noise of labels


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(_runner.Cell):
    """One training on one release.

    Attributes:
      level: what is protected; at level ``both`` ``mechanism`` and ``epsilon`` are of the features.
      rho: the share of edges that is private; 0 where all are public.
      edges: at level ``both`` the mechanism on edges; else "".
      epsilon_edges: its budget; else 0.
    """

    level: str
    rho: float
    edges: str
    epsilon_edges: float

    last_metric = property(lambda self: "micro-F1" if self.task == "labels" else "accuracy")

    @property
    def of_edges(self) -> tuple[str, float]:
        return (
            (self.release, self.epsilon)
            if self.level == "edges"
            else (self.edges, self.epsilon_edges)
        )

    def __str__(self) -> str:
        more = f" + {self.edges}" if self.edges else ""
        return (
            f"{self.dataset} {self.level} {self.mechanism}{more} eps {self.epsilon:g} seed "
            f"{self.seed}"
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Bench:
    """A data set made ready for one seed.

    Its cells share the split and all keys, so that their rows are paired.

    ``parts`` are the examples of training, validation and test; ``public`` says whose records are
    public. The keys are of the noise of records, the noise of edges, the choice of private edges,
    the public model, the training.
    """

    settings: Settings
    data: datasets.Dataset
    parts: tuple[training.Examples, ...]
    public: np.ndarray
    feature_key: Any
    edge_key: Any
    split_key: Any
    score_key: Any
    fit_key: Any

    @property
    def labels(self) -> bool:
        """Whether a node may have several labels."""
        return self.data.y.ndim == 2


load = lru_cache(maxsize=2)(_common.load)


@lru_cache(maxsize=16)
def prepare(settings: Settings, seed: int) -> Bench:
    data = _common.of_plan(load(settings.dataset), settings)
    split_key, public_key, *keys = jax.random.split(
        jax.random.fold_in(jax.random.key(settings.base_seed), seed), 7
    )
    split = splits.node_split(split_key, data.num_nodes)
    parts = tuple(training.Examples(part, data.y[part].astype(np.int32)) for part in split)
    public = np.zeros(data.num_nodes, bool)
    if settings.public_share:
        count = round(settings.public_share * data.num_nodes)
        public[np.asarray(jax.random.permutation(public_key, split.train))[:count]] = True
    return Bench(settings, data, parts, public, *keys)


@lru_cache(maxsize=16)
def embedding(bench: Bench) -> releases.Embedding:
    """The public embedding of all records, and the shares of its coordinates."""
    settings = bench.settings
    return releases.embed(
        jax.random.clone(bench.score_key), bench.data.x.toarray(), bench.data.y, bench.public,
        width=settings.width, sensitive=settings.sensitive, gamma=settings.gamma,
    )  # fmt: skip


def records(bench: Bench) -> Any:
    """The records themselves, less the public default record: an absent word or count is 0."""
    x = bench.data.x.toarray()
    return jnp.asarray(
        x if bench.data.lower == 0 else x - (bench.data.lower + bench.data.upper) / 2
    )


def features(bench: Bench, name: str, epsilon: float) -> Any:
    """The server's view of all records.

    Estimates of private ones, and the records of public users.
    """
    if name == RECORDS:
        return records(bench)
    known = embedding(bench)
    name, _ = asked_by(bench, name, epsilon)
    mechanism = name.removeprefix(releases.STRUCTURE).removeprefix(releases.FEATURES)
    if mechanism == NON_PRIVATE:
        return jnp.asarray(known.z)
    if mechanism == PUBLIC_RECORDS:
        return jnp.where(known.public[:, None], known.z, 0.0)
    made = releases.feature_mechanism(mechanism, epsilon, known.theta, bench.settings.bins)
    # The twin's record is the mean of the public users', which is 0 in these coordinates.
    n, dim = known.z.shape
    z = (
        servers.PublicRecord(n, dim, 0.0)
        if name.startswith(releases.STRUCTURE)
        else jnp.asarray(known.z)
    )
    found = releases.released_features(jax.random.clone(bench.feature_key), z, made)
    return jnp.where(known.public[:, None], known.z, found)


def asked_by(bench: Bench, release: str, epsilon: float) -> tuple[str, Any | None]:
    """The release of features in a row, and the mechanism on labels if it asks for them.

    A mechanism on classes takes the place of LPGNN's on labels, beside LPGNN's on features.
    """
    known = bench.data.num_classes, bench.settings.width
    asked = None if bench.labels else releases.label_mechanism(release, epsilon, *known)
    prefix = releases.STRUCTURE if release.startswith(releases.STRUCTURE) else ""
    return (release if asked is None else prefix + PRIVATE_LABELS), asked


def split_of(bench: Bench, rho: float) -> curators.EdgeSplit:
    return curators.split_edges(jax.random.clone(bench.split_key), bench.data.graph, rho)


class Seen(NamedTuple):
    """The graph that everybody sees.

    How many pairs were released as private edges (or NaN), and how many are. ``agreed`` says
    whether the long chains of the release did.
    """

    graph: Any
    released: float = float("nan")
    true: float = float("nan")
    agreed: bool = True


def edges(bench: Bench, name: str, epsilon: float, rho: float) -> Seen:
    if name.startswith(releases.FEATURES):
        return Seen(graphs.from_edges(np.zeros((0, 2), np.int32), bench.data.num_nodes))
    if name == NON_PRIVATE or not rho:
        return Seen(bench.data.graph)
    split = split_of(bench, rho)
    key = jax.random.clone(bench.edge_key)
    graph, spent = releases.released_edges(key, split, name, epsilon, rho, bench.settings.sweeps)
    agreed = spent is None or name not in LONG_CHAINS or math.isfinite(spent[EDGE_CENTRAL].epsilon)
    return Seen(graph, *releases.count(split, graph), agreed)


def guarantee(bench: Bench, cell: Cell) -> PipelineGuarantee | None:
    """The guarantee of a cell's release.

    None where nothing private is used, or nothing is protected.
    """
    spent: list[Guarantee] = []
    fields: list[str] = []
    if cell.level != "edges":
        name, asked = asked_by(bench, cell.release, cell.epsilon)
        name = name.removeprefix(releases.FEATURES)
        if name in (*FEATURE_MECHANISMS, PRIVATE_LABELS) or _common.is_own(name):
            # Only FeatureRR asks for the shares, which take seconds to find.
            theta = embedding(bench).theta if name == "featurerr" else np.ones(bench.settings.width)
            spent.append(
                releases.feature_mechanism(
                    name, cell.epsilon, theta, bench.settings.bins
                ).guarantee()
            )
            fields.append("features")
        if asked is not None:  # the structure-only twin asks for labels, too
            of_label = asked.guarantee()
            spent = [spent[0] + of_label if spent else of_label]
            fields.append("labels")
    name, epsilon = cell.of_edges
    if name in (*EDGE_MECHANISMS, *LONG_CHAINS):
        made = releases.edge_mechanism(name, epsilon, bench.settings.sweeps)
        # Where the chains of a release do not agree, the row has no accuracy.
        spent.append(curators.promised(made) if name in LONG_CHAINS else made.guarantee())
        fields.append("private edges")
    if not spent:
        return None
    known = (
        ("features", "public edges") if cell.level == "edges" else ("public users", "public edges")
    )
    labels = () if "labels" in fields else ("labels",)
    return PipelineGuarantee.of(spent, protected=tuple(fields), unprotected=(*labels, *known))


@lru_cache(maxsize=1)
def _operator(dataset: str) -> propagation.Operator:
    return propagation.operator(load(dataset).graph)


def _laid_out(bench: Bench, graph: Any) -> propagation.Operator:
    """The whole graph of all rows of a level is fastest in a layout that is compiled for it alone.

    In a few epochs that does not pay.
    """
    alone = graph is bench.data.graph and bench.settings.epochs > _FEW
    return _operator(bench.settings.dataset) if alone else layout(bench, graph)


def layout(bench: Bench, graph: Any) -> propagation.Operator:
    """A graph for training, with as many places for edges as few programs need.

    A part of the edges has room for all of them, and in a few epochs none has, too.
    """
    places = len(graph.senders)
    if places or bench.settings.epochs <= _FEW:
        places = max(places, len(bench.data.graph.senders))
    room = _PLACES
    while room < places:
        room *= 2
    quarter = room // 8
    return propagation.operator(graph, "segment", places=-(-max(places, 1) // quarter) * quarter)


def model_of(bench: Bench, word: str = "") -> models.Model:
    """A GCN, or somebody's own model."""
    settings = bench.settings
    sizes = {name: getattr(settings, name) for name in ("layers", "hidden", "dropout")}
    outputs = bench.data.num_classes
    if word:
        return _common.own_model(word, outputs, **sizes)
    return models.gcn(outputs=outputs, **sizes)


def _score(bench: Bench, fitted: training.Fitted, chosen: str) -> Score:
    metric = "micro-F1" if bench.labels else "accuracy"
    return Score({metric: float(fitted.test)}, float(fitted.validation), chosen, fitted.variables)


def train(bench: Bench, op: Any, x: Any, steps: Sequence[int], model: str = "") -> Score:
    """The best in validation of all numbers of steps, raw and standardised; the first of equals."""
    objective = training.on_graph(
        training.node_labels if bench.labels else training.node_classification
    )
    found = []
    propagated = (x,) if tuple(steps) == (0,) else propagation.kprop_many(op, x, steps)
    for count, rows in zip(steps, propagated, strict=True):
        for preprocessing, made in (("raw", rows), ("standardised", standardized(rows))):
            fitted = training.fit(
                jax.random.clone(bench.fit_key),
                model_of(bench, model),
                objective,
                NodeInputs(op, made),
                *bench.parts,
                settings=bench.settings.for_training(len(bench.parts[0].index)),
            )
            found.append(_score(bench, fitted, f"{count} steps, {preprocessing}"))
    return best(found)


def train_on_noisy_labels(
    bench: Bench, op: Any, x: Any, steps: Sequence[int], mechanism: Any, model: str = ""
) -> Score:
    """LPGNN: steps of features, then of labels, each chosen by noisy validation labels.

    Labels of private users who train or validate go through the mechanism; true labels score the
    test alone.
    """
    keys = jax.random.split(jax.random.fold_in(jax.random.clone(bench.feature_key), _LABELS), 2)
    both = zip(keys, bench.parts[:2], strict=True)
    train, validation = (_noisy(mechanism, key, part, bench.public) for key, part in both)

    def fit(rows: Any, label_steps: int, chosen: str) -> Score:
        given, examples = label_training.drop_inputs(
            NodeInputs(op, rows), op, train, label_steps, also=validation
        )
        fitted = training.fit(
            jax.random.clone(bench.fit_key),
            label_training.drop(model_of(bench, model)),
            training.on_graph(label_training.noisy_node_classification),
            given,
            examples,
            validation,
            bench.parts[2],
            bench.settings.for_training(len(bench.parts[0].index)),
        )
        return _score(bench, fitted, chosen)

    rows: dict[str, Any] = {}
    for count, each in zip(steps, propagation.kprop_many(op, x, steps), strict=True):
        rows |= {f"{count} steps, raw": each, f"{count} steps, standardised": standardized(each)}
    first = best([fit(each, LABEL_STEPS[0], chosen) for chosen, each in rows.items()])
    later = [
        fit(rows[first.chosen], count, f"{first.chosen}; labels {count} steps")
        for count in LABEL_STEPS[1:]
    ]
    return best([first, *later])


def _noisy(
    mechanism: Any, key: Any, part: training.Examples, public: np.ndarray
) -> label_training.NoisyExamples:
    """Reports of labels; of public users the labels themselves."""
    known = public[part.index]
    if isinstance(mechanism, OfOneHot):
        said = np.where(known, part.label, reported(key, mechanism, part.label))
        keep = jnp.full(len(said), kept(mechanism), jnp.float32)
        shown = jax.nn.one_hot(said, mechanism.classes, dtype=jnp.float32)
        made = label_training.NoisyExamples(part.index, shown, keep)
    else:
        reports = np.asarray(privatize(key, mechanism, part.label))
        made = label_training.noisy_examples(
            mechanism, part.index, np.where(known, part.label, reports)
        )
    return made._replace(keep=jnp.where(known, 1.0, made.keep))


def reported(key: Any, mechanism: OfOneHot, labels: Any) -> np.ndarray:
    """The class that each report names: the largest number of its estimate."""
    rows = jax.nn.one_hot(labels, mechanism.classes)
    return np.asarray(_common.estimates(mechanism, privatize(key, mechanism, rows))).argmax(1)


def kept(mechanism: OfOneHot) -> float:
    """The chance that a report names the class, the mean over classes, by draws.

    Forward correction takes it, as if all other classes were named equally often. It is at least a
    guess's, which says nothing.
    """
    labels = np.arange(_DRAWS) % mechanism.classes
    right = reported(jax.random.key(0), mechanism, labels) == labels
    return max(float(right.mean()), (1 + 1e-3) / mechanism.classes)


def compute(bench: Bench, cell: Cell) -> _runner.Found:
    if cell.mechanism == LABEL_PROPAGATION:  # of the public edges alone where some are private
        seen = edges(bench, releases.PUBLIC_EDGES if cell.rho else NON_PRIVATE, 0.0, cell.rho)
        op = _laid_out(bench, seen.graph)
        classes = bench.data.num_classes
        test, *chosen = label_propagation(
            op, bench.parts, bench.settings, tol=1e-4, classes=classes
        )
        return Score({cell.last_metric: test}, *chosen).found()
    name, epsilon = cell.of_edges
    no_edges = cell.release.startswith(releases.FEATURES)
    seen = edges(bench, releases.FEATURES if no_edges else name or NON_PRIVATE, epsilon, cell.rho)
    if not seen.agreed:
        return _runner.Found({AGREED: 0.0, cell.last_metric: math.nan})
    x = records(bench) if cell.level == "edges" else features(bench, cell.release, cell.epsilon)
    # Public features are not noisy: two layers of the GCN average them enough.
    steps = (0,) if no_edges or cell.level == "edges" else bench.settings.steps
    op = _laid_out(bench, seen.graph)
    asked = None if cell.level == "edges" else asked_by(bench, cell.release, cell.epsilon)[1]
    if asked is not None:
        score = train_on_noisy_labels(bench, op, x, steps, asked, cell.model)
    else:
        score = train(bench, op, x, steps, cell.model)
    counts = {} if np.isnan(seen.released) else {RELEASED: seen.released, TRUE: seen.true}
    if name in LONG_CHAINS:
        counts[AGREED] = 1.0
    found = score.found()
    return found._replace(values={**counts, **found.values})
