"""Records, friendships and labels private at once, within one total: which rows there are."""

from functools import partial

from experiments._runner import Found, Results
from experiments.frontier import features
from experiments.frontier.features import Cell, Part
from experiments.frontier.friendships import Settings
from experiments.frontier.joint_methods import METHODS, NOTHING, WITHOUT_EPSILON
from ldp_jax.accounting.guarantee import RELATIONSHIP

NAME = "frontier_joint"
FOUND = ("members", "record", "list", "label", "foreseen", "strength")
"""Columns that identify no row: how many are of the panel; epsilon of a record, of a bit of a list
and of a label of the panel, as the total was split; the share of classes that the split was
expected to find; the guard's s."""


# The most of all that a guarantee names but a relationship, which is in two lists.
_most = lambda promised: max(one.epsilon for unit, one in promised.items() if unit != RELATIONSHIP)
PART = Part(
    METHODS,
    WITHOUT_EPSILON,
    NOTHING,
    FOUND,
    "record, label, and record with a bit of a list",
    _most,
    "both",
)

results_in = partial(Results, name=f"{NAME}_accuracy", cell=Cell, also=FOUND)
plan = partial(features.plan, part=PART)
check = partial(features.check, part=PART)


def compute(cell: Cell, settings: Settings) -> Found:
    """Compute the row of a method on a draw."""
    return features.compute(cell, settings, PART)
