"""Reports from real devices: integer tables on NumPy and the operating system's entropy. No JAX.

* :mod:`device <ldp_jax.deployment.device>` - a secret, and the random bits that come from it;
* :mod:`session <ldp_jax.deployment.session>` - what a device reports, remembers and may spend;
* :mod:`codecs <ldp_jax.deployment.codecs>`, :mod:`wire <ldp_jax.deployment.wire>` - the bytes that
  are sent;
* :mod:`collector <ldp_jax.deployment.collector>` - the server's side;
* :mod:`store <ldp_jax.deployment.store>` - reports of many devices in a folder, for several server
  processes;
* :mod:`question <ldp_jax.deployment.question>` - how many neighbours are in public groups;
  :mod:`pairs <ldp_jax.deployment.pairs>` - who they are; ``ownership``: who reports a pair;
* :mod:`subgraphs <ldp_jax.deployment.subgraphs>` - how many stars or triangles a user counts;
* :mod:`classes <ldp_jax.deployment.classes>` - what a device needs to report a class of
  its record, or of record and friends.
"""

from ldp_jax.core.integer_tables import Table
from ldp_jax.core.ownership import Ownership, ownership
from ldp_jax.core.personal_alphabets import Alphabets, alphabets
from ldp_jax.core.personal_alphabets import table as alphabet_table
from ldp_jax.deployment.classes import Alphabet, Classifier, Friends, report_class
from ldp_jax.deployment.collector import Decoded, Rejected, Vectors, decode, vectors
from ldp_jax.deployment.device import Device
from ldp_jax.deployment.pairs import Pairs
from ldp_jax.deployment.question import Question
from ldp_jax.deployment.session import BudgetError, ReplayError, Session, guarantee, scaled
from ldp_jax.deployment.subgraphs import Stars, Triangles

__all__ = [
    "Alphabet",
    "Alphabets",
    "BudgetError",
    "Classifier",
    "Decoded",
    "Device",
    "Friends",
    "Ownership",
    "Pairs",
    "Question",
    "Rejected",
    "ReplayError",
    "Session",
    "Stars",
    "Table",
    "Triangles",
    "Vectors",
    "alphabet_table",
    "alphabets",
    "decode",
    "guarantee",
    "ownership",
    "report_class",
    "scaled",
    "vectors",
]

__dir__ = lambda: __all__
