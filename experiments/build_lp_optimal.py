"""Solve the linear programs of LPOptimal, and write the tables that the package ships.

``python -m experiments.build_lp_optimal lp_optimal.npz`` writes them.
"""

import sys
from pathlib import Path

import numpy as np

from ldp_jax.features.lp_optimal import INPUTS, OUTPUTS, SHIPPED, rounded, solve


def main(path: Path, budgets: tuple[float, ...] = SHIPPED) -> None:
    """One array of bytes for each budget, by its name."""
    tables = {epsilon: rounded(epsilon, *solve(epsilon, INPUTS, OUTPUTS)) for epsilon in budgets}
    arrays = {
        f"{epsilon:g}": np.frombuffer(table.to_bytes(), np.uint8)
        for epsilon, table in tables.items()
    }
    np.savez_compressed(path, **arrays)  # pyrefly: ignore[bad-argument-type]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
