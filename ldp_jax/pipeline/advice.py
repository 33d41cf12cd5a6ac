"""Whether to collect private records at all: asked of public facts, before anybody reports, in one call."""

from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from ldp_jax.core import validate
from ldp_jax.core.types import Graph
from ldp_jax.features import alphabets, choose
from ldp_jax.graph.propagation import Operator, operator
from ldp_jax.pipeline.fidelity import FidelityForecast, gathered
from ldp_jax.pipeline.gain import ExpectedGain, expected_gain
from ldp_jax.pipeline.local_prediction import PanelFacts
from ldp_jax.pipeline.private_labels import MOST_EPSILON

__all__ = ["EPSILONS", "LEAST_GUARD", "LEAST_MEMBERS", "LEAST_T", "Advice", "advise"]


def __dir__() -> list[str]:
    return __all__


EPSILONS = (0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0)
"""Of which the least that is enough is looked for."""

LEAST_T = 2.0
"""Of the expected gain over its standard error: below, a panel does not tell it from nothing."""

LEAST_GUARD = 2.0
"""Of what the guard is expected to see: below, it would believe no report, and structure alone be returned."""

LEAST_MEMBERS = 100
"""Labels of a panel: below, gains of the panel have been seen that were none of the users (t of 4 on 35 labels)."""


class Advice(NamedTuple):
    """Whether to collect, and why; prints as a verdict and a table.

    Attributes:
      collect: the verdict, for ``epsilon``.
      reason: in a sentence.
      epsilon: that was asked about.
      needed: the least of the epsilons looked at that would be recommended; None where there is none.
      gains: by epsilon, what own reports are expected to add; empty without a panel.
      fidelity: by mechanism, the best first: what whole records through it would show of the true embedding, were
        they as far apart as can be and alike among neighbours, at the mechanism's worst error. Empty where the
        dimension is not known.
      users: how many would report.
    """

    collect: bool
    reason: str
    epsilon: float
    needed: float | None
    gains: dict[float, ExpectedGain]
    fidelity: dict[str, FidelityForecast]
    users: int

    @property
    def t(self) -> float:
        """Of the epsilon asked about; 0 without a panel."""
        return self.gains[self.epsilon].t if self.gains else 0.0

    @property
    def worth_in_labels(self) -> float:
        """About how many labels all reports together are worth: to be compared with the panel's; 0 without one."""
        return self.users * self.gains[self.epsilon].correlation if self.gains else 0.0

    def __str__(self) -> str:
        lines = [f"{'collect' if self.collect else 'do not collect'}: {self.reason}"]
        if self.gains:
            lines.append("epsilon   log-loss gain of the own report (nats)      t   guard   accuracy (points)")
            for epsilon, gain in self.gains.items():
                loss = f"{gain.log_loss:+.4f} +- {gain.standard_error:.4f}"
                points = f"{gain.accuracy:+.1f} +- {gain.accuracy_error:.1f}"
                seen = gain.guard(self.users)
                lines.append(f"{epsilon:7g}   {loss:>38}   {gain.t:4.1f}   {seen:5.1f}   {points:>17}")
            lines.append(
                f"{self.users} reports at epsilon {self.epsilon:g} are worth about {self.worth_in_labels:.0f} "
                f"labels; the panel has {self.gains[self.epsilon].members}"
            )
        if self.fidelity:
            best = ", ".join(f"{name} {found.correlation:.2f}" for name, found in list(self.fidelity.items())[:3])
            lines.append(f"whole records at epsilon {self.epsilon:g}, correlation with the true embedding: {best}")
        return "\n".join(lines)


