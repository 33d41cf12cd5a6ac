"""Drawn worlds: where private data help, and that they never cost much where they do not.

Nothing here is a real graph. So constants may be chosen on such worlds without a named graph having
a say, and thousands of them show what a table of twenty graphs cannot.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
import pandas as pd

from experiments import _common, _declared, _report, _runner
from experiments._runner import Found, Grid, Results, rounded, run
from experiments.frontier.baselines import simple
from experiments.frontier.baselines._released import Asked
from experiments.frontier.friendships import public_labels
from ldp_jax import edges, features
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RECORD, RELATIONSHIP
from ldp_jax.core.types import Graph
from ldp_jax.graph import graphs
from ldp_jax.servers import CountServer, ReportServer, Users, panel_facts, simulate
from ldp_jax.servers.facts.counts import CountFacts, count_facts
from ldp_jax.servers.facts.panel import PanelFacts
from ldp_jax.servers.from_counts import silent_users
from ldp_jax.servers.parts.rows import Rows, feature_rows

NAME = "worlds"
BASE_SEED = 20261
GUARD = "guard"
MAP = "map"
RECORDS = "records"
RECORDS_MAP = "records map"
ACCURACY = "accuracy"
FEATURES = "features"
STRUCTURE = "structure"
PILOTED = "piloted"
LOCAL = "local prediction"
UNGUARDED = "unguarded"
PLAIN = "plain counts"
NOISELESS = "noiseless"
UNITS: dict[str, Literal["list", "relationship"]] = {
    str(NEIGHBOUR_LIST): "list",
    str(RELATIONSHIP): "relationship",
}
FAMILIES = ("alike", "strangers", "kin", "misleading kin", "both")
"""Whom users befriend: their class, anybody, their kind, a kind that says nothing, or both."""
WORDS = 200  # of a user's features
SETTING = ("classes", "degree", "homophily", "clarity")


class World(NamedTuple):
    """Parameters that a world is drawn by.

    Users have a class and a *kind*. Words of their features tell both; friends are of the own
    class, of the own kind, or anybody.

    Attributes:
      users: how many.
      classes: how many.
      degree: mean number of friends; ``spread`` is their standard deviation over the mean.
      homophily: the share of friends who are drawn from the own class; ``kin`` from the own kind.
      clarity: standard deviation of a word's log-odds over classes; ``accent`` over kinds.
      kinds: how many; ``purity`` is the share of a kind that is of its class.
    """

    users: int = 1500
    classes: int = 6
    degree: float = 15.0
    spread: float = 1.0
    homophily: float = 0.4
    kin: float = 0.0
    clarity: float = 0.5
    accent: float = 0.0
    kinds: int = 12
    purity: float = 0.0


def drawn_setting(family: str, seed: int) -> World:
    """One world of a family: classes, features and friends as different as those of real graphs.

    All have as many users, so that they share programs.
    """
    rng = np.random.default_rng((BASE_SEED, FAMILIES.index(family), seed))
    uniform = rng.uniform
    homophily = {"alike": uniform(0.2, 0.8), "both": uniform(0.0, 0.25)}.get(family, 0.0)
    kin = {"kin": uniform(0.3, 0.9), "misleading kin": uniform(0.3, 0.9), "both": uniform(0.2, 0.7)}
    strength = uniform(0.15, 1.25)
    accent = uniform(0.15, 1.25)
    return World(
        classes=int(rng.choice((2, 2, 3, 6))),
        degree=float(np.exp(uniform(np.log(4), np.log(50)))),
        spread=uniform(0.5, 1.3),
        homophily=homophily,
        kin=kin.get(family, 0.0),
        clarity=strength,
        accent=accent if family in kin else 0.0,
        kinds=int(rng.choice((6, 12, 20))),
        purity=uniform(0.5, 0.95) if family in ("kin", "both") else 0.0,
    )


def drawn(world: World, seed: int) -> tuple[Graph, np.ndarray, np.ndarray]:
    """The friendships, features [n, words] of 0 and 1, and classes of a world."""
    rng = np.random.default_rng((BASE_SEED, seed))
    n = world.users
    shares = rng.dirichlet(np.full(world.classes, 8.0))
    kind = rng.choice(world.kinds, n, p=rng.dirichlet(np.full(world.kinds, 3.0)))
    pure = rng.random(n) < world.purity
    y = np.where(pure, kind % world.classes, rng.choice(world.classes, n, p=shares))

    log_odds = rng.normal(-2.5, 1.0, WORDS)
    log_odds = log_odds + world.clarity * rng.normal(size=(world.classes, WORDS))[y]
    log_odds = log_odds + world.accent * rng.normal(size=(world.kinds, WORDS))[kind]
    x = rng.random((n, WORDS)) < 1.0 / (1.0 + np.exp(-log_odds))

    variance = math.log1p(world.spread**2)
    rate = np.minimum(np.exp(rng.normal(0.0, math.sqrt(variance), n)), 20.0)
    wanted = int(n * world.degree / 2)
    # A third more, of which loops and repeats are left out.
    count = 4 * wanted // 3
    anybody = np.zeros(n, np.int64)
    one = friends(rng, rate, anybody, np.zeros(count, np.int64))
    of = rng.random(count)
    other = friends(rng, rate, anybody, np.zeros(count, np.int64))
    other = np.where(of < world.homophily, friends(rng, rate, y, y[one]), other)
    other = np.where(of > 1.0 - world.kin, friends(rng, rate, kind, kind[one]), other)
    pairs = np.sort(np.stack([one, other], 1)[one != other], 1)
    pairs = rng.permutation(np.unique(pairs, axis=0))[:wanted]
    return graphs.from_edges(pairs, n), x.astype(np.float32), y.astype(np.int32)


def friends(
    rng: np.random.Generator, rate: np.ndarray, group: np.ndarray, wanted: np.ndarray
) -> np.ndarray:
    """A user of each wanted group, by rate."""
    order = np.argsort(group, kind="stable")
    ends = np.concatenate([[0.0], rate[order].cumsum()])
    first = np.searchsorted(group[order], np.arange(group.max() + 2))
    low = ends[first[wanted]]
    high = ends[first[wanted + 1]]
    at = np.searchsorted(ends, low + rng.random(len(wanted)) * (high - low), side="right") - 1
    return order[np.clip(at, first[wanted], first[wanted + 1] - 1)]


# --- The plan -------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Config(Grid):
    """Private data in drawn worlds: gains, and losses where they tell nothing.

    Lists are private in the parts guard and map, records in the others. The parts guard and records
    draw worlds of five families, the maps friends who are alike, over homophily and features.
    """

    parts: tuple[Literal["guard", "map", "records", "records map"], ...] = (GUARD, MAP)
    """which worlds"""
    families: tuple[str, ...] = FAMILIES
    """of guard and records: alike, strangers, kin, "misleading kin", both"""
    epsilons: tuple[float, ...] = (1.0,)
    """per bit of a list, per relationship, or per record"""
    labels: tuple[str, ...] = ("5", "20")
    """so many users of each class, or half of each"""
    classes: tuple[int, ...] = (6,)
    """of maps"""
    degrees: tuple[float, ...] = (4.0, 15.0, 60.0)
    """of maps"""
    homophilies: tuple[float, ...] = (0.1, 0.3, 0.5, 0.8)
    """of maps: the share of friends drawn from the own class"""
    clarities: tuple[float, ...] = (0.0, 0.3, 0.6)
    """of maps: standard deviation of the log-odds of a word over classes"""
    seeds: int = 10
    """worlds of each family, and of each place of a map"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(_runner.Cell):
    """One method in one world."""

    FOUND = SETTING

    labels: str
    """how many of each class are public"""

    last_metric = property(lambda self: ACCURACY)


