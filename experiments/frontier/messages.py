"""Messages that devices may send in place of the best class of a personal alphabet. None does better in any row."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse

from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core.mechanism import privatize
from ldp_jax.core.types import Array, PRNGKey
from ldp_jax.features import HDS, PersonalAlphabets, PrivUnitG, ProjUnit
from ldp_jax.pipeline.from_reports import class_reports
from ldp_jax.pipeline.local_prediction import Broadcast, Collect, PanelFacts, ReadReports
from ldp_jax.servers.parts.confusion import SMOOTHINGS
from ldp_jax.servers.parts.rows import Rows

AXES = 16
"""Numbers that a record is projected to."""

_ROWS = 4096
"""Users whose reports are drawn at the same time."""

_AT_A_TIME = 64
"""Reports whose densities are summed together."""


class Message(NamedTuple):
    """What devices send (simulated, of all users), and what it costs."""

    collect: Collect
    guarantee: Guarantee


def best_class(epsilon: float, facts: PanelFacts, rows: Rows) -> Message:
    """The best class of a personal alphabet: what the library sends."""
    return _of_alphabets(PersonalAlphabets.of(epsilon, np.exp(np.asarray(facts.structure.log_q))), rows)


def any_class(epsilon: float, facts: PanelFacts, rows: Rows) -> Message:
    """Generalised randomised response over all classes: where all are alike, an alphabet of all is the best."""
    even = np.full((len(facts.labels), facts.num_classes), 1.0 / facts.num_classes)
    return _of_alphabets(PersonalAlphabets.of(epsilon, even), rows)


def _of_alphabets(alphabets: PersonalAlphabets, rows: Rows) -> Message:
    return Message(class_reports(alphabets, rows), alphabets.guarantee())


def class_scores(epsilon: float, facts: PanelFacts, rows: Rows) -> Message:
    """The direction of the class scores, through PrivUnitG."""
    mechanism = PrivUnitG(epsilon, max(facts.num_classes - 1, 2))

    def vectors(public: Broadcast) -> Array:
        scores = public.classifier.scores(rows)
        return score_directions(scores.at[jnp.asarray(public.panel)].set(public.classifier.panel_scores))

    return Message(_vector_reports(mechanism, vectors, facts.labels), mechanism.guarantee())


def projected_record(epsilon: float, facts: PanelFacts, rows: Rows) -> Message:
    """The record on the principal axes of the panel's records, through ProjUnit."""
    axes = principal_axes(rows.take(np.flatnonzero(facts.labels >= 0)), AXES)
    through = ProjUnit(epsilon, axes)
    return Message(_vector_reports(through.inner, lambda _: rows.times(axes.T), facts.labels), through.guarantee())


def sampled_numbers(epsilon: float, facts: PanelFacts, rows: Rows) -> Message:
    """A few of the record's numbers, through HDS, within the bounds of the panel's."""
    values = np.asarray(rows.take(np.flatnonzero(facts.labels >= 0)).value)
    top = float(np.abs(values).max(initial=0.0)) or 1.0
    low = 0.0 if float(values.min(initial=0.0)) >= 0 else -top
    mechanism = HDS(epsilon, rows.shape[1], max(1, min(rows.shape[1], int(epsilon / 2.5))))

    def vectors(_: Broadcast) -> np.ndarray:
        share = (rows.dense() - np.float32(low)) / np.float32(top - low)
        return np.clip(2 * share - 1, -1.0, 1.0)

    return Message(_vector_reports(mechanism, vectors, facts.labels), mechanism.guarantee())


def _vector_reports(
    mechanism: Any, vectors: Callable[[Broadcast], Array | np.ndarray], labels: np.ndarray
) -> Collect:
    """Noisy vectors [n, k], and what they say of the user's class."""

    def collect(key: PRNGKey, public: Broadcast) -> ReadReports:
        sent, panel = vectors(public), public.panel
        starts = range(0, len(sent), _ROWS)
        keys = jax.random.split(key, len(starts))
        pieces = [privatize(one, mechanism, sent[at : at + _ROWS]) for one, at in zip(keys, starts, strict=True)]
        reports = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *pieces)
        own = np.full(len(labels), -1, np.int32)
        own[panel] = np.arange(len(panel))
        posterior = jnp.asarray(public.posterior)
        return density_evidence(mechanism, reports, sent[panel], labels[panel], own, posterior, labels < 0)

    return collect


