"""Public feature rows, dense or sparse, as what logistic regression multiplies."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jaxtyping import Float

from ldp_jax._pytree import pytree, static
from ldp_jax.types import Array

__all__ = ["Rows", "feature_rows"]


def __dir__() -> list[str]:
    return __all__


@pytree
class Rows:
    """A sparse matrix of n rows and d columns by its entries, sorted by row; made by :func:`feature_rows`.

    Attributes:
      row: int32 [entries], non-decreasing.
      column: int32 [entries].
      value: float32 [entries].
      shape: (n, d), static.
    """

    row: Any
    column: Any
    value: Any
    shape: tuple[int, int] = static()

    def times(self, weights: Float[Array, "d k"]) -> Float[Array, "n k"]:
        """The product with a dense matrix: O(entries k)."""
        part = weights[self.column] * self.value[:, None]
        return jax.ops.segment_sum(part, self.row, num_segments=self.shape[0], indices_are_sorted=True)


def feature_rows(x: Any, *, log: bool = False) -> Rows:
    """Public features with rows of Euclidean length 1, as a classifier takes them; rows of zeros stay.

    Args:
      x: [n, d], dense or any scipy sparse matrix.
      log: log(1 + x) first, for counts; the public schema of the data says which these are.

    Raises:
      ValueError: for another shape, numbers that are not finite, or negative ones with ``log``.

    >>> feature_rows(np.array([[3.0, 4.0], [0.0, 0.0]])).times(jnp.ones((2, 1))).ravel().tolist()
    [1.40000..., 0.0]
    """
    sparse = scipy.sparse.csr_array(x) if scipy.sparse.issparse(x) else scipy.sparse.csr_array(_dense(x))
    sparse.sum_duplicates()
    values = sparse.data.astype(np.float64)
    if not np.isfinite(values).all():
        raise ValueError("x must be finite, and is not everywhere")
    if log:
        if (values < 0).any():
            raise ValueError("x must be counts >= 0 where log is asked for, and is not everywhere")
        values = np.log1p(values)
    row = np.repeat(np.arange(sparse.shape[0]), np.diff(sparse.indptr))
    length = np.sqrt(np.bincount(row, weights=values**2, minlength=sparse.shape[0]))
    values = values / np.where(length > 0, length, 1.0)[row]
    arrays = (row.astype(np.int32), sparse.indices.astype(np.int32), values.astype(np.float32))
    n, d = sparse.shape
    return Rows(*map(jnp.asarray, arrays), shape=(int(n), int(d)))


def _dense(x: Any) -> np.ndarray:
    x = np.asarray(x)
    if x.ndim != 2 or not np.issubdtype(x.dtype, np.number) or np.iscomplexobj(x):
        raise ValueError(f"x must be real features of shape [n, d], got {x.dtype} of shape {x.shape}")
    return x
