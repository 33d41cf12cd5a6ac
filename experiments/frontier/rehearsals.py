"""Rehearsals as rows: what worlds foretell, and what is stated of friendships."""

import numpy as np

from ldp_jax.core.types import Graph
from ldp_jax.pipeline import Rehearsal, StatedFriends
from ldp_jax.pipeline.rehearsal import homophily, overlap
from ldp_jax.pipeline.self_training import FeaturesPosterior

REHEARSAL = "rehearsal"
"""The row's name."""

FORETOLD, LOW, HIGH = "points foretold", "least points foretold", "most points foretold"
CHANCE = "chance of a gain"
"""Its metrics: points, and a probability, which is computed last."""

LABELS = "public labels"
"""How many there are, where no column says so."""

WORLDS = 4
"""Of rehearsals of lists, whose worlds take long."""


def foretold(found: Rehearsal, epsilon: float) -> dict[str, float]:
    told = found.foreseen(epsilon)
    return {FORETOLD: told.points, LOW: told.low, HIGH: told.high, CHANCE: told.chance}


def stated(graph: Graph, y: np.ndarray, q: FeaturesPosterior | None = None) -> StatedFriends:
    """What an owner states who knows friendships well: as they are."""
    pairs = np.stack([np.asarray(graph.senders), np.asarray(graph.receivers)], 1)
    degree = np.bincount(pairs[:, 0], minlength=len(y))
    told = None if q is None else overlap(pairs, y, q.log_q)
    return StatedFriends(float(degree.mean()), homophily(pairs, y), float(degree.std() / degree.mean()), told)
