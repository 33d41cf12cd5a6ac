"""What every server of the library promises, asked of each of them; a new one is a line in
SERVERS.
"""

import dataclasses
import inspect

import jax
import numpy as np
import pytest

from ldp_jax import servers
from ldp_jax.core import random
from ldp_jax.edges import DPRR, RandomizedResponse
from ldp_jax.features import HDS, GeneralizedRR, Sampled
from ldp_jax.graph.propagation import operator
from ldp_jax.servers import (
    Answers,
    CountServer,
    EmbeddingServer,
    JointPrivacy,
    JointServer,
    LabelledReportServer,
    LabelServer,
    LDPGenServer,
    LinkServer,
    ListServer,
    Released,
    ReportServer,
    RoundsServer,
    Share,
    StarServer,
    TriangleServer,
    Users,
    count_facts,
    joint_facts,
    panel_facts,
    saved,
    simulate,
)
from ldp_jax.servers.driver import State, check_state
from ldp_jax.servers.links import LinkFacts
from ldp_jax.servers.lists import PublicLists
from ldp_jax.servers.parts.rows import feature_rows
from tests.servers.planted import blocks, some_labels

N, PANEL, CLASSES, FOLDS = (
    600,
    150,
    3,
    4,
)  # the users and folds of other files, whose programs serve here
GRAPH, Y, X = blocks(n=N, degree=8.0, clarity=1.5)
ROWS = feature_rows(X)
RECORDS = np.clip(X / 4, -1, 1)
MEMBERS = np.arange(N) < PANEL
SHOWN = np.where(MEMBERS, Y, -1)
GIVEN = {"num_classes": CLASSES, "num_folds": FOLDS}
SOME = some_labels(Y, 0.25)


def of_panel():
    return panel_facts(jax.random.key(1), GRAPH, ROWS.take(np.arange(PANEL)), SHOWN, **GIVEN)


def of_both():
    return joint_facts(jax.random.key(2), ROWS.take(np.arange(PANEL)), SHOWN, **GIVEN)


def entries_of(members):
    """The entries of the lists of some users."""
    entries = np.stack([np.asarray(GRAPH.receivers), np.asarray(GRAPH.senders)], 1)
    return entries[np.isin(entries[:, 0], members)]


FEW = np.arange(40)
PILOT = LinkFacts(np.log(np.where(np.eye(CLASSES)[Y] > 0, 0.8, 0.1)), SOME, FEW, entries_of(FEW))
HISTORIES = np.random.default_rng(1).integers(0, CLASSES, (N, 3))
PAIRS = np.random.default_rng(0).integers(0, N, (200, 2))

