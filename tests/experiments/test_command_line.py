"""The command line: what it lists, where it writes, and one line for a user's mistake, with the
option's name.
"""

import dataclasses
import errno
import itertools
import os
import subprocess
import sys
import time
import types
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest

from experiments import __main__ as command_line
from experiments import _common, _html, _registry, _runner, catalogue, demo, reproduce
from experiments._registry import EXPERIMENTS, Experiment
from experiments._runner import Cell, Found, Results
from experiments.dprr import cells as dprr_cells
from experiments.privge import accuracy, cells
from ldp_jax import datasets
from tests.experiments.synthetic import CELL

ROOT = Path(_runner.__file__).parents[1]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Results go to the working directory; generated sets of graphs are small."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(dprr_cells, "COMMUNITY_GRAPHS", 24)


def refused(capsys, *words):
    """The one line of standard error."""
    with pytest.raises(SystemExit) as stopped:
        command_line.main([str(word) for word in words])
    lines = capsys.readouterr().err.strip().splitlines()
    assert stopped.value.code == 2
    assert len(lines) == 1
    return lines[0]


PANELS = "--panels must be shares of each class, as 0.05, or "
LABELS = "--labels must be half, or a number of users"
MISTAKES = {
    "": ("no command: commands are list, show",),
    "prvge": ("prvge: commands are list, show",),
    "privge --nope 3": ("Unrecognized options: --nope",),
    "privge --datasets corra": ("--datasets corra: ", "debian"),
    "privge --datasets debian --ks 1000": ("debian, hds, epsilon 0.01, k 1000: k must be",),
    "privge --mechanisms gauss": (
        "--mechanisms: no gauss; there are laplace; piecewise; multibit",
    ),
    "privge --epsilons nan": ("--epsilons must be above 0",),
    "privge --ks 2 --mechanisms laplace": ("--ks are of HDS",),
    "privge --datasets debian --bounds 1 0": ("--bounds must be",),
    "privge --bounds 0 1": ("--bounds are of files",),
    "dprr --datasets debian": ("--datasets debian: ",),
    "dprr --datasets corra": ("--datasets corra: ",),
    "dprr --datasets communities --epsilons 0.01 --mechanisms dprr": (
        "--epsilons 0.01: ",
        "larger epsilon",
    ),
    "dprr --public-shares 1.5": ("--public-shares must be shares",),
    "dprr --datasets communities --graphs 5": ("--graphs 5: 5 graphs",),
    "dprr --datasets communities --rr-nodes 1": ("--rr-nodes 1: 0 graphs",),
    "dprr --mechanisms nobody": ("--mechanisms: no nobody",),
    "dprr --rr-nodes -1": ("--rr-nodes must be at least 0",),
    "dprr --datasets communities --parts degrees --mechanisms sizes": (
        "--mechanisms: degrees are compared of",
    ),
    "dprr --datasets communities --parts scaling --mechanisms sizes": (
        "--mechanisms: time and memory",
    ),
    "heterorr --private-shares 1": ("--private-shares must be shares above 0 and below 1",),
    "heterorr --mechanisms hrg": ("--mechanisms: no hrg; there are featurerr",),
    "heterorr --attacked-nodes 3": ("--attacked-nodes must be at least 10",),
    "poindp --parts table1 --mechanisms nothing --datasets FILE": (
        "these words name no rows: 0 of 0",
    ),
    "poindp --targets 2": ("--targets must be at least 3",),
    "frontier --datasets debian --epsilons 41": ("debian half piloted eps 41 ", "[0.001, 40]"),
    "frontier --parts beyond --epsilons 41": ("debian half counts eps 41 ", "must be"),
    "frontier --parts features --epsilons 1 21": ("--epsilons must be at most 20",),
    "frontier --epsilons x": ("Error parsing --epsilons", "['x']", "frontier --help"),
    "frontier --out=": ("--out must name a folder, got an empty word",),
    "frontier --datasets": ("--datasets needs at least one word",),
    "privge --epsilons --seeds 1": ("--epsilons needs at least one word", "privge --help"),
    "frontier --labels 100000": ("--labels 100000 of debian: must be below 1222",),
    "frontier --parts features --panels 100000": ("--panels 100000 of debian: must be below 1222",),
    "frontier --parts features --panels": ("--panels needs at least one word",),
    **{f"frontier --labels {given}": (LABELS,) for given in ("most", "0")},
    **{f"frontier --panels {given}": (PANELS,) for given in ("half", "1.5", "0")},
    "frontier --mechanisms magic": ("--mechanisms: no magic; there are piloted",),
    "frontier --parts features --mechanisms piloted": (
        "--mechanisms: no piloted; there are structure",
        "chosen; ",
    ),
    "frontier --parts beyond --mechanisms counts": (
        "--mechanisms: no counts; there are module:Name of your own",
    ),
    "frontier --parts poisoning --mechanisms mine:Stairs": ("--mechanisms", "mine:Stairs"),
    "protocols --epsilons 1000": ("--epsilons 1000, two rounds: epsilon must be in",),
    "worlds --labels ten": (LABELS,),
    "worlds --families foo": ("--families: no foo; there are alike; strangers",),
    "worlds --homophilies 2": ("--homophilies must be shares from 0 to 1, got 2",),
    "worlds --epsilons 1000": ("--epsilons 1000: epsilon must be in",),
    "worlds --parts records --epsilons 1000": ("--epsilons 1000: epsilon must be",),
    "power --trials 0": ("--trials: trials must be a whole number >= 1000, got 0",),
    "show nothing": ("NAME nothing: ", "privge, dprr"),
    "reproduce nothing": ("NAME nothing: ",),
    "report": ("--out results: no rows there yet",),
    "report --readme absent.md": ("--readme absent.md: it cannot be read",),
}
ABOVE_0 = {
    "privge": "--epsilons --seeds --epochs --ks",
    "dprr": "--epsilons --seeds",
    "heterorr": "--epsilons --seeds",
    "poindp": "--epsilons",
    "frontier": "--epsilons --seeds",
    "protocols": "--epsilons",
    "worlds": "--degrees",
    "repeat": "--seeds",
    "variance": "--points",
    "power": "--seeds",
    "benchmarks": "--repeats",
}
for command, options in ABOVE_0.items():
    MISTAKES |= {
        f"{command} {option} 0": (f"{option} must be above 0",) for option in options.split()
    }