def score_directions(scores: Array | np.ndarray) -> Array:
    """Class scores [n, C] less their mean, of length 1, in C - 1 numbers; for two classes a sign and a 0.

    >>> score_directions(jnp.array([[3.0, 1.0], [0.0, 2.0]])).tolist()
    [[1.0, 0.0], [-1.0, 0.0]]
    """
    classes = scores.shape[1]
    # Columns of length 1, orthogonal to each other and to a constant: class j against those after it.
    before = np.arange(classes)[:, None] - np.arange(classes - 1)
    rest = classes - 1 - np.arange(classes - 1)
    contrasts = np.where(before == 0, rest, np.where(before > 0, -1.0, 0.0)) / np.sqrt(rest * (rest + 1.0))
    made = jnp.asarray(scores, jnp.float32) @ jnp.asarray(contrasts, jnp.float32)
    made = made / jnp.maximum(jnp.linalg.norm(made, axis=1, keepdims=True), 1e-12)
    return jnp.pad(made, ((0, 0), (0, max(0, 3 - classes))))


def principal_axes(rows: Rows, most: int) -> Array:
    """Directions [k, d] in which public records vary most, orthogonal to their mean; projected, half are 1 long."""
    given = (np.asarray(rows.value, np.float64), (np.asarray(rows.row), np.asarray(rows.column)))
    matrix = scipy.sparse.csr_array(given, shape=rows.shape)
    mean = np.asarray(matrix.mean(0)).ravel()
    mean = mean / max(float(np.linalg.norm(mean)), 1e-300)
    along = matrix @ mean
    gram = (matrix @ matrix.T).toarray() - np.outer(along, along)
    values, vectors = np.linalg.eigh(gram)
    kept = np.flatnonzero(values > 1e-9 * float((matrix.data**2).sum()))[::-1][:most]
    if len(kept) < 2:
        raise ValueError("rows of the panel must vary in at least two directions, and do not")
    turned = vectors[:, kept] / np.sqrt(values[kept])
    axes = matrix.T @ turned - np.outer(mean, along @ turned)
    lengths = np.linalg.norm(matrix @ axes, axis=1)
    return jnp.asarray(axes.T / max(float(np.median(lengths)), 1e-12), jnp.float32)


def density_evidence(
    law: Any, reports: Any, records: Array | np.ndarray, labels: np.ndarray, own: np.ndarray, posterior: Array,
    counted: np.ndarray,
) -> ReadReports:  # fmt: skip
    r"""The evidence of reports whose law given a record has a density, up to a number for each user.

    The density under class y is the mean of the densities under the records of the panel's :math:`n_y` members of
    that class, and of as many ``smoothing`` counts under those of the whole panel:

    .. math:: l(y) = \log \frac{\sum_{j: y_j = y} p(\text{report} | x_j)
       + \frac{s}{m} \sum_j p(\text{report} | x_j)}{n_y + s}.

    A member's own record takes no part in reading a report of it. Of :data:`SMOOTHINGS` s is the likeliest.

    Args:
      law: a mechanism with a density, a pytree.
      reports: stacked along an axis of n.
      records: [panel, d], before the noise of ``law``.
      labels: int [panel] in [0, C).
      own: int [n], the place of each user in the panel; -1 outside it.
      posterior: [n, C], public.
      counted: bool [n], who reported, and is not of the panel.
    """
    classes = np.eye(posterior.shape[1], dtype=np.float32)[labels]
    sums = _density_sums(law, reports, jnp.asarray(records), jnp.asarray(classes), jnp.asarray(own))
    sizes = classes.sum(0) - np.where((own >= 0)[:, None], classes[np.maximum(own, 0)], 0.0)
    found = [
        ReadReports(_smoothed(sums, jnp.asarray(sizes), jnp.float32(smoothing)), smoothing)
        for smoothing in SMOOTHINGS
    ]
    return max(found, key=lambda one: float(_log_marginal(one.evidence, posterior, jnp.asarray(counted))))


@jax.jit
def _density_sums(law: Any, reports: Any, records: Array, classes: Array, own: Array) -> Array:
    """Densities of each report summed over the panel by class, in units of the largest one; [n, C]."""
    place = jnp.arange(len(records))

    def one(user: Any) -> Array:
        report, own = user
        log_p = jax.vmap(lambda record: law.log_density(report, record))(records)
        log_p = jnp.where(place == own, -jnp.inf, log_p)
        most = log_p.max()
        return jnp.exp(log_p - jnp.where(jnp.isfinite(most), most, 0.0)) @ classes

    return jax.lax.map(one, (reports, own), batch_size=_AT_A_TIME)


@jax.jit
def _smoothed(sums: Array, sizes: Array, smoothing: Array) -> Array:
    anybody = sums.sum(1, keepdims=True) / jnp.maximum(sizes.sum(1, keepdims=True), 1.0)
    return jnp.log(jnp.maximum((sums + smoothing * anybody) / (sizes + smoothing), 1e-30))


@jax.jit
def _log_marginal(evidence: Array, posterior: Array, counted: Array) -> Array:
    each = jax.nn.logsumexp(jnp.log(jnp.maximum(posterior, 1e-30)) + evidence, axis=-1)
    return jnp.where(counted, each, 0.0).sum()
