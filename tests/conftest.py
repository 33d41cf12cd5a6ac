"""Every test runs on the CPU, under JAX's key-reuse checker, and with the same hypothesis examples each time."""

import os
import sys
from collections.abc import Iterator

import hypothesis
import jax
import pytest
from jaxtyping import config as jaxtyping_config

jax.config.update("jax_platforms", os.environ.get("JAX_PLATFORMS") or "cpu")
hypothesis.settings.register_profile("ci", derandomize=True, deadline=None, database=None, max_examples=25)
hypothesis.settings.load_profile("ci")


@pytest.fixture(autouse=True)
def no_key_is_used_twice() -> Iterator[None]:
    with jax.debug_key_reuse(True):
        yield


@pytest.fixture(autouse=True, scope="module")
def programs_are_forgotten() -> Iterator[None]:
    """Compiled programs of a finished file would fill the memory of a worker by and by."""
    yield
    jax.clear_caches()


@pytest.fixture
def untyped() -> Iterator[None]:
    """What a user meets, who has no run-time type checker that would refuse an argument first."""
    jaxtyping_config.update("jaxtyping_disable", True)
    yield
    jaxtyping_config.update("jaxtyping_disable", False)


@pytest.fixture(autouse=True)
def _no_figure_stays_open():
    """matplotlib warns, and so fails, at the twenty-first open figure of a process."""
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")
