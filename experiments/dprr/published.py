"""What DPRR's authors say of their results in words (section V-B), beside ours; their figures are pictures."""

from typing import NamedTuple

from experiments.dprr.cells import OF_ALL, WITHOUT_EPSILON, Mechanism, Variant

EPSILON, PUBLIC = 1.0, 0.2
"""The budget and the share of public users that the text speaks of; the network classifies."""


class Claim(NamedTuple):
    """DPRR's score less that of another row.

    Attributes:
      other: whose.
      said: of the difference, in points of accuracy or AUC.
    """

    other: Mechanism
    said: str

    def twin(self, variant: Variant) -> Variant | None:
        """The other row of the same setting; None for all but the variant that is spoken of."""
        if variant != Variant("dprr", EPSILON, PUBLIC):
            return None
        epsilon = 0.0 if self.other in WITHOUT_EPSILON else variant.epsilon
        return Variant(self.other, epsilon, 0.0 if self.other in OF_ALL else variant.public)


CLAIMS = (
    Claim("non-private", "not below -10 or so"),
    Claim("rr", "significantly above 0"),
    Claim("local-lap", "significantly above 0"),
    Claim("non-private-part", "significantly above 0"),
)
