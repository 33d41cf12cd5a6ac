"""DPRR (Hidano & Murakami): are graphs still told apart when their users report noisy neighbour lists?"""

from pathlib import Path

from experiments._runner import console
from experiments.dprr import accuracy, degrees, scaling
from experiments.dprr.config import COMMITTED, Config, settings

__all__ = ["COMMITTED", "Config", "main", "write_report"]


def main(config: Config) -> None:
    """Compute what is missing of each part, then its tables and figures."""
    config.check()
    for part in config.parts:
        if part == "accuracy":
            accuracy.main(config)
        elif part == "degrees":
            degrees.main(config)
        else:
            scaling.main(config, settings(config, config.datasets[0]))
    console.print(f"tables and figures: {config.out}", soft_wrap=True)


def write_report(out: Path) -> list[Path]:
    """Tables and figures from the rows of a folder."""
    return [*accuracy.write(out), *degrees.write(out), *scaling.write(out)]
