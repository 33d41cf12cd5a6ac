"""Anybody's method beside others: rows, controls, epsilons, what is kept and what is refused."""

import csv
import dataclasses
import hashlib
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from matplotlib.figure import Figure

from ldp_jax import bench, datasets, edges, features, servers
from ldp_jax.accounting.guarantee import Guarantee, PipelineGuarantee
from ldp_jax.accounting.statement import Statement
from ldp_jax.bench import comparison, memory, methods, page
from ldp_jax.bench.__main__ import main
from ldp_jax.bench.budgeted import called, model_of, on_lists, on_vectors
from ldp_jax.bench.classes import OfOneHot, broadcast
from ldp_jax.bench.draws import _panel, draw
from ldp_jax.bench.learners import modelled
from ldp_jax.bench.methods import Method, answer_of, proved_by
from ldp_jax.bench.named import named
from ldp_jax.bench.rows import ALL, ALONE, CEILING, DEFAULT, PLACEBO, PRIVATE, Row, append, read
from ldp_jax.core.mechanism import mechanism
from ldp_jax.core.pytree import pytree
from ldp_jax.core.spaces import Box
from ldp_jax.graph.propagation import operator
from ldp_jax.learning import models
from tests.marks import untyped
from tests.newcomer.own_methods import Around, Forget, Friends, Keep, Stairs

SIZES = {"num_nodes": 60, "num_classes": 2, "num_features": 6, "mean_degree": 5}
# Its classes are called as other groups of rows are.
DATA = dataclasses.replace(
    datasets.synthetic(jax.random.key(0), **SIZES, homophily=0.8), class_names=("all", "low degree")
)
PANEL = 0.3


def compared(method, hides, **more):
    given = {"epsilons": (4.0,), "seeds": 2, "panel": PANEL, "against": (), "verify": False}
    return bench.compare(method, DATA, hides=hides, **given | more)


@untyped
@pytest.mark.parametrize(
    ("method", "hides", "rival"),
    [
        (Stairs, "features", "multi-bit"),
        (Keep, "features", None),
        (Forget, "edges", "DPRR"),
        (Friends, "both", None),
    ],
    ids=["number", "class", "list", "protocol"],
)
def test_methods_of_a_newcomer_have_their_rows(method, hides, rival):
    found = compared(method, hides, against=[rival] if rival else ())
    kinds = {row.users for row in found.rows if row.method == method.__name__}
    ceiling = set() if method is Forget else {CEILING}  # nobody says what it is without noise
    assert kinds == {PRIVATE, PLACEBO, DEFAULT} | ceiling
    assert len(found.skipped) == (not ceiling)
    for row in found.rows:
        assert row.proved <= row.epsilon * (1 + 1e-9)
        assert (row.proved == 0) == (row.method == ALONE)
        assert 0 <= row.accuracy <= 1
        assert row.memory >= 0 or row.memory != row.memory
    assert set(found.methods) == {method.__name__, *([rival] if rival else [])}
    assert f"{method.__name__}" in str(found)


@untyped
def test_the_guarantee_of_a_row_is_no_less_and_no_surer_than_the_driver_s():
    found = compared(Forget, "edges", seeds=1, epsilons=(1.00000149,))
    shown = {row.guarantee for row in found.rows if row.users == PRIVATE and row.epsilon}
    assert shown == {"1.00001 per neighbour-list; 2.00001 per relationship"}

    @mechanism
    class Claimed(features.Duchi):
        guarantee = lambda self: Guarantee(float(self.epsilon))

    found = compared(Claimed, "features", seeds=1)
    shown = {row.guarantee for row in found.rows if row.users == PRIVATE and row.epsilon}
    assert shown == {"4 per record, not proved"}


def test_devices_find_their_class_by_the_classifier_that_they_are_sent():
    here = draw(0, DATA, "features", PANEL)
    entry = Method.of(Keep).enter(here, 4.0)
    found = servers.simulate(jax.random.key(0), entry.server, entry.users)
    weights = here.facts.classifier.weights
    assert found.rounds[0].download >= np.asarray(weights).nbytes
    sent, of_panel = broadcast(here.facts.classifier)
    scores = np.asarray(here.facts.classifier.panel_scores)
    assert (np.asarray(sent.panel_scores).size, len(scores) > 0) == (0, True)
    np.testing.assert_array_equal(of_panel, np.eye(2)[scores.argmax(1)])
    question = entry.server.init(jax.random.key(0)).question.exact()
    reports = np.asarray(entry.users.answer(jax.random.key(1), question).values)
    scores = np.asarray(here.facts.classifier.scores(here.users.records))
    private = here.labels < 0
    np.testing.assert_array_equal(reports[private], np.eye(2)[scores.argmax(1)][private])


