"""Every test runs on the CPU or where JAX_PLATFORMS says, under JAX's key-reuse checker, with the
same examples.
"""

import atexit
import contextlib
import gc
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import jax
import jax.monitoring
import jaxlib.version
import pytest
from jaxtyping import config as jaxtyping_config

from tests import mutants

os.environ["LDP_JAX_PROGRESS"] = "0"
jax.config.update("jax_platforms", os.environ.get("JAX_PLATFORMS") or "cpu")
if (
    jax.config.jax_platforms != "cpu"
):  # references and networks in float32; what must be, asks for it itself
    jax.config.update("jax_default_matmul_precision", "highest")
# Most programs of tests run once: LLVM's first level, XLA's older emitter, and one module a program
# in place of 32. What tests start inherits the flags. XLA ends a process whose flags it does not
# know.
_FLAGS = ["--xla_backend_optimization_level=1"]
if jaxlib.version.__version_info__[:2] == (0, 10):
    _FLAGS += ["--xla_cpu_use_fusion_emitters=false", "--xla_cpu_parallel_codegen_split_count=1"]
# Folders whose tests draw by the million; in all others LLVM's level 0 halves what a program costs
# to compile.
_DRAWS = {"contract", "features", "verification"}
os.environ["XLA_FLAGS"] = " ".join([*_FLAGS, os.environ.get("XLA_FLAGS", "")]).strip()


collect_ignore = ["browser.py"]  # a script, which needs playwright


class _Programs:
    """What this worker compiled, on disk.

    JAX writes its files in place: each worker has a folder, and gives what is new in it to the
    others. They go with the run, unless ``JAX_COMPILATION_CACHE_DIR`` says where they may stay.
    """

    def __init__(self) -> None:
        kept = os.environ.get("JAX_COMPILATION_CACHE_DIR")
        run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(os.getpid())
        self.all = Path(kept) if kept else Path(tempfile.gettempdir()) / f"ldp_jax-{run}"
        self.mine = self.all / os.environ.get("PYTEST_XDIST_WORKER", "alone")
        self.mine.mkdir(parents=True, exist_ok=True)
        self.known = set(os.listdir(self.mine))
        if not kept:
            atexit.register(self.remove)

    def share(self) -> None:
        """Give the other workers what was compiled since the last time."""
        new = {name for name in os.listdir(self.mine) if name.endswith("-cache")} - self.known
        self.known |= new
        for other in self.all.glob("gw*"):
            if other == self.mine:
                continue
            with contextlib.suppress(FileNotFoundError):  # a worker that has ended
                for name in new - set(os.listdir(other)):
                    part = other / f"{name}.{self.mine.name}"
                    shutil.copyfile(self.mine / name, part)
                    part.replace(other / name)

    def remove(self) -> None:
        shutil.rmtree(self.mine, ignore_errors=True)
        with contextlib.suppress(OSError):  # another worker is there
            self.all.rmdir()


_PROGRAMS = _Programs()
# For the whole process: what a fixture of a file compiled would be compiled again in a test under
# another setting.
jax.config.update("jax_debug_key_reuse", True)
jax.config.update("jax_compilation_cache_dir", str(_PROGRAMS.mine))
jax.config.update(
    "jax_persistent_cache_enable_xla_caches", "none"
)  # a GPU's, whose path would name each program
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
# Each collection walks every program that was traced, and calls XLA; a file's garbage goes when it
# ends.
gc.set_threshold(20_000, 10, 10)
hypothesis.settings.register_profile(
    "ci", derandomize=True, deadline=None, database=None, max_examples=25
)
hypothesis.settings.load_profile("ci")


class _Memory:
    """Forgets compiled programs before they fill the memory: 500 take half a gigabyte; the disk
    keeps them.
    """

    def __init__(self) -> None:
        self.compiled = 0
        self.unshared = 0
        jax.monitoring.register_event_duration_secs_listener(self.count)

    def count(self, event: str, duration: float, **_: object) -> None:
        compiled = event == "/jax/core/compile/backend_compile_duration"
        self.compiled += compiled
        self.unshared += compiled

    def pytest_collection_finish(self) -> None:
        gc.freeze()  # modules and tests are no garbage

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        worth = item.path.parent.name in _DRAWS or jax.config.jax_platforms != "cpu"
        jax.config.update("jax_disable_most_optimizations", not worth)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self) -> None:
        if self.unshared > 50:
            self.unshared = 0
            _PROGRAMS.share()
        if self.compiled > 800:
            self.compiled = 0
            jax.clear_caches()
            gc.collect()


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Memory())
    config.pluginmanager.register(_Examples())


_SAMPLED: dict[str, int] = tomllib.loads(Path(__file__).with_name("sampled.toml").read_text())
_FAULTS = {test for mutant in mutants.load() for test in mutant["tests"]}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Cases that sampled.toml leaves to ``-m slow`` are marked; then those of one name are put
    together.

    As on a chessboard: a case runs where the places of its parameters, its file's start and the
    number of commits add up to a multiple. So no value of a parameter is left out for long, and
    each commit asks others.
    """
    commits = _commits()
    places: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for item in items:
        test = item.nodeid.partition("[")[0]
        file = test.partition("::")[0]
        # Tests of one file share fixtures: they go together. By these bits both halves of the files
        # take about as long.
        where = start = commits + (zlib.crc32(file.encode()) >> 12)
        params = dict(item.callspec.params) if hasattr(item, "callspec") else {}
        for mark in item.iter_markers("parametrize"):  # names of one list have one place
            names = mark.args[0].split(",") if isinstance(mark.args[0], str) else mark.args[0]
            first, *others = [name.strip() for name in names]
            params[first] = [params[first], *(params.pop(name) for name in others)]
        for name, value in params.items():
            known = places[test, name]
            where += known.setdefault(repr(value), len(known))
        asked = ((_SAMPLED.get(test, 1), where), (_SAMPLED.get(file, 1), start))
        always = _SAMPLED.get(test) == 1 or {item.nodeid, test} & _FAULTS
        if not always and any(every == 0 or place % every for every, place in asked):
            item.add_marker(pytest.mark.slow)
    _together(items)


def _commits() -> int:
    """How many there are up to HEAD; 0 outside a repository."""
    count = ["git", "rev-list", "--count", "HEAD"]
    try:
        return int(
            subprocess.run(count, cwd=Path(__file__).parent, capture_output=True, check=True).stdout
        )
    except (OSError, subprocess.CalledProcessError):
        return 0


def _together(items: list[pytest.Item]) -> None:
    """A file's tests of one ``name`` run together: they share programs that :class:`_Memory` would
    soon forget.
    """
    seen: dict[tuple[Path, Any], int] = {}

    def place(item: pytest.Item) -> tuple[int, int]:
        params = (
            item.callspec.params
            if isinstance(item, pytest.Function) and hasattr(item, "callspec")
            else {}
        )
        file = seen.setdefault((item.path, None), len(seen))
        name = params.get("name")
        return file, seen.setdefault((item.path, name), len(seen)) if isinstance(
            name, str
        ) else file

    items.sort(key=place)


class _Examples:
    """Verdicts in docstrings ask records of all types, which run-time types would refuse first."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Run an example of verification without them."""
        if not isinstance(item, pytest.DoctestItem) or item.path.parent.name != "verification":
            return (yield)
        jaxtyping_config.update("jaxtyping_disable", True)
        try:
            return (yield)
        finally:
            jaxtyping_config.update("jaxtyping_disable", False)


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
