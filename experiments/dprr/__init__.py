"""DPRR (Hidano & Murakami).

Are graphs still told apart when their users report noisy neighbour lists?
"""

from pathlib import Path

from experiments import _declared
from experiments._common import announce
from experiments.dprr import accuracy, degrees, scaling
from experiments.dprr.config import Config

__all__ = ["Config", "main", "write_report"]

_PARTS = {"accuracy": accuracy, "degrees": degrees, "scaling": scaling}


def main(config: Config) -> None:
    config.check()
    for name in config.parts:
        _PARTS[name].main(config)
    announce(config, write_report)


def write_report(out: Path) -> list[Path]:
    return _declared.write(Path(__file__).with_name("report.toml"), out)
