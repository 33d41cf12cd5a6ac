"""Statements of what a protocol can cost, against brute force over all that an adaptive server may
ask.
"""

import dataclasses
import itertools

import numpy as np
import pytest

from ldp_jax.accounting.composition import advanced
from ldp_jax.accounting.gaussian import GaussianCurve
from ldp_jax.accounting.guarantee import (
    LABEL,
    NEIGHBOUR_LIST,
    RECORD,
    RELATIONSHIP,
    Guarantee,
    joint_unit,
    metric,
)
from ldp_jax.accounting.ledger import BudgetExceededError
from ldp_jax.accounting.statement import (
    RECORD_AND_BIT,
    RECORD_AND_LIST,
    Account,
    Cost,
    Role,
    Statement,
)

USERS = 3


def proved(epsilon, unit=RECORD, delta=0.0):
    words = "" if unit in (RECORD, LABEL, NEIGHBOUR_LIST) else "two"
    return Guarantee(epsilon, delta, unit, words, status="proved", reason="noise")


def drawn_statement(rng):
    """Roles of up to three costs, of dyadic epsilons so that sums are exact, some for some users
    alone.
    """
    menu = [Cost(proved(0.25, RECORD)), Cost(proved(0.5, LABEL))]
    for owners in ("", "one rule"):
        menu += [Cost(proved(epsilon, NEIGHBOUR_LIST), owners=owners) for epsilon in (1.0, 2.0)]
    per_edge = Guarantee(1.5, unit=RELATIONSHIP, status="proved", reason="half lists")
    menu += [
        Cost(proved(1.0, NEIGHBOUR_LIST), per_edge, owners=owners) for owners in ("", "one rule")
    ]
    roles = []
    for _ in range(rng.integers(1, 4)):
        chosen = rng.choice(len(menu), rng.integers(1, 4), replace=False)
        costs = tuple(
            dataclasses.replace(menu[one], times=int(rng.integers(1, 3))) for one in chosen
        )
        who = None if rng.random() < 0.5 else rng.random(USERS) < 0.6
        roles.append(Role(costs, who))
    return Statement(tuple(roles))


def possible(role):
    return range(USERS) if role.who is None else np.flatnonzero(role.who).tolist()


def of_one_user(statement, fields):
    """The largest sum of epsilons of answers that read some fields, over roles that somebody can
    have.
    """
    totals = [0.0]
    for role in statement.roles:
        if possible(role):
            read = [cost for cost in role.costs if any(map(cost.reads, fields))]
            totals.append(sum(cost.guarantee.epsilon * cost.times for cost in read))
    return max(totals)


def of_one_pair(statement):
    """The largest loss about a pair: over users, roles and owners by the one rule.

    Without a rule both ends may own the pair, each in the questions that it is asked.
    """
    worst = 0.0
    never_asked = Role(())
    for mine, theirs in itertools.product((*statement.roles, never_asked), repeat=2):
        if not any(i != j for i in possible(mine) for j in possible(theirs)):
            continue
        keys = {
            dataclasses.replace(cost, times=1)
            for cost in (*mine.costs, *theirs.costs)
            if cost.reads("list")
        }
        for fixed in (0, 1):  # which end owns the pair by the one rule
            total = 0.0
            for cost in keys:
                times = [
                    sum(
                        one.times for one in role.costs if dataclasses.replace(one, times=1) == cost
                    )
                    for role in (mine, theirs)
                ]
                bit, both = cost.guarantee.epsilon, cost.pair.epsilon
                total += both * times[fixed] if cost.owners else bit * sum(times)
            worst = max(worst, total)
    return worst


