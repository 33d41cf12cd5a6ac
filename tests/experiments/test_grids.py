"""Plans of several runs, shares or workers: no cell is computed twice, rows are those of one."""

import collections
import pickle
import subprocess
import sys

import pandas as pd
import pytest

import experiments
from experiments import _registry, _runner
from experiments._runner import Grid, Results, UsageError
from tests.experiments import synthetic

ROOT = _runner.Path(_runner.__file__).parents[1]


def results_in(out):
    return Results(out, "rows", synthetic.Synthetic)


def run(out, seeds=6, grid=None, **settings):
    planned = synthetic.plan(seeds, log=str(out / "log"), **settings)
    out.mkdir(exist_ok=True)
    return _runner.run(planned, synthetic.compute, results_in(out), grid=grid)


def logged(out):
    """How often each cell was computed, and by how many processes."""
    lines = [line.split(maxsplit=1) for line in (out / "log").read_text().splitlines()]
    return collections.Counter(cell for _, cell in lines), {process for process, _ in lines}


def leftover(out):
    """Files that only running processes need."""
    return [*out.glob("*.lock"), *out.glob(".claims*")]


def values(out):
    frame = results_in(out).read().drop(columns=["seconds", "config"])
    return frame.sort_values(["seed", "classifier", "metric"], ignore_index=True)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    out = tmp_path_factory.mktemp("alone")
    assert run(out) == 12
    return values(out)


def test_shares_are_disjoint_and_merge_to_the_whole(tmp_path, alone):
    """Each group is of one share. A run without a share gathers them and computes nothing."""
    for number in (1, 2, 3):
        run(tmp_path, grid=Grid(share=f"{number}/3"))
    files = sorted(path.name for path in tmp_path.glob("*.csv"))
    assert files == [f"rows.share-{number}-of-3.csv" for number in (1, 2, 3)]
    seeds = [set(pd.read_csv(tmp_path / name).seed) for name in files]
    assert sum(map(len, seeds)) == len(set.union(*seeds)) == 6
    pd.testing.assert_frame_equal(values(tmp_path), alone)
    said = results_in(tmp_path).describe()
    assert len(said["guarantees"]) == 6
    assert len(said["environments"]) == 1

    assert not leftover(tmp_path)
    assert run(tmp_path) == 0
    assert not leftover(tmp_path)
    assert [path.name for path in tmp_path.glob("*.csv")] == ["rows.csv"]
    pd.testing.assert_frame_equal(values(tmp_path), alone)
    gathered = results_in(tmp_path).describe()
    assert gathered["guarantees"] == said["guarantees"]
    counts, _ = logged(tmp_path)
    assert set(counts.values()) == {1}


def test_a_share_goes_on_and_takes_what_is_there_for_computed(tmp_path, alone):
    """Whatever file its rows are in; a row that is in two of them is read once."""
    run(tmp_path, seeds=2)
    assert run(tmp_path, grid=Grid(share="1/1")) == 8
    assert run(tmp_path, grid=Grid(share="2/2")) == 0
    (share,) = tmp_path.glob("rows.share-*.csv")
    copy = share.with_name("rows.share-1-of-9.csv")
    copy.write_bytes(share.read_bytes()[:-4])  # as it stands while another process writes it
    pd.testing.assert_frame_equal(values(tmp_path), alone)
    results_in(tmp_path).gather()
    assert not copy.exists()
    assert len(pd.read_csv(tmp_path / "rows.csv")) == len(alone)
    pd.testing.assert_frame_equal(values(tmp_path), alone)


RUN = """
import sys
from pathlib import Path
from tests.experiments import test_grids
print(test_grids.run(Path(sys.argv[1]), seconds=0.3))
"""


