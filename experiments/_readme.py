"""The README's sections on private features and on speed, rendered from results: no number is typed by hand."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from experiments._report import markdown, significant
from experiments._runner import UsageError, write_atomically
from experiments.privge.summary import Summary, distinct

_RESULTS = """\
{lead} what a private embedding reaches is what the public graph reaches. Of {private} private rows (mechanism and
budget, over {graphs} graphs and two tasks) the gain over the row's own structure-only row (same mechanism and
budget, one public record for all users) has a 95 % interval above 0 in {up}, and below 0 in {down}. Rows of one
graph and task share splits: they are {sets} independent comparisons, and {same} more budgets at which a mechanism's
scores are those of another budget are not counted. Rows significantly above the best structure-only row: {over}.

![Node classification: mechanisms lie on the line that the graph alone reaches]\
(experiments/results/figure2_node.png)

{verdict}

Accuracy or AUC in %, means and 95 % intervals (a best row is the best of many, lucky as well as good):

{baselines}

Every row, private or not, is trained on its raw and on its standardised embedding; the tables show what does better
in validation, over all seeds (the CSV has both). Label propagation chooses its alpha and r by validation. Private
rows are four mechanisms at budgets from {lowest:g} to {highest:g}; *gain* is in points of accuracy or AUC, paired
by split and seed. All tables, the paper's numbers beside ours, and Figures 1 to 4:
[REPORT.md](experiments/results/REPORT.md), rendered by `python -m experiments report` from
[privge.csv](experiments/results/privge.csv), which `python -m experiments privge` computes and continues.
"""

_BENCHMARKS = """\
{table}

The sides of a benchmark take turns in one run, with a new key in each repetition; figures are medians over
*runs*. A row of one run is a single measurement with no other side beside it. Other work ran on the two cores
during some of them: CPU seconds are the fairer column. `ppr` is as fast as SciPy's CSR product at its best (the
same recurrence, in blocks of columns) on one thread, and uses both; the power series needs more products. `python
-m experiments benchmarks` measures them (the torch sides need `pip install torch`); dense sides are our own dense
versions. The chain, LinkTeller and Poincaré embeddings ran on one core (`taskset -c 0`): threads that wait for each
other cost CPU seconds too. The DPRR authors' C code was measured at 41.8 CPU s for n = 4000 on a similar machine.
The {rows} rows of Cora's node task, a training each, took {minutes:.0f} minutes one after the other on busy cores
(the `seconds` of the rows): one training program for all seeds, budgets and mechanisms.
"""


def results(summaries: Sequence[Summary], verdict: str) -> str:
    """The section on private features.

    Args:
      summaries: of the committed protocol.
      verdict: the table of gains, rendered.
    """
    each = [distinct(summary.lines) for summary in summaries]
    lines = [line for known in each for line in known]
    gains = [line.gain for line in lines if line.gain is not None]
    up = sum(significant(gain) and gain.mean > 0 for gain in gains)
    down = sum(significant(gain) and gain.mean < 0 for gain in gains)
    bests = [line.over_best for line in lines if line.over_best is not None and significant(line.over_best)]
    budgets = [line.epsilon for line in lines]
    return _RESULTS.format(
        lead="In these runs" if up <= 2 * len(gains) / 40 else "In most of these runs",
        private=len(gains),
        graphs=len({summary.dataset for summary in summaries}),
        up=up,
        down=down,
        same=sum(line.twin is not None for summary in summaries for line in summary.lines) - len(gains),
        sets=len(each),
        over=sum(best.mean > 0 for best in bests),
        verdict=verdict,
        baselines=_baselines(summaries),
        lowest=min(budgets, default=0.0),
        highest=max(budgets, default=0.0),
    )


def _baselines(summaries: Sequence[Summary]) -> str:
    rows = []
    for summary in summaries:
        non_private = summary.find("non-private", float("inf"))
        labels = summary.find("label-propagation", 0.0)
        private = [line.value for line in summary.lines if line.twin is not None]
        rows.append(
            [
                f"{summary.dataset}, {summary.task}",
                f"{summary.seeds}",
                str(non_private.value) if non_private else "",
                str(max(private, key=lambda value: value.mean)) if private else "",
                str(summary.best_value) if summary.best_value else "",
                str(labels.value) if labels else "",
            ]
        )
    headers = ["data set, task", "seeds", "non-private", "best private", "best structure-only", "label propagation"]
    return markdown(headers, rows)


def benchmarks(table: Path, rows: pd.DataFrame) -> str:
    """The section on speed.

    Args:
      table: the file that the benchmarks wrote.
      rows: tidy results of the committed protocol.
    """
    text = table.read_text() if table.exists() else ""
    cora = rows[(rows.dataset == "cora") & (rows.task == "node")]
    return _BENCHMARKS.format(
        table=re.sub(r"\A[^|]*", "", text).rstrip(), rows=len(cora), minutes=cora.seconds.sum() / 60
    )


def check(path: Path) -> str:
    """The text of a file that sections are to be written to.

    Raises:
      UsageError: where it cannot be read.
    """
    try:
        return path.read_text()
    except OSError as error:
        raise UsageError(f"--readme {path}: it cannot be read ({error.strerror})") from error


def write_sections(path: Path, sections: Mapping[str, str]) -> None:
    """Replace what stands between ``<!-- name -->`` and ``<!-- /name -->`` in a Markdown file.

    Raises:
      UsageError: where the file has no such section.
    """
    text = check(path)
    for name, body in sections.items():
        opening, closing = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        start, end = text.find(opening), text.find(closing)
        if not 0 <= start < end:
            raise UsageError(f"--readme {path}: it has no section between <!-- {name} --> and {closing}")
        text = text[: start + len(opening)] + body.rstrip() + "\n" + text[end:]
    write_atomically(path, text)
