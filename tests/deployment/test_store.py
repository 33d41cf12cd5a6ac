"""Reports on disk: no report is lost or counted twice, whoever is killed; and what is read is what
was sent.
"""

import contextlib
import signal
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import jax
import numpy as np
import pyarrow.parquet
import pytest

from ldp_jax import deployment, features, servers
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RECORD, Budget, Guarantee
from ldp_jax.accounting.ledger import BudgetExceededError, Ledger
from ldp_jax.core.rounding import log_up
from ldp_jax.deployment.codecs import codec_of
from ldp_jax.deployment.store import ReportStore
from ldp_jax.graph import graphs
from ldp_jax.graph.propagation import operator, ppr
from tests.deployment.vectors import GRID, SECOND, session

USERS = 30
DIM = 8
K = 3
QUESTION = deployment.Question(5, np.arange(40) % 2, num_groups=2, epsilon=1.0)
RECORDS = np.random.default_rng(0).uniform(-1, 1, (USERS, DIM))


def upload(user, round=0):
    return session().report_sampled(GRID, RECORDS[user], K, user=1000 + user, round=round)


UPLOADS = [upload(user) for user in range(USERS)]


def triples(found):
    return sorted(zip(found.user.tolist(), found.round.tolist(), found.field.tolist(), strict=True))


def test_late_repeated_shuffled_and_damaged_uploads(tmp_path):
    store = ReportStore(tmp_path)
    joined = bytearray(b"".join(UPLOADS[:10]))
    joined[40] ^= 1
    first = store.add(bytes(joined), GRID)
    assert (first.accepted, first.rejected.damaged, first.rejected.replayed) == (29, 1, 0)
    assert store.add(b"".join(UPLOADS[::-1]), GRID).rejected.replayed == 29
    assert ReportStore(tmp_path).add(UPLOADS[3], GRID) == (0, deployment.Rejected(0, 0, 0, K))
    whole = deployment.decode(b"".join(UPLOADS), GRID)
    found = store.all(GRID)
    order, expected = (np.lexsort((x.field, x.user)) for x in (found, whole))
    for name in ("user", "round", "field", "output", "estimate"):
        np.testing.assert_array_equal(getattr(found, name)[order], getattr(whole, name)[expected])
    read = list(store.read(GRID, rows=7))
    assert sum(len(part.user) for part in read) == USERS * K
    assert max(len(part.user) for part in read) <= 7
    assert sum(part.rejected.total for part in read) == 0
    store.add(b"".join(upload(user, 6) for user in (2, 5)) + upload(9, 7), GRID)
    for rounds, users in (([4], []), ([6], [2, 5]), ([7, 4, 6], [2, 5, 9]), ([0], range(USERS))):
        found = store.all(GRID, rounds=rounds)
        assert sorted(set(found.user.tolist())) == [1000 + user for user in users]
        assert set(found.round.tolist()) <= set(rounds)


def counts_of(*users):
    lists = deployment.Session(session().device, budget=Budget(2.0, unit=NEIGHBOUR_LIST))
    return b"".join(lists.report_neighbours(QUESTION, [1, 2, 3], user=user) for user in users)


