"""The README's sections on private features and on speed, rendered from results: no number is typed by hand."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from experiments._report import markdown, significant
from experiments._runner import UsageError, write_atomically
from experiments.privge.summary import Summary, tally

_RESULTS = """\
{lead} what a private embedding reaches is what the public graph reaches. Of {private} private rows (mechanism and
budget, over {graphs} graphs and two tasks; repeats of another budget's row left out) the gain over the row's own
structure-only row (same mechanism and budget, one public record for all users) has a 95 % interval above 0 in {up},
and below 0 in {down}. Rows of a table share splits and keys, so a table is one trial: of {tables} mean gains over a
table's rows, {tables_up} have an interval above 0 and {tables_down} below. Rows significantly above the best
structure-only row: {over}.{striking}

![Node classification: mechanisms lie on the line that the graph alone reaches]\
(experiments/results/figure2_node.png)

{verdict}

Accuracy or AUC in %, means and 95 % intervals (a best row is the best of many, lucky as well as good):

{baselines}

Every row, private or not, is trained on its raw and on its standardised embedding; the tables show what does better
in validation, over all seeds (the CSV has both). *Graph alone* is label propagation for nodes, its alpha and r by
validation, and for links an index that validation chooses: common neighbours, resource allocation or preferential
attachment. Private rows are four mechanisms at budgets from {lowest:g} to {highest:g}; *gain* is in points of
accuracy or AUC, paired by split and seed. All tables, the paper's numbers beside ours, and Figures 1 to 4:
[REPORT.md](experiments/results/REPORT.md), rendered by `python -m experiments report` from
[privge.csv](experiments/results/privge.csv), which `python -m experiments privge` computes and continues. Every
table and figure of the five papers, and on which data it is computed: [papers.md](experiments/results/papers.md).
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


def results(summaries: Sequence[Summary], verdict: str, striking: str) -> str:
    """The section on private features."""
    counted = [line for summary in summaries for line in summary.counted()]
    up, down, over = tally(counted)
    tables = [summary.mean_gain for summary in summaries if summary.mean_gain is not None]
    clear = [gain.mean for gain in tables if significant(gain)]
    budgets = [line.epsilon for line in counted]
    return _RESULTS.format(
        lead="In these runs" if max(clear, default=0.0) <= 0 else "In most of these runs",
        private=len(counted),
        graphs=len({summary.dataset for summary in summaries}),
        up=up,
        down=down,
        tables=len(tables),
        tables_up=sum(mean > 0 for mean in clear),
        tables_down=sum(mean < 0 for mean in clear),
        over=over,
        striking=striking,
        verdict=verdict,
        baselines=_baselines(summaries),
        lowest=min(budgets, default=0.0),
        highest=max(budgets, default=0.0),
    )


def _baselines(summaries: Sequence[Summary]) -> str:
    rows = []
    for summary in summaries:
        non_private = summary.find("non-private", float("inf"))
        labels = summary.find("label-propagation" if summary.task == "node" else "link-indices", 0.0)
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
    headers = ["data set, task", "seeds", "non-private", "best private", "best structure-only", "graph alone"]
    return markdown(headers, rows)


def benchmarks(table: Path, rows: pd.DataFrame) -> str:
    """The section on speed."""
    text = table.read_text() if table.exists() else ""
    cora = rows[(rows.dataset == "cora") & (rows.task == "node")]
    return _BENCHMARKS.format(
        table=re.sub(r"\A[^|]*", "", text).rstrip(), rows=len(cora), minutes=cora.seconds.sum() / 60
    )


def beside_the_rows(text: str) -> str:
    """A passage whose links start at the folder of the rows."""
    return text.replace("](experiments/results/", "](")


def check(path: Path) -> str:
    """The text of a file that sections are to be written to."""
    try:
        return path.read_text()
    except OSError as error:
        raise UsageError(f"--readme {path}: it cannot be read ({error.strerror})") from error


def write_sections(path: Path, sections: Mapping[str, str]) -> None:
    """Replace what stands between ``<!-- name -->`` and ``<!-- /name -->`` in a Markdown file."""
    text = check(path)
    for name, body in sections.items():
        opening, closing = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        start, end = text.find(opening), text.find(closing)
        if not 0 <= start < end:
            raise UsageError(f"--readme {path}: it has no section between <!-- {name} --> and {closing}")
        text = text[: start + len(opening)] + body.rstrip() + "\n" + text[end:]
    write_atomically(path, text)
