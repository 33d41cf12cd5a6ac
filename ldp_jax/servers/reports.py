r"""Local prediction.

Classes of users with private records, from one report of a predicted class each.

A few users, the panel, have public records. Their labels are public too, or each of them reports
one (:mod:`ldp_jax.servers.labels`). Steps 1 and 2 are what :func:`panel_facts` finds, the others
are :class:`ReportServer`:

1. From the panel and the public graph the server finds what structure says of everybody's class.
2. It learns a classifier from the panel.
3. It broadcasts the classifier, and sends each user a small alphabet of likely classes.
4. Each device classifies its own record, and reports the best class of its alphabet. The server
   simulates the reports of the panel, from scores by models that have not seen them.
5. Reports are weighed by how often records of the panel are taken for another class.
6. They are propagated with their noise in mind, if the guard believes them
   (:mod:`ldp_jax.servers.parts.report_odds`). Else structure alone is the result.
7. Two stacks weigh structure, the own report and the reports of others.
8. Where the guard is not sure, reports must also lower the panel's log-loss. Else structure alone
   is the result.

Guarantee: that of the reports; everything here is post-processing, of public randomness.
:func:`ldp_jax.servers.predict_from_reports` does all of it in one call, on simulated users.
"""

import dataclasses
from functools import cached_property
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from ldp_jax.accounting.statement import Role, Statement
from ldp_jax.core import random, validate
from ldp_jax.core.long_sums import column_means
from ldp_jax.core.progress import phase
from ldp_jax.core.pytree import pytree
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import Array, PRNGKey
from ldp_jax.features import PersonalAlphabets
from ldp_jax.servers.facts.panel import PanelFacts
from ldp_jax.servers.parts.confusion import ClassReports, likeliest_evidence
from ldp_jax.servers.parts.report_odds import belief
from ldp_jax.servers.parts.structure import best_field, label_log_loss
from ldp_jax.servers.questions import Answers, ClassQuestion
from ldp_jax.servers.taught_by_reports import stacked

HIDDEN = ("features of private users",)
IN_THE_CLEAR = ("edges", "the panel's records", "the panel's labels")

_SURE = 0.8
"""The guard's probability from which labels need not say it again; chosen on drawn worlds."""


