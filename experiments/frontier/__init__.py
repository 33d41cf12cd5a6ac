"""Private data that helps: what a better message brings where noisy records and noisy lists bring nothing."""

from pathlib import Path

from experiments._runner import console
from experiments.frontier import (
    beyond,
    beyond_report,
    features,
    features_report,
    friendships,
    joint,
    joint_report,
    poisoning,
    poisoning_report,
    report,
)
from experiments.frontier.config import Config

__all__ = ["Config", "main", "write_report"]


def main(config: Config) -> None:
    """Compute what is missing, then the tables and figures."""
    config.check()
    parts = {"edges": friendships, "features": features, "joint": joint, "beyond": beyond, "poisoning": poisoning}
    for name in config.parts:
        parts[name].main(config)
    for path in write_report(config.out):
        console.print(f"written: {path}", soft_wrap=True, highlight=False)


def write_report(out: Path) -> list[Path]:
    """Tables and figures from the rows of a folder."""
    reports = (report, features_report, joint_report, beyond_report, poisoning_report)
    return [path for each in reports for path in each.write(out)]
