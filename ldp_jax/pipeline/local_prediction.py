r"""Local prediction: classes of users whose records are private, from one report of a predicted class each.

A few users, the panel, have public records and labels. From them and the public graph the server finds what
structure says of everybody's class, and a classifier that it broadcasts. Each device classifies its own record and
reports the best class of a small public alphabet of its own. Reports are weighed by how often records of the panel
are taken for another class, believed as far as the guard allows, and propagated with their noise in mind.
Guarantee: that of the reports; everything here is post-processing, of public randomness.
:func:`ldp_jax.pipeline.predict_from_reports` does all of it in one call, the devices' side too.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from ldp_jax.core import validate
from ldp_jax.core.long_sums import column_means
from ldp_jax.core.progress import phase
from ldp_jax.core.types import Array, PRNGKey
from ldp_jax.graph import graphs
from ldp_jax.graph.propagation import Operator, operator, ppr
from ldp_jax.pipeline.device_classifier import DeviceClassifier, device_classifier, panel_regression
from ldp_jax.pipeline.guard import guard
from ldp_jax.pipeline.message import ClassReports, likeliest_evidence
from ldp_jax.pipeline.panel import folded_panel
from ldp_jax.pipeline.rows import Features, Rows, as_rows
from ldp_jax.pipeline.self_training import FoldedLabels
from ldp_jax.pipeline.stack import stack_out_of_fold
from ldp_jax.pipeline.structure import MANY, StructurePosterior, best_field, label_log_loss, structure_posterior

_ALPHA = 0.1  # of the PageRank of the evidence

_RIDGE = 5.0  # of the stacks, which are pulled to Bayes' rule: structure and own report by one each, the rest by 0


class PanelFacts(NamedTuple):
    """All that is known before anybody reports, of any epsilon; made by :func:`panel_facts`.

    Labels of the panel, what structure says, the classifier that devices run, and the graph's operator.
    """

    known: FoldedLabels
    structure: StructurePosterior
    classifier: DeviceClassifier
    op: Operator

    @property
    def labels(self) -> Int[np.ndarray, " n"]:
        """Labels of the panel, -1 for everybody else."""
        return self.known.labels

    @property
    def num_classes(self) -> int:
        """C."""
        return self.known.num_classes


class Broadcast(NamedTuple):
    """The message that devices receive. All of it is public.

    Attributes:
      posterior: float32 [n, C], by which alphabets are chosen.
      classifier: what each device runs on its own record.
      panel: int [panel], whose reports are simulated, from the classifier's ``panel_scores``.
    """

    posterior: Float[Array | np.ndarray, "n classes"]
    classifier: DeviceClassifier
    panel: Int[np.ndarray, " panel"]


class ReadReports(NamedTuple):
    """The server's reading of reports that name no class, such as noisy vectors.

    Attributes:
      evidence: float32 [n, C], log P(report i | class of the user), up to a number for each user; of a member of
        the panel as if nobody knew it.
      smoothing: of what the panel says of reports, in counts.
    """

    evidence: Float[Array, "n classes"]
    smoothing: float


Collect = Callable[[PRNGKey, Broadcast], ClassReports | ReadReports]
"""What the devices do, and what their mechanism's law says of it."""


class LocalPrediction(NamedTuple):
    """The posterior of everybody's class; made by :func:`local_prediction`.

    Attributes:
      log_posterior: float32 [n, C], all in all; of a member of the panel out of fold.
      log_likelihood: float32 [n, C], of the own report, as far as the guard believes it.
      strength: s of the guard: 0 where reports are not believed at all.
      used: ``reports``, or ``structure`` where that alone is what is returned.
      reason: why, in a sentence.
      log_loss: on the panel, out of fold, in nats a member: of ``structure``, and ``reports`` where asked.
      field: kappa and c of the field, None where reports were not believed.
      smoothing: of what the panel says of reports, in counts.
      facts: what was known before.
    """

    log_posterior: Float[Array, "n classes"]
    log_likelihood: Float[Array, "n classes"]
    strength: float
    used: str
    reason: str
    log_loss: dict[str, float]
    field: tuple[float, float] | None
    smoothing: float
    facts: PanelFacts

    @property
    def classes(self) -> Int[np.ndarray, " n"]:
        """The likeliest class of each user."""
        return np.asarray(self.log_posterior).argmax(1)


