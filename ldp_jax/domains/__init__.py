"""Spaces of records and of reports, which know what verification asks of them.

A mechanism has a ``domain()`` and a ``codomain()``; the two spaces say the rest: what is a member and what others
are taken for, which records are adjacent and where a privacy loss is looked for, how a density is integrated and
draws are counted. A new space is one file with a subclass of
:class:`Records`, of :class:`Reports`, of both, or of :class:`Enumerated` where its members can be listed.
"""

from ldp_jax.domains.numbers import Finite, Interval, Mixture
from ldp_jax.domains.space import Enumerated, NotApplicable, Records, Reports, as_records, clip
from ldp_jax.domains.vectors import Box, Product, Subset

__all__ = [
    "Box",
    "Enumerated",
    "Finite",
    "Interval",
    "Mixture",
    "NotApplicable",
    "Product",
    "Records",
    "Reports",
    "Subset",
    "as_records",
    "clip",
]


def __dir__() -> list[str]:
    return __all__
