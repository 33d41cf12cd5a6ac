"""The driver: what it refuses, what it charges, and whose data it never shows to a server."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from ldp_jax import datasets
from ldp_jax.accounting.guarantee import (
    LABEL,
    NEIGHBOUR_LIST,
    RECORD,
    RELATIONSHIP,
    WORDS,
    Budget,
    Guarantee,
    Unit,
    compares_all,
)
from ldp_jax.accounting.ledger import BudgetExceededError
from ldp_jax.accounting.statement import RECORD_AND_BIT, Cost, Role, Statement
from ldp_jax.core.mechanism import mechanism
from ldp_jax.core.pytree import pytree, static
from ldp_jax.edges import Population, RandomizedResponse, count_neighbours, ownership
from ldp_jax.features import Discrete, GeneralizedRR, Laplace, LaplaceVector
from ldp_jax.graph import graphs
from ldp_jax.servers import (
    Answers,
    Ask,
    CountQuestion,
    ListServer,
    ReportServer,
    RoundsServer,
    Share,
    Users,
    count_cost,
    panel_facts,
    perturb,
    simulate,
)
from ldp_jax.servers.parts import records as of_records
from ldp_jax.servers.parts.rows import Rows, feature_rows
from ldp_jax.servers.users import blanked
from tests.marks import untyped
from tests.servers.example_protocol import CLASSES, ClassesThenCounts

N = 240
EPSILON = 1.0
SERVER = ClassesThenCounts(N, EPSILON)
_NO_EDGES = {"senders": np.zeros(0, np.int32), "receivers": np.zeros(0, np.int32)}


@pytest.fixture(scope="module")
def data():
    return datasets.synthetic(
        jax.random.key(0),
        num_nodes=N,
        num_classes=CLASSES,
        num_features=8,
        mean_degree=8,
        homophily=0.8,
    )


@pytest.fixture(scope="module")
def users(data):
    return Users(labels=data.y, lists=data.graph)


def test_a_protocol_of_ones_own_has_its_total_and_every_row_beside_it(data, users):
    found = simulate(jax.random.key(1), SERVER, users)
    epsilons = {unit: one.epsilon for unit, one in found.guarantee.items()}
    assert epsilons.keys() == {RECORD, LABEL, NEIGHBOUR_LIST, RELATIONSHIP}
    assert max(epsilons[unit] for unit in (RECORD, LABEL, NEIGHBOUR_LIST)) <= 1.0
    assert 1.99 < epsilons[RELATIONSHIP] <= 2.0
    assert [one.asked for one in found.rounds] == [N // 3, N - N // 3]
    assert [one.upload for one in found.rounds] == [4, 32 + 4 * CLASSES]
    right = lambda who: (simulate(jax.random.key(1), SERVER, who).value == data.y).mean()
    control = users.shuffled(jax.random.key(2))
    ceiling = users.exact()
    assert right(ceiling) > 0.75 > (found.value == data.y).mean() > 0.45 > right(control)
    assert right(users.public_record()) < 0.45
    exact = simulate(jax.random.key(1), SERVER, ceiling)
    for printed in (exact.guarantee, exact.realised, exact.statement.guarantee()):
        assert all(np.isinf(one.epsilon) for one in printed.values())
        assert not printed.protected
    lies = lambda key, question, values, held, liars: np.where(
        liars[:, None] if values.ndim == 2 else liars,
        np.roll(values, 1, -1) if values.ndim == 2 else 0,
        values,
    )
    assert right(users.lying(jax.random.key(3), 0.9, lies)) < (found.value == data.y).mean()


def test_a_budget_is_checked_before_anybody_is_asked(users, monkeypatch):
    monkeypatch.setattr(Users, "answer", lambda *_: pytest.fail("asked beyond the budget"))
    enough = [Budget(1.0), Budget(1.0, unit=LABEL), Budget(1.0, unit=NEIGHBOUR_LIST)]
    for budget in (0.5, 1.0, [*enough, Budget(1.5, unit=RELATIONSHIP)]):  # 1.0 is none for lists
        with pytest.raises(BudgetExceededError):
            simulate(jax.random.key(1), SERVER, users, budget)


def test_a_total_that_nobody_can_state_is_refused_before_anybody_is_asked(users, monkeypatch):
    monkeypatch.setattr(Users, "answer", lambda *_: pytest.fail("asked"))

    class Mixed(Share):
        def statement(self):
            (cost,) = super().statement().costs
            shuffled = dataclasses.replace(cost.guarantee, trust="shuffled")
            return Statement.of([cost, dataclasses.replace(cost, guarantee=shuffled)])

    with pytest.raises(ValueError, match="do not add"):
        simulate(jax.random.key(1), Mixed(GeneralizedRR(1.0, 2), users.num_users), users)


def test_what_the_same_users_took_part_in_before_is_added(users):
    first = simulate(jax.random.key(1), Share(GeneralizedRR(0.5, CLASSES), N), users)
    both = simulate(jax.random.key(2), SERVER, users, history=first.statement)
    assert both.guarantee[LABEL].epsilon == pytest.approx(1.5, rel=1e-6)
    assert both.guarantee[NEIGHBOUR_LIST].epsilon == pytest.approx(1.0, rel=1e-6)
    again = simulate(jax.random.key(3), SERVER, users, history=both.statement)
    assert again.guarantee[LABEL].epsilon == pytest.approx(2.5, rel=1e-6)


def test_answers_without_noise_stay_lost_whatever_follows_or_went_before(users):
    exact = simulate(jax.random.key(1), Share(GeneralizedRR(0.5, CLASSES), N), users.exact())
    assert not exact.statement.guarantee().protected
    later = simulate(jax.random.key(2), SERVER, users, history=exact.statement)
    assert np.isinf(later.guarantee[LABEL].epsilon)
    assert np.isfinite(later.guarantee[NEIGHBOUR_LIST].epsilon)
    assert later.guarantee.protected == ("edges",)
    budgets = [Budget(9.0), Budget(9.0, unit=LABEL), Budget(9.0, unit=NEIGHBOUR_LIST)]
    with pytest.raises(BudgetExceededError):
        simulate(jax.random.key(2), SERVER, users, budgets, history=exact.statement)
    counts = simulate(jax.random.key(1), SERVER, users)
    now = Share(GeneralizedRR(0.5, CLASSES), N)
    both = simulate(jax.random.key(3), now, users.exact(), history=counts.statement)
    assert np.isinf(both.guarantee[LABEL].epsilon)
    assert both.guarantee[NEIGHBOUR_LIST].epsilon == counts.guarantee[NEIGHBOUR_LIST].epsilon


# --- What a server could get wrong ----------------------------------------------------------------


class NoTree:
    def __init__(self, question):
        self.question = question


@pytree
class Told:
    question: Any
    more: Any = None


@dataclasses.dataclass(frozen=True)
class Wrong:
    """Asks once, for one label, unless something else is given."""

    state: Any
    after: Any = None
    stated: Cost = Ask(GeneralizedRR(EPSILON, CLASSES), np.ones(N, bool), of="label").cost()

    def statement(self):
        return Statement.of([self.stated])

    def init(self, key):
        return self.state

    def step(self, state, answers):
        return 0 if self.after is None else self.after


@mechanism
class Near:
    """A mechanism whose promise is about some pairs of classes alone."""

    inner: Discrete

    def guarantee(self):
        one = self.inner.guarantee()
        return dataclasses.replace(one, adjacency="two classes that follow each other")

    def privatize(self, key, x):
        return self.inner.privatize(key, x)

    def domain(self):
        return self.inner.domain()

    def codomain(self):
        return self.inner.codomain()

    def estimate(self, y):
        return self.inner.estimate(y)


def test_shares_of_nobody_are_no_numbers():
    """Zeros would be shares that sum to nothing."""
    server = Share(GeneralizedRR(EPSILON, CLASSES), N)
    nobody = Answers(np.zeros(N, np.int32), np.zeros(N, bool))
    assert np.isnan(server.step(server.init(jax.random.key(0)), nobody)).all()


@pytest.mark.parametrize("of", ["record", "label"])
def test_a_promise_about_some_pairs_is_printed_as_one_in_every_unit(of):
    """Far classes lose a multiple: epsilon of "any two records" would be too small."""
    question = Ask(Near(GeneralizedRR(EPSILON, CLASSES)), np.ones(N, bool), of=of)
    bit = Guarantee(1.0, unit=NEIGHBOUR_LIST, adjacency="two lists that differ in a near friend")
    everything = Statement.of([question.cost(), Cost(bit), count_cost(1.0)]).guarantee()
    wanted = {RECORD, NEIGHBOUR_LIST, RELATIONSHIP, RECORD_AND_BIT, *[LABEL] * (of == "label")}
    assert set(everything) == wanted
    for unit, one in everything.items():
        assert not compares_all(one.adjacency), unit
        words = "friend" if unit in (NEIGHBOUR_LIST, RELATIONSHIP) else "two classes that follow"
        assert words in one.adjacency
    plain = Statement.of([asked().cost(), count_cost(1.0)]).guarantee()
    assert plain[RECORD].adjacency == WORDS[RECORD]
    assert plain[RELATIONSHIP].adjacency == WORDS[RELATIONSHIP]


def asked(who=None, epsilon=EPSILON):
    return Ask(
        GeneralizedRR(epsilon, CLASSES), np.ones(N, bool) if who is None else who, of="label"
    )


@pytest.mark.usefixtures("untyped")
def test_what_a_server_gets_wrong_is_refused(data, users, monkeypatch):
    answered = []
    real = Users.answer
    monkeypatch.setattr(Users, "answer", lambda *given: answered.append(0) or real(*given))
    run = lambda server: simulate(jax.random.key(1), server, users)
    for server, error, words in (
        (Wrong(NoTree(asked())), TypeError, "NoTree must be a pytree"),
        (Wrong(Told(asked(), more=print)), TypeError, "must hold arrays and numbers"),
        (Wrong(Told(asked(np.zeros(N, bool)))), ValueError, "asks nobody"),
        (Wrong(Told(asked(np.ones(3, bool)))), ValueError, rf"asked must be bool \[{N}\]"),
        (Wrong(Told(asked(np.ones(N)))), ValueError, rf"asked must be bool \[{N}\]"),
        (
            Wrong(Told(asked(), more=users.labels)),
            TypeError,
            "holds an array of the users' private data",
        ),
        (
            Wrong(Told(asked(), more=users.labels[5:9])),
            TypeError,
            "holds an array of the users' private data",
        ),
        (
            Wrong(Told(asked(), more=users.lists.senders)),
            TypeError,
            "holds an array of the users' private data",
        ),
        (Wrong(Told(asked(epsilon=1.5))), BudgetExceededError, "names no such answer"),
        (
            Wrong(Told(Ask(Laplace(EPSILON), np.ones(N, bool)))),
            BudgetExceededError,
            "names no such answer",
        ),
    ):
        with pytest.raises(error, match=words):
            run(server)
        assert not answered  # nobody was asked
    again = np.arange(N) < 2
    with pytest.raises(BudgetExceededError, match="exceeds the statement for 2 of its 2 users"):
        run(Wrong(Told(asked()), Told(asked(again))))
    assert len(answered) == 1


def test_an_epsilon_that_depends_on_private_data_exceeds_what_was_stated(users):
    """Personal budgets by the label: whatever they are, the statement was made without them."""
    secret = np.where(users.labels == 0, 2.0, 0.5).astype(np.float32)
    question = Ask(Laplace(jnp.asarray(secret)), np.ones(N, bool), of="label")
    stated = Cost(Laplace(0.5).guarantee())
    with pytest.raises(BudgetExceededError):
        simulate(jax.random.key(1), Wrong(Told(question), stated=stated), users)


def test_a_server_sees_nothing_but_answers(data, users, monkeypatch):
    """Answers replaced by public ones give one result, whatever users hold."""
    other = Users(
        labels=(data.y + 1) % CLASSES,
        lists=Users(lists=data.graph).shuffled(jax.random.key(4)).lists,
    )

    def public(users, key, question):
        like = (N, question.num_groups) if isinstance(question, CountQuestion) else (N,)
        values = np.arange(np.prod(like), dtype=np.int32).reshape(like) % CLASSES
        who = np.asarray(question.asked)
        return Answers(blanked(values, who), who)

    monkeypatch.setattr(Users, "answer", public)
    one, two = (simulate(jax.random.key(1), SERVER, who) for who in (users, other))
    np.testing.assert_array_equal(one.value, two.value)
    assert one.rounds == two.rounds


# --- Users ----------------------------------------------------------------------------------------


@pytree
class Reads:
    """Returns what a device is given."""

    asked: Any
    of: str = static(default="record")

    def cost(self):
        question = Ask(Laplace(EPSILON), self.asked) if self.of == "record" else asked()
        return count_cost(EPSILON) if self.of == "list" else question.cost()

    def answer(self, key, user):
        held = {"record": user.record, "label": user.label, "list": user.neighbours}
        given = [name for name, value in held.items() if value is not None]
        assert given == [self.of]
        return jax.tree.leaves(held[self.of])[-1]


def test_a_device_is_given_the_fields_that_the_cost_names_and_no_others(data):
    everything = Users(records=data.x.toarray()[:, 0], labels=data.y, lists=data.graph)
    everybody = np.ones(N, bool)
    degree = np.bincount(data.graph.receivers, minlength=N)
    for of, expected in (("record", data.x.toarray()[:, 0]), ("label", data.y), ("list", degree)):
        found = everything.answer(jax.random.key(0), Reads(everybody, of))
        np.testing.assert_allclose(found.values, expected)
    with pytest.raises(ValueError, match="users must hold what the question reads, and lack lists"):
        Users(labels=data.y).answer(jax.random.key(0), Reads(everybody, "list"))


def test_any_block_of_users_answers_the_same(data, monkeypatch):
    question = Ask(GeneralizedRR(EPSILON, CLASSES), np.ones(N, bool), of="label")
    held = Users(labels=data.y)
    whole = held.one_by_one(jax.random.key(5), question)
    monkeypatch.setattr("ldp_jax.servers.users._ROWS", 37)
    np.testing.assert_array_equal(held.one_by_one(jax.random.key(5), question), whole)
    np.testing.assert_array_equal(held.answer(jax.random.key(5), question).values, whole)


@pytest.mark.parametrize("once", [False, True])
def test_one_device_counts_as_all_are_counted_at_once(data, once):
    """Without noise the same numbers; with noise the same law: the chi-square statistic of 2 x 240
    x 40 reports is within 6 standard deviations (a shift of the noise by 0.03 would be found)."""
    rng = np.random.default_rng(0)
    groups = rng.integers(-1, CLASSES, N).astype(np.int32)
    silent = rng.random(N) < 0.2
    owners = ownership(rng.integers(0, 5, N) / 5, silent) if once else None
    question = CountQuestion(groups, ~silent, owners, num_groups=CLASSES, epsilon=EPSILON)
    held = Users(lists=data.graph)
    exact = question.exact()
    np.testing.assert_array_equal(
        held.one_by_one(jax.random.key(0), exact), exact.answer_all(jax.random.key(0), held)
    )
    counted = None if owners is None else owners.owns
    true = count_neighbours(Population.of(data.graph), groups, CLASSES, counted)
    np.testing.assert_array_equal(exact.answer_all(jax.random.key(0), held), true)
    tables = []
    for draw in (held.one_by_one, lambda key, question: question.answer_all(key, held)):
        noise = [
            np.asarray(draw(jax.random.key(seed), question))[~silent] - true[~silent]
            for seed in range(40)
        ]
        tables.append(np.bincount(np.clip(np.ravel(noise), -6, 6) + 6, minlength=13))
    one, two = tables
    statistic = ((one - two) ** 2 / np.maximum(one + two, 1)).sum()
    assert statistic < 12 + 6 * np.sqrt(24)


def test_default_users_draw_noise_of_their_own(data):
    """With additive noise the difference of both rows under one key would be the records."""
    held = Users(records=data.x.toarray()[:, 0].astype(np.float32))
    question = Ask(Laplace(EPSILON), np.ones(N, bool))
    key = jax.random.key(7)
    private = np.asarray(held.answer(key, question).values)
    public = np.asarray(held.public_record(0.0).answer(key, question).values)
    assert abs(np.corrcoef(private - data.x.toarray()[:, 0], public)[0, 1]) < 6 / np.sqrt(N)


def test_default_users_of_dense_records_draw_noise_of_their_own_one_by_one():
    """A question without a form for all users at once: histories of two rounds."""
    records = np.random.default_rng(0).uniform(-1, 1, (N, 2)).astype(np.float32)
    held = Users(records=records)
    server = RoundsServer(Laplace(EPSILON), N, 2)
    private, public = (
        simulate(jax.random.key(7), server, one).value for one in (held, held.public_record())
    )
    noise = (private - records.T).ravel()
    assert abs(np.corrcoef(noise, public.ravel())[0, 1]) < 6 / np.sqrt(2 * N)


def test_default_users_report_classes_with_noise_of_their_own(data):
    """Dense records have the public record's scores, by other keys than theirs."""
    labels = np.where(np.arange(N) % 3 == 0, data.y, -1)
    dense = data.x.toarray().astype(np.float32)
    given = (data.graph, dense[labels >= 0], labels)
    facts = panel_facts(jax.random.key(0), *given, num_classes=CLASSES, num_folds=2)
    question = ReportServer(facts, 0.5).question
    held = Users(records=dense)
    key = jax.random.key(1)
    default = held.public_record()
    same = question.reports(key, question.scores(default.records))
    found = np.asarray(default.answer(key, question).values)
    assert (found != np.where(np.asarray(question.asked), same, 0)).any()


