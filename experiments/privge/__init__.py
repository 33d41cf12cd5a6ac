"""PrivGE / LDP-GE: node classification and link prediction from locally private features."""

from pathlib import Path

from experiments import _declared
from experiments._runner import console
from experiments.privge import accuracy
from experiments.privge.settings import Config, printed

__all__ = ["Config", "main", "printed"]

PAGE = Path(__file__).with_name("report.toml")


def main(config: Config) -> None:
    accuracy.main(config)
    if not config.whole:
        return
    console.print(tables(config.out), soft_wrap=True, highlight=False, markup=False)
    console.print(
        f"figures and all tables: python -m experiments report --out {config.out}", soft_wrap=True
    )


def tables(out: Path) -> str:
    """The page's tables of mechanisms by budget."""
    page = _declared.report(PAGE, "REPORT", out)
    if page is None:
        return ""
    tables = [section["table"] for section in page.spec["sections"] if "table" in section]
    by_mechanism = [one for one in tables if one["rows"] == ["dataset", "mechanism"]]
    return "\n\n".join(filter(None, map(page.table, by_mechanism)))
