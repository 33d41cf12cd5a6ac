"""PoinDP (Wei et al., 2024): hierarchy-aware noise for graph networks, as published and sound, and attacks."""

from collections.abc import Callable
from pathlib import Path

from experiments._runner import console
from experiments.poindp import accuracy, gaps, membership, noise, report
from experiments.poindp.config import COMMITTED, Config

__all__ = ["COMMITTED", "Config", "main", "write_report"]

_PARTS: dict[str, Callable[[Config], None]] = {
    "noise": noise.main, "membership": membership.main, "gaps": gaps.main,
}  # fmt: skip


def main(config: Config) -> None:
    """Compute what is missing of each part, then the tables and figures."""
    config.check()
    for name, plan in (("noise", noise.plan), ("membership", membership.plan), ("gaps", gaps.plan)):
        if name in config.parts:
            plan(config)  # refuses what it must before the first row of any part
    if set(config.parts) - set(_PARTS):
        accuracy.main(config)
    for name, run in _PARTS.items():
        if name in config.parts:
            run(config)
    for path in write_report(config.out):
        console.print(f"written: {path}", soft_wrap=True, highlight=False)


def write_report(out: Path) -> list[Path]:
    """Tables and figures from the rows of a folder."""
    return report.write(out)
