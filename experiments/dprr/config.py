"""The command line's words, the settings that they stand for, and the runs whose rows are committed."""

import dataclasses
from pathlib import Path
from typing import Any, Literal

from experiments._common import check_words
from experiments._runner import DEFAULT_OUT, UsageError
from experiments.dprr import cells
from experiments.dprr.cells import COMMUNITIES, MECHANISMS, Classifier, Mechanism, Settings, Variant

Part = Literal["accuracy", "degrees", "scaling"]


@dataclasses.dataclass(frozen=True)
class Config:
    """Graph classification on noisy graphs (Hidano & Murakami): by GIN, and by a random forest for every mechanism.

    Rows the paper lacks: classification from the privately released degrees alone (the whole budget spent on them),
    from the lengths of DPRR's own lists, from the true degrees and from the public number of nodes. A killed run
    started again computes what is missing; trainings continue from their last epoch. Writes dprr.csv, dprr.md and,
    where the rows suffice, dprr_figure4.png (share of public users), dprr_figure5.png and dprr_forest.png (epsilon)
    and dprr_figure6.png (splits of DPRR's budget).

    The seconds of the committed rows sum to about 5.5 hours on two cores, in part shared; most are GIN's. Without
    further words this is the first of the commands that made them; ``reproduce dprr`` runs all of them.
    """

    datasets: tuple[str, ...] = ("reddit_binary",)
    """sets of graphs: reddit_binary, deezer_ego_nets, reddit10k, collab, github_stargazers, reddit_multi_5k; and
    communities, generated graphs whose degrees say nothing of the class"""
    classifiers: tuple[Classifier, ...] = ("gin", "perceptron", "forest")
    """gin (where graphs are released) and perceptron (where none are) are trained by epochs, under one rule of
    stopping; forest, a random forest on statistics of the same release, is a second row of every mechanism"""
    mechanisms: tuple[Mechanism, ...] = MECHANISMS
    """rr is dense: only graphs of at most rr_nodes nodes are used, by every mechanism of that run; the two other
    splits of DPRR's budget are Figure 6's"""
    epsilons: tuple[float, ...] = (0.5, 1.0, 2.0)
    """per bit of a neighbour list"""
    alphas: tuple[float, ...] = (0.0, 0.2)
    """shares of users who are public (the customised setting)"""
    seeds: int = 3
    """random splits of the graphs, each with noise of its own"""
    preset: Literal["committed", "paper", "smoke"] = "committed"
    """committed: 60 epochs, for two cores; paper: 500 epochs with early stopping, 10 splits; smoke: seconds"""
    epochs: int = 0
    """train at most so many epochs; 0 for the preset's"""
    graphs: int = 0
    """use so many graphs of each set, drawn at random; 0 for all"""
    rr_nodes: int = 0
    """leave out graphs of more nodes; 0 for none. Needed for rr"""
    parts: tuple[Part, ...] = ("accuracy",)
    """accuracy: Figures 4 to 6; degrees: Figure 7; scaling: Figures 8 and 9"""
    out: Path = DEFAULT_OUT
    """where results and checkpoints go, and are looked for"""

    def check(self) -> None:
        """Raise a UsageError for the first invalid option."""
        check_words(
            self,
            positive=("epsilons", "seeds"),
            filled=("datasets", "mechanisms", "epsilons", "alphas", "classifiers", "parts"),
        )
        if not all(0 <= alpha < 1 for alpha in self.alphas):
            raise UsageError(f"--alphas must be shares from 0 to below 1, got {' '.join(map(str, self.alphas))}")
        for option, value in (("--epochs", self.epochs), ("--graphs", self.graphs), ("--rr-nodes", self.rr_nodes)):
            if value < 0:
                raise UsageError(f"{option} must be at least 0, got {value}")
        limited = self.rr_nodes or set(self.datasets) == {COMMUNITIES} or set(self.parts) == {"scaling"}
        if "rr" in self.mechanisms and not limited:  # the scaling part has limits of its own
            raise UsageError("--mechanisms rr reports dense graphs: give --rr-nodes 1000 or so, perhaps --graphs")


