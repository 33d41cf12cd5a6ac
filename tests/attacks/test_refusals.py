"""What attacks refuse: targets, answers and settings that do not fit each other."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from ldp_jax import attacks
from ldp_jax.attacks import Targets, all_pairs, balanced_pairs, evaluate, poisoning
from ldp_jax.edges import NeighbourCounts
from ldp_jax.features import Piecewise
from ldp_jax.graph import graphs
from ldp_jax.graph.propagation import operator
from ldp_jax.learning.models import NodeInputs, gat, gcn
from ldp_jax.learning.training import Settings, adam, node_classification

KEY = jax.random.key(0)
N = 12
RING = graphs.from_edges([[i, (i + 1) % N] for i in range(N)], N)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3)).astype(np.float32)
ANSWERS = RNG.dirichlet(np.ones(3), N)
PAIRS = all_pairs(np.arange(N), graphs.to_edges(RING))
DOUBTED = Targets(  # each pair linked and not, by its two orders
    np.concatenate([PAIRS.units, PAIRS.units[:, ::-1]]), np.append(PAIRS.truth, ~PAIRS.truth)
)
NODES = Targets(np.array([[0], [3], [4]]), np.array([False, True, False]))
MEMBER = RNG.random((7, N)) < 0.5
MEMBER[:, 0] = ~MEMBER[:, 1]  # each model has members and others
ODDS = RNG.normal(size=(7, N))
MODEL = gcn(1, 1, 3)


def judged(scores=(1.0, np.inf, 0.0), truth=(True, False, True), units=((0,), (1,), (2,)), **more):
    return evaluate("any", scores, Targets(np.array(units), np.array(truth)), **more)


def linkteller(inputs=None, targets=PAIRS, **more):
    inputs = NodeInputs(RING, jnp.asarray(X)) if inputs is None else inputs
    return attacks.linkteller(MODEL, {}, inputs, targets, **more)


def shadows(**change):
    given = {
        "model": MODEL,
        "objective": node_classification,
        "graph": RING,
        "x": X,
        "labels": np.arange(N) % 3,
        "settings": Settings(adam(0.1), 1, N),
        "models": 4,
        "protocol": "TSTF",
    }
    return attacks.shadow_models(jax.random.key(0), **given | change)


def runs(place, value):
    given = [RNG.normal(size=(9, 2)) for _ in range(4)]
    given[place] = value
    return attacks.likelihood_ratio(*given)


def inversion(**change):
    rows = RNG.normal(size=(30, 4))
    given = {"z": rows[:5], "x": rows[:5], "public_z": rows[5:], "public_x": rows[5:]}
    return attacks.inversion(jax.random.key(0), **given | change)


ONES = np.ones(N)
FEW = np.arange(N) < 2
ZERO = np.array([0])  # of the user 0 alone NumPy would make a mask by which nobody lies
COUNTS = np.zeros((N, 2), int)
NOISE = NeighbourCounts(1.0, 2, most=N - 1)
GROUPS = COUNTS[:, 0]


def harm(poisoned=ONES, liars=FEW):
    return poisoning.harm("a", ONES, poisoned, liars)


def lying(liars=FEW, towards=ONES):
    m = Piecewise(1.0)
    return poisoning.lying_reports(KEY, m, jnp.zeros(N), liars, "worst", towards)


def false_records(records):
    return poisoning.false_records(KEY, Piecewise(1.0), jnp.zeros(N), FEW, records)


steal = attacks.link_stealing
trained = partial(attacks.trained_link_stealing, KEY)
attribute = partial(attacks.attribute_inference, [[0, 1], [3, 1]], 5)

REFUSED = [
    (lambda: judged(scores=[np.nan, 1.0, 2.0]), "scores of any must be numbers"),
    (lambda: judged(truth=[True] * 3), "targets must be true and false ones"),
    (lambda: judged(truth=[1, 0, 1]), "targets must be units, .* int64 and int64"),
    (lambda: judged(units=[[0], [1], [1]]), "at least three units"),
    (lambda: judged(units=[[0.5], [1.0], [2.0]]), "units of targets must be integers"),
    *(
        (
            lambda units=units: judged(range(4), [True, False] * 2, units),
            f"truth each, and some {k}",
        )
        for k, units in (
            ("node", [[0], [0], [1], [2]]),
            ("node, or pair", [[0, 1], [1, 0], [0, 2], [1, 2]]),
        )
    ),
    (lambda: all_pairs([0, 0], [[0, 1]]), "nodes must be distinct"),
    (lambda: all_pairs(np.arange(10**6), []), "does not hold all pairs of 1000000 nodes"),
    (lambda: balanced_pairs(KEY, [0, 1, 2], [[0, 1], [0, 2], [1, 2]]), "nodes must have as many"),
    (lambda: attacks.common_neighbours([[0, N]], N, PAIRS), "public_edges"),
    (
        lambda: attacks.degree_product(
            [], N, Targets(np.array([[0, 1, 2], [3, 4, 5]]), np.array([True, False]))
        ),
        r"targets must be units, integers \[p, 2\]",
    ),
    (lambda: attacks.feature_similarity(X[:, :1], PAIRS), "x must have at least 2 columns"),
    (lambda: attacks.feature_similarity(scipy.sparse.eye_array(N), PAIRS), "toarray"),
    # Of one number, as a sigmoid's, these distances know a sign alone.
    (lambda: steal(ANSWERS[:, :1], PAIRS, distance="cosine"), "at least 2 columns"),
    (lambda: steal(ANSWERS[:, :2], PAIRS), "at least 3 columns for the correlation"),
    (lambda: trained(9 * ANSWERS, PAIRS, known=PAIRS, known_posteriors=ANSWERS), "probabilities"),
    (lambda: trained(ANSWERS, PAIRS, known=PAIRS), "known must have no pair"),
    (
        lambda: trained(ANSWERS, PAIRS, known=DOUBTED),
        "known must give one truth",
    ),
    (lambda: trained(ANSWERS, PAIRS, known=PAIRS, known_x=X), "known_x"),
    (lambda: trained(ANSWERS, PAIRS, known=PAIRS, x=X[1:]), "x must be finite numbers .12, d."),
    (
        lambda: trained(ANSWERS, PAIRS, known=Targets(*(part[:15] for part in PAIRS))),
        "known must have at least 10 pairs",
    ),
    (lambda: linkteller(targets=Targets(PAIRS.units + 1, PAIRS.truth)), "units of targets"),
    (lambda: linkteller(degrees=np.ones(3)), "degrees"),
    (lambda: linkteller(degrees=-np.ones(N)), "degrees must be >= 0"),
    (lambda: linkteller(NodeInputs(RING, jnp.asarray(X), jnp.ones(N))), "scale"),
    (lambda: attacks.lira(ODDS[:, :-1], MEMBER), r"confidences must be finite numbers \[7, 12\]"),
    *(
        (lambda member=member: attacks.lira(ODDS, member), f"member must have nodes .* from {most}")
        for most, member in (
            (0, MEMBER & (np.arange(7) > 0)[:, None]),
            (r"\d to 12", MEMBER | (np.arange(7) < 1)[:, None]),
        )
    ),
    (lambda: attacks.lira(ODDS[:2], MEMBER[:2]), "member must be of at least 3 models"),
    (lambda: attacks.rmia(ODDS, MEMBER, population=np.zeros(N, bool)), "population"),
    (
        lambda: attacks.trained_membership(
            KEY, np.stack([ODDS, -ODDS], -1), MEMBER, side=np.zeros((N - 1, 1))
        ),
        "side must be finite numbers",
    ),
    (lambda: attacks.log_odds([[0.5, 1.5]], [1], outputs="softmax"), "answers"),
    (lambda: attacks.log_odds([[0.5, 0.9]], [1], outputs="softmax"), "which sum to 1, got sums"),
    (lambda: attacks.log_odds([[0.0, 1.0], [0.9, 0.1]], [1, 0]), "answers must be logits"),
    (lambda: shadows(x=X[:-1]), "x and labels"),
    (lambda: shadows(labels=np.arange(N)), "label of train"),
    (lambda: runs(0, np.zeros((7, 2))), "shadows_without must have .* at least 8 rows"),
    (lambda: runs(2, np.full((9, 2), np.nan)), "observed_without must be finite"),
    (lambda: runs(3, np.zeros((9, 3))), "all runs must show as many numbers"),
    (lambda: inversion(z=np.ones((4, 4))), "z and x must be of as many records"),
    (lambda: inversion(public_z=X[:9], public_x=X[:9], z=X[:5], x=X[:5]), "at least 10"),
    (lambda: inversion(x=np.ones((5, 9))), "public_x must be as wide as x, got 4 for 9"),
    (lambda: inversion(shape=(2, 3)), "shape must be height and width"),
    (lambda: attribute([1, 3], [True, False], NODES), "targets must not be among the known"),
    (lambda: attacks.inferred_edges(evaluate("nodes", [1, 2, 3], NODES)), "pairs of nodes"),
    (lambda: judged().minus(judged(units=[[0], [1], [3]])), "any must be of the targets of any"),
    (
        lambda: attacks.public_mean(X[:5], public_x=X).minus(attacks.public_mean(X, public_x=X)),
        "public mean must be of the records of public mean",
    ),
    (
        lambda: attacks.public_mean(X[:5], public_x=X).minus(
            attacks.public_mean(X[5:10], public_x=X)
        ),
        "public mean must be of the records of public mean",
    ),
    (lambda: poisoning.choose_liars(KEY, N, 0.2, np.arange(6)), r"among must be bool \[12\]"),
    (
        lambda: harm().minus(poisoning.harm("b", ONES[1:], ONES[1:], FEW[1:])),
        "b must be of the users of a",
    ),
    (
        lambda: poisoning.harm("a", pd.Series(ONES), pd.Series(ONES, np.arange(N)[::-1]), FEW),
        "poisoned must have the rows of honest",
    ),
    (lambda: harm(0.5), r"a value a user, got shapes \(.*,\), \(\)"),
    (lambda: harm(ONES[1:]), "a value a user"),
    (lambda: harm(liars=ONES > 0), "liars must leave a user who is honest"),
    # Of one false record every liar sent the same report, which no noise of theirs had made.
    *(
        (lambda records=records: false_records(records), "records must be one a user, of 12, got")
        for records in ([1.0], 1.0, np.ones(3))
    ),
    (lambda: lying(towards=[1.0]), r"towards must be \[12\], as records are, got shape \(1,\)"),
    *(
        (call, r"liars must be bool \[12\]")
        for call in (
            lambda: harm(liars=ZERO),
            lambda: lying(ZERO),
            lambda: poisoning.lying_places(
                jax.random.key(0), GROUPS + 2, jnp.zeros(N, int), ZERO, "worst"
            ),
            lambda: poisoning.lying_counts(
                jax.random.key(0), NOISE, COUNTS, COUNTS, ZERO, "random", GROUPS, fakes=1
            ),
        )
    ),
    *(
        (partial(poisoning.believable_counts, COUNTS, 1.0, np.ones(2), doubt=doubt), "doubt")
        for doubt in (0.0, 1.5)
    ),
]


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize(("call", "match"), REFUSED, ids=[match for _, match in REFUSED])
def test_what_does_not_fit_is_refused(call, match):
    with pytest.raises(ValueError, match=match):
        call()


def test_the_least_that_is_asked_for_is_enough():
    rows = np.arange(16.0).reshape(8, 2) ** 2
    assert attacks.likelihood_ratio(rows, rows[::-1], rows, rows[::-1]).auc.n == 16
    some = np.array([[True, False, True], [False, True, True], [True, True, False]])
    assert np.isfinite(attacks.lira(ODDS[:3, :3], some).scores).all()


def test_attention_asks_for_segments():
    attention = gat(1, heads=1, hidden=2, outputs=3)
    with pytest.raises(TypeError, match="lay the graph out as segments"):
        shadows(model=attention, graph=operator(RING, "ell"))
