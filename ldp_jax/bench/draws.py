"""One draw of a data set: who is public, what the server knows, and the users."""

from typing import Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, Int
from typing_extensions import TypeAliasType

from ldp_jax.core import random, validate
from ldp_jax.core.random_words import places_within
from ldp_jax.core.shown import by_shapes
from ldp_jax.datasets import Dataset
from ldp_jax.servers import PanelFacts, Users, count_facts, joint_facts, panel_facts
from ldp_jax.servers.facts.counts import CountFacts
from ldp_jax.servers.facts.joint import JointFacts
from ldp_jax.servers.parts.rows import feature_rows

Hides = TypeAliasType("Hides", Literal["features", "edges", "both"])
"""What is private: the features of users beside a panel, the edges, or both and the labels."""

HIDES = ("features", "edges", "both")


class Draw(NamedTuple):
    """A data set whose panel is drawn: public facts, and the users who hold the rest.

    Attributes:
      data: all of it, for users and scores.
      hides: what is private.
      labels: int32 [n], public; -1 for users whose class is asked for.
      facts: what the server knows before anybody reports: :class:`~ldp_jax.servers.PanelFacts` of
        hidden features, ``CountFacts`` of hidden edges, ``JointFacts`` of both.
      users: who answer. Their records are rows of length 1.
    """

    data: Dataset
    hides: Hides
    labels: Int[np.ndarray, " n"]
    facts: PanelFacts | CountFacts | JointFacts
    users: Users

    __repr__ = by_shapes

    @property
    def scored(self) -> Bool[np.ndarray, " n"]:
        """The users whose class is asked for and known to the scorer."""
        return (self.labels < 0) & (self.data.y >= 0)

    def graph_alone(self) -> Float[np.ndarray, "n classes"]:
        """The log posterior without any private data: by public edges, features or shares."""
        if isinstance(self.facts, PanelFacts):
            return np.asarray(self.facts.structure.log_q)
        if isinstance(self.facts, CountFacts):
            return np.asarray(self.facts.log_q)
        return np.tile(self.facts.log_prior, (len(self.labels), 1))


def draw(seed: int, data: Dataset, hides: Hides, panel: float = 0.1) -> Draw:
    """Draw a panel, ``panel`` of each class, and find what is public.

    Another seed is another panel. ``ValueError`` for a data set of several graphs or of several
    labels a node, and one without the features that are hidden.

    >>> from ldp_jax.datasets import synthetic
    >>> sizes = {"num_nodes": 60, "num_classes": 2, "num_features": 4}
    >>> made = synthetic(jax.random.key(0), **sizes, mean_degree=4, homophily=0.8)
    >>> one = draw(0, made, "edges", panel=0.2)
    >>> int((one.labels >= 0).sum()), one.users
    (12, Users(60 users with lists))
    """
    validate.one_of(HIDES, hides=hides)
    validate.number(0.0, 1.0, open_lower=True, open_upper=True, panel=panel)
    if data.node_graph is not None or data.y.ndim != 1:
        raise ValueError(f"{data.name} must be one graph whose nodes have one class each")
    if hides != "edges" and not data.num_features:
        raise ValueError(f"{data.name} has no features, so none can be private: hides='edges'")
    panel_key, facts_key = random.split(jax.random.key(seed))
    labels = _panel(panel_key, data.y, panel)
    given = {"num_classes": data.num_classes}
    if hides == "edges":
        x = data.x if data.num_features else None
        facts = count_facts(facts_key, x, labels, **given)
        return Draw(data, hides, labels, facts, Users(lists=data.graph))
    rows = feature_rows(data.x)
    shown = rows.take(np.flatnonzero(labels >= 0))
    public = labels >= 0
    if hides == "features":
        facts = panel_facts(facts_key, data.graph, shown, labels, **given)
        return Draw(data, hides, labels, facts, Users(records=rows, public=public))
    facts = joint_facts(facts_key, shown, labels, **given)
    users = Users(records=rows, labels=data.y, lists=data.graph, public=public)
    return Draw(data, hides, labels, facts, users)


def _panel(key: jax.Array, y: np.ndarray, share: float) -> Int[np.ndarray, " n"]:
    """Labels of a share of each class, rounded up, at most all but one; -1 of everybody else."""
    size = np.bincount(y[y >= 0], minlength=1)
    wanted = np.minimum(np.ceil(share * size - 1e-9), np.maximum(size - 1, 1))
    chosen = (places_within(key, y) < wanted[y]) & (y >= 0)
    return np.where(chosen, y, -1).astype(np.int32)


def scaled(data: Dataset) -> Float[np.ndarray, "n d"]:
    """All records in [-1, 1], dense, as mechanisms on vectors take them."""
    return np.asarray(data.scaled_rows(0, data.num_nodes), np.float32)
