r"""Records, friendships and labels private at once, in one call, within one total.

No edge is public: structure tells nothing before reports. A panel shows records, and labels or reports of them.

1. The panel teaches a classifier, which is broadcast, and class shares.
2. Every private user reports the class that the device predicts, within the likeliest classes of the panel. The
   panel's own reports are simulated from records that the classifier has not seen.
3. Everybody counts neighbours by what the server thinks of all classes (:mod:`ldp_jax.pipeline.piloted`).
4. Counts are believed as far as reports of records, or labels that their model has not seen, bear them out; reports
   of records as far as counts do (:mod:`ldp_jax.pipeline.guard`). Both are stacked on the panel, where the noise of
   private labels is corrected for. Records that are asked for alone are taken at their word.

Where reports of somebody else's record all agree, as of a table that was joined wrongly, nothing of this tells. So
a ``check`` of the panel may report as private users do: both reports are then believed as far as its labels bear
them out. :func:`ldp_jax.rehearse` says which split of a total is best. The cost of a list is stated per bit of it,
and what one bit and the record cost together as a unit of its own. One report of both
(:mod:`ldp_jax.pipeline.one_message`) protects the record and the whole list together.
"""

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import jax  # noqa: F401 - the examples below
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike
from scipy.special import log_softmax, softmax

from ldp_jax.accounting import composition
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RECORD, WORDS, Guarantee, PipelineGuarantee, Unit
from ldp_jax.core import random, validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.progress import Progress, phase, watched
from ldp_jax.core.rounding import rounded_down
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import Array, Graph, PRNGKey
from ldp_jax.core.whole_noise import MIN_EPSILON
from ldp_jax.edges import NeighbourCounts, Population, privatize_counts
from ldp_jax.edges.neighbour_lists import per_edge
from ldp_jax.features import Discrete, PersonalAlphabets
from ldp_jax.graph.graphs import GraphSet
from ldp_jax.pipeline.device_classifier import DeviceClassifier, device_classifier
from ldp_jax.pipeline.from_reports import class_reports
from ldp_jax.pipeline.guard import checked, guard
from ldp_jax.pipeline.local_prediction import Broadcast
from ldp_jax.pipeline.message import ClassReports, likeliest_evidence
from ldp_jax.pipeline.one_message import HOMOPHILY, Devices, one_message
from ldp_jax.pipeline.panel import MOST_EPSILON, folded_panel, label_guarantee, panel_arguments, reported_shares
from ldp_jax.pipeline.piloted import Ask, CountRound, PilotedCounts, PublicFacts, piloted_counts
from ldp_jax.pipeline.rows import Features, Rows, as_rows
from ldp_jax.pipeline.self_training import FoldedLabels
from ldp_jax.pipeline.stack import stack_out_of_fold

WHOLE_LIST = Unit(f"{RECORD} + whole neighbour list")
"""A user's record and all of their list: of one report of both. Reports of two kinds add bit by bit alone."""

_RECORD_AND_BIT = "two inputs that differ in one user's record, or label, and in one bit of their list"


