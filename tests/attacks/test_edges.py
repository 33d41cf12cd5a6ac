"""Attacks on edges: each finds a planted leak, and nothing where there is none."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
import scipy.spatial.distance
import scipy.special
import scipy.stats

from ldp_jax import attacks
from ldp_jax.attacks import Targets, all_pairs
from ldp_jax.attacks.link_stealing import _DISTANCES, _pair_features
from ldp_jax.graph import graphs, interop
from ldp_jax.graph.propagation import operator
from ldp_jax.learning.models import Model, NodeInputs, gcn, mlp
from tests.stats import SIGMAS

N = 90
D = 6
C = 3
HALF = 1.99  # standard errors in half the width of a 95 % interval of 90 groups


def finds(attack, *, least=0.5):
    """Whether the attack is better than ``least`` beyond doubt: by 4.9 standard errors, 1e-6 by
    chance alone.
    """
    return attack.auc.mean - SIGMAS / HALF * attack.auc.half_width > least


def both(found, twin, *, within=0.15):
    """The test of an attack: it finds the planted leak; of its twin, which cannot, an AUC above 0.5
    + ``within`` would be seen, and is not.
    """
    assert finds(found), found
    margin = SIGMAS / HALF * twin.auc.half_width
    assert abs(twin.auc.mean - 0.5) <= margin < within, twin


@cache
def place():
    """Nodes in the unit square, of which near ones are joined: edges cluster, as friendships do."""
    rng = np.random.default_rng(0)
    point = rng.random((N, 2))
    every = np.stack(np.triu_indices(N, 1), 1)
    away = np.linalg.norm(point[every[:, 0]] - point[every[:, 1]], axis=1)
    edges = every[np.argsort(away + 0.02 * rng.normal(size=len(away)))[:300]]
    others = rng.permutation(every)[:300]
    x = rng.normal(size=(N, D)).astype(np.float32)
    return edges, others, x, rng.permutation(len(edges))


def dense(edges):
    return interop.to_scipy(graphs.from_edges(edges, N)).toarray()


def inputs(edges):
    return NodeInputs(operator(graphs.from_edges(edges, N), "segment"), jnp.asarray(place()[2]))


MODEL = gcn(2, 8, C)


@cache
def variables():
    return jax.jit(MODEL.init)(jax.random.key(0), inputs(place()[0]))


def asked():
    return all_pairs(np.arange(N), place()[0])


linkteller = partial(attacks.linkteller, MODEL)


def test_linkteller_finds_the_edges_of_the_graph_it_queries_and_no_others():
    edges, others, *_ = place()
    found = linkteller(variables(), inputs(edges), asked())
    both(found, linkteller(variables(), inputs(others), asked()))
    assert found.auc.mean > 0.9
    assert found.precision.mean > 5 * found.density
    given = inputs(edges)
    one = given._replace(x=given.x * (np.arange(N) == 0)[:, None])
    linkteller(variables(), one, asked())  # most outputs do not move, and some do


def naive_influence(weight, outputs, *, ends):
    """The derivative of the outputs of one convolution along a record, for all pairs of ends."""
    edges, _, x, _ = place()
    graph = np.eye(N) + dense(edges)
    share = graph / graph.sum(1, keepdims=True)
    along = x.astype(np.float64) @ weight
    slope = np.broadcast_to(np.eye(C), (N, C, C))
    if outputs == "softmax":
        p = scipy.special.softmax(share @ along, axis=1)
        slope = p[:, :, None] * (slope - p[:, None])
    if outputs == "sigmoid":
        p = scipy.special.expit(share @ along)
        slope = (p * (1 - p))[:, :, None] * slope
    moved = np.linalg.norm(np.einsum("vab,ub->uva", slope, along), axis=-1)
    influence = moved * share.T  # [from, to]
    return influence[ends[:, 0], ends[:, 1]], influence[ends[:, 1], ends[:, 0]], graph.sum(1)


@pytest.mark.parametrize("form", ["scale", "step", "degrees", "softmax", "sigmoid"])
def test_influence_is_the_derivative_along_a_record(form):
    """Of one convolution without ReLU: a closed form, which the finite difference meets as well."""
    model = gcn(1, 1, C)
    given = inputs(place()[0])
    targets = asked()
    made = model.init(jax.random.key(1), given)
    weight = np.asarray(made["params"]["Dense_0"]["kernel"], np.float64)
    outputs = form if form in ("softmax", "sigmoid") else "logits"
    there, back, around = naive_influence(weight, outputs, ends=targets.units)
    around = around - around.min() + 1.0  # one degree is 0, at least
    settings = {"step": {"step": 0.01}, "degrees": {"degrees": around - 1.0}}
    settings = settings.get(form, {"outputs": outputs})
    if form == "degrees":
        there, back = there * around[targets.units[:, 1]], back * around[targets.units[:, 0]]
    found = attacks.linkteller(model, made, given, targets, **settings)
    error = 1e-3 if form == "step" else 1e-5
    np.testing.assert_allclose(found.scores, there + back, atol=error * there.max())


def test_scattered_pairs_are_scored_as_among_all_and_posteriors_otherwise():
    given = inputs(place()[0])
    targets = asked()
    every = linkteller(variables(), given, targets)
    posteriors = linkteller(variables(), given, targets, outputs="softmax")
    assert finds(posteriors)
    assert not np.allclose(posteriors.scores, every.scores)
    some = np.random.default_rng(1).permutation(len(targets.truth))[:200]
    turned = Targets(targets.units[some][:, ::-1], targets.truth[some])
    few = linkteller(variables(), given, turned)
    np.testing.assert_allclose(few.scores, every.scores[some], rtol=1e-4, atol=1e-7)


def test_a_model_that_sees_no_graph_tells_nothing():
    network = mlp(2, 8, C)
    on_rows = Model(
        init=lambda key, given: network.init(key, given[1]),
        apply=lambda made, given, *, key, train: network.apply(
            made, given[1], key=key, train=train
        ),
    )
    given = inputs(place()[0])
    made = network.init(jax.random.key(0), given[1])
    found = attacks.linkteller(on_rows, made, tuple(given[:2]), asked())
    assert not found.scores.any()
    with pytest.raises(
        ValueError, match="inputs must move the outputs"
    ):  # it never looks at the scale
        attacks.linkteller(on_rows, made, given, asked())


def test_public_knowledge_finds_edges_where_it_is_of_them():
    edges, others, x, _ = place()
    targets = asked()
    common = partial(attacks.common_neighbours, num_nodes=N, targets=targets)
    similar = partial(attacks.feature_similarity, targets=targets)
    both(common(edges), common(others))
    both(similar(around(edges, x)), similar(x))
    assert attacks.degree_product([], N, targets).auc.mean == 0.5


def around(edges, x):
    """Rows averaged over neighbourhoods: what edges leave in the answers of a model."""
    graph = np.eye(N) + dense(edges)
    return graph @ x / graph.sum(1, keepdims=True)


@cache
def answers():
    """Posteriors of a model that averages over neighbours, and of one that does not."""
    edges, _, x, _ = place()
    weight = np.random.default_rng(2).normal(size=(D, C))
    return tuple(np.asarray(jax.nn.softmax(3 * rows @ weight)) for rows in (around(edges, x), x))


def test_link_stealing_finds_alike_answers():
    leaking, clean = answers()
    targets = asked()
    both(attacks.link_stealing(leaking, targets), attacks.link_stealing(clean, targets))
    assert finds(attacks.link_stealing(leaking[:, :1], targets, distance="euclidean"))


def test_answers_that_are_nearly_alike_are_told_apart():
    """A class of probability 1 less some 1e-4, or records of 1e-25: the same order as SciPy's in
    float64.
    """
    sure = np.random.default_rng(0).normal(size=(N, C)) * 0.3
    sure[:, 0] += 10.0
    rows = np.asarray(jax.nn.softmax(sure), np.float64)
    for distance in ("cosine", "correlation"):
        wanted = scipy.spatial.distance.cdist(rows, rows, distance)[*asked().units.T]
        for scale in (1.0, 1e-25):
            found = attacks.link_stealing(scale * rows, asked(), distance=distance)
            np.testing.assert_allclose(-found.scores, wanted, atol=1e-3 * wanted.max())


def test_a_trained_attacker_reads_distances_and_entropies_of_both_ends():
    """SciPy's distances, of answers and of records, whichever end is named first."""
    of = answers()
    units = asked().units[::7]
    names = tuple(_DISTANCES)
    wanted = [
        scipy.spatial.distance.cdist(rows, rows, name)[*units.T] for rows in of for name in names
    ]
    own, other = scipy.stats.entropy(of[0], axis=1)[units.T]
    wanted += [own * other, (own + other) / 2, abs(own - other), (own - other) ** 2]
    for pairs in (units, units[:, ::-1]):
        np.testing.assert_allclose(_pair_features(of, pairs), np.stack(wanted, 1), atol=1e-5)


