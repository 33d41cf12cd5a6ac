"""Tables and test vectors. ``python -m tests.deployment.vectors`` writes the vectors anew."""

import dataclasses
import json
from pathlib import Path

import numpy as np

from ldp_jax import deployment
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, Budget
from ldp_jax.core.integer_tables import Table, integer_masses, split

PATH = Path(__file__).parents[1] / "vectors" / "deployment.json"
SECRET = bytes(range(32))
LOG3, LOG8 = 1.0986122886681098, 2.0794415416798357  # literals: a libm must not change the vectors

_levels = integer_masses(np.where(np.eye(5) > 0, 3 / 7, 1 / 7), LOG3)
GRID = Table("two levels on a grid", _levels, np.float32([-3.5, -1.75, 0.0, 1.75, 3.5]), "grid")
_powers = 0.5 ** np.abs(
    np.arange(4)[:, None] - np.arange(4)
)  # exp(-eps |u - t| / (k - 1)) at eps = log 8
_powers = integer_masses(_powers / _powers.sum(1, keepdims=True), LOG8)
BINS = Table("HeteroRR", _powers, np.float32([0.0, 0.25, 0.75, 1.0]), "bins")
_response = integer_masses(np.where(np.eye(3) > 0, 0.6, 0.2), LOG3)
_corners = np.float32([[1.0, -0.5], [-0.5, 1.0], [-0.5, -0.5]])
CATEGORY = Table("generalised randomised response", _response, _corners, "category")
TABLES = {"grid": GRID, "bins": BINS, "category": CATEGORY}
SECOND = Table(
    "warner",
    integer_masses(np.array([[0.75, 0.25], [0.25, 0.75]]), LOG3),
    np.float32([-1, 1]),
    "grid",
)


GROUPS = np.array([0, 1, 2, 3, 4, -1] * 2)
ASKED = deployment.Question(3, GROUPS, num_groups=5, epsilon=1.0, most=20)
RULE = deployment.ownership(np.arange(12) % 5 / 3, silent=np.arange(12) < 2)
OWNED = dataclasses.replace(ASKED, owners=RULE)
MINE = [1, 2, 5, 8, 11]


def device():
    return deployment.Device.from_secret(SECRET)


def session(of=None, **changes):
    return deployment.Session(of or device(), **{"budget": 1e9} | changes)


def list_session(of=None, budget=1e9, **changes):
    return deployment.Session(of or device(), budget=Budget(budget, unit=NEIGHBOUR_LIST), **changes)


ABOUT = (
    "x is a number or nan, inf, -inf; row and part: the row at or below x, and 2^-23 steps above "
    "it; rounding >> 9 < part goes to the next row; word picks the output of that row; report has "
    "a plain checksum, keyed one under shared_key; memory is of a session with budget 8 after "
    "three releases; all byte strings in hex, the memory in ASCII"
)


class Forgets(deployment.Device):
    """A device whose words are those of another field, user, round, table, question or count."""

    def __init__(self, part):
        super().__init__(SECRET)
        object.__setattr__(self, "part", part)

    def words(self, table, fields, *, user, round):
        given = {"table": table, "fields": fields, "user": user, "round": round}
        other = {"table": GRID, "fields": 0 * np.asarray(fields), "user": 0, "round": 0}
        return super().words(**given | {self.part: other[self.part]})

    def count_words(self, question, num_groups, *, user, round):
        given = {"question": question, "num_groups": num_groups, "user": user, "round": round}
        if self.part == "count":
            return np.repeat(super().count_words(**given | {"num_groups": 1}), num_groups, 1)
        return super().count_words(
            **given | {self.part: bytes(32) if self.part == "question" else 0}
        )


def make_vectors():
    records = {
        "grid": [-1.0, -0.9, -0.3, 0.0, 0.1, 0.62, 1.0, 2.0, "nan", "inf", "-inf", 1e30],
        "bins": [0.0, 0.1, 0.25, 0.26, 0.5, 0.75, 0.76, 1.0, "nan", "inf", -3.0, 1e30],
        "category": [0.0, 1.0, 2.0, 0.4, 1.6, 3.0, "nan", "inf", "-inf", -1e30],
    }
    triples = [
        (0, 0, 0),
        (1, 0, 0),
        (0, 1, 0),
        (0, 0, 1),
        (7, 3, 8),
        (2**64 - 1, 2**32 - 1, 2**32 - 1),
    ]
    triples += [(10**12 + n, n, 1000 * n) for n in range(6)]
    reports = []
    key = device().shared_key
    for name, table in TABLES.items():
        held = session()
        keyed = session(key=key)
        for x, (user, round, field) in zip(records[name], triples, strict=False):
            where = {"user": user, "round": round, "field": field}
            word, rounding = device().words(table, [field], user=user, round=round)[0].tolist()
            row, part = split(np, float(x), table.inputs, table.encoding)
            drawn = {
                "row": int(row),
                "part": int(part),
                "word": word,
                "rounding": rounding,
                "output": int(table.report([float(x)], word, rounding)[0]),
                "report": held.report(table, float(x), **where).hex(),
                "keyed": keyed.report(table, float(x), **where).hex(),
            }
            reports.append({"table": name, **where, "x": x, **drawn})
    kept = session(budget=8.0)
    kept.report_many(GRID, [0.1, -0.9], user=1, round=2)
    kept.report(BINS, 0.4, user=2**64 - 1, round=0, field=7)
    samples = [
        {"table": "grid", "user": 5, "round": n, "k": k, "dim": dim}
        for n, (k, dim) in enumerate(
            [(1, 1), (1, 2), (2, 4), (10, 1000), (40, 50), (6, 6), (3, 2**32 - 1)]
        )
    ]
    for sample in samples:
        user, round = sample["user"], sample["round"]
        sample["fields"] = device().sample(GRID, sample["dim"], sample["k"], user=user, round=round)
    return {
        "about": ABOUT,
        "version": 2,
        "secret": SECRET.hex(),
        "name": device().name,
        "shared_key": key.hex(),
        "tables": {
            name: {"bytes": table.to_bytes().hex(), "digest": table.digest.hex()}
            for name, table in TABLES.items()
        },
        "reports": reports,
        "samples": samples,
        "memory": kept.to_bytes().decode(),
    }


if __name__ == "__main__":
    PATH.write_text(json.dumps(make_vectors(), indent=1) + "\n")