class LocalPrediction(NamedTuple):
    """The posterior of everybody's class; the result of :class:`ReportServer`.

    Attributes:
      log_posterior: float32 [n, C], all in all; of a member of the panel out of fold.
      log_likelihood: float32 [n, C], of the own report.
      strength: the guard's probability that reports are of use; 1 without the guard.
      used: ``reports``, or ``structure`` where that alone is what is returned.
      reason: why, in a sentence.
      log_loss: on the panel, out of fold, in nats a member: of ``structure``, and ``reports`` where
        asked.
      field: kappa and c of the field, None where reports were not believed.
      smoothing: of what the panel says of reports, in counts.
      facts: what was known before.
      alphabets: who chose among which classes.
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
    alphabets: PersonalAlphabets

    __repr__ = by_shapes

    @property
    def classes(self) -> Int[np.ndarray, " n"]:
        """The likeliest class of each user."""
        return np.asarray(self.log_posterior).argmax(1)


@pytree
class ClassesAsked:
    """Private users are asked for classes.

    Attributes:
      question: the open one.
      key: of the reports of the panel, which the server simulates.
    """

    question: ClassQuestion
    key: PRNGKey


@dataclasses.dataclass(frozen=True, eq=False)
class ReportServer:
    """Steps 3 to 8 of local prediction: every private user is asked once.

    The result says what class each user is of, as a :class:`LocalPrediction`.

    Attributes:
      facts: of the panel and the graph (:func:`panel_facts`).
      epsilon: of a report, in (0, 20].
      guarded: whether reports are left out where the guard holds it likelier than not that they
        are of no use.
      alphabets: of all users; by default the classes that structure makes likely.

    ``ValueError`` for an epsilon out of range, or alphabets of other users or a larger epsilon.
    """

    facts: PanelFacts
    epsilon: float
    guarded: bool = True
    alphabets: PersonalAlphabets | None = None

    __repr__ = by_shapes

    def __post_init__(self) -> None:
        # Refuses an epsilon out of range.
        ClassQuestion.most(self.epsilon, self.facts.num_classes)
        if self.alphabets is None:
            return
        shape = (len(self.facts.labels), self.facts.num_classes)
        fits = self.alphabets.order.shape == shape
        validate.require(fits, f"alphabets must be {shape}, as facts are", self.alphabets.order)
        loss = self.alphabets.guarantee().epsilon
        rule = f"alphabets must be of epsilon {self.epsilon:g}, and their tables lose {loss:.6g}"
        validate.require(loss <= self.epsilon, rule)

    @cached_property
    def question(self) -> ClassQuestion:
        """Step 3: the classifier and everybody's alphabet."""
        alphabets = self.alphabets
        if alphabets is None:
            alphabets = PersonalAlphabets.of(self.epsilon, self.facts.alphabet_prior)
        private = self.facts.labels < 0
        return ClassQuestion(self.facts.classifier, alphabets, private, self.epsilon)

    def statement(self) -> Statement:
        """One report of a private user."""
        role = Role((self.question.cost(),), self.facts.labels < 0)
        return Statement.of(role, exposes=IN_THE_CLEAR, protects=HIDDEN)

    def init(self, key: PRNGKey) -> ClassesAsked:
        """Step 4: private users are asked."""
        return ClassesAsked(self.question, key)

    def step(self, state: ClassesAsked, answers: Answers) -> LocalPrediction:
        """Steps 4 to 8: what the reports say, beside structure."""
        question = state.question
        facts = self.facts if self.facts.taught is None else self.facts.taught
        known = facts.known
        op = facts.op
        log_q = facts.structure.log_q
        labels = known.labels
        posterior = np.exp(np.asarray(log_q))

        # Step 4 of the panel: its labels say how often devices are wrong. Step 5: what each report
        # says of the user's class.
        said, asked = question.beside_panel(random.again(state.key), answers, known)
        mask = question.mask
        if self.facts.taught is not None:  # nothing is read of an absent class
            taught = self.facts.numbering.taught
            said, mask = said[:, taught], mask[:, taught]
            rule = "alphabets must hold a class that labels name, and some hold none"
            validate.require(mask.any(1).all(), rule)
        reports = ClassReports(said, mask)
        panel = facts.classifier.scored(known)
        evidence, smoothing = likeliest_evidence(reports, panel, known.nodes, posterior, asked)

        # Step 6, the guard: records may tell no more, or users report otherwise.
        strength = 1.0
        if self.guarded:
            strength = belief(evidence, log_q, asked, panel, known.nodes)
        losses = {"structure": label_log_loss(log_q, labels, known.keep)}
        structure = LocalPrediction(
            log_q,
            evidence,
            strength,
            "structure",
            "labels and reports do not say that records tell more",
            losses,
            None,
            smoothing,
            self.facts,
            question.alphabets,
        )
        if strength < 0.5:
            return self._of_all(structure)

        # Step 6, the field.
        phase("what reports teach", 0.3)
        field, numbers = best_field(op, known, column_means(posterior), evidence, asked)

        # Step 7.
        both = stacked(op, [log_q, evidence, field], known)

        # Step 8: where the guard is not sure, the panel's log-loss tells.
        losses["reports"] = label_log_loss(both, labels, known.keep)
        decided = structure._replace(field=numbers)
        lower = losses["reports"] < losses["structure"]
        if self.guarded and strength < _SURE and not lower:
            reason = "reports do not lower the panel's log-loss"
            return self._of_all(decided._replace(reason=reason))
        reason = "labels and reports say that records tell more"
        return self._of_all(decided._replace(reason=reason, log_posterior=both, used="reports"))

    def _of_all(self, found: LocalPrediction) -> LocalPrediction:
        """The same with absent classes, which have their prior."""
        taught = self.facts.taught
        if taught is None:
            return found
        mine = self.facts.numbering
        log_posterior = mine.posterior(found.log_posterior)
        log_likelihood = mine.evidence(found.log_likelihood, taught.structure.log_q)
        return found._replace(
            log_posterior=jax.device_put(log_posterior),
            log_likelihood=jax.device_put(log_likelihood),
        )
