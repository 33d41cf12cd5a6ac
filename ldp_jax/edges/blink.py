r"""Blink: the posterior of each pair given noisy degrees and noisy bits, as an implicit matrix.

Each user reports the degree, with discrete Laplace noise, and every bit of the list, by randomised
response. The server fits :math:`P(A_{ij} = 1) = \sigma(\beta_i + \beta_j)` to the noisy degrees;
with both reported bits of a pair, s of them 1, the posterior is
:math:`\sigma(\beta_i + \beta_j + 2 \epsilon_2 (s - 1))`. Whole degrees fall into K classes, so the
posterior of a pair depends on two classes and on s: a constant for each pair of classes, and a
correction where somebody reports the pair. The product with rows [n, F] takes O(m F + n F + K^2 F)
for m reported pairs, about :math:`n^2 / (e^{\epsilon_2} + 1)`.
Reference: Zhu, Tan & Xiao, Blink: Link local differential privacy in graph neural networks via
Bayesian estimation (CCS 2023), which adds Laplace noise to degrees and works on n x n matrices.
"""

from typing import Literal, NamedTuple, get_args

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
from ldp_jax.edges import checks
from ldp_jax.edges.draws import capacity, padded
from ldp_jax.edges.neighbour_lists import MAX_BIT_EPSILON, flip_rate, two_budgets
from ldp_jax.edges.noisy_degree import NoisyDegree
from ldp_jax.edges.randomized_response import RandomizedResponse
from ldp_jax.edges.whole_graph import privatize_graph
from ldp_jax.graph import graphs
from ldp_jax.graph.aggregation import Segments, linear

Variant = Literal["soft", "hard", "hybrid"]
"""Weights of pairs: the posterior; 1 where it is above 1/2; or the posterior of the likeliest pairs
alone.
"""

VARIANTS: tuple[Variant, ...] = get_args(Variant)

_STEPS = 500
_CLOSE = 1e-9
# The largest beta: without a finite estimate one runs off, and sigma(40) is 1 in float32.
_FAR = 40.0
_MANY = 30.0  # there are none of so many pairs with probability e^-30


