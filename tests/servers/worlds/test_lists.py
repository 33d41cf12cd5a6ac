"""What is not stated of friends is another one in each world, spread evenly."""

import math
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from ldp_jax.servers.worlds import lists
from ldp_jax.servers.worlds.friends import MOST_ECHO, MOST_OVERLAP, StatedFriends

WORLDS = 100


@pytest.fixture
def drawn_with(monkeypatch, untyped):
    """The shares that worlds are drawn with: of common noise, overlap and echo; [WORLDS, 3]."""

    def found(friends, ridge):
        shares = []
        misled = []
        monkeypatch.setattr(lists, "_alike_classes", lambda *given: shares.append(given[-1]))
        monkeypatch.setattr(lists, "drawn_friends", lambda *given: misled.append(given[-1]))
        known = SimpleNamespace(ridge=ridge, log_q=None)
        facts = SimpleNamespace(labels=np.full(10, -1), known=known)
        first = np.array([0.1, 0.5, 0.9])
        worlds = lists.ListWorlds(facts, friends, np.zeros((10, 2), np.float32), object(), first)
        for number in range(WORLDS):
            worlds.draw(jax.random.key(0), number)
        return np.column_stack([shares, misled])

    return found


def test_unstated_shares_are_spread_evenly_over_worlds(drawn_with):
    """Up to what the ridge leaves of a score's variance, and from half of it: pi^2 / 6 is that of
    Gumbel noise.
    """
    ridge = 0.5
    most = 1 / (1 + ridge * math.pi**2 / 6)
    found = drawn_with(StatedFriends(3.0, 0.5), ridge)
    least = np.array([most / 2, 0.0, 0.0])
    place = (found - least) / ([most, MOST_OVERLAP, MOST_ECHO] - least)
    evenly = (np.arange(WORLDS) + 0.5) / WORLDS
    assert np.abs(np.sort(place, 0) - evenly[:, None]).max() < 0.06
    together = np.corrcoef(place, rowvar=False)
    assert np.abs(together - np.eye(3)).max() < 0.15


def test_stated_shares_are_those_of_all_worlds(drawn_with):
    found = drawn_with(StatedFriends(3.0, 0.5, overlap=0.25, echo=0.0), None)
    np.testing.assert_allclose(found, np.tile([0.0, 0.25, 0.0], (WORLDS, 1)))
