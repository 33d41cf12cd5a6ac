"""What a method is to the bench: a server, the users whom it asks, and its answer."""

import dataclasses
import inspect
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import log_softmax

from ldp_jax import edges, features
from ldp_jax.accounting.guarantee import (
    LABEL,
    NEIGHBOUR_LIST,
    RECORD,
    Guarantee,
    PipelineGuarantee,
    Unit,
)
from ldp_jax.accounting.statement import Cost, Role, Statement
from ldp_jax.bench.classes import AskClass, OfOneHot, broadcast
from ldp_jax.bench.draws import Draw, Hides, scaled
from ldp_jax.bench.named import named
from ldp_jax.core import random
from ldp_jax.core.mechanism import Mechanism, require_protocol
from ldp_jax.core.pytree import pytree
from ldp_jax.core.rounding import share
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.spaces import Box, Finite, Interval
from ldp_jax.core.types import Array, PRNGKey
from ldp_jax.edges import OneUsersView
from ldp_jax.graph import graphs
from ldp_jax.graph.propagation import Operator, operator, ppr
from ldp_jax.learning import training
from ldp_jax.learning.models import Model, NodeInputs, as_model
from ldp_jax.servers import (
    Answers,
    Ask,
    CountServer,
    JointPrivacy,
    JointServer,
    ListServer,
    PanelFacts,
    ReportServer,
    Users,
)
from ldp_jax.servers.driver import Server
from ldp_jax.servers.embedding import propagate
from ldp_jax.servers.lists import ListsAsked
from ldp_jax.servers.parts.device_classifier import DeviceClassifier
from ldp_jax.servers.parts.rows import DenseRows
from ldp_jax.servers.parts.self_training import features_posterior, folds

_FOLDS = 10
_ALPHA = 0.1  # of the PageRank of reports
_NEAR = 0.5  # of that of public features over a noisy graph
_R = 0.5
_MIXES = np.linspace(0.1, 1.0, 10)
_PARTS = 5  # of public labels, of which one chooses a model's epoch
_PLACES = 4096  # of edges: noisy graphs of about one size share programs
SIZES = {"layers": 2, "hidden": 32, "dropout": 0.5}
"""What own models are given beside the number of outputs."""
_EACH = 2.5  # of epsilon that is spent on each coordinate, as the papers have it

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

UNITS: dict[Hides, tuple[Unit, ...]] = {
    "features": (RECORD,),
    "edges": (NEIGHBOUR_LIST,),
    "both": (RECORD, LABEL, NEIGHBOUR_LIST),
}
"""The units that epsilon is about; where there are several, the largest counts."""


class Entry(NamedTuple):
    """A server of one draw and budget, and the users whom it asks.

    Attributes:
      server: its result has a ``log_posterior`` [n, C], or is one, or is the classes [n].
      users: who answer.
      default: the public record of the baseline without private data.
      mechanism: what the verdict is about; None of a protocol.
    """

    server: Any
    users: Users
    default: float = 0.0
    mechanism: Any = None

    __repr__ = by_shapes


