"""Every table and figure of the five papers: on which data it is computed here, by which command, or why it is not.

What a paper asks for is written down here; what of it is computed is read from the committed rows.
"""

import functools
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from experiments._report import markdown, prose
from experiments._runner import REFERENCE, write_atomically

_TEXT = prose("papers")


class Item(NamedTuple):
    """A table or figure, or several that hold no result."""

    paper: str
    name: str
    """as the paper numbers it"""
    what: str
    data: tuple[str, ...] = ()
    """the paper's data sets, by their names here; empty where it has none"""
    rows: tuple[str, str] = ("", "")
    """stem of the committed CSV, and a query that its rows answer; "" where there are none"""
    command: str = ""
    """words after ``python -m experiments`` that compute it"""
    files: tuple[str, ...] = ()
    other: str = ""
    """what differs from the paper, or why it is missing"""

    def computed(self) -> tuple[str, ...]:
        """Data sets of the committed rows that answer the query."""
        stem, query = self.rows
        if not stem:
            return ()
        frame = _rows(stem).query(query) if query else _rows(stem)
        return tuple(sorted({str(name).split(",")[0] for name in frame.dataset}))

    def status(self) -> str:
        """Reproduced, reproduced in part, on a stand-in, not there, or no result to reproduce."""
        found = self.computed()
        if not self.data and not self.files:
            return "no result"
        if not self.files or (self.data and not found):
            return "not there"
        missing = [name for name in self.data if name not in found]
        if not missing:
            return "reproduced"
        return "reproduced in part" if len(missing) < len(self.data) else "on a stand-in"


@functools.cache
def _rows(stem: str) -> pd.DataFrame:
    return pd.read_csv(REFERENCE / f"{stem}.csv")


_LASTFM = "LastFM's features are not among the committed data"
_PUBLIC = "FLICKR-MIR is not public, and PPI's features are not among the committed data"
_SETS = "the missing sets of graphs were not at hand; `--datasets` takes them"
_DIAGRAMS = "diagrams and notation"
_STATISTICS = "statistics of the data, which `datasets.load` checks"


def _privge(paper: str, table: str, others: tuple[str, str], more: tuple[str, ...] = ()) -> tuple[Item, ...]:
    """The results of one of two versions of a paper."""
    data = ("cora", *more, "pubmed", "lastfm", "facebook_pages", "crocodile")
    hds = "task == '{}' and mechanism == 'hds'"
    node, link = (("privge", hds.format(task)) for task in ("node", "link"))
    ks = (("privge", f"{query} and k == {k}") for (_, query), k in ((node, 30), (link, 5)))  # no published k
    return (
        Item(paper, "Figure 1", "worst-case variance", command="report", files=("figure1.png",)),
        Item(
            paper, "Figure 2", "node task by epsilon", data, node, "privge --parts node",
            ("REPORT.md", "figure2_node.png"), f"{_LASTFM}; fewer epochs, splits and budgets on the larger graphs",
        ),
        Item(
            paper, table, "link task by epsilon", data, link, "privge --parts link",
            ("REPORT.md", "table3_link.png"), f"{_LASTFM}; larger ones at epsilon 1; crocodile: HDS alone",
        ),
        Item(
            paper, "Figure 3", "k of HDS, node task", data, next(ks), "privge --parts node",
            ("REPORT.md", "figure3_k_node.png"), f"{_LASTFM}; epsilon 1 alone beyond cora; larger graphs left out",
        ),
        Item(
            paper, "Figure 4", "k of HDS, link task", data, next(ks), "privge --parts link",
            ("REPORT.md", "figure4_k_link.png"), f"{_LASTFM}; epsilon 1 alone beyond cora; larger graphs left out",
        ),
        Item(paper, others[0], others[1], other=_STATISTICS),
    )  # fmt: skip


def _heterorr() -> tuple[Item, ...]:
    paper, both, command = "HeteroRR", ("FLICKR-MIR", "PPI"), "heterorr --parts"
    return (
        Item(
            paper, "Figure 3", "score theta of each coordinate", both[:1], ("heterorr_shares", ""),
            f"{command} scores", ("heterorr_figure3.png",), _PUBLIC,
        ),
        Item(
            paper, "Figure 6", "private features by epsilon", both, ("heterorr", "mechanism == 'featurerr'"),
            f"{command} features", ("heterorr.md", "heterorr_figure6.png"), _PUBLIC,
        ),
        Item(
            paper, "Figure 7", "private edges by epsilon", both, ("heterorr", "mechanism == 'edgerr'"),
            f"{command} edges", ("heterorr.md", "heterorr_figure7.png"), _PUBLIC,
        ),
        Item(
            paper, "section V, in words", "LinkTeller under EdgeRR", both[:1], ("heterorr_attacks", ""),
            f"{command} attacks", ("heterorr_attacks.md", "heterorr_attacks.png"), _PUBLIC,
        ),
        Item(
            paper, "Figure 8", "images from perturbed embeddings", ("ImageNet",), ("heterorr_inversion", ""),
            f"{command} inversion", ("heterorr_inversion.md", "heterorr_inversion.png"),
            "an attacker on ImageNet was not trained: scikit-learn's digits",
        ),
        Item(
            paper, "Figures 10 and 11", "both levels by epsilon", both, ("heterorr", ""), f"{command} both",
            ("heterorr.md", "heterorr_figure10.png"), _PUBLIC,
        ),
        Item(paper, "Figures 1, 2, 4, 5 and 9", _DIAGRAMS),
    )  # fmt: skip


