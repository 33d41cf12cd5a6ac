"""Classes of users whose records are private, in one call: each reports the class that its device predicts.

Or another message, so that what messages are worth can be compared.
"""

from typing import Any, NamedTuple, get_args

import jax
import numpy as np
from jaxtyping import Float, Int

from ldp_jax.accounting.composition import parallel
from ldp_jax.accounting.guarantee import PipelineGuarantee
from ldp_jax.core import random_words, validate
from ldp_jax.core.mechanism import check_epsilon
from ldp_jax.core.types import Array, Graph, PRNGKey
from ldp_jax.features import PersonalAlphabets
from ldp_jax.graph import graphs
from ldp_jax.graph.propagation import operator
from ldp_jax.pipeline.arguments import panel_arguments
from ldp_jax.pipeline.local_prediction import LocalPrediction, PanelFacts, local_prediction, panel_facts
from ldp_jax.pipeline.messages import ClassMessage, MessageName, message_by_name
from ldp_jax.pipeline.private_labels import MOST_EPSILON, label_guarantee

__all__ = ["PredictedClasses", "predict_from_reports"]


def __dir__() -> list[str]:
    return __all__


_SAME = 1e-3
"""How far the epsilon of a table of whole numbers is from the one it was made for, at most."""


class PredictedClasses(NamedTuple):
    """What is known of everybody's class, and what it cost.

    Attributes:
      log_posterior: float32 [n, C], all in all; of a member of the panel out of fold.
      found: every step on the way: structure alone, the guard's s, what was returned and why, ...
      alphabets: who chose among which classes; None for a message that names no class.
      guarantee: per record of a private user; names what is protected and what is not.
      message: which one was sent.
    """

    log_posterior: Float[Array, "n classes"]
    found: LocalPrediction
    alphabets: PersonalAlphabets | None
    guarantee: PipelineGuarantee
    message: str = "class"

    @property
    def strength(self) -> float:
        """s of the guard: how far the reports were believed."""
        return self.found.strength

    @property
    def used(self) -> str:
        """``reports``, or ``structure`` where that alone is what was returned."""
        return self.found.used

    def __repr__(self) -> str:
        n, classes = self.log_posterior.shape
        return f"PredictedClasses({n} users, {classes} classes, by {self.used}, strength {self.strength:.2f})"