@dataclasses.dataclass(frozen=True)
class JointPrivacy:
    """The cost of each report; 0 where it is not asked for.

    ``JointPrivacy(both=4.0)`` asks for one class of the record and the whole list, and for nothing else.

    Attributes:
      record: epsilon of a private user's record, in [0, 20].
      list: epsilon of a bit of a list, 0 or in [0.001, 20].
      labels: epsilon of a label of the panel, in (0, 20]; None where labels are public.
      check: share of the panel that reports as private users do, in [0, 0.5] (:func:`checked_members`). It teaches
        nothing else; where labels are private it is 0. Fewer than some 25 users cost more than they mend.
      both: epsilon of one report of the record and the whole list together, in [0, 20]; labels are then public.

    ``ValueError`` for a number out of its range, or where nothing is asked for.
    """

    record: float = 0.0
    list: float = 0.0
    labels: float | None = None
    check: float = 0.0
    both: float = 0.0

    def __post_init__(self) -> None:
        for name in ("record", "list", "both", "check"):
            made = validate.number(0.0, 0.5 if name == "check" else MOST_EPSILON, **{name: getattr(self, name)})
            object.__setattr__(self, name, made)
        if self.labels is not None:
            validate.number(0.0, MOST_EPSILON, open_lower=True, labels=self.labels)
        if 0.0 < self.list < MIN_EPSILON:
            raise ValueError(f"list must be 0 or at least {MIN_EPSILON:g}, got {self.list:g}")
        if self.check and self.labels is not None:
            raise ValueError("check must be 0 where labels are private: it is true labels that bear reports out")
        if self.both and (self.record or self.list or self.labels is not None):
            raise ValueError("record and list must be 0, and labels None, beside both: that is the one report")
        if self.record == self.list == self.both == 0.0:
            raise ValueError("record, list or both must be above 0, or nothing is asked for")

    @classmethod
    def split(cls, total: float, share: float, labels: float | None = None) -> "JointPrivacy":
        """``share`` of a total for the record, in [0, 1], and the rest for a bit of the list; together no more.

        >>> JointPrivacy.split(4.0, 0.75)
        JointPrivacy(record=3.0, list=1.0, labels=None, check=0.0, both=0.0)
        """
        validate.number(0.0, MOST_EPSILON, open_lower=True, total=total)
        validate.number(0.0, 1.0, share=share)
        record = min(total, total * share)
        return cls(record, rounded_down(Fraction(total) - Fraction(record)), labels)


def checked_members(panel: Int[np.ndarray, " panel"], share: float) -> Int[np.ndarray, " some"]:
    """The members of a panel that are its check: every 1 / share-th of its nodes in ascending order.

    >>> checked_members(np.arange(20), 0.1).tolist()
    [9, 19]
    """
    validate.number(0.0, 0.5, share=share)
    place = np.floor(np.arange(len(panel) + 1) * share)
    return np.sort(panel)[np.diff(place) > 0]


class JointClasses(NamedTuple):
    """The result of :func:`predict_jointly`.

    Attributes:
      log_posterior: float32 [n, C]; of a member of the panel out of fold.
      log_prior: float32 [C], class shares of the panel: what is known without any report.
      reason: what was asked for, in words; says so where lists were left out.
      strength: s of the guard: how far reports of records were believed; 1 where nothing else was asked that could
        bear them out, 0 where they were not asked for. With a check it is what the check says.
      counts: what came of the lists; None where they were not counted.
      round: int8 [n], when a user reported of a list: 1 in the first half or the pilot, 2 after it, 0 if never.
      guarantee: per record, label, bit of a list, relationship, and record with a bit; names what is protected.
    """

    log_posterior: Float[np.ndarray, "n classes"]
    log_prior: Float[np.ndarray, " classes"]
    reason: str
    strength: float
    counts: PilotedCounts | None
    round: Int[np.ndarray, " n"]
    guarantee: PipelineGuarantee

    @property
    def classes(self) -> Int[np.ndarray, " n"]:
        """The likeliest class of each user."""
        return self.log_posterior.argmax(1)

    def __repr__(self) -> str:
        n, classes = self.log_posterior.shape
        return f"JointClasses({n} users, {classes} classes; {self.reason})"


class JointFacts(NamedTuple):
    """All that is known before private users report; made by :func:`joint_facts`.

    Labels of the panel as the server has them, the classifier that devices run, and class shares of the panel.
    """

    known: FoldedLabels
    classifier: DeviceClassifier
    prior: Float[np.ndarray, " classes"]

    __repr__ = by_shapes

    @property
    def labels(self) -> Int[np.ndarray, " n"]:
        """Labels of the panel, -1 for everybody else."""
        return self.known.labels

    @property
    def log_prior(self) -> Float[np.ndarray, " classes"]:
        """Natural logarithms of the class shares; float32."""
        return np.log(self.prior).astype(np.float32)


@implicit_promotion()
def joint_facts(
    key: PRNGKey,
    rows: Features | Rows,
    labels: ArrayLike,
    *,
    num_classes: int,
    num_folds: int = 10,
    keep: float = 1.0,
) -> JointFacts:
    """The lessons of the panel. Arguments are those of :func:`~ldp_jax.pipeline.panel_facts`, but for the graph.

    ``ValueError`` as there, and for rows of another number than the panel's or fewer than two folds.

    >>> y = np.arange(40) % 2
    >>> labels = np.where(np.arange(40) < 30, y, -1).astype(np.int32)
    >>> facts = joint_facts(jax.random.key(0), np.eye(2)[y[:30]], labels, num_classes=2, num_folds=2)
    >>> facts.prior.tolist(), bool((facts.classifier.panel_scores.argmax(1) == y[:30]).all())
    ([0.5, 0.5], True)
    """
    known, members = folded_panel(key, labels, num_classes, num_folds, keep)
    shares = reported_shares(members.labels, num_classes, keep)
    return JointFacts(known, device_classifier(as_rows(rows), members), shares)


