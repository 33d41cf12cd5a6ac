"""Spaces of records and of reports, which know what verification asks of them.

A mechanism has a ``domain()`` and a ``codomain()``; the two spaces say the rest: what is a member and what others
are taken for, which records are adjacent and where a privacy loss is looked for, how a density is integrated and
draws are counted. A new space is one file with a subclass of
:class:`Records`, of :class:`Reports`, of both, or of :class:`Enumerated` where its members can be listed.
"""

from ldp_jax.core.spaces.balls import Ball, Disc, Vectors
from ldp_jax.core.spaces.numbers import Finite, Interval, Mixture
from ldp_jax.core.spaces.space import Enumerated, NotApplicable, Records, Reports, as_records, clip
from ldp_jax.core.spaces.spheres import Sphere, Turned
from ldp_jax.core.spaces.vectors import Box, ByCoordinate, Product, SparseReport, Subset

__all__ = [
    "Ball",
    "Box",
    "ByCoordinate",
    "Disc",
    "Enumerated",
    "Finite",
    "Interval",
    "Mixture",
    "NotApplicable",
    "Product",
    "Records",
    "Reports",
    "SparseReport",
    "Sphere",
    "Subset",
    "Turned",
    "Vectors",
    "as_records",
    "clip",
]


def __dir__() -> list[str]:
    return __all__
