"""What is no mechanism is told what it lacks, and the class that it is shown is one."""

import jax
import jax.numpy as jnp
import pytest

from ldp_jax import features, privatize, verification
from ldp_jax.core import mechanism
from ldp_jax.core.spaces import NotApplicable


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
    members = ("privatize", "guarantee", "domain", "codomain", "estimate")
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
    with pytest.raises(ValueError, match=r"inner must be a mechanism on \[-1, 1\]"):
        features.Sampled(m, dim=3, k=1)
    assert isinstance(m, mechanism.Mechanism)
    assert verification.privacy_loss_supremum(m).epsilon == pytest.approx(
        m.guarantee().epsilon, rel=1e-9
    )
    assert verification.is_total(m, jax.random.key(0)).fits
    assert verification.matches_density(m, jax.random.key(1), trials=10_000).fits


def one_number(name):
    """A method of Duchi's mechanism that refuses more than one number of a record or report."""

    def method(self, *values):
        assert all(jnp.ndim(value) == 0 for value in values)
        return getattr(features.Duchi(self.epsilon), name)(*values)

    return method


@mechanism.mechanism
class Plain:
    """Duchi's mechanism as a newcomer writes it: one number, and nothing elementwise."""

    epsilon: float

    privatize, estimate, log_density, mean, variance = map(
        one_number, ("privatize", "estimate", "log_density", "mean", "variance")
    )

    def guarantee(self):
        return features.Duchi(self.epsilon).guarantee()

    def domain(self):
        return features.Duchi(self.epsilon).domain()

    def codomain(self):
        return features.Duchi(self.epsilon).codomain()


@mechanism.mechanism
class WithoutLaw(Plain):
    log_density = mean = variance = None


@pytest.mark.usefixtures("untyped")
def test_vectors_go_through_a_mechanism_on_one_number_coordinate_by_coordinate():
    plain = features.Sampled(Plain(0.5), dim=3, k=2)
    ours = features.Sampled(features.Duchi(0.5), dim=3, k=2)
    x = jnp.array([0.5, -1.0, 0.0])
    y = ours.privatize(jax.random.key(0), x)
    for name, given in (("estimate", (y,)), ("log_density", (y, x)), ("mean", (x,))):
        assert jnp.allclose(getattr(plain, name)(*given), getattr(ours, name)(*given))
    assert jnp.allclose(plain.variance(x), ours.variance(x))
    assert plain.guarantee() == ours.guarantee()
    assert verification.privacy_loss_supremum(plain).epsilon == pytest.approx(1.0, rel=1e-9)
    assert verification.matches_density(plain, jax.random.key(1), trials=2_000).fits
    lawless = features.Sampled(WithoutLaw(0.5), dim=3, k=2)
    with pytest.raises(NotApplicable, match="WithoutLaw has no log_density"):
        lawless.log_density(y, x)


@mechanism.mechanism
class OwnDraw(Plain):
    """A method of one's own that is called ``draw``, by which one key is one noise."""

    def draw(self, key, x):
        return x + jax.random.laplace(key)

    privatize = draw


@mechanism.mechanism
class OwnReport(features.Laplace):
    """A report that is not the one which the parent's ``draw`` makes."""

    def privatize(self, key, x):
        return super().privatize(key, x) / 2


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("kind", [OwnDraw, OwnReport])
def test_coordinates_are_reported_by_the_method_that_the_guarantee_is_about(kind):
    """``draw`` for all at once would show differences of records, or a parent's report."""
    inner = kind(1.0)
    x = jnp.array([0.5, -1.0, 0.0])
    sent = features.Sampled(inner, dim=3, k=3).privatize(jax.random.key(0), x).values
    keys = jax.random.split(jax.random.key(0), 3)
    assert sent.tolist() == jax.vmap(inner.privatize)(keys, x).tolist()
    assert len({*(sent - x).tolist()}) == 3


@pytest.mark.usefixtures("untyped")
def test_traced_parameters_are_neither_equal_nor_unequal():
    assert features.Laplace(1.0) == features.Laplace(1.0) != features.Laplace(2.0)
    with pytest.raises(jax.errors.TracerArrayConversionError):
        jax.jit(lambda epsilon: features.Laplace(epsilon) == features.Laplace(epsilon))(1.0)
