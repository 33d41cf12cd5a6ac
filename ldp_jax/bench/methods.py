"""Methods as the bench sees them: a server, the users whom it asks, and its answer."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ldp_jax import edges, features
from ldp_jax.accounting.guarantee import (
    LABEL,
    NEIGHBOUR_LIST,
    RECORD,
    PipelineGuarantee,
    Unit,
    compares_all,
)
from ldp_jax.bench.budgeted import called, model_of, on_classes, on_vectors
from ldp_jax.bench.classes import broadcast
from ldp_jax.bench.draws import Draw, Hides, scaled
from ldp_jax.bench.named import named
from ldp_jax.bench.wrapped import NoisyGraphServer, VectorServer
from ldp_jax.core.mechanism import Mechanism, require_protocol
from ldp_jax.core.shown import by_shapes
from ldp_jax.learning.models import Model
from ldp_jax.servers import (
    CountServer,
    JointPrivacy,
    JointServer,
    PanelFacts,
    ReportServer,
    Server,
    Users,
)

SIZES = {"layers": 2, "hidden": 32, "dropout": 0.5}
"""What own models are given beside the number of outputs."""

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
        name = getattr(given, "__name__", type(given).__name__)
        make = given if inspect.isclass(given) or inspect.isfunction(given) else lambda: given
        if isinstance(given, str):
            name = given
            make = named(given).make
        return dataclasses.replace(self, name=f"{self.name} by {name}", model=make)

    def enter(self, draw: Draw, epsilon: float) -> Entry:
        """The server of one draw; a mechanism has one that trains on its reports.

        ``TypeError`` for what is neither, ``ValueError`` for a mechanism on other data than hidden
        ones, a guarantee beyond epsilon, or a model beside a server, which has its own.
        """
        public = {
            "facts": draw.facts,
            "dim": draw.data.num_features,
            "num_users": draw.data.num_nodes,
            "num_classes": draw.data.num_classes,
        }
        made = called(self.make, epsilon, **public)
        if isinstance(made, Server):
            if self.model is not None:
                raise ValueError(f"{self.name}: a model is of mechanisms, and a server has its own")
            entry = Entry(made, draw.users)
        else:
            entry = self._of(made, draw, epsilon, public)
        check_column(self.name, entry.server, draw.hides, epsilon)
        return entry

    def _of(self, made: Any, draw: Draw, epsilon: float, public: dict[str, Any]) -> Entry:
        if isinstance(made, edges.OneUsersView):
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
            asked = on_vectors(self.make, epsilon, **public)
            records = scaled(draw.data)
            shown = np.where(panel[:, None], records, np.float32(0.0))
            users = Users(records=records, public=panel)
        known = draw.labels, draw.graph_alone(), shown
        server = VectorServer(facts.op, *known, asked, self._model(draw), classifier)
        return Entry(server, users, draw.data.default_record(), made)

    def _model(self, draw: Draw) -> Model | None:
        return None if self.model is None else model_of(self.model, draw.data.num_classes, **SIZES)


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
    """The epsilon of a guarantee for what is hidden.

    It is infinite with a delta, and where a promise is about some pairs of inputs alone.
    """
    known = [one for unit, one in guarantee.items() if unit in UNITS[hides]]
    if not known or any(one.delta or not compares_all(one.adjacency) for one in known):
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


# --- What stands beside it ------------------------------------------------------------------------


RIVALS: dict[Hides, tuple[Method, ...]] = {
    "features": (
        Method("best-class report", lambda facts, epsilon: ReportServer(facts, epsilon)),
        Method("multi-bit", features.MultiBit),
        Method("multi-piecewise", features.MultiPiecewise),
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
