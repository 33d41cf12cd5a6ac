"""Every job runs under JAX's strict flags, and gives what it gives without them."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax import edges, features, hyperbolic, verification
from ldp_jax.edges.curator import EdgeRand, EdgeSplit, release
from ldp_jax.graph import graphs, propagation
from ldp_jax.learning import label_training, models, training
from ldp_jax.pipeline import (
    JointPrivacy,
    predict_from_counts,
    predict_from_reports,
    predict_jointly,
    private_embedding,
)
from ldp_jax.pipeline.links import link_scores
from tests.pipeline.planted import words

DATA = words()
GRAPH, X, Y = DATA.graph, DATA.x, DATA.y
N = DATA.num_nodes
DENSE = np.asarray(X.todense(), np.float32)
PANEL = np.arange(0, N, 3)
SPLIT = EdgeSplit(graphs.from_edges([[0, 1]], 6), graphs.from_edges([[2, 3], [3, 4]], 6))
SETTINGS = training.Settings(training.adam(0.1), epochs=4, batch_size=N, patience=2)


def fitted(key, model, inputs):
    parts = [training.Examples(PANEL[start::3], Y[PANEL[start::3]]) for start in range(3)]
    objective = training.on_graph(training.node_classification)
    found = training.fit(key, model, objective, inputs, *parts, SETTINGS)
    return found, training.predict(model, found, inputs)


def label_trained(key):
    noise = features.GeneralizedRR(4.0, 3)
    reports = jax.vmap(noise.privatize)(jax.random.split(key, len(PANEL)), Y[PANEL])
    asked, chosen = (label_training.noisy_examples(noise, PANEL[i::2], reports[i::2]) for i in range(2))
    inputs = models.NodeInputs(GRAPH, DENSE)
    context, train = label_training.drop_inputs(inputs, propagation.operator(GRAPH), asked, 2, also=chosen)
    model = label_training.drop(models.gcn(2, 4, 3))
    objective = training.on_graph(label_training.noisy_node_classification)
    test = training.Examples(PANEL, Y[PANEL])
    return training.fit(jax.random.clone(key), model, objective, context, train, chosen, test, SETTINGS)


def counted(key):
    labels = np.where(np.arange(N) % 3 == 0, Y, -1)
    return predict_from_counts(key, GRAPH, X, labels, 4.0)


def linked(key):
    groups = Y.astype(np.int32)
    counts = edges.privatize_counts(key, GRAPH, edges.NeighbourCounts(4.0, 3), groups)
    return counts, link_scores(counts.counts, groups, np.array([[0, 1], [2, 3]]), 4.0)


def sampled(mechanism):
    return lambda key: edges.privatize_graph(key, GRAPH, mechanism)


JOBS = {
    "hds": lambda key: jax.vmap(features.HDS(4.0, 40, 7).privatize)(jax.random.split(key, N), DENSE),
    "embedding": lambda key: private_embedding(key, GRAPH, DATA, features.HDS(4.0, 40, 7), alpha=0.1, r=0.1),
    "reports": lambda key: predict_from_reports(key, GRAPH, X, PANEL, Y[PANEL], 6.0),
    "counts": counted,
    "jointly": lambda key: predict_jointly(
        key, GRAPH, X, PANEL, Y[PANEL], JointPrivacy(record=4.0, list=2.0), num_folds=3
    ),
    "one report": lambda key: predict_jointly(key, GRAPH, X, PANEL, Y[PANEL], JointPrivacy(both=4.0), num_folds=3),
    "links": linked,
    "dprr": sampled(edges.DPRR.from_epsilon(4.0, n_max=N, reporting="half")),
    "laplace lists": sampled(edges.LocalLap.from_epsilon(4.0)),
    "response": sampled(edges.RandomizedResponse(4.0)),
    "degrees": sampled(edges.NoisyDegree(4.0)),
    "curator": lambda key: release(key, SPLIT, EdgeRand(2.0)),
    "hyperbolic": lambda key: jax.vmap(hyperbolic.HyperbolicGaussian(1.0, delta=1e-5, clip=1.0, dim=2).privatize)(
        jax.random.split(key, 8), jnp.full((8, 2), 0.1)
    ),
    "fit": lambda key: fitted(key, models.gcn(2, 4, 3), models.NodeInputs(GRAPH, DENSE)),
    "gat": lambda key: fitted(key, models.gat(heads=2, hidden=2, outputs=3), (GRAPH, DENSE)),
    "labels": label_trained,
    "verdict": lambda key: bool(verification.check(features.Laplace(1.0), key, trials=1000)),
}

FLAGS = {
    "plain": contextlib.nullcontext,
    "strict": lambda: jax.numpy_dtype_promotion("strict"),
    "ranks": lambda: jax.numpy_rank_promotion("raise"),
    "x64": lambda: jax.enable_x64(True),
    "nans": lambda: jax.debug_nans(True),
    "leaks": jax.checking_leaks,
    "eager": jax.disable_jit,
}
