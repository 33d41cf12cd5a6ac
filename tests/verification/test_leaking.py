"""The whole verdict on mechanisms of the kind that tired or careful authors write.

``tests/leaking.py`` has them, and siblings of almost the same code that leak nothing;
``tests/test_leaking_is_real.py`` shows that they leak.
"""

import jax
import pytest

from ldp_jax import verification
from tests.leaking import LEAKING
from tests.marks import untyped

HONEST = [name for name, leak in LEAKING.items() if leak.kept is not None]


@untyped
@pytest.mark.parametrize("name", LEAKING)
def test_what_leaks_is_refused(name):
    leak = LEAKING[name]
    verdict = verification.check(leak.make(), jax.random.key(0), trials=leak.trials)
    assert verdict.refused, str(verdict)


@untyped
@pytest.mark.parametrize("name", HONEST)
def test_its_honest_sibling_is_not(name):
    verdict = verification.check(LEAKING[name].kept(), jax.random.key(1), trials=50_000)
    assert not verdict.refused, str(verdict)
