"""Locally differentially private graph learning in JAX.

``import ldp_jax as ldp`` is all that a notebook needs: the names of the first minute (``ldp.load``,
``ldp.private_embedding``, ``ldp.Ledger``, ...) and every sub-module (``ldp.features.distribution``) are imported on
first use, so that ``ldp.guarantee``, ``ldp.Ledger`` and ``ldp.deployment`` never load JAX.

>>> import ldp_jax as ldp
>>> print(ldp.Guarantee(1.0) + ldp.Guarantee(0.5))
epsilon 1.5 per record (any two records of one user; ideal arithmetic; none)
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ldp_jax import (
        aggregation,
        attacks,
        bounds,
        composition,
        datasets,
        deployment,
        domains,
        edges,
        features,
        gaussian,
        graph_training,
        graphs,
        guarantee,
        hyperbolic,
        importance,
        label_training,
        ledger,
        mechanism,
        metrics,
        models,
        packing,
        panel,
        pipeline,
        propagation,
        shuffle,
        training,
        types,
        verification,
    )
    from ldp_jax.datasets import Dataset, load, save, synthetic
    from ldp_jax.edges import privatize_graph
    from ldp_jax.graphs import from_edges
    from ldp_jax.guarantee import Budget, Guarantee, PipelineGuarantee
    from ldp_jax.ledger import BudgetExceededError, Ledger
    from ldp_jax.mechanism import privatize
    from ldp_jax.pipeline import (
        JointPrivacy,
        advise,
        count_classes,
        joint_predict,
        panel_predict,
        private_embedding,
        private_embeddings,
    )
    from ldp_jax.propagation import operator, ppr
    from ldp_jax.training import fit, fit_many

__version__ = "0.1.0"

__all__ = [
    "Budget",
    "BudgetExceededError",
    "Dataset",
    "Guarantee",
    "JointPrivacy",
    "Ledger",
    "PipelineGuarantee",
    "__version__",
    "advise",
    "aggregation",
    "attacks",
    "bounds",
    "composition",
    "count_classes",
    "datasets",
    "deployment",
    "domains",
    "edges",
    "features",
    "fit",
    "fit_many",
    "from_edges",
    "gaussian",
    "graph_training",
    "graphs",
    "guarantee",
    "hyperbolic",
    "importance",
    "joint_predict",
    "label_training",
    "ledger",
    "load",
    "mechanism",
    "metrics",
    "models",
    "operator",
    "packing",
    "panel",
    "panel_predict",
    "pipeline",
    "ppr",
    "private_embedding",
    "private_embeddings",
    "privatize",
    "privatize_graph",
    "propagation",
    "save",
    "shuffle",
    "synthetic",
    "training",
    "types",
    "verification",
]

_HOMES = {  # where a name of the first minute lives; every other name is a module
    "Budget": "guarantee",
    "BudgetExceededError": "ledger",
    "Dataset": "datasets",
    "Guarantee": "guarantee",
    "JointPrivacy": "pipeline",
    "Ledger": "ledger",
    "PipelineGuarantee": "guarantee",
    "advise": "pipeline",
    "count_classes": "pipeline",
    "fit": "training",
    "fit_many": "training",
    "from_edges": "graphs",
    "joint_predict": "pipeline",
    "load": "datasets",
    "operator": "propagation",
    "panel_predict": "pipeline",
    "ppr": "propagation",
    "private_embedding": "pipeline",
    "private_embeddings": "pipeline",
    "privatize": "mechanism",
    "privatize_graph": "edges",
    "save": "datasets",
    "synthetic": "datasets",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'ldp_jax' has no attribute {name!r}")
    if name not in _HOMES:
        return importlib.import_module(f"ldp_jax.{name}")
    found = getattr(importlib.import_module(f"ldp_jax.{_HOMES[name]}"), name)
    globals()[name] = found  # asked once
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
