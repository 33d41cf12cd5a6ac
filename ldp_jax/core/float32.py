"""Products in full single precision: a GPU rounds factors to 11 bits, a TPU to 8."""

from functools import partial

import jax
import jax.numpy as jnp

einsum = partial(jnp.einsum, precision=jax.lax.Precision.HIGHEST)
matmul = partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)
