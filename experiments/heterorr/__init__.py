"""HeteroRR (Tran et al., 2022): private features and private edges for a GCN, and the attacks on them."""

from pathlib import Path

from experiments._common import run_part, write_part
from experiments._runner import console
from experiments.heterorr import accuracy, attacks, counts, inversion, mixing, report, shares
from experiments.heterorr.config import Config

__all__ = ["Config", "main", "write_report"]

_PARTS = {"scores": shares, "attacks": attacks, "counts": counts, "mixing": mixing, "inversion": inversion}


def main(config: Config) -> None:
    config.check()
    if "attacks" in config.parts:
        attacks.plan(config)  # refuses what it must before the first row of any part
    accuracy.main(config)
    for name, part in _PARTS.items():
        if name in config.parts:
            run_part(part, config)
    for path in write_report(config.out):
        console.print(f"written: {path}", soft_wrap=True, highlight=False)


def write_report(out: Path) -> list[Path]:
    written = [path for part in (report, shares, attacks, counts, mixing) for path in write_part(part, out)]
    return [*written, *inversion.write(out)]
