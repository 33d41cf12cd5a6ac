"""Result files under kill -9, torn ends and several writers, and runs that go on: no row lost, none
twice.
"""

import dataclasses
import json
import math
import subprocess
import sys
from types import SimpleNamespace

import jax
import pandas as pd
import pytest

from experiments import _runner
from experiments._common import check_words
from experiments._runner import COLUMNS, Cell, Found, Interrupted, Results, UsageError, run
from ldp_jax.core import compilation
from tests.experiments import synthetic


@dataclasses.dataclass(frozen=True, kw_only=True)
class Coloured(Cell):
    """Two of these differ by their colour alone."""

    last_metric = "last"
    colour: str = "red"


CELL = Coloured(**synthetic.CELL | {"dataset": "d, with a comma"})


def rows_of(cell, **metrics):
    found = metrics or {"first": 0.25, "last": 0.5}
    return [
        {**dataclasses.asdict(cell), "seconds": 1.5, "metric": metric, "value": value}
        for metric, value in found.items()
    ]


def seeds(count):
    return [dataclasses.replace(CELL, seed=seed) for seed in range(count)]


def plan(count):
    return dict.fromkeys(seeds(count), {})


@pytest.fixture
def results(tmp_path):
    return Results(tmp_path, "rows", Coloured, ("note",))


def fresh(results):
    """The same file, of which nothing has been read yet."""
    return Results(results.csv.parent, "rows", Coloured, ("note",))


def test_appending_leaves_every_byte_that_is_there(results):
    """The file grows in place: rows are not parsed and written again, not even to the same
    numbers.
    """
    results.append(rows_of(CELL))
    assert results.csv.read_text().splitlines()[0] == ",".join((*COLUMNS, "colour", "note"))
    by_hand = results.csv.read_text().replace(",0.5,", ",0.500,")
    results.csv.write_text(by_hand)
    before = results.csv.stat().st_ino
    fresh(results).append(rows_of(seeds(2)[1]))
    assert results.csv.stat().st_ino == before
    assert results.csv.read_text().startswith(by_hand)
    assert len(results.read()) == 4


def test_a_row_is_identified_by_its_cell_and_metric(results):
    """By further fields too, and not by what was found."""
    results.append(rows_of(CELL, last=0.5))
    for same in (CELL, dataclasses.replace(CELL, epsilon=1.0 + 1e-15)):
        results.append(
            [{**row, "note": "another", "value": 0.7} for row in rows_of(same, last=0.7)]
        )
    assert list(results.read().value) == [0.5]
    for other in ({"colour": "blue"}, {"epsilon_proved": 2.0}, {"config": "e"}, {"seed": 1}):
        cell = dataclasses.replace(CELL, **other)
        results.look()
        assert cell not in results
        results.append(rows_of(cell, last=0.5))
        assert cell in results
    assert len(results.read(mixed=True)) == 5
    with pytest.raises(UsageError, match="rows of two data sets of one name, or of two settings"):
        results.read()  # a page would take them for draws of one row


def test_words_of_digits_and_numbers_without_a_value_survive_the_file(results):
    """A setting "20" alone, or a digest of digits; an epsilon that nobody could prove is an
    identity as well.
    """
    of = {
        "epsilon_proved": float("nan"),
        "epsilon": float("inf"),
        "dataset": "20",
        "config": "0123456789",
    }
    unproved = dataclasses.replace(CELL, **of)
    results.append(rows_of(unproved, last=float("nan")))
    fresh(results).append(rows_of(unproved, last=1.0))
    (row,) = results.read().to_dict("records")
    assert row["value"] != row["value"]
    assert [row[name] for name in ("epsilon", "dataset", "config")] == [
        float("inf"),
        "20",
        "0123456789",
    ]


