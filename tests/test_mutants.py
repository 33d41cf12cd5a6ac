"""The list of planted faults fits the tree; ``python -m tests.mutants`` plants them."""

import tomllib
from pathlib import Path

from tests import mutants


def test_every_fault_can_be_planted_and_its_tests_are_there():
    listed = mutants.load()
    assert len({mutant["name"] for mutant in listed}) == len(listed) == 50
    for mutant in listed:
        assert set(mutant) == {"name", "breaks", "file", "find", "replace", "tests"}
        text = (mutants.ROOT / mutant["file"]).read_text()
        assert mutants.planted(mutant, text) != text
        for test in mutant["tests"]:
            file, _, name = test.partition("::")
            assert (
                f"def {name.partition('[')[0]}(" in (mutants.ROOT / file).read_text() or not name
            ), test


def test_every_test_that_is_sampled_is_there():
    for test in tomllib.loads((mutants.ROOT / "tests" / "sampled.toml").read_text()):
        file, _, name = test.partition("::")
        text = (mutants.ROOT / file).read_text()
        function = name.rpartition(".")[2]  # an example has the whole path of what it is in
        there = f"def {function}(" in text or f"class {function}" in text
        assert name in ("", Path(file).name) or there, test