def _poindp() -> tuple[Item, ...]:
    paper, data = "PoinDP", ("cora", "citeseer", "pubmed", "amazon_computers", "amazon_photo")
    noise = (("poindp_noise", ""), "poindp --parts noise")
    return (
        Item(
            paper, "Table 1", "node task at epsilon 1", data, ("poindp", "epsilon == 1"), "poindp --parts table1",
            ("poindp.md",), "3 to 5 splits",
        ),
        Item(
            paper, "Table 2", "ablations at epsilon 0.01", data, ("poindp", "epsilon == 0.01"),
            "poindp --parts table2", ("poindp.md",), "3 to 5 splits",
        ),
        Item(
            paper, "Table 3", "membership attack at epsilon 0.2", ("pubmed", "amazon_photo"),
            ("poindp_membership", ""), "poindp --parts membership",
            ("poindp_membership.md", "poindp_membership.png"), "under six protocols; the paper names none",
        ),
        Item(
            paper, "Figure 3", "training nodes from parts of the hierarchy", ("cora",),
            ("poindp", "epsilon == 0.1"), "poindp --parts figure3", ("poindp.md", "poindp_figure3.png"),
        ),
        *(
            Item(paper, f"Figure {number}", what, ("cora",), *noise, ("poindp.md", f"poindp_figure{number}.png"))
            for number, what in ((4, "errors of nodes"), (5, "noise of VANPD and PoinDP"), (6, "of LaP and RdDP"))
        ),
        Item(paper, "Figures 1 and 2", _DIAGRAMS),
        Item(paper, "Table 4", "data", other=_STATISTICS),
    )  # fmt: skip


def _dprr() -> tuple[Item, ...]:
    paper, stars = "DPRR", "github_stargazers"
    data = ("reddit_multi_5k", "reddit_binary", stars)
    scaling = ("dprr --parts scaling", ("dprr_scaling.md",))
    few = f"{_SETS}; 60 epochs and 3 splits"
    return (
        Item(
            paper, "Figure 4", "accuracy by share of public users", data, ("dprr", "public > 0"),
            "dprr --classifiers gin perceptron", ("dprr.md", "dprr_figure4.png"), few,
        ),
        Item(
            paper, "Figure 5", "accuracy by epsilon", data, ("dprr", "mechanism == 'dprr' and public == 0"),
            "dprr --public-shares 0", ("dprr.md", "dprr_figure5.png", "dprr_forest.png"), few,
        ),
        Item(
            paper, "Figure 6", "splits of the budget", (data[0], stars),
            ("dprr", "mechanism == 'dprr-one-to-nine'"),
            "dprr --graphs 600 --mechanisms dprr dprr-one-to-nine dprr-as-published",
            ("dprr_figure6.png",), few,
        ),
        Item(
            paper, "Figure 7", "degrees, true and noisy", data, ("dprr_degrees", ""),
            "dprr --parts degrees --rr-nodes 1000", ("dprr_degrees.md", "dprr_figure7.png"), _SETS,
        ),
        Item(
            paper, "Figure 8", "time by sampling rate", ("reddit_binary",), ("dprr_scaling", ""), scaling[0],
            (*scaling[1], "dprr_figure8.png"), "200 graphs of at most 1000 nodes, on two cores",
        ),
        Item(
            paper, "Figure 9", "time by nodes", ("Barabasi-Albert",), ("dprr_scaling", ""), scaling[0],
            (*scaling[1], "dprr_figure9.png"), "fewer graphs, on two cores",
        ),
        Item(
            paper, "Table II", "complexity", ("Barabasi-Albert",), ("dprr_scaling", ""), *scaling,
            "measured: slopes of time and memory",
        ),
        Item(paper, "Table I, Figures 1 to 3", _DIAGRAMS),
        Item(paper, "Table III", "data", other=_STATISTICS),
    )  # fmt: skip


ITEMS = (
    *_privge("PrivGE", "Table 2", ("Table 1", "data")),
    *_privge("LDP-GE", "Table III", ("Tables I and II", "notation and data"), ("citeseer",)),
    *_heterorr(),
    *_poindp(),
    *_dprr(),
)


def of(name: str, table: str = "") -> list[Item]:
    """The items of an experiment; with ``table`` those that the paper numbers so, as 3, III or Figure 6."""
    known = [item for item in ITEMS if {"LDP-GE": "privge"}.get(item.paper, item.paper.lower()) == name]
    return [item for item in known if item.command and (not table or table in (item.name, item.name.split()[-1]))]


def as_markdown() -> str:
    """The table of all items, after the count of each status."""
    statuses = [item.status() for item in ITEMS]
    counts = ", ".join(f"{statuses.count(name)} {name}" for name in dict.fromkeys(statuses))
    rows = []
    for item, status in zip(ITEMS, statuses, strict=True):
        missing = [name for name in item.data if name not in item.computed()]
        words = [f"without {', '.join(missing)}"] if missing and status != "no result" else []
        rows.append(
            [
                item.paper,
                item.name,
                item.what,
                status,
                ", ".join(item.computed()),
                "; ".join([*words, item.other] if item.other else words),
                ", ".join(f"[{name}]({name})" for name in item.files),
                f"`python -m experiments {item.command}`" if item.command else "",
            ]
        )
    headers = ["paper", "item", "what", "status", "computed on", "missing or different", "files", "command"]
    return f"{_TEXT.notes}\n\n{len(ITEMS)} entries: {counts}.\n\n{markdown(headers, rows)}\n"


def write_report(out: Path) -> list[Path]:
    """papers.md, beside the committed rows that it is about; nothing for another folder."""
    if out.resolve() != REFERENCE.resolve():
        return []
    _rows.cache_clear()
    write_atomically(out / "papers.md", as_markdown())
    return [out / "papers.md"]
