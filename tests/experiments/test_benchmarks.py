"""What is timed, and how far rows repeat."""

import jax
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from experiments import (
    _class_benchmarks,
    _declared,
    _edge_benchmarks,
    _references,
    _scaling_benchmark,
    _sides,
    benchmarks,
    repeat,
)
from experiments._runner import REFERENCE
from ldp_jax import features, servers
from ldp_jax.graph import graphs, propagation
from ldp_jax.learning import training
from tests.experiments import contract


def test_benchmarks_give_every_repetition_a_number_of_its_own():
    seen = {"ours": [], "theirs": []}
    sides = {name: (seen[name].append, "a note") for name in seen}
    rows = _sides.interleaved("mine", sides, 3)
    assert seen == {"ours": [0, 1, 2, 3], "theirs": [0, 1, 2, 3]}
    assert [row["repeat"] for row in rows] == [0, 0, 1, 1, 2, 2]
    keys = {tuple(jax.random.key_data(_sides.key_of(repeat)).tolist()) for repeat in range(4)}
    assert len(keys) == 4


def test_bytes_that_move_are_read_from_a_program():
    text = """
      %gather.1 = f32[64,8]{1,0} gather(f32[64,8] %x, s32[3] %i)
      %all-gather.2 = f32[64,8]{1,0} all-gather(f32[8,8] %w), channel_id=1, dimensions={0}
      ROOT %all-to-all = f32[1,8]{1,0} all-to-all(f32[1,8] %all-gather.2), channel_id=2
    """
    assert _scaling_benchmark.collective_bytes(text) == 4 * (64 * 8 + 8)


def test_streamed_reports_are_those_of_the_repeated_rows():
    rows = np.random.default_rng(0).uniform(-1, 1, (7, 5)).astype(np.float32)
    m = features.HDS(1.0, dim=5, k=2)
    streamed = servers.perturb(
        jax.random.key(0), _edge_benchmarks.Tiled(rows, 4100), m
    )  # in two blocks
    whole = servers.perturb(jax.random.key(0), np.tile(rows, (586, 1))[:4100], m)
    assert jax.tree.all(jax.tree.map(np.array_equal, streamed, whole))
    assert "0.02 GB of records" in _edge_benchmarks.reports_job(5000)["note"]


def test_times_of_a_large_job_begin_at_its_file(tmp_path):
    """CPU seconds of imports, and of all tests before, are none of them."""
    np.save(tmp_path / "edges.npy", [[0, 1], [1, 2]])
    taken = _sides.clock()
    found = _edge_benchmarks.big_job("counts", str(tmp_path), 3)
    wall, cpu = taken()
    assert 0 < found["wall"] <= wall
    assert 0 < found["cpu"] <= cpu


def test_imports_of_both_sides_are_counted_and_come_before_loading(monkeypatch):
    """Loading imports JAX, and is not counted."""
    seen = []

    def asked(code, *_, **__):
        seen.append(code)
        return {"wall": 1.0, "cpu": 1.0, "accuracy": 0.5}

    monkeypatch.setattr(_class_benchmarks, "in_a_process", asked)
    monkeypatch.setattr(_class_benchmarks, "installed", lambda *_: True)
    rows = _class_benchmarks.class_rows("records", 1)
    assert [line["subject"] for line in rows] == ["ldp_jax", "scikit-learn"]
    for code, library in zip(seen, ("jax", "sklearn"), strict=True):
        known = {}
        exec(code.partition("import numpy")[0], known)
        assert library in known
        assert known["wall"] > 0
        assert '"wall": wall + ' in code


def test_sides_that_run_this_library_are_no_others(tmp_path):
    """More devices, and more work by them, are not what others take."""
    rows = [
        {"benchmark": "b", "subject": subject, "wall_s": wall, "cpu_s": wall}
        for subject, wall in (("ldp_jax", 1.0), ("8 devices", 8.0), ("grid", 2.0), ("torch", 0.5))
    ]
    frame = pd.DataFrame(rows).assign(repeat=0, device="cpu", cores=2)
    text = _declared.paged(tmp_path, benchmarks.NAME, frame)
    assert "Of 1 sides that run other code than this library's 0 take more" in text
    assert "by the clock, and 1 less." in text


def test_the_scipy_side_solves_what_ppr_solves():
    graph = graphs.from_edges([[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]], num_nodes=5)
    x = np.random.default_rng(0).normal(size=(5, 3))
    alpha, r = 0.2, 0.3
    senders = np.asarray(graph.senders)
    receivers = np.asarray(graph.receivers)
    degree = np.maximum(np.bincount(receivers, minlength=5), 1.0)
    weight = (1 - alpha) * degree[receivers] ** (r - 1) * degree[senders] ** -r
    step = scipy.sparse.csr_array((weight, (receivers, senders)), shape=(5, 5))
    products = int(propagation.chebyshev_steps(alpha, 1e-6))
    found = benchmarks.semi_iteration(step, alpha * x, 1 - alpha, products)
    np.testing.assert_allclose(found, propagation.ppr_dense(graph, x, alpha, r), atol=1e-5, rtol=0)