def test_a_trained_attacker_finds_edges_that_join_unlike_answers():
    """Where alike nodes are not joined the distance alone has it wrong; known pairs say so."""
    leaking, _ = answers()
    *_, order = place()
    every = np.stack(np.triu_indices(N, 1), 1)
    apart = scipy.spatial.distance.cdist(leaking, leaking)[*every.T]
    noise = 0.1 * np.random.default_rng(3).normal(size=len(apart))
    joined = every[np.argsort(noise - apart)[:300]][order]
    known_edges, secret = np.split(joined, 2)
    known = attacks.balanced_pairs(jax.random.key(0), np.arange(N), known_edges, known=secret)
    targets = all_pairs(np.arange(N), secret, known=known.units)

    def train(rows, x, asked=targets, **more):
        key = jax.random.key(1)
        network = attacks.Perceptron(2, 8, epochs=20)
        return attacks.trained_link_stealing(
            key, rows, asked, known=known, x=x, perceptron=network, **more
        )

    rng = np.random.default_rng(5)
    blind = rng.dirichlet(np.ones(C), N).astype(np.float32)
    noise = rng.normal(size=(N, D)).astype(np.float32)
    found = train(leaking, noise)
    both(found, train(blind, noise), within=0.25)
    # The records tell, the answers do not.
    assert finds(train(blind, np.asarray(leaking @ np.eye(C, D), np.float32)))
    assert attacks.link_stealing(leaking, targets).auc.mean < 0.4
    # The same attacker trained on one graph and asked about another, whose nodes are the same in
    # another order.
    turn = rng.permutation(N)
    elsewhere = Targets(np.argsort(turn)[targets.units], targets.truth)
    moved = train(leaking[turn], noise[turn], elsewhere, known_posteriors=leaking, known_x=noise)
    np.testing.assert_allclose(moved.scores, found.scores, atol=1e-3 * np.abs(found.scores).max())