class Learned(NamedTuple):
    """The result of :func:`joint_prediction`: fields of :class:`JointClasses`."""

    log_posterior: Float[np.ndarray, "n classes"]
    reason: str
    strength: float
    counts: PilotedCounts | None
    round: Int[np.ndarray, " n"]

    __repr__ = by_shapes


def record_alphabets(facts: JointFacts, epsilon: float) -> PersonalAlphabets:
    """Everybody's: the likeliest classes of the panel."""
    return PersonalAlphabets.of(epsilon, np.tile(facts.prior, (len(facts.labels), 1)))


def joint_prediction(
    key: PRNGKey,
    facts: JointFacts,
    records: Callable[[PRNGKey, Broadcast], ClassReports] | None,
    counts: Ask | None,
    epsilon: float,
    check: Int[np.ndarray, " n"] | None = None,
) -> Learned:
    """Steps 2 to 4: ask everybody, and say what class each user is of.

    ``records`` and ``counts``, called twice for disjoint users, are None where they are not asked for. Lists are
    left out where no label of some class is left to count with. ``check`` are classes of those outside the panel
    who report as private users do, -1 for others; None for no check.
    """
    record_key, count_key = random.split(key)
    labels, prior, shape = facts.labels, facts.log_prior, (len(facts.labels), len(facts.prior))
    phase("reports of records", 0.3)
    own, asked, believed = np.zeros(shape, np.float32), "nothing", float(records is not None)
    if records is not None:
        posterior, asked = np.tile(np.exp(prior), (shape[0], 1)), "records alone"
        reports = records(record_key, Broadcast(posterior, facts.classifier, facts.known.nodes))
        scored = facts.classifier.scored(facts.known)
        own = np.asarray(likeliest_evidence(reports, scored, posterior, labels < 0)[0])
        if check is not None:
            own, believed, _ = checked(own, facts.prior, check)
    log_posterior = log_softmax(prior + own, axis=1)
    missing = np.flatnonzero(np.bincount(labels[labels >= 0], minlength=shape[1]) == 0)
    if counts is None or len(missing):
        left_out = "" if counts is None else f": nobody of class {missing[0]} is left to count with"
        return Learned(log_posterior, f"{asked}{left_out}", believed, None, np.zeros(shape[0], np.int8))
    public = PublicFacts(None, labels, shape[1], log_posterior)
    with watched("counts"):
        found = piloted_counts(count_key, counts, public, epsilon, num_folds=facts.known.num_folds, guarded=False)
    log_posterior, strength = _stacked(facts, own, found, check)
    when = np.where(found.pilot, np.int8(1), np.int8(2))
    if records is None:
        return Learned(log_posterior, "lists alone", 0.0, found, when)
    return Learned(log_posterior, "records and lists", strength if check is None else believed, found, when)


def one_report(
    key: PRNGKey,
    facts: JointFacts,
    devices: Devices,
    epsilon: float,
    homophily: float,
    check: Int[np.ndarray, " n"] | None = None,
) -> Learned:
    """One report of the record and the whole list, of an ``epsilon``, believed as far as the check bears it out."""
    phase("reports of records and lists", 0.3)
    alphabets, believed = record_alphabets(facts, epsilon), 1.0
    own, first = one_message(key, devices, facts.labels, facts.prior, alphabets, homophily)
    if check is not None:
        own, believed, _ = checked(own, facts.prior, check)
    log_posterior = log_softmax(facts.log_prior + own, axis=1)
    when = np.where(first, np.int8(1), np.int8(2))
    return Learned(log_posterior, "record and list in one report", believed, None, when)


