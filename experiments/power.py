"""The smallest leak that a verdict finds, against the draws that it is given."""

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pandas as pd

from experiments._declared import measured
from experiments._runner import DEFAULT_OUT, asked, check_positive
from ldp_jax import verification
from ldp_jax.core import validate
from ldp_jax.core.mechanism import mechanism, static
from ldp_jax.core.progress import phase, watched
from ldp_jax.core.types import Array, PRNGKey, Record, Scalar
from ldp_jax.features import GeneralizedRR, Laplace

NAME = "power"
TRIALS = (10_000, 30_000, 100_000, 300_000)
MASSES = tuple(0.5 * 2.0 ** (-place / 2) for place in range(31))


Other = Callable[[PRNGKey, Array, Array], Array]
"""The report that leaks, by a key, the record and the honest report."""


@mechanism
class Leaky(Laplace):
    """Laplace noise, or another report with probability ``mass``, unlike its law."""

    mass: Scalar = 0.0
    other: Other = static(default=lambda key, x, y: y)

    def privatize(self, key: PRNGKey, x: Record) -> Array:
        """The honest report, or the other one."""
        coin_key, other_key, key = jax.random.split(key, 3)
        x = self.domain().clip(x)
        y = super().privatize(key, x)
        leaks = jax.random.bernoulli(coin_key, self.mass)
        return jnp.where(leaks, self.other(other_key, x, y), y)


@mechanism
class KeptCategory:
    """Randomised response, by which the seventh category is kept with probability ``mass`` more."""

    inner: Any
    mass: Scalar = 0.0

    def domain(self) -> Any:
        """Categories."""
        return self.inner.domain()

    def codomain(self) -> Any:
        """Categories."""
        return self.inner.codomain()

    def guarantee(self) -> Any:
        """That of randomised response."""
        return self.inner.guarantee()

    def privatize(self, key: PRNGKey, x: Record) -> Array:
        """A category."""
        coin_key, key = jax.random.split(key)
        kept = jax.random.bernoulli(coin_key, self.mass) & (self.domain().clip(x) == 7)
        return jnp.where(kept, 7, self.inner.privatize(key, x))

    def log_density(self, y: Record, x: Record) -> Array:
        """That of randomised response."""
        return self.inner.log_density(y, x)

    def estimate(self, y: Record) -> Array:
        """The reported category."""
        return jnp.asarray(y)


LEAKS: dict[str, Callable[..., Any]] = {
    "the record, raw": partial(Leaky, other=lambda key, x, y: x),
    "zeros, raw": partial(Leaky, other=lambda key, x, y: jnp.where(x == 0, x, y)),
    "noise of a hundredth": partial(
        Leaky, other=lambda key, x, y: x + jax.random.laplace(key) / 50
    ),
    # A size beyond most reports, with the sign of the record.
    "a tail on its side": partial(
        Leaky, other=lambda key, x, y: jnp.sign(x) * (4 + jax.random.exponential(key))
    ),
    "one category of 20 kept": lambda epsilon, mass: KeptCategory(GeneralizedRR(epsilon, 20), mass),
}
TESTS = ("sampler", "records", "game", "windows", "distinct")


@dataclasses.dataclass(frozen=True)
class Config:
    """The smallest mass of five leaks that a verdict refuses, against its trials.

    Table, CSV and figure. Each leak keeps the density of an honest mechanism at epsilon 1. Minutes.
    """

    trials: tuple[int, ...] = TRIALS
    """draws that a verdict is given"""
    seeds: int = 3
    """verdicts of each mass, all of which must refuse it"""
    out: Path = DEFAULT_OUT
    """where power.csv, power.md and power.png go"""


def main(config: Config) -> None:
    check_positive("--seeds", config.seeds)
    with asked("--trials"):
        for trials in config.trials:
            validate.whole(1000, trials=trials)
    measured(config.out, NAME, found(config))


def found(config: Config) -> Iterator[pd.DataFrame]:
    """The rows of each leak and all before it."""
    rows = []
    with watched(NAME):
        for place, (leak, make) in enumerate(LEAKS.items()):
            phase(leak, place / len(LEAKS))
            for trials in config.trials:
                mass = smallest(make, trials, config.seeds)
                rows.append({"leak": leak, "trials": trials, "mass": mass})
            yield pd.DataFrame(rows)


def smallest(make: Callable[..., Any], trials: int, seeds: int) -> float:
    """The smallest of :data:`MASSES` that is refused under each key, by bisection; NaN for none."""
    found, missed = -1, len(MASSES)
    while missed - found > 1:
        place = (found + missed) // 2
        if all(refused(make(1.0, MASSES[place]), trials, seed) for seed in range(seeds)):
            found = place
        else:
            missed = place
    return MASSES[found] if found >= 0 else float("nan")


def refused(made: Any, trials: int, seed: int) -> bool:
    """Whether one of the tests of draws refuses a mechanism."""
    draw_key, key = jax.random.split(jax.random.key(seed))
    asked = verification.verdict.Questions(made, draw_key, trials, 1e-6)
    questions = [question for question in asked.table() if question.name in TESTS]
    keys = jax.random.split(key, len(questions))
    answers = (
        verification.verdict.ask(made, question, one)
        for question, one in zip(questions, keys, strict=True)
    )
    return any(answer.holds is False for answer in answers)
