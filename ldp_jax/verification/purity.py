"""Is a report a function of its arguments, of the whole key, and of all that a record may be?"""

import contextlib
import functools
import logging
import math
import os
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from ldp_jax.core import random, validate
from ldp_jax.core.flags import standard_flags
from ldp_jax.core.mechanism import Randomizer, privatize
from ldp_jax.core.spaces import ByCoordinate, Enumerated, NotApplicable, Reports
from ldp_jax.core.types import Array, PRNGKey, Report, Values
from ldp_jax.verification._programs import (
    SIZE,
    block_of,
    count_of,
    equations,
    estimates,
    is_float,
    joined,
    natural,
    program_of,
    raw,
    repeated,
    report_each,
    some_of,
    take,
    traced_again,
    unfollowed,
)
from ldp_jax.verification.exact import spaces
from ldp_jax.verification.statistics import OUTSIDE, Fit

FUSED = 2e-5
"""How far an eager report may be from a compiled one, which rounds fused operations once: relative
to it, and to what is usual of reports, and absolute."""

_ASKED = 2**12  # reports of each record: what one in 300 holds is missed once in a million
_NEW = 8  # records of tables that plain calls are watched with
_SIZES = (1, 7, 64)  # users at once, beside a whole block
_ROWS = 64  # records of tables in each type
_WHOLE = (np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64)
_FLOATS = (np.float16, jnp.bfloat16, np.float32, np.float64)
_LONG = (np.int64, np.float64)  # types that the device has in 64-bit mode


def _same(a: Report, b: Report, rounding: float = 0.0) -> np.ndarray:
    """Which of stacked reports are equal, floats up to ``rounding``.

    NaN stands for what is not sent. No report equals one with a number of another type, whose
    further bits could tell.
    """
    same = np.ones(count_of(a), bool)
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        equal = one == other
        if is_float(one):
            sizes = np.abs(np.nan_to_num(np.float64(one), posinf=0.0, neginf=0.0))
            # A small sum of large numbers rounds as they do.
            near = rounding * np.maximum(1.0, np.median(sizes, 0))
            sides = map(np.float64, (one, other))
            equal = np.isclose(*sides, rtol=rounding, atol=near, equal_nan=True)
        if one.dtype == other.dtype:
            same &= equal.reshape(len(same), -1).all(1)
        else:
            same[:] = False
    return same


def _different(a: Report, b: Report) -> int:
    """How many of stacked reports differ by more than rounding."""
    return int((~_same(a, b, FUSED)).sum())


def _fit(wrong: dict[str, int], test: str, n: int) -> Fit:
    """Whether there are none of some faults; else which, and how many."""
    found = [name for name, count in wrong.items() if count]
    different = float(sum(wrong.values()))
    return Fit(not found, ", ".join(found) or test, different, 0.0, 1 / n, n)


def _told(codomain: Reports, reports: Report) -> int:
    """How many numbers or reports have other bits than equal ones: they could tell.

    No number may be -0, and all NaN have the bits of the first. Where a space counts its reports,
    those of one place have the same bits in every leaf, whether the space reads it or not.
    """
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(reports)]
    found = 0
    for leaf in leaves:
        if is_float(leaf):
            nan = raw(leaf)[np.isnan(leaf)]
            found += int((nan != nan[:1]).sum())
            found += int(((leaf == 0) & np.signbit(leaf)).sum())

    places = _places(codomain, reports)
    if places is not None:
        n = count_of(reports)
        _, first, place = np.unique(
            places.reshape(n, -1), axis=0, return_index=True, return_inverse=True
        )
        equal = first[np.ravel(place)]
        for leaf in leaves:
            bits = np.ascontiguousarray(leaf).reshape(n, -1).view(np.uint8)
            found += int((bits != bits[equal]).any(1).sum())
    return found


def _places(codomain: Reports, reports: Report) -> np.ndarray | None:
    """Where stacked reports lie in a finite space, a row each; None in another one."""
    if isinstance(codomain, Enumerated):
        return np.asarray(codomain.place(reports))
    inner = getattr(codomain, "inner", None)
    if isinstance(codomain, ByCoordinate) and isinstance(inner, Enumerated):
        coordinates, values = codomain.entries(reports)
        return np.hstack([coordinates, inner.place(values)])
    return None


def _by_hand(leaf: np.ndarray) -> Values:
    """A record as one writes it: Python's number, whole where it is.

    NumPy's 64 bits of a vector.
    """
    if np.ndim(leaf):
        return leaf.astype(np.float64 if is_float(leaf) else np.int64)
    return int(leaf) if np.isfinite(leaf) and leaf == int(leaf) else float(leaf)


