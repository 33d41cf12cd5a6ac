"""Promises and costs: guarantees, composition, Gaussian and shuffle accounting, ledgers.

Float64, no JAX.

* :mod:`guarantee <ldp_jax.accounting.guarantee>` - `Guarantee`, `Budget`, `PipelineGuarantee`,
  units of privacy;
* :mod:`composition <ldp_jax.accounting.composition>` - several releases about one user;
* :mod:`gaussian <ldp_jax.accounting.gaussian>` - the analytic Gaussian mechanism;
* :mod:`shuffle <ldp_jax.accounting.shuffle>` - what a shuffler amplifies;
* :mod:`ledger <ldp_jax.accounting.ledger>` - a budget that refuses to be exceeded;
* :mod:`statement <ldp_jax.accounting.statement>` - the most that a protocol can cost each user.

Modules are imported on first use.
"""

from ldp_jax.core import lazy

__getattr__, __dir__ = lazy.attach(
    __name__, {}, "composition gaussian guarantee ledger shuffle statement"
)