@untyped
@pytest.mark.parametrize(("method", "hides"), [(Stairs, "features"), (Forget, "edges")])
def test_an_own_model_is_trained_on_what_a_mechanism_gives(method, hides):
    found = compared(method, hides, model=Around, seeds=1)
    assert found.own == f"{method.__name__} by Around"
    assert len(found.scores(found.own, 4.0)) == 1
    word = "tests.newcomer.own_methods:Around(width=4)"
    assert Method.of(method).by(word).name == f"{method.__name__} by {word}"


def test_an_own_model_learns_from_public_labels_alone():
    """Rows that tell the classes: a model finds those of users without a label."""
    op = operator(DATA.graph)
    labels = np.where(np.arange(60) % 2 == 0, DATA.y, -1)
    made = model_of(Around, 2, **methods.SIZES)
    rows = np.eye(2, dtype=np.float32)[DATA.y]
    found = [modelled(jax.random.key(seed), made, op, rows, labels, 2) for seed in range(4)]
    right = [(one.argmax(1) == DATA.y)[labels < 0].mean() for one in found]
    assert np.mean(right) > 0.9  # of 120 private users in all
    np.testing.assert_allclose(np.exp(found).sum(2), 1.0, rtol=1e-5)
    with pytest.raises(ValueError, match=r"outputs of a model must be of shape \(60, 2\)"):
        modelled(jax.random.key(0), models.gcn(1, 8, 3), op, rows, labels, 2)


class Deep(Around):
    """A model that needs what no training gives."""

    depth: int = dataclasses.field(kw_only=True)


@untyped
@pytest.mark.parametrize(
    ("method", "model", "error", "why"),
    [
        (Stairs, Deep, TypeError, "'depth'; a training gives outputs, layers, hidden, dropout"),
        (Stairs, 3, TypeError, "a model must be a linen module .* got int"),
        (Friends, Around, ValueError, "a model is of mechanisms, and a server has its own"),
    ],
)
def test_what_is_no_model_is_refused(method, model, error, why):
    with pytest.raises(error, match=why):
        compared(method, "both" if method is Friends else "features", model=model)


def test_memory_is_what_a_call_takes():
    """A call that fills 64 MB is seen, and what it has freed is not counted again."""
    start = memory.begin()
    if start != start:
        pytest.skip("this system does not say what memory a process takes")
    assert np.ones(8_000_000).sum() == 8_000_000
    assert 60e6 < memory.risen(start) < 120e6
    assert memory.risen(memory.begin()) < 30e6


@untyped
def test_a_row_is_what_the_driver_releases():
    found = compared(Friends, "both")
    here = draw(1, DATA, "both", PANEL)
    _, key = jax.random.split(jax.random.fold_in(jax.random.key(1), 1))
    released = servers.simulate(key, Friends(60, 2, 4.0), here.users)
    private = here.labels < 0
    accuracy = 100 * (released.value == DATA.y)[private].mean()
    assert found.scores("Friends", 4.0)[1] == pytest.approx(accuracy, abs=1e-4)
    share = np.bincount(DATA.y[~private]).argmax()
    alone = 100 * (DATA.y[private] == share).mean()
    assert found.scores(ALONE, 0.0)[1] == pytest.approx(alone, abs=1e-4)
    groups = [row for row in found.rows if row.users == PRIVATE and row.method == "Friends"]
    of_classes = [row for row in groups if row.seed == 1 and row.among.startswith("class")]
    assert len(of_classes) == 2
    weights = [(DATA.y[private] == place).mean() for place in (0, 1)]
    total = sum(w * row.accuracy for w, row in zip(weights, of_classes, strict=True))
    assert 100 * total == pytest.approx(accuracy, abs=1e-3)


