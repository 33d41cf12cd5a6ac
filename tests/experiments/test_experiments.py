"""The experiments: tidy rows, resume, pairing, and that structure-only rows know nothing private."""

import dataclasses
import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from experiments import __main__ as command_line
from experiments import _privge_cells as cells
from experiments import _readme, _report, _runner, benchmarks, demo, privge, repeat, report
from experiments._settings import COMMITTED, PUBLISHED, Plan
from ldp_jax import datasets, graphs, metrics, pipeline, propagation, training


@pytest.fixture(scope="module")
def graph_file(tmp_path_factory):
    """A user's own graph, as a path."""
    data = datasets.synthetic(
        jax.random.key(0), num_nodes=120, num_classes=3, num_features=12, mean_degree=6.0, homophily=0.9
    )
    path = tmp_path_factory.mktemp("graph") / "mine.npz"
    datasets.save(data, path)
    return path


@pytest.fixture(scope="module")
def ran(graph_file, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    config = privge.Config(datasets=(str(graph_file),), preset="smoke", epsilons=(0.5, 1.0), out=out)
    before = training._fit._cache_size()
    privge.main(config)
    return config, pd.read_csv(out / "privge.csv"), training._fit._cache_size() - before


def test_rows_are_tidy_and_say_what_is_proved(ran):
    _, rows, _ = ran
    assert tuple(rows.columns) == _runner.COLUMNS + cells.IDENTITY + cells.EXTRA
    names = {"laplace", "piecewise", "multibit", "hds"}
    assert set(rows.mechanism) == (
        names | {f"structure-only:{name}" for name in names} | {"non-private", "label-propagation"}
    )
    private = rows[rows.mechanism.isin(names)]
    assert (abs(private.epsilon_proved - private.epsilon) < 1e-12).all()
    assert (rows[rows.mechanism.str.startswith("structure-only")].epsilon_proved == 0).all()
    assert (rows[rows.mechanism == "label-propagation"].epsilon_proved == 0).all()
    non_private = rows[rows.mechanism == "non-private"]
    assert (non_private.epsilon == float("inf")).all()
    assert (non_private.epsilon_proved == float("inf")).all()
    assert rows.value.between(0, 1).all()
    assert set(rows.metric[rows.task == "node"]) == {"accuracy"}
    assert set(rows.metric[rows.task == "link"]) == {"auc"}
    assert not rows.duplicated([*_runner.KEY, *cells.IDENTITY]).any()
    trained = rows.mechanism != "label-propagation"
    assert (rows[trained].groupby(list(_runner.KEY)).preprocessing.agg(set) == {"raw", "standardized"}).all()
    assert (rows.preprocessing[~trained] == cells.LABELS).all()
    assert rows.chosen[~trained].str.fullmatch(r"alpha [0-9.]+ r [0-9.]+").all()
    assert rows.chosen[trained].isna().all()
    assert rows.validation.between(0, 1).all()


def test_one_training_program_serves_seeds_epsilons_and_mechanisms(ran):
    assert ran[2] == 2  # one a task


def test_a_second_run_computes_nothing_and_a_killed_one_goes_on(ran, monkeypatch, tmp_path):
    config, rows, _ = ran
    monkeypatch.setattr(privge, "compute", lambda *_: pytest.fail("computed a row that was there"))
    privge.main(config)
    monkeypatch.undo()
    # As a kill leaves it: the rows of the finished cells alone.
    lost = (rows.mechanism == "hds") & (rows.epsilon == 1.0) & (rows.seed == 1)
    lost |= (rows.mechanism == "non-private") & (rows.seed == 0) & (rows.preprocessing == "raw")
    rows[~lost].to_csv(tmp_path / "privge.csv", index=False)
    computed = []
    compute = privge.compute
    monkeypatch.setattr(privge, "compute", lambda work, bench: computed.append(work) or compute(work, bench))
    privge.main(dataclasses.replace(config, out=tmp_path))
    assert {(work.cell.name, work.cell.epsilon, work.cell.structure_only, *work[1:]) for work in computed} == {
        ("hds", 1.0, False, 1, ("raw", "standardized")),
        ("non-private", float("inf"), False, 0, ("raw",)),
    }
    again = pd.read_csv(tmp_path / "privge.csv")
    keys, found = [*_runner.KEY, *cells.IDENTITY], ["value", *cells.EXTRA]
    pd.testing.assert_frame_equal(  # the seed alone, exactly as beside the other one
        again.sort_values(keys).reset_index(drop=True)[[*keys, *found]],
        rows.sort_values(keys).reset_index(drop=True)[[*keys, *found]],
        check_exact=True,
    )


def test_structure_only_rows_do_not_depend_on_the_private_features(ran, graph_file, tmp_path):
    """Other features, same rows: bit for bit, or something private has leaked into the baseline."""
    config, rows, _ = ran
    data = datasets.load(str(graph_file))
    other = scipy.sparse.csr_array(scipy.sparse.random_array(data.x.shape, density=0.5, rng=1) > 0, dtype="float32")
    path = tmp_path / "mine.npz"
    datasets.save(dataclasses.replace(data, x=other), path)
    changed = dataclasses.replace(config, datasets=(str(path),), out=tmp_path, mechanisms=("hds",), task="node")
    privge.main(changed)
    columns = ["mechanism", "epsilon", "seed", "preprocessing", "value"]
    before = rows[(rows.task == "node")][columns]
    after = pd.read_csv(tmp_path / "privge.csv")[columns]
    free = ["structure-only:hds", "label-propagation"]
    merged = before[before.mechanism.isin(free)].merge(after, on=columns[:4], suffixes=("", "_other"))
    assert len(merged) == 10
    assert (merged.value == merged.value_other).all()
    private = before[before.mechanism == "non-private"].merge(after, on=columns[:4], suffixes=("", "_other"))
    assert (private.value != private.value_other).any()


def test_manifest_spells_out_configs_and_guarantees(ran):
    config, rows, _ = ran
    manifest = json.loads((config.out / "privge.manifest.json").read_text())
    assert set(rows.config) == set(manifest["configs"])
    for name, settings in manifest["configs"].items():
        assert _runner.config_hash(settings) == name
    assert "jax" in manifest["environments"][0]["versions"]
    assert any("epsilon 1 per record" in text for text in manifest["guarantees"].values())


def test_report_has_tables_gains_and_pictures(ran):
    config, _, _ = ran
    report.main(report.Config(out=config.out))
    text = (config.out / "REPORT.md").read_text()
    for wanted in (
        "structure-only",
        "gain",
        "over best",
        "non-private",
        "label prop.",
        "What the private features",
    ):
        assert wanted in text
    for picture in ("figure1.png", "figure2_node.png", "table3_link.png"):
        assert (config.out / picture).stat().st_size > 10_000


def tidy(rows):
    """Results of one table from (mechanism, epsilon, k, {seed: value})."""
    base = {
        "dataset": "cora", "task": "node", "metric": "accuracy", "epsilon_proved": 1.0, "unit": "record",
        "seconds": 0.0, "config": "c",
    }  # fmt: skip
    return pd.DataFrame(
        {**base, "mechanism": name, "epsilon": epsilon, "k": k, "seed": seed, "value": value}
        for name, epsilon, k, values in rows
        for seed, value in values.items()
    )


def test_gains_are_paired_by_seed_not_by_position():
    """A gain of exactly 1 point for each seed has an interval of width 0, however the seeds differ.

    Seed 0 is missing from one row, and the other is in another order: pairs by position would differ by 10 points.
    """
    truth = {seed: 0.5 + 0.1 * seed for seed in (3, 1, 0, 2)}
    private = {seed: truth[seed] + 0.01 for seed in (1, 2, 3)}
    for first, second in (
        (private, truth),
        ({s: v + 0.01 for s, v in truth.items()}, dict(list(truth.items())[:2])),
    ):
        (summary,) = _report.summarise(tidy([("hds", 1.0, 1, first), ("structure-only:hds", 1.0, 1, second)]))
        for gain in (summary.lines[0].gain, summary.lines[0].over_best):
            assert gain is not None
            assert gain.mean == pytest.approx(1.0)
            assert gain.half_width == pytest.approx(0.0, abs=1e-9)
            assert gain.n == len(set(first) & set(second))
            assert _report.significant(gain)


def test_a_lucky_row_of_one_seed_is_not_the_best():
    """The best structure-only row is looked for among those with all seeds, of the k sweep too."""
    usual = dict.fromkeys(range(3), 0.7)
    rows = [("hds", 1.0, 5, usual), ("structure-only:hds", 1.0, 5, usual)]
    lucky = ("structure-only:laplace", 1.0, 9, {0: 0.9})
    sweep = ("structure-only:hds", 1.0, 50, dict.fromkeys(range(3), 0.75))
    (summary,) = _report.summarise(tidy([*rows, lucky]))
    assert summary.best == ("structure-only:hds", 1.0, 5)
    (summary,) = _report.summarise(tidy([*rows, lucky, ("hds", 1.0, 50, usual), sweep]), {"cora node": 5})
    assert summary.best == ("structure-only:hds", 1.0, 50)
    assert summary.best_value is not None
    assert summary.best_value.mean == pytest.approx(75.0)
    assert [line.k for line in summary.lines] == [5]  # the table has the published k alone
    assert summary.lines[0].over_best is not None
    assert summary.lines[0].over_best.mean == pytest.approx(-5.0)


def variants(raw, standardized):
    """Rows of one cell on both embeddings: (value, validation) of each seed."""
    rows = []
    for name, scores in (("raw", raw), ("standardized", standardized)):
        rows += [
            {"seed": seed, "value": value, "validation": validation, "preprocessing": name}
            for seed, (value, validation) in enumerate(scores)
        ]
    return pd.DataFrame(rows)


def test_one_embedding_is_chosen_for_all_seeds_by_their_mean_validation_score():
    """Test scores run against the validation scores here: who looked at them would choose the other."""
    bad, good = [(0.9, 0.60), (0.9, 0.70), (0.9, 0.65)], [(0.1, 0.80), (0.2, 0.69), (0.3, 0.75)]
    kept, which = _report.chosen(variants(bad, good))
    assert (which, kept.value.tolist()) == ("standardized", [0.1, 0.2, 0.3])  # of seed 1 too, whose raw is better
    kept, which = _report.chosen(variants(good, bad))
    assert (which, kept.value.tolist()) == ("raw", [0.1, 0.2, 0.3])
    assert _report.chosen(variants(good, good))[1] == "raw"  # a tie


def test_seeds_without_both_embeddings_are_left_out_of_the_choice_and_of_the_row():
    both = variants([(0.5, 0.6), (0.5, 0.6)], [(0.4, 0.5), (0.4, 0.5), (0.9, 0.99), (0.9, 0.99)])
    kept, which = _report.chosen(both)
    assert (which, kept.seed.tolist()) == ("raw", [0, 1])
    alone = both[both.preprocessing == "standardized"]
    kept, which = _report.chosen(alone)
    assert (which, len(kept)) == ("standardized*", 4)
    labels = alone.assign(preprocessing=cells.LABELS)
    assert _report.chosen(labels)[1] == ""


def test_a_row_that_is_nan_in_validation_is_not_chosen():
    kept, which = _report.chosen(variants([(0.5, -np.inf)], [(0.4, 0.1)]))
    assert (which, kept.value.tolist()) == ("standardized", [0.4])


def test_tables_say_which_embedding_validation_chose():
    first, second = ([(0.7, 0.7), (0.7, 0.8)], [(0.8, 0.9), (0.8, 0.9)])
    frames = []
    for name, (raw, standardized) in (("hds", (first, second)), ("structure-only:hds", (second, first))):
        frame = tidy([(name, 1.0, 5, {0: 0.0})]).drop(columns=["seed", "value"])
        frames.append(variants(raw, standardized).merge(frame, how="cross"))
    (summary,) = _report.summarise(pd.concat(frames))
    (line,) = summary.lines
    assert (line.embedding, line.twin_embedding) == ("standardized", "raw")
    assert line.value.mean == pytest.approx(80.0)
    assert line.gain is not None
    assert line.gain.mean == pytest.approx(0.0)
    assert "standardized" not in report._table(summary, {summary.config: CONFIG})
    assert "| std., raw |" in report._table(summary, {summary.config: CONFIG})


CONFIG = {"epochs": 1, "patience": 1, "batch_size": 1, "head": "logistic", "task": "link", "alpha": 0.1, "r": 0.5}


def test_tables_tell_other_heads_apart():
    assert report._is_default({"head": "mlp", "task": "node"})
    assert not report._is_default({"head": "logistic", "task": "node"})
    assert report._unlike_the_rest({"head": "mlp", "task": "link"}) == " (other head)"


def test_published_hyper_parameters_are_those_of_the_paper():
    cora, wikipedia = PUBLISHED["cora"], PUBLISHED["crocodile"]
    assert (cora.batch_size, cora.layers, cora.hidden, cora.alpha, cora.r, cora.dropout) == (
        64,
        2,
        128,
        0.1,
        0.1,
        0.7,
    )
    assert (wikipedia.k, wikipedia.link_k, wikipedia.link_r) == (20, 3, 0.5)
    paper = privge.plan(privge.Config(preset="paper"), "node", "facebook_pages")
    assert (paper.seeds, paper.epochs, len(paper.epsilons)) == (10, 100, 6)
    assert ("link", "cora") in COMMITTED


def test_unknown_names_list_the_known_ones(tmp_path):
    with pytest.raises(ValueError, match="debian"):
        privge.main(privge.Config(datasets=("corra",), out=tmp_path))
    assert not (tmp_path / "privge.csv").exists()


def test_demo_runs_small(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "PLAN", Plan(epsilons=(1.0,), seeds=2, epochs=2))
    demo.main(demo.Config(out=tmp_path))
    assert (tmp_path / "demo.png").stat().st_size > 10_000
    assert set(pd.read_csv(tmp_path / "demo.csv").task) == {"node", "link"}


# --- What validation chooses, and what a row may depend on -----------------------------------------------------


@pytest.fixture(scope="module")
def bench(graph_file):
    config = privge.Config(preset="smoke")
    todo = privge.plan(config, "node", str(graph_file))
    return cells.prepare(privge.settings(config, "node", str(graph_file), todo), 0)


def test_both_embeddings_are_trained_alike(bench, monkeypatch):
    """The same keys, examples and rules; a row each, of which the report chooses."""
    seen = []

    def fit(key, model, objective, z, *examples, **settings):
        seen.append((jax.random.key_data(key).tolist(), [id(part) for part in examples], settings))
        centred = np.allclose(np.asarray(z).mean(0), 0.0, atol=1e-4)
        return training.Fitted((), 0.25 if centred else 0.75, 0.5 if centred else 0.1, 0, (), ())

    monkeypatch.setattr(training, "fit", fit)
    made = cells.make_mechanism("laplace", 1.0, bench.data.num_features, 1)
    raw, standardized = cells.run(bench, made)
    assert (raw["preprocessing"], raw["value"], raw["validation"]) == ("raw", 0.1, 0.75)
    assert (standardized["preprocessing"], standardized["value"], standardized["validation"]) == (
        "standardized",
        0.5,
        0.25,
    )
    assert seen[0] == seen[1]
    (alone,) = cells.run(bench, made, ("standardized",))
    assert {**alone, "seconds": 0} == {**standardized, "seconds": 0}


def test_standardised_columns_are_those_of_float64_whatever_the_threads():
    """Bit for bit what NumPy gives in float64: no float32 sum whose order depends on the machine."""
    rng = np.random.default_rng(0)
    z = rng.normal(3.0, 2.0, (500, 700)).astype(np.float32)
    z[:, 0] = 7.0
    z[:, 1] = 1000.0 + rng.integers(0, 2, 500) * np.float32(6e-5)  # float32 noise around one value
    wide = z.astype(np.float64)
    centred = wide - wide.mean(0)
    expected = (centred / np.maximum(np.sqrt((centred**2).mean(0)), 1e-30)).astype(np.float32)
    expected[:, :2] = 0.0
    np.testing.assert_array_equal(cells.standardized(jnp.asarray(z)), expected)


def test_label_propagation_takes_its_best_alpha_and_r_in_validation(bench):
    (row,) = cells.run_label_propagation(bench)
    settings = bench.settings
    known = np.zeros((bench.data.num_nodes, bench.data.num_classes), np.float32)
    known[bench.train.index, bench.train.label] = 1.0
    found = {}
    for alpha in settings.label_alphas:
        for r in settings.label_rs:
            scores = jnp.asarray(propagation.ppr_dense(bench.data.graph, known, alpha, r), jnp.float32)
            found[alpha, r] = [
                float(metrics.accuracy(scores[part.index], part.label)) for part in (bench.validation, bench.test)
            ]
    best = max(validation for validation, _ in found.values())
    assert row["validation"] == pytest.approx(best, abs=1e-6)
    chosen = next(pair for pair, (validation, _) in found.items() if validation == best)
    assert row["preprocessing"] == cells.LABELS
    assert row["chosen"] == f"alpha {chosen[0]:g} r {chosen[1]:g}"
    assert row["value"] == pytest.approx(found[chosen][1], abs=1e-6)
    assert len({tuple(pair) for pair in found.values()}) > 1  # the choice matters here


def test_a_structure_only_twin_draws_noise_of_its_own(bench):
    """Records that all equal the public one: with the same noise the two releases would be equal, and cancel."""
    same = dataclasses.replace(bench, x=jnp.full_like(bench.x, bench.data.default_record()))
    made = cells.make_mechanism("laplace", 1.0, bench.data.num_features, 1)
    private, twin = (np.asarray(cells.embed(same, made, structure_only=twin)) for twin in (False, True))
    assert np.isclose(private, twin, rtol=1e-3).mean() < 0.05
    np.testing.assert_array_equal(twin, cells.embed(bench, made, structure_only=True))


def test_more_seeds_take_the_same_programs(ran, tmp_path):
    """What is computed beside a row is no part of its program: so it cannot change its bits."""
    config, rows, _ = ran
    one = dataclasses.replace(config, out=tmp_path, seeds=1, mechanisms=("hds",), epsilons=(1.0,))
    privge.main(one)
    programs = [training._fit._cache_size(), pipeline._private_embeddings._cache_size()]
    privge.main(dataclasses.replace(one, seeds=3))
    assert [training._fit._cache_size(), pipeline._private_embeddings._cache_size()] == programs
    keys = [*_runner.KEY, *cells.IDENTITY]
    both = pd.read_csv(tmp_path / "privge.csv").merge(rows, on=keys, suffixes=("", "_before"))
    assert len(both) == 26  # two seeds, both embeddings: three rows a task, and label propagation
    for column in ("value", *cells.EXTRA):
        assert both[column].equals(both[f"{column}_before"].rename(column))


def test_the_spread_of_repeated_rows_is_that_of_the_worst_seed(graph_file, capsys):
    repeat.child(str(graph_file), [0, 1], epochs=3)
    rows = json.loads(capsys.readouterr().out)
    assert [(row["mechanism"], row["seed"]) for row in rows[::2][:4]] == [
        ("non-private", 0), ("hds", 0), ("structure-only:hds", 0), ("non-private", 1),
    ]  # fmt: skip
    assert [row["preprocessing"] for row in rows] == ["raw", "standardized"] * 6
    again = [{**row, "value": row["value"] + 0.01 * (1 - 2 * row["seed"])} for row in rows]
    frame = pd.DataFrame(
        [{"condition": name, **row} for name, part in ((repeat.BASE, rows), ("one core", again)) for row in part]
    )
    head, lines = repeat.spread(frame)
    assert head == ["row", "one core"]
    assert [line[1] for line in lines] == ["a seed 1.00, mean 0.00"] * 6
    assert lines[4][0] == "HDS, structure-only, raw"
    every = [seed for seeds, _, _ in repeat.conditions(3)["each seed alone"] for seed in seeds]
    assert every == [0, 1, 2]


# --- Files and mistakes ------------------------------------------------------------------------------------------


def on_command_line(monkeypatch, capsys, *words):
    """Exit code and the lines of standard error."""
    monkeypatch.setattr(sys, "argv", ["experiments", *map(str, words)])
    with pytest.raises(SystemExit) as stopped:
        command_line.main()
    return stopped.value.code, capsys.readouterr().err.strip().splitlines()


@pytest.mark.parametrize(
    "command", ["demo", "privge", "dprr", "audit", "variance", "report", "repeat", "benchmarks"]
)
def test_an_out_that_cannot_be_written_to_is_found_out_first(tmp_path, monkeypatch, capsys, command):
    for name in ("demo", "privge", "dprr", "audit", "variance", "report", "repeat", "benchmarks"):
        module = getattr(command_line, name)
        monkeypatch.setattr(module, "main", lambda _: pytest.fail("computed something first"))
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        code, lines = on_command_line(monkeypatch, capsys, command, "--out", out)
        assert code == 2
        assert len(lines) == 1
        assert f"--out {out}" in lines[0]
    assert (tmp_path / "file").read_text() == "mine"


def test_a_read_only_out_is_found_out_whatever_its_permission_bits_say(tmp_path, monkeypatch):
    """As root, or on a mount that is read-only, only writing tells."""

    def refuse(*_, **__):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(_runner.tempfile, "TemporaryFile", refuse)
    with pytest.raises(_runner.UsageError, match=r"--out .*Read-only file system"):
        _runner.Results(tmp_path, "privge")


ROW = dict.fromkeys(_runner.COLUMNS, "a") | {"epsilon": 1.0, "k": 1, "seed": 0, "epsilon_proved": 1.0, "value": 0.5}


@pytest.mark.parametrize("fails", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, fails):
    results = _runner.Results(tmp_path, "mine")
    results.append([ROW])
    before = results.csv.read_text()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_runner.os, fails, full)
    with pytest.raises(OSError, match="No space left"):
        results.append([{**ROW, "seed": 1}])
    monkeypatch.undo()
    assert results.csv.read_text() == before
    assert not list(tmp_path.glob("*.tmp"))


