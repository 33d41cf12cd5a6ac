"""Somebody's own method among the rows of the papers: its name, its colour, its rows, refusals."""

import pandas as pd
import pytest

from experiments import _common, dprr, privge
from experiments._runner import UsageError
from experiments.dprr import config as lists
from experiments.frontier import config as frontier
from experiments.frontier import friendships
from experiments.privge import settings as vectors
from ldp_jax import datasets
from tests.marks import untyped

NUMBER = "tests.newcomer.own_methods:Stairs(steps=3)"
LIST = "tests.newcomer.own_methods:Forget"


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
    with pytest.raises(UsageError, match="its file has changed"):
        ask(["a_changing:Mine"])
    ask(["hds"])
    for name, why in (("nobody", "no nobody; there are hds"), ("a_changing:No", "No")):
        with pytest.raises(UsageError, match=why):
            ask([name])


@untyped
@pytest.mark.parametrize(
    "config",
    [
        lambda out: vectors.Config(mechanisms=("nobody",), out=out),
        lambda out: lists.Config(mechanisms=("nobody",), out=out),
        lambda out: frontier.Config(mechanisms=("nobody",), out=out),
    ],
    ids=["privge", "dprr", "frontier"],
)
def test_a_name_that_is_nobodys_is_refused(config, tmp_path):
    with pytest.raises(UsageError, match="--mechanisms: no nobody"):
        config(tmp_path).check()


@untyped
def test_numbers_and_servers_stand_in_the_tables(tmp_path):
    import jax

    sizes = {"num_nodes": 80, "num_classes": 2, "num_features": 8, "mean_degree": 5}
    path = tmp_path / "graph.npz"
    datasets.save(datasets.synthetic(jax.random.key(0), **sizes, homophily=0.8), path)
    out = tmp_path / "found"
    given = {"datasets": (str(path),), "epsilons": (2.0,), "out": out}
    privge.main(vectors.Config(("node",), mechanisms=(NUMBER,), preset="smoke", **given))
    rows = pd.read_csv(out / "privge.csv")
    mine = rows[rows.mechanism.isin([NUMBER, f"structure-only:{NUMBER}"])]
    assert len(mine) == 8  # two seeds, two embeddings, and the twin
    assert mine[mine.mechanism == NUMBER].epsilon_proved.eq(2.0).all()
    assert NUMBER in privge.tables(out)
    privge.write_report(out)
    assert (out / "figure2_node.png").exists()

    asked = frontier.Config(mechanisms=(LIST,), labels=("20",), seeds=1, units=("list",), **given)
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
    dprr.write_report(tmp_path)
    assert LIST in (tmp_path / "dprr.md").read_text()
