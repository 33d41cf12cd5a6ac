"""Locally differentially private graph learning in JAX.

``import ldp_jax as ldp`` is all that a notebook needs. The names of the first minute (``ldp.load``,
``ldp.private_embedding``, ``ldp.Ledger``, ...) and the rooms are imported on first use, so
that ``ldp.accounting``, ``ldp.Ledger`` and ``ldp.deployment`` never load JAX.

* ``core`` - types, random words, integer tables, spaces, the mechanism protocol;
* ``accounting`` - guarantees, composition, ledgers;
* ``features``, ``edges``, ``hyperbolic`` - mechanisms on one user's numbers, neighbour list,
  hyperbolic point; ``curators`` - what a trusted curator releases of a graph;
* ``graph``, ``learning``, ``servers`` - the server's side: propagation, training, protocols in one
  call;
* ``deployment`` - devices and the wire, without JAX;
* ``verification``, ``attacks`` - is an epsilon true, and what does it protect from; ``datasets`` -
  graphs; ``bench`` - your own method beside every other.

>>> import ldp_jax as ldp
>>> print(ldp.Guarantee(1.0) + ldp.Guarantee(0.5))
epsilon 1.5 per record (any two records of one user; ideal arithmetic; none)
"""

from typing import TYPE_CHECKING

from ldp_jax.core import lazy

if TYPE_CHECKING:
    from ldp_jax.accounting.guarantee import Budget, Guarantee, PipelineGuarantee
    from ldp_jax.accounting.ledger import BudgetExceededError, Ledger
    from ldp_jax.core.mechanism import privatize
    from ldp_jax.datasets import Dataset, load, save, synthetic
    from ldp_jax.graph.graphs import from_edges
    from ldp_jax.graph.propagation import operator, ppr
    from ldp_jax.learning.training import fit, fit_many
    from ldp_jax.servers import (
        JointPrivacy,
        predict_from_counts,
        predict_from_reports,
        predict_jointly,
        private_embedding,
        privatize_graph,
        rehearse,
    )

__version__ = "0.3.0"

__all__ = [
    "Budget",
    "BudgetExceededError",
    "Dataset",
    "Guarantee",
    "JointPrivacy",
    "Ledger",
    "PipelineGuarantee",
    "__version__",
    "fit",
    "fit_many",
    "from_edges",
    "load",
    "operator",
    "ppr",
    "predict_from_counts",
    "predict_from_reports",
    "predict_jointly",
    "private_embedding",
    "privatize",
    "privatize_graph",
    "rehearse",
    "save",
    "synthetic",
]

__getattr__, __dir__ = lazy.attach(
    __name__,
    {
        "accounting.guarantee": "Budget Guarantee PipelineGuarantee",
        "accounting.ledger": "BudgetExceededError Ledger",
        "core.mechanism": "privatize",
        "datasets": "Dataset load save synthetic",
        "graph.graphs": "from_edges",
        "graph.propagation": "operator ppr",
        "learning.training": "fit fit_many",
        "servers": "JointPrivacy predict_from_counts predict_from_reports predict_jointly"
        " private_embedding"
        " privatize_graph rehearse",
    },
    "accounting attacks bench core curators datasets deployment edges features graph hyperbolic"
    " learning servers verification",
)
