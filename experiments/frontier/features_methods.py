"""Methods where records are private: by name, each a function of one draw and a budget."""

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments._common import best, fingerprint
from experiments.frontier import methods
from experiments.frontier.baselines import BASELINES
from experiments.frontier.baselines._network import (
    Inputs,
    of_graph,
    over,
    parts,
    standardised,
    trained,
)
from experiments.frontier.methods import CHANCE, REHEARSAL, Answer, foretold
from experiments.privge import cells
from experiments.privge import settings as published
from ldp_jax import datasets
from ldp_jax.accounting.guarantee import RECORD, Guarantee, PipelineGuarantee
from ldp_jax.core.pytree import pytree
from ldp_jax.features import PersonalAlphabets
from ldp_jax.learning import metrics, training
from ldp_jax.servers import ClassQuestion, PanelFacts, ReportServer, Users, rehearse, simulate
from ldp_jax.servers.parts import stack, structure
from ldp_jax.servers.parts.rows import Rows
from ldp_jax.servers.reports import LocalPrediction
from ldp_jax.servers.worlds.records import ReportSample


@dataclasses.dataclass(frozen=True, eq=False)
class Asked:
    """One draw of a data set: who is of the panel, and what is known before anybody reports."""

    dataset: str
    data: datasets.Dataset
    """the graph, which is public, and everybody's records and labels"""
    rows: Rows
    """everybody's records, as devices classify them"""
    labels: np.ndarray
    """int [n], of the panel; -1 for private users, whose classes are asked for"""
    facts: PanelFacts
    """the same for every budget"""

    classes = property(lambda self: self.facts.num_classes)
    members = property(lambda self: np.flatnonzero(self.labels >= 0))
    private = property(lambda self: np.flatnonzero(self.labels < 0))


class Method(NamedTuple):
    """A row: a function of a key, a draw and epsilon, which gives scores or values by metric."""

    noise: int
    """rows of one number have the same noise, so that what differs is the method"""
    run: Callable[[Any, Asked, float], Answer]


STRUCTURE_CORRELATION = "correlation of structure alone"
ERROR = "relative error"
CORRELATION = "correlation"
PROTECTED = "features of private users"
PANEL = ("edges", "the panel's records", "the panel's labels")

_NOTHING = Guarantee(
    0.0, unit=RECORD, status="proved", reason="no record of a private user is read"
)
UNREAD = PipelineGuarantee.of([_NOTHING], protected=(PROTECTED,), unprotected=PANEL)
SHOWN = PipelineGuarantee.of(
    (Guarantee(math.inf, unit=RECORD),), protected=(), unprotected=(PROTECTED, *PANEL)
)


def padded(rows: Rows) -> Rows:
    """The same records with zeros at the end.

    Panels of one size have few different numbers of entries.
    """
    count = len(rows.row)
    room = -count % (1 << max(6, count.bit_length() - 3))
    row, column, value = (np.asarray(array) for array in (rows.row, rows.column, rows.value))
    made = (np.pad(row, (0, room), constant_values=rows.shape[0] - 1), np.pad(column, (0, room)))
    return Rows(*map(jnp.asarray, (*made, np.pad(value, (0, room)))), shape=rows.shape)


# --- Local prediction -----------------------------------------------------------------------------


def _local(
    key: Any,
    asked: Asked,
    epsilon: float,
    *,
    guarded: bool = True,
    placebo: bool = False,
    plain: bool = False,
) -> Answer:
    """Local prediction; without the guard, of a placebo, or with an alphabet of all classes."""
    alphabets = None
    if plain:  # where all classes are equally likely, the best alphabet holds all of them
        even = np.full(asked.facts.structure.log_q.shape, 1.0 / asked.classes)
        alphabets = PersonalAlphabets.of(epsilon, even)
    users = _users(asked)
    if placebo:
        key, shuffle_key = jax.random.split(key)
        users = users.shuffled(shuffle_key)
    _, key = jax.random.split(key)  # of the other half, ldp_jax.predict_from_reports finds facts
    released = simulate(key, ReportServer(asked.facts, epsilon, guarded, alphabets), users)
    return Answer(released.value.log_posterior, released.guarantee, _believed(released.value))