@pytest.mark.parametrize("seed", range(60))
def test_the_guarantee_is_the_worst_that_an_adaptive_server_may_ask(seed):
    statement = drawn_statement(np.random.default_rng(seed))
    found = statement.guarantee()
    expected = {
        RECORD: of_one_user(statement, ("record", "label")),
        LABEL: of_one_user(statement, ("label",)),
        NEIGHBOUR_LIST: of_one_user(statement, ("list",)),
        RELATIONSHIP: of_one_pair(statement),
        RECORD_AND_BIT: of_one_user(statement, ("record", "label", "list")),
    }
    for unit, epsilon in expected.items():
        assert (found[unit].epsilon if unit in found else 0.0) == pytest.approx(epsilon, abs=0) or (
            unit == RECORD_AND_BIT and unit not in found
        )
    if (
        RECORD_AND_BIT not in found
    ):  # no user has both: the worse of the two units holds for both together
        alone = max(expected[RECORD], expected[NEIGHBOUR_LIST])
        assert expected[RECORD_AND_BIT] == alone or not any(
            possible(role) for role in statement.roles
        )


@pytest.mark.parametrize("seed", range(20))
def test_an_account_allows_what_some_role_allows_and_nothing_else(seed):
    """Random questions until one is refused: exactly where no role has room for all of a user's
    answers.
    """
    rng = np.random.default_rng(seed)
    statement = drawn_statement(rng)
    costs = statement.costs
    account = Account.of(statement, USERS)
    asked = np.zeros((USERS, len(costs)), int)

    def fits(user, answers):
        for role in statement.roles:
            room = [
                sum(one.times for one in role.costs if dataclasses.replace(one, times=1) == cost)
                for cost in costs
            ]
            if user in possible(role) and (answers <= room).all():
                return True
        return False

    for _ in range(12):
        # Costs that are within another one may be charged to that one: those are asked for exactly.
        place = rng.integers(len(costs))
        if sum(costs[place].within(other) for other in costs) > 1:
            continue
        who = rng.random(USERS) < 0.5
        after = asked.copy()
        after[who, place] += 1
        allowed = all(fits(user, after[user]) for user in np.flatnonzero(who))
        if not allowed:
            with pytest.raises(BudgetExceededError):
                account.charge(costs[place], who)
            continue
        account = account.charge(costs[place], who)
        asked = after
    np.testing.assert_array_equal(account.answers, asked)
    if asked.any():
        realised = account.realised()
        stated = statement.guarantee()
        assert all(realised[unit].epsilon <= stated[unit].epsilon for unit in realised)


def test_a_question_that_was_not_stated_is_refused():
    account = Account.of(Statement.of([Cost(proved(1.0))]), 2)
    everybody = np.ones(2, bool)
    for cost in (Cost(proved(1.01)), Cost(proved(1.0, delta=1e-9)), Cost(proved(1.0, LABEL))):
        with pytest.raises(BudgetExceededError, match="names no such answer"):
            account.charge(cost, everybody)
    account.charge(Cost(proved(0.5)), everybody)  # a smaller loss is within


def test_two_different_answers_of_one_epsilon_are_two_answers():
    """Each covers the other, so that the second takes the place that the first has left."""
    pair = Guarantee(1.0, unit=RELATIONSHIP, status="proved", reason="another noise")
    costs = [Cost(proved(1.0, NEIGHBOUR_LIST)), Cost(proved(1.0, NEIGHBOUR_LIST), pair)]
    everybody = np.ones(USERS, bool)
    account = Account.of(Statement.of(costs), USERS)
    for cost in costs[::-1]:
        account = account.charge(cost, everybody)
    assert (account.answers == 1).all()
    with pytest.raises(BudgetExceededError, match="exceeds the statement for 3 of its 3 users"):
        account.charge(costs[1], everybody)


def test_noise_of_a_curve_is_within_a_curve_that_is_not_smaller_and_any_number():
    curves = [GaussianCurve(mu) for mu in (0.5, 0.5, 0.7)]
    loss = curves[2].guarantee(1e-6)
    costs = [Cost(loss, curve=curve, delta=1e-6) for curve in curves] + [Cost(loss)]
    within = [[one.within(other) for other in costs] for one in costs]
    for place, row in enumerate(within[:2]):
        assert row == [True] * 4, place
    assert within[2:] == [[False, False, True, True], [False, False, False, True]]