def test_the_sparse_sides_draw_from_the_laws_of_the_mechanisms():
    """Moments of each, to six of their own standard errors: a bias of 1 % would show."""
    rng = _references.generator(0)
    users = 100_000
    value = 0.3
    places, reports = _references.hds(rng, np.full((users, 5), value, np.float32), 2.0, 2)
    wave = features.SquareWave(1.0)
    mean = float(wave.mean(value))
    variance = float(wave.variance(value))
    assert abs(reports.mean() - mean) < 6 * np.sqrt(variance / reports.size)
    assert abs(reports.var() / variance - 1) < 0.02
    assert (np.diff(places) > 0).all()
    assert abs(np.bincount(places.ravel()) / users - 0.4).max() < 6 * np.sqrt(0.24 / users)
    n = 400
    epsilons = (50.0, 2.0)
    pairs = np.array([[i, (i + step) % n] for i in range(n) for step in (1, 2, 3)])
    codes = np.sort(np.concatenate([pairs[:, 0] * n + pairs[:, 1], pairs[:, 1] * n + pairs[:, 0]]))
    found = np.concatenate([_references.dprr(rng, codes, n, epsilons) for _ in range(20)])
    flip = 1 / (1 + np.exp(2.0))
    q = 6 / (6 * (1 - 2 * flip) + (n - 1) * flip)
    for count, total, chance in (
        (np.isin(found, codes).sum(), 20 * len(codes), (1 - flip) * q),
        ((~np.isin(found, codes)).sum(), 20 * n * (n - 7), flip * q),
    ):
        assert abs(count / total - chance) < 6 * np.sqrt(chance / total) + 0.01 * chance
    assert (found // n != found % n).all()


def test_the_spread_of_repeated_rows_is_that_of_the_worst_seed(graph_file, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "fit", contract.as_first_drawn)  # rows are compared, not judged
    rows = repeat.child(str(graph_file), [0, 1], epochs=3)
    assert [(row["mechanism"], row["seed"]) for row in rows[::2][:4]] == [
        ("non-private", 0), ("hds", 0), ("structure-only:hds", 0), ("non-private", 1),
    ]  # fmt: skip
    assert [row["preprocessing"] for row in rows] == ["raw", "standardized"] * 6
    again = [{**row, "value": row["value"] + 0.01 * (1 - 2 * row["seed"])} for row in rows]
    frame = pd.DataFrame(
        [
            {"condition": name, **row}
            for name, part in ((repeat.BASE, rows), ("one core", again))
            for row in part
        ]
    )
    text = _declared.paged(tmp_path, repeat.NAME, frame, "About.")
    assert "| row | preprocessing | one core: a seed | one core: mean |" in text
    assert text.count(" | 1.00 | 0.00 |") == 6
    assert "| structure-only HDS | raw |" in text
    assert text.endswith("About.")
    every = [seed for seeds, _, _ in repeat.conditions(3)["each seed alone"] for seed in seeds]
    assert every == [0, 1, 2]


@pytest.mark.parametrize("name", ["benchmarks", "benchmarks_gpu"])
def test_the_committed_page_is_that_of_the_committed_rows(name, tmp_path):
    rows = pd.read_csv(REFERENCE / f"{name}.csv")
    text = _declared.paged(tmp_path, name, rows, page=benchmarks.NAME)
    assert f"{text}\n" == (REFERENCE / f"{name}.md").read_text()


def test_a_stopped_run_keeps_the_parts_that_have_ended(tmp_path, monkeypatch, capsys):
    row = {"benchmark": "b", "subject": "ldp_jax", "repeat": 0, "wall_s": 1.0, "cpu_s": 1.0}

    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(benchmarks, "perturb", lambda _: [{**row, "note": "a note"}])
    monkeypatch.setattr(benchmarks, "discrete", stopped)
    with pytest.raises(KeyboardInterrupt):
        benchmarks.main(benchmarks.Config(parts=("perturb", "discrete"), out=tmp_path))
    assert pd.read_csv(tmp_path / "benchmarks.csv").benchmark.tolist() == ["b"]
    assert "| b | ldp_jax | 1.000 |" in (tmp_path / "benchmarks.md").read_text()
    assert "perturb: 0 s; rows: " in capsys.readouterr().out
