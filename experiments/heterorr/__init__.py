"""HeteroRR (Tran et al., 2022): private features and private edges for a GCN, and the attacks on them."""

from collections.abc import Callable
from pathlib import Path

from experiments._runner import console
from experiments.heterorr import accuracy, attacks, counts, mixing, report, shares
from experiments.heterorr.config import Config

__all__ = ["COMMITTED", "Config", "main", "write_report"]

COMMITTED = (Config(),)
"""The runs whose rows are committed."""

_PARTS: dict[str, Callable[[Config], None]] = {
    "scores": shares.main,
    "attacks": attacks.main,
    "counts": counts.main,
    "mixing": mixing.main,
}


def main(config: Config) -> None:
    """Compute what is missing of each part, then the tables and figures."""
    config.check()
    accuracy.main(config)
    for name, run in _PARTS.items():
        if name in config.parts:
            run(config)
    for path in write_report(config.out):
        console.print(f"written: {path}", soft_wrap=True, highlight=False)


def write_report(out: Path) -> list[Path]:
    """Tables and figures from the rows of a folder."""
    return [*report.write(out), *shares.write(out), *attacks.write(out), *counts.write(out), *mixing.write(out)]