MISTAKES |= {
    f"{words} --datasets absent.npz": ("--datasets absent.npz: ",)
    for words in ("privge", "heterorr", "poindp", "poindp --parts membership", "repeat", "frontier",
                  "frontier --parts features", "frontier --parts beyond")
}  # fmt: skip


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_one_line_that_names_the_option(words, capsys, monkeypatch, graph_file):
    """Before the first row is computed."""
    monkeypatch.setattr(Results, "append", lambda *_, **__: pytest.fail("computed something first"))
    line = refused(capsys, *(str(graph_file) if word == "FILE" else word for word in words.split()))
    expected = MISTAKES[words]
    assert line.startswith(f"error: {expected[0]}")
    assert all(part in line for part in expected)


def test_several_labels_a_node_are_refused_where_one_class_is_needed(graph_file, tmp_path, capsys):
    data = datasets.load(str(graph_file))
    path = str(tmp_path / "labels.npz")
    datasets.save(dataclasses.replace(data, y=np.eye(3, dtype=np.int8)[data.y % 3]), path)
    for command, why in (
        ("frontier --parts beyond", "one graph whose nodes have one known class each is needed"),
        ("poindp --parts table1", "one class a node is needed, and it has 3 labels a node"),
    ):
        assert why in refused(capsys, *command.split(), "--datasets", path)


def test_a_set_of_graphs_is_no_graph(capsys, monkeypatch):
    made = datasets.synthetic_graphs(jax.random.key(0), num_graphs=4)
    monkeypatch.setattr(cells, "load", lambda *_: made)
    assert "--datasets sets: this is a set of graphs" in refused(
        capsys, "privge", "--datasets", "sets"
    )


def test_a_file_with_unknown_classes_is_refused_by_what_to_do(graph_file, tmp_path, capsys):
    with np.load(graph_file) as arrays:
        kept = {name: arrays[name] for name in arrays.files}
    np.savez(
        path := tmp_path / "mine.npz",
        **kept | {"y": np.where(np.arange(len(kept["y"])), kept["y"], -1)},
    )
    for words in (["privge"], ["frontier"], ["frontier", "--parts", "features"]):
        assert "(-1): leave those out" in refused(capsys, *words, "--datasets", path)


