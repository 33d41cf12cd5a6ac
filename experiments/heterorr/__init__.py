"""HeteroRR (Tran et al., 2022): private features and private edges for a GCN, and the attacks on them."""

from collections.abc import Callable
from pathlib import Path

from experiments._runner import console
from experiments.heterorr import accuracy, attacks, counts, inversion, mixing, report, shares
from experiments.heterorr.config import Config

__all__ = ["COMMITTED", "Config", "main", "write_report"]

COMMITTED = (Config(),)
"""The runs whose rows are committed."""

_QUICK = inversion.Settings(draws=1, copies=2, epochs=2, attacker=16, classifier=16)


def _invert(config: Config) -> None:
    if config.smoke:
        inversion.run_all(config.out, seeds=1, epsilons=(1.0,), embeddings=("pca-16",), settings=_QUICK)
    else:
        inversion.run_all(config.out, seeds=config.seeds)


_PARTS: dict[str, Callable[[Config], None]] = {
    "scores": shares.main,
    "attacks": attacks.main,
    "counts": counts.main,
    "mixing": mixing.main,
    "inversion": _invert,
}


def main(config: Config) -> None:
    """Compute what is missing of each part, then the tables and figures."""
    config.check()
    if "attacks" in config.parts:
        attacks.plan(config)  # refuses what it must before the first row of any part
    accuracy.main(config)
    for name, run in _PARTS.items():
        if name in config.parts:
            run(config)
    for path in write_report(config.out):
        console.print(f"written: {path}", soft_wrap=True, highlight=False)


def write_report(out: Path) -> list[Path]:
    """Tables and figures from the rows of a folder."""
    parts = (report, shares, attacks, counts, mixing, inversion)
    return [path for part in parts for path in part.write(out)]
