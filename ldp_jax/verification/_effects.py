"""What a plain call does beside its report: it logs, warns, prints, writes files, or sends."""

import contextlib
import functools
import logging
import os
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from typing import Any
from unittest import mock

import jax

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
    """What is written below Python is kept until the end, noted, and passed on."""
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