results_in = partial(Results, name=NAME, cell=Cell, also=SETTING)


@_common.planned
def plan(config: Config) -> Iterator[Any]:
    positive = "epsilons", "seeds", "classes", "degrees"
    _common.check_words(config, positive=positive, known={"families": FAMILIES})
    _common.check_labels(config.labels)
    if not all(0 <= share <= 1 for share in config.homophilies):
        given = " ".join(map(str, config.homophilies))
        raise _runner.UsageError(f"--homophilies must be shares from 0 to 1, got {given}")
    for epsilon, part in itertools.product(config.epsilons, config.parts):
        with _runner.asked(f"--epsilons {epsilon:g}"):
            if part in (GUARD, MAP):
                edges.NeighbourCounts(epsilon, 2)
            else:
                features.PersonalAlphabet(epsilon, np.full(2, 0.5))
    for seed in range(config.seeds):
        for part, name, world in places(config, seed):
            settings = {"world": world._asdict(), "words": WORDS, "seed": BASE_SEED}
            for labels in config.labels:
                for unit, method, epsilon in rows(config, part):
                    given = settings, name, part, unit, method, epsilon, seed
                    yield Cell.of(*given, epsilon, labels=labels)


def places(config: Config, seed: int) -> Iterator[tuple[str, str, World]]:
    """Part, name and setting of each world of one seed."""
    for part in config.parts:
        if part in (GUARD, RECORDS):
            for family in config.families:
                world = drawn_setting(family, seed)
                if part == RECORDS:
                    # A third of all records say nothing of the class.
                    told = (0.0, 0.5, 1.0)[(seed + FAMILIES.index(family)) % 3]
                    world = world._replace(clarity=told * world.clarity)
                yield part, family, world
        else:
            given = config.classes, config.degrees, config.homophilies, config.clarities
            for classes, degree, homophily, clarity in itertools.product(*given):
                name = f"{classes} classes, degree {degree:g}, {homophily:g} alike, "
                world = World(classes=classes, degree=degree, homophily=homophily, clarity=clarity)
                yield part, f"{name}words {clarity:g}", world


