"""Every test runs on the CPU, under JAX's key-reuse checker, and with the same hypothesis examples each time."""

import atexit
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import jax
import jax.monitoring
import pytest
from jaxtyping import config as jaxtyping_config

jax.config.update("jax_platforms", os.environ.get("JAX_PLATFORMS") or "cpu")


def _programs() -> Path:
    """Where this worker keeps what it compiled: what a finished file forgets is read back, not compiled once more.

    Workers do not share it, since JAX writes its files in place. It goes with the run, unless
    ``JAX_COMPILATION_CACHE_DIR`` says where it may stay: the next run then compiles what has changed.
    """
    kept = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
    if kept:
        return Path(kept) / worker
    made = tempfile.mkdtemp(prefix=f"ldp_jax-{worker}-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)


# For the whole process: what a fixture of a file compiled would be compiled again in a test under another setting.
jax.config.update("jax_debug_key_reuse", True)
jax.config.update("jax_compilation_cache_dir", str(_programs()))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
hypothesis.settings.register_profile("ci", derandomize=True, deadline=None, database=None, max_examples=25)
hypothesis.settings.load_profile("ci")


class _Memory:
    """Compiled programs of a finished file, tests or doctests, would fill the memory of a worker by and by.

    So would those of a long file: 500 programs take about half a gigabyte.
    """

    def __init__(self) -> None:
        self.compiled = 0
        jax.monitoring.register_event_duration_secs_listener(self.count)

    def count(self, event: str, duration: float, **_: object) -> None:
        self.compiled += event == "/jax/core/compile/backend_compile_duration"

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        if nextitem is None or nextitem.path != item.path or self.compiled > 500:
            self.compiled = 0
            jax.clear_caches()
            gc.collect()


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Memory())


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
