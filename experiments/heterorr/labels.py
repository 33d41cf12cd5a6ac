"""What the rows of HeteroRR are called and coloured in tables and figures."""

from experiments.heterorr.cells import LABEL_PROPAGATION, NON_PRIVATE, PUBLIC_RECORDS, RECORDS
from experiments.heterorr.releases import HRG_0, LINK_PREDICTION, PUBLIC_EDGES

LABELS = {
    "featurerr": "FeatureRR",
    "featurerr-uniform": "FeatureRR, equal shares",
    "lpgnn": "multi-bit (LPGNN)",
    "lpgnn-labels": "LPGNN, labels private too",
    "duchi": "Duchi",
    "piecewise": "Piecewise",
    "hybrid": "Hybrid",
    "three-outputs": "Three-outputs",
    "suboptimal": "Suboptimal Piecewise",
    "edgerr": "EdgeRR",
    "priv-hrg": "PrivHRG",
    "public-hrg": "PublicHRG",
    "binned-pairs": "BinnedPairs",
    "edge-rand": "EdgeRand",
    "lap-graph": "LapGraph",
    NON_PRIVATE: "non-private",
    RECORDS: "non-private, whole records",
    PUBLIC_RECORDS: "public records alone",
    LABEL_PROPAGATION: "label propagation",
    PUBLIC_EDGES: "public edges alone",
    LINK_PREDICTION: "public link prediction",
    HRG_0: "public HRG at eps 0",
}

CHAINS = ("edgerr", "priv-hrg")
"""Mechanisms whose epsilon is that of a chain's law, which the chain has not reached after 8 000 sweeps."""


def budget(mechanism: str, epsilon: float) -> str:
    """A budget in a table; of a chain that has not mixed, that no epsilon is claimed.

    >>> budget("lap-graph", 1.0), budget("edgerr", 1.0)
    ('1', 'none (asked: 1)')
    """
    return f"none (asked: {epsilon:g})" if mechanism in CHAINS else f"{epsilon:g}"


COLOURS = {
    "featurerr": "#d1495b",
    "featurerr-uniform": "#e8a0a9",
    "lpgnn": "#00798c",
    "lpgnn-labels": "#66b2bf",
    "duchi": "#edae49",
    "piecewise": "#7a7a7a",
    "hybrid": "#8d6b94",
    "three-outputs": "#4f9d69",
    "suboptimal": "#b07d4b",
    "edgerr": "#d1495b",
    "priv-hrg": "#e8a0a9",
    "public-hrg": "#8d6b94",
    "binned-pairs": "#00798c",
    "edge-rand": "#7a7a7a",
    "lap-graph": "#edae49",
}