def rows(config: Config, part: str) -> Iterator[tuple[str, str, float]]:
    """Unit, method and epsilon; a map is of lists, or of records."""
    of_records = part in (RECORDS, RECORDS_MAP)
    units = [str(RECORD)] if of_records else list(UNITS) if part == GUARD else [str(NEIGHBOUR_LIST)]
    for unit in units:
        yield unit, STRUCTURE if of_records else FEATURES, 0.0
        yield unit, NOISELESS, math.inf
        for epsilon in config.epsilons:
            yield unit, LOCAL if of_records else PILOTED, epsilon
            yield unit, UNGUARDED, epsilon
            if part == MAP:
                yield unit, PLAIN, epsilon


# --- The rows -------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=2)
def public(
    world: World, seed: int, labels: str, silent: bool
) -> tuple[Asked, np.ndarray, CountFacts]:
    """The draw, the classes that are asked for, -1 for known ones, and what is public."""
    graph, x, y = drawn(world, seed)
    known, silent_key, fact_key = _known(y, seed, labels)
    quiet = silent_users(silent_key, known) if silent else None
    facts = count_facts(fact_key, x, known, num_classes=world.classes, silent=quiet)
    return Asked(graph, feature_rows(x), known, world.classes), np.where(known < 0, y, -1), facts


@functools.lru_cache(maxsize=2)
def public_panel(world: World, seed: int, labels: str) -> tuple[Rows, np.ndarray, PanelFacts]:
    """The records, the classes that are asked for, -1 for known ones, and what is public."""
    graph, x, y = drawn(world, seed)
    known, _, fact_key = _known(y, seed, labels)
    records = feature_rows(x)
    shown = records.take(np.flatnonzero(known >= 0))
    facts = panel_facts(fact_key, graph, shown, known, num_classes=world.classes)
    return records, np.where(known < 0, y, -1), facts


def _known(y: np.ndarray, seed: int, labels: str) -> tuple[np.ndarray, Any, Any]:
    """The public labels, -1 for none, and two keys."""
    root = jax.random.fold_in(jax.random.key(BASE_SEED), seed)
    label_key, silent_key, fact_key = jax.random.split(root, 3)
    return public_labels(label_key, y, labels), silent_key, fact_key


def compute(cell: Cell, settings: Any) -> Found:
    world = World(**settings["world"])
    key = jax.random.fold_in(jax.random.key(BASE_SEED + 1), cell.seed)
    exact = cell.mechanism == NOISELESS
    guarded = cell.mechanism != UNGUARDED
    if cell.unit == str(RECORD):
        records, y, known = public_panel(world, cell.seed, cell.labels)
        users = Users(records=records)
        log_posterior = known.structure.log_q
        epsilon = 20.0 if exact else cell.epsilon
        server = partial(ReportServer, known, epsilon, guarded=guarded and not exact)
    else:
        unit = UNITS[cell.unit]
        asked, y, facts = public(world, cell.seed, cell.labels, unit == "relationship")
        users = Users(lists=asked.graph)
        log_posterior = facts.log_q
        if cell.mechanism == PLAIN:
            log_posterior = simple.plain_counts(key, asked, cell.epsilon).scores
        epsilon = 1.0 if exact else cell.epsilon
        server = partial(CountServer, facts, epsilon, unit, guarded=guarded)
    if cell.mechanism not in (FEATURES, STRUCTURE, PLAIN):
        users = users.exact() if exact else users
        log_posterior = simulate(key, server(), users).value.log_posterior
    hidden = y >= 0
    right = (np.asarray(log_posterior).argmax(1) == y)[hidden].mean()
    return Found(rounded({ACCURACY: right}), {name: getattr(world, name) for name in SETTING})


def main(config: Config) -> None:
    run(plan(config), compute, results_in(config.out), called="rows", grid=config)
    _common.announce(config, write_report)


def write_report(out: Path) -> list[Path]:
    return _declared.write(Path(__file__).with_name("report.toml"), out, NAME)


# --- The page -------------------------------------------------------------------------------------


def gains(frame: pd.DataFrame, part: str) -> pd.DataFrame:
    """Points of each method over what is public, a line a world, and whether there is any signal.

    There is where a point or more is gained without noise.
    """
    one = frame[frame.task == part]
    key = ["dataset", "labels", "unit", "seed"]
    by_world = one.pivot_table(index=key, columns=["mechanism", "epsilon"], values="value") * 100
    if NOISELESS not in by_world:
        return pd.DataFrame()
    base = by_world.T.xs(0.0, level="epsilon").mean()
    without = by_world.drop(columns=0.0, level="epsilon").sub(base, axis=0)
    telling = without[NOISELESS, math.inf] >= 1.0
    private = without.drop(columns=NOISELESS, level=0)
    found = private.melt(ignore_index=False, value_name="points").dropna().reset_index()
    place = pd.MultiIndex.from_frame(found[key])
    return found.assign(telling=telling.reindex(place).to_numpy())


