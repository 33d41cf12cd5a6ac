"""PoinDP (Wei et al., 2024): hierarchy-aware noise for graph networks, as published and sound, and attacks."""

from experiments._common import announce, run_parts
from experiments.poindp import accuracy, gaps, membership, noise
from experiments.poindp.published import printed
from experiments.poindp.report import write as write_report
from experiments.poindp.settings import Config

__all__ = ["Config", "main", "printed", "write_report"]

_PARTS = {"noise": noise, "membership": membership, "gaps": gaps}


def main(config: Config) -> None:
    config.check()
    parts = [accuracy] if {*config.parts} - {*_PARTS} else []
    run_parts([*parts, *(part for name, part in _PARTS.items() if name in config.parts)], config)
    announce(write_report(config.out))
