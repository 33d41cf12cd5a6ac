"""Arrays that are divided among devices, and functions that run on the part of each.

A function that is given a divided array runs where the parts are, and returns parts. A concrete
array's sharding says which, under ``jit`` the explicit axes of the caller's mesh (those of
``jax.make_mesh``).
"""

from collections.abc import Callable
from typing import TypeVar

import jax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import PyTree

from ldp_jax.core import validate
from ldp_jax.core.types import Array

_T = TypeVar("_T")


def placement(x: object) -> NamedSharding | None:
    """Return how an array is divided among devices, axis by axis; None where it is not."""
    if not isinstance(x, jax.Array):
        return None
    sharding = x.sharding if validate.concrete(x) else jax.typeof(x).sharding
    if not isinstance(sharding, NamedSharding) or all(axis is None for axis in sharding.spec):
        return None
    return NamedSharding(sharding.mesh, P(*sharding.spec, *(None,) * (x.ndim - len(sharding.spec))))


def by_rows(x: object) -> NamedSharding | None:
    """Return :func:`placement` if users, the first axis, are divided, or any explicit axis is."""
    over = placement(x)
    if over is None or (over.spec[0] is None and AxisType.Explicit not in over.mesh.axis_types):
        return None
    return over


def _of_type(kind: AxisType, over: NamedSharding) -> NamedSharding:
    """Keep the axes of one type: no operation of JAX takes axes of both types."""
    mesh = over.mesh
    names = {
        name for name, own in zip(mesh.axis_names, mesh.axis_types, strict=True) if own == kind
    }
    entries = (entry if isinstance(entry, tuple) else (entry,) for entry in over.spec)
    return NamedSharding(
        mesh, P(*(tuple(name for name in entry if name in names) or None for entry in entries))
    )


def divided_by(x: Array, over: NamedSharding) -> Array:
    """Divide an array as ``over`` does, within compiled code, whatever the type of the axes."""
    if AxisType.Explicit in over.mesh.axis_types:
        x = jax.reshard(x, _of_type(AxisType.Explicit, over))
    if AxisType.Auto in over.mesh.axis_types:
        x = jax.lax.with_sharding_constraint(x, _of_type(AxisType.Auto, over))
    return x


def each_part(
    function: Callable[..., _T], over: NamedSharding, in_specs: tuple[PyTree, ...], out_specs: P
) -> Callable[..., _T]:
    """Make ``jax.shard_map`` over a mesh for compiled code, whatever the type of the axes."""

    def placed(spec: P, argument: PyTree) -> PyTree:
        to = _of_type(AxisType.Explicit, NamedSharding(over.mesh, spec))
        return jax.tree.map(lambda leaf: jax.reshard(leaf, to), argument)

    def call(*arguments: PyTree) -> _T:
        if AxisType.Explicit in over.mesh.axis_types:  # where specs are types, and must agree
            arguments = jax.tree.map(
                placed, in_specs, arguments, is_leaf=lambda spec: isinstance(spec, P)
            )
        # Unchecked: loops of mechanisms and models may start from constants, which no device has
        # for itself.
        mapped = jax.shard_map(
            function, mesh=over.mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False
        )
        return mapped(*arguments)

    return call


def varying(*trees: PyTree) -> tuple[PyTree, ...]:
    """Mark trees as different on each device, as loops within ``jax.shard_map`` must have them."""

    def own(leaf: object) -> frozenset:
        return jax.typeof(leaf).manual_axis_type.varying

    axes = frozenset().union(*map(own, jax.tree.leaves(trees)))

    def one(leaf: Array) -> Array:
        missing = tuple(axes - own(leaf))
        return jax.lax.pcast(leaf, missing, to="varying") if missing else leaf

    return jax.tree.map(one, trees)
