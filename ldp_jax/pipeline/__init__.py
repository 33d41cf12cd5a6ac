"""The main jobs in one call: what users report, what the server makes of it, and what the whole of it spends.

* :func:`private_embedding` - private features, public graph;
* :func:`predict_jointly` - private features and graph, public panel;
* :func:`rehearse` - what each of these will bring, before anybody reports;
* :func:`collect_rounds` - the same data in every round;
* :func:`classify_counts`, ``reported.embed_reports`` - the same of what devices sent;
* ``estimators`` - all this in scikit-learn's manner.

Each step is a pure function in a module of its own, imported on first use. From reports: ``structure``,
``device_classifier``, ``message``, ``field``. From counts: ``groups``, ``design``, ``counts``,
``self_training``. Both: ``guard``, ``stack``.
"""

from typing import TYPE_CHECKING

from ldp_jax.core import lazy

if TYPE_CHECKING:
    from ldp_jax.pipeline.embedding import (
        Embedding,
        PublicRecord,
        non_private_embedding,
        perturb,
        private_embedding,
        private_embeddings,
    )
    from ldp_jax.pipeline.jointly import JointClasses, JointPrivacy, joint_facts, predict_jointly
    from ldp_jax.pipeline.rehearsal import Rehearsal, StatedFriends, rehearse
    from ldp_jax.pipeline.rounds import RepeatedReports, collect_rounds

__all__ = [
    "Embedding",
    "JointClasses",
    "JointPrivacy",
    "PublicRecord",
    "Rehearsal",
    "RepeatedReports",
    "StatedFriends",
    "collect_rounds",
    "joint_facts",
    "non_private_embedding",
    "perturb",
    "predict_jointly",
    "private_embedding",
    "private_embeddings",
    "rehearse",
]

__getattr__, __dir__ = lazy.attach(
    __name__,
    {
        "embedding": "Embedding PublicRecord non_private_embedding perturb private_embedding private_embeddings",
        "jointly": "JointClasses JointPrivacy joint_facts predict_jointly",
        "rehearsal": "Rehearsal StatedFriends rehearse",
        "rounds": "RepeatedReports collect_rounds",
    },
    "links posterior reported",
)
