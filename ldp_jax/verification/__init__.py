"""Whether a guarantee holds, asked of the mechanism itself rather than of its author."""

from ldp_jax.verification.exact import Supremum, privacy_loss_supremum

__all__ = ["Supremum", "privacy_loss_supremum"]
