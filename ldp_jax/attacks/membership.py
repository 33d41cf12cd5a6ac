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
import numpy as np
import scipy.special

from ldp_jax.attacks._classifier import CLASSIFICATION, Perceptron, Rows, standardised
from ldp_jax.attacks._result import Attack, check_member, evaluate_membership
from ldp_jax.core import random, validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.types import Array, Numbers, PRNGKey
from ldp_jax.core.validate import require
from ldp_jax.learning.models import Model, Variables
from ldp_jax.learning.training import fit_many

Form = Literal["online", "offline"]

_TINY = 1e-12


@implicit_promotion()
def log_odds(
    answers: Numbers,
    labels: Numbers,
    *,
    outputs: Literal["logits", "softmax"] = "logits",
) -> np.ndarray:
    r"""The log odds of the label of each node, :math:`\log (p_y / (1 - p_y))`, near a normal law.

    Float64 [..., n].

    ``answers`` are float [..., n, classes], of at least two classes, and ``labels`` integers [n].
    ``outputs`` says whether answers are ``logits``, or their ``softmax``, which is clipped to 2^-24
    from 0 and 1. ``ValueError`` for one that is read as the other, and for several labels a node,
    whose probabilities do not sum to 1.

    >>> log_odds([[2.0, 0.0], [1.0, 1.0]], [0, 1]).tolist()
    [2.0, 0.0]
    """
    validate.one_of(("logits", "softmax"), outputs=outputs)
    validate.aligned(answers=answers, labels=labels)
    answers = validate.numbers(answers=answers)
    labels = validate.complete(labels=labels)
    require(
        answers.ndim >= 2 and answers.shape[-1] >= 2 and np.isfinite(answers).all(),
        f"answers must be finite numbers [..., n, classes >= 2], got shape {answers.shape}",
    )
    *_, n, classes = answers.shape
    require(labels.shape == (n,), f"labels must be integers [{n}], got shape {labels.shape}")
    validate.ids(classes, labels=labels)
    own = np.arange(classes) == labels[:, None]
    least = answers.min()
    sums = answers.sum(-1)
    if outputs == "logits":
        require(
            least < 0 or not np.allclose(sums, 1.0, rtol=0.0, atol=1e-4),
            "answers must be logits, and are probabilities: outputs='softmax' reads them",
        )
        others = np.where(own, -np.inf, answers)
        return (answers * own).sum(-1) - scipy.special.logsumexp(others, axis=-1)
    most = answers.max()
    require(
        least >= 0 and most <= 1 + 1e-5, f"answers must be probabilities, got {least} to {most}"
    )
    require(
        np.allclose(sums, 1.0, rtol=0.0, atol=0.01),  # of 16 bits, or of three digits
        "answers must be probabilities of one class each, which sum to 1, "
        f"got sums of {sums.min():g} to {sums.max():g}",
    )
    right = np.maximum((answers * own).sum(-1), 2.0**-24)
    wrong = np.maximum((answers * ~own).sum(-1), 2.0**-24)
    return np.log(right) - np.log(wrong)


def _confidences(
    confidences: Numbers, member: Numbers, least: int
) -> tuple[np.ndarray, np.ndarray]:
    member = check_member(member)
    confidences = validate.finite_array(*member.shape, confidences=confidences)
    require(len(member) >= least, f"member must be of at least {least} models, got {len(member)}")
    return confidences, member


def _others(values: np.ndarray | float, counted: np.ndarray) -> np.ndarray:
    """For each target the sum over the other models that count, node by node; [N, n]."""
    values = values * counted
    return values.sum(0) - values


def lira(
    confidences: Numbers,
    member: Numbers,
    *,
    form: Form = "online",
    variance: Literal["shared", "node"] = "shared",
) -> Attack:
    r"""Score nodes by the ratio of two likelihoods: of a model with the node, and of one without.

    The other models with the node, and those without, give two normal laws for its answer
    :math:`\phi`. Online, the score is :math:`\log N(\phi; \mu_1, s_1) - \log N(\phi; \mu_0, s_0)`.
    Offline, the attacker has no model with the node, and the score is
    :math:`(\phi - \mu_0) / s_0`. A node without these laws (in too few other models, or too many)
    scores 0.

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
    >>> answers = rng.normal(size=200) + 3.0 * member + rng.normal(size=(8, 200))
    >>> lira(answers, member).auc.mean > 0.95
    True
    """
    validate.one_of(get_args(Form), form=form)
    validate.one_of(("shared", "node"), variance=variance)
    confidences, member = _confidences(confidences, member, 3)
    # Sums of squares lose nothing to what all models agree on.
    centred = confidences - confidences.mean(0)
    away, spread, known = _law(centred, ~member, variance)
    if form == "offline":
        scores = np.where(known, away / np.sqrt(spread), 0.0)
    else:
        near, width, met = _law(centred, member, variance)
        quadratic = away**2 / spread - near**2 / width
        ratio = quadratic + np.log(spread) - np.log(width)
        scores = np.where(known & met, ratio / 2, 0.0)
    return evaluate_membership(f"LiRA {form}", scores, member)


