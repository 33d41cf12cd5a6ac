"""PrivGE / LDP-GE: node classification and link prediction from locally private features."""

from pathlib import Path

from experiments._runner import REFERENCE, console
from experiments.privge import accuracy, report, summary
from experiments.privge.config import Config

__all__ = ["COMMITTED", "Config", "main", "write_report"]

COMMITTED = (Config(),)
"""The runs whose rows are committed."""


def main(config: Config) -> None:
    """Compute what is missing, then show all rows of the folder beside the committed ones."""
    accuracy.main(config)
    show(config.out)
    console.print(f"figures and all tables: python -m experiments report --out {config.out}", soft_wrap=True)


def show(out: Path) -> None:
    """The tables of a folder in a terminal."""
    frame = accuracy.results_in(out).read()
    own = out.resolve() == REFERENCE.resolve()
    committed = None if own else summary.reference(accuracy.results_in(REFERENCE).read())
    summary.show(summary.summarise(frame, report.published_ks(frame)), console, committed)


write_report = report.write