def test_what_a_killed_write_left_is_cleared_by_the_next(tmp_path):
    results = _runner.Results(tmp_path, "mine")
    for name in ("mine.csv.4711.tmp", "mine.manifest.json.4711.tmp"):
        (tmp_path / name).write_text("half a")
    (tmp_path / "mine.csv.tmp.txt").write_text("somebody's")
    results.append([ROW])
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "mine.csv", "mine.csv.tmp.txt", "mine.lock", "mine.manifest.json",
    ]  # fmt: skip


def test_an_experiment_has_columns_of_its_own_which_identify_nothing(tmp_path):
    results = _runner.Results(tmp_path, "mine", ("colour",))
    results.append([{**ROW, "colour": "red"}])
    results.append([{**ROW, "colour": "blue"}])  # the same row
    assert list(results.read().colour) == ["red"]
    with pytest.raises(_runner.UsageError, match="other columns"):
        _runner.Results(tmp_path, "mine").read()
    assert len(_runner.Results(_runner.DEFAULT_OUT, "dprr").read()) > 100
    assert len(_runner.Results(_runner.DEFAULT_OUT, "privge", cells.EXTRA, cells.IDENTITY).read()) > 100


def test_a_file_without_bounds_is_refused_in_one_line_that_names_the_option(
    graph_file, tmp_path, monkeypatch, capsys
):
    with np.load(graph_file) as arrays:
        kept = {name: arrays[name] for name in arrays.files if name not in ("x_lower", "x_upper")}
    path = tmp_path / "mine.npz"
    np.savez(path, **kept)
    code, lines = on_command_line(monkeypatch, capsys, "privge", "--datasets", path, "--out", tmp_path / "out")
    assert code == 2
    assert len(lines) == 1
    assert f"--datasets {path}" in lines[0]
    assert "--bounds LOWER UPPER" in lines[0]
    monkeypatch.setattr(privge, "run_task", lambda config, task, dataset, *_, **__: privge.load(dataset))
    privge.main(privge.Config(datasets=(str(path),), bounds=(0.0, 1.0), out=tmp_path / "out"))
    assert privge.load(str(path)).upper == 1.0


