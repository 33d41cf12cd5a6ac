"""Pictures of protocols: what was asked, what it cost, and nothing of what anybody holds."""

import re
from xml.etree import ElementTree

import jax
import numpy as np
import pytest

from ldp_jax.features import HDS, GeneralizedRR
from ldp_jax.graph import graphs
from ldp_jax.servers import LDPGenServer, Released, RoundsServer, Share, Users, simulate
from ldp_jax.servers.diagram import WIDTH, Message, Party, diagram, draw
from tests.servers.example_protocol import ClassesThenCounts

N = 30
RING = graphs.from_edges(np.stack([np.arange(N), (np.arange(N) + 1) % N], 1), num_nodes=N)
LABELS = np.arange(N) % 3
SVG = "{http://www.w3.org/2000/svg}"


def ran(server, users=None):
    users = users or Users(labels=LABELS, records=LABELS, lists=RING)
    return simulate(jax.random.key(0), server, users)


def texts(picture):
    return ["".join(node.itertext()) for node in ElementTree.fromstring(picture).iter(f"{SVG}text")]


def test_each_round_has_what_was_asked_and_what_an_answer_costs():
    found = ran(ClassesThenCounts(N, 1.0))
    shown = texts(diagram(found, "Mine"))
    assert shown[0] == "Mine"
    assert shown.index("Users' devices") < shown.index("Server")
    said = " ".join(shown)
    for number, one in enumerate(found.rounds, 1):
        assert f"Round {number}, {one.asked} users, {one.download} bytes to each:" in said
        assert f"{one.reported} reports of {one.upload} bytes" in said
    assert "through a mechanism (" in said
    assert "add discrete Laplace noise to each count (NeighbourCounts)" in said
    assert shown.count("epsilon 1 per label") == 2  # the round, and what was stated
    assert shown.count("epsilon 1 per neighbour-list") == 2
    assert shown.count("epsilon 2 per relationship") == 1
    assert "NOT protected" not in said
    assert "hold labels, edges" in said
    assert "trust nobody" in said
    assert f"NOT protected: {', '.join(ran(LDPGenServer(N, 1.0, 1.0)).guarantee.unprotected)}" in (
        " ".join(texts(diagram(ran(LDPGenServer(N, 1.0, 1.0)))))
    )


def test_a_delta_is_rounded_up():
    server = RoundsServer(GeneralizedRR(0.1, 3), N, rounds=40, delta=1.004e-6)
    found = ran(server, Users(records=np.zeros((N, 40), int)))
    assert "delta 1.004e-06 per record" in " ".join(texts(diagram(found)))


def test_a_mechanism_is_named_with_what_it_samples():
    found = ran(Share(GeneralizedRR(1.0, 3), N))
    assert found.rounds[0].asks == "Send the record, or the label, through a mechanism (Discrete)"
    server = RoundsServer(HDS(1.0, dim=4, k=1), N, rounds=1)
    asked = ran(server, Users(records=np.zeros((N, 1, 4), np.float32))).rounds[0]
    assert asked.asks.endswith("(Sampled of SquareWave)")


def test_it_is_the_same_whatever_users_hold():
    server = Share(GeneralizedRR(1.0, 3), N)
    other = ran(server, Users(labels=np.zeros(N, int)))
    assert diagram(ran(server)) == diagram(other)


def test_users_without_noise_have_no_finite_epsilon():
    users = Users(labels=LABELS, lists=RING).exact()
    shown = texts(diagram(ran(ClassesThenCounts(N, 1.0), users)))
    assert "epsilon inf per label" in shown


def test_a_result_that_was_saved_has_the_same_picture():
    found = ran(ClassesThenCounts(N, 1.0))
    assert diagram(Released.from_bytes(found.to_bytes())) == diagram(found)


@pytest.mark.parametrize("words", ["one", "many words in one sentence " * 12])
def test_texts_are_within_their_boxes_and_do_not_overlap(words):
    """A letter of the widest text is taken for 7.4 pixels, a bold one for 8."""
    users = Party("Users' devices", [words, "trust nobody"])
    messages = [Message(False, words), Message(True, words, "epsilon 1 per record")]
    root = ElementTree.fromstring(draw("A & B", users, Party("Server", ["x"]), messages, [words]))
    lines = [
        (float(node.get("y")), float(node.get("x")), len(node.text or ""), node.get("class"))
        for node in root.iter(f"{SVG}text")
    ]
    for y, x, letters, kind in lines:
        half = letters * (8 if kind in ("cost", "name") else 7.4) / 2
        assert x - half >= 0, (y, letters)
        assert x + half <= WIDTH
        same_column = sorted(other for other, at, *_ in lines if at == x and other > y)
        assert not same_column or same_column[0] - y >= 15
    height = float(root.get("height"))
    assert max(y for y, *_ in lines) < height - 10
    assert re.fullmatch(rf"0 0 {WIDTH} \d+", root.get("viewBox"))