def _key_of(words: np.ndarray) -> Any:
    """The same keys as elsewhere, on purpose: nothing is released."""
    return jax.random.wrap_key_data(jnp.asarray(words))


@jax.jit
def _alone(words: Array, mechanism: Randomizer, x: Values) -> Report:
    return mechanism.privatize(jax.random.wrap_key_data(words), x)


def _stacked(values: list[Report]) -> Report:
    return jax.tree.map(lambda *leaves: np.stack(leaves), *values)


def _form(report: Report) -> tuple[object, list[object]]:
    leaves, structure = jax.tree.flatten(report)
    return structure, [(np.asarray(leaf).dtype, np.shape(leaf)) for leaf in leaves]


def _outline(program: core.ClosedJaxpr) -> list[str]:
    """The operations of a program and its constants, without sizes."""
    literals = lambda one: [v.val for v in one.invars if isinstance(v, core.Literal)]
    found = [f"{one.primitive.name} {literals(one)}" for one in equations(program.jaxpr)]
    return found + [str(constant) for constant in program.consts]


@standard_flags()
def is_pure(mechanism: Randomizer, key: PRNGKey, *, calls: int = 4) -> Fit:
    """Whether ``privatize`` gives one report in every form of a call, and shows no more.

    A program that cannot be followed is refused at once, by its name: a call of the host, as
    ``jax.debug.callback``, foreign code, another program for several users or another platform.

    Both extreme records, the typical one, the centre, ``calls`` random ones and 8 that tables hold
    are reported by plain calls with NumPy arrays, with JAX arrays, with Python's numbers or arrays
    of 64 bits, by a compiled program of one record, of 8 192, of a second trace where that is
    another one, and of 1, 7 and 64 where that has other operations. Types and shapes must be the
    same, whole numbers equal, others to 2e-5; :func:`~ldp_jax.core.mechanism.privatize` must give
    these reports too, of a mechanism that it asks in parts.

    Plain calls are made once before they are watched, with new records: what JAX itself does when
    it compiles is no fault. Then they must not log, warn, print, write files, open sockets or start
    processes. Their messages about two records in place of one must not depend on the records. The
    estimate of a report must be the same before and after other plain calls, and compiled. No key
    may be used twice, as JAX's checker of key reuse finds.

    In 24 576 more reports, of the first three records, of random ones and of those that tables
    hold, no number may be -0, all NaN must have the same bits, and so must equal reports of a
    finite space.

    >>> from ldp_jax.features import Duchi
    >>> is_pure(Duchi(1.0), jax.random.key(0)).fits
    True
    """
    validate.integer_in(1, calls=calls)
    domain = mechanism.domain()
    hidden = unfollowed(mechanism, domain.typical())
    if hidden:
        return Fit(False, f"{hidden} cannot be followed", 1.0, 0.0, 0.0, 1)

    record_key, bits_key, key = random.split(key, 3)
    rng = random.generator(record_key)
    ordinary = domain.given(natural(domain, rng))
    sampled = domain.sample(rng, _ASKED + calls)
    known = [*domain.extremes(), domain.typical(), domain.centre()]
    new = take(ordinary, rng.integers(0, count_of(ordinary), _NEW))
    many = functools.reduce(joined, [new, _stacked(known), take(sampled, slice(calls))])
    words = np.asarray(jax.random.key_data(random.split(key, count_of(many))))

    first = report_each(words, mechanism, many)
    wrong = _faults_of_plain_calls(mechanism, words, many, first)
    wrong |= _faults_of_programs(mechanism, words, many, first)
    wrong["draws from a key that was used"] = int(_reuses_a_key(mechanism, take(many, 0)))

    tables = take(ordinary, np.arange(2 * _ASKED) % count_of(ordinary))
    repeats = [repeated(one, _ASKED) for one in known[:3]]
    rows = functools.reduce(joined, [tables, *repeats, take(sampled, slice(calls, None))])
    data = jax.random.key_data(random.split(bits_key, count_of(rows)))
    reports = report_each(data, mechanism, rows)
    wrong["bits of equal numbers"] = _told(mechanism.codomain(), reports)
    if hasattr(mechanism, "reads_part"):  # the library's own call draws it in two steps
        parts = privatize(jax.random.clone(bits_key), mechanism, rows)
        wrong["reports of parts"] = _different(reports, parts)

    return _fit(wrong, "eager and traced", 4 * count_of(many))


