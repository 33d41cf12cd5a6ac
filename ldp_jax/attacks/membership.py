"""Membership inference: which nodes a model was trained on, by its answers for them.

All attacks take the answers of N models, such as those of :func:`ldp_jax.attacks.shadow_models`,
and the nodes that each was trained on. Each model is the target in turn: the attacker trained the
others. Rows of memberships must have been drawn independently: where every node is in exactly half
of the models, the others reveal the target.

A split of the nodes of a graph is not exchangeable: a member was trained among its neighbours, and
is asked among others. So an advantage above that of differential privacy on independent records,
(e^epsilon - 1 + 2 delta) / (e^epsilon + 1), refutes nothing (Khosla, 2026).
"""

from functools import partial
from typing import Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from numpy.typing import ArrayLike

from ldp_jax.attacks._classifier import CLASSIFICATION, Perceptron, Rows
from ldp_jax.attacks._result import Attack, check_member, evaluate_membership
from ldp_jax.core import random, validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.types import Array, PRNGKey
from ldp_jax.learning.models import Model, Variables
from ldp_jax.learning.training import fit_many

Form = Literal["online", "offline"]

_TINY = 1e-12


@implicit_promotion()
def log_odds(
    answers: ArrayLike | tuple,
    labels: ArrayLike | tuple,
    *,
    outputs: Literal["logits", "softmax"] = "logits",
) -> np.ndarray:
    r"""The log odds of the label of each node, :math:`\log (p_y / (1 - p_y))`, near a normal law.

    Float64 [..., n].

    ``answers`` are float [..., n, classes], of at least two classes, and ``labels`` integers [n].
    ``outputs`` says whether answers are ``logits``, or their ``softmax``, which is clipped to 2^-24
    from 0 and 1.

    >>> log_odds([[2.0, 0.0], [1.0, 1.0]], [0, 1]).tolist()
    [2.0, 0.0]
    """
    validate.one_of(("logits", "softmax"), outputs=outputs)
    answers = validate.numbers(answers=answers)
    labels = validate.complete(labels=labels)
    if answers.ndim < 2 or answers.shape[-1] < 2 or not np.isfinite(answers).all():
        raise ValueError(
            f"answers must be finite numbers [..., n, classes >= 2], got shape {answers.shape}"
        )
    classes = answers.shape[-1]
    if labels.shape != answers.shape[-2:-1]:
        raise ValueError(f"labels must be integers [{answers.shape[-2]}], got shape {labels.shape}")
    validate.ids(classes, labels=labels)
    own = np.arange(classes) == labels[:, None]
    if outputs == "logits":
        if answers.min() >= 0 and np.allclose(answers.sum(-1), 1.0, rtol=0.0, atol=1e-4):
            raise ValueError(
                "answers must be logits, and are probabilities: outputs='softmax' reads them"
            )
        return (answers * own).sum(-1) - scipy.special.logsumexp(
            np.where(own, -np.inf, answers), axis=-1
        )
    if answers.min() < 0 or answers.max() > 1 + 1e-5:
        raise ValueError(
            f"answers must be probabilities, got from {answers.min()} to {answers.max()}"
        )
    sides = ((answers * part).sum(-1) for part in (own, ~own))
    right, wrong = (np.log(np.maximum(side, 2.0**-24)) for side in sides)
    return right - wrong