@untyped
def test_rows_that_are_kept_are_not_computed_again(tmp_path, monkeypatch):
    told = []
    first = compared(Friends, "both", out=tmp_path, progress=lambda *one: told.append(one))
    expected = []
    for seed in range(2):
        expected.append((f"draw {seed}", seed / 2))
        for place, users in enumerate((PRIVATE, PLACEBO, DEFAULT, CEILING)):
            words = f"draw {seed}: Friends, {users}, epsilon 4"
            expected.append((words, (seed + place / 4) / 2))
    told = [one for one in told if one[0].startswith("draw")]
    assert [words for words, _ in told] == [words for words, _ in expected]
    np.testing.assert_allclose([share for _, share in told], [share for _, share in expected])
    assert set(read(tmp_path)) == {row for row in first.rows if row.method != ALONE}
    assert read(tmp_path / "nowhere") == read(None) == []
    assert {(row.data, row.hides, row.panel) for row in first.rows} == {(DATA.name, "both", PANEL)}
    assert {row.seed for row in first.rows} == {0, 1}
    assert all("ldp_jax" in row.versions for row in first.rows)
    with monkeypatch.context() as patched:
        patched.setattr(comparison, "simulate", None)
        again = compared(Friends, "both", out=tmp_path)
    own = lambda made: {row for row in made.rows if row.method != ALONE}
    assert own(again) == own(first)
    with (tmp_path / "bench.csv").open() as file:
        assert set(csv.DictReader(file).fieldnames) == set(Row._fields)
    assert (tmp_path / "bench.png").stat().st_size > 10_000
    assert "Friends" in (tmp_path / "bench.html").read_text()
    monkeypatch.setattr(comparison, "_source", lambda made: "another text of the same class")
    monkeypatch.setattr(comparison, "simulate", lambda *_: pytest.fail("it was computed again"))
    with pytest.raises(pytest.fail.Exception, match="computed again"):
        compared(Friends, "both", out=tmp_path)


@untyped
def test_rows_of_a_killed_run_are_computed_and_those_of_other_bounds_are_not_taken(
    tmp_path, monkeypatch
):
    first = compared(Friends, "both", seeds=1, out=tmp_path)
    rows = {row._replace(seconds=0, memory=0) for row in first.rows}
    file = tmp_path / "bench.csv"
    written = file.read_bytes()
    lines = written.splitlines(keepends=True)
    for kept in (written[:-60], b"".join(lines[:-1])):  # a half line; a class less
        file.write_bytes(kept)
        again = compared(Friends, "both", seeds=1, out=tmp_path)
        assert {row._replace(seconds=0, memory=0) for row in again.rows} == rows
        assert {row._replace(seconds=0, memory=0) for row in read(tmp_path)} <= rows
    monkeypatch.setattr(comparison, "simulate", lambda *_: pytest.fail("it was computed again"))
    for other in ({"upper": 2.0}, {"class_names": ("b", "a")}):
        with pytest.raises(pytest.fail.Exception, match="computed again"):
            bench.compare(
                Friends, dataclasses.replace(DATA, **other), hides="both", epsilons=(4.0,),
                seeds=1, panel=PANEL, against=(), verify=False, out=tmp_path,
            )  # fmt: skip


def test_rows_of_another_parameter_are_not_taken_for_these(tmp_path):
    """One class with other numbers, and one function that holds another number."""

    def sampled(k):
        def own(epsilon, dim):
            return features.Sampled(features.Duchi(epsilon / k), dim, k)

        return own

    for pair in (
        [features.Sampled(features.Duchi(4.0), 6, 1), features.Sampled(features.Duchi(1.0), 6, 1)],
        [sampled(1), sampled(3)],
    ):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        made = [compared(one, "features", seeds=1, out=folder) for one in pair]
        first, second = ({row for row in one.rows if row.users == PRIVATE} for one in made)
        alone = {row for row in first if row.method == ALONE}
        assert first & second <= alone


def test_code_of_a_mechanism_within_another_tells_rows_apart(monkeypatch):
    """Inside a mechanism of this library, whose file stays as it is."""
    method = Method.of(lambda epsilon, dim: features.Sampled(Stairs(epsilon), dim, 1))
    cell = comparison._Cell(method, PRIVATE, 4.0, own=True)
    entry = method.enter(draw(0, DATA, "features", PANEL), 4.0)
    made_of = lambda: comparison._name(cell, entry, "data")["made_of"]
    kept = made_of()
    read_file = comparison._source
    for changed in ("another file", ""):  # it has changed; it was typed in
        of_kind = lambda kind, text=changed: text if kind is Stairs else read_file(kind)
        monkeypatch.setattr(comparison, "_source", of_kind)
        assert made_of() != kept
    assert made_of() == ""


