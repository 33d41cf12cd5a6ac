"""HeteroRR (Tran et al., 2022).

Private features and private edges for a GCN, and the attacks on them.
"""

from pathlib import Path

from experiments import _declared
from experiments._common import announce, run_parts
from experiments.heterorr import accuracy, attacks, counts, inversion, mixing, shares
from experiments.heterorr.settings import Config

__all__ = ["Config", "main", "write_report"]

_PARTS = {
    "scores": shares,
    "attacks": attacks,
    "counts": counts,
    "mixing": mixing,
    "inversion": inversion,
}


def main(config: Config) -> None:
    run_parts(config, _PARTS, accuracy)
    announce(config, write_report)


def write_report(out: Path) -> list[Path]:
    return _declared.write(Path(__file__).with_name("report.toml"), out)