def test_what_users_cannot_answer_is_refused_in_words_of_the_argument():
    """Tables in another order, a field that is no field, and a unit of nothing that users hold."""
    for name in ("records", "labels"):
        table = pd.Series([0.0, 1.0], index=[1, 0])
        with pytest.raises(ValueError, match=f"{name} must be in the order of nodes"):
            Users(**{name: table})
    with pytest.raises(ValueError, match="x must be in the order of nodes"):
        perturb(jax.random.key(0), pd.DataFrame(np.eye(2), index=[1, 0]), LaplaceVector(1.0, 2))
    with pytest.raises(ValueError, match="of must be one of record, label"):
        Ask(Laplace(1.0), np.ones(2, bool), of="labels")
    place = Guarantee(1.0, unit=Unit("location"), adjacency="any two places")
    with pytest.raises(ValueError, match="none of which is in the unit location"):
        Users(records=np.zeros(2)).only(Cost(place))


def test_what_users_hold_is_in_no_text(data):
    held = Users(records=np.full((N, 2), 0.123456), labels=data.y, lists=data.graph)
    assert repr(held) == f"Users({N} users with records, labels, lists)"
    with pytest.raises(
        ValueError, match=f"fields must be of the same users, got records of 3, labels of {N}"
    ):
        Users(records=np.zeros(3), labels=data.y)
    with pytest.raises(ValueError, match="users must hold"):
        Users()


