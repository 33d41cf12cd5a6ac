"""DPRR (Hidano & Murakami).

Are graphs still told apart when their users report noisy neighbour lists?
"""

from functools import partial

from experiments._common import announce
from experiments._declared import write_of
from experiments.dprr import accuracy, degrees, scaling
from experiments.dprr.config import Config

__all__ = ["Config", "main"]

_PARTS = {"accuracy": accuracy, "degrees": degrees, "scaling": scaling}


def main(config: Config) -> None:
    config.check()
    for name in config.parts:
        _PARTS[name].main(config)
    announce(config, partial(write_of, "dprr"))
