"""Poisoning: the harm that malicious users do to everybody else, and what defences cost.

Liars lie about records (input) or send any value of the codomain (output); the other users and
their noise are the same in all rows of a draw. Beside each budget the same liars stand where
nothing is private.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from experiments import _common, _runner
from experiments._runner import Found, Results, rounded
from experiments.frontier import features, friendships, methods
from experiments.frontier.baselines._released import nothing_kept, of_lists, spent
from experiments.frontier.config import Config
from experiments.frontier.features_methods import SHOWN
from experiments.frontier.friendships import ACCURACY, Settings
from ldp_jax import edges, servers
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RECORD, PipelineGuarantee
from ldp_jax.attacks import poisoning
from ldp_jax.features import MultiPiecewise, Sampled
from ldp_jax.graph.propagation import operator, ppr
from ldp_jax.learning.metrics import fidelity
from ldp_jax.servers import ReportServer, Users, simulate

NAME = "frontier_poisoning"
ERROR, CORRELATION = "relative error", "correlation"
NONE = "none"
RANDOM = "random"
WORST = "worst"
FRIENDS = "friends"
CLASSES = "classes"
RESPONSE = "response"
SHARE = 0.05
SHARES = (0.01, 0.05, 0.1, 0.2)
AS_IT_IS = "as it is"
UNGUARDED = "no guard"
TRIMMED = "trimmed"
CHECKED = "both ends"
EXACT = 20.0
"""The epsilon of reports without privacy: their law's noise is 0 but once in 2e8."""
ALPHA = 0.1
"""Of embeddings."""
MOST_NUMBERS = 50_000_000
"""Of embeddings, a number for each user and feature: a larger graph has no rows of them."""
MOST_USERS = 3000
"""Of randomised response: a larger graph has no rows of lists, of which half of all pairs are
reported.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(_runner.Cell):
    """The harm of one kind of lie in one draw; ``mechanism`` is the defence."""

    setting: str
    """what is public: of a panel its size, else labels; as in the other parts"""
    lie: str
    share: float
    """of the users who are asked"""

    last_metric = property(lambda self: TASKS[self.task].metric)
    promise = property(lambda self: f"{self.task}, epsilon {self.epsilon:g}")

    @property
    def asked(self) -> poisoning.CountLie:
        """The lie, in the words of the attacks."""
        return cast("poisoning.CountLie", self.lie)

    def __str__(self) -> str:
        who = f"{self.share:.0%} lie ({self.lie})"
        return (
            f"{self.dataset} {self.task}, {self.mechanism}, eps {self.epsilon:g}, {who}, draw "
            f"{self.seed}"
        )


results_in = partial(Results, name=f"{NAME}_harm", cell=Cell)


class Keys(NamedTuple):
    """The keys of one draw: the same for all lies, shares, budgets and defences."""

    noise: Any
    liars: Any
    lie: Any
    facts: Any


def keys_of(settings: Settings, seed: int) -> Keys:
    key = jax.random.fold_in(jax.random.key(settings.base_seed + 4), seed)
    # A fourth key leaves the other three as they were.
    noise, liars, lie = jax.random.split(key, 3)
    return Keys(noise, liars, lie, facts=jax.random.fold_in(key, 3))


Score = Callable[[np.ndarray], dict[str, float]]
"""Metrics of some users, such as the honest; bool [n]."""
Answer = tuple[Score, PipelineGuarantee]


@lru_cache(maxsize=1)
def population(dataset: str) -> edges.Population:
    return edges.Population.of(friendships.load(dataset).graph)


def _noise(cell: Cell, groups: int, users: int) -> edges.NeighbourCounts:
    """Counts of neighbours, of whom a user has at most all others."""
    return edges.NeighbourCounts(min(cell.epsilon, EXACT), groups, most=users - 1)


def _fakes(users: edges.Population) -> int:
    """False friends of a liar: twice as many as true ones in the mean."""
    return round(2 * len(users.senders) / len(users.group))


def _counted(cell: Cell, users: int) -> PipelineGuarantee:
    return nothing_kept() if math.isinf(cell.epsilon) else of_lists(_noise(cell, 1, users))


@dataclasses.dataclass(frozen=True)
class _Trimmed:
    """Users of whom the server reads nobody whose counts are not possible."""

    users: servers.Users

    num_users = property(lambda self: self.users.num_users)

    def put(self, question: servers.Question) -> servers.Question:
        return question

    def answer(self, key: Any, question: Any) -> servers.Answers:
        values, reported = self.users.answer(key, question)
        groups = np.asarray(question.groups)
        sizes = np.bincount(groups[groups >= 0], minlength=question.num_groups)
        believed = reported.copy()
        believed[reported] = poisoning.believable_counts(values[reported], question.epsilon, sizes)
        return servers.Answers(np.where(believed[:, None], values, 0), believed)


def _of_counts(cell: Cell, settings: Settings, keys: Keys, liars: np.ndarray) -> Answer:
    """Piloted counts: accuracy of the honest whose class is asked for."""
    asked, y = friendships.draw(settings, cell.setting, cell.seed)
    users = population(settings.dataset)
    n = len(y)
    log_q = np.zeros((n, asked.classes)) if asked.q is None else np.asarray(asked.q.log_q)
    known = np.where(asked.labels[:, None] >= 0, np.eye(asked.classes)[asked.labels], np.exp(log_q))

    malicious = servers.Users(lists=users)
    if cell.lie != NONE:
        lie = poisoning.Lies(cell.asked, known, _fakes(users))
        malicious = dataclasses.replace(malicious, lie=(keys.lie, lie), liars=liars)
    answering = _Trimmed(malicious) if cell.mechanism == TRIMMED else malicious
    facts = methods.facts_of(keys.facts, asked)
    server = servers.CountServer(
        facts, min(cell.epsilon, EXACT), most=n - 1, guarded=cell.mechanism != UNGUARDED
    )
    found = servers.simulate(keys.noise, server, answering).value
    return lambda some: {ACCURACY: float((found.classes == y)[some & (y >= 0)].mean())}, _counted(
        cell, n
    )


def _of_panel(cell: Cell, settings: Settings, keys: Keys, liars: np.ndarray) -> Answer:
    """Local prediction: accuracy of the honest private users."""
    asked = features.draw(settings, cell.setting, cell.seed)
    server = ReportServer(
        asked.facts, min(cell.epsilon, EXACT), guarded=cell.mechanism != UNGUARDED
    )
    users = Users(records=asked.rows, public=asked.labels >= 0)
    if cell.lie != NONE:
        lie = _opposed if cell.lie == CLASSES else poisoning.Lies(cell.asked)
        users = dataclasses.replace(users, lie=(keys.lie, lie), liars=liars)
    released = simulate(keys.noise, server, users)
    right = released.value.classes == asked.data.y
    score = lambda some: {ACCURACY: float(right[some & (asked.labels < 0)].mean())}
    return score, SHOWN if math.isinf(cell.epsilon) else released.guarantee


def _opposed(key: Any, question: Any, reports: Any, users: Users, liars: np.ndarray) -> Any:
    """Liars report honestly of a record whose best class is the least likely one."""
    scores = question.classifier.scores(users.records)
    return jnp.where(jnp.asarray(liars), question.reports(key, -scores), reports)


@lru_cache(maxsize=1)
def _embedded(dataset: str) -> tuple[Any, Any, Any]:
    """Records in [-1, 1], the graph's operator, and the true embedding."""
    data = friendships.load(dataset)
    x = jnp.asarray(data.scaled_rows(0, data.num_nodes))
    op = operator(data.graph)
    return x, op, ppr(op, x, ALPHA, 0.5)


