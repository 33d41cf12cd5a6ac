"""Whether a guarantee holds, asked of the mechanism itself rather than of its author."""

from ldp_jax.verification.empirical import LowerBound, epsilon_lower_bound, matches_density
from ldp_jax.verification.exact import (
    FloatAudit,
    Supremum,
    enumerated_supremum,
    float_audit,
    hockey_stick,
    privacy_loss_supremum,
)
from ldp_jax.verification.statistics import Fit

__all__ = [
    "Fit",
    "FloatAudit",
    "LowerBound",
    "Supremum",
    "enumerated_supremum",
    "epsilon_lower_bound",
    "float_audit",
    "hockey_stick",
    "matches_density",
    "privacy_loss_supremum",
]
