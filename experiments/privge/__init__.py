"""PrivGE / LDP-GE: node classification and link prediction from locally private features."""

from experiments._runner import console
from experiments.privge import accuracy, report
from experiments.privge.config import Config
from experiments.privge.published import printed

__all__ = ["COMMITTED", "PAPER", "SMOKE", "Config", "main", "printed", "write_report"]

COMMITTED, PAPER = (Config(),), (Config(preset="paper"),)
SMOKE = (Config(preset="smoke", datasets=("debian",), mechanisms=("laplace", "hds"), seeds=1),)
"""The runs of each preset."""


def main(config: Config) -> None:
    """Compute what is missing, then show the tables of the folder beside the committed rows."""
    accuracy.main(config)
    console.print(report.tables(config.out), soft_wrap=True, highlight=False, markup=False)
    console.print(f"figures and all tables: python -m experiments report --out {config.out}", soft_wrap=True)


write_report = report.write
