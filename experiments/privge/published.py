"""The papers' own numbers, to stand beside ours. LDP-GE Table III, and the percentages named in its text.

Figures 2 to 4 exist as pictures only: what the text does not name stays an empty cell.
"""

from collections.abc import Mapping
from typing import Any

from experiments.privge.settings import DEFAULT, HYPERPARAMETERS

_AUC = """
cora laplace 75.22 76.00 74.95 75.20
cora piecewise 73.20 78.17 77.78 75.20
cora multibit 75.92 78.46 78.52 76.61
cora hds 82.43 82.66 82.50 82.25
citeseer laplace 71.59 70.19 70.82 68.27
citeseer piecewise 76.51 76.28 76.13 74.48
citeseer multibit 75.27 73.86 74.72 75.22
citeseer hds 77.65 77.64 77.28 77.71
pubmed laplace 62.84 63.24 64.34 64.42
pubmed piecewise 79.04 77.03 76.74 74.93
pubmed multibit 79.35 77.85 78.39 77.24
pubmed hds 79.50 79.64 80.11 79.60
lastfm laplace 74.41 75.41 77.01 73.77
lastfm piecewise 67.90 71.70 71.96 80.07
lastfm multibit 75.69 78.18 78.89 77.96
lastfm hds 91.73 92.03 92.01 91.98
facebook_pages laplace 81.92 84.66 85.63 86.00
facebook_pages piecewise 92.05 93.20 93.25 89.86
facebook_pages multibit 92.62 92.80 93.10 87.70
facebook_pages hds 96.70 96.65 96.64 96.58
crocodile laplace 72.16 74.78 76.11 75.69
crocodile piecewise 76.94 76.55 76.77 77.86
crocodile multibit 76.62 77.20 78.20 78.37
crocodile hds 99.12 99.14 99.09 99.11
"""
_AUC_NON_PRIVATE = {
    "cora": 93.07,
    "citeseer": 94.95,
    "pubmed": 97.46,
    "lastfm": 95.93,
    "facebook_pages": 95.60,
    "crocodile": 98.49,
}

PUBLISHED_VALUES: dict[tuple[str, str, str, float], float] = {
    # Section IV-C, in words: Cora, HDS at eps = 0.01 about 84.2 %, 4.3 points under the non-private method;
    # LastFM about 89.0 %, 1.6 points under it.
    ("node", "cora", "hds", 0.01): 84.2,
    ("node", "cora", "non-private", float("inf")): 88.5,
    ("node", "lastfm", "hds", 0.01): 89.0,
    ("node", "lastfm", "non-private", float("inf")): 90.6,
    **{
        ("link", dataset, mechanism, epsilon): float(value)
        for dataset, mechanism, *values in map(str.split, _AUC.split("\n")[1:-1])
        for epsilon, value in zip((1.0, 2.0, 3.0, 5.0), values, strict=True)
    },
    **{("link", dataset, "non-private", float("inf")): value for dataset, value in _AUC_NON_PRIVATE.items()},
}
"""(task, dataset, mechanism, epsilon) -> accuracy or AUC in per cent."""

NAMED_GAPS = (
    ("citeseer", 0.01, "hds", "laplace", 2.0),
    ("citeseer", 0.01, "hds", "piecewise", 8.5),
    ("citeseer", 0.01, "hds", "multibit", 9.8),
    ("pubmed", 0.01, "hds", "laplace", 8.2),
    ("cora", 0.01, "hds", "non-private", -4.3),
    ("facebook_pages", 0.01, "hds", "non-private", 1.2),
    ("crocodile", 0.01, "hds", "non-private", 0.4),
)
"""Node task: (dataset, epsilon, a, b, published accuracy of a less that of b), from section IV-C. (Of Citeseer and
Pubmed the text says besides that HDS is less than 7.0 points under non-private at eps = 0.01.)
"""


def printed(row: Mapping[str, Any]) -> float | None:
    """The paper's number of a row, of its k of HDS and its embedding, the raw one; None where it prints none."""
    chosen = HYPERPARAMETERS.get(row["dataset"], DEFAULT)
    other = row["mechanism"] == "hds" and row["k"] != (chosen.k if row["task"] == "node" else chosen.link_k)
    if other or row["preprocessing"] == "standardized":
        return None
    return PUBLISHED_VALUES.get((row["task"], row["dataset"], row["mechanism"], row["epsilon"]))
