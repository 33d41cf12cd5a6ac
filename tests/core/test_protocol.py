"""What is no mechanism is told what it lacks, and the class that it is shown is one."""

import jax
import jax.numpy as jnp
import pytest

from ldp_jax import features, privatize, verification
from ldp_jax.core import mechanism


class Unfinished:
    def privatize(self, key, x):
        return x


@pytest.mark.parametrize(
    "taker",
    [
        lambda made: verification.check(made, jax.random.key(0)),
        lambda made: features.Sampled(made, dim=3, k=1),
        lambda made: privatize(jax.random.key(0), made, jnp.zeros(3)),
    ],
    ids=["check", "Sampled", "privatize"],
)
@pytest.mark.usefixtures("untyped")
def test_what_is_missing_is_named(taker):
    members = ("privatize", "guarantee", "domain", "codomain", "estimate", "draw")
    plain = type("Plain", (), dict.fromkeys(members, print))
    for candidate, words in (
        (Unfinished(), "must have guarantee, domain, codomain, estimate.*, which Unfinished lacks"),
        (Unfinished, r"must be an instance, as Unfinished\(\.\.\.\), got the class"),
        (None, "which NoneType lacks"),
        (plain(), "decorate Plain with"),
    ):
        with pytest.raises(TypeError, match=words):
            taker(candidate)


@pytest.mark.usefixtures("untyped")
def test_the_class_that_is_shown_is_a_mechanism():
    names: dict[str, object] = {}
    exec(mechanism.SMALLEST, names)
    m = names["Flip"](1.0)
    with pytest.raises(TypeError, match="inner must have draw.* subclasses of .*Numeric have it"):
        features.Sampled(m, dim=3, k=1)
    assert isinstance(m, mechanism.Mechanism)
    assert verification.privacy_loss_supremum(m).epsilon == pytest.approx(
        m.guarantee().epsilon, rel=1e-9
    )
    assert verification.is_total(m, jax.random.key(0)).fits
    assert verification.matches_density(m, jax.random.key(1), trials=10_000).fits


@pytest.mark.usefixtures("untyped")
def test_traced_parameters_are_neither_equal_nor_unequal():
    assert features.Laplace(1.0) == features.Laplace(1.0) != features.Laplace(2.0)
    with pytest.raises(jax.errors.TracerArrayConversionError):
        jax.jit(lambda epsilon: features.Laplace(epsilon) == features.Laplace(epsilon))(1.0)