def test_files_without_a_name_are_not_read_and_go_and_damaged_ones_are_refused(tmp_path):
    store = ReportStore(tmp_path)
    for data in UPLOADS:
        store.add(data, GRID)
    (tmp_path / "0123.parquet").write_bytes(b"torn")
    (tmp_path / "0124.parquet.part").write_bytes(b"torn")
    before = triples(store.all(GRID))
    store.compact(GRID)
    assert triples(store.all(GRID)) == before
    (left,) = tmp_path.glob("*.parquet*")
    data = bytearray(left.read_bytes())
    pyarrow.parquet.write_table(
        pyarrow.parquet.read_table(left)[2:], left
    )  # a footer that hides two rows
    with pytest.raises(OSError, match="lack 2 reports"):
        store.all(GRID)
    left.write_bytes(data[:-50])
    with pytest.raises(OSError, match="are damaged: .*parquet"):
        store.all(GRID)
    data[len(data) // 4] ^= 1
    left.write_bytes(bytes(data))
    with pytest.raises(OSError):  # noqa: PT011 - pyarrow's own words
        store.all(GRID)
    store.add(counts_of(7, 9), QUESTION)
    (other,) = set(tmp_path.glob("*.parquet*")) - {left}
    left.write_bytes(other.read_bytes())  # whole, and about something else
    with pytest.raises(OSError, match="hold reports about another table"):
        store.all(GRID)
    left.unlink()
    with pytest.raises(FileNotFoundError):
        store.all(GRID)


@pytest.mark.parametrize("damage", ["hidden rows", "another table's"])
def test_damaged_files_are_not_joined_to_whole_ones(damage, tmp_path):
    """The whole ones were removed, and all that the new file held was refused for good."""
    store = ReportStore(tmp_path)
    store.add(session().report_many(SECOND, np.zeros(K), user=1, round=0), SECOND)
    (other,) = tmp_path.glob("*.parquet")
    for data in UPLOADS[:3]:
        store.add(data, GRID)
    before = triples(store.all(GRID))
    one = next(path for path in tmp_path.glob("*.parquet") if path != other)
    whole = one.read_bytes()
    one.write_bytes(other.read_bytes())
    if damage == "hidden rows":
        one.write_bytes(whole)
        pyarrow.parquet.write_table(pyarrow.parquet.read_table(one)[1:], one)
    with pytest.raises(OSError, match="are damaged"):
        store.compact(GRID)
    one.write_bytes(whole)  # of a backup
    store.compact(GRID)
    assert triples(store.all(GRID)) == before


def test_a_power_cut_undoes_nothing_that_was_committed(tmp_path):
    """A transaction ends as its journal is removed; in SQLite's FULL nobody waits until that is on
    the disk.
    """
    with ReportStore(tmp_path)._database() as database:
        assert database.execute("PRAGMA synchronous").fetchone() == (3,)


CRASH = """
import os, signal, sqlite3, sys
from pathlib import Path
from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.deployment.store import ReportStore
from tests.deployment.vectors import GRID
what, moment = sys.argv[3:]
store, data, synced = ReportStore(sys.argv[1]), Path(sys.argv[2]).read_bytes(), []

def die(when):
    if when == moment:
        os.kill(os.getpid(), signal.SIGKILL)

class Database(sqlite3.Connection):
    def execute(self, sql, *given):
        die(sql)
        found = super().execute(sql, *given)
        die("after " + sql)
        return found

connect, fsync = sqlite3.connect, os.fsync
sqlite3.connect = lambda *given, **named: connect(*given, factory=Database, **named)
os.fsync = lambda file: (synced.append(file), die(f"sync {len(synced)}"), fsync(file))
if what == "report":
    store.add(data, GRID)
elif what == "keep":
    store.keep(0, data)
else:
    store.spend("round 0", Guarantee(1.0, status="proved", reason="a proof"), 1.0)
"""


@pytest.mark.parametrize(("what", "moment"), [
    ("report", "sync 1"), ("report", "sync 2"), ("report", "COMMIT"),
    ("keep", "sync 1"), ("keep", "sync 2"), ("keep", "COMMIT"), ("keep", "after COMMIT"),
    ("spend", "COMMIT"), ("spend", "after COMMIT"),
])  # fmt: skip
def test_a_kill_at_each_step_leaves_all_or_nothing(what, moment, tmp_path):
    """A file half written, one without a name, a transaction without an end, and one that nobody
    heard of.
    """
    sent = tmp_path / "sent"
    store = ReportStore(tmp_path / "store")
    sent.write_bytes(UPLOADS[0])
    command = [sys.executable, "-c", CRASH, store.folder, sent, what, moment]
    assert subprocess.run(command, timeout=120).returncode == -signal.SIGKILL
    if what == "report":
        assert len(list(store.folder.glob("*.parquet*"))) == 1  # that nobody reads
        assert store.add(UPLOADS[0], GRID).accepted == K
        store.compact(GRID)
        assert triples(store.all(GRID)) == triples(deployment.decode(UPLOADS[0], GRID))
        assert len(list(store.folder.glob("*.parquet*"))) == 1
    elif what == "keep":
        assert store.kept() == ((0, UPLOADS[0]) if moment == "after COMMIT" else None)
        assert store.keep(0, b"a second one") == (
            UPLOADS[0] if moment == "after COMMIT" else b"a second one"
        )
        assert len(list(store.folder.glob("*.step*"))) == 1
    else:
        assert len(store.ledger().releases) == (moment == "after COMMIT")
        for _ in range(2):
            spent = store.spend("round 0", Guarantee(1.0, status="proved", reason="a proof"), 1.0)
        assert spent.remaining(RECORD).epsilon == 0.0
        assert store.ledger() == spent


def test_two_servers_share_a_folder(tmp_path):
    """Each takes all uploads, and writes five releases, of which the budget has room for seven."""
    tenth = Guarantee(0.1, status="proved", reason="a proof")
    refused = []

    def work(server):
        for data in UPLOADS:
            ReportStore(tmp_path).add(data, GRID)
        for round in range(5):
            try:
                ReportStore(tmp_path).spend(f"{server}, round {round}", tenth, Budget(0.7))
            except BudgetExceededError:
                refused.append((server, round))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, range(2)))
    ReportStore(tmp_path).compact(GRID)
    assert triples(ReportStore(tmp_path).all(GRID)) == triples(
        deployment.decode(b"".join(UPLOADS), GRID)
    )
    ledger = ReportStore(tmp_path).ledger()
    assert (len(ledger.releases), len(refused), ledger.remaining(RECORD).epsilon) == (7, 3, 0.0)
    other = Guarantee(0.05, status="proved", reason="a proof")
    for spend, message in (
        ((ledger.releases[0].name, other), "is of another release: epsilon 0.1"),
        (("more", tenth, 2.0), "budget must be that of the ledger"),
    ):
        with pytest.raises(ValueError, match=message):
            ReportStore(tmp_path).spend(*spend)
    assert ReportStore(tmp_path).ledger() == ledger