def _users(asked: Asked) -> Users:
    return Users(records=asked.rows, public=asked.labels >= 0)


def _believed(found: LocalPrediction) -> dict[str, Any]:
    return {"strength": round(found.strength, 4), "used": found.used}


def shuffled(key: Any, rows: Rows, private: np.ndarray) -> Rows:
    """The records of private users dealt out among them; the panel keeps theirs."""
    holder = np.arange(rows.shape[0], dtype=np.int32)
    holder[private] = np.asarray(jax.random.permutation(key, private))
    row = holder[np.asarray(rows.row)]
    order = np.argsort(row, kind="stable")
    arrays = (row, np.asarray(rows.column), np.asarray(rows.value))
    return Rows(*(jnp.asarray(array[order]) for array in arrays), shape=rows.shape)


def _noiseless(key: Any, asked: Asked, epsilon: float, *, soft: bool) -> Answer:
    """Local prediction whose devices report what they find as it is.

    The best class, or all scores.
    """
    users = _Candid(records=asked.rows) if soft else _users(asked).exact()
    found = simulate(
        key, ReportServer(asked.facts, 1.0), users
    ).value  # no noise is drawn, whatever the epsilon
    return Answer(found.log_posterior, SHOWN, _believed(found))


@pytree
class _Scores(ClassQuestion):
    """Report all scores as they are."""

    def answer_all(self, key: Any, users: Any) -> np.ndarray:
        """Everybody's posterior by the classifier."""
        return self.reports(key, self.classifier.scores(users.records))

    def reports(self, key: Any, scores: Any) -> np.ndarray:
        """A posterior of classes."""
        return np.asarray(jax.nn.log_softmax(jnp.asarray(scores)))

    def log_likelihoods(self, values: Any) -> np.ndarray:
        """The same, for a likelihood."""
        return values


class _Candid(Users):
    """Users whose devices report all scores, whatever they are asked."""

    def put(self, question: Any) -> Any:
        """The question about scores, in place of a :class:`ClassQuestion`."""
        exact = question.exact()
        return _Scores(
            **{field.name: getattr(exact, field.name) for field in dataclasses.fields(exact)}
        )


# --- Structure alone, and the whole truth ---------------------------------------------------------


def _chosen(key: Any, asked: Asked, epsilon: float) -> Answer:
    """The source that the panel's log-loss prefers, as somebody would who collects nothing."""
    return Answer(asked.facts.structure.log_q, UNREAD, {"used": asked.facts.structure.chosen})


def _source(name: str, key: Any, asked: Asked, epsilon: float) -> Answer:
    """One of the sources that the stack weighs."""
    found = asked.facts.structure
    return Answer(found.sources[..., found.names.index(name)], UNREAD)


def _stack(key: Any, asked: Asked, epsilon: float) -> Answer:
    found = asked.facts.structure
    return Answer(stack.combine(found.sources, found.weights), UNREAD)


def _field(key: Any, asked: Asked, epsilon: float) -> Answer:
    """The field of the panel's labels, without reports."""
    facts = asked.facts
    truth = np.eye(asked.classes, dtype=np.float32)[asked.labels[asked.members]]
    nothing = jnp.zeros_like(facts.structure.log_q)
    silent = np.zeros(len(asked.labels), bool)
    scores, _ = structure.best_field(
        facts.op, facts.known, jnp.asarray(truth).mean(0), nothing, silent
    )
    return Answer(scores, UNREAD)


def _gcn_of_names(key: Any, asked: Asked, epsilon: float) -> Answer:
    """A graph convolutional network in which each node has its own name."""
    return Answer(over(key, of_graph(asked.data.graph), None, asked.labels, asked.classes), UNREAD)