def test_a_cost_is_within_another_where_no_number_of_it_is_larger():
    """The loss per answer and per pair, epsilon and delta, of costs of one kind alone."""
    numbers = list(itertools.product((0.5, 1.0), (0.0, 1e-9), (1.0, 2.0), (0.0, 1e-8)))

    def costs(**kind):
        made = []
        for epsilon, delta, of_pair, delta_of_pair in numbers:
            pair = Guarantee(of_pair, delta_of_pair, RELATIONSHIP, status="proved", reason="half")
            made.append(Cost(proved(epsilon, NEIGHBOUR_LIST, delta), pair, **kind))
        return made

    kinds = [costs(), costs(owners="one rule"), costs(permanent="for good")]
    for one, other in itertools.product(range(len(numbers)), repeat=2):
        smaller = (np.array(numbers[one]) <= numbers[other]).all()
        for kind in kinds:
            assert kind[one].within(kind[other]) == smaller
    for kind, another in itertools.permutations(kinds, 2):
        assert not kind[0].within(another[-1])


def test_roles_of_other_numbers_of_users_do_not_follow_each_other():
    role = Role((Cost(proved(1.0)),), np.ones(3, bool))
    for size in (2, 4, 5):
        with pytest.raises(ValueError, match="who must be of the same users"):
            role.after(Role((Cost(proved(1.0)),), np.ones(size, bool)))
    both = role.after(Role((Cost(proved(1.0)),), np.array([True, False, True]))).who
    np.testing.assert_array_equal(both, [True, False, True])


def test_answers_add_up_by_their_own_rules():
    fresh = Cost(proved(0.1), times=100)
    assert Statement.of([fresh]).per(RECORD).epsilon == pytest.approx(10.0)
    granted = dataclasses.replace(fresh, delta=1e-6)
    assert Statement.of([granted]).per(RECORD).epsilon == advanced(proved(0.1), 100, 1e-6).epsilon
    for_good = dataclasses.replace(fresh, permanent="age")
    assert Statement.of([for_good]).per(RECORD).epsilon == 0.1
    curve = GaussianCurve.of(1.0, 12.0)
    noise = Cost(curve.guarantee(1e-6), curve=curve, delta=1e-6, times=4)
    together = GaussianCurve(0.0).compose(*[curve] * 4).guarantee(1e-6)
    assert (
        Statement.of([noise]).per(RECORD).epsilon
        == together.epsilon
        < 4 * curve.guarantee(1e-6).epsilon
    )


def test_a_protocol_after_another_costs_both_and_an_answer_for_good_once():
    first = Statement.of(
        [Cost(proved(1.0), permanent="age")], [Cost(proved(0.5))], exposes=("edges",)
    )
    again = Statement.of(
        [Cost(proved(1.0), permanent="age"), Cost(proved(0.25))], protects=("features",)
    )
    both = again.after(first)
    assert first.per(RECORD).epsilon == 1.0
    assert both.per(RECORD).epsilon == 1.75  # somebody who gave 0.5, then age and 0.25
    assert both.guarantee().unprotected == ("edges",)
    assert again.after(again).per(RECORD).epsilon == 1.5
    # It is sent as often as both send it, at the larger loss of the two.
    ages = [
        Cost(proved(epsilon), permanent="age", times=times)
        for epsilon, times in ((1.0, 2), (0.5, 3))
    ]
    for one, other in (ages, ages[::-1]):
        (cost,) = Role((one,)).after(Role((other,))).costs
        assert (cost.times, cost.guarantee.epsilon) == (5, 1.0)


