r"""What each part of a user's budget buys, told before it is spent: her record's report against her list's.

Both are measured in nats, as the rise of the expected log posterior of her class. Of a report r of her record it is
the information that r has of the class y,

.. math:: I(y; r) = \sum_y \pi_y \sum_r P(r | y) \log \frac{P(r | y)}{\sum_{y'} \pi_{y'} P(r | y')},

in closed form from the panel's confusion and the mechanism's law. Of a report of her list it is the forecast of
:func:`~ldp_jax.pipeline.design`, for users whose records have been reported.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from ldp_jax.core.types import PRNGKey
from ldp_jax.pipeline.groups import fine_groups
from ldp_jax.pipeline.pilot import GroupShares

__all__ = [
    "broadcast_shares",
    "group_reliability",
    "report_accuracy",
    "report_information",
    "report_law",
    "simulated_reports",
]


def __dir__() -> list[str]:
    return __all__


def report_law(law: Any, confusion: Any) -> Float[np.ndarray, "classes outputs"]:
    """P(report | class of the user), from P(report | class sent) and how often one class is taken for another.

    Args:
      law: [C, R], of the class sent; of a table ``masses / 2**32``.
      confusion: [C, C], rows the true class, columns the one sent
        (:func:`~ldp_jax.pipeline.message.restricted_confusion`).
    """
    return np.asarray(confusion, np.float64) @ np.asarray(law, np.float64)


def report_information(law: Float[np.ndarray, "classes outputs"], prior: Any) -> float:
    """What a report says of its user's class, in nats; at most the entropy of the prior.

    Args:
      law: P(report | class).
      prior: class shares.

    >>> round(report_information(np.array([[0.9, 0.1], [0.1, 0.9]]), [0.5, 0.5]), 4)
    0.3681
    """
    share = np.asarray(prior, np.float64)[:, None]
    marginal = np.maximum((share * law).sum(0), 1e-300)
    return max(0.0, float((share * law * np.log(np.maximum(law, 1e-300) / marginal)).sum()))


def report_accuracy(law: Float[np.ndarray, "classes outputs"], prior: Any) -> float:
    """How often the likeliest class after a report is the user's; at least the largest share of the prior.

    >>> report_accuracy(np.array([[0.75, 0.25], [0.25, 0.75]]), [0.5, 0.5])
    0.75
    """
    share = np.asarray(prior, np.float64)[:, None]
    return float((share * law).max(0).sum())


def simulated_reports(
    key: PRNGKey, law: Float[np.ndarray, "classes outputs"], prior: Any, users: int
) -> tuple[Int[np.ndarray, " users"], Float[np.ndarray, "users classes"]]:
    """Classes drawn from the prior, and the log posterior that the report of each leaves.

    >>> y, log_q = simulated_reports(jax.random.key(0), np.eye(2), [0.3, 0.7], 100)
    >>> bool((log_q.argmax(1) == y).all())
    True
    """
    share = np.asarray(prior, np.float64)
    u = np.asarray(jax.random.uniform(key, (users, 2)), np.float64)
    y = np.minimum((share.cumsum() <= u[:, :1]).sum(1), len(share) - 1)
    report = np.minimum((law.cumsum(1)[y] <= u[:, 1:]).sum(1), law.shape[1] - 1)
    made = share * np.maximum(law.T[report], 1e-30)
    return y, np.log(made / made.sum(1, keepdims=True))


def group_reliability(
    y: Int[np.ndarray, " users"], log_q: Float[np.ndarray, "users classes"]
) -> Float[np.ndarray, "classes groups"]:
    """P(fine group | class) of users without a label: columns are the confident by class, then the rest by class.

    Args:
      y: their classes.
      log_q: what is broadcast of them.
    """
    classes = log_q.shape[1]
    group = np.asarray(fine_groups(jnp.asarray(log_q, jnp.float32), np.full(len(y), -1))) - classes
    found = np.full((classes, 2 * classes), 1e-3)
    np.add.at(found, (y, group), 1.0)
    return found / found.sum(1, keepdims=True)


def broadcast_shares(
    model: GroupShares, reliability: Float[np.ndarray, "classes groups"], labelled: float
) -> GroupShares:
    """Who befriends which fine group, from who befriends which class of the panel.

    Args:
      model: of C groups, the panel's classes, and one of everybody else.
      reliability: see :func:`group_reliability`.
      labelled: the panel's share of all users.

    Returns:
      The same model of the 3 C groups of :func:`~ldp_jax.pipeline.groups.fine_groups`, if friends of the panel are
      as other friends are.

    >>> model = GroupShares(jnp.array([[0.2, 0.1, 0.7], [0.1, 0.1, 0.8]]), jnp.ones(2), jnp.float32(0.3))
    >>> made = broadcast_shares(model, np.full((2, 4), 0.25), 0.4)
    >>> np.asarray(made.shares[0], float).round(3).tolist()
    [0.267, 0.133, 0.15, 0.15, 0.15, 0.15]
    """
    alike = np.asarray(model.shares, np.float64)[:, :-1]
    alike = alike / alike.sum(1, keepdims=True)
    shares = np.concatenate([labelled * alike, (1.0 - labelled) * alike @ reliability], 1)
    return model._replace(shares=jnp.asarray(shares, jnp.float32))