def _of_embedding(cell: Cell, settings: Settings, keys: Keys, liars: np.ndarray) -> Answer:
    """PrivGE's embedding of piecewise reports: how far that of the honest is from the true one."""
    x, op, true = _embedded(settings.dataset)
    one_way = jnp.ones_like(x)  # liars agree on a direction
    if math.isinf(cell.epsilon):
        lies = {
            NONE: x,
            RANDOM: jax.random.uniform(keys.lie, x.shape, minval=-1, maxval=1),
            WORST: one_way,
            CLASSES: -x,
        }[cell.lie]
        sent = jnp.where(liars[:, None], lies, x)
        promised = SHOWN
    else:
        made = MultiPiecewise(cell.epsilon, x.shape[1])
        reports = _reported(made, keys.noise, x)
        if cell.lie == CLASSES:
            reports = poisoning.false_records(keys.lie, made, reports, liars, -x)
        elif cell.lie != NONE:
            lie = cast("poisoning.Lie", cell.lie)
            reports = poisoning.lying_reports(keys.lie, made, reports, liars, lie, one_way)
        sent = _common.estimates(made, reports)
        promised = PipelineGuarantee.of(
            [made.guarantee()], protected=("features",), unprotected=("edges",)
        )
    whole = ppr(op, sent, ALPHA, 0.5)

    def score(some: np.ndarray) -> dict[str, float]:
        z, wanted = whole[some], true[some]
        error = float(jnp.linalg.norm(z - wanted) / jnp.linalg.norm(wanted))
        return {CORRELATION: float(fidelity(z, wanted).correlation), ERROR: error}

    return score, promised


