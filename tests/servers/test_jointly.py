"""Records, lists and labels private at once, by reports of each or one of both: what it says,
spends, refuses.
"""

import dataclasses
from fractions import Fraction

import jax
import numpy as np
import pytest

from ldp_jax.accounting.guarantee import LABEL, NEIGHBOUR_LIST, RECORD, RELATIONSHIP, Budget
from ldp_jax.accounting.ledger import BudgetExceededError, Ledger
from ldp_jax.accounting.statement import RECORD_AND_BIT, RECORD_AND_LIST
from ldp_jax.deployment import Device, Friends, Session, report_class
from ldp_jax.deployment.store import ReportStore
from ldp_jax.edges import Population
from ldp_jax.features import PersonalAlphabets
from ldp_jax.graph import graphs
from ldp_jax.servers import (
    Answers,
    CountQuestion,
    JointPrivacy,
    JointServer,
    StatedFriends,
    StoredUsers,
    Users,
    joint_facts,
    predict_jointly,
    rehearse,
    serve,
    simulate,
)
from ldp_jax.servers.from_both import checked_members
from ldp_jax.servers.parts.rows import feature_rows
from tests.servers.planted import blocks

N, PANEL, FOLDS, TOTAL = (
    600,
    150,
    4,
    4.0,
)  # the users and folds of other files, whose programs serve here
BOTH, WHOLE_LIST = RECORD_AND_BIT, RECORD_AND_LIST


@pytest.fixture(scope="module")
def data():
    """Records that half tell the class, friends that are mostly alike."""
    return blocks(n=N, clarity=1.5)


def predicted(data, privacy, key=0, **changes):
    graph, y, x = data
    given = {"num_classes": 3, "num_folds": FOLDS, **changes}
    features = given.pop("features", x)
    return predict_jointly(
        jax.random.key(key),
        graph,
        features,
        np.arange(PANEL),
        given.pop("labels", y[:PANEL]),
        privacy,
        **given,
    )


def right(log_p, y):
    return (np.asarray(log_p).argmax(1) == y)[PANEL:].mean()


def watched(monkeypatch):
    """Who is asked for counts, at which epsilon, and how often records are."""
    lists, records = [], []
    answer = Users.answer

    def answered(users, key, question):
        of_lists = isinstance(question, CountQuestion)
        (lists if of_lists else records).append(
            (question.cost().guarantee.epsilon, np.array(question.asked))
        )
        return answer(users, key, question)

    monkeypatch.setattr(Users, "answer", answered)
    return lists, records


def test_every_user_stays_within_the_total_and_both_reports_help(data, monkeypatch):
    """One private record is NaN, which is read as 0."""
    _, y, x = data
    lists, records = watched(monkeypatch)
    told = []
    privacy = JointPrivacy.split(TOTAL, 0.5)
    assert privacy == JointPrivacy(2.0, 2.0)
    nan = np.where(np.arange(N)[:, None] == PANEL + 3, np.nan, x)
    found = predicted(data, privacy, features=nan, progress=lambda *now: told.append(now))
    assert told == sorted(told, key=lambda now: now[1])
    assert any("round 3" in words for words, _ in told)
    # Who reported what, exactly: a list once, the panel's records never.
    spent = np.zeros(N)
    for epsilon, reporters in lists:
        spent[reporters] += epsilon
    assert set(spent) == {lists[0][0]}
    assert 1.999 < lists[0][0] <= 2.0
    np.testing.assert_array_equal(found.round, np.where(lists[0][1], 1, 2))
    ((record, who),), guarantee = records, found.guarantee
    np.testing.assert_array_equal(who, np.arange(N) >= PANEL)
    assert (np.where(who, record, 0.0) + spent).max() <= TOTAL
    assert record <= guarantee[RECORD].epsilon <= privacy.record
    assert guarantee[NEIGHBOUR_LIST].epsilon == pytest.approx(2.0, rel=1e-6)
    assert guarantee[RELATIONSHIP].epsilon == pytest.approx(4.0, rel=1e-6)
    assert 3.99 < guarantee[BOTH].epsilon <= TOTAL
    assert LABEL not in guarantee
    assert {"features of private users", "edges"} == set(guarantee.protected)
    assert {"the panel's records", "the panel's labels"} < set(guarantee.unprotected)
    budgets = [
        Budget(TOTAL),
        Budget(TOTAL, unit=NEIGHBOUR_LIST),
        Budget(2 * TOTAL, unit=RELATIONSHIP),
    ]
    ledger = Ledger([*budgets, Budget(TOTAL, unit=BOTH)]).spend("joint", found)
    with pytest.raises(BudgetExceededError):
        ledger.spend("joint again", found)
    alone = predicted(data, JointPrivacy(2.0, 0.0))
    assert right(alone.log_posterior, y) > 0.5
    assert right(found.log_posterior, y) > right(alone.log_posterior, y) + 0.03
    np.testing.assert_allclose(np.exp(np.asarray(found.log_posterior)).sum(1), 1.0, atol=1e-4)
    assert (alone.counts, alone.round.any(), alone.strength, alone.reason) == (
        None,
        False,
        1.0,
        "records alone",
    )
    assert set(alone.guarantee) == {RECORD}


