r"""A device reports its own class, by a broadcast classifier and its user's candidate set.

The server broadcasts a classifier of public data. It sends each device the classes that public
facts make likeliest for its user (the candidate set), with a table. The device reports the place of
the best class within this set (:func:`report_class`), at the table's epsilon. The server may
broadcast what it knows of everybody as a friend, too: the best class is then that of the record and
the list together. In bytes (:mod:`ldp_jax.core.checksum`)::

    "ldp-classifier 3\n" | {"bias": [C], "layers": [[width, ...], ...], "log_counts": ...,
                         |  "unit_length": ..., "weights": [d, C]} "\n"
                         | weights and bias, then those of each layer, float32
    "ldp-alphabet 2\n"   | {"epsilon": ..., "members": [...]} "\n" | the table (Table.to_bytes)
    "ldp-friends 1\n"    | {"evidence": [n, C]} "\n" | the evidence of each node, float32

Seven classes of 1 433 features are 40 KB.
"""

import dataclasses
import operator
from collections.abc import Iterable, Sequence
from typing import SupportsIndex

import numpy as np

from ldp_jax.core.checksum import Header, Public
from ldp_jax.core.integer_tables import Table, checked_epsilon, frozen
from ldp_jax.core.list_ids import host_ids
from ldp_jax.core.rounding import digits_up
from ldp_jax.core.validate import require, whole
from ldp_jax.deployment.codecs import FieldReports
from ldp_jax.deployment.session import Session, as_numbers

