"""Scores of one method beside others: as they are kept, and what they say."""

import csv
import dataclasses
import io
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

from ldp_jax.learning.metrics import ConfidenceInterval, mean_interval

__all__ = ["Comparison", "Row", "append", "read"]

__dir__ = lambda: __all__

ALONE = "nothing private"
PRIVATE, PLACEBO, DEFAULT, CEILING = "private", "permuted", "public record", "without noise"
"""Whose reports a row is made of; the last three stand beside one's own method."""

ALL = "all"
THIRDS = ("low degree", "middle degree", "high degree")


class Row(NamedTuple):
    """One score.

    Attributes:
      data: the name of the data set.
      hides: what is private.
      panel: the share of each class that is public.
      method: see :class:`~ldp_jax.bench.methods.Method`.
      users: whose reports: ``private``, ``permuted``, ``public record`` or ``without noise``.
      epsilon: the column; 0 where nothing private is used, infinite without noise.
      seed: of the draw and of all noise.
      among: ``all`` users whose class is asked for, those of a third by degree, or of a class.
      accuracy: in [0, 1].
      proved: the largest epsilon of the driver's guarantee for what is hidden.
      guarantee: all of it, by unit.
      seconds: of the call, its compilation included.
      memory: bytes by which the process's memory rose at most in the call, its compilation
        included; without arrays on an accelerator, and NaN where the system is not Linux.
      download: bytes to each device, over all rounds; ``upload``: from it.
      versions: of ldp_jax and jax.
      made_of: a digest of the data set and of the files that define the method and the mechanisms
        within it; empty where one of them is no file.
    """

    data: str
    hides: str
    panel: float
    method: str
    users: str
    epsilon: float
    seed: int
    among: str
    accuracy: float
    proved: float
    guarantee: str
    seconds: float
    memory: float
    download: int
    upload: int
    versions: str
    made_of: str


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Rows of one method beside others, on one data set.

    Attributes:
      own: the name of the method that was compared.
      rows: all scores.
      verdicts: what :func:`ldp_jax.verification.check` says, by epsilon; empty for protocols.
      skipped: why a row is missing, by its name.
    """

    own: str
    rows: tuple[Row, ...]
    verdicts: dict[float, Any] = dataclasses.field(default_factory=dict)
    skipped: dict[str, str] = dataclasses.field(default_factory=dict)

    def scores(
        self, method: str, epsilon: float, users: str = PRIVATE, among: str = ALL
    ) -> dict[int, float]:
        """Accuracies in percent, by seed."""
        return {
            row.seed: 100 * row.accuracy
            for row in self.rows
            if (row.method, row.users, row.among) == (method, users, among)
            and row.epsilon == epsilon
        }

    def mean(self, method: str, epsilon: float, users: str = PRIVATE) -> ConfidenceInterval:
        """The mean accuracy in percent, and its 95 % interval."""
        return self._interval(method, epsilon, self.scores(method, epsilon, users).values())

    def gain(
        self, method: str, epsilon: float, users: str = PRIVATE, among: str = ALL
    ) -> ConfidenceInterval:
        """Points over what is known without private data, seed by seed."""
        mine = self.scores(method, epsilon, users, among)
        alone = self.scores(ALONE, 0.0, PRIVATE, among)
        return self._interval(method, epsilon, [mine[seed] - alone[seed] for seed in mine])

    def over(self, rival: str, epsilon: float) -> ConfidenceInterval:
        """Points of the own method over another one, seed by seed."""
        mine = self.scores(self.own, epsilon)
        theirs = self.scores(rival, epsilon)
        both = [seed for seed in mine if seed in theirs]
        return self._interval(rival, epsilon, [mine[seed] - theirs[seed] for seed in both])

    def _interval(
        self, method: str, epsilon: float, values: Collection[float]
    ) -> ConfidenceInterval:
        if not values:
            raise ValueError(
                f"no draw has {method!r} at epsilon {epsilon:g} among these users: methods are"
                f" {', '.join((*self.methods, ALONE))}, budgets {self.epsilons}"
            )
        return mean_interval(list(values))

    @property
    def methods(self) -> tuple[str, ...]:
        """All methods but the one that uses nothing private, the own one first."""
        names = dict.fromkeys(row.method for row in self.rows if row.method != ALONE)
        return (self.own, *(name for name in names if name != self.own))

    @property
    def epsilons(self) -> tuple[float, ...]:
        """The columns."""
        return tuple(
            sorted({row.epsilon for row in self.rows if row.users == PRIVATE and row.epsilon})
        )

    def __str__(self) -> str:
        from ldp_jax.bench.page import text

        return text(self)

    def __repr__(self) -> str:
        others = len(self.methods) - 1
        return f"Comparison({self.own} beside {others} others, {len(self.rows)} rows)"

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write ``bench.csv``, ``bench.png`` and ``bench.html``; the path of the page."""
        from ldp_jax.bench.page import save

        return save(self, Path(folder))


# --- Rows on disk ---------------------------------------------------------------------------------


def _file(folder: Path) -> Path:
    return folder / "bench.csv"


def read(folder: Path | None) -> list[Row]:
    """The rows of a folder; none of one that is not there. ``ValueError`` for other columns."""
    if folder is None:
        return []
    kinds = Row.__annotations__
    lines = list(csv.DictReader(io.StringIO(_whole_lines(folder).decode(), newline="")))
    if lines and list(lines[0]) != list(Row._fields):
        raise ValueError(f"{_file(folder)} has other columns: give another folder")
    return [Row(**{name: kinds[name](line[name]) for name in Row._fields}) for line in lines]


def append(folder: Path | None, rows: list[Row]) -> None:
    """Add the rows of one run, which a run that is killed keeps."""
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    whole = _whole_lines(folder)
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    if not whole:
        writer.writerow(Row._fields)
    writer.writerows(rows)
    with _file(folder).open("ab") as file:
        file.truncate(len(whole))
        file.write(text.getvalue().encode())


def _whole_lines(folder: Path) -> bytes:
    """The file of a folder without the line that a killed run left half written."""
    path = _file(folder)
    text = path.read_bytes() if path.exists() else b""
    return text[: text.rfind(b"\n") + 1]