def test_private_labels_cost_a_line_of_their_own(data):
    _, y, _ = data
    privacy = JointPrivacy(2.5, 1.5, labels=2.5)
    found = predicted(data, privacy)
    guarantee = found.guarantee
    assert 2.49 < guarantee[LABEL].epsilon <= 2.5
    assert guarantee[RECORD].epsilon <= 2.5
    assert 3.99 < guarantee[BOTH].epsilon <= TOTAL
    assert "the panel's labels" in guarantee.protected
    assert right(found.log_posterior, y) > 0.5


def test_lists_that_no_reported_label_can_count_with_are_left_out_and_stated_all_the_same(data):
    """Three members: whether a report of each class is among theirs is by their labels, the
    guarantee is not.
    """
    graph, y, x = data
    members = np.array([np.flatnonzero(y == c)[0] for c in range(3)])
    privacy = JointPrivacy(2.0, 2.0, labels=0.5)
    left_out = []
    for key in range(6):
        found = predict_jointly(
            jax.random.key(key),
            graph,
            x,
            members,
            y[members],
            privacy,
            num_classes=3,
            num_folds=FOLDS,
        )
        left_out.append((found.counts is None, found.reason))
        assert found.guarantee[BOTH].epsilon == pytest.approx(4.0, abs=1e-6)
        assert found.guarantee[RELATIONSHIP].epsilon == pytest.approx(4.0, rel=1e-6)
    said = {f"records alone: nobody of class {one} is left to count with" for one in range(3)}
    for nothing, reason in left_out:
        assert (reason in said) if nothing else (reason == "records and lists")
    assert {nothing for nothing, _ in left_out} == {False, True}


def test_lists_of_nobody_are_not_believed():
    """Friends at random: beside 36 members."""
    graph, y, x = blocks(n=N, clarity=1.5, homophily=0.0)
    members = np.concatenate([np.flatnonzero(y == c)[:12] for c in range(3)])
    found = predict_jointly(
        jax.random.key(0), graph, x, members, y[members], JointPrivacy(0.04, 3.96), num_folds=FOLDS
    )
    assert np.abs(np.asarray(found.log_posterior) - np.asarray(found.log_prior)).mean() < 0.3


def test_records_of_somebody_else_are_not_believed(data):
    _, y, x = data
    order = np.arange(N)
    order[PANEL:] = np.random.default_rng(0).permutation(order[PANEL:])
    privacy = JointPrivacy.split(TOTAL, 0.5)
    true, placebo = (predicted(data, privacy, features=given) for given in (x, x[order]))
    assert true.strength > 0.5 > placebo.strength
    lists = predicted(data, JointPrivacy(0.0, TOTAL / 2))
    assert right(placebo.log_posterior, y) > right(lists.log_posterior, y) - 0.15
    assert RECORD not in lists.guarantee
    assert lists.strength == 0.0


