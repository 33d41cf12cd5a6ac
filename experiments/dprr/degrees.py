"""Figure 7 of DPRR: how many neighbours each user reports, against how many they have."""

import dataclasses
import math
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
import pandas as pd
from scipy import stats

from experiments import _runner
from experiments._runner import Found, Results, UsageError, config_hash, rounded, run
from experiments.dprr.cells import (
    COMPARED,
    Variant,
    check_dense,
    data_of,
    ledger,
    load,
    made_by,
    most_nodes,
    name_of,
)
from experiments.dprr.config import Config
from ldp_jax import edges
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST
from ldp_jax.graph import packing

NAME = "dprr_degrees"
STARTS = np.array(
    [
        0,
        1,
        2,
        3,
        4,
        5,
        7,
        *(at * 10**power for power in range(6) for at in (10, 15, 20, 30, 50, 70)),
    ]
)
"""The first degree of each bin; bins are about equally wide in the logarithm."""
TRUE = Variant("non-private", 0.0, 0.0)
_TRUE_NAME = "true degrees"
"""The degrees themselves, and the mechanism of their rows."""
_LOW, _HIGH = 4, 10
_LAST = "Spearman correlation of d and d~"


class Graphs(NamedTuple):
    """A part of a set of graphs."""

    dataset: str
    graphs: int
    rr_nodes: int


class Degrees(NamedTuple):
    """Users of a set of graphs.

    Arrays [users]: true degrees, other nodes of the user's graph, and its class.
    """

    true: np.ndarray
    others: np.ndarray
    label: np.ndarray


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(_runner.Cell):
    """One draw of all users' reports, or their true degrees."""

    last_metric = property(lambda self: "mean degree" if self.mechanism == _TRUE_NAME else _LAST)


results_in = partial(Results, name=NAME, cell=Cell)


def main(config: Config) -> None:
    asked = [Graphs(dataset, config.graphs, config.rr_nodes) for dataset in config.datasets]
    names = [name for name in COMPARED if name in config.mechanisms]
    if not names:
        raise UsageError("--mechanisms: degrees are compared of dprr, local-lap and rr")
    for chosen in asked:
        check_dense(chosen, names)
    variants = [
        TRUE,
        *(Variant(name, epsilon, 0.0) for name in names for epsilon in config.epsilons),
    ]
    with _runner.asked("--epsilons"):
        planned = dict(_cell(chosen, variant) for chosen in asked for variant in variants)
    run(planned, compute, results_in(config.out), called="sets of degrees", grid=config)


def compute(cell: Cell, settings: dict[str, Any]) -> Found:
    chosen = Graphs._make(settings[name] for name in Graphs._fields)
    whole = load(*chosen)
    users = degrees(whole)
    if cell.mechanism == _TRUE_NAME:
        found = {**_shares(users.true, users.label), "mean degree": users.true.mean()}
        return Found(rounded(found))
    variant = Variant(cell.mechanism, cell.epsilon, 0.0)
    made = made_by(variant, most_nodes(chosen))
    return Found(rounded(statistics(users, noisy_degrees(whole, variant), made)))


def _cell(chosen: Graphs, variant: Variant) -> tuple[Cell, dict[str, Any]]:
    n_max = most_nodes(chosen)
    proved = math.inf if variant == TRUE else ledger(variant, n_max).spent(NEIGHBOUR_LIST).epsilon
    name = _TRUE_NAME if variant == TRUE else variant.mechanism
    row = name_of(chosen), "degrees", NEIGHBOUR_LIST, name, variant.epsilon, 0, proved
    return Cell.of(chosen._asdict() | data_of(chosen), *row)


def degrees(whole: packing.GraphSet) -> Degrees:
    true = np.bincount(whole.receivers, minlength=len(whole.node_graph))
    return Degrees(
        true, whole.nodes_per_graph[whole.node_graph] - 1, whole.labels[whole.node_graph]
    )


