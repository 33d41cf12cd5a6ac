"""PoinDP (Wei et al., 2024): hierarchy-aware noise for graph networks, as published and sound, and attacks."""

from experiments._common import run_part
from experiments._runner import console
from experiments.poindp import accuracy, gaps, membership, noise, report
from experiments.poindp.config import Config
from experiments.poindp.published import printed

__all__ = ["Config", "main", "printed", "write_report"]

_PARTS = {"noise": noise, "membership": membership, "gaps": gaps}


def main(config: Config) -> None:
    config.check()
    parts = [part for name, part in _PARTS.items() if name in config.parts]
    for part in parts:
        part.plan(config)  # refuses what it must before the first row of any part
    for part in ([accuracy] if set(config.parts) - set(_PARTS) else []) + parts:
        membership.main(config) if part is membership else run_part(part, config)
    for path in write_report(config.out):
        console.print(f"written: {path}", soft_wrap=True, highlight=False)


write_report = report.write
"""Tables and figures from the rows of a folder."""
