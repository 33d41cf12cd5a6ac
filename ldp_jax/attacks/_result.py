"""What an attack is asked, what it found, and how far two attacks are apart."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int
from scipy import stats

from ldp_jax.core import validate
from ldp_jax.learning.metrics import ConfidenceInterval

_GROUPS = 100
"""Groups of nodes that the jackknife leaves out, one at a time."""

_FALSE = 0.01
"""The share of false positives at which true ones are counted."""

_BLOCK = 2**21
"""Values of a block of the jackknife's sums, about: 16 MB."""

_METRICS = ("auc", "average_precision", "precision", "recall", "tpr")


class Targets(NamedTuple):
    """What an attack is asked about, and the truth that it is judged by.

    Attributes:
      units: int [p, k]: k = 2 for pairs of nodes, 1 for nodes, or runs.
      truth: bool [p], whether the secret holds: an edge joins the pair, the node has the attribute.
    """

    units: Int[np.ndarray, "p k"]
    truth: Bool[np.ndarray, " p"]


def _codes(pairs: Any, name: str, size: int) -> np.ndarray:
    """Undirected pairs as whole numbers, low * size + high."""
    pairs = np.asarray(pairs)
    if pairs.size == 0:
        return np.zeros(0, np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
        raise ValueError(f"{name} must be integers [m, 2], got {pairs.dtype} of shape {pairs.shape}")
    pairs = pairs.astype(np.int64)
    return pairs.min(1) * size + pairs.max(1)


def _nodes(nodes: Any, *edges: Any) -> tuple[np.ndarray, int]:
    nodes = np.asarray(nodes)
    if nodes.ndim != 1 or not np.issubdtype(nodes.dtype, np.integer) or len(nodes) < 2:
        raise ValueError(f"nodes must be at least two integers [n], got {nodes.dtype} of shape {nodes.shape}")
    if len(np.unique(nodes)) < len(nodes) or nodes.min() < 0:
        raise ValueError("nodes must be distinct and >= 0")
    return nodes, 1 + max(int(np.max(part, initial=0)) for part in (nodes, *edges))


_PAIR = 80.0
"""Bytes of a pair at most, while all of them are listed: its ends, places and code, and what searching takes."""


def all_pairs(nodes: Any, edges: Any, *, known: Any = (), memory: float = 16e9) -> Targets:
    """Every pair of some nodes, once: what an attack meets at the true density.

    Args:
      nodes: distinct integers [n].
      edges: integers [m, 2], the undirected edges that are secret; those outside ``nodes`` do not matter.
      known: integers [e, 2], pairs that the attacker knows already, such as public edges; they are left out.
      memory: bytes to allow; 80 for each pair.

    Raises:
      ValueError: for nodes given twice, arrays of another form, or more pairs than ``memory`` allows.

    >>> all_pairs([0, 1, 2], [[2, 1]], known=[[0, 1]])
    Targets(units=array([[0, 2],
           [1, 2]]), truth=array([False,  True]))
    """
    validate.positive(memory=memory)
    given = np.size(nodes)
    if (needed := _PAIR * given * (given - 1) / 2) > memory:
        raise ValueError(
            f"memory of {memory / 1e9:.3g} GB does not hold all pairs of {given} nodes ({needed / 1e9:.3g} GB): "
            "give fewer nodes, such as a random part, or raise memory"
        )
    nodes, size = _nodes(nodes, edges, known)
    ends = np.triu_indices(len(nodes), 1)
    units = np.stack([nodes[end] for end in ends], 1)
    code = _codes(units, "nodes", size)
    kept = ~np.isin(code, _codes(known, "known", size))
    return Targets(units[kept], np.isin(code[kept], _codes(edges, "edges", size)))


def balanced_pairs(key: Any, nodes: Any, edges: Any, *, known: Any = ()) -> Targets:
    """The edges among some nodes and as many pairs without one, as attacks are published.

    At the true density, some hundred times lower, the same attack is far less precise: see :func:`all_pairs`.

    Args:
      key: a typed threefry key.
      nodes: as :func:`all_pairs`.
      edges: as :func:`all_pairs`.
      known: as :func:`all_pairs`.

    Raises:
      ValueError: as :func:`all_pairs`, and where fewer pairs have no edge than have one.

    >>> import jax
    >>> balanced_pairs(jax.random.key(0), np.arange(9), [[0, 1], [3, 4]]).truth.tolist()
    [True, True, False, False]
    """
    import jax

    validate.threefry(key)
    every = all_pairs(nodes, edges, known=known)
    with_edge, without = np.flatnonzero(every.truth), np.flatnonzero(~every.truth)
    if len(without) < len(with_edge):
        raise ValueError(
            f"nodes must have as many pairs without an edge as with one, got {len(without)} and {len(with_edge)}"
        )
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())
    drawn = np.sort(rng.choice(without, len(with_edge), replace=False))
    taken = np.concatenate([with_edge, drawn])
    return Targets(every.units[taken], every.truth[taken])


