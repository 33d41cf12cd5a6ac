"""The release of a graph by a trusted curator."""

import abc
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from ldp_jax.accounting.guarantee import EDGE_CENTRAL, Guarantee, PipelineGuarantee, Status
from ldp_jax.core import random, validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.types import PRNGKey
from ldp_jax.curators.hrg import Dendrogram, State
from ldp_jax.curators.split import EdgeSplit, NodePairs
from ldp_jax.edges.population import Population, ReportedPairs
from ldp_jax.edges.whole_graph import NoisyGraph
from ldp_jax.graph import graphs

ADJACENCY = "two graphs of the same nodes and public edges that differ in one private edge"
"""The two inputs that guarantees of this package compare."""

MEMORY = 8e9
"""Bytes of released pairs above which a dense release is refused unless the caller allows more."""

# It is folded into a release's key, so that no chain that is compared is released.
_MIXING = 0x6D6978


class CentralMechanism(abc.ABC):
    """A mechanism of a trusted curator, who sees all edges and protects private ones; abstract.

    A subclass is a pytree. :func:`ldp_jax.edges.privatize_graph` takes the edges of two private
    users for private.
    """

    @abc.abstractmethod
    def guarantee(self) -> Guarantee:
        """Per private edge."""

    @abc.abstractmethod
    def sample_pairs(
        self,
        key: PRNGKey,
        split: EdgeSplit,
        memory: float = MEMORY,
    ) -> NodePairs:
        """Draw the released pairs of private nodes, each once, none of them a public edge."""

    def sample_graph(self, key: PRNGKey, users: Population, memory: float) -> ReportedPairs:
        """The released pairs where every edge of two private users is private, and no other."""
        validate.require(
            not users.group.any(),
            f"{type(self).__name__} takes one graph: release each of a set alone",
        )
        n = len(users.group)
        private = users.private[users.senders] & users.private[users.receivers]
        of = lambda chosen: graphs.directed(users.senders[chosen], users.receivers[chosen], n)
        split = EdgeSplit(of(~private), of(private), users.private)
        found = self.sample_pairs(key, split, memory).astype(np.int32)
        # It refuses a pair that is released twice, or is public, as release() does.
        graphs.from_edges(
            np.concatenate([graphs.to_edges(split.public), found]), n, pairs_in="rows"
        )
        return ReportedPairs(found[:, 0], found[:, 1], np.full(n, np.nan, np.float32))


class DendrogramLaw(NamedTuple):
    """The law of a curator's dendrogram and of its counts.

    ``scales`` are the chain's factors of the log-likelihoods of public and of private edges,
    ``epsilon`` is of one noisy count, ``thresholds`` of the groups
    (:func:`~ldp_jax.curators.connections.regions`). ``published`` chains alternate between the
    likelihoods and have no known law; every node of a group has its own count.
    """

    scales: tuple[float, float]
    epsilon: float
    thresholds: tuple[float, float]
    published: bool = False


@runtime_checkable
class HasDendrogram(Protocol):
    """A curator whose release is made of a chain's dendrogram and of noisy counts alone."""

    @property
    def sweeps(self) -> int:
        """How many sweeps the chain makes."""

    def dendrogram_law(self, num_nodes: int) -> DendrogramLaw:
        """The law over so many private nodes."""

    def dendrogram(self, key: PRNGKey, split: EdgeSplit) -> Dendrogram | State:
        """A dendrogram, or the chain's state that holds one as ``tree``."""


@runtime_checkable
class HasStationaryLaw(Protocol):
    """A curator whose epsilon is that of a chain's stationary law."""

    def stationary(self) -> Guarantee:
        """The guarantee of a draw of the stationary law."""

    def measured(self, key: PRNGKey, split: EdgeSplit, chains: int) -> Guarantee:
        """The same where several chains agree on these edges, else none."""


def promised(mechanism: CentralMechanism) -> Guarantee:
    """The promise of the law that verification enumerates: of a chain, its stationary one."""
    if isinstance(mechanism, HasStationaryLaw):
        return mechanism.stationary()
    return mechanism.guarantee()


@implicit_promotion()
def release(
    key: PRNGKey,
    split: EdgeSplit,
    mechanism: CentralMechanism,
    *,
    memory: float = MEMORY,
    chains: int = 4,
) -> NoisyGraph:
    """Release the public edges and a mechanism's pairs for the private ones, as one graph.

    The guarantee is about the returned value alone. Running time, memory and shapes of compiled
    programs follow the private edges and the draws: protect them as you protect the graph.
    ``memory`` bytes of released pairs are allowed. ``chains`` more measure whether the mechanism's
    own has mixed; 0 measures, and claims of it, nothing.

    The graph is undirected, degrees are all NaN, and the guarantee per private edge is infinite for
    a chain that has not mixed. Private edges decide that: protect it as you protect the graph.

    >>> import jax
    >>> from ldp_jax.curators import EdgeRand
    >>> split = EdgeSplit(
    ...     graphs.from_edges([[0, 1]], 4), graphs.from_edges([[1, 2]], 4)
    ... )
    >>> noisy = release(jax.random.key(0), split, EdgeRand(2.0))
    >>> print(noisy.guarantee)  # doctest: +ELLIPSIS
    protected: private edges; NOT protected: public edges, private nodes, number of nodes
      epsilon 2 per edge-central (...)
    """
    validate.require(
        isinstance(split, EdgeSplit), f"split must be an EdgeSplit, got {type(split).__name__}"
    )
    validate.threefry(key)
    promise = mechanism.guarantee()
    if isinstance(mechanism, HasStationaryLaw):
        promise = mechanism.measured(random.fold_in(key, _MIXING), split, chains)
    spent = PipelineGuarantee.of(
        [promise],
        protected=("private edges",),
        unprotected=("public edges", "private nodes", "number of nodes"),
    )
    pairs = mechanism.sample_pairs(key, split, memory)
    edges = np.concatenate([graphs.to_edges(split.public), pairs])
    noisy = graphs.from_edges(edges.astype(np.int32), split.num_nodes, pairs_in="rows")
    return NoisyGraph(noisy, np.full(split.num_nodes, np.nan, np.float32), spent)


def per_private_edge(epsilon: float, reason: str, status: Status = "proved") -> Guarantee:
    """A guarantee for one private edge."""
    return Guarantee(epsilon, unit=EDGE_CENTRAL, adjacency=ADJACENCY, status=status, reason=reason)