def test_a_file_without_bounds_names_the_option(graph_file, tmp_path, capsys):
    with np.load(graph_file) as arrays:
        kept = {name: arrays[name] for name in arrays.files if name not in ("x_lower", "x_upper")}
    path = tmp_path / "mine.npz"
    np.savez(path, **kept)
    line = refused(capsys, "privge", "--datasets", path)
    assert f"--datasets {path}" in line
    assert "--bounds LOWER UPPER" in line
    cells.declare_bounds([str(path)], (0.0, 1.0))
    assert accuracy.load(str(path)).upper == 1.0


def test_a_dense_file_is_the_sparse_one(graph_file, tmp_path):
    """The same experiment, whichever way a file holds its features."""
    data = datasets.load(graph_file)
    datasets.save(dataclasses.replace(data, x=data.x.toarray()), tmp_path / "mine.npz")
    dense = _common.load(str(tmp_path / "mine.npz"))
    assert isinstance(datasets.load(tmp_path / "mine.npz").x, np.ndarray)
    assert _common.fingerprint(dense, "mine") == _common.fingerprint(data, "mine")


@pytest.mark.parametrize(
    "command", [name for name in command_line.COMMANDS if name not in ("list", "show")]
)
def test_an_out_that_cannot_be_written_to_is_found_out_first(
    tmp_path, monkeypatch, capsys, command
):
    monkeypatch.setattr(command_line, "_prepare_device", lambda flags: pytest.fail("went on"))
    (tmp_path / "file").write_text("mine")
    name = ["demo"] if command == "reproduce" else []
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        assert f"--out {out}" in refused(capsys, command, *name, "--out", out)
    assert (tmp_path / "file").read_text() == "mine"


def test_help_and_list_import_no_experiment_and_a_device_that_is_not_there_is_one_line():
    code = """
import contextlib, sys
from experiments import __main__
for word in ("--help", "list"):
    with contextlib.suppress(SystemExit):
        __main__.main([word])
heavy = {"jax", "ldp_jax", "matplotlib", *(f"experiments.{name}" for name in __main__.EXPERIMENTS)}
print(sorted(heavy & {*sys.modules}))
__main__.main(["weigh"])
"""
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "tpu"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environ
    )
    *lines, imported = done.stdout.splitlines()
    assert imported == "[]"
    for name, command in command_line.COMMANDS.items():
        assert any(line.split() == [name, *command.about.split()] for line in lines)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: JAX_PLATFORMS=tpu: no such device here")


@pytest.mark.parametrize("name", command_line.COMMANDS)
def test_help_fits_a_screen_and_names_every_option(name, capsys):
    with pytest.raises(SystemExit) as stopped:
        command_line.main([name, "--help"])
    assert stopped.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 100
    fields = [field.name for field in dataclasses.fields(command_line.COMMANDS[name].load()[0])]
    options = [
        words for line in lines if line.startswith("  ") for words in line.split(maxsplit=1)[:1]
    ]
    missing = {f"--{field.replace('_', '-')}" for field in fields} - {
        option.rstrip(",") for option in options
    }
    assert missing <= {"--name"}  # which is given by place


