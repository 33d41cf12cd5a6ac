"""What every experiment shares.

Cells, rows that survive a kill and have several writers, manifests, progress.
"""

import abc
import contextlib
import csv
import dataclasses
import functools
import hashlib
import io
import json
import math
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import pandas as pd
from filelock import FileLock
from rich.console import Console

COLUMNS = (
    "dataset",
    "task",
    "mechanism",
    "epsilon",
    "seed",
    "metric",
    "value",
    "epsilon_proved",
    "unit",
    "seconds",
    "config",
)
"""Of every tidy result file. Those that the cells of an experiment add follow, then those that it
finds out.
"""

DEFAULT_OUT = Path("results")
"""Where a user's own results go: below the working directory."""

REFERENCE = Path(__file__).parent / "results"
"""The committed results, which are read and shown; only a maintainer writes there, by ``--out``."""

console = Console(
    width=None if sys.stdout.isatty() else 140
)  # a file has no width: room for tables

Row = Mapping[Any, Any]


class UsageError(ValueError):
    """What the user asked for cannot be done.

    The command line prints it in one line and exits with 2.
    """


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run; its text says what is kept."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(abc.ABC):
    """One computation; its fields and the name of a metric identify a row.

    Experiments add fields of their own.
    """

    FOUND: ClassVar[tuple[str, ...]] = ()
    """Fields that the computation finds out, in :attr:`Found.also`; they identify no row."""

    dataset: str
    task: str
    mechanism: str
    """what is released, or which baseline stands in its place"""
    epsilon: float
    """the budget that a row is named by; 0 where nothing private is used, infinity where nothing is
    hidden
    """
    seed: int
    """of the split, the noise and the training"""
    epsilon_proved: float
    """what is true of the release; unless in ``FOUND``, it identifies rows: a changed claim is
    computed
    """
    unit: str
    config: str
    """:func:`config_hash` of the settings, which the manifest spells out"""

    @classmethod
    def of(
        cls,
        settings: Any,
        dataset: str,
        task: str,
        unit: Any,
        mechanism: str,
        epsilon: float,
        seed: int,
        proved: float | None = None,
        **fields: Any,
    ) -> tuple[Self, Any]:
        """A cell and its settings, as plans have them.

        Epsilon itself is proved unless another one is said.
        """
        fields |= {
            "dataset": dataset,
            "task": task,
            "unit": str(unit),
            "config": config_hash(settings),
        }
        proved = epsilon if proved is None else proved
        return cls(
            mechanism=mechanism, epsilon=epsilon, seed=seed, epsilon_proved=proved, **fields
        ), settings

    @property
    @abc.abstractmethod
    def last_metric(self) -> str:
        """The metric that is computed last: with its row the cell is complete."""

    def __str__(self) -> str:
        return f"{self.dataset} {self.task} {self.mechanism} eps {self.epsilon:g} seed {self.seed}"


class Found(NamedTuple):
    """What a cell's computation found."""

    values: Mapping[str, float]
    """by metric, the cell's last metric last; empty where there is nothing to say"""
    also: Mapping[str, Any] = {}
    """columns that describe all of these rows and identify none"""
    notes: Mapping[str, Mapping[str, Any]] = {}
    """what else the manifest says of the cell, by heading"""


def rounded(values: Mapping[str, Any]) -> dict[str, float]:
    """Values as files hold them: six digits after the point."""
    return {name: round(float(value), 6) for name, value in values.items()}


def config_hash(config: Any) -> str:
    """A short name for a resolved configuration: equal settings, equal name, on every machine."""
    return hashlib.sha256(_canonical(config).encode()).hexdigest()[:10]


def _canonical(config: Any) -> str:
    if dataclasses.is_dataclass(config):
        config = dataclasses.asdict(config)  # pyrefly: ignore
    return json.dumps(config, sort_keys=True, default=str)


