"""What devices and collectors refuse: one table of calls and wrong values, by the name at fault."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest

from ldp_jax import deployment, features
from ldp_jax.accounting.guarantee import RELATIONSHIP, Budget, Guarantee
from ldp_jax.core.checksum import sealed
from ldp_jax.core.ownership import Ownership
from ldp_jax.deployment import Alphabet, Classifier, Pairs, Session, alphabet_table
from ldp_jax.deployment.codecs import REPORT
from ldp_jax.deployment.collector import TRIPLE
from ldp_jax.deployment.store import ReportStore
from tests.deployment.vectors import (
    ASKED,
    GRID,
    MINE,
    OWNED,
    RULE,
    SECRET,
    device,
    list_session,
    session,
)

HELD = session()
LISTS = list_session()
WHERE = {"user": 1, "round": 1}
TWO = np.ones(2)
NOT_WHOLE = [-1, 1.0, "1", None, True, np.float32(1), [1]]
SEEDS = [seed.to_bytes(32, order) for seed in (0, 123456789) for order in ("little", "big")]
GUESSED = [42, True, "a" * 32, bytearray(SECRET), b"", b"seed", SECRET[:31], SECRET + b"\0", *SEEDS]
NO_NUMBERS = [None, "0.5", 1j, b"1", [None], Fraction(1, 2), np.datetime64("2020-01-01")]
MEMORY = HELD.to_bytes()

REPORTS = [
    lambda where: HELD.report(GRID, 0.5, **where),
    lambda where: HELD.report_many(GRID, [0.5], **where),
    lambda where: HELD.report_sampled(GRID, [0.5], 1, **where),
    lambda where: HELD.report_permanently(GRID, 0.5, **where),
    lambda where: HELD.resend(GRID, **where),
]


def question(name):
    return lambda value: dataclasses.replace(ASKED, **{name: value})


STARS = deployment.Stars(0, 3, 1.0, 12, 3)
TRIANGLES = deployment.Triangles(
    0, 3, 1.0, np.zeros((12, 1), np.int32), np.ones(12, bool), 2**30, RULE
)


def triangles(name):
    return lambda value: dataclasses.replace(TRIANGLES, **{name: value})


def where(name, report):
    return lambda value: report(WHERE | {name: value})


REFUSED = [
    ("secret", deployment.Device, [None, *GUESSED]),
    ("key", lambda key: session(key=key), [*GUESSED, SECRET]),
    ("key", lambda key: Session.from_bytes(device(), MEMORY, key=key), [*GUESSED, SECRET]),
    ("key", lambda key: deployment.decode(b"", GRID, key=key), GUESSED),
    *[("user", where("user", report), [*NOT_WHOLE, 2**64]) for report in REPORTS],
    *[("round", where("round", report), [*NOT_WHOLE, 2**32]) for report in REPORTS[:4]],
    ("field", where("field", REPORTS[0]), [*NOT_WHOLE, 2**32]),
    ("k", lambda k: HELD.report_sampled(GRID, TWO, k, **WHERE), [0, 3, True, 1.0]),
    ("k", lambda k: deployment.guarantee(GRID, k), [0, True, None, 2**32]),
    ("xs", lambda xs: HELD.report_many(GRID, xs, **WHERE), [[], 0.5]),
    ("the record", lambda xs: HELD.report_many(GRID, xs, **WHERE), [[[0.5]]]),
    ("the record", lambda x: HELD.report(GRID, x, **WHERE), [TWO]),
    ("at_least", lambda n: Session.from_bytes(device(), MEMORY, at_least=n), [*NOT_WHOLE, 2**64]),
    ("budget", lambda budget: session(budget=budget),
     [0, -1.0, math.nan, math.inf, True, None, "1", 10**400, TWO, Guarantee(2.0),
      Budget(2.0, unit=RELATIONSHIP), Budget(2.0, delta=1e-6)]),
    ("a question needs a budget of neighbour-lists",
     lambda asked: HELD.report_neighbours(asked, MINE, user=0), [ASKED]),
    ("a table needs a budget of records", lambda table: LISTS.report(table, 0.1, **WHERE), [GRID]),
    ("user", lambda user: LISTS.report_neighbours(ASKED, MINE, user=user), [*NOT_WHOLE, 12]),
    ("user", lambda user: LISTS.resend(ASKED, user=user), [*NOT_WHOLE, 12]),
    ("user 1 is silent", lambda user: LISTS.report_neighbours(OWNED, MINE, user=user), [1]),
    ("user", lambda user: RULE.owned(user, MINE), [-1, 12]),
    ("round", lambda round: LISTS.resend(ASKED, user=0, round=round), [4]),
    ("field", lambda field: LISTS.resend(ASKED, user=0, field=field), [2]),
    ("round", question("round"), [-1, 2**32]),
    ("groups", question("num_groups"), [4]),
    ("num_groups", question("num_groups"), [0, 2**15]),
    ("groups", question("groups"), [[0, -2], [0.0], [True], [], [[0]]]),
    ("epsilon", question("epsilon"), [0.0, 41, math.nan, True]),
    ("most", question("most"), [0, 2**20 + 1]),
    ("owners", question("owners"),
     [np.arange(12), deployment.ownership(np.arange(11)),
      Ownership(np.full(12, np.nan), RULE.silent),
      Ownership(RULE.order, np.ones(12, bool)), Ownership(RULE.order, np.zeros(12, int))]),
    ("bound", lambda bound: dataclasses.replace(STARS, bound=bound), [2, 13, 3.0]),
    ("k", lambda k: dataclasses.replace(STARS, k=k), [1, True]),
    ("epsilon", lambda epsilon: dataclasses.replace(STARS, epsilon=epsilon), [0.0, 41, math.nan]),
    ("linked", triangles("linked"), [np.zeros((12, 2), np.int32), np.zeros((12, 1))]),
    ("known", triangles("known"), [np.ones(11, bool), np.ones(12)]),
    ("flips", triangles("flips"), [-1, 2**31 + 1]),
    ("owners", triangles("owners"), [None, deployment.ownership(np.arange(11))]),
    ("a damaged stars", deployment.Stars.from_bytes, [sealed(b"ldp-stars 1\n{}\n")]),
    ("log_counts", lambda flag: Classifier(np.eye(2), TWO, flag), ["no"]),
    ("weights", lambda weights: Classifier(weights, TWO),
     [np.ones((3, 3)), np.full((3, 2), np.nan), np.ones((0, 2)), TWO]),
    ("weights", lambda layer: Classifier(np.eye(2), TWO, layers=(layer,)),
     [(np.ones((3, 2)), TWO), (np.ones((2, 1)), np.ones(1))]),
    ("a damaged classifier", Classifier.from_bytes, [sealed(b"ldp-classifier 3\n{}\n")]),
    ("a damaged alphabet", Alphabet.from_bytes, [sealed(b"ldp-alphabet 2\n[]\n")]),
    ("members", lambda members: Alphabet(members, 1.0, alphabet_table(1.0, 2, 3)),
     [(0, 3), (1, 1), (0, 1, 2)]),
    ("table", lambda epsilon: Alphabet((0, 1), 1.0, alphabet_table(epsilon, 2, 3)), [2.0, 0.98]),
    ("seen", lambda seen: deployment.decode(b"", GRID, seen=seen),
     [np.zeros(3), np.zeros((2, 2), TRIPLE), np.zeros(3, REPORT)]),
    ("k", lambda k: deployment.vectors(deployment.decode(b"", GRID), k, 4), [0, 5]),
    ("dim", lambda dim: deployment.vectors(deployment.decode(b"", GRID), 1, dim), [2**31]),
]  # fmt: skip
"""The beginning of the message, the call, and values that are refused."""

NO_TYPE = [
    ("records must be real numbers$", lambda x: HELD.report(GRID, x, **WHERE), NO_NUMBERS),
    ("records must be real numbers$", lambda x: HELD.report_many(GRID, [x, x], **WHERE),
     [*NO_NUMBERS, "7", "1234567"]),  # not how long they are
    ("expected a Table, got str", lambda table: HELD.report(table, 0.3, **WHERE), ["a table"]),
    (r"expected a Table, .*table\(\)", lambda table: HELD.report(table, 0.3, **WHERE),
     [features.GridSquareWave(1.0), features.SquareWave(1.0)]),
    ("neighbours .*booleans", lambda row: LISTS.report_neighbours(ASKED, row, user=0),
     [[True] * 12, np.eye(12, dtype=bool)[3]]),
    ("neighbours .*booleans", lambda row: RULE.owned(0, row), [[True, False]]),
]  # fmt: skip


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize(
    ("error", "match", "call", "value"),
    [
        (error, match, call, value)
        for error, table in ((ValueError, REFUSED), (TypeError, NO_TYPE))
        for match, call, values in table
        for value in values
    ],
)
def test_what_is_wrong_is_refused_by_its_name_and_spends_nothing(error, match, call, value):
    with pytest.raises(error, match=f"^{match}"):
        call(value)
    assert HELD.counter == LISTS.counter == 0


TAKEN = [
    (lambda k: deployment.guarantee(GRID, k), [1, 2**32 - 1]),
    (lambda dim: deployment.vectors(deployment.decode(b"", GRID), 1, dim), [1, 2**31 - 1]),
    (lambda k: deployment.vectors(deployment.decode(b"", GRID), k, 4), [1, 4]),
    (lambda k: session().report_sampled(GRID, TWO, k, **WHERE), [1, 2]),
    (lambda nodes: Pairs(0, nodes, 1.0), [1, 32 * (2**15 - 1)]),
    (lambda epsilon: Pairs(0, 3, epsilon), [1e-3, 20.0]),
    (lambda epsilon: Alphabet((0, 1), 1.0, alphabet_table(epsilon, 2, 3)), [0.995, 1.0]),
    (question("round"), [0, 2**32 - 1]),
    (question("num_groups"), [5, 2**15 - 1]),
    (question("most"), [1, 2**20]),
    (question("epsilon"), [0.001, 40.0]),
]
"""The call, and the least and the largest value that it takes."""


@pytest.mark.parametrize(("call", "values"), TAKEN)
def test_the_least_and_the_largest_value_are_taken(call, values):
    for value in values:
        call(value)


@pytest.mark.parametrize("change", [{"rows": 0}, {"rounds": [0.5]}])
def test_a_store_refuses_what_it_cannot_read(change, tmp_path, untyped):
    (name,) = change
    with pytest.raises(ValueError, match=f"^{name} must be"):
        next(ReportStore(tmp_path).read(GRID, **change), None)


def test_wrong_arguments_are_refused_before_anything_is_drawn(monkeypatch, untyped):
    monkeypatch.setattr(deployment.Device, "_hash", lambda *_: pytest.fail("drawn"))
    for report in REPORTS:
        for name in ("user", "round"):
            with pytest.raises(ValueError, match=name):
                report(WHERE | {name: -1})
