"""The command line's words of HeteroRR, the settings that they stand for, and the runs whose rows are committed."""

import dataclasses
from pathlib import Path
from typing import Literal, get_args

from experiments._common import check_words
from experiments._runner import DEFAULT_OUT, UsageError
from experiments.heterorr.settings import (
    EDGE_MECHANISMS,
    EPSILONS,
    FEATURE_MECHANISMS,
    RHOS,
    SENSITIVE,
    Level,
    Settings,
)

Part = Literal["features", "edges", "both", "attacks", "counts", "mixing", "inversion", "scores"]
PARTS: tuple[Part, ...] = get_args(Part)


@dataclasses.dataclass(frozen=True)
class Config:
    """Private features and private edges for a GCN, and the attacks on them (HeteroRR, Tran et al., 2022).

    Without further words these are the committed rows. At the features level every edge is public, at the edges
    level every feature, and a share rho of the edges is private. Beside each mechanism stand its structure-only and
    features-only rows, what the public users or the public edges give alone, and rows without privacy.

    Parts: features, edges and both are Figures 6, 7 and 10-11; attacks is the table of LinkTeller beside attackers
    with public knowledge alone; counts says how many private edges a release of PPI's first graph holds; mixing
    shows how chains of hierarchical random graphs forget where they began; inversion is Figure 8 on scikit-learn's
    digits; scores is Figure 3.
    """

    parts: tuple[Part, ...] = PARTS
    """which parts"""
    datasets: tuple[str, ...] = ("facebook100_caltech36",)
    """graphs with features and classes: names, or paths of .npz files; attacks, mixing and scores take them too"""
    feature_mechanisms: tuple[str, ...] = FEATURE_MECHANISMS
    """of Figure 6"""
    edge_mechanisms: tuple[str, ...] = EDGE_MECHANISMS
    """of Figure 7 and of the attacks"""
    epsilons: tuple[float, ...] = EPSILONS
    """per record, and per private edge"""
    attack_epsilons: tuple[float, ...] = (0.1, 0.5, 1.0)
    """per private edge, in the attacks"""
    rhos: tuple[float, ...] = RHOS
    """shares of private edges; the last at all budgets, the others at epsilon 1 (or at the one that is given)"""
    seeds: int = 5
    """how many, from 0: each a split, noise and training of its own"""
    attacked: int = 600
    """nodes whose pairs are attacked: drawn at random from larger graphs"""
    preset: Literal["committed", "smoke"] = "committed"
    """committed: at most 200 epochs, 1 000 moves of a chain a node; smoke: seconds"""
    out: Path = DEFAULT_OUT
    """where results go, and are looked for"""

    def check(self) -> None:
        """Raise a UsageError for the first invalid option."""
        check_words(
            self,
            positive=("epsilons", "attack_epsilons", "seeds"),
            shares=("rhos",),
            known={"feature_mechanisms": FEATURE_MECHANISMS, "edge_mechanisms": EDGE_MECHANISMS},
            filled=(
                "parts",
                "datasets",
                "epsilons",
                "attack_epsilons",
                "rhos",
                "feature_mechanisms",
                "edge_mechanisms",
            ),
        )
        if self.attacked < 10:
            raise UsageError(f"--attacked must be at least 10 nodes, got {self.attacked}")

    @property
    def smoke(self) -> bool:
        """Whether this run only tests the machinery."""
        return self.preset == "smoke"


def settings(config: Config, dataset: str, data: str, level: Level, width: int) -> Settings:
    """The settings of one data set and level; ``width`` is of the public embedding, where features are private."""
    private = level != "edges"
    return Settings(
        dataset=dataset,
        data=data,
        level=level,
        public_share=0.1 if private else 0.0,
        width=width if private else 0,
        sensitive=SENSITIVE.get(dataset, ()) if private else (),
        sweeps=0 if level == "features" else 20 if config.smoke else 8000,
        steps=((0, 2) if config.smoke else (0, 2, 4, 8, 16)) if private else (0,),
        epochs=3 if config.smoke else 200,
        patience=3 if config.smoke else 50,
    )
