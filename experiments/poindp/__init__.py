"""PoinDP (Wei et al., 2024).

Hierarchy-aware noise for graph networks, as published and sound, and attacks.
"""

from pathlib import Path

from experiments import _declared
from experiments._common import announce, run_parts
from experiments.poindp import accuracy, gaps, membership, noise
from experiments.poindp.settings import Config, printed

__all__ = ["Config", "main", "printed", "write_report"]

_PARTS = {"noise": noise, "membership": membership, "gaps": gaps}


def main(config: Config) -> None:
    run_parts(config, _PARTS, accuracy)
    announce(config, write_report)


def write_report(out: Path) -> list[Path]:
    return _declared.write(Path(__file__).with_name("report.toml"), out)