def predict_from_reports(
    key: PRNGKey,
    graph: Graph,
    features: Any,
    panel: Int[np.ndarray, " panel"],
    labels: Int[np.ndarray, " panel"],
    epsilon: float,
    *,
    num_classes: int | None = None,
    tested: Any = None,
    facts: PanelFacts | None = None,
    alphabets: PersonalAlphabets | None = None,
    message: MessageName = "class",
    num_folds: int = 10,
    guarded: bool = True,
    label_epsilon: float | None = None,
) -> PredictedClasses:
    """Ask each private user for the class that her device predicts, and say what class each user is of.

    The panel's records and labels are public; they teach what structure says, and a classifier that is broadcast.
    Every other user reports once: the best class of her personal alphabet, by
    :func:`~ldp_jax.features.PersonalAlphabet`; or another message. See :mod:`ldp_jax.pipeline.local_prediction` for
    the steps.

    Guarantee: epsilon per record of a private user, any two records: a record goes into one report, and what is
    made of reports is post-processing. Edges, and the panel's records and labels, are not protected. No label of a
    private user is collected. With ``label_epsilon`` a label of the panel costs that, and has a line of its own.

    Utility: structure alone is what is returned, and ``used`` says so, where the guard believes no report or where
    reports do not lower the panel's log-loss.

    Args:
      key: a typed threefry key: of the devices' noise and of public randomness.
      graph: public, undirected.
      features: of all users, this simulates all devices: dense [n, d] or a scipy sparse matrix, whose rows are
        scaled to length 1; or :func:`~ldp_jax.pipeline.rows.feature_rows`, where they should be transformed
        otherwise. The panel's must be finite; of a private record NaN is 0, as on the device.
      panel: int [panel], the nodes of the panel.
      labels: int [panel] in [0, C), of these nodes.
      epsilon: in (0, 20].
      num_classes: C; by default the largest label plus 1.
      tested: nodes by whom the result will be judged, indices or bool [n]: refused where one is of the panel.
      facts: what :func:`~ldp_jax.pipeline.local_prediction.panel_facts` found of this graph and panel, so that a
        sweep finds it once.
      alphabets: made of public facts by :meth:`~ldp_jax.features.PersonalAlphabets.of` with this epsilon; by
        default of what structure says. For the message ``class`` alone.
      message: what each device sends, under the whole of epsilon (:mod:`ldp_jax.pipeline.messages`); a class where
        labels are private.
      num_folds: F, in which the panel is asked of models that have not seen it.
      guarded: whether the guard may weaken evidence, and structure alone be returned.
      label_epsilon: in (0, 20], where the panel's labels are private too: each member reports hers through
        :func:`~ldp_jax.features.GeneralizedRR` before anything else, and all that learns from labels corrects for
        it (:mod:`ldp_jax.pipeline.reported_labels`). ``num_classes`` must then be given, which is public, and
        labels outside [0, C) are clipped.

    Returns:
      :class:`PredictedClasses`.

    Raises:
      ValueError: for arguments that do not fit each other or are out of range, a panel without a member of some
        class or of one class alone, members of the panel among the tested, alphabets of another epsilon, of other
        users or for another message, before anybody reports.

    >>> from ldp_jax import datasets
    >>> data = datasets.synthetic(
    ...     jax.random.key(0), num_nodes=400, num_classes=3, num_features=30, mean_degree=6, homophily=0.5
    ... )
    >>> panel = np.arange(90)
    >>> tested = np.arange(89, 400)
    >>> predict_from_reports(jax.random.key(1), data.graph, data.x, panel, data.y[panel], 2.0, tested=tested)
    Traceback (most recent call last):
        ...
    ValueError: tested must hold private users alone, got 1 of the panel, whose labels are public

    >>> nodes = np.arange(60)
    >>> same = nodes[:, None] // 30 == nodes // 30  # two circles, in which everybody knows everybody
    >>> circles = graphs.from_edges(np.argwhere(np.triu(same, 1)), num_nodes=60)
    >>> y = (nodes // 30 + (nodes % 5 == 1)) % 2  # every fifth is of the other circle's class, as her record says
    >>> panel, private = nodes[::3], nodes[nodes % 3 > 0]
    >>> found = predict_from_reports(jax.random.key(2), circles, np.eye(2)[y], panel, y[panel], 4.0, num_folds=2)
    >>> of_structure = found.found.facts.structure.log_q
    >>> found.used, [int((p.argmax(1) == y)[private].sum()) for p in (of_structure, found.log_posterior)]
    ('reports', [32, 40])
    """
    validate.threefry(key)
    check_epsilon(epsilon, most=MOST_EPSILON)
    n = graphs.num_nodes(graph)
    label_key = key
    if label_epsilon is not None:
        key, label_key = jax.random.split(key)
        if facts is not None:
            raise ValueError("facts must be None where labels are private: they are reported once, before all else")
    given = panel_arguments(
        n, features, panel, labels, num_classes=num_classes, tested=tested, label_epsilon=label_epsilon
    )
    num_classes, rows, noise = given.num_classes, given.rows, given.noise
    validate.one_of(get_args(MessageName), message=message)
    if noise is not None and message not in ("class", "class-plain"):
        raise ValueError(
            f"message must be class or class-plain where labels are private, got {message}: vectors are read by "
            "the panel's records of each class, whose labels would have to be true"
        )
    if alphabets is not None:
        if message != "class":
            raise ValueError(f"alphabets are for the message class, and not for {message}")
        _check_alphabets(alphabets, (n, num_classes), float(epsilon))
    if facts is not None and not (
        np.array_equal(facts.labels, given.labels)
        and facts.num_classes == num_classes
        and facts.op.num_nodes == n
        and _equal(facts.op, operator(graph))
    ):
        raise ValueError("facts must be of this graph, panel and number of classes, and are of others")
    if facts is not None and facts.keep < 1.0:
        raise ValueError(
            f"facts must be of public labels, got keep = {facts.keep:g}: give label_epsilon, and no facts"
        )
    everybody = given.told(label_key, panel, labels)
    facts_key, key = random_words.split(key)
    if facts is None:
        facts = panel_facts(
            facts_key, graph, rows.take(given.members), everybody, num_classes=num_classes, num_folds=num_folds,
            keep=given.keep,
        )  # fmt: skip
    elif facts.classifier.weights.shape[0] != rows.shape[1]:
        raise ValueError(
            f"features must have {facts.classifier.weights.shape[0]} columns, as facts have, got {rows.shape[1]}"
        )
    if alphabets is not None:
        sent = ClassMessage(message, alphabets)
    else:
        sent = message_by_name(message, epsilon, facts, rows.take(given.members))
    known: PanelFacts = facts
    found = local_prediction(key, lambda key, told: sent.collect(key, told, known, rows), facts, guarded=guarded)
    spent = [sent.guarantee()]
    protected, unprotected = ("features of private users",), ("edges", "the panel's records", "the panel's labels")
    if noise is not None:  # a member of the panel reports nothing but her label
        spent = [parallel(*spent, noise.guarantee()), label_guarantee(noise)]
        protected, unprotected = (*protected, "the panel's labels"), unprotected[:-1]
    guarantee = PipelineGuarantee.of(spent, protected=protected, unprotected=unprotected)
    menu = sent.alphabets if isinstance(sent, ClassMessage) else None
    return PredictedClasses(found.log_posterior, found, menu, guarantee, message)


def _equal(first: Any, second: Any) -> bool:
    """Whether two trees have the same arrays."""
    leaves = jax.tree.leaves(first), jax.tree.leaves(second)
    return len(leaves[0]) == len(leaves[1]) and all(map(np.array_equal, *leaves))


def _check_alphabets(alphabets: PersonalAlphabets, shape: tuple[int, int], epsilon: float) -> None:
    if alphabets.order.shape != shape:
        raise ValueError(
            f"alphabets must be of {shape[0]} users and {shape[1]} classes, got {alphabets.order.shape}"
        )
    spent = alphabets.guarantee().epsilon
    if not epsilon - _SAME * max(1.0, epsilon) <= spent <= epsilon:
        raise ValueError(f"alphabets must be made for epsilon = {epsilon:g}, as reports are, got {spent:g}")
