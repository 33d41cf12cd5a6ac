"""Records, lists and labels private at once: what it says, what it spends, and what it refuses before."""

from fractions import Fraction

import jax
import numpy as np
import pytest

from ldp_jax.accounting.guarantee import LABEL, NEIGHBOUR_LIST, RECORD, RELATIONSHIP, Budget, Unit
from ldp_jax.accounting.ledger import BudgetExceededError, Ledger
from ldp_jax.features import PersonalAlphabets
from ldp_jax.graph import graphs
from ldp_jax.pipeline import JointPrivacy, jointly, panel, predict_jointly
from ldp_jax.pipeline.budget_split import (
    Split,
    SplitForecast,
    best_split,
    group_reliability,
    report_accuracy,
    report_information,
    simulated_reports,
)
from tests.pipeline.planted import blocks

pytestmark = pytest.mark.usefixtures("quickly_compiled")

N, PANEL, FOLDS, TOTAL = 600, 150, 4, 4.0  # the users and folds of other files, whose programs serve here
BOTH = Unit("neighbour-list + record")


@pytest.fixture(scope="module")
def data():
    """Records that half tell the class, friends that are mostly alike."""
    return blocks(n=N, clarity=1.5)


def predicted(data, budget, key=0, **changes):
    graph, y, x = data
    given = {"num_classes": 3, "num_folds": FOLDS, **changes}
    features = given.pop("features", x)
    return predict_jointly(
        jax.random.key(key), graph, features, np.arange(PANEL), given.pop("labels", y[:PANEL]), budget, **given
    )


def right(log_p, y):
    return (np.asarray(log_p).argmax(1) == y)[PANEL:].mean()


def watched(monkeypatch):
    """Who is asked for counts, at which epsilon, and how often records are."""
    lists, records = [], []
    report, privatize = jointly.privatize_counts, PersonalAlphabets.privatize

    def counts(key, graph, mechanism, groups, *, reporters):
        lists.append((mechanism.epsilon, reporters.copy()))
        return report(key, graph, mechanism, groups, reporters=reporters)

    def classes(self, key, x):
        records.append(self.guarantee().epsilon)
        return privatize(self, key, x)

    monkeypatch.setattr(jointly, "privatize_counts", counts)
    monkeypatch.setattr(PersonalAlphabets, "privatize", classes)
    return lists, records


def test_the_best_split_is_taken_and_every_user_stays_within_the_total(data, monkeypatch):
    """One private record is NaN, which is read as 0."""
    _, y, x = data
    lists, records = watched(monkeypatch)
    budget = JointPrivacy(TOTAL, shares=(1.0, 0.5, 0.0))
    found = predicted(data, budget, features=np.where(np.arange(N)[:, None] == PANEL + 3, np.nan, x))
    assert [one.split for one in found.forecasts] == list(budget.splits)
    assert found.split == max(found.forecasts, key=lambda one: one.accuracy).split
    gains = [one.record for one in found.forecasts]  # less epsilon says less
    assert gains == sorted(gains, reverse=True)
    assert gains[-1] == pytest.approx(0.0, abs=1e-9)
    assert found.forecasts[0].list == 0.0 < found.forecasts[-1].list
    assert found.split.list > 0.0, "friends are alike: lists are worth asking for here"
    assert "nats" in found.reason
    # Who reported what, exactly: a list twice only of who reported first, the panel's records never.
    spent = np.zeros(N)
    for epsilon, reporters in lists:
        spent[reporters] += epsilon
    first, again = lists[0][1], lists[-1][1]
    np.testing.assert_array_equal(first, again)
    assert not first[PANEL:].any()
    assert [epsilon for epsilon, _ in lists] == [budget.pilot, *[found.split.list] * 2, budget.second]
    np.testing.assert_array_equal(found.round, np.where(first, 3, 2))
    (record,), guarantee = records, found.guarantee
    assert (np.where(np.arange(N) >= PANEL, record, 0.0) + spent).max() <= TOTAL
    assert guarantee[RECORD].epsilon == record <= found.split.record
    assert guarantee[NEIGHBOUR_LIST].epsilon == pytest.approx(spent.max(), rel=1e-6)
    # Who reports first has a part in what the other end will be asked at.
    assert spent[first].max() == TOTAL
    edge = TOTAL + max(TOTAL, *(split.list for split in budget.splits))
    assert guarantee[RELATIONSHIP].epsilon == pytest.approx(edge, rel=1e-6)
    assert guarantee[BOTH].epsilon <= TOTAL
    assert LABEL not in guarantee
    assert {"features of private users", "edges"} == set(guarantee.protected)
    assert {"the panel's records", "the panel's labels"} < set(guarantee.unprotected)
    budgets = [Budget(TOTAL), Budget(TOTAL, unit=NEIGHBOUR_LIST), Budget(2 * TOTAL, unit=RELATIONSHIP)]
    ledger = Ledger([*budgets, Budget(TOTAL, unit=BOTH)]).spend("joint", found)
    with pytest.raises(BudgetExceededError):
        ledger.spend("joint again", found)
    alone = predicted(data, JointPrivacy(TOTAL, shares=(1.0,)))
    assert right(alone.log_posterior, y) > 0.5
    assert right(found.log_posterior, y) > right(alone.log_posterior, y) + 0.03
    np.testing.assert_allclose(np.exp(np.asarray(found.log_posterior)).sum(1), 1.0, atol=1e-4)
    assert (alone.counts, alone.round.any(), alone.forecasts) == (None, False, ())
    assert set(alone.guarantee) == {RECORD}