def guard_section(report: Any, spec: Any) -> tuple[list[str], dict, dict]:
    """The loss where private data tell nothing, and the gain where they do."""
    told_by, over = spec["options"]["told_by"], spec["options"]["over"]
    found = gains(report.frame, spec["options"]["part"])
    if found.empty:
        return [], {}, {}
    found = where(found, spec["options"])
    header = [f"{told_by} tell", "labels a class", "epsilon", "per", "method", "runs"]
    header += [f"points over {over}", "worst run", "lost more than 3", "more than 6"]
    lines = []
    groups = found.groupby(["telling", "labels", "epsilon", "unit", "mechanism"], sort=True)
    for (telling, labels, epsilon, unit, method), some in groups:
        told = "something" if telling else "nothing"
        name = report.labels.of(method)
        words = told, labels, f"{epsilon:g}", unit, name, str(len(some))
        lines.append([*words, *summary(some.points)])
    silent = found[~found.telling]
    texts = []
    for (method, epsilon), some in silent.groupby(["mechanism", "epsilon"]):
        mean, worst, more_than_3, more_than_6 = summary(some.points)
        texts.append(
            f"* *{report.labels.of(method)}*, epsilon {epsilon:g}: {mean} points over {over} in "
            f"all {len(some)} runs in which {told_by} tell nothing, {worst} in the worst one; "
            f"{more_than_3} lose more than 3, {more_than_6} more than 6."
        )
    return ["\n".join(texts), _report.markdown(header, lines)], {}, {}


def where(rows: pd.DataFrame, options: dict[str, Any]) -> pd.DataFrame:
    """The rows whose columns have the values of the section's ``where``."""
    for column, value in options.get("where", {}).items():
        rows = rows[rows[column] == value]
    return rows


def summary(points: pd.Series) -> list[str]:
    """The mean with its interval, the worst run, and the shares of runs that lose much."""
    mean = _report.interval(points)
    shares = [f"{100 * (points < -most).mean():.1f} %" for most in (3, 6)]
    return [_report.signed(mean, 2), f"{points.min():.1f}", *shares]


def map_section(report: Any, spec: Any) -> tuple[list[str], dict, dict]:
    """A picture of points by homophily, and by degree or by what records say.

    A line of panels for each number of labels, of the places and the method of ``where``.
    """
    about = spec["options"]
    frame = report.frame[report.frame.task == about["part"]]
    found = gains(report.frame, about["part"])
    if found.empty:
        return [], {}, {}
    places = frame.drop_duplicates("dataset").set_index("dataset")[list(SETTING)]
    base = frame[frame.epsilon == 0].groupby(["dataset", "labels"]).value.mean()
    shown = where(found.join(places, on="dataset"), about)
    across = sorted(shown[about["across"]].unique())
    labels = sorted(shown.labels.unique(), key=lambda word: (word == "half", word.zfill(3)))
    figure, axes = _report.panels(len(across) * len(labels), 2.9, 2.6, columns=len(across))
    for axis, (label, one) in zip(axes, itertools.product(labels, across), strict=True):
        part = shown[(shown.labels == label) & (shown[about["across"]] == one)]
        table = part.pivot_table(index=about["up"], columns="homophily", values="points")
        axis.imshow(table, origin="lower", cmap="RdBu", vmin=-40, vmax=40, aspect="auto")
        axis.grid(visible=False)
        for (row, column), value in np.ndenumerate(table.to_numpy()):
            colour = "white" if abs(value) > 25 else "black"
            words = f"{value:+.0f}" if abs(value) >= 0.5 else "0"
            axis.text(column, row, words, ha="center", va="center", fontsize=9, color=colour)
        axis.set_xticks(range(table.shape[1]), [f"{share:g}" for share in table.columns])
        axis.set_yticks(range(table.shape[0]), [f"{value:g}" for value in table.index])
        right = 100 * base[[(name, label) for name in part.dataset.unique()]].mean()
        many = "half of the labels" if label == "half" else f"{label} labels a class"
        axis.set_title(f"{about['panel'].format(one, right=right)}\n{many}", fontsize=9)
        axis.set(xlabel="friends drawn from the own class", ylabel=about["label"])
    title = about["title"]
    figure.suptitle(title, fontsize=11)
    figure.tight_layout()
    return [f"![{title}]({about['stem']}.png)"], {about["stem"]: figure}, {}
