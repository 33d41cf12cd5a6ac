"""DPRR (Hidano & Murakami): are graphs still told apart when their users report noisy neighbour lists?"""

from pathlib import Path

from experiments._runner import console
from experiments.dprr import accuracy, degrees, scaling
from experiments.dprr.config import Config

__all__ = ["Config", "main", "write_report"]

_PARTS = {"accuracy": accuracy, "degrees": degrees, "scaling": scaling}


def main(config: Config) -> None:
    """Compute what is missing of each part, then its tables and figures."""
    config.check()
    for name in config.parts:
        _PARTS[name].main(config)
        for path in _PARTS[name].write(config.out):
            console.print(f"written: {path}", soft_wrap=True, highlight=False)


def write_report(out: Path) -> list[Path]:
    """Tables and figures from the rows of a folder."""
    return [path for part in _PARTS.values() for path in part.write(out)]
