"""Targets of attacks, and the tables of scores that attacks are judged by."""

import dataclasses
from collections.abc import Iterable, Sequence
from functools import partial
from typing import ClassVar, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, Float64, Int
from numpy.typing import DTypeLike

from ldp_jax.core import validate
from ldp_jax.core.pytree import digest
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import Numbers, PRNGKey
from ldp_jax.core.validate import require
from ldp_jax.learning.metrics import ConfidenceInterval, mean_interval

_GROUPS = 100  # groups of nodes that the jackknife leaves out, one at a time
_FALSE = 0.01  # the share of false positives at which true ones are counted
_STRICT = 0.001
_BLOCK = 2**21  # values of a block of the jackknife's sums, about: 16 MB
_BYTES_A_PAIR = 80.0  # the most memory that a pair takes while all pairs are listed

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
_METRICS = tuple(_TITLES)[:5]  # of attacks


class Targets(NamedTuple):
    """The questions of an attack, and their true answers, for the verdict.

    Attributes:
      units: int [p, k]: k = 2 for pairs of nodes in either order, 1 for nodes, or runs.
      truth: bool [p], whether the secret holds, such as an edge; for memberships bool [N, p], which
        models saw it.
    """

    units: Int[np.ndarray, "p k"]
    truth: Bool[np.ndarray, "*N p"]

    __repr__ = by_shapes


def rows_of(
    name: str,
    rows: Numbers,
    dtype: DTypeLike = np.float32,
    *,
    least: int = 1,
) -> Float[np.ndarray, "n d"]:
    """A record a row; refused unless finite, and at least as many as asked for."""
    require(
        not hasattr(rows, "toarray"),
        f"{name} must be finite numbers [n, d], got a sparse matrix: give its toarray()",
    )
    with np.errstate(over="ignore"):  # becomes infinite, which is refused
        rows = validate.finite_array(
            "n", "d", **{name: validate.numbers(**{name: rows}).astype(dtype)}
        )
    require(
        len(rows) >= least and rows.size,
        f"{name} must have d >= 1 columns and at least {least} rows, got shape {rows.shape}",
    )
    return rows.astype(dtype)


def codes(pairs: np.ndarray, size: int) -> np.ndarray:
    """Undirected pairs as whole numbers, low * size + high."""
    return pairs.min(1).astype(np.int64) * size + pairs.max(1)


def all_pairs(
    nodes: Numbers,
    edges: Numbers,
    *,
    known: Numbers = (),
    memory: float = 16e9,
) -> Targets:
    """Every pair of ``nodes``, distinct integers [n], once, at the true density of edges.

    Secret are the undirected ``edges``, integers [m, 2], a pair a row; those outside ``nodes`` do
    not matter. Pairs that the attacker knows already, ``known`` [e, 2], such as public edges, are
    left out. ``memory`` is bytes, 80 a pair.

    >>> targets = all_pairs([0, 1, 2], [[2, 1]], known=[[0, 1]])
    >>> targets.units.tolist(), targets.truth.tolist()
    ([[0, 2], [1, 2]], [False, True])
    """
    validate.positive(memory=memory)
    given = np.size(nodes)
    needed = _BYTES_A_PAIR * given * (given - 1) / 2
    require(
        needed <= memory,
        f"memory of {memory / 1e9:.3g} GB does not hold all pairs of {given} nodes "
        f"({needed / 1e9:.3g} GB): give fewer nodes, such as a random part, or raise memory",
    )
    nodes = distinct("nodes", nodes).astype(np.int64)
    size = 1 + int(nodes.max(initial=0))

    def inside(pairs: np.ndarray) -> np.ndarray:
        # Other pairs do not matter, and their ids may be too large for a code.
        return codes(pairs[np.isin(pairs, nodes).all(1)], size)

    secret = inside(validate.pairs(edges=edges))
    left_out = inside(validate.pairs(known=known))
    units = np.stack([nodes[end] for end in np.triu_indices(len(nodes), 1)], 1)
    code = codes(units, size)
    kept = ~np.isin(code, left_out)
    return Targets(units[kept], np.isin(code[kept], secret))