@dataclasses.dataclass(frozen=True)
class Method:
    """A row of the table.

    Attributes:
      name: as tables print it.
      make: called with the public facts whose names it takes: ``epsilon``, ``facts``, ``dim``,
        ``num_users`` and ``num_classes``. Where it takes no ``epsilon`` and lacks an argument, the
        first one is epsilon.
      model: makes the model of nodes that is trained on what a mechanism gives (:func:`model_of`);
        None for a logistic regression.
    """

    name: str
    make: Callable[..., Any]
    model: Callable[..., Any] | None = None

    @classmethod
    def of(cls, given: Any) -> "Method":
        """A method as users name it: a word, a class or function, or what one of them made."""
        if isinstance(given, Method):
            return given
        if isinstance(given, str):
            word = named(given)
            return cls(given, (lambda: word.make()) if word.complete else word.make)
        made = isinstance(given, Server) or hasattr(given, "privatize")
        if made and not isinstance(given, type):
            return cls(type(given).__name__, lambda: given)
        return cls(getattr(given, "__name__", type(given).__name__), given)

    def by(self, given: Any) -> "Method":
        """The same with a model as users name it: a word, what makes it, or the model itself."""
        if isinstance(given, str):
            return dataclasses.replace(
                self, name=f"{self.name} by {given}", model=named(given).make
            )
        name = getattr(given, "__name__", type(given).__name__)
        make = given if inspect.isclass(given) or inspect.isfunction(given) else lambda: given
        return dataclasses.replace(self, name=f"{self.name} by {name}", model=make)

    def enter(self, draw: Draw, epsilon: float) -> Entry:
        """The server of one draw; a mechanism has one that trains on its reports.

        ``TypeError`` for what is neither, ``ValueError`` for a mechanism on other data than hidden
        ones, a guarantee beyond epsilon, or a model beside a server, which has its own.
        """
        made = self._made(draw, epsilon)
        if isinstance(made, Server):
            if self.model is not None:
                raise ValueError(f"{self.name}: a model is of mechanisms, and a server has its own")
            entry = Entry(made, draw.users)
        else:
            entry = self._of(made, draw, epsilon)
        check_column(self.name, entry.server, draw.hides, epsilon)
        return entry

    def _made(self, draw: Draw, epsilon: float) -> Any:
        return called(
            self.make,
            epsilon,
            facts=draw.facts,
            dim=draw.data.num_features,
            num_users=draw.data.num_nodes,
            num_classes=draw.data.num_classes,
        )

    def _of(self, made: Any, draw: Draw, epsilon: float) -> Entry:
        if isinstance(made, OneUsersView):
            _hidden(self.name, "neighbour lists", draw, "edges")
            x = scaled(draw.data)
            server = NoisyGraphServer(draw.labels, draw.graph_alone(), x, made, self._model(draw))
            return Entry(server, draw.users, mechanism=made)
        require_protocol(made, name=self.name)
        _hidden(self.name, "records", draw, "features")
        facts = draw.facts
        assert isinstance(facts, PanelFacts)
        panel = draw.labels >= 0
        asked: Mechanism | None = on_classes(made, epsilon, draw.data.num_classes)
        if asked is not None:
            classifier, found = broadcast(facts.classifier)
            shown = np.zeros((len(panel), draw.data.num_classes), np.float32)
            shown[facts.known.nodes] = found
            users = draw.users
        else:
            classifier = None
            asked = on_vectors(self.make, epsilon, draw.data.num_features)
            records = scaled(draw.data)
            shown = np.where(panel[:, None], records, np.float32(0.0))
            users = Users(records=records, public=panel)
        known = draw.labels, draw.graph_alone(), shown
        server = VectorServer(facts.op, *known, asked, self._model(draw), classifier)
        return Entry(server, users, draw.data.default_record(), made)

    def _model(self, draw: Draw) -> Model | None:
        return None if self.model is None else model_of(self.model, draw.data.num_classes, **SIZES)


def called(make: Callable[..., Any], epsilon: float, **facts: Any) -> Any:
    """What ``make`` makes of the facts whose names it takes, and of epsilon.

    >>> called(lambda e, dim=1: (e, dim), 2.0, dim=3, facts=None)
    (2.0, 3)
    """
    taken = inspect.signature(make).parameters
    given = wanted(make, facts)
    if "epsilon" in taken:
        return make(epsilon=epsilon, **given)
    needed = [one for one in taken.values() if one.default is one.empty and one.name not in given]
    first = any(one.kind in _POSITIONAL for one in needed)
    return make(epsilon, **given) if first else make(**given)


def wanted(make: Callable[..., Any], facts: dict[str, Any]) -> dict[str, Any]:
    """The facts whose names a call takes, but those that its word says itself.

    >>> wanted(lambda e, dim=1: e, {"dim": 3, "classes": 2})
    {'dim': 3}
    """
    said = make.keywords if isinstance(make, partial) else {}
    taken = inspect.signature(make).parameters.keys() - said.keys()
    return {name: fact for name, fact in facts.items() if name in taken}


def on_vectors(make: Callable[..., Any], epsilon: float, dim: int) -> Any:
    """A mechanism on vectors in [-1, 1]^dim at a budget, of one on such vectors or on one number.

    Of one number it is :class:`~ldp_jax.features.Sampled`, with a coordinate for each 2.5 of
    epsilon. ``ValueError`` for other records or a guarantee that is not at most epsilon per record,
    ``TypeError`` for what is no mechanism.

    >>> on_vectors(features.Duchi, 5.0, 8) == features.Sampled(
    ...     features.Duchi(2.5), 8, 2
    ... )
    True
    """
    made = called(make, epsilon, dim=dim)
    require_protocol(made)
    domain = made.domain()
    if domain == Interval(-1.0, 1.0):
        k = max(1, min(dim, int(epsilon / _EACH)))
        made = features.Sampled(called(make, share(epsilon, k), dim=dim), dim, k)
    elif domain != Box(dim):
        raise ValueError(
            f"a mechanism must be on numbers in [-1, 1] or on vectors of {dim} of them, got "
            f"{domain}: a server of your own may ask for anything else"
        )
    _check_guarantee(made.guarantee(), RECORD, epsilon)
    return made


