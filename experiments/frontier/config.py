"""The command line's words, and the runs whose rows are committed."""

import dataclasses
from typing import Literal

from experiments._common import check_labels, check_methods, check_words, is_own
from experiments._runner import Grid, UsageError
from experiments.frontier.features_methods import METHODS as FEATURES_METHODS
from experiments.frontier.joint_methods import METHODS as JOINT_METHODS
from experiments.frontier.methods import METHODS, Unit

Part = Literal["edges", "features", "joint", "beyond", "poisoning"]
POISONED = ("counts", "panel", "embedding", "degree", "lists")
"""The reports that liars send in part poisoning."""
KNOWN = {
    "edges": METHODS,
    "features": FEATURES_METHODS,
    "joint": JOINT_METHODS,
    "beyond": (),
    "poisoning": POISONED,
}
"""The rows of each part that can be chosen from."""
EPSILONS = (0.5, 1.0, 2.0, 4.0)
MOST_EPSILON = 20.0


@dataclasses.dataclass(frozen=True)
class Config(Grid):
    """Private data that helps.

    Counts of friends by a broadcast class, and classes that devices predict.

    Each part compares our messages with published ones, placebos, what is public alone, and the
    truth. Lists are private in edges and beyond, records in features, both in joint.
    """

    parts: tuple[Part, ...] = ("edges",)
    """edges: private friendships, public features; features: private features, public friendships
    and a panel; joint: both private, beside a panel; beyond: links, and classes of graphs, from
    counts; poisoning: users who lie"""
    datasets: tuple[str, ...] = ("debian",)
    """graphs with features and classes: names, or paths of .npz files"""
    mechanisms: tuple[str, ...] = ()
    """which rows, by default all of the part; what gains are over is always among them; but in
    poisoning also your own mechanism or server as module:Name, in beyond beside all rows; of
    poisoning the reports that liars send"""
    epsilons: tuple[float, ...] = EPSILONS
    """of edges, per bit of a list or per relationship; of features, per record; of joint, a user's
    total
    """
    seeds: int = 10
    """how many, from 0: each has labels, noise and training of its own"""
    labels: tuple[str, ...] = ("half", "20")
    """of edges and beyond: whose labels are public: half of each class, or so many users of each
    class
    """
    panels: tuple[str, ...] = ("0.1",)
    """of features and joint: whose records and labels are public: a share of each class, or so many
    of each
    """
    units: tuple[Unit, ...] = ("list", "relationship")
    """of edges: whole lists, or one owner of each pair (piloted counts alone)"""

    def check(self) -> None:
        check_words(self, positive=("epsilons", "seeds"))
        if {"features", "joint"} & {*self.parts} and max(self.epsilons) > MOST_EPSILON:
            raise UsageError(
                f"--epsilons must be at most {MOST_EPSILON:g} where records are private"
            )
        check_labels(self.labels)
        for setting in self.panels:
            if not _is_panel(setting):
                raise UsageError(
                    "--panels must be shares of each class, as 0.05, or numbers of users of "
                    f"each, got {setting}"
                )
        own = [word for word in self.mechanisms if is_own(word)]
        if own and "poisoning" in self.parts:
            raise UsageError(
                f"--mechanisms of poisoning must be reports that liars send: "
                f"{', '.join(KNOWN['poisoning'])}; got {', '.join(own)}"
            )
        for part in self.parts:
            check_methods("--mechanisms", self.mechanisms, KNOWN[part], self.out)


def _is_panel(setting: str) -> bool:
    """A number of users, or a share: only the latter has a point."""
    if setting.isdecimal():
        return int(setting) > 0
    try:
        return "." in setting and 0 < float(setting) < 1
    except ValueError:
        return False
