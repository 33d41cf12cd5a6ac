"""The settings of HeteroRR's experiments, the command line's words for them, and what is run."""

import dataclasses
from typing import Literal, get_args

from experiments import _common, _runner

Level = Literal["features", "edges", "both"]

FEATURE_MECHANISMS = (
    "featurerr",
    "featurerr-uniform",
    "lpgnn",
    "duchi",
    "piecewise",
    "hybrid",
    "three-outputs",
    "suboptimal",
)
"""Figure 6: FeatureRR with the shares of eq. 7 and with equal ones, LPGNN's multi-bit mechanism,
five others.
"""

PRIVATE_LABELS = "lpgnn-labels"
"""LPGNN whole: half of the budget for the features, half for the label of who trains or validates,
and Drop.
"""

LABEL_STEPS = (0, 2, 4, 8)
"""Of averaged labels, of which that row takes the best by its noisy validation labels."""

EDGE_MECHANISMS = ("edgerr", "priv-hrg", "public-hrg", "binned-pairs", "edge-rand", "lap-graph")
"""Figure 7."""

LONG_CHAINS = ("edgerr-long", "priv-hrg-long")
"""Figure 7 by chains of minutes, which need numba. An epsilon is claimed where several agree."""

PAIRS = (("featurerr", "edgerr"), ("lpgnn", "binned-pairs"))
"""Figures 10 and 11: the paper's two mechanisms, and two that are proved and did better on their
own levels.
"""

EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0)
RHOS = (0.05, 0.1, 0.2)

SENSITIVE: dict[str, tuple[int, ...]] = dict.fromkeys(
    ("facebook100_caltech36", "facebook100_simmons81"), (3, 4)
)
"""Columns of a data set's records that are masked for the sensitivity scores: the two of gender."""


LABELS, COLOURS = _common.row_names("heterorr")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(_common.Settings):
    """The settings of one level and data set.

    Attributes:
      level: what is protected: the records' features, a part of the edges, or both.
      public_share: share of all nodes, drawn among the training nodes, whose records everybody
        knows: the public split that the embedding and the scores come from. 0 where features are
        public anyway.
      width: coordinates of the public embedding of a record; 0 where features are public.
      sensitive: columns of the records that are masked for the sensitivity; none: equal
        sensitivities.
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


Part = Literal["features", "edges", "both", "attacks", "counts", "mixing", "inversion", "scores"]
PARTS: tuple[Part, ...] = get_args(Part)


@dataclasses.dataclass(frozen=True)
class Config(_runner.Grid):
    """Private features and edges for a GCN, and attacks on them (HeteroRR, Tran et al., 2022).

    Without further words these are the committed rows. Beside each mechanism stand its
    structure-only and features-only rows, what public users or public edges give alone, and rows
    without privacy.

    Parts: features, edges and both are Figures 6, 7 and 10-11, scores 3, inversion 8; attacks:
    LinkTeller; counts: private edges in releases of PPI; mixing: how chains forget where they
    began.
    """

    parts: tuple[Part, ...] = PARTS
    """which parts"""
    datasets: tuple[str, ...] = ("facebook100_caltech36",)
    """graphs with features and classes: names, or paths of .npz files; counts, mixing and
    inversion have their own
    """
    mechanisms: tuple[str, ...] = (*FEATURE_MECHANISMS, *EDGE_MECHANISMS)
    """on records (Figure 6), also your own as module:Name on numbers, on vectors, or on classes: it
    has the label and half of epsilon; and on private edges (Figure 7 and the attacks), with chains
    of minutes as edgerr-long and priv-hrg-long (extra chains)"""
    models: tuple[str, ...] = ()
    """of features, edges and both: your own of NodeInputs, as module:Name"""
    epsilons: tuple[float, ...] = ()
    """per record and private edge; by default 0.1 to 4, or a part's own"""
    private_shares: tuple[float, ...] = RHOS
    """shares of private edges; the last at all budgets, the others at epsilon 1 (or at the one that
    is given)
    """
    seeds: int = 5
    """how many, from 0: each a split, noise and training of its own"""
    attacked_nodes: int = 600
    """nodes whose pairs are attacked: drawn at random from larger graphs"""
    preset: Literal["committed", "smoke"] = "committed"
    """committed: at most 200 epochs, 1 000 moves of a chain a node; smoke: 3 epochs"""

    def check(self) -> None:
        _common.check_words(
            self, positive=("epsilons", "seeds"), shares=("private_shares",)
        )  # fmt: skip
        known = (*FEATURE_MECHANISMS, *EDGE_MECHANISMS, *LONG_CHAINS)
        _common.check_methods("--mechanisms", self.mechanisms, known, self.out)
        _common.check_models(self.models, _common.few_nodes(), self.out)
        if self.attacked_nodes < 10:
            raise _runner.UsageError(
                f"--attacked-nodes must be at least 10 nodes, got {self.attacked_nodes}"
            )

    smoke = property(lambda self: self.preset == "smoke")


def settings(config: Config, dataset: str, data: str, level: Level, width: int) -> Settings:
    """The settings of one data set and level.

    ``width`` is of the public embedding, where features are private.
    """
    private = level != "edges"
    sweeps = 20 if config.smoke else 8000
    steps = (0, 2) if config.smoke else (0, 2, 4, 8, 16)
    return Settings(
        dataset=dataset,
        data=data,
        level=level,
        public_share=0.1 if private else 0.0,
        width=width if private else 0,
        sensitive=SENSITIVE.get(dataset, ()) if private else (),
        sweeps=0 if level == "features" else sweeps,
        steps=steps if private else (0,),
        epochs=3 if config.smoke else 200,
        patience=3 if config.smoke else 50,
    )
