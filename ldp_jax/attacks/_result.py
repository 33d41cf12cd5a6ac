"""Targets and results of attacks, and the difference of two results."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, Float64, Int
from numpy.typing import ArrayLike, DTypeLike
from scipy import stats

from ldp_jax.core import validate
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import PRNGKey
from ldp_jax.learning.metrics import ConfidenceInterval, mean_interval

_GROUPS = 100  # groups of nodes that the jackknife leaves out, one at a time

_FALSE, _STRICT = 0.01, 0.001  # the shares of false positives at which true ones are counted

_BLOCK = 2**21  # values of a block of the jackknife's sums, about: 16 MB

_TITLES = {
    "auc": "AUC",
    "average_precision": "AP",
    "precision": "precision",
    "recall": "recall",
    "tpr": "TPR at 1 % FPR",
    "mse": "MSE",
    "ssim": "SSIM",
    "honest": "without liars",
    "poisoned": "with liars",
    "harm": "harm",
}
_METRICS = tuple(_TITLES)[:5]


class Targets(NamedTuple):
    """The questions of an attack, and their true answers, for the verdict.

    Attributes:
      units: int [p, k]: k = 2 for pairs of nodes, 1 for nodes, or runs.
      truth: bool [p], whether the secret holds, such as an edge; for memberships bool [N, p], which
        models saw it.
    """

    units: Int[np.ndarray, "p k"]
    truth: Bool[np.ndarray, "*N p"]

    __repr__ = by_shapes


def rows_of(
    name: str,
    rows: ArrayLike | tuple,
    dtype: DTypeLike = np.float32,
    *,
    least: int = 1,
    most: int | None = None,
) -> Float[np.ndarray, "n d"]:
    """A record a row; refused unless finite, and as many as asked for."""
    if hasattr(rows, "toarray"):
        raise ValueError(
            f"{name} must be finite numbers [n, d], got a sparse matrix: give its toarray()"
        )
    with np.errstate(over="ignore"):  # becomes infinite, which is refused
        rows = validate.numbers(**{name: rows}).astype(dtype)
    if (
        rows.ndim != 2
        or not rows.size
        or not least <= len(rows) <= (most or len(rows))
        or not np.isfinite(rows).all()
    ):
        wanted = f"{'' if most else 'at least '}{least} row{'s' * (least > 1)}"
        raise ValueError(
            f"{name} must be finite numbers [n, d], d >= 1, of {wanted}, got shape {rows.shape}"
        )
    return rows


def codes(pairs: np.ndarray, size: int) -> np.ndarray:
    """Undirected pairs as whole numbers, low * size + high."""
    return pairs.min(1).astype(np.int64) * size + pairs.max(1)


_PAIR = 80.0  # the most bytes that a pair takes while all pairs are listed


def all_pairs(
    nodes: ArrayLike | tuple,
    edges: ArrayLike | tuple,
    *,
    known: ArrayLike | tuple = (),
    memory: float = 16e9,
) -> Targets:
    """Every pair of ``nodes``, distinct integers [n], once, at the true density of edges.

    Secret are the undirected ``edges``, integers [m, 2]; those outside ``nodes`` do not matter.
    Pairs that the attacker knows already, ``known`` [e, 2], such as public edges, are left out.
    ``memory`` is bytes, 80 a pair.

    >>> targets = all_pairs([0, 1, 2], [[2, 1]], known=[[0, 1]])
    >>> targets.units.tolist(), targets.truth.tolist()
    ([[0, 2], [1, 2]], [False, True])
    """
    validate.positive(memory=memory)
    given = np.size(nodes)
    if (needed := _PAIR * given * (given - 1) / 2) > memory:
        raise ValueError(
            f"memory of {memory / 1e9:.3g} GB does not hold all pairs of {given} nodes ({needed / 1e9:.3g} GB): "
            "give fewer nodes, such as a random part, or raise memory"
        )
    nodes = distinct("nodes", nodes).astype(np.int64)
    secret, left_out = validate.pairs(edges=edges), validate.pairs(known=known)
    # Others do not matter, and their ids may be too large for a code.
    secret, left_out = (pairs[np.isin(pairs, nodes).all(1)] for pairs in (secret, left_out))
    size = 1 + int(nodes.max(initial=0))
    ends = np.triu_indices(len(nodes), 1)
    units = np.stack([nodes[end] for end in ends], 1)
    code = codes(units, size)
    kept = ~np.isin(code, codes(left_out, size))
    return Targets(units[kept], np.isin(code[kept], codes(secret, size)))


def balanced_pairs(
    key: PRNGKey,
    nodes: ArrayLike | tuple,
    edges: ArrayLike | tuple,
    *,
    known: ArrayLike | tuple = (),
) -> Targets:
    """The edges among some nodes and as many pairs without an edge, as attacks are published.

    At the true density the same attack is far less precise: see :func:`all_pairs`, whose arguments
    these are.

    >>> balanced_pairs(jax.random.key(0), np.arange(9), [[0, 1], [3, 4]]).truth.tolist()
    [True, True, False, False]
    """
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


def distinct(name: str, nodes: ArrayLike | tuple, size: int = 2**31) -> Int[np.ndarray, " p"]:
    """Nodes as int32, refused unless distinct, in [0, size) and at least one."""
    nodes = validate.complete(**{name: nodes})
    whole = nodes.ndim == 1 and len(nodes) and np.issubdtype(nodes.dtype, np.integer)
    if not whole or nodes.min() < 0 or nodes.max() >= size or len(np.unique(nodes)) < len(nodes):
        raise ValueError(f"{name} must be distinct integers in [0, {size}), at least one")
    return nodes.astype(np.int32)


def check_targets(targets: Targets, size: int, k: int = 2) -> None:
    """Refuse targets that are no k-tuples of nodes in [0, size), or a truth that is not theirs."""
    units, _ = _parts(targets, k)
    validate.ids(size, **{"units of targets": units})


def _parts(targets: Targets, k: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Units [p, k] and truth [p], refused in other forms."""
    units, truth = validate.complete(units=targets.units), validate.complete(truth=targets.truth)
    if (
        units.ndim != 2
        or units.shape[1] != (k or units.shape[1])
        or truth.shape != units.shape[:1]
        or truth.dtype != bool
    ):
        raise ValueError(
            f"targets must be units, integers [p, {k or 'k'}], and truth, bool [p], got shapes {units.shape} and "
            f"{truth.shape}, of {units.dtype} and {truth.dtype}"
        )
    return units, truth


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Difference:
    """How much more one attack finds than another.

    ``difference.auc`` is an interval, and so is each metric.
    """

    name: str
    metrics: dict[str, ConfidenceInterval]

    def __getattr__(self, metric: str) -> ConfidenceInterval:
        known = self.__dict__.get("metrics", {})
        if metric in known:
            return known[metric]
        raise AttributeError(f"{type(self).__name__} has no {metric!r}")

    def __str__(self) -> str:
        return f"{self.name}: {_shown(self.metrics, '+')}"

    def __repr__(self) -> str:
        return str(self)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Attack(Difference):
    """The result of an attack. Prints as one line; ``a.minus(b)`` compares two on the same targets.

    Each metric is a :class:`ldp_jax.learning.metrics.ConfidenceInterval` of a share (not of per
    cent), over nodes drawn alike; of memberships over models. It does not cover another training of
    the attacked model.

    * ``auc``: the area under the ROC curve;
    * ``average_precision``: the mean precision over the true targets, from the largest score down;
    * ``precision``: the share of true targets among the ``believed`` largest scores;
    * ``recall``: the share of the true targets that are among these;
    * ``tpr``: the share of true targets that stand out above all but 1 % of the others; chance is
      0.01.

    Attributes:
      targets: what was asked.
      scores: float64, one a truth of the targets, larger where the attacker rather believes in the
        secret.
      density: the share of true targets, the precision of chance.
      believed: the share that the attacker takes for true.
    """

    targets: Targets
    scores: Float64[np.ndarray, "*N p"]
    density: float
    believed: float
    _samples: (
        np.ndarray
    )  # [groups, metrics], each metric without one group of units; of memberships [N, metrics]
    _confidence: float

    @property
    def strict_tpr(self) -> ConfidenceInterval | None:
        """The true positive rate at 0.1 % false ones.

        None but for memberships with at least 1000 others each.
        """
        return self.metrics.get("strict_tpr")

    def minus(self, other: "Attack") -> Difference:
        """How much more this attack finds than ``other``, asked about the same targets, by paired intervals."""
        if not all(np.array_equal(a, b) for a, b in zip(self.targets, other.targets, strict=True)):
            raise ValueError(
                f"{other.name} must be asked about the targets of {self.name}, got others"
            )
        gap = self._samples - other._samples
        if self.targets.truth.ndim == 2:
            found = [mean_interval(column, self._confidence) for column in gap.T]
        else:
            means = [
                np.array([attack.metrics[metric].mean for metric in _METRICS])
                for attack in (self, other)
            ]
            found = _intervals(means[0] - means[1], gap, self.auc.n, self._confidence)
        return Difference(
            f"{self.name} minus {other.name}", dict(zip(_METRICS, found, strict=True))
        )

    def __str__(self) -> str:
        truth = self.targets.truth
        models, size = (None, len(truth)) if truth.ndim == 1 else truth.shape
        about = (
            f"{truth.sum()} of {size} true"
            if models is None
            else f"{models} targets of {size} nodes"
        )
        return f"{self.name}: {_shown(self.metrics)}; {about}"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Reconstruction(Difference):
    """Records ``x`` as an attacker reconstructed them.

    Prints as one line; ``a.minus(b)`` compares two.

    ``metrics``: ``mse``, the squared error a feature, of images ``ssim``; means over records,
    Student's interval.
    """

    x: Float[np.ndarray, "n d"]
    _samples: np.ndarray  # float64 [n, metrics]

    @property
    def ssim(self) -> ConfidenceInterval | None:
        """The structural similarity; None where records are no images."""
        return self.metrics.get("ssim")

    def minus(self, other: "Reconstruction") -> Difference:
        """The difference of two reconstructions of the same records, paired.

        A better one has a negative MSE.
        """
        if self.x.shape != other.x.shape or list(self.metrics) != list(other.metrics):
            raise ValueError(
                f"{other.name} must reconstruct the records of {self.name}, got others"
            )
        gap = (self._samples - other._samples).T
        metrics = {
            name: mean_interval(column) for name, column in zip(self.metrics, gap, strict=True)
        }
        return Difference(f"{self.name} minus {other.name}", metrics)

    def __str__(self) -> str:
        return f"{self.name}: {_shown(self.metrics)}; {len(self.x)} records"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Poisoning(Difference):
    """The harm that a number of ``liars`` does to the honest.

    Prints as one line; ``a.minus(b)`` compares two.

    ``metrics`` are ``honest`` and ``poisoned``, the mean over honest users without liars and with
    them, and ``harm``, the former less the latter, paired by user: with Student's interval.
    """

    liars: int
    _samples: np.ndarray  # float64 [n], of each user's harm, NaN of liars

    @classmethod
    def of(cls, name: str, before: np.ndarray, after: np.ndarray, liars: int) -> "Poisoning":
        """From a value a user without liars and with them, NaN of liars."""
        means = {"honest": before, "poisoned": after, "harm": before - after}
        return cls(
            name,
            {metric: _known_mean(values) for metric, values in means.items()},
            liars,
            before - after,
        )

    def minus(self, other: "Poisoning") -> Difference:
        """How much more harm this does than ``other``, to users who are honest in both."""
        if self._samples.shape != other._samples.shape:
            raise ValueError(f"{other.name} must be of the users of {self.name}, got others")
        return Difference(
            f"{self.name} minus {other.name}", {"harm": _known_mean(self._samples - other._samples)}
        )

    def __str__(self) -> str:
        return f"{self.name}: {_shown(self.metrics)}; {self.liars} of {len(self._samples)} lie"