@pytest.mark.parametrize("lost", [1, 2, 30, 55], ids=lambda lost: f"{lost} bytes")
def test_a_torn_row_is_cut_off_before_the_next_is_written(results, lost):
    first, second, third = seeds(3)
    results.append(rows_of(first))
    whole = results.csv.read_bytes()
    results.append(rows_of(second))
    results.csv.write_bytes(results.csv.read_bytes()[:-lost])
    other = fresh(results)
    assert len(other.read()) == 3  # a reader leaves the torn row out
    other.look()
    assert first in other
    assert second not in other  # its last metric is missing: it is not complete
    other.append(rows_of(third))
    other.append(rows_of(second))
    frame = other.read()
    assert other.csv.read_bytes().startswith(whole)
    assert frame.seed.tolist() == [0, 0, 1, 2, 2, 1]
    assert frame.value.tolist() == [0.25, 0.5, 0.25, 0.25, 0.5, 0.5]


def test_a_torn_header_is_written_anew(results):
    results.csv.write_text("dataset,task,mech")
    assert results.read().empty
    results.append(rows_of(CELL))
    assert len(results.read()) == 2


def test_what_others_wrote_is_known_and_read_once(results, monkeypatch):
    results.append(rows_of(CELL))
    fresh(results).append(rows_of(seeds(2)[1]))
    results.append(rows_of(seeds(2)[1]))
    assert len(results.read()) == 4
    read = []
    monkeypatch.setattr(_runner, "_whole_lines", lambda text: read.append(len(text)) or text)
    results.append(rows_of(seeds(3)[2]))
    assert read == []  # nothing new of others: nothing is read, however long the file


def test_a_file_of_other_columns_is_refused(results, tmp_path):
    results.append(rows_of(CELL))
    other = Results(tmp_path, "rows")
    for ask in (other.read, other.look):
        with pytest.raises(UsageError, match="other columns"):
            ask()


DAMAGED = ("text", "number", "place", "csv bytes", "manifest cut", "manifest", "manifest list")


@pytest.mark.parametrize("of", DAMAGED)
def test_damaged_files_are_found_before_the_first_cell(results, of):
    """One line says which file, where, and what to do; no byte of it is touched."""
    results.append(rows_of(CELL), [{"epochs": 1}])
    file = results.manifest if of.startswith("manifest") else results.csv
    whole = file.read_bytes()
    damaged = {
        "text": whole.replace(b",0.5,", b",half,"),
        "number": whole.replace(b"m,1.0,", b"m,one,"),
        "place": whole.replace(b",record", b""),
        "csv bytes": whole.replace(b",0.5,", b",\xff\xfe,"),
        "manifest cut": whole[: len(whole) // 2],
        "manifest": b'{"environments": [{}]}',
        "manifest list": b"[]",
    }[of]
    assert damaged != whole
    file.write_bytes(damaged)
    other = fresh(results)
    with pytest.raises(UsageError, match=rf"{file}.*: damaged, .*--out$"):
        run(plan(2), lambda *_: pytest.fail("computed something first"), other)
    if of in ("text", "number", "csv bytes"):
        with pytest.raises(UsageError, match=rf"{file}: damaged, .*--out$"):
            other.read()  # as ``report`` does
    assert file.read_bytes() == damaged


def test_rows_without_their_manifest_are_refused(results):
    """A CSV that was copied alone ended a report with a bare KeyError."""
    assert results.settings() == {}
    results.append(rows_of(CELL), [{"epochs": 1}])
    results.manifest.unlink()
    with pytest.raises(
        UsageError, match=r"does not say how all rows of .*\.csv were made: .*--out$"
    ):
        results.settings()


def test_a_seed_of_all_cells_is_checked_before_the_first_is_computed(results):
    asked = []

    def check(cell, settings):
        asked.append(cell.seed)
        raise ValueError("epsilon must be below 1")

    computed = lambda *_: pytest.fail("computed something first")
    with pytest.raises(UsageError, match=r"eps 1 seed 0: epsilon must be below 1$"):
        run(plan(3), computed, results, check=check)
    assert asked == [0]
    with pytest.raises(UsageError, match="0 of 0"):
        run({}, computed, results)
    run(plan(1), lambda *_: Found({}), results)  # a cell with nothing to say
    assert not results.csv.exists()


def test_reading_makes_no_folder(tmp_path):
    """Committed results may be on a disk that cannot be written to."""
    absent = Results(tmp_path / "absent", "rows")
    assert absent.read().empty
    assert absent.describe() == {}
    assert not (tmp_path / "absent").exists()


def test_a_read_only_out_is_found_out_whatever_its_permission_bits_say(tmp_path, monkeypatch):
    """As root, or on a mount that is read-only, only writing tells."""

    def refuse(*_, **__):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(_runner.tempfile, "TemporaryFile", refuse)
    with pytest.raises(UsageError, match=r"--out .*Read-only file system"):
        _runner.check_out(tmp_path)


@pytest.mark.parametrize(
    ("fails", "configs"), [("fsync", []), ("fsync", [{"epochs": 2}]), ("replace", [{"epochs": 2}])]
)
def test_a_failed_write_leaves_the_old_files_and_nothing_else(
    results, tmp_path, monkeypatch, fails, configs
):
    """Rows or manifest; and no row whose configuration is nowhere."""
    results.append(rows_of(CELL), [{"epochs": 1}])
    before = results.csv.read_bytes(), results.manifest.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_runner.os, fails, full)
    with pytest.raises(OSError, match="No space left"):
        results.append(rows_of(seeds(2)[1]), configs)
    monkeypatch.undo()
    assert (results.csv.read_bytes(), results.manifest.read_bytes()) == before
    assert not list(tmp_path.glob("*.tmp"))
    results.append(rows_of(seeds(2)[1]), configs)
    assert len(results.read()) == 4


