"""Membership inference: which nodes a model was trained on, as its answers for them tell.

All attacks take the answers of N models and which nodes each was trained on, and each model is the target in turn:
the other N - 1 are what the attacker trained herself, and the truth of the target's row is what she is judged by.
So whatever can be trained can be asked, by :func:`shadow_models` or by any other hand. Rows of memberships must
have been drawn independently: in a design in which every node is in exactly half of the models, the other models
tell what the target must be.

A split of the nodes of a graph is not exchangeable: a member was trained among its neighbours, and is asked among
others. Such differences show in the answers where no record leaks, and the bound that differential privacy puts on
the attacker of independent records, an advantage of at most (e^epsilon - 1 + 2 delta) / (e^epsilon + 1), need not
apply; nor is it refuted where an attack is better (Khosla, How does graph structure modulate membership-inference
risk for graph neural networks?, 2026).
"""

import dataclasses
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Bool, Float64

from ldp_jax.attacks._result import _FALSE, _METRICS, Difference, _metrics, _shown
from ldp_jax.attacks.link_stealing import _OPTIMIZER, _TOLD_APART, _Rows
from ldp_jax.core import validate
from ldp_jax.core.types import Array, PRNGKey, PRNGKeys
from ldp_jax.graph.propagation import Operator, operator
from ldp_jax.learning.metrics import ConfidenceInterval, mean_interval
from ldp_jax.learning.models import Model, NodeInputs, mlp
from ldp_jax.learning.training import Examples, Objective, Settings, check_examples, fit, fit_many, on_graph

Form = Literal["online", "offline"]
MembershipProtocol = Literal["TSTF", "TSTS", "0-hop"]

_STRICT = 0.001
"""The smaller share of false positives at which true ones are counted, where there are enough non-members."""

_TINY = 1e-12


# --- What an attack found ----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Membership:
    """What an attack found on N models, each the target in turn. Prints as one line; ``a.minus(b)`` compares two.

    Each metric is computed on the nodes of one target at a time; intervals are Student's, over targets. The targets
    share nodes and the attacker's models: the intervals take them for more independent than they are.

    Attributes:
      name: of the attack.
      member: bool [N, n], which nodes each target was trained on.
      scores: float64 [N, n], larger where the attacker rather believes that the node was trained on.
      auc: the area under the ROC curve.
      turned_auc: max(AUC, 1 - AUC) of the mean AUC: what the attack is worth to who knows that its sign is turned.
        At least 0.5 by construction, also where nothing is found.
      average_precision: the mean precision over members, from the largest score down.
      precision: the share of members among the nodes that are taken for them, those of the largest scores.
      recall: the share of the members that are among these.
      tpr: the share of members that stand out above all but 1 % of the others; chance is 0.01.
      strict_tpr: the same for 0.1 %; None where a target has fewer than 1000 others.
    """

    name: str
    member: Bool[np.ndarray, "N n"]
    scores: Float64[np.ndarray, "N n"]
    auc: ConfidenceInterval
    turned_auc: ConfidenceInterval
    average_precision: ConfidenceInterval
    precision: ConfidenceInterval
    recall: ConfidenceInterval
    tpr: ConfidenceInterval
    strict_tpr: ConfidenceInterval | None
    _each: np.ndarray  # [N, metrics]
    _confidence: float

    def minus(self, other: "Membership") -> Difference:
        """How much more this attack finds than ``other`` does on the same targets, by paired intervals.

        Raises:
          ValueError: where the targets or their members are not the same.
        """
        if not np.array_equal(self.member, other.member):
            raise ValueError(f"{other.name} must be asked about the members of {self.name}, got others")
        gap = self._each - other._each
        return Difference(
            f"{self.name} minus {other.name}", *(mean_interval(column, self._confidence) for column in gap.T)
        )

    def __str__(self) -> str:
        targets, nodes = self.member.shape
        return f"{self.name}: {_shown(self)}; {targets} targets of {nodes} nodes"

    __repr__ = __str__


