"""The main jobs in one call: what users report, what the server makes of it, and what the whole of it spends.

* :mod:`embedding <ldp_jax.pipeline.embedding>` - private features, public graph: :func:`private_embedding`;
* :mod:`classes <ldp_jax.pipeline.classes>` - public features, private graph: :func:`count_classes`;
* :mod:`prediction <ldp_jax.pipeline.prediction>` - private features, public graph and panel: :func:`panel_predict`;
* :mod:`advice <ldp_jax.pipeline.advice>` - whether to collect private features at all: :func:`advise`;
* :mod:`joint <ldp_jax.pipeline.joint>` - private features and graph, public panel: :func:`joint_predict`;
* :mod:`rounds <ldp_jax.pipeline.rounds>` - the same data in every round: :func:`collect_rounds`;
* :mod:`posterior <ldp_jax.pipeline.posterior>` - what any model says of public features: :func:`model_posterior`.

Each is imported on first use: an embedding waits for no panel, and for no library of networks.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ldp_jax.pipeline.advice import Advice, advise
    from ldp_jax.pipeline.classes import CountedClasses, count_classes
    from ldp_jax.pipeline.embedding import (
        STRUCTURE_ONLY,
        ColumnSource,
        Embedding,
        HasColumns,
        HasPublicChoices,
        PublicRecord,
        RowSource,
        SharesPrograms,
        embedding_memory,
        non_private_embedding,
        perturb,
        private_embedding,
        private_embeddings,
        propagate,
        standardize,
    )
    from ldp_jax.pipeline.fidelity import FidelityForecast, Gathered, fidelity_forecast, gathered, likeness
    from ldp_jax.pipeline.joint import JointClasses, JointPrivacy, Split, SplitForecast, joint_predict
    from ldp_jax.pipeline.messages import (
        ClassMessage,
        Message,
        MessageName,
        VectorMessage,
        message_by_name,
        principal_axes,
        score_directions,
    )
    from ldp_jax.pipeline.posterior import model_posterior
    from ldp_jax.pipeline.prediction import PredictedClasses, panel_predict
    from ldp_jax.pipeline.rounds import RepeatedReports, answer, collect_rounds

__all__ = [
    "STRUCTURE_ONLY",
    "Advice",
    "ClassMessage",
    "ColumnSource",
    "CountedClasses",
    "Embedding",
    "FidelityForecast",
    "Gathered",
    "HasColumns",
    "HasPublicChoices",
    "JointClasses",
    "JointPrivacy",
    "Message",
    "MessageName",
    "PredictedClasses",
    "PublicRecord",
    "RepeatedReports",
    "RowSource",
    "SharesPrograms",
    "Split",
    "SplitForecast",
    "VectorMessage",
    "advise",
    "answer",
    "collect_rounds",
    "count_classes",
    "embedding_memory",
    "fidelity_forecast",
    "gathered",
    "joint_predict",
    "likeness",
    "message_by_name",
    "model_posterior",
    "non_private_embedding",
    "panel_predict",
    "perturb",
    "principal_axes",
    "private_embedding",
    "private_embeddings",
    "propagate",
    "score_directions",
    "standardize",
]

_PARTS = {  # every other name is the embedding's
    "advice": "Advice advise",
    "classes": "CountedClasses count_classes",
    "fidelity": "FidelityForecast Gathered fidelity_forecast gathered likeness",
    "joint": "JointClasses JointPrivacy Split SplitForecast joint_predict",
    "messages": "ClassMessage Message MessageName VectorMessage message_by_name principal_axes score_directions",
    "posterior": "model_posterior",
    "prediction": "PredictedClasses panel_predict",
    "rounds": "RepeatedReports answer collect_rounds",
}
_HOMES = {name: part for part, names in _PARTS.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in (*_PARTS, "embedding"):
        return importlib.import_module(f"ldp_jax.pipeline.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'ldp_jax.pipeline' has no attribute {name!r}")
    found = getattr(importlib.import_module(f"ldp_jax.pipeline.{_HOMES.get(name, 'embedding')}"), name)
    globals()[name] = found  # asked once
    return found


def __dir__() -> list[str]:
    return __all__
