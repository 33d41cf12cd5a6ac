"""Protocols: servers that ask, users who answer, and one driver that computes what it costs.

* :func:`simulate` runs a server on simulated users, and states the guarantee;
* :class:`Users` hold private data: the only door to them;
* questions: :class:`Ask` a mechanism, :class:`CountQuestion`;
* servers: :class:`CountServer`, and the smallest one, :class:`Share`;
* in one call: :func:`predict_from_counts`.
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
    from ldp_jax.servers.questions import Answers, Ask, CountQuestion, Question, User
    from ldp_jax.servers.questions.counts import count_cost
    from ldp_jax.servers.share import Share
    from ldp_jax.servers.users import Users

__all__ = [
    "Answers",
    "Ask",
    "CountQuestion",
    "CountServer",
    "CountedClasses",
    "Question",
    "Released",
    "Server",
    "Share",
    "User",
    "Users",
    "classify_counts",
    "count_cost",
    "count_facts",
    "predict_from_counts",
    "simulate",
]

__getattr__, __dir__ = lazy.attach(
    __name__,
    {
        "questions": "Answers Ask CountQuestion Question User",
        "questions.counts": "count_cost",
        "share": "Share",
        "counts": "CountServer CountedClasses classify_counts count_facts predict_from_counts",
        "driver": "Released Server simulate",
        "users": "Users",
    },
    "parts",
)