def test_readme_sections_are_rendered_between_their_markers(ran, tmp_path):
    config, _, _ = ran
    readme = tmp_path / "README.md"
    readme.write_text(
        "mine\n<!-- results -->\nold\n<!-- /results -->\nmore\n<!-- benchmarks -->\n<!-- /benchmarks -->\n"
    )
    report.main(report.Config(out=config.out, readme=readme))
    text = readme.read_text()
    assert text.startswith("mine\n<!-- results -->\n")
    assert "\nold\n" not in text
    assert "of 16 private rows" in " ".join(text.split()).lower()  # 4 mechanisms, 2 budgets, 2 tasks
    assert "\n<!-- /results -->\nmore\n<!-- benchmarks -->\n" in text
    readme.write_text("mine\n")
    with pytest.raises(_runner.UsageError, match="no section"):
        _readme.write_sections(readme, {"results": "new"})


# --- Benchmarks --------------------------------------------------------------------------------------------------


def test_benchmarks_give_every_repetition_a_number_of_its_own():
    seen = {"ours": [], "theirs": []}
    sides = {name: (seen[name].append, "a note") for name in seen}
    rows = benchmarks._interleaved("mine", sides, 3)
    assert seen == {"ours": [0, 1, 2, 3], "theirs": [0, 1, 2, 3]}
    assert [row["repeat"] for row in rows] == [0, 0, 1, 1, 2, 2]
    keys = {tuple(jax.random.key_data(benchmarks._key(repeat)).tolist()) for repeat in range(4)}
    assert len(keys) == 4


