"""Membership inference: what a model learnt by heart is found, and nothing where nothing was
learnt.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sklearn.metrics
from scipy import stats

from ldp_jax import attacks
from ldp_jax.attacks import evaluate_membership, lira, log_odds, rmia, trained_membership
from ldp_jax.graph import graphs
from ldp_jax.graph.propagation import operator
from ldp_jax.learning import metrics
from ldp_jax.learning.models import gcn
from ldp_jax.learning.training import Settings, adam, node_classification
from tests.stats import SIGMAS

N = 320
P = 160
D = 48
C = 4
MODELS = 12

SHORT = attacks.Perceptron(epochs=10)


@cache
def world():
    """A sparse graph whose labels are random: what is learnt is learnt by heart. P nodes are the
    population.
    """
    rng = np.random.default_rng(0)
    every = np.stack(np.triu_indices(N, 1), 1)
    graph = graphs.from_edges(rng.permutation(every)[:N], N)
    x = jnp.asarray(rng.normal(size=(N, D)), jnp.float32)
    return operator(graph, "segment"), x, rng.integers(0, C, N), rng.permutation(N)[:P]


@cache
def overfitted():
    op, x, labels, nodes = world()
    settings = Settings(adam(0.02), 60, N)
    return attacks.shadow_models(
        jax.random.key(0), gcn(2, 48, C), node_classification, op, x, labels, settings,
        nodes=nodes, models=MODELS, protocol="TSTS",
    )  # fmt: skip


ATTACKS = {
    "lira": lambda outputs, labels, member: lira(log_odds(outputs, labels), member),
    "rmia": lambda outputs, labels, member: rmia(log_odds(outputs, labels), member),
    "trained": lambda outputs, labels, member: trained_membership(
        jax.random.key(1),
        jax.nn.softmax(outputs),
        member,
        side=log_odds(outputs, labels)[..., None],
        perceptron=SHORT,
    ),
}
LEAST = {"lira": 0.9, "rmia": 0.85, "trained": 0.85}


def finds_nothing(found, *, within):
    """The test of a null: of memberships that no score depends on an AUC is 0.5, with a variance
    that is known.
    """
    members = found.targets.truth.sum(1)
    others = found.targets.truth.shape[1] - members
    variance = (members + others + 1) / (12 * members * others)
    margin = SIGMAS * np.sqrt(variance.mean() / len(members))
    assert abs(found.auc.mean - 0.5) <= margin < within, found


@pytest.mark.parametrize("name", ATTACKS)
def test_what_was_learnt_by_heart_is_found_and_memberships_shuffled_are_not(name):
    *_, labels, nodes = world()
    shadows = overfitted()
    assert (shadows.member.sum(1) == P // 2).all()
    assert (
        np.ptp(shadows.member.sum(0)) > 2
    )  # drawn independently: not each node in half of the models
    found = ATTACKS[name](shadows.outputs, labels[nodes], shadows.member)
    half = stats.t.ppf(0.975, MODELS - 1)
    assert (
        found.auc.mean - stats.t.isf(1e-6, MODELS - 1) / half * found.auc.half_width > LEAST[name]
    ), found
    assert found.precision.mean > 0.75
    if name == "lira":
        assert found.tpr.mean > 0.2
    rng = np.random.default_rng(1)
    twin = ATTACKS[name](shadows.outputs, labels[nodes], rng.permuted(shadows.member, axis=1))
    finds_nothing(twin, within=0.07)


SMALL = gcn(1, 1, 2)


@cache
def ring():
    """Twelve nodes in a ring, ten of which are the population; two are in the graph alone."""
    rng = np.random.default_rng(3)
    graph = graphs.from_edges([[i, (i + 1) % 12] for i in range(12)], 12)
    return graph, rng.normal(size=(12, 3)).astype(np.float32), rng.integers(0, 2, 12)


def small(protocol, layout, x=None):
    graph, rows, labels = ring()
    graph = graph if layout == "segment" else operator(graph, layout)
    settings = Settings(adam(0.1), 3, 12, at_once=2)
    return attacks.shadow_models(
        jax.random.key(4), SMALL, node_classification, graph, rows if x is None else x, labels,
        settings, models=4, protocol=protocol, nodes=np.arange(10), share=0.37,
    )  # fmt: skip


def averages(x, kept):
    """What one convolution averages, with the edges of the ring that are kept."""
    adjacency = np.eye(12) + np.roll(np.eye(12), 1, 1) * kept + np.roll(np.eye(12), -1, 1) * kept
    return adjacency / adjacency.sum(1, keepdims=True) @ x


@pytest.mark.parametrize(
    ("protocol", "layout"),
    [("TSTF", "segment"), ("TSTS", "segment"), ("0-hop", "segment"), ("TSTS", "ell")],
)
def test_a_protocol_says_what_graph_a_model_is_asked_on(protocol, layout):
    """Models that are asked by another protocol answer as if trained for it.

    A share of 0.37 of ten nodes is four.
    """
    graph, x, _ = ring()
    shadows = small(protocol, layout)
    again = attacks.ask_shadows(
        small("TSTF", "segment"), SMALL, graph, x, protocol=protocol, at_once=2
    )
    np.testing.assert_allclose(again.outputs, shadows.outputs, atol=1e-6)
    assert (shadows.member.sum(1) == 4).all()
    for model in range(4):
        inside = np.append(shadows.member[model], [False, False])
        kept = {"TSTF": 1.0, "TSTS": inside[:, None] == inside, "0-hop": 0.0}[protocol]
        params = jax.tree.map(
            lambda leaf, model=model: np.asarray(leaf[model]), shadows.variables["params"]
        )
        wanted = averages(x, kept) @ params["Dense_0"]["kernel"] + params["bias_0"]
        np.testing.assert_allclose(shadows.outputs[model], wanted[:10], atol=1e-5)


@pytest.mark.parametrize("layout", ["segment", "ell"])
def test_a_model_is_trained_on_the_graph_of_its_own_nodes(layout):
    """Another record moves the models of its node, and no other, whatever they are asked on."""
    _, x, _ = ring()
    first = small("TSTF", layout)
    for node in (4, 11):
        second = small("TSTF", layout, np.where(np.arange(12)[:, None] == node, 5.0, x))
        one, two = (np.asarray(s.variables["params"]["Dense_0"]["kernel"]) for s in (first, second))
        moved = (one != two).any((1, 2))
        np.testing.assert_array_equal(moved, first.member[:, node] if node < 10 else False)
        np.testing.assert_array_equal(first.member, second.member)


@cache
def drawn(models=7, n=23):
    """Confidences and memberships, some nodes in no other model and some in all."""
    rng = np.random.default_rng(5)
    member = rng.random((models, n)) < 0.5
    member[:, 0], member[:, 1], member[1:, 2] = False, True, False
    member[2, 0], member[3, 1], member[:, 3] = True, False, np.arange(models) < 2
    return rng.normal(size=(models, n)) * 2 + 1.5 * member, member


def sides(confidences, member, target, node):
    others = np.arange(len(member)) != target
    return [confidences[others & (member[:, node] == side), node] for side in (True, False)]


@pytest.mark.parametrize("variance", ["shared", "node"])
def test_lira_is_that_of_a_loop(variance):
    confidences, member = drawn()
    online = lira(confidences, member, variance=variance)
    offline = lira(confidences, member, form="offline", variance=variance)
    seen = set()
    least = 1 if variance == "shared" else 2
    for target in range(len(member)):
        every = [sides(confidences, member, target, node) for node in range(member.shape[1])]
        shared = [
            sum(((part[side] - part[side].mean()) ** 2).sum() for part in every if len(part[side]))
            / sum(max(len(part[side]) - 1, 0) for part in every)
            for side in (0, 1)
        ]
        for node, parts in enumerate(every):
            laws = []
            for part, common in zip(parts, shared, strict=True):
                if len(part) < least:
                    laws.append(None)
                    continue
                spread = common if variance == "shared" else part.var(ddof=1)
                laws.append(stats.norm(part.mean(), np.sqrt(spread)))
            value = confidences[target, node]
            wanted = laws[0].logpdf(value) - laws[1].logpdf(value) if all(laws) else 0.0
            assert online.scores[target, node] == pytest.approx(wanted, abs=1e-9)
            wanted = (value - laws[1].mean()) / laws[1].std() if laws[1] else 0.0
            assert offline.scores[target, node] == pytest.approx(wanted, abs=1e-9)
            seen.add(tuple(law is None for law in laws))
    assert len(seen) == 3  # the law of members alone, that of others alone, or none, is unknown


@pytest.mark.parametrize("form", ["online", "offline"])
@pytest.mark.parametrize(("gamma", "step"), [(1.0, 3), (2.0, 1)])
def test_rmia_is_that_of_a_loop(form, gamma, step):
    """The nodes that others are compared with are all, or those of every third."""
    confidences, member = drawn()
    n = member.shape[1]
    population = np.arange(n) % step == 0
    p = 1 / (1 + np.exp(-confidences))
    a = 0.3 if gamma == 1.0 else 0.8
    also = {} if gamma == 1.0 else {"offline_a": a}
    found = rmia(confidences, member, form=form, gamma=gamma, population=population, **also)
    for target in range(len(member)):
        ratio = np.empty(n)
        for node in range(n):
            inside, outside = sides(p, member, target, node)
            with_node = (inside if len(inside) else outside).mean()
            without = (outside if len(outside) else inside).mean()
            usual = (
                (with_node + without) / 2 if form == "online" else ((1 + a) * without + 1 - a) / 2
            )
            ratio[node] = p[target, node] / usual
        for node in range(n):
            rivals = ratio[population & (np.arange(n) != node)]
            wanted = (ratio[node] >= gamma * rivals).mean()
            assert found.scores[target, node] == pytest.approx(wanted)


@pytest.mark.parametrize("decimals", [8, 0])
@pytest.mark.parametrize("density", [None, 0.1])
def test_metrics_are_those_of_each_target_ties_and_all(decimals, density):
    rng = np.random.default_rng(6)
    member = rng.random((5, 1800)) < 0.4
    scores = np.round(rng.normal(size=member.shape) + member, decimals)
    found = evaluate_membership("any", scores, member, density=density)
    nodes = np.arange(1800)[:, None]
    each = [
        attacks.evaluate("one", values, attacks.Targets(nodes, truth), density=density).metrics
        for values, truth in zip(scores, member, strict=True)
    ]
    for name in each[0]:
        wanted = metrics.mean_interval([one[name].mean for one in each])
        assert found.metrics[name] == pytest.approx(wanted)
    assert found.density == pytest.approx(member.mean())
    assert found.believed == pytest.approx(member.mean() if density is None else density)
    strict = []
    for values, truth in zip(scores, member, strict=True):
        false, true, _ = sklearn.metrics.roc_curve(truth, values, drop_intermediate=False)
        strict.append(np.interp(0.001, false, true))
    assert found.strict_tpr == pytest.approx(metrics.mean_interval(strict))
    assert evaluate_membership("any", scores[:, :900], member[:, :900]).strict_tpr is None


def test_two_attacks_are_compared_target_by_target():
    rng = np.random.default_rng(7)
    member = rng.random((9, 400)) < 0.5
    noise = rng.normal(size=member.shape) + rng.normal(size=(9, 1)) * member
    one = evaluate_membership("one", noise + 0.5 * member, member)
    two = evaluate_membership("two", noise + 0.8 * member, member)
    gain = two.minus(one)
    assert gain.auc.mean == pytest.approx(two.auc.mean - one.auc.mean)
    assert 0 < gain.auc.half_width < min(gain.auc.mean, 0.5 * one.auc.half_width)


def test_what_is_known_of_a_node_says_how_to_read_its_answers():
    """Members are answered surely at the top of a hierarchy, unsurely at its foot: alone, that
    tells nothing.
    """
    rng = np.random.default_rng(8)
    member, top = rng.random((MODELS, P)) < 0.5, rng.random(P) < 0.5
    logits = rng.normal(size=(MODELS, P, C))
    logits[..., 0] += np.where(member == top, 5.0, -1.0)
    given = jax.random.key(9), jax.nn.softmax(logits), member
    found = trained_membership(*given, side=1.0 * top[:, None], perceptron=SHORT)
    assert found.name == "trained membership with side information"
    assert found.auc.mean > 0.9


def test_log_odds_of_logits_and_of_probabilities_are_the_same():
    rng = np.random.default_rng(10)
    logits = 3 * rng.normal(size=(2, 5, 3))
    labels = rng.integers(0, 3, 5)
    p = np.take_along_axis(np.asarray(jax.nn.softmax(logits)), labels[None, :, None], -1)[..., 0]
    np.testing.assert_allclose(log_odds(logits, labels), np.log(p / (1 - p)), rtol=1e-4)
    of_softmax = log_odds(jax.nn.softmax(logits), labels, outputs="softmax")
    np.testing.assert_allclose(of_softmax, log_odds(logits, labels), rtol=1e-4)
    assert log_odds([[1e4, -1e4]], [0]) == pytest.approx(2e4)
    assert log_odds([[1.0, 0.0]], [1], outputs="softmax") == pytest.approx(-24 * np.log(2))
