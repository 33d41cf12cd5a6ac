"""Figure 7 of DPRR: the degrees that users report against their true ones."""

from typing import Any


def run(config: Any) -> None:
    """Compute what is missing, then the table and the figure."""
    raise NotImplementedError
