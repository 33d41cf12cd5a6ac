"""Protocols: servers that ask, users who answer, and one driver that computes what it costs.

* :func:`simulate` runs a server on simulated users, and states the guarantee before the first
  question;
* :class:`Users` hold private data: the only door to them; :class:`StoredUsers` and
  :class:`DeviceUsers` answer by their devices;
* questions: :class:`Ask` a mechanism, :class:`ClassQuestion`, :class:`CountQuestion`,
  :class:`ListQuestion`;
* servers: :class:`EmbeddingServer`, :class:`ReportServer`, :class:`LabelServer`,
  :class:`LabelledReportServer`, :class:`CountServer`, :class:`JointServer`, :class:`ListServer`,
  :class:`LinkServer`, :class:`RoundsServer`, and the smallest one, :class:`Share`;
* servers of published protocols: :class:`LDPGenServer`, :class:`TriangleServer`,
  :class:`StarServer`;
* in one call: :func:`private_embedding` - private features, public graph;
  :func:`predict_from_reports` - private features, public graph and panel;
  :func:`predict_from_counts` - public features, private graph; :func:`predict_jointly` - private
  features and graph, public panel; :func:`privatize_graph` - a private graph, released;
* :func:`rehearse` - what each of these will bring, before anybody reports;
* :func:`serve` - any server of real devices: its state is in a store, and survives kills;
* ``estimators`` - all this in scikit-learn's manner; ``parts`` - the pure functions that servers
  are made of.
"""

from typing import TYPE_CHECKING

from ldp_jax.core import lazy

if TYPE_CHECKING:
    from ldp_jax.servers.counts import CountServer
    from ldp_jax.servers.driver import Released, Server, simulate
    from ldp_jax.servers.embedding import (
        Embedding,
        EmbeddingServer,
        non_private_embedding,
        private_embedding,
        private_embeddings,
        propagate,
        propagate_blocks,
    )
    from ldp_jax.servers.facts.counts import count_facts
    from ldp_jax.servers.facts.joint import joint_facts
    from ldp_jax.servers.facts.panel import PanelFacts, panel_facts
    from ldp_jax.servers.from_both import JointClasses, predict_jointly
    from ldp_jax.servers.from_counts import CountedClasses, predict_from_counts
    from ldp_jax.servers.from_reports import PredictedClasses, predict_from_reports
    from ldp_jax.servers.joint import JointServer
    from ldp_jax.servers.joint_privacy import JointPrivacy
    from ldp_jax.servers.labels import LabelledReportServer, LabelServer
    from ldp_jax.servers.ldpgen import LDPGenServer, SyntheticGraph
    from ldp_jax.servers.links import LinkServer
    from ldp_jax.servers.lists import ListServer, privatize_graph
    from ldp_jax.servers.parts.records import PublicRecord, perturb
    from ldp_jax.servers.parts.rows import feature_rows
    from ldp_jax.servers.questions import (
        Answers,
        Ask,
        ClassQuestion,
        CountQuestion,
        ListQuestion,
        Question,
        User,
    )
    from ldp_jax.servers.questions.counts import count_cost
    from ldp_jax.servers.rehearsal import Rehearsal, StatedFriends, rehearse
    from ldp_jax.servers.reports import ReportServer
    from ldp_jax.servers.rounds import RoundsServer
    from ldp_jax.servers.serving import Service, serve
    from ldp_jax.servers.share import Share
    from ldp_jax.servers.stars import StarServer, SubgraphCount
    from ldp_jax.servers.stored import DeviceUsers, StoredUsers
    from ldp_jax.servers.triangles import TriangleServer
    from ldp_jax.servers.users import Users
    from ldp_jax.servers.worlds.stated import StatedUsers

__all__ = [
    "Answers",
    "Ask",
    "ClassQuestion",
    "CountQuestion",
    "CountServer",
    "CountedClasses",
    "DeviceUsers",
    "Embedding",
    "EmbeddingServer",
    "JointClasses",
    "JointPrivacy",
    "JointServer",
    "LDPGenServer",
    "LabelServer",
    "LabelledReportServer",
    "LinkServer",
    "ListQuestion",
    "ListServer",
    "PanelFacts",
    "PredictedClasses",
    "PublicRecord",
    "Question",
    "Rehearsal",
    "Released",
    "ReportServer",
    "RoundsServer",
    "Server",
    "Service",
    "Share",
    "StarServer",
    "StatedFriends",
    "StatedUsers",
    "StoredUsers",
    "SubgraphCount",
    "SyntheticGraph",
    "TriangleServer",
    "User",
    "Users",
    "count_cost",
    "count_facts",
    "feature_rows",
    "joint_facts",
    "non_private_embedding",
    "panel_facts",
    "perturb",
    "predict_from_counts",
    "predict_from_reports",
    "predict_jointly",
    "private_embedding",
    "private_embeddings",
    "privatize_graph",
    "propagate",
    "propagate_blocks",
    "rehearse",
    "serve",
    "simulate",
]

__getattr__, __dir__ = lazy.attach(
    __name__,
    {
        "questions": "Answers Ask ClassQuestion CountQuestion ListQuestion Question User",
        "questions.counts": "count_cost",
        "serving": "Service serve",
        "share": "Share",
        "counts": "CountServer",
        "facts.counts": "count_facts",
        "facts.joint": "joint_facts",
        "facts.panel": "PanelFacts panel_facts",
        "from_both": "JointClasses predict_jointly",
        "from_counts": "CountedClasses predict_from_counts",
        "driver": "Released Server simulate",
        "embedding": "Embedding EmbeddingServer non_private_embedding private_embedding"
        " private_embeddings propagate propagate_blocks",
        "from_reports": "PredictedClasses predict_from_reports",
        "joint": "JointServer",
        "joint_privacy": "JointPrivacy",
        "labels": "LabelServer LabelledReportServer",
        "ldpgen": "LDPGenServer SyntheticGraph",
        "links": "LinkServer",
        "lists": "ListServer privatize_graph",
        "parts.records": "PublicRecord perturb",
        "parts.rows": "feature_rows",
        "rehearsal": "Rehearsal StatedFriends rehearse",
        "worlds.stated": "StatedUsers",
        "rounds": "RoundsServer",
        "reports": "ReportServer",
        "stars": "StarServer SubgraphCount",
        "triangles": "TriangleServer",
        "stored": "DeviceUsers StoredUsers",
        "users": "Users",
    },
    "estimators links parts saved",
)