@implicit_promotion()
def predict_jointly(
    key: PRNGKey,
    lists: Graph | GraphSet,
    features: Features | Rows,
    panel: Int[np.ndarray, " panel"],
    labels: Int[np.ndarray, " panel"],
    privacy: JointPrivacy,
    *,
    num_classes: int | None = None,
    num_folds: int = 10,
    homophily: float | None = None,
    progress: Progress | None = None,
) -> JointClasses:
    """Ask each private user for what the device predicts and for the neighbours' classes, within one total.

    Guarantee: a private user pays ``privacy.record`` for the record's report and ``privacy.list`` for a bit of the
    list; or ``privacy.both`` for the record and the whole list together. A member of the panel pays
    ``privacy.labels`` for a label, and for a list what everybody does. A relationship is in two lists. With private
    labels the guarantee does not depend on them: it states lists as asked for, even where they were left out.
    Utility: little is left of what a public graph gives. :func:`~ldp_jax.pipeline.rehearse` says beforehand what a
    total buys, and which split of it is best.

    Args:
      key: a typed threefry key: of the devices' noise and of public randomness.
      lists: the private graph, undirected; this simulates all devices.
      features: see :func:`~ldp_jax.pipeline.predict_from_reports`.
      panel: its members. Score results on the other nodes.
      labels: in [0, C), of these members.
      privacy: what each report costs.
      num_classes: C; by default the largest label plus 1, where labels are public.
      num_folds: F.
      homophily: of one report of both: the share of friends of one's own class beyond chance, in [0, 1), as it is
        publicly stated (:func:`~ldp_jax.pipeline.rehearsal.homophily`). A wrong number costs accuracy alone.
      progress: told of each phase (:data:`ldp_jax.core.progress.Progress`); by default shown after five seconds.

    ``ValueError`` for arguments that do not fit each other or are out of range, before anybody reports.

    >>> from ldp_jax import datasets
    >>> data = datasets.synthetic(jax.random.key(0), num_nodes=400, num_classes=3, num_features=30,
    ...     mean_degree=6, homophily=0.5)
    >>> panel, privacy = np.arange(90), JointPrivacy(record=4.0, list=0.0)
    >>> found = predict_jointly(jax.random.key(1), data.graph, data.x, panel, data.y[panel], privacy, num_folds=3)
    >>> found, found.round.any()
    (JointClasses(400 users, 3 classes; records alone), np.False_)
    >>> privacy = JointPrivacy(both=4.0)
    >>> found = predict_jointly(jax.random.key(1), data.graph, data.x, panel, data.y[panel], privacy, num_folds=3)
    >>> print(str(found.guarantee).splitlines()[-1])  # doctest: +ELLIPSIS
      epsilon 4 per record + whole neighbour list (any two records and any two neighbour lists of one user; ...
    """
    validate.host_key(key, "predict_jointly")
    population = Population.of(lists)
    n = len(population.group)
    if not isinstance(privacy, JointPrivacy):
        raise ValueError(f"privacy must be JointPrivacy(record=..., list=...), got {type(privacy).__name__}")
    if homophily is not None and not privacy.both:
        raise ValueError("homophily must be None but of one report, JointPrivacy(both=...): nothing else reads it")
    alike = HOMOPHILY if homophily is None else homophily
    validate.number(0.0, 1.0, open_upper=True, homophily=alike)
    given = panel_arguments(n, features, panel, labels, num_classes=num_classes, label_epsilon=privacy.labels)
    validate.integer_in(2, num_folds=num_folds)
    chosen = checked_members(given.members, privacy.check)
    if privacy.check and not len(chosen):
        raise ValueError(f"check of {privacy.check:g} leaves nobody of a panel of {len(given.members)} to report")
    label_key, fold_key, key = random.split(key, 3)

    def counts(key: PRNGKey, asked: CountRound) -> Array:
        mechanism = NeighbourCounts(privacy.list, asked.num_groups)
        return jnp.asarray(privatize_counts(key, lists, mechanism, asked.groups, reporters=asked.reporters).counts)

    with watched("predict_jointly", progress):
        phase("what the panel teaches", 0.0)
        shown, check = given.server_labels(label_key, panel, labels), None
        if privacy.check:
            apart = np.isin(np.arange(n), chosen)
            shown, check = np.where(apart, -1, shown), np.where(apart, shown, -1)
        facts = joint_facts(
            fold_key, given.rows.take(np.flatnonzero(shown >= 0)), shown, num_classes=given.num_classes,
            num_folds=num_folds, keep=given.keep,
        )  # fmt: skip
        epsilon = privacy.record or privacy.both
        alphabets = record_alphabets(facts, epsilon) if epsilon else None
        if privacy.both:
            scores = np.array(facts.classifier.scores(given.rows))
            scores[facts.known.nodes] = np.asarray(facts.classifier.panel_scores)
            devices = Devices(scores, population.receivers, population.senders)
            found = one_report(key, facts, devices, privacy.both, alike, check)
        else:
            send = None if alphabets is None else class_reports(alphabets, given.rows)
            found = joint_prediction(key, facts, send, counts if privacy.list else None, privacy.list, check)
    records = [] if alphabets is None else [alphabets.guarantee()]
    guarantee = _of_one_report(*records) if privacy.both else _guarantee(records, given.noise, privacy.list)
    return JointClasses(found.log_posterior, facts.log_prior, *found[1:], guarantee)