class DegreePrior(NamedTuple):
    """The beta model of noisy degrees: each user's class, and the degree, size and beta of each."""

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

    >>> prior = degree_prior(
    ...     [2, 2, 2, 2, 2]
    ... )  # each pair is linked with probability 1/2
    >>> prior.count.tolist(), bool(abs(prior.beta[0]) < 1e-6)
    ([5], True)
    """
    degree = validate.numbers(degree=degree)
    validate.require(
        degree.ndim == 1 and len(degree) > 2 and np.isfinite(degree).all(),
        f"degree must be finite numbers of at least 3 users, got shape {degree.shape}: the "
        "mechanism must report degrees",
    )
    whole = np.clip(np.rint(degree), 1, len(degree) - 2).astype(np.int64)
    classes, group, count = np.unique(whole, return_inverse=True, return_counts=True)

    others = count[None, :] - np.eye(len(classes))
    beta = np.zeros(len(classes))
    for _ in range(_STEPS):
        each = others / (np.exp(-beta)[None, :] + np.exp(beta)[:, None])
        # Half a step: of sparse graphs a whole one would go to and fro for ever.
        half = (beta + np.log(classes) - np.log(each.sum(1))) / 2
        after = np.clip(half, -_FAR, _FAR)
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
        """The product with rows, as :class:`~ldp_jax.graph.aggregation.Segments` has it."""

        def total(h):
            by_class = long_sums.segment_sum(h, self.group, len(self.constant), any_order=True)
            own = jnp.diagonal(self.constant)[self.group][:, None]
            others = matmul(self.constant, by_class)[self.group] - own * h
            return others + self.neighbours.sum(h, self.correction)

        return linear(total, total, h)

    @property
    def degree(self) -> Float[Array, " n"]:
        """Row sums: the expected degrees."""
        return self.sum(jnp.ones((len(self.group), 1), jnp.float32))[:, 0]

    def dense(self) -> Float[Array, "n n"]:
        """The matrix itself: O(n^2), for small graphs."""
        off_diagonal = 1 - jnp.eye(len(self.group), dtype=jnp.float32)
        whole = self.constant[self.group][:, self.group] * off_diagonal
        place = whole.at[self.neighbours.receivers, self.neighbours.senders]
        return place.add(self.correction, mode="drop")


@implicit_promotion()
def posterior_links(
    bits: Graph,
    prior: DegreePrior,
    epsilon: float,
    variant: Variant = "hybrid",
) -> PosteriorLinks:
    """Compute the posterior of all pairs given both ends' reports; post-processing, on the host.

    Args:
      bits: the lists that :class:`~ldp_jax.edges.RandomizedResponse` reports in ``full``: an edge
        into a user each.
      prior: of the same users.
      epsilon: of the bits.
      variant: ``soft`` has every posterior; ``hard`` is 1 where it is above 1/2 and 0 elsewhere;
        ``hybrid`` has the likeliest pairs, as many as the posterior expects links; equal pairs
        share what is left.

    ``ValueError`` for lists in which one end reports each pair, whose graph is symmetric.
    """
    validate.one_of(VARIANTS, variant=variant)
    checks.budget_in(MAX_BIT_EPSILON, epsilon=epsilon)
    n = len(prior.group)
    classes = len(prior.degree)
    checks.of_users(n, bits=graphs.num_nodes(bits))

    # Both ends of each reported pair, once, and by how many of them it is reported.
    senders = np.asarray(bits.senders, np.int64)
    receivers = np.asarray(bits.receivers, np.int64)
    code = np.sort(np.minimum(senders, receivers) * n + np.maximum(senders, receivers))
    starts = np.flatnonzero(np.diff(code, prepend=-1))
    reported = np.diff(starts, append=len(code))
    flip = float(flip_rate(np.float64(epsilon)))
    by_one_end = n * (n - 1) * flip * (1 - flip)  # pairs, in the mean
    rule = "bits must be lists in full, and no pair is in one list alone: one end reports each"
    validate.require((reported == 1).any() or by_one_end < _MANY, rule)
    first, second = np.divmod(code[starts], n)

    # How many pairs of each two classes are reported by s of their ends.
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
    senders = np.concatenate([first[other], second[other]])
    receivers = np.concatenate([second[other], first[other]])
    order = np.lexsort((senders, receivers))
    senders = padded(senders[order].astype(np.int32))
    receivers = padded(receivers[order].astype(np.int32), n)
    both_ways = np.tile(correction[other], 2)[order]
    correction = padded(both_ways.astype(np.float32))
    constant = np.pad(weight[0], (0, capacity(classes) - classes))
    return PosteriorLinks(
        jnp.asarray(prior.group),
        jnp.asarray(constant, jnp.float32),
        Segments(jnp.asarray(senders), jnp.asarray(receivers)),
        jnp.asarray(correction),
    )


def _kept(posterior: np.ndarray, count: np.ndarray, variant: Variant) -> np.ndarray:
    """The weight of a pair by s and by the classes of its ends; [3, K, K]."""
    if variant == "soft":
        return posterior
    if variant == "hard":
        return (posterior > 0.5).astype(np.float64)
    # Both triangles are counted and cut in the same place, since equal values are one size.
    value, inverse = np.unique(posterior, return_inverse=True)
    size = np.bincount(inverse.ravel(), weights=count.ravel(), minlength=len(value))
    above = np.cumsum(size[::-1])[::-1] - size
    left = np.floor((posterior * count).sum()) - above
    share = np.clip(left / np.maximum(size, 1), 0.0, 1.0)
    return posterior * share[inverse].reshape(posterior.shape)


class NoisyLinks(NamedTuple):
    """Links in the place of the adjacency, the noisy degrees, and the guarantee."""

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
    """Draw every user's noisy degree and list, and compute the server's posterior links (Blink).

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
    n = graphs.num_nodes(graphs.as_graph(graph))
    validate.require(n > 2, f"graph must have at least 3 nodes, got {n}")
    bits = RandomizedResponse(second)
    degree_key, bits_key = random.split(key)
    lists = privatize_graph(bits_key, graph, bits, memory=memory)
    noisy = privatize_graph(degree_key, graph, NoisyDegree(first, noise="geometric"))
    prior = degree_prior(noisy.degree)
    links = posterior_links(lists.graph, prior, float(bits.epsilon), variant)
    spent = [each for one in (noisy, lists) for each in one.guarantee.guarantees]
    guarantee = PipelineGuarantee.of(
        spent,
        protected=("edges",),
        unprotected=lists.guarantee.unprotected,
    )
    return NoisyLinks(links, noisy.degree, guarantee)
