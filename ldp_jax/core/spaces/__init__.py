"""Spaces of records and of reports: a mechanism's ``domain()`` and ``codomain()``.

They say what is a member, what others are taken for, and which records are adjacent. A new space is
a subclass of :class:`Enumerated` where its members can be listed; else of :class:`Records`, of
:class:`ReportLaw`, or of both.
"""

from ldp_jax.core.spaces.balls import Ball, Disc, Vectors
from ldp_jax.core.spaces.numbers import Finite, Interval, Mixture
from ldp_jax.core.spaces.space import (
    Enumerated,
    NotApplicable,
    Records,
    ReportLaw,
    Reports,
    as_records,
    clip,
)
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
    "ReportLaw",
    "Reports",
    "SparseReport",
    "Sphere",
    "Subset",
    "Turned",
    "Vectors",
    "as_records",
    "clip",
]

__dir__ = lambda: __all__
