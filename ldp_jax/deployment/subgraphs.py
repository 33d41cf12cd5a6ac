r"""A server's questions to users: how many stars, or triangles, do you count?

A user finds a number x, which one bit of the list moves by at most D, a whole number. With
:math:`s = \lceil 16 \epsilon \rceil` the device takes :math:`x s / D`, rounds it to a whole number
by a random word, and adds discrete Laplace noise of rate :math:`\epsilon / s`. A bit moves the
rounded number by at most s, whatever the word is: rounding keeps the order of numbers, and a shift
by s. The mean is x. The variance is above that of Laplace noise of scale :math:`D / \epsilon` by
less than 0.1 %. The report is the rounded number less a public one, so that it is never below 0
without noise. In bytes (:mod:`ldp_jax.core.checksum`)::

    "ldp-stars 1\n"     | {"bound": d, "epsilon": ..., "k": ..., "num_nodes": n,
                        |  "round": ...} "\n"
    "ldp-triangles 1\n" | {"bound": d, "epsilon": ..., "flips": ..., "num_nodes": n,
                        |  "round": ...} "\n"
                        | the noisy bits of each node's pairs, ceil(n / 32) numbers a node, as in a
                        |  report about pairs (:mod:`ldp_jax.deployment.pairs`)
                        | whether the bits of each node are known, a bit each, the first node's in
                        |  the highest bit; padded by 0
                        | ranks and silent nodes, as in a question of counts
                        |  (:mod:`ldp_jax.deployment.question`)

Both ends of a pair count its stars. Where triangles are counted, one end reports each pair. Noise
flips a bit with probability flips / 2^32.
"""

import abc
import dataclasses
import math
from fractions import Fraction
from functools import cached_property

import numpy as np

from ldp_jax.core.checksum import Header
from ldp_jax.core.integer_tables import WORDS, frozen
from ldp_jax.core.ownership import Ownership
from ldp_jax.core.rounding import digits_up, share
from ldp_jax.core.validate import mask, number, require, whole
from ldp_jax.core.whole_noise import MAX_EPSILON, MAX_REACH, WholeNoise, whole_noise
from ldp_jax.deployment.device import Device
from ldp_jax.deployment.neighbours import (
    MAX_NUMBERS,
    NeighbourQuestion,
    owners_from_bytes,
    owners_to_bytes,
    ranked,
)
from ldp_jax.deployment.pairs import bits_of
from ldp_jax.deployment.wire import checked_round

