"""Tables and figures of all rows of a folder.

They say what each kind of private data adds: findings.md, README's table.
"""

import dataclasses
import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments import _declared, _registry, _runner, claims, papers
from experiments import _report as show

_TEXT = show.prose("findings")

OPENING, CLOSING = "<!-- findings -->\n", "<!-- /findings -->"
HEADERS = ["private data, method", "gain over", "rows", "above 0", "below 0", "all rows"]


@dataclasses.dataclass(frozen=True)
class Config:
    """Tables and figures of the rows in a folder, written beside them.

    REPORT.md (privge), dprr.md and PNGs.

    Nothing is computed but statistics. findings.md has it in short, and
    ``reproduce all --compare-only`` compares with the committed rows and makes web pages.
    """

    out: Path = _runner.DEFAULT_OUT
    """where the CSVs are and the report goes"""
    readme: Path | None = None
    """a Markdown file whose table between <!-- findings --> and <!-- /findings --> is replaced"""


def main(config: Config) -> None:
    before, after = _around(config.readme) if config.readme else ("", "")
    written = []
    for name, experiment in _registry.EXPERIMENTS.items():
        if experiment.rows:
            written += _declared.write_of(name, config.out)
    for one in (papers.write_report, claims.write_report, write_report):
        written += one(config.out)
    if not written:
        raise _runner.UsageError(
            f"--out {config.out}: no rows there yet; python -m experiments demo makes some, and "
            "show NAME prints "
            "the committed tables"
        )
    if config.readme is not None:
        _runner.write_atomically(config.readme, f"{before}{table(config.out).rstrip()}\n{after}")
        written.append(config.readme)
    for path in written:
        _runner.console.print(f"written: {path}", soft_wrap=True)


def _around(readme: Path) -> tuple[str, str]:
    try:
        text = readme.read_text()
    except OSError as error:
        raise _runner.UsageError(
            f"--readme {readme}: it cannot be read ({error.strerror})"
        ) from error
    start = text.find(OPENING)
    end = text.find(CLOSING)
    if not 0 <= start < end:
        raise _runner.UsageError(
            f"--readme {readme}: it has no section between {OPENING.strip()} and {CLOSING}"
        )
    return text[: start + len(OPENING)], text[end:]


def table(out: Path) -> str:
    """In how many rows of a question the interval of the answer is above 0 and below 0.

    "" without a row.
    """
    found: list[tuple[str, str, int, int, int, str]] = []
    report = functools.cache(lambda file, page: _declared.report(file, page, out))
    for one in _told()["questions"]:
        page = report(_file(one), one["page"])
        if page is not None:
            counts = [page.ask({**one, "show": show}) for show in ("rows", "above", "below")]
            found.append((one["private"], one["over"], *counts, one["page"]))
    rows = [
        [*one[:-1], f"[{one[-1]}](experiments/results/{one[-1]}.md)"] for one in found if one[2]
    ]
    return show.markdown(HEADERS, rows) if rows else ""


def _told() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text())


def _file(one: Mapping[str, str]) -> Path:
    """Where the page of a question or a passage is declared."""
    return Path(__file__).parent / one["paper"] / "report.toml"


def write_report(out: Path) -> list[Path]:
    found = table(out)
    if not found:
        return []
    parts = ["# Findings", _TEXT.about, found.replace("](experiments/results/", "](")]
    for one in _told()["passages"]:
        title, page, figure = one["title"], one["page"], one["figure"]
        if words := _declared.digest(_file(one), page, out):
            drawn = [f"![{title}]({figure}.png)"] if (out / f"{figure}.png").exists() else []
            parts += [f"## {title}", *drawn, words, f"More: [{page}]({page}.md)."]
    return show.publish(out, {"findings": "\n\n".join(parts)}, {})
