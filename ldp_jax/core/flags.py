"""The library's programs run under any of JAX's strict flags that a caller has set."""

import contextlib
from collections.abc import Iterator

import jax


@contextlib.contextmanager
def implicit_promotion() -> Iterator[None]:
    """Within it operands of two types or two ranks may meet; also a decorator of a job.

    A caller's ``jax_numpy_dtype_promotion="strict"`` or ``jax_numpy_rank_promotion="raise"`` finds
    faults in the caller's code, and stays in force there.

    >>> import jax.numpy as jnp
    >>> @implicit_promotion()
    ... def shifted(x):
    ...     return x + jnp.arange(2)
    >>> with jax.numpy_rank_promotion("raise"), jax.numpy_dtype_promotion("strict"):
    ...     shifted(jnp.ones((1, 2))).tolist()
    [[1.0, 2.0]]
    """
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@contextlib.contextmanager
def standard_flags() -> Iterator[None]:
    """Within it programs are compiled, in 32 bits, and NaN is a value; also a decorator of a test.

    Verification feeds NaN on purpose and calls an exception a fault of the mechanism. Its verdicts
    are about the mechanism, so no flag of the caller may change them.

    >>> import jax.numpy as jnp
    >>> with jax.debug_nans(True), standard_flags():
    ...     float(jnp.log(-1.0))
    nan
    """
    with (
        implicit_promotion(),
        jax.enable_x64(False),
        jax.debug_nans(False),
        jax.debug_infs(False),
        jax.check_tracer_leaks(False),
        jax.disable_jit(False),
        jax.transfer_guard("allow"),
    ):
        yield
