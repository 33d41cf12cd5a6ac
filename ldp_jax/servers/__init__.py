"""Protocols: servers that ask, users who answer, and one driver that computes what it costs.

* :func:`simulate` runs a server on simulated users, and states the guarantee;
* :class:`Users` hold private data: the only door to them;
* questions: :class:`Ask` a mechanism, :class:`ClassQuestion`, :class:`CountQuestion`;
* servers: :class:`ReportServer`, :class:`LabelServer`, :class:`LabelledReportServer`, :class:`CountServer`, and the
  smallest one, :class:`Share`;
* in one call: :func:`predict_from_reports`, :func:`predict_from_counts`; :func:`classify_reports` and
  :func:`classify_counts` of what devices sent.
"""

from typing import TYPE_CHECKING

from ldp_jax.core import lazy

if TYPE_CHECKING:
    from ldp_jax.servers.counts import (
        CountedClasses,
        CountServer,
        classify_counts,
        count_facts,
        predict_from_counts,
    )
    from ldp_jax.servers.driver import Released, Server, simulate
    from ldp_jax.servers.from_reports import PredictedClasses, classify_reports, predict_from_reports
    from ldp_jax.servers.labels import LabelledReportServer, LabelServer
    from ldp_jax.servers.questions import Answers, Ask, ClassQuestion, CountQuestion, Question, User
    from ldp_jax.servers.questions.counts import count_cost
    from ldp_jax.servers.reports import PanelFacts, ReportServer, panel_facts
    from ldp_jax.servers.share import Share
    from ldp_jax.servers.stored import StoredRows
    from ldp_jax.servers.users import ScoredUsers, Users

__all__ = [
    "Answers",
    "Ask",
    "ClassQuestion",
    "CountQuestion",
    "CountServer",
    "CountedClasses",
    "LabelServer",
    "LabelledReportServer",
    "PanelFacts",
    "PredictedClasses",
    "Question",
    "Released",
    "ReportServer",
    "ScoredUsers",
    "Server",
    "Share",
    "StoredRows",
    "User",
    "Users",
    "classify_counts",
    "classify_reports",
    "count_cost",
    "count_facts",
    "panel_facts",
    "predict_from_counts",
    "predict_from_reports",
    "simulate",
]

__getattr__, __dir__ = lazy.attach(
    __name__,
    {
        "questions": "Answers Ask ClassQuestion CountQuestion Question User",
        "questions.counts": "count_cost",
        "share": "Share",
        "counts": "CountServer CountedClasses classify_counts count_facts predict_from_counts",
        "driver": "Released Server simulate",
        "from_reports": "PredictedClasses classify_reports predict_from_reports",
        "labels": "LabelServer LabelledReportServer",
        "reports": "PanelFacts ReportServer panel_facts",
        "stored": "StoredRows",
        "users": "ScoredUsers Users",
    },
    "parts",
)
