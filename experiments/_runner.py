"""What every experiment shares: tidy results that survive a kill, manifests, progress.

A result file is one CSV: the columns that all experiments share, then those of its own. It is rewritten whole
and renamed into place after each finished row, under a lock, so that a killed run leaves complete rows and two
runs may write to one folder. A run started again computes only the rows that are missing.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

COLUMNS = (
    "dataset", "task", "mechanism", "epsilon", "k", "seed", "metric", "value", "epsilon_proved", "unit",
    "seconds", "config",
)  # fmt: skip
"""Of every tidy result file. All but ``value`` and ``seconds`` identify a row; of the columns that an experiment
adds, those do that it says so of.
"""

KEY = tuple(column for column in COLUMNS if column not in ("value", "seconds"))

DEFAULT_OUT = Path(__file__).parent / "results"

console = Console(width=None if sys.stdout.isatty() else 140)  # a file has no width: room for tables

Row = Mapping[Any, Any]


def config_hash(config: Any) -> str:
    """A short name for a resolved configuration: equal settings, equal name, on every machine.

    >>> len(config_hash({"epochs": 3}))
    10
    """
    return hashlib.sha256(_canonical(config).encode()).hexdigest()[:10]


def _canonical(config: Any) -> str:
    plain = dataclasses.asdict(config) if dataclasses.is_dataclass(config) else config  # pyrefly: ignore
    return json.dumps(plain, sort_keys=True, default=str)


def row_key(row: Row, further: Sequence[str] = ()) -> tuple[str, ...]:
    """What identifies a row, as text that a round trip through CSV does not change."""
    return tuple(f"{float(row[c]):.12g}" if c in _NUMBERS else str(row[c]) for c in (*KEY, *further))


_NUMBERS = frozenset({"epsilon", "k", "seed", "epsilon_proved"})


class UsageError(ValueError):
    """What the user asked for cannot be done; the command line prints it in one line and exits with 2."""


def check_out(out: Path) -> Path:
    """Make sure that files can be written to a folder before anything is computed for it.

    Raises:
      UsageError: where ``out`` is a file, is below one, or cannot be written to.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):  # permission bits do not tell: root, read-only mounts, quotas
            pass
    except OSError as error:
        raise UsageError(f"--out {out}: no folder that can be written to ({error.strerror})") from error
    return out


class Results:
    """One experiment's CSV and its manifest in ``out``."""

    def __init__(self, out: Path, name: str, extra: Sequence[str] = (), identity: Sequence[str] = ()) -> None:
        """Open (or begin) ``out/name.csv``.

        Args:
          out: the folder.
          name: of the experiment.
          extra: columns of its own, after the others; what a row found out besides its value.
          identity: columns of its own, after :data:`COLUMNS`, that identify a row as well.

        Raises:
          UsageError: where the folder cannot be written to.
        """
        self.csv = check_out(out) / f"{name}.csv"
        self.manifest = out / f"{name}.manifest.json"
        self.identity = tuple(identity)
        self.columns = (*COLUMNS, *identity, *extra)

    def read(self) -> pd.DataFrame:
        """All rows so far."""
        if not self.csv.exists():
            return pd.DataFrame(columns=list(self.columns))
        frame = pd.read_csv(self.csv)
        if tuple(frame.columns) != self.columns:
            raise UsageError(f"{self.csv} has other columns than this version writes: move it away or use --out")
        return frame

    def done(self) -> set[tuple[str, ...]]:
        """The identities of all rows so far."""
        return {self.key(row) for row in self.read().to_dict("records")}

    def key(self, row: Row) -> tuple[str, ...]:
        """What identifies a row of this file."""
        return row_key(row, self.identity)

    def append(
        self, rows: Sequence[Row], configs: Sequence[Any] = (), notes: Mapping[str, Any] | None = None
    ) -> None:
        """Add the rows of a finished cell, and what they were made with."""
        with self._locked():
            frame = self.read()
            known = {self.key(row) for row in frame.to_dict("records")}
            new = [row for row in rows if self.key(row) not in known]
            if new:
                added = pd.DataFrame(new, columns=list(self.columns))
                write_atomically(
                    self.csv, (added if frame.empty else pd.concat([frame, added])).to_csv(index=False)
                )
            self._describe(configs, notes or {})

    def describe(self) -> dict[str, Any]:
        """The manifest: configurations, environments, guarantees, sources of data."""
        return json.loads(self.manifest.read_text())

    def _describe(self, configs: Sequence[Any], notes: Mapping[str, Any]) -> None:
        manifest = json.loads(self.manifest.read_text()) if self.manifest.exists() else {}
        known = manifest.setdefault("configs", {})
        for config in configs:
            known[config_hash(config)] = json.loads(_canonical(config))
        environment = describe_environment()
        runs = manifest.setdefault("environments", [])
        if environment not in runs:
            runs.append(environment)
        for key, value in notes.items():
            known_notes = manifest.setdefault(key, {})
            known_notes.update(value)
        manifest["written"] = datetime.now(UTC).isoformat(timespec="seconds")
        write_atomically(self.manifest, json.dumps(manifest, indent=1, sort_keys=True) + "\n")

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            import fcntl
        except ImportError:  # no advisory locks on this platform: one run at a time
            yield
            return
        with open(self.csv.with_suffix(".lock"), "w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)  # released by the system, also when the process is killed
            for path in (self.csv, self.manifest):  # whoever holds the lock alone writes: these are of killed runs
                for stale in path.parent.glob(f"{path.name}.*.tmp"):
                    stale.unlink(missing_ok=True)
            yield


def write_atomically(path: Path, text: str) -> None:
    """Write a file whole or not at all, and leave nothing else behind."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "w") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)  # gone already, where all went well


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


def progress() -> Progress:
    """A progress bar with the time left; plain lines where there is no terminal."""
    return Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        disable=not sys.stderr.isatty() and not console.is_terminal,
    )