def settings(config: Config, dataset: str) -> Settings:
    """The settings of one data set; hyper-parameters are from the paper's grid, without its search."""
    epochs, patience = {"committed": (60, 20), "paper": (500, 100), "smoke": (2, None)}[config.preset]
    stargazers, smoke = dataset in ("github_stargazers", "deezer_ego_nets", "twitch_egos"), config.preset == "smoke"
    return Settings(
        dataset=dataset, graphs=config.graphs, rr_nodes=config.rr_nodes, epochs=config.epochs or epochs,
        patience=patience,
        layers=2 if smoke else 4 if stargazers else 5, hidden=8 if smoke else 64, dropout=0.5,
        learning_rate=0.001, batch_size=64, shares=(0.65, 0.15, 0.20) if stargazers else (0.75, 0.10, 0.15),
    )  # fmt: skip


def variants_of(config: Config) -> list[Variant]:
    """Every combination that means something: the whole graph has no budget, public parts need public users."""
    listed = []
    for mechanism in config.mechanisms:
        for alpha in config.alphas:
            if mechanism in cells.OF_ALL and alpha != config.alphas[0]:
                continue
            if mechanism == "non-private-part" and alpha == 0:
                continue
            epsilons = (0.0,) if mechanism in cells.WITHOUT_EPSILON else config.epsilons
            shared = 0.0 if mechanism in cells.OF_ALL else alpha
            both = [Variant(mechanism, epsilon, shared, forest) for epsilon in epsilons for forest in (False, True)]
            listed += [variant for variant in both if variant.classifier in config.classifiers]
    # The classifiers of one release side by side: it is drawn once.
    return sorted(listed, key=lambda v: (v.mechanism.removesuffix("-lengths"), v.public, v.epsilon))


def _committed() -> tuple[Config, ...]:
    splits: tuple[Mechanism, ...] = ("dprr", "dprr-one-to-nine", "dprr-as-published")
    compared: tuple[Mechanism, ...] = ("dprr", "local-lap", "rr")
    with_rr: tuple[Mechanism, ...] = (*MECHANISMS, "rr")
    trained = Config(classifiers=("gin", "perceptron"))
    forests = Config(classifiers=("forest",), alphas=(0.0,))
    few: dict[str, Any] = {"datasets": ("reddit_binary",), "graphs": 600, "rr_nodes": 1000}
    deezer: dict[str, Any] = {"datasets": ("deezer_ego_nets",), "rr_nodes": 1000}
    generated: dict[str, Any] = {"datasets": (COMMUNITIES,), "alphas": (0.0,)}
    budgets = (0.5, 1.0, 2.0, 4.0, 8.0)
    replace = dataclasses.replace
    return (
        trained,
        replace(trained, **deezer, mechanisms=with_rr),
        replace(trained, **few, mechanisms=with_rr),
        replace(trained, **few, mechanisms=with_rr, epsilons=(0.2,), alphas=(0.0,)),
        replace(trained, **few, epsilons=(1.0,), alphas=(0.1, 0.5)),
        replace(trained, **few, mechanisms=splits, epsilons=(0.1, 0.2, 0.5, 1.0), alphas=(0.0,)),
        replace(trained, **generated, epsilons=(2.0, 4.0), mechanisms=("dprr", "non-private")),
        replace(trained, **generated, epsilons=budgets, mechanisms=("degrees", "dprr-lengths"), seeds=4),
        replace(trained, **generated, mechanisms=("true-degrees", "sizes")),
        forests,
        replace(forests, **deezer, mechanisms=with_rr, epsilons=(1.0,)),
        replace(forests, **few, seeds=8),
        replace(forests, **few, mechanisms=("rr",)),
        replace(forests, **few, epsilons=(1.0,), alphas=(0.2,)),
        replace(forests, **few, mechanisms=splits, epsilons=(1.0,)),
        replace(forests, **generated, mechanisms=with_rr, epsilons=budgets, seeds=8),
        Config(
            parts=("degrees",), datasets=("reddit_binary", "deezer_ego_nets"), rr_nodes=1000, epsilons=(1.0,),
            mechanisms=compared,
        ),
        Config(parts=("scaling",), mechanisms=compared),
    )  # fmt: skip


COMMITTED = _committed()
"""The runs whose rows are committed."""
