"""PoinDP (Wei et al., 2024).

Hierarchy-aware noise for graph networks, as published and sound, and attacks.
"""

from functools import partial

from experiments._common import announce, run_parts
from experiments._declared import write_of
from experiments.poindp import accuracy, gaps, membership, noise
from experiments.poindp.settings import Config, printed

__all__ = ["Config", "main", "printed"]

_PARTS = {"noise": noise, "membership": membership, "gaps": gaps}


def main(config: Config) -> None:
    run_parts(config, _PARTS, accuracy)
    announce(config, partial(write_of, "poindp"))