def check_targets(targets: Targets, size: int, k: int = 2) -> None:
    """Refuse targets that are no k-tuples of nodes in [0, size), or a truth that is not theirs."""
    units, truth = np.asarray(targets.units), np.asarray(targets.truth)
    if units.ndim != 2 or units.shape[1] != k or truth.shape != units.shape[:1] or truth.dtype != bool:
        raise ValueError(
            f"targets must be units [p, {k}] and truth bool [p], got shapes {units.shape} and {truth.shape}, "
            f"truth of {truth.dtype}"
        )
    if len(units) and (units.min() < 0 or units.max() >= size):
        raise ValueError(
            f"units of targets must be in [0, {size}), got numbers from {units.min()} to {units.max()}"
        )


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Attack:
    """What an attack found. Prints as one line; ``a.minus(b)`` compares two on the same targets.

    Each metric is a :class:`ldp_jax.learning.metrics.ConfidenceInterval` of a share (not of per cent): how far it
    would be from what the same attack finds on other nodes drawn alike. It does not say how far another training of
    the attacked model would lead; seeds do (:func:`ldp_jax.learning.metrics.mean_interval`).

    Attributes:
      name: of the attack.
      targets: what was asked.
      scores: float64 [p], larger where the attacker rather believes in the secret.
      auc: the area under the ROC curve.
      average_precision: the mean precision over the true ones, from the largest score down; chance is ``density``.
      precision: the share of true ones among the ``believed`` largest scores.
      recall: the share of the true ones that are among these.
      tpr: the share of true ones that stand out above all but 1 % of the others; chance is 0.01.
      density: the share of true ones among the targets.
      believed: the share that the attacker takes for true.
    """

    name: str
    targets: Targets
    scores: Float64[np.ndarray, " p"]
    auc: ConfidenceInterval
    average_precision: ConfidenceInterval
    precision: ConfidenceInterval
    recall: ConfidenceInterval
    tpr: ConfidenceInterval
    density: float
    believed: float
    _left_out: np.ndarray  # [groups, metrics], each metric without one group of units
    _confidence: float

    def minus(self, other: "Attack") -> "Difference":
        """How much more this attack finds than ``other``, such as one from public knowledge alone.

        The intervals are paired: both attacks are asked about the same targets, and what makes some of them easy
        for both cancels.

        Raises:
          ValueError: where the targets are not the same.
        """
        same = all(np.array_equal(a, b) for a, b in zip(self.targets, other.targets, strict=True))
        if not same:
            raise ValueError(f"{other.name} must be asked about the targets of {self.name}, got others")
        found = (self, other)
        means = [np.array([getattr(attack, metric).mean for metric in _METRICS]) for attack in found]
        gap = self._left_out - other._left_out
        intervals = _intervals(means[0] - means[1], gap, self.auc.n, self._confidence)
        return Difference(f"{self.name} minus {other.name}", *intervals)

    def __str__(self) -> str:
        true = int(self.targets.truth.sum())
        return f"{self.name}: {_shown(self)}; {true} of {len(self.scores)} true"

    __repr__ = __str__


