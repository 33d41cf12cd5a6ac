"""What HeteroRR (Tran et al., 2022) prints in numbers; its figures are pictures only."""

from typing import NamedTuple


class Claim(NamedTuple):
    """A sentence of section V, and the rows here that ask the same.

    Attributes:
      text: what it says.
      level: of the rows.
      mechanism: of the paper.
      other: what it is compared with.
    """

    text: str
    level: str
    mechanism: str
    other: str


CLAIMS = (
    Claim("FeatureRR +7.6 % over LPGNN, its best baseline (FLICKR-MIR, p 3e-5)", "features", "featurerr", "lpgnn"),
    Claim(
        "FeatureRR +2.6 % over Three-outputs, its best baseline (PPI, p 0.0031)",
        "features",
        "featurerr",
        "three-outputs",
    ),
    Claim("EdgeRR +6.3 % over LapGraph, its best baseline (FLICKR-MIR, p 3.6e-9)", "edges", "edgerr", "lap-graph"),
)

NO_PROTECTION, WITH_EDGERR = 0.91, (0.52, 0.54)
"""LinkTeller's AUC (500 nodes, as many non-edges as edges): without protection, and its range under EdgeRR at
epsilon 0.1 to 1.
"""
