"""What a device reports once, may spend and remembers: of records by tables, and of lists by
questions.
"""

import contextlib
import dataclasses
import json
import math
import os
import threading
from fractions import Fraction
from hashlib import blake2b
from unittest import mock

import numpy as np
import pytest

from ldp_jax import deployment
from ldp_jax.accounting.composition import over_rounds
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, Budget
from ldp_jax.accounting.ledger import Ledger
from ldp_jax.core.integer_tables import Table
from ldp_jax.core.rounding import log_up
from ldp_jax.core.whole_noise import whole_noise
from ldp_jax.deployment import BudgetError, ReplayError, Session, alphabet_table
from ldp_jax.deployment import question as questions
from tests.deployment.vectors import (
    ASKED,
    BINS,
    GRID,
    GROUPS,
    LOG3,
    MINE,
    SECRET,
    device,
    list_session,
    session,
)  # fmt: skip


class Untouched:
    """A record that nobody may look at; as a vector, one of ``size`` numbers."""

    def __init__(self, size=1):
        self.size = size

    def __len__(self):
        return self.size

    def __getattr__(self, name):
        raise AssertionError(f"the record was touched: {name}")

    __getitem__ = __float__ = __array__ = __index__ = __iter__ = __bool__ = __contains__ = (
        lambda *_, **__: pytest.fail("touched")
    )


@dataclasses.dataclass(frozen=True)
class Records:
    """Reports of numbers: the n-th release is of round n."""

    start = b"ldp-session 2\n"
    loss = GRID.epsilon
    record = -1.0
    others = (1.0, -1.0, math.nan)
    session = staticmethod(session)

    def report(self, held, record, n=0, user=1):
        return held.report(GRID, record, user=user, round=n)

    def resend(self, held, n=0, user=1):
        return held.resend(GRID, user=user, round=n)


@dataclasses.dataclass(frozen=True)
class Lists:
    """Reports of neighbours: the n-th release is of another question."""

    start = b"ldp-lists 1\n"
    loss = ASKED.guarantee().epsilon
    record = MINE
    others = (MINE, [], [3])
    session = staticmethod(list_session)

    def report(self, held, record, n=0, user=1):
        return held.report_neighbours(dataclasses.replace(ASKED, round=n), record, user=user)

    def resend(self, held, n=0, user=1):
        return held.resend(dataclasses.replace(ASKED, round=n), user=user)


every_kind = pytest.mark.parametrize("kind", [Records(), Lists()], ids=["records", "lists"])


def kept(kind):
    """A session with two releases, under two pseudonyms."""
    held = kind.session(budget=8.0)
    kind.report(held, kind.record)
    kind.report(held, kind.record, n=1, user=11)
    return held


@every_kind
def test_a_second_record_is_refused_and_a_retry_gives_the_same_bytes(kind):
    held = kind.session()
    sent = kind.report(held, kind.record)
    before = held.to_bytes()
    messages = set()
    for other in kind.others:  # the same record too: what is raised must not say which
        with pytest.raises(ReplayError) as error:
            kind.report(held, other)
        messages.add(str(error.value))
    assert len(messages) == 1
    assert held.to_bytes() == before
    assert kind.resend(held) == sent
    with pytest.raises(ValueError, match="nothing to resend for user 2, round 0"):
        kind.resend(held, user=2)
    for n, user in ((1, 1), (0, 2)):
        kind.report(held, kind.record, n=n, user=user)
    assert held.counter == 3
    assert held.spent().epsilon == pytest.approx(3 * kind.loss)
    assert held.spent(2).epsilon == kind.loss
    assert "releases: 3" in str(held.spent())


def test_every_changed_question_is_a_release_of_its_own():
    lists = list_session()
    moved = np.where(np.arange(12) == 9, 1, GROUPS)
    for changes in ({}, {"round": 4}, {"epsilon": 1.5}, {"most": 21}, {"groups": moved}):
        lists.report_neighbours(dataclasses.replace(ASKED, **changes), MINE, user=0)
    assert lists.counter == 5


