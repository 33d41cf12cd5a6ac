"""PrivGE: tidy rows, resume, pairing, and that structure-only rows know nothing private."""

import dataclasses
import itertools
import shutil
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from experiments import _runner, demo, findings, privge
from experiments._common import fingerprint, label_propagation
from experiments._lines import Line
from experiments.privge import accuracy, cells, prepared
from experiments.privge.settings import MECHANISMS, plan, settings
from ldp_jax import datasets
from ldp_jax.graph import graphs, propagation
from ldp_jax.learning import metrics, training
from tests.experiments import contract
from tests.experiments.rows import page as page_of
from tests.experiments.synthetic import CELL

ALONE = tuple(cells.GRAPH_ALONE.values())
KEY = list(accuracy.results_in(_runner.REFERENCE).key)


@pytest.fixture(scope="module")
def ran(graph_file, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    config = privge.Config(
        datasets=(str(graph_file),), preset="smoke", epsilons=(0.5, 1.0), out=out
    )
    jax.clear_caches()  # what another file has compiled would not be counted
    before = training._fit._cache_size()
    # Each mechanism is a program in each task, and its embedding is asked in tests/servers.
    privge.main(dataclasses.replace(config, parts=("node",), mechanisms=("laplace", "hds")))
    config = dataclasses.replace(config, parts=("link",), mechanisms=("hds",))
    privge.main(config)
    return config, pd.read_csv(out / "privge.csv"), training._fit._cache_size() - before


def test_rows_are_tidy_and_say_what_is_proved(ran):
    config, rows, _ = ran
    names = {"laplace", "hds"}
    assert set(rows.mechanism) == {
        *names,
        *(f"structure-only:{name}" for name in names),
        "non-private",
        *ALONE,
    }
    private = rows[rows.mechanism.isin(names)]
    alone = rows.mechanism.isin(ALONE)
    assert (abs(private.epsilon_proved - private.epsilon) < 1e-12).all()
    assert (rows[rows.mechanism == "non-private"][["epsilon", "epsilon_proved"]] == np.inf).all(
        axis=None
    )
    assert set(zip(rows.task, rows.metric, strict=True)) == {("node", "accuracy"), ("link", "auc")}
    release = [column for column in KEY if column != "preprocessing"]
    assert (rows[~alone].groupby(release).preprocessing.agg(set) == {"raw", "standardized"}).all()
    assert (rows.preprocessing[alone] == cells.NO_EMBEDDING).all()
    manifest = accuracy.results_in(config.out).describe()
    assert any("epsilon 1 per record" in text for text in manifest["guarantees"].values())


def test_all_mechanisms_are_planned_under_what_they_cost(ran, graph_file):
    config = dataclasses.replace(ran[0], mechanisms=MECHANISMS)
    planned = accuracy.plan_task(
        config, "node", str(graph_file), plan(config, "node", str(graph_file))
    )
    proved = {cell.mechanism: cell.epsilon_proved for cell in planned if cell.epsilon == 0.5}
    assert set(proved) == {
        prefix + name for prefix in ("", "structure-only:") for name in MECHANISMS
    }
    assert all(proved[name] == pytest.approx(0.5, abs=1e-12) for name in MECHANISMS)
    seeds = [cell.seed for cell in planned]
    assert seeds == sorted(seeds)  # a plan that is stopped is a whole table of fewer seeds
    assert len(set(seeds)) > 1


def test_one_training_program_serves_seeds_epsilons_and_mechanisms(ran):
    assert ran[2] == 2  # one a task


def test_records_follow_bounds_that_are_declared_anew(graph_file, tmp_path, monkeypatch):
    path = str(shutil.copy(graph_file, tmp_path / "bounds.npz"))
    monkeypatch.setattr(cells, "_BOUNDS", {})
    scaled = []
    for upper in (1.0, 2.0):
        cells.declare_bounds([path], (0.0, upper))
        scaled.append(np.asarray(cells.dense(path)) + 1.0)
    np.testing.assert_allclose(scaled[0], 2.0 * scaled[1])


def test_a_row_is_of_the_file_that_it_was_planned_by(graph_file, tmp_path):
    path = str(shutil.copy(graph_file, tmp_path / "changing.npz"))
    config = privge.Config(datasets=(path,), preset="smoke")
    planned = accuracy.plan_task(config, "node", path, plan(config, "node", path))
    data = datasets.load(path)
    datasets.save(dataclasses.replace(data, y=data.y[::-1]), path)
    cells.load.cache_clear()
    with pytest.raises(_runner.UsageError, match="not the one that this row was planned by"):
        accuracy.compute(*next(iter(planned.items())), bounds=None)


def test_it_keeps_the_contract(ran, tmp_path):
    """On a copy: what other tests read stays whole."""
    config = dataclasses.replace(ran[0], out=tmp_path / "copy")
    shutil.copytree(ran[0].out, config.out)
    contract.check(privge, config, [accuracy.results_in(config.out)])


def test_structure_only_rows_do_not_depend_on_the_private_features(ran, graph_file, tmp_path):
    """Other features, same rows: bit for bit, or something private has leaked into the baseline."""
    config, rows, _ = ran
    data = datasets.load(str(graph_file))
    other = scipy.sparse.csr_array(
        scipy.sparse.random_array(data.x.shape, density=0.5, rng=1) > 0, dtype="float32"
    )
    path = tmp_path / "mine.npz"
    datasets.save(dataclasses.replace(data, x=other), path)
    changed = dataclasses.replace(config, datasets=(str(path),), out=tmp_path, parts=("node",))
    privge.main(changed)
    columns = ["mechanism", "epsilon", "seed", "preprocessing", "value"]
    before = rows[rows.task == "node"][columns]
    after = pd.read_csv(tmp_path / "privge.csv")[columns]
    both = before.merge(after, on=columns[:4], suffixes=("", "_other"))
    same = both.value == both.value_other
    free = both.mechanism.isin(["structure-only:hds", "label-propagation"])
    assert free.sum() == 10
    assert same[free].all()
    assert not same[both.mechanism == "non-private"].all()


def tidy(rows):
    """Results of one table from (mechanism, epsilon, k, {seed: value})."""
    base = CELL | {"dataset": "cora", "task": "node", "metric": "accuracy", "seconds": 0.0}
    return pd.DataFrame(
        {**base, "mechanism": name, "epsilon": epsilon, "k": k, "seed": seed, "value": value}
        for name, epsilon, k, values in rows
        for seed, value in values.items()
    )


def page(rows):
    """The page of rows of one table."""
    frame = tidy(rows).assign(preprocessing="raw", validation=0.5)
    return page_of("privge", "REPORT", frame)


def test_a_lucky_row_of_one_seed_is_not_the_best():
    """The best structure-only row is looked for among those with all seeds, of the k sweep too."""
    published = cells.published_k("cora", "node")
    usual = dict.fromkeys(range(3), 0.7)
    rows = [("hds", 1.0, published, usual), ("structure-only:hds", 1.0, published, usual)]
    lucky = ("structure-only:laplace", 1.0, 9, {0: 0.9})
    sweep = ("structure-only:hds", 1.0, 50, dict.fromkeys(range(3), 0.75))
    asked = {"where": ["rows", {"mechanism": "hds"}], "measure": "best"}
    assert page([*rows, lucky]).ask(asked).mean == pytest.approx(70.0)
    found = page([*rows, lucky, ("hds", 1.0, 50, usual), sweep])
    assert found.ask(asked).mean == pytest.approx(75.0)
    assert found.ask(asked | {"measure": "over_best"}).mean == pytest.approx(-5.0)
    shown = found.select({"where": ["rows", "private"]})
    assert [line.columns["k"] for line in shown] == [published]  # the table has that k alone


def test_a_release_that_repeats_counts_once_and_a_table_is_one_trial():
    """Laplace at budgets 2 and 3 is the row of budget 1 but for rounding; HDS, which moves by a
    point, is not.
    """
    published = cells.published_k("cora", "node")
    twin = {0: 0.60, 1: 0.70, 2: 0.80}
    rows = []
    for epsilon, laplace, hds in ((1.0, 0.0, 0.03), (2.0, 1e-4, 0.04), (3.0, -1e-4, 0.05)):
        for name, gain in (("laplace", 0.01 + laplace), ("hds", hds)):
            scores = {seed: value + gain for seed, value in twin.items()}
            rows.append((name, epsilon, published, scores))
            rows.append((f"structure-only:{name}", epsilon, published, twin))
    found = page(rows)
    asked = {"where": "counted", "measure": "gain"}
    counted = [line for line in found.select(asked) if line.interval("gain")]
    names = {(line.columns["mechanism"], line.columns["epsilon"]) for line in counted}
    assert names == {("laplace", 1.0), ("hds", 1.0), ("hds", 2.0), ("hds", 3.0)}
    assert [found.ask({**asked, "show": show}) for show in ("above", "below")] == [4, 0]
    pooled = found.ask({**asked, "show": "pooled"})
    assert pooled.n == 3  # a seed is a trial, not a row
    assert pooled.mean == pytest.approx((1 + 3 + 4 + 5) / 4)


def variants(raw, standardized):
    """Rows of one cell on both embeddings: (value, validation) of each seed."""
    rows = []
    for name, scores in (("raw", raw), ("standardized", standardized)):
        rows += [
            {"seed": seed, "value": value, "validation": validation, "preprocessing": name}
            for seed, (value, validation) in enumerate(scores)
        ]
    return pd.DataFrame(rows)


BAD, GOOD = [(0.9, 0.60), (0.9, 0.70), (0.9, 0.65)], [(0.1, 0.80), (0.2, 0.69), (0.3, 0.75)]


@pytest.mark.parametrize(
    ("raw", "standardized", "which", "values"),
    [
        # Test scores run against the validation scores; seed 1 alone would choose the raw one.
        (BAD, GOOD, "standardized", [0.1, 0.2, 0.3]),
        (GOOD, BAD, "raw", [0.1, 0.2, 0.3]),
        (GOOD, GOOD, "raw", [0.1, 0.2, 0.3]),  # a tie
        (
            [(0.5, 0.6)] * 2,
            [(0.4, 0.5)] * 2 + [(0.9, 0.99)] * 2,
            "raw",
            [0.5, 0.5],
        ),  # seeds with both alone
        ([], GOOD, "standardized*", [0.1, 0.2, 0.3]),
        ([(0.5, -np.inf)], [(0.4, 0.1)], "standardized", [0.4]),
    ],
)
def test_one_embedding_is_chosen_for_all_seeds_by_their_mean_validation_score(
    raw, standardized, which, values
):
    kept, found = prepared.chosen(variants(raw, standardized))
    assert (found, kept.value.tolist()) == (which, values)


@pytest.mark.slow
def test_demo_runs_small(graph_file, tmp_path, monkeypatch, capsys):
    """All rows are of one draw of a panel."""
    few = {"datasets": (str(graph_file),), "panels": ("0.3",), "seeds": 1, "epsilons": (2.0,)}
    monkeypatch.setattr(demo, "PLAN", dataclasses.replace(demo.PLAN, **few))
    demo.main(demo.Config(out=tmp_path))
    assert "yours:" in capsys.readouterr().out
    assert (tmp_path / "demo.png").stat().st_size > 10_000
    frame = pd.read_csv(tmp_path / "demo.csv")
    assert set(frame.mechanism) == {*demo.PLAN.mechanisms, demo.CHOSEN, demo.ALONE}
    private = frame[frame.epsilon == 2.0].groupby("mechanism").unit.first().to_dict()
    assert private == {demo.PRIVGE: "record", demo.LOCAL: "record", demo.COUNTS: "neighbour-list"}


def test_margins_are_paired_by_seed():
    """Of seeds that both rows have; scores that move together leave a narrow interval."""
    hds = pd.Series([80.0, 90.0, 70.0])
    scores = {"hds": hds, "laplace": hds - [1.0, 2.0, 3.0], "non-private": hds[:1] + 4.0}

    def select(spec):
        name = spec["where"][1]["mechanism"]
        return [Line({}, {"value": scores[name]})] if name in scores else []

    ((text,), _, _) = prepared.margins(SimpleNamespace(select=select, word=str), None)
    gap = metrics.mean_interval([1.0, 2.0, 3.0])
    assert f"hds less laplace | +2.0 | +2.0 ± {gap.half_width:.1f} |" in text
    assert "hds less non-private | -4.3 | -4.0 |" in text
    assert "piecewise" not in text


def prepared_for(task, graph_file):
    path = str(graph_file)
    config = privge.Config(preset="smoke")
    digest = fingerprint(cells.load(path), path)
    return cells.prepare(settings(config, task, path, digest, plan(config, task, path)), 0)


@pytest.fixture(scope="module")
def bench(graph_file):
    return prepared_for("node", graph_file)


def test_both_embeddings_are_trained_alike(bench, monkeypatch):
    """The same keys, examples and rules; a row each, of which the report chooses."""
    seen = []

    def fit(key, model, objective, z, *examples):
        *parts, settings = examples
        seen.append((jax.random.key_data(key).tolist(), [id(part) for part in parts], settings))
        centred = np.allclose(np.asarray(z).mean(0), 0.0, atol=1e-4)
        return training.Fitted((), 0.5, 0.5 if centred else 0.1, 0, (), ())

    monkeypatch.setattr(training, "fit", fit)
    raw, standardized = (cells.compute(bench, one(name)) for name in cells.EMBEDDINGS)
    assert (raw.values, standardized.values) == ({"accuracy": 0.1}, {"accuracy": 0.5})
    assert seen[0] == seen[1]


def one(preprocessing):
    of = {"task": "node", "mechanism": "laplace", "k": 1, "preprocessing": preprocessing}
    return cells.Cell(**CELL | of)


def test_standardised_columns_are_those_of_float64_whatever_the_threads():
    """Bit for bit what NumPy gives in float64: no float32 sum whose order depends on the
    machine.
    """
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
    row = cells.label_propagation(bench)
    known = np.zeros((bench.data.num_nodes, bench.data.num_classes), np.float32)
    known[bench.train.index, bench.train.label] = 1.0
    found = {}
    parts = (bench.validation, bench.test)
    for alpha, r in itertools.product(bench.settings.label_alphas, bench.settings.label_rs):
        scores = propagation.ppr_dense(bench.data.graph, known, alpha, r).astype(np.float32)
        found[alpha, r] = [(scores[part.index].argmax(1) == part.label).mean() for part in parts]
    best = max(validation for validation, _ in found.values())
    assert row.also["validation"] == pytest.approx(best, abs=1e-6)
    chosen = next(pair for pair, (validation, _) in found.items() if validation == best)
    assert row.also["chosen"] == f"alpha {chosen[0]:g} r {chosen[1]:g}"
    assert row.values["accuracy"] == pytest.approx(found[chosen][1], abs=1e-6)
    assert len({tuple(pair) for pair in found.values()}) > 1  # the choice matters here


def test_a_node_that_no_label_reaches_is_of_the_largest_class(bench):
    """Without an answer for them the baseline would be weaker than a guess."""
    graph = graphs.from_edges([[0, 1], [1, 2], [2, 3], [4, 5]], num_nodes=7)
    train, out_of_reach = (
        training.Examples(np.array(nodes), np.array(classes))
        for nodes, classes in (([0, 2, 3], [0, 1, 1]), ([4, 5, 6], [1, 1, 1]))
    )
    parts = train, out_of_reach, out_of_reach
    op = propagation.operator(graph)
    test, validation, _ = label_propagation(op, parts, bench.settings, tol=1e-4, classes=2)
    assert test == validation == 1.0


def test_link_indices_are_those_of_the_definition_and_validation_chooses(link_bench):
    train = link_bench.train.edge
    near = {
        v: {int(b) for a, b in [*train, *train[:, ::-1]] if a == v}
        for v in range(link_bench.data.num_nodes)
    }
    rules = {
        "common neighbours": lambda u, v: len(near[u] & near[v]),
        "resource allocation": lambda u, v: sum(1 / len(near[w]) for w in near[u] & near[v]),
        "preferential attachment": lambda u, v: len(near[u]) * len(near[v]),
    }
    scores = lambda rule, pairs: jnp.array([rule(*map(int, pair)) for pair in pairs], jnp.float32)
    parts = (link_bench.validation, link_bench.test)
    found = {
        name: [float(metrics.auc(*(scores(rule, pairs) for pairs in part))) for part in parts]
        for name, rule in rules.items()
    }
    best = max(found, key=lambda name: found[name][0])
    row = cells.link_indices(link_bench)
    assert row.also["chosen"] == best
    assert [row.also["validation"], row.values["auc"]] == pytest.approx(found[best], abs=1e-5)
    assert len({validation for validation, _ in found.values()}) == 3  # the choice matters here


@pytest.fixture
def link_bench(graph_file):
    return prepared_for("link", graph_file)


def test_a_structure_only_twin_draws_noise_of_its_own(bench):
    """Records that all equal the public one: with the same noise the two releases would be equal,
    and cancel.
    """
    same = dataclasses.replace(bench, x=jnp.full_like(bench.x, bench.data.default_record()))
    made = cells.make_mechanism("laplace", 1.0, bench.data.num_features, 1)
    private, twin = (
        np.asarray(cells.embed(same, made, structure_only=twin)) for twin in (False, True)
    )
    assert np.isclose(private, twin, rtol=1e-3).mean() < 0.05
    np.testing.assert_array_equal(twin, cells.embed(bench, made, structure_only=True))


def test_the_table_is_rendered_between_its_markers(ran, tmp_path):
    config, _, _ = ran
    readme, pages = tmp_path / "README.md", config.out / "findings.md"
    readme.write_text("mine\n<!-- findings -->\nold\n<!-- /findings -->\nmore\n")
    findings.main(findings.Config(out=config.out, readme=readme))
    assert readme.read_text().startswith("mine\n<!-- findings -->\n| private data")
    assert readme.read_text().endswith("\n<!-- /findings -->\nmore\n")
    assert "| mine | node | 4 | " in pages.read_text()
    readme.write_text("mine\n")
    with pytest.raises(_runner.UsageError, match="no section"):
        findings.main(findings.Config(out=config.out, readme=readme))
