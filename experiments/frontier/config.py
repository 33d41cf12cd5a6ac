"""The command line's words, and the runs whose rows are committed."""

import dataclasses
from pathlib import Path
from typing import Literal

from experiments._common import check_words
from experiments._runner import DEFAULT_OUT, UsageError
from experiments.frontier.features_methods import METHODS as FEATURES_METHODS
from experiments.frontier.joint_methods import METHODS as JOINT_METHODS
from experiments.frontier.methods import METHODS, Unit

Part = Literal["edges", "features", "joint", "beyond", "poisoning"]
POISONED = ("counts", "panel", "embedding", "degree", "lists")
"""The reports that liars send in part poisoning."""
KNOWN = {"edges": METHODS, "features": FEATURES_METHODS, "joint": JOINT_METHODS, "poisoning": POISONED}
"""The rows of each part that can be chosen from."""
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

    Each part compares our messages with published ones, placebos, what is public alone, and the truth. Lists are
    private in edges and beyond, records in features, both in joint.
    """

    parts: tuple[Part, ...] = ("edges",)
    """edges: private friendships, public features; features: private features, public friendships and a panel;
    joint: both private, beside a panel; beyond: links, and classes of graphs, from counts;
    poisoning: users who lie"""
    datasets: tuple[str, ...] = ("debian",)
    """graphs with features and classes: names, or paths of .npz files"""
    mechanisms: tuple[str, ...] = ()
    """which rows, by default all of the part; what gains are over is always among them;
    of poisoning the reports that liars send"""
    epsilons: tuple[float, ...] = EPSILONS
    """of edges, per bit of a list or per relationship; of features, per record; of joint, a user's total"""
    seeds: int = 10
    """how many, from 0: each has labels, noise and training of its own"""
    labels: tuple[str, ...] = ("half", "20")
    """of edges and beyond: whose labels are public: half of each class, or so many users of each class"""
    panels: tuple[str, ...] = ("0.1",)
    """of features and joint: whose records and labels are public: a share of each class, or so many of each"""
    units: tuple[Unit, ...] = ("list", "relationship")
    """of edges: whole lists, or one owner of each pair (piloted counts alone)"""
    out: Path = DEFAULT_OUT
    """where results go, and are looked for"""

    def check(self) -> None:
        """Refuse what cannot be run."""
        filled = ("parts", "datasets", "labels", "panels", "epsilons", "units")
        check_words(self, positive=("epsilons", "seeds"), filled=filled)
        if {"features", "joint"} & {*self.parts} and max(self.epsilons) > MOST_EPSILON:
            raise UsageError(f"--epsilons must be at most {MOST_EPSILON:g} where records are private")
        for setting in self.labels:
            if setting != "half" and not (setting.isdecimal() and int(setting) > 0):
                raise UsageError(f"--labels must be half, or a number of users of each class, got {setting}")
        for setting in self.panels:
            if not _is_panel(setting):
                raise UsageError(
                    f"--panels must be shares of each class, as 0.05, or numbers of users of each, got {setting}"
                )
        if self.mechanisms and "beyond" in self.parts:
            raise UsageError("--mechanisms: part beyond has all of its rows always")
        for part in self.parts:
            check_words(self, known={"mechanisms": KNOWN.get(part, self.mechanisms)})


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
    lists, pairs = Config(units=("list",)), Config(units=("relationship",), mechanisms=("piloted",))
    half = replace(lists, labels=("half",), epsilons=(1.0,))
    cora, debian = (replace(lists, datasets=(name,)) for name in ("cora", "debian"))
    small = ("twitch_ptbr", "twitch_ru", "twitch_fr", "citeseer")
    wide = ("facebook100_oklahoma97", "blogcatalog", "pubmed", "facebook_pages", "twitch_de")
    return (
        Config(datasets=("facebook100_caltech36",)),
        replace(cora, epsilons=(1.0,), mechanisms=(*PILOTED, *LISTS)),
        replace(cora, epsilons=(0.5, 2.0, 4.0), mechanisms=(*PILOTED, *SMALL)),
        replace(cora, epsilons=(4.0,), mechanisms=NOISY_GCN),
        replace(pairs, datasets=("cora",)),
        replace(debian, labels=("half",), mechanisms=(*PILOTED, *SMALL, *PUBLIC)),
        replace(debian, labels=("half",), epsilons=(4.0,), mechanisms=NOISY_GCN),
        replace(pairs, datasets=("debian",), labels=("half",)),
        replace(lists, datasets=wide, labels=("20",), mechanisms=COUNTS),
        replace(lists, datasets=wide[:3], labels=("20",), epsilons=(1.0,), mechanisms=GRAPH),
        replace(lists, datasets=("blogcatalog",), labels=("20",), mechanisms=SMALL),
        replace(lists, datasets=("facebook100_oklahoma97", "pubmed"), labels=("20",), mechanisms=SPARSE),
        replace(lists, datasets=("pubmed",), labels=("20",), mechanisms=NETWORK),
        replace(
            lists,
            datasets=("amazon_photo", "amazon_computers"),
            labels=("20",),
            epsilons=(1.0,),
            mechanisms=GRAPH,
        ),
        Config(datasets=small, epsilons=(1.0,), mechanisms=DENSE_TOO),
        replace(lists, datasets=small, mechanisms=COUNTS),
        replace(lists, datasets=("debian", "squirrel"), labels=("20",), mechanisms=COUNTS),
        Config(
            datasets=("debian", "squirrel", "blogcatalog"),
            labels=("20",),
            epsilons=(1.0,),
            mechanisms=DENSE_TOO,
        ),
        Config(
            datasets=("pubmed", "facebook_pages", "facebook100_oklahoma97", "twitch_de"),
            labels=("20",),
            epsilons=(1.0,),
            mechanisms=LARGE,
        ),
        replace(lists, datasets=(*wide, "squirrel"), labels=("half",), mechanisms=TRUTH_TOO),
        replace(lists, datasets=small, epsilons=(0.5, 2.0, 4.0), mechanisms=SMALL),
        replace(lists, datasets=("debian", "squirrel"), labels=("20",), epsilons=(0.5, 2.0, 4.0), mechanisms=SMALL),
        replace(
            lists,
            datasets=("twitch_de", "facebook_pages"),
            labels=("20",),
            epsilons=(0.5, 2.0, 4.0),
            mechanisms=SPARSE,
        ),
        replace(lists, datasets=("amazon_photo", "amazon_computers", "crocodile"), mechanisms=TRUTH_TOO),
        replace(
            lists, datasets=("amazon_photo", "crocodile"), labels=("20",), epsilons=(1.0,), mechanisms=LISTS_ALONE
        ),
        replace(
            lists,
            datasets=("facebook100_caltech36", "cora", "debian", *small, *wide, "squirrel"),
            mechanisms=CEILING,
        ),
        replace(lists, datasets=("amazon_photo", "crocodile", "amazon_computers"), mechanisms=CEILING),
        replace(half, datasets=("debian", "squirrel"), mechanisms=(*LISTS_OF_OTHERS, "rr, ppr", *BLINK)),
        replace(half, datasets=("twitch_de", "crocodile"), mechanisms=LISTS_OF_OTHERS),
        replace(
            half,
            datasets=(
                "facebook_pages",
                "blogcatalog",
                "pubmed",
                "amazon_photo",
                "facebook100_oklahoma97",
                "amazon_computers",
            ),
            mechanisms=LISTS_OF_OTHERS,
            seeds=5,
        ),
        replace(half, datasets=("amazon_computers",), labels=("20",), mechanisms=LISTS_OF_OTHERS, seeds=5),
        replace(half, datasets=("crocodile",), labels=("20",), mechanisms=("dprr, gcn", *NETWORK), seeds=5),
        replace(half, datasets=("blogcatalog",), mechanisms=("rr, ppr", *BLINK), seeds=5),
    )