_FINE = 16  # steps of a rounded number, for each unit of 1 / epsilon


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Subgraphs(NeighbourQuestion):
    """One round of numbers of subgraphs; public, and the same for everybody; abstract.

    Attributes:
      round: which round, an integer in [0, 2^32).
      bound: d, the number of friends who are counted at most.
      epsilon: of the number, in (0, 40]. A report's loss is found from the noise's integers.
    """

    bound: int
    epsilon: float

    @property
    @abc.abstractmethod
    def most_moved(self) -> int:
        """D, the most that one bit of a list moves the number."""

    @property
    @abc.abstractmethod
    def ends(self) -> tuple[Fraction, Fraction]:
        """The smallest and the largest number that a list can give."""

    @abc.abstractmethod
    def counted(self, device: Device, known: np.ndarray, user: int) -> Fraction:
        """The number itself, of a user with these neighbours."""

    def _check(self, n: int, least: int) -> None:
        """Check what all such questions have, for n nodes."""
        self._keep(
            round=checked_round(self.round),
            bound=whole(least, n, bound=self.bound),
            epsilon=number(0.0, MAX_EPSILON, open_lower=True, epsilon=self.epsilon),
        )

    def __repr__(self) -> str:
        what = f"{self.num_nodes} nodes, at most {self.bound} friends"
        epsilon = digits_up(self.epsilon)
        return f"{type(self).__name__}(round {self.round}: {what}, epsilon {epsilon} a report)"

    @property
    def numbers(self) -> int:
        """One number."""
        return 1

    @property
    def steps(self) -> int:
        """s, by how much one bit of a list moves the rounded number at most."""
        return math.ceil(_FINE * self.epsilon)

    def _rounded(self, count: Fraction, word: int) -> int:
        return math.floor(count * Fraction(self.steps, self.most_moved) + Fraction(word, WORDS))

    @property
    def _zero(self) -> int:
        """The rounded number that is reported as 0."""
        return self._rounded(self.ends[0], 0)

    @property
    def noise(self) -> WholeNoise:
        """The noise of the rounded number; ValueError where it would reach beyond 2^20."""
        most = self._rounded(self.ends[1], WORDS) - self._zero
        require(
            most < MAX_REACH,
            f"bound must be smaller, or epsilon: at epsilon {self.epsilon:g} the number of a list "
            f"with {self.bound} friends is rounded to {most} steps, more than {MAX_REACH}",
        )
        return whole_noise(share(self.epsilon, self.steps), most)

    @cached_property
    def loss(self) -> Fraction:
        """The largest ratio of the noise's masses that are s apart."""
        return self.noise.ratio_over(self.steps)

    @property
    def why(self) -> str:
        """Why the loss holds."""
        return f"a bit moves a rounded number by at most {self.steps}, whatever rounds it"

    def report(self, device: Device, known: np.ndarray, user: int) -> np.ndarray:
        """The rounded number with noise, int32 [1]."""
        words = device.count_words(self.digest, 2, user=user, round=self.round)
        count = self.counted(device, known, user)
        return self.noise.report(
            words[:, :1], [self._rounded(count, int(words[0, 1])) - self._zero]
        )

    def possible(self, user: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Whether noise can give these numbers [m, 1]."""
        return self.noise.possible(numbers)

    def estimate(self, output: np.ndarray) -> np.ndarray:
        """The numbers that were reported, unbiased; float32 [m, 1]."""
        exact = (output.astype(float) + self._zero) * self.most_moved / self.steps
        return exact.astype(np.float32)

    @property
    def _header(self) -> Header:
        return {name: getattr(self, name) for name in ("bound", "epsilon", "round")}


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Stars(Subgraphs):
    """How many k-stars have you the centre of, with at most d friends?

    A report is 36 bytes.

    Attributes:
      nodes: n, how many there are in the graph.
      k: the number of friends in a star, at least 2 and at most d.

    >>> asked = Stars(0, bound=5, epsilon=1.0, nodes=70)
    >>> asked
    Stars(round 0: 70 nodes, at most 5 friends, epsilon 1 a report)
    >>> asked.most_moved, round(asked.relationship().epsilon, 6)
    (4, 2.0)
    """

    nodes: int
    k: int = 2

    KIND = "stars"
    VERSION = 1

    def __post_init__(self) -> None:
        self._keep(nodes=whole(1, WORDS - 1, nodes=self.nodes), k=whole(2, k=self.k))
        self._check(self.nodes, self.k)

    @property
    def num_nodes(self) -> int:
        """The nodes n of the graph; users are among them."""
        return self.nodes

    @property
    def owners(self) -> None:
        """Both ends of a pair count its stars."""

    @property
    def most_moved(self) -> int:
        """The stars that the last of d friends adds."""
        return math.comb(self.bound - 1, self.k - 1)

    @property
    def ends(self) -> tuple[Fraction, Fraction]:
        """Nothing, and the stars of d friends."""
        return Fraction(0), Fraction(math.comb(self.bound, self.k))

    def counted(self, device: Device, known: np.ndarray, user: int) -> Fraction:
        """The stars of as many friends as there are, or of d."""
        return Fraction(math.comb(min(len(known), self.bound), self.k))

    def _parts(self) -> tuple[Header, bytes]:
        return {**self._header, "k": self.k, "num_nodes": self.nodes}, b""

    @classmethod
    def _made(cls, header: Header, body: bytes) -> "Stars":
        n = header.pop("num_nodes")
        owners_from_bytes(body, n, owned=False)
        return cls(nodes=n, **header)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Triangles(Subgraphs):
    r"""How many of your friends' pairs are linked, less those that noise lets expect?

    A user keeps d owned friends N, those of the smallest random words, and counts
    :math:`\sum (b - p)` over the pairs of N whose owner's bit b is known. A report is 36 bytes.

    Attributes:
      linked: int32 [n, ceil(n / 32)], decoded reports of a question about pairs by the same owners;
        bits of pairs that a node does not own are not read.
      known: bool [n], the nodes whose bits these are.
      flips: 2^32 p, with p the probability that noise flipped a bit; at most 2^31.
      owners: the rule by which one end of each pair reports it
        (:func:`ldp_jax.deployment.ownership`).

    >>> from ldp_jax.deployment import ownership
    >>> nothing = np.zeros((40, 2), np.int32)
    >>> everybody = np.ones(40, bool)
    >>> lower = ownership(np.arange(40))
    >>> asked = Triangles(0, 5, 1.0, nothing, everybody, flips=2**30, owners=lower)
    >>> asked
    Triangles(round 0: 40 nodes, at most 5 friends, epsilon 1 a report)
    >>> asked.most_moved, round(asked.relationship().epsilon, 6)
    (4, 1.0)
    """

    linked: np.ndarray
    known: np.ndarray
    flips: int
    owners: Ownership | None = None  # pyrefly: ignore[bad-override]

    KIND = "triangles"
    VERSION = 1

    def __post_init__(self) -> None:
        linked = np.asarray(self.linked)
        n = len(linked) if linked.ndim else 0
        shape = (whole(2, 32 * MAX_NUMBERS, num_nodes=n), -(-n // 32))
        fits = linked.shape == shape and linked.dtype in (np.dtype("<i4"), np.dtype("<u4"))
        require(fits, f"linked must be words [n, ceil(n / 32)] of 32 bits, here {shape}", linked)
        self._check(n, 2)
        require(self.owners is not None, "owners must name the end that reports a pair")
        self._keep(
            linked=frozen(linked.view("<i4")),
            known=frozen(mask(n, known=self.known)),
            flips=whole(0, WORDS // 2, flips=self.flips),
            owners=ranked(self.owners, n),
        )

    @property
    def num_nodes(self) -> int:
        """The nodes n of the graph; users are among them."""
        return len(self.linked)

    @property
    def most_moved(self) -> int:
        """A friend who takes another one's place has other links to d - 1."""
        return self.bound - 1

    @property
    def ends(self) -> tuple[Fraction, Fraction]:
        """No pair of d friends is linked, or each one."""
        flip = Fraction(self.flips, WORDS)
        pairs = math.comb(self.bound, 2)
        return -flip * pairs, (1 - flip) * pairs

    def counted(self, device: Device, known: np.ndarray, user: int) -> Fraction:
        """The links among d friends, less p for each of their pairs."""
        words = device.bit_words(self.digest, self.num_nodes, user=user, round=self.round)
        kept = known[np.argsort(words[known], kind="stable")[: self.bound]]
        assert self.owners is not None  # as it was checked
        reported = self.owners.owns(kept[:, None], kept) & self.known[kept][:, None]
        links = int((bits_of(self.linked[kept])[:, kept] & reported).sum())
        return links - Fraction(self.flips * int(reported.sum()), WORDS)

    def _parts(self) -> tuple[Header, bytes]:
        header = {**self._header, "flips": self.flips, "num_nodes": self.num_nodes}
        known = np.packbits(self.known).tobytes()
        return header, self.linked.tobytes() + known + owners_to_bytes(self.owners)

    @classmethod
    def _made(cls, header: Header, body: bytes) -> "Triangles":
        n = whole(2, 32 * MAX_NUMBERS, num_nodes=header["num_nodes"])
        words = n * -(-n // 32)
        linked = np.frombuffer(body, "<i4", words).reshape(n, -1)
        known = np.frombuffer(body, np.uint8, -(-n // 8), linked.nbytes)
        owners = owners_from_bytes(body[linked.nbytes + known.nbytes :], n)
        bits = np.unpackbits(known, count=n).astype(bool)
        options = {name: header[name] for name in ("round", "bound", "epsilon", "flips")}
        return cls(linked=linked, known=bits, owners=owners, **options)