def _stacked(
    facts: JointFacts, own: np.ndarray, counts: PilotedCounts, check: np.ndarray | None
) -> tuple[Float[np.ndarray, "n classes"], float]:
    """Step 4: the posterior of both, and how far reports of records are believed."""
    # The model of lists has seen labels of its pilot, with which it agrees by its very fit.
    labels, prior, of_lists = facts.labels, facts.log_prior, np.asarray(counts.log_likelihood)
    if check is not None:
        of_lists = checked(of_lists, facts.prior, check).log_likelihood
    unseen, judged = np.where(counts.pilot, -1, labels), (labels < 0) & ~counts.pilot
    # Lists are believed as far as records or else labels bear them out: either may be what is wrong.
    by_records = guard(of_lists, softmax(prior + own, axis=1), judged)
    by_labels = guard(of_lists, np.tile(np.exp(prior), (len(own), 1)), judged, unseen)
    of_lists = max(by_records, by_labels, key=lambda one: one.strength).log_likelihood
    trusted = guard(own, softmax(prior + of_lists, axis=1), judged, labels)
    scores = np.stack([prior + trusted.log_likelihood, of_lists], -1)
    return stack_out_of_fold(scores, facts.known, (1.0, 1.0))[0], trusted.strength


def _guarantee(records: list[Guarantee], noise: Discrete | None, epsilon: float) -> PipelineGuarantee:
    """The worse of a private user's and a panel member's guarantees, unit by unit and together."""
    own = records if noise is None else [*records, noise.guarantee()]
    spent = [composition.parallel(*own)] if own else []
    if noise is not None:
        spent.append(label_guarantee(noise))
    if epsilon:
        counts = NeighbourCounts(epsilon, 1)
        bit = counts.guarantee()
        both = [composition.joint(one, bit, adjacency=_RECORD_AND_BIT) for one in own]
        spent += [bit, counts.relationship(), *([composition.parallel(*both)] if both else [])]
    hidden = {"features of private users": records, "edges": epsilon, "the panel's labels": noise is not None}
    shown = ("the panel's records", *(["the panel's labels"] if noise is None else []), "number of nodes")
    protected = tuple(name for name, private in hidden.items() if private)
    return PipelineGuarantee.of(spent, protected=protected, unprotected=shown)


def _of_one_report(report: Guarantee) -> PipelineGuarantee:
    reason = f"the class is all that leaves a device; {report.reason}"
    whole = dataclasses.replace(
        report, unit=WHOLE_LIST, reason=reason, adjacency="any two records and any two neighbour lists of one user"
    )
    bit = dataclasses.replace(whole, unit=NEIGHBOUR_LIST, adjacency=WORDS[NEIGHBOUR_LIST])
    edge = dataclasses.replace(per_edge((bit.epsilon, bit.epsilon), "full"), arithmetic="exact")
    both = dataclasses.replace(whole, unit=Unit(f"{NEIGHBOUR_LIST} + {RECORD}"), adjacency=_RECORD_AND_BIT)
    spent = [dataclasses.replace(whole, unit=RECORD, adjacency=WORDS[RECORD]), bit, edge, both, whole]
    shown = ("the panel's records", "the panel's labels", "number of nodes")
    return PipelineGuarantee.of(spent, protected=("features of private users", "edges"), unprotected=shown)