def _features() -> tuple[Config, ...]:
    asked: tuple[tuple[tuple[str, ...], str, tuple[str, ...]], ...] = (
        (("citeseer", "cora"), "20", ()),
        (("debian",), "0.1", ()),
        (("blogcatalog",), "0.05", (*WIDE, "structure, gcn")),
        (("cora",), "5", ()),
        (("debian",), "0.05", ()),
        (("facebook100_caltech36",), "0.1", ()),
        (("amazon_photo",), "0.02", ()),
        (("pubmed",), "0.002", ()),
        (("twitch_ptbr", "twitch_ru", "twitch_fr"), "0.1", FURTHER),
        (("squirrel", "twitch_de"), "0.05", FURTHER),
        (("facebook_pages",), "0.01", FURTHER_LARGE),
        (("crocodile",), "0.05", FURTHER_LARGE),
        (("facebook100_oklahoma97", "amazon_computers"), "0.02", FURTHER_LARGE),
    )
    sizes = Config(parts=("features",), epsilons=(1.0, 2.0, 4.0), mechanisms=SIZES)
    return (
        *(Config(parts=("features",), datasets=d, panels=(panel,), mechanisms=rows) for d, panel, rows in asked),
        dataclasses.replace(sizes, datasets=("citeseer",), panels=("5", "10", "40", "80", "160")),
        dataclasses.replace(sizes, datasets=("pubmed",), panels=("10", "100", "600")),
    )


def _joint() -> tuple[Config, ...]:
    ten = Config(
        parts=("joint",),
        datasets=("facebook100_caltech36", "cora", "debian", "twitch_de"),
        epsilons=(1.0, 2.0, 4.0, 8.0),
    )
    return (ten, dataclasses.replace(ten, datasets=("pubmed",), seeds=5))


def _beyond() -> tuple[Config, ...]:
    graphs = ("debian", "cora", "citeseer", "facebook100_caltech36", "blogcatalog", "reddit_binary")
    return (Config(parts=("beyond",), datasets=graphs, labels=("half",)),)


def _poisoning() -> tuple[Config, ...]:
    lies = Config(parts=("poisoning",), epsilons=(0.5, 1.0, 2.0), labels=("20",))
    return (dataclasses.replace(lies, datasets=("facebook100_caltech36",), panels=("0.1",), seeds=5),)


COMMITTED = (*_friendships(), *_features(), *_joint(), *_beyond(), *_poisoning())
"""The runs whose rows are committed."""

_SMOKE = Config(epsilons=(1.0,), seeds=1, labels=("20",), units=("list",))
SMOKE = (
    dataclasses.replace(_SMOKE, mechanisms=("features", "piloted", "plain counts", "noisy degree")),
    dataclasses.replace(
        _SMOKE, parts=("features",), mechanisms=("local prediction", "privge", "structure, PageRank 0.1")
    ),
)
"""A run of two minutes."""
