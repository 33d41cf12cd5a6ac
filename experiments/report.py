"""Tables and figures of a folder's rows, of every experiment that has some there."""

import dataclasses
from pathlib import Path

from experiments import findings, papers
from experiments._registry import EXPERIMENTS, module
from experiments._runner import DEFAULT_OUT, UsageError, console, write_atomically

OPENING, CLOSING = "<!-- findings -->\n", "<!-- /findings -->"


@dataclasses.dataclass(frozen=True)
class Config:
    """Tables and figures of the rows in a folder, written beside them: REPORT.md (privge), dprr.md and PNGs.

    Nothing is computed but statistics. findings.md has it in short, and ``reproduce all --compare-only`` compares
    with the committed rows and makes web pages.
    """

    out: Path = DEFAULT_OUT
    """where the CSVs are and the report goes"""
    readme: Path | None = None
    """a Markdown file whose table between <!-- findings --> and <!-- /findings --> is replaced"""


def main(config: Config) -> None:
    before, after = _around(config.readme) if config.readme else ("", "")
    modules = [*map(module, EXPERIMENTS), papers, findings]
    written = [path for one in modules if hasattr(one, "write_report") for path in one.write_report(config.out)]
    if not written:
        raise UsageError(
            f"--out {config.out}: no rows there yet; python -m experiments demo makes some, and show NAME prints "
            "the committed tables"
        )
    if config.readme is not None:
        write_atomically(config.readme, f"{before}{findings.table(config.out).rstrip()}\n{after}")
        written.append(config.readme)
    for path in written:
        console.print(f"written: {path}", soft_wrap=True)


def _around(readme: Path) -> tuple[str, str]:
    """The text of a file before and after its table."""
    try:
        text = readme.read_text()
    except OSError as error:
        raise UsageError(f"--readme {readme}: it cannot be read ({error.strerror})") from error
    start, end = text.find(OPENING), text.find(CLOSING)
    if not 0 <= start < end:
        raise UsageError(f"--readme {readme}: it has no section between {OPENING.strip()} and {CLOSING}")
    return text[: start + len(OPENING)], text[end:]
