"""A simulated world, and what a rehearsal asks of whoever draws one."""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr
from jaxtyping import Bool, Float, Int

from ldp_jax.core import random
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import AnyArray, Array, PRNGKey
from ldp_jax.servers.parts.stack import combine, stack
from ldp_jax.servers.users import Respondents


class World(NamedTuple):
    """Simulated users, and the truth about them.

    Attributes:
      users: answer what a server asks.
      classes: int [n], of all users.
      without: what is known of them without any report: log posteriors [n, C], or classes [n].
      judged: bool [n], the users whose classes are counted right or wrong.
      key: of the reports.
      one_noise: whether all servers that are tried meet the same noise, so that chance does not
        tell close ones apart.
    """

    users: Respondents
    classes: Int[AnyArray, " n"]
    without: Any
    judged: Bool[np.ndarray, " n"]
    key: PRNGKey
    one_noise: bool = False

    __repr__ = by_shapes


@runtime_checkable
class Worlds(Protocol):
    """A source of worlds, drawn from public facts."""

    def draw(self, key: PRNGKey, number: int) -> World:
        """The world of a number; ``key`` is its own."""


def calibrated(
    log_p: Float[AnyArray, "n classes"], labels: Int[np.ndarray, " n"]
) -> Float[np.ndarray, "n classes"]:
    """Posteriors that have not seen their labels, as sure of themselves as the labels are."""
    columns = np.asarray(log_p)[..., None]
    return combine(columns, stack(columns, labels, (1.0,), ridge=1.0))


def by_field(
    log_q: Float[Array, "n classes"],
    field: Float[Array, "n classes"],
    labels: Int[AnyArray, " n"],
) -> Int[Array, " n"]:
    """Classes whose Gumbel noise has the ranks of a Gaussian field; labels are kept; int32 [n]."""
    found = (log_q - jnp.log(-log_ndtr(field))).argmax(1)
    return jnp.where(labels >= 0, labels, found).astype(jnp.int32)


def places_below(key: PRNGKey, count: Int[Array, "*shape"]) -> Int[Array, "*shape"]:
    """For each count a random whole number in [0, count)."""
    drawn = (random.uniform(key, count.shape) * count).astype(jnp.int32)
    return jnp.minimum(drawn, count - 1)