_LOOSE = 0.99  # a table of this budget loses at least so much of it: whole numbers round down


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Classifier(Public):
    """Scores of classes that are linear in a record's features, or a small network.

    Public, of every device alike.

    Attributes:
      weights: float32 [d, C]; of a network [d, width].
      bias: float32 [C], or [width].
      log_counts: whether features are counts, of which log(1 + count) is taken first.
      unit_length: whether the record is then divided by its Euclidean length.
      layers: what follows in a network, weights and bias of each, after max(., 0), as
        :func:`ldp_jax.learning.models.dense_layers` gives them of a perceptron.

    >>> Classifier(np.eye(3, 2, dtype=np.float32), np.zeros(2, np.float32))
    Classifier(3 features, 2 classes)
    """

    weights: np.ndarray
    bias: np.ndarray
    log_counts: bool = False
    unit_length: bool = True
    layers: tuple[tuple[np.ndarray, np.ndarray], ...] = ()

    KIND, VERSION = "classifier", 3

    def __post_init__(self) -> None:
        layers = [
            (np.array(weights, np.float32), np.array(bias, np.float32))
            for weights, bias in ((self.weights, self.bias), *self.layers)
        ]
        width = len(layers[0][0]) if layers[0][0].ndim else 0
        fits = width > 0
        for weights, bias in layers:
            fits = fits and weights.shape == (width, bias.size) and bias.ndim == 1
            fits = fits and np.isfinite(weights).all() and np.isfinite(bias).all()
            width = bias.size
        shapes = [(weights.shape, bias.shape) for weights, bias in layers]
        rule = "weights must be [d, width] and bias [width], finite; layers must go on from there "
        require(fits and width >= 2, f"{rule}to C >= 2 classes, got {shapes}")
        for name in ("log_counts", "unit_length"):
            flag = getattr(self, name)
            is_flag = isinstance(flag, (bool, np.bool_))
            require(is_flag, f"{name} must be True or False", flag)
            self._keep(**{name: bool(flag)})
        (weights, bias), *pairs = ((frozen(weights), frozen(bias)) for weights, bias in layers)
        self._keep(weights=weights, bias=bias, layers=tuple(pairs))

    def __repr__(self) -> str:
        return f"Classifier({self.features} features, {self.classes} classes)"

    @property
    def features(self) -> int:
        """d, how many numbers a record has."""
        return self.weights.shape[0]

    @property
    def classes(self) -> int:
        """The number C of classes."""
        return len(self.layers[-1][1] if self.layers else self.bias)

    def scores(self, record: object) -> np.ndarray:
        """The score of each class, float32 [C]; numbers of any size are clipped, NaN is 0."""
        x = as_numbers(record)
        rule = f"record must be {self.features} numbers, as the classifier's, got shape {x.shape}"
        require(x.shape == (self.features,), rule)  # a dtype would say what the record holds
        # A warning or an error must not show the content of a record.
        with np.errstate(all="ignore"):
            x = np.nan_to_num(x.astype(np.float64), nan=0.0)
            if self.log_counts:
                x = np.log1p(np.maximum(x, 0.0))
            if self.unit_length:
                x = x / max(float(np.sqrt(x @ x)), 1e-30)
            made = x.astype(np.float32) @ self.weights + self.bias
            for weights, bias in self.layers:
                made = np.maximum(made, np.float32(0.0)) @ weights + bias
            return np.asarray(made)

    def _parts(self) -> tuple[Header, bytes]:
        header: Header = {
            "bias": self.bias.shape,
            "layers": [weights.shape for weights, _ in self.layers],
            "log_counts": self.log_counts,
            "unit_length": self.unit_length,
            "weights": self.weights.shape,
        }
        arrays = [array for layer in ((self.weights, self.bias), *self.layers) for array in layer]
        return header, b"".join(array.astype("<f4").tobytes() for array in arrays)

    @classmethod
    def _made(cls, header: Header, body: bytes) -> "Classifier":
        numbers = np.frombuffer(body, "<f4")
        pairs = []
        for rows, columns in [header["weights"], *header["layers"]]:
            size = operator.index(rows) * operator.index(columns)
            weights, bias, numbers = np.split(numbers, [size, size + columns])
            pairs.append((weights.reshape(rows, columns), bias))
        left = 4 * len(numbers)
        require(not left, f"{left} bytes of arrays more than were announced")
        return cls(*pairs[0], header["log_counts"], header["unit_length"], layers=tuple(pairs[1:]))


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Alphabet(Public):
    """The classes that one device may report, and the table that it reports with.

    Public, the user's own.

    Attributes:
      members: the classes, the likeliest first, as a tuple; as :func:`ldp_jax.deployment.alphabets`
        chose them.
      epsilon: the budget that they were chosen for.
      table: of as many outputs (:func:`ldp_jax.deployment.alphabet_table`), on all classes by their
        place.

    >>> from ldp_jax.deployment import alphabet_table
    >>> Alphabet((4, 0), 1.0, alphabet_table(1.0, 2, 5))
    Alphabet((4, 0), epsilon 1)
    >>> Alphabet((4, 0), 1.0, alphabet_table(2.0, 2, 5))
    Traceback (most recent call last):
    ValueError: table must be one of epsilon 1, for which the alphabet was chosen; its masses lose 2
    """

    members: Sequence[int] | np.ndarray
    epsilon: float
    table: Table

    KIND, VERSION = "alphabet", 2

    def __post_init__(self) -> None:
        members = tuple(operator.index(member) for member in self.members)
        self._keep(members=members, epsilon=checked_epsilon(self.epsilon))
        table = self.table
        known = set(members) & set(range(table.inputs))
        fits = table.encoding == "category" and table.outputs == len(members) == len(known)
        rule = f"members must be distinct classes below {table.inputs}, as many as outputs of a "
        require(fits, f"{rule}table on categories, got {members} and {table}")
        coarse = len(members) ** 2 / 2**32
        near = _LOOSE * self.epsilon - coarse <= table.epsilon <= self.epsilon
        rule = f"table must be one of epsilon {self.epsilon:g}, for which the alphabet was chosen;"
        require(near, f"{rule} its masses lose {table.epsilon:.6g}")

    def __repr__(self) -> str:
        return f"Alphabet({self.members}, epsilon {digits_up(self.epsilon)})"

    @property
    def classes(self) -> int:
        """How many classes there are, members or not."""
        return self.table.inputs

    def place(self, scores: np.ndarray) -> int:
        """The place of the member of the best score.

        NaN is the worst, and of equals the first member wins.
        """
        held = np.asarray(scores)[list(self.members)]
        return int(np.argmax(np.where(np.isnan(held), -np.inf, held)))

    def _parts(self) -> tuple[Header, bytes]:
        return {"epsilon": self.epsilon, "members": self.members}, self.table.to_bytes()

    @classmethod
    def _made(cls, header: Header, body: bytes) -> "Alphabet":
        return cls(tuple(header["members"]), header["epsilon"], Table.from_bytes(body))


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Friends(Public):
    """The public scores that each node adds to its friends' classes, the same for everybody.

    Attributes:
      evidence: float32 [n, C], finite: by how much a friend raises the score of each class; 0 of
        nodes of which nothing is known.

    >>> friends = Friends(np.float32([[0, 0], [0, 1], [2, -1]]))
    >>> friends, friends.scores([1, 2, 2, 7, "x"], user=0).tolist()
    (Friends(3 nodes, 2 classes), [2.0, 0.0])
    """

    evidence: np.ndarray

    KIND, VERSION = "friends", 1

    def __post_init__(self) -> None:
        evidence = np.array(self.evidence, np.float32)
        fits = evidence.ndim == 2 and len(evidence) and evidence.shape[1] > 1
        rule = "evidence must be finite numbers [n, C], of at least one node and two classes"
        require(fits and np.isfinite(evidence).all(), rule, evidence.shape)
        self._keep(evidence=frozen(evidence))

    def __repr__(self) -> str:
        return f"Friends({len(self.evidence)} nodes, {self.classes} classes)"

    @property
    def classes(self) -> int:
        """The number C of classes."""
        return self.evidence.shape[1]

    def scores(self, neighbours: Iterable[object], *, user: int) -> np.ndarray:
        """The sum of the neighbours' evidence, [C]; what is no id of another node is dropped."""
        n = len(self.evidence)
        known = np.unique(host_ids(neighbours, n))
        known = known[(known < n) & (known != user)]
        return self.evidence[known].sum(0, dtype=np.float64)

    def _parts(self) -> tuple[Header, bytes]:
        return {"evidence": self.evidence.shape}, self.evidence.astype("<f4").tobytes()

    @classmethod
    def _made(cls, header: Header, body: bytes) -> "Friends":
        return cls(np.frombuffer(body, "<f4").reshape(header["evidence"]))


