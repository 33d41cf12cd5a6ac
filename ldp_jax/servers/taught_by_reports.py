"""Evidence beside structure from reports of classes, a user's own and those of neighbours."""

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.core.types import Array
from ldp_jax.graph.propagation import Operator, ppr
from ldp_jax.servers.parts.device_classifier import panel_regression
from ldp_jax.servers.parts.self_training import FoldedLabels
from ldp_jax.servers.parts.stack import stack_out_of_fold

_ALPHA = 0.1  # of the PageRank of the evidence

# of the stacks, which are pulled to Bayes' rule: structure and own report by one each, the rest by
# 0
_RIDGE = 5.0


def stacked(op: Operator, narrow: list[Array], known: FoldedLabels) -> Array:
    """The mean of a narrow and a wide stack: the log posterior, out of fold.

    ``narrow`` are structure, the evidence of the own report, and the field of others'. The wide
    stack has the neighbours' evidence and a regression on all of it, too. Both are near to
    structure plus the own report.
    """
    around, design = _around(op, narrow)
    wide = [*narrow, *around, panel_regression(design, known)]
    made = []
    for scores in (narrow, wide):
        towards = np.where(np.arange(len(scores)) < 2, 1.0, 0.0)
        columns = np.stack([np.asarray(each) for each in scores], -1)
        made.append(stack_out_of_fold(columns, known, towards, ridge=_RIDGE)[0])
    mean = np.logaddexp(*made) - np.float32(np.log(2.0))
    return jax.device_put(mean)


@jax.jit
def _around(op: Operator, narrow: list[Array]) -> tuple[list[Array], Array]:
    """Sums of neighbours' evidence at one and two hops, its PageRank, columns of a regression."""
    evidence = narrow[1]

    def hop(w: Array, _: None) -> tuple[Array, Array]:
        total = op.degree[:, None] * op.nodes(op.average(op.rows(w)))
        return total, total

    _, hops = jax.lax.scan(hop, evidence, length=2)
    around = [*hops, ppr(op, evidence, _ALPHA, 0.5, 1e-3)]

    # Columns of a regression: scores less their mean over classes, of one size, rows of length
    # about 1.
    each = jnp.stack([*narrow, *around], 1)
    centred = each - each.mean(2, keepdims=True)
    root_mean_square = jnp.sqrt((centred**2).sum(2).mean(0))
    size = jnp.maximum(root_mean_square, 1e-12) * each.shape[1] ** 0.5
    return around, (centred / size[:, None]).reshape(len(each), -1)