@pytest.mark.parametrize("error", [OSError, TypeError])
def test_a_class_that_was_typed_in_has_no_file(monkeypatch, error):
    def nowhere(kind):
        raise error("source code not available")

    assert "class Friends" in comparison._source(Friends)
    monkeypatch.setattr(comparison.inspect, "getsourcefile", nowhere)
    assert comparison._source(Friends) == ""


@untyped
def test_a_guarantee_beyond_its_column_is_refused():
    half = lambda epsilon: features.Duchi(2 * epsilon)
    with pytest.raises(ValueError, match="at most epsilon 4 per record, got epsilon 8"):
        compared(half, "features")
    loud = lambda num_users, num_classes, epsilon: Friends(num_users, num_classes, 2 * epsilon)
    with pytest.raises(ValueError, match="at most the epsilon of its column, 4, and is 8"):
        compared(loud, "both")
    of_record = features.HDS(1.0, 3, 1).guarantee()
    promised = lambda one: PipelineGuarantee.of([one], protected=("features",), unprotected=())
    assert proved_by(promised(of_record), "features") == 1.0
    assert proved_by(promised(of_record), "edges") == np.inf  # it says nothing about lists
    loose = dataclasses.replace(of_record, delta=1e-5)
    near = dataclasses.replace(of_record, adjacency="any two vectors at most 0.1 apart")
    for one in (loose, near):
        assert proved_by(promised(one), "features") == np.inf

    @mechanism
    class Near(features.Duchi):
        guarantee = lambda self: near

    with pytest.raises(ValueError, match="about some pairs of inputs alone"):
        on_vectors(Near, 1.0, 1)


@pytree
class _Open:
    question: servers.Ask


@dataclasses.dataclass(frozen=True)
class Shares:
    """Its result says nothing about any user."""

    num_users: int
    num_classes: int
    epsilon: float

    def statement(self):
        return Statement.of([self.ask().cost()])

    def init(self, key):
        return _Open(self.ask())

    def step(self, state, answers):
        return {"share": 0.5}

    def ask(self):
        noise = features.GeneralizedRR(self.epsilon, self.num_classes)
        return servers.Ask(noise, np.ones(self.num_users, bool), of="label")


@untyped
@pytest.mark.parametrize(
    ("method", "hides", "error", "why"),
    [
        (Forget, "features", ValueError, "hides must be 'edges'"),
        (Stairs, "edges", ValueError, "hides must be 'features'"),
        (Stairs, "lists", ValueError, "hides must be one of"),
        (Shares, "both", TypeError, "must have a log_posterior"),
        (lambda epsilon: features.GeneralizedRR(epsilon, 3), "features", ValueError, "numbers in"),
        ("no_such_module:Stairs", "features", ValueError, "no_such_module"),
        ("tests.newcomer.own_methods", "features", ValueError, "must be module:Name"),
        (lambda epsilon: epsilon, "edges", TypeError, "must have privatize"),
    ],
)
def test_what_does_not_fit_is_refused(method, hides, error, why):
    with pytest.raises(error, match=why):
        compared(method, hides)


def test_methods_of_one_name_are_refused():
    """Their scores would be one line of the table."""
    two = [features.Sampled(one(4.0), 6, 1) for one in (features.Duchi, features.Laplace)]
    for method, against in ((Stairs, two), (two[0], two[1:])):
        with pytest.raises(ValueError, match="methods must have names of their own"):
            compared(method, "features", against=against)


def test_public_facts_are_given_by_their_names():
    assert called(lambda epsilon, dim: (epsilon, dim), 2.0, dim=3, facts=4) == (2.0, 3)
    assert called(lambda e: e, 2.0, dim=3) == 2.0
    assert called(lambda: "made", 2.0, dim=3) == "made"
    thirds = on_vectors(features.Duchi, 10.0, 3)
    assert thirds.k == 3
    assert 9.999 < thirds.guarantee().epsilon <= 10.0
    assert on_vectors(features.MultiBit, 1.0, 5).dim == 5
    of_users = lambda epsilon, num_users: features.Duchi(epsilon)
    entry = Method.of(of_users).enter(draw(0, DATA, "features", PANEL), 1.0)
    assert entry.server.mechanism.dim == DATA.num_features
    on_few = lambda epsilon, num_users: edges.RandomizedResponse(epsilon, n=num_users)
    assert on_lists(on_few, 1.0, num_users=6).n == 6
    whole = Method.of("ldp_jax.features:Duchi(1.0)")
    assert whole.make().guarantee().epsilon == 1.0
    assert Method.of(features.Duchi(1.0)).name == "Duchi"