def _gcn_of_panel(key: Any, asked: Asked, epsilon: float) -> Answer:
    """A graph convolutional network on the panel's records, spectral coordinates and degrees."""
    rows = asked.rows
    kept = np.isin(np.asarray(rows.row), asked.members)
    value = jnp.asarray(np.where(kept, np.asarray(rows.value), 0.0).astype(np.float32))
    public = Rows(rows.row, rows.column, value, shape=rows.shape)
    degree = np.bincount(np.asarray(asked.data.graph.receivers), minlength=len(asked.labels))
    columns = [structure.spectral_coordinates(asked.data.graph, 64), np.log1p(degree)[:, None]]
    inputs = Inputs(
        rows=public,
        columns=standardised(np.concatenate(columns, 1)),
        links=of_graph(asked.data.graph),
    )
    return Answer(trained(key, inputs, asked.labels, asked.classes), UNREAD)


def _classifier(key: Any, asked: Asked, epsilon: float) -> Answer:
    """The classifier of the devices, without the graph."""
    return Answer(asked.facts.classifier.scores(asked.rows), SHOWN)


def _true_records(name: str, key: Any, asked: Asked, epsilon: float) -> Answer:
    """A baseline on everybody's records and the graph."""
    found = BASELINES[name](
        key, methods.Asked(asked.data.graph, asked.rows, asked.labels, asked.classes), epsilon
    )
    return Answer(found.scores, SHOWN)


PUBLIC_EPSILON = 1.0
"""Of the noise of PrivGE's public record, which no budget is spent on."""


def _privge(key: Any, asked: Asked, epsilon: float, *, structure_only: bool = False) -> Answer:
    """PrivGE as published.

    A fifth of the panel's labels says when to stop and how columns are scaled.
    """
    bench, made = _bench(key, asked, PUBLIC_EPSILON if structure_only else epsilon)
    z = cells.embed(bench, made, structure_only=structure_only)
    score = best([cells.train(bench, z, how) for how in cells.EMBEDDINGS])
    return Answer(score.values["accuracy"], UNREAD if structure_only else _spent(made))


def _fidelity(key: Any, asked: Asked, epsilon: float) -> Answer:
    """Correlation of PrivGE's embedding, and of a public record's, with the true embedding."""
    bench, made = _bench(key, asked, epsilon)
    true = cells.embed(bench, None)
    found = metrics.fidelity(cells.embed(bench, made), true)
    bench = dataclasses.replace(
        bench, noise_key=jax.random.clone(bench.noise_key)
    )  # paired on purpose
    alone = metrics.fidelity(cells.embed(bench, made, structure_only=True), true)
    values = {STRUCTURE_CORRELATION: alone.correlation, ERROR: found.relative_error}
    values[CORRELATION] = found.correlation
    return Answer({name: float(value) for name, value in values.items()}, _spent(made))


def _bench(key: Any, asked: Asked, epsilon: float) -> tuple[cells.Bench, cells.Mechanism]:
    """A draw as PrivGE's cells take it, and HDS."""
    parts_key, noise_key, fit_key = jax.random.split(key, 3)
    config = published.Config()
    data = fingerprint(asked.data, asked.dataset)
    settings = published.settings(
        config, "node", asked.dataset, data, published.Plan((epsilon,), 1)
    )
    dim = asked.data.num_features
    made = cells.make_mechanism(
        "hds", epsilon, dim, min(dim, cells.published_k(asked.dataset, "node"))
    )
    train, validation = parts(parts_key, asked.labels)
    private = asked.private.astype(np.int32)
    test = training.Examples(private, asked.data.y[private].astype(np.int32))
    bench = cells.Bench(
        settings,
        asked.data,
        0,
        cells.dense(asked.dataset),
        asked.facts.op,
        train,
        validation,
        test,
        noise_key,
        fit_key,
    )
    return bench, made


