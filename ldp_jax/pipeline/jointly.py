r"""Records, friendships and labels private at once, in one call, within one total.

Nothing of the graph is public, so that structure says nothing before somebody reports. A panel shows its records,
and its labels or reports of them.

1. The panel teaches a classifier, which is broadcast, and class shares.
2. Half of the panel is early: it counts its neighbours in the panel by class, which tells who befriends whom.
3. A split of the total is chosen (:mod:`ldp_jax.pipeline.budget_split`).
4. Every private user reports the class that the device predicts, within the likeliest classes of the panel. The
   panel's own reports are simulated from records that the classifier has not seen.
5. The server broadcasts what it thinks of everybody's class; everybody else counts neighbours by it
   (:mod:`ldp_jax.pipeline.piloted`). Where few labels are left, the early count once more, by the same groups, with
   the rest of their total.
6. Counts are believed as far as reports of records, or labels that their model has not seen, bear them out; reports
   of records as far as counts do (:mod:`ldp_jax.pipeline.guard`). Both are stacked on the panel, where the noise of
   private labels is corrected for. Records that are asked for alone are taken at their word.

What a list costs is stated per bit of it, and what one bit and the record cost together as a unit of its own: a
whole list is protected by no more than that.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from ldp_jax.accounting import composition
from ldp_jax.accounting.guarantee import Guarantee, PipelineGuarantee
from ldp_jax.core import validate
from ldp_jax.core.progress import Progress, phase, watched
from ldp_jax.core.types import Array, Graph, PRNGKey
from ldp_jax.edges import NeighbourCounts, Population, privatize_counts
from ldp_jax.edges.neighbour_lists import per_edge
from ldp_jax.features import Discrete, PersonalAlphabets
from ldp_jax.graph.graphs import GraphSet
from ldp_jax.pipeline.budget_split import (
    JointPrivacy,
    ListReports,
    RecordReports,
    Split,
    SplitForecast,
    best_split,
    split_forecast,
    split_reason,
)
from ldp_jax.pipeline.counts import evidence, table_size
from ldp_jax.pipeline.device_classifier import DeviceClassifier, device_classifier
from ldp_jax.pipeline.from_counts import silent_users
from ldp_jax.pipeline.from_reports import class_reports
from ldp_jax.pipeline.groups import class_shares, fine_groups, merge, merged
from ldp_jax.pipeline.guard import guard
from ldp_jax.pipeline.local_prediction import Broadcast
from ldp_jax.pipeline.message import ScoredPanel, likeliest_evidence
from ldp_jax.pipeline.panel import PanelArguments, label_guarantee, panel_arguments, reported_shares, soft_labels
from ldp_jax.pipeline.pilot import expected_counts
from ldp_jax.pipeline.piloted import CountRound, PilotedCounts, PublicFacts, piloted_counts
from ldp_jax.pipeline.self_training import FoldedLabels, folds
from ldp_jax.pipeline.stack import stack_out_of_fold

_FEW = 100
"""Labels that a model of lists has not seen: below, lists that say much may not be believed."""


class JointClasses(NamedTuple):
    """The result of :func:`predict_jointly`.

    Attributes:
      log_posterior: float32 [n, C]; of a member of the panel out of fold.
      log_prior: float32 [C], class shares of the panel: what is known without any report.
      split: the one that was taken.
      forecasts: of each split, where there was a choice.
      reason: why, in a sentence; says so where a total buys next to nothing.
      strength: s of the guard: how far reports of records were believed; 1 where nothing else was asked that could
        bear them out.
      counts: what came of the lists; None where they were not asked for.
      round: int8 [n], when a user reported of a list: 1 before the split was chosen, 2 after it, 3 both times; 0
        if never.
      guarantee: per record, label, bit of a list, relationship, and record with a bit; names what is protected.
    """

    log_posterior: Float[Array, "n classes"]
    log_prior: Float[Array, " classes"]
    split: Split
    forecasts: tuple[SplitForecast, ...]
    reason: str
    strength: float
    counts: PilotedCounts | None
    round: Int[np.ndarray, " n"]
    guarantee: PipelineGuarantee

    @property
    def classes(self) -> Int[np.ndarray, " n"]:
        """The likeliest class of each user."""
        return np.asarray(self.log_posterior).argmax(1)

    def __repr__(self) -> str:
        n, classes = self.log_posterior.shape
        split = f"epsilon {self.split.record:g} a record, {self.split.list:g} a bit of a list"
        return f"JointClasses({n} users, {classes} classes; {split})"


NoisyCounts = Callable[[PRNGKey, CountRound], Int[Array, "n groups"]]
"""What the reporters of a round send."""


class _Panel(NamedTuple):
    """What the server knows of the panel: labels by node as it has them, the classifier, class shares."""

    given: PanelArguments
    known: FoldedLabels
    classifier: DeviceClassifier
    prior: Float[np.ndarray, " classes"]

    @property
    def labels(self) -> Int[np.ndarray, " n"]:
        return self.known.labels

    @property
    def scored(self) -> ScoredPanel:
        return ScoredPanel(self.classifier.panel_scores, self.labels[self.given.members], self.given.keep)

    @property
    def log_prior(self) -> Float[Array, " classes"]:
        return jnp.asarray(np.log(self.prior), jnp.float32)


class _Devices:
    """Simulated devices with private lists, and when each reported: see ``JointClasses.round``."""

    def __init__(self, lists: Graph | GraphSet, n: int):
        self.lists, self.round = lists, np.zeros(n, np.int8)

    def counts(self, epsilon: float, when: int = 2) -> NoisyCounts:
        """What reporters send at an epsilon of a bit."""

        def ask(key: PRNGKey, count_round: CountRound) -> Int[Array, "n groups"]:
            self.round[count_round.reporters] += when
            mechanism = NeighbourCounts(epsilon, count_round.num_groups)
            given = (key, self.lists, mechanism, count_round.groups)
            return jnp.asarray(privatize_counts(*given, reporters=count_round.reporters).counts)

        return ask


def predict_jointly(
    key: PRNGKey,
    lists: Graph | GraphSet,
    features: Any,
    panel: Int[np.ndarray, " panel"],
    labels: Int[np.ndarray, " panel"],
    budget: JointPrivacy,
    *,
    num_classes: int | None = None,
    num_folds: int = 10,
    progress: Progress | None = None,
) -> JointClasses:
    """Ask each private user for what the device predicts and for the neighbours' classes, within one total.

    Guarantee: a private user pays ``split.record`` for the record's report and ``split.list`` for a bit of the
    list, together at most the total. A member of the panel pays ``budget.labels`` for a label and at most the rest
    of the total for a bit. Each list is reported once, of some members of a small panel twice
    (:attr:`JointPrivacy.second`). A relationship is in two lists. The split is chosen from records and labels of
    the panel, public or reported, and from lists that were reported: a private user has no part in it, and pays
    what it says. Reports that do have a part choose an epsilon: a relationship of an early member, and a private
    label with a bit, are stated at the largest that might be.

    Utility: with the graph private too, little is left of what a public graph gives. The forecasts say what a total
    buys, in classes found and in nats of their entropy, and ``reason`` where it is next to nothing.

    Args:
      key: a typed threefry key: of the devices' noise and of public randomness.
      lists: the private graph, undirected; this simulates all devices.
      features: see :func:`~ldp_jax.pipeline.predict_from_reports`.
      panel: its members. Score results on the other nodes.
      labels: in [0, C), of these members.
      budget: the total, and how it may be split.
      num_classes: C; by default the largest label plus 1, where labels are public.
      num_folds: F.
      progress: told of each phase (:data:`ldp_jax.core.progress.Progress`); by default shown after five seconds.

    Raises:
      ValueError: for arguments that do not fit each other or are out of range, before anybody reports.

    >>> from ldp_jax import datasets
    >>> data = datasets.synthetic(
    ...     jax.random.key(0), num_nodes=400, num_classes=3, num_features=30, mean_degree=6, homophily=0.5
    ... )
    >>> panel, budget = np.arange(90), JointPrivacy(4.0, shares=(1.0,))
    >>> found = predict_jointly(jax.random.key(1), data.graph, data.x, panel, data.y[panel], budget, num_folds=3)
    >>> found, found.round.any()
    (JointClasses(400 users, 3 classes; epsilon 4 a record, 0 a bit of a list), np.False_)
    """
    validate.threefry(key)
    n = len(Population.of(lists).group)
    given = panel_arguments(n, features, panel, labels, num_classes=num_classes, label_epsilon=budget.labels)
    validate.integer_in(2, num_folds=num_folds)

    keys = jax.random.split(key, 8)
    label_key, fold_key, early_key, noise_key, choice_key, record_key, count_key, second_key = keys
    with watched("predict_jointly", progress):
        phase("what the panel teaches", 0.0)
        known = _taught(fold_key, given, given.server_labels(label_key, panel, labels), num_folds)
        devices, choice = _Devices(lists, n), len(budget.splits) > 1
        early, forecasts = np.zeros(n, bool), ()
        if choice:
            phase("the split of the total", 0.2)
            early = silent_users(early_key, known.labels, 0.5)
            reports = _early_reports(noise_key, devices, known, early, budget.pilot)
            forecasts = _forecasts(choice_key, budget, known, reports)
        split = best_split(forecasts).split if forecasts else budget.splits[0]
        reason = split_reason(forecasts, known.prior)
        waiting = np.bincount(known.labels[(known.labels >= 0) & ~early], minlength=given.num_classes)
        counting = split.list > 0.0 and bool(waiting.all())
        if split.list > 0.0 and not counting:
            reason = f"nobody of class {waiting.argmin()} is left to count with: records alone"

        phase("reports of records", 0.4)
        own, paid = _record_evidence(record_key, known, split.record)
        log_posterior, found, strength = jax.nn.log_softmax(known.log_prior + own), None, float(split.record > 0.0)
        # Half of the panel is early, half of the rest a pilot; how many members there are is public.
        second = budget.second if choice and len(given.members) < 4 * _FEW else 0.0
        if counting:
            public = PublicFacts(None, known.labels, given.num_classes, log_posterior, early)
            counts = devices.counts(split.list)
            with watched("counts"):
                found = piloted_counts(count_key, counts, public, split.list, num_folds=num_folds, guarded=False)
            of_lists, seen = found.log_likelihood, found.pilot | (early & (second == 0.0))
            if second and early.any():
                again = _second_evidence(second_key, devices.counts(second), found, known.labels, early, second)
                of_lists = jnp.where(early[:, None], again, of_lists)
            log_posterior, strength = _stacked(known, own, of_lists, found.pilot, seen, early)
    # Whether anybody is early is told by labels: where these are private, what is stated does not depend on it.
    piloted = (budget.pilot, second) if choice and (early.any() or given.noise is not None) else ()
    guarantee = _guarantee(paid, given.noise, split.list if counting else 0.0, piloted, budget)
    return JointClasses(
        log_posterior, known.log_prior, split, forecasts, reason, strength if split.record > 0.0 else 0.0, found,
        devices.round, guarantee,
    )  # fmt: skip


def _taught(key: PRNGKey, given: PanelArguments, labels: Int[np.ndarray, " n"], num_folds: int) -> _Panel:
    """Step 1."""
    members, classes = given.members, given.num_classes
    known = FoldedLabels(labels, classes, folds(key, labels, num_folds), num_folds, given.keep)
    of_panel = known._replace(labels=labels[members], fold=np.asarray(known.fold)[members])
    classifier = device_classifier(given.rows.take(members), of_panel)
    return _Panel(given, known, classifier, reported_shares(of_panel.labels, classes, given.keep))


def _early_reports(
    key: PRNGKey, devices: _Devices, known: _Panel, early: Bool[np.ndarray, " n"], epsilon: float
) -> ListReports:
    """Step 2."""
    given, n = known.given, len(early)
    groups = jnp.asarray(np.where(known.labels >= 0, known.labels, given.num_classes).astype(np.int32))
    count_round = CountRound(groups, given.num_classes + 1, early, np.zeros(n, np.float32))
    reports = jnp.where(early[:, None], devices.counts(epsilon, when=1)(key, count_round), 0)
    shares = np.tile(known.prior, (n, 1))
    shares[given.members] = soft_labels(known.scored.labels, given.num_classes, given.keep)
    return ListReports.of(reports, groups, shares, early, epsilon)


def _forecasts(key: PRNGKey, budget: JointPrivacy, known: _Panel, lists: ListReports) -> tuple[SplitForecast, ...]:
    """Step 3. One key: the same users are simulated for all splits, so that not chance tells close ones apart."""
    records = RecordReports(known.scored, known.prior)
    return tuple(split_forecast(jax.random.clone(key), split, records, lists) for split in budget.splits)


def _record_evidence(key: PRNGKey, known: _Panel, epsilon: float) -> tuple[Array, list[Guarantee]]:
    """Step 4: the evidence of reports of records, and what they cost; zeros and nothing at epsilon 0."""
    given, shape = known.given, (len(known.labels), known.given.num_classes)
    if epsilon == 0.0:
        return jnp.zeros(shape), []
    alphabets = PersonalAlphabets.of(epsilon, np.tile(known.prior, (shape[0], 1)))
    posterior = jnp.broadcast_to(jnp.exp(known.log_prior), shape)
    reports = class_reports(alphabets, given.rows)(key, Broadcast(posterior, known.classifier, given.members))
    own, _ = likeliest_evidence(reports, known.scored, posterior, known.labels < 0)
    return own, [alphabets.guarantee()]


def _second_evidence(
    key: PRNGKey,
    noisy_counts: NoisyCounts,
    found: PilotedCounts,
    labels: Int[np.ndarray, " n"],
    early: Bool[np.ndarray, " n"],
    epsilon: float,
) -> Float[Array, "n classes"]:
    """The end of step 5: evidence of second reports by the groups of everybody else; of others it means nothing."""
    fine, classes = fine_groups(found.log_q, labels), found.log_q.shape[1]
    groups = merge(found.design.best, classes)
    confidence = np.exp(np.asarray(found.log_q)).max(-1)
    reports = noisy_counts(key, CountRound(groups.groups(fine), groups.num_groups, early, confidence))
    reports = jnp.where(early[:, None], reports, 0)
    reports = jnp.pad(reports, ((0, 0), (0, 3 * classes - groups.num_groups)))
    means = expected_counts(found.model)
    means = merged(means.reshape(-1, 3 * classes), groups.column, 3 * classes).reshape(means.shape)
    size = table_size(reports, means, epsilon)
    prior = class_shares(found.log_q, labels)
    return evidence(reports, means, prior, epsilon, size=size, counted=early).log_likelihood


def _stacked(
    known: _Panel, own: Array, of_lists: Array, pilot: np.ndarray, seen: np.ndarray, early: np.ndarray
) -> tuple[Float[Array, "n classes"], float]:
    """Step 6: the posterior of both, and how far reports of records are believed.

    ``seen`` are users whose labels the model of lists has seen. With its pilot it agrees by its very fit.
    """
    unseen, judged = np.where(seen, -1, known.labels), (known.labels < 0) & ~pilot
    prior = known.log_prior
    of_lists = _believed(of_lists, jax.nn.log_softmax(prior + own), prior, judged, unseen)
    trusted = guard(own, jax.nn.softmax(prior + of_lists), judged, known.labels)
    scores = jnp.stack([prior + trusted.log_likelihood, of_lists], -1)
    late = known.known._replace(labels=np.where(early, -1, known.labels))
    log_posterior, _ = stack_out_of_fold(scores, late, (1.0, 1.0))
    return log_posterior, float(trusted.strength)


def _believed(own: Array, log_q: Array, log_prior: Array, judged: np.ndarray, labels: np.ndarray) -> Array:
    """Evidence of lists, as far as reports of records or else labels bear it out: either may be what is wrong."""
    by_records = guard(own, jnp.exp(log_q), judged)
    even = jnp.broadcast_to(jnp.exp(log_prior), own.shape)
    by_labels = guard(own, even, judged, labels)
    return max(by_records, by_labels, key=lambda one: float(one.strength)).log_likelihood


def _guarantee(
    records: list[Guarantee],
    noise: Discrete | None,
    epsilon: float,
    early: tuple[float, ...],
    budget: JointPrivacy,
) -> PipelineGuarantee:
    """Of a private user and of a member of the panel, the worse of the two, unit by unit and together.

    ``early`` are the epsilons of early reports, as dear as they may become. Private labels have a part in who is
    early, and in whether anybody is asked for lists: together with a bit they are stated at the dearest that might
    be, whatever came of it.
    """

    def of_bit(*epsilons: float) -> list[Guarantee]:
        each = [NeighbourCounts(epsilon, 1).guarantee() for epsilon in epsilons if epsilon]
        return [composition.sequential(*each)] if each else []

    of_labels = [] if noise is None else [noise.guarantee()]
    of_list, of_pilot = of_bit(epsilon), of_bit(*early)
    lists, dearest = of_list + of_pilot, of_bit(max(split.list for split in budget.splits))
    spent = [composition.parallel(*records, *of_labels)] if records or of_labels else []
    if noise is not None:
        spent.append(label_guarantee(noise))
    if lists:
        # Who has a part in the choice of a split: there, the other end's report is as dear as it may become.
        pairs = [of_list * 2, of_pilot * 2, of_pilot + (dearest if early else of_list)]
        ends = max((tuple(one.epsilon for one in pair) for pair in pairs), key=sum)
        worst = max(lists, key=lambda one: one.epsilon)
        spent += [worst, dataclasses.replace(per_edge(ends, "full"), arithmetic="exact")]
    might_be = lists if noise is None else lists + dearest
    member = [max(might_be, key=lambda one: one.epsilon)] if might_be else []
    words = "two inputs that differ in one user's record, or label, and in one bit of their list"
    pairs = [(records, of_list), (of_labels, member)]
    both = [composition.joint(*own, *bit, adjacency=words) for own, bit in pairs if own and bit]
    spent += [composition.parallel(*both)] if both else []
    hidden = {
        "features of private users": bool(records), "edges": bool(lists), "the panel's labels": noise is not None
    }  # fmt: skip
    shown = ("the panel's records", *(["the panel's labels"] if noise is None else []), "number of nodes")
    protected = tuple(name for name, private in hidden.items() if private)
    return PipelineGuarantee.of(spent, protected=protected, unprotected=shown)
