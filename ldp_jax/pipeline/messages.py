r"""What a device may say of its record: messages that are exchangeable, so that their worth can be compared.

* ``class``: the class that it predicts, within a personal alphabet (:class:`~ldp_jax.features.PersonalAlphabets`);
* ``class-plain``: the same by generalised randomised response over all classes;
* ``scores``: the direction of its class scores, through :class:`~ldp_jax.features.PrivUnitG`;
* ``record``: the record itself, projected to principal axes of the panel's, through
  :class:`~ldp_jax.features.ProjUnit`;
* ``sampled``: a few of the record's numbers, through :func:`~ldp_jax.features.HDS`.

Each device sends one message, under the whole epsilon. A vector says of a class what the mechanism's density says
of it under the records of the panel (:func:`~ldp_jax.pipeline.message.likeliest_density_evidence`): no model is
fitted, and what a member of the panel is told does not come from her own record.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jaxtyping import Float

from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core import validate
from ldp_jax.core.mechanism import privatize
from ldp_jax.core.types import Array, PRNGKey
from ldp_jax.features import HDS, PersonalAlphabets, PrivUnitG, ProjUnit
from ldp_jax.pipeline.local_prediction import Broadcast, ClassReports, PanelFacts, ReadReports
from ldp_jax.pipeline.message import likeliest_density_evidence
from ldp_jax.pipeline.rows import Rows

__all__ = [
    "ClassMessage",
    "Message",
    "MessageName",
    "VectorMessage",
    "message_by_name",
    "principal_axes",
    "score_directions",
]


def __dir__() -> list[str]:
    return __all__


MessageName = Literal["class", "class-plain", "scores", "record", "sampled"]
"""The messages that :func:`message_by_name` makes."""

_AXES = 16
"""Numbers that a record is projected to."""

_ROWS = 4096
"""Users whose reports are drawn at the same time."""


@runtime_checkable
class Message(Protocol):
    """What devices send, and what the server makes of it."""

    @property
    def name(self) -> str:
        """Of the message."""
        ...

    def collect(self, key: PRNGKey, told: Broadcast, facts: PanelFacts, rows: Rows) -> ClassReports | ReadReports:
        """Simulate all devices once: their records are ``rows``. Of the panel, as if it were private."""
        ...

    def guarantee(self) -> Guarantee:
        """Of one message."""
        ...


@dataclasses.dataclass(frozen=True)
class ClassMessage:
    """The best class of each user's alphabet.

    Attributes:
      name: see :data:`MessageName`.
      alphabets: who chooses among which classes.
    """

    name: str
    alphabets: PersonalAlphabets

    def collect(self, key: PRNGKey, told: Broadcast, facts: PanelFacts, rows: Rows) -> ClassReports:
        """Places in alphabets, and what they say of the class sent."""
        best = self.alphabets.best(_scores(told, rows))
        return ClassReports(
            self.alphabets.log_likelihoods(self.alphabets.privatize(key, best)), self.alphabets.mask
        )

    def guarantee(self) -> Guarantee:
        """That of the alphabets."""
        return self.alphabets.guarantee()


@dataclasses.dataclass(frozen=True)
class VectorMessage:
    """A vector that is a public function of the record.

    Attributes:
      name: see :data:`MessageName`.
      mechanism: on such vectors, with a density.
      vectors: of what devices were told and all users' rows: float32 [n, k].
      promise: of a report.
    """

    name: str
    mechanism: Any
    vectors: Callable[[Broadcast, Rows], Float[Array | np.ndarray, "n k"]]
    promise: Guarantee

    def collect(self, key: PRNGKey, told: Broadcast, facts: PanelFacts, rows: Rows) -> ReadReports:
        """Noisy vectors, and what they say of the user's class."""
        panel, labels = told.panel, facts.labels
        sent = self.vectors(told, rows)
        starts = range(0, len(sent), _ROWS)
        keys = jax.random.split(key, len(starts))
        pieces = [
            privatize(one, self.mechanism, sent[start : start + _ROWS])
            for one, start in zip(keys, starts, strict=True)
        ]
        reports = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *pieces)
        own = np.full(len(labels), -1, np.int32)
        own[panel] = np.arange(len(panel))
        found = likeliest_density_evidence(
            self.mechanism, reports, sent[panel], labels[panel], own, told.posterior, labels < 0
        )
        return ReadReports(*found)

    def guarantee(self) -> Guarantee:
        """The promise."""
        return self.promise