def on_classes(made: Mechanism, epsilon: float, classes: int) -> OfOneHot | None:
    """A mechanism on the classes 0 to C - 1 as one on vectors of one 1; None for other records.

    ``ValueError`` for a guarantee that is not at most epsilon per record.

    >>> on_classes(features.GeneralizedRR(1.0, 3), 1.0, 3) is not None
    True
    """
    if made.domain() != Finite(tuple(range(classes))):
        return None
    _check_guarantee(made.guarantee(), RECORD, epsilon)
    return OfOneHot(made, classes)


def on_lists(make: Callable[..., Any], epsilon: float) -> OneUsersView:
    """A mechanism on neighbour lists at a budget per bit of a list.

    ``ValueError`` for a guarantee that is not at most epsilon, ``TypeError`` for no such mechanism.

    >>> on_lists(edges.RandomizedResponse, 1.0).guarantee().epsilon
    1.0
    """
    made = called(make, epsilon)
    if not isinstance(made, OneUsersView):
        raise TypeError(
            f"a mechanism on neighbour lists must have privatize, guarantee, relationship, n, "
            f"reporting and reportings (edges.OneUsersView), got {type(made).__name__}"
        )
    _check_guarantee(made.guarantee(), NEIGHBOUR_LIST, epsilon)
    return made


@lru_cache  # models of functions are equal, and share programs, where they are one
def model_of(make: Callable[..., Any], outputs: int, **sizes: int | float) -> Model:
    """The model that a call makes of the sizes whose names it takes, ``outputs`` among them.

    ``TypeError`` where it needs others, or makes no model
    (:func:`~ldp_jax.learning.models.as_model`).

    >>> from ldp_jax.learning import models
    >>> model_of(models.mlp, 3, layers=2, hidden=8, heads=4) == models.mlp(2, 8, 3)
    True
    """
    given = {"outputs": outputs, **sizes}
    try:
        made = make(**wanted(make, given))
    except TypeError as error:
        raise TypeError(f"{error}; a training gives {', '.join(given)}") from error
    return as_model(made)


def _check_guarantee(stated: Guarantee, unit: Unit, epsilon: float) -> None:
    if stated.unit != unit or stated.delta or stated.epsilon > epsilon * (1 + 1e-9):
        raise ValueError(
            f"a guarantee must be at most epsilon {epsilon:g} per {unit}, got {stated}"
        )


def _hidden(name: str, data: str, draw: Draw, hides: Hides) -> None:
    if draw.hides != hides:
        raise ValueError(f"{name} is on {data}: hides must be {hides!r}, got {draw.hides!r}")


def check_column(name: str, server: Server, hides: Hides, epsilon: float) -> None:
    """Refuse a server whose guarantee for what is hidden exceeds the epsilon of its column."""
    stated = server.statement().guarantee()
    proved = proved_by(stated, hides)
    if not proved <= epsilon * (1 + 1e-9):
        raise ValueError(
            f"{name}: its guarantee must be at most the epsilon of its column, "
            f"{epsilon:g}, and is {proved:g}:\n{stated}"
        )


def proved_by(guarantee: PipelineGuarantee, hides: Hides) -> float:
    """The epsilon of a guarantee for what is hidden; infinite with a delta."""
    known = [one for unit, one in guarantee.items() if unit in UNITS[hides]]
    if not known or any(one.delta for one in known):
        return float("inf")
    return max(one.epsilon for one in known)


def answer_of(value: Any, users: int) -> np.ndarray:
    """The classes [n] that a result names. ``TypeError`` for one that names none."""
    scores = np.asarray(getattr(value, "log_posterior", value))
    if scores.ndim == 2 and len(scores) == users:
        return scores.argmax(1)
    if scores.shape == (users,) and scores.dtype.kind in "iu":
        return scores
    raise TypeError(
        "the result of a server must have a log_posterior [n, C], be one, or be classes int [n]; "
        f"got {type(value).__name__}"
    )


