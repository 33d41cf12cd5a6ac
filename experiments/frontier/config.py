"""The command line's words, and the runs whose rows are committed."""

import dataclasses
from pathlib import Path
from typing import Literal

from experiments._runner import DEFAULT_OUT, UsageError, check_positive
from experiments.frontier.features_methods import METHODS as FEATURES_METHODS
from experiments.frontier.joint_methods import METHODS as JOINT_METHODS
from experiments.frontier.methods import METHODS, Unit

EPSILONS = (0.5, 1.0, 2.0, 4.0)
MOST_EPSILON = 20.0
PILOTED = ("piloted", "piloted, placebo")
LISTS = (
    "plain counts", "noisy degree", "lpgnet, 1 round", "lpgnet, 2 rounds", "lpgnet by label, 1 round",
    "lpgnet by label, 2 rounds", "dprr, gcn", "dprr, ppr", "rr, ppr", "blink hard, gcn", "blink hybrid, gcn",
    "blink hybrid, ppr", "features, perceptron", "non-private, gcn", "non-private, ppr",
)  # fmt: skip
"""What cora is asked at epsilon 1: all but the two that take longest."""
SMALL = (
    "plain counts", "noisy degree", "lpgnet, 1 round", "lpgnet, 2 rounds", "lpgnet by label, 1 round",
    "lpgnet by label, 2 rounds", "dprr, ppr", "rr, ppr", "blink hybrid, ppr",
)  # fmt: skip
"""What cora and debian are asked at all budgets: counts, and lists without networks on them."""
NOISY_GCN = ("dprr, gcn", "rr, gcn", "blink hybrid, gcn")
"""Networks on noisy lists, where the budget is large enough that they might be best."""
WIDE = (
    "local prediction", "local prediction, placebo", "local prediction, no guard",
    "local prediction, placebo, no guard",
    "local prediction, plain alphabet", "local prediction, scores", "local prediction, record", "advice",
    "structure, stack", "structure, field", "structure, PageRank 0.1", "structure, records of the panel",
    "structure, spectral 32", "non-private, class",
)  # fmt: skip
"""What a graph with thousands of features is asked: all but networks on records, which take minutes."""


@dataclasses.dataclass(frozen=True)
class Config:
    """Private data that helps: counts of friends by a broadcast class, and classes that devices predict.

    Part edges: features and some labels are public, every user's neighbour list is private. Rows: piloted counts
    (`ldp_jax.predict_from_counts`), per list and per relationship; the same with shuffled lists (placebo), with the
    guard and without; features alone, plain counts, noisy degrees, LPGNet, Blink, DPRR's and randomised response's
    graphs, and the true graph.

    Part features: the graph is public, and the records and labels of a panel; everybody else's record is private.
    Rows: local prediction (`ldp_jax.predict_from_reports`), with the guard and without, with shuffled records
    (placebo), with plain alphabets, with other messages; PrivGE; everything that structure and the panel say alone;
    and the true records.

    Part joint: only the panel is public. Rows: records and lists within one total (`ldp_jax.predict_jointly`), the
    panel's labels too; records alone, lists alone; nothing asked; a public graph, with reports and without.

    Part beyond: every user's list is private, as in part edges. Rows: links that were taken out of all lists, found
    by counts of neighbours or by released degrees; of a set of graphs (reddit_binary), their classes by either.
    """

    part: Literal["edges", "features", "joint", "beyond"] = "edges"
    """edges: private friendships, public features; features: private features, public friendships and a panel;
    joint: both private, beside a panel; beyond: links, and classes of graphs, from counts"""
    datasets: tuple[str, ...] = ("debian",)
    """graphs with features and classes: names, or paths of .npz files"""
    labels: tuple[str, ...] = ("half", "20")
    """of edges and beyond: whose labels are public: half of each class, or so many users of each class"""
    panel: tuple[str, ...] = ("0.1",)
    """of features and joint: whose records and labels are public: a share of each class, or so many of each"""
    epsilons: tuple[float, ...] = EPSILONS
    """per bit of a list, of rows of the unit relationship per relationship; of features, per record; of joint, the
    total of a user"""
    draws: int = 10
    """how many, from 0: each has labels, noise and training of its own"""
    units: tuple[Unit, ...] = ("list", "relationship")
    """of edges: list: users report on their whole lists; relationship: each pair has one owner (piloted counts
    alone)"""
    methods: tuple[str, ...] = ()
    """which rows, by default all of the part; what gains are over is always among them"""
    out: Path = DEFAULT_OUT
    """where results go, and are looked for"""

    def check(self) -> None:
        """Refuse what cannot be run."""
        check_positive("--epsilons", *self.epsilons)
        check_positive("--draws", self.draws)
        if self.part in ("features", "joint") and max(self.epsilons, default=0.0) > MOST_EPSILON:
            raise UsageError(f"--epsilons must be at most {MOST_EPSILON:g} where records are private")
        for setting in self.labels:
            if setting != "half" and not (setting.isdecimal() and int(setting) > 0):
                raise UsageError(f"--labels must be half, or a number of users of each class, got {setting}")
        for setting in self.panel:
            if not _is_panel(setting):
                raise UsageError(
                    f"--panel must be a share of each class, as 0.05, or a number of users of each, got {setting}"
                )
        known = {"edges": METHODS, "features": FEATURES_METHODS, "joint": JOINT_METHODS, "beyond": ()}[self.part]
        unknown = [name for name in self.methods if name not in known]
        if self.methods and self.part == "beyond":
            raise UsageError("--methods: part beyond has all of its rows always")
        if unknown:
            raise UsageError(f"--methods: no {', '.join(unknown)}; there are {'; '.join(known)}")
        for option, words in (
            ("--datasets", self.datasets), ("--labels", self.labels), ("--panel", self.panel),
            ("--epsilons", self.epsilons), ("--units", self.units),
        ):  # fmt: skip
            if not words:
                raise UsageError(f"{option} needs at least one word")