def _spent(made: cells.Mechanism) -> PipelineGuarantee:
    public = ("edges", "the panel's labels")
    return PipelineGuarantee.of(
        [made.value.guarantee()], protected=("features",), unprotected=public
    )


def _rehearsal(key: Any, asked: Asked, epsilon: float) -> Answer:
    """The forecast of local prediction; no user reports."""
    return Answer(foretold(rehearse(key, asked.facts, (epsilon,)), epsilon), UNREAD)


def _own_report(key: Any, asked: Asked, epsilon: float, *, limit: bool) -> Answer:
    """The gain of one's own report over the public posterior, by the panel's model.

    The mean over some users of the expected gain of today's report, or of the best there is.
    """
    sample = ReportSample.of(key, asked.facts)
    if limit:
        return Answer(float(sample.limit(epsilon).mean()), UNREAD)
    mask = ReportServer(asked.facts, epsilon).question.mask
    return Answer(float(sample.today(mask, epsilon).mean()), UNREAD)


LOCAL, UNGUARDED = "local prediction", "local prediction, no guard"
PLACEBO, UNGUARDED_PLACEBO = "local prediction, placebo", "local prediction, placebo, no guard"
PLAIN, PRIVGE = "local prediction, plain alphabet", "privge"
FIDELITY = "privge, fidelity"
STRUCTURE, CHOSEN = "structure", "structure, chosen"
OWN_REPORT, LIMIT = "own report, by the model", "own report, limit by the model"
TRUE = "non-private"

_SOURCES = (
    "1 hops",
    "2 hops",
    "PageRank 0.3",
    "PageRank 0.1",
    "PageRank 0.03",
    "spectral 16",
    "spectral 32",
    "spectral 64",
    "records of the panel",
    "shared friends",
)

METHODS: dict[str, Method] = {
    CHOSEN: Method(10, _chosen),
    **{f"{STRUCTURE}, {name}": Method(10, partial(_source, name)) for name in _SOURCES},
    f"{STRUCTURE}, field": Method(10, _field),
    f"{STRUCTURE}, stack": Method(10, _stack),
    f"{STRUCTURE}, gcn": Method(11, _gcn_of_names),
    f"{STRUCTURE}, gcn on the panel's records": Method(12, _gcn_of_panel),
    f"{STRUCTURE}, privge": Method(13, partial(_privge, structure_only=True)),
    f"{TRUE}, class": Method(20, partial(_noiseless, soft=False)),
    f"{TRUE}, class scores": Method(20, partial(_noiseless, soft=True)),
    f"{TRUE}, record alone": Method(20, _classifier),
    f"{TRUE}, ppr": Method(21, partial(_true_records, "non-private, ppr")),
    f"{TRUE}, gcn": Method(22, partial(_true_records, "non-private, gcn")),
    LOCAL: Method(0, _local),
    UNGUARDED: Method(0, partial(_local, guarded=False)),
    PLAIN: Method(0, partial(_local, plain=True)),
    PLACEBO: Method(1, partial(_local, placebo=True)),
    UNGUARDED_PLACEBO: Method(1, partial(_local, placebo=True, guarded=False)),
    PRIVGE: Method(13, _privge),
    OWN_REPORT: Method(31, partial(_own_report, limit=False)),
    LIMIT: Method(31, partial(_own_report, limit=True)),
    REHEARSAL: Method(30, _rehearsal),
    FIDELITY: Method(13, _fidelity),
}
"""By name; a name's number of noise is a part of its rows' keys."""

WITHOUT_EPSILON = tuple(name for name in METHODS if name.startswith((STRUCTURE, TRUE)))
"""Rows that use no private record at all, or all of them."""

LAST = {REHEARSAL: CHANCE, FIDELITY: CORRELATION}
"""Of rows without an accuracy, the metric that is computed last."""
