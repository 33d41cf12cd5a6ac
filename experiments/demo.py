"""The main jobs in a minute on the embedded Debian graph.

Private features, then private friendships.
"""

import dataclasses
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd

from experiments._report import (
    by_seed,
    counted,
    interval,
    one_scale,
    paired,
    panels,
    prose,
    publish,
    signed,
)
from experiments._report import table as as_table
from experiments._runner import REFERENCE, Found, Grid, console, run
from experiments.frontier import _points, features, friendships, joint, methods
from experiments.frontier import config as frontier
from experiments.frontier.features_methods import CHOSEN, LOCAL, PRIVGE, TRUE, Answer, Asked, Method
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, Guarantee, PipelineGuarantee
from ldp_jax.learning.metrics import ConfidenceInterval
from ldp_jax.servers.parts.self_training import FeaturesPosterior, features_posterior, folds

_TEXT = prose("demo")

NAME = "demo"
TRUE_CLASS = f"{TRUE}, class"
ALONE = methods.FEATURES
COUNTS = methods.PILOTED
CEILING = methods.CEILING
PLAN = frontier.Config(
    parts=("features",), datasets=("debian",), panels=("0.1",), epsilons=(1.0, 4.0), seeds=3,
    mechanisms=(TRUE_CLASS, PRIVGE, LOCAL, CEILING, COUNTS),
)  # fmt: skip
JOBS = (
    (
        "records sent with noise (PrivGE)",
        "epsilon per record",
        "#3b6fa0",
        PRIVGE,
        CHOSEN,
        TRUE_CLASS,
    ),
    ("classes that devices predict", "epsilon per record", "#c1272d", LOCAL, CHOSEN, TRUE_CLASS),
    ("counts of friends", "epsilon per bit of a neighbour list", "#2f7d4f", COUNTS, ALONE, CEILING),
)
"""Title, unit, colour, method, what is public alone, and the same with true data."""


@dataclasses.dataclass(frozen=True)
class Config(Grid):
    """The main jobs on the embedded data set.

    Private features and a public graph, and the other way round.

    4 375 Debian packages are the users, a tenth of them a public panel. First their dependencies
    are the public graph and their descriptions private: sent with noise as published, and beside
    the panel as the classes that devices predict. Then descriptions are public and dependencies
    private: counts by a broadcast class. Prints a table, the committed one beside yours, and writes
    a CSV and a PNG, in about a minute on two cores.
    """


def main(config: Config) -> None:
    results = results_in(config.out)
    planned = features.plan(PLAN) | features.plan(PLAN, COUNTED)
    planned = dict(sorted(planned.items(), key=lambda item: item[0].seed))
    check = partial(features.check, part=BOTH)
    run(planned, compute, results, check=check, called="rows", grid=config)
    if not config.whole:
        return
    for name, guarantee in results.describe()["guarantees"].items():
        if name in (f"{LOCAL}, epsilon 1", f"{COUNTS}, epsilon 1"):
            console.print(f"{name}: {guarantee}", soft_wrap=True, highlight=False)
    for words, out in {"committed": REFERENCE, "yours": config.out}.items():
        if (out is not REFERENCE or config.out.resolve() != out) and len(
            frame := results_in(out).read()
        ):
            console.print(f"\n{words}:\n{table(frame)}", soft_wrap=True, highlight=False)
    _, figure = write_report(config.out)
    console.print(f"rows: {results.csv}\nfigure: {figure}", soft_wrap=True)


results_in = partial(features.results_in, name=NAME)


@lru_cache(maxsize=1)
def _alone(dataset: str, labels: bytes, classes: int) -> FeaturesPosterior:
    """What public records say of the classes, given the panel's labels."""
    known = np.frombuffer(labels, np.int32)
    fold = folds(jax.random.key(features.BASE_SEED), known, 10)
    rows = friendships.rows_of(dataset, False)
    assert rows is not None
    return features_posterior(rows, known, fold, num_classes=classes, num_folds=10)


def _features(key: Any, asked: Asked, epsilon: float) -> Answer:
    return Answer(_alone(asked.dataset, asked.labels.tobytes(), asked.classes).log_q, UNREAD)


