"""Arrays that are divided among devices, and functions that run on the part of each.

A function that is given a divided array runs where the parts are, and returns parts. A concrete
array's sharding says which, under ``jit`` the explicit axes of the caller's mesh (those of
``jax.make_mesh``). Runs that nobody has placed are divided among all devices of the process.
"""

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import PyTree

from ldp_jax.core import validate
from ldp_jax.core.types import AnyArray, Array

_T = TypeVar("_T")


def placement(x: object) -> NamedSharding | None:
    """Return how an array is divided among devices, axis by axis; None where it is not."""
    if not isinstance(x, jax.Array):
        return None
    sharding = x.sharding if validate.concrete(x) else jax.typeof(x).sharding
    if not isinstance(sharding, NamedSharding) or all(axis is None for axis in sharding.spec):
        return None
    undivided = [None] * (x.ndim - len(sharding.spec))
    return NamedSharding(sharding.mesh, P(*sharding.spec, *undivided))


def by_rows(x: object) -> NamedSharding | None:
    """Return :func:`placement` if users, the first axis, are divided, or any explicit axis is."""
    over = placement(x)
    if over is None:
        return None
    users_are_divided = over.spec[0] is not None
    return over if users_are_divided or AxisType.Explicit in over.mesh.axis_types else None


def _of_type(kind: AxisType, over: NamedSharding) -> NamedSharding:
    """Keep the axes of one type: no operation of JAX takes axes of both types."""
    mesh = over.mesh
    types = dict(zip(mesh.axis_names, mesh.axis_types, strict=True))
    kept: list[tuple[str, ...] | None] = []
    for entry in over.spec:
        names = entry if isinstance(entry, tuple) else (entry,)
        kept.append(tuple(name for name in names if types.get(name) == kind) or None)
    return NamedSharding(mesh, P(*kept))


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


def each_run(
    one: Callable[[PyTree, PyTree], _T],
    over: NamedSharding | None,
    shared: PyTree,
    stacked: PyTree,
    at_once: int | None = None,
) -> _T:
    """``one(shared, own)`` of each of the stacked runs, on their devices, within compiled code."""

    def runs(shared: PyTree, stacked: PyTree) -> _T:
        return jax.lax.map(lambda own: one(shared, own), stacked, batch_size=at_once)

    if over is not None:
        runs = each_part(runs, over, (P(), over.spec), over.spec)
    return runs(shared, stacked)


def is_placed(*trees: PyTree) -> bool:
    """Whether an array is traced, or bound to devices by who made it."""
    return any(
        not validate.concrete(leaf) or (isinstance(leaf, jax.Array) and leaf.committed)
        for leaf in jax.tree.leaves(trees)
    )


def all_devices(count: int, *trees: PyTree) -> NamedSharding | None:
    """How so many runs are divided among the devices of the only process, as evenly as they can.

    None where there is one device, where a default one is set, and where an array is placed.
    """
    devices = jax.devices()
    alone = len(devices) == 1 or count < 2 or jax.process_count() > 1
    if alone or jax.config.values["jax_default_device"] is not None or is_placed(*trees):
        return None
    each = -(-count // len(devices))
    used = devices[: -(-count // each)]
    return NamedSharding(Mesh(np.array(used), ("runs",)), P("runs"))


def spread(over: NamedSharding, tree: PyTree) -> PyTree:
    """Divide stacked runs; the last one fills up what devices do not divide."""

    def one(leaf: AnyArray) -> Array:
        missing = -len(leaf) % over.mesh.size
        rows = np.minimum(np.arange(len(leaf) + missing), len(leaf) - 1)
        return jax.device_put(_by_host(lambda host: host[rows], leaf), over)

    return jax.tree.map(one, tree)


def gathered(count: int, tree: PyTree) -> PyTree:
    """The first ``count`` of spread runs, where they would be if nothing had been spread."""
    return jax.tree.map(lambda leaf: _by_host(lambda host: host[:count], leaf), tree)


def _by_host(function: Callable[[np.ndarray], np.ndarray], leaf: AnyArray) -> Array:
    """A function of an array, or of the words of keys, by NumPy: no program, and no place."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        words = np.asarray(jax.random.key_data(leaf))
        return jax.random.wrap_key_data(jnp.asarray(function(words)), impl="threefry2x32")
    return jnp.asarray(function(np.asarray(leaf)))


def varying(*trees: PyTree) -> tuple[PyTree, ...]:
    """Mark trees as different on each device, as loops within ``jax.shard_map`` must have them."""

    def own(leaf: object) -> frozenset:
        return jax.typeof(leaf).manual_axis_type.varying

    axes = frozenset().union(*map(own, jax.tree.leaves(trees)))

    def one(leaf: Array) -> Array:
        missing = tuple(axes - own(leaf))
        return jax.lax.pcast(leaf, missing, to="varying") if missing else leaf

    return jax.tree.map(one, trees)
