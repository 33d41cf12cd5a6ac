"""Links and classes of graphs from counts: what is asked, what it is held against, and what it
costs.
"""

import math

import jax
import numpy as np
import pytest

from experiments import frontier
from experiments.dprr import classifiers
from experiments.frontier import beyond
from experiments.frontier.beyond import COUNTS, DEGREES, GRAPH, LINK, METHODS
from experiments.frontier.config import Config
from experiments.frontier.methods import LABELS, REHEARSAL
from ldp_jax import datasets
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST
from ldp_jax.graph import graphs
from tests.experiments import contract


@pytest.fixture(scope="module")
def ran(tiny):
    config = Config(parts=("beyond",), labels=("half",), epsilons=(1.0, 20.0), **tiny)
    return contract.run(frontier, config)


def test_each_row_is_there_once_under_what_it_costs(ran):
    rows = beyond.results_in(ran.out).read()
    told = rows[rows.mechanism.str.startswith(REHEARSAL)]
    # Of both rows of counts, at both budgets: points, their interval, spread, base and chance, and
    # the size of the pilot.
    assert len(told) == 2 * 2 * 7
    assert set(told.value[told.metric == LABELS]) == {
        min(beyond.PILOT, datasets.load(ran.datasets[0]).num_nodes)
    }
    rows = rows.drop(told.index)
    private = [name for name in METHODS[LINK] if name.startswith((DEGREES, COUNTS))]
    measured = [name for name in METHODS[LINK] if not name.startswith(REHEARSAL)]
    assert len(rows) == len(measured) + len(private)
    assert set(rows.metric) == {"auc"}
    assert rows.value.between(0, 1).all()
    manifest = beyond.results_in(ran.out).describe()
    assert (
        "epsilon 1 per neighbour-list"
        in manifest["guarantees"][f"mine: {LINK}: {COUNTS}, epsilon 1"]
    )
    # Of noise that is nothing, counts say what true counts do.
    at = rows.set_index(["mechanism", "epsilon"]).value
    assert at[COUNTS, 20.0] == pytest.approx(at["non-private counts", math.inf], abs=0.02)
    assert at[COUNTS, 20.0] > at[DEGREES, 20.0]  # friends are alike here
    contract.check(frontier, ran, [beyond.results_in(ran.out)])


def test_links_that_are_asked_for_are_in_no_list_and_other_pairs_are_no_links(tiny):
    data = datasets.load(*tiny["datasets"])
    (settings,) = set(beyond.plan(Config(parts=("beyond",), labels=("half",), **tiny)).values())
    draw = beyond.pairs(settings, "half", 0)
    n = data.num_nodes
    before, left = (
        set((np.asarray(g.senders) * n + np.asarray(g.receivers)).tolist())
        for g in (data.graph, draw.graph)
    )
    linked, others = ({int(u * n + v) for u, v in ends} for ends in (draw.linked, draw.others))
    back = {int(v * n + u) for u, v in draw.linked}
    assert len(linked) == math.ceil(0.1 * len(before) / 2) == len(draw.others)
    assert left | linked | back == before
    assert not left & (linked | back)
    assert not others & before
    assert (draw.others[:, 0] < draw.others[:, 1]).all()


def twins(count=120, n=30):
    """Graphs of equal sizes and degrees: two hubs of 14 are friends of each other, or of leaves
    alone.
    """
    rng = np.random.default_rng(0)
    ends = [(0, k) for k in range(2, 15)] + [(1, k) for k in range(15, 28)]
    kinds = [np.array([*ends, (0, 1), (28, 29)]), np.array([*ends, (0, 28), (1, 29)])]
    pairs = [i * n + rng.permutation(n)[kinds[i % 2]] for i in range(count)]
    one, other = np.concatenate(pairs).T
    both = np.concatenate([one, other]), np.concatenate([other, one])
    return graphs.GraphSet.from_edges(*both, np.repeat(np.arange(count), n), np.arange(count) % 2)


def test_who_befriends_hubs_tells_graphs_apart_that_have_the_same_degrees(monkeypatch):
    monkeypatch.setitem(classifiers.FOREST, "trees", 60)
    whole = twins()
    by = METHODS[GRAPH]
    degree = np.sort(np.bincount(whole.receivers).reshape(-1, 30), 1)
    assert (degree == degree[0]).all()

    def asked(name, epsilon):
        return by[name](tuple(jax.random.split(jax.random.key(0))), whole, epsilon)

    assert (
        asked("non-private degrees", math.inf).value < 0.75
    )  # of 60 graphs: chance, by four standard errors
    assert math.isinf(
        asked("non-private counts by degree class", math.inf).guarantee[NEIGHBOUR_LIST].epsilon
    )
    monkeypatch.setattr(
        beyond, "LEVELS", (40.0, 400.0)
    )  # over half of 20: of 4 and of 40 neighbours
    found = asked(f"{COUNTS} by degree class", 20.0)
    assert found.value > 0.9
    assert found.guarantee[NEIGHBOUR_LIST].epsilon == pytest.approx(20.0, rel=1e-9)
    assert asked(DEGREES, 3.0).guarantee[NEIGHBOUR_LIST].epsilon == 3.0
    assert asked("sizes alone", 0.0).guarantee[NEIGHBOUR_LIST].epsilon == 0.0
