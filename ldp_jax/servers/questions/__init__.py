"""The questions of servers: numbers, vectors, classes, counts of neighbours, lists, pairs."""

from ldp_jax.servers.questions.classes import BothQuestion as BothQuestion
from ldp_jax.servers.questions.classes import ClassQuestion as ClassQuestion
from ldp_jax.servers.questions.counts import CountQuestion as CountQuestion
from ldp_jax.servers.questions.counts import count_cost as count_cost
from ldp_jax.servers.questions.lists import ListQuestion as ListQuestion
from ldp_jax.servers.questions.pairs import PairsQuestion as PairsQuestion
from ldp_jax.servers.questions.question import Answers as Answers
from ldp_jax.servers.questions.question import AnswersAll as AnswersAll
from ldp_jax.servers.questions.question import Ask as Ask
from ldp_jax.servers.questions.question import Asked as Asked
from ldp_jax.servers.questions.question import HasExact as HasExact
from ldp_jax.servers.questions.question import HasSizes as HasSizes
from ldp_jax.servers.questions.question import Noiseless as Noiseless
from ldp_jax.servers.questions.question import Question as Question
from ldp_jax.servers.questions.question import User as User

__all__ = [
    "Answers",
    "AnswersAll",
    "Ask",
    "Asked",
    "BothQuestion",
    "ClassQuestion",
    "CountQuestion",
    "HasExact",
    "HasSizes",
    "ListQuestion",
    "Noiseless",
    "PairsQuestion",
    "Question",
    "User",
    "count_cost",
]

__dir__ = lambda: __all__
