"""PrivGE / LDP-GE: node classification and link prediction from locally private features."""

from experiments._runner import console
from experiments.privge import accuracy, report
from experiments.privge.report import write as write_report
from experiments.privge.settings import Config, printed

__all__ = ["Config", "main", "printed", "write_report"]


def main(config: Config) -> None:
    accuracy.main(config)
    if not config.whole:
        return
    console.print(report.tables(config.out), soft_wrap=True, highlight=False, markup=False)
    console.print(
        f"figures and all tables: python -m experiments report --out {config.out}", soft_wrap=True
    )