def test_the_manifest_is_written_only_where_there_is_something_to_add(results, monkeypatch):
    results.append(rows_of(CELL), [{"epochs": 1}], {"guarantees": {"m": "epsilon 1"}})
    manifest = results.describe()
    assert manifest["configs"] == {_runner.config_hash({"epochs": 1}): {"epochs": 1}}
    assert manifest["guarantees"] == {"m": "epsilon 1"}
    assert "jax" in manifest["environments"][0]["versions"]
    written = []
    monkeypatch.setattr(_runner, "write_atomically", lambda path, text: written.append(path))
    results.append(rows_of(seeds(2)[1]), [{"epochs": 1}], {"guarantees": {"m": "epsilon 1"}})
    assert written == []
    results.append(rows_of(seeds(3)[2]), [{"epochs": 1}], {"guarantees": {"n": "epsilon 2"}})
    assert written == [results.manifest]


def test_what_a_killed_write_left_is_cleared_by_the_next(results, tmp_path):
    (tmp_path / "rows.manifest.json.4711.tmp").write_text("half a")
    (tmp_path / "rows.manifest.json.txt").write_text("somebody's")
    results.append(rows_of(CELL))
    assert not list(tmp_path.glob("*.tmp"))
    assert (tmp_path / "rows.manifest.json.txt").exists()


def computes(done, fail_at=None):
    def compute(cell, settings):
        if cell.seed == fail_at:
            raise KeyboardInterrupt
        done.append(cell.seed)
        return Found({"first": 1.0, "last": cell.seed / 7}, {"note": f"seed {cell.seed}"})

    return compute


def test_a_run_computes_what_is_missing_in_its_order(results):
    done = []
    planned = {cell: {"config of": cell.seed} for cell in seeds(3)}
    assert run(planned, computes(done), results) == 3
    assert done == [0, 1, 2]
    frame = results.read()
    assert frame.value.tolist() == [1.0, 0.0, 1.0, 1 / 7, 1.0, 2 / 7]
    assert frame.note.tolist() == ["seed 0"] * 2 + ["seed 1"] * 2 + ["seed 2"] * 2
    assert sorted(config["config of"] for config in results.describe()["configs"].values()) == [
        0,
        1,
        2,
    ]
    assert run(plan(4), computes(done), fresh(results)) == 1
    assert done == [0, 1, 2, 3]


