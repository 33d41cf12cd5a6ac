"""The command line's words of PoinDP, the settings that they stand for, and the runs whose rows are committed."""

import dataclasses
from pathlib import Path
from typing import Literal, get_args

from experiments._common import check_words
from experiments._runner import DEFAULT_OUT, UsageError
from experiments.poindp.settings import EPSILONS, LENGTHS, Settings
from ldp_jax.attacks.shadows import MembershipProtocol

Part = Literal["table1", "table2", "figure3", "noise", "membership", "gaps"]
PARTS: tuple[Part, ...] = get_args(Part)
Split = Literal["random", "public"]
Attack = Literal["trained", "trained, with hierarchy", "LiRA online", "LiRA offline", "RMIA offline"]
ATTACKS: tuple[Attack, ...] = get_args(Attack)
"""On membership; the first is the paper's."""


@dataclasses.dataclass(frozen=True)
class Config:
    """Hierarchy-aware noise for graph networks, as published and sound, and membership attacks (PoinDP, 2024).

    Each private row stands twice: as the paper does it, with noise in every epoch and whenever the model is asked,
    of which nothing is proved; and sound at the same nominal epsilon, each user's record reported once, with the
    same network on the reports, beside the same without any private record and without any edge.

    Parts: table1 (accuracy at epsilon 1), table2 (ablations at 0.01), figure3 (training nodes from the top and from
    the bottom of the hierarchy, of the first data set), noise (Figures 4 to 6, of the first data set), membership
    (Table 3), gaps (one change at a time where Tables 1 and 2 differ from ours by more than 5 points).
    """

    parts: tuple[Part, ...] = PARTS[:-1]
    """which parts; gaps only where asked for"""
    datasets: tuple[str, ...] = ("cora", "citeseer", "amazon_photo")
    """graphs with features and classes: names, or paths of .npz files; membership has its own"""
    attacked: tuple[str, ...] = ("pubmed", "amazon_photo")
    """those of membership"""
    splits: tuple[Split, ...] = ("random", "public")
    """of table1: a random tenth each for training and validation, and Planetoid's where the file has it"""
    epsilons: tuple[float, ...] = EPSILONS
    """of figure3"""
    epsilon: float = 1.0
    """of table1"""
    ablation_epsilon: float = 0.01
    """of table2"""
    attack_epsilon: float = 0.2
    """of membership"""
    mechanisms: tuple[str, ...] = ()
    """only rows whose name has one of these words in it, or is the word after "="; all by default"""
    seeds: int = 5
    """how many, from 0: each a split, noise and training of its own"""
    models: int = 8
    """of membership: how many models are trained for each row, each the target in turn"""
    protocols: tuple[MembershipProtocol, ...] = ("TSTF", "TSTS", "0-hop")
    """of membership: on which edges a trained network is asked"""
    shares: tuple[float, ...] = (0.5,)
    """of membership: which share of the nodes is trained on"""
    attacks: tuple[Attack, ...] = ATTACKS
    """of membership"""
    preset: Literal["committed", "smoke"] = "committed"
    """committed: at most 200 epochs; smoke: seconds"""
    out: Path = DEFAULT_OUT
    """where results go, and are looked for"""

    def check(self) -> None:
        """Raise a UsageError for the first invalid option."""
        check_words(
            self,
            positive=("epsilons", "epsilon", "ablation_epsilon", "attack_epsilon", "seeds"),
            shares=("shares",),
            filled=("parts", "datasets", "epsilons", "attacked", "splits", "protocols", "shares", "attacks"),
        )
        if self.models < 3:
            raise UsageError(f"--models must be at least 3, got {self.models}")

    @property
    def smoke(self) -> bool:
        """Whether this run only tests the machinery."""
        return self.preset == "smoke"

    def asks_for(self, mechanism: str) -> bool:
        """Whether rows of a mechanism are wanted."""
        return not self.mechanisms or any(
            mechanism == word[1:] if word.startswith("=") else word in mechanism for word in self.mechanisms
        )


def settings(config: Config, dataset: str, data: str) -> Settings:
    """The settings of one data set, whose fingerprint is ``data``."""
    return Settings(
        dataset=dataset,
        data=data,
        epochs=2 if config.smoke else 200,
        patience=2 if config.smoke else 100,
        embedding_epochs=1 if config.smoke else 50,
        embedding_burn_in=0 if config.smoke else 10,
        steps=(0, 1) if config.smoke else (0, 4, 16),
        length=LENGTHS.get(dataset, 1.0),
    )


_FIRST_ATTACKED = (
    "=gcn", "=gat", "=structure-only:gat", "=gcn+H", "=structure-only:gcn+H", "=published:vanpd",
    "=published:lap", "=published:poindp", "hyperbolic",
)  # fmt: skip

COMMITTED = (
    Config(parts=("table1", "table2", "figure3", "noise"), datasets=("cora",)),
    Config(parts=("table1", "table2"), datasets=("citeseer", "amazon_photo")),
    Config(parts=("table1", "table2"), datasets=("pubmed", "amazon_computers"), seeds=3),
    Config(parts=("membership",), protocols=("TSTF",), mechanisms=_FIRST_ATTACKED),
    Config(
        parts=("membership",),
        attacked=("cora", "amazon_photo", "pubmed"),
        shares=(0.5, 0.1),
        attacks=("trained", "LiRA online"),
        mechanisms=("=gcn", "=structure-only:gcn", "published:", "hyperbolic"),
    ),
)
"""The runs whose rows are committed."""
