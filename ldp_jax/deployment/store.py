"""Reports of many devices on disk: Parquet files, and SQLite that says which of them count.

One folder takes uploads from several server processes, late, repeated and damaged ones too. An
upload counts as a whole, once :meth:`ReportStore.add` has returned: the new reports are written and
synced first, then one SQLite transaction names the file and its (user, round, field). A process
that is killed before leaves a file without a name, which nobody reads. SQLite keeps a ledger too
(:meth:`ReportStore.spend`), and names the files of a protocol's steps (:meth:`ReportStore.keep`).
It needs pyarrow (``store``).
"""

import contextlib
import hashlib
import os
import sqlite3
import uuid
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from ldp_jax.accounting.guarantee import Guarantee, PipelineGuarantee
from ldp_jax.accounting.ledger import Budgets, HasGuarantee, Ledger
from ldp_jax.core import validate
from ldp_jax.core.integer_tables import Table
from ldp_jax.core.rounding import log_up
from ldp_jax.deployment.codecs import Codec, FieldReports, NeighbourReports, codec_of
from ldp_jax.deployment.collector import TRIPLE, Decoded, Rejected, decode
from ldp_jax.deployment.neighbours import NeighbourQuestion

try:
    import pyarrow
    import pyarrow.compute
    import pyarrow.dataset
    import pyarrow.parquet
except ImportError as error:
    raise ImportError("a report store needs pyarrow: pip install 'ldp_jax[store]'") from error

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS asked "
    "(digest BLOB PRIMARY KEY, kind TEXT, numerator TEXT, denominator TEXT)",
    "CREATE TABLE IF NOT EXISTS files (name TEXT PRIMARY KEY, digest BLOB, reports INTEGER)",
    "CREATE TABLE IF NOT EXISTS seen (digest BLOB, user INTEGER, round INTEGER, field INTEGER, "
    "PRIMARY KEY (digest, user, round, field)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS ledger (one INTEGER PRIMARY KEY CHECK (one = 1), bytes BLOB)",
    "CREATE TABLE IF NOT EXISTS steps (number INTEGER PRIMARY KEY, name TEXT, digest BLOB)",
)
_WAIT = 600.0  # seconds for another process's transaction


class Received(NamedTuple):
    """The fate of an upload: how many reports count from now on, and why others do not."""

    accepted: int
    rejected: Rejected


class Spent(NamedTuple):
    """The losses of users by all reports that are stored.

    Attributes:
      user: uint64 [users], ascending.
      epsilon: float64 [users], of records or of neighbour lists, rounded up.
    """

    user: np.ndarray
    epsilon: np.ndarray


