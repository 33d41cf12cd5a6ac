"""Private data that helps.

What a better message brings where noisy records and noisy lists bring nothing.
"""

from pathlib import Path

from experiments._common import announce, run_parts, write_parts
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

_PARTS = {
    "edges": friendships,
    "features": features,
    "joint": joint,
    "beyond": beyond,
    "poisoning": poisoning,
}
_REPORTS = (report, features_report, joint_report, beyond_report, poisoning_report)


def main(config: Config) -> None:
    run_parts(config, _PARTS)
    announce(config, write_report)


def write_report(out: Path) -> list[Path]:
    return write_parts(_REPORTS, out)