@pytest.mark.parametrize("share", [0.1, 0.25, 0.9])
def test_a_panel_is_a_share_of_each_class_rounded_up_and_never_a_whole_class(share):
    """Users of unknown class are in none; a class of one is known."""
    y = np.random.default_rng(0).permutation(np.repeat([-1, 0, 1, 2], [6, 20, 11, 1]))
    panel = _panel(jax.random.key(0), y, share)
    found = [int((panel == c).sum()) for c in range(3)]
    assert found == [min(int(np.ceil(share * n - 1e-9)), max(n - 1, 1)) for n in (20, 11, 1)]
    assert (panel[panel >= 0] == y[panel >= 0]).all()
    other = _panel(jax.random.key(1), y, share)
    assert (panel != other).any()


def test_rows_are_told_by_their_users_classes_and_epsilons():
    rows = [
        *rows_of([0.2, 0.5], ALONE, epsilon=0.0),
        *rows_of([0.4, 0.9], "mine", epsilon=2.0),
        *rows_of([0.3, 0.6], "theirs", epsilon=2.0)[1:],
        *rows_of([0.1, 0.2], "mine", PLACEBO, 2.0),
        *rows_of([0.7, 0.8], "mine", epsilon=0.5),
    ]
    made = bench.Comparison("mine", tuple(rows))
    assert made.scores("mine", 2.0) == pytest.approx({0: 40.0, 1: 90.0})
    assert made.scores("mine", 2.0, PLACEBO) == pytest.approx({0: 10.0, 1: 20.0})
    assert made.scores("mine", 2.0, among="class 0") == {}
    assert made.mean("mine", 2.0, PLACEBO).mean == pytest.approx(15.0)
    assert made.gain("mine", 2.0, PLACEBO).mean == pytest.approx(-20.0)
    assert made.over("theirs", 2.0).mean == pytest.approx(30.0)  # of the draw that both have
    assert made.epsilons == (0.5, 2.0)
    with pytest.raises(ValueError, match=r"no draw has 'thiers' at epsilon 2 .*mine, theirs"):
        made.over("thiers", 2.0)
    assert repr(made) == "Comparison(mine beside 1 others, 9 rows)"


def test_rows_come_back_from_their_folder(tmp_path):
    rows = rows_of([0.25, 0.5], "mine")
    for part in (rows[:1], rows[1:]):
        append(tmp_path / "new", part)
    append(None, rows)
    assert read(tmp_path / "new") == rows
    assert read(tmp_path) == read(None) == []
    (tmp_path / "bench.csv").write_text("data,seed\nd,1\n")
    with pytest.raises(ValueError, match=r"bench.csv has other columns"):
        read(tmp_path)


def test_a_word_names_a_call_that_may_lack_its_epsilon():
    for word, complete, made in (
        ("ldp_jax.features:HDS(dim=6, k=2)", False, features.HDS(1.5, 6, 2)),
        ("ldp_jax.features:HDS(2.5, 6, k=2)", True, features.HDS(2.5, 6, 2)),
        ("ldp_jax.features:Duchi", False, features.Duchi(1.5)),
        ("ldp_jax.features:Duchi()", False, features.Duchi(1.5)),
        ("ldp_jax.features:Duchi(epsilon=2.0)", True, features.Duchi(2.0)),
    ):
        found = named(word)
        assert (found.word, found.complete) == (word, complete)
        assert found.make(*(() if complete else (1.5,))) == made
    digest = hashlib.sha256(Path(bench.__file__).read_bytes()).hexdigest()[:10]
    assert named("ldp_jax.bench:compare").digest == digest
    assert named("time:time").digest == ""