def test_units_that_are_read_at_once_and_distances_stand_apart():
    whole = Cost(
        Guarantee(
            2.0, unit=RECORD_AND_LIST, adjacency="any two", status="proved", reason="one report"
        )
    )
    found = Statement.of([whole]).guarantee()
    assert {unit.name: one.epsilon for unit, one in found.items()} == {
        "record": 2.0, "neighbour-list": 2.0, "relationship": 4.0, "neighbour-list + record": 2.0,
        "record + whole neighbour list": 2.0,
    }  # fmt: skip
    beside = Statement.of([whole, Cost(proved(1.0, NEIGHBOUR_LIST))])
    assert beside.per(RECORD_AND_BIT).epsilon == 3.0
    with pytest.raises(ValueError, match="has none per record"):
        beside.per(RECORD_AND_LIST)  # counts promise nothing about whole lists
    far = Statement.of(
        [Cost(Guarantee(0.5, unit=metric(0.5), status="proved", reason="noise"), times=2)]
    )
    assert [str(unit) for unit in far.guarantee()] == ["metric(1)"]
    with pytest.raises(ValueError, match="has none per record"):
        far.per(RECORD)
    assert joint_unit(RECORD, NEIGHBOUR_LIST) == RECORD_AND_BIT


@pytest.mark.parametrize("seed", range(30))
def test_a_protocol_after_another_costs_what_one_user_can_have_been_asked_in_both(seed):
    """A user has a role of each, or none: roles of different users never meet in one user."""
    rng = np.random.default_rng(seed)
    earlier = drawn_statement(rng)
    later = drawn_statement(rng)
    both = later.after(earlier)

    def of_user(statement, user, unit):
        held = [role.per(unit) for role in statement.roles if user in possible(role)]
        return max((one.epsilon for one in held if one is not None), default=0.0)

    for unit in (RECORD, LABEL, NEIGHBOUR_LIST):
        found = both.per(unit)
        each = (of_user(earlier, user, unit) + of_user(later, user, unit) for user in range(USERS))
        assert (0.0 if found is None else found.epsilon) == max(each)


def test_a_field_is_protected_or_in_the_clear():
    """Only what was answered without noise moves from one to the other."""
    of_list = Cost(Guarantee(1.0, unit=NEIGHBOUR_LIST, status="proved", reason="noise"))
    both = Statement.of([of_list], exposes=("edges",))
    with pytest.raises(ValueError, match="edges"):
        both.guarantee()
    lost = Statement.of([of_list]).without_noise().guarantee()
    assert lost.protected == ()
    assert "edges" in lost.unprotected
    assert np.isinf(lost[NEIGHBOUR_LIST].epsilon)


# --- What one statement cannot hide ---------------------------------------------------------------


def test_a_pair_that_either_end_may_own_costs_both_ends_answers():
    """Each end may be the owner in the one question that asks it; a named rule forbids that."""
    per_edge = Guarantee(1.0, unit=RELATIONSHIP, status="proved", reason="one owner")
    once = Cost(proved(1.0, NEIGHBOUR_LIST), per_edge)
    found = Statement.of([once]).guarantee()
    assert found[RELATIONSHIP].epsilon == 2.0
    named = dataclasses.replace(once, owners="the lower number")
    assert Statement.of([named]).guarantee()[RELATIONSHIP].epsilon == 1.0


def test_the_other_end_of_an_owned_pair_may_tell_of_it_too():
    """The owner's list loses 1 and the other end's degree 0.5."""
    per_edge = Guarantee(1.5, unit=RELATIONSHIP, status="proved", reason="half lists")
    cost = Cost(proved(1.0, NEIGHBOUR_LIST), per_edge, owners="parity")
    for times in (1, 2):
        many = dataclasses.replace(cost, times=times)
        assert Statement.of([many]).guarantee()[RELATIONSHIP].epsilon == 1.5 * times


@pytest.mark.parametrize("times", [1, 3])
def test_gaussian_answers_about_lists_compose_by_mu_over_both_ends(times):
    curve = GaussianCurve.of(1.0, 4.0)
    cost = Cost(curve.guarantee(1e-6, NEIGHBOUR_LIST), curve=curve, delta=1e-6, times=times)
    found = Statement.of([cost]).guarantee()
    assert found[NEIGHBOUR_LIST].epsilon == curve.repeated(times).guarantee(1e-6).epsilon
    assert found[RELATIONSHIP].epsilon == curve.repeated(2 * times).guarantee(1e-6).epsilon


