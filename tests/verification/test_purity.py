"""Reports that depend on the form of a call, or are not all that it does: each is refused, and an
honest sibling holds.
"""

import dataclasses
import logging
import os
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax import verification
from ldp_jax.core.pytree import mechanism, static
from ldp_jax.core.spaces import Enumerated, Finite, Product, clip
from ldp_jax.features import Duchi, DuchiVector, Laplace, Sampled
from ldp_jax.verification import cases
from ldp_jax.verification._programs import unfollowed
from ldp_jax.verification.purity import _different, _fit, effects
from ldp_jax.verification.statistics import SIGNIFICANCE, Fit
from tests.marks import untyped

pytestmark = untyped
SHIPPED = [name for name, case in cases.CASES.items() if not case.central]


def plainly(y):
    """Whether a report is a plain call's."""
    return not isinstance(y, jax.core.Tracer)


# --- The program ----------------------------------------------------------------------------------


@jax.custom_batching.custom_vmap
def raw_in_a_few(y, x):
    """The report; the record where fewer than 64 users are mapped."""
    return y


@raw_in_a_few.def_vmap
def _(users, mapped, y, x):
    return (jnp.broadcast_to(x, jnp.shape(y)) if users < 64 else y), True


class Hidden(NamedTuple):
    """A call that no program shows, and the name by which it is refused."""

    name: str
    call: Any


HIDDEN = [
    Hidden("debug_callback", lambda y, x: jax.debug.callback(lambda x: None, x) or y),
    Hidden("debug_print", lambda y, x: jax.debug.print("{x}", x=x) or y),
    Hidden("pure_callback", lambda y, x: jax.pure_callback(np.asarray, y, x)),
    Hidden("io_callback", lambda y, x: jax.experimental.io_callback(np.asarray, y, x)),
    Hidden("custom_vmap_call", raw_in_a_few),
    Hidden("ffi_call", lambda y, x: jax.ffi.ffi_call("other", y)(x)),
    Hidden(
        "platform_index",
        lambda y, x: jax.lax.platform_dependent(y, x, cpu=lambda y, x: y, default=lambda y, x: x),
    ),
    Hidden(
        "pure_callback",
        lambda y, x: jax.lax.cond(
            y > 4, lambda x: jax.pure_callback(np.asarray, y, x), lambda x: y, x
        ),
    ),
]


@mechanism
class Calls(Laplace):
    """A report that goes through a call that no program shows."""

    hidden: Any = static(default=None)

    def privatize(self, key, x):
        return self.hidden.call(super().privatize(key, x), clip(x))


@pytest.mark.parametrize("hidden", HIDDEN, ids=lambda hidden: hidden.name)
def test_what_cannot_be_followed_is_refused_by_name(hidden):
    fit = verification.is_pure(Calls(1.0, hidden=hidden), jax.random.key(0))
    assert not fit.fits
    assert fit.test == f"{hidden.name} cannot be followed"
    assert fit[2:] == (1.0, 0.0, 0.0, 1, 1)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_programs_can_be_followed(name):
    """The rules of this library's own ``custom_vmap`` are asked at several sizes instead."""
    m = cases.CASES[name].make(1.0)
    assert unfollowed(m, m.domain().typical()) == ""


# --- Reports --------------------------------------------------------------------------------------


@mechanism
class TypeRaw(Laplace):
    """Arrays of one type are sent as they are."""

    kind: Any = static(default=complex)

    def draw(self, key, x):
        y = super().draw(key, x)
        return clip(x) if jnp.asarray(x).dtype == self.kind else y


@mechanism
class FormRaw(Laplace):
    """Records of one of Python's or NumPy's classes are sent as they are."""

    kind: Any = static(default=complex)

    def draw(self, key, x):
        return clip(x) if isinstance(x, self.kind) else super().draw(key, x)


@mechanism
class ListsRaw(Sampled):
    """Python's lists are sent as they are."""

    kind: Any = static(default=dict)

    def privatize(self, key, x):
        y = super().privatize(key, jnp.asarray(x, jnp.float32))
        return y._replace(values=clip(x)[y.indices]) if isinstance(x, self.kind) else y


@mechanism
class MissingTells(Sampled):
    """A coordinate that is missing gets no noise, where another one is not."""

    leaks: bool = static(default=True)

    def privatize(self, key, x):
        y = super().privatize(key, x)
        unknown = jnp.isnan(jnp.asarray(x))
        missing = unknown & ~unknown.all() & self.leaks
        return y._replace(values=jnp.where(missing[y.indices], 0.0, y.values))


