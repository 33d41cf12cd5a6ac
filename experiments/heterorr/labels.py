"""What the rows of HeteroRR are called and coloured in tables and figures."""

from experiments._common import row_names

LABELS, COLOURS = row_names("heterorr")

CHAINS = ("edgerr", "priv-hrg")
"""Mechanisms whose epsilon is that of a chain's law, which the chain has not reached after 8 000 sweeps."""


def budget(mechanism: str, epsilon: float) -> str:
    """A budget in a table; of a chain that has not mixed, that no epsilon is claimed.

    >>> budget("lap-graph", 1.0), budget("edgerr", 1.0)
    ('1', 'none (asked: 1)')
    """
    return f"none (asked: {epsilon:g})" if mechanism in CHAINS else f"{epsilon:g}"