def _is_panel(setting: str) -> bool:
    """A number of users, or a share: only the latter has a point."""
    if setting.isdecimal():
        return int(setting) > 0
    try:
        return "." in setting and 0 < float(setting) < 1
    except ValueError:
        return False


SIZES = (
    "local prediction", "structure, stack", "structure, field", "structure, PageRank 0.1",
    "structure, records of the panel", "structure, spectral 32", "local prediction, placebo",
)  # fmt: skip
"""What larger panels are asked."""
COUNTS = (*PILOTED, "plain counts")
TRUTH_TOO = (*COUNTS, "non-private, ppr")
"""What further graphs are asked: what piloted counts are held against, and the truth."""
GRAPH = (*TRUTH_TOO, "noisy degree")
"""The same, and degrees."""
PUBLIC = ("features, perceptron", "non-private, gcn", "non-private, ppr")
"""What features say by a network, and the truth."""
CEILING = ("non-private, counts",)
"""Counts without noise."""
NETWORK = ("non-private, gcn",)
"""The truth by a network, where that takes seconds a draw."""
PUBLISHED = (
    *COUNTS, "piloted, placebo, no guard", "noisy degree", "features, perceptron", "lpgnet, 1 round",
    "lpgnet, 2 rounds", "lpgnet by label, 1 round", "lpgnet by label, 2 rounds", "dprr, gcn", "dprr, ppr",
    "blink hybrid, gcn", "blink hybrid, ppr", "non-private, gcn", "non-private, ppr",
)  # fmt: skip
"""What further graphs are asked at epsilon 1: all but variants that are never best."""
LARGE = tuple(name for name in PUBLISHED if not name.startswith("blink"))
"""Where the reported pairs of randomised response take more memory than Blink has here."""
LISTS_ALONE = tuple(name for name in LARGE if not name.endswith("gcn"))
"""The same without networks on graphs."""
DENSE_TOO = (*PUBLISHED, "rr, ppr")
"""Where a matrix of all pairs is small enough."""
LISTS_OF_OTHERS = tuple(
    name for name in LARGE if name not in (*COUNTS, "piloted, placebo, no guard", "non-private, ppr")
)
"""Published methods and a network on the true graph."""
BLINK = ("blink hybrid, gcn", "blink hybrid, ppr")
SPARSE = tuple(name for name in SMALL if not name.startswith(("blink", "rr")))
"""What graphs are asked at all budgets where a matrix of all pairs is not."""


FURTHER = (
    *(name for name in FEATURES_METHODS if name.startswith(("structure", "non-private")) and "privge" not in name),
    *(name for name in WIDE if name.startswith("local")), "advice",
)  # fmt: skip
"""What further graphs are asked."""
FURTHER_LARGE = tuple(
    name for name in FURTHER if name not in ("non-private, record alone", "non-private, ppr", "non-private, gcn")
)
"""The same where networks and powers of the true records take minutes a draw."""


