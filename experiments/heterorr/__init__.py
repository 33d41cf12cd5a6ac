"""HeteroRR (Tran et al., 2022).

Private features and private edges for a GCN, and the attacks on them.
"""

from functools import partial

from experiments._common import announce, run_parts
from experiments._declared import write_of
from experiments.heterorr import accuracy, attacks, counts, inversion, mixing, shares
from experiments.heterorr.settings import Config

__all__ = ["Config", "main"]

_PARTS = {
    "scores": shares,
    "attacks": attacks,
    "counts": counts,
    "mixing": mixing,
    "inversion": inversion,
}


def main(config: Config) -> None:
    run_parts(config, _PARTS, accuracy)
    announce(config, partial(write_of, "heterorr"))