def test_private_labels_cost_a_line_of_their_own_and_leave_less_for_lists(data):
    _, y, _ = data
    budget = JointPrivacy(TOTAL, labels=2.5, shares=(1.0, 0.7))
    found = predicted(data, budget)
    assert budget.pilot == 1.5
    assert all(split.list <= 1.5 for split in budget.splits)
    guarantee = found.guarantee
    assert 2.49 < guarantee[LABEL].epsilon <= 2.5
    assert guarantee[RECORD].epsilon <= TOTAL
    assert guarantee[BOTH].epsilon <= TOTAL
    assert "the panel's labels" in guarantee.protected
    assert right(found.log_posterior, y) > 0.5
    outside = np.where(y[:PANEL] == 2, 7, y[:PANEL])  # clipped: no error, and no other result
    np.testing.assert_array_equal(predicted(data, budget, labels=outside).log_posterior, found.log_posterior)


def dearest_outcome(offered, first):
    """The largest loss of two bits, enumerated: the report of one, at ``first``, chooses the other's epsilon."""
    worst = 0.0
    for seen in (0, 1):
        for second in (0, 1):
            made = [
                np.exp(first * (seen == bit)) / (1 + np.exp(first))
                * np.exp(offered[seen] * (second == bit)) / (1 + np.exp(offered[seen]))
                for bit in (0, 1)
            ]  # fmt: skip
            worst = max(worst, abs(np.log(made[0] / made[1])))
    return worst


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("again", [False, True])
def test_who_has_a_part_in_the_choice_of_a_split_is_told_the_dearest(epsilon, again):
    """An epsilon that a report has chosen is no epsilon of that report: the twin states what came of it."""
    budget, noise = JointPrivacy(TOTAL, labels=0.5, shares=(1.0, 0.75, 0.25)), panel.label_noise(0.5, 3)
    offered = (1.0, 3.0)
    assert budget.pilot + budget.second == budget.most_of_a_list == 3.5
    early = (budget.pilot, budget.second if again else 0.0)
    found = jointly._guarantee([], noise, epsilon, early, budget)
    first = sum(early)
    edge = max(dearest_outcome(offered, budget.pilot) - budget.pilot + first, 2 * epsilon, 2 * first)
    assert found[RELATIONSHIP].epsilon == pytest.approx(edge, rel=1e-6)
    assert found[BOTH].epsilon == pytest.approx(max(dearest_outcome(offered, 0.5), 0.5 + first), rel=1e-6)
    assert found[BOTH].epsilon <= TOTAL * (1 + 1e-6)
    assert found[NEIGHBOUR_LIST].epsilon == pytest.approx(max(epsilon, first), rel=1e-6)
    public = jointly._guarantee([], None, epsilon, early, JointPrivacy(TOTAL, shares=(1.0, 0.75, 0.25)))
    assert BOTH not in public


@pytest.mark.parametrize("members", [(1, 1, 1), (9, 8, 8)])  # nobody is early: all are alone in their class
def test_what_a_private_label_costs_with_a_bit_does_not_depend_on_labels(data, members):
    graph, y, x = data
    budget = JointPrivacy(TOTAL, labels=0.5, shares=(1.0, 0.75))
    chosen = np.concatenate([np.flatnonzero(y == c)[:size] for c, size in enumerate(members)])
    for key, labels in enumerate((y[chosen], np.zeros(len(chosen), int))):  # other reported labels
        found = predict_jointly(
            jax.random.key(key), graph, x, chosen, labels, budget, num_classes=3, num_folds=FOLDS
        )
        assert found.guarantee[BOTH].epsilon == pytest.approx(4.0, abs=1e-6)


