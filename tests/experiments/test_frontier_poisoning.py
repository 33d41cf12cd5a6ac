"""Liars in the main jobs: what is asked, what the page says of it, and that the honest are the same
in all rows.
"""

import dataclasses
import itertools
import math
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import frontier
from experiments.frontier import poisoning
from experiments.frontier.config import POISONED, Config
from experiments.frontier.poisoning import (
    AS_IT_IS,
    CHECKED,
    CLASSES,
    NONE,
    TASKS,
    TRIMMED,
    UNGUARDED,
    WORST,
)
from ldp_jax.accounting.statement import Statement
from ldp_jax.attacks.poisoning import choose_liars
from ldp_jax.features import PersonalAlphabets
from ldp_jax.servers import ClassQuestion
from ldp_jax.servers.parts.device_classifier import DeviceClassifier
from ldp_jax.servers.parts.rows import DenseRows
from ldp_jax.servers.reports import ClassesAsked
from tests.experiments import contract
from tests.experiments.synthetic import CELL

SHARE = poisoning.SHARE


ASKED = ("counts", "embedding", "degree", "lists")


@pytest.fixture(scope="module")
def ran(tiny):
    few = {"labels": ("half",), "epsilons": (1.0,), "mechanisms": ASKED}
    config = Config(parts=("poisoning",), **few, **tiny)
    with pytest.MonkeyPatch.context() as patch:
        counts = TASKS["counts"]._replace(
            lies=(WORST,), defences=(TRIMMED,)
        )  # whose runs take long: one lie
        patch.setitem(TASKS, "counts", counts)
        patch.setattr(poisoning, "SHARES", (SHARE,))
        patch.setattr(poisoning, "RESPONSE", WORST)
        frontier.main(config)
        patch.setattr(poisoning, "compute", None)  # a run that is repeated computes nothing
        contract.run(frontier, config)
        yield config


def test_liars_of_a_panel_send_what_they_like_and_the_honest_are_scored(monkeypatch):
    """In place of the panel's classifier stands the truth, which is reported without noise and
    believed.
    """
    n = 200
    told = []
    y = np.arange(n) % 2
    labels = np.where(np.arange(n) < 20, np.arange(n) % 2, -1)
    alphabets = PersonalAlphabets.of(poisoning.EXACT, np.full((n, 2), 0.5))
    classifier = DeviceClassifier(jnp.eye(2), jnp.zeros(2), jnp.zeros((20, 2)), 1.0)
    question = ClassQuestion(classifier, alphabets, labels < 0, poisoning.EXACT)
    rows = DenseRows(np.eye(2, dtype=np.float32)[y])
    asked = SimpleNamespace(labels=labels, facts=None, rows=rows, data=SimpleNamespace(y=y))

    @dataclasses.dataclass
    class Server:
        facts: None
        epsilon: float
        guarded: bool

        def statement(self):
            return Statement.of([question.cost()])

        def init(self, key):
            return ClassesAsked(question, key)

        def step(self, state, answers):
            classes = np.where(answers.reported, alphabets.classes(answers.values), y)
            told.append((classes, self.guarded))
            return SimpleNamespace(classes=classes)

    monkeypatch.setattr(poisoning.features, "draw", lambda *_: asked)
    monkeypatch.setattr(poisoning, "ReportServer", Server)
    keys = lambda: poisoning.Keys(*jax.random.split(jax.random.key(0), 4))
    liars = choose_liars(keys().liars, n, SHARE, labels < 0)
    monkeypatch.setattr(poisoning.friendships, "load", lambda _: SimpleNamespace(num_nodes=n))
    settings = poisoning.Settings("g", "", False)
    for lie, defence in ((NONE, UNGUARDED), (CLASSES, AS_IT_IS), (WORST, AS_IT_IS)):
        of = {
            "task": "panel",
            "mechanism": defence,
            "epsilon": math.inf,
            "epsilon_proved": math.inf,
        }
        cell = poisoning.Cell(**CELL | of, setting="0.1", lie=lie, share=SHARE)
        assert TASKS["panel"].answer(cell, settings, keys(), liars)[0](~liars) == {"accuracy": 1.0}
        chosen = poisoning.liars_of(cell, settings)
        assert (chosen.sum(), chosen[labels >= 0].any()) == (liars.sum(), False)
        sent, guarded = told[-1]
        assert guarded == (defence != UNGUARDED)
        wrong = sent != y
        assert not wrong[~liars].any()
        assert wrong.any() == (lie != NONE)
        assert wrong[liars].all() or lie != CLASSES


def test_each_lie_is_there_once_beside_the_same_without_privacy(ran):
    assert tuple(TASKS) == POISONED
    rows = poisoning.results_in(ran.out).read()
    names = ["task", "mechanism", "epsilon", "lie", "share", "metric"]
    assert not rows.duplicated(names).any()
    by = rows.set_index(names).value
    tasks = {name: TASKS[name] for name in ASKED}
    judged = rows[(rows.metric == rows.task.map(lambda name: tasks[name].metric))]
    shares = judged[judged.mechanism == AS_IT_IS].groupby(["task", "epsilon", "lie"]).share.agg(set)
    for name, epsilon in itertools.product(tasks, (1.0, math.inf)):
        found = shares[name, epsilon]
        assert {*found.index} == {NONE, *tasks[name].lies}
        assert found[WORST] == {SHARE}
        assert found[NONE] == {0.0, SHARE}
    # Without privacy nobody is off but by lies; the check of both ends is for nothing there.
    assert by["degree", AS_IT_IS, math.inf, NONE, 0.0, "relative error"] == 0.0
    assert by["lists", AS_IT_IS, math.inf, NONE, 0.0, "relative error"] == 0.0
    assert by["lists", CHECKED, math.inf, WORST, SHARE, "relative error"] == 0.0
    assert by["lists", AS_IT_IS, math.inf, WORST, SHARE, "relative error"] > 0.4
    assert by["degree", TRIMMED, 1.0, WORST, SHARE, "relative error"] < 0.1
    manifest = poisoning.results_in(ran.out).describe()
    assert "epsilon 1 per neighbour-list" in manifest["guarantees"]["mine: counts, epsilon 1"]


def test_lies_are_asked_at_all_shares_of_the_worst_and_whole_tasks_at_all_budgets():
    quick, slow = (
        set(poisoning.variants(TASKS[name], (0.5, 1.0))) for name in ("degree", "counts")
    )
    worst = {share for *_, lie, share in slow if lie == WORST}
    assert worst == {share for *_, lie, share in quick if lie == WORST} == set(poisoning.SHARES)
    lies = {(NONE, 0.0), (poisoning.RANDOM, SHARE), (poisoning.FRIENDS, SHARE)}
    lies |= {
        (lie, share) for lie in (NONE, WORST) for share in poisoning.SHARES
    }  # beside the same honest users
    budgets = (0.5, 1.0, math.inf)
    assert quick == {(who, e, *lie) for who in (AS_IT_IS, TRIMMED) for e in budgets for lie in lies}
    few = {(NONE, 0.0), (NONE, SHARE), (WORST, SHARE), (poisoning.RESPONSE, SHARE)}
    assert {each[2:] for each in slow if each[1] == 0.5} == few
    assert {each[1] for each in slow if each[0] == TRIMMED} == {1.0}
