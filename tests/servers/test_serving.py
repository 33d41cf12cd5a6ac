"""Servers of real devices: what is killed goes on, nobody is asked twice, and latecomers are
read.
"""

import dataclasses
import os
import sqlite3
from typing import Any

import jax
import numpy as np
import pytest

from ldp_jax.accounting.guarantee import LABEL, NEIGHBOUR_LIST, RELATIONSHIP, Budget
from ldp_jax.accounting.ledger import BudgetExceededError
from ldp_jax.core.ownership import ownership
from ldp_jax.deployment import Device, Session
from ldp_jax.deployment.store import ReportStore
from ldp_jax.features import GeneralizedRR, Laplace
from ldp_jax.servers import Ask, CountQuestion, Released, Share, StoredUsers, Users, serve, simulate
from ldp_jax.servers.saved import to_bytes
from tests.servers.example_protocol import CLASSES, Classes, ClassesThenCounts, Counts

N = 24
EPSILON = 2.0
LABELS = np.arange(N) % CLASSES
FRIENDS = [np.flatnonzero(LABELS[user] == LABELS).tolist() for user in range(N)]
OWNERS = ownership(np.arange(N) % 5)


TYPES = (Classes, Counts)
SERVER = ClassesThenCounts(N, EPSILON, OWNERS)


class Devices:
    """Real sessions, which report once: a question that is put to one of them twice in other words
    is an error.
    """

    def __init__(self):
        self.told = {}

    def send(self, service, who=range(N)):
        """Reports of some users who are asked, to the service's store; how many were new."""
        (form,) = service.question.forms()
        sent = []
        for user in who:
            if not service.asked[user]:
                continue
            before = self.told.setdefault(user, (form.digest, service.round))
            assert before == (form.digest, service.round), "one user, two questions"
            device = Device.from_secret(np.random.default_rng(user).bytes(32))
            if isinstance(service.question, CountQuestion):
                session = Session(device, budget=Budget(EPSILON, unit=NEIGHBOUR_LIST))
                sent.append(session.report_neighbours(form, FRIENDS[user], user=user))
            else:
                session = Session(device, budget=EPSILON)
                sent.append(session.report(form, int(LABELS[user]), user=user, round=service.round))
        return service.store.add(b"".join(sent), form).accepted


def start(folder, server=SERVER, **more):
    return serve(server, ReportStore(folder), users=N, types=TYPES, **more)


def finished(folder, devices, **more):
    """Serve to the end, from wherever the folder is."""
    service = start(folder, **more)
    while service.released is None:
        devices.send(service)
        service.close_round()
    return service