def _friendships() -> tuple[Config, ...]:
    replace = dataclasses.replace
    lists, pairs = Config(units=("list",)), Config(units=("relationship",), methods=("piloted",))
    half = replace(lists, labels=("half",), epsilons=(1.0,))
    cora, debian = (replace(lists, datasets=(name,)) for name in ("cora", "debian"))
    small = ("twitch_ptbr", "twitch_ru", "twitch_fr", "citeseer")
    wide = ("facebook100_oklahoma97", "blogcatalog", "pubmed", "facebook_pages", "twitch_de")
    return (
        Config(datasets=("facebook100_caltech36",)),
        replace(cora, epsilons=(1.0,), methods=(*PILOTED, *LISTS)),
        replace(cora, epsilons=(0.5, 2.0, 4.0), methods=(*PILOTED, *SMALL)),
        replace(cora, epsilons=(4.0,), methods=NOISY_GCN),
        replace(pairs, datasets=("cora",)),
        replace(debian, labels=("half",), methods=(*PILOTED, *SMALL, *PUBLIC)),
        replace(debian, labels=("half",), epsilons=(4.0,), methods=NOISY_GCN),
        replace(pairs, datasets=("debian",), labels=("half",)),
        replace(lists, datasets=wide, labels=("20",), methods=COUNTS),
        replace(lists, datasets=wide[:3], labels=("20",), epsilons=(1.0,), methods=GRAPH),
        replace(lists, datasets=("blogcatalog",), labels=("20",), methods=SMALL),
        replace(lists, datasets=("facebook100_oklahoma97", "pubmed"), labels=("20",), methods=SPARSE),
        replace(lists, datasets=("pubmed",), labels=("20",), methods=NETWORK),
        replace(
            lists,
            datasets=("amazon_photo", "amazon_computers"),
            labels=("20",),
            epsilons=(1.0,),
            methods=GRAPH,
        ),
        Config(datasets=small, epsilons=(1.0,), methods=DENSE_TOO),
        replace(lists, datasets=small, methods=COUNTS),
        replace(lists, datasets=("debian", "squirrel"), labels=("20",), methods=COUNTS),
        Config(
            datasets=("debian", "squirrel", "blogcatalog"),
            labels=("20",),
            epsilons=(1.0,),
            methods=DENSE_TOO,
        ),
        Config(
            datasets=("pubmed", "facebook_pages", "facebook100_oklahoma97", "twitch_de"),
            labels=("20",),
            epsilons=(1.0,),
            methods=LARGE,
        ),
        replace(lists, datasets=(*wide, "squirrel"), labels=("half",), methods=TRUTH_TOO),
        replace(lists, datasets=small, epsilons=(0.5, 2.0, 4.0), methods=SMALL),
        replace(lists, datasets=("debian", "squirrel"), labels=("20",), epsilons=(0.5, 2.0, 4.0), methods=SMALL),
        replace(
            lists,
            datasets=("twitch_de", "facebook_pages"),
            labels=("20",),
            epsilons=(0.5, 2.0, 4.0),
            methods=SPARSE,
        ),
        replace(lists, datasets=("amazon_photo", "amazon_computers", "crocodile"), methods=TRUTH_TOO),
        replace(
            lists, datasets=("amazon_photo", "crocodile"), labels=("20",), epsilons=(1.0,), methods=LISTS_ALONE
        ),
        replace(
            lists, datasets=("facebook100_caltech36", "cora", "debian", *small, *wide, "squirrel"), methods=CEILING
        ),
        replace(lists, datasets=("amazon_photo", "crocodile", "amazon_computers"), methods=CEILING),
        replace(half, datasets=("debian", "squirrel"), methods=(*LISTS_OF_OTHERS, "rr, ppr", *BLINK)),
        replace(half, datasets=("twitch_de", "crocodile"), methods=LISTS_OF_OTHERS),
        replace(
            half,
            datasets=("facebook_pages", "blogcatalog", "pubmed", "amazon_photo", "facebook100_oklahoma97"),
            methods=LISTS_OF_OTHERS,
            draws=5,
        ),
    )


def _features() -> tuple[Config, ...]:
    sizes = Config(part="features", epsilons=(1.0, 2.0, 4.0), methods=SIZES)
    return (
        Config(part="features", datasets=("citeseer", "cora"), panel=("20",)),
        Config(part="features", datasets=("debian",), panel=("0.1",)),
        Config(part="features", datasets=("blogcatalog",), panel=("0.05",), methods=(*WIDE, "structure, gcn")),
        Config(part="features", datasets=("cora",), panel=("5",)),
        Config(part="features", datasets=("debian",), panel=("0.05",)),
        Config(part="features", datasets=("facebook100_caltech36",), panel=("0.1",)),
        Config(part="features", datasets=("amazon_photo",), panel=("0.02",)),
        Config(part="features", datasets=("pubmed",), panel=("0.002",)),
        dataclasses.replace(sizes, datasets=("citeseer",), panel=("5", "10", "40", "80", "160")),
        dataclasses.replace(sizes, datasets=("pubmed",), panel=("10", "100", "600")),
        Config(
            part="features", datasets=("twitch_ptbr", "twitch_ru", "twitch_fr"), panel=("0.1",), methods=FURTHER
        ),
        Config(part="features", datasets=("squirrel", "twitch_de"), panel=("0.05",), methods=FURTHER),
        Config(part="features", datasets=("facebook_pages",), panel=("0.01",), methods=FURTHER_LARGE),
        Config(part="features", datasets=("crocodile",), panel=("0.05",), methods=FURTHER_LARGE),
        Config(part="features", datasets=("facebook100_oklahoma97",), panel=("0.02",), methods=FURTHER_LARGE),
        Config(part="features", datasets=("amazon_computers",), panel=("0.02",), methods=FURTHER_LARGE),
    )


def _joint() -> tuple[Config, ...]:
    ten = Config(
        part="joint",
        datasets=("facebook100_caltech36", "cora", "debian", "twitch_de"),
        epsilons=(1.0, 2.0, 4.0, 8.0),
    )
    return (ten, dataclasses.replace(ten, datasets=("pubmed",), draws=5))


def _beyond() -> tuple[Config, ...]:
    graphs = ("debian", "cora", "citeseer", "facebook100_caltech36", "blogcatalog", "reddit_binary")
    return (Config(part="beyond", datasets=graphs, labels=("half",)),)


COMMITTED = (*_friendships(), *_features(), *_joint(), *_beyond())
"""The runs whose rows are committed."""
