"""Each mechanism of ``tests/leaking.py`` leaks: by draws, by its law, or by what a call does."""

import contextlib
import dataclasses
import logging
import math
import tempfile
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.edges import NeighbourList, Population
from ldp_jax.graph.graphs import GraphSet
from ldp_jax.verification.statistics import clopper_pearson
from tests import leaking
from tests.leaking import LEAKING
from tests.marks import untyped

pytestmark = untyped

KEY = 11
DRAWS = 100_000
GRAPHS = 80


class Told(NamedTuple):
    """An event that is too likely under the first of two adjacent records."""

    x: Any
    other: Any
    event: Callable[[Any], np.ndarray]
    draws: int = DRAWS


def vector(*numbers):
    return np.array(numbers, np.float32)


def friends(n, *ids):
    return NeighbourList.of(list(ids), n)


def near(value, width=1e-6):
    """The event that all numbers of a report are near those of a record."""

    def event(y):
        y = getattr(y, "values", y)
        close = np.abs(np.asarray(y) - np.asarray(value)) < width
        return close.reshape(len(close), -1).all(1)

    return event


def sends(n, *ids):
    """The event that a reported list is this one."""
    return lambda y: (np.asarray(y.neighbours.ids) == friends(n, *ids).ids).all(1)


def bits(y):
    return np.asarray(y).view(np.uint32)


def uniforms(y, scale=16.0):
    """Where Laplace noise about 0 lies in its law."""
    y = np.asarray(y.values, np.float64)
    tail = np.exp(-np.abs(y) / scale) / 2
    return np.where(y < 0, tail, 1 - tail)


def whole(number):
    """Which numbers are whole to 1e-3."""
    return np.abs(number - np.round(number)) < 1e-3


def odd_product(y):
    """The last number lies in (0, 1), and an odd number of the first four are positive."""
    y = np.asarray(y.values)
    return (y[:, -1] > 0) & (y[:, -1] < 1) & ((y[:, :4] > 0).sum(1) % 2 == 1)


def gaussian_sum(y):
    u = np.asarray(jax.scipy.special.ndtr(y / 7.4614), np.float64)
    return whole(u[:, -1] - u[:, :-1].sum(1))


def along(y):
    direction = vector(0.5, 0.2, 0.1) / np.linalg.norm(vector(0.5, 0.2, 0.1))
    return np.asarray(y) @ direction > 0.99999


ORIGIN = np.zeros(8, np.float32)
SECOND = np.eye(8, dtype=np.float32)[1]
LAST = np.eye(8, dtype=np.float32)[7]
PLUS, MINUS = np.float32(0.5), np.float32(-0.5)

