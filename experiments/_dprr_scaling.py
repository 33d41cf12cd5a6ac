"""Figures 8 and 9 of DPRR: time and memory against the size of the graphs."""

from typing import Any

from experiments._dprr_cells import Settings


def run(config: Any, resolved: Settings) -> None:
    """Compute what is missing, then the table and the figures."""
    raise NotImplementedError
