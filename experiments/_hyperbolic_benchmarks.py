"""A Poincaré embedding of a tree: ours, and gensim's PoincareModel where it is installed, taking turns."""

from collections.abc import Callable
from typing import Any

import numpy as np

from experiments._sides import Sides, installed, key_of
from ldp_jax import hyperbolic

NODES, BRANCHES, DIM = 10_000, 3, 10
BURN_IN, EPOCHS = 3, 7
"""Our passes at a tenth of the learning rate and at all of it; gensim's ten do better without the former."""


def embedding_sides() -> tuple[str, Sides, Callable[[str], float]]:
    """The closure of a tree, ten passes of each side; and the mean rank of a side's last embedding."""
    pairs = hyperbolic.closure(np.maximum((np.arange(NODES) - 1) // BRANCHES, 0))
    last: dict[str, np.ndarray] = {}

    def ours(repeat: int) -> Any:
        found = hyperbolic.embed(key_of(repeat), pairs, NODES, DIM, epochs=EPOCHS, burn_in=BURN_IN)
        last["ldp_jax"] = np.asarray(found.points)
        return found

    def theirs(repeat: int) -> Any:
        from gensim.models.poincare import PoincareModel  # pyrefly: ignore[missing-import]

        named = [(str(u), str(v)) for u, v in pairs.tolist()]
        model = PoincareModel(named, size=DIM, burn_in=0, seed=repeat)
        model.train(epochs=BURN_IN + EPOCHS, print_every=10**9)
        rows = np.zeros((NODES, DIM), np.float32)
        rows[np.array(model.kv.index_to_key, int)] = model.kv.vectors
        last["gensim"] = rows
        return rows

    sides: Sides = {"ldp_jax": (ours, "batches of pairs that share their random nodes; float32")}
    if installed("hyperbolic", "gensim"):
        sides["gensim"] = (theirs, "PoincareModel without burn-in, relations as text; float64")

    def mean_rank(side: str) -> float:
        return hyperbolic.reconstruction(hyperbolic.poincare.project(last[side]), pairs).mean_rank

    return f"Poincaré embedding of {len(pairs):,} pairs, {NODES:,} nodes", sides, mean_rank