def test_runs_in_one_folder_share_the_cells(tmp_path, alone):
    """Neither computes what the other has computed or is at; the last cells are waited for."""
    command = [sys.executable, "-c", RUN, str(tmp_path)]
    both = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in "ab"]
    for process in both:
        process.communicate(timeout=120)
        assert process.returncode == 0
    counts, processes = logged(tmp_path)
    assert set(counts.values()) == {1}
    assert len(processes) == 2
    pd.testing.assert_frame_equal(values(tmp_path), alone)
    assert not leftover(tmp_path)


def test_what_another_run_holds_is_left_to_it(tmp_path):
    """A claim that a killed run left goes, one that is held stays, and so do other files' locks."""
    claims = tmp_path / ".claims"
    claims.mkdir()
    (claims / "rows-killed").touch()
    (claims / "others-killed").touch()
    with _runner.FileLock(claims / "rows-held"):
        run(tmp_path, seeds=1)
        assert {path.name for path in claims.iterdir()} == {"rows-held", "others-killed"}
    results_in(tmp_path).tidy()
    assert [path.name for path in claims.iterdir()] == ["others-killed"]
    with _runner.FileLock(tmp_path / "rows.lock"):
        results_in(tmp_path).tidy()
        assert (tmp_path / "rows.lock").exists()


def test_workers_give_the_rows_of_one_process_and_a_lost_one_loses_nothing(tmp_path, alone):
    """One of two workers is killed at its first cell of seed 3."""
    pytest.importorskip("distributed")
    lost = {"dies_at": 3, "before": str(tmp_path / "before")}
    assert run(tmp_path, grid=Grid(cluster="local:2"), seconds=0.1, **lost) == 12
    assert (tmp_path / "before").exists()
    pd.testing.assert_frame_equal(values(tmp_path), alone)
    counts, processes = logged(tmp_path)
    assert len(counts) == 12
    assert len(processes) >= 2
    assert str(_runner.os.getpid()) not in processes
    (environment,) = results_in(tmp_path).describe()["environments"]
    assert "jax" in environment["versions"]
    assert run(tmp_path, grid=Grid(cluster="local:2")) == 0


@pytest.mark.parametrize(
    "name", [name for one in _registry.EXPERIMENTS.values() for name in one.rows.values()]
)
def test_workers_find_by_its_name_what_computes_a_cell(name):
    """A function that only the submitting process knows would keep none of its caches there."""
    compute = _registry.module(name).compute
    assert pickle.loads(pickle.dumps(compute)) is compute


def test_the_cost_of_a_plan_is_read_off_committed_rows(tmp_path, monkeypatch):
    """By the same cell, else by its mechanism; a cell of two runs counts once."""
    monkeypatch.setattr(_runner, "REFERENCE", tmp_path / "reference")
    run(tmp_path / "reference", seeds=2)
    file = tmp_path / "reference/rows.csv"
    rows = pd.read_csv(file)
    rows.assign(seconds=rows.seed + 1.0).to_csv(file, index=False)
    run(tmp_path / "mine", seeds=1)
    with _runner.costs() as found:
        for seeds in (2, 3):
            assert run(tmp_path / "mine", seeds=seeds, grid=Grid(cost=True)) == 0
    assert sorted(found.values()) == [1.5, 1.5, 2.0, 2.0]
    assert len(results_in(tmp_path / "mine").read()) == 4


@pytest.mark.parametrize("share", ["0/4", "5/4", "3", "a/b", "1/0", "-1/4"])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(UsageError, match=f"--share {share}: must be a number and how many"):
        Grid(share=share).check_grid()


@pytest.mark.parametrize("word", ["foo", "local", "local:0", "slurm:x", "tcp://host", "local:2 "])
def test_a_cluster_that_is_none_is_refused(word):
    pytest.importorskip("distributed")
    with pytest.raises(UsageError, match=f"--cluster {word}: must be local:4"):
        Grid(cluster=word).check_grid()


def test_without_dask_a_cluster_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "experiments._cluster", None)
    monkeypatch.delattr(experiments, "_cluster", raising=False)
    with pytest.raises(UsageError, match=r"pip install 'ldp_jax\[cluster\]'"):
        Grid(cluster="local:2").check_grid()
