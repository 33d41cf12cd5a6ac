"""Embeddings of reports that real devices sent: of some users, in any order.

Whoever is silent, late or unknown contributes nothing: an estimate of 0, or of counts and classes
(:func:`~ldp_jax.servers.classify_counts`, :func:`~ldp_jax.servers.classify_reports`) a
likelihood of one under every class. Reporting must not depend on what is private.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Integer

from ldp_jax.accounting.guarantee import PipelineGuarantee
from ldp_jax.core import validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import Array, Graph, Scalar
from ldp_jax.features import Sampled
from ldp_jax.graph.propagation import Operator
from ldp_jax.servers.embedding import _as_operator, propagate
from ldp_jax.servers.parts.arrived import VectorReports, vectors_by_node


class ReportedEmbedding(NamedTuple):
    """An embedding of those who reported.

    Attributes:
      z: float32 [n, d], of all nodes: silent users have their neighbours' values.
      guarantee: per record of a user who reported.
      reported: bool [n].
      strangers: how many rows were of users who are no node.
    """

    z: Float[Array, "n d"]
    guarantee: PipelineGuarantee
    reported: Bool[np.ndarray, " n"]
    strangers: int

    __repr__ = by_shapes


@implicit_promotion()
def embed_reports(
    graph: Graph | Operator,
    mechanism: Sampled,
    nodes: Integer[np.ndarray, " n"],
    reports: VectorReports,
    *,
    alpha: Scalar,
    r: Scalar,
    tol: Scalar = 1e-5,
) -> ReportedEmbedding:
    """Propagate the reports of one round over a public graph.

    A user without a report contributes zero to each coordinate. Rows of users who are no node are
    left out.
    Guarantee: that of the mechanism, per record; over several rounds it adds up
    (:meth:`ldp_jax.deployment.store.ReportStore.spent`).

    Args as those of :func:`~ldp_jax.servers.private_embedding`, but for these:

      graph: of n nodes, or its operator.
      mechanism: whose table the devices have, as ``Sampled(Discrete.of(table), dim, k)``.
      nodes: the user of each node, distinct.
      reports: see :class:`VectorReports`.

    ``ValueError`` for a mechanism without a table, arrays that do not fit each other, a user with
    two rows, or indices and outputs that the mechanism does not have.

    >>> from ldp_jax.deployment import Vectors
    >>> from ldp_jax.features import GridSquareWave
    >>> from ldp_jax.graph import graphs
    >>> mechanism = Sampled(GridSquareWave(2.0), dim=3, k=1)
    >>> graph = graphs.from_edges([[0, 1], [1, 2]], num_nodes=3)
    >>> users, rounds = np.uint64([30, 77]), np.uint32([0, 0])
    >>> index, output = np.int32([[2], [0]]), np.int32([[5], [5]])
    >>> digest = mechanism.inner.table().digest
    >>> sent = Vectors(users, rounds, index, output, 0, digest)
    >>> found = embed_reports(
    ...     graph, mechanism, np.array([10, 20, 30]), sent, alpha=0.1, r=0.5
    ... )
    >>> found.z.shape, found.reported.tolist(), found.strangers
    ((3, 3), [False, False, True], 1)
    """
    op = _as_operator(graph)
    n = op.num_nodes
    given, reported, strangers = vectors_by_node(
        mechanism, validate.complete(nodes=nodes), n, reports
    )
    z = propagate(op, mechanism, given, alpha=alpha, r=r, tol=tol, reported=reported)
    guarantee = PipelineGuarantee.of(
        [mechanism.guarantee()],
        protected=("features",),
        unprotected=("edges", "labels", "who reported"),
    )
    return ReportedEmbedding(z, guarantee, reported, strangers)