# --- Mechanisms as servers ------------------------------------------------------------------------


@pytree
class Asked:
    """Everybody but the panel is asked; the key is of the folds in which classifiers are judged."""

    question: Any
    key: PRNGKey


@dataclasses.dataclass(frozen=True, eq=False)
class VectorServer:
    """Propagate reports of vectors over the public graph, and classify beside structure alone.

    The panel's records are public, so that they are propagated as they are. The result is the log
    posterior [n, C].

    Attributes:
      op: of the public graph.
      labels: int [n], of the panel; -1 for private users.
      alone: float32 [n, C], the log posterior of structure alone.
      shown: float32 [n, d], the records of the panel; 0 of private users.
      mechanism: on vectors of d numbers.
      model: of nodes, trained on the public graph and z; None for :func:`classified`.
      classifier: by which devices find a class, of a mechanism on classes; else None.
    """

    op: Operator
    labels: Int[np.ndarray, " n"]
    alone: Float[np.ndarray, "n classes"]
    shown: Float[np.ndarray, "n d"]
    mechanism: Mechanism
    model: Model | None = None
    classifier: DeviceClassifier | None = None

    __repr__ = by_shapes

    def statement(self) -> Statement:
        """One report a private user."""
        role = Role((Cost(self.mechanism.guarantee()),), self.labels < 0)
        exposes = ("edges", "the panel's records", "the panel's labels")
        return Statement.of(role, exposes=exposes, protects=("features of private users",))

    def init(self, key: PRNGKey) -> Asked:
        """Private users are asked for their records."""
        asked = self.labels < 0
        if self.classifier is None:
            return Asked(Ask(self.mechanism, asked), key)
        return Asked(AskClass(self.classifier, self.mechanism, asked), key)

    def step(self, state: Asked, answers: Answers) -> Float[np.ndarray, "n classes"]:
        """Estimates and the panel's records are propagated, and classified."""
        mechanism = state.question.mechanism
        numbers = {"alpha": _ALPHA, "r": _R}
        z = propagate(self.op, mechanism, answers.values, reported=answers.reported, **numbers)
        z = z + ppr(self.op, self.shown, **numbers)
        if self.model is not None:
            return modelled(state.key, self.model, self.op, z, self.labels, self.alone.shape[1])
        return classified(state.key, z, self.labels, self.alone)


