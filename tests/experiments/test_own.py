"""Somebody's own method or model among the rows of the papers: names, colours, rows, refusals."""

import dataclasses
from typing import Any

import flax.linen as nn
import jax
import numpy as np
import pandas as pd
import pytest

from experiments import _common, _declared, dprr, heterorr, privge
from experiments._runner import UsageError
from experiments.dprr import cells, degrees
from experiments.dprr import config as lists
from experiments.frontier import beyond, features, friendships
from experiments.frontier import config as frontier
from experiments.heterorr import settings as edges
from experiments.poindp import accuracy as hierarchies
from experiments.poindp import settings as hierarchy
from experiments.privge import settings as vectors
from ldp_jax import datasets, servers
from ldp_jax.accounting.statement import Statement
from tests.marks import untyped

NUMBER = "tests.newcomer.own_methods:Stairs(steps=3)"
LIST = "tests.newcomer.own_methods:Forget"
CLASS = "tests.newcomer.own_methods:Keep"
MODEL = "tests.newcomer.own_methods:Around(width=4)"


class Head(nn.Module):
    """A model of rows, which may be wrong in a way of each kind."""

    outputs: int
    width: int = 0

    @nn.compact
    def __call__(self, inputs, train):
        return nn.Dense(self.width or self.outputs)(inputs)


class Forgets(Head):
    """It does not take ``train``."""

    def __call__(self, inputs):
        return inputs


def needs(depth, outputs):
    """A maker of models that asks for what no training gives."""


def number(outputs):
    """No model."""
    return outputs


HEAD = f"{__name__}:Head"


NEEDS = f"{__name__}:needs"


def test_an_own_method_has_its_word_as_a_name_and_a_colour_of_its_own():
    assert _common.is_own(NUMBER)
    assert not any(map(_common.is_own, ("hds", "structure-only:hds", "non-private", "a: b")))
    labels, colours = _common.row_names("privge")
    colours.learn(["hds", LIST, NUMBER])
    assert [labels[name] for name in ("hds", LIST)] == ["HDS", LIST]
    assert len({colours[name] for name in ("hds", LIST, NUMBER)}) == 3
    with pytest.raises(KeyError):
        labels["nobody"]