class ReportStore:
    """A folder of reports about any number of tables and questions; made where there is none.

    >>> import tempfile
    >>> from ldp_jax.core.integer_tables import integer_masses
    >>> from ldp_jax.deployment import Device, Session
    >>> masses = integer_masses(
    ...     np.array([[0.75, 0.25], [0.25, 0.75]]), 1.0986122886681098
    ... )
    >>> table = Table("warner", masses, np.float32([-0.5, 1.5]), "category")
    >>> session = Session(Device.from_secret(bytes(range(32))), budget=2.0)
    >>> sent = session.report(table, 1, user=7, round=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = ReportStore(folder)
    ...     first, again = store.add(sent, table), store.add(sent, table)
    ...     found = next(store.read(table))
    >>> (
    ...     first.accepted,
    ...     again.rejected.replayed,
    ...     found.user.tolist(),
    ...     found.output.tolist(),
    ... )
    (1, 1, [7], [1])
    """

    def __init__(self, folder: str | os.PathLike) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._database() as database:
            for statement in _SCHEMA:
                database.execute(statement)

    def __repr__(self) -> str:
        return f"ReportStore({str(self.folder)!r})"

    def add(
        self, data: bytes, asked: Table | NeighbourQuestion, *, key: bytes | None = None
    ) -> Received:
        """Keep the reports of an upload that are whole, about ``asked``, and not there yet.

        ``data`` are reports one after the other, in any order; :func:`~ldp_jax.deployment.decode`
        explains ``key``. The first report of a user counts, whoever's key it has: compare before
        what users ``decode`` finds.
        """
        codec = codec_of(asked)
        found = decode(data, asked, key=key)
        loss = codec.loss
        known = (codec.digest, codec.of.capitalize(), str(loss.numerator), str(loss.denominator))
        columns = (found.user.view(np.int64), found.round, found.field)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        see = "INSERT OR IGNORE INTO seen VALUES (?, ?, ?, ?)"
        with self._database() as database:
            database.execute("INSERT OR IGNORE INTO asked VALUES (?, ?, ?, ?)", known)
            # The places of the reports that are new; they count as seen from now on.
            inserted = [database.execute(see, (codec.digest, *row)).rowcount for row in rows]
            new = np.flatnonzero(inserted)
            if len(new):
                output = found.output[new]
                digests = pyarrow.array([codec.digest.hex()] * len(new))
                table = {
                    "user": found.user[new],
                    "round": found.round[new],
                    "index": found.field[new],
                    "value": pyarrow.array(output if output.ndim == 1 else list(output)),
                    "mechanism": digests.dictionary_encode(),
                    "epsilon": np.full(len(new), log_up(loss)),
                }
                row = (self._write_table(pyarrow.table(table)), codec.digest, len(new))
                database.execute("INSERT INTO files VALUES (?, ?, ?)", row)
        replayed = found.rejected.replayed + len(found.user) - len(new)
        return Received(len(new), found.rejected._replace(replayed=replayed))

    def read(
        self,
        asked: Table | NeighbourQuestion,
        *,
        rounds: Sequence[int] | None = None,
        rows: int = 2**20,
    ) -> Iterator[Decoded]:
        """The reports about a table or question; no (user, round, field) comes twice.

        They come at most ``rows`` at a time, those of some ``rounds`` alone. ``OSError`` for a file
        that is missing or damaged; of damage that only the number of rows shows, at the end.
        """
        codec = codec_of(asked)
        validate.integer_in(1, rows=rows)
        for one in () if rounds is None else rounds:
            validate.integer_in(0, 2**32 - 1, rounds=one)
        with self._database() as database:
            paths, total = self._files(database, codec)
        for batch in self._batches(codec, paths, total, rows):
            if rounds is not None:
                wanted = np.array(rounds, np.uint32)
                batch = batch.filter(pyarrow.compute.field("round").isin(wanted))
            if not batch.num_rows:
                continue
            value = batch.column("value")
            listed = pyarrow.types.is_list(value.type)
            output = np.asarray(value.to_pylist() if listed else value.to_numpy(), np.int32)
            yield Decoded(
                user=batch.column("user").to_numpy(),
                round=batch.column("round").to_numpy(),
                field=batch.column("index").to_numpy(),
                output=output,
                estimate=codec.estimate(output),
                rejected=Rejected(0, 0, 0, 0),
                seen=np.zeros(0, TRIPLE),
                digest=codec.digest,
            )

    def _batches(
        self, codec: Codec, paths: list[Path], missed: int, rows: int = 2**20
    ) -> Iterator[pyarrow.RecordBatch]:
        """All that some files hold: ``missed`` reports about one table or question."""
        if not paths:
            return
        checked = pyarrow.dataset.ParquetFragmentScanOptions(page_checksum_verification=True)
        kind = pyarrow.dataset.ParquetFileFormat(default_fragment_scan_options=checked)
        try:
            for batch in pyarrow.dataset.dataset(paths, format=kind).to_batches(batch_size=rows):
                missed -= batch.num_rows
                about = batch.column("mechanism").unique().to_pylist()
                if about and about != [codec.digest.hex()]:  # a whole file of something else
                    raise self._damaged(f"some hold reports about another {codec.of}")
                yield batch
        except pyarrow.ArrowException as error:  # a file was cut short, or has other columns
            raise self._damaged(str(error)) from error
        if missed:  # checksums are of pages: a footer may hide some
            raise self._damaged(f"they lack {missed} reports that were stored")

    def _damaged(self, why: str) -> OSError:
        return OSError(f"files of {self.folder} are damaged: {why}")

    def all(
        self, asked: Table | NeighbourQuestion, *, rounds: Sequence[int] | None = None
    ) -> Decoded:
        """The same at once, as :func:`~ldp_jax.deployment.vectors` and questions read them."""
        empty = decode(b"", asked)
        parts = [empty, *self.read(asked, rounds=rounds)]
        columns = ("user", "round", "field", "output", "estimate")
        joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in columns}
        return Decoded(**joined, rejected=empty.rejected, seen=empty.seen, digest=empty.digest)

    def spent(self, kind: type[Table] | type[NeighbourQuestion] = Table) -> Spent:
        """Each user's loss by stored reports: about the record by tables, about a bit by questions.

        A report that never arrived cost its user as much: :meth:`Session.spent` on the device has
        all. One answer for good counts in each round that it was sent. A class of record and list,
        which costs as much of a bit, is among tables alone.
        """
        of = FieldReports.of if issubclass(kind, Table) else NeighbourReports.of
        query = "SELECT user, COUNT(*) FROM seen WHERE digest = ? GROUP BY user"
        users = [np.zeros(0, np.uint64)]
        losses = [np.zeros(0)]
        with self._database() as database:
            asked = database.execute("SELECT * FROM asked WHERE kind = ?", (of.capitalize(),))
            for digest, _, numerator, denominator in asked.fetchall():
                rows = database.execute(query, (digest,)).fetchall()
                user, times = np.array(rows, np.int64).reshape(-1, 2).T
                loss = log_up(Fraction(int(numerator), int(denominator)))
                users.append(user.astype(np.uint64))
                losses.append(np.nextafter(times * loss, np.inf))  # the product, rounded up
        who = np.unique(np.concatenate(users))
        total = np.zeros(len(who))
        for user, loss in zip(users, losses, strict=True):
            where = np.searchsorted(who, user)
            total[where] = np.where(
                total[where] > 0, np.nextafter(total[where] + loss, np.inf), loss
            )
        return Spent(who, total)

    def ledger(self) -> Ledger:
        """The ledger that :meth:`spend` has written; empty and without a budget before."""
        with self._database() as database:
            return _ledger(database) or Ledger()

    def spend(
        self,
        name: str,
        release: Guarantee | PipelineGuarantee | HasGuarantee,
        budget: Budgets = None,
    ) -> Ledger:
        """Write what a result spent, once: a server that begins anew writes it again at no cost.

        A ``release`` is a guarantee, or a result that has one. The ``budget`` is the ledger's, when
        first written, or None for one that only adds up; later the same, or None.
        ``BudgetExceededError`` if it does not fit: nothing is written. ``ValueError`` for another
        budget than the ledger's, and a name that has another cost.
        """
        with self._database() as database:
            kept = _ledger(database)
            if kept is None:
                kept = Ledger(budget)
            elif budget is not None and set(Ledger(budget).budgets) != set(kept.budgets):
                raise ValueError(f"budget must be that of the ledger, {kept.budget}, got {budget}")
            before = [line for line in kept.releases if line.name == name]
            if before:
                same = before == list(Ledger().spend(name, release).releases)
                rule = f"name {name!r} is of another release: {before[0]}"
                validate.require(same, rule)
            spent = kept if before else kept.spend(name, release)
            database.execute("INSERT OR REPLACE INTO ledger VALUES (1, ?)", (spent.to_bytes(),))
        return spent

    def keep(self, number: int, data: bytes) -> bytes:
        """Keep the bytes of a protocol's step, unless another server has; return those that count.

        Steps have the numbers 0, 1, ...; ``ValueError`` for one that leaves a number out. The bytes
        are synced before the transaction that names their file.
        """
        with self._database() as database:
            following = database.execute("SELECT COUNT(*) FROM steps").fetchone()[0]
            validate.integer_in(0, following, number=number)
            if number == following:
                name = self._write("step", lambda file: file.write(data))
                row = (number, name, hashlib.sha256(data).digest())
                database.execute("INSERT INTO steps VALUES (?, ?, ?)", row)
            self._forget(database, "step", "SELECT name FROM steps")
        kept = self.kept(number)
        assert kept is not None
        return kept[1]

    def kept(self, number: int | None = None) -> tuple[int, bytes] | None:
        """The number and bytes of a step, by default of the last one; None where there is none.

        ``OSError`` for a file that is missing or damaged.
        """
        query = "SELECT * FROM steps WHERE number = ifnull(?, number) ORDER BY number DESC LIMIT 1"
        with self._database() as database:
            found = database.execute(query, (number,)).fetchone()
        if found is None:
            return None
        at, name, digest = found
        data = (self.folder / name).read_bytes()
        if hashlib.sha256(data).digest() != digest:
            raise self._damaged(f"{name} is not what was stored")
        return at, data

    def compact(self, asked: Table | NeighbourQuestion) -> None:
        """Join the files about a table or question into one, and remove those that nothing names.

        Not while somebody reads: a reader opens files as it comes to them. ``OSError`` as of
        :meth:`read`.
        """
        codec = codec_of(asked)
        with self._database() as database:
            paths, total = self._files(database, codec)
            if len(paths) > 1:
                batches = self._batches(codec, paths, total)
                name = self._write_table(pyarrow.Table.from_batches(batches))
                database.execute("DELETE FROM files WHERE digest = ?", (codec.digest,))
                database.execute("INSERT INTO files VALUES (?, ?, ?)", (name, codec.digest, total))
        with self._database() as database:
            self._forget(database, "parquet", "SELECT name FROM files")

    def _forget(self, database: sqlite3.Connection, suffix: str, query: str) -> None:
        """Remove files that no row names; nobody writes meanwhile."""
        named = {name for (name,) in database.execute(query)}
        for path in self.folder.glob(f"*.{suffix}*"):
            if path.name not in named:
                path.unlink()

    @contextlib.contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        """A transaction that no other process's overlaps; it counts if nothing is raised."""
        path = self.folder / "state.sqlite"
        database = sqlite3.connect(path, timeout=_WAIT, isolation_level=None)
        try:
            # A journal that comes back after a power cut would undo what was committed.
            database.execute("PRAGMA synchronous = EXTRA")
            database.execute("BEGIN IMMEDIATE")
            yield database
            database.execute("COMMIT")
        finally:
            database.close()  # what was not committed is rolled back

    def _files(self, database: sqlite3.Connection, codec: Codec) -> tuple[list[Path], int]:
        """The files that count, and how many reports they hold together."""
        query = "SELECT name, reports FROM files WHERE digest = ? ORDER BY rowid"
        found = database.execute(query, (codec.digest,)).fetchall()
        return [self.folder / name for name, _ in found], sum(reports for _, reports in found)

    def _write_table(self, table: pyarrow.Table) -> str:
        return self._write(
            "parquet",
            lambda file: pyarrow.parquet.write_table(table, file, write_page_checksum=True),
        )

    def _write(self, suffix: str, write: Callable[[BinaryIO], object]) -> str:
        """A file that is whole and on the disk before it has its name."""
        name = f"{uuid.uuid4().hex}.{suffix}"
        unfinished = self.folder / f"{name}.part"
        with unfinished.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(self.folder / name)
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return name


def _ledger(database: sqlite3.Connection) -> Ledger | None:
    found = database.execute("SELECT bytes FROM ledger").fetchone()
    return None if found is None else Ledger.from_bytes(found[0])
