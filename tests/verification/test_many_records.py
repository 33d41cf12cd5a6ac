"""Leaks at few records and in few graphs: natural records, and graphs of every shape, are asked."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.core.pytree import mechanism, static
from ldp_jax.core.spaces import Interval, clip
from ldp_jax.edges import DPRR, NoisyDegree, RandomizedResponse, ReportedPairs
from ldp_jax.features import DuchiVector, Laplace
from ldp_jax.hyperbolic import HyperbolicGaussian
from ldp_jax.verification import (
    graphs,
    hockey_stick,
    privacy_loss_supremum,
    statistics,
    verdict,
)
from ldp_jax.verification.cases import CASES
from ldp_jax.verification.graphs import matches_graphs
from tests import broken
from tests.marks import untyped

# --- Whole graphs ---------------------------------------------------------------------------------


@mechanism
class SomeRaw(RandomizedResponse):
    """Some users of whole graphs are sent as they are."""

    which: str = static(default="nobody")

    def raw(self, users):
        lists = bits_of(users, self.n)
        graphs = lists.reshape(-1, self.n, self.n).astype(int)
        return {
            "nobody": np.zeros(len(lists), bool),
            "hubs": users.degree >= 4,
            "loners": users.degree == 0,
            "triangles": (np.einsum("gij,gjk,gki->gi", graphs, graphs, graphs) > 0).ravel(),
            "where one end reports": np.full(len(lists), self.reporting != "full"),
            "a graph alone": np.full(len(lists), users.group.max() == 0),
            "who has most friends": np.arange(len(lists)) == users.degree.argmax(),
        }[self.which]

    def sample_graph(self, key, users, memory):
        honest = RandomizedResponse(self.epsilon, self.n, self.reporting)
        drawn = honest.sample_graph(key, users, memory)
        raw = self.raw(users)
        noisy = ~raw[drawn.reporter]
        true = raw[users.receivers]
        reporter = np.concatenate([drawn.reporter[noisy], users.receivers[true]])
        reported = np.concatenate([drawn.reported[noisy], users.senders[true]])
        return ReportedPairs(reporter, reported, drawn.degree)


@mechanism
class SharedNoise(RandomizedResponse):
    """Where both ends report a pair, their bits are flipped by the same noise."""

    def sample_graph(self, key, users, memory):
        if self.reporting != "full":
            return super().sample_graph(key, users, memory)
        true = bits_of(users, self.n).reshape(-1, self.n, self.n)
        flip = np.asarray(jax.random.bernoulli(key, jax.nn.sigmoid(-self.epsilon), true.shape))
        flip = np.triu(flip, 1)
        sent = true ^ flip ^ flip.transpose(0, 2, 1)
        reporter, reported = np.nonzero(sent.reshape(-1, self.n))
        start = reporter // self.n * self.n
        return ReportedPairs(reporter, start + reported, np.full(len(users.group), np.nan))


@mechanism
class Elsewhere(RandomizedResponse):
    """Users are reported to be friends of users of another graph."""

    def sample_graph(self, key, users, memory):
        drawn = super().sample_graph(key, users, memory)
        reported = (drawn.reported + self.n) % len(users.group)
        return drawn._replace(reported=reported.astype(np.int32))


def bits_of(users, n):
    bits = np.zeros((len(users.group), n), bool)
    bits[users.receivers, users.senders % n] = True
    return bits


def asked(m, seed=0, trials=50_000):
    return matches_graphs(m, jax.random.key(seed), trials=trials, significance=1e-7)


@untyped
@pytest.mark.parametrize(
    "which",
    [
        "hubs",
        "loners",
        "triangles",
        "where one end reports",
        "a graph alone",
        "who has most friends",
    ],
)
def test_graphs_of_every_shape_are_asked_in_every_reporting(which):
    assert not asked(SomeRaw(1.0, 6, which=which), trials=20_000).fits


@untyped
def test_two_ends_of_a_pair_report_independently():
    assert not asked(SharedNoise(1.0, 6)).fits


@untyped
@pytest.mark.parametrize("m", [SomeRaw(1.0, 6), DPRR(0.1, 0.9, n=5), NoisyDegree(1.0, n=5)])
def test_honest_graphs_fit(m):
    """``records`` says how many users were asked, in how many reportings."""
    found = asked(m, trials=10_000)
    assert found.fits, found
    assert found.records == len(m.reportings) * 17 * m.n
    assert found.draws == 100 * found.records


@untyped
def test_users_and_pairs_of_them_share_the_significance(monkeypatch):
    """A half is the users', each with 100 reports; the other half is that of pairs."""
    given = []

    def g_test(counts, mass, significance):
        given.append((int(counts.sum()), significance))
        return statistics.Fit(True, "G", 0.5, 2.0, 0.25, 10)

    monkeypatch.setattr(statistics, "g_test", g_test)
    monkeypatch.setattr(graphs, "_reports_of_graphs", lambda *_: None)
    level = np.zeros(100, int), np.full(9, 1 / 9)
    monkeypatch.setattr(graphs, "_levels", lambda *_: level)
    m = RandomizedResponse(1.0, 5)
    found = asked(m, trials=1000)
    modes = len(m.reportings)
    users = 17 * 5 * modes
    assert found[4:] == (1 / users, 100 * users, users)
    of_pairs = sorted(given)[users:]
    assert sorted(given)[:users] == [(100, pytest.approx(1e-7 / 2 / users))] * users
    assert of_pairs == [
        (n, pytest.approx(1e-7 / 4 / modes)) for n in [200] * modes + [4000] * modes
    ]


