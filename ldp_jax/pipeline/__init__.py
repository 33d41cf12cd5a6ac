"""The main jobs in one call: what users report, what the server makes of it, and what the whole of it spends.

* :func:`private_embedding` (:mod:`embedding <ldp_jax.pipeline.embedding>`) - private features, public graph;
* :func:`predict_from_reports` (:mod:`from_reports <ldp_jax.pipeline.from_reports>`) - private features, public
  graph and panel; :func:`advise` says beforehand whether to collect;
* :func:`predict_from_counts` (:mod:`from_counts <ldp_jax.pipeline.from_counts>`) - public features, private graph;
* :func:`predict_jointly` (:mod:`jointly <ldp_jax.pipeline.jointly>`) - private features and graph, public panel;
* :func:`collect_rounds` (:mod:`rounds <ldp_jax.pipeline.rounds>`) - the same data in every round.

The steps are pure functions, each in a module of its own. From reports: :mod:`structure
<ldp_jax.pipeline.structure>`, :mod:`device_classifier <ldp_jax.pipeline.device_classifier>`, :mod:`message
<ldp_jax.pipeline.message>`, :mod:`field <ldp_jax.pipeline.field>`. From counts: :mod:`groups
<ldp_jax.pipeline.groups>`, :mod:`pilot <ldp_jax.pipeline.pilot>`, :mod:`design <ldp_jax.pipeline.design>`,
:mod:`counts <ldp_jax.pipeline.counts>`, :mod:`self_training <ldp_jax.pipeline.self_training>`. Both: :mod:`guard
<ldp_jax.pipeline.guard>`, :mod:`stack <ldp_jax.pipeline.stack>`.

Each is imported on first use: an embedding waits for no panel, and for no library of networks.
"""

from typing import TYPE_CHECKING

from ldp_jax.core import lazy

if TYPE_CHECKING:
    from ldp_jax.pipeline.advice import Advice, advise
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
    from ldp_jax.pipeline.from_counts import CountedClasses, predict_from_counts
    from ldp_jax.pipeline.from_reports import PredictedClasses, predict_from_reports
    from ldp_jax.pipeline.jointly import JointClasses, JointPrivacy, Split, SplitForecast, predict_jointly
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
    from ldp_jax.pipeline.rounds import RepeatedReports, answer, collect_rounds

__all__ = [
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
    "STRUCTURE_ONLY",
    "SharesPrograms",
    "Split",
    "SplitForecast",
    "VectorMessage",
    "advise",
    "answer",
    "collect_rounds",
    "embedding_memory",
    "fidelity_forecast",
    "gathered",
    "likeness",
    "message_by_name",
    "model_posterior",
    "non_private_embedding",
    "perturb",
    "predict_from_counts",
    "predict_from_reports",
    "predict_jointly",
    "principal_axes",
    "private_embedding",
    "private_embeddings",
    "propagate",
    "score_directions",
    "standardize",
]

__getattr__, __dir__ = lazy.attach(
    __name__,
    {
        "advice": "Advice advise",
        "embedding": "ColumnSource Embedding HasColumns HasPublicChoices PublicRecord RowSource"
        " STRUCTURE_ONLY SharesPrograms embedding_memory non_private_embedding"
        " perturb private_embedding private_embeddings propagate standardize",
        "fidelity": "FidelityForecast Gathered fidelity_forecast gathered likeness",
        "from_counts": "CountedClasses predict_from_counts",
        "from_reports": "PredictedClasses predict_from_reports",
        "jointly": "JointClasses JointPrivacy Split SplitForecast predict_jointly",
        "messages": "ClassMessage Message MessageName VectorMessage message_by_name"
        " principal_axes score_directions",
        "posterior": "model_posterior",
        "rounds": "RepeatedReports answer collect_rounds",
    },
    "arguments budget_split count_regression counts design device_classifier field forecast gain groups"
    " guard law links local_prediction message pilot piloted private_labels reported_labels rows"
    " self_training stack structure",
)