def noisy_degrees(whole: packing.GraphSet, variant: Variant) -> np.ndarray:
    """How many neighbours each user reports: row i of the noisy matrix, the edges into i.

    Int [users].
    """
    name = int(config_hash([variant.mechanism, variant.epsilon]), 16) % 2**31
    made = made_by(variant, int(whole.nodes_per_graph.max()))
    key = jax.random.fold_in(jax.random.key(0), name)
    noisy = edges.privatize_graph(key, whole, made)
    return np.bincount(noisy.graph.receivers, minlength=len(whole.node_graph))


def bins(values: np.ndarray) -> np.ndarray:
    return np.searchsorted(STARTS, values, "right") - 1


def bin_name(place: int) -> str:
    first = STARTS[place]
    last = STARTS[place + 1] - 1
    return f"{first}" if first == last else f"{first}-{last}"


def statistics(users: Degrees, noisy: np.ndarray, made: Any) -> dict[str, float]:
    """Statistics of the noisy degrees, by bin of the true degree, by class, and of all users."""
    found: dict[str, Any] = {}
    pairs = pd.DataFrame({"true": users.true, "noisy": noisy})
    for place, part in pairs.groupby(bins(users.true)):
        low, high = np.quantile(part.noisy, (0.05, 0.95))
        values = {
            "users": len(part), "true_mean": part.true.mean(), "noisy_mean": part.noisy.mean(),
            "noisy_5_percent": low, "noisy_95_percent": high,
        }  # fmt: skip
        found |= {
            f"{name}, degree {bin_name(int(str(place)))}": value for name, value in values.items()
        }
    found |= _shares(noisy, users.label)
    gap = noisy - users.true
    found |= {
        "true mean degree": users.true.mean(), "mean degree": noisy.mean(), "bias": gap.mean(),
        "mean absolute error": np.abs(gap).mean(), "share that report nobody": (noisy == 0).mean(),
    }  # fmt: skip
    if isinstance(made, edges.DPRR):
        found["expected bias of d*"] = np.asarray(
            made.degree_bias(users.true, users.others), np.float64
        ).mean()
    found[_LAST] = stats.spearmanr(users.true, noisy).statistic
    return found


def _shares(values: np.ndarray, label: np.ndarray) -> dict[str, float]:
    shape = int(label.max()) + 1, len(STARTS)
    places = np.bincount(label * shape[1] + bins(values), minlength=shape[0] * shape[1])
    counts = places.reshape(shape)
    return {
        f"share, class {c}, degree {bin_name(place)}": counts[c, place] / counts[c].sum()
        for c, place in np.argwhere(counts)
    }


def prepared(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows with what users of few neighbours and of many have and report, from the bins.

    *quantity* and *degree*, the first of a bin, are the two parts of a bin's metric; of others the
    latter is NaN.
    """
    found = frame.metric.str.extract(r"^(.+), degree (\d+)")
    binned = frame.assign(quantity=found[0], degree=found[1].astype(float))
    key = ["dataset", "mechanism", "epsilon"]
    made = []
    of_users = binned[binned.quantity.isin(["users", "true_mean", "noisy_mean"])]
    for names, part in of_users.groupby(key):
        wide = part.pivot_table(index="degree", columns="quantity", values="value")
        few = f"at most {_LOW}", wide[wide.index <= _LOW]
        many = f"at least {_HIGH}", wide[wide.index >= _HIGH]
        for words, some in (few, many):
            count = some.users.sum()
            values = {"share of users": count / wide.users.sum()}
            if count:
                values["neighbours"] = (some.true_mean * some.users).sum() / count
                values["reported"] = (some.noisy_mean * some.users).sum() / count
            place = dict(zip(key, names, strict=True))
            for name, value in values.items():
                made.append({**place, "metric": f"{name}, {words}", "value": value, "seed": 0})
    return pd.concat([binned, pd.DataFrame(made)], ignore_index=True)
