"""The input and the answer of a method, and its statement of what was spent."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RELATIONSHIP, Guarantee, PipelineGuarantee
from ldp_jax.servers import StatedFriends
from ldp_jax.servers.parts import self_training
from ldp_jax.servers.parts.rows import Rows


class Asked(NamedTuple):
    """One draw of a data set: who has a public label, and what is known of everybody."""

    graph: Any
    """private"""
    rows: Rows | None
    """public features, None where there are none"""
    labels: np.ndarray
    """int [n], -1 for users whose class is asked for"""
    classes: int
    q: self_training.FeaturesPosterior | None = None
    """what the features alone say, from which piloted counts start at every budget; None where
    there are none
    """
    friends: StatedFriends | None = None
    """what a rehearsal is told of friendships"""


class Answer(NamedTuple):
    """A method's answer to a draw, what was spent, and further columns of the row."""

    scores: Any
    """[n, C], log posteriors or other scores of classes; values by metric; None where a method
    refuses the graph
    """
    guarantee: PipelineGuarantee
    also: Mapping[str, Any] = {}


PUBLIC = ("features", "labels")
"""What is public in this setting, beside what a mechanism names itself."""


def spent(*releases: PipelineGuarantee) -> PipelineGuarantee:
    """The guarantee of all releases together, of features and labels that are public."""
    unprotected = dict.fromkeys(
        (*PUBLIC, *(field for one in releases for field in one.unprotected))
    )
    guarantees = [each for one in releases for each in one.guarantees]
    return PipelineGuarantee.of(guarantees, protected=("edges",), unprotected=unprotected)


def of_lists(*mechanisms: Any) -> PipelineGuarantee:
    """The guarantees of mechanisms on whole lists, before anything is drawn."""
    each = [each for one in mechanisms for each in (one.guarantee(), one.relationship())]
    return PipelineGuarantee.of(
        each, protected=("edges",), unprotected=(*PUBLIC, "number of nodes")
    )


def nothing_read() -> PipelineGuarantee:
    """The guarantee of a baseline that reads no list."""
    units = (NEIGHBOUR_LIST, RELATIONSHIP)
    nothing = [
        Guarantee(0.0, unit=unit, status="proved", reason="no list is read") for unit in units
    ]
    return PipelineGuarantee.of(nothing, protected=("edges",), unprotected=PUBLIC)


def nothing_kept() -> PipelineGuarantee:
    """The guarantee of a row that takes the lists as they are."""
    everything = [Guarantee(math.inf, unit=unit) for unit in (NEIGHBOUR_LIST, RELATIONSHIP)]
    return PipelineGuarantee.of(everything, protected=(), unprotected=("edges", *PUBLIC))
