"""Private data that helps.

What a better message brings where noisy records and noisy lists bring nothing.
"""

from pathlib import Path

from experiments import _declared
from experiments._common import announce, run_parts
from experiments.frontier import beyond, features, friendships, joint, poisoning
from experiments.frontier.config import Config

__all__ = ["Config", "main", "write_report"]

_PARTS = {
    "edges": friendships,
    "features": features,
    "joint": joint,
    "beyond": beyond,
    "poisoning": poisoning,
}


def main(config: Config) -> None:
    run_parts(config, _PARTS)
    announce(config, write_report)


def write_report(out: Path) -> list[Path]:
    return _declared.write(Path(__file__).with_name("report.toml"), out)
