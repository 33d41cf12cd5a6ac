"""The cost of a search is the sum of what its fits ask, and reports that repeat cost once."""

import jax
import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline, make_union

from ldp_jax import bench, datasets, features
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RECORD, RELATIONSHIP, Budget
from ldp_jax.accounting.ledger import BudgetExceededError
from ldp_jax.servers.estimators import CountClassifier, PrivateEmbedding, ReportClassifier
from tests.accounting.parts import proved
from tests.marks import untyped

SIZES = {"num_nodes": 60, "num_classes": 2, "num_features": 4, "mean_degree": 5}
DATA = datasets.synthetic(jax.random.key(0), **SIZES, homophily=0.8)
USERS = np.arange(0, 60, 2)
Y = DATA.y[USERS]
OTHERS = np.ones((60, 4), np.float32)
GRID = {"epsilon": [1.0, 2.0, 4.0]}


def budgets(of_list, of_pair):
    return [Budget(of_list, unit=NEIGHBOUR_LIST), Budget(of_pair, unit=RELATIONSHIP)]


@untyped
def test_a_search_over_epsilon_costs_the_sum_of_its_fits(monkeypatch):
    """Two folds and a refit at 1, 2 or 4: 2 (1 + 2 + 4) + 4, at most; known beforehand."""
    model = CountClassifier(graph=DATA.graph, features=DATA.x, random_state=0)
    with monkeypatch.context() as patched:
        patched.setattr(CountClassifier, "fit", lambda *_: pytest.fail("somebody was asked"))
        for budget in (budgets(17.9, 36.1), budgets(18.1, 35.9)):
            with pytest.raises(BudgetExceededError, match="search"):
                bench.search(model, GRID, USERS, Y, cv=2, budget=budget)
    found = bench.search(model, GRID, USERS, Y, cv=2, budget=budgets(18.1, 36.1))
    assert found.guarantee[NEIGHBOUR_LIST].epsilon == pytest.approx(18.0)
    assert found.guarantee[RELATIONSHIP].epsilon == pytest.approx(36.0)
    assert (found.fits, found.reports) == (7, 7)
    assert "7 fits, 7 of which ask for new reports" in str(found)
    spent = bench.guarantee_of(found.search)[NEIGHBOUR_LIST].epsilon
    assert spent == pytest.approx(14.0 + found.search.best_params_["epsilon"])


@untyped
def test_one_owner_a_pair_pays_for_it_once():
    model = CountClassifier(unit="relationship", graph=DATA.graph)
    cost = {one.unit: one.epsilon for one in model.asks()[1]}
    assert cost[NEIGHBOUR_LIST] == cost[RELATIONSHIP] == pytest.approx(1.0)
    assert ReportClassifier(2.0).asks()[1][0].epsilon == 2.0


@untyped
def test_reports_of_one_mechanism_cost_once_however_often_they_are_read():
    embedding = PrivateEmbedding(
        features.HDS(2.0, 4, 2), graph=DATA.graph, records=DATA, key=jax.random.key(0)
    )
    model = make_pipeline(embedding, LogisticRegression())
    grid = {"privateembedding__alpha": [0.1, 0.5]}
    found = GridSearchCV(model, grid, cv=2).fit(USERS, Y)
    assert bench.guarantee_of(found)[RECORD].epsilon == pytest.approx(2.0)
    grid = {"privateembedding__mechanism__inner__epsilon": [0.5, 1.0]}
    both = bench.search(model, grid, USERS, Y, cv=2)
    assert both.guarantee[RECORD].epsilon == pytest.approx(1.0 + 2.0)
    assert (both.fits, both.reports) == (5, 2)
    with pytest.raises(ValueError, match="SquareWave has no steps"):
        embedding.set_params(mechanism__inner__steps=3)


@untyped
def test_other_keys_are_other_reports_and_other_records_are_refused():
    """Reports under 3 keys cost three times one; under one key other records reveal both."""
    embedding = PrivateEmbedding(features.HDS(2.0, 4, 2), graph=DATA.graph, records=DATA)
    model = make_pipeline(embedding, LogisticRegression())
    keys = {"privateembedding__random_state": [0, 1, 2]}
    with pytest.raises(BudgetExceededError):
        bench.search(model, keys, USERS, Y, cv=2, budget=5.9)
    found = bench.search(model, keys, USERS, Y, cv=2, budget=6.1)
    assert found.guarantee[RECORD].epsilon == pytest.approx(6.0)
    assert (found.fits, found.reports) == (7, 3)
    model.set_params(privateembedding__random_state=0)
    grid = {"privateembedding__records": [DATA, OTHERS]}
    with pytest.raises(ValueError, match="records must be the same in all steps and fits"):
        bench.search(model, grid, USERS, Y, cv=2)


