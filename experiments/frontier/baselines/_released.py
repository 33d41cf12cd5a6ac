"""What every baseline returns, and what it says of what was spent."""

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RELATIONSHIP, Guarantee, PipelineGuarantee


class Released(NamedTuple):
    """What a baseline makes of the reports; scores of labelled users may have seen their labels."""

    scores: Float[np.ndarray, "n classes"] | None
    """log posteriors or other scores, the largest the likeliest; None where the baseline refuses the graph"""
    guarantee: PipelineGuarantee
    note: str = ""
    """why there are no scores, where there are none"""


PUBLIC = ("features", "labels")
"""What is public in this setting, beside what a mechanism names itself."""


def spent(*releases: PipelineGuarantee) -> PipelineGuarantee:
    """The guarantee of all releases together, of features and labels that are public."""
    unprotected = dict.fromkeys((*PUBLIC, *(field for one in releases for field in one.unprotected)))
    return PipelineGuarantee.of(
        (each for one in releases for each in one.guarantees), protected=("edges",), unprotected=unprotected
    )


def of_lists(*mechanisms: Any) -> PipelineGuarantee:
    """What mechanisms on whole lists promise before anything is drawn, for a row that is refused."""
    each = [each for one in mechanisms for each in (one.guarantee(), one.relationship())]
    return PipelineGuarantee.of(each, protected=("edges",), unprotected=(*PUBLIC, "number of nodes"))


def nothing_read() -> PipelineGuarantee:
    """Of a baseline that reads no list."""
    units = (NEIGHBOUR_LIST, RELATIONSHIP)
    nothing = [Guarantee(0.0, unit=unit, status="proved", reason="no list is read") for unit in units]
    return PipelineGuarantee.of(nothing, protected=("edges",), unprotected=PUBLIC)


def nothing_kept() -> PipelineGuarantee:
    """Of a row that takes the lists as they are."""
    everything = [Guarantee(math.inf, unit=unit) for unit in (NEIGHBOUR_LIST, RELATIONSHIP)]
    return PipelineGuarantee.of(everything, protected=(), unprotected=("edges", *PUBLIC))