def test_lists_of_nobody_are_not_believed_though_a_small_panel_counts_twice():
    """Friends at random: 36 members, two reports of half of them."""
    graph, y, x = blocks(n=N, clarity=1.5, homophily=0.0)
    members = np.concatenate([np.flatnonzero(y == c)[:12] for c in range(3)])
    budget = JointPrivacy(TOTAL, shares=(0.01, 0.0))
    found = predict_jointly(jax.random.key(0), graph, x, members, y[members], budget, num_folds=FOLDS)
    assert np.abs(np.asarray(found.log_posterior) - np.asarray(found.log_prior)).mean() < 0.3


def test_a_small_panel_counts_twice_so_that_lists_that_say_much_are_believed(data, monkeypatch):
    """36 of the panel: without the second reports nine labels could say whether to believe."""
    graph, y, x = data
    members = np.concatenate([np.flatnonzero(y == c)[:12] for c in range(3)])
    asked, believed, judged, told = [], [], [], []
    count, believe, guard = jointly._second_evidence, jointly._believed, jointly.guard
    monkeypatch.setattr(jointly, "guard", lambda *given, **named: judged.append(given[2]) or guard(*given, **named))
    monkeypatch.setattr(jointly, "_second_evidence", lambda *given: asked.append(given[4]) or count(*given))
    monkeypatch.setattr(jointly, "_believed", lambda *given: believed.append(given[4]) or believe(*given))

    def found():
        return predict_jointly(
            jax.random.key(0), graph, x, members, y[members], JointPrivacy(TOTAL, shares=(0.01, 0.0)),
            num_folds=FOLDS, progress=lambda *now: told.append(now),
        )  # fmt: skip

    twice = found()
    assert told == sorted(told, key=lambda now: now[1])
    assert {"the split of the total", "counts: the pilot reports"} < {words for words, _ in told}
    (early,), (labels,) = asked, believed
    assert early.sum() == 18
    np.testing.assert_array_equal(twice.round == 3, early)
    assert (labels[early] >= 0).all()
    assert not (labels[twice.counts.pilot] >= 0).any()
    private = ~np.isin(np.arange(N), members)
    assert len(judged) == 3
    for counted in judged:  # with the pilot the model agrees by its very fit
        np.testing.assert_array_equal(counted, ~twice.counts.pilot & private)
    assert (twice.classes == y)[private].mean() > 0.5
    assert twice.guarantee[NEIGHBOUR_LIST].epsilon == pytest.approx(TOTAL, rel=1e-6)
    monkeypatch.setattr(jointly, "_FEW", 9)  # a quarter of the panel
    once = found()
    assert len(asked) == 1
    assert set(once.round) == {1, 2}
    assert (once.classes == y)[private].mean() < 0.4


def test_of_splits_that_find_as_many_classes_the_one_that_says_most_is_taken():
    made = [
        SplitForecast(Split(record, 4.0 - record), nats, 0.0, accuracy)
        for record, nats, accuracy in ((4.0, 0.48, 0.587), (3.0, 0.60, 0.569), (2.0, 0.49, 0.586), (1.0, 0.3, 0.44))
    ]
    assert best_split(tuple(made)).split.record == 2.0


def test_records_of_somebody_else_are_not_believed(data):
    _, y, x = data
    order = np.arange(N)
    order[PANEL:] = np.random.default_rng(0).permutation(order[PANEL:])
    budget = JointPrivacy(TOTAL, shares=(0.5,))
    true, placebo = (predicted(data, budget, features=given) for given in (x, x[order]))
    assert true.strength > 0.5 > placebo.strength
    lists = predicted(data, JointPrivacy(TOTAL / 2, shares=(0.0,)))
    assert right(placebo.log_posterior, y) > right(lists.log_posterior, y) - 0.15
    assert RECORD not in lists.guarantee
    assert lists.strength == 0.0


def test_where_nothing_says_anything_it_says_so(data):
    graph, y, x = data
    noise = np.random.default_rng(1).normal(size=x.shape)
    found = predict_jointly(
        jax.random.key(0), graphs.from_edges([[0, 1]], N), noise, np.arange(PANEL), y[:PANEL],
        JointPrivacy(0.5, shares=(1.0, 0.5)), num_folds=FOLDS,
    )  # fmt: skip
    assert "joint privacy costs everything" in found.reason