@untyped
def test_unknown_labels_are_refused_where_they_are_asked_for():
    """They would count as the first class."""
    users = Users(labels=[0, 1, -1, 1], public=[False, False, False, True])
    assert users.shuffled(jax.random.key(0)).num_users == 4
    ask = lambda *who: Ask(GeneralizedRR(20.0, 2), np.isin(np.arange(4), who), of="label")
    for held in (users, users.exact()):
        with pytest.raises(ValueError, match="known, and some are -1"):
            held.answer(jax.random.key(0), held.put(ask(0, 1, 2)))
        found = held.answer(jax.random.key(0), held.put(ask(0, 1, 3)))
        assert found.values.tolist() == [0, 1, 0, 1]
    with pytest.raises(ValueError, match="masked, missing or NaN"):  # whoever is asked
        Users(labels=[0.0, 1.0, np.nan, 1.0]).answer(jax.random.key(0), ask(0, 1))


def test_a_role_of_some_users_is_kept_to(users):
    some = np.arange(N) < 10

    @dataclasses.dataclass(frozen=True)
    class Some(Wrong):
        def statement(self):
            return Statement.of(Role((self.stated,), some))

    assert simulate(jax.random.key(1), Some(Told(asked(some))), users).value == 0
    with pytest.raises(BudgetExceededError, match=f"for {N - 10} of its {N} users"):
        simulate(jax.random.key(1), Some(Told(asked())), users)