def _law(
    values: np.ndarray, counted: np.ndarray, variance: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The distance to the mean of other models that count, their variance, and if it is known."""
    count = _others(1.0, counted)
    mean = _others(values, counted) / np.maximum(count, 1)
    squares = np.maximum(_others(values**2, counted) - count * mean**2, 0.0)
    freedom = np.maximum(count - 1, 0)
    known = count >= 2
    if variance == "shared":
        squares = squares.sum(1, keepdims=True)
        freedom = freedom.sum(1, keepdims=True)
        known = count >= 1
    spread = squares / np.maximum(freedom, 1)
    return values - mean, np.maximum(spread, _TINY * (1.0 + values.var())), known


def rmia(
    confidences: Numbers,
    member: Numbers,
    *,
    form: Form = "online",
    gamma: float = 2.0,
    offline_a: float = 0.3,
    population: Numbers | None = None,
) -> Attack:
    r"""Score nodes by how many others the target raised less above their usual probability.

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
    size = others.sum()
    require(size >= 2, f"population must be bool [{n}], with at least two nodes, got {size}")
    p = scipy.special.expit(confidences)
    with_node = _others(1.0, member)
    without = _others(1.0, ~member)
    inside = _others(p, member) / np.maximum(with_node, 1)
    outside = _others(p, ~member) / np.maximum(without, 1)
    outside = np.where(without > 0, outside, inside)
    if form == "online":
        inside = np.where(with_node > 0, inside, outside)
        usual = (inside + outside) / 2
    else:
        usual = ((1 + a) * outside + 1 - a) / 2
    raised = scipy.special.log_expit(confidences) - np.log(np.maximum(usual, _TINY))
    rivals = raised[:, others] + np.log(gamma)
    below = np.empty(raised.shape)  # how many rivals are not above a node
    for place, known in enumerate(np.sort(rivals, 1)):
        below[place] = np.searchsorted(known, raised[place], "right")
    below -= others & (gamma == 1.0)
    return evaluate_membership(f"RMIA {form}", below / (size - others), member)


_PERCEPTRON = Perceptron()


@implicit_promotion()
def trained_membership(
    key: PRNGKey,
    posteriors: Numbers,
    member: Numbers,
    *,
    side: Numbers | None = None,
    shadows: int = 1,
    perceptron: Perceptron = _PERCEPTRON,
) -> Attack:
    """Score the nodes of each model by a perceptron that is trained on other models' answers.

    These are the next ``shadows`` models. All perceptrons are trained in one program. A fifth of
    the answers chooses the epoch.

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
    seen = validate.finite_array(count, n, "k", posteriors=posteriors)
    if side is not None:
        known = validate.numbers(side=side)
        if known.ndim == 2:
            known = np.broadcast_to(known, (count, *known.shape))
        seen = np.concatenate([seen, validate.finite_array(count, n, "k", side=known)], 2)

    order_key, fit_key = random.split(key)
    next_ones = np.arange(count)[:, None] + np.arange(1, shadows + 1)
    learnt = next_ones % count
    order = np.asarray(random.permutation(order_key, shadows * n))
    features = seen[learnt].reshape(count, shadows * n, -1)[:, order]
    truth = member[learnt].reshape(count, shadows * n, 1)[:, order].astype(np.float32)
    validates = np.arange(len(order)) % 5 == 0
    scaled, train, validation = standardised(Rows(features, truth), ~validates, validates)
    model = perceptron.model()
    keys = random.split(fit_key, count)
    fitted = fit_many(
        keys, model, CLASSIFICATION, (), train, validation, validation, perceptron.settings()
    )
    scores = _read(fitted.variables, scaled(seen), model=model)
    name = "trained membership"
    if side is not None:
        name += " with side information"
    return evaluate_membership(name, np.asarray(scores), member)


@partial(jax.jit, static_argnames="model")
def _read(variables: Variables, features: Array, *, model: Model) -> Array:
    def one(given: tuple[Variables, Array]) -> Array:
        return model.apply(*given, key=None, train=False)[0][:, 0]

    return jax.lax.map(one, (variables, features))