def test_what_a_report_says_is_its_mutual_information():
    prior, table = np.array([0.6, 0.3, 0.1]), np.array([[0.8, 0.2], [0.2, 0.8], [0.5, 0.5]])
    law = np.array([[0.9, 0.1, 0.0], [0.2, 0.7, 0.1], [0.0, 0.3, 0.7]]) @ table
    np.testing.assert_allclose(law.sum(1), 1.0)
    y, log_q = simulated_reports(jax.random.key(0), law, prior, 100_000)
    np.testing.assert_allclose(np.bincount(y) / len(y), prior, atol=0.008)  # five standard errors
    right = (log_q.argmax(1) == y).mean()
    assert report_accuracy(law, prior) == pytest.approx(right, abs=0.008)
    assert report_accuracy(np.ones((3, 1)), prior) == pytest.approx(0.6)
    rise = log_q[np.arange(len(y)), y] - np.log(prior)[y]
    assert report_information(law, prior) == pytest.approx(rise.mean(), abs=5 * rise.std() / len(y) ** 0.5)
    assert report_information(np.ones((3, 1)), prior) == pytest.approx(0.0, abs=1e-12)
    assert report_information(np.eye(3), prior) == pytest.approx(-(prior * np.log(prior)).sum())
    found = group_reliability(y, log_q)
    np.testing.assert_allclose(found.sum(1), 1.0)
    np.testing.assert_allclose(found[0].reshape(2, 3).sum(0).argmax(), 0)


@pytest.mark.usefixtures("untyped")
def test_what_is_wrong_is_refused_before_anybody_reports(data, monkeypatch):
    graph, y, x = data
    refuse = lambda *_, **__: pytest.fail("asked, although the arguments are wrong")
    monkeypatch.setattr(jointly, "privatize_counts", refuse)
    monkeypatch.setattr(panel, "reported_labels", refuse)
    monkeypatch.setattr(PersonalAlphabets, "privatize", refuse)
    members, labels = np.arange(PANEL), y[:PANEL]
    private = {"budget": JointPrivacy(TOTAL, labels=1.0), "num_classes": 3}
    for changes, message in (
        ({"labels": np.where(labels == 1, 0, labels)}, "got none of class 1"),
        ({"panel": members // 2}, "each of its members once"),
        ({"features": x[:-1]}, "features must have a row for each of 600 users"),
        ({"features": np.where(np.arange(N)[:, None] == 3, np.nan, x)}, "x must be finite"),
        (private | {"num_classes": None}, "num_classes must be given where labels are private"),
        (private | {"panel": members[:0], "labels": labels[:0]}, "panel must have at least"),
        ({"lists": graphs.from_edges([[0, 1]], 3)}, r"panel must name nodes in \[0, 3\)"),
    ):
        given = {"lists": graph, "features": x, "panel": members, "labels": labels, "budget": JointPrivacy(TOTAL)}
        with pytest.raises(ValueError, match=message):
            predict_jointly(jax.random.key(0), **{**given, **changes})


@pytest.mark.usefixtures("untyped")
def test_budgets_that_are_none():
    for given, message in (
        ({"total": 21.0}, "total must be"),
        ({"total": 2.0, "labels": 2.0}, "labels must be"),
        ({"total": 2.0, "shares": (0.5, 0.5)}, "shares must be different numbers"),
        ({"total": 2.0, "shares": (1.5,)}, "share must be"),
        ({"total": 2.0, "labels": 1.5, "shares": (0.5,)}, "shares must leave a split"),
    ):
        with pytest.raises(ValueError, match=message):
            JointPrivacy(**given)
    assert JointPrivacy(2.0, shares=(0.25,)).splits == (Split(0.5, 1.5),)


def test_who_reports_first_can_be_asked_whatever_the_total():
    for total in (1e-6, 0.0011, 0.0015, 0.0021, 20.0):
        for labels in (None, total / 10):
            budget = JointPrivacy(total, labels=labels)
            assert budget.pilot <= budget.most_of_a_list
            assert budget.pilot >= 0.001 or len(budget.splits) == 1  # the least of whole noise
            assert budget.second == 0.0 or budget.second >= 0.001
            assert Fraction(budget.pilot) + Fraction(budget.second) <= Fraction(budget.most_of_a_list)
