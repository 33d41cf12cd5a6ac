"""Which experiments there are, by name: nothing of one is imported before a command asks for it.

A new experiment is a module (of a paper: a folder) with ``Config`` (a frozen dataclass with
``out``) and ``main(config)``, and a line in :data:`EXPERIMENTS`. It may have presets in
``runs.toml``, ``printed(row)`` (the paper's number) and ``write_report(out)`` (tables and figures
of rows).
"""

import importlib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from experiments._runner import Results


class Experiment(NamedTuple):
    """What the commands about experiments need of one."""

    about: str
    """one sentence"""
    rows: Mapping[str, str] = {}
    """the module with ``results_in`` of its committed tidy rows, by the stem of their CSV"""
    tables: tuple[str, ...] = ()
    """names of the committed Markdown files"""
    takes: str = ""
    """how long it takes, where no committed row says so"""

    def results(self, out: Path) -> list[Results]:
        """Its tidy rows in a folder, a file each."""
        return [module(name).results_in(out) for name in self.rows.values()]


def module(name: str) -> ModuleType:
    return importlib.import_module(f"experiments.{name}")


def runs(name: str, preset: str, out: Path) -> list[Any]:
    """The configurations of a preset, to be run into a folder.

    Empty where the experiment has no such preset.
    """
    known = tomllib.loads((Path(__file__).parent / "runs.toml").read_text()).get(name, {})
    groups = known.get("words", {})

    def words(given: Any) -> Any:
        if not isinstance(given, list):
            return (given,)
        meant = [groups[one[1:]] if str(one).startswith("@") else one for one in given]
        return tuple(word for one in meant for word in words(one))

    def config(given: Mapping[str, Any]) -> Any:
        made = {
            key: words(value) if isinstance(value, list) else value for key, value in given.items()
        }
        return module(name).Config(**made, out=out)

    return [config(given) for given in known.get(preset, [{}] if preset == "committed" else [])]


EXPERIMENTS: dict[str, Experiment] = {
    "demo": Experiment(
        "The main jobs on the embedded graph of Debian packages.", {"demo": "demo"}, ("demo.md",)
    ),
    "privge": Experiment(
        "Private features: node classification and link prediction (PrivGE, LDP-GE).",
        {"privge": "privge.accuracy"},
        ("REPORT.md",),
    ),
    "dprr": Experiment(
        "Private neighbour lists: classification of graphs (DPRR).",
        {"dprr": "dprr.accuracy", "dprr_degrees": "dprr.degrees", "dprr_scaling": "dprr.scaling"},
        ("dprr.md", "dprr_degrees.md", "dprr_scaling.md"),
    ),
    "heterorr": Experiment(
        "Private features and private edges of a GCN, and attacks on them (HeteroRR).",
        {
            "heterorr": "heterorr.accuracy",
            "heterorr_shares": "heterorr.shares",
            "heterorr_attacks": "heterorr.attacks",
            "heterorr_counts": "heterorr.counts",
            "heterorr_mixing": "heterorr.mixing",
            "heterorr_inversion": "heterorr.inversion",
        },
        (
            "heterorr.md",
            "heterorr_attacks.md",
            "heterorr_counts.md",
            "heterorr_mixing.md",
            "heterorr_inversion.md",
        ),
    ),
    "poindp": Experiment(
        "Hyperbolic noise, as published and sound, and membership attacks (PoinDP).",
        {
            "poindp": "poindp.accuracy",
            "poindp_noise": "poindp.noise",
            "poindp_membership": "poindp.membership",
            "poindp_gaps": "poindp.gaps",
        },
        ("poindp.md", "poindp_membership.md", "poindp_noise.md", "poindp_gaps.md"),
    ),
    "frontier": Experiment(
        "Private data that helps: counts of friends, and classes that devices predict.",
        {
            "frontier_edges_accuracy": "frontier.friendships",
            "frontier_features_accuracy": "frontier.features",
            "frontier_joint_accuracy": "frontier.joint",
            "frontier_beyond_accuracy": "frontier.beyond",
            "frontier_poisoning_harm": "frontier.poisoning",
        },
        tuple(
            f"frontier_{part}.md" for part in ("features", "edges", "joint", "beyond", "poisoning")
        ),
    ),
    "protocols": Experiment(
        "Published protocols of several rounds: triangles, stars, and synthetic graphs.",
        {"protocols": "protocols"},
        ("protocols.md",),
    ),
    "worlds": Experiment(
        "Drawn worlds: where counts of friends help, and what they cost where they tell nothing.",
        {"worlds": "worlds"},
        ("worlds.md",),
    ),
    "audit": Experiment(
        "Every mechanism, asked whether its epsilon holds, and published forms that do not keep "
        "theirs.",
        {"audit": "audit"},
        ("audit.md",),
    ),
    "variance": Experiment(
        "Worst-case variance of every unbiased mechanism on one number.",
        {},
        ("variance.md",),
        "seconds",
    ),
    "power": Experiment(
        "The smallest leak that a verdict finds, against its draws.",
        {},
        ("power.md",),
        "minutes",
    ),
    "repeat": Experiment(
        "How far a trained row repeats on other cores and instructions.",
        {},
        ("repeat.md",),
        "minutes",
    ),
    "benchmarks": Experiment(
        "Speed and memory, against what others do, in the same run.",
        {},
        ("benchmarks.md",),
        "minutes",
    ),
    "weigh": Experiment(
        "Syntax, compiled programs and seconds of the project, beside their aims.",
        {},
        ("weight.md",),
        "seconds",
    ),
}