@pytest.mark.parametrize(("most", "traced"), [(10, 3), (10**9, 1)])
def test_programs_are_forgotten_before_linux_maps_no_more(
    results, tmp_path, monkeypatch, most, traced
):
    """A run over four data sets was aborted: each left 20 000 mappings of its programs."""
    limit = tmp_path / "max_map_count"
    limit.write_text(f"{most}\n")
    monkeypatch.setattr(compilation, "_MOST", limit)
    traces = []

    @jax.jit
    def third(x):
        traces.append(x)
        return x / 3

    def compute(cell, settings):
        return Found({"last": float(third(cell.seed))})

    run(plan(3), compute, results)
    assert len(traces) == traced


def test_ctrl_c_says_what_is_kept(results):
    done = []
    run(plan(1), computes(done), results)
    with pytest.raises(
        Interrupted, match=r"^3 of 5 cells are kept in .*rows.csv; the same command goes on"
    ):
        run(plan(5), computes(done, fail_at=3), results)
    assert sorted(set(results.read().seed)) == [0, 1, 2]
    run(plan(5), computes(done), results)
    assert done == [0, 1, 2, 3, 4]


def test_rows_of_another_version_are_kept_and_it_is_said(results, capsys, monkeypatch):
    """A resumed run must not mix versions without a word."""

    def again():
        run(plan(2), computes([]), fresh(results))
        return "another --out" in "".join(capsys.readouterr())

    run(plan(1), computes([]), results)
    assert not again()
    monkeypatch.setattr(_runner, "_version", lambda: "99.0")
    assert again()


WRITER = """
import sys
from pathlib import Path
from experiments._runner import COLUMNS, Results

out, first, last = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
results = Results(out, "rows")
for seed in range(first, last):
    row = dict.fromkeys(COLUMNS, "x") | dict.fromkeys(("epsilon", "epsilon_proved", "seconds"), 1.0)
    rows = [{**row, "seed": seed, "metric": f"m{i}", "value": seed / 7 + i} for i in range(200)]
    results.append(rows, [{"epochs": seed}])
    print(seed, flush=True)
"""


def writer(out, first, last):
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(out), str(first), str(last)],
        stdout=subprocess.PIPE,
        text=True,
    )


def whole(out):
    """The seeds all of whose rows are there, after a check that every row is what was written."""
    frame = Results(out, "rows").read()
    assert tuple(frame.columns) == COLUMNS
    assert (abs(frame["value"] - frame["seed"] / 7 - frame.metric.str[1:].astype(int)) < 1e-9).all()
    assert not frame.duplicated(["seed", "metric"]).any()
    count = frame.groupby("seed").size()
    return count[count == 200].index.tolist()


def test_writers_at_the_same_time_lose_nothing(tmp_path):
    """Two of them, whose cells overlap: the union, each row once, and every configuration in the
    manifest.
    """
    for process in [writer(tmp_path, first, first + 8) for first in (0, 4)]:
        process.communicate(timeout=300)
        assert process.returncode == 0
    assert sorted(whole(tmp_path)) == list(range(12))
    assert len(pd.read_csv(tmp_path / "rows.csv")) == 12 * 200
    manifest = json.loads((tmp_path / "rows.manifest.json").read_text())
    assert sorted(config["epochs"] for config in manifest["configs"].values()) == list(range(12))


def test_shares_and_positive_fields_are_refused_outside_their_open_ranges():
    """By the fields of a configuration, as every experiment asks it."""
    ask = lambda **fields: check_words(
        SimpleNamespace(**fields), positive=("sizes",), shares=("parts",)
    )
    for good in (1e-9, 0.5, 1 - 1e-9):
        ask(sizes=good, parts=(0.5, good))
    ask(sizes=None, parts=())
    for bad in (0.0, 1.0, -0.1, 1.1, math.nan, math.inf):
        with pytest.raises(UsageError, match="--parts"):
            ask(sizes=1.0, parts=(0.5, bad))
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(UsageError, match="--sizes"):
            ask(sizes=(1.0, bad), parts=())
