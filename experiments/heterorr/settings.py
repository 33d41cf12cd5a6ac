"""The settings of HeteroRR's experiments, and what of its plan is run here."""

import dataclasses
from typing import Literal

from experiments import _common
from experiments._common import row_names

Level = Literal["features", "edges", "both"]

FEATURE_MECHANISMS = (
    "featurerr", "featurerr-uniform", "lpgnn", "duchi", "piecewise", "hybrid", "three-outputs", "suboptimal",
)  # fmt: skip
"""Figure 6: FeatureRR with the shares of eq. 7 and with equal ones, LPGNN's multi-bit mechanism, five others."""

PRIVATE_LABELS = "lpgnn-labels"
"""LPGNN whole: half of the budget for the features, half for the label of who trains or validates, and Drop."""

LABEL_STEPS = (0, 2, 4, 8)
"""Of averaged labels, of which that row takes the best by its noisy validation labels."""

EDGE_MECHANISMS = ("edgerr", "priv-hrg", "public-hrg", "binned-pairs", "edge-rand", "lap-graph")
"""Figure 7."""

PAIRS = (("featurerr", "edgerr"), ("lpgnn", "binned-pairs"))
"""Figures 10 and 11: the paper's two mechanisms, and two that are proved and did better on their own levels."""

EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0)
RHOS = (0.05, 0.1, 0.2)

SENSITIVE: dict[str, tuple[int, ...]] = {"facebook100_caltech36": (3, 4)}
"""Columns of a data set's records that are masked for the sensitivity scores: the two of gender."""


LABELS, COLOURS = row_names("heterorr")

CHAINS = ("edgerr", "priv-hrg")
"""Mechanisms whose epsilon is that of a chain's law, which the chain has not reached after 8 000 sweeps."""


def budget(mechanism: str, epsilon: float) -> str:
    """A budget in a table; of a chain that has not mixed, that no epsilon is claimed.

    >>> budget("lap-graph", 1.0), budget("edgerr", 1.0)
    ('1', 'none (asked: 1)')
    """
    return f"none (asked: {epsilon:g})" if mechanism in CHAINS else f"{epsilon:g}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(_common.Settings):
    """The settings of one level and data set.

    Attributes:
      level: what is protected: the records' features, a part of the edges, or both.
      public_share: share of all nodes, drawn among the training nodes, whose records everybody knows: the public
        split that the embedding and the scores come from. 0 where features are public anyway.
      width: coordinates of the public embedding of a record; 0 where features are public.
      sensitive: columns of the records that are masked for the sensitivity; none: equal sensitivities.
      sweeps: of the chain of hierarchical random graphs; a sweep is about n / 8 moves.
      steps: of feature propagation (LPGNN's KProp), of which each row takes the best in validation.
      bins: FeatureRR's k.
      gamma: weight of the importance in eq. 7.
      layers: of the GCN.
    """

    level: Level
    public_share: float
    width: int
    sensitive: tuple[int, ...]
    sweeps: int
    steps: tuple[int, ...]
    bins: int = 10
    gamma: float = 0.5
    layers: int = 2
    hidden: int = 64
    dropout: float = 0.5
    learning_rate: float = 0.01
    weight_decay: float = 5e-4
    label_alphas: tuple[float, ...] = _common.LABEL_ALPHAS
    label_rs: tuple[float, ...] = _common.LABEL_RS
    base_seed: int = 2022