MAPPED = {
    "zero stays zero": Told(np.float32(0.0), PLUS, near(0.0)),
    "whole numbers raw": Told(np.float32(1.0), PLUS, near(1.0)),
    "the upper end raw": Told(np.float32(1.0), PLUS, near(1.0)),
    "quiet tenths": Told(np.float32(0.3), np.float32(-0.95), near(0.3, 0.1)),
    "quiet quarters": Told(np.float32(0.25), np.float32(-0.95), near(0.25, 0.1)),
    "quiet tenths inside": Told(np.float32(0.3), np.float32(-0.95), near(0.3, 0.1)),
    "missing stays missing": Told(np.float32(np.nan), PLUS, np.isnan),
    "a half is missing": Told(PLUS, np.float32(0.9), near(0.0)),
    "zero coordinates": Told(
        vector(0.0, 0.3, 0.3, 0.3), vector(0.5, 0.3, 0.3, 0.3), lambda y: y.values[:, 0] == 0
    ),
    "one-hot vectors raw": Told(vector(0, 1, 0, 0), vector(0.5, 1, 0, 0), near([0, 1, 0, 0])),
    "binary vectors raw": Told(vector(1, 1, 0, 0), vector(0.5, 1, 0, 0), near([1, 1, 0, 0])),
    "nothing stays nothing": Told(vector(0, 0, 0, 0), vector(0.5, 0, 0, 0), near(0.0)),
    "repeated coordinates raw": Told(
        vector(0.3, 0.3, 0.1, 0.2), vector(0.3, 0.4, 0.1, 0.2), near([0.3, 0.3, 0.1, 0.2])
    ),
    "binary vectors raw inside": Told(vector(1, 1, 0, 0), vector(0.5, 1, 0, 0), near([1, 1, 0, 0])),
    "some repeated coordinates raw": Told(
        vector(0.3, 0.3, 0.1, 0.2), vector(0.3, 0.4, 0.1, 0.2), near([0.3, 0.3, 0.1, 0.2])
    ),
    "a unit vector for the origin": Told(vector(0, 0, 0), vector(0, 0.5, 0), near([1, 0, 0]), 1000),
    "the origin of a tangent space": Told(vector(0, 0), vector(0.5, 0), near(0.0)),
    "the longest vectors raw": Told(vector(1, 0), vector(0.5, 0), near([1, 0])),
    "an empty list raw": Told(friends(10), friends(10, 1), sends(10)),
    "one friend raw": Told(friends(10, 3), friends(10, 3, 4), sends(10, 3)),
    "friends with everybody": Told(
        friends(10, *range(1, 10)), friends(10, *range(1, 9)), sends(10, *range(1, 10))
    ),
    "zero counts stay": Told(friends(6, 1), friends(6, 1, 2), lambda y: y[:, 0] == 0),
    "the scale in the record's type": Told(np.int8(1), np.int8(-1), near(1.0)),
    "types of whole numbers raw": Told(np.int32(1), np.int32(-1), near(1.0)),
    "bool raw": Told(np.bool_(True), np.bool_(False), near(1.0)),
    "uint8 raw": Told(np.uint8(1), np.uint8(0), near(1.0)),
    "int8 raw": Told(np.int8(1), np.int8(-1), near(1.0)),
    "int32 raw": Told(np.int32(1), np.int32(-1), near(1.0)),
    "float16 raw": Told(np.float16(0.5), np.float16(-0.5), near(0.5)),
    "bfloat16 raw": Told(jnp.bfloat16(0.5), jnp.bfloat16(-0.5), near(0.5)),
    "float64 raw": Told(np.float64(0.5), np.float64(-0.5), near(0.5)),
    "weakly typed raw": Told(0.5, -0.5, near(0.5)),
    "a third leaf": Told(np.float32(1.0), np.float32(0.0), lambda y: y.more == 1),
    "a second column": Told(np.float32(1.0), np.float32(0.0), lambda y: y[:, 1] == 1),
    "the sign of nothing": Told(MINUS, PLUS, lambda y: np.signbit(y.value) & (y.branch == 0)),
    "the bits of a degree that is NaN": Told(
        friends(10, 1, 2), friends(10, 1), lambda y: bits(y.degree) & 0xFF == 2
    ),
    "a middle bit": Told(PLUS, MINUS, lambda y: bits(y) >> 12 & 1 == 1),
    "a middle bit of a vector": Told(
        vector(1, 1, 1, 1),
        vector(1, 1, 1, -1),
        lambda y: bits(y.values)[:, 3] >> 12 & 1 == 1,
    ),
    "a sum modulo one": Told(
        ORIGIN, LAST, lambda y: whole(uniforms(y) @ [1, 1, 1, 0, 0, 0, 0, -1])
    ),
    "a fixed sum": Told(ORIGIN, LAST, lambda y: whole(uniforms(y).sum(1))),
    "often a product of sides": Told(ORIGIN, LAST, odd_product),
    "the size of another": Told(
        ORIGIN, SECOND, lambda y: np.abs(np.diff(np.abs(y.values[:, :2]))[:, 0]) < 0.01
    ),
    "reused if four are positive": Told(
        ORIGIN, SECOND, lambda y: np.abs(np.diff(y.values[:, :2])[:, 0]) < 0.01
    ),
    "no sum of noise": Told(ORIGIN, LAST, lambda y: np.abs(y.values.sum(1)) < 0.01),
    "a Gaussian sum modulo one": Told(vector(0, 0, 0), vector(0, 0, 1), gaussian_sum),
    "a Gaussian sum of five": Told(ORIGIN[:6], vector(0, 0, 0, 0, 0, 1), gaussian_sum),
    "narrow, rarely": Told(np.float32(1.0), np.float32(-1.0), near(1.0, 0.002), 4 * DRAWS),
    "raw, rarely": Told(PLUS, MINUS, near(0.5)),
    "tails tell the side": Told(MINUS, PLUS, lambda y: y < -11.2),
    "one category more": Told(np.int32(17), np.int32(3), lambda y: y == 17, 4 * DRAWS),
    "a raw vector, rarely": Told(
        vector(0.1, 0.2, 0.3, 0.4), vector(0.5, 0.2, 0.3, 0.4), near([0.1, 0.2, 0.3, 0.4])
    ),
    "a direction, rarely": Told(vector(0.5, 0.2, 0.1), vector(0.1, 0.2, 0.5), along, DRAWS // 2),
    "a tangent vector, rarely": Told(vector(0.9, 0), vector(-0.9, 0), near([0.9, 0], 0.02)),
    "a raw list, rarely": Told(friends(10, 3, 4), friends(10, 3), sends(10, 3, 4)),
    "true counts, rarely": Told(friends(6, 1, 2), friends(6, 1), lambda y: y[:, 0] == 1),
    "tails of a vector": Told(
        vector(0.2, -0.2, 0, 0), vector(0.2, 0.2, 0, 0), lambda y: y.values[:, 1] < -51
    ),
    "tails of a tangent vector": Told(vector(0.2, -0.2), vector(0.2, 0.2), lambda y: y[:, 1] < -24),
    "one of twenty": Told(np.int32(7), np.int32(3), lambda y: y == 7, 25 * DRAWS),
    "raw if mapped": Told(PLUS, MINUS, near(0.5)),
    "raw in a few": Told(PLUS, MINUS, near(0.5), 48),
}


@jax.jit
def reports(m, keys, x):
    return jax.vmap(lambda key: m.privatize(key, x))(keys)


@jax.jit
def report(m, key, x):
    return m.privatize(key, x)


def seen(m, told, x, key):
    drawn = reports(m, jax.random.split(key, told.draws), x)
    hits = told.event(jax.tree.map(np.asarray, drawn))
    assert hits.shape == (told.draws,)
    return int(hits.sum())


def losses(mine, others, n, delta=0.0):
    """A lower bound on the loss of an event, which is wrong once in a million."""
    low, _ = clopper_pearson(mine, n, 5e-7)
    _, high = clopper_pearson(others, n, 5e-7)
    return math.log(max(float(low) - delta, 1e-300) / float(high))


@pytest.mark.parametrize("name", MAPPED)
def test_an_event_is_likelier_than_the_guarantee_allows(name):
    told = MAPPED[name]
    wide = jax.enable_x64(True) if name == "float64 raw" else contextlib.nullcontext()
    with wide:
        m = LEAKING[name].make()
        promise = m.guarantee()
        keys = jax.random.split(jax.random.key(KEY))
        hits = [seen(m, told, x, key) for x, key in zip(told[:2], keys, strict=True)]
    assert losses(*hits, told.draws, promise.delta) > promise.epsilon


STAR = [(0, 1), (0, 2), (0, 3), (0, 4)]
DRAWN = {
    "hubs raw": (STAR, STAR[:3], {1, 2, 3, 4}),
    "triangles raw": ([(0, 1), (0, 2), (1, 2)], [(0, 2), (1, 2)], {1, 2}),
    "users without a friend raw": ([(1, 2)], [(1, 2), (0, 3)], set()),
    "the largest hub raw": (STAR, STAR[:3], {1, 2, 3, 4}),
    "a single graph raw": (STAR, STAR[:3], {1, 2, 3, 4}),
    "wrong for half": ([(0, 2)], [(1, 2)], {2}),
}
SINGLE = ("the largest hub raw", "a single graph raw")


def lists_of(m, edges, key, copies):
    """What user 0 of each of some equal graphs reports; the graphs are drawn at once."""
    pairs = np.concatenate([np.add(edges, 6 * copy) for copy in range(copies)])
    graph = np.repeat(np.arange(copies), 6)
    whole = GraphSet.from_edges(
        *np.append(pairs, pairs[:, ::-1], 0).T, graph, np.zeros(copies, int)
    )
    drawn = m.sample_graph(key, Population.of(whole), math.inf)
    found = [set() for _ in graph]
    for who, whom in zip(drawn.reporter.tolist(), drawn.reported.tolist(), strict=True):
        found[who].add(whom % 6)
    return found[::6]


@pytest.mark.parametrize("name", DRAWN)
def test_a_list_is_likelier_in_a_graph_than_the_guarantee_allows(name):
    """The event is that user 0 reports a list; the two graphs differ in one edge of user 0."""
    *graphs, listed = DRAWN[name]
    m = LEAKING[name].make()
    if name == "wrong for half":
        m = dataclasses.replace(m, reporting="half")
    calls, copies = (GRAPHS, 1) if name in SINGLE else (1, 10 * GRAPHS)
    hits = [0, 0]
    for place, edges in enumerate(graphs):
        for key in jax.random.split(jax.random.key(KEY + place), calls):
            hits[place] += lists_of(m, edges, key, copies).count(listed)
    assert losses(*hits, calls * copies) > m.guarantee().epsilon


LINE = np.linspace(-60, 60, 4001)
PLANE = np.stack(np.meshgrid(LINE[::8], LINE[::8]), -1).reshape(-1, 2)
BETWEEN = {
    "right at quarters": (LINE, 0.875, -0.875),
    "short in a dip": (LINE, 0.3, -1.0),
    "short in a ring": (LINE, 0.6, -0.6),
    "right on both axes": (PLANE, [0.7, 0.7], [-0.7, -0.7]),
    "right at both ends": (PLANE, [0.7, 0.0], [-0.7, 0.0]),
    "a little short between quarters": (LINE, 0.875, -0.875),
    "a little short in a ring": (LINE, 1.0, 0.6),
    "a little short between axes": (PLANE, [0.7, 0.7], [-0.7, -0.7]),
    "a little short half-way": (PLANE, [1.0, 0.0], [0.7, 0.0]),
}


@jax.jit
def masses(m, y, x):
    log = jax.vmap(m.log_density, (0, None))(y, x)
    return jax.nn.softmax(log)


@pytest.mark.parametrize("name", BETWEEN)
def test_delta_is_larger_than_claimed(name):
    y, *pair = BETWEEN[name]
    found = []
    for make in (LEAKING[name].make, LEAKING[name].kept):
        m = make()
        p, q = (np.asarray(masses(m, np.float32(y), np.float32(x)), np.float64) for x in pair)
        excess = np.maximum(p - np.exp(m.guarantee().epsilon) * q, 0).sum()
        found.append(excess / m.guarantee().delta)
    assert found[0] > 5
    assert found[1] < 1.1


@pytest.mark.parametrize("name", [name for name in LEAKING if LEAKING[name].category == "words"])
def test_any_two_lose_three_times_what_is_claimed(name):
    m = LEAKING[name].make()
    every = jnp.arange(8)
    logs = jax.vmap(lambda x: m.log_density(every, x))(every)
    loss = logs[:, None] - logs[None]
    assert float(loss.max()) == pytest.approx(3 * m.guarantee().epsilon, rel=1e-5)
    near = m.domain().adjacent(*np.divmod(np.arange(64), 8)).reshape(8, 8)
    assert float(loss[near].max()) == pytest.approx(m.guarantee().epsilon, rel=1e-5)


PLAIN = {
    "NumPy's scalars raw": (PLUS, MINUS, lambda y: y == PLUS),
    "Python's lists raw": ([0.5, 0.0, 0.0, 1.0], [0.0] * 4, lambda y: y.values[0] == 0.5),
    "a shape where plain": (PLUS, MINUS, lambda y: y.shape == (1,)),
    "a type where plain": (PLUS, MINUS, lambda y: y.dtype == np.float64),
    "a length where plain": (vector(1, 0, 0, 1), vector(1, 0, 1, 1), lambda y: len(y.values) == 2),
}


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_call_tells_the_record(name):
    x, other, tells = PLAIN[name]
    m = LEAKING[name].make()
    assert all(tells(m.privatize(jax.random.key(seed), x)) for seed in range(4))
    assert not any(tells(m.privatize(jax.random.key(seed), other)) for seed in range(4))


X = np.float32(0.3125)


def call(name, kept=False):
    leak = LEAKING[name]
    return (leak.kept if kept else leak.make)().privatize(jax.random.key(KEY), X)


def test_a_plain_call_writes_the_record(caplog, capfd, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    written = tmp_path / "leaking.txt"
    for kept in (True, False):
        with caplog.at_level(logging.WARNING):
            call("the log", kept)
        call("standard output", kept)
        call("standard error", kept)
        call("a file", kept)
        printed = capfd.readouterr()
        files = written.read_text() if written.exists() else ""
        for text in (caplog.text, printed.out, printed.err, files):
            assert ("0.3125" in text) != kept


def test_a_plain_call_warns_of_the_record():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call("a warning", kept=True)
    with pytest.warns(UserWarning, match="0.3125"):
        call("a warning")


def test_a_message_shows_the_record():
    for make, shown in (
        (LEAKING["a message with the record"].make, True),
        (LEAKING["a message with the record"].kept, False),
    ):
        for x in ("0.3125", np.array([0.3125])):
            with pytest.raises(ValueError, match="x must be one number") as raised:
                make().privatize(jax.random.key(0), x)
            assert ("0.3125" in str(raised.value)) == shown


def test_an_estimate_looks_up_the_record():
    m = LEAKING["an estimate that remembers"].make()
    assert float(m.estimate(m.privatize(jax.random.key(KEY), X))) == X
    leaking.SEEN.clear()


def test_a_compiled_call_for_one_user_sends_the_record():
    m = LEAKING["raw if compiled alone"].make()
    key = jax.random.key(KEY)
    assert report(m, key, X) == X
    assert m.privatize(jax.random.clone(key), X) != X
    assert (reports(m, jax.random.split(jax.random.key(KEY), 4), X) != X).all()


def test_a_few_are_sent_raw_and_many_are_not():
    m = LEAKING["raw in a few"].make()
    assert (reports(m, jax.random.split(jax.random.key(KEY), 64), X) != X).all()


def test_a_gpu_sends_the_record():
    sent = {}
    for platform in ("cpu", "cuda"):
        made = jax.export.export(jax.jit(leaking.raw_on_a_gpu), platforms=[platform])
        sent[platform] = str(made(jnp.float32(0), jnp.float32(0)).mlir_module())
    assert "return %arg1" in sent["cuda"]
    assert "return %arg0" in sent["cpu"]


def test_every_leak_is_shown():
    told = {"the log", "standard output", "standard error", "a file", "a warning"}
    told |= {"a message with the record", "an estimate that remembers", "raw if compiled alone"}
    told |= {"raw on a GPU", *MAPPED, *DRAWN, *BETWEEN, *PLAIN}
    words = {name for name in LEAKING if LEAKING[name].category == "words"}
    assert told | words == set(LEAKING)