SERVERS = {
    "Share": (lambda: Share(GeneralizedRR(1.0, CLASSES), N), Users(labels=Y)),
    "EmbeddingServer": (
        lambda: EmbeddingServer(operator(GRAPH), HDS(2.0, CLASSES, 1), 0.2, 0.5),
        Users(records=RECORDS),
    ),
    "LabelServer": (lambda: LabelServer(MEMBERS, CLASSES, 2.5), Users(labels=Y)),
    "ReportServer": (lambda: ReportServer(of_panel(), 2.0), Users(records=ROWS)),
    "LabelledReportServer": (
        lambda: LabelledReportServer(
            GRAPH, ROWS.take(np.arange(PANEL)), LabelServer(MEMBERS, CLASSES, 2.5), 2.0, FOLDS
        ),
        Users(records=ROWS, labels=Y),
    ),
    "CountServer": (
        lambda: CountServer(count_facts(jax.random.key(3), ROWS, SOME, **GIVEN), 1.0),
        Users(lists=GRAPH),
    ),
    "CountServer by pair": (
        lambda: CountServer(
            count_facts(jax.random.key(3), ROWS, SOME, **GIVEN), 1.0, "relationship"
        ),
        Users(lists=GRAPH),
    ),
    "JointServer": (
        lambda: JointServer(JointPrivacy(record=2.0, list=1.0), of_both()),
        Users(records=ROWS, lists=GRAPH),
    ),
    "JointServer of one report": (
        lambda: JointServer(JointPrivacy(both=3.0), of_both()),
        Users(records=ROWS, lists=GRAPH),
    ),
    "RoundsServer": (
        lambda: RoundsServer(GeneralizedRR(1.0, CLASSES), N, rounds=3),
        Users(records=HISTORIES),
    ),
    "RoundsServer of a permanent answer": (
        lambda: RoundsServer(GeneralizedRR(1.0, CLASSES), N, rounds=3, permanent="class"),
        Users(records=HISTORIES),
    ),
    "ListServer": (lambda: ListServer(RandomizedResponse(3.0), N), Users(lists=GRAPH)),
    "ListServer of half lists": (
        lambda: ListServer(
            DPRR(0.5, 2.0, reporting="half"), N, PublicLists(np.arange(N) < 40, entries_of(FEW))
        ),
        Users(lists=GRAPH, public=np.arange(N) < 40),
    ),
    "LDPGenServer": (lambda: LDPGenServer(N, 1.0, 1.0), Users(lists=GRAPH)),
    "TriangleServer": (lambda: TriangleServer(N, 1.0, 1.0, bound=20), Users(lists=GRAPH)),
    "TriangleServer of a private bound": (
        lambda: TriangleServer(N, 1.0, 2.0, epsilon_degree=0.5),
        Users(lists=GRAPH),
    ),
    "StarServer": (lambda: StarServer(N, 1.0, k=3, epsilon_degree=0.5), Users(lists=GRAPH)),
    "LinkServer": (
        lambda: LinkServer(PILOT, 1.0, PAIRS),
        Users(lists=GRAPH, public=np.arange(N) < 40),
    ),
}


@pytest.fixture(scope="module", params=list(SERVERS))
def protocol(request):
    """A server, its users, and what ``simulate`` gives."""
    make, users = SERVERS[request.param]
    server = make()
    return server, users, simulate(jax.random.key(0), server, users)


def test_every_server_is_asked():
    """A class of the house that has the three methods of a server is a line above."""
    there = {name for name in servers.__all__ if inspect.isclass(getattr(servers, name))}
    methods = ("statement", "init", "step")
    found = {name for name in there if all(hasattr(getattr(servers, name), one) for one in methods)}
    assert found - {"Server"} == {type(make()).__name__ for make, _ in SERVERS.values()}


def run(server, users, seen=lambda answers: answers, kept=lambda state: state):
    """What ``simulate`` does, with answers and states as they are ``seen`` and ``kept``."""
    server_key, users_key = random.split(jax.random.key(0))
    made = server.init(server_key)
    number = 0
    while isinstance(made, State):
        check_state(made, users)
        state = kept(made)
        made = server.step(
            state, seen(users.answer(random.fold_in(users_key, number), state.question))
        )
        number += 1
    return made


def same(one, other):
    """Whether two results have the same numbers."""
    pairs = zip(leaves(one), leaves(other), strict=True)
    return all(np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind == "f") for a, b in pairs)


def leaves(value):
    """The arrays of a result, which need not be a pytree."""
    if dataclasses.is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return [leaf for part in value.values() for leaf in leaves(part)]
    return [
        leaf
        for leaf in jax.tree.leaves(value)
        if isinstance(leaf, (np.ndarray, jax.Array, float, int))
    ]


def has_bytes(question):
    """Whether devices can answer: by integer tables, lists by randomised response alone."""
    made = getattr(question, "mechanism", None)
    return not isinstance(made, (Sampled, DPRR))


