"""Mechanisms on classes: devices find the class of their record by a classifier, and report it."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.accounting.statement import Cost
from ldp_jax.core.mechanism import Mechanism, check_single, mechanism, static
from ldp_jax.core.pytree import pytree
from ldp_jax.core.spaces import Box
from ldp_jax.core.types import AnyArray, Array, PRNGKey, Record, Report
from ldp_jax.servers.parts.device_classifier import DeviceClassifier
from ldp_jax.servers.parts.rows import DenseRows, of_length_one
from ldp_jax.servers.questions.question import Noiseless, User

__all__ = ["AskClass", "OfOneHot", "broadcast"]

__dir__ = lambda: __all__


@mechanism
class OfOneHot:
    """A mechanism on classes, of users who hold their class as a vector of one 1.

    The estimate is the inner one where that has a number for each class, else the reported class.

    Attributes:
      inner: on the classes 0 to C - 1.
      classes: C.
    """

    inner: Mechanism
    classes: int = static()

    def privatize(self, key: PRNGKey, x: Record) -> Report:
        """The report of the class."""
        return self.inner.privatize(key, jnp.argmax(jnp.asarray(x)))

    def estimate(self, y: Report) -> Array:
        """Float [C]."""
        found = jnp.asarray(self.inner.estimate(y))
        return found if found.ndim else jax.nn.one_hot(found.astype(jnp.int32), self.classes)

    def guarantee(self) -> Guarantee:
        """That of the inner mechanism."""
        return self.inner.guarantee()

    def domain(self) -> Box:
        """Vectors of C numbers."""
        return Box(self.classes)

    def codomain(self) -> Any:
        """That of the inner mechanism."""
        return self.inner.codomain()


@pytree
class AskClass:
    """Classify your record, and send the likeliest class through a mechanism.

    Attributes:
      classifier: broadcast; public.
      mechanism: of vectors of one 1, such as :class:`OfOneHot`.
      asked: bool [n].
    """

    classifier: DeviceClassifier
    mechanism: Mechanism
    asked: Bool[AnyArray, " n"]

    def cost(self) -> Cost:
        """The guarantee of the mechanism, per record."""
        return Cost(self.mechanism.guarantee())

    def answer(self, key: PRNGKey, user: User) -> Report:
        """The mechanism's report of one user."""
        check_single(self.mechanism)
        scores = self.classifier.scores(DenseRows(of_length_one(user.record)[None]))
        return self.mechanism.privatize(key, likeliest(scores)[0])

    def exact(self) -> "AskClass":
        """The class that the device finds."""
        return dataclasses.replace(self, mechanism=Noiseless(self.mechanism))


def likeliest(scores: Float[Array, "n classes"]) -> Float[Array, "n classes"]:
    """The likeliest class of each row, as a vector of one 1."""
    return jax.nn.one_hot(jnp.argmax(scores, axis=1), scores.shape[1])


def broadcast(
    classifier: DeviceClassifier,
) -> tuple[DeviceClassifier, Float[np.ndarray, "panel classes"]]:
    """A classifier for devices, and the classes that out-of-fold models give to the panel."""
    found = likeliest(classifier.panel_scores)
    return classifier._replace(panel_scores=found[:0]), np.asarray(found)
