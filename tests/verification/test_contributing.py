"""CONTRIBUTING to the letter: its files in a folder of their own and no other edit; twins of them
are refused.
"""

import importlib
import re
import sys
from pathlib import Path

import jax
import pandas as pd
import pytest

from experiments import audit
from ldp_jax import verification
from ldp_jax.core.pytree import mechanism
from tests.contributing import NAMES, TEXT, blocks, run
from tests.marks import untyped
from tests.verification.test_leaks import asked_of


def loaded(folder: Path, monkeypatch, **changes: tuple[str, str]):
    """``Steps`` of the two files, each with a change to its text."""
    for name, text in blocks().items():
        old, new = changes.get(name, ("", ""))
        assert old in text
        (folder / f"{name}.py").write_text(text.replace(old, new) if old else text)
    monkeypatch.syspath_prepend(str(folder))
    for name in NAMES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    importlib.invalidate_caches()
    try:
        return importlib.import_module("steps").Steps
    finally:
        for name in NAMES:
            monkeypatch.delitem(sys.modules, name, raising=False)


@untyped  # NumPy's scalars of bfloat16 are records, and none of its numbers by type
def test_two_files_are_enough_and_the_command_line_asks_them(tmp_path, monkeypatch, capsys):
    """The verdict of the command: every test of a number holds, and the law loses the claim."""
    loaded(tmp_path, monkeypatch)
    assert "python -m experiments audit --mechanism steps:Steps" in TEXT
    audit.main(audit.Config("steps:Steps(1.0, hours=6)", quick=True, out=tmp_path / "found"))
    printed = capsys.readouterr().out
    written = (tmp_path / "found" / "audit_own.md").read_text()
    assert all(line in printed.splitlines() for line in written.splitlines() if line[:3] != "```")
    tests_written = pd.read_csv(tmp_path / "found" / "audit_own.csv")
    assert tests_written[tests_written.needed].holds.astype(bool).all()
    assert "Steps(epsilon=1.0, hours=6)" in printed
    assert "the claim holds as far as the tests see" in printed
    tests = {line.split()[0]: line for line in printed.splitlines() if " holds: " in line}
    asked = {"total", "mass", "law", "sampler", "game", "losses", "distinct", "pure", "key"}
    assert asked <= set(tests)
    assert re.search(r" holds: 1 of 1$", tests["law"])
    assert [m.epsilon for m in audit.asked_of("steps:Steps")] == [0.1, 1.0]
    assert "epsilon 16 is refused" in capsys.readouterr().out


@untyped
def test_one_file_is_enough_for_a_mechanism_on_lists():
    """Every test of a list holds; tests/edges/test_samplers.py draws graphs."""
    verdict = verification.check(
        run("coin")["Coin"](1.0, n=4, reporting="half"), jax.random.key(0), trials=4000
    )
    assert verdict, str(verdict)
    assert verdict["law"].found == pytest.approx(1.0, rel=1e-9)


def test_an_edge_is_asked_where_no_law_of_a_bit_is_known():
    """Both ends report it: a claim of one end alone is refused."""
    coin = run("coin")["Coin"]

    @mechanism
    class OneEnd(coin):
        def relationship(self, reporting=None):
            return coin.relationship(self, "half")

    found = [asked_of(kind(1.0, n=4), "edge", 1000) for kind in (coin, OneEnd)]
    assert [test.holds for test in found] == [True, False]
    assert [test.found for test in found] == pytest.approx([2.0, 2.0])


TWINS = {
    "claims it of any two hours": (
        {"steps": ("adjacency=self.domain().adjacency,", "")},
        "unit",
    ),
    "says so in words of its own": (
        {"steps": ("self.domain().adjacency", '"all pairs of hours"')},
        "unit",
    ),
    "claims less than it loses": (
        {"steps": ("largest(self.epsilon),", "largest(self.epsilon) / 1.05,")},
        "law",
    ),
    "draws another law": (
        {"steps": ("cumsum(self._mass(x))", "cumsum(self._mass(x) ** 2)")},
        "sampler",
    ),
    "takes an hour for another": (
        {"steps": ("self.domain().clip(x)", "jnp.nan_to_num(x) % 6")},
        "total",
    ),
}


@pytest.mark.parametrize("name", TWINS)
def test_a_twin_is_refused(name, tmp_path, monkeypatch):
    changes, test = TWINS[name]
    m = loaded(tmp_path, monkeypatch, **changes)(1.0)
    told = []
    verdict = verification.check(
        m, jax.random.key(0), trials=5_000, progress=lambda *now: told.append(now)
    )
    assert not verdict
    assert told[0] == ("unit", 0.0)
    assert test in {found.name for found in verdict.refused}, str(verdict)
    assert "REFUSED by" in str(verdict)
