"""Which experiments there are: all commands know them from here alone.

A new experiment is a module (of a paper: a folder) with ``Config`` (a frozen dataclass with ``out``) and
``main(config)``, and a line in :data:`EXPERIMENTS`. It may also have ``COMMITTED`` (the configurations whose rows
are committed, by default the one without words) and ``write_report(out)`` (tables and figures of a folder's rows).
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from experiments import audit, benchmarks, demo, dprr, frontier, heterorr, poindp, privge, repeat, variance, weigh
from experiments._runner import REFERENCE, Results
from experiments.dprr import accuracy as dprr_accuracy
from experiments.dprr import degrees as dprr_degrees
from experiments.dprr import scaling as dprr_scaling
from experiments.frontier import beyond as frontier_beyond
from experiments.frontier import features as frontier_features
from experiments.frontier import friendships as frontier_friendships
from experiments.frontier import joint as frontier_joint
from experiments.heterorr import accuracy as heterorr_accuracy
from experiments.heterorr import attacks as heterorr_attacks
from experiments.heterorr import counts as heterorr_counts
from experiments.heterorr import inversion as heterorr_inversion
from experiments.heterorr import mixing as heterorr_mixing
from experiments.heterorr import shares as heterorr_shares
from experiments.poindp import accuracy as poindp_accuracy
from experiments.poindp import gaps as poindp_gaps
from experiments.poindp import membership as poindp_membership
from experiments.poindp import noise as poindp_noise
from experiments.privge import accuracy as privge_accuracy


class Experiment(NamedTuple):
    """What the commands about experiments need of one.

    Attributes:
      module: has ``Config`` and ``main``.
      results: its tidy rows in a folder, a function a file; none where rows are no cells.
      tables: names of the committed Markdown files.
      takes: how long it takes, where no committed row says so.
    """

    module: Any
    results: tuple[Callable[[Path], Results], ...] = ()
    tables: tuple[str, ...] = ()
    takes: str = ""

    @property
    def about(self) -> str:
        """Its first sentence."""
        return " ".join(self.module.Config.__doc__.split("\n\n")[0].split())

    def committed(self, out: Path) -> list[Any]:
        """The configurations whose rows are committed, to be run into a folder."""
        configs = getattr(self.module, "COMMITTED", (self.module.Config(),))
        return [dataclasses.replace(config, out=out) for config in configs]

    def rows(self) -> list[pd.DataFrame]:
        """The committed rows, a frame a file."""
        return [results(REFERENCE).read() for results in self.results]

    def hours(self) -> float:
        """What the committed rows took one after the other, as they say."""
        cells = [frame.drop(columns=["metric", "value"]).drop_duplicates() for frame in self.rows()]
        return sum(float(frame.seconds.sum()) for frame in cells) / 3600


EXPERIMENTS: dict[str, Experiment] = {
    "demo": Experiment(demo, (demo.results_in,), ("demo.md",)),
    "privge": Experiment(privge, (privge_accuracy.results_in,), ("REPORT.md",)),
    "dprr": Experiment(
        dprr,
        (dprr_accuracy.results_in, dprr_degrees.results_in, dprr_scaling.results_in),
        ("dprr.md", "dprr_degrees.md", "dprr_scaling.md"),
    ),
    "heterorr": Experiment(
        heterorr,
        (
            heterorr_accuracy.results_in,
            heterorr_shares.results_in,
            heterorr_attacks.results_in,
            heterorr_counts.results_in,
            heterorr_mixing.results_in,
            heterorr_inversion.results_in,
        ),
        ("heterorr.md", "heterorr_attacks.md", "heterorr_counts.md", "heterorr_mixing.md", "heterorr_inversion.md"),
    ),
    "poindp": Experiment(
        poindp,
        (poindp_accuracy.results_in, poindp_noise.results_in, poindp_membership.results_in, poindp_gaps.results_in),
        ("poindp.md", "poindp_membership.md"),
    ),
    "frontier": Experiment(
        frontier,
        (
            frontier_friendships.results_in,
            frontier_features.results_in,
            frontier_joint.results_in,
            frontier_beyond.results_in,
        ),
        ("frontier_features.md", "frontier_edges.md", "frontier_joint.md", "frontier_beyond.md"),
    ),
    "audit": Experiment(audit, (audit.results_in,), ("audit.md",)),
    "variance": Experiment(variance, (), ("variance.md",), "seconds"),
    "repeat": Experiment(repeat, (), ("repeat.md",), "minutes"),
    "benchmarks": Experiment(benchmarks, (), ("benchmarks.md",), "minutes"),
    "weigh": Experiment(weigh, (), ("weight.md",), "seconds"),
}
