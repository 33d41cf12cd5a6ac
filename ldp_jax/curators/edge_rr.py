"""EdgeRR and PrivHRG: graphs drawn from the noisy connection probabilities of a dendrogram."""

import math
import warnings
from typing import Any

import numpy as np
from jaxtyping import Float

from ldp_jax.accounting.guarantee import EDGE_CENTRAL, Guarantee
from ldp_jax.core import random, validate
from ldp_jax.core.mechanism import MAX_EPSILON, largest
from ldp_jax.core.pytree import mechanism, static
from ldp_jax.core.rounding import add_up
from ldp_jax.core.types import PRNGKey, Scalar
from ldp_jax.curators import connections, hrg
from ldp_jax.curators._dendrogram import PUBLIC_WEIGHT, SWEEPS, Chain, OfDendrogram
from ldp_jax.curators.release import ADJACENCY, per_private_edge
from ldp_jax.curators.split import EdgeSplit
from ldp_jax.edges import checks
from ldp_jax.edges.degree_noise import Noise
from ldp_jax.edges.neighbour_lists import two_budgets

CHAINS = 4
"""How many chains a release compares."""

_DRAWS = 200  # of the log-likelihood, in the second half of a chain: chance moves R-hat by 0.01

# At ten times the law's scales a chain finds what is likelier than what the law draws.
_FROM_ABOVE = 10.0


