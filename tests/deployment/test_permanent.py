"""Answers that a device keeps: the same output in every round, paid for once."""

import pytest

from ldp_jax.accounting.composition import over_rounds
from ldp_jax.accounting.guarantee import RECORD, Budget
from ldp_jax.accounting.ledger import BudgetExceededError, Ledger
from ldp_jax.deployment import BudgetError, Session, alphabet_table, decode, guarantee
from tests.deployment.vectors import device

TABLE = alphabet_table(1.0, 4, 4)
ROUNDS = 6


def outputs(sent):
    return [decode(one, TABLE).output.tolist()[0] for one in sent]


def test_a_kept_answer_costs_once_and_the_ledger_says_so():
    session = Session(device(), budget=1.0)
    sent = [session.report_permanently(TABLE, t % 4, user=3, round=t + 5) for t in range(ROUNDS)]
    assert len(set(outputs(sent))) == 1
    assert [decode(one, TABLE).round.tolist()[0] for one in sent] == list(range(5, 5 + ROUNDS))
    assert decode(b"".join(sent), TABLE).output.size == ROUNDS  # no two are taken for one report sent twice
    assert session.counter == 1
    kept = over_rounds(guarantee(TABLE), ROUNDS, answers="permanent")
    assert session.spent().epsilon == kept.epsilon <= 1.0
    ledger = Ledger(Budget(1.0)).spend("kept answers", kept, protects=["class"])
    assert ledger.spent(RECORD).epsilon == session.spent().epsilon

    fresh = Session(device(), budget=ROUNDS)
    for t in range(ROUNDS):
        fresh.report(TABLE, t % 4, user=3, round=t)
    said = over_rounds(guarantee(TABLE), ROUNDS, answers="fresh")
    assert fresh.spent().epsilon == pytest.approx(said.epsilon, rel=1e-12)
    assert fresh.spent().epsilon == Ledger(Budget(6.0)).spend("fresh answers", said).spent(RECORD).epsilon
    with pytest.raises(BudgetExceededError):
        Ledger(Budget(5.5)).spend("fresh answers", said)


def test_the_answer_is_the_first_one_s_whatever_becomes_of_the_datum():
    first = [outputs([Session(device(), budget=1.0).report_permanently(TABLE, x, user=u, round=0)])[0]
             for u in range(40) for x in (1,)]  # fmt: skip
    for u, once in enumerate(first):
        session = Session(device(), budget=1.0)
        assert (
            outputs(session.report_permanently(TABLE, x, user=u, round=t) for t, x in enumerate((1, 2, 3)))
            == [once] * 3
        )
    assert len(set(first)) > 1


def test_the_answer_outlives_the_session_and_fields_have_their_own():
    session = Session(device(), budget=2.0)
    one = session.report_permanently(TABLE, 2, user=1, round=0)
    again = Session.from_bytes(device(), session.to_bytes(), at_least=session.counter)
    assert again.report_permanently(TABLE, 0, user=1, round=0) == one
    again.report_permanently(TABLE, 0, user=1, round=1, field=1)
    assert again.counter == 2
    with pytest.raises(BudgetError):
        again.report_permanently(TABLE, 0, user=1, round=1, field=2)
    assert again.report_permanently(TABLE, 3, user=1, round=0) == one


@pytest.mark.usefixtures("untyped")
def test_nothing_is_spent_where_an_argument_is_wrong():
    session = Session(device(), budget=1.0)
    for changes, error in (({"round": -1}, ValueError), ({"user": 1.5}, ValueError), ({"x": "1"}, TypeError)):
        with pytest.raises(error):
            session.report_permanently(**{"table": TABLE, "x": 1, "user": 1, "round": 3, **changes})
    assert session.counter == 0