def test_a_share_of_malicious_users_is_rounded_to_the_nearest_number():
    for n, share in ((7, 0.1), (7, 0.25), (11, 0.2), (13, 0.35), (10, 0.28), (10, 0.99), (3, 0.5)):
        users = Users(labels=np.zeros(n, int))
        users = users.lying(jax.random.key(0), share, lambda *given: given[2])
        assert users.liars.sum() == round(share * n)


@pytest.mark.parametrize("seed", range(3))
def test_shuffled_users_hold_all_that_one_other_user_held(seed):
    """The permutation must not be its own inverse, which would hide a wrong direction."""
    n = 40
    rng = np.random.default_rng(seed)
    pairs = np.stack(np.triu_indices(n, 1), 1)
    graph = graphs.from_edges(pairs[rng.random(len(pairs)) < 0.2], n, pairs_in="rows")
    public = rng.random(n) < 0.2
    records = np.arange(n)[:, None] * np.ones(2)
    users = Users(records=records, labels=np.arange(n), lists=graph, public=public)
    found = users.shuffled(jax.random.key(seed))
    holder = np.asarray(found.labels)
    assert (holder[holder] != np.arange(n)).any()
    assert (holder[public] == np.flatnonzero(public)).all()
    np.testing.assert_array_equal(np.asarray(found.records)[:, 0], holder)
    friends = lambda lists, user: set(lists.senders[lists.receivers == user].tolist())
    for user in range(n):
        assert friends(found.lists, user) == friends(users.lists, holder[user]) - {user}