def test_of_several_servers_one_takes_each_step(tmp_path):
    """The bytes of whoever comes first count for all; a step is not left out, and not written
    over.
    """
    with ThreadPoolExecutor(4) as pool:
        for number in range(3):
            mine = [b"step %d of %d" % (number, server) for server in range(4)]
            taken = list(
                pool.map(lambda data, at=number: ReportStore(tmp_path).keep(at, data), mine)
            )
            assert len(set(taken)) == 1
            assert taken[0] in mine
            assert ReportStore(tmp_path).kept() == (number, taken[0])
    store = ReportStore(tmp_path)
    with pytest.raises(ValueError, match="number must be"):
        store.keep(4, b"")
    assert store.kept(1)[0] == 1
    assert store.kept(3) is None
    assert len(list(tmp_path.glob("*.step"))) == 3
    next(tmp_path.glob("*.step")).unlink()
    with pytest.raises(FileNotFoundError):
        [store.kept(number) for number in range(3)]


@pytest.fixture(scope="module")
def ring():
    return graphs.from_edges([[i, (i + 1) % (USERS + 2)] for i in range(USERS + 2)], USERS + 2)


MECHANISM = features.Sampled(features.Discrete.of(GRID), DIM, K)


def test_stored_reports_become_an_embedding(tmp_path, ring):
    store = ReportStore(tmp_path)
    order = np.random.default_rng(1).permutation(USERS)
    store.add(b"".join(UPLOADS[user] for user in order[1:]), GRID)  # one is silent, one has no node
    nodes = np.array([1000 + user for user in range(USERS - 1)] + [5, 6, 7])
    server = servers.EmbeddingServer(operator(ring), MECHANISM, 0.2, 0.5)
    service = servers.serve(server, store, users=nodes)
    found = service.close_round()
    here = np.arange(USERS + 2) < USERS - 1
    here[order[0]] = False
    users = servers.StoredUsers(store, nodes)
    np.testing.assert_array_equal(users.read(service.question).reported, here)
    assert found.rounds[0].reported == here.sum() == USERS - 2
    assert f"epsilon {MECHANISM.guarantee().epsilon:.6g} per record" in str(found.guarantee)
    rows = deployment.vectors(deployment.decode(b"".join(UPLOADS), GRID), K, DIM)
    padded = [np.pad(part, ((0, 2), (0, 0))) for part in (rows.index, rows.output)]
    estimates = np.array(jax.vmap(MECHANISM.estimate)(features.SparseReport(*padded)))
    estimates[~here] = 0
    np.testing.assert_allclose(found.value, ppr(operator(ring), estimates, 0.2, 0.5), atol=1e-4)

    question = servers.Ask(MECHANISM, np.arange(USERS + 2) < 20)
    read = users.read(question)
    np.testing.assert_array_equal(read.reported, here & question.asked)
    sent = deployment.vectors(store.all(GRID), K, DIM)
    mine = np.flatnonzero(read.reported)
    at = np.searchsorted(sent.user, nodes[mine].astype(np.uint64))
    np.testing.assert_array_equal(read.values.values[mine], sent.output[at])
    assert not read.values.values[~read.reported].any()
    store.add(upload(int(order[1]), round=1), GRID)
    with pytest.raises(ValueError, match="choose one round"):
        users.read(service.question)
    first = servers.StoredUsers(store, nodes, round=0).read(question)
    np.testing.assert_array_equal(first.values.values, read.values.values)


