"""States and results as bytes: every server goes on from its saved state, and its result is read as
it was.
"""

import dataclasses
from collections.abc import Callable

import jax
import numpy as np
import pytest

from ldp_jax.servers import (
    CountServer,
    JointPrivacy,
    JointServer,
    LabelledReportServer,
    LabelServer,
    Released,
    ReportServer,
    Users,
    count_facts,
    joint_facts,
    panel_facts,
    simulate,
)
from ldp_jax.servers.driver import State
from ldp_jax.servers.parts.rows import feature_rows
from ldp_jax.servers.saved import fingerprint, from_bytes, to_bytes, versions
from tests.servers.planted import blocks

# the users and folds of other files, whose programs serve here
N = 600
PANEL = 150
FOLDS = 4


@dataclasses.dataclass(frozen=True)
class Restarted:
    """A server that is made anew for each step, and goes on from the bytes of its state and of the
    answers.
    """

    make: Callable

    def statement(self):
        return self.make().statement()

    def init(self, key):
        return saved(self.make().init(key))

    def step(self, state, answers):
        made = self.make().step(saved(state), saved(answers))
        return saved(made) if isinstance(made, State) else made


def saved(tree):
    return from_bytes(to_bytes(tree))


@pytest.fixture(scope="module")
def data():
    return blocks(n=N, clarity=1.5)


@pytest.fixture(scope="module")
def servers(data):
    """Each a call that makes one, of facts that are found once."""
    graph, y, x = data
    labels = np.where(np.arange(N) < PANEL, y, -1)
    shown = feature_rows(x[:PANEL])
    panel = panel_facts(jax.random.key(0), graph, shown, labels, num_classes=3, num_folds=FOLDS)
    joint = joint_facts(jax.random.key(1), shown, labels, num_classes=3, num_folds=FOLDS)
    counted = count_facts(
        jax.random.key(2), feature_rows(x), labels, num_classes=3, num_folds=FOLDS
    )
    of_labels = LabelServer(np.arange(N) < PANEL, 3, 2.5)
    return {
        "counts": lambda: CountServer(counted, 1.0, "relationship"),
        "reports": lambda: ReportServer(panel, 3.0),
        "labels, then reports": lambda: LabelledReportServer(graph, shown, of_labels, 3.0, FOLDS),
        "records, then lists": lambda: JointServer(JointPrivacy(2.0, 2.0), joint),
        "both at once": lambda: JointServer(JointPrivacy(both=4.0), joint),
    }


@pytest.mark.parametrize(
    "name", ["counts", "reports", "labels, then reports", "records, then lists", "both at once"]
)
def test_a_server_goes_on_from_bytes_and_its_result_is_read_as_it_was(name, data, servers):
    graph, y, x = data
    records = x if name.startswith(("records", "both")) else feature_rows(x)
    users = Users(records=records, labels=y, lists=graph)
    found = simulate(jax.random.key(3), servers[name](), users)
    killed = simulate(jax.random.key(3), Restarted(servers[name]), users)
    assert to_bytes(killed.value) == to_bytes(found.value)
    assert killed.rounds == found.rounds

    read = Released.from_bytes(found.to_bytes())
    assert read.to_bytes() == found.to_bytes()
    assert type(read.value) is type(found.value)
    np.testing.assert_array_equal(read.value.log_posterior, found.value.log_posterior)
    for field in ("guarantee", "realised", "rounds"):
        assert getattr(read, field) == getattr(found, field), field
    assert read.statement.guarantee() == found.guarantee
    assert (
        read.versions
        == versions()
        == {"jax": jax.__version__, **{"ldp_jax": read.versions["ldp_jax"]}}
    )
    assert str(read.guarantee) == str(found.guarantee)

    assert fingerprint(servers[name]()) == fingerprint(servers[name]())
    others = {fingerprint(make()) for other, make in servers.items() if other != name}
    assert fingerprint(servers[name]()) not in others