def _known_mean(values: np.ndarray) -> ConfidenceInterval:
    return mean_interval(values[~np.isnan(values)])


def _number(value: ConfidenceInterval, sign: str = "", digits: int = 3) -> str:
    return f"{value.mean:{sign}.{digits}f} ± {value.half_width:.{digits}f}"


def _shown(metrics: dict[str, ConfidenceInterval], sign: str = "") -> str:
    digits = 4 if "mse" in metrics else 3
    named = [(title, metrics[name]) for name, title in _TITLES.items() if name in metrics]
    return ", ".join(f"{title} {_number(value, sign, digits)}" for title, value in named)


def evaluate(
    name: str,
    scores: ArrayLike | tuple,
    targets: Targets,
    *,
    density: float | None = None,
    confidence: float = 0.95,
) -> Attack:
    r"""Judge the scores of an attack, one's own or one of this package.

    Ties are broken at random, in expectation: the ROC curve is straight across ties. The average
    precision has one threshold for them all, as scikit-learn's. The intervals are Student's, from a
    jackknife that leaves out one of at most 100 groups of nodes at a time, with every pair of a
    node of the group: pairs that share a node are not independent. They are up to 1.5 times too
    wide; that of ``tpr`` is too narrow where fewer than about a thousand targets are false. Widths
    are NaN where one group is in all true targets, or all others.

    ``scores`` are float [p], larger where the secret is rather believed in; infinite ones are
    allowed. ``density`` is the share of targets that the attacker takes for true, by default the
    true one.

    >>> pairs = all_pairs(np.arange(30), [[i, i + 1] for i in range(29)])
    >>> found = evaluate("oracle", pairs.truth * 1.0, pairs)
    >>> found.auc.mean, found.precision.mean, found.tpr.mean
    (1.0, 1.0, 1.0)
    """
    units, truth = _parts(targets)
    scores = validate.numbers(scores=scores)
    if scores.shape != truth.shape:
        raise ValueError(f"scores must be one a target [{len(truth)}], got shape {scores.shape}")
    density, confidence = _checked(name, scores, density, confidence, "targets")
    if truth.all() or not truth.any():
        raise ValueError(
            f"targets must be true and false ones, got {truth.sum()} of {len(truth)} true"
        )
    who, place = np.unique(units, return_inverse=True)
    if len(who) < 3:
        raise ValueError(f"targets must have at least three units, for intervals, got {len(who)}")
    groups = min(len(who), _GROUPS)
    group = (np.random.default_rng(0).permutation(len(who)) % groups)[place.reshape(units.shape)]

    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    ends = np.flatnonzero(
        np.append(ordered[1:] != ordered[:-1], True)
    )  # the last of each run of ties
    truth, group = truth[order], group[order]
    estimate = _metrics(np.ones((1, len(truth)), bool), truth, ends, density)[0]
    step = max(1, _BLOCK // len(truth))
    parts = np.split(np.arange(groups), np.arange(step, groups, step))
    kept = ((group != part[:, None, None]).all(-1) for part in parts)
    left_out = np.concatenate([_metrics(some, truth, ends, density) for some in kept])
    share = float(truth.mean())
    metrics = dict(zip(_METRICS, _intervals(estimate, left_out, len(who), confidence), strict=True))
    return Attack(name, metrics, targets, scores, share, density or share, left_out, confidence)


def _checked(
    name: str, scores: np.ndarray, density: float | None, confidence: float, units: str
) -> tuple[float | None, float]:
    if np.isnan(scores).any():
        raise ValueError(
            f"scores of {name} must be numbers, got NaN for {np.isnan(scores).sum()} {units}"
        )
    if density is not None:
        density = validate.number(0.0, 1.0, open_lower=True, density=density)
    return density, validate.number(
        0.0, 1.0, open_lower=True, open_upper=True, confidence=confidence
    )


def evaluate_membership(
    name: str,
    scores: ArrayLike | tuple,
    member: ArrayLike | tuple,
    *,
    density: float | None = None,
    confidence: float = 0.95,
) -> Attack:
    """Judge the scores of an attack on memberships, one's own or one of this package, as :func:`evaluate` does.

    Each metric is computed on the nodes of one target model at a time; intervals are Student's,
    over models, which they take for more independent than they are. ``scores`` are float [N, n],
    ``member`` is bool [N, n], the truth: which of n nodes each of N targets was trained on;
    ``density`` is by default the true one of each target.

    >>> member = np.array([[True, False, True], [False, False, True]])
    >>> evaluate_membership("opposite", -1.0 * member, member).auc.mean
    0.0
    """
    member = check_member(member)
    scores = validate.numbers(scores=scores)
    if scores.shape != member.shape:
        raise ValueError(
            f"scores must be float {list(member.shape)}, as member is, got shape {scores.shape}"
        )
    density, confidence = _checked(name, scores, density, confidence, "nodes")
    order = np.argsort(-scores, 1, kind="stable")
    ordered = np.take_along_axis(scores, order, 1)
    places = np.arange(scores.shape[1])
    last = np.concatenate([ordered[:, 1:] != ordered[:, :-1], np.ones((len(scores), 1), bool)], 1)
    # The end of the run of equal scores that a place is in: the next place that ends one.
    ends = np.minimum.accumulate(np.where(last, places, len(places))[:, ::-1], 1)[:, ::-1]
    rates = (_FALSE, _STRICT) if (~member).sum(1).min() >= 1 / _STRICT else (_FALSE,)
    each = _metrics(
        np.ones_like(member), np.take_along_axis(member, order, 1), ends, density, rates
    )
    found = [mean_interval(column, confidence) for column in each.T]
    share = float(member.mean())
    samples = each[:, : len(_METRICS)]
    metrics = dict(zip((*_METRICS, "strict_tpr"), found, strict=False))
    targets = Targets(places[:, None], member)
    return Attack(name, metrics, targets, scores, share, density or share, samples, confidence)


def check_member(member: ArrayLike | tuple) -> Bool[np.ndarray, "N n"]:
    """Memberships, refused unless each of N targets was trained on some nodes and not on others."""
    member = validate.complete(member=member)
    if member.ndim != 2 or member.dtype != bool or not member.size:
        raise ValueError(f"member must be bool [N, n], got {member.dtype} of shape {member.shape}")
    members = member.sum(1)
    if members.min() == 0 or members.max() == member.shape[1]:
        raise ValueError(
            f"member must have nodes that each target was trained on and others, got from {members.min()} to "
            f"{members.max()} of {member.shape[1]}"
        )
    return member


def _metrics(
    kept: np.ndarray,
    truth: np.ndarray,
    ends: np.ndarray,
    density: float | None,
    false_rates: tuple = (_FALSE,),
) -> np.ndarray:
    """All metrics of targets in falling order of their scores; float64 [rows of kept, metrics]."""
    # Those that are ``kept``, bool [rows, p], count; ``ends`` are the last places of runs of equal
    # scores. Where rows have orders of their own, ``truth`` and ``ends``, of each place's run, are
    # [rows, p].
    first = np.zeros((len(kept), 1))
    counts = (np.cumsum(kept & side, 1, dtype=np.float64) for side in (truth, ~truth))
    true, false = (
        np.concatenate([first, c[:, ends] if ends.ndim == 1 else np.take_along_axis(c, ends, 1)], 1)
        for c in counts
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


def _intervals(
    estimate: np.ndarray, left_out: np.ndarray, n: int, confidence: float
) -> list[ConfidenceInterval]:
    groups = len(left_out)
    variance = (groups - 1) / groups * ((left_out - left_out.mean(0)) ** 2).sum(0)
    half = stats.t.ppf(0.5 + confidence / 2, groups - 1) * np.sqrt(variance)
    return [
        ConfidenceInterval(float(mean), float(width), n)
        for mean, width in zip(estimate, half, strict=True)
    ]


def table(attacks: Sequence[Attack], *, beside: Attack | None = None) -> str:
    """Attacks as a Markdown table, one line each.

    With a column of what each finds beyond ``beside``.
    """
    titles = ["attack", *(_TITLES[metric] for metric in _METRICS)]
    titles += [f"AUC beyond {beside.name}"] if beside is not None else []
    lines = [titles, ["---"] + ["--:"] * (len(titles) - 1)]
    for attack in attacks:
        cells = [attack.name, *(_number(attack.metrics[metric]) for metric in _METRICS)]
        lines.append(
            cells + ([_number(attack.minus(beside).auc, "+")] if beside is not None else [])
        )
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
