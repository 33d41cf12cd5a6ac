"""Methods for private friendships by name, functions of a draw and a budget; rehearsals."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import jax
import numpy as np

from experiments.frontier.baselines import BASELINES, lists
from experiments.frontier.baselines._released import Answer, Asked, nothing_kept, nothing_read
from ldp_jax import edges, predict_from_counts, servers
from ldp_jax.core.types import Graph
from ldp_jax.servers import Rehearsal, StatedFriends, rehearse
from ldp_jax.servers.counts import PilotedCounts
from ldp_jax.servers.from_both import STATED_FRIENDS
from ldp_jax.servers.parts import self_training
from ldp_jax.servers.questions.counts import NO_NOISE
from ldp_jax.servers.rehearsal import echo, homophily, overlap

Unit = Literal["list", "relationship"]

Method = Callable[[Any, Asked, float, Unit], Answer]
"""Of a key, a draw, epsilon and the unit that it is about."""

REHEARSAL = "rehearsal"
"""The row's name."""

FORETOLD = "points foretold"
LOW = "least points foretold"
HIGH = "most points foretold"
SPREAD = "spread of worlds"
WITHOUT = "without reports"
CHANCE = "chance of a gain"
"""Its metrics: points, what is right without reports in percent, and a probability, which is
computed last.
"""

LABELS = "public labels"
"""How many there are, where no column says so."""


def foretold(found: Rehearsal, epsilon: float) -> dict[str, float]:
    told = found.foreseen(epsilon)
    gains = found.gains[:, found.epsilons.index(epsilon)]
    worlds = {SPREAD: float(gains.std(ddof=1)), WITHOUT: found.base(epsilon)}
    return {FORETOLD: told.points, LOW: told.low, HIGH: told.high, **worlds, CHANCE: told.chance}


def stated(
    graph: Graph, y: np.ndarray, q: self_training.FeaturesPosterior | None = None
) -> StatedFriends:
    """The statement of an owner who knows friendships well: as they are.

    For a private graph this is a release.
    """
    pairs = np.stack([np.asarray(graph.senders), np.asarray(graph.receivers)], 1)
    degree = np.bincount(pairs[:, 0], minlength=len(y))
    told = (None, None) if q is None else (overlap(pairs, y, q.log_q), echo(pairs, y, q.log_q))
    return StatedFriends(
        float(degree.mean()), homophily(pairs, y), float(degree.std() / degree.mean()), *told
    )


def _columns(found: PilotedCounts) -> dict[str, Any]:
    """The columns of piloted counts: the forecast after the pilot, and the guard's belief."""
    plan = found.design
    return {
        "groups": plan.best,
        "strength": round(found.strength, 4),
        "forecast": round(plan.accuracy[plan.best] - plan.accuracy_without, 4),
    }


def piloted(key: Any, asked: Asked, epsilon: float, unit: Unit, guarded: bool = True) -> Answer:
    found = predict_from_counts(
        key,
        asked.graph,
        asked.rows,
        asked.labels,
        epsilon,
        unit=unit,
        num_classes=asked.classes,
        log_q=asked.q,
        guarded=guarded,
    )
    return Answer(found.log_posterior, found.guarantee, _columns(found.found))


def _placebo(key: Any, asked: Asked, epsilon: float, unit: Unit, guarded: bool = True) -> Answer:
    """Piloted counts where every user reports on the list of another one at random.

    Nothing to be learned.
    """
    key, shuffle_key = jax.random.split(key)
    users = servers.Users(lists=asked.graph).shuffled(shuffle_key)
    return _asked(key, asked, epsilon, users, guarded=guarded)


def true_counts(key: Any, asked: Asked, epsilon: float, unit: Unit) -> Answer:
    """The ceiling of piloted counts.

    The same groups, law, guard and stack on counts without noise.
    """
    users = servers.Users(lists=asked.graph).exact()
    return _asked(key, asked, NO_NOISE, users)._replace(guarantee=nothing_kept())


def _asked(
    key: Any, asked: Asked, epsilon: float, users: servers.Users, guarded: bool = True
) -> Answer:
    """Two-round counts of some users."""
    fold_key, key = jax.random.split(key)
    found = servers.simulate(
        key, servers.CountServer(facts_of(fold_key, asked), epsilon, guarded=guarded), users
    )
    return Answer(found.value.log_posterior, found.guarantee, _columns(found.value))


def facts_of(key: Any, asked: Asked) -> servers.facts.counts.CountFacts:
    """The public facts of a draw."""
    return servers.count_facts(
        key, asked.rows, asked.labels, num_classes=asked.classes, log_q=asked.q
    )


def _rehearsal(key: Any, asked: Asked, epsilon: float, unit: Unit) -> Answer:
    """The forecast of piloted counts; no user reports."""
    fold_key, key = jax.random.split(key)
    found = rehearse(key, facts_of(fold_key, asked), (epsilon,), friends=asked.friends)
    guarantee = nothing_read()
    shown = (*guarantee.unprotected, STATED_FRIENDS, "spread, overlap and echo: public")
    guarantee = dataclasses.replace(guarantee, unprotected=shown)
    return Answer({LABELS: found.labels, **foretold(found, epsilon)}, guarantee)


def check(name: str, epsilon: float, users: int, classes: int) -> None:
    """Construct a method's mechanisms: they refuse wrong parameters before any computation."""
    if name in WITHOUT_EPSILON:
        return
    if name.startswith("dprr"):
        edges.DPRR.from_epsilon(epsilon, n_max=users)
    elif name.startswith("blink"):
        edges.NoisyDegree(lists.DEGREE_SHARE * epsilon)
        edges.RandomizedResponse((1 - lists.DEGREE_SHARE) * epsilon)
    elif name.startswith("rr"):
        edges.RandomizedResponse(epsilon)
    elif name == "noisy degree":
        edges.NoisyDegree(epsilon, noise="geometric")
    else:
        edges.NeighbourCounts(epsilon / (2 if name.endswith("2 rounds") else 1), classes)


def _baseline(name: str, key: Any, asked: Asked, epsilon: float, unit: Unit) -> Answer:
    return BASELINES[name](key, asked, epsilon)


PILOTED = "piloted"
PLACEBO, UNGUARDED_PLACEBO = "piloted, placebo", "piloted, placebo, no guard"
FEATURES = "features"
PLAIN = "plain counts"
CEILING = "non-private, counts"

METHODS: dict[str, Method] = {
    PILOTED: piloted,
    "piloted, no guard": partial(piloted, guarded=False),
    PLACEBO: _placebo,
    UNGUARDED_PLACEBO: partial(_placebo, guarded=False),
    **{name: partial(_baseline, name) for name in BASELINES},
    CEILING: true_counts,
    REHEARSAL: _rehearsal,
}
"""In the order in which they were added: a name's place is a part of its rows' keys."""

WITHOUT_EPSILON = tuple(name for name in METHODS if name.startswith(("features", "non-private")))
"""Rows that use no private data at all, or all of it."""

PUBLISHED_METHODS = tuple(
    name for name in BASELINES if name not in WITHOUT_EPSILON and name != PLAIN
)
"""Released lists, degrees and counts as others use them; beside features alone, what ours is held
against.
"""