@untyped
@pytest.mark.parametrize("place", ["step", "fit"])
def test_two_steps_of_one_name_must_hold_the_same_records(place):
    """Their noise is the same: the difference of both reports is that of the records."""
    mechanism = features.HDS(2.0, 4, 2)
    made = lambda records, alpha: PrivateEmbedding(
        mechanism, graph=DATA.graph, records=records, random_state=0, alpha=alpha
    )
    x = np.zeros((60, 4), np.float32)
    twice = make_pipeline(make_union(made(x, 0.1), made(x, 0.5)), LogisticRegression())
    grid = {"logisticregression__C": [1.0]}
    found = bench.search(twice, grid, USERS, Y, cv=2)
    assert found.guarantee[RECORD].epsilon == pytest.approx(2.0)
    model = make_pipeline(make_union(made(x, 0.1), made(OTHERS, 0.1)), LogisticRegression())
    if place == "fit":
        model = make_pipeline(made(x, 0.1), LogisticRegression())
        grid = {"privateembedding": [made(x, 0.1), made(OTHERS, 0.1)]}
    with pytest.raises(ValueError, match="records must be the same in all steps and fits"):
        bench.search(model, grid, USERS, Y, cv=2)


class Asks(ClassifierMixin, BaseEstimator):
    """Records at epsilon and lists at 3 - epsilon; asked once for each epsilon where they are
    ``kept``.
    """

    def __init__(self, epsilon=1.0, kept=False):
        self.epsilon = epsilon
        self.kept = kept

    def asks(self):
        costs = proved(self.epsilon), proved(3.0 - self.epsilon, unit=NEIGHBOUR_LIST)
        return self.epsilon if self.kept else None, costs

    def fit(self, x, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, x):
        return np.full(len(x), self.classes_[0])


@pytest.mark.parametrize(
    ("kept", "refit", "records", "lists", "fits", "reports"),
    [
        (False, True, 12.5, 9.0, 7, 7),
        (False, False, 10.5, 7.5, 6, 6),
        (True, True, 3.5, 2.5, 7, 2),  # the last fit is one of those before
        (True, False, 3.5, 2.5, 6, 2),
    ],
)
def test_a_search_states_the_most_of_each_unit(kept, refit, records, lists, fits, reports):
    """Three folds at two epsilons; the worst last fit of records is another than that of lists."""
    grid = {"epsilon": [1.5, 2.0]}
    found = bench.search(Asks(kept=kept), grid, USERS[:, None], Y, cv=3, refit=refit)
    assert (found.fits, found.reports) == (fits, reports)
    stated = {unit: one.epsilon for unit, one in found.guarantee.items()}
    assert stated == {RECORD: records, NEIGHBOUR_LIST: lists}
    spent = bench.guarantee_of(found.search)
    assert spent[RECORD].epsilon == (3.5 if kept else 10.5 + 1.5 * refit)  # the first is chosen


def test_splits_that_can_be_read_once_are_counted_and_used():
    splits = KFold(3).split(USERS)
    assert bench.search(Asks(), {"epsilon": [1.5, 2.0]}, USERS[:, None], Y, cv=splits).fits == 7


class AsksFirst(TransformerMixin, Asks):
    """A step that asks and hands its input on."""

    def transform(self, x):
        return x


@pytest.mark.parametrize("union", [False, True])
def test_every_part_of_a_pipeline_is_paid_for(union):
    """Two folds and a refit: 2 (1 + 2) + (1 + 2) per record, and as much again per list."""
    first = AsksFirst(1.0)
    model = make_pipeline(make_union(first) if union else first, Asks(2.0))
    found = bench.search(model, {"asks__epsilon": [2.0]}, USERS[:, None], Y, cv=2)
    assert {unit: one.epsilon for unit, one in found.guarantee.items()} == {
        RECORD: 9.0,
        NEIGHBOUR_LIST: 9.0,
    }
    assert (found.fits, found.reports) == (3, 3)


@untyped
def test_an_estimator_that_asks_nobody_has_no_cost():
    with pytest.raises(TypeError, match="LogisticRegression asks no user"):
        bench.search(LogisticRegression(), {"C": [1.0]}, USERS[:, None], Y, cv=2)


@untyped
def test_a_random_state_is_the_seed_of_a_key():
    given = {"graph": DATA.graph, "records": DATA}
    mechanism = features.HDS(2.0, 4, 2)
    seeded = PrivateEmbedding(mechanism, random_state=3, **given).fit(USERS)
    keyed = PrivateEmbedding(mechanism, key=jax.random.key(3), **given).fit(USERS)
    np.testing.assert_array_equal(seeded.embedding_, keyed.embedding_)
    with pytest.raises(ValueError, match="random_state"):
        PrivateEmbedding(mechanism, random_state=-1, **given).fit(USERS)