def balanced_pairs(
    key: PRNGKey,
    nodes: Numbers,
    edges: Numbers,
    *,
    known: Numbers = (),
) -> Targets:
    """The edges among some nodes and as many pairs without an edge, as attacks are published.

    At the true density the same attack is far less precise: see :func:`all_pairs`, whose arguments
    these are.

    >>> balanced_pairs(
    ...     jax.random.key(0), np.arange(9), [[0, 1], [3, 4]]
    ... ).truth.tolist()
    [True, True, False, False]
    """
    validate.threefry(key)
    every = all_pairs(nodes, edges, known=known)
    with_edge = np.flatnonzero(every.truth)
    without = np.flatnonzero(~every.truth)
    require(
        len(without) >= len(with_edge),
        "nodes must have as many pairs without an edge as with one, "
        f"got {len(without)} and {len(with_edge)}",
    )
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())
    drawn = np.sort(rng.choice(without, len(with_edge), replace=False))
    taken = np.concatenate([with_edge, drawn])
    return Targets(every.units[taken], every.truth[taken])


def distinct(name: str, nodes: Numbers, size: int = 2**31) -> Int[np.ndarray, " p"]:
    """Nodes as int32, refused unless distinct, in [0, size) and at least one."""
    nodes = validate.complete(**{name: nodes})
    whole = nodes.ndim == 1 and len(nodes) and np.issubdtype(nodes.dtype, np.integer)
    require(
        whole and 0 <= nodes.min() <= nodes.max() < size and len(np.unique(nodes)) == len(nodes),
        f"{name} must be distinct integers in [0, {size}), at least one",
    )
    return nodes.astype(np.int32)


def check_targets(
    targets: Targets, size: int | None = None, k: int | None = 2
) -> tuple[np.ndarray, np.ndarray]:
    """Units [p, k] and truth [p]; refused unless units are k-tuples of nodes in [0, size)."""
    units = validate.complete(units=targets.units)
    truth = validate.complete(truth=targets.truth)
    tuples = units.ndim == 2 and k in (None, units.shape[1])
    require(
        tuples and truth.shape == units.shape[:1] and truth.dtype == bool,
        f"targets must be units, integers [p, {k or 'k'}], and truth, bool [p], got shapes "
        f"{units.shape} and {truth.shape}, of {units.dtype} and {truth.dtype}",
    )
    validate.ids(size, **{"units of targets": units})
    return units, truth


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Scores:
    """A table of scores: each metric, such as ``scores.auc``, is a mean with its interval."""

    name: str
    metrics: dict[str, ConfidenceInterval]
    _samples: np.ndarray  # [rows, metrics], the values that intervals are made of
    _: dataclasses.KW_ONLY
    _confidence: float = 0.95
    _about: str = ""  # what is printed of the rows
    _of: bytes = b""  # a digest of the targets, or of the records

    _sign: ClassVar[str] = ""
    _rows: ClassVar[str] = "rows"

    def minus(self, other: "Scores") -> "Difference":
        """How much larger each metric is than that of ``other``, by intervals of paired samples.

        ``ValueError`` unless both are of the same targets or records, or of as many users, who are
        told by their places.
        """
        require(
            self._samples.shape == other._samples.shape and self._of == other._of,
            f"{other.name} must be of the {self._rows} of {self.name}, got others",
        )
        gap = self._samples - other._samples
        name = f"{self.name} minus {other.name}"
        metrics = intervals(self.metrics, gap, self._confidence)
        return Difference(name, metrics, gap, _confidence=self._confidence, _of=self._of)

    def __getattr__(self, metric: str) -> ConfidenceInterval:
        known = self.__dict__.get("metrics", {})
        if metric in known:
            return known[metric]
        raise AttributeError(f"{type(self).__name__} has no {metric!r}")

    def __str__(self) -> str:
        digits = 4 if "mse" in self.metrics else 3
        shown = [
            f"{title} {_number(self.metrics[metric], self._sign, digits)}"
            for metric, title in _TITLES.items()
            if metric in self.metrics
        ]
        return f"{self.name}: {', '.join(shown)}{self._about}"

    __repr__ = __str__


class Difference(Scores):
    """How much more one attack finds than another; each metric is an interval."""

    _sign = "+"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Attack(Scores):
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

    _rows: ClassVar[str] = "targets"

    @property
    def strict_tpr(self) -> ConfidenceInterval | None:
        """The true positive rate at 0.1 % false ones.

        None but for memberships with at least 1000 others each.
        """
        return self.metrics.get("strict_tpr")


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Reconstruction(Scores):
    """Records ``x`` as an attacker reconstructed them.

    Prints as one line; ``a.minus(b)`` compares two of the same records, and a better one has a
    negative MSE.

    ``metrics``: ``mse``, the squared error a feature, of images ``ssim``; means over records,
    Student's interval.
    """

    x: Float[np.ndarray, "n d"]

    _rows: ClassVar[str] = "records"

    @property
    def ssim(self) -> ConfidenceInterval | None:
        """The structural similarity; None where records are no images."""
        return self.metrics.get("ssim")


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Poisoning(Scores):
    """The harm that a number of ``liars`` does to the honest.

    Prints as one line; ``a.minus(b)`` compares two, by the users who are honest in both.

    ``metrics`` are ``honest`` and ``poisoned``, the mean over honest users without malicious users
    and with them, and ``harm``, the former less the latter, paired by user: with Student's
    interval.
    """

    liars: int

    _rows: ClassVar[str] = "users"

    @classmethod
    def of(cls, name: str, before: np.ndarray, after: np.ndarray, liars: int) -> "Poisoning":
        """Make one of a value a user without malicious users and with them, NaN of these."""
        samples = np.stack([before, after, before - after], 1)
        metrics = intervals(("honest", "poisoned", "harm"), samples)
        return cls(name, metrics, samples, liars, _about=f"; {liars} of {len(samples)} lie")