def evaluate_membership(
    name: str, scores: Any, member: Any, *, density: float | None = None, confidence: float = 0.95
) -> Membership:
    """Judge the scores of an attack on memberships, one's own or one of this module.

    Ties are broken as by :func:`ldp_jax.attacks.evaluate`: in expectation over a random order.

    Args:
      name: what the attack is called.
      scores: float [N, n], larger where a node rather is a member; infinite ones are allowed.
      member: bool [N, n], the truth: which of n nodes each of N targets was trained on.
      density: the share of nodes that the attacker takes for members; by default the true one of each target, where
        precision and recall are the same number.
      confidence: of the intervals.

    Raises:
      ValueError: for NaN, arrays of another shape, or a target all of whose nodes are members, or none.

    >>> member = np.array([[True, False, True], [False, False, True]])
    >>> found = evaluate_membership("opposite", -1.0 * member, member)
    >>> found.auc.mean, found.turned_auc.mean
    (0.0, 1.0)
    """
    member = _member(member)
    scores = np.asarray(scores, np.float64)
    if scores.shape != member.shape:
        raise ValueError(f"scores must be float {list(member.shape)}, as member is, got shape {scores.shape}")
    if np.isnan(scores).any():
        raise ValueError(f"scores of {name} must be numbers, got NaN for {np.isnan(scores).sum()} nodes")
    if density is not None:
        density = validate.number(0.0, 1.0, open_lower=True, density=density)
    confidence = validate.number(0.0, 1.0, open_lower=True, open_upper=True, confidence=confidence)
    order = np.argsort(-scores, 1, kind="stable")
    ordered = np.take_along_axis(scores, order, 1)
    places = np.arange(scores.shape[1])
    last = np.concatenate([ordered[:, 1:] != ordered[:, :-1], np.ones((len(scores), 1), bool)], 1)
    # The end of the run of equal scores that a place is in: the next place that ends one.
    ends = np.minimum.accumulate(np.where(last, places, len(places))[:, ::-1], 1)[:, ::-1]
    strict = (~member).sum(1).min() >= 1 / _STRICT
    each = _metrics(
        np.ones_like(member), np.take_along_axis(member, order, 1), ends, density,
        (_FALSE, _STRICT) if strict else (_FALSE,),
    )  # fmt: skip
    found = [mean_interval(column, confidence) for column in each.T]
    count = len(_METRICS)
    named = dict(zip(_METRICS, found[:count], strict=True))
    mean = named["auc"].mean
    return Membership(
        name, member, scores, turned_auc=named["auc"]._replace(mean=max(mean, 1.0 - mean)),
        strict_tpr=found[count] if strict else None, _each=each[:, :count], _confidence=confidence, **named,
    )  # fmt: skip


def _member(member: Any) -> np.ndarray:
    member = np.asarray(member)
    if member.ndim != 2 or member.dtype != bool or not member.size:
        raise ValueError(f"member must be bool [N, n], got {member.dtype} of shape {member.shape}")
    members = member.sum(1)
    if members.min() == 0 or members.max() == member.shape[1]:
        raise ValueError(
            f"member must have nodes that each target was trained on and others, got from {members.min()} to "
            f"{members.max()} of {member.shape[1]}"
        )
    return member


# --- Attacks from confidences ------------------------------------------------------------------------------------


def log_odds(answers: Any, labels: Any, *, outputs: Literal["logits", "softmax"] = "logits") -> np.ndarray:
    r"""What models thought of the label of each node: :math:`\log (p_y / (1 - p_y))`, near a normal law.

    Args:
      answers: float [..., n, classes], at least two classes.
      labels: integers [n], the class of each node.
      outputs: what the answers are: ``logits``, or their ``softmax``, where a probability nearer to 0 or 1 than
        2^-24 is taken to be as near.

    Returns:
      float64 [..., n].

    Raises:
      ValueError: for answers that are not finite, labels that are no classes of theirs, or probabilities outside
        [0, 1].

    Reference: Carlini et al., Membership inference attacks from first principles (IEEE S&P 2022).

    >>> log_odds([[2.0, 0.0], [1.0, 1.0]], [0, 1]).tolist()
    [2.0, 0.0]
    """
    validate.one_of(("logits", "softmax"), outputs=outputs)
    answers, labels = np.asarray(answers, np.float64), np.asarray(labels)
    if answers.ndim < 2 or answers.shape[-1] < 2 or not np.isfinite(answers).all():
        raise ValueError(f"answers must be finite numbers [..., n, classes >= 2], got shape {answers.shape}")
    classes = answers.shape[-1]
    if labels.shape != answers.shape[-2:-1] or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"labels must be integers [{answers.shape[-2]}], got {labels.dtype} of {labels.shape}")
    if labels.min(initial=0) < 0 or labels.max(initial=0) >= classes:
        raise ValueError(f"labels must be in [0, {classes}), got from {labels.min()} to {labels.max()}")
    own = np.arange(classes) == labels[:, None]
    if outputs == "logits":
        return (answers * own).sum(-1) - scipy.special.logsumexp(np.where(own, -np.inf, answers), axis=-1)
    if answers.min() < 0 or answers.max() > 1 + 1e-5:
        raise ValueError(f"answers must be probabilities, got from {answers.min()} to {answers.max()}")
    sides = ((answers * part).sum(-1) for part in (own, ~own))
    right, wrong = (np.log(np.maximum(side, 2.0**-24)) for side in sides)
    return right - wrong


