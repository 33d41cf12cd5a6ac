"""Which features matter to a model, and which reveal sensitive inputs.

Scores for the budgets of FeatureRR.

No guarantee of FeatureRR covers scores of private records: those of :class:`Public` values alone
become numbers.

>>> from ldp_jax.features import FeatureRR, importance_weights
>>> panel = Public(np.array([[0.0, 1.0], [1.0, 3.0]]), "a panel that opted in")
>>> model = Public(
...     lambda rows: 2 * rows[:, 0] + rows[:, 1], "trained on the panel"
... )
>>> alpha = importance(jax.random.key(0), model, panel, panel, draws=2)
>>> np.asarray(alpha).tolist()
[0.5, 0.5]
>>> embed = Public(lambda rows: rows, "the identity")
>>> beta = sensitivity(
...     embed, panel, Public(panel.value * [0, 1], "its first input masked")
... )
>>> FeatureRR(
...     4.0, 8, importance_weights(alpha, beta)
... ).guarantee().epsilon <= 4.0
True
>>> np.asarray(sensitivity(embed, np.eye(2), np.zeros((2, 2))))
Traceback (most recent call last):
ValueError: sensitivity was computed on private x, masked: a release of its own. Take public ...
"""

import dataclasses
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Float, Float64, PyTree
from numpy.typing import DTypeLike

from ldp_jax.core import random, validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import AnyArray, Array, Numbers, PRNGKey

__all__ = ["Public", "importance", "sensitivity"]

__dir__ = lambda: __all__


@dataclasses.dataclass(frozen=True, eq=False)
class Public:
    """Public records, or a function of nothing private, such as a model trained on public data.

    ``source`` says in words where the ``value`` comes from.
    """

    value: PyTree
    source: str

    __repr__ = by_shapes

    def __post_init__(self) -> None:
        validate.require(
            isinstance(self.source, str) and self.source.strip(),
            "source must say in words where the value comes from",
            self.source,
        )


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class FeatureScores:
    """A score for each feature. ``np.asarray`` gives the numbers of public scores.

    ``sources`` are those of public arguments, ``private`` the names of arguments that were not
    :class:`Public`.
    """

    name: str
    sources: tuple[str, ...]
    private: tuple[str, ...]
    _values: Float64[np.ndarray, " d"]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        validate.require(
            not self.private,
            f"{self.name} was computed on private {', '.join(self.private)}: a release of its "
            "own. Take public ones, marked as Public",
        )
        return np.array(self._values, dtype)

    def audit(self) -> Float64[np.ndarray, " d"]:
        """The numbers, of private scores too: float64 [d], never to be released."""
        return self._values.copy()

    def __repr__(self) -> str:
        on = "; ".join(self.sources)
        if self.private:
            on = f"private {', '.join(self.private)}"
        return f"FeatureScores({self.name} of {len(self._values)} features, computed on {on})"


def _value(given: PyTree) -> PyTree:
    return given.value if isinstance(given, Public) else given


def _records(name: str, given: Numbers | Public) -> Array:
    rows = _value(given)
    if not isinstance(rows, jax.Array):
        rows = validate.numbers(**{name: rows})
    rows = jnp.asarray(rows, jnp.float32)
    validate.require(
        rows.ndim == 2 and len(rows), f"{name} must be records [n, d], got shape {rows.shape}"
    )
    return rows


def _scores(name: str, values: AnyArray, **given: PyTree) -> FeatureScores:
    """Scores that sum to 1, which remember whether the arguments of their call were public."""
    values = np.asarray(values, np.float64)
    # The message does not say which value it is: that is private.
    validate.require(
        np.isfinite(values).all() and values.sum() > 0,
        f"{name} must leave something to normalise: finite changes, not all 0",
    )
    sources = [one.source for one in given.values() if isinstance(one, Public)]
    private = [argument for argument, one in given.items() if not isinstance(one, Public)]
    distinct = tuple(dict.fromkeys(sources))
    return FeatureScores(name, distinct, tuple(private), values / values.sum())


