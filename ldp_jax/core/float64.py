"""Double precision, on the CPU."""

import contextlib
from collections.abc import Iterator

import jax


@contextlib.contextmanager
def float64_on_cpu() -> Iterator[None]:
    """Compute in float64 on the CPU; accelerators are slow, or round to less.

    >>> import jax.numpy as jnp
    >>> with float64_on_cpu():
    ...     x = jnp.ones(1) / 3
    >>> x.dtype.name, [device.platform for device in x.devices()]
    ('float64', ['cpu'])
    """
    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
        yield
