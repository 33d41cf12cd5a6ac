"""A protocol of somebody new: a third reports a class, and the others count friends by it."""

import dataclasses
from typing import Any

import jax
import numpy as np

from ldp_jax.accounting.statement import Statement
from ldp_jax.core.pytree import pytree
from ldp_jax.features import GeneralizedRR
from ldp_jax.servers import Ask, CountQuestion

CLASSES = 3


@pytree
class Classes:
    question: Ask


@pytree
class Counts:
    question: CountQuestion
    classes: Any


@dataclasses.dataclass(frozen=True, eq=False)
class ClassesThenCounts:
    """Of ``num_users`` users; with ``owners`` each pair has one end that counts it."""

    num_users: int
    epsilon: float
    owners: Any = None

    def statement(self):
        everybody = np.ones(self.num_users, bool)
        nowhere = np.zeros(self.num_users, int)
        of_class = self.of_class(everybody).cost()
        return Statement.of([of_class], [self.counted(nowhere, everybody).cost()])

    def init(self, key):
        order = np.asarray(jax.random.permutation(key, self.num_users))
        return Classes(self.of_class(order < self.num_users // 3))

    def step(self, state, answers):
        if isinstance(state, Counts):
            return np.where(answers.reported, answers.values.argmax(1), np.asarray(state.classes))
        groups = np.where(answers.reported, answers.values, -1)
        question = self.counted(groups, ~np.asarray(state.question.asked))
        return Counts(question, groups)

    def of_class(self, asked):
        return Ask(GeneralizedRR(self.epsilon, CLASSES), asked, of="label")

    def counted(self, groups, asked):
        return CountQuestion(groups, asked, self.owners, num_groups=CLASSES, epsilon=self.epsilon)
