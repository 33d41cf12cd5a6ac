"""Progress: told in order to whoever asks, shown late to whoever does not, and never in the way of the call."""

import io
import sys
import time

import pytest

from ldp_jax.core import progress
from ldp_jax.core.progress import phase, watched


def test_a_call_within_another_stands_in_its_phase():
    told = []
    with watched("outer", lambda words, share: told.append((words, round(share, 6)))):
        phase("first", 0.2, 0.6)
        with watched("inner"):
            phase("half", 0.5)
            phase("late", 0.1)  # never backwards
        phase("second", 0.3)
        with watched("own", lambda *_: None):  # tells somebody else
            phase("elsewhere", 0.5)
    assert told == [("first", 0.2), ("inner: half", 0.4), ("inner: late", 0.4), ("second", 0.4), ("done", 1.0)]


@pytest.fixture
def shown(monkeypatch):
    """At once rather than after five seconds."""
    monkeypatch.setenv("LDP_JAX_PROGRESS", "1")
    monkeypatch.setattr(progress, "AFTER", 0.0)
    monkeypatch.setattr(progress, "BETWEEN", 0.02)


def said_until(words, capsys):
    """What a phase says on stderr until it has said this."""
    phase("asks", 0.25)
    said = ""
    while words not in said:
        time.sleep(0.01)
        said += capsys.readouterr().err
    return said


def test_a_long_phase_is_a_line_without_a_terminal(shown, capsys):
    with watched("job"):
        said_until("job: asks, 25%, 0 s\n", capsys)
    assert capsys.readouterr().err.endswith("job: done, 100%, 0 s\n")


@pytest.mark.parametrize("rich", [True, False])
def test_a_terminal_has_a_bar_where_rich_is(shown, capsys, monkeypatch, rich):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    if not rich:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    with watched("job"):
        said = said_until("25%", capsys)
    assert ("━" in said) == rich


@pytest.mark.parametrize("stderr", [None, io.StringIO()])
def test_a_result_is_not_lost_where_stderr_is_none_or_closed(shown, monkeypatch, stderr):
    if stderr is not None:
        stderr.close()
    monkeypatch.setattr(sys, "stderr", stderr)
    with watched("job"):
        phase("asks", 0.25)
        time.sleep(0.05)
        result = 1
    assert result == 1


def test_a_bar_leaves_what_the_caller_prints_alone(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    before, bar = sys.stdout, progress._bar("job")
    assert bar is not None
    try:
        assert sys.stdout is before
    finally:
        bar.stop()


def test_quick_calls_and_a_switch_are_silent(monkeypatch, capsys):
    with watched("quick"):
        phase("asks", 0.5)
    monkeypatch.setattr(progress, "AFTER", 0.0)
    monkeypatch.setenv("LDP_JAX_PROGRESS", "0")
    with watched("off"):
        time.sleep(0.01)
    assert capsys.readouterr() == ("", "")
