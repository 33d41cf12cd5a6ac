"""Facts from a public panel and a public graph before private users report."""

import dataclasses
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from ldp_jax.core import random, validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.progress import phase
from ldp_jax.core.pytree import digest
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import ArrayLike, Graph, PRNGKey
from ldp_jax.graph import graphs
from ldp_jax.graph.propagation import Operator, operator
from ldp_jax.servers.parts.absent import Numbering
from ldp_jax.servers.parts.device_classifier import DeviceClassifier, device_classifier
from ldp_jax.servers.parts.panel import folded_panel
from ldp_jax.servers.parts.rows import Features, Rows, as_rows
from ldp_jax.servers.parts.self_training import IMPOSSIBLE, FoldedLabels
from ldp_jax.servers.parts.structure import (
    MANY,
    StructurePosterior,
    structure_posterior,
)


class PanelFacts(NamedTuple):
    """All that is known before anybody reports, of any epsilon; made by :func:`panel_facts`.

    Labels of the panel, what structure says, the classifier that devices run, and the graph's
    operator. Where the panel has nobody of some class, ``taught`` are the facts of the other
    classes, renumbered (:mod:`ldp_jax.servers.parts.absent`). Structure then gives an absent class
    its prior, and no device predicts it. ``taught`` is None where all classes are taught.
    """

    known: FoldedLabels
    structure: StructurePosterior
    classifier: DeviceClassifier
    op: Operator
    taught: "PanelFacts | None" = None

    __repr__ = by_shapes

    @property
    def labels(self) -> Int[np.ndarray, " n"]:
        """Labels of the panel, -1 for everybody else."""
        return self.known.labels

    @property
    def num_classes(self) -> int:
        """C."""
        return self.known.num_classes

    @property
    def numbering(self) -> Numbering:
        """Which classes labels teach."""
        return Numbering.of(self.labels, self.num_classes)

    @property
    def absent(self) -> tuple[int, ...]:
        """The classes of which the panel has nobody; none are known of private labels."""
        return () if self.taught is None else self.numbering.absent

    @property
    def alphabet_prior(self) -> Float[np.ndarray, "n classes"]:
        """The posterior that chooses candidate sets: that of structure, 0 for absent classes."""
        if self.taught is None:
            return np.exp(np.asarray(self.structure.log_q))
        return self.numbering.spread(self.taught.alphabet_prior, 0.0)

    def check(
        self, graph: Graph, labels: Int[np.ndarray, " n"], num_classes: int, columns: int
    ) -> None:
        """Refuse what these facts are not of, and facts of labels that were reported."""
        same = self.num_classes == num_classes and np.array_equal(self.labels, labels)
        rule = "facts must be of this graph, panel and number of classes, and are of others"
        validate.require(same and digest(self.op) == digest(operator(graph)), rule)
        keep = self.known.keep
        rule = f"facts must be of public labels, got keep = {keep:g}: give label_epsilon"
        validate.require(keep == 1.0, rule)
        wanted = self.classifier.weights.shape[0]
        rule = f"features must have {wanted} columns, as facts have"
        validate.require(columns == wanted, rule, columns)


@implicit_promotion()
def panel_facts(
    key: PRNGKey,
    graph: graphs.GraphsTuple,
    rows: Features | Rows,
    labels: ArrayLike,
    *,
    num_classes: int,
    num_folds: int = 10,
    keep: float = 1.0,
    op: Operator | None = None,
) -> PanelFacts:
    """Steps 1 and 2 of local prediction: what a sweep over epsilon or mechanisms finds once.

    ``key`` is of public randomness; ``graph`` is public and symmetric. ``rows`` are the panel's
    records alone, in ascending order of their nodes. ``labels`` are in [0, C) in the panel, and -1
    elsewhere. ``num_classes`` is C. ``num_folds`` is F at most: each fold holds a label of every
    typical class. A label is the true one with probability ``keep`` in (1 / C, 1]. The panel may
    have nobody of some class (:attr:`PanelFacts.absent`). Below 1, labels are reports, and no class
    is absent. ``op`` is the graph's operator, if at hand.

    ``ValueError`` for a panel that cannot teach
    (:func:`~ldp_jax.servers.parts.groups.check_teachers`).

    >>> from ldp_jax.servers import ReportServer, Users, simulate
    >>> from ldp_jax.servers.parts.rows import feature_rows
    >>> nodes = np.arange(60)  # in two circles, in which everybody knows everybody
    >>> pairs = [(i, j) for j in nodes for i in range(j) if i // 30 == j // 30]
    >>> circles = graphs.from_edges(pairs, 60)
    >>> y = (
    ...     nodes // 30 + (nodes % 5 == 1)
    ... ) % 2  # every fifth has the other circle's class
    >>> labels, x = np.where(nodes % 3 == 0, y, -1), feature_rows(np.eye(2)[y])
    >>> key, shown = jax.random.key(0), x.take(nodes[::3])
    >>> facts = panel_facts(key, circles, shown, labels, num_classes=2, num_folds=2)
    >>> scores = facts.structure.log_q, facts.classifier.scores(x)
    >>> [int((p.argmax(1) == y)[labels < 0].sum()) for p in scores]
    [32, 40]
    >>> found = simulate(
    ...     jax.random.key(1), ReportServer(facts, 4.0), Users(records=x)
    ... ).value
    >>> (
    ...     found.used,
    ...     bool((found.classes == y)[labels < 0].sum() > 36),
    ... )  # of 40; 32 by structure
    ('reports', True)
    """
    known, panel = folded_panel(key, labels, num_classes, num_folds, keep)
    graph = graphs.as_graph(graph)
    rows = as_rows(rows)
    mine = Numbering.of(known.labels, num_classes)
    if keep == 1.0 and mine.absent:
        taught = panel_facts(
            random.again(key),
            graph,
            rows,
            mine.renumbered(known.labels),
            num_classes=len(mine.taught),
            num_folds=num_folds,
            op=op,
        )
        return _with_absent(taught, known, mine)
    op = operator(graph) if op is None else op
    phase("what structure says", 0.0)
    structure = structure_posterior(graph, known, rows=rows, op=op)
    phase("the classifier of the devices", 0.5)
    # Of large graphs few nodes are in the panel.
    room = min(len(known.labels), max(MANY, 4 * len(panel.labels)))
    classifier = device_classifier(rows, panel, room=room)
    return PanelFacts(known, structure, classifier, op)


def _with_absent(taught: PanelFacts, known: FoldedLabels, mine: Numbering) -> PanelFacts:
    """The same facts with all classes.

    Absent ones have their prior, and scores that are never the best.
    """
    structure, classifier = taught.structure, taught.classifier
    sources = np.moveaxis(np.asarray(structure.sources), 1, -1)
    posteriors = {
        "log_q": mine.posterior(structure.log_q),
        "sources": np.moveaxis(mine.posterior(sources), -1, 1),
    }
    scores = {
        "weights": mine.spread(classifier.weights, 0.0),
        "bias": mine.spread(classifier.bias, IMPOSSIBLE),
        "panel_scores": mine.spread(classifier.panel_scores, IMPOSSIBLE),
    }
    return PanelFacts(
        known._replace(fold=taught.known.fold),
        dataclasses.replace(structure, **jax.device_put(posteriors)),
        classifier._replace(**jax.device_put(scores)),
        taught.op,
        taught,
    )
