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

from experiments import _declared
from experiments._runner import REFERENCE, Found, Grid, console, run
from experiments.frontier import config as frontier
from experiments.frontier import features, friendships, joint, methods
from experiments.frontier.features_methods import CHOSEN, LOCAL, PRIVGE, TRUE, Answer, Asked, Method
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, Guarantee, PipelineGuarantee
from ldp_jax.servers.parts.self_training import FeaturesPosterior, features_posterior, folds

NAME = "demo"
TRUE_CLASS = f"{TRUE}, class"
ALONE = methods.FEATURES
COUNTS = methods.PILOTED
CEILING = methods.CEILING
PLAN = frontier.Config(
    parts=("features",), datasets=("debian",), panels=("0.1",), epsilons=(1.0, 4.0), seeds=3,
    mechanisms=(TRUE_CLASS, PRIVGE, LOCAL, CEILING, COUNTS),
)  # fmt: skip
JOBS = {
    PRIVGE: ("records sent with noise (PrivGE)", CHOSEN, TRUE_CLASS),
    LOCAL: ("classes that devices predict", CHOSEN, TRUE_CLASS),
    COUNTS: ("counts of friends", ALONE, CEILING),
    TRUE_CLASS: ("true classes", CHOSEN, TRUE_CLASS),
    CEILING: ("true counts", ALONE, CEILING),
}
"""Of a method: its title, what is public alone, and the same with true data."""
PAGE = Path(__file__).with_name("report.toml")


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
    folders = {"committed": REFERENCE}
    if config.out.resolve() != REFERENCE.resolve():
        folders["yours"] = config.out
    for words, out in folders.items():
        if (page := _declared.report(PAGE, NAME, out)) is not None:
            text = page.table(page.spec["sections"][1]["table"])
            console.print(f"\n{words}:\n{text}", soft_wrap=True, highlight=False)
    written = _declared.write_of(NAME, config.out)
    files = ", ".join(str(path) for path in written)
    console.print(f"rows: {results.csv}\nwritten: {files}", soft_wrap=True)


results_in = partial(features.results_in, name=NAME, also=features.FOUND)


@lru_cache(maxsize=1)
def _alone(dataset: str, labels: bytes, classes: int) -> FeaturesPosterior:
    """The posterior of classes from public records, given the panel's labels."""
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
    """Compute the row of a method on a draw."""
    return features.compute(cell, settings, BOTH)


def prepared(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows with the job that they are of, and the rows that they are compared with."""
    told = [JOBS.get(name, ("", name, name)) for name in frame.mechanism]
    job, alone, true = zip(*told, strict=True)
    return frame.assign(job=job, alone=alone, true=true)