def intervals(
    names: Iterable[str], samples: Float[np.ndarray, "rows metrics"], confidence: float = 0.95
) -> dict[str, ConfidenceInterval]:
    """Student's interval of each metric over the rows that have it."""
    found = {}
    for name, column in zip(names, samples.T, strict=True):
        known = column[~np.isnan(column)]
        found[name] = mean_interval(known if len(known) else column, confidence)
    return found


def _number(value: ConfidenceInterval, sign: str = "", digits: int = 3) -> str:
    return f"{value.mean:{sign}.{digits}f} ± {value.half_width:.{digits}f}"


def evaluate(
    name: str,
    scores: Numbers,
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
    units, truth = check_targets(targets, k=None)
    scores, density = _checked(name, scores, density, truth.shape)
    require(
        truth.any() and not truth.all(),
        f"targets must be true and false ones, got {truth.sum()} of {len(truth)} true",
    )
    who, place = np.unique(units, return_inverse=True)
    require(len(who) >= 3, f"targets must have at least three units, got {len(who)}: no interval")
    place = place.reshape(units.shape)
    code = codes(place, len(who))
    require(
        units.shape[1] > 2 or not np.isin(code[truth], code[~truth]).any(),
        "targets must have one truth each, and some node, or pair in either order, has both",
    )
    groups = min(len(who), _GROUPS)
    of_node = np.random.default_rng(0).permutation(len(who)) % groups
    group = of_node[place]

    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))  # of each run of ties
    judged = partial(_metrics, truth=truth[order], ends=ends, density=density)
    estimate = judged(np.ones((1, len(truth)), bool))[0]
    step = max(1, _BLOCK // len(truth))
    left_out = []
    for part in np.split(np.arange(groups), np.arange(step, groups, step)):
        kept = (group[order] != part[:, None, None]).all(-1)
        left_out.append(judged(kept))
    # Their mean is the estimate, and the variance of this mean is that of the jackknife.
    without = np.concatenate(left_out)
    samples = estimate - (groups - 1) * (without - without.mean(0))
    metrics = intervals(_METRICS, samples, confidence)
    for metric, mean in zip(_METRICS, estimate, strict=True):
        metrics[metric] = metrics[metric]._replace(mean=float(mean), n=len(who))
    share = float(truth.mean())
    return Attack(
        name,
        metrics,
        samples,
        targets,
        scores,
        share,
        density or share,
        _confidence=confidence,
        _about=f"; {truth.sum()} of {len(truth)} true",
        _of=digest((units.astype(np.int64), truth)),
    )


def _checked(
    name: str, scores: Numbers, density: float | None, shape: tuple
) -> tuple[np.ndarray, float | None]:
    scores = validate.numbers(scores=scores)
    require(
        scores.shape == shape and not np.isnan(scores).any(),
        f"scores of {name} must be numbers {list(shape)}, got NaN or shape {scores.shape}",
    )
    if density is not None:
        density = validate.number(0.0, 1.0, open_lower=True, density=density)
    return scores, density


def evaluate_membership(
    name: str,
    scores: Numbers,
    member: Numbers,
    *,
    density: float | None = None,
    confidence: float = 0.95,
) -> Attack:
    """Judge the scores of an attack on memberships as :func:`evaluate` judges others.

    Each metric is computed on the nodes of one target model at a time; intervals are Student's,
    over models, which they take for more independent than they are. ``scores`` are float [N, n],
    ``member`` is bool [N, n], the truth: which of n nodes each of N targets was trained on;
    ``density`` is by default the true one of each target.

    >>> member = np.array([[True, False, True], [False, False, True]])
    >>> evaluate_membership("opposite", -1.0 * member, member).auc.mean
    0.0
    """
    member = check_member(member)
    scores, density = _checked(name, scores, density, member.shape)
    order = np.argsort(-scores, 1, kind="stable")
    ordered = np.take_along_axis(scores, order, 1)
    places = np.arange(scores.shape[1])
    last = np.ones(scores.shape, bool)
    last[:, :-1] = ordered[:, 1:] != ordered[:, :-1]
    # The end of the run of equal scores that a place is in: the next place that ends one.
    backwards = np.where(last, places, len(places))[:, ::-1]
    ends = np.minimum.accumulate(backwards, 1)[:, ::-1]
    names = _METRICS
    rates = [_FALSE]
    if (~member).sum(1).min() >= 1 / _STRICT:
        names = (*_METRICS, "strict_tpr")
        rates = [_FALSE, _STRICT]
    truth = np.take_along_axis(member, order, 1)
    samples = _metrics(np.ones_like(member), truth, ends, density, rates)
    share = float(member.mean())
    return Attack(
        name,
        intervals(names, samples, confidence),
        samples,
        Targets(places[:, None], member),
        scores,
        share,
        density or share,
        _confidence=confidence,
        _about=f"; {len(member)} targets of {len(places)} nodes",
        _of=digest(member),
    )


def check_member(member: Numbers) -> Bool[np.ndarray, "N n"]:
    """Memberships, refused unless each of N targets was trained on some nodes and not on others."""
    member = validate.complete(member=member)
    require(
        member.ndim == 2 and member.dtype == bool and member.size,
        f"member must be bool [N, n], got {member.dtype} of shape {member.shape}",
    )
    members = member.sum(1)
    require(
        0 < members.min() <= members.max() < member.shape[1],
        "member must have nodes that each target was trained on and others, "
        f"got from {members.min()} to {members.max()} of {member.shape[1]}",
    )
    return member


def _metrics(
    kept: np.ndarray,
    truth: np.ndarray,
    ends: np.ndarray,
    density: float | None,
    false_rates: Sequence[float] = (_FALSE,),
) -> np.ndarray:
    """All metrics of targets in falling order of their scores; float64 [rows of kept, metrics]."""
    # Pairs that are ``kept``, bool [rows, p], count; ``ends`` are the last places of runs of equal
    # scores. Where rows have orders of their own, ``truth`` and ``ends``, of each place's run, are
    # [rows, p].
    first = np.zeros((len(kept), 1))

    def counted(side: np.ndarray) -> np.ndarray:
        count = np.cumsum(kept & side, 1, dtype=np.float64)
        at_ends = np.take_along_axis(count, np.atleast_2d(ends), 1)
        return np.concatenate([first, at_ends], 1)

    true = counted(truth)
    false = counted(~truth)
    trues = true[:, -1]
    falses = false[:, -1]
    rows = np.arange(len(kept))

    def at(count: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """How many true ones stand before ``count`` passes ``wanted``, a part of a run of ties."""
        index = (count <= wanted[:, None] * (1 + 1e-12)).sum(1) - 1
        after = np.minimum(index + 1, count.shape[1] - 1)
        gap = count[rows, after] - count[rows, index]
        part = (wanted - count[rows, index]) / np.where(gap > 0, gap, np.inf)
        in_run = true[rows, after] - true[rows, index]
        return true[rows, index] + np.maximum(part, 0.0) * in_run

    total = true + false
    wanted = trues if density is None else density * (trues + falses)
    with np.errstate(invalid="ignore", divide="ignore"):
        twice_area = (np.diff(false) * (true[:, 1:] + true[:, :-1])).sum(1)
        area = twice_area / (2 * trues * falses)
        precision = true[:, 1:] / np.maximum(total[:, 1:], 1.0)
        average = (np.diff(true) * precision).sum(1) / trues
        found = at(total, wanted)
        stand_out = [at(false, rate * falses) / trues for rate in false_rates]
        return np.stack([area, average, found / wanted, found / trues, *stand_out], 1)


def table(attacks: Sequence[Attack], *, beside: Attack | None = None) -> str:
    """Attacks as a Markdown table, one line each.

    With a column of what each finds beyond ``beside``.
    """
    titles = ["attack", *(_TITLES[metric] for metric in _METRICS)]
    if beside is not None:
        titles.append(f"AUC beyond {beside.name}")
    lines = [titles, ["---"] + ["--:"] * (len(titles) - 1)]
    for attack in attacks:
        cells = [attack.name, *(_number(attack.metrics[metric]) for metric in _METRICS)]
        if beside is not None:
            cells.append(_number(attack.minus(beside).auc, "+"))
        lines.append(cells)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