def check_out(out: Path) -> Path:
    """Make sure that files can be written to a folder before anything is computed for it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(
            dir=out
        ):  # permission bits do not tell: root, read-only mounts, quotas
            pass
    except OSError as error:
        raise UsageError(
            f"--out {out}: no folder that can be written to ({error.strerror})"
        ) from error
    return out


@contextlib.contextmanager
def asked(what: str, *also: type[Exception]) -> Iterator[None]:
    """Turn a ValueError, and ``also`` others, into a UsageError that begins with ``what``."""
    try:
        yield
    except UsageError:
        raise
    except (ValueError, *also) as error:
        raise UsageError(f"{what}: {error}") from error


def check_positive(option: str, *values: float) -> None:
    """Refuse numbers that are not finite and above 0, in words of the command line."""
    for value in values:
        if not 0 < value < math.inf:
            raise UsageError(f"{option} must be above 0 and finite, got {value:g}")


class Results:
    """One experiment's rows and their manifest in a folder, which need not exist to be read."""

    def __init__(
        self, out: Path, name: str, cell: type[Cell] = Cell, also: Sequence[str] = ()
    ) -> None:
        """Name ``out/name.csv`` and ``out/name.manifest.json``.

        ``also`` are columns that identify no row.
        """
        self.csv = out / f"{name}.csv"
        self.manifest = out / f"{name}.manifest.json"
        fields = {field.name: field.type for field in dataclasses.fields(cell)}
        self.columns = (*COLUMNS, *(field for field in fields if field not in COLUMNS), *also)
        self.key = (*(field for field in fields if field not in cell.FOUND), "metric")
        """The columns that identify a row."""
        self._numbers = {name for name, kind in fields.items() if kind in (float, int)}
        self._words: dict[Hashable, type[str]] = {
            name: str for name, kind in fields.items() if kind is str
        }
        self._known: set[tuple[str, ...]] = set()
        self._read_to = 0  # bytes of the CSV that ``_known`` knows
        self._described: dict[str, Any] | None = None

    def read(self, *, mixed: bool = False) -> pd.DataFrame:
        """All whole rows so far.

        Unless ``mixed``, a row may not be there under two data sets or settings.
        """
        text = _whole_lines(self.csv.read_bytes()) if self.csv.exists() else b""
        if not text:
            return pd.DataFrame(columns=list(self.columns))
        self._check_header(
            tuple(text.split(b"\n", 1)[0].decode(errors="replace").rstrip("\r").split(","))
        )
        try:
            frame = pd.read_csv(io.BytesIO(text), dtype=self._words)  # a digest may be all digits
            frame[["value", *self._numbers]].astype(float)
        except ValueError as error:  # of pandas too, and of bytes that are no text
            raise self._damaged(self.csv) from error
        twice = frame.duplicated([name for name in self.key if name != "config"])
        if twice.any() and not mixed:
            row = ", ".join(
                str(frame[twice].iloc[0][name]) for name in ("dataset", "task", "mechanism")
            )
            raise UsageError(
                f"{self.csv} has rows of two data sets of one name, or of two settings, such as "
                f"{row}: rename one, "
                "or give each a folder of its own with --out"
            )
        return frame

    def _damaged(self, file: Path, line: int | None = None) -> UsageError:
        where = f"{file}, line {line}" if line else str(file)
        return UsageError(
            f"{where}: damaged, not of this version: mend it, move it away, or use another --out"
        )

    def row_key(self, row: Row) -> tuple[str, ...]:
        """What identifies a row, as text that a round trip through CSV does not change."""
        found = {name: str(row[name]) for name in self.key}
        for name in self._numbers & found.keys():
            found[name] = f"{float(found[name] or 'nan'):.12g}"
        return tuple(found.values())

    def __contains__(self, cell: Cell) -> bool:
        """Whether a cell's rows are there, all of them, when last looked."""
        return self.row_key({**dataclasses.asdict(cell), "metric": cell.last_metric}) in self._known

    def look(self) -> None:
        """Learn which rows there are, those of other runs too; only what is new is read."""
        self.describe()
        with self._locked():
            self._catch_up()

    def append(
        self,
        rows: Sequence[Row],
        configs: Sequence[Any] = (),
        notes: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a cell's rows that are not there yet, and before them to the manifest.

        No other byte is written.
        """
        with self._locked():
            self._describe(configs, notes or {})
            self._catch_up()
            new = [row for row in rows if self.row_key(row) not in self._known]
            if not new:
                return
            text = io.StringIO()
            writer = csv.DictWriter(text, self.columns, lineterminator="\n")
            if self._read_to == 0:
                writer.writeheader()
            writer.writerows({k: "" if v != v else v for k, v in row.items()} for row in new)
            added = text.getvalue().encode()
            try:
                with open(self.csv, "ab") as file:
                    file.write(added)
                    file.flush()
                    os.fsync(file.fileno())
            except OSError:
                if self.csv.exists():
                    os.truncate(self.csv, self._read_to)
                raise
            self._read_to += len(added)
            self._known |= {self.row_key(row) for row in new}

    def describe(self) -> dict[str, Any]:
        """The manifest: configurations, environments, guarantees, sources of data.

        Empty where there is none.
        """
        if not self.manifest.exists():
            return {}
        try:
            said = json.loads(self.manifest.read_text())
            described = all(
                isinstance(said[key], dict)
                for key in said
                if key not in ("environments", "written")
            )
            described &= all(
                isinstance(each["versions"]["ldp_jax"], str)
                for each in said.get("environments", ())
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise self._damaged(self.manifest) from error
        if not described:
            raise self._damaged(self.manifest)
        return said

    def settings(self) -> dict[str, Any]:
        """The configurations of all rows, by their hash.

        A ``UsageError`` where the manifest lacks one.
        """
        known = self.describe().get("configs", {})
        if not known.keys() >= set(self.read(mixed=True)["config"]):
            raise UsageError(
                f"{self.manifest} does not say how all rows of {self.csv.name} were made: put the "
                "manifest of "
                "these rows beside them, or use another --out"
            )
        return known

    def made_with(self) -> set[str]:
        """The versions of ldp_jax that rows were made with."""
        return {
            environment["versions"]["ldp_jax"]
            for environment in self.describe().get("environments", ())
        }

    def _check_header(self, header: tuple[str, ...]) -> None:
        if header != self.columns:
            raise UsageError(
                f"{self.csv} has other columns than this version writes: move it away or use --out"
            )

    def _catch_up(self) -> None:
        """Read the rows since the last look; what a killed run left half of a row is cut off.

        Under the lock.
        """
        size = self.csv.stat().st_size if self.csv.exists() else 0
        if size < self._read_to:  # another file: taken away, or cut by hand
            self._read_to = 0
            self._known = set()
        if size == self._read_to:
            return
        with open(self.csv, "rb") as file:
            file.seek(self._read_to)
            tail = file.read()
        whole = _whole_lines(tail)
        known = self._keys_of(whole)
        if len(whole) < len(tail):
            os.truncate(self.csv, self._read_to + len(whole))
        self._known |= known
        self._read_to += len(whole)

    def _keys_of(self, whole: bytes) -> set[tuple[str, ...]]:
        """What identifies each of some rows, where they are rows.

        Of a whole file after its header.
        """
        lines = csv.reader(io.StringIO(whole.decode(errors="replace")))
        found = set()
        try:
            if self._read_to == 0 and whole:
                self._check_header(tuple(next(lines)))
            for line in lines:
                row = dict(zip(self.columns, line, strict=True))
                float(row["value"] or "nan")
                found.add(self.row_key(row))
        except UsageError:
            raise
        except (ValueError, csv.Error) as error:
            raise self._damaged(self.csv, lines.line_num if self._read_to == 0 else None) from error
        return found

    def _describe(self, configs: Sequence[Any], notes: Mapping[str, Any]) -> None:
        """Add to the manifest, which is written where that changes it. Under the lock."""
        said: dict[str, Any] = {key: dict(value) for key, value in notes.items()}
        said["configs"] = {
            config_hash(config): json.loads(_canonical(config)) for config in configs
        }
        environment = describe_environment()
        if self._described is None or not _says(self._described, said, environment):
            manifest = self.describe()
            for key, value in said.items():
                manifest.setdefault(key, {}).update(value)
            if environment not in manifest.setdefault("environments", []):
                manifest["environments"].append(environment)
            manifest["written"] = datetime.now(UTC).isoformat(timespec="seconds")
            for stale in self.manifest.parent.glob(f"{self.manifest.name}.*.tmp"):
                stale.unlink(missing_ok=True)  # of killed runs: whoever holds the lock alone writes
            write_atomically(self.manifest, json.dumps(manifest, indent=1, sort_keys=True) + "\n")
            self._described = manifest

    def _locked(self) -> FileLock:
        check_out(self.csv.parent)
        # The system releases it, also when the process is killed.
        return FileLock(self.csv.with_suffix(".lock"))


def _whole_lines(text: bytes) -> bytes:
    return text[: text.rfind(b"\n") + 1]


def _says(manifest: Mapping[str, Any], said: Mapping[str, Any], environment: Any) -> bool:
    known = all(
        manifest.get(key, {}).get(name) == value
        for key in said
        for name, value in said[key].items()
    )
    return known and environment in manifest["environments"]


def run(
    planned: Mapping[Any, Any],
    compute: Callable[[Any, Any], Found],
    results: Results,
    *,
    called: str = "cells",
    check: Callable[[Any, Any], object] = lambda cell, settings: None,
) -> int:
    """Compute the cells whose rows are missing, in their order, and return how many these were.

    A bar, or without a terminal lines on stderr, show how far it is (:mod:`ldp_jax.core.progress`).

    Args:
      planned: cells, and the settings that the column ``config`` of each is the hash of.
      compute: what a cell finds by its settings.
      results: where rows are looked for and appended.
      called: what cells are called where they are counted.
      check: raises a ValueError where a cell cannot be computed; asked of all cells before the
        first is computed.

    Raises:
      Interrupted: on Ctrl-C, which loses the cell in flight alone.
      UsageError: before anything is computed, for an empty plan, a cell that ``check`` refuses, or
        damaged files.
    """
    from ldp_jax.core.progress import phase, watched  # the list of experiments needs no library

    if not planned:
        raise UsageError(f"these words name no {called}: 0 of 0 to compute")
    results.look()
    for cell, settings in planned.items():
        with asked(str(cell)):
            check(cell, settings)
    work = [cell for cell in planned if cell not in results]
    console.print(
        f"{len(work)} of {len(planned)} {called} to compute; rows: {results.csv}", soft_wrap=True
    )
    if len(work) < len(planned) and (others := results.made_with() - {_version()}):
        console.print(
            f"kept rows may be of ldp_jax {', '.join(sorted(others))}, this is {_version()}: "
            "another --out computes all of them",
            soft_wrap=True,
        )
    place = 0
    with watched(results.csv.stem):
        try:
            for place, cell in enumerate(work):
                phase(
                    f"{place + 1} of {len(work)} {called}, {cell}",
                    place / len(work),
                    (place + 1) / len(work),
                )
                start = time.perf_counter()
                with watched(str(cell)):
                    found = compute(cell, planned[cell])
                seconds = round(time.perf_counter() - start, 4)
                shared = {**dataclasses.asdict(cell), "seconds": seconds, **found.also}
                rows = [
                    {**shared, "metric": metric, "value": value}
                    for metric, value in found.values.items()
                ]
                if rows:
                    results.append(rows, [planned[cell]], found.notes)
        except KeyboardInterrupt as stopped:
            kept = (
                f"{len(planned) - len(work) + place} of {len(planned)} {called} are kept in "
                f"{results.csv}"
            )
            raise Interrupted(f"{kept}; the same command goes on from there") from stopped
    return len(work)


def write_atomically(path: Path, text: str) -> None:
    """Write a file whole or not at all, and leave nothing else behind."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "w") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)  # gone already, where all went well


def write_tables(out: Path, name: str, frame: pd.DataFrame, text: str) -> None:
    """Rows that are no cells, their report in Markdown, and the environment."""
    environment = json.dumps(describe_environment(), indent=1, sort_keys=True)
    write_atomically(out / f"{name}.csv", frame.to_csv(index=False))
    write_atomically(out / f"{name}.md", text + "\n")
    write_atomically(out / f"{name}.manifest.json", environment + "\n")


def _version() -> str:
    return metadata.version("ldp_jax")


@functools.cache
def describe_environment() -> dict[str, Any]:
    """Versions and the device, for manifests."""
    import jax

    names = ("ldp_jax", "jax", "jaxlib", "flax", "optax", "jraph", "numpy", "scipy")
    return {
        "python": platform.python_version(),
        "versions": {name: metadata.version(name) for name in names},
        "device": f"{jax.default_backend()}: {jax.devices()[0].device_kind} x {jax.device_count()}",
        "cores": os.cpu_count(),
    }
