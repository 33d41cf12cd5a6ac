"""What both reports of this folder do with points, a row a draw: intervals, and the files that hold them."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from experiments._runner import REFERENCE, write_atomically
from ldp_jax.metrics import ConfidenceInterval, mean_interval


def interval_of(part: pd.DataFrame, metric: str) -> ConfidenceInterval | None:
    """Of one metric over draws; None without any."""
    values = part[part.metric == metric].value
    return mean_interval(values.to_numpy()) if len(values) else None


def write_with_points(out: Path, name: str, found: pd.DataFrame, sections: Sequence[str]) -> list[Path]:
    """The report in Markdown, and the points where they are a user's: what follows from rows is not committed."""
    written = [out / f"{name}.md"]
    write_atomically(written[0], "\n\n".join(sections) + "\n")
    if out.resolve() != REFERENCE.resolve():
        written.append(out / f"{name}.csv")
        write_atomically(written[-1], found.to_csv(index=False, lineterminator="\n"))
    return written
