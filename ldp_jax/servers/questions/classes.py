"""Which class does the broadcast classifier find of your record, or of it and your friends?"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jaxtyping import Bool, Float, Int, Integer

from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.accounting.statement import RECORD_AND_LIST, Cost
from ldp_jax.core import validate
from ldp_jax.core.integer_tables import checked_epsilon
from ldp_jax.core.pytree import pytree, static
from ldp_jax.core.types import AnyArray, Array, PRNGKey
from ldp_jax.deployment import Alphabet, Classifier, Friends, Table
from ldp_jax.features import PersonalAlphabets
from ldp_jax.features.personal_alphabet import best_place
from ldp_jax.servers.parts.arrived import ReportRows, outputs_by_node
from ldp_jax.servers.parts.device_classifier import DeviceClassifier
from ldp_jax.servers.parts.records import PublicRecord, key_for
from ldp_jax.servers.parts.rows import DenseRows, Rows, feature_rows, of_length_one
from ldp_jax.servers.parts.self_training import FoldedLabels, label_evidence
from ldp_jax.servers.questions.question import Answers, User

_REPORT = 36  # bytes


@pytree
class ClassQuestion:
    """Classify your record, and report the best class of your own alphabet through its table.

    A record is read as a device reads it: NaN is 0, what is far is far, and its length is 1
    (:func:`~ldp_jax.servers.parts.rows.feature_rows`). An answer is a place in the alphabet.

    Attributes:
      classifier: broadcast; public.
      alphabets: of every user.
      asked: bool [n].
      epsilon: what the alphabets were chosen for.
      log_counts: whether devices take log(1 + x) of their records first; rows of simulated users
        have it already.
      noiseless: whether devices report the best of all classes as it is, for a ceiling.

    >>> classifier = DeviceClassifier(
    ...     jnp.eye(3), jnp.zeros(3), jnp.zeros((0, 3)), 1.0
    ... )
    >>> alphabets = PersonalAlphabets.of(2.0, [[0.8, 0.1, 0.1], [0.2, 0.4, 0.4]])
    >>> asked = ClassQuestion(classifier, alphabets, np.ones(2, bool), 2.0)
    >>> (
    ...     asked.shipped(1),
    ...     asked.upload_bytes(),
    ...     round(asked.cost().guarantee.epsilon, 6),
    ... )
    ((Classifier(3 features, 3 classes), Alphabet((1, 2, 0), epsilon 2)), 36, 2.0)
    """

    classifier: DeviceClassifier
    alphabets: PersonalAlphabets
    asked: Bool[AnyArray, " n"]
    epsilon: float
    log_counts: bool = static(default=False)
    noiseless: bool = static(default=False)

    @staticmethod
    def most(epsilon: float, num_classes: int) -> Cost:
        """The most that one answer costs, for a statement that is made before alphabets are chosen.

        ``ValueError`` for an epsilon outside (0, 20].

        >>> ClassQuestion.most(2.0, 3).guarantee.epsilon
        2.0
        """
        guarantee = Guarantee(
            checked_epsilon(epsilon),
            adjacency=f"any two of {num_classes} classes of one user",
            arithmetic="exact",
            status="proved",
            reason="alphabets come from public facts; no table of whole numbers loses more than "
            "its epsilon",
        )
        return Cost(guarantee)

    def cost(self) -> Cost:
        """The largest loss of the alphabets' tables, per record; infinite without noise."""
        guarantee = self.alphabets.guarantee()
        if self.noiseless:
            guarantee = dataclasses.replace(guarantee, epsilon=np.inf, status="none", reason="")
        return Cost(guarantee)

    # --- On devices ---

    def answer(self, key: PRNGKey, user: User) -> Int[Array, ""]:
        """The reported place of one user."""
        scores = self.classifier.scores(DenseRows(of_length_one(user.record)[None]))[0]
        return self.report(key, scores, user.own)

    def report(self, key: PRNGKey, scores: Float[Array, " classes"], own: Array) -> Int[Array, ""]:
        """The reported place of the user ``own``, whose device finds these scores."""
        order = jnp.asarray(self.alphabets.order)[own]
        level = jnp.asarray(self.alphabets.inner.level)[own]
        if self.noiseless:
            return best_place(scores, order, len(order))
        mine = self.alphabets.inner.at(level)
        return mine.privatize(key, best_place(scores, order, mine.counts[level]))

    def answer_all(self, key: PRNGKey, users: Any) -> Int[np.ndarray, " n"]:
        """The reported places of all users."""
        return self.reports(key_for(key, users.records), self.scores(users.records))

    def scores(self, records: Any) -> Float[Array, "n classes"]:
        """The classifier's scores of all users' records, dense, sparse or as rows."""
        if isinstance(records, PublicRecord):
            records = records.scaled_rows(0, records.num_nodes)
        if not isinstance(records, (Rows, DenseRows)):
            records = feature_rows(records, public=np.zeros(0, int))
        return self.classifier.scores(records)

    def reports(self, key: PRNGKey, scores: Float[AnyArray, "n classes"]) -> Int[np.ndarray, " n"]:
        """The reported places of users whose devices find these scores; user i has the i-th key."""
        if self.noiseless:
            return np.asarray(_best_of_all(jnp.asarray(scores), self.alphabets.order))
        return np.asarray(self.alphabets.privatize(key, self.alphabets.best(scores)))

    def exact(self) -> "ClassQuestion":
        """The best of all classes as it is; the law is that of a class that is never mistaken."""
        return dataclasses.replace(self, noiseless=True)

    # --- On the server ---

    @property
    def mask(self) -> Bool[np.ndarray, "n classes"]:
        """The classes that each device chooses among."""
        if self.noiseless:
            return np.ones(self.alphabets.order.shape, bool)
        return self.alphabets.mask

    def log_likelihoods(self, values: Int[AnyArray, " n"]) -> Float[AnyArray, "n classes"]:
        """log P(report i | class that the device of user i chose), of every class."""
        if self.noiseless:
            return label_evidence(self.alphabets.classes(values), self.alphabets.order.shape[1])
        return self.alphabets.log_likelihoods(values)

    def beside_panel(
        self, key: PRNGKey, answers: Answers, known: FoldedLabels
    ) -> tuple[Float[np.ndarray, "n classes"], Bool[np.ndarray, " n"]]:
        """The evidence of all reports, 0 of silent users, and the private users who reported.

        The panel, which is not asked, reports as private users do; the server draws its reports.
        """
        scores = np.zeros(self.alphabets.order.shape, np.float32)
        scores[known.nodes] = np.asarray(self.classifier.panel_scores)
        values = np.array(answers.values)
        values[known.nodes] = self.reports(key, scores)[known.nodes]
        asked = answers.reported & (known.labels < 0)
        said = np.array(self.log_likelihoods(values), np.float32)
        said[~asked & (known.labels < 0)] = 0.0
        return said, asked

    # --- On the wire ---

    def shipped(self, user: int) -> tuple[Classifier, Alphabet]:
        """The numbers that a user's device gets (:func:`ldp_jax.deployment.report_class`)."""
        weights = np.asarray(self.classifier.weights)
        bias = np.asarray(self.classifier.bias)
        level = int(np.asarray(self.alphabets.inner.level)[user])
        table = self.alphabets.inner.table(level)
        members = np.asarray(self.alphabets.order)[user][: table.outputs].tolist()
        epsilon = float(self.epsilon)
        return Classifier(weights, bias, log_counts=self.log_counts), Alphabet(
            members, epsilon, table
        )

    def forms(self) -> tuple[Table, ...]:
        """The tables of the alphabets, one a size."""
        return tuple(self._tables().values())

    def read(self, nodes: Integer[np.ndarray, " n"], rows: Sequence[ReportRows]) -> Answers:
        """The answers among the rows of one round, by the tables of the alphabets.

        Rows are left out that no device was asked for: of users who are no node or are not asked,
        by a table of another size than the user's alphabet, and, where rows have a ``field``, of
        any but 0. ``ValueError`` for rows of a table that no alphabet has, outputs that it does not
        have, or a user with two rows.
        """
        asked = np.asarray(self.asked)
        level = np.asarray(self.alphabets.inner.level)
        tables = {
            table.digest: (table, asked & (level == one)) for one, table in self._tables().items()
        }
        return Answers(*outputs_by_node(tables, np.asarray(nodes), rows))

    def _tables(self) -> dict[int, Table]:
        inner = self.alphabets.inner
        return {one: inner.table(one) for one in np.unique(np.asarray(inner.level)).tolist()}

    def download_bytes(self) -> int:
        """The classifier, and the largest alphabet with its table."""
        inner = self.alphabets.inner
        largest = int(np.asarray(inner.counts)[np.asarray(inner.level)].argmax())
        return sum(len(part.to_bytes()) for part in self.shipped(largest))

    def upload_bytes(self) -> int:
        """The same for everybody."""
        return _REPORT


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
    friends: Float[AnyArray, "n classes"]
    known: Bool[AnyArray, " n"]
    scores: Float[AnyArray, "n classes"]

    @property
    def asked(self) -> Bool[AnyArray, " n"]:
        """The users who are asked."""
        return self.of_record.asked

    def cost(self) -> Cost:
        """The epsilon of the report, per record and whole list together."""
        return self.both(self.of_record.cost())

    @staticmethod
    def both(of_class: Cost) -> Cost:
        """The cost of a report of record and whole list, from that of a class of the record."""
        guarantee = dataclasses.replace(
            of_class.guarantee,
            unit=RECORD_AND_LIST,
            adjacency="any two records and any two neighbour lists of one user",
            reason=f"the class is all that leaves a device; {of_class.guarantee.reason}",
        )
        return Cost(guarantee)

    def answer(self, key: PRNGKey, user: User) -> Int[Array, ""]:
        """The reported place of one user."""
        record = DenseRows(of_length_one(user.record)[None])
        own = self.of_record.classifier.scores(record)[0]
        is_known = jnp.asarray(self.known)[user.own]
        own = jnp.where(is_known, jnp.asarray(self.scores)[user.own], own)
        friends = jnp.asarray(self.friends).at[user.neighbours.ids].get(mode="fill", fill_value=0.0)
        return self.of_record.report(key, own + friends.sum(0), user.own)

    def answer_all(self, key: PRNGKey, users: Any) -> Int[np.ndarray, " n"]:
        """The reported places of all users."""
        own = np.asarray(self.of_record.scores(users.records))
        own = np.where(self.known[:, None], self.scores, own)
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

    def log_likelihoods(self, values: Int[AnyArray, " n"]) -> Float[AnyArray, "n classes"]:
        """log P(report i | class that the device of user i chose), of every class."""
        return self.of_record.log_likelihoods(values)

    # --- On the wire ---

    def shipped(self, user: int) -> tuple[Classifier, Alphabet, Friends]:
        """The message that a user's device gets (:func:`ldp_jax.deployment.report_class`).

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


@jax.jit
def _best_of_all(scores: Array, order: Array) -> Array:
    return jax.vmap(best_place, (0, 0, None))(scores, order, order.shape[1])
