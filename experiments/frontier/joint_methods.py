"""Methods where records, friendships and labels are private at once.

Each has a name, and is a function of one draw and a total.
"""

import dataclasses
import math
from functools import lru_cache, partial
from typing import Any

import jax
import numpy as np
import scipy.optimize

from experiments.frontier.baselines._released import Answer
from experiments.frontier.features_methods import (
    CHOSEN,
    LOCAL,
    SHOWN,
    TRUE,
    Asked,
    Method,
    padded,
    shuffled,
)
from experiments.frontier.features_methods import METHODS as PUBLIC_GRAPH
from experiments.frontier.methods import stated
from ldp_jax import datasets
from ldp_jax.accounting.guarantee import RECORD, Guarantee, PipelineGuarantee
from ldp_jax.core.types import Graph
from ldp_jax.graph import graphs
from ldp_jax.servers import (
    JointPrivacy,
    Rehearsal,
    StatedFriends,
    joint_facts,
    predict_jointly,
    rehearse,
)
from ldp_jax.servers.from_both import checked_members
from ldp_jax.servers.parts.friends import HOMOPHILY

LABEL_SHARE, RECORD_SHARE = 0.5, 0.75
"""Of the total, where labels are private too: of a label of the panel, and of a private user's
record.
"""

TOTALS = (1.0, 2.0, 4.0, 8.0)
"""Budgets whose best report is sought, whatever the command line asks for."""


GUESS = StatedFriends(mean_degree=10.0, homophily=HOMOPHILY)
"""What is stated of friendships by default: the same of every graph, so that nothing of a private
one is used.
"""

WORLDS = 4
"""Of rehearsals of both, whose worlds take long."""

WRONG = 1.5
"""The factor by which rows that say so overstate or understate the true mean degree and
homophily.
"""

_MOST_ALIKE = 0.99  # homophily that devices may be told


def check_of(members: int) -> float:
    """The share of a panel that reports as private users do.

    A tenth of a small one is too few to tell.
    """
    return 0.1 if members >= 100 else 0.2


def publicly_stated(data: datasets.Dataset, wrong: float | None) -> StatedFriends:
    """The guess by default.

    The true mean degree and homophily times ``wrong`` where that is a number.

    A user has at most all others as friends, and friends are at most all alike.
    """
    most = data.num_nodes - 1.0
    if wrong is None:
        return GUESS._replace(mean_degree=min(GUESS.mean_degree, most))
    true = stated(data.graph, data.y)
    return StatedFriends(
        min(true.mean_degree * wrong, most), min(true.homophily * wrong, _MOST_ALIKE)
    )


@lru_cache(maxsize=6)
def rehearsed(asked: Asked, total: float, wrong: float | None = None) -> Rehearsal:
    """Rehearse splits of the total and one joint report, from the panel and stated friendships."""
    fold_key, key = jax.random.split(
        jax.random.key(0)
    )  # of public randomness; draws differ in their panels
    rows = padded(asked.rows.take(asked.members))
    facts = joint_facts(fold_key, rows, asked.labels, num_classes=asked.classes)
    return rehearse(key, facts, (total,), friends=publicly_stated(asked.data, wrong), worlds=WORLDS)


def _joint(
    key: Any, asked: Asked, total: float, *, share: float | None = None, labels: bool = False,
    placebo: bool = False, both: bool = False, checked: bool = False, wrong: float | None = None,
) -> Answer:  # fmt: skip
    """Predict from records and lists within one total, split or in one joint report.

    Devices know the homophily that is publicly stated, to the rehearsal too: ``wrong`` times the
    true one, or the guess. In a placebo, private users, and the panel's check,
    report on records and lists of others.
    """
    told = {}
    if both:
        privacy = JointPrivacy(both=total)
    elif share is None:
        found = rehearsed(asked, total, wrong)
        privacy = found.splits[0]
        told["foreseen"] = round(
            (float(found.without.mean()) + found.foreseen(total).points) / 100, 4
        )
    else:
        privacy = JointPrivacy.split(total, share)
    if labels:
        privacy = dataclasses.replace(privacy, labels=LABEL_SHARE * total)
    privacy = dataclasses.replace(privacy, check=check_of(len(asked.members)) if checked else 0.0)
    graph, rows = asked.data.graph, asked.rows
    if placebo:
        key, list_key, record_key = jax.random.split(key, 3)
        dealt = np.sort(np.append(asked.private, checked_members(asked.members, privacy.check)))
        graph = renamed(list_key, graph, dealt)
        rows = shuffled(record_key, rows, dealt)
    alike = publicly_stated(asked.data, wrong).homophily if privacy.both else None
    made = predict_jointly(
        key, graph, rows, asked.members, asked.labels[asked.members], privacy,
        num_classes=asked.classes, homophily=alike,
    )  # fmt: skip
    told |= {
        "record": privacy.record or privacy.both,
        "list": privacy.list if made.counts is not None else privacy.both,
        "label": privacy.labels or "",
        "strength": round(made.strength, 4),
    }
    return Answer(made.log_posterior, made.guarantee, told)


def renamed(key: Any, graph: Graph, private: np.ndarray) -> Graph:
    """The same graph, the names of private users dealt out among them."""
    name = np.arange(int(np.asarray(graph.n_node).sum()))
    name[private] = np.asarray(jax.random.permutation(key, private))
    ends = np.stack([name[np.asarray(graph.senders)], name[np.asarray(graph.receivers)]], 1)
    return graphs.from_edges(ends[ends[:, 0] < ends[:, 1]], len(name))


