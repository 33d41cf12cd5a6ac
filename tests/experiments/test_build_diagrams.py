"""Committed pictures are those that the library draws today."""

from xml.etree import ElementTree

import pytest

from experiments import build_diagrams
from tests.test_layers import FILES, ROOT, own

PICTURES = build_diagrams.ROOT.parent / "docs" / "pictures"


def committed(name):
    return (PICTURES / f"{name}.svg").read_text()


def test_there_is_a_picture_of_each_protocol_and_no_other():
    names = {path.stem for path in PICTURES.glob("*.svg")}
    protocols = {one.__name__ for one in build_diagrams.PROTOCOLS}
    assert names == protocols | {"idea", "house"}
    for name in names:
        assert ElementTree.fromstring(committed(name)).tag.endswith("svg")


def test_the_idea_and_the_house_are_drawn_anew():
    assert build_diagrams.idea() == committed("idea")
    assert build_diagrams.house() == committed("house")


def test_rooms_know_those_that_their_files_import():
    """By the reader of imports that holds the layers."""
    known: dict[str, set[str]] = {}
    for path in FILES:
        here = path.relative_to(ROOT).parts[0]
        known.setdefault(here, set()).update(name.split(".")[0] for name in own(path))
    found = build_diagrams.rooms()
    for name, others in found.items():
        assert others == known[name] & found.keys() - {name}, name


@pytest.mark.parametrize("protocol", build_diagrams.PROTOCOLS, ids=lambda one: one.__name__)
def test_a_protocol_is_drawn_as_it_runs(protocol):
    assert build_diagrams.drawn(protocol) == committed(protocol.__name__)