@pytest.mark.usefixtures("untyped")
def test_what_is_wrong_is_refused_before_anybody_reports(data, monkeypatch):
    graph, y, x = data
    refuse = lambda *_, **__: pytest.fail("asked, although the arguments are wrong")
    monkeypatch.setattr(Users, "answer", refuse)
    monkeypatch.setattr(PersonalAlphabets, "privatize", refuse)
    members = np.arange(PANEL)
    labels = y[:PANEL]
    privacy = JointPrivacy(2.0, 2.0)
    private = {"privacy": JointPrivacy(2.0, 2.0, labels=1.0), "num_classes": 3}
    for changes, message in (
        ({"labels": np.where(labels == 1, 0, labels)}, "got none of class 1: give num_classes=3"),
        ({"panel": members // 2}, "each of its members once"),
        ({"features": x[:-1]}, "features must have a row for each of 600 users"),
        ({"features": np.where(np.arange(N)[:, None] == 3, np.nan, x)}, "features must be finite"),
        (private | {"num_classes": None}, "num_classes must be given where labels are private"),
        (private | {"panel": members[:0], "labels": labels[:0]}, "panel must have at least"),
        ({"lists": graphs.from_edges([[0, 1]], 3)}, r"panel must name nodes in \[0, 3\)"),
    ):
        given = {
            "lists": graph,
            "features": x,
            "panel": members,
            "labels": labels,
            "privacy": privacy,
            **changes,
        }
        with pytest.raises(ValueError, match=message):
            predict_jointly(jax.random.key(0), **given)


@pytest.mark.usefixtures("untyped")
def test_budgets_that_are_none():
    for made, message in (
        (lambda: JointPrivacy(21.0, 0.0), "record must be"),
        (lambda: JointPrivacy(1.0, 1e-4), "list must be 0 or at least 0.001"),
        (lambda: JointPrivacy(0.0, 0.0), "nothing is asked for"),
        (lambda: JointPrivacy(2.0, 2.0, labels=0.0), "labels must be"),
        (lambda: JointPrivacy(1.0, 1.0, check=0.6), "check must be in"),
        (
            lambda: JointPrivacy(1.0, 1.0, 2.0, check=0.1),
            "check must be 0 where labels are private",
        ),
        (lambda: JointPrivacy(record=1.0, both=1.0), "must be 0"),
        (lambda: JointPrivacy(list=1.0, both=1.0), "must be 0"),
        (lambda: JointPrivacy(labels=1.0, both=1.0), "labels None"),
        (lambda: JointPrivacy(both=21.0), "both"),
        (lambda: JointPrivacy.split(21.0, 0.5), "total must be"),
        (lambda: JointPrivacy.split(2.0, 1.5), "share must be"),
    ):
        with pytest.raises(ValueError, match=message):
            made()
    for total in (0.1, 0.3, 0.7, 19.9):
        for share in (1.0, 0.9, 1 / 3, 0.0):
            made = JointPrivacy.split(total, share)
            assert Fraction(made.record) + Fraction(made.list) <= Fraction(total)
            assert made.record + made.list == pytest.approx(total)


def test_a_check_of_the_panel_tells_reports_of_somebody_elses_record(data, monkeypatch):
    """Records and lists of private users and of the check dealt out among them: nothing of either
    is believed.

    True ones lose no more than a sixth of the panel does.
    """
    graph, y, x = data
    privacy = JointPrivacy(8.0, 8.0, check=1 / 6)
    check = checked_members(np.arange(PANEL), privacy.check)
    assert len(check) == PANEL // 6
    lists, _ = watched(monkeypatch)
    honest = predicted(data, privacy)
    assert honest.strength > 0.9
    assert (
        right(honest.log_posterior, y)
        > right(predicted(data, JointPrivacy(8.0, 8.0)).log_posterior, y) - 0.05
    )
    spent = sum(reporters.astype(int) for _, reporters in lists[:2])
    assert (spent[check] == 1).all()  # they report a list as everybody does
    dealt = np.arange(N)
    others = np.setdiff1d(np.arange(N), np.setdiff1d(np.arange(PANEL), check))
    dealt[others] = np.random.default_rng(0).permutation(others)
    wrong = (
        graphs.from_edges(dealt[graphs.to_edges(graph)], N),
        y,
        x[np.random.default_rng(1).permutation(N)],
    )
    wrong[2][:PANEL] = np.where(
        np.isin(np.arange(PANEL), check)[:, None], wrong[2][:PANEL], x[:PANEL]
    )
    nothing = (y[PANEL:] == np.bincount(y[:PANEL]).argmax()).mean()
    fooled = predicted(wrong, privacy)
    assert fooled.strength < 0.2
    assert right(fooled.log_posterior, y) > nothing - 0.02


def test_a_check_leaves_somebody_of_the_panel(data):
    with pytest.raises(ValueError, match="check of 0.005 leaves nobody of a panel of 150"):
        predicted(data, JointPrivacy(1.0, 1.0, check=0.005))


def asked(data, x, graph):
    """One message of other records and lists, beside the panel of ``data``."""
    _, y, first_x = data
    labels = np.where(np.arange(N) < PANEL, y, -1)
    facts = joint_facts(
        jax.random.key(1),
        feature_rows(first_x).take(np.arange(PANEL)),
        labels,
        num_classes=3,
        num_folds=FOLDS,
    )
    users = Users(records=feature_rows(x), lists=graph)
    found = simulate(jax.random.key(2), JointServer(JointPrivacy(both=TOTAL), facts), users).value
    return found.log_posterior, found.round == 1


def test_a_check_is_spread_evenly_over_the_panel():
    """Of each 1 / share members the last one, by their nodes, whatever the order."""
    panel = np.array([9, 2, 30, 4, 17, 5, 21])
    for share in (0.0, 0.1, 0.3, 0.5):
        places = [k for k in range(7) if int((k + 1) * share) > int(k * share)]
        assert checked_members(panel, share).tolist() == np.sort(panel)[places].tolist()
    for share in (-0.1, 0.51):
        with pytest.raises(ValueError, match="share must be"):
            checked_members(panel, share)


def test_friends_say_what_records_do_not_and_strangers_nothing(data):
    graph, y, x = data
    found = predicted(data, JointPrivacy(both=TOTAL))
    alone = predicted(data, JointPrivacy(record=TOTAL))
    assert right(found.log_posterior, y) > right(alone.log_posterior, y) + 0.05
    strangers = blocks(n=N, homophily=0.0, seed=1)[0]
    told = predicted((strangers, y, x), JointPrivacy(both=TOTAL))
    assert right(told.log_posterior, y) < right(found.log_posterior, y) - 0.05
    assert found.counts is None
    assert set(found.round[:PANEL]) == {1}
    assert 0.4 < (found.round[PANEL:] == 1).mean() < 0.6
    assert found.strength == 1.0


def test_what_arrives_in_the_name_of_the_panel_is_not_read(data):
    """Of records, members of every class among them; what is asked next and known is the same."""
    graph, y, x = data
    labels = np.where(np.arange(N) < PANEL, y, -1)
    facts = joint_facts(
        jax.random.key(1), feature_rows(x[:PANEL]), labels, num_classes=3, num_folds=FOLDS
    )
    server = JointServer(JointPrivacy(2.0, 2.0), facts)
    state = server.init(jax.random.key(2))
    users = Users(records=feature_rows(x), lists=graph)
    answers = users.answer(jax.random.key(3), state.question)
    found = server.step(state, answers)
    panel = np.arange(N) < PANEL
    changed = np.where(panel, 0, answers.values)
    again = server.step(state, Answers(changed, np.asarray(answers.reported) | panel))
    jax.tree.map(np.testing.assert_array_equal, again.own, found.own)
    assert np.abs(found.own).max() > 0.1


def test_one_device_answers_of_both_what_all_answer_at_once(data, monkeypatch):
    """With noise and without, members of the panel among them."""
    kept = []
    answer = Users.answer
    monkeypatch.setattr(
        Users, "answer", lambda *given: kept.append((given[0], given[2])) or answer(*given)
    )
    predicted(data, JointPrivacy(both=TOTAL))
    for users, question in kept:
        for asked in (question, question.exact()):
            once = users.one_by_one(jax.random.key(7), asked)
            np.testing.assert_array_equal(once, asked.answer_all(jax.random.key(7), users))


def test_devices_report_one_class_of_both(data, tmp_path):
    """Their class before noise is that of the simulation, of members of the panel too; what is
    served is what is simulated of the same reports.
    """
    graph, y, x = data
    labels = np.where(np.arange(N) < PANEL, y, -1)
    shown = feature_rows(x[:PANEL])
    facts = joint_facts(jax.random.key(1), shown, labels, num_classes=3, num_folds=FOLDS)
    server = JointServer(JointPrivacy(both=TOTAL), facts)
    lists = Population.of(graph)
    service = serve(server, ReportStore(tmp_path), users=N, key=jax.random.key(2))
    while service.released is None:
        question = service.question
        reported = {table.outputs: table for table in question.forms()}
        sent = dict.fromkeys(reported, b"")
        friends = Friends.from_bytes(question.shipped(0)[2].to_bytes())
        scores = np.zeros((N, 3), np.float32)
        best = np.zeros(N, int)
        for user in np.flatnonzero(service.asked).tolist():
            classifier, alphabet, _ = question.shipped(user)
            mine = lists.senders[lists.receivers == user].tolist()
            own = classifier.scores(x[user]) + friends.scores(mine, user=user)
            scores[user] = own
            best[user] = alphabet.members[alphabet.place(own)]
            session = Session(Device.from_secret(np.random.default_rng(user).bytes(32)), budget=4.0)
            given = {"user": user, "round": service.round, "friends": friends, "neighbours": mine}
            data = report_class(session, classifier, alphabet, x[user], **given)
            sent[len(alphabet.members)] += data
        asked = np.asarray(service.asked)
        told = np.asarray(question.of_record.classifier.scores(feature_rows(x)))
        told = np.where(np.asarray(question.known)[:, None], question.scores, told)
        kept = np.asarray(question.friends)[lists.senders]
        np.add.at(told, lists.receivers, kept)
        np.testing.assert_allclose(scores[asked], told[asked], rtol=1e-4, atol=1e-4)
        alike = (best == np.asarray(question.of_record.alphabets.best(told)))[asked]
        assert alike.mean() > 0.99  # but for ties of rounding
        for size, reports in sent.items():
            service.store.add(reports, reported[size])
        service.close_round()
    found = service.released
    again = simulate(jax.random.key(2), server, StoredUsers(service.store, N))
    np.testing.assert_array_equal(found.value.log_posterior, again.value.log_posterior)
    assert [one.reported for one in found.rounds] == [one.asked for one in found.rounds]
    assert sum(one.asked for one in found.rounds) == N
    assert found.rounds[1].download > 4 * 3 * N  # the evidence of everybody
    assert found.guarantee[WHOLE_LIST].epsilon <= TOTAL
    users = Users(records=feature_rows(x), lists=graph)
    simulated = simulate(jax.random.key(2), server, users).value
    accuracy = right(simulated.log_posterior, y)
    assert right(found.value.log_posterior, y) == pytest.approx(accuracy, abs=0.1)
    with pytest.raises(ValueError, match="nodes must be 0 to 599"):
        service.question.read(np.arange(N) + 1, [])


def test_record_and_whole_list_cost_the_total_once(data):
    guarantee = predicted(data, JointPrivacy(both=TOTAL)).guarantee
    units = {RECORD, NEIGHBOUR_LIST, BOTH, WHOLE_LIST}
    assert set(guarantee) == {*units, RELATIONSHIP}
    assert {guarantee[unit].epsilon for unit in units} == {guarantee[BOTH].epsilon}
    assert TOTAL - 1e-6 < guarantee[BOTH].epsilon <= TOTAL
    assert guarantee[RELATIONSHIP].epsilon == pytest.approx(
        2 * TOTAL
    )  # two members of the panel read each other
    assert set(guarantee.protected) == {"features of private users", "edges"}
    # Two reports add to it bit by bit; a budget of whole lists they refuse, of which they say
    # nothing.
    two = predicted(data, JointPrivacy.split(TOTAL, 0.5)).guarantee
    assert "one bit" in (guarantee[BOTH] + two[BOTH]).adjacency
    assert "two neighbour lists" not in (guarantee[BOTH] + two[BOTH]).adjacency
    with pytest.raises(ValueError, match="whole neighbour list"):
        Ledger([Budget(3 * TOTAL, unit=WHOLE_LIST)]).spend("one", guarantee).spend("two", two)


def test_nothing_but_the_report_leaves_a_device(data, monkeypatch):
    """The same reports from other records and other lists of everybody give the same numbers, bit
    for bit.
    """
    graph, _, x = data
    reports = np.arange(N, dtype=np.int32) % 2
    monkeypatch.setattr(
        PersonalAlphabets, "privatize", lambda self, key, classes: jax.device_put(reports)
    )
    rng = np.random.default_rng(0)
    others = np.where(np.arange(N)[:, None] < PANEL, x, rng.normal(size=x.shape))
    found = asked(data, x, graph)
    again = asked(data, others, graphs.from_edges([[0, PANEL]], N))
    for one, other in zip(found, again, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_first_half_reads_the_panel_alone_and_the_second_the_first(data, monkeypatch):
    graph, _, x = data
    best = PersonalAlphabets.best
    calls = []
    monkeypatch.setattr(
        PersonalAlphabets, "best", lambda self, scores: calls.append(scores) or best(self, scores)
    )
    _, first = asked(data, x, graph)
    ends = graphs.to_edges(graph)
    halves = first.astype(int) + (
        np.arange(N) < PANEL
    )  # 0: the second half, 1: the first, 2: the panel
    asked(data, x, graphs.from_edges(ends[halves[ends].max(1) == 2], N))
    np.testing.assert_array_equal(
        calls[0][first], calls[2][first]
    )  # what panels read, and nothing else
    asked(data, x, graphs.from_edges(ends[halves[ends].max(1) >= 1], N))
    np.testing.assert_array_equal(calls[1][~first], calls[5][~first])
    assert (calls[1] != calls[3])[~first].any()


def test_a_check_tells_one_report_of_somebody_else(data):
    """Records and lists of the check and of private users are dealt out among them."""
    graph, y, x = data
    privacy = JointPrivacy(both=TOTAL, check=0.2)
    order = np.arange(N)
    members = np.append(np.arange(PANEL)[4::5], np.arange(PANEL, N))
    order[members] = np.random.default_rng(0).permutation(members)
    dealt = graphs.from_edges(np.argsort(order)[graphs.to_edges(graph)], N)
    true = predicted(data, privacy)
    wrong = predicted((dealt, y, x[order]), privacy)
    assert true.strength > 0.8
    assert wrong.strength < 0.3


@pytest.mark.parametrize("homophily", [-0.1, 1.0, np.nan])
def test_a_homophily_that_is_no_share_or_that_nothing_reads_is_refused(data, homophily):
    with pytest.raises(ValueError, match=r"homophily must be in \[0, 1\)"):
        predicted(data, JointPrivacy(both=1.0), homophily=homophily)
    with pytest.raises(ValueError, match="nothing else reads it"):
        predicted(data, JointPrivacy(record=1.0), homophily=homophily)


def test_facts_of_friendships_that_were_stated_are_named_as_public(data):
    """No budget pays for them: neither for those that chose a split, nor for those that read
    friends.
    """
    graph, y, x = data
    labels = np.where(np.arange(N) < PANEL, y, -1)
    facts = joint_facts(
        jax.random.key(0), feature_rows(x[:PANEL]), labels, num_classes=3, num_folds=FOLDS
    )
    told = rehearse(jax.random.key(1), facts, (TOTAL,), friends=StatedFriends(10.0, 0.6), worlds=2)
    assert "10 friends and homophily 0.6 as stated, public" in str(told)
    chosen = told.splits[0]
    checked = dataclasses.replace(chosen, check=0.2)  # the rest of the choice is kept
    for privacy in (chosen, checked):
        shown = predicted(data, privacy).guarantee.unprotected
        assert shown.count("mean degree and homophily: public") == 1
    own = JointPrivacy(both=TOTAL)
    assert predicted(data, own, homophily=0.3).guarantee.unprotected[-1] == "homophily: public"
    for privacy in (own, JointPrivacy(record=TOTAL)):
        assert not any(
            "homophily" in field for field in predicted(data, privacy).guarantee.unprotected
        )