@dataclasses.dataclass(frozen=True, eq=False)
class NoisyGraphServer:
    """Propagate public features over the graph of noisy lists, and classify beside features alone.

    Two users are linked where either reports the other. The result is the log posterior [n, C].

    Attributes:
      labels: int [n], public; -1 for users whose class is asked for.
      alone: float32 [n, C], the log posterior of features alone.
      x: float32 [n, d], public.
      mechanism: on neighbour lists.
      model: of nodes, trained on the noisy graph and x; None for :func:`classified`.
    """

    labels: Int[np.ndarray, " n"]
    alone: Float[np.ndarray, "n classes"]
    x: Float[np.ndarray, "n d"]
    mechanism: OneUsersView
    model: Model | None = None

    __repr__ = by_shapes

    @property
    def lists(self) -> ListServer:
        """The server that makes a graph of the lists."""
        return ListServer(self.mechanism, len(self.labels))

    def statement(self) -> Statement:
        """One report of a list."""
        return self.lists.statement()

    def init(self, key: PRNGKey) -> Asked:
        """Everybody is asked for a list."""
        return Asked(self.lists.question, key)

    def step(self, state: Asked, answers: Answers) -> Float[np.ndarray, "n classes"]:
        """Features are propagated over the noisy graph, and classified."""
        noisy = self.lists.step(ListsAsked(state.question), answers).graph
        ends = np.stack([np.asarray(noisy.senders), np.asarray(noisy.receivers)], 1)
        pairs = np.unique(np.sort(ends, axis=1), axis=0)
        graph = graphs.from_edges(pairs, len(self.labels), pairs_in="rows")
        if self.model is not None:
            room = -(-max(2 * len(pairs), 1) // _PLACES) * _PLACES
            op = operator(graph, "segment", places=room)
            return modelled(state.key, self.model, op, self.x, self.labels, self.alone.shape[1])
        z = ppr(operator(graph), self.x, alpha=_NEAR, r=_R)
        return classified(state.key, z, self.labels, self.alone)


def classified(
    key: PRNGKey,
    z: Float[Array, "n d"],
    labels: Int[np.ndarray, " n"],
    alone: Float[np.ndarray, "n classes"],
) -> Float[np.ndarray, "n classes"]:
    """The mix of a classifier of z with what is known without it that held-out labels bear out.

    It is what is known alone where no mix is better by a standard error.
    """
    classes = alone.shape[1]
    fold = folds(key, labels, _FOLDS)
    known = labels >= 0
    of_label = lambda scores: scores[known, labels[known]]
    mixes = []
    for rows in _prepared(z):
        found = features_posterior(rows, labels, fold, num_classes=classes, num_folds=_FOLDS)
        for weight in _MIXES:
            mix = (1 - weight) * alone + weight * np.asarray(found.log_q)
            mixes.append(log_softmax(mix, axis=1))
    best = max(mixes, key=lambda mix: of_label(mix).mean())
    gains = of_label(best) - of_label(alone)
    error = gains.std(ddof=1) / np.sqrt(len(gains))
    return best if gains.mean() > error else alone


def modelled(
    key: PRNGKey,
    model: Model,
    op: Operator,
    rows: Float[Array | np.ndarray, "n d"],
    labels: Int[np.ndarray, " n"],
    classes: int,
) -> Float[np.ndarray, "n classes"]:
    """The log posterior by a model of nodes that is trained on public labels.

    A fifth of them chooses the epoch. Columns have mean 0 and one size. ``ValueError`` for a model
    of another number of outputs.
    """
    fold_key, fit_key = random.split(key)
    fold = folds(fold_key, labels, _PARTS)

    def examples(chosen: Bool[np.ndarray, " n"]) -> training.Examples:
        nodes = np.flatnonzero((labels >= 0) & chosen).astype(np.int32)
        return training.Examples(nodes, labels[nodes])

    taught = examples(fold != 0)
    held = examples(fold == 0)
    inputs = NodeInputs(op, _prepared(jnp.asarray(rows))[1].values)
    objective = training.on_graph(training.node_classification)
    settings = training.Settings(training.adam(0.01), 200, len(taught.index), 50)
    fitted = training.fit(fit_key, model, objective, inputs, taught, held, held, settings)
    outputs, _ = model.apply(fitted.variables, inputs, key=None, train=False)
    if outputs.shape != (len(labels), classes):
        raise ValueError(
            f"outputs of a model must be of shape {(len(labels), classes)}, got {outputs.shape}"
        )
    return log_softmax(np.asarray(outputs), axis=1)


def _prepared(z: Array) -> list[DenseRows]:
    """Columns less their means; also of one size; both of a mean row length of 1."""
    centred = z - z.mean(0)
    size = jnp.sqrt((centred**2).mean(0))
    even = centred / jnp.where(size > 0, size, 1.0)
    return [DenseRows(rows / jnp.sqrt((rows**2).sum(1).mean())) for rows in (centred, even)]


# --- What stands beside it ------------------------------------------------------------------------


def _vector(make: Callable[..., Any]) -> Callable[..., Any]:
    return lambda epsilon, dim: make(epsilon, dim)


RIVALS: dict[Hides, tuple[Method, ...]] = {
    "features": (
        Method("best-class report", lambda facts, epsilon: ReportServer(facts, epsilon)),
        Method("multi-bit", _vector(features.MultiBit)),
        Method("multi-piecewise", _vector(features.MultiPiecewise)),
        Method("HDS", lambda epsilon, dim: features.HDS(epsilon, dim, min(dim, 20))),
    ),
    "edges": (
        Method("two-round counts", lambda facts, epsilon: CountServer(facts, epsilon)),
        Method(
            "DPRR",
            lambda epsilon, num_users: edges.DPRR.from_epsilon(
                epsilon, n_max=num_users, reporting="half"
            ),
        ),
        Method(
            "randomised response",
            lambda epsilon: edges.RandomizedResponse(epsilon, reporting="half"),
        ),
        Method("LocalLap", lambda epsilon: edges.LocalLap.from_epsilon(epsilon, reporting="half")),
    ),
    "both": (
        Method(
            "joint reports",
            lambda facts, epsilon: JointServer(JointPrivacy(epsilon, epsilon), facts),
        ),
    ),
}
"""This library's methods, by what is hidden."""
