"""Every job runs under each of JAX's strict flags, and gives what it gives without them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax import edges, features, hyperbolic, verification
from ldp_jax.attacks import all_pairs, link_stealing, linkteller
from ldp_jax.curators import EdgeRand, EdgeSplit, release
from ldp_jax.graph import graphs, propagation
from ldp_jax.learning import importance, label_training, models, training
from ldp_jax.servers import (
    JointPrivacy,
    StatedFriends,
    count_facts,
    predict_from_counts,
    predict_from_reports,
    predict_jointly,
    private_embedding,
    rehearse,
)
from ldp_jax.servers.links import link_scores
from tests.servers.planted import words

DATA = words()
GRAPH = DATA.graph
X = DATA.x
Y = DATA.y
N = DATA.num_nodes
DENSE = np.asarray(X.todense(), np.float32)
PANEL = np.arange(0, N, 3)
LABELS = np.where(np.arange(N) % 3 == 0, Y, -1)
FEW = all_pairs(np.arange(9), [[0, 1], [2, 3]])
SPLIT = EdgeSplit(graphs.from_edges([[0, 1]], 6), graphs.from_edges([[2, 3], [3, 4]], 6))
INPUTS = models.NodeInputs(GRAPH, DENSE)
SETTINGS = training.Settings(training.adam(0.1), epochs=3, batch_size=N, patience=1)


def embedded(key):
    mechanism = features.HDS(4.0, 40, 7)
    return private_embedding(key, GRAPH, DATA, mechanism, alpha=0.1, r=0.1)


def predicted_from_reports(key):
    found = predict_from_reports(key, GRAPH, X, PANEL, Y[PANEL], 6.0)
    return found.classes, jnp.exp(found.log_posterior), found.guarantee


def predicted_jointly(privacy):
    """But for what lists say alone: two ridges are equally good there, and rounding chooses."""

    def predicted(key):
        found = predict_jointly(key, GRAPH, X, PANEL, Y[PANEL], privacy, num_folds=3)
        return found._replace(counts=None)

    return predicted


def linked(key):
    counts = edges.privatize_counts(key, GRAPH, edges.NeighbourCounts(4.0, 3), Y)
    return counts, link_scores(counts.counts, Y, np.array([[0, 1], [2, 3]]), 4.0)


def sampled(mechanism):
    return lambda key: edges.privatize_graph(key, GRAPH, mechanism)


def in_a_ball(key):
    mechanism = hyperbolic.HyperbolicGaussian(1.0, delta=1e-5, clip=1.0)
    return jax.vmap(mechanism.privatize)(
        jax.random.split(key, 8), jnp.full((8, 2), 0.1, jnp.float32)
    )


def fitted(key, model):
    parts = [training.Examples(PANEL[start::3], Y[PANEL[start::3]]) for start in range(3)]
    objective = training.on_graph(training.node_classification)
    found = training.fit(key, model, objective, INPUTS, *parts, SETTINGS)
    return found, training.predict(model, found, INPUTS)


def fitted_on_reports(key):
    noise = features.GeneralizedRR(4.0, 3)
    reports = jax.vmap(noise.privatize)(jax.random.split(key, len(PANEL)), Y[PANEL])
    asked, chosen = (
        label_training.noisy_examples(noise, PANEL[i::2], reports[i::2]) for i in range(2)
    )
    context, train = label_training.drop_inputs(
        INPUTS, propagation.operator(GRAPH), asked, 2, also=chosen
    )
    model = label_training.drop(models.gcn(2, 4, 3))
    objective = training.on_graph(label_training.noisy_node_classification)
    test = training.Examples(PANEL, Y[PANEL])
    return training.fit(
        jax.random.clone(key), model, objective, context, train, chosen, test, SETTINGS
    )


def important(key):
    total = importance.Public(lambda rows: rows.sum(1), "a sum")
    return importance.importance(key, total, DENSE[:4], DENSE[:2], draws=2).audit()


def linktold(key):
    model = models.gcn(1, 4, 2)
    variables = jax.jit(model.init)(key, INPUTS)
    return linkteller(model, variables, INPUTS, FEW).auc.mean


def rehearsed(key):
    public = count_facts(jax.random.key(3), None, LABELS, num_classes=3)
    # Where JAX's own Poisson sampler is not compiled, its two ways of drawing share a key.
    with jax.debug_key_reuse(not jax.config.jax_disable_jit):
        return rehearse(key, public, (2.0,), friends=StatedFriends(8, 0.8), worlds=2).gains


JOBS = {
    "HDS": lambda key: jax.vmap(features.HDS(4.0, 40, 7).privatize)(
        jax.random.split(key, N), DENSE
    ),
    "private_embedding": embedded,
    "predict_from_reports": predicted_from_reports,
    "predict_from_counts": lambda key: predict_from_counts(key, GRAPH, X, LABELS, 4.0),
    "predict_jointly": predicted_jointly(JointPrivacy(record=4.0, list=2.0)),
    "predict_jointly by one report": predicted_jointly(JointPrivacy(both=4.0)),
    "link_scores": linked,
    "DPRR": sampled(edges.DPRR.from_epsilon(4.0, n_max=N, reporting="half")),
    "LocalLap": sampled(edges.LocalLap.from_epsilon(4.0)),
    "RandomizedResponse": sampled(edges.RandomizedResponse(4.0)),
    "NoisyDegree": sampled(edges.NoisyDegree(4.0)),
    "blink": lambda key: edges.private_links(key, GRAPH, 2.0),
    "release": lambda key: release(key, SPLIT, EdgeRand(2.0)),
    "HyperbolicGaussian": in_a_ball,
    "hyperbolic.embed": lambda key: hyperbolic.embed(
        key, hyperbolic.closure([0, 0, 1]), 3, epochs=2
    ),
    "GCN": lambda key: fitted(key, models.gcn(2, 4, 3)),
    "GAT": lambda key: fitted(key, models.gat(heads=2, hidden=2, outputs=3)),
    "label_training": fitted_on_reports,
    "importance": important,
    "linkteller": linktold,
    "link_stealing": lambda key: link_stealing(DENSE, FEW, distance="cosine").auc.mean,
    "rehearse": rehearsed,
    "check": lambda key: bool(verification.check(features.Laplace(1.0), key, trials=1000)),
}
"""What the README calls, and what compiles programs of its own, on 120 users."""

FLAGS = {
    "numpy_dtype_promotion": lambda: jax.numpy_dtype_promotion("strict"),
    "numpy_rank_promotion": lambda: jax.numpy_rank_promotion("raise"),
    "debug_nans": lambda: jax.debug_nans(True),
    "enable_x64": lambda: jax.enable_x64(True),
    "disable_jit": lambda: jax.disable_jit(),
    "checking_leaks": lambda: jax.checking_leaks(),
}
"""In this order programs are shared: no leak is looked for in a program that was traced before."""

STEP_BY_STEP = {
    "predict_from_reports",
    "predict_from_counts",
    "predict_jointly",
    "hyperbolic.embed",
    "rehearse",
}
"""Their loops take a minute or two where nothing is compiled."""


def cases():
    for name in JOBS:
        for flag in FLAGS:
            slow = flag == "disable_jit" and name in STEP_BY_STEP
            yield pytest.param(name, flag, marks=[pytest.mark.slow] if slow else [])


@functools.cache
def without_flags(name):
    """The result of a job, and of its leaves what types they have."""
    return jax.tree.leaves(JOBS[name](jax.random.key(0)))


@pytest.mark.usefixtures("untyped")  # without jit, arrays of NumPy come where a program has its own
@pytest.mark.parametrize(("name", "flag"), list(cases()))
def test_a_job_gives_what_it_gives_without_the_flag(name, flag):
    """To the rounding of float32, in float32; without what a flag forbids in the library's own
    programs. Without jit the search for a classifier's weights stops elsewhere: there
    probabilities agree to 0.1.
    """
    expected = without_flags(name)
    stops_elsewhere = (name, flag) == ("predict_from_reports", "disable_jit")
    atol = 0.1 if stops_elsewhere else 1e-3
    if flag == "checking_leaks":
        jax.clear_caches()
    with FLAGS[flag]():
        found = jax.tree.leaves(JOBS[name](jax.random.key(0)))
    for one, other in zip(found, expected, strict=True):
        if hasattr(other, "dtype"):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=atol)
        else:
            assert one == (pytest.approx(other, rel=1e-3) if isinstance(other, float) else other)
