"""What the project weighs: each count on a small planted tree."""

import pandas as pd
import pytest

from experiments import weigh

MODULE = f'''"""A docstring
of two lines."""

# a comment
import ldp_jax.core
from typing import NamedTuple
from ldp_jax.core import types, lazy
from ldp_jax.edges import lists

AIM = """a text
that is code"""


class Pair(NamedTuple):
    """A bag."""

    one: int


def _once(x):
    a, b = len(x), len(AIM)
    c, d = x[0], a
    e, *f = b, c, d
    raise ValueError(x)


def _twice(x):
    """Used by two."""

    def inside():
        from ldp_jax.graph import graphs

        return _twice(x), _twice(2)

    return _once


{"long = " + "1" * 94}
'''


@pytest.fixture
def tree(tmp_path):
    """A library of one room, an experiment, a test, and a README."""
    files = {
        "ldp_jax/__init__.py": "from ldp_jax.room import a, b\n",
        "ldp_jax/room/__init__.py": "",
        "ldp_jax/room/module.py": MODULE,
        "experiments/one.py": "x = 1\n\n# a comment\n",
        "tests/deep/test_one.py": "raise y\n",
        "README.md": "# A title\n\n1 + 1\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_counts_of_a_planted_tree(tree):
    found = weigh.count_parts(tree)
    assert [*found] == ["ldp_jax", "ldp_jax/room", "experiments", "tests"]
    room = found["ldp_jax/room"]
    assert room | {"nodes": 0, weigh.DENSITY: 0} == {
        "nodes": 0,
        weigh.DENSITY: 0,
        weigh.LONG_LINES: 1,
        "packed assignments": 2,
        "packed assignments of unlike things": 1,
        "NamedTuples": 1,
        "raises": 1,
        weigh.USED_ONCE: 50,
        weigh.BUSIEST: 3,
    }
    root = 4  # a module and an import of two names
    assert found["ldp_jax"]["nodes"] == room["nodes"] + root
    assert found["experiments"]["nodes"] == 4  # a module, an assignment, a name and a number
    assert found["experiments"][weigh.DENSITY] == 4


@pytest.mark.parametrize("text", ['"""A docstring."""\n', "", "# a comment\n"])
def test_docstrings_and_comments_weigh_nothing(text):
    assert weigh.count_module(text) == weigh.count_module("")
    code = "def f(x):\n    return x\n"
    counted = weigh.count_module(code)
    assert weigh.count_module(text + code) == counted
    assert counted["nodes"] == 6
    assert counted["code lines"] == 2


def test_help_is_counted_in_lines_of_a_screen():
    def short(x, y=1):
        return x

    def f(x: int, y="1" * 80):
        return x

    assert weigh.help_lines(short) == 1
    assert weigh.help_lines(f) == 2
    names = {function.__name__ for function in weigh.public_functions()}
    assert {"private_embedding", "ppr", "privatize_graph"} <= names
    assert "Laplace" not in names


def test_the_command_writes_what_it_prints(tree, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(weigh, "ROOT", tree)
    weigh.main(weigh.Config(out=tmp_path / "out"))
    rows = pd.read_csv(tmp_path / "out/weight.csv").set_index("quantity")
    assert list(rows.loc["experiments: nodes", ["value", "aim"]]) == [4, 70_000]
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {".csv", ".md", ".json"}
    written = (tmp_path / "out/weight.md").read_text()
    assert "| experiments: nodes | 4 |  | 70,000 |  | yes |" in written
    assert "| ldp_jax/room | 1 |" in written
    assert "Where it weighs" in capsys.readouterr().out
    assert {name for name in rows.index if name.startswith("ldp_jax: ")} == {
        name for name in weigh.AIMS if name.startswith("ldp_jax: ")
    }