@pytest.mark.parametrize("some_public", [False, True])
def test_lists_within_the_graphs_of_a_set_are_dealt_out_within_each(some_public):
    """The graph of shuffled users has no self-loop, no edge twice and none between two graphs."""
    sizes = [12, 5, 30, 1]
    group = np.repeat(np.arange(4), sizes)
    pairs = np.stack(np.triu_indices(len(group), 1), 1)
    pairs = pairs[group[pairs[:, 0]] == group[pairs[:, 1]]]
    rng = np.random.default_rng(0)
    pairs = pairs[rng.random(len(pairs)) < 0.4]
    both = np.concatenate([pairs, pairs[:, ::-1]])
    nothing = np.zeros(4, int)
    held = graphs.GraphSet.from_edges(both[:, 0], both[:, 1], group, nothing)
    public = (rng.random(len(group)) < 0.3) & some_public
    users = Users(records=np.arange(len(group)), lists=held, public=public)
    dealt = users.shuffled(jax.random.key(0))
    holder = np.asarray(dealt.records)
    assert (holder != np.arange(len(group))).any()
    assert (group[holder] == group).all()
    assert (holder[public] == np.flatnonzero(public)).all()
    server = ListServer(RandomizedResponse(20.0), dataclasses.replace(held, **_NO_EDGES))
    found = simulate(jax.random.key(1), server, dealt).value.graph
    ends = np.stack([found.senders, found.receivers], 1)
    assert len(np.unique(ends, axis=0)) == len(ends) > 0.8 * len(both)
    assert (ends[:, 0] != ends[:, 1]).all()
    assert (group[ends[:, 0]] == group[ends[:, 1]]).all()