TYPES = [
    *(bool, np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64),
    *(np.float16, jnp.bfloat16, np.float64),
]
TOTAL = {
    **{np.dtype(kind).name: TypeRaw(1.0, kind=kind) for kind in TYPES},
    "Python's float": FormRaw(1.0, kind=float),
    "Python's bool": FormRaw(1.0, kind=bool),
    "NumPy's scalars": FormRaw(1.0, kind=np.generic),
    "Python's lists": ListsRaw(Laplace(0.25), 4, 2, kind=list),
    "a missing coordinate": MissingTells(Laplace(0.25), 4, 2),
}
HONEST_TOTAL = {
    "numbers": TypeRaw(1.0),
    "forms": FormRaw(1.0),
    "lists": ListsRaw(Laplace(0.25), 4, 2),
    "missing": MissingTells(Laplace(0.25), 4, 2, leaks=False),
}


@pytest.mark.parametrize("name", TOTAL)
def test_a_record_of_another_form_is_refused_where_it_tells(name):
    fit = verification.is_total(TOTAL[name], jax.random.key(1))
    assert not fit.fits
    assert fit.test.startswith("reports ")


@pytest.mark.parametrize("name", HONEST_TOTAL)
def test_a_record_of_any_form_holds_where_it_does_not_tell(name):
    assert verification.is_total(HONEST_TOTAL[name], jax.random.key(1)).fits


@dataclasses.dataclass(frozen=True)
class FirstColumn(Enumerated):
    """Rows of numbers, the first of which is a bit."""

    def members(self):
        return np.array([[0.0, 0.0], [1.0, 0.0]])

    def place(self, values):
        return np.asarray(values)[..., 0].astype(np.int64)


@mechanism
class Beyond(Duchi):
    """Beside an honest bit a number that the space does not read."""

    leaks: bool = static(default=True)

    def codomain(self):
        return FirstColumn()

    def privatize(self, key, x):
        bit = super().privatize(key, x) > 0
        more = clip(x) if self.leaks else jnp.float32(1.0)
        return jnp.stack([bit.astype(jnp.float32), more])

    def estimate(self, y):
        return jnp.asarray(y)[..., 0]


class Pair(NamedTuple):
    """Two leaves, the second of which is none of the space's."""

    values: Any
    more: Any


@dataclasses.dataclass(frozen=True)
class FirstLeaf(Product):
    """Vectors in the first of two leaves."""

    def entries(self, y):
        return super().entries(y.values)


@mechanism
class BeyondLeaf(DuchiVector):
    """Beside honest signs a leaf that the space does not read."""

    leaks: bool = static(default=True)

    def codomain(self):
        return FirstLeaf(self.dim, Finite((-1.0, 1.0)))

    def privatize(self, key, x):
        more = jnp.asarray(x, jnp.float32)[0] * self.leaks
        return Pair(super().privatize(key, x), jnp.abs(clip(more)))

    def estimate(self, y):
        return super().estimate(y.values)


@mechanism
class SignOfNothing(Laplace):
    """Numbers beyond 3 are 0 instead, with the sign of a record near 0."""

    leaks: bool = static(default=True)

    def draw(self, key, x):
        y = super().draw(key, x)
        told = (jnp.abs(clip(x)) < 1e-3) & (clip(x) < 0) & self.leaks
        return jnp.where(y > 3, jnp.where(told, -0.0, 0.0), y)


@mechanism
class FormTells(Laplace):
    """A plain report of a positive record has another shape or type."""

    change: Any = static(default=None)

    def privatize(self, key, x):
        y = super().privatize(key, x)
        return self.change(y) if plainly(y) and clip(x) > 0 else y


@mechanism
class RawAlone(Laplace):
    """A compiled call for one user sends the record."""

    def privatize(self, key, x):
        y = super().privatize(key, x)
        return y if plainly(y) or type(y).__name__ == "BatchTracer" else clip(x)


TRACED: list[str] = []
"""The traces of a program for many users."""


@mechanism
class RawLater(Laplace):
    """Honest in the first program for many users that is traced; later ones send the record."""

    leaks: bool = static(default=True)

    def privatize(self, key, x):
        y = super().privatize(key, x)
        if type(y).__name__ != "BatchTracer":
            return y
        TRACED.append("")
        return clip(x) if self.leaks and len(TRACED) > 1 else y