def test_a_class_is_reported_by_the_inner_mechanism():
    """Its estimate is one number a class: the inner one's, or 1 at the reported class."""
    x = np.eye(3, dtype=np.float32)[2]
    of_classes = features.GeneralizedRR(20.0, 3)
    table = dataclasses.replace(of_classes.table(), values=np.arange(3, dtype=np.float32))
    for inner in (of_classes, features.Discrete.of(table)):
        made = OfOneHot(inner, 3)
        reported = made.privatize(jax.random.key(0), x)
        assert int(reported) == 2
        np.testing.assert_allclose(made.estimate(reported), np.eye(3)[2], atol=1e-5)
        assert made.guarantee() == inner.guarantee()
        assert made.codomain() == inner.codomain()
        assert made.domain() == Box(3)


def test_classes_are_read_from_scores_or_as_they_are():
    scores = np.array([[0.1, 0.9], [0.8, 0.2]])
    assert answer_of(scores, 2).tolist() == [1, 0]
    assert answer_of(np.array([1, 1]), 2).tolist() == [1, 1]
    with pytest.raises(TypeError, match="got ndarray"):
        answer_of(np.array([0.5, 0.5]), 2)


def rows_of(scores, method, users=PRIVATE, epsilon=1.0):
    shared = {"data": "d", "hides": "edges", "panel": 0.1, "among": ALL, "proved": 0.0}
    shared |= {
        "guarantee": "",
        "memory": 1.0,
        "download": 1,
        "upload": 1,
        "versions": "",
    }
    named = {"method": method, "users": users, "epsilon": epsilon, "made_of": ""}
    rows = [Row(**shared, **named, seed=s, accuracy=a, seconds=1.0) for s, a in enumerate(scores)]
    return [rows[0]._replace(seconds=9.0), *rows[1:]]  # the first one compiles


def test_gains_are_of_differences_draw_by_draw():
    alone = rows_of([0.2, 0.6, 0.4], ALONE, epsilon=0.0)
    mine = rows_of([0.3, 0.7, 0.6], "mine")
    theirs = rows_of([0.25, 0.7, 0.5], "theirs")
    made = bench.Comparison("mine", (*alone, *theirs, *mine))
    gains = np.array([10.0, 10.0, 20.0])
    assert made.gain("mine", 1.0).mean == pytest.approx(gains.mean())
    half_width = 4.302653 * gains.std(ddof=1) / np.sqrt(3)  # of Student's law, two degrees
    assert made.gain("mine", 1.0).half_width == pytest.approx(half_width, rel=1e-5)
    assert made.over("theirs", 1.0).mean == pytest.approx(5.0)
    assert made.methods == ("mine", "theirs")
    assert made.epsilons == (1.0,)
    few = dataclasses.replace(made, rows=tuple(row._replace(panel=0.005) for row in made.rows))
    assert "panel 0.5% of each class" in page.heading(few)
    line = next(line for line in str(made).splitlines() if line.startswith("mine"))
    assert "+13.3 ± 14.3" in line
    assert "30.0" in line  # the worst draw
    assert "1.0" in line.split()  # seconds
    curves = page.draw(made, ax=Figure().subplots()).containers
    means = np.concatenate([curve.lines[0].get_ydata() for curve in curves])
    assert means == pytest.approx([gains.mean(), 25 / 3])  # nobody's records are permuted


@untyped
def test_the_command_prints_and_says_where_the_page_is(tmp_path, capsys):
    datasets.save(DATA, tmp_path / "graph.npz")
    words = f"--on {tmp_path}/graph.npz --hides both --epsilons 4 --seeds 1 --against --no-verify"
    out = ["--out", str(tmp_path / "found"), "--panel", "0.3"]
    assert main(["tests.newcomer.own_methods:Friends", *words.split(), *out]) == 0
    assert "own_methods:Friends" in capsys.readouterr().out
    assert (tmp_path / "found" / "bench.html").exists()
    with pytest.raises(SystemExit, match="2"):
        main(["tests.newcomer.own_methods:Nobody", *words.split(), *out])
    assert "Nobody" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["tests.newcomer.own_methods:Friends", "--on", str(tmp_path / "nowhere.npz")])
    assert "nowhere.npz" in capsys.readouterr().err


def test_the_command_says_what_a_picture_needs(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    datasets.save(DATA, tmp_path / "graph.npz")
    words = ["tests.newcomer.own_methods:Friends", "--hides", "both", "--out", str(tmp_path)]
    with pytest.raises(SystemExit, match="2"):
        main([*words, "--on", str(tmp_path / "graph.npz")])
    assert "pictures need matplotlib" in capsys.readouterr().err