@jax.jit
def _reported(mechanism: Sampled, key: Any, x: Any) -> Any:
    return jax.vmap(mechanism.privatize)(jax.random.split(key, len(x)), x)


def _of_degree(cell: Cell, settings: Settings, keys: Keys, liars: np.ndarray) -> Answer:
    """The mean degree, from everybody's noisy one: one number, whoever it is for."""
    users = population(settings.dataset)
    n = len(users.group)
    true = users.degree[:, None]
    noise = _noise(cell, 1, n)
    nowhere = np.zeros(n, int)
    reports = np.asarray(noise.add_noise(keys.noise, true))
    if cell.lie != NONE:
        reports = poisoning.lying_counts(
            keys.lie, noise, true, reports, liars, cell.asked, nowhere, fakes=_fakes(users)
        )
    if cell.mechanism == TRIMMED:
        reports = reports[poisoning.believable_counts(reports, noise.epsilon, np.array([n - 1]))]
    error = abs(float(reports.mean()) / float(true.mean()) - 1)
    return lambda some: {ERROR: error}, _counted(cell, n)


@lru_cache(maxsize=1)
def _released(
    settings: Settings, seed: int, epsilon: float
) -> tuple[np.ndarray, PipelineGuarantee]:
    """Pairs as honest users report them, or as they are."""
    users = population(settings.dataset)
    if math.isinf(epsilon):
        return np.stack([users.receivers, users.senders], 1), nothing_kept()
    graph = friendships.load(settings.dataset).graph
    noise = edges.RandomizedResponse(epsilon)
    made = edges.privatize_graph(keys_of(settings, seed).noise, graph, noise)
    return np.stack([np.asarray(made.graph.receivers), np.asarray(made.graph.senders)], 1), spent(
        made.guarantee
    )


def _of_lists(cell: Cell, settings: Settings, keys: Keys, liars: np.ndarray) -> Answer:
    """Every honest user's degree, from lists that both ends report by randomised response."""
    users = population(settings.dataset)
    flip = 1 / (1 + math.exp(cell.epsilon)) if cell.epsilon < math.inf else 0.0
    n = len(users.group)
    pairs, promised = _released(settings, cell.seed, cell.epsilon)
    if cell.lie != NONE:
        rate = {RANDOM: 0.5, WORST: 1.0, FRIENDS: _fakes(users) / n}[cell.lie]
        claimed = np.asarray(jax.random.uniform(keys.lie, (int(liars.sum()), n))) < rate
        who, whom = np.nonzero(claimed)
        who = np.flatnonzero(liars)[who]
        claims = np.stack([who, whom], 1)[who != whom]
        if cell.lie == RANDOM:
            pairs = pairs[~liars[pairs[:, 0]]]
        key = jax.random.fold_in(keys.lie, 1)
        pairs = poisoning.lying_lists(
            key, pairs, claims, n, keep=1 - flip if cell.lie == FRIENDS else 1.0
        )
    found = poisoning.degrees_by_both_ends(pairs, n, flip, checked=cell.mechanism == CHECKED)
    off = found - users.degree
    return lambda some: {
        ERROR: float(np.sqrt((off[some] ** 2).mean()) / users.degree.mean())
    }, promised


class Task(NamedTuple):
    """Reports that liars send."""

    answer: Callable[[Cell, Settings, Keys, np.ndarray], Answer]
    metric: str
    unit: Any
    lies: tuple[str, ...]
    defences: tuple[str, ...] = ()
    quick: bool = False
    """whether all lies are asked at all budgets and with all defences"""