def _reuses_a_key(mechanism: Randomizer, x: Values) -> bool:
    """Whether a plain call draws twice from one key, so that two draws may be one."""
    with jax.debug_key_reuse(True):
        try:
            mechanism.privatize(jax.random.key(0), x)
        except jax.errors.KeyReuseError:
            return True
    return False


def _faults_of_plain_calls(
    mechanism: Randomizer, words: np.ndarray, many: Values, first: Report
) -> dict[str, int]:
    """How often plain calls differ from a compiled one, by how; the first records are new ones."""
    new = np.arange(_NEW)
    few = new[: _NEW // 2]
    old = np.arange(_NEW, len(words))
    estimate = getattr(mechanism, "estimate", lambda y: y)

    def called(places: np.ndarray, form: Callable[[np.ndarray], Values]) -> list[Report]:
        """The reports of plain calls about records that are given in some form."""
        given = lambda place: jax.tree.map(lambda leaf: form(np.asarray(leaf[place])), many)
        each = zip(_key_of(words[places]), places, strict=True)
        return [mechanism.privatize(key, given(place)) for key, place in each]

    reports = called(old, np.asarray)
    before = [estimate(y) for y in reports[: len(few)]]
    with effects() as seen:
        reports += called(new, np.asarray)
        jax.make_jaxpr(mechanism.privatize)(jax.random.key(0), take(many, 0))
    reports += called(old, _by_hand) + called(few, jnp.asarray)
    wrong = {f"{kind} beside the report": 1 for kind in sorted(seen)}

    complaints = set()  # of two records in place of one
    for place in old[:4].tolist():
        try:
            mechanism.privatize(_key_of(words[0]), repeated(take(many, place), 2))
            complaints.add("")
        except Exception as error:
            complaints.add(f"{type(error).__name__} {error}")
    wrong["messages of exceptions"] = len(complaints) - 1
    form = _form(take(first, 0))
    unlike = sum(_form(y) != form for y in reports)
    if unlike:
        return wrong | {"types or shapes of plain reports": unlike}

    compiled = take(first, np.concatenate([old, new, old, few]))
    wrong["plain and compiled reports"] = _different(compiled, _stacked(reports))
    if hasattr(mechanism, "estimate"):
        meant = estimates(mechanism, _stacked(reports[: len(few)]))
        after = [estimate(y) for y in reports[: len(few)]]
        unlike = sum(_different(meant, _stacked(each)) for each in (before, after))
        wrong["plain and compiled estimates"] = unlike
    return wrong


def _faults_of_programs(
    mechanism: Randomizer, words: np.ndarray, many: Values, first: Report
) -> dict[str, int]:
    """How many reports of other programs differ from those of a block, by program."""
    alone = [_alone(key, mechanism, take(many, place)) for place, key in enumerate(words)]
    wrong = {"reports of one user": _different(first, _stacked(alone))}
    usual = _outline(program_of(words, mechanism, many))
    for size in (SIZE, *_SIZES):
        program, reports = traced_again(words, mechanism, many, size)
        if _outline(program) != usual:
            name = "a second trace" if size == SIZE else f"{size} users"
            wrong[f"reports of {name}"] = _different(first, reports())
    return wrong


@standard_flags()
def uses_the_whole_key(mechanism: Randomizer, key: PRNGKey, *, calls: int = 256) -> Fit:
    """Whether each of the 64 bits of a key changes the report, at a record in the middle.

    Each of ``calls`` keys is compared with the same key with one bit changed.

    >>> from ldp_jax.features import Duchi
    >>> uses_the_whole_key(Duchi(1.0), jax.random.key(0)).fits
    True
    """
    validate.integer_in(64, calls=calls)
    data = np.asarray(jax.random.key_data(random.split(key, calls)))
    one_bit = [np.eye(2, dtype=np.uint32) << place for place in range(32)]
    flips = np.concatenate([np.zeros((1, 2), np.uint32), *one_bit])
    flipped = (data[None] ^ flips[:, None]).reshape(-1, 2)
    records = repeated(mechanism.domain().centre(), len(flipped))
    reports = report_each(flipped, mechanism, records)

    unflipped = take(reports, np.tile(np.arange(calls), len(flips)))
    changed = ~_same(reports, unflipped).reshape(len(flips), calls)[1:]
    following = take(reports, slice(1, calls))
    varied = (~_same(following, take(reports, slice(calls - 1)))).mean()
    if varied < 0.06:
        raise NotApplicable(
            f"reports of one record differ in {varied:.2g} of pairs: ask another epsilon"
        )
    dropped = int((~changed.any(1)).sum())
    missed = 1 - math.pow(1e-6 / 64, 1 / calls)
    return Fit(dropped == 0, "bits of the key", float(dropped), 0.0, missed, calls)


@standard_flags()
def is_total(mechanism: Randomizer, key: PRNGKey) -> Fit:
    """Whether a value is reported as the record that it means, whatever its form.

    NaN, infinities, 1e30 and numbers just beyond the ends are privatised with the keys of the
    clipped records, and so are vectors that tables hold of which one number is missing: reports
    must be the same and inside the codomain. A plain call must not raise for such records.

    Records that tables hold are given in every type: bool and whole numbers of 8 to 64 bits, where
    these hold them, and floats of 16 to 64 bits. A block of 64 of each type is reported under
    ``vmap``, and one by a plain call as an array or NumPy's scalar, and as Python's number or list.
    Reports must be those of the float32 (of lists: int32) records that are meant; in JAX's 64-bit
    mode, where they may be of another type, up to the rounding of float32.

    >>> from ldp_jax.features import Laplace
    >>> is_total(Laplace(1.0), jax.random.key(0)).fits
    True
    """
    domain, codomain = spaces(mechanism)
    record_key, outside_key, key = random.split(key, 3)
    bad, good = domain.outside()
    words = jax.random.key_data(random.split(outside_key, count_of(bad) + _ROWS))
    for place, one in enumerate(jax.random.wrap_key_data(words[: count_of(bad)])):
        mechanism.privatize(one, take(bad, place))

    rng = random.generator(record_key)
    ordinary = domain.given(natural(domain, rng))
    if isinstance(ordinary, np.ndarray) and ordinary.ndim == 2:
        missing = np.array(block_of(some_of(ordinary, rng, _ROWS), size=_ROWS))
        missing[np.arange(_ROWS), rng.integers(0, missing.shape[1], _ROWS)] = np.nan
        bad = joined(bad, missing)
        good = joined(good, np.asarray(jax.jit(domain.clip)(missing)))
    reports, others = (report_each(words[: count_of(x)], mechanism, x) for x in (bad, good))
    inside = np.asarray(codomain.contains(reports, rounding=2))
    same = _same(reports, others)
    unlike = "reports unlike those of the clipped records"
    wrong = {OUTSIDE: int((~inside).sum()), unlike: int((~same).sum())}
    data = np.asarray(jax.random.key_data(random.split(key, _ROWS)))
    wrong |= _faults_of_types(mechanism, data, ordinary, rng)

    return _fit(wrong, unlike, count_of(bad) + _ROWS)


def _faults_of_types(
    mechanism: Randomizer, words: np.ndarray, ordinary: Values, rng: np.random.Generator
) -> dict[str, int]:
    """How many reports of records of other types differ from those that are meant, by type."""
    whole = not is_float(jax.tree.leaves(ordinary)[0])
    types = _WHOLE if whole else (np.bool_, *_WHOLE, *_FLOATS)
    mapped = jax.vmap(mechanism.privatize)
    wrong: dict[str, int] = {}
    for kind in types:
        rows = _in_type(ordinary, kind, rng)
        if rows is None:
            continue
        typed, meant = rows
        reports = report_each(words, mechanism, meant)
        mapped_reports = jax.tree.map(np.asarray, mapped(_key_of(words), typed))
        different = _different(mapped_reports, reports)

        place = int(rng.integers(_ROWS))
        one: Any = take(typed, place)
        for form in [one] if whole else [one, one.tolist()]:
            report = mechanism.privatize(_key_of(words[place]), form)
            stacked = jax.tree.map(np.asarray, repeated(report, 1))
            different += _different(stacked, take(reports, slice(place, place + 1)))
        if kind in _LONG:
            # One that raises in 64-bit mode, or has reports of another shape there, is not asked.
            with contextlib.suppress(TypeError, ValueError), jax.enable_x64(True):
                long = [_narrow(report_each(words, mechanism, x, size=_ROWS)) for x in rows]
                different += _different(*long)
        wrong[f"reports of {np.dtype(kind).name} records"] = different
    return wrong


def _in_type(x: Values, kind: type[Any], rng: np.random.Generator) -> tuple[Values, Values] | None:
    """A block of records in another type, and what they mean; None where it holds none of them.

    Floats are rounded, and mean what they then are.
    """
    with np.errstate(all="ignore"):
        typed = jax.tree.map(lambda leaf: np.asarray(leaf).astype(kind), x)
        meant = jax.tree.map(lambda leaf, one: leaf.astype(one.dtype), typed, x)
    held = np.flatnonzero(_same(meant, x) | jnp.issubdtype(kind, jnp.floating))
    if not len(held):
        return None
    places = np.resize(rng.permutation(held), _ROWS)
    return take(typed, places), take(meant, places)


def _narrow(reports: Report) -> Report:
    """Reports of 64-bit mode in 32 bits."""
    short = lambda leaf: np.float32 if is_float(leaf) else np.int32
    return jax.tree.map(lambda leaf: np.asarray(leaf).astype(short(leaf)), reports)


# --- Side effects ---

_EVENTS = {
    "open": "a file",
    "socket": "a socket",
    "subprocess": "a process",
    "os.exec": "a process",
    "os.fork": "a process",
    "os.posix_spawn": "a process",
    "os.spawn": "a process",
    "os.startfile": "a process",
    "os.system": "a process",
    "os.putenv": "the environment",
    "sqlite3": "a database",
    "syslog": "the log",
    "_thread": "a thread",
}
"""What Python's audit events tell of, by the beginning of their names."""

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC

_watched = threading.local()


@contextlib.contextmanager
def effects() -> Iterator[set[str]]:
    """Within it the kinds of side effects of the current thread are collected.

    JAX compiles, and may log, warn and fill its cache, when it meets a program for the first time:
    calls are to be made once before they are watched. Its loggers and its cache are passed over.
    A file that was opened before, and a writer that keeps its text, are not seen.

    >>> with effects() as seen:
    ...     logging.getLogger("a").debug("not shown")
    >>> seen
    {'the log'}
    """
    seen: set[str] = set()
    _listen()
    # The audit begins last, since the temporary files of the descriptors are files, too.
    with (
        _descriptor(1, seen),
        _descriptor(2, seen),
        mock.patch.object(sys, "stdout", _Writer(sys.stdout)),
        mock.patch.object(sys, "stderr", _Writer(sys.stderr)),
        mock.patch.object(logging.Logger, "isEnabledFor", _is_enabled),
        warnings.catch_warnings(record=True) as warned,
    ):
        warnings.simplefilter("always")
        _watched.seen = seen
        try:
            yield seen
        finally:
            _watched.seen = None
    if warned:
        seen.add("a warning")


def _note(kind: str) -> None:
    seen = getattr(_watched, "seen", None)
    if seen is not None:
        seen.add(kind)


class _Writer:
    """A stream of text that notes what is written to it, and passes it on."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        """Note that there is output."""
        _note("output")
        return self.stream.write(text) if self.stream else len(text)


_enabled = logging.Logger.isEnabledFor


def _is_enabled(logger: logging.Logger, level: int) -> bool:
    """Note every request to log, whether or not anybody reads that level today."""
    if not logger.name.startswith("jax"):
        _note("the log")
    return _enabled(logger, level)


@functools.cache
def _listen() -> None:
    """Add the one audit hook of this process: none can be removed."""
    sys.addaudithook(_hear)


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if getattr(_watched, "seen", None) is None:
        return
    kind = next((kind for name, kind in _EVENTS.items() if event.startswith(name)), None)
    if kind is None:
        return
    if event == "open":
        path, _, flags = arguments
        cache = getattr(jax.config, "jax_compilation_cache_dir", None)
        if not flags & _WRITING or (cache and str(path).startswith(cache)):
            return
    _note(kind)


@contextlib.contextmanager
def _descriptor(number: int, seen: set[str]) -> Iterator[None]:
    """Keep output that is written below Python until the end, note it, and pass it on."""
    try:
        saved = os.dup(number)
    except OSError:
        saved = None  # the process has no such output
    if saved is None:
        yield
        return
    with tempfile.TemporaryFile() as file:
        _flush()
        os.dup2(file.fileno(), number)
        try:
            yield
        finally:
            _flush()
            os.dup2(saved, number)
            os.close(saved)
        file.seek(0)
        written = file.read()
        if written:
            seen.add("output")
            os.write(number, written)


def _flush() -> None:
    streams: list[Any] = [sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__]
    for stream in streams:
        with contextlib.suppress(AttributeError, OSError, ValueError):  # none, broken, or closed
            stream.flush()