def panel_facts(
    key: PRNGKey,
    graph: graphs.GraphsTuple,
    rows: Features | Rows,
    labels: ArrayLike,
    *,
    num_classes: int,
    num_folds: int = 10,
    keep: float = 1.0,
) -> PanelFacts:
    """Steps 1 and 2 of local prediction: what a sweep over epsilon or mechanisms finds once.

    ``key`` is of public randomness; ``graph`` is public and symmetric. ``rows`` are the panel's records alone, in
    ascending order of their nodes. ``labels`` are in [0, C) in the panel, and -1 elsewhere. ``num_classes`` is C,
    and ``num_folds`` F. A label is the true one with probability ``keep`` in (1 / C, 1]. Below 1, labels are
    reports, and a class that nobody reported is no error.

    ``ValueError`` for a panel that cannot teach (:func:`~ldp_jax.pipeline.groups.check_teachers`).

    >>> from ldp_jax.pipeline.rows import feature_rows
    >>> nodes = np.arange(60)  # in two circles, in which everybody knows everybody
    >>> circles = graphs.from_edges([(i, j) for j in nodes for i in range(j) if i // 30 == j // 30], 60)
    >>> y = (nodes // 30 + (nodes % 5 == 1)) % 2  # every fifth is of the other circle's class, as the record says
    >>> labels, x = np.where(nodes % 3 == 0, y, -1), feature_rows(np.eye(2)[y])
    >>> facts = panel_facts(jax.random.key(0), circles, x.take(nodes[::3]), labels, num_classes=2, num_folds=2)
    >>> [int((p.argmax(1) == y)[labels < 0].sum()) for p in (facts.structure.log_q, facts.classifier.scores(x))]
    [32, 40]

    Each device may send what it finds, and one of twenty the other class:

    >>> def collect(key, public):
    ...     best = public.classifier.scores(x).argmax(1)
    ...     sent = jnp.where(jax.random.bernoulli(key, 0.95, (60,)), best, 1 - best)
    ...     return ClassReports(jnp.log(jnp.array([[0.95, 0.05], [0.05, 0.95]]))[sent], np.ones((60, 2), bool))
    >>> found = local_prediction(jax.random.key(1), collect, facts)
    >>> found.used, int((found.classes == y)[labels < 0].sum())  # of 40; 32 by structure
    ('reports', 39)
    """
    known, panel = folded_panel(key, labels, num_classes, num_folds, keep)
    graph, rows = graphs.as_graph(graph), as_rows(rows)
    op = operator(graph)
    phase("what structure says", 0.0)
    structure = structure_posterior(graph, known, rows=rows, op=op)
    phase("the classifier of the devices", 0.5)
    room = min(len(known.labels), max(MANY, 4 * len(panel.labels)))  # of large graphs few nodes are in the panel
    classifier = device_classifier(rows, panel, room=room)
    return PanelFacts(known, structure, classifier, op)


def local_prediction(key: PRNGKey, collect: Collect, facts: PanelFacts, *, guarded: bool = True) -> LocalPrediction:
    """Steps 3 to 8 of local prediction: ask everybody once, and say what class each user is of.

    ``collect`` is called once; the key is of the devices' noise where it simulates them. Structure alone is
    returned where the guard believes nothing, or where (simulated) reports do not lower the panel's log-loss; never
    unless ``guarded``, where s is 1. ``ValueError`` for reports of another shape. Example: :func:`panel_facts`.
    """
    validate.threefry(key)
    known, op, log_q = facts.known, facts.op, facts.structure.log_q
    labels, asked, posterior = known.labels, known.labels < 0, np.exp(np.asarray(log_q))
    phase("devices report", 0.65)
    answers = collect(key, Broadcast(posterior, facts.classifier, known.nodes))
    for name, given in answers._asdict().items():
        wanted = log_q.shape[:1] if name == "reported" else log_q.shape
        if name != "smoothing" and given is not None and np.shape(given) != wanted:
            raise ValueError(f"{name} of reports must have shape {wanted}, got {np.shape(given)}")
    if isinstance(answers, ClassReports):
        asked = asked if answers.reported is None else asked & answers.reported
        own, smoothing = likeliest_evidence(answers, facts.classifier.scored(known), posterior, asked)
    else:
        own, smoothing = answers
    trusted = guard(own, posterior, asked)
    strength = trusted.strength if guarded else 1.0
    evidence = jax.device_put(trusted.log_likelihood) if guarded else own
    losses = {"structure": label_log_loss(log_q, labels, known.keep)}

    def found(log_p: Array, used: str, reason: str, field: tuple[float, float] | None = None) -> LocalPrediction:
        return LocalPrediction(log_p, evidence, strength, used, reason, losses, field, smoothing, facts)

    if strength == 0.0:
        return found(log_q, "structure", "the guard found nothing in the reports that structure foretells")
    phase("what reports teach", 0.75)
    field, numbers = best_field(op, known, column_means(posterior), evidence, asked)
    narrow = [log_q, evidence, field]
    around, design = _around(op, narrow)
    made = []
    for scores in (narrow, [*narrow, *around, panel_regression(design, known)]):
        towards = np.where(np.arange(len(scores)) < 2, 1.0, 0.0)
        scores = np.stack([np.asarray(each) for each in scores], -1)
        made.append(stack_out_of_fold(scores, known, towards, ridge=_RIDGE)[0])
    both = jax.device_put(np.logaddexp(*map(np.asarray, made)) - np.float32(np.log(2.0)))
    losses["reports"] = label_log_loss(both, labels, known.keep)
    lower = losses["reports"] < losses["structure"]
    reason = f"reports {'lower' if lower else 'do not lower'} the panel's log-loss"
    if guarded and not lower:
        return found(log_q, "structure", reason, numbers)
    return found(both, "reports", reason, numbers)


@jax.jit
def _around(op: Operator, narrow: list[Array]) -> tuple[list[Array], Array]:
    """Sums of neighbours' evidence at one and two hops, and its PageRank; and the columns of a regression."""
    evidence = narrow[1]

    def hop(w: Array, _: None) -> tuple[Array, Array]:
        total = op.degree[:, None] * op.nodes(op.average(op.rows(w)))
        return total, total

    _, hops = jax.lax.scan(hop, evidence, length=2)
    around = [*hops, ppr(op, evidence, _ALPHA, 0.5, 1e-3)]
    return around, _design([*narrow, *around])


def _design(scores: list[Array]) -> Array:
    """Columns of a regression: scores less their mean over classes, of one size, rows of length about 1."""
    each = jnp.stack(scores, 1)
    centred = each - each.mean(2, keepdims=True)
    size = jnp.maximum(jnp.sqrt((centred**2).sum(2).mean(0)), 1e-12) * len(scores) ** 0.5
    return (centred / size[:, None]).reshape(len(each), -1)
