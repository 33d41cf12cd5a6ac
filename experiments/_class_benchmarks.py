"""Classes from private lists, or private records.

The whole in a fresh process, its dearest step elsewhere.
"""

from experiments._sides import Rows, in_a_process, installed, row

_IMPORTED = """
import json, sys, time
start, busy = time.perf_counter(), time.process_time()
import {library}
wall, cpu = time.perf_counter() - start, time.process_time() - busy
"""
"""What a side imports is counted here, since loading imports JAX for both sides."""

_LOADED = """
import numpy as np
from ldp_jax import datasets
data = datasets.load({dataset!r})
rng = np.random.default_rng(int(sys.argv[1]))
labels = np.full(data.num_nodes, -1)
for c in range(data.num_classes):
    members = rng.permutation(np.flatnonzero(data.y == c))
    labels[members[:{known}]] = c
hidden, logs = labels < 0, {logs}
loaded, busy = time.perf_counter(), time.process_time()
"""

_LISTS = """
import jax
from ldp_jax import predict_from_counts
from ldp_jax.servers.parts.rows import feature_rows
rows = feature_rows(data.x, log=logs)
found = predict_from_counts(jax.random.key(int(sys.argv[1])), data.graph, rows, labels, 1.0)
scores = np.asarray(found.log_posterior)
"""

_RECORDS = """
import jax
from ldp_jax import predict_from_reports
from ldp_jax.servers.parts.rows import feature_rows
rows, panel = feature_rows(data.x, log=logs), np.flatnonzero(labels >= 0)
key = jax.random.key(int(sys.argv[1]))
found = predict_from_reports(key, data.graph, rows, panel, labels[panel], 2.0)
scores = np.asarray(found.log_posterior)
"""

_SKLEARN = """
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import normalize
x, known = data.x.tocsr().astype(np.float64), np.flatnonzero(labels >= 0)
x = normalize(x.log1p() if logs else x)
folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(known, labels[known]))
losses, posteriors = [], []
for ridge in (10.0, 2.0, 0.4, 0.08, 0.016):
    each, loss = [], 0.0
    for seen, held in folds:
        made = LogisticRegression(C=1 / ridge, max_iter=500)
        made.fit(x[known[seen]], labels[known[seen]])
        each.append(made.predict_log_proba(x))
        loss -= each[-1][known[held], labels[known[held]]].sum()
    losses.append(loss)
    posteriors.append(np.mean(each, 0))
scores = posteriors[int(np.argmin(losses))]
"""

_END = """
print(json.dumps({
    "wall": wall + time.perf_counter() - loaded, "cpu": cpu + time.process_time() - busy,
    "accuracy": float((scores.argmax(1) == data.y)[hidden].mean()),
}))
"""


_TASKS = {
    "friendships": (
        "predict_from_counts, facebook_pages, 20 labels a class, a fresh process",
        _LOADED.format(dataset="facebook_pages", known="20", logs=False),
        _LISTS,
        "the features' logistic regression alone: 5 folds, 5 ridges",
    ),
    "records": (
        "predict_from_reports, blogcatalog, a panel of 5 %, epsilon 2, a fresh process",
        _LOADED.format(dataset="blogcatalog", known="-(-len(members) // 20)", logs=True),
        _RECORDS,
        "logistic regression on the panel's records, shown everybody's true ones: 5 folds, 5 "
        "ridges",
    ),
}
"""Title, code that loads data and labels and is not timed, our code, and what scikit-learn is
asked.
"""


def class_rows(task: str, repeats: int) -> Rows:
    """One task of the two; imports of JAX and compilation are counted, loading is not."""
    title, loading, ours, elsewhere = _TASKS[task]
    about = "the whole; the import of JAX and compilation are counted"
    sides = {"ldp_jax": ("jax", ours, about)}
    if installed(task, "sklearn", "scikit-learn"):
        sides["scikit-learn"] = ("sklearn", _SKLEARN, elsewhere)
    found: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
    for repeat in range(repeats):
        for name, (library, code, _) in sides.items():
            whole = _IMPORTED.format(library=library) + loading + code + _END
            found[name].append(in_a_process(whole, str(repeat), what=f"{name} was not finished"))
    rows = []
    for name, (_, _, note) in sides.items():
        accuracy = 100 * sum(one["accuracy"] for one in found[name]) / repeats
        words = f"{note}; accuracy {accuracy:.1f} %"
        rows += [
            row(title, name, repeat, round(one["wall"], 2), round(one["cpu"], 2), words)
            for repeat, one in enumerate(found[name])
        ]
    return rows