def _counted(method: methods.Method, key: Any, asked: Asked, epsilon: float) -> Answer:
    """A method of private friendships on the draw of a panel."""
    alone = _alone(asked.dataset, asked.labels.tobytes(), asked.classes)
    given = methods.Asked(asked.data.graph, asked.rows, asked.labels, asked.classes, alone)
    found = method(key, given, epsilon, "list")
    return Answer(
        found.scores,
        found.guarantee,
        {"strength": found.also["strength"], "used": found.also["groups"]},
    )


_NOTHING = Guarantee(0.0, unit=NEIGHBOUR_LIST, status="proved", reason="no list is read")
UNREAD = PipelineGuarantee.of(
    [_NOTHING], protected=("edges",), unprotected=("features", "the panel's labels")
)
COUNTED = features.Part(
    {
        ALONE: Method(40, _features),
        CEILING: Method(41, partial(_counted, methods.true_counts)),
        COUNTS: Method(41, partial(_counted, methods.piloted)),
    },
    (ALONE, CEILING), ALONE, features.FOUND, str(NEIGHBOUR_LIST), joint.PART.spent,
)  # fmt: skip
"""Private friendships, public features."""
BOTH = COUNTED._replace(
    methods={**features.FEATURES.methods, **COUNTED.methods},
    without_epsilon=(*features.FEATURES.without_epsilon, *COUNTED.without_epsilon),
)
"""All rows of a draw."""


def compute(cell: features.Cell, settings: friendships.Settings) -> Found:
    """What a method makes of a draw."""
    return features.compute(cell, settings, BOTH)


def accuracies(frame: pd.DataFrame) -> dict[tuple[str, float], pd.Series]:
    """In % by draw, of each method and epsilon."""
    return by_seed(frame[frame.metric == features.ACCURACY], ["mechanism", "epsilon"])


def gains(frame: pd.DataFrame, method: str, public: str) -> dict[float, ConfidenceInterval]:
    """Points over what is public alone, by epsilon, paired by draw."""
    known = accuracies(frame)
    alone = known.get((public, 0.0))
    each = (
        (epsilon, paired(mine, alone)) for (name, epsilon), mine in known.items() if name == method
    )
    return {epsilon: gain for epsilon, gain in each if gain is not None}


def table(frame: pd.DataFrame) -> str:
    over = {
        (name, epsilon): gain
        for *_, method, public, true in JOBS
        for name in (method, true)
        for epsilon, gain in gains(frame, name, public).items()
    }
    return as_table(
        {
            "method": name,
            "epsilon": f"{epsilon:g}" if 0 < epsilon < np.inf else "",
            "accuracy (%)": interval(values),
            "points over what is public alone": signed(over.get((name, epsilon))),
        }
        for (name, epsilon), values in accuracies(frame).items()
    )


def write_report(out: Path) -> list[Path]:
    frame = results_in(out).read()
    jobs = [job for job in JOBS if {job[3], job[4]} <= set(frame.mechanism)]
    if not jobs:
        return []
    draws = frame.seed.nunique()
    text = _TEXT.about.format(
        dataset=frame.dataset[0], draws=draws, chosen=CHOSEN, alone=ALONE, table=table(frame)
    )
    figure, axes = panels(len(jobs), width=4.2, height=3.4)
    for axis, (title, unit, colour, method, public, true) in zip(axes, jobs, strict=True):
        found = gains(frame, method, public)
        _points.plot_gains(
            axis, found, f"private data: {draws} draws, 95 % intervals", colour, "o", 2.0
        )
        alone = "the graph alone" if public == CHOSEN else "features alone"
        levels = [(0.0, alone, "--")]
        levels += [(one.mean, "true data", "-") for one in gains(frame, true, public).values()]
        for height, words, style in levels:
            axis.axhline(height, color="black", linestyle=style, linewidth=1.0)
            axis.annotate(
                words,
                (0.5, height),
                (0, 3),
                xycoords=axis.get_yaxis_transform(),
                textcoords="offset points",
                ha="center",
                fontsize=8,
            )
        above, *_ = counted(found.values())
        axis.set_title(f"{title[0].upper()}{title[1:]}: {above} of {len(found)} above", fontsize=9)
        axis.set_xlabel(unit)
    one_scale(axes)
    axes[0].set_ylabel("points over what is public alone")
    figure.suptitle(
        f"{frame.dataset[0]}, a tenth of the users public: means over {draws} draws, 95 % intervals"
    )
    figure.tight_layout()
    return publish(out, {NAME: text}, {NAME: figure})