TASKS = {
    "counts": Task(
        _of_counts,
        ACCURACY,
        NEIGHBOUR_LIST,
        (RANDOM, WORST, FRIENDS, CLASSES, RESPONSE),
        (UNGUARDED, TRIMMED),
    ),
    "panel": Task(_of_panel, ACCURACY, RECORD, (RANDOM, WORST, CLASSES, RESPONSE), (UNGUARDED,)),
    "embedding": Task(_of_embedding, ERROR, RECORD, (RANDOM, WORST, CLASSES), quick=True),
    "degree": Task(
        _of_degree, ERROR, NEIGHBOUR_LIST, (RANDOM, WORST, FRIENDS), (TRIMMED,), quick=True
    ),
    "lists": Task(
        _of_lists, ERROR, NEIGHBOUR_LIST, (RANDOM, WORST, FRIENDS), (CHECKED,), quick=True
    ),
}
"""By name, those of :data:`experiments.frontier.config.POISONED`."""


def variants(task: Task, epsilons: tuple[float, ...]) -> Iterator[tuple[str, float, str, float]]:
    """Defence, epsilon, lie and share.

    Long tasks have all combinations at epsilon 1, or at the least budget, alone.
    """
    shown = 1.0 if 1.0 in epsilons else min(epsilons)
    for epsilon in (*epsilons, math.inf):
        for defence in (AS_IT_IS, *task.defences):
            if not task.quick and defence != AS_IT_IS and epsilon != shown:
                continue
            whole = task.quick or epsilon in (shown, math.inf)
            every = SHARES if whole and (task.quick or defence == AS_IT_IS) else (SHARE,)
            # These rows are about the same users as the rows in which they, or others, lie.
            yield from ((defence, epsilon, NONE, share) for share in (0.0, *every))
            for lie in task.lies if whole else (WORST, RESPONSE):
                yield from (
                    (defence, epsilon, lie, share)
                    for share in (every if lie == WORST else (SHARE,))
                )


@_common.planned
def plan(config: Config) -> Iterator[tuple[Cell, Settings]]:
    for dataset in config.datasets:
        data = friendships.load(dataset)
        small = {
            "embedding": data.num_nodes * max(data.num_features, 1) <= MOST_NUMBERS,
            "lists": data.num_nodes <= MOST_USERS,
        }
        for name in config.mechanisms or TASKS:
            if not small.get(name, True) or (
                not data.num_features and name in ("panel", "embedding")
            ):
                continue
            panel = name == "panel"
            task = TASKS[name]
            logs = dataset in friendships.COUNTS
            digest = _common.fingerprint(data, dataset)
            settings = Settings(dataset, digest, logs, *((features.BASE_SEED,) if panel else ()))
            cell = partial(Cell.of, settings, data.name, name, task.unit)
            labels = config.labels[:1] if task.quick else config.labels
            for setting in config.panels if panel else labels:
                friendships.check_count("--panels" if panel else "--labels", setting, data)
                for seed in range(config.seeds):
                    for defence, epsilon, lie, share in variants(task, config.epsilons):
                        yield cell(defence, epsilon, seed, setting=setting, lie=lie, share=share)


def liars_of(cell: Cell, settings: Settings) -> np.ndarray:
    """The liars, bool [n]; without lies, the users whom the row leaves out to be comparable."""
    key = keys_of(settings, cell.seed).liars
    users = friendships.load(settings.dataset).num_nodes
    if cell.task != "panel":
        return poisoning.choose_liars(key, users, cell.share)
    private = features.draw(settings, cell.setting, cell.seed).labels < 0
    return poisoning.choose_liars(key, users, cell.share, private)


@lru_cache(maxsize=1)
def _unharmed(cell: Cell, settings: Settings) -> Answer:
    nobody = np.zeros(friendships.load(settings.dataset).num_nodes, bool)
    return TASKS[cell.task].answer(cell, settings, keys_of(settings, cell.seed), nobody)


def compute(cell: Cell, settings: Settings) -> Found:
    """Measure the harm of liars to the honest."""
    task = TASKS[cell.task]
    liars = liars_of(cell, settings)
    if cell.lie == NONE:
        score, promised = _unharmed(dataclasses.replace(cell, share=0.0), settings)
    else:
        score, promised = task.answer(cell, settings, keys_of(settings, cell.seed), liars)
    found = Found(rounded(score(~liars)))
    return friendships.promised(cell, settings, found, promised, promised[task.unit].epsilon)
