"""Tables and figures of a folder's rows, of every experiment that has some there."""

import dataclasses
from pathlib import Path

from experiments import _readme, findings, papers
from experiments._registry import EXPERIMENTS, module
from experiments._runner import DEFAULT_OUT, UsageError, console

_PAGES = "findings.md"  # the passages of all experiments, between their marks
_WITH_PASSAGES = (
    "privge.report", "heterorr.report", "poindp.report", "frontier.report", "frontier.features_report",
    "frontier.joint_report",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Config:
    """Tables and figures of the rows in a folder, written beside them: REPORT.md (privge), dprr.md and PNGs.

    The committed figures stand beside yours; nothing is computed but statistics.
    """

    out: Path = DEFAULT_OUT
    """where the CSVs are and the report goes"""
    readme: Path | None = None
    """a Markdown file whose table between <!-- findings --> and <!-- /findings --> is replaced"""


def main(config: Config) -> None:
    """Write the reports."""
    if config.readme is not None:
        _readme.check(config.readme)
    written = []
    for name in EXPERIMENTS:
        if write := getattr(module(name), "write_report", None):
            written += write(config.out)
    written += papers.write_report(config.out)
    if not written:
        raise UsageError(
            f"--out {config.out}: no rows there yet; python -m experiments demo makes some, and show NAME prints "
            "the committed tables"
        )
    if (pages := config.out / _PAGES).exists():
        sections: dict[str, str] = {}
        for name in _WITH_PASSAGES:
            sections |= module(name).readme_sections(config.out)
        _readme.write_sections(pages, {name: _readme.beside_the_rows(text) for name, text in sections.items()})
        written.append(pages)
    if config.readme is not None:
        _readme.write_sections(config.readme, {"findings": findings.table(config.out)})
        written.append(config.readme)
    for path in written:
        console.print(f"written: {path}", soft_wrap=True)
