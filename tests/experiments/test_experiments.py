"""The experiments: tidy rows, resume, pairing, and that structure-only rows know nothing private."""

import dataclasses
import json
import subprocess
import sys

import jax
import pandas as pd
import pytest
import scipy.sparse

from experiments import _report, _runner, demo, privge, report
from experiments._settings import COMMITTED, PUBLISHED, Plan
from ldp_jax import datasets, training


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
    before = training.fit_many._cache_size()
    privge.main(config)
    return config, pd.read_csv(out / "privge.csv"), training.fit_many._cache_size() - before


def test_rows_are_tidy_and_say_what_is_proved(ran):
    _, rows, _ = ran
    assert tuple(rows.columns) == _runner.COLUMNS
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
    assert not rows.duplicated(list(_runner.KEY)).any()


def test_one_training_program_serves_seeds_epsilons_and_mechanisms(ran):
    assert ran[2] == 2  # one a task


def test_a_second_run_computes_nothing_and_a_killed_one_goes_on(ran, monkeypatch, tmp_path):
    config, rows, _ = ran
    monkeypatch.setattr(privge, "compute", lambda *_: pytest.fail("computed a row that was there"))
    privge.main(config)
    monkeypatch.undo()
    # As a kill leaves it: the rows of the finished cells alone.
    lost = (rows.mechanism == "hds") & (rows.epsilon == 1.0) & (rows.seed == 1)
    rows[~lost].to_csv(tmp_path / "privge.csv", index=False)
    computed = []
    compute = privge.compute
    monkeypatch.setattr(privge, "compute", lambda cell, bench: computed.append(cell) or compute(cell, bench))
    privge.main(dataclasses.replace(config, out=tmp_path))
    assert {(cell.name, cell.epsilon, cell.structure_only) for cell in computed} == {("hds", 1.0, False)}
    again = pd.read_csv(tmp_path / "privge.csv")
    keys = list(_runner.KEY)
    pd.testing.assert_frame_equal(
        again.sort_values(keys).reset_index(drop=True)[[*keys, "value"]],
        rows.sort_values(keys).reset_index(drop=True)[[*keys, "value"]],
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
    columns = ["mechanism", "epsilon", "seed", "value"]
    before = rows[(rows.task == "node")][columns]
    after = pd.read_csv(tmp_path / "privge.csv")[columns]
    free = ["structure-only:hds", "label-propagation"]
    merged = before[before.mechanism.isin(free)].merge(after, on=columns[:3], suffixes=("", "_other"))
    assert len(merged) == 6
    assert (merged.value == merged.value_other).all()
    private = before[before.mechanism == "non-private"].merge(after, on=columns[:3], suffixes=("", "_other"))
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


def test_gains_are_paired_by_seed():
    """A gain of exactly 1 point for each seed has an interval of width 0, however the seeds differ."""
    base = {
        "dataset": "d", "task": "node", "k": 1, "metric": "accuracy", "epsilon_proved": 1.0, "unit": "record",
        "seconds": 0.0, "config": "c", "epsilon": 1.0,
    }  # fmt: skip
    rows = [
        {**base, "mechanism": name, "seed": seed, "value": 0.5 + 0.1 * seed + shift}
        for seed in range(4)
        for name, shift in (("hds", 0.01), ("structure-only:hds", 0.0))
    ]
    (summary,) = _report.summarise(pd.DataFrame(rows))
    gain = summary.lines[0].gain
    assert gain is not None
    assert gain.mean == pytest.approx(1.0)
    assert gain.half_width == pytest.approx(0.0, abs=1e-9)
    assert _report.significant(gain)


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


def test_help_helps():
    for words in (["--help"], ["privge", "--help"]):
        done = subprocess.run(
            [sys.executable, "-m", "experiments", *words], capture_output=True, text=True, check=True, timeout=120
        )
        assert "demo" in done.stdout or "--epsilons" in done.stdout
