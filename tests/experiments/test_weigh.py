"""What the project weighs: each count on a small planted tree."""

import ast

import pandas as pd
import pytest

from experiments import weigh

INIT = '''"""A root."""

__all__: list[str] = ["one", "two"]
'''

RULES = '''"""Two lines
of a docstring."""

# a comment
from typing import Any

from ldp_jax import _hidden, edges
from ldp_jax._hidden import shown
from ldp_jax.edges import lists, _private
from ldp_jax.features import _own
from . import __version__, _near
from ._near import name
from .. import _root
import ldp_jax.edges._far

__all__ = ["rule"]
__all__ += ("other", "third")

AIM = """a text
that is code"""


def rule(x: Any, y: "Any") -> Any:
    """One line."""
    # Any comment

    return x
'''

LARGE = f"""
def long():
    # a comment
{"    x = 1" + chr(10) * 2}{"    x += 1" + chr(10)}{("    x += 1" + chr(10)) * 58}    return x


def just_short_enough():
{("    x = 1" + chr(10)) * 59}

class Wide:
    def eight(self, a, b, /, c, d, e, *args, f, g, h, **rest):
        pass

    def nine(self, a, b, /, c, d, e, *, f, g, h, i):
        pass
"""


@pytest.fixture
def tree(tmp_path):
    """A library of four modules, an experiment of three lines, a test of two, and a README."""
    files = {
        "ldp_jax/__init__.py": INIT,
        "ldp_jax/_hidden.py": "shown = 1\n",
        "ldp_jax/features/rules.py": RULES,
        "ldp_jax/features/large.py": LARGE,
        "experiments/one.py": "x = 1\n\n# a comment\n",
        "tests/deep/test_one.py": "y = 2\nz = 3\n",
        "README.md": "# A title\n\n```bash\nls\n```\n\n```python\n1 + 1\n```\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_counts_of_a_planted_tree(tree):
    found = weigh.count(tree)
    large = 62 + 60 + 5
    assert found == {
        "ldp_jax: code": 1 + 1 + 15 + large,
        "ldp_jax: docstrings": 1 + 2 + 1,
        "experiments: all lines": 3,
        "tests: all lines": 2,
        "exported names: all __all__": 5,
        "exported names: ldp_jax itself": 2,
        "lines with Any": 2,
        "underscore imports across packages": 5,  # not those of its own package
        "long or wide functions": 2,
        "README": 9,
        "README: first Python block": 7,
    }
    assert set(found) <= set(weigh.AIMS)


def test_exported_names_are_literal():
    with pytest.raises(ValueError, match="malformed"):
        weigh.exported_names(ast.parse("__all__ = sorted(names)"))


def test_the_command_writes_what_it_prints(tree, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(weigh, "ROOT", tree)
    weigh.main(weigh.Config(out=tmp_path / "out"))
    rows = pd.read_csv(tmp_path / "out/weight.csv").set_index("quantity")
    assert list(rows.loc["README"]) == [9, "lines", 220]
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {".csv", ".md", ".json"}
    assert "| README | 9 | lines | 220 | yes |" in (tmp_path / "out/weight.md").read_text()
    assert "underscore imports across packages" in capsys.readouterr().out