@mechanism
class Complains(Laplace):
    """What is said of several records for one shows them."""

    leaks: bool = static(default=True)

    def privatize(self, key, x):
        if np.ndim(x):
            raise ValueError(f"one number, not {x if self.leaks else np.shape(x)}")
        return super().privatize(key, x)


@mechanism
class OneKey(Laplace):
    """Whether somebody is asked again, and the noise of the answer, come from one key."""

    leaks: bool = static(default=True)

    def privatize(self, key, x):
        again, noise = (key, key) if self.leaks else jax.random.split(key)
        y = super().privatize(noise, x)
        return jnp.where(jax.random.uniform(again, dtype=jnp.float32) < 2.0, y, 0.0)


SEEN: dict[float, float] = {}
"""The records of plain reports."""


@mechanism
class Remembers(Laplace):
    """An estimate looks up the record of a report, or how many reports there were."""

    by: str = static(default="")

    def privatize(self, key, x):
        y = super().privatize(key, x)
        if plainly(y):
            SEEN[float(y)] = float(clip(x))
        return y

    def estimate(self, y):
        if not plainly(y) or not self.by:
            return jnp.asarray(y)
        return jnp.asarray(SEEN[float(y)] if self.by == "report" else float(len(SEEN)))


# --- What else a call does ------------------------------------------------------------------------


@mechanism
class Beside(Laplace):
    """A plain call with a record near 0, which tables hold, does something else, too."""

    tell: Any = static(default=None)

    def privatize(self, key, x):
        y = super().privatize(key, x)
        if plainly(y):
            self.tell(float(clip(x)))
        return y


def writes(x):
    """Add the record to a file."""
    with open(os.path.join(tempfile.gettempdir(), "leaking.txt"), "a") as file:
        file.write(f"{x}")


def opens_a_socket(x):
    """Open one, and send nothing."""
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()


def starts_a_process(x):
    """Start one that does nothing."""
    subprocess.run([sys.executable, "-S", "-c", ""], check=True)


BESIDE = {
    "the log, unread": ("the log", lambda x: logging.getLogger("quiet").debug("%s", x)),
    "the log": ("the log", lambda x: logging.getLogger("loud").warning("%s", x)),
    "a warning": ("a warning", lambda x: warnings.warn(f"{x}", stacklevel=1)),
    "print": ("output", print),
    "standard error": ("output", lambda x: sys.stderr.write(f"{x}")),
    "below Python": ("output", lambda x: os.write(2, f"{x}\n".encode())),
    "a file": ("a file", writes),
    "a socket": ("a socket", opens_a_socket),
    "a process": ("a process", starts_a_process),
}


@pytest.mark.filterwarnings("ignore")  # else the first call, which is not watched, would raise
@pytest.mark.parametrize("name", BESIDE)
def test_what_a_call_does_beside_its_report_is_refused_by_kind(name):
    kind, tell = BESIDE[name]
    fit = verification.is_pure(Beside(1.0, tell=tell), jax.random.key(2), calls=1)
    assert not fit.fits
    assert f"{kind} beside the report" in fit.test


def test_reading_and_what_another_thread_does_is_nothing():
    begun = threading.Event()
    other = threading.Thread(target=lambda: begun.wait() and logging.getLogger("o").debug(""))
    other.start()
    with effects() as seen:
        with open(__file__) as file:
            file.readline()
        begun.set()
        other.join()
    assert seen == set()


def test_what_jax_itself_logs_and_keeps_is_nothing():
    cache = jax.config.jax_compilation_cache_dir
    with effects() as seen:
        logging.getLogger("jax._src.compiler").debug("")
        with open(os.path.join(cache, "kept-atime"), "w"):
            pass
    assert seen == set()
    os.remove(os.path.join(cache, "kept-atime"))


@pytest.mark.parametrize("mode", ["w", "a", "x", "r+", "w+", "ab", "rb+", "r", "rb"])
def test_a_file_that_is_opened_to_be_written_is_an_effect_in_every_mode(mode, tmp_path):
    path = tmp_path / "file"
    if "x" not in mode:
        path.touch()
    with effects() as seen, open(path, mode):
        pass
    assert seen == ({"a file"} if set(mode) & set("wax+") else set())


