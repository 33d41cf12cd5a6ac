r"""Blink: the posterior of each pair given noisy degrees and noisy bits, as a matrix that is never written out.

Each user reports the degree, with whole noise, and every bit of the list, by randomised response.
The server fits :math:`P(A_{ij} = 1) = \sigma(\beta_i + \beta_j)` to the noisy degrees; with both
reported bits of a pair, s of them 1, the posterior is
:math:`\sigma(\beta_i + \beta_j + 2 \epsilon_2 (s - 1))`. Whole degrees fall into K classes, so the
posterior of a pair depends on two classes and on s: a constant for each pair of classes, and a
correction where somebody reports the pair. The product with rows [n, F] takes O(m F + n F + K^2 F)
for m reported pairs, about :math:`n^2 / (e^{\epsilon_2} + 1)`.
Reference: Zhu, Tan & Xiao, Blink: Link local differential privacy in graph neural networks via
Bayesian estimation (CCS 2023), which adds Laplace noise to degrees and works on n x n matrices.
"""

from typing import Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from scipy.special import expit

from ldp_jax.accounting.guarantee import PipelineGuarantee
from ldp_jax.core import long_sums, random, validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.float32 import matmul
from ldp_jax.core.pytree import pytree
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import AnyArray, Array, Graph, PRNGKey, Values
from ldp_jax.edges.draws import capacity
from ldp_jax.edges.neighbour_lists import MAX_BIT_EPSILON, budget_in, two_budgets
from ldp_jax.edges.noisy_degree import NoisyDegree
from ldp_jax.edges.randomized_response import RandomizedResponse
from ldp_jax.edges.whole_graph import privatize_graph
from ldp_jax.graph import graphs
from ldp_jax.graph.aggregation import Segments, linear

Variant = Literal["soft", "hard", "hybrid"]
"""Weights of pairs: the posterior; 1 where it is above 1/2; or the posterior of the likeliest pairs
alone.
"""

VARIANTS: tuple[Variant, ...] = ("soft", "hard", "hybrid")

_STEPS, _CLOSE = 500, 1e-9
# the largest beta: where noisy degrees have no estimate, one runs off, and sigma(40) is 1 in
# float32
_FAR = 40.0


class DegreePrior(NamedTuple):
    """The beta model of noisy degrees.

    Of each user's class, and of each class degree, count of users, and beta.
    """

    group: Int[np.ndarray, " n"]
    degree: Int[np.ndarray, " K"]
    count: Int[np.ndarray, " K"]
    beta: Float[np.ndarray, " K"]

    __repr__ = by_shapes


def degree_prior(degree: Values) -> DegreePrior:
    r"""Fit the beta model to noisy degrees by maximum likelihood; post-processing.

    ``degree`` [n] is finite, of at least 3 users; rounded and clipped to [1, n - 2], as others have
    no estimate. Half steps in float64 reach the fixed point
    :math:`\beta_k = \log d_k - \log \sum_l (c_l - [k = l]) / (e^{-\beta_l} + e^{\beta_k})` over
    classes of c_k users (Chatterjee, Diaconis & Sly, 2011), at most 40.

    >>> prior = degree_prior([2, 2, 2, 2, 2])  # of five users, each pair is linked with probability 1/2
    >>> prior.count.tolist(), bool(abs(prior.beta[0]) < 1e-6)
    ([5], True)
    """
    degree = np.asarray(degree, np.float64)
    if degree.ndim != 1 or len(degree) < 3:
        raise ValueError(f"degree must be of at least 3 users, got shape {degree.shape}")
    if not np.isfinite(degree).all():
        raise ValueError(
            "degree must be finite, and is not everywhere: the mechanism must report degrees"
        )
    whole = np.clip(np.rint(degree), 1, len(degree) - 2).astype(np.int64)
    classes, group, count = np.unique(whole, return_inverse=True, return_counts=True)
    others = count[None, :] - np.eye(len(classes))
    beta = np.zeros(len(classes))
    for _ in range(_STEPS):
        each = others / (np.exp(-beta)[None, :] + np.exp(beta)[:, None])
        # Half a step: of sparse graphs a whole one would go to and fro for ever.
        after = np.clip((beta + np.log(classes) - np.log(each.sum(1))) / 2, -_FAR, _FAR)
        moved = np.abs(after - beta).max()
        beta = after
        if moved < _CLOSE:
            break
    return DegreePrior(group.astype(np.int32), classes, count, beta)