def test_the_scipy_sides_solve_what_ppr_solves():
    """The same recurrence in SciPy: the same error after as many products."""
    graph = graphs.from_edges([[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]], num_nodes=5)
    x = np.random.default_rng(0).normal(size=(5, 3))
    alpha, r = 0.2, 0.3
    senders, receivers = np.asarray(graph.senders), np.asarray(graph.receivers)
    degree = np.maximum(np.bincount(receivers, minlength=5), 1.0)
    weight = (1 - alpha) * degree[receivers] ** (r - 1) * degree[senders] ** -r
    step = scipy.sparse.csr_array((weight, (receivers, senders)), shape=(5, 5))
    exact = propagation.ppr_dense(graph, x, alpha, r)
    products = int(propagation.chebyshev_steps(alpha, 1e-6))
    np.testing.assert_allclose(
        benchmarks.semi_iteration(step, alpha * x, 1 - alpha, products), exact, atol=1e-5, rtol=0
    )
    few = propagation.ppr(graph, x.astype(np.float32), alpha, r, 1e-2)
    same = benchmarks.semi_iteration(step, alpha * x, 1 - alpha, int(propagation.chebyshev_steps(alpha, 1e-2)))
    np.testing.assert_allclose(few, same, atol=1e-6)
    np.testing.assert_allclose(benchmarks.power_series(step, alpha * x, 80), exact, atol=1e-6)


def test_help_helps():
    for words in (["--help"], ["privge", "--help"]):
        done = subprocess.run(
            [sys.executable, "-m", "experiments", *words], capture_output=True, text=True, check=True, timeout=120
        )
        assert "demo" in done.stdout or "--epsilons" in done.stdout