def _confidences(
    confidences: ArrayLike | tuple, member: ArrayLike | tuple, least: int
) -> tuple[np.ndarray, np.ndarray]:
    member = check_member(member)
    confidences = validate.numbers(confidences=confidences)
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
    confidences: ArrayLike | tuple,
    member: ArrayLike | tuple,
    *,
    form: Form = "online",
    variance: Literal["shared", "node"] = "shared",
) -> Attack:
    r"""The likelihood-ratio attack.

    How likely an answer is of a model with the node, and of one without.

    The other models with the node, and those without, give two normal laws for it. Online, the
    score is
    :math:`\log N(\phi; \mu_\mathrm{in}, s_\mathrm{in}) - \log N(\phi; \mu_\mathrm{out}, s_\mathrm{out})`. Offline, the attacker has no model with the node, and the score is :math:`(\phi - \mu_\mathrm{out}) / s_\mathrm{out}`. A node without
    these laws (in too few other models, or too many) scores 0.

    Args:
      confidences: float [N, n], the :func:`log_odds` of N >= 3 models.
      member: bool [N, n], which nodes each was trained on, rows drawn independently.
      form: ``online`` or ``offline``.
      variance: ``shared`` by all nodes, of members and of others, best up to some 64 models;
        ``node``, one each.

    Reference: Carlini et al., Membership inference attacks from first principles (IEEE S&P 2022),
    Algorithm 1 and its offline form; there a shared variance also counts how far nodes are apart.

    >>> rng = np.random.default_rng(0)
    >>> member = rng.random((8, 200)) < 0.5
    >>> lira(rng.normal(size=200) + 3.0 * member + rng.normal(size=(8, 200)), member).auc.mean > 0.95
    True
    """
    validate.one_of(get_args(Form), form=form)
    validate.one_of(("shared", "node"), variance=variance)
    confidences, member = _confidences(confidences, member, 3)
    centred = confidences - confidences.mean(
        0
    )  # sums of squares lose nothing to what all models agree on
    inside, outside = (_law(centred, counted, variance) for counted in (member, ~member))
    away, spread, known = outside
    if form == "offline":
        scores = np.where(known, away / np.sqrt(spread), 0.0)
    else:
        ratio = away**2 / spread - inside[0] ** 2 / inside[1] + np.log(spread) - np.log(inside[1])
        scores = np.where(known & inside[2], ratio / 2, 0.0)
    return evaluate_membership(f"LiRA {form}", scores, member)


