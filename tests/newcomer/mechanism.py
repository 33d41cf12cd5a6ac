"""A mechanism of one's own: what is missing is named, a leak is refused, and the sound one
holds.
"""

from typing import Any

import jax
import jax.numpy as jnp

from ldp_jax import verification
from ldp_jax.accounting.guarantee import RECORD, Guarantee
from ldp_jax.core.mechanism import mechanism, static
from ldp_jax.core.spaces import Finite


class Unfinished:
    """Draws, and promises nothing yet."""

    def privatize(self, key: Any, x: Any) -> Any:
        """The record itself."""
        return x


@mechanism
class Coin:
    """A bit, flipped with probability ``flip``; it claims ``epsilon``."""

    epsilon: float = static()
    flip: float = static()

    def privatize(self, key: Any, x: Any) -> Any:
        """One bit."""
        return jnp.where(
            jax.random.bernoulli(key, self.flip), 1.0 - self.domain().clip(x), self.domain().clip(x)
        )

    def log_density(self, y: Any, x: Any) -> Any:
        """log P(y | x)."""
        return jnp.log(jnp.where(jnp.asarray(y) == self.domain().clip(x), 1 - self.flip, self.flip))

    def domain(self) -> Finite:
        """0 and 1."""
        return Finite((0.0, 1.0))

    def codomain(self) -> Finite:
        """0 and 1."""
        return Finite((0.0, 1.0))

    def guarantee(self) -> Guarantee:
        """epsilon per record."""
        return Guarantee(
            self.epsilon,
            unit=RECORD,
            adjacency="any two bits",
            status="proved",
            reason="the ratio of two masses",
        )

    def estimate(self, y: Any) -> Any:
        """Unbiased."""
        return (y - self.flip) / (1 - 2 * self.flip)


def main() -> None:
    """Ask three times."""
    key = jax.random.key(0)
    try:
        verification.check(Unfinished(), key)
    except TypeError as error:
        print(error)
        assert all(name in str(error) for name in ("guarantee", "domain", "codomain", "estimate"))
    else:
        raise AssertionError("an unfinished mechanism was asked")

    leak = verification.check(Coin(1.0, flip=0.2), key, trials=20_000)  # log(4) = 1.39
    print(leak)
    assert not leak
    sound = verification.check(Coin(1.0, flip=0.2689414213699951 * (1 + 1e-6)), key, trials=20_000)
    print(sound)
    assert sound


if __name__ == "__main__":
    main()
