"""DPRR (Hidano & Murakami): are graphs still told apart when their users report noisy neighbour lists?"""

from pathlib import Path

from experiments._common import write_part
from experiments._runner import console
from experiments.dprr import accuracy, degrees, scaling
from experiments.dprr.config import Config

__all__ = ["Config", "main", "write_report"]

_PARTS = {"accuracy": accuracy, "degrees": degrees, "scaling": scaling}


def main(config: Config) -> None:
    config.check()
    for name in config.parts:
        _PARTS[name].main(config)
    for path in write_report(config.out):
        console.print(f"written: {path}", soft_wrap=True, highlight=False)


def write_report(out: Path) -> list[Path]:
    return [*accuracy.write(out), *write_part(degrees, out), *write_part(scaling, out)]