def test_rows_of_a_method_that_has_changed_are_not_mixed(tmp_path, monkeypatch):
    (tmp_path / "a_changing.py").write_text("class Mine:\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    ask = lambda names: _common.check_methods("--mechanisms", names, ["hds"], tmp_path / "rows")
    ask(["hds", "a_changing:Mine"])
    ask(["a_changing:Mine"])
    (tmp_path / "a_changing.py").write_text("class Mine:\n    changed = True\n")
    ask(["a_changing:Mine"])  # no row has begun
    (tmp_path / "rows" / "some.csv").write_text('mechanism\n"hds by a_changing:Mine(a=1, b=2)"\n')
    ask(["a_changing:Mine(a=1, b=2)"])
    (tmp_path / "a_changing.py").write_text("class Mine:\n    pass  # again\n")
    ask(["a_changing:Mine(a=1)"])
    with pytest.raises(UsageError, match="its file has changed"):
        ask(["a_changing:Mine(a=1, b=2)"])
    (tmp_path / "rows" / "checkpoints" / "one").mkdir(parents=True)
    (tmp_path / "a_changing.py").write_text("class Mine:\n    pass  # once more\n")
    with pytest.raises(UsageError, match="its file has changed"):
        ask(["a_changing:Mine(a=1)"])
    ask(["hds"])
    for name, why in (("nobody", "no nobody; there are hds"), ("a_changing:No", "No")):
        with pytest.raises(UsageError, match=why):
            ask([name])


def test_rows_of_a_file_that_has_changed_are_others(graph_file, tmp_path):
    drawn = datasets.synthetic_graphs(jax.random.key(0), num_graphs=24)
    dense = dataclasses.replace(drawn, x=np.zeros((drawn.num_nodes, 2), np.float32))
    cora = datasets.load(graph_file)
    split = np.arange(cora.num_nodes) % 3
    split_of = lambda split: dataclasses.replace(cora, extras={"split": split})
    changed = {
        "dprr": (dense, dataclasses.replace(dense, y=1 - dense.y)),
        "degrees": (dense, dataclasses.replace(dense, y=1 - dense.y)),
        "beyond": (dense, dataclasses.replace(dense, y=1 - dense.y)),
        "poindp": (split_of(split), split_of(split[::-1])),
    }
    configs = {
        "dprr": lambda path: cells.settings_of(lists.settings(lists.Config(), path), "gin"),
        "degrees": lambda path: degrees._cell(degrees.Graphs(path, 0, 0), degrees.TRUE)[0].config,
        "beyond": lambda path: (
            next(
                iter(beyond.plan(frontier.Config(parts=("beyond",), datasets=(path,), seeds=1)))
            ).config
        ),
        "poindp": lambda path: hierarchies.resolved(hierarchy.Config(), path).data,
    }
    for name, sets in changed.items():
        found = []
        for data in sets:
            path = tmp_path / "one.npz"
            datasets.save(data, path)
            for cached in (cells.load, friendships.load_any, hierarchies.cells.load):
                cached.cache_clear()
            found.append(configs[name](str(path)))
        assert found[0] != found[1], name


@untyped
@pytest.mark.parametrize(
    ("config", "word", "why"),
    [
        (vectors.Config, "nobody", "--models: no nobody; there are module:Name of your own"),
        (vectors.Config, f"{HEAD}(width=7)", r"of shape \(5, 3\) where outputs=3, got \(5, 7\)"),
        (vectors.Config, f"{__name__}:Forgets", "on ndarray of .* unexpected keyword .*'train'"),
        (vectors.Config, f"{__name__}:needs", "'depth'; a training gives outputs, layers, hidden"),
        (vectors.Config, f"{__name__}:number", "a model must be a linen module"),
        (vectors.Config, MODEL, "on ndarray of"),
        (edges.Config, HEAD, "on NodeInputs of"),
        (hierarchy.Config, HEAD, "on NodeInputs of"),
        (lists.Config, "nobody", "--classifiers: no nobody; there are gin; perceptron; forest"),
        (lists.Config, MODEL, "--classifiers .* on Batch of"),
    ],
)
def test_what_is_no_model_of_a_training_is_refused_before_rows_are(config, word, why, tmp_path):
    option = "classifiers" if config is lists.Config else "models"
    with pytest.raises(UsageError, match=why):
        config(**{option: (word,), "out": tmp_path}).check()


def test_a_row_of_an_own_model_is_named_by_its_release_and_its_word():
    labels, colours = _common.row_names("privge")
    name = f"hds by {MODEL}"
    assert labels.of(name) == f"HDS by {MODEL}"
    assert labels.of(f"structure-only:{name}") == f"structure-only HDS by {MODEL}"
    assert colours[name] != colours[f"laplace by {MODEL}"]
    cell = privge.accuracy.cells.Cell.of(
        {}, "d", "node", "record", f"structure-only:{name}", 1.0, 0, k=1, preprocessing="raw"
    )[0]
    assert (cell.release, cell.model) == ("structure-only:hds", MODEL)


@untyped
def test_an_own_model_stands_beside_the_gcn(tiny):
    asked = {"mechanisms": ("duchi",), "models": (MODEL,), "epsilons": (2.0,), "preset": "smoke"}
    heterorr.main(edges.Config(("features",), **asked, **tiny))
    rows = pd.read_csv(tiny["out"] / "heterorr.csv").set_index("mechanism")
    both = [f"{prefix}duchi" for prefix in ("", "structure-only:", "features-only:")]
    for name in (*both, "non-private", "public records alone"):
        other = rows.loc[f"{name} by {MODEL}"]
        assert other.epsilon_proved == rows.loc[name].epsilon_proved
        assert other.config == rows.loc[name].config
    assert f"label-propagation by {MODEL}" not in rows.index
    assert f"by {MODEL}" in (tiny["out"] / "heterorr.md").read_text()


@untyped
def test_own_lists_and_servers_find_links(tiny):
    """A server that is the library's own finds what the library's row finds but for its noise."""
    server = "ldp_jax.servers.links:LinkServer"
    few = {"mechanisms": (server, LIST), "labels": ("half",), "epsilons": (10.0,)}
    asked = frontier.Config(("beyond",), **few, **tiny)
    asked.check()
    plan = beyond.plan(asked)
    found = {
        cell.mechanism: beyond.compute(cell, settings).values["auc"]
        for cell, settings in plan.items()
        if cell.mechanism in (server, LIST, "non-private counts")
    }
    assert abs(found[server] - found["non-private counts"]) < 0.1
    assert 0.0 <= found[LIST] <= 1.0
    cell = next(iter(plan))
    broken = dataclasses.replace(cell, mechanism=NEEDS, epsilon=2.0)
    with pytest.raises(
        UsageError, match="--mechanisms .*:needs at epsilon 2: TypeError: .*outputs"
    ):
        beyond.compute(broken, plan[cell])
    for wrong, shape in ((np.zeros(3), r"\(2,\)"), ("two", r"\(2,\)"), ([0.0, np.nan], "finite")):
        with pytest.raises(UsageError, match=shape):
            beyond.own.numbers(server, wrong, (2,))


@untyped
def test_own_lists_and_servers_classify_graphs():
    whole = datasets.synthetic_graphs(jax.random.key(0), num_graphs=30)
    whole = beyond.graphs.GraphSet.from_dataset(whole)
    for word in (LIST, f"{__name__}:Degrees"):
        keys = tuple(jax.random.split(jax.random.key(1)))
        found = beyond._own_graphs(word, keys, whole, 2.0)
        assert 0.0 <= found.value <= 1.0
        assert "epsilon 2 per neighbour-list" in str(found.guarantee)


@dataclasses.dataclass(frozen=True)
class Degrees:
    """Noisy degrees of users, of graphs whose classes it does not see."""

    facts: Any
    num_users: int
    epsilon: float

    def question(self) -> servers.CountQuestion:
        """Neighbours of anybody."""
        assert not self.facts.labels.any()
        assert not len(self.facts.senders)
        nobody = np.zeros(self.num_users, np.int32)
        asked = np.ones(self.num_users, bool)
        return servers.CountQuestion(nobody, asked, num_groups=1, epsilon=self.epsilon)

    def statement(self) -> Statement:
        """One report."""
        return Statement.of([servers.count_cost(self.epsilon)])

    def init(self, key: Any) -> servers.questions.Asked:
        """Everybody is asked."""
        return servers.questions.Asked(self.question())

    def step(self, state: Any, answers: Any) -> np.ndarray:
        """The reports."""
        return np.asarray(answers.values, float)


@untyped
def test_numbers_classes_and_servers_stand_in_the_tables(tiny):
    given = tiny | {"epsilons": (2.0,)}
    out = tiny["out"]
    asked = {"mechanisms": (NUMBER,), "models": (HEAD,), "preset": "smoke"}
    privge.main(vectors.Config(("node",), **asked, **given | {"seeds": 2}))
    rows = pd.read_csv(out / "privge.csv")
    mine = rows[rows.mechanism.isin([NUMBER, f"structure-only:{NUMBER}"])]
    assert len(mine) == 8  # two seeds, two embeddings, and the twin
    assert mine[mine.mechanism == NUMBER].epsilon_proved.eq(2.0).all()
    assert rows.mechanism.str.endswith(f" by {HEAD}").sum() == 12  # and without noise
    assert NUMBER in privge.tables(out)
    assert f"{NUMBER} by {HEAD}" in privge.tables(out)
    _declared.write_of("privge", out)
    assert (out / "figure2_node.png").exists()

    asked = frontier.Config(mechanisms=(LIST,), labels=("20",), units=("list",), **given)
    asked.check()
    known = friendships.plan(asked)
    (cell,) = [cell for cell in known if cell.mechanism == LIST]
    found = friendships.compute(cell, known[cell])
    assert 0.4 < found.values["accuracy"] <= 1.0
    assert "epsilon 2 per neighbour-list" in str(found.notes)


@untyped
def test_a_list_mechanism_classifies_graphs(tmp_path):
    words = {"classifiers": ("forest",), "epsilons": (1.0,), "public_shares": (0.0,), "graphs": 24}
    asked = lists.Config(
        ("communities",), mechanisms=("degrees", LIST), seeds=1, out=tmp_path, **words
    )
    dprr.main(asked)
    rows = pd.read_csv(tmp_path / "dprr.csv")
    assert set(rows.mechanism) == {"degrees", LIST}
    _declared.write_of("dprr", tmp_path)
    assert LIST in (tmp_path / "dprr.md").read_text()


@untyped
def test_a_mechanism_on_classes_is_a_report_of_the_frontier(tiny):
    few = {"mechanisms": (CLASS,), "panels": ("0.3",), "epsilons": (2.0,)}
    asked = frontier.Config(("features",), **few, **tiny)
    asked.check()
    plan = features.plan(asked)
    (cell,) = [cell for cell in plan if cell.mechanism == CLASS]
    for word, why in ((NEEDS, "TypeError: .*outputs"), (LIST, ".* hides must be 'edges'")):
        with pytest.raises(UsageError, match=f"--mechanisms {word} at epsilon 2: {why}"):
            features.compute(dataclasses.replace(cell, mechanism=word), plan[cell])
    found = features.compute(cell, plan[cell])
    assert 0.4 < found.values["accuracy"] <= 1.0
    assert "epsilon 2 per record" in str(found.notes)