@partial(jax.jit, static_argnames="draws")
def _total(
    key: PRNGKey, x: Array, background: Array, *, function: Partial, draws: int
) -> Float[Array, " d"]:
    """The mean absolute expected gradient of each feature."""

    def gradients(key, x):
        # Background records as often as each other, places stratified.
        order_key, pair_key, place_key = random.split(key, 3)
        order = random.permutation(order_key, len(background))
        order = order[jnp.arange(draws) % len(background)]
        stratum = random.permutation(pair_key, draws)
        place = (stratum + random.uniform(place_key, (draws,))) / draws

        def along(start, t):
            single = lambda row: jnp.atleast_1d(function(row[None])[0])
            between = start + t * (x - start)
            return jax.jacrev(single)(between) * (x - start)

        return jax.vmap(along)(background[order], place).mean(0)

    def add(total, one):
        return total + jnp.abs(gradients(*one)).sum(0) / len(x), None

    keys = random.split(key, len(x))
    return jax.lax.scan(add, jnp.zeros(x.shape[1], jnp.float32), (keys, x))[0]


@implicit_promotion()
def importance(
    key: PRNGKey,
    function: Callable[[Array], Array] | Public,
    x: Numbers | Public,
    background: Numbers | Public,
    *,
    draws: int = 128,
) -> FeatureScores:
    r"""Score how important each feature is to a model, as HeteroRR does.

    The score is the mean of :math:`|\phi_i|` over records and outputs, normalised.

    :math:`\phi_i(x) = E [(x_i - x'_i) \, \partial_i f(x' + t (x - x'))]` over background records x'
    and t uniform in [0, 1]: expected gradients. They are the Shapley values where f is a sum of
    functions of one feature each. ``function`` is of rows [b, d], each by itself, to [b] or [b, c],
    differentiable; each is a compiled program. ``x`` [n, d] are explained by ``draws`` points each,
    and compared with ``background`` [m, d]. Scores sum to 1, and are public where all three
    arguments are. ``ValueError`` where widths differ, or no feature moves an output.
    Reference: HeteroRR eq. 6, averaged over records; Erion et al., Improving performance of deep
    learning models with axiomatic attribution priors and expected gradients (Nature Machine
    Intelligence 2021), eq. 3.
    """
    validate.threefry(key)
    validate.integer_in(1, draws=draws)
    rows = _records("x", x)
    compared = _records("background", background)
    validate.require(
        rows.shape[1] == compared.shape[1],
        f"background must be as wide as x, got {compared.shape[1]} for {rows.shape[1]}",
    )
    explained = model = _value(function)
    if not isinstance(model, Partial):
        # A new function at each call: a model may be trained on between two of them.
        explained = Partial(lambda rows: model(rows))
    values = _total(key, rows, compared, function=explained, draws=draws)
    return _scores("importance", values, function=function, x=x, background=background)


@implicit_promotion()
def sensitivity(
    embed: Callable[[Array], Array] | Public,
    x: Numbers | Public,
    masked: Numbers | Public,
) -> FeatureScores:
    r"""Score how much each feature of an embedding tells of sensitive inputs, as HeteroRR does.

    The score is the change of the feature where the sensitive inputs are masked.

    :math:`\beta_i = |z_i - \hat z_i| / \|z - \hat z\|_1` with z the embedding [n, k] of the records
    x [n, d] and :math:`\hat z` that of ``masked`` ones, averaged over records that change. Scores
    sum to 1, and are public where all three arguments are; ``ValueError`` where masking changes
    nothing.
    Reference: HeteroRR eq. 5, averaged over records.
    """
    rows = _records("x", x)
    hidden = _records("masked", masked)
    validate.require(
        rows.shape == hidden.shape,
        f"masked must be the records x, some masked, got {hidden.shape} for {rows.shape}",
    )
    embedding = _value(embed)
    seen = np.asarray(embedding(rows), np.float64)
    unseen = np.asarray(embedding(hidden), np.float64)
    change = np.abs(seen - unseen)
    validate.require(
        change.ndim == 2 and len(change) == len(rows),
        f"embed must make [n, k] of [n, d], got shape {change.shape}",
    )
    total = change.sum(1, keepdims=True)
    shares = change / np.where(total > 0, total, 1.0)
    return _scores("sensitivity", shares.mean(0), embed=embed, x=x, masked=masked)
