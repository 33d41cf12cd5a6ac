"""The published hyper-parameters of PrivGE / LDP-GE, and what of its plan is run here."""

import dataclasses
from typing import Literal

Task = Literal["node", "link"]
Preprocessing = Literal["both", "raw", "standardized"]

MECHANISMS = ("laplace", "piecewise", "multibit", "hds")
EPSILONS = (0.01, 0.1, 1.0, 2.0, 3.0, 5.0)
KS = (1, 3, 5, 10, 20, 30, 50)


@dataclasses.dataclass(frozen=True)
class Settings:
    """What rows were made with, beyond what identifies them; its hash is the column ``config``.

    Attributes:
      dataset: name, or path of a user's file.
      data: short sha256 of the arrays that were loaded.
      task: node classification or link prediction.
      alpha: decay factor of the propagation.
      r: its convolution coefficient.
      tol: its relative error.
      head: ``mlp`` or ``logistic`` (one linear layer).
      layers: dense layers of the MLP.
      hidden: their width.
      dropout: share of hidden values dropped in training.
      learning_rate: of Adam.
      weight_decay: L2, added to the gradient.
      batch_size: nodes, or edge and non-edge pairs.
      epochs: at most so many; the best of them by validation is kept.
      patience: training stops after as many epochs without a better validation score.
      label_alphas: decay factors that label propagation chooses from by validation.
      label_rs: convolution coefficients that it chooses from.
      features: 0: all are used. A part of the committed hashes.
      base_seed: seed s of a run is folded into this one.
    """

    dataset: str
    data: str
    task: Task
    alpha: float
    r: float
    tol: float
    head: Literal["mlp", "logistic"]
    layers: int
    hidden: int
    dropout: float
    learning_rate: float
    weight_decay: float
    batch_size: int
    epochs: int
    patience: int = 20
    label_alphas: tuple[float, ...] = (0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9)
    label_rs: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    features: int = 0
    base_seed: int = 2023


@dataclasses.dataclass(frozen=True)
class Hyperparameters:
    """One data set's published hyper-parameters: node task, then link task."""

    batch_size: int
    layers: int
    hidden: int
    alpha: float
    r: float
    dropout: float
    weight_decay: float
    k: int
    link_r: float
    link_k: int = 1
    link_alpha: float = 0.1


HYPERPARAMETERS = {
    "cora": Hyperparameters(64, 2, 128, 0.1, 0.1, 0.7, 5e-4, 20, link_r=0.5),
    "citeseer": Hyperparameters(128, 2, 128, 0.05, 0.5, 0.7, 5e-4, 5, link_r=0.2),
    "pubmed": Hyperparameters(64, 3, 128, 0.05, 0.1, 0.5, 0.0, 1, link_r=0.3),
    "lastfm": Hyperparameters(16, 2, 64, 0.1, 0.1, 0.5, 5e-4, 5, link_r=0.1),
    "facebook_pages": Hyperparameters(256, 3, 256, 0.05, 0.1, 0.1, 5e-4, 50, link_r=0.1),
    "crocodile": Hyperparameters(16, 2, 64, 0.05, 0.1, 0.1, 5e-4, 20, link_r=0.5, link_k=3),
}
"""LDP-GE's six data sets; ``facebook_pages`` is its Facebook, ``crocodile`` its Wikipedia."""

DEFAULT = Hyperparameters(256, 2, 64, 0.1, 0.1, 0.5, 5e-4, 20, link_r=0.5)
"""For any other graph (the demo, a user's own)."""

LINK_BATCH = 1024
TOL = 1e-4
LEARNING_RATE = 0.01
EPOCHS = 100


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is run and committed for one task and data set: chosen to fit a two-core machine."""

    epsilons: tuple[float, ...]
    seeds: int
    epochs: int = EPOCHS
    tol: float = TOL
    ks: tuple[int, ...] = ()
    k_epsilons: tuple[float, ...] = ()
    k_seeds: int = 3


COMMITTED: dict[tuple[str, str], Plan] = {
    ("node", "cora"): Plan(EPSILONS, 10, ks=KS, k_epsilons=(1.0, 2.0, 3.0)),
    ("node", "citeseer"): Plan(EPSILONS, 10),
    ("node", "pubmed"): Plan((0.01, 1.0, 5.0), 3),
    ("node", "facebook_pages"): Plan((0.01, 1.0, 5.0), 3, epochs=30),
    ("node", "crocodile"): Plan((0.01, 1.0, 5.0), 3, epochs=15, tol=1e-3),
    ("link", "cora"): Plan((1.0, 2.0, 3.0, 5.0), 5, ks=KS, k_epsilons=(1.0, 2.0, 3.0), k_seeds=5),
    ("link", "citeseer"): Plan((1.0, 2.0, 3.0, 5.0), 5),
    ("link", "pubmed"): Plan((1.0,), 3, epochs=50, ks=(5, 50), k_epsilons=(1.0,)),
    ("link", "facebook_pages"): Plan((1.0,), 2, epochs=3, tol=1e-3),
    ("link", "crocodile"): Plan((1.0,), 2, epochs=2, tol=1e-3),
}