_PANEL = ("the panel's records", "the panel's labels")
_NOTHING = Guarantee(0.0, unit=RECORD, status="proved", reason="nothing of a private user is read")
UNASKED = PipelineGuarantee.of(
    [_NOTHING], protected=("features of private users", "edges"), unprotected=_PANEL
)


def _nothing(key: Any, asked: Asked, total: float) -> Answer:
    """Class shares of the panel.

    All that is known of who neither reports nor shows their friends.
    """
    shares = np.bincount(asked.labels[asked.members], minlength=asked.classes) / len(asked.members)
    return Answer(np.tile(np.log(np.maximum(shares, 1e-9)), (len(asked.labels), 1)), UNASKED)


def _public_graph(name: str, key: Any, asked: Asked, total: float) -> Answer:
    """A row of the other part, where the graph is public."""
    found = PUBLIC_GRAPH[name].run(key, asked, total)
    return Answer(found.scores, found.guarantee, {"strength": found.also.get("strength", "")})


def _true(name: str, key: Any, asked: Asked, total: float) -> Answer:
    return Answer(PUBLIC_GRAPH[name].run(key, asked, math.inf).scores, SHOWN)


def best_report(shares: np.ndarray, epsilon: float) -> float:
    """The largest expected share of right guesses from one report of a class at epsilon.

    ``shares`` [found, true] are of all users, and known. A guess that depends on the report alone
    is a report as private as it, so that the maximum over all mechanisms is a linear program over
    P(guess | found).

    >>> round(best_report(np.diag([0.5, 0.5]), np.log(3.0)), 6)
    0.75
    """
    found, guesses = shares.shape
    own = np.eye(found * guesses)  # P, and then its least by guess
    least = np.tile(np.eye(guesses), (found, 1))
    solved = scipy.optimize.linprog(
        -np.concatenate([shares.ravel(), np.zeros(guesses)]),
        A_ub=np.block([[-own, least], [own, -math.exp(epsilon) * least]]),
        b_ub=np.zeros(2 * len(own)),
        A_eq=np.pad(np.kron(np.eye(found), np.ones(guesses)), ((0, 0), (0, guesses))),
        b_eq=np.ones(found),
    )
    return -float(solved.fun)


def _best(key: Any, asked: Asked, total: float) -> Answer:
    """The mean accuracy that no report of the class from true records and graph exceeds."""
    found = np.asarray(PUBLIC_GRAPH[TRUE_ALL].run(key, asked, total).scores)[asked.private].argmax(
        1
    )
    shares = np.zeros((asked.classes, asked.classes))
    np.add.at(shares, (found, asked.data.y[asked.private]), 1.0 / len(found))
    most = {f"{CEILING} at {total:g}": best_report(shares, total) for total in TOTALS}
    return Answer(most | {"accuracy": float(shares.trace())}, SHOWN)


JOINT = "joint"
LABELS_TOO = "joint, labels too"
PLACEBO = "joint, placebo"
CHECKED, CHECKED_PLACEBO = "joint, checked", "joint, checked placebo"
ONE, ONE_PLACEBO = "one report", "one report, placebo"
ONE_CHECKED, ONE_CHECKED_PLACEBO = "one report, checked", "one report, checked placebo"
RECORDS = "record alone"
LISTS = "list alone"
HALVES = "half each"
TOO_HIGH = f"joint, stated {WRONG:g} times too high"
TOO_LOW = f"joint, stated {WRONG:g} times too low"
NOTHING = "nothing asked"
PUBLIC, PUBLIC_ALONE = "public graph, reports", "public graph, no reports"
TRUE_RECORD, TRUE_ALL = f"{TRUE}, record alone", f"{TRUE}, class scores"
BEST = f"{TRUE}, best report"
CEILING = "ceiling of one report"

METHODS: dict[str, Method] = {
    NOTHING: Method(10, _nothing),
    PUBLIC_ALONE: Method(10, partial(_public_graph, CHOSEN)),
    TRUE_RECORD: Method(20, partial(_true, TRUE_RECORD)),
    TRUE_ALL: Method(20, partial(_true, TRUE_ALL)),
    JOINT: Method(0, _joint),
    RECORDS: Method(0, partial(_joint, share=1.0)),
    LISTS: Method(0, partial(_joint, share=0.0)),
    HALVES: Method(0, partial(_joint, share=0.5)),
    LABELS_TOO: Method(0, partial(_joint, share=RECORD_SHARE, labels=True)),
    PLACEBO: Method(2, partial(_joint, placebo=True)),
    PUBLIC: Method(1, partial(_public_graph, LOCAL)),
    CHECKED: Method(0, partial(_joint, checked=True)),
    CHECKED_PLACEBO: Method(2, partial(_joint, checked=True, placebo=True)),
    ONE: Method(0, partial(_joint, both=True)),
    ONE_PLACEBO: Method(2, partial(_joint, both=True, placebo=True)),
    ONE_CHECKED: Method(0, partial(_joint, both=True, checked=True)),
    ONE_CHECKED_PLACEBO: Method(2, partial(_joint, both=True, checked=True, placebo=True)),
    BEST: Method(20, _best),
    TOO_HIGH: Method(0, partial(_joint, wrong=WRONG)),
    TOO_LOW: Method(0, partial(_joint, wrong=1.0 / WRONG)),
}
"""By name; a name's number of noise is a part of its rows' keys."""

WITHOUT_EPSILON = (NOTHING, PUBLIC_ALONE, TRUE_RECORD, TRUE_ALL, BEST)
"""Rows that use no private data at all, or all of it."""
