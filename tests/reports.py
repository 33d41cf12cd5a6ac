"""Reports as commands write them, for a browser: ``python -m tests.reports FOLDER``."""

import sys
from pathlib import Path

import jax

from experiments import __main__ as command_line
from ldp_jax import bench, datasets, features


def main(folder: Path) -> None:
    """A method beside another, on 60 users, and what is committed of every experiment."""
    sizes = {"num_nodes": 60, "num_classes": 2, "num_features": 6, "mean_degree": 5}
    bench.compare(
        features.Piecewise,
        datasets.synthetic(jax.random.key(0), **sizes, homophily=0.8),
        hides="features",
        epsilons=(4.0,),
        seeds=2,
        panel=0.3,
        against=["multi-bit"],
        out=folder,
    )
    command_line.main(["reproduce", "all", "--compare-only", "--out", str(folder)])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