def report_class(
    session: Session,
    classifier: Classifier,
    alphabet: Alphabet,
    record: object,
    *,
    user: SupportsIndex,
    round: SupportsIndex,
    friends: Friends | None = None,
    neighbours: Iterable[object] = (),
    lists: Session | None = None,
) -> bytes:
    """Classify a record on the device, and report the best class of the user's candidate set.

    With ``friends`` the class is that of the record and of the user's ``neighbours`` together, and
    ``user`` is the number of a node. The report costs the table's epsilon whatever differs in the
    record and in the whole list. The session's budget of records pays it, and so does that of
    ``lists``, the device's session of neighbour lists: give it where there is one, and store the
    memory of both.

    The 36 bytes are read with ``decode(data, alphabet.table)``: outputs are places among the
    members. ``ValueError`` where classifier, alphabet and friends are about different numbers of
    classes, the record has another length, friends are of fewer nodes, or ``lists`` is no session
    of this device's lists or is given without friends; and as :meth:`Session.report`. Nothing is
    spent then, and no error says what a record or list holds.

    >>> from ldp_jax.deployment import Device, Session, alphabet_table, decode
    >>> classifier = Classifier(
    ...     np.eye(3, dtype=np.float32), np.zeros(3, np.float32)
    ... )
    >>> alphabet = Alphabet((2, 0), 1.5, alphabet_table(1.5, 2, 3))
    >>> session = Session(Device.new(), budget=1.5)
    >>> sent = report_class(
    ...     session, classifier, alphabet, [0.1, 0.9, 0.4], user=1, round=0
    ... )
    >>> alphabet.members[decode(sent, alphabet.table).output[0]] in (2, 0)
    True
    """
    rule = f"classifier has {classifier.classes} classes, and alphabet is of {alphabet.classes}"
    require(classifier.classes == alphabet.classes, rule)
    require(lists is None or friends is not None, "lists must be None where no list is read")
    if friends is not None:
        rule = f"friends must be of {alphabet.classes} classes, as the alphabet is"
        require(friends.classes == alphabet.classes, rule, friends)
        user = whole(0, len(friends.evidence) - 1, user=user)

    def place() -> np.ndarray:
        scores = classifier.scores(record)
        if friends is not None:
            told = scores + friends.scores(neighbours, user=operator.index(user))
            scores = told.astype(np.float32)
        return as_numbers([alphabet.place(scores)])

    return session._release(FieldReports(alphabet.table), [0], place, user, round, lists=lists)
