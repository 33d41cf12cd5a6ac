"""Keys and draws are JAX's, bit for bit, and are counted as uses of a key."""

import ast
from functools import partial
from pathlib import Path

import jax
import jax.errors
import jax.extend.random
import jax.numpy as jnp
import numpy as np
import pytest

import ldp_jax
from ldp_jax.core import random, random_words, validate

LIBRARY = Path(ldp_jax.__file__).parent
# Poisson draws take JAX's keys alone.
OF_JAX = {"clone", "key", "key_data", "key_impl", "poisson", "wrap_key_data"}
KEY = lambda: jax.random.key(7)
DRAWS = {
    "bits": lambda key: jax.random.bits(key, (5, 3)),
    "bits of 8": lambda key: jax.random.bits(key, (5,), jnp.uint8),
    "bits of 16": lambda key: jax.random.bits(key, (5,), jnp.uint16),
    "no bits": lambda key: jax.random.bits(key, (0, 3)),
    "split": lambda key: jax.random.key_data(jax.random.split(key, 5)),
    "fold_in": lambda key: jax.random.key_data(jax.random.fold_in(key, 2**31 + 5)),
    "users": lambda key: jax.vmap(lambda key: jax.random.bits(key, (4,)))(jax.random.split(key, 3)),
}
TWICE = {
    "bits, bits": lambda key: (random_words.words(key), random_words.words(key)),
    "bits, JAX's": lambda key: (random_words.words(key), jax.random.bits(key)),
    "split, normal": lambda key: (random.split(key), random.normal(key)),
    "keys of users": lambda key: [
        jax.vmap(random_words.words)(keys) for keys in 2 * [random.split(key, 3)]
    ],
}


NAMES = {
    "bernoulli": (0.3, (9,)),
    "categorical": (np.log(np.arange(1.0, 9.0, dtype=np.float32)),),
    "permutation": (9,),
    "randint": ((9,), 0, 100),
    **dict.fromkeys(("bits", "gumbel", "normal", "uniform"), ((9,),)),
}


def test_draws_and_names_are_those_of_jax():
    """All in one program: keys of the library's implementation, and each function of a name."""
    of = lambda key, draws: {name: draw(jax.random.clone(key)) for name, draw in draws.items()}
    unrolled = jax.jit(lambda key: of(random.unrolled(key), DRAWS))(KEY())
    jax.tree.map(
        np.testing.assert_array_equal, unrolled, jax.jit(lambda key: of(key, DRAWS))(KEY())
    )
    # Eagerly, too.
    np.testing.assert_array_equal(DRAWS["bits"](random.unrolled(KEY())), DRAWS["bits"](KEY()))

    def named(module):
        draws = {name: partial(_call, getattr(module, name), more) for name, more in NAMES.items()}
        return jax.jit(lambda key: of(key, draws))(KEY())

    jax.tree.map(np.testing.assert_array_equal, named(random), named(jax.random))


def _call(draw, more, key):
    return draw(key, *more)


def test_64_bit_mode_changes_no_draw():
    """One key under ``jax_enable_x64`` gives the noise that it gives elsewhere."""
    given = NAMES | {"bernoulli": (np.float32(0.3), (9,))}
    drawn = lambda: {name: getattr(random, name)(KEY(), *more) for name, more in given.items()}
    expected = drawn()
    with jax.enable_x64(True):
        found = drawn()
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    for name in NAMES.keys() - {"categorical", "permutation"}:
        assert found[name].dtype == expected[name].dtype


def test_words_of_64_bits_are_those_of_jax():
    with jax.enable_x64(True):
        draws = (jax.random.bits(key, (5,), jnp.uint64) for key in (random.unrolled(KEY()), KEY()))
        np.testing.assert_array_equal(*draws)


def test_keys_that_are_split_are_jaxs_own_whatever_its_flags():
    expected = jax.vmap(lambda i: jax.random.fold_in(KEY(), i))(jnp.arange(4))
    for partitionable in (True, False):
        with jax.threefry_partitionable(partitionable):
            keys = random.split(KEY(), 4)
        validate.threefry(keys, axes=1)
        np.testing.assert_array_equal(jax.random.key_data(keys), jax.random.key_data(expected))


def test_too_many_draws_of_one_key_are_refused():
    with pytest.raises(ValueError, match="split the key"):
        jax.jit(lambda key: jax.random.bits(random.unrolled(key), (2**16, 2**16))).lower(KEY())


@pytest.mark.parametrize("draw", TWICE.values(), ids=TWICE)
def test_a_key_that_is_used_twice_is_seen(draw):
    for run in (lambda draw: draw, jax.jit):
        with jax.debug_key_reuse(True), pytest.raises(jax.errors.KeyReuseError):
            run(draw)(KEY())


def uses(text):
    """What a file takes from ``jax.random``."""
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute))
    return {node.attr for node in nodes if ast.unparse(node.value) == "jax.random"}


def test_the_library_draws_and_splits_here_alone():
    for path in LIBRARY.rglob("*.py"):
        if path != LIBRARY / "core" / "random.py":
            assert uses(path.read_text()) <= OF_JAX, path
    assert uses("y = jax.random.normal(jax.random.key(0))") == {"normal", "key"}