def advise(
    facts: PanelFacts | Graph | Operator,
    epsilon: float,
    *,
    dim: int | None = None,
    message: Literal["class", "class-plain"] = "class",
    epsilons: tuple[float, ...] = EPSILONS,
    alpha: float = 0.1,
    r: float = 0.0,
) -> Advice:
    """Say whether reports of private users will add to what is public already. Costs no budget and asks nobody.

    With a panel: the log-loss that own reports are expected to take off structure's, out of fold and in closed form
    over reports (:func:`~ldp_jax.pipeline.gain.expected_gain`). To collect is recommended where it is more than
    twice its standard error on a panel of at least 100 labels, and where the guard is expected to believe so many
    reports of that epsilon. What reports of neighbours add comes on top, so that the accuracy is rather more than
    is foretold. Without a panel nothing says whether records know more than structure does, and to collect is never
    recommended; what whole records would show of the true embedding is foretold from the graph, the dimension and
    epsilon alone.

    Args:
      facts: what :func:`~ldp_jax.pipeline.local_prediction.panel_facts` found; or a public graph, where there is no
        panel.
      epsilon: of a report, in (0, 20].
      dim: how many features a record has; with a panel it is known.
      message: which the devices would send: the best class of a personal alphabet, or of all classes.
      epsilons: where the least that is enough is looked for.
      alpha: of the embedding whose fidelity is foretold.
      r: of it.

    Returns:
      :class:`Advice`.

    Raises:
      ValueError: for numbers out of range, or a graph without a dimension.

    >>> from ldp_jax import datasets
    >>> print(advise(datasets.load("debian").graph, 1.0, dim=1000))  # doctest: +ELLIPSIS
    do not collect: without a panel nothing says whether records know more than structure: find 100 users ...
    whole records at epsilon 1, correlation with the true embedding: MultiBit 0.06, ...
    """
    epsilon = validate.number(0.0, MOST_EPSILON, open_lower=True, epsilon=epsilon)
    asked = tuple(validate.number(0.0, MOST_EPSILON, open_lower=True, epsilons=one) for one in epsilons)
    validate.one_of(get_args(Literal["class", "class-plain"]), message=message)
    if not isinstance(facts, PanelFacts):
        if dim is None:
            raise ValueError("dim must be given where there is no panel: how many features a record has")
        op = facts if isinstance(facts, Operator) else operator(facts)
        reason = (
            f"without a panel nothing says whether records know more than structure: find {LEAST_MEMBERS} users "
            "whose records and labels may be public"
        )
        seen = _fidelity(op, dim, epsilon, alpha, r)
        return Advice(False, reason, epsilon, None, {}, seen, op.num_nodes)
    if facts.keep < 1.0:
        raise ValueError(f"facts must have true labels, which gains are measured by, got keep = {facts.keep:g}")
    features = facts.classifier.weights.shape[0]
    if dim is not None and dim != features:
        raise ValueError(f"dim must be the panel's {features}, or left out, got {dim}")
    gains = {each: _gain(facts, each, message) for each in sorted({*asked, epsilon})}
    users = len(facts.labels) - gains[epsilon].members
    good = {each: _recommended(gain, users) for each, gain in gains.items()}
    needed = next((each for each in gains if good[each]), None)
    seen = _fidelity(facts.op, features, epsilon, alpha, r)
    reason = _reason(gains[epsilon], epsilon, users, needed, max(gains))
    return Advice(good[epsilon], reason, epsilon, needed, gains, seen, users)


def _recommended(gain: ExpectedGain, users: int) -> bool:
    return gain.members >= LEAST_MEMBERS and gain.t > LEAST_T and gain.guard(users) > LEAST_GUARD


def _gain(facts: PanelFacts, epsilon: float, message: str) -> ExpectedGain:
    panel = np.flatnonzero(facts.labels >= 0)
    log_q = np.asarray(facts.structure.log_q)[panel]
    inside = np.ones(log_q.shape, bool) if message == "class-plain" else alphabets(np.exp(log_q), epsilon).mask
    return expected_gain(log_q, facts.classifier.panel_scores, facts.labels[panel], inside, epsilon)


def _reason(gain: ExpectedGain, epsilon: float, users: int, needed: float | None, most: float) -> str:
    if gain.members < LEAST_MEMBERS:
        return (
            f"a panel of {gain.members} labels cannot tell, whatever its t of {gain.t:.1f}: it takes about "
            f"{LEAST_MEMBERS}"
        )
    if _recommended(gain, users):
        adds = f"own reports alone are expected to add {gain.accuracy:.1f} points"
        if gain.accuracy <= 0.0:
            adds = "own reports sharpen posteriors, but no points are expected of them alone"
        return f"t = {gain.t:.1f} at epsilon {epsilon:g} on a panel of {gain.members}; {adds}"
    more = f"nor does epsilon {most:g} do" if needed is None else f"epsilon {needed:g} would do"
    if gain.t > LEAST_T:
        return (
            f"{users} reports of epsilon {epsilon:g} say so little that the guard would not believe them "
            f"({gain.guard(users):.1f} of its standard errors, of {LEAST_GUARD:g}); {more}"
        )
    return (
        f"t = {gain.t:.1f} at epsilon {epsilon:g} on a panel of {gain.members} does not exceed {LEAST_T:g}: "
        f"records are not seen to know more than structure; {more}"
    )


def _fidelity(op: Operator, dim: int, epsilon: float, alpha: float, r: float) -> dict[str, FidelityForecast]:
    """Of records of signs, alike among neighbours, through each mechanism at its worst error."""
    rows = gathered(op, alpha=alpha, r=r)
    errors: dict[str, Any] = choose("cube", None, dim, epsilon).errors
    signal = dim * rows.energy(1.0)
    return {name: FidelityForecast.of(signal, error * rows.own) for name, error in errors.items()}
