"""The command line's words, the settings that they stand for, and the committed runs."""

import dataclasses
import itertools
from typing import Literal, get_args

from experiments._common import check_methods, check_models, check_words, is_own
from experiments._runner import Grid, UsageError
from experiments.dprr import cells
from experiments.dprr.cells import (
    CLASSIFIERS,
    MECHANISMS,
    Mechanism,
    Settings,
    Variant,
)
from ldp_jax.graph import packing

Part = Literal["accuracy", "degrees", "scaling"]


@dataclasses.dataclass(frozen=True)
class Config(Grid):
    """Graph classification on noisy graphs (Hidano & Murakami).

    By GIN, and by a random forest for every mechanism.

    Beside published rows: released degrees alone, lengths of DPRR's lists, true degrees, public
    sizes. A killed run goes on, trainings from their last epoch.

    The seconds of the committed rows sum to about 8 hours on two cores, in part shared; most are
    GIN's. Without further words this is the first of the commands that made them;
    ``reproduce dprr`` runs all.
    """

    datasets: tuple[str, ...] = ("reddit_binary",)
    """sets of graphs by name, or communities, whose degrees say nothing of the class"""
    classifiers: tuple[str, ...] = CLASSIFIERS
    """gin, and perceptron where no graph is released; forest is a second row of all; your own
    models of a packed Batch of graphs as module:Name"""
    mechanisms: tuple[str, ...] = MECHANISMS
    """rr needs --rr-nodes; ldpgen and blink are where nobody is public; your own on neighbour lists
    as module:Name"""
    epsilons: tuple[float, ...] = (0.5, 1.0, 2.0)
    """per bit of a neighbour list"""
    public_shares: tuple[float, ...] = (0.0, 0.2)
    """shares of users who are public"""
    seeds: int | None = None
    """random splits, each with noise of its own; by default 3, of the preset paper 10"""
    preset: Literal["committed", "paper", "smoke"] = "committed"
    """60, 500 or 2 epochs"""
    epochs: int | None = None
    """by default the preset's"""
    graphs: int = 0
    """use so many of each set, at random; 0 for all"""
    rr_nodes: int = 0
    """leave out graphs of more nodes; 0 for none"""
    parts: tuple[Part, ...] = ("accuracy",)
    """accuracy: Figures 4 to 6; degrees: Figure 7; scaling: Figures 8 and 9, of the first
    data set"""

    def check(self) -> None:
        check_words(self, positive=("epsilons", "seeds", "epochs"))
        check_methods("--mechanisms", self.mechanisms, get_args(Mechanism), self.out)
        check_models(self.classifiers, _few_graphs(), self.out, "--classifiers", CLASSIFIERS)
        if not all(0 <= alpha < 1 for alpha in self.public_shares):
            given = " ".join(map(str, self.public_shares))
            raise UsageError(f"--public-shares must be shares from 0 to below 1, got {given}")
        for option, value in (("--graphs", self.graphs), ("--rr-nodes", self.rr_nodes)):
            if value < 0:
                raise UsageError(f"{option} must be at least 0, got {value}")


def _few_graphs() -> tuple[packing.Batch, tuple[int]]:
    """Inputs on which models of graphs are tried, and how many graphs there are."""
    pairs = packing.GraphSet.from_edges([1, 0, 3, 2], [0, 1, 2, 3], [0, 0, 1, 1, 1], [0, 1])
    return packing.from_graphs(pairs.graph), (2,)


def settings(config: Config, dataset: str) -> Settings:
    """The settings of one data set.

    Hyper-parameters are from the paper's grid, without its search.
    """
    epochs, patience = {"committed": (60, 20), "paper": (500, 100), "smoke": (2, None)}[
        config.preset
    ]
    stargazers = dataset in ("github_stargazers", "deezer_ego_nets", "twitch_egos")
    smoke = config.preset == "smoke"
    layers = 4 if stargazers else 5
    return Settings(
        dataset=dataset,
        graphs=config.graphs,
        rr_nodes=config.rr_nodes,
        epochs=config.epochs or epochs,
        patience=patience,
        layers=2 if smoke else layers,
        hidden=8 if smoke else 64,
        dropout=0.5,
        learning_rate=0.001,
        batch_size=64,
        shares=(0.65, 0.15, 0.20) if stargazers else (0.75, 0.10, 0.15),
    )


def variants_of(config: Config) -> list[Variant]:
    """Every combination that means something.

    The whole graph has no budget, public parts need public users.
    """
    listed = []
    for mechanism in config.mechanisms:
        for alpha in config.public_shares:
            if mechanism in cells.OF_ALL and alpha != config.public_shares[0]:
                continue
            if mechanism == "non-private-part" and alpha == 0:
                continue
            if mechanism in cells.SYNTHETIC and alpha:
                continue
            epsilons = (0.0,) if mechanism in cells.WITHOUT_EPSILON else config.epsilons
            shared = 0.0 if mechanism in cells.OF_ALL else alpha
            own = [] if mechanism in cells.NUMBERS else filter(is_own, config.classifiers)
            every = [
                Variant(mechanism, epsilon, shared, chosen)
                for epsilon, chosen in itertools.product(epsilons, ("", cells.FOREST, *own))
            ]
            listed += [variant for variant in every if variant.classifier in config.classifiers]
    # The classifiers of one release side by side: it is drawn once.
    return sorted(listed, key=lambda v: (v.mechanism.removesuffix("-lengths"), v.public, v.epsilon))