@untyped
def test_pairs_of_two_graphs_are_refused():
    with pytest.raises(ValueError, match="coordinates"):
        asked(Elsewhere(1.0, 6))


# --- Delta ----------------------------------------------------------------------------------------

NUMBERS: dict[str, Callable[[Any], Any]] = {
    "nowhere": lambda x: 0.0 * x,
    "between quarters": lambda x: jnp.sin(4 * jnp.pi * x) ** 2,
    "between ends and centre": lambda x: 4 * x**2 * (1 - x**2),
    "at 0.1": lambda x: 1.0 * (jnp.abs(x - 0.1) < 1e-9),
    "at one end": lambda x: 1.0 * (x == 1),
}


@mechanism
class QuietNumber(broken.ThinTail):
    """Gaussian noise whose spread is half of what it should be, where ``quiet`` says."""

    delta: float = static(default=6e-7)
    quiet: str = static(default="nowhere")

    def log_density(self, y, x):
        x = clip(x)
        spread = self.sigma * (1 - 0.5 * NUMBERS[self.quiet](x))
        return jax.scipy.stats.norm.logpdf(y, x, spread)

    def codomain(self):
        return Interval(-np.inf, np.inf)


@pytest.mark.parametrize("quiet", NUMBERS)
def test_delta_is_asked_of_many_numbers(quiet):
    answer = verdict.delta_of(QuietNumber(1.0, quiet=quiet), 1.0, 6e-7)
    assert answer.holds == (quiet == "nowhere")
    assert answer.found == pytest.approx(5e-7, rel=1e-3) if answer.holds else answer.found > 0.01


VECTORS: dict[str, Callable[[Any], Any]] = {
    "nowhere": lambda x: 0.0 * x[0],
    "off the axes": lambda x: 4 * x[0] ** 2 * x[1] ** 2 / jnp.maximum((x**2).sum(), 1e-30) ** 2,
    "half-way": lambda x: 4 * (x**2).sum() * (1 - (x**2).sum()),
}


@mechanism
class QuietVector(HyperbolicGaussian):
    """The same of vectors."""

    quiet: str = static(default="nowhere")

    def log_density(self, y, x):
        x = self.domain().clip(x)
        spread = self._scales() * (1 - 0.5 * VECTORS[self.quiet](x / self.clip))
        return jax.scipy.stats.norm.logpdf(y, x, spread).sum(-1)


@untyped
@pytest.mark.parametrize("dim", [2, 8])
@pytest.mark.parametrize("quiet", VECTORS)
def test_delta_is_asked_of_many_vectors(quiet, dim):
    """Of eight numbers that all differ, by a lower bound."""
    m = QuietVector(1.0, 1e-5, dim=dim, quiet=quiet)
    found = hockey_stick(m, m.guarantee().epsilon)
    if quiet == "nowhere":
        assert found == pytest.approx(1e-5, rel=1e-3)
    else:
        assert found > 0.01


@untyped
@pytest.mark.parametrize("name", ["HyperbolicGaussian", "RadialAngularGaussian"])
@pytest.mark.parametrize("epsilon", [0.1, 16.0])
def test_honest_vectors_lose_what_they_claim(name, epsilon):
    """In all directions, in which the rule for two or three numbers is good to 1 %."""
    m = CASES[name].make(epsilon)
    claim = m.guarantee()
    assert hockey_stick(m, claim.epsilon) == pytest.approx(claim.delta, rel=1e-3)


# --- Natural records of a pure law ----------------------------------------------------------------


@mechanism
class QuietTenths(Laplace):
    """The density is a quarter as wide at tenths but those that are halves, too."""

    def log_density(self, y, x):
        tenth = (jnp.abs(10 * x - jnp.round(10 * x)) < 1e-9) & (2 * x != jnp.round(2 * x))
        narrow = Laplace(4 * self.epsilon).log_density(y, x)
        return jnp.where(tenth, narrow, super().log_density(y, x))


@mechanism
class AlikeTold(DuchiVector):
    """Vectors of equal numbers between the centre and the ends are told by the first sign."""

    def log_density(self, y, x):
        first = jnp.asarray(x)[0]
        alike = (x == first).all() & (jnp.abs(first) < 1)
        return super().log_density(y, x) + jnp.where(alike, 4.0 * first * jnp.asarray(y)[0], 0.0)


@untyped
@pytest.mark.parametrize("m", [QuietTenths(1.0), AlikeTold(1.0, 3)])
def test_the_search_asks_natural_records(m):
    found = privacy_loss_supremum(m)
    assert found.epsilon == found.searched
    assert found.epsilon > 1.5
