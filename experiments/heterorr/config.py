"""The command line's words of HeteroRR, the settings that they stand for, and the runs whose rows are committed."""

import dataclasses
from pathlib import Path
from typing import Literal, get_args

from experiments._common import check_words
from experiments._runner import DEFAULT_OUT, UsageError
from experiments.heterorr.settings import EDGE_MECHANISMS, FEATURE_MECHANISMS, RHOS, SENSITIVE, Level, Settings

Part = Literal["features", "edges", "both", "attacks", "counts", "mixing", "inversion", "scores"]
PARTS: tuple[Part, ...] = get_args(Part)


@dataclasses.dataclass(frozen=True)
class Config:
    """Private features and private edges for a GCN, and the attacks on them (HeteroRR, Tran et al., 2022).

    Without further words these are the committed rows. Beside each mechanism stand its structure-only and
    features-only rows, what public users or public edges give alone, and rows without privacy.

    Parts: features, edges and both are Figures 6, 7 and 10-11, scores 3, inversion 8; attacks: LinkTeller; counts:
    private edges in releases of PPI; mixing: how chains forget where they began.
    """

    parts: tuple[Part, ...] = PARTS
    """which parts"""
    datasets: tuple[str, ...] = ("facebook100_caltech36",)
    """graphs with features and classes: names, or paths of .npz files; attacks, mixing and scores take them too"""
    mechanisms: tuple[str, ...] = (*FEATURE_MECHANISMS, *EDGE_MECHANISMS)
    """on records (Figure 6), and on private edges (Figure 7 and the attacks)"""
    epsilons: tuple[float, ...] = ()
    """per record, and per private edge; by default 0.1 to 4, in the attacks 0.1 to 1"""
    private_shares: tuple[float, ...] = RHOS
    """shares of private edges; the last at all budgets, the others at epsilon 1 (or at the one that is given)"""
    seeds: int = 5
    """how many, from 0: each a split, noise and training of its own"""
    attacked_nodes: int = 600
    """nodes whose pairs are attacked: drawn at random from larger graphs"""
    preset: Literal["committed", "smoke"] = "committed"
    """committed: at most 200 epochs, 1 000 moves of a chain a node; smoke: seconds"""
    out: Path = DEFAULT_OUT
    """where results go, and are looked for"""

    def check(self) -> None:
        check_words(
            self, positive=("epsilons", "seeds"), shares=("private_shares",),
            known={"mechanisms": (*FEATURE_MECHANISMS, *EDGE_MECHANISMS)},
            filled=("parts", "datasets", "private_shares", "mechanisms"),
        )  # fmt: skip
        if self.attacked_nodes < 10:
            raise UsageError(f"--attacked-nodes must be at least 10 nodes, got {self.attacked_nodes}")

    smoke = property(lambda self: self.preset == "smoke")


def settings(config: Config, dataset: str, data: str, level: Level, width: int) -> Settings:
    """The settings of one data set and level; ``width`` is of the public embedding, where features are private."""
    private = level != "edges"
    return Settings(
        dataset=dataset, data=data, level=level, public_share=0.1 if private else 0.0,
        width=width if private else 0, sensitive=SENSITIVE.get(dataset, ()) if private else (),
        sweeps=0 if level == "features" else 20 if config.smoke else 8000,
        steps=((0, 2) if config.smoke else (0, 2, 4, 8, 16)) if private else (0,),
        epochs=3 if config.smoke else 200, patience=3 if config.smoke else 50,
    )  # fmt: skip
