"""Reports on records under a proved guarantee, and the proved guarantee of each row."""

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments._common import estimates, is_own, own_vectors
from experiments.poindp.settings import (
    FEATURES,
    LEVELS,
    PRINTED,
    PUBLISHED,
    SHARES,
    STRUCTURE,
    Settings,
)
from ldp_jax import hyperbolic, servers
from ldp_jax.accounting.guarantee import RECORD, Guarantee, PipelineGuarantee

UNPROTECTED = ("labels", "edges")


def base(name: str) -> str:
    return name.removeprefix(STRUCTURE).removeprefix(FEATURES)


def is_sound(name: str) -> bool:
    """Whether a row's records are reported under a proved guarantee."""
    return base(name) in (*SHARES, "hyperbolic", "levels", "laplace") or is_own(base(name))


@lru_cache(maxsize=64)
def mechanism(name: str, epsilon: float, settings: Settings) -> Any:
    """The mechanism on projected records.

    ``levels`` is a stack of one for each level of the hierarchy.
    """
    if is_own(name):
        return own_vectors(name, epsilon, settings.dim)
    words = {"delta": settings.delta, "dim": settings.dim, "clip": settings.clip}
    if name in SHARES:
        return hyperbolic.RadialAngularGaussian(epsilon=epsilon, radial_share=SHARES[name], **words)
    budgets = np.float32(epsilon) * np.asarray(LEVELS, np.float32) if name == "levels" else epsilon
    return hyperbolic.HyperbolicGaussian(epsilon=budgets, **words)


def levels(places: np.ndarray) -> np.ndarray:
    """The level of each node by the radius of its public place.

    0 for the innermost third, 2 for the outermost.
    """
    radius = np.asarray(hyperbolic.radius(places))
    rank = np.empty(len(radius), np.int32)
    rank[np.argsort(radius, kind="stable")] = np.arange(len(radius), dtype=np.int32)
    return rank * len(LEVELS) // len(radius)


def projected(key: Any, unit: np.ndarray, dim: int) -> np.ndarray:
    """Project records of length 1 or 0 to ``dim`` coordinates by a public random matrix."""
    projection = jax.random.normal(key, (unit.shape[1], dim)) / np.sqrt(dim)
    return unit @ np.asarray(projection)


def reports(
    key: Any, name: str, epsilon: float, records: np.ndarray, places: Any, settings: Settings
) -> Any:
    """The reports of a sound mechanism, a row a user; ``epsilon`` is the largest of all users."""
    if name == "laplace":
        return jnp.asarray(records) + laplace_scale(epsilon) * jax.random.laplace(
            key, records.shape
        )
    made = mechanism(name, epsilon, settings)
    if is_own(name):
        return estimates(made, servers.perturb(key, records, made))
    users = len(records)
    level = levels(places) if name == "levels" else None
    return _drawn(made, level, jax.random.split(key, users), jnp.asarray(records))


@jax.jit
def _drawn(made: Any, level: Any, keys: Any, records: Any) -> Any:
    if level is None:
        return jax.vmap(made.privatize)(keys, records)

    def one(index: Any, key: Any, record: Any) -> Any:
        own = jax.tree.map(lambda leaf: leaf[index] if jnp.ndim(leaf) else leaf, made)
        return own.privatize(key, record)

    return jax.vmap(one)(level, keys, records)


def laplace_scale(epsilon: float) -> float:
    """The scale for rows that sum to 1: two of them differ by at most 2 in L1."""
    return 2.0 / epsilon


def of_laplace(scale: float) -> Guarantee:
    """The guarantee of Laplace noise of a scale on every coordinate of a row that sums to 1."""
    return Guarantee(
        2.0 / scale,
        unit=RECORD,
        status="proved",
        adjacency="any two rows of non-negative numbers that sum to 1, or to 0",
        reason="independent Laplace noise on every feature; two rows differ by at most 2 in L1; "
        "drawn once",
    )


def guarantee(name: str, epsilon: float, settings: Settings) -> PipelineGuarantee | None:
    """The proved guarantee of a row; None without one, or where nothing private is used."""
    if name == f"{PUBLISHED}lap":
        spent = of_laplace(1.0 / epsilon)
    elif is_sound(name) and not name.startswith(STRUCTURE):
        mine = base(name)
        laplace = mine == "laplace"
        spent = (
            of_laplace(laplace_scale(epsilon))
            if laplace
            else mechanism(mine, epsilon, settings).guarantee()
        )
    else:
        return None
    return PipelineGuarantee.of([spent], protected=("features",), unprotected=UNPROTECTED)


def why_none(name: str, epsilon: float, settings: Settings) -> str | None:
    """In words, for the manifest: what a row of the paper's noise does not have."""
    if not name.startswith((PUBLISHED, PRINTED)):
        return None
    return (
        f"none proved: noise at epsilon {epsilon:g} an application, in each of at most "
        f"{settings.epochs} epochs "
        "and in every answer, with nothing composed; its scale is a function of the data, or "
        "bounds no "
        "sensitivity; even were each application (epsilon, delta), basic composition would give "
        f"{settings.epochs + 1} times both"
    )