@mechanism
class EdgeRR(OfDendrogram):
    r"""Draw a dendrogram that fits public and private edges, and a graph from its noisy counts.

    Law: over the private nodes, n of them, one Metropolis chain whose stationary law has density
    :math:`\propto \exp(\frac{\epsilon_1}{2 \Delta} L_{pri}(D) + w L_{pub}(D))` on dendrograms D
    (:mod:`ldp_jax.curators.hrg`); the state after a fixed number of sweeps is used as it is.
    Its internal nodes are grouped (:func:`~ldp_jax.curators.connections.regions`), the private
    edges of each group are counted with :math:`\mathrm{Lap}(1/\epsilon_2)`, counts are made
    consistent, and each pair that is no public edge is released with the probability of its group.

    Guarantee: none of the chain's last state; :math:`\epsilon_1 + \epsilon_2` per private edge of
    its stationary law (:meth:`stationary`). A draw of that law is the exponential mechanism: one
    edge changes :math:`L_{pri}` by at most :math:`\Delta` (eq. 19), in either direction, so that 2
    is needed; :math:`w L_{pub}` is a base measure, which cancels. An edge is in one group, so noise
    on all counts costs :math:`\epsilon_2` once. No bound on the sweeps that a chain needs is known.
    :func:`~ldp_jax.curators.release` runs several chains on its own edges, and claims the
    epsilon of the stationary law, *in the limit*, where they agree (:meth:`measured`). In
    `python -m experiments heterorr` none of six settings agrees after 8 000 sweeps; chains of 200
    times as many, by ``chain="numba"``, have a row of their own.
    Utility: :math:`\epsilon_1 / (2 \Delta)` is small (0.035 at :math:`\epsilon_1 = 1` and 1 558
    nodes), so that the dendrogram is that of the public edges, for which
    :class:`~ldp_jax.curators.PublicHRG` spends nothing. A larger w fits them better and comes
    less near to the law that the guarantee is about.
    Numerics: terms of the likelihood are float32; the guarantee is that of ideal arithmetic.
    Reference: HeteroRR (Tran et al., 2022), Algorithms 2 and 3, eq. 10-19. It differs where the
    paper does not hold: 2 in the scale; one chain in place of two that alternate; the set of
    private nodes is public; a group has one noisy count; public edges stay. The paper has no split
    of the budget.

    Args:
      epsilon_mcmc: :math:`\epsilon_1`, in (0, 100].
      epsilon_edges: :math:`\epsilon_2`, in (0, 100].
      public_weight: w, in [0, 1e9], public; from 1 on there is a warning, as a chain need not reach
        its law then.
      sweeps: of the chain, a static number that is fixed beforehand.
      thresholds: :math:`\tau_1, \tau_2`, public.
      noise: ``laplace`` or ``geometric``.
      published: the law of :meth:`as_published`.
      chain: ``jax``, or ``numba`` for single moves, which go further in a second on a CPU
        (:mod:`~ldp_jax.curators.single_moves`, extra ``chains``).

    >>> m = EdgeRR.from_epsilon(1.0)
    >>> m.epsilon_mcmc, m.epsilon_edges, m.stationary().epsilon
    (0.5, 0.5, 1.0)
    >>> m.stationary().status, m.guarantee().status
    ('in the limit', 'none')
    """

    epsilon_mcmc: Scalar
    epsilon_edges: Scalar
    public_weight: Scalar = PUBLIC_WEIGHT
    sweeps: int = static(default=SWEEPS)
    thresholds: tuple[float, float] = static(default=connections.THRESHOLDS)
    noise: Noise = static(default="laplace")
    published: bool = static(default=False)
    chain: Chain = static(default="jax")

    def _check(self) -> None:
        both = {"epsilon_mcmc": self.epsilon_mcmc, "epsilon_edges": self.epsilon_edges}
        checks.budget_in(MAX_EPSILON, **both)
        super()._check()
        if self.published or not validate.concrete(self.public_weight):
            return
        weight = np.max(self.public_weight)
        if weight >= 1.0:
            warnings.warn(
                f"public_weight {weight:g} makes a law that a chain of this length need not reach: "
                f"the release depends on where it began; the default is {PUBLIC_WEIGHT:g}",
                stacklevel=4,
            )

    @classmethod
    def from_epsilon(cls, epsilon: float, share: float = 0.5, **options: Any) -> "EdgeRR":
        """Split a budget, of which the dendrogram gets a share in (0, 1)."""
        return cls(*two_budgets(epsilon, share=share), **options)

    @classmethod
    def as_published(cls, epsilon_mcmc: Scalar, epsilon_edges: Scalar, **options: Any) -> "EdgeRR":
        r"""The paper's law: sweeps that see public edges alone alternate with private ones alone.

        The first have the scale 1, the second :math:`\epsilon_1 / \Delta`, and every internal node
        has fresh noise. ``guarantee()`` is none: neither law is the alternating chain's, the scale
        lacks a 2, and every node of a group counts a private edge. Not as printed: the threshold of
        groups has the 2, all private nodes count in eq. 10, shares are of pairs that are not public
        and at least 0, and public edges stay.

        >>> print(EdgeRR.as_published(0.5, 0.5).guarantee())  # doctest: +ELLIPSIS
        epsilon inf per edge-central (...; none: ...)
        """
        return cls(epsilon_mcmc, epsilon_edges, public_weight=1.0, published=True, **options)

    def guarantee(self) -> Guarantee:
        """None: nobody knows how near to its law the chain's last state is."""
        largest(self.epsilon_mcmc)
        return _none(
            f"nobody has shown how near to their law chains of {self.sweeps} sweeps come on these "
            "edges"
        )

    def measured(self, key: PRNGKey, split: EdgeSplit, chains: int = CHAINS) -> Guarantee:
        """The guarantee of the stationary law where several chains agree on these edges, else none.

        Chains that begin alike may agree where none has reached the law. So every second chain
        begins at a random dendrogram, which is less likely than what the law draws. The others
        begin where a chain of as many sweeps at ten times the scales ends, which tends to be
        likelier. R-hat of the log-likelihoods in the second half of the sweeps must be at most
        1.05, of public and of private edges. No guarantee covers the answer, which private edges
        decide. There are at least 2 ``chains``; 0 measures nothing and claims nothing.
        """
        if self.published or not chains:
            return self.guarantee()
        validate.integer_in(2, chains=chains)
        pairs = split.pairs()
        n = len(pairs.nodes)
        if n <= 2 or pairs.candidates == 0:
            return self.stationary()  # there is one dendrogram

        engine = self.engine()
        edges = self.seen(pairs)
        block = max(1, self.sweeps // (2 * _DRAWS))
        blocks = -(-self.sweeps // block)
        scales = self.scales(n)
        traces = []
        # A chain fills the machine, so they run one after the other.
        for number, chain in enumerate(random.split(key, chains)):
            first, above, rest = random.split(chain, 3)
            state = hrg.init(first, n, edges)
            if number % 2:
                state = engine.run(above, state, edges, _FROM_ABOVE * scales, self.sweeps)
            _, trace = engine.trace(random.split(rest, blocks), state, edges, scales, block)
            traces.append(trace[blocks // 2 :])

        # R-hat of L_pub and of L_pri, which fewer than 4 draws cannot show.
        public, private = np.moveaxis(np.stack(traces, dtype=np.float64), 2, 0)
        mixed = lambda draws: draws.shape[1] >= 4 and hrg.r_hat(draws) <= hrg.MIXED
        if mixed(public) and mixed(private):
            return self.stationary()
        return _none(
            f"chains of {self.sweeps} sweeps still show where they began: their R-hat is above "
            f"{hrg.MIXED}"
        )

    def stationary(self) -> Guarantee:
        """epsilon_1 + epsilon_2 per private edge of the chain's stationary law.

        None for :meth:`as_published`.
        """
        total = add_up((largest(self.epsilon_mcmc), largest(self.epsilon_edges)))
        if self.published:
            return _none(
                "the alternating chain has no known law, and counts are noised again for every "
                "descendant"
            )
        return per_private_edge(
            total,
            "the chain's stationary law is the exponential mechanism, and noise on counts of "
            "disjoint groups composes with it; several chains of "
            f"{self.sweeps} sweeps must agree, which bounds nothing",
            "in the limit",
        )

    def scales(self, num_nodes: int) -> Float[np.ndarray, " 2"]:
        """The chain's factors of L_pub and L_pri over so many private nodes; float32 [2].

        >>> EdgeRR(4.0, 1.0).scales(5).tolist()  # 4 / (2 * 2.70337)
        [0.05..., 0.7398...]
        """
        change = hrg.sensitivity(num_nodes)
        if not self.published:
            change = 2 * change
        private = float(self.epsilon_mcmc) / change if change else 0.0
        return np.array([float(self.public_weight), private], np.float32)

    @property
    def count_epsilon(self) -> float:
        """epsilon_2."""
        return float(self.epsilon_edges)


def PrivHRG(epsilon: float, share: float = 0.5, **options: Any) -> EdgeRR:  # noqa: N802
    """The private hierarchical random graph: :class:`EdgeRR` that looks at no public edge.

    Where all edges are private, ``EdgeSplit.of(graph)``, it is the mechanism of Xiao, Chen and Tan,
    KDD 2014.

    >>> PrivHRG(1.0).public_weight, PrivHRG(1.0).stationary().epsilon
    (0.0, 1.0)
    """
    return EdgeRR.from_epsilon(epsilon, share, public_weight=0.0, **options)


def _none(reason: str) -> Guarantee:
    return Guarantee(math.inf, unit=EDGE_CENTRAL, adjacency=ADJACENCY, reason=reason)
