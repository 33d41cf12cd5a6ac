"""What is compared where records, friendships and labels are private at once: by name, of one draw and a total."""

import math
from functools import partial
from typing import Any

import jax
import numpy as np

from experiments.frontier.features_methods import CHOSEN, LOCAL, SHOWN, TRUE, Answer, Asked, Method, shuffled
from experiments.frontier.features_methods import METHODS as PUBLIC_GRAPH
from ldp_jax.accounting.guarantee import RECORD, Guarantee, PipelineGuarantee
from ldp_jax.core.types import Graph
from ldp_jax.graph import graphs
from ldp_jax.pipeline import JointPrivacy, predict_jointly

LABEL_SHARE = 0.5
"""Of the total, what a label of the panel may cost where labels are private too."""


def _joint(
    key: Any, asked: Asked, total: float, *, shares: tuple[float, ...] | None = None, labels: bool = False,
    placebo: bool = False,
) -> Answer:  # fmt: skip
    """Records and lists within one total, split as the panel foretells or as said; the panel's labels too.

    Of a placebo, private users report on records and lists of others.
    """
    graph, rows = asked.data.graph, asked.rows
    if placebo:
        key, list_key, record_key = jax.random.split(key, 3)
        graph, rows = renamed(list_key, graph, asked.private), shuffled(record_key, rows, asked.private)
    given = {} if shares is None else {"shares": shares}
    budget = JointPrivacy(total, LABEL_SHARE * total if labels else None, **given)
    found = predict_jointly(
        key, graph, rows, asked.members, asked.labels[asked.members], budget, num_classes=asked.classes
    )  # fmt: skip
    told = {
        "record": found.split.record,
        "list": found.split.list if found.counts is not None else 0.0,
        "label": budget.labels or "",
        "strength": round(found.strength, 4),
    }
    if found.forecasts:
        told["foreseen"] = round(next(one.accuracy for one in found.forecasts if one.split == found.split), 4)
    return Answer(found.log_posterior, found.guarantee, told)


def renamed(key: Any, graph: Graph, private: np.ndarray) -> Graph:
    """The same graph, the names of private users dealt out among them."""
    name = np.arange(int(np.asarray(graph.n_node).sum()))
    name[private] = np.asarray(jax.random.permutation(key, private))
    ends = np.stack([name[np.asarray(graph.senders)], name[np.asarray(graph.receivers)]], 1)
    return graphs.from_edges(ends[ends[:, 0] < ends[:, 1]], len(name))


UNASKED = PipelineGuarantee.of(
    (Guarantee(0.0, unit=RECORD, status="proved", reason="nothing of a private user is read"),),
    protected=("features of private users", "edges"),
    unprotected=("the panel's records", "the panel's labels"),
)


def _nothing(key: Any, asked: Asked, total: float) -> Answer:
    """Class shares of the panel: all that is known of who neither reports nor shows their friends."""
    shares = np.bincount(asked.labels[asked.members], minlength=asked.classes) / len(asked.members)
    return Answer(np.tile(np.log(np.maximum(shares, 1e-9)), (len(asked.labels), 1)), UNASKED)


def _public_graph(name: str, key: Any, asked: Asked, total: float) -> Answer:
    """A row of the other part, where the graph is public."""
    found = PUBLIC_GRAPH[name].run(key, asked, total)
    return Answer(found.scores, found.guarantee, {"strength": found.also.get("strength", "")})


def _true(name: str, key: Any, asked: Asked, total: float) -> Answer:
    return Answer(PUBLIC_GRAPH[name].run(key, asked, math.inf).scores, SHOWN)


JOINT, LABELS_TOO, PLACEBO = "joint", "joint, labels too", "joint, placebo"
RECORDS, LISTS, HALVES = "record alone", "list alone", "half each"
NOTHING = "nothing asked"
PUBLIC, PUBLIC_ALONE = "public graph, reports", "public graph, no reports"
TRUE_RECORD, TRUE_ALL = f"{TRUE}, record alone", f"{TRUE}, class scores"

METHODS: dict[str, Method] = {
    NOTHING: Method(10, _nothing), PUBLIC_ALONE: Method(10, partial(_public_graph, CHOSEN)),
    TRUE_RECORD: Method(20, partial(_true, TRUE_RECORD)), TRUE_ALL: Method(20, partial(_true, TRUE_ALL)),
    JOINT: Method(0, _joint), RECORDS: Method(0, partial(_joint, shares=(1.0,))),
    LISTS: Method(0, partial(_joint, shares=(0.0,))), HALVES: Method(0, partial(_joint, shares=(0.5,))),
    LABELS_TOO: Method(0, partial(_joint, labels=True)), PLACEBO: Method(2, partial(_joint, placebo=True)),
    PUBLIC: Method(1, partial(_public_graph, LOCAL)),
}  # fmt: skip
"""By name; a name's number of noise is a part of its rows' keys."""

WITHOUT_EPSILON = (NOTHING, PUBLIC_ALONE, TRUE_RECORD, TRUE_ALL)
"""Rows that use no private data at all, or all of it."""
