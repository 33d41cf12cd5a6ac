"""Private data that helps.

Better messages bring a gain where noisy records and noisy lists bring none.
"""

from functools import partial

from experiments._common import announce, run_parts
from experiments._declared import write_of
from experiments.frontier import beyond, features, friendships, joint, poisoning
from experiments.frontier.config import Config

__all__ = ["Config", "main"]

_PARTS = {
    "edges": friendships,
    "features": features,
    "joint": joint,
    "beyond": beyond,
    "poisoning": poisoning,
}


def main(config: Config) -> None:
    run_parts(config, _PARTS)
    announce(config, partial(write_of, "frontier"))