def _confidences(confidences: Any, member: Any, least: int) -> tuple[np.ndarray, np.ndarray]:
    member = _member(member)
    confidences = np.asarray(confidences, np.float64)
    if confidences.shape != member.shape or not np.isfinite(confidences).all():
        raise ValueError(
            f"confidences must be finite numbers {list(member.shape)}, as member is, got shape {confidences.shape}"
        )
    if len(member) < least:
        raise ValueError(f"member must be of at least {least} models, got {len(member)}")
    return confidences, member


def _without(values: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """For each target the sum over the other models that count, node by node; [N, n]."""
    values = values * counted
    return values.sum(0) - values


def lira(
    confidences: Any,
    member: Any,
    *,
    form: Form = "online",
    variance: Literal["shared", "node"] = "shared",
    density: float | None = None,
    confidence: float = 0.95,
) -> Membership:
    r"""The likelihood-ratio attack: how likely an answer is of a model with the node, and of one without.

    The other models that were trained on the node, and those that were not, give two normal laws for it. Online,
    the score is :math:`\log N(\phi; \mu_\mathrm{in}, s_\mathrm{in}) - \log N(\phi; \mu_\mathrm{out},
    s_\mathrm{out})`. Offline, the attacker has no model with the node, and the score is :math:`(\phi -
    \mu_\mathrm{out}) / s_\mathrm{out}`, in the order of the published 1 - P(Z > phi).

    Args:
      confidences: float [N, n], the :func:`log_odds` of N >= 3 models.
      member: bool [N, n], which nodes each was trained on, rows drawn independently.
      form: ``online`` or ``offline``.
      variance: ``shared`` takes one variance within nodes for all nodes, for members and others each, which serves
        up to some 64 models; ``node`` one for each node.
      density: as :func:`evaluate_membership`.
      confidence: as :func:`evaluate_membership`.

    Returns:
      Scores and metrics. A node of which the other models do not give the laws (too few have it, or lack it) scores
      0, no evidence.

    Raises:
      ValueError: as :func:`evaluate_membership`; for fewer models, or confidences that are not finite.

    Reference: Carlini et al., Membership inference attacks from first principles (IEEE S&P 2022), Algorithm 1
    and its offline form. There a shared variance also counts how far nodes are apart, here it does not.

    >>> rng = np.random.default_rng(0)
    >>> member = rng.random((8, 200)) < 0.5
    >>> lira(rng.normal(size=200) + 3.0 * member + rng.normal(size=(8, 200)), member).auc.mean > 0.95
    True
    """
    validate.one_of(get_args(Form), form=form)
    validate.one_of(("shared", "node"), variance=variance)
    confidences, member = _confidences(confidences, member, 3)
    centred = confidences - confidences.mean(0)  # sums of squares lose nothing to what all models agree on
    inside, outside = (_law(centred, counted, variance) for counted in (member, ~member))
    away, spread, known = outside
    if form == "offline":
        scores = np.where(known, away / np.sqrt(spread), 0.0)
    else:
        ratio = away**2 / spread - inside[0] ** 2 / inside[1] + np.log(spread) - np.log(inside[1])
        scores = np.where(known & inside[2], ratio / 2, 0.0)
    return evaluate_membership(f"LiRA {form}", scores, member, density=density, confidence=confidence)


def _law(values: np.ndarray, counted: np.ndarray, variance: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of other models that count: how far a target is from their mean, their variance, and if that is known."""
    count = _without(np.ones_like(values), counted)
    mean = _without(values, counted) / np.maximum(count, 1)
    squares = np.maximum(_without(values**2, counted) - count * mean**2, 0.0)
    freedom = np.maximum(count - 1, 0)
    if variance == "shared":
        spread, known = squares.sum(1, keepdims=True) / np.maximum(freedom.sum(1, keepdims=True), 1), count >= 1
    else:
        spread, known = squares / np.maximum(freedom, 1), count >= 2
    return values - mean, np.maximum(spread, _TINY * (1.0 + values.var())), known


def rmia(
    confidences: Any,
    member: Any,
    *,
    form: Form = "online",
    gamma: float = 2.0,
    offline_a: float = 0.3,
    population: Any = None,
    density: float | None = None,
    confidence: float = 0.95,
) -> Membership:
    r"""The relative attack: how many other nodes the target raised less above their usual probability.

    With P(v) the probability that the target gives to the label of v, and Q(v) the mean of it over the attacker's
    models, the score of v is the share of population nodes z with :math:`P(v) / Q(v) \ge \gamma P(z) / Q(z)`.
    Online, Q is the mean of those of models with v and without; offline, with models without v alone, it is
    :math:`((1 + a) Q_\mathrm{out} + 1 - a) / 2`. Where no other model has v, or none lacks it, those there are
    decide.

    Args:
      confidences: float [N, n], the :func:`log_odds` of N >= 2 models.
      member: bool [N, n], which nodes each was trained on, rows drawn independently.
      form: ``online`` or ``offline``.
      gamma: how much more a node must have been raised, >= 1.
      offline_a: a, in [0, 1].
      population: bool [n], the nodes z; all by default. A node is not compared with itself.
      density: as :func:`evaluate_membership`.
      confidence: as :func:`evaluate_membership`.

    Raises:
      ValueError: as :func:`lira`; for a population of fewer than two nodes, or numbers out of range.

    Reference: Zarifzadeh, Liu & Shokri, Low-cost high-power membership inference attacks (ICML 2024).

    >>> rng = np.random.default_rng(0)
    >>> member = rng.random((8, 200)) < 0.5
    >>> rmia(rng.normal(size=200) + 3.0 * member + rng.normal(size=(8, 200)), member).auc.mean > 0.9
    True
    """
    validate.one_of(get_args(Form), form=form)
    gamma = validate.number(1.0, gamma=gamma)
    a = validate.number(0.0, 1.0, offline_a=offline_a)
    confidences, member = _confidences(confidences, member, 2)
    n = member.shape[1]
    others = np.ones(n, bool) if population is None else np.asarray(population)
    if others.shape != (n,) or others.dtype != bool or others.sum() < 2:
        raise ValueError(
            f"population must be bool [{n}] with at least two nodes, got {others.dtype} of {others.shape}"
        )
    usual = _usual(scipy.special.expit(confidences), member, form, a)
    raised = scipy.special.log_expit(confidences) - np.log(np.maximum(usual, _TINY))
    rivals = raised[:, others] + np.log(gamma)
    # How many rivals are not above a node: both in one order, rivals first among equals.
    both = np.concatenate([rivals, raised], 1)
    order = np.argsort(both, 1, kind="stable")
    counts = np.empty(both.shape)
    np.put_along_axis(counts, order, np.cumsum(order < rivals.shape[1], 1, dtype=np.float64), 1)
    below = counts[:, rivals.shape[1] :] - (others & (gamma == 1.0))
    scores = below / (others.sum() - others)
    return evaluate_membership(f"RMIA {form}", scores, member, density=density, confidence=confidence)


def _usual(p: np.ndarray, member: np.ndarray, form: str, a: float) -> np.ndarray:
    """What a node's probability is in the attacker's models; [N, n]."""
    counts, totals = ([_without(part, side) for side in (member, ~member)] for part in (np.ones_like(p), p))
    inside, outside = (total / np.maximum(count, 1) for total, count in zip(totals, counts, strict=True))
    inside, outside = np.where(counts[0] > 0, inside, outside), np.where(counts[1] > 0, outside, inside)
    return (inside + outside) / 2 if form == "online" else ((1 + a) * outside + 1 - a) / 2


# --- The trained attacker ----------------------------------------------------------------------------------------


def trained_membership(
    key: PRNGKey,
    posteriors: Any,
    member: Any,
    *,
    side: Any = None,
    shadows: int = 1,
    hidden: int = 64,
    layers: int = 3,
    epochs: int = 50,
    density: float | None = None,
    confidence: float = 0.95,
) -> Membership:
    """A perceptron that learnt from shadow models what answers for members look like.

    For each target a perceptron of its own is trained, on the answers of the next ``shadows`` models in the list
    and on which nodes these were trained on; all in one program. A fifth of these answers chooses the epoch.

    Args:
      key: a typed threefry key.
      posteriors: float [N, n, classes], the probabilities that N >= 2 models gave, in whatever order of the classes
        the attacker is to see: sorted ones tell her how sure a model was, and not of what.
      member: bool [N, n], which nodes each was trained on, rows drawn independently.
      side: float [n, k], what else the attacker knows of each node, such as its place in a hierarchy; [N, n, k]
        where it depends on the model, as the :func:`log_odds` of a known label do. None for nothing.
      shadows: how many models she learns from, at most N - 1.
      hidden: width of the perceptron.
      layers: of it.
      epochs: of its training.
      density: as :func:`evaluate_membership`.
      confidence: as :func:`evaluate_membership`.

    Raises:
      ValueError: as :func:`evaluate_membership`; for posteriors or side information that are not finite or of
        another shape, or a number of shadows out of range.

    Reference: Olatunji, Nejdl & Khosla, Membership inference attack on graph neural networks (TPS 2021);
    PoinDP, Table 3 and appendix B.3 (with hierarchy as side information).
    """
    validate.threefry(key)
    member = _member(member)
    count, n = member.shape
    validate.integer_in(1, count - 1, shadows=shadows)
    for name, number in {"hidden": hidden, "layers": layers, "epochs": epochs}.items():
        validate.integer_in(1, **{name: number})
    parts = [_features("posteriors", posteriors, count, n)]
    if side is not None:
        known = np.asarray(side)
        known = np.broadcast_to(known, (count, *known.shape)) if known.ndim == 2 else known
        parts.append(_features("side", known, count, n))
    seen = np.concatenate(parts, 2)

    order_key, fit_key = jax.random.split(key)
    which = (np.arange(count)[:, None] + np.arange(1, shadows + 1)) % count  # the models each attacker learns from
    order = np.asarray(jax.random.permutation(order_key, shadows * n))
    features = seen[which].reshape(count, shadows * n, -1)[:, order]
    truth = member[which].reshape(count, shadows * n, 1)[:, order].astype(np.float32)
    mean, spread = features.mean(1, keepdims=True), features.std(1, keepdims=True) + 1e-6
    validates = np.arange(len(order)) % 5 == 0
    train, validation = (
        _Rows(jnp.asarray(((features - mean) / spread)[:, part]), jnp.asarray(truth[:, part]))
        for part in (~validates, validates)
    )
    model = mlp(layers, hidden, 1)
    fitted = fit_many(
        jax.random.split(fit_key, count), model, _TOLD_APART, (), train, validation, validation,
        Settings(_OPTIMIZER, epochs, batch_size=256), keep_variables=True,
    )  # fmt: skip
    scores = _read(fitted.variables, jnp.asarray((seen - mean) / spread), model=model)
    name = "trained membership" + ("" if side is None else " with side information")
    return evaluate_membership(name, np.asarray(scores), member, density=density, confidence=confidence)


def _features(name: str, values: Any, count: int, n: int) -> np.ndarray:
    values = np.asarray(values, np.float32)
    if values.ndim != 3 or values.shape[:2] != (count, n) or not np.isfinite(values).all():
        raise ValueError(f"{name} must be finite numbers [{count}, {n}, k], got shape {values.shape}")
    return values


@partial(jax.jit, static_argnames="model")
def _read(variables: Any, features: Array, *, model: Model) -> Array:
    def one(given: Any) -> Array:
        return model.apply(*given, key=None, train=False)[0][:, 0]

    return jax.lax.map(one, (variables, features))


# --- Shadow models -----------------------------------------------------------------------------------------------


class Shadows(NamedTuple):
    """Models that were each trained on a random part of the nodes, and what they answer.

    Attributes:
      outputs: float32 [N, p, outputs], the logits for the nodes of the population.
      member: bool [N, p], which of these each model was trained on.
      nodes: int32 [p], the population.
      variables: of the models, each leaf with a leading axis of N.
    """

    outputs: np.ndarray
    member: np.ndarray
    nodes: np.ndarray
    variables: Any


def shadow_models(
    key: PRNGKey,
    model: Model,
    objective: Objective,
    graph: Any,
    x: Any,
    labels: Any,
    *,
    models: int,
    protocol: MembershipProtocol,
    optimizer: Any,
    epochs: int,
    nodes: Any = None,
    share: float = 0.5,
    validation: Any = None,
    patience: int | None = None,
    batch_size: int | None = None,
    at_once: int | None = None,
) -> Shadows:
    """Train models on random parts of the nodes, and ask each about all of them; two compiled programs.

    Each model is trained on the graph of its own nodes: edges to others are not there. It is asked

    * ``TSTF`` (train on the subgraph, test on the full graph): about all nodes on the whole graph;
    * ``TSTS`` (train on the subgraph, test on the subgraph): on the graph without the edges between its nodes and
      the others, so that a member is asked among those it was trained with;
    * ``0-hop``: about each node alone, without edges.

    Args:
      key: a typed threefry key.
      model: of nodes on a graph: its inputs are :class:`ldp_jax.learning.models.NodeInputs`.
      objective: of :class:`ldp_jax.learning.training.Examples`, such as
        :data:`ldp_jax.learning.training.node_classification`.
      graph: a ``jraph.GraphsTuple`` of one graph, or its operator; an argument of the program. Layout ``ell`` is
        several times faster on a CPU, for models that add up neighbours; those that attend to them, such as
        :func:`ldp_jax.learning.models.gat`, need layout ``segment``, which a ``GraphsTuple`` is given.
      x: float [n, d].
      labels: [n] or [n, k], as the objective wants them.
      models: N, at least 2. Time is in proportion, memory is not: x and the graph are there once.
      protocol: ``TSTF``, ``TSTS`` or ``0-hop``.
      optimizer: any optax transformation.
      epochs: of each training.
      nodes: distinct integers [p], the population that members are drawn from; all by default.
      share: of the population that a model is trained on, in (0, 1); every model on as many nodes.
      validation: distinct integers, nodes outside the population that choose the epoch; they are asked about on the
        training graph, where they have no edges. None for the epoch of the least training loss: no early stop.
      patience: as :func:`ldp_jax.learning.training.fit`.
      batch_size: training nodes a step; all by default, since every step applies the model to all nodes.
      at_once: models that are trained together; None for one at a time, which is fastest on a CPU.

    Raises:
      ValueError: for nodes out of range or given twice, a share that leaves no member or no other, validation nodes
        in the population, or what :func:`ldp_jax.learning.training.fit` refuses.
      TypeError: for a model that attends to neighbours, and an operator of layout ``ell``.

    Reference: Olatunji, Nejdl & Khosla, Membership inference attack on graph neural networks (TPS 2021), TSTF and
    TSTS; Carlini et al., Membership inference attacks from first principles (IEEE S&P 2022), random halves.
    """
    validate.threefry(key)
    validate.integer_in(2, models=models)
    validate.one_of(get_args(MembershipProtocol), protocol=protocol)
    share = validate.number(0.0, 1.0, open_lower=True, open_upper=True, share=share)
    op = graph if isinstance(graph, Operator) else operator(graph, "segment", allow_directed=True)
    n = op.num_nodes
    x, labels = jnp.asarray(x, jnp.float32), np.asarray(labels)
    if len(x) != n or len(labels) != n:
        raise ValueError(f"x and labels must have a row for each of {n} nodes, got {len(x)} and {len(labels)}")
    population = _distinct("nodes", np.arange(n) if nodes is None else nodes, n)
    size = round(share * len(population))
    if not 0 < size < len(population):
        raise ValueError(f"share must leave members and others, got {size} of {len(population)} nodes")
    settings = Settings(optimizer, epochs, batch_size or size, patience)
    held = None
    if validation is not None:
        held = _distinct("validation", validation, n)
        if np.isin(held, population).any():
            raise ValueError("validation must have no node of the population")
    objective = on_graph(objective if held is not None else _by_loss(objective))
    parts = {"train": population} if held is None else {"train": population, "validation": held}
    known = {name: Examples(index, labels[index]) for name, index in parts.items()}
    check_examples(model, objective, NodeInputs(op, x), known)  # in the program, labels are traced

    split_key, fit_key = jax.random.split(key)
    member = _drawn(jax.random.split(split_key, models), size=size, count=len(population))
    variables = _trained(
        jax.random.split(fit_key, models), member, op, x, labels, population, held, model=model,
        objective=objective, size=size, settings=settings, at_once=at_once,
    )  # fmt: skip
    trained = Shadows(np.zeros(()), np.asarray(member), population, variables)
    return ask_shadows(trained, model, op, x, protocol=protocol, at_once=at_once)


def ask_shadows(
    shadows: Shadows, model: Model, graph: Any, x: Any, *, protocol: MembershipProtocol, at_once: int | None = None
) -> Shadows:
    """Ask models that :func:`shadow_models` trained again, under another protocol; nothing is trained.

    Args:
      shadows: N trained models with their members.
      model: that they were trained as.
      graph: the graph of their training, or its operator.
      x: float [n, d], the rows of their training.
      protocol: as :func:`shadow_models`.
      at_once: models that are asked together; None for one at a time.

    Returns:
      The same models with ``outputs`` of this protocol, float32 [N, p, outputs].
    """
    protocols = get_args(MembershipProtocol)
    validate.one_of(protocols, protocol=protocol)
    op = graph if isinstance(graph, Operator) else operator(graph, "segment", allow_directed=True)
    outputs = _asked(
        shadows.variables, shadows.member, op, jnp.asarray(x, jnp.float32), shadows.nodes,
        np.int32(protocols.index(protocol)), model=model, at_once=at_once,
    )  # fmt: skip
    return shadows._replace(outputs=np.asarray(outputs))


def _distinct(name: str, nodes: Any, n: int) -> np.ndarray:
    nodes = np.asarray(nodes)
    whole = nodes.ndim == 1 and len(nodes) and np.issubdtype(nodes.dtype, np.integer)
    if not whole or nodes.min() < 0 or nodes.max() >= n or len(np.unique(nodes)) < len(nodes):
        raise ValueError(f"{name} must be distinct integers in [0, {n}), at least one")
    return nodes.astype(np.int32)


@lru_cache
def _by_loss(objective: Objective) -> Objective:
    """Scored by how small the loss is: the best epoch is then that of the closest fit."""
    return objective._replace(score=lambda outputs, examples: -objective.loss(outputs, examples).mean())


@partial(jax.jit, static_argnames=("size", "count"))
def _drawn(keys: PRNGKeys, *, size: int, count: int) -> Array:
    """A random part of ``size`` for each key; bool [keys, count]."""

    def one(key: PRNGKey) -> Array:
        return jax.random.permutation(key, jnp.arange(count) < size)

    return jax.vmap(one)(keys)


@partial(jax.jit, static_argnames=("model", "objective", "size", "settings", "at_once"))
def _trained(
    keys: PRNGKeys,
    member: Array,
    op: Operator,
    x: Array,
    labels: Array,
    nodes: Array,
    held: Any,
    *,
    model: Model,
    objective: Objective,
    size: int,
    settings: Settings,
    at_once: int | None,
) -> Any:
    def examples(index: Array) -> Examples:
        return Examples(index, labels[index])

    def one(given: Any) -> Any:
        key, chosen = given
        inside = jnp.zeros(op.num_nodes, bool).at[nodes].set(chosen)
        train = examples(nodes[jnp.nonzero(chosen, size=size)[0]])
        # fit, not fit_many, which would hold x as many times as there are models.
        context = NodeInputs(op.induced(inside), x)
        validation = train if held is None else examples(held)
        return fit(key, model, objective, context, train, validation, validation, settings).variables

    return jax.lax.map(one, (keys, member), batch_size=at_once)


@partial(jax.jit, static_argnames=("model", "at_once"))
def _asked(
    variables: Any, member: Array, op: Operator, x: Array, nodes: Array, protocol: Any, *, model: Model,
    at_once: int | None,
) -> Array:  # fmt: skip
    def one(given: Any) -> Array:
        fitted, chosen = given
        inside = jnp.zeros(op.num_nodes, bool).at[nodes].set(chosen)
        everybody, nobody = jnp.ones_like(inside), jnp.zeros_like(inside)
        # In the order of MembershipProtocol: all edges, those on either side of the membership, none.
        one_part = jnp.stack([everybody, inside, nobody])[protocol]
        asked = op.induced(one_part, jnp.stack([nobody, ~inside, nobody])[protocol])
        return model.apply(fitted, NodeInputs(asked, x), key=None, train=False)[0][nodes]

    return jax.lax.map(one, (variables, member), batch_size=at_once)