def test_a_full_disk_is_one_line(capsys, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(demo, "main", full)
    assert "no space left on the disk of results: " in refused(capsys, "demo")


def test_ctrl_c_ends_with_130_and_says_how_to_go_on(capsys, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    run = lambda config: _runner.run(PLAN, interrupted, Results(config.out, "toy", Plain))
    kept = "interrupted: 0 of 3 cells are kept in results/toy.csv; the same command goes on"
    for main, said in ((run, kept), (interrupted, "starts over")):
        monkeypatch.setattr(demo, "main", main)
        with pytest.raises(SystemExit) as stopped:
            command_line.main(["demo"])
        assert stopped.value.code == 130
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert said in line


def test_results_go_to_the_working_directory_and_not_to_the_committed_ones():
    for name, command in command_line.COMMANDS.items():
        kind, _ = command.load()
        fields = {field.name: field.default for field in dataclasses.fields(kind)}
        if "out" in fields:
            assert fields["out"] == Path("results"), name
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert "/results/" in ignored


def test_list_says_what_is_committed_and_how_long_it_took(capsys):
    command_line.main(["list"])
    lines = capsys.readouterr().out.splitlines()
    for name, experiment in EXPERIMENTS.items():
        (line,) = [line for line in lines if line.split()[:1] == [name]]
        rows = sum(len(results.read()) for results in experiment.results(_runner.REFERENCE))
        assert f" {rows or 'tables'} " in line
        assert line.rstrip().endswith(("seconds", "minutes", "hours"))
        assert experiment.about.split()[0] in line


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_show_prints_one_screen_of_an_experiment_and_of_a_page(name, capsys):
    command_line.main(["show", name])
    text = capsys.readouterr().out
    assert str(_runner.REFERENCE) in text.replace("\n", "")
    assert len(text.splitlines()) <= 60
    for table in EXPERIMENTS[name].tables:
        lines = (_runner.REFERENCE / table).read_text().splitlines()
        assert lines[0].rstrip() in text
        assert next(line for line in [*lines, "|"] if line.startswith("|")).rstrip() in text
    for part in (Path(table).stem for table in EXPERIMENTS[name].tables[:2]):
        command_line.main(["show", name, "--part", part.removeprefix(f"{name}_")])
        shown = capsys.readouterr().out
        page = _runner.REFERENCE / f"{part}.md"
        lines = page.read_text().splitlines()
        assert len(shown.splitlines()) <= catalogue.SCREEN + 2
        assert all(line.rstrip() in shown for line in lines[: catalogue.SCREEN])
        assert (str(page) in shown.replace("\n", "")) == (len(lines) > catalogue.SCREEN)
    with pytest.raises(SystemExit, match="2"):
        command_line.main(["show", name, "--part", "nothing"])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plain(Cell):
    """A cell of two metrics."""

    last_metric = "report cpu s"


PLAN = {Plain(**CELL | {"seed": seed}): {} for seed in range(3)}


class Toy:
    """As a module: three seeds with a score."""

    score = 0.5

    @dataclasses.dataclass(frozen=True)
    class Config(_runner.Grid):
        """A toy."""

        out: Path = Path("results")

    @staticmethod
    def results_in(out):
        return Results(out, "toy", Plain)

    @classmethod
    def main(cls, config):
        found = lambda cell, _: Found(
            {"auc": cls.score + 0.001 * cell.seed, "report cpu s": time.perf_counter()}
        )
        _runner.run(PLAN, found, cls.results_in(config.out))


@pytest.fixture
def toy(monkeypatch, tmp_path):
    reference = tmp_path / "committed"
    for module in (catalogue, reproduce, _html):
        monkeypatch.setattr(module, "REFERENCE", reference)
    monkeypatch.setitem(sys.modules, "experiments.toy", Toy)
    monkeypatch.setitem(EXPERIMENTS, "toy", Experiment("A toy.", {"toy": "toy"}))
    monkeypatch.setattr(catalogue, "EXPERIMENTS", {"toy": EXPERIMENTS["toy"]})
    Toy.main(Toy.Config(out=reference))
    return reference


def test_reproduce_computes_the_committed_rows_anew_and_compares(toy, capsys, monkeypatch):
    """Times are not compared: they differ here, and the rows count as equal."""
    before = (toy / "toy.csv").read_bytes()
    command_line.main(["reproduce", "toy"])
    assert "| toy.csv | 3 | 3 | 3 | 0 | 0 |" in capsys.readouterr().out
    assert len(pd.read_csv("results/toy.csv")) == 6
    monkeypatch.setattr(Toy, "score", 0.53)
    with pytest.raises(SystemExit) as stopped:
        command_line.main(["reproduce", "toy", "--out", "other"])
    assert stopped.value.code == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "| toy.csv | 3 | 3 | 0 | 0.03 | 1 |" in printed
    assert "0.531, committed 0.501" in printed
    monkeypatch.setattr(Toy, "score", float("nan"))  # which is no agreement
    with pytest.raises(SystemExit):
        command_line.main(["reproduce", "toy", "--out", "third"])
    assert "| toy.csv | 3 | 3 | 0 | inf | 1 |" in " ".join(capsys.readouterr().out.split())
    assert (toy / "toy.csv").read_bytes() == before


def test_a_manifest_says_which_version_its_rows_repeat_by_where_all_that_are_asked_do(
    toy, capsys, monkeypatch
):
    rows = (toy / "toy.csv").read_bytes()
    monkeypatch.setattr(Toy, "score", 0.53)
    with pytest.raises(SystemExit):
        command_line.main(["reproduce", "toy", "--verify", "--share", "1/1", "--out", "other"])
    printed = " ".join(capsys.readouterr().out.split())
    assert "0 of 3 rows repeat, 0.03 is the largest gap; rows moved by" in printed
    assert "All of its rows are to be computed anew" in printed
    assert "verified" not in Toy.results_in(toy).describe()
    manifest = Path("other/toy.manifest.json")
    made_with = f'"ldp_jax": "{_runner._version()}"'
    manifest.write_text(manifest.read_text().replace(made_with, '"ldp_jax": "0.0.1"'))
    with pytest.raises(SystemExit):
        command_line.main(["reproduce", "toy", "--verify", "--out", "other"])
    assert "toy.csv may hold rows of ldp_jax 0.0.1" in " ".join(capsys.readouterr().err.split())
    for gap, equal in ((1e-6, 3), (3e-6, 0)):  # other processors round sums otherwise
        monkeypatch.setattr(Toy, "score", 0.5 + gap)
        Toy.main(Toy.Config(out=Path(f"rounded {gap}")))
        found = reproduce.compare(Toy.results_in(Path(f"rounded {gap}")), Toy.results_in(toy))
        assert found.equal == equal
    monkeypatch.setattr(Toy, "score", 0.5)
    before = Toy.results_in(toy).describe()
    command_line.main(["reproduce", "toy", "--verify", "--share", "1/1"])
    assert "toy.csv: 3 of 3 rows repeat" in " ".join(capsys.readouterr().out.split())
    said = Toy.results_in(toy).describe()
    found = "3 of 3 rows repeat, 0 is the largest gap"
    assert said.pop("verified") == {_runner._version(): {"found": found}}
    assert {**said, "written": before["written"]} == before
    assert (toy / "toy.csv").read_bytes() == rows


def test_rows_that_another_processor_rounds_otherwise_repeat_as_other_draws_of_one_law():
    """Half of 200 rows are drawn anew; a shift by one spread is found, and one row far away."""
    random = np.random.default_rng(0)
    key = ("dataset", "mechanism", "seed", "config", "metric")
    rows = itertools.product(["karate"], [f"m{i}" for i in range(20)], range(10), ["c"], ["auc"])
    table = pd.DataFrame(rows, columns=key).assign(value=random.normal(size=200))

    def compared(values):
        made = (table.assign(value=values), table)
        return reproduce.compare(
            *(types.SimpleNamespace(read=one.copy, key=key, csv=Path("t.csv")) for one in made)
        )

    assert compared(table.value).within
    anew = table.value.where(table.index % 2 == 0, random.normal(size=200))
    found = compared(anew)
    assert found.within
    assert found.equal == 100
    assert not compared(anew + 1.5).within
    assert not compared(table.value + 1.0 * (table.index % 10 == 0)).within  # a tenth, all upwards
    assert not compared(anew.where(table.index != 7, anew + 8.0)).within
    assert not compared(anew.where(table.index != 7, float("nan"))).within


def test_reproduce_can_compare_alone_and_does_not_write_over_what_it_compares_with(
    toy, capsys, monkeypatch
):
    monkeypatch.setattr(Toy, "main", lambda _: pytest.fail("computed"))
    command_line.main(["reproduce", "toy", "--compare-only"])
    assert "There are no rows here: what follows is committed." in capsys.readouterr().out
    assert "these are the committed rows themselves" in refused(
        capsys, "reproduce", "toy", "--out", toy
    )


def test_an_experiment_is_a_module_and_a_line(toy, capsys):
    """``list`` knows the toy from its line in the registry alone."""
    command_line.main(["list"])
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "A toy." in line]
    assert line.split()[:5] == ["toy", "A", "toy.", "6", "0.0"]
    assert _registry.runs("toy", "committed", Path("x")) == [Toy.Config(out=Path("x"))]
