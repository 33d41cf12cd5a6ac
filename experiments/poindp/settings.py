"""The settings of PoinDP's experiments, the command line's words, and the paper's numbers."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal, get_args

from experiments import _common, _runner
from ldp_jax.attacks.shadows import MembershipProtocol

PROJECTED = "projected"
NON_PRIVATE = ("gcn", "gat", "hgcn", "hyperimba", "poindp", PROJECTED, "mlp")
"""Networks on the records themselves; ``poindp`` without noise, ``mlp`` without edges, and
``projected``: what the sound rows do, of records that are projected and not noisy.
"""

RECORDS = "non-private"
"""Somebody's own model on the records themselves."""

PUBLISHED = "published:"
"""Before the name of a private network of the paper, trained and tested as the authors' code does
it.
"""

PRINTED = "printed:"
"""Before ``poindp``: its noise by eq. 12, which the authors' code does not have."""

AS_PUBLISHED = (
    "published:poindp",
    "printed:poindp",
    "published:vanpd",
    "published:lap",
    "published:rddp",
    "published:atdp",
)
"""Table 1's private rows, and PoinDP with the printed noise."""

WITHOUT = (" without inter", " without intra", " without allocation")
"""After PoinDP's name: the ablations of Table 2."""

ABLATED = tuple(f"{form}poindp{less}" for form in (PUBLISHED, PRINTED) for less in ("", *WITHOUT))

STRUCTURE, FEATURES = "structure-only:", "features-only:"
"""Before a sound mechanism: one public record for all; and the reports without any edge."""

SOUND = ("hyperbolic", "radial", "levels", "laplace")
"""Each user reports their record once: by a Gaussian in the tangent space, by radius and angle, by
the Gaussian with less budget at lower levels of the public hierarchy, by Laplace noise on all
features.
"""

PUBLIC = f"{STRUCTURE}stack"
"""What the graph and the training labels say of everybody, no record and no network: rows are held
against it.
"""

SHARES = {"radial": 0.5, "radial without inter": 0.0, "radial without intra": 1.0}
"""What the radius has of the budget of each radial row."""

LEVELS = (1.0, 0.5, 0.25)
"""What the inner, the middle and the outer third of the hierarchy have of epsilon, in
``levels``.
"""

LENGTHS = {"amazon_computers": 5.0, "amazon_photo": 5.0}
"""To which records are scaled; 1 elsewhere. The authors take Amazon's as they are, some 15 long,
and others so that their values sum to 1; in 200 epochs of Adam short records are not learned from.
"""

EPSILONS = (0.01, 0.05, 0.1, 0.5, 1.0)
"""Of Figure 3."""


LABELS, COLOURS = _common.row_names("poindp")
label = LABELS.of


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(_common.Settings):
    """The settings of one data set.

    Attributes:
      embedding_epochs: passes of the Poincaré embedding after burn-in.
      embedding_burn_in: passes before.
      steps: of feature propagation (LPGNN's KProp) of reports; each Gaussian row takes the best in
        validation.
      length: to which records are scaled for networks that see them.
      dim: coordinates of the reported record: a public random projection of the features.
      clip: of its length; every record is scaled to length 1 first.
      delta: of the sound mechanisms.
      published_delta: of the printed noise, the release's.
      heads: of GAT, each half as wide.
    """

    embedding_epochs: int
    embedding_burn_in: int
    steps: tuple[int, ...]
    length: float
    dim: int = 16
    clip: float = 1.0
    delta: float = 1e-5
    published_delta: float = 1e-4
    hidden: int = 16
    heads: int = 8
    dropout: float = 0.6
    learning_rate: float = 0.005
    weight_decay: float = 5e-4
    base_seed: int = 2024


Part = Literal["table1", "table2", "figure3", "noise", "membership", "gaps"]
PARTS: tuple[Part, ...] = get_args(Part)
Split = Literal["random", "public"]
Attack = Literal[
    "trained", "trained, with hierarchy", "LiRA online", "LiRA offline", "RMIA offline"
]
ATTACKS: tuple[Attack, ...] = get_args(Attack)
"""On membership; the first is the paper's."""
BUDGETS: dict[Part, tuple[float, ...]] = {
    "table2": (0.01,),
    "figure3": EPSILONS,
    "membership": (0.2,),
}
"""The paper's, where they are not 1."""