@pytree
class PosteriorLinks:
    """A symmetric matrix of link weights without a diagonal, padded.

    By the degree classes ``group`` [n] of its ends a pair weighs ``constant`` [K, K], and
    ``correction`` [m] more where somebody reports it, in both directions.
    """

    group: AnyArray
    constant: AnyArray
    neighbours: Segments
    correction: AnyArray

    def sum(self, h: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """The product with rows.

        What :class:`~ldp_jax.graph.aggregation.Segments` has for links of weight 1.
        """
        return linear(self._sum, self._sum, h)

    def _sum(self, h: Array) -> Array:
        by_class = long_sums.segment_sum(h, self.group, len(self.constant), any_order=True)
        own = jnp.diagonal(self.constant)[self.group][:, None]
        return (
            matmul(self.constant, by_class)[self.group]
            - own * h
            + self.neighbours.sum(h, self.correction)
        )

    @property
    def degree(self) -> Float[Array, " n"]:
        """Row sums: the expected degrees."""
        return self.sum(jnp.ones((len(self.group), 1), jnp.float32))[:, 0]

    def dense(self) -> Float[Array, "n n"]:
        """The matrix itself: O(n^2), for small graphs."""
        n = len(self.group)
        whole = self.constant[self.group][:, self.group] * (1 - jnp.eye(n, dtype=jnp.float32))
        return whole.at[self.neighbours.receivers, self.neighbours.senders].add(
            self.correction, mode="drop"
        )


@implicit_promotion()
def posterior_links(
    bits: Graph, prior: DegreePrior, epsilon: float, variant: Variant = "hybrid"
) -> PosteriorLinks:
    """The posterior of all pairs given what both ends of each reported.

    Post-processing, on the host.

    Args:
      bits: the lists that :class:`~ldp_jax.edges.RandomizedResponse` reports in ``full``: an edge
        into a user each.
      prior: of the same users.
      epsilon: of the bits.
      variant: ``soft`` has every posterior; ``hard`` is 1 where it is above 1/2 and 0 elsewhere;
        ``hybrid`` has the likeliest pairs, as many as the posterior expects links; equal pairs
        share what is left.
    """
    validate.one_of(VARIANTS, variant=variant)
    budget_in(MAX_BIT_EPSILON, epsilon=epsilon)
    n, classes = len(prior.group), len(prior.degree)
    if graphs.num_nodes(bits) != n:
        raise ValueError(
            f"bits must be of {n} users, as the prior is, got {graphs.num_nodes(bits)}"
        )
    first, second, reported = _pairs(bits, n)
    cell = prior.group[first].astype(np.int64) * classes + prior.group[second]
    count = np.zeros((3, classes, classes))
    for s in (1, 2):
        found = np.bincount(cell[reported == s], minlength=classes**2).reshape(classes, classes)
        count[s] = found + found.T  # a pair of one class is there twice
    count[0] = np.outer(prior.count, prior.count) - np.diag(prior.count) - count[1] - count[2]
    log_odds = prior.beta[:, None] + prior.beta
    posterior = expit(np.stack([log_odds + 2 * epsilon * (s - 1) for s in range(3)]))
    weight = _kept(posterior, count, variant)

    correction = (weight - weight[0]).reshape(3, -1)[reported, cell]
    (other,) = np.nonzero(correction)
    first, second, correction = first[other], second[other], correction[other]
    senders, receivers = np.concatenate([first, second]), np.concatenate([second, first])
    order = np.lexsort((senders, receivers))
    room = capacity(len(order))
    fill = lambda values, kind, rest: np.pad(
        values[order].astype(kind), (0, room - len(order)), constant_values=rest
    )
    wide = capacity(classes) - classes
    return PosteriorLinks(
        jnp.asarray(prior.group),
        jnp.asarray(np.pad(weight[0], (0, wide)), jnp.float32),
        Segments(
            jnp.asarray(fill(senders, np.int32, 0)), jnp.asarray(fill(receivers, np.int32, n))
        ),
        jnp.asarray(fill(np.concatenate([correction, correction]), np.float32, 0.0)),
    )


def _pairs(bits: Graph, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Both ends of each reported pair, once, and by how many of them it is reported."""
    senders, receivers = (
        np.asarray(end).astype(np.int64) for end in (bits.senders, bits.receivers)
    )
    code = np.sort(np.minimum(senders, receivers) * n + np.maximum(senders, receivers))
    starts = np.flatnonzero(np.diff(code, prepend=-1))
    reported = np.diff(starts, append=len(code))
    return *np.divmod(code[starts], n), reported


def _kept(posterior: np.ndarray, count: np.ndarray, variant: Variant) -> np.ndarray:
    """The weight of a pair by s and by the classes of its ends; [3, K, K]."""
    if variant == "soft":
        return posterior
    if variant == "hard":
        return (posterior > 0.5).astype(np.float64)
    # Both triangles are counted, and both are cut in the same place: equal values are neighbours in
    # the order.
    value, inverse = np.unique(posterior, return_inverse=True)
    size = np.bincount(inverse.ravel(), weights=count.ravel(), minlength=len(value))
    above = np.cumsum(size[::-1])[::-1] - size
    share = np.clip((np.floor((posterior * count).sum()) - above) / np.maximum(size, 1), 0.0, 1.0)
    return posterior * share[inverse].reshape(posterior.shape)


class NoisyLinks(NamedTuple):
    """Links in the place of the adjacency, the noisy degrees, and the guarantee per bit and per edge."""

    links: PosteriorLinks
    degree: Float[np.ndarray, " n"]
    guarantee: PipelineGuarantee

    __repr__ = by_shapes


@implicit_promotion()
def private_links(
    key: PRNGKey,
    graph: Graph,
    epsilon: float,
    *,
    variant: Variant = "hybrid",
    degree_share: float = 0.1,
    memory: float = 8e9,
) -> NoisyLinks:
    """Blink: every user's noisy degree and noisy list, and the posterior links that the server makes of them.

    Args:
      key: a typed threefry key.
      graph: undirected, private; this simulates all devices, as
        :func:`~ldp_jax.edges.privatize_graph` does.
      epsilon: per bit of a list, in total, ``degree_share`` of it for the degree; an edge costs
        twice as much.
      variant: see :func:`posterior_links`.
      degree_share: in (0, 1).
      memory: bytes of reported pairs to allow, 16 for each, without what the host makes of them.

    >>> star = graphs.from_edges([[0, 1], [0, 2], [0, 3]], num_nodes=4)
    >>> import jax
    >>> found = private_links(jax.random.key(0), star, 2.0)
    >>> found.links.sum(jnp.ones((4, 1))).shape
    (4, 1)
    >>> print(found.guarantee)  # doctest: +ELLIPSIS
    protected: edges; NOT protected: number of nodes
      epsilon 2 per neighbour-list (...)
      epsilon 4 per relationship (...)
    """
    validate.threefry(key)
    validate.one_of(VARIANTS, variant=variant)
    first, second = two_budgets(epsilon, degree_share=degree_share)
    degrees = NoisyDegree(first, noise="geometric")
    bits = RandomizedResponse(second)
    degree_key, bits_key = random.split(key)
    lists = privatize_graph(bits_key, graph, bits, memory=memory)
    noisy = privatize_graph(degree_key, graph, degrees)
    links = posterior_links(lists.graph, degree_prior(noisy.degree), float(bits.epsilon), variant)
    spent = [each for one in (noisy, lists) for each in one.guarantee.guarantees]
    guarantee = PipelineGuarantee.of(
        spent, protected=("edges",), unprotected=lists.guarantee.unprotected
    )
    return NoisyLinks(links, noisy.degree, guarantee)