def message_by_name(name: MessageName, epsilon: float, facts: PanelFacts, rows: Rows) -> Message:
    """A message by its name, made of public facts.

    Args:
      name: which.
      epsilon: of one message, in (0, 20].
      facts: of the graph and the panel.
      rows: the panel's records, in ascending order of their nodes.

    Raises:
      ValueError: for a name that is none, an epsilon out of range, or ``record`` where the panel's records vary in
        fewer than two directions.

    >>> from ldp_jax.graph import graphs
    >>> from ldp_jax.pipeline.device_classifier import DeviceClassifier
    >>> from ldp_jax.pipeline.structure import StructurePosterior
    >>> from ldp_jax.pipeline.rows import feature_rows
    >>> from ldp_jax.graph.propagation import operator
    >>> q, rows = jnp.log(jnp.tile(jnp.array([0.6, 0.39, 0.01]), (5, 1))), feature_rows(np.eye(3))
    >>> structure = StructurePosterior(q, "stack", {}, q[..., None], ("one",), jnp.ones(1))
    >>> devices = DeviceClassifier(jnp.eye(3), jnp.zeros(3), q[:3], 0.4)
    >>> op = operator(graphs.from_edges([[0, 1]], 5))
    >>> facts = PanelFacts(np.array([0, 1, 2, -1, -1]), structure, devices, jnp.zeros(5, int), 2, op)  # by hand
    >>> made = {name: message_by_name(name, 2.0, facts, rows) for name in get_args(MessageName)}
    >>> [round(one.guarantee().epsilon, 3) for one in made.values()]
    [2.0, 2.0, 2.0, 2.0, 2.0]
    >>> [made[name].alphabets.mask[3].tolist() for name in ("class", "class-plain")]
    [[True, True, False], [True, True, True]]
    """
    validate.one_of(get_args(MessageName), message=name)
    posterior = np.exp(np.asarray(facts.structure.log_q))
    if name == "class":
        return ClassMessage(name, PersonalAlphabets.of(epsilon, posterior))
    if name == "class-plain":
        # Where all classes are alike, an alphabet of all of them is the best.
        return ClassMessage(name, PersonalAlphabets.of(epsilon, np.full_like(posterior, 1 / posterior.shape[1])))
    if name == "scores":
        made = PrivUnitG(epsilon, max(facts.num_classes - 1, 2))
        return VectorMessage(name, made, lambda told, rows: score_directions(_scores(told, rows)), made.guarantee())
    if name == "record":
        axes = principal_axes(rows, _AXES)
        through = ProjUnit(epsilon, axes)
        return VectorMessage(name, through.inner, lambda told, rows: rows.times(axes.T), through.guarantee())
    top = float(np.abs(np.asarray(rows.value)).max(initial=0.0)) or 1.0
    low = 0.0 if float(np.asarray(rows.value).min(initial=0.0)) >= 0 else -top
    made = HDS(epsilon, rows.shape[1], max(1, min(rows.shape[1], int(epsilon / 2.5))))
    return VectorMessage(name, made, lambda told, rows: _in_cube(rows, low, top), made.guarantee())


def _scores(told: Broadcast, rows: Rows) -> Array:
    """What devices find of their records; of the panel's by classifiers that have not seen them."""
    scores = np.array(told.classifier.scores(rows))
    scores[told.panel] = np.asarray(told.classifier.panel_scores)
    return jax.device_put(scores)


def score_directions(scores: Float[Array | np.ndarray, "n classes"]) -> Float[Array, "n k"]:
    """Class scores less their mean, of length 1, in C - 1 numbers; for two classes a sign and a 0.

    >>> score_directions(jnp.array([[3.0, 1.0], [0.0, 2.0]])).tolist()
    [[1.0, 0.0], [-1.0, 0.0]]
    """
    classes = scores.shape[1]
    # Columns of length 1, orthogonal to each other and to a constant: class j against those after it.
    before = np.arange(classes)[:, None] - np.arange(classes - 1)
    rest = classes - 1 - np.arange(classes - 1)
    contrasts = np.where(before == 0, rest, np.where(before > 0, -1.0, 0.0)) / np.sqrt(rest * (rest + 1.0))
    made = jnp.asarray(scores, jnp.float32) @ jnp.asarray(contrasts, jnp.float32)
    made = made / jnp.maximum(jnp.linalg.norm(made, axis=1, keepdims=True), 1e-12)
    return jnp.pad(made, ((0, 0), (0, max(0, 3 - classes))))


def principal_axes(rows: Rows, most: int) -> Float[Array, "k d"]:
    """Directions in which public records vary most, all orthogonal to their mean, as a projection for ProjUnit.

    Scaled so that half of the records are of length 1 or more once projected: short ones would be told from their
    opposites less often.

    Args:
      rows: public.
      most: k, at most; and at most as many as the records vary in.

    Raises:
      ValueError: for records that vary in fewer than two directions.

    >>> from ldp_jax.pipeline.rows import feature_rows
    >>> rows = feature_rows(np.array([[2.0, 2.0, 0.0], [2.0, -2.0, 0.0], [2.0, 0.0, 1.0], [2.0, 0.0, -1.0]]))
    >>> np.abs(np.asarray(principal_axes(rows, 16), float)).round(2).tolist()  # not what all have in common
    [[0.0, 1.73, 0.0], [0.0, 0.0, 1.73]]
    """
    given = (np.asarray(rows.value, np.float64), (np.asarray(rows.row), np.asarray(rows.column)))
    matrix = scipy.sparse.csr_array(given, shape=rows.shape)
    mean = np.asarray(matrix.mean(0)).ravel()
    mean = mean / max(float(np.linalg.norm(mean)), 1e-300)
    along = matrix @ mean
    gram = (matrix @ matrix.T).toarray() - np.outer(along, along)
    values, vectors = np.linalg.eigh(gram)
    kept = np.flatnonzero(values > 1e-9 * float((matrix.data**2).sum()))[::-1][:most]
    if len(kept) < 2:
        raise ValueError("rows of the panel must vary in at least two directions, and do not")
    turned = vectors[:, kept] / np.sqrt(values[kept])
    axes = matrix.T @ turned - np.outer(mean, along @ turned)
    lengths = np.linalg.norm(matrix @ axes, axis=1)
    return jnp.asarray(axes.T / max(float(np.median(lengths)), 1e-12), jnp.float32)


def _in_cube(rows: Rows, low: float, top: float) -> np.ndarray:
    """Dense records in [-1, 1], by public bounds of their numbers."""
    share = (rows.dense() - np.float32(low)) / np.float32(top - low)
    return np.clip(2 * share - 1, -1.0, 1.0)
