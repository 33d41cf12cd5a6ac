"""Tables and figures of a folder's rows, of every experiment that has some there."""

import dataclasses
from pathlib import Path

from experiments import _readme, findings, papers
from experiments._registry import EXPERIMENTS
from experiments._runner import DEFAULT_OUT, UsageError, console
from experiments.frontier import features_report, joint_report
from experiments.frontier import report as frontier_report
from experiments.heterorr import report as heterorr_report
from experiments.poindp import report as poindp_report
from experiments.privge import report as privge_report

_PAGES = "findings.md"  # the passages of all experiments, between their marks


@dataclasses.dataclass(frozen=True)
class Config:
    """Tables and figures of the rows in a folder, written beside them: REPORT.md (privge), dprr.md and PNGs.

    The committed figures stand beside yours; nothing is computed but statistics.
    """

    out: Path = DEFAULT_OUT
    """where the CSVs are and the report goes"""
    readme: Path | None = None
    """a Markdown file whose table between <!-- findings --> and <!-- /findings --> is written anew"""


def main(config: Config) -> None:
    """Write the reports.

    Raises:
      UsageError: where the folder has no rows, or the file no such sections.
    """
    if config.readme is not None:
        _readme.check(config.readme)
    written = []
    for experiment in EXPERIMENTS.values():
        if hasattr(experiment.module, "write_report"):
            written += experiment.module.write_report(config.out)
    written += papers.write_report(config.out)
    if not written:
        raise UsageError(
            f"--out {config.out}: no rows there yet; python -m experiments demo makes some, and show NAME prints "
            "the committed tables"
        )
    for path in written:
        console.print(f"written: {path}", soft_wrap=True)
    if (pages := config.out / _PAGES).exists():
        frontier = (frontier_report, features_report, joint_report)
        of_papers = (privge_report, heterorr_report, poindp_report, *frontier)
        sections = {name: text for paper in of_papers for name, text in paper.readme_sections(config.out).items()}
        _readme.write_sections(pages, {name: _readme.beside_the_rows(text) for name, text in sections.items()})
        console.print(f"written: {pages}", soft_wrap=True)
    if config.readme is not None:
        _readme.write_sections(config.readme, {"findings": findings.table(config.out)})
        console.print(f"written: {config.readme}", soft_wrap=True)
