"""Private data that helps: what a better message brings where noisy records and noisy lists bring nothing."""

from pathlib import Path

from experiments._common import write_part
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


_PARTS = {"edges": friendships, "features": features, "joint": joint, "beyond": beyond, "poisoning": poisoning}
_REPORTS = (report, features_report, joint_report, beyond_report, poisoning_report)


def main(config: Config) -> None:
    config.check()
    for name in config.parts:
        _PARTS[name].main(config)
    for path in write_report(config.out):
        console.print(f"written: {path}", soft_wrap=True, highlight=False)


def write_report(out: Path) -> list[Path]:
    return [path for each in _REPORTS for path in write_part(each, out)]
