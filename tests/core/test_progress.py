"""Progress: told in order to whoever asks, shown late to whoever does not, and never in the way of
the call.
"""

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
    assert told == [
        ("first", 0.2),
        ("inner: half", 0.4),
        ("inner: late", 0.4),
        ("second", 0.4),
        ("done", 1.0),
    ]


@pytest.fixture
def shown(monkeypatch):
    """At once rather than after five seconds."""
    monkeypatch.setenv("LDP_JAX_PROGRESS", "1")
    for name, seconds in (("AFTER", 0.0), ("BETWEEN", 0.02), ("TICK", 0.02)):
        monkeypatch.setattr(progress, name, seconds)


def said_until(words, capsys):
    """What a phase says on stderr until it has said this."""
    phase("asks", 0.25)
    said = ""
    while words not in said:
        time.sleep(0.01)
        said += capsys.readouterr().err
    return said


def test_a_function_that_is_an_empty_list_is_told():
    class Told(list):
        def __call__(self, words, share):
            self.append((words, share))

    told = Told()
    with watched("job", told):
        phase("a", 0.5)
    assert told == [("a", 0.5), ("done", 1.0)]


def test_a_long_phase_is_a_line_without_a_terminal(shown, capsys):
    with watched("job"):
        said_until("job: asks, 25%, 0 s\n", capsys)
    assert capsys.readouterr().err.endswith("job: done, 100%, 0 s\n")


def test_a_terminal_has_a_bar_that_goes(shown, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with watched("job"):
        assert "\n" not in said_until("job: asks:  25%|██", capsys)
    assert capsys.readouterr().err.endswith(" \r")


class Gone(io.StringIO):
    def write(self, text):
        raise BrokenPipeError


@pytest.mark.parametrize("stderr", [None, io.StringIO(), Gone(), object()])
def test_a_result_is_not_lost_where_nothing_can_be_written(shown, monkeypatch, stderr):
    if type(stderr) is io.StringIO:
        stderr.close()
    monkeypatch.setattr(sys, "stderr", stderr)
    with watched("job"):
        phase("asks", 0.25)
        time.sleep(0.05)
        result = 1
    assert result == 1


def test_quick_calls_and_a_switch_are_silent(monkeypatch, capsys):
    monkeypatch.setattr(progress, "TICK", 0.001)
    for switch, after in (("1", progress.AFTER), ("0", 0.0)):
        monkeypatch.setenv("LDP_JAX_PROGRESS", switch)
        monkeypatch.setattr(progress, "AFTER", after)
        for terminal in (False, True):
            monkeypatch.setattr(
                sys.stderr, "isatty", lambda terminal=terminal: terminal, raising=False
            )
            with watched("quick"):
                phase("asks", 0.5)
                time.sleep(0.01)
    assert capsys.readouterr() == ("", "")
