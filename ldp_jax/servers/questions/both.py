"""Which class do your record and your friends speak for, together?"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jaxtyping import Bool, Float, Int, Integer

from ldp_jax.accounting.statement import RECORD_AND_LIST, Cost
from ldp_jax.core import validate
from ldp_jax.core.pytree import pytree
from ldp_jax.core.types import Array, PRNGKey
from ldp_jax.deployment import Alphabet, Classifier, Friends, Table
from ldp_jax.servers.parts.arrived import ReportRows
from ldp_jax.servers.parts.rows import DenseRows, Rows, as_rows, of_length_one
from ldp_jax.servers.questions.classes import ClassQuestion
from ldp_jax.servers.questions.question import Answers, User


@pytree
class BothQuestion:
    """Ask for the best class by the record and by what the server broadcasts of friends.

    The class is all that leaves a device, so a report costs its epsilon whatever differs in the
    record and in the whole list.

    Attributes:
      of_record: the question about the record alone, whose classifier and alphabets are used.
      friends: float32 [n, C], the public evidence of each user as a friend; 0 where nobody knows.
      known: bool [n], members of the panel, whose records are public.
      scores: float32 [n, C], of their records, by models that have not seen them.
    """

    of_record: ClassQuestion
    friends: Float[Array | np.ndarray, "n classes"]
    known: Bool[Array | np.ndarray, " n"]
    scores: Float[Array | np.ndarray, "n classes"]

    @property
    def asked(self) -> Bool[Array | np.ndarray, " n"]:
        """The users who are asked."""
        return self.of_record.asked

    def cost(self) -> Cost:
        """The epsilon of the report, per record and whole list together."""
        return both_cost(self.of_record.cost())

    def answer(self, key: PRNGKey, user: User) -> Int[Array, ""]:
        """The reported place of one user."""
        own = self.of_record.classifier.scores(DenseRows(of_length_one(user.record)[None]))[0]
        own = jnp.where(jnp.asarray(self.known)[user.own], jnp.asarray(self.scores)[user.own], own)
        friends = jnp.asarray(self.friends).at[user.neighbours.ids].get(mode="fill", fill_value=0.0)
        return self.of_record.report(key, own + friends.sum(0), user.own)

    def answer_all(self, key: PRNGKey, users: Any) -> Int[np.ndarray, " n"]:
        """The reported places of all users."""
        records = (
            users.records
            if isinstance(users.records, (Rows, DenseRows))
            else as_rows(users.records)
        )
        own = np.where(
            self.known[:, None], self.scores, np.asarray(self.of_record.classifier.scores(records))
        )
        return self.reports(key, own, users.lists.receivers, users.lists.senders)

    def reports(
        self,
        key: PRNGKey,
        scores: Float[np.ndarray, "n classes"],
        owners: np.ndarray,
        friends: np.ndarray,
    ) -> Int[np.ndarray, " n"]:
        """The reported places of users with these scores and these entries (owner, friend)."""
        n = len(scores)
        entries = np.ones(len(owners))
        neighbours = scipy.sparse.csr_array((entries, (owners, friends)), (n, n))
        told = neighbours @ np.asarray(self.friends, np.float64)
        return self.of_record.reports(key, (scores + told).astype(np.float32))

    def exact(self) -> "BothQuestion":
        """The best of all classes as it is."""
        return dataclasses.replace(self, of_record=self.of_record.exact())

    def log_likelihoods(
        self, values: Int[Array | np.ndarray, " n"]
    ) -> Float[Array | np.ndarray, "n classes"]:
        """log P(report i | class that the device of user i chose), of every class."""
        return self.of_record.log_likelihoods(values)

    # --- On the wire ---

    def shipped(self, user: int) -> tuple[Classifier, Alphabet, Friends]:
        """What a user's device gets (:func:`ldp_jax.deployment.report_class`).

        A member of the panel gets the scores of models that have not seen the record, whatever the
        record is.
        """
        classifier, alphabet = self.of_record.shipped(user)
        if self.known[user]:
            nothing = np.zeros_like(classifier.weights)
            of_others = np.asarray(self.scores)[user]
            classifier = dataclasses.replace(classifier, weights=nothing, bias=of_others)
        return classifier, alphabet, Friends(np.asarray(self.friends))

    def forms(self) -> tuple[Table, ...]:
        """The tables of the alphabets, one a size."""
        return self.of_record.forms()

    def read(self, nodes: Integer[np.ndarray, " n"], rows: Sequence[ReportRows]) -> Answers:
        """The answers among the rows of one round, as :meth:`ClassQuestion.read` finds them.

        ``ValueError`` for users who are not numbered as nodes, whom their neighbours' lists name.
        """
        n = len(self.known)
        rule = f"nodes must be 0 to {n - 1}, since neighbours' lists name users by them"
        validate.require(np.array_equal(nodes, np.arange(n)), rule)
        return self.of_record.read(nodes, rows)

    def download_bytes(self) -> int:
        """The classifier, the largest alphabet with its table, and what is known of friends."""
        friends = Friends(np.asarray(self.friends))
        return self.of_record.download_bytes() + len(friends.to_bytes())

    def upload_bytes(self) -> int:
        """The same for everybody."""
        return self.of_record.upload_bytes()


def both_cost(of_class: Cost) -> Cost:
    """The cost of a report of the record and the whole list, from that of a class of the record."""
    guarantee = dataclasses.replace(
        of_class.guarantee,
        unit=RECORD_AND_LIST,
        adjacency="any two records and any two neighbour lists of one user",
        reason=f"the class is all that leaves a device; {of_class.guarantee.reason}",
    )
    return Cost(guarantee)
