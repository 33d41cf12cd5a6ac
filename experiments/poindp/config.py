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
BUDGETS: dict[Part, tuple[float, ...]] = {"table2": (0.01,), "figure3": EPSILONS, "membership": (0.2,)}
"""The paper's, where they are not 1."""


@dataclasses.dataclass(frozen=True)
class Config:
    """Hierarchy-aware noise for graph networks, as published and sound, and membership attacks (PoinDP, 2024).

    Private rows stand twice: as published, of which nothing is proved, and sound, each record reported once.

    Parts: table1, table2 (ablations), figure3 (training nodes by hierarchy) and noise (Figures 4 to 6) of the first
    data set, membership (Table 3), gaps (one change at a time where we differ from Tables 1 and 2).
    """

    parts: tuple[Part, ...] = PARTS[:-1]
    """gaps only where asked for"""
    datasets: tuple[str, ...] = ()
    """names, or paths of .npz files; by default cora, citeseer and amazon_photo, of membership those of Table 3"""
    mechanisms: tuple[str, ...] = ()
    """rows whose name has one of these words in it, or is the word after "=" """
    epsilons: tuple[float, ...] = ()
    """by default the paper's of each part: 1, in table2 0.01, in membership 0.2; noise and membership take one"""
    seeds: int = 5
    """how many: each a split, noise and training"""
    splits: tuple[Split, ...] = ("random", "public")
    """of table1: random tenths, and Planetoid's where the file has it"""
    models: int = 8
    """of membership: trained for each row, each the target in turn"""
    protocols: tuple[MembershipProtocol, ...] = ("TSTF", "TSTS", "0-hop")
    """of membership"""
    member_shares: tuple[float, ...] = (0.5,)
    """of membership: of the nodes, trained on"""
    attacks: tuple[Attack, ...] = ATTACKS
    """of membership"""
    preset: Literal["committed", "smoke"] = "committed"
    """committed: at most 200 epochs; smoke: seconds"""
    out: Path = DEFAULT_OUT
    """where results go, and are looked for"""

    def check(self) -> None:
        filled = ("parts", "splits", "protocols", "member_shares", "attacks")
        check_words(self, positive=("epsilons", "seeds"), shares=("member_shares",), filled=filled)
        if self.models < 3:
            raise UsageError(f"--models must be at least 3, got {self.models}")

    smoke = property(lambda self: self.preset == "smoke")

    def asked(self, part: Part) -> tuple[tuple[str, ...], tuple[float, ...]]:
        """Data sets and budgets of a part: those of the command line's words, or the part's own."""
        known = ("pubmed", "amazon_photo") if part == "membership" else ("cora", "citeseer", "amazon_photo")
        return self.datasets or known, self.epsilons or BUDGETS.get(part, (1.0,))

    def asks_for(self, mechanism: str) -> bool:
        meant = (mechanism == word[1:] if word.startswith("=") else word in mechanism for word in self.mechanisms)
        return not self.mechanisms or any(meant)


def settings(config: Config, dataset: str, data: str) -> Settings:
    return Settings(
        dataset=dataset, data=data, epochs=2 if config.smoke else 200, patience=2 if config.smoke else 100,
        embedding_epochs=1 if config.smoke else 50, embedding_burn_in=0 if config.smoke else 10,
        steps=(0, 1) if config.smoke else (0, 4, 16), length=LENGTHS.get(dataset, 1.0),
    )  # fmt: skip
