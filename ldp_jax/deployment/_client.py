"""What ``import ldp_jax_client`` gives: :mod:`ldp_jax.deployment`, without its server's store, on NumPy alone.

Devices install ``ldp_jax_client`` and not ``ldp_jax``, which brings JAX whatever is done: extras add dependencies
and take none away. Both are made of the same files. The client's copies lie below ``ldp_jax_client``, so that no
file is of two distributions; where ``ldp_jax`` is not installed they take its name, or no import of theirs would
find its module.
"""

import sys
from importlib.metadata import version

try:
    import ldp_jax  # noqa: F401 - beside it the client has no modules of its own
except ModuleNotFoundError:
    sys.modules["ldp_jax"] = sys.modules[__name__]

from ldp_jax.deployment import *  # noqa: E402, F403
from ldp_jax.deployment import __all__, __dir__  # noqa: E402, F401


def __getattr__(name: str) -> str:
    if name == "__version__":
        return version("ldp_jax_client")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
