"""Reports from real devices: integer tables on NumPy and the operating system's entropy. No JAX.

``device`` draws the reports of one device and keeps its budget, ``wire`` is what is sent, ``collector`` reads it.
"""

from ldp_jax._tables import Table
from ldp_jax.deployment.collector import TRIPLE, Decoded, Rejected, Vectors, decode, vectors
from ldp_jax.deployment.device import BudgetError, Device, ReplayError, Session, guarantee
from ldp_jax.deployment.wire import REPORT, VERSION

__all__ = [
    "REPORT",
    "TRIPLE",
    "VERSION",
    "BudgetError",
    "Decoded",
    "Device",
    "Rejected",
    "ReplayError",
    "Session",
    "Table",
    "Vectors",
    "decode",
    "guarantee",
    "vectors",
]


def __dir__() -> list[str]:
    return __all__
