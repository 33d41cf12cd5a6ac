"""Reports from real devices: integer tables on NumPy and the operating system's entropy. No JAX.

``device`` draws the reports of one device and keeps its budget, ``wire`` is what is sent, ``collector`` reads it.
``classes`` is what a device needs to report its own class within its personal alphabet, ``permanent`` what it needs
to answer the same in every round.
For private friendships, ``question`` is what a server asks about neighbours, ``lists`` how a device answers,
``counts`` what is sent and read, and an ``ownership`` says which of two users reports that they know each other.
"""

from ldp_jax.core.integer_tables import Table
from ldp_jax.core.ownership import Ownership, ownership
from ldp_jax.core.personal_alphabets import Alphabets, alphabets
from ldp_jax.deployment.classes import Alphabet, Classifier, alphabet_table, report_class
from ldp_jax.deployment.collector import TRIPLE, Decoded, Rejected, Vectors, decode, vectors
from ldp_jax.deployment.counts import COUNTS_VERSION, DecodedCounts, RejectedCounts, decode_counts
from ldp_jax.deployment.device import BudgetError, Device, ReplayError, Session, guarantee
from ldp_jax.deployment.lists import ListSession
from ldp_jax.deployment.permanent import report_permanently
from ldp_jax.deployment.question import Question
from ldp_jax.deployment.wire import REPORT, VERSION

__all__ = [
    "COUNTS_VERSION",
    "REPORT",
    "TRIPLE",
    "VERSION",
    "Alphabet",
    "Alphabets",
    "BudgetError",
    "Classifier",
    "Decoded",
    "DecodedCounts",
    "Device",
    "ListSession",
    "Ownership",
    "Question",
    "Rejected",
    "RejectedCounts",
    "ReplayError",
    "Session",
    "Table",
    "Vectors",
    "alphabet_table",
    "alphabets",
    "decode",
    "decode_counts",
    "guarantee",
    "ownership",
    "report_class",
    "report_permanently",
    "vectors",
]


def __dir__() -> list[str]:
    return __all__
