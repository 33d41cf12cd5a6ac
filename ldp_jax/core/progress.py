"""Tell a function how far a long call is, or show it once the call has taken five seconds.

A long call runs within :func:`watched` and says with :func:`phase` what it begins. Without a
function of the caller's there is a bar in terminals and notebooks, and a line every ten seconds on
stderr elsewhere; with ``LDP_JAX_PROGRESS=0`` in the environment there is nothing.

>>> def job(progress=None):
...     with watched("job", progress):
...         phase("asks", 0.0)
...         phase("answers", 0.5)
>>> job(lambda words, share: print(f"{share:.0%} {words}"))
0% asks
50% answers
100% done
"""

import contextlib
import dataclasses
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

from typing_extensions import TypeAliasType

__all__ = ["Progress", "phase", "watched"]

__dir__ = lambda: __all__

_BAR = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}"


Progress = TypeAliasType("Progress", Callable[[str, float], object])
"""Told the name of each phase that begins, and the share that is over; at the end ``done``, 1. It
may raise.
"""

AFTER = 5.0
BETWEEN = 10.0
TICK = 1.0
"""Seconds before anything is shown, between two lines, and between two drawings of a bar."""


@dataclasses.dataclass
class _Call:
    """A call from ``start`` to ``end``, whose present phase is from ``over`` to ``until``."""

    tell: Progress
    start: float = 0.0
    end: float = 1.0
    over: float = 0.0
    until: float = 1.0

    def place(self, share: float) -> float:
        return self.start + (self.end - self.start) * share


_CALL: ContextVar[_Call | None] = ContextVar("call", default=None)


def phase(words: str, share: float, until: float = 1.0) -> None:
    """Say what begins, and its shares of the innermost :func:`watched` call, if there is one."""
    call = _CALL.get()
    if call is not None:
        call.over = max(call.over, call.place(share))
        call.until = call.place(until)
        call.tell(words, call.over)


@contextlib.contextmanager
def watched(name: str, progress: Progress | None = None) -> Iterator[None]:
    """Tell the phases of a call to ``progress``, to the call around it, or to the user."""
    around = _CALL.get() if progress is None else None
    with contextlib.ExitStack() as stack:
        if around is not None:
            tell = lambda words, share: around.tell(f"{name}: {words}", share)
            call = _Call(tell, around.over, around.until, around.over)
        else:
            call = _Call(stack.enter_context(_shown(name)) if progress is None else progress)
        token = _CALL.set(call)
        try:
            yield
        finally:
            _CALL.reset(token)
        if around is not None:
            around.over = call.over
        else:
            call.tell("done", 1.0)


@contextlib.contextmanager
def _shown(name: str) -> Iterator[Progress]:
    """Show the phases of a call to a user who gave no function: a thread, as they take minutes."""
    if os.environ.get("LDP_JAX_PROGRESS") == "0":
        yield lambda words, share: None
        return
    latest: list[Any] = ["begins", 0.0]
    begun = time.monotonic()
    over = threading.Event()

    def tell(words: str, share: float) -> None:
        latest[:] = [words, share]

    def draw() -> None:
        from tqdm.auto import tqdm

        bar = tqdm(total=1.0, leave=False, delay=AFTER, miniters=0, smoothing=0, bar_format=_BAR)
        while not over.wait(TICK):
            words, share = latest
            bar.set_description_str(f"{name}: {words}", refresh=False)
            bar.update(share - bar.n)
        bar.close()

    def write() -> None:
        ended = over.wait(AFTER)
        if ended:
            return
        while True:  # a line every ten seconds, and one at the end
            words, share = latest
            seconds = time.monotonic() - begun
            sys.stderr.write(f"{name}: {words}, {share:.0%}, {seconds:.0f} s\n")
            if ended:
                return
            ended = over.wait(BETWEEN)

    def show() -> None:
        # There may be no stderr, or one that is closed.
        with contextlib.suppress(AttributeError, OSError, ValueError):
            drawn = "ipykernel.zmqshell" in sys.modules or getattr(sys.stderr, "isatty", bool)()
            if drawn:
                draw()
            else:
                write()

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield tell
    finally:
        over.set()
        thread.join()
