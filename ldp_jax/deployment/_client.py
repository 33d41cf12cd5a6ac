"""The package ``ldp_jax_client``.

:mod:`ldp_jax.deployment`, without its server's store, on NumPy alone.

Devices install ``ldp_jax_client`` and not ``ldp_jax``, which brings JAX: extras add dependencies
and take none away. Where ``ldp_jax`` is not installed, the client's copies of its files take its
name, so that imports are found.
"""

import sys
from importlib.metadata import version

try:
    import ldp_jax  # noqa: F401 - beside it the client has no modules of its own
except ModuleNotFoundError:
    sys.modules["ldp_jax"] = sys.modules[__name__]

from ldp_jax.deployment import *  # noqa: E402, F403
from ldp_jax.deployment import __all__, __dir__  # noqa: E402, F401

# One module has one copy, by either name: classes of a second one would be others.
sys.modules |= {
    f"ldp_jax_client{name[7:]}": made
    for name, made in sys.modules.items()
    if name[:8] == "ldp_jax."
}


def __getattr__(name: str) -> str:
    if name == "__version__":
        return version("ldp_jax_client")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