def test_effects_without_descriptors():
    """A process without standard output, as a service has, is watched all the same."""
    program = (
        "import os, sys; os.close(1); os.close(2)\n"
        "from ldp_jax.verification.purity import effects\n"
        "sys.stdout = sys.stderr = None\n"
        "with effects() as seen: print('x'); open(os.devnull, 'w').close()\n"
        "sys.exit(seen != {'output', 'a file'})"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


PURE = {
    "a column": (Beyond(1.0), "bits of equal numbers"),
    "a leaf": (BeyondLeaf(1.0, 2), "bits of equal numbers"),
    "the sign of nothing": (SignOfNothing(1.0), "bits of equal numbers"),
    "a shape": (FormTells(1.0, change=lambda y: y[None]), "types or shapes of plain reports"),
    "a type": (FormTells(1.0, change=np.float64), "types or shapes of plain reports"),
    "one user": (RawAlone(1.0), "reports of one user"),
    "a later trace": (RawLater(1.0), "reports of a second trace"),
    "a message": (Complains(1.0), "messages of exceptions"),
    "an estimate by report": (Remembers(1.0, by="report"), "plain and compiled estimates"),
    "an estimate by time": (Remembers(1.0, by="time"), "plain and compiled estimates"),
}
HONEST = {
    "a column": Beyond(1.0, leaks=False),
    "a leaf": BeyondLeaf(1.0, 2, leaks=False),
    "zero": SignOfNothing(1.0, leaks=False),
    "form": FormTells(1.0, change=lambda y: y),
    "later": RawLater(1.0, leaks=False),
    "message": Complains(1.0, leaks=False),
    "two keys": OneKey(1.0, leaks=False),
    "estimate": Remembers(1.0),
    "beside": Beside(1.0, tell=float),
}


@pytest.mark.parametrize("name", PURE)
def test_a_report_that_tells_more_is_refused(name):
    m, fault = PURE[name]
    fit = verification.is_pure(m, jax.random.key(3), calls=1)
    assert not fit.fits
    assert fault in fit.test


def test_two_draws_from_one_key_are_refused_where_jax_does_not_look_for_them():
    with jax.debug_key_reuse(False):  # the tests' own flag would raise at the first report
        fit = verification.is_pure(OneKey(1.0), jax.random.key(3), calls=1)
    assert not fit.fits
    assert "draws from a key that was used" in fit.test


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_report_holds(name):
    fit = verification.is_pure(HONEST[name], jax.random.key(4), calls=1)
    assert fit.fits, fit.test
    assert fit[2:] == (0.0, 0.0, 1 / 52, 52, 1)  # four calls of 8 + 4 + 1 records


@pytest.mark.parametrize("calls", [64, 200])
def test_a_bit_of_the_key_that_changes_few_reports_is_missed_one_time_in_a_million(calls):
    """Each of 64 bits is missed where none of the calls shows it."""
    fit = verification.uses_the_whole_key(Duchi(1.0), jax.random.key(0), calls=calls)
    assert fit.fits
    assert 64 * (1 - fit.smallest_defect) ** calls == pytest.approx(SIGNIFICANCE)


def test_reports_that_differ_by_more_than_rounding_are_counted():
    """Relative to a number, to what is usual in its place, and absolute; NaN equals NaN."""
    first = np.float32([[1.0, 3e4], [0.0, 3e4], [np.nan, 3e4], [1e3, np.inf], [5.0, 0.0]])
    whole = np.arange(5)
    near = first * np.float32(1 + 1e-5) + np.float32([1e-5, 0.3])
    assert _different((first, whole), (near, whole)) == 0
    for place, by in ((0, 1e-3), (1, 2.0)):
        far = near.copy()
        far[[0, 4], place] += by
        assert _different((first, whole), (far, whole)) == 2
    assert _different((first, whole), (first, whole + (whole > 1))) == 3
    assert _different((first, whole), (first.astype(np.float64), whole)) == 5
    assert _different((first, whole), (np.nan_to_num(first, posinf=np.inf), whole)) == 1
    assert _fit({"none": 0, "some": 3, "more": 1}, "a test", 50) == (
        Fit(False, "some, more", 4.0, 0.0, 0.02, 50)
    )
    assert _fit({"none": 0}, "a test", 50) == Fit(True, "a test", 0.0, 0.0, 0.02, 50)