def test_a_curve_composes_the_owners_answers_alone():
    curve = GaussianCurve.of(1.0, 4.0)
    one = curve.guarantee(1e-6, NEIGHBOUR_LIST)
    kept = Cost(one, owners="parity", curve=curve, delta=1e-6, times=2)
    found = Statement.of([kept]).guarantee()
    assert found[RELATIONSHIP].epsilon == curve.repeated(2).guarantee(1e-6).epsilon
    both = dataclasses.replace(kept.pair, epsilon=2 * kept.pair.epsilon)
    with pytest.raises(ValueError, match="pair must be the loss of its owner's answer alone"):
        dataclasses.replace(kept, pair=both)


def test_a_loss_by_distance_has_no_sum_with_one_of_any_two_records():
    near = Cost(Guarantee(1.0, unit=metric(1.0), status="proved", reason="noise"), times=3)
    assert Statement.of([near]).guarantee()[metric(3.0)].epsilon == 3.0
    for unit in (RECORD, LABEL):
        whole = Statement.of([Cost(proved(2.0, unit))])
        for both in (Statement.of([near, *whole.costs]), whole.after(Statement.of([near]))):
            with pytest.raises(ValueError, match="no common total"):
                both.guarantee()


@pytest.mark.parametrize(
    ("first", "second", "total"),
    [
        (proved(1.0), proved(1.0), {RECORD: 1.0}),
        (proved(1.0), proved(2.0), {RECORD: 2.0}),
        (proved(1.0), proved(2.0, LABEL), {RECORD: 3.0, LABEL: 3.0}),
        (proved(1.0), proved(3.0, NEIGHBOUR_LIST), {RECORD: 1.0, NEIGHBOUR_LIST: 3.0}),
        (proved(1.0), proved(0.5, delta=1e-3), {RECORD: 1.5}),  # neither covers the other
    ],
)
def test_an_answer_for_good_is_one_answer_of_one_unit(first, second, total):
    """In both orders, and beside an answer of another name."""
    one, two = (Statement.of([Cost(each, permanent="mine")]) for each in (first, second))
    other = Statement.of([Cost(proved(0.5), permanent="other")])
    for both in (one.after(two), two.after(one)):
        for extra, found in ((0.0, both.guarantee()), (0.5, other.after(both).guarantee())):
            assert found[RECORD].epsilon == total[RECORD] + extra
            assert {unit: found[unit].epsilon for unit in total if unit == NEIGHBOUR_LIST} == {
                unit: epsilon for unit, epsilon in total.items() if unit == NEIGHBOUR_LIST
            }


def test_a_user_is_not_asked_again_for_an_answer_for_good():
    cost = Cost(proved(1.0), permanent="mine", times=5)
    account = Account.of(Statement.of([cost]), 3)
    first = np.array([True, True, False])
    account = account.charge(cost, first)
    with pytest.raises(ValueError, match="1 users gave the permanent answer 'mine' before"):
        account.charge(cost, np.array([True, False, True]))
    assert account.charge(cost, ~first).answers.sum() == 3


@pytest.mark.parametrize(
    "worse",
    [
        {"status": "none", "reason": ""},
        {"status": "in the limit"},
        {"arithmetic": "ideal"},
        {"trust": "central"},
        {"adjacency": "two hours that follow each other"},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_an_answer_is_within_another_only_if_it_is_proved_as_well(worse):
    stated = Cost(dataclasses.replace(proved(1.0), arithmetic="exact"))
    asked = dataclasses.replace(stated.guarantee, **worse)
    assert stated.within(stated)
    assert not Cost(asked).within(stated)
    others = dataclasses.replace(asked, adjacency="two days that follow each other")
    assert Cost(asked).within(Cost(asked))
    assert "adjacency" not in worse or not Cost(asked).within(Cost(others))
    if "trust" not in worse:
        assert stated.within(Cost(asked))