def _law(
    values: np.ndarray, counted: np.ndarray, variance: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How far a target is from the mean of other models that count, their variance, and if that is known."""
    count = _without(np.ones_like(values), counted)
    mean = _without(values, counted) / np.maximum(count, 1)
    squares = np.maximum(_without(values**2, counted) - count * mean**2, 0.0)
    freedom = np.maximum(count - 1, 0)
    if variance == "shared":
        spread = squares.sum(1, keepdims=True) / np.maximum(freedom.sum(1, keepdims=True), 1)
        known = count >= 1
    else:
        spread = squares / np.maximum(freedom, 1)
        known = count >= 2
    return values - mean, np.maximum(spread, _TINY * (1.0 + values.var())), known


def rmia(
    confidences: ArrayLike | tuple,
    member: ArrayLike | tuple,
    *,
    form: Form = "online",
    gamma: float = 2.0,
    offline_a: float = 0.3,
    population: ArrayLike | tuple | None = None,
) -> Attack:
    r"""The relative attack.

    How many other nodes the target raised less above their usual probability.

    With P(v) the target's probability of the label of v, and Q(v) its mean over the attacker's
    models, the score of v is the share of population nodes z with
    :math:`P(v) / Q(v) \ge \gamma P(z) / Q(z)`. Online, Q is the mean of those of models with v and
    without; offline, :math:`((1 + a) Q_\mathrm{out} + 1 - a) / 2`. Where no other model has v, or
    all have it, Q is of those there are; it is taken for 1e-12 at least.

    ``confidences`` of N >= 2 models, ``member`` and ``form`` are as in :func:`lira`. ``gamma``, >=
    1, is how much more a node must have been raised; ``offline_a`` is a, in [0, 1]; ``population``,
    bool [n], are the nodes z, all by default. A node is not compared with itself.

    Reference: Zarifzadeh, Liu & Shokri, Low-cost high-power membership inference attacks (ICML
    2024).
    """
    validate.one_of(get_args(Form), form=form)
    gamma = validate.number(1.0, gamma=gamma)
    a = validate.number(0.0, 1.0, offline_a=offline_a)
    confidences, member = _confidences(confidences, member, 2)
    n = member.shape[1]
    others = validate.mask(n, population=population)
    if others.sum() < 2:
        raise ValueError(
            f"population must be bool [{n}], with at least two nodes, got {others.sum()}"
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
    return evaluate_membership(f"RMIA {form}", scores, member)


def _usual(p: np.ndarray, member: np.ndarray, form: str, a: float) -> np.ndarray:
    counts, totals = (
        [_without(part, side) for side in (member, ~member)] for part in (np.ones_like(p), p)
    )
    inside, outside = (
        total / np.maximum(count, 1) for total, count in zip(totals, counts, strict=True)
    )
    inside, outside = (
        np.where(counts[0] > 0, inside, outside),
        np.where(counts[1] > 0, outside, inside),
    )
    return (inside + outside) / 2 if form == "online" else ((1 + a) * outside + 1 - a) / 2


_PERCEPTRON = Perceptron()


@implicit_promotion()
def trained_membership(
    key: PRNGKey,
    posteriors: ArrayLike | tuple,
    member: ArrayLike | tuple,
    *,
    side: ArrayLike | tuple | None = None,
    shadows: int = 1,
    perceptron: Perceptron = _PERCEPTRON,
) -> Attack:
    """A perceptron for each target, trained on the answers of the next ``shadows`` models and their members.

    All are trained in one program. A fifth of these answers chooses the epoch.

    Args:
      key: a threefry key.
      posteriors: float [N, n, classes], the probabilities of N >= 2 models, in the order that the
        attacker sees.
      member: bool [N, n], which nodes each was trained on, rows drawn independently.
      side: float [n, k], side information on each node, or [N, n, k], as :func:`log_odds` are.
      shadows: how many models the attacker learns from, at most N - 1.
      perceptron: the attacker.

    Reference: Olatunji et al., Membership inference attack on graph neural networks (TPS 2021);
    PoinDP, Table 3 and appendix B.3.
    """
    validate.threefry(key)
    member = check_member(member)
    count, n = member.shape
    validate.integer_in(1, count - 1, shadows=shadows)
    parts = [_features("posteriors", posteriors, count, n)]
    if side is not None:
        known = validate.numbers(side=side)
        known = np.broadcast_to(known, (count, *known.shape)) if known.ndim == 2 else known
        parts.append(_features("side", known, count, n))
    seen = np.concatenate(parts, 2)

    order_key, fit_key = random.split(key)
    which = (
        np.arange(count)[:, None] + np.arange(1, shadows + 1)
    ) % count  # the models each attacker learns from
    order = np.asarray(random.permutation(order_key, shadows * n))
    features = seen[which].reshape(count, shadows * n, -1)[:, order]
    truth = member[which].reshape(count, shadows * n, 1)[:, order].astype(np.float32)
    mean = features.mean(1, keepdims=True)
    spread = features.std(1, keepdims=True) + 1e-6
    validates = np.arange(len(order)) % 5 == 0
    train, validation = (
        Rows(
            jnp.asarray(((features - mean) / spread)[:, part], jnp.float32),
            jnp.asarray(truth[:, part]),
        )
        for part in (~validates, validates)
    )
    model = perceptron.model()
    keys = random.split(fit_key, count)
    fitted = fit_many(
        keys, model, CLASSIFICATION, (), train, validation, validation, perceptron.settings()
    )
    scores = _read(fitted.variables, jnp.asarray((seen - mean) / spread, jnp.float32), model=model)
    name = "trained membership" + ("" if side is None else " with side information")
    return evaluate_membership(name, np.asarray(scores), member)


def _features(name: str, values: ArrayLike | tuple, count: int, n: int) -> np.ndarray:
    values = validate.numbers(**{name: values})
    if values.ndim != 3 or values.shape[:2] != (count, n) or not np.isfinite(values).all():
        raise ValueError(
            f"{name} must be finite numbers [{count}, {n}, k], got shape {values.shape}"
        )
    return values


@partial(jax.jit, static_argnames="model")
def _read(variables: Variables, features: Array, *, model: Model) -> Array:
    def one(given: tuple[Variables, Array]) -> Array:
        return model.apply(*given, key=None, train=False)[0][:, 0]

    return jax.lax.map(one, (variables, features))