def test_records_of_every_form_are_shuffled_cut_and_stood_in_for():
    """Dense rows, sparse rows of a classifier, and rows that become dense a few at a time."""
    sizes = {"num_nodes": 30, "num_classes": 3, "num_features": 12, "mean_degree": 2}
    data = datasets.synthetic(jax.random.key(3), **sizes, homophily=0.5)
    x = data.x.toarray()

    def rows_of(source):
        return source.scaled_rows(0, 30) if hasattr(source, "scaled_rows") else np.asarray(source)

    for records, dense in (
        (x, np.asarray),
        (feature_rows(x), lambda rows: np.asarray(rows.dense())),
        (data, rows_of),
    ):
        found = Users(records=records, labels=np.arange(30)).shuffled(jax.random.key(4))
        holder = np.asarray(found.labels)
        assert (holder[holder] != np.arange(30)).any()
        np.testing.assert_array_equal(dense(found.records), dense(records)[holder])
        for start, stop in ((0, 7), (7, 30), (12, 12)):
            some = of_records.rows(records, start, stop)
            np.testing.assert_array_equal(some, dense(records)[start:stop])
        alike = of_records.public_record(records, 0.25)
        assert (of_records.count(records), of_records.count(alike)) == (30, 30)
        value = 0.0 if isinstance(records, Rows) else 0.25  # rows of a classifier hold nothing
        np.testing.assert_array_equal(of_records.rows(alike, 3, 7), np.full((4, 12), value))


@pytest.mark.parametrize("before", [0.25, 1.0])
def test_a_budget_holds_what_users_lost_before_and_nothing_less(users, before, monkeypatch):
    """The epsilons of both protocols add up; one that is too small is refused before an answer."""
    earlier = Share(GeneralizedRR(before, CLASSES), N).statement()
    now = Share(GeneralizedRR(0.5, CLASSES), N)
    ask = lambda epsilon, **given: simulate(
        jax.random.key(1), now, users, [Budget(epsilon), Budget(epsilon, unit=LABEL)], **given
    )
    assert ask(0.5 + before, history=earlier).guarantee[LABEL].epsilon > 0.5
    ask(0.5)
    monkeypatch.setattr(Users, "answer", lambda *_: pytest.fail("asked beyond the budget"))
    for short in (0.5, before, 0.5 + before - 0.01):
        with pytest.raises(BudgetExceededError):
            ask(short, history=earlier)


@untyped
def test_a_key_that_is_traced_or_of_another_kind_asks_nobody():
    users = Users(records=np.zeros(N), labels=np.zeros(N, int))
    run = lambda key: simulate(key, SERVER, users).value
    with pytest.raises(ValueError, match="key must be concrete: simulate is called"):
        jax.jit(run)(jax.random.key(0))
    for key in (0, jax.random.key(0, impl="rbg")):
        with pytest.raises(ValueError, match="key must be a t"):
            run(key)