def test_what_is_served_is_what_is_simulated_of_the_same_reports(tmp_path):
    service = finished(tmp_path, Devices(), key=jax.random.key(3))
    found = service.released
    again = simulate(jax.random.key(3), SERVER, StoredUsers(service.store, N))
    np.testing.assert_array_equal(found.value, again.value)
    assert found.rounds == again.rounds
    assert [one.reported for one in found.rounds] == [N // 3, N - N // 3]
    assert (found.value == LABELS).mean() > 0.5
    assert dict(found.guarantee) == dict(again.guarantee)
    assert found.realised == again.realised
    assert (
        found.guarantee[RELATIONSHIP].epsilon <= EPSILON
    )  # each pair has one owner, and the bytes say who
    assert (
        service.question.shipped().relationship().epsilon == found.guarantee[RELATIONSHIP].epsilon
    )
    assert "who reported" in found.guarantee.unprotected
    assert service.store.ledger().spent(LABEL).epsilon == found.guarantee[LABEL].epsilon
    read = Released.from_bytes(found.to_bytes(), TYPES)
    assert to_bytes(read) == found.to_bytes()
    assert (read.rounds, read.guarantee, read.versions) == (
        found.rounds,
        found.guarantee,
        found.versions,
    )


class Killed(BaseException):
    """Nothing after it is run, as of a process that is gone."""


class Database(sqlite3.Connection):
    at = None

    def execute(self, sql, *given):
        if sql == "COMMIT":
            Database.at("before it counts")
        found = super().execute(sql, *given)
        if sql == "COMMIT":
            Database.at("before it is told")
        return found


@pytest.fixture
def killed_at(monkeypatch):
    """Counts the durable steps of a service, and ends at one of them; those of uploads are
    test_store's.
    """
    seen: list[Any] = []
    last = []
    depth = []

    def at(what):
        if not depth:
            return
        seen.append(what)
        if last and len(seen) == last[0]:
            raise Killed(what)

    def begin(number=None):
        seen.clear()
        last[:] = [] if number is None else [number]
        return seen

    def inside(method):
        def call(*given, **named):
            depth.append(method)
            try:
                return method(*given, **named)
            finally:
                depth.pop()

        return call

    for name in ("keep", "spend"):
        monkeypatch.setattr(ReportStore, name, inside(getattr(ReportStore, name)))
    connect, fsync = sqlite3.connect, os.fsync
    Database.at = staticmethod(at)
    monkeypatch.setattr(
        sqlite3, "connect", lambda *given, **named: connect(*given, factory=Database, **named)
    )
    monkeypatch.setattr(os, "fsync", lambda file: (at("a sync"), fsync(file)))
    return begin


def test_a_kill_at_each_durable_step_asks_nobody_twice_and_loses_nothing(tmp_path, killed_at):
    """Whatever the first process drew, nobody has seen what is not committed; keys are the
    system's.
    """
    seen = killed_at()
    finished(tmp_path / "whole", Devices())
    steps = len(seen)
    assert steps == 20  # of a ledger, and of three steps that are written and read
    for number in range(1, steps + 1):
        folder = tmp_path / str(number)
        devices = Devices()
        killed_at(number)
        with pytest.raises(Killed):
            finished(folder, devices)
        killed_at()
        found = finished(folder, devices).released
        assert [one.reported for one in found.rounds] == [N // 3, N - N // 3], number
        assert len(found.value) == N
        store = ReportStore(folder)
        assert store.kept()[0] == 2
        assert len(store.ledger().releases) == 1
        assert (
            len(list(folder.glob("*.step*"))) <= 4
        )  # three that count, and one that the last kill left
        store.keep(0, b"")
        assert len(list(folder.glob("*.step*"))) == 3


def test_two_processes_do_nothing_twice(tmp_path, monkeypatch):
    """Each draws a key of its own; the second to come takes what the first has committed, and reads
    no report.
    """
    one = start(tmp_path)
    two = start(tmp_path)
    devices = Devices()
    assert one.question == two.question
    devices.send(one, range(N // 2))
    assert one.close_round() is None
    devices.send(two, range(N // 2, N))  # who has not heard of it; too late
    with monkeypatch.context() as nothing:
        nothing.setattr(
            ClassesThenCounts, "step", lambda *_: pytest.fail("a round was closed twice")
        )
        assert two.close_round() is None
    assert two.question == one.question
    assert (one.round, two.round, one.store.kept()[0]) == (1, 1, 1)

    devices.send(one, range(N // 2))
    keep = ReportStore.keep

    def first(store, number, data):
        monkeypatch.setattr(ReportStore, "keep", keep)
        one.close_round()  # while the other one computes
        devices.send(one)
        return keep(store, number, data)

    monkeypatch.setattr(ReportStore, "keep", first)
    found = two.close_round()
    assert found.to_bytes() == one.released.to_bytes()
    assert two.store.kept()[0] == 2
    for service in (one, two):
        with pytest.raises(ValueError, match="every round is closed"):
            service.close_round()
    assert start(tmp_path).released.to_bytes() == found.to_bytes()


def test_latecomers_are_read_and_cost_no_more_than_was_stated(tmp_path):
    service = start(tmp_path, key=jax.random.key(3))
    with pytest.raises(ValueError, match="there is no result yet"):
        service.again()
    devices = Devices()
    first = service.question
    early = np.flatnonzero(service.asked)
    devices.send(service, early[1:])
    service.close_round()
    late = np.flatnonzero(service.asked)[:5]
    devices.send(service, np.setdiff1d(np.arange(N), late))
    before = service.close_round()
    assert [one.reported for one in before.rounds] == [N // 3 - 1, N - N // 3 - 5]
    assert service.again() is before
    assert service.store.kept()[0] == 2  # nothing new, nothing written

    (form,) = first.forms()  # an answer to a question that is closed is kept, and not read
    session = Session(Device.new(), budget=EPSILON)
    user = int(early[0])
    service.store.add(session.report(form, 0, user=user, round=0), form)
    assert service.again() is before

    other = start(tmp_path)
    assert devices.send(other, late) == 5
    found = other.again()
    assert [one.reported for one in found.rounds] == [N // 3 - 1, N - N // 3]
    assert found.guarantee == before.guarantee
    assert found.realised == before.realised  # they were charged when the question was opened
    everybody = simulate(jax.random.key(3), SERVER, Late(other.store, user))
    np.testing.assert_array_equal(found.value, everybody.value)
    assert service.again().to_bytes() == found.to_bytes()
    assert service.store.kept()[0] == 3


def test_what_users_took_part_in_before_is_charged_and_known_after_a_restart(tmp_path):
    """The total is that of ``simulate``, fits the budget or is refused, and stays the same."""
    earlier = simulate(jax.random.key(0), Share(GeneralizedRR(0.5, 3), N), Users(labels=LABELS))
    history = earlier.statement
    enough = [Budget(2.6), Budget(2.6, unit=LABEL), Budget(2.6, unit=NEIGHBOUR_LIST)]
    enough.append(Budget(4.1, unit=RELATIONSHIP))
    few = [Budget(2.4, unit=one.unit) if one.unit == LABEL else one for one in enough]
    with pytest.raises(BudgetExceededError):
        start(tmp_path, history=history, budget=few)
    assert ReportStore(tmp_path).kept() is None
    start(tmp_path, history=history, budget=enough, key=jax.random.key(3))
    for other in (None, history.after(history)):
        with pytest.raises(ValueError, match="facts, options and history"):
            start(tmp_path, history=other)
    read = Released.from_bytes(earlier.to_bytes()).statement
    service = finished(tmp_path, Devices(), history=read)
    found = service.released
    users = StoredUsers(service.store, N)
    again = simulate(jax.random.key(3), SERVER, users, history=history)
    assert dict(found.guarantee) == dict(again.guarantee)
    assert found.guarantee[LABEL].epsilon == pytest.approx(EPSILON + 0.5, rel=1e-6)
    assert service.store.ledger().spent(LABEL).epsilon == found.guarantee[LABEL].epsilon
    assert start(tmp_path, history=history).released.to_bytes() == found.to_bytes()


class Late(StoredUsers):
    """The same without the report of one user to the first question."""

    def __init__(self, store, user):
        super().__init__(store, N)
        object.__setattr__(self, "user", user)

    def answer(self, key, question):
        found = super().answer(key, question)
        if isinstance(question, CountQuestion):
            return found
        reported = found.reported & (np.arange(N) != self.user)
        return found._replace(reported=reported, values=np.where(reported, found.values, 0))


@dataclasses.dataclass(frozen=True)
class OfNumbers(Share):
    """Asks by noise that no table has."""

    def _question(self):
        return Ask(Laplace(1.0), np.ones(N, bool))


class CountsAlone(ClassesThenCounts):
    """Asks for counts at once, whose users must be numbered as nodes."""

    def init(self, key):
        return Counts(self.counted(np.zeros(N, int), np.ones(N, bool)), np.zeros(N, int))


@pytest.mark.usefixtures("untyped")
def test_what_cannot_be_served_is_refused_before_anybody_is_asked(tmp_path):
    with pytest.raises(BudgetExceededError):
        start(tmp_path, budget=Budget(0.5, unit=LABEL))
    store = ReportStore(tmp_path)
    assert store.kept() is None
    assert not store.ledger().releases
    service = start(tmp_path)
    with pytest.raises(ValueError, match="holds the steps of another server"):
        start(tmp_path, ClassesThenCounts(N, 1.0, OWNERS))
    assert len(store.ledger().releases) == 1
    assert start(tmp_path).question == service.question
    with pytest.raises(ValueError, match="which is not of this library: name it in types"):
        serve(SERVER, store, users=N)
    (path,) = tmp_path.glob("*.step")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(OSError, match="is not what was stored"):
        start(tmp_path)
    with pytest.raises(ValueError, match="number must be"):
        store.keep(2, b"")
    with pytest.raises(ValueError, match="devices report by tables of whole numbers"):
        start(tmp_path / "other", OfNumbers(GeneralizedRR(1.0, 2), N))
    with pytest.raises(ValueError, match="nodes must be 24"):
        serve(
            CountsAlone(N, EPSILON, OWNERS), ReportStore(tmp_path / "other"), users=np.arange(N) + 5
        )
    assert ReportStore(tmp_path / "other").kept() is None
    assert not ReportStore(tmp_path / "other").ledger().releases
    named = StoredUsers(store, np.arange(N) + 5)
    with pytest.raises(ValueError, match="nodes must be 24"):
        simulate(jax.random.key(0), SERVER, named)


@pytest.mark.usefixtures("untyped")
def test_bytes_of_something_else_are_no_result():
    found = simulate(jax.random.key(0), Share(GeneralizedRR(2.0, 3), N), Users(labels=LABELS))
    data = found.to_bytes()
    with pytest.raises(ValueError, match="of a dict, and of no released result"):
        Released.from_bytes(to_bytes({}))
    with pytest.raises(ValueError, match="checksum"):
        Released.from_bytes(data[:-9] + b"!" + data[-8:])