def test_vectors_are_released_whole_or_not_at_all():
    held = session()
    held.report(GRID, 0.5, user=1, round=0, field=2)
    sent = held.report_many(GRID, np.zeros(4), user=1, round=1)
    small = session(budget=3.5)  # three times log 3
    before = held.to_bytes()
    for of, error, round in (
        (held, ReplayError, 0),
        (held, ReplayError, 1),
        (small, BudgetError, 0),
    ):
        with pytest.raises(error):
            of.report_sampled(GRID, np.zeros(4), 4, user=1, round=round)
        with pytest.raises(error):
            of.report_many(GRID, np.zeros(4), user=1, round=round)
    with pytest.raises(ReplayError):  # other coordinates of a vector that was reported
        held.report_sampled(GRID, np.zeros(99), 1, user=1, round=1)
    assert held.to_bytes() == before
    assert held.resend(GRID, user=1, round=1) == sent
    assert held.resend(GRID, user=1, round=1, field=3) == sent[-36:]
    assert small.counter == 0
    small.report_many(GRID, np.zeros(3), user=1, round=0)


def test_an_error_while_reporting_spends_nothing(monkeypatch):
    held = session()
    with monkeypatch.context() as patch:
        patch.setattr(Table, "report", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            held.report(GRID, 0.5, user=1, round=0)
    assert held.spent(1).epsilon == 0
    assert held.report(GRID, 0.5, user=1, round=0) == session().report(GRID, 0.5, user=1, round=0)


@every_kind
def test_a_report_that_is_interrupted_is_not_kept_unpaid(kind, monkeypatch):
    """It was kept before it was paid for: its bytes could be sent, and the budget was spent once
    more.
    """
    held = kind.session()
    with monkeypatch.context() as patch:
        patch.setattr(Session, "_pay", mock.Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            kind.report(held, kind.record)
    with pytest.raises(ValueError, match="nothing to resend"):
        kind.resend(held)


@every_kind
@pytest.mark.usefixtures("untyped")
def test_a_fork_of_the_process_reports_nothing(kind, monkeypatch):
    """It has the whole budget once more, and the same words for other records."""
    held = kind.session()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(TypeError, match="neither pickled nor copied"):
        kind.report(held, Untouched())
    kind.report(Session.from_bytes(device(), held.to_bytes()), kind.record)


@pytest.mark.parametrize(
    ("budget", "rounds", "same_user", "sent"),
    [(1e9, 100, True, 100), (50.5 * GRID.epsilon, 50, False, 50)],
)
def test_threads_cannot_report_one_field_twice_nor_exceed_the_budget(
    budget, rounds, same_user, sent
):
    held = session(budget=budget)
    refused = []

    def work(user):
        for round in range(rounds):
            try:
                held.report(GRID, float(user - 1), user=1 if same_user else user, round=round)
            except (ReplayError, BudgetError) as error:
                refused.append(error)

    threads = [threading.Thread(target=work, args=(user,)) for user in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (held.counter, len(refused)) == (sent, 3 * rounds - sent)


def test_a_permanent_answer_is_the_first_one_and_costs_once():
    table = alphabet_table(1.0, 4, 4)
    rounds = range(5, 11)
    firsts = set()
    for user in range(20):
        held = Session(device(), budget=1.0)
        sent = [held.report_permanently(table, (user + t) % 4, user=user, round=t) for t in rounds]
        # No two of them are taken for one report that was sent twice.
        found = deployment.decode(b"".join(sent), table)
        assert found.round.tolist() == list(rounds)
        assert len(set(found.output.tolist())) == held.counter == 1
        fresh = Session(device(), budget=1.0)
        data = fresh.report_permanently(table, (user + 5) % 4, user=user, round=99)
        assert deployment.decode(data, table).output[0] == found.output[0]
        firsts.add(int(found.output[0]))
    assert len(firsts) > 1
    said = over_rounds(deployment.guarantee(table), len(rounds), answers="permanent")
    assert held.spent().epsilon == said.epsilon <= 1.0
    assert Ledger(Budget(1.0)).spend("kept", said).spent(said.unit).epsilon == said.epsilon


def test_a_permanent_answer_outlives_the_session_and_fields_have_their_own():
    table = alphabet_table(1.0, 4, 4)
    held = Session(device(), budget=2.0)
    one = held.report_permanently(table, 2, user=1, round=0)
    again = Session.from_bytes(device(), held.to_bytes(), at_least=held.counter)
    again.report_permanently(table, 0, user=1, round=1, field=1)
    with pytest.raises(BudgetError):
        again.report_permanently(table, 0, user=1, round=1, field=2)
    assert again.counter == 2
    assert again.report_permanently(table, 3, user=1, round=0) == one


def claims(table, name="epsilon 0.001, proved"):
    """The same masses under another name."""
    return dataclasses.replace(table, name=name)


@pytest.mark.usefixtures("untyped")
def test_a_table_that_loses_more_than_the_device_accepts_is_refused_whatever_it_is_called():
    """It loses log 8 where 2 is accepted, whatever its name says; no record is looked at."""
    held = session(budget=2.0)
    where = {"user": 1, "round": 0}
    for table in (BINS, claims(BINS), deployment.Table.from_bytes(claims(BINS).to_bytes())):
        for report, given in (
            (held.report, (Untouched(),)),
            (held.report_many, (Untouched(),)),
            (held.report_sampled, (Untouched(3), 1)),
        ):
            with pytest.raises(BudgetError, match="loses epsilon 2.0794"):
                report(table, *given, **where)
    assert held.spent().epsilon == 0.0
    assert len(held.report(GRID, 0.3, **where)) == 36  # log 3 fits


@pytest.mark.usefixtures("untyped")
def test_the_loss_is_computed_from_the_masses_and_not_from_what_is_stored():
    class Lies(Table):
        epsilon = 0.001
        loss = Fraction(1)
        digest = bytes(range(32))
        thresholds = property(lambda self: np.zeros((4, 3), np.uint32))

        def report(self, x, word, rounding=None):
            return np.full(len(x), 3)

    cached = claims(BINS)
    vars(cached)["loss"] = Fraction(1)  # what a cached property keeps
    for liar in (Lies(BINS.name, BINS.masses, BINS.values, BINS.encoding), cached):
        with pytest.raises(BudgetError, match="2.0794"):
            session(budget=2.0).report(liar, 0.3, user=1, round=0)
        assert deployment.guarantee(liar).epsilon == BINS.epsilon
        held = session()
        honest = session()
        sent = held.report_many(liar, [0.3, 0.4, 0.1], user=1, round=0)
        named = cached if liar is cached else BINS
        assert sent == honest.report_many(named, [0.3, 0.4, 0.1], user=1, round=0)
        assert held.spent() == honest.spent()
        with pytest.raises(ReplayError):  # another digest is no way round
            held.report(named, 0.3, user=1, round=0)


@pytest.mark.usefixtures("untyped")
def test_a_false_digest_has_no_say_in_the_reports_of_the_true_table():
    honest = claims(GRID, "whose digest another one says it has")
    liar = claims(BINS)
    vars(liar)["digest"] = honest.digest
    assert deployment.guarantee(liar).epsilon == BINS.epsilon
    assert deployment.guarantee(honest).epsilon == GRID.epsilon
    assert (
        len(deployment.decode(session().report(honest, 0.3, user=1, round=0), honest).output) == 1
    )


@pytest.mark.usefixtures("untyped")
def test_the_loss_of_counts_is_computed_from_the_integers_that_are_drawn_from(monkeypatch):
    class Talks(deployment.Question):
        noise = dataclasses.make_dataclass("Quiet", ["ratio"])(Fraction(1))

    quiet = Talks(3, GROUPS, 5, 0.001, 20)
    strong = whole_noise(3.0, 20)
    monkeypatch.setattr(
        questions, "whole_noise", lambda *_: dataclasses.replace(strong, epsilon=0.001)
    )
    asked = dataclasses.replace(ASKED, epsilon=0.001)
    for liar in (asked, quiet):
        with pytest.raises(BudgetError, match="loses epsilon"):
            list_session(budget=2.0).report_neighbours(liar, Untouched(), user=0)
    held = list_session(budget=3.0)
    held.report_neighbours(asked, MINE, user=0)
    assert held.spent().epsilon == strong.loss


@every_kind
@pytest.mark.parametrize("times", [1, 10])
@pytest.mark.usefixtures("untyped")
def test_a_budget_is_met_to_the_last_bit_and_refusals_come_before_the_record(kind, times):
    """Ten times 0.1 in floats is less than ten times the float 0.1: sums are of fractions."""
    exact = times * Fraction(kind.loss)
    enough = float(exact)
    if Fraction(enough) < exact:
        enough = math.nextafter(enough, math.inf)
    for budget, fits in ((enough, times), (math.nextafter(enough, 0), times - 1)):
        held = kind.session(budget=budget)
        for n in range(fits):
            kind.report(held, kind.record, n=n)
        assert held.remaining >= 0
        assert (held.spent().epsilon == budget) == (fits == times)
        for user in (1, 5):  # nor under another name
            with pytest.raises(BudgetError, match="do not fit"):
                kind.report(held, Untouched(), n=times, user=user)
        assert held.counter == fits


def some_table(rng):
    """A table of one or two inputs and outputs more, with masses of no pattern."""
    inputs, outputs = rng.integers(2, 5, 2)
    masses = rng.integers(1, 2**30, (inputs, outputs)).astype(np.uint64)
    masses[:, -1] = 2**32 - masses[:, :-1].sum(1)
    return Table("drawn", masses.astype(np.uint32), np.zeros(outputs, np.float32), "category")


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.usefixtures("untyped")
def test_what_is_spent_and_what_remains_are_at_most_the_budget_after_any_kills(seed):
    """Drawn tables, budgets, reports and kills, in fractions; sessions go on from what was stored.

    What fits is sent, what does not is refused, and neither number is off by more than a rounding.
    """
    rng = np.random.default_rng(seed)
    tables = [some_table(rng) for _ in range(3)]
    losses = [Fraction(log_up(table.loss)) for table in tables]
    budget = float(rng.uniform(2, 40) * min(losses))
    held = Session(device(), budget=budget)
    saved = (held.to_bytes(), Fraction(0), set())
    spent = Fraction(0)
    sent = set()
    for _ in range(60):
        which, user, round, many = (int(rng.integers(most)) for most in (3, 3, 4, 3))
        where = {"user": user, "round": round}
        fields = range(many + 1)
        cost = losses[which] * len(fields)
        names = {(which, user, round, field) for field in fields}
        expected = contextlib.nullcontext()
        if spent + cost > Fraction(budget):
            expected = pytest.raises(BudgetError)
        if names & sent:
            expected = pytest.raises(ReplayError)
        with expected:
            held.report_many(tables[which], np.zeros(len(fields)), **where)
            spent, sent = spent + cost, sent | names
        left = Fraction(budget) - spent
        assert Fraction(held.remaining) <= left < Fraction(math.nextafter(held.remaining, math.inf))
        assert (
            math.nextafter(held.spent().epsilon, 0) < spent <= Fraction(held.spent().epsilon)
            or not spent
        )
        assert held.spent().epsilon <= budget
        for who in range(3):
            own = sum((losses[of] for of, other, *_ in sent if other == who), Fraction(0))
            assert own <= Fraction(held.spent(who).epsilon) <= own * (1 + Fraction(1, 2**51))
        if rng.random() < 0.3:  # a kill: before the memory was stored nothing was sent
            saved = (held.to_bytes(), spent, sent) if rng.random() < 0.6 else saved
            data, spent, sent = saved
            held = Session.from_bytes(device(), data)
    assert len(sent) > 1


@pytest.mark.parametrize(
    "budget", [2, np.float32(2), np.int64(2), Budget(2.0), Budget(2.0, unit=NEIGHBOUR_LIST)]
)
def test_a_budget_is_of_records_or_of_lists(budget, untyped):
    assert session(budget=budget).budget == 2.0


def test_the_guarantee_is_the_tables_and_never_rounds_down():
    one = deployment.guarantee(GRID)
    assert one.epsilon == GRID.epsilon <= LOG3
    assert (one.delta, one.arithmetic, one.status) == (0.0, "exact", "proved")
    assert one.adjacency == "any two records of one user"
    for k in (2, 7, 12345):
        exact = k * Fraction(BINS.epsilon)
        total = deployment.guarantee(BINS, k)
        assert total.adjacency == f"{one.adjacency}, {k} fields of each reported"
        above = Fraction(total.epsilon)
        assert exact <= above <= math.nextafter(exact, math.inf)
    held = session()
    held.report_many(BINS, np.zeros(7), user=1, round=0)
    held.report_sampled(BINS, np.zeros(7), 3, user=1, round=1)
    assert held.spent(1).epsilon == deployment.guarantee(BINS, 10).epsilon
    for who, whose in ((1, "one user"), (None, "one device")):
        assert held.spent(who).adjacency == f"any two histories of {whose}; releases: 10"


@every_kind
def test_a_session_goes_on_from_its_memory(kind):
    held = kept(kind)
    again = Session.from_bytes(device(), held.to_bytes(), at_least=2)
    assert (again.to_bytes(), again.counter, again.spent()) == (held.to_bytes(), 2, held.spent())
    with pytest.raises(ReplayError):
        kind.report(again, kind.record)
    keyed = Session.from_bytes(device(), held.to_bytes(), key=device().shared_key)
    assert kind.resend(keyed)[:-8] == kind.resend(held)[:-8]
    assert kind.resend(keyed) != kind.resend(held)


def written(kind, body, of=None):
    """Memory with a right tag, whatever it says: the layout of the module's docstring, written
    twice.
    """
    of = of or device()
    head = kind.start + of.name.encode() + b"\n"
    key = blake2b(b"ldp_jax 2 memory", key=of.secret).digest()[:32]
    return head + blake2b(head + body, key=key, digest_size=32).hexdigest().encode() + b"\n" + body


def refused(data, of=None, match="no session's memory", **changes):
    with pytest.raises(ValueError, match=match):
        Session.from_bytes(of or device(), data, **changes)


@every_kind
def test_damaged_joined_edited_and_foreign_memory_is_refused(kind):
    """One bit in the digits of a release would forget it."""
    data = kept(kind).to_bytes()
    for at in range(0, len(data), 11):
        for part in (
            data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :],
            data[:at],
            data[:at] + data[at + 1 :],
        ):
            refused(part)
    for more in (b"\n", b" ", data):
        refused(data + more)
    other = deployment.Device.from_secret(SECRET[::-1])
    assert data.count(b'"budget":8.0') == 1
    refused(
        data.replace(b'"budget":8.0', b'"budget":9.0'),
        match="damaged or edited",
    )
    refused(data, other, match="another device's")
    refused(
        data.replace(device().name.encode(), other.name.encode()), other, match="damaged or edited"
    )
    tag = len(kind.start) + 17
    for forged in (b"0" * 64, data[tag : tag + 64].upper()):
        refused(data[:tag] + forged + data[tag + 64 :], match="damaged or edited")
    refused(data.replace(kind.start, (Lists if kind == Records() else Records).start))


@every_kind
@pytest.mark.usefixtures("untyped")
def test_memory_that_was_rolled_back_is_found_by_its_counter(kind):
    old = kind.session(budget=8.0).to_bytes()
    newer = kept(kind).to_bytes()
    for at_least in (0, 1, 2):
        assert Session.from_bytes(device(), newer, at_least=at_least).counter == 2
    refused(old, match="rolled back", at_least=2)
    refused(newer, match="rolled back", at_least=3)
    # What cannot be found, as the documentation says: a whole older copy, where no counter is kept.
    assert Session.from_bytes(device(), old).remaining == 8.0


@every_kind
def test_memory_of_every_other_form_is_a_value_error(kind):
    """Somebody with the secret wrote it: no number and no nesting ends in another exception."""
    text = kept(kind).to_bytes().split(b"\n")[3]
    assert Session.from_bytes(device(), written(kind, text)).counter == 2
    good = json.loads(text)
    digest, high, low = good["losses"][0]
    _, user, round, *row = good["released"][0]
    changes = [{"budget": budget} for budget in (0, math.nan, 10**400, None, "8", 8)]
    losses = [{}, None, [1], [[digest]], [], 2 * good["losses"], [[1, high, low]]]
    losses += [[[digest, *pair]] for pair in ((low, high), (1, 0), (1.0, 1), (10**400, 1), (4, 2))]
    changes += [{"losses": given} for given in losses]
    whose = [(-1, round), (2**64, round), (user, 2**32)]
    released = [2 * good["released"], [["00" * 32, user, round, *row]], [[digest, user, round]]]
    released += [[[digest, *who, *row]] for who in whose]
    changes += [{"released": given} for given in released] + [{"more": 1}]
    changed = [good | change for change in changes]
    changed += [{n: v for n, v in good.items() if n != name} for name in good]
    bodies = [json.dumps(form, separators=(",", ":")).encode() for form in changed]
    bodies += [json.dumps(good).encode(), b"", b"{}", b"[]", b"null", b"\xff", b"9" * 10_000]
    bodies += [b"[" * 100_000, b'{"budget":' * 50_000]
    rest = b',"losses":[],"released":[]}'
    for budget in (b'"budget":1e999', b'"budget":8.00', b'"budget":8.0,"budget":8.0'):
        bodies.append(b"{" + budget + rest)
    for body in bodies:
        refused(written(kind, body))


@pytest.mark.parametrize("seed", range(4))
def test_fields_are_sent_again_in_ascending_order_whatever_order_they_were_reported_in(seed):
    """By the session itself, and by one that goes on from its memory."""
    fields = np.random.default_rng(seed).permutation(8)[:5].tolist()
    held = session(budget=50.0)
    sent = {field: held.report(GRID, 0.5, user=3, round=2, field=field) for field in fields}
    wanted = b"".join(sent[field] for field in sorted(fields))
    assert held.resend(GRID, user=3, round=2) == wanted
    again = Session.from_bytes(held.device, held.to_bytes())
    assert again.resend(GRID, user=3, round=2) == wanted
    assert deployment.decode(wanted, GRID).field.tolist() == sorted(fields)