USER = np.uint64(2**63) + np.arange(USERS + 2, dtype=np.uint64)
"""Users that are one number in float64."""


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({}, ""),
        ({"output": np.full((2, K), GRID.outputs)}, "output must be in"),
        ({"index": np.tile([3, 2, 1], (2, 1))}, "ascend"),
        ({"user": USER[[3, 3]]}, "choose one round"),
        ({"digest": SECOND.digest}, "another table than the mechanism's"),
    ],
)
def test_rows_that_no_device_sends_are_refused(change, match, untyped):
    fields = {"user": USER[3:5], "round": np.uint32([0, 0]), "index": np.tile([1, 2, 3], (2, 1))}
    fields |= {"output": np.zeros((2, K), int), "incomplete": 0, "digest": GRID.digest}
    sent = deployment.Vectors(**fields | change)
    expected = pytest.raises(ValueError, match=match) if match else contextlib.nullcontext()
    with expected:
        question = servers.Ask(MECHANISM, np.ones(USERS + 2, bool))
        found = servers.DeviceUsers(USER, lambda _: [sent]).read(question)
        assert np.flatnonzero(found.reported).tolist() == [3, 4]


def one_upload(rng, held, known):
    """A table or question, and reports about it: new ones, copies of old ones, some damaged."""
    asked = (GRID, SECOND, QUESTION)[rng.integers(3)]
    user = int(rng.integers(8))
    if asked is QUESTION:
        with contextlib.suppress(deployment.ReplayError):
            known.append((asked, held[1].report_neighbours(asked, [1, 2, 3], user=user)))
    else:
        numbers = rng.uniform(-1, 1, rng.integers(1, 4))
        with contextlib.suppress(deployment.ReplayError):
            known.append(
                (asked, held[0].report_many(asked, numbers, user=user, round=int(rng.integers(2))))
            )
    mine = [data for about, data in known if about is asked]
    again = rng.integers(0, len(mine), rng.integers(3)) if mine else ()
    data = bytearray(b"".join([*mine[-1:], *(mine[place] for place in again)]))
    if data and rng.random() < 0.2:
        data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
    return asked, bytes(data)


@pytest.mark.parametrize("seed", range(2))
def test_compact_between_any_two_steps_leaves_all_that_was_accepted(seed, tmp_path):
    """Drawn steps of add, read, spend and a new process, compacted or not, against a dictionary.

    What users lost over several tables is a sum in fractions, and the ledger is that of memory.
    """
    rng = np.random.default_rng(seed)
    store = ReportStore(tmp_path)
    known = []
    held = session(), deployment.Session(session().device, budget=Budget(1e9, unit=NEIGHBOUR_LIST))
    kept = {asked: {} for asked in (GRID, SECOND, QUESTION)}
    ledger = Ledger(3.0)
    for step in range(24):
        asked, data = one_upload(rng, held, known)
        found = deployment.decode(data, asked)
        before = len(kept[asked])
        for place, triple in enumerate(
            zip(*map(list, (found.user, found.round, found.field)), strict=True)
        ):
            kept[asked].setdefault(triple, found.output[place].tolist())
        assert store.add(data, asked).accepted == len(kept[asked]) - before
        if step % 5 == 0:
            some = Guarantee(0.1 * rng.integers(1, 4), status="proved", reason="a proof")
            ledger = ledger.spend(f"step {step}", some)
            assert store.spend(f"step {step}", some, 3.0) == ledger
        for about in rng.permutation(3)[: rng.integers(4)]:
            store.compact((GRID, SECOND, QUESTION)[about])
        store = ReportStore(tmp_path) if rng.random() < 0.3 else store
        for about, wanted in kept.items():
            there = store.all(about)
            triples = zip(*map(list, (there.user, there.round, there.field)), strict=True)
            assert dict(zip(triples, there.output.tolist(), strict=True)) == wanted
            assert len(there.user) == len(wanted)
        assert store.ledger() == ledger
    assert all(len(wanted) > 3 for wanted in kept.values())
    assert {user for user, *_ in kept[GRID]} & {user for user, *_ in kept[SECOND]}
    for kind, tables in ((deployment.Table, (GRID, SECOND)), (deployment.Question, (QUESTION,))):
        users, lost = store.spent(kind)
        losses = {table: Fraction(log_up(codec_of(table).loss)) for table in tables}
        exact = defaultdict(Fraction)
        for table in tables:
            for user, *_ in kept[table]:
                exact[int(user)] += losses[table]
        assert users.tolist() == sorted(exact)
        for user, value in zip(users.tolist(), lost.tolist(), strict=True):
            assert exact[user] <= Fraction(value) <= exact[user] * (1 + Fraction(1, 10**12))
