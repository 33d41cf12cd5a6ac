"""From two CSV files with names, gaps and mixed columns to a class for every name. Needs
``ldp_jax`` and pandas.
"""

import io

import jax
import numpy as np
import pandas as pd

import ldp_jax as ldp
from ldp_jax.graph import interop


def written() -> tuple[str, str, pd.Series]:
    """Two CSV files, as somebody else would have written them, and everybody's true class."""
    rng = np.random.default_rng(0)
    names = np.array([f"user {chr(97 + i % 26)}{i}" for i in range(400)])
    team = rng.integers(0, 3, len(names))
    ends = rng.integers(0, len(names), (6000, 2))
    same = team[ends[:, 0]] == team[ends[:, 1]]
    ends = np.unique(
        np.sort(ends[(ends[:, 0] != ends[:, 1]) & (same | (rng.random(len(ends)) < 0.1))], 1),
        axis=0,
    )
    users = pd.DataFrame(
        {"age": 30 + 15 * team + rng.normal(0, 4, len(names))}, pd.Index(names, name="user")
    )
    users["job"] = np.array(["cook", "smith", "nurse"])[
        np.where(rng.random(len(names)) < 0.8, team, 0)
    ]
    users.loc[rng.random(len(names)) < 0.1, "age"] = np.nan
    users.loc[rng.random(len(names)) < 0.1, "job"] = None
    truth = pd.Series(np.array(["red", "green", "blue"])[team], users.index)
    users["team"] = truth.where(rng.random(len(names)) < 0.2)
    friends = pd.DataFrame(names[ends], columns=["a", "b"])
    return users.sample(frac=1, random_state=0).to_csv(), friends.to_csv(index=False), truth


def main() -> None:
    """Read, predict, and name."""
    users_csv, friends_csv, truth = written()
    users = pd.read_csv(io.StringIO(users_csv), index_col="user")
    friends = pd.read_csv(io.StringIO(friends_csv))

    graph, names = interop.read(friends, nodes=users.index)
    records = ldp.datasets.read_records(
        users,
        numbers={"age": (0, 100)},
        categories={"job": ("cook", "smith", "nurse")},
        label="team",
        nodes=names,
        missing="centre",
    )
    known = np.flatnonzero(records.y >= 0)
    found = ldp.predict_from_reports(
        jax.random.key(0), graph, records.x, known, records.y[known], epsilon=2.0
    )
    answers = interop.to_table(names, {"team": np.array(records.class_names)[found.classes]})
    right = (answers.team == truth[answers.index]).mean()
    print(answers.head(), found, found.guarantee, f"{right:.0%} right", sep="\n")
    assert right > 0.9
    assert "NOT protected: edges" in str(found.guarantee)


if __name__ == "__main__":
    main()
