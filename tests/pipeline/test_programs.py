"""The one-call jobs are few compiled programs, the same for every key, epsilon, share of labels and unit."""

import jax
import numpy as np
import pytest

from ldp_jax.features import HDS
from ldp_jax.pipeline import predict_from_counts, predict_from_reports, private_embedding
from tests.pipeline.planted import words

N = 120
CALLS = ((0, 4.0, 0.3, "list"), (1, 6.0, 0.5, "relationship"))
"""Seed, epsilon, share of labels and unit."""


@pytest.fixture(scope="module")
def data():
    return words()


def embedded(data, seed, epsilon, share, unit):
    mechanism = HDS(epsilon, dim=data.num_features, k=7)
    return private_embedding(jax.random.key(seed), data.graph, data, mechanism, alpha=0.1, r=0.1).z


def counted(data, seed, epsilon, share, unit):
    labels = np.where(np.random.default_rng(0).random(N) < share, data.y, -1)
    found = predict_from_counts(jax.random.key(seed), data.graph, data.x, labels, epsilon, unit=unit)
    assert found.strength > 0  # else the phases that learn from reports are left out
    return found.log_posterior


def reported(data, seed, epsilon, share, unit):
    panel = np.flatnonzero(np.random.default_rng(0).random(N) < share)
    found = predict_from_reports(jax.random.key(seed), data.graph, data.x, panel, data.y[panel], epsilon)
    assert found.strength > 0
    return found.log_posterior


@pytest.mark.parametrize(("job", "most"), [(embedded, 10), (counted, 17), (reported, 21)])
def test_a_job_is_few_programs_and_other_arguments_compile_none(data, job, most):
    programs = []

    def listen(event, *_, **__):
        if event == "/jax/core/compile/backend_compile_duration":
            programs.append(event)

    jax.clear_caches()
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        jax.block_until_ready(job(data, *CALLS[0]))
        first = len(programs)
        jax.block_until_ready(job(data, *CALLS[1]))
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert 0 < first <= most
    assert len(programs) == first
