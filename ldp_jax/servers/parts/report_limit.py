r"""How much any report of an epsilon could add to a user's public posterior.

A user of public posterior q has a record x of which a classifier says :math:`f(y \mid x)`. Whatever
the device sends, the server turns it into a decision. So the best report is a decision a, which
each record sends with a probability between :math:`m_a` and :math:`e^\epsilon m_a`, and a linear
program over m and these probabilities finds the largest expected accuracy. It is a limit of *one's
own report for one's own decision*, by this classifier and its calibration: what reports say of
neighbours is not in it.

Reference: Kairouz, Oh & Viswanath, Extremal mechanisms for local differential privacy (JMLR 2016).
"""

import math

import numpy as np
import scipy.optimize
import scipy.sparse
from jaxtyping import Bool, Float
from scipy.special import log_softmax

from ldp_jax.core import validate


def weights(
    log_q: Float[np.ndarray, "users classes"], log_f: Float[np.ndarray, "records classes"]
) -> Float[np.ndarray, "users records classes"]:
    """P(record, class) of each user: q times the likelihood of the record under each class.

    Records are a sample of the population, whose mean posterior is its shares of classes.

    >>> q = np.log([[0.5, 0.5], [0.9, 0.1]])
    >>> f = np.log([[0.8, 0.2], [0.2, 0.8]])
    >>> (
    ...     weights(q, f).sum((1, 2)).round(6).tolist(),
    ...     weights(q, f)[1].sum(0).round(6).tolist(),
    ... )
    ([1.0, 1.0], [0.9, 0.1])
    """
    q = np.exp(log_softmax(np.asarray(log_q, np.float64), axis=1))
    f = np.exp(log_softmax(np.asarray(log_f, np.float64), axis=1))
    likelihood = f / f.sum(0)
    return q[:, None] * likelihood


def report_limit(
    joint: Float[np.ndarray, "users records classes"], epsilon: float
) -> Float[np.ndarray, " users"]:
    """The largest expected accuracy of a user's decision by one report of this epsilon.

    Float64, by one linear program. ``joint`` is P(record, class), of :func:`weights`. At epsilon 0
    the accuracy is that of the public posterior; at a large one it is that of the record.

    >>> f = np.log([[0.8, 0.2], [0.2, 0.8]])
    >>> joint = weights(np.log([[0.5, 0.5]]), f)
    >>> [round(float(report_limit(joint, one)[0]), 4) for one in (0.0, 1.0, 40.0)]
    [0.5, 0.6386, 0.8]
    """
    validate.number(0.0, math.inf, epsilon=epsilon)
    users, records, classes = joint.shape
    # Unknowns of a user: P(decision | record), and then m.
    sent = scipy.sparse.eye_array(records * classes)
    least = scipy.sparse.kron(np.ones((records, 1)), scipy.sparse.eye_array(classes))
    total = scipy.sparse.kron(scipy.sparse.eye_array(records), np.ones((1, classes)))

    def of_each(
        by_sent: scipy.sparse.sparray, by_least: scipy.sparse.sparray
    ) -> scipy.sparse.sparray:
        """The same rows for each user."""
        rows = scipy.sparse.hstack([by_sent, by_least])
        return scipy.sparse.kron(scipy.sparse.eye_array(users), rows)

    # e^-epsilon P <= m <= P, in numbers that stay finite.
    low = of_each(-sent, least)
    high = of_each(math.exp(-epsilon) * sent, -least)
    sums = of_each(total, scipy.sparse.coo_array((records, classes)))
    gain = np.pad(joint.reshape(users, -1), ((0, 0), (0, classes)))
    found = scipy.optimize.linprog(
        -gain.ravel(),
        A_ub=scipy.sparse.vstack([low, high]),
        b_ub=np.zeros(2 * joint.size),
        A_eq=sums,
        b_eq=np.ones(users * records),
        bounds=(0.0, 1.0),
        method="highs",
    )
    if not found.success:
        raise ValueError(f"joint has no best report: {found.message}")
    law = found.x.reshape(gain.shape)[:, :-classes].reshape(joint.shape)
    return (law * joint).sum((1, 2))


def own_report(
    joint: Float[np.ndarray, "users records classes"],
    log_f: Float[np.ndarray, "records classes"],
    alphabets: Bool[np.ndarray, "users classes"],
    epsilon: float,
) -> Float[np.ndarray, " users"]:
    """The same of the best class of an alphabet, by generalised randomised response within it.

    ``log_f`` are what records say, of which a device reports the likeliest class.

    >>> f = np.log([[0.8, 0.2], [0.2, 0.8]])
    >>> joint = weights(np.log([[0.5, 0.5], [0.9, 0.1]]), f)
    >>> own_report(joint, f, np.ones((2, 2), bool), 1.0).round(4).tolist()
    [0.6386, 0.9]
    """
    inside = np.asarray(alphabets, bool)
    chosen = np.where(inside[:, None], log_f, -np.inf).argmax(2)
    decided = np.eye(joint.shape[2])[chosen]
    of_choice = np.einsum("urd,ury->udy", decided, joint)
    size = inside.sum(1)
    keep = 1.0 / (1.0 + (size - 1) * math.exp(-epsilon))
    other = math.exp(-epsilon) * keep
    anybody = other[:, None, None] * joint.sum(1)[:, None]
    law = anybody + (keep - other)[:, None, None] * of_choice
    return np.where(inside, law.max(2), 0.0).sum(1)
