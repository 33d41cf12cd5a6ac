"""Shared parts of every experiment.

Cells, rows that survive a kill and have several writers, manifests, progress.
"""

import abc
import contextlib
import copy
import csv
import dataclasses
import functools
import hashlib
import io
import json
import math
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import (
    Callable,
    Generator,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextvars import ContextVar
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import pandas as pd
from filelock import FileLock, Timeout
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

BY = " by "
"""Between a release and somebody's own model, in the name of a row."""


class UsageError(ValueError):
    """A request of the user that cannot be met.

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
    def group(self) -> tuple[Hashable, ...]:
        """The group of cells that are computed together: a share has all of it, or none.

        By default it is one release, on which several classifiers, preprocessings or attacks work.
        """
        return self.dataset, self.task, self.mechanism, self.epsilon, self.seed

    @property
    @abc.abstractmethod
    def last_metric(self) -> str:
        """The metric that is computed last: with its row the cell is complete."""

    release = property(lambda self: parted(self.mechanism)[0])
    """the mechanism without the model"""
    model = property(lambda self: parted(self.mechanism)[1])
    """the word of somebody's own model that is trained on the release; empty for the paper's"""

    def __str__(self) -> str:
        return f"{self.dataset} {self.task} {self.mechanism} eps {self.epsilon:g} seed {self.seed}"


def parted(mechanism: str) -> tuple[str, str]:
    """The release of a row, and the own model that is trained on it; empty for the paper's.

    >>> parted("hds by mine:Network"), parted("counts by degree class")
    (('hds', 'mine:Network'), ('counts by degree class', ''))
    """
    release, _, word = mechanism.partition(BY)
    return (release, word) if ":" in word else (mechanism, "")


class Found(NamedTuple):
    """The result of a cell's computation."""

    values: Mapping[str, float]
    """by metric, the cell's last metric last; empty where there is nothing to say"""
    also: Mapping[str, Any] = {}
    """columns that describe all of these rows and identify none"""
    notes: Mapping[str, Mapping[str, Any]] = {}
    """what else the manifest says of the cell, by heading"""


class Computed(NamedTuple):
    """A cell that was computed: what was found, in how many seconds, and on what."""

    cell: Any
    found: Found
    seconds: float
    environment: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Grid:
    """Which cells of a plan are computed, by which processes, and where their rows go."""

    share: str = ""
    """3/16: the third of 16 parts of the cells alone, as a job of an array"""
    cluster: str = ""
    """compute on Dask workers: local:4, tcp://HOST:PORT or slurm:16"""
    cost: bool = False
    """print how long the missing cells take, by committed rows; compute nothing"""
    out: Path = DEFAULT_OUT
    """where results go, and are looked for"""

    @property
    def whole(self) -> bool:
        """Whether all rows of the plan are there when the run has ended."""
        return not self.share and not self.cost

    def check_grid(self) -> None:
        """Refuse a share or a cluster that does not exist."""
        self.part()
        if not self.cluster:
            return
        try:
            from experiments import _cluster
        except ImportError as error:
            raise UsageError(
                f"--cluster {self.cluster}: Dask is not here, pip install 'ldp_jax[cluster]'"
            ) from error
        _cluster.check(self.cluster)

    def part(self) -> tuple[int, int]:
        """The number of the share, from 1, and how many shares there are."""
        if not self.share:
            return 1, 1
        given = re.fullmatch(r"(\d+)/(\d+)", self.share)
        if given is None or not 1 <= int(given[1]) <= int(given[2]):
            raise UsageError(
                f"--share {self.share}: must be a number and how many shares there are, from 1/16 "
                "to 16/16"
            )
        return int(given[1]), int(given[2])

    def has(self, cell: Cell) -> bool:
        """Whether a cell is of this share: equal groups, equal share, on every machine."""
        number, count = self.part()
        return count == 1 or int(config_hash(cell.group), 16) % count == number - 1


_COSTS: ContextVar[dict[Any, float] | None] = ContextVar("costs", default=None)


@contextlib.contextmanager
def costs() -> Iterator[dict[Any, float]]:
    """The seconds of each cell of the runs within, where only the cost is asked for."""
    found: dict[Any, float] = {}
    token = _COSTS.set(found)
    try:
        yield found
    finally:
        _COSTS.reset(token)


def duration(seconds: float) -> str:
    """Seconds, minutes or hours in words.

    >>> duration(0.4), duration(90), duration(9000)
    ('0.4 seconds', '1.5 minutes', '2.5 hours')
    """
    for unit, least in (("hours", 3600), ("minutes", 60)):
        if seconds >= least:
            return f"{seconds / least:.1f} {unit}"
    return f"{seconds:.1f} seconds" if seconds < 10 else f"{seconds:.0f} seconds"


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
    """Turn a ValueError, and ``also`` others, into a UsageError that begins with ``what``.

    The message names an error that is neither of values nor of files.
    """
    try:
        yield
    except UsageError:
        raise
    except (ValueError, *also) as error:
        kind = "" if isinstance(error, (ValueError, OSError)) else f"{type(error).__name__}: "
        raise UsageError(f"{what}: {kind}{error}") from error


def check_positive(option: str, *values: float) -> None:
    """Refuse numbers that are not finite and above 0, in words of the command line."""
    for value in values:
        if not 0 < value < math.inf:
            raise UsageError(f"{option} must be above 0 and finite, got {value:g}")


class Results:
    """One experiment's rows and their manifest in a folder, which need not exist to be read.

    Shares of a plan write files of their own. All of them are read as one; :meth:`gather` makes
    them one.
    """

    def __init__(
        self, out: Path, name: str, cell: type[Cell] = Cell, also: Sequence[str] = ()
    ) -> None:
        """Name ``out/name.csv`` and ``out/name.manifest.json``.

        ``also`` are columns that identify no row.
        """
        self.name = name
        self.csv = out / f"{name}.csv"
        fields = {field.name: field.type for field in dataclasses.fields(cell)}
        self.columns = (*COLUMNS, *(field for field in fields if field not in COLUMNS), *also)
        self.key = (*(field for field in fields if field not in cell.FOUND), "metric")
        """The columns that identify a row."""
        self._numbers = {name for name, kind in fields.items() if kind in (float, int)}
        self._words: dict[Hashable, type[str]] = {
            name: str for name, kind in fields.items() if kind is str
        }
        self._forget()

    def _forget(self) -> None:
        self._described: dict[str, Any] | None = None
        self._known: dict[Path, set[tuple[str, ...]]] = {}
        self._read_to: dict[Path, int] = {}  # the bytes of each CSV that ``_known`` knows

    @property
    def manifest(self) -> Path:
        """The manifest of the rows in ``csv``."""
        return self.csv.with_suffix(".manifest.json")

    def of_share(self, number: int, count: int) -> "Results":
        """The same rows, of which new ones go to the file of a share."""
        share = copy.copy(self)
        share.csv = self.csv.with_name(f"{self.name}.share-{number}-of-{count}.csv")
        share._forget()
        return share

    def files(self, suffix: str = ".csv") -> list[Path]:
        """The whole file and those of shares, as far as they are there."""
        out = self.csv.parent
        shares = sorted(out.glob(f"{self.name}.share-*-of-*{suffix}"))
        return [path for path in (out / f"{self.name}{suffix}", *shares) if path.exists()]

    def read(self, *, mixed: bool = False) -> pd.DataFrame:
        """All whole rows so far.

        Unless ``mixed``, a row may not be there under two data sets or settings.
        """
        files = self.files()
        rows = b"".join(map(self._rows_in, files))
        if not rows:
            return pd.DataFrame(columns=list(self.columns))
        text = io.BytesIO(self._header + rows)
        try:
            frame = pd.read_csv(text, dtype=self._words)  # a digest may be all digits
            frame[["value", *self._numbers]].astype(float)
        except ValueError as error:  # of pandas too, and of bytes that are no text
            raise self._damaged(*files) from error
        if len(files) > 1:  # a row may be in several of them
            frame = frame.drop_duplicates(list(self.key), ignore_index=True)
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

    @property
    def _header(self) -> bytes:
        return f"{','.join(self.columns)}\n".encode()

    def _rows_in(self, file: Path) -> bytes:
        """The whole rows of a file as they stand there, after a look at its header."""
        header, _, rows = _whole_lines(file.read_bytes()).partition(b"\n")
        if header:
            self._check_header(header, file)
        return rows

    def _damaged(self, *files: Path, line: int | None = None) -> UsageError:
        where = " or ".join(map(str, files)) + (f", line {line}" if line else "")
        return UsageError(
            f"{where}: damaged, not of this version: mend it, move it away, or use another --out"
        )

    def row_key(self, row: Row) -> tuple[str, ...]:
        """The identity of a row, as text that a round trip through CSV does not change."""
        found = {name: str(row[name]) for name in self.key}
        for name in self._numbers & found.keys():
            found[name] = f"{float(found[name] or 'nan'):.12g}"
        return tuple(found.values())

    def __contains__(self, cell: Cell) -> bool:
        """Whether a cell's rows are there, all of them, when last looked."""
        last = self.row_key({**dataclasses.asdict(cell), "metric": cell.last_metric})
        return any(last in known for known in self._known.values())

    def look(self) -> None:
        """Learn which rows there are, those of other runs too; only what is new is read."""
        with self._locked():
            self._catch_up()

    def append(
        self,
        rows: Sequence[Row],
        configs: Sequence[Any] = (),
        notes: Mapping[str, Any] | None = None,
        environment: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a cell's rows that are not there yet, and before them to the manifest.

        No other byte is written. ``environment`` is where they were computed, by default here.
        """
        with self._locked():
            self._describe(configs, notes or {}, environment or describe_environment())
            self._catch_up()
            known = self._known.get(self.csv, ())
            new = [row for row in rows if self.row_key(row) not in known]
            text = io.StringIO()
            writer = csv.DictWriter(text, self.columns, lineterminator="\n")
            writer.writerows({k: "" if v != v else v for k, v in row.items()} for row in new)
            self._add(text.getvalue().encode())

    def _add(self, rows: bytes) -> None:
        """Write further rows to the end of the file, whole or not at all. Under the lock."""
        if not rows:
            return
        size = self._read_to.get(self.csv, 0)
        header = b"" if size else self._header
        try:
            with open(self.csv, "ab") as file:
                file.write(header + rows)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            if self.csv.exists():
                os.truncate(self.csv, size)
            raise
        self._known.setdefault(self.csv, set()).update(self._keys_of(rows, self.csv))
        self._read_to[self.csv] = size + len(header + rows)

    def gather(self) -> int:
        """Move the rows of all shares into the whole file, and return how many files these were.

        A share that still runs goes on in a new file.
        """
        shares = [file for file in self.files() if file != self.csv]
        for file in shares:
            with _lock_of(file) as lock:
                manifest = file.with_suffix(".manifest.json")
                said = self._said_in(manifest)
                notes = {key: value for key, value in said.items() if isinstance(value, dict)}
                text = (self._header + self._rows_in(file)).decode()
                rows = list(csv.DictReader(io.StringIO(text)))
                for environment in said.get("environments", [None]):
                    self.append(rows, notes=notes, environment=environment)
                file.unlink()
                manifest.unlink(missing_ok=True)
                Path(lock.lock_file).unlink(missing_ok=True)
        return len(shares)

    def describe(self) -> dict[str, Any]:
        """The manifest: configurations, environments, guarantees, sources of data.

        Empty where there is none. The manifests of shares are joined.
        """
        return _joined(map(self._said_in, self.files(".manifest.json")))

    def _said_in(self, manifest: Path) -> dict[str, Any]:
        if not manifest.exists():
            return {}
        try:
            said = json.loads(manifest.read_text())
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
            raise self._damaged(manifest) from error
        if not described:
            raise self._damaged(manifest)
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

    def committed(self) -> "Results":
        """The committed rows of the same name."""
        found = copy.copy(self)
        found.csv = REFERENCE / f"{self.name}.csv"
        found._forget()
        return found

    def seconds(self, cells: Iterable[Cell]) -> dict[Cell, float]:
        """The seconds of each cell by its own rows, else by those of its mechanism, else by all.

        NaN where there are no rows.
        """
        rows = self.read(mixed=True).drop_duplicates(
            [name for name in self.key if name != "metric"]
        )
        names = ["dataset", "task", "mechanism", "epsilon", "seed"]
        levels = [rows.groupby(names[:count]).seconds.mean().to_dict() for count in (5, 3)]
        usual = float(rows.seconds.mean()) if len(rows) else math.nan
        found = {}
        for cell in cells:
            row = tuple(getattr(cell, name) for name in names)
            found[cell] = float(levels[0].get(row, levels[1].get(row[:3], usual)))
        return found

    def made_with(self) -> set[str]:
        """The versions of ldp_jax that rows were made with."""
        return {
            environment["versions"]["ldp_jax"]
            for environment in self.describe().get("environments", ())
        }

    def of_others(self) -> str:
        """The versions of ldp_jax but this one that rows may be of, in words; "" for none."""
        others = ", ".join(sorted(self.made_with() - {_version()}))
        return f"ldp_jax {others}, this is {_version()}" if others else ""

    def _check_header(self, header: bytes, file: Path) -> None:
        if header.strip() != self._header.strip():
            raise UsageError(
                f"{file} has other columns than this version writes: move it away or use --out"
            )

    def _catch_up(self) -> None:
        """Read the rows since the last look, of all files. Under the lock of this one."""
        for file in {*self.files(), *self._read_to}:
            size = file.stat().st_size if file.exists() else 0
            if size < self._read_to.get(file, 0):  # it was taken away, gathered, or cut by hand
                del self._read_to[file], self._known[file]
            if size > self._read_to.get(file, 0):
                self._read_on(file)

    def _read_on(self, file: Path) -> None:
        """Read the further rows of a file; what a killed run left half of a row is cut off."""
        start = self._read_to.get(file, 0)
        with open(file, "rb") as opened:
            opened.seek(start)
            tail = opened.read()
        whole = _whole_lines(tail)
        rows = whole
        if whole and not start:
            header, _, rows = whole.partition(b"\n")
            self._check_header(header, file)
        known = self._keys_of(rows, file, headed=not start)
        if len(whole) < len(tail) and file == self.csv:  # other files are not locked
            os.truncate(file, start + len(whole))
        self._known.setdefault(file, set()).update(known)
        self._read_to[file] = start + len(whole)

    def _keys_of(self, rows: bytes, file: Path, *, headed: bool = False) -> set[tuple[str, ...]]:
        """The identities of rows of a file; lines that are no rows are left out.

        ``headed`` says that they are all of it, after its header.
        """
        lines = csv.reader(io.StringIO(rows.decode(errors="replace")))
        found = set()
        try:
            for line in lines:
                row = dict(zip(self.columns, line, strict=True))
                float(row["value"] or "nan")
                found.add(self.row_key(row))
        except (ValueError, csv.Error) as error:
            line = lines.line_num + 1 if headed else None
            raise self._damaged(file, line=line) from error
        return found

    def _describe(
        self, configs: Sequence[Any], notes: Mapping[str, Any], environment: Mapping[str, Any]
    ) -> None:
        """Add to the manifest, which is written where that changes it. Under the lock."""
        said: dict[str, Any] = {key: dict(value) for key, value in notes.items()}
        said.setdefault("configs", {}).update(
            {config_hash(config): json.loads(_canonical(config)) for config in configs}
        )
        if self._described is not None and _says(self._described, said, environment):
            return
        said["environments"] = [environment]
        self._say(said)

    def verified(self, said: str) -> None:
        """Say in the manifest what rows that this version computed anew were found to do."""
        with self._locked():
            self._say({"verified": {_version(): {"found": said}}})

    def _say(self, more: Mapping[str, Any]) -> None:
        """Write the manifest with more in it. Under the lock."""
        manifest = _joined([self._said_in(self.manifest), more])
        manifest["written"] = datetime.now(UTC).isoformat(timespec="seconds")
        for stale in self.manifest.parent.glob(f"{self.manifest.name}.*.tmp"):
            stale.unlink(missing_ok=True)  # of killed runs: whoever holds the lock alone writes
        write_atomically(self.manifest, json.dumps(manifest, indent=1, sort_keys=True) + "\n")
        self._described = manifest

    def _locked(self) -> FileLock:
        check_out(self.csv.parent)
        return _lock_of(self.csv)

    @contextlib.contextmanager
    def claimed(self, cell: Cell, seconds: float) -> Iterator[None]:
        """Keep other runs from a cell as long as this one computes it.

        ``Timeout`` where another one has it for more than these seconds; -1 waits.
        """
        file = self._claims / f"{self.name}-{config_hash(cell)}"
        lock = FileLock(file, seconds)
        while not lock.is_locked:
            self._claims.mkdir(exist_ok=True)
            with contextlib.suppress(FileNotFoundError):  # another run has ended just now
                lock.acquire()
        try:
            yield
        finally:
            file.unlink(missing_ok=True)
            lock.release()

    @property
    def _claims(self) -> Path:
        return self.csv.parent / ".claims"

    def tidy(self) -> None:
        """Remove the lock and the claims of runs that have ended, and none that is held.

        A process that waits for a removed file goes on with a new one.
        """
        claims = self._claims.glob(f"{self.name}-*")
        for file in (self.csv.with_suffix(".lock"), *claims):
            with contextlib.suppress(OSError), FileLock(file, 0):
                file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # there is none, or another run is in it
            self._claims.rmdir()


def _lock_of(file: Path) -> FileLock:
    """The system releases it, also when the process is killed."""
    return FileLock(file.with_suffix(".lock"))


def _joined(manifests: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Join several manifests into one."""
    found: dict[str, Any] = {}
    for one in manifests:
        for key, value in one.items():
            if key == "environments":
                known = found.setdefault(key, [])
                known += [each for each in value if each not in known]
            elif key == "written":
                found[key] = max(value, found.get(key, ""))
            else:
                found.setdefault(key, {}).update(value)
    return found


def _whole_lines(text: bytes) -> bytes:
    return text[: text.rfind(b"\n") + 1]


def _says(manifest: Mapping[str, Any], said: Mapping[str, Any], environment: Any) -> bool:
    known = all(
        manifest.get(key, {}).get(name) == value
        for key in said
        for name, value in said[key].items()
    )
    return known and environment in manifest["environments"]


Compute = Callable[[Any, Any], Found]
"""Finds a cell's rows by its settings. A module has it, so that workers can import it."""


def run(
    planned: Mapping[Any, Any],
    compute: Compute,
    results: Results,
    *,
    called: str = "cells",
    check: Callable[[Any, Any], object] = lambda cell, settings: None,
    kept: Callable[[Any], object] = lambda cell: None,
    grid: Grid | None = None,
) -> int:
    """Compute the cells whose rows are missing, in their order, and return how many these were.

    A bar, or without a terminal lines on stderr, show how far it is (:mod:`ldp_jax.core.progress`).
    Runs of one plan in one folder share its cells: none computes what another is at.

    Args:
      planned: cells, and the settings that the column ``config`` of each is the hash of.
      compute: what a cell finds by its settings.
      results: where rows are looked for and appended.
      called: what cells are called where they are counted.
      check: raises a ValueError where a cell cannot be computed; asked of one seed of all cells
        before the first is computed.
      kept: told of each cell whose rows are on disk.
      grid: the share of the cells, and the workers, if there are any.

    Raises:
      Interrupted: on Ctrl-C, which loses the cells in flight alone.
      UsageError: before anything is computed, for an empty plan, a cell that ``check`` refuses, or
        damaged files.
    """
    grid = grid or Grid()
    if not planned:
        raise UsageError(f"these words name no {called}: 0 of 0 to compute")
    results.describe()
    if grid.share:
        results = results.of_share(*grid.part())
    elif not grid.cost and (count := results.gather()):
        console.print(f"{count} files of shares are now in {results.csv}", soft_wrap=True)
    try:
        return _run(planned, compute, results, called, check, kept, grid)
    finally:
        results.tidy()


def _run(
    planned: Mapping[Any, Any],
    compute: Compute,
    results: Results,
    called: str,
    check: Callable[[Any, Any], object],
    kept: Callable[[Any], object],
    grid: Grid,
) -> int:
    """Compute what is missing of a share, or of all cells, whose file is known."""
    from ldp_jax.core.progress import watched  # the list of experiments needs no library

    results.look()
    mine = {cell: settings for cell, settings in planned.items() if grid.has(cell)}
    first_seeds: dict[Cell, Cell] = {}
    for cell in mine:
        first_seeds.setdefault(dataclasses.replace(cell, seed=0), cell)
    for cell in first_seeds.values():
        with asked(str(cell)):
            check(cell, mine[cell])
    work = {cell: settings for cell, settings in mine.items() if cell not in results}
    console.print(
        f"{len(work)} of {len(mine)} {called} to compute; rows: {results.csv}", soft_wrap=True
    )
    if grid.cost:
        reference = results.committed()
        seconds = reference.seconds(work)
        taken = duration(sum(seconds.values()))
        console.print(f"{taken}, on the machine of {reference.manifest}", soft_wrap=True)
        if (told := _COSTS.get()) is not None:  # a cell of two runs is computed by the first
            told |= {(results.name, cell): each for cell, each in seconds.items()}
        return 0
    if len(work) < len(mine) and (others := results.of_others()):
        console.print(
            f"kept rows may be of {others}: another --out computes all of them", soft_wrap=True
        )
    if grid.cluster and work:
        from experiments import _cluster

        made = _cluster.computed(work, compute, grid.cluster, called)
    else:
        made = _computed_here(work, compute, results, called)
    computed = 0
    with watched(results.csv.stem), contextlib.closing(made):
        try:
            for cell, found, seconds, environment in made:
                computed += 1
                shared = {**dataclasses.asdict(cell), "seconds": seconds, **found.also}
                rows = [
                    {**shared, "metric": metric, "value": value}
                    for metric, value in found.values.items()
                ]
                if rows:
                    results.append(rows, [mine[cell]], found.notes, environment)
                kept(cell)
        except KeyboardInterrupt as stopped:
            there = sum(cell in results for cell in mine)
            raise Interrupted(
                f"{there} of {len(mine)} {called} are kept in {results.csv}; the same command goes "
                "on from there"
            ) from stopped
    return computed


def timed(compute: Compute, cell: Any, settings: Any) -> Computed:
    """Compute one cell in this process."""
    from ldp_jax.core.compilation import leave_room_for_programs
    from ldp_jax.core.progress import watched

    leave_room_for_programs()
    start = time.perf_counter()
    with watched(str(cell)):
        found = compute(cell, settings)
    seconds = round(time.perf_counter() - start, 4)
    return Computed(cell, found, seconds, describe_environment())


def _computed_here(
    work: Mapping[Any, Any], compute: Compute, results: Results, called: str
) -> Generator[Computed]:
    """Compute cells one after the other, each where no other run has it at the time of its turn.

    Groups that another run is in come after the others, and cells that it is at come last.
    """
    from ldp_jax.core.progress import phase

    left = list(work)
    place = 0
    for whole_groups, seconds in ((True, 0.0), (False, 0.0), (False, -1.0)):
        turn, left = left, []
        busy: set[Any] = set()
        for cell in turn:
            if whole_groups and cell.group in busy:
                left.append(cell)
                continue
            try:
                with results.claimed(cell, seconds):
                    results.look()
                    place += 1
                    if cell in results:
                        continue
                    words = f"{place} of {len(work)} {called}, {cell}"
                    phase(words, (place - 1) / len(work), place / len(work))
                    yield timed(compute, cell, work[cell])
            except Timeout:
                busy.add(cell.group)
                left.append(cell)


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


def write_rows(out: Path, name: str, frame: pd.DataFrame) -> None:
    """Rows that are no cells, and the environment."""
    environment = json.dumps(describe_environment(), indent=1, sort_keys=True)
    write_atomically(out / f"{name}.csv", frame.to_csv(index=False))
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