def test_a_server_that_was_killed_between_any_two_rounds_goes_on(protocol):
    """Its state goes through bytes before each step: the result has the same bits.

    Devices are sent the open question as bytes, unless a mechanism has none.
    """
    server, users, whole = protocol
    sizes = []

    def through_bytes(state):
        if has_bytes(state.question):
            for form in state.question.forms():
                assert type(form).from_bytes(form.to_bytes()) == form
            assert not state.question.read(np.arange(N), []).reported.any()
        data = saved.to_bytes(state)
        sizes.append(len(data))
        return saved.from_bytes(data)

    read = lambda answers: saved.from_bytes(saved.to_bytes(answers))
    assert same(run(server, users, seen=read, kept=through_bytes), whole.value)
    assert len(sizes) == len(whole.rounds)


def test_a_result_is_read_as_it_was(protocol):
    """Classes, costs and versions; a server that is made anew has the same fingerprint."""
    server, _, whole = protocol
    read = Released.from_bytes(whole.to_bytes())
    assert read.to_bytes() == whole.to_bytes()
    assert type(read.value) is type(whole.value)
    assert same(read.value, whole.value)
    for field in ("guarantee", "realised", "rounds"):
        assert getattr(read, field) == getattr(whole, field), field
    assert read.statement.guarantee() == whole.guarantee
    assert read.versions == saved.versions()
    assert saved.fingerprint(dataclasses.replace(server)) == saved.fingerprint(server)


def test_no_two_servers_have_one_fingerprint():
    made = [make() for make, _ in SERVERS.values()]
    assert len({saved.fingerprint(server) for server in made}) == len(made)


def test_what_is_asked_is_within_the_statement_and_no_more_than_is_printed(protocol):
    server, users, whole = protocol
    assert dict(whole.guarantee) == dict(server.statement().guarantee())
    assert whole.realised is not None
    for unit, stated in whole.guarantee.items():
        if unit in whole.realised:
            assert whole.realised[unit].epsilon <= stated.epsilon * (1 + 1e-12)


def test_a_server_learns_of_users_by_their_answers_alone(protocol):
    """The answers of other users in the place of theirs: the result is that of the others."""
    server, users, whole = protocol
    others = users.shuffled(jax.random.key(9))
    recorded = []
    run(server, others, seen=lambda answers: recorded.append(answers) or answers)
    replayed = iter(recorded)
    assert same(run(server, users, seen=lambda _: next(replayed)), run(server, others))


def test_what_stands_in_the_place_of_silent_users_is_not_read(protocol):
    """A third of those who were asked stays silent: garbage there, and zeros, give one result,
    which is finite.
    """
    server, users, _ = protocol
    silent = np.arange(N) % 3 == 1

    def without(fill):
        def seen(answers):
            reported = answers.reported & ~silent
            if hasattr(answers.values, "blanked"):  # of a form of its own, such as lists
                values = answers.values if fill else answers.values.blanked(reported)
                return Answers(values, reported)
            blank = lambda leaf: np.where(
                reported.reshape(-1, *(1,) * (leaf.ndim - 1)), leaf, np.asarray(fill, leaf.dtype)
            )
            return Answers(jax.tree.map(blank, answers.values), reported)

        return seen

    zeros = run(server, users, seen=without(0))
    assert same(run(server, users, seen=without(1)), zeros)
    numbers = [
        leaf for leaf in leaves(zeros) if np.asarray(leaf).dtype.kind == "f" and np.ndim(leaf) == 2
    ]
    assert all(np.isfinite(leaf).all() for leaf in numbers)


def test_the_rows_beside_a_result_are_other_users(protocol):
    """Without noise no epsilon is claimed; the placebo costs what the protocol costs, and says
    something else.
    """
    server, users, whole = protocol
    ceiling = simulate(jax.random.key(0), server, users.exact())
    for printed in (ceiling.guarantee, ceiling.realised, ceiling.statement.guarantee()):
        assert all(np.isinf(one.epsilon) for one in printed.values())
    placebo = simulate(jax.random.key(0), server, users.public_record())
    assert dict(placebo.guarantee) == dict(whole.guarantee)
    assert not same(placebo.value, whole.value)
