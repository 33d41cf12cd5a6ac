"""How far a long call is: told to a function of the caller's, or shown once the call has taken five seconds.

A long call runs within :func:`watched` and says with :func:`phase` what it begins; both are of the host alone, so
that nothing is compiled anew. Without a function of the caller's there is a bar in terminals and notebooks, where
rich is installed, and lines on stderr elsewhere; with ``LDP_JAX_PROGRESS=0`` in the environment there is nothing.

>>> def job(progress=None):
...     with watched("job", progress):
...         phase("asks", 0.0)
...         phase("answers", 0.5)
>>> job(lambda words, share: print(f"{share:.0%} {words}"))
0% asks
50% answers
100% done
>>> with watched("both", lambda words, share: print(f"{share:.0%} {words}")):  # a call within another
...     phase("first", 0.2)
...     job()
20% first
20% job: asks
60% job: answers
100% done
"""

import contextlib
import dataclasses
import importlib.util
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

__all__ = ["Progress", "phase", "watched"]

__dir__ = lambda: __all__


Progress = Callable[[str, float], object]
"""Told, as each phase of a call begins, its name and the share of the call that is over; at the end ``done``, 1.
What it raises ends the call."""

AFTER, BETWEEN = 5.0, 10.0
"""Seconds before anything is shown, and between two lines."""


@dataclasses.dataclass
class _Call:
    """A call under way: from ``start`` to ``end``, and its present phase from ``over`` to ``until``."""

    tell: Progress
    start: float = 0.0
    end: float = 1.0
    over: float = 0.0
    until: float = 1.0

    def place(self, share: float) -> float:
        return self.start + (self.end - self.start) * share


_CALL: ContextVar[_Call | None] = ContextVar("call", default=None)


def phase(words: str, share: float, until: float = 1.0) -> None:
    """Say what begins, and between which shares of the innermost :func:`watched` call; silent outside of one."""
    call = _CALL.get()
    if call is not None:
        call.over, call.until = max(call.over, call.place(share)), call.place(until)
        call.tell(words, call.over)


@contextlib.contextmanager
def watched(name: str, progress: Progress | None = None) -> Iterator[None]:
    """A call whose phases are told to ``progress``; else to the call around it, in its phase; else shown."""
    around, shown = _CALL.get(), None
    if progress is not None:
        call, around = _Call(progress), None
    elif around is not None:
        tell = around.tell
        call = _Call(lambda words, share: tell(f"{name}: {words}", share), around.over, around.until, around.over)
    else:
        shown = _Shown(name)
        call = _Call(shown)
    token = _CALL.set(call)
    try:
        yield
    finally:
        _CALL.reset(token)
        if shown:
            shown.close()
    if around:
        around.over = call.over
    else:
        call.tell("done", 1.0)


class _Shown:
    """The view of somebody who gave no function: nothing at first, then a bar, or a line from time to time."""

    def __init__(self, name: str) -> None:
        self.name, self.words, self.share, self.begun = name, "begins", 0.0, time.monotonic()
        self.bar: Bar | None = None
        self.lines = False
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.wait, daemon=True)
        if os.environ.get("LDP_JAX_PROGRESS") != "0":
            self.thread.start()

    def __call__(self, words: str, share: float) -> None:
        self.words, self.share = words, share
        if self.bar or self.over.is_set():
            self.show()

    def wait(self) -> None:
        pause = AFTER
        while not self.over.wait(pause):
            pause = BETWEEN
            if self.bar is None and not self.lines:
                self.bar = _bar(self.name)
                self.lines = self.bar is None
            self.show()

    def show(self) -> None:
        if self.bar:
            self.bar.update(self.bar.task_ids[0], description=f"{self.name}: {self.words}", completed=self.share)
        elif self.lines:
            seconds = time.monotonic() - self.begun
            with contextlib.suppress(AttributeError, OSError, ValueError):  # no stderr, or one that is closed
                sys.stderr.write(f"{self.name}: {self.words}, {self.share:.0%}, {seconds:.0f} s\n")

    def close(self) -> None:
        self.over.set()
        if self.thread.is_alive():
            self.thread.join()
        if self.bar:
            self.bar.stop()
            self.bar = None


def _bar(words: str) -> "Bar | None":
    """A bar that vanishes in the end; None without rich, or where it could not be drawn."""
    try:
        from rich.console import Console
        from rich.progress import Progress, TimeElapsedColumn
    except ImportError:
        return None
    if sys.stderr is None or sys.stderr.closed:
        return None
    console = Console(stderr=True)
    drawn = importlib.util.find_spec("ipywidgets") if console.is_jupyter else console.is_terminal
    if not drawn:
        return None
    bar = Progress(
        *Progress.get_default_columns(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    bar.add_task(words, total=1.0)
    bar.start()
    return bar