@dataclasses.dataclass(frozen=True)
class Config(_runner.Grid):
    """Hierarchy-aware noise for graph networks, published and sound, and attacks (PoinDP, 2024).

    Private rows stand as published, of which nothing is proved, and sound.

    Parts: table1, table2 (ablations), figure3 (training nodes by hierarchy) and noise (Figures 4 to
    6) of the first data set, membership (Table 3), gaps (one change at a time).
    """

    parts: tuple[Part, ...] = PARTS[:-1]
    """gaps only where asked for"""
    datasets: tuple[str, ...] = ()
    """names, or paths of .npz files; by default cora, citeseer and amazon_photo, of membership
    those of Table 3
    """
    mechanisms: tuple[str, ...] = ()
    """rows whose name has one of these words, or is the word after "="; of table1 also your own as
    module:Name"""
    models: tuple[str, ...] = ()
    """of table1: your own beside PoinDP's network, of NodeInputs, as module:Name"""
    epsilons: tuple[float, ...] = ()
    """by default the paper's of each part: 1, in table2 0.01, in membership 0.2; noise and
    membership take one
    """
    seeds: int = 5
    """how many: each a split, noise and training"""
    splits: tuple[Split, ...] = ("random", "public")
    """of table1: random tenths, and Planetoid's where the file has it"""
    targets: int = 8
    """of membership: trained for each row, each the target in turn"""
    protocols: tuple[MembershipProtocol, ...] = ("TSTF", "TSTS", "0-hop")
    """of membership"""
    member_shares: tuple[float, ...] = (0.5,)
    """of membership: of the nodes, trained on"""
    attacks: tuple[Attack, ...] = ATTACKS
    """of membership"""
    preset: Literal["committed", "smoke"] = "committed"
    """committed: at most 200 epochs; smoke: 2"""

    def check(self) -> None:
        _common.check_words(self, positive=("epsilons", "seeds"), shares=("member_shares",))
        own = [word for word in self.mechanisms if _common.is_own(word)]
        _common.check_methods("--mechanisms", own, (), self.out)
        _common.check_models(self.models, _common.few_nodes(), self.out)
        if self.targets < 3:
            raise _runner.UsageError(f"--targets must be at least 3, got {self.targets}")

    smoke = property(lambda self: self.preset == "smoke")

    def asked(self, part: Part) -> tuple[tuple[str, ...], tuple[float, ...]]:
        """Data sets and budgets of a part: those of the command line's words, or the part's own."""
        known = (
            ("pubmed", "amazon_photo")
            if part == "membership"
            else ("cora", "citeseer", "amazon_photo")
        )
        return self.datasets or known, self.epsilons or BUDGETS.get(part, (1.0,))

    def asks_for(self, mechanism: str) -> bool:
        meant = (
            mechanism == word[1:] if word.startswith("=") else word in mechanism
            for word in self.mechanisms
        )
        return not self.mechanisms or any(meant)


def settings(config: Config, dataset: str, data: str) -> Settings:
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


_KNOWN = _common.told("published.toml", "poindp")

TABLE_1: dict[tuple[str, str], tuple[float, float]] = {
    (dataset, name): tuple(values[2 * place : 2 * place + 2])
    for name, values in _KNOWN["table_1"].items()
    for place, dataset in enumerate(_KNOWN["orders"])
}
"""Weighted F1 and macro-F1, by data set and row, at epsilon 1."""
TABLE_2: dict[tuple[str, str], float] = {
    (dataset, name): value
    for name, values in _KNOWN["table_2"].items()
    for dataset, value in zip(_KNOWN["orders"], values, strict=True)
}
"""Weighted F1 at epsilon 0.01."""
TABLE_3 = {tuple(name.split()): tuple(values) for name, values in _KNOWN["table_3"].items()}
"""AUC and precision of the attack at epsilon 0.2, by data set and row."""
HYPERBOLICITY: dict[str, float] = _KNOWN["hyperbolicity"]


def printed(row: Mapping[Any, Any]) -> float | None:
    place = (row["dataset"], row["mechanism"])
    epsilon = row["epsilon"]
    metric = row["metric"]
    if row["task"] == "membership":
        scores = dict(zip(("AUC", "precision"), TABLE_3.get(place, ()), strict=False))
        return scores.get(metric) if row["attack"] == "trained" else None
    if row["task"] != "node" or row["split"] != "random" or row.get("variant"):
        return None
    if epsilon == 0.01:
        return TABLE_2.get(place) if metric == "weighted-F1" else None
    scores = dict(zip(("weighted-F1", "macro-F1"), TABLE_1.get(place, ()), strict=False))
    return scores.get(metric) if epsilon in (1.0, math.inf) else None