@dataclasses.dataclass(frozen=True, repr=False)
class Difference:
    """How much more one attack finds than another, metric by metric; see :meth:`Attack.minus`."""

    name: str
    auc: ConfidenceInterval
    average_precision: ConfidenceInterval
    precision: ConfidenceInterval
    recall: ConfidenceInterval
    tpr: ConfidenceInterval

    def __str__(self) -> str:
        return f"{self.name}: {_shown(self, '+')}"

    __repr__ = __str__


_TITLES = dict(zip(_METRICS, ("AUC", "AP", "precision", "recall", "TPR at 1 % FPR"), strict=True))


def _number(value: ConfidenceInterval, sign: str = "") -> str:
    return f"{value.mean:{sign}.3f} ± {value.half_width:.3f}"


def _shown(result: Any, sign: str = "") -> str:
    return ", ".join(f"{title} {_number(getattr(result, metric), sign)}" for metric, title in _TITLES.items())


def evaluate(
    name: str, scores: Any, targets: Targets, *, density: float | None = None, confidence: float = 0.95
) -> Attack:
    r"""Judge the scores of an attack, one's own or one of this package.

    Of equal scores a random part is taken: precision and recall are expectations over that, and the ROC curve is
    straight across ties. The average precision has one threshold for them all, as scikit-learn's.

    The intervals are Student's, from a jackknife that leaves out one of at most 100 groups of nodes at a time, with
    every pair that a node of the group is in: pairs that share a node are not independent, and intervals that take
    them to be are several times too narrow. Noise of each pair by itself counts twice in the variance, so the
    intervals are up to 1.5 times too wide. The groups are fixed, which pairs the intervals of :meth:`Attack.minus`.
    Their width is NaN where one group is in all the true targets, or in all the false ones.

    Args:
      name: what the attack is called.
      scores: float [p], larger where the secret is rather believed in; infinite ones are allowed.
      targets: what was asked.
      density: the share of targets that the attacker takes for true; by default the true one, where precision and
        recall are the same number.
      confidence: of the intervals.

    Raises:
      ValueError: for NaN or another number of scores, targets that are all true or all false, or fewer than three
        units.

    >>> pairs = all_pairs(np.arange(30), [[i, i + 1] for i in range(29)])
    >>> found = evaluate("oracle", pairs.truth * 1.0, pairs)
    >>> found.auc.mean, found.precision.mean, found.tpr.mean
    (1.0, 1.0, 1.0)
    """
    units, truth = np.asarray(targets.units), np.asarray(targets.truth)
    scores = np.asarray(scores, np.float64)
    if scores.shape != truth.shape or units.ndim != 2 or len(units) != len(truth) or truth.dtype != bool:
        raise ValueError(f"scores must be one a target [{len(truth)}], got shape {scores.shape}")
    if np.isnan(scores).any():
        raise ValueError(f"scores of {name} must be numbers, got NaN for {np.isnan(scores).sum()} targets")
    if truth.all() or not truth.any():
        raise ValueError(f"targets must be true and false ones, got {truth.sum()} of {len(truth)} true")
    if density is not None:
        density = validate.number(0.0, 1.0, open_lower=True, density=density)
    confidence = validate.number(0.0, 1.0, open_lower=True, open_upper=True, confidence=confidence)
    who, place = np.unique(units, return_inverse=True)
    if len(who) < 3:
        raise ValueError(f"targets must have at least three units, for intervals, got {len(who)}")
    groups = min(len(who), _GROUPS)
    group = (np.random.default_rng(0).permutation(len(who)) % groups)[place.reshape(units.shape)]

    order = np.argsort(-scores, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True))  # the last of each run of ties
    truth, group = truth[order], group[order]
    estimate = _metrics(np.ones((1, len(truth)), bool), truth, ends, density)[0]
    step = max(1, _BLOCK // len(truth))
    numbers = np.arange(groups)
    left_out = np.concatenate(
        [
            _metrics((group != numbers[start : start + step, None, None]).all(-1), truth, ends, density)
            for start in range(0, groups, step)
        ]
    )
    share = float(truth.mean())
    return Attack(
        name, targets, scores, *_intervals(estimate, left_out, len(who), confidence),
        density=share, believed=share if density is None else density, _left_out=left_out, _confidence=confidence,
    )  # fmt: skip


def _metrics(
    kept: np.ndarray, truth: np.ndarray, ends: np.ndarray, density: float | None, false_rates: Any = (_FALSE,)
) -> np.ndarray:
    """All metrics of targets in falling order of their scores; float64 [rows of kept, metrics].

    Args:
      kept: bool [rows, p], which targets count.
      truth: bool [p], or [rows, p] where each row has an order of its own.
      ends: the last place of each run of equal scores; or, for orders of their own, [rows, p], that of the run
        which each place is in.
      density: that is believed; None for the true one.
      false_rates: the shares of false positives at which true ones are counted.
    """
    first = np.zeros((len(kept), 1))
    counts = (np.cumsum(kept & side, 1, dtype=np.float64) for side in (truth, ~truth))
    true, false = (
        np.concatenate([first, c[:, ends] if ends.ndim == 1 else np.take_along_axis(c, ends, 1)], 1) for c in counts
    )
    trues, falses = true[:, -1], false[:, -1]
    rows = np.arange(len(kept))

    def at(count: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """How many true ones there are where ``count`` is about to pass ``wanted``, within ties in proportion."""
        index = (count <= wanted[:, None] * (1 + 1e-12)).sum(1) - 1
        after = np.minimum(index + 1, count.shape[1] - 1)
        gap = count[rows, after] - count[rows, index]
        part = (wanted - count[rows, index]) / np.where(gap > 0, gap, np.inf)
        return true[rows, index] + np.maximum(part, 0.0) * (true[rows, after] - true[rows, index])

    total = true + false
    wanted = trues if density is None else density * (trues + falses)
    with np.errstate(invalid="ignore", divide="ignore"):
        area = (np.diff(false) * (true[:, 1:] + true[:, :-1])).sum(1) / (2 * trues * falses)
        precision = true[:, 1:] / np.maximum(total[:, 1:], 1.0)
        average = (np.diff(true) * precision).sum(1) / trues
        found = at(total, wanted)
        stand_out = [at(false, rate * falses) / trues for rate in false_rates]
        return np.stack([area, average, found / wanted, found / trues, *stand_out], 1)


def _intervals(estimate: np.ndarray, left_out: np.ndarray, n: int, confidence: float) -> list[ConfidenceInterval]:
    groups = len(left_out)
    variance = (groups - 1) / groups * ((left_out - left_out.mean(0)) ** 2).sum(0)
    half = stats.t.ppf(0.5 + confidence / 2, groups - 1) * np.sqrt(variance)
    return [ConfidenceInterval(float(mean), float(width), n) for mean, width in zip(estimate, half, strict=True)]


def table(attacks: Sequence[Any], *, beside: Any = None) -> str:
    """Attacks as a Markdown table, one line each; with a column of what each finds beyond ``beside``.

    Args:
      attacks: at least one :class:`Attack`, or :class:`ldp_jax.attacks.Membership`.
      beside: an attacker with public knowledge only, asked about the same targets.

    Raises:
      ValueError: where ``beside`` was asked about other targets.
    """
    titles = ["attack", *_TITLES.values()] + ([f"AUC beyond {beside.name}"] if beside is not None else [])
    lines = [titles, ["---"] + ["--:"] * (len(titles) - 1)]
    for attack in attacks:
        cells = [attack.name, *(_number(getattr(attack, metric)) for metric in _METRICS)]
        lines.append(cells + ([_number(attack.minus(beside).auc, "+")] if beside is not None else []))
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
