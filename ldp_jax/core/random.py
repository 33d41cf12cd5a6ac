"""``jax.random`` bit for bit, several times as fast on a CPU (``benchmarks --parts discrete``).

Keys are JAX's own.

On a CPU JAX loops over arrays for each round of threefry (Salmon et al., SC 2011, section 3); here
it is one pass. 64-bit mode changes no draw: numbers have 32 bits where no other type is asked for.
"""

import inspect
import math
from collections.abc import Callable
from functools import partial, wraps
from typing import Concatenate, ParamSpec

import jax
import jax.extend.random
import jax.numpy as jnp
import numpy as np
from jax import lax

from ldp_jax.core import validate
from ldp_jax.core.types import Array, ArrayLike, PRNGKey, PRNGKeys

_P = ParamSpec("_P")
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_IMPL = "threefry2x32"
_PARITY = np.uint32(0x1BD11BDA)


@partial(jax.jit, inline=True)
def threefry(key: Array, high: Array, low: Array) -> tuple[Array, Array]:
    """Threefry-2x32, 20 rounds, of counters under the two words of a key; uint32, elementwise."""
    # lax's own operations: operators on arrays trace a program each.
    first, second = (lax.index_in_dim(key, place, keepdims=False) for place in (0, 1))
    schedule = first, second, lax.bitwise_xor(lax.bitwise_xor(first, second), _PARITY)
    a = lax.add(high, first)
    b = lax.add(low, second)
    for turn in range(5):
        for bits in _ROTATIONS[turn % 2]:
            a = lax.add(a, b)
            turned = (
                lax.shift_left(b, np.uint32(bits)),
                lax.shift_right_logical(b, np.uint32(32 - bits)),
            )
            b = lax.bitwise_xor(lax.bitwise_or(*turned), a)
        a = lax.add(a, schedule[(turn + 1) % 3])
        b = lax.add(lax.add(b, schedule[(turn + 2) % 3]), np.uint32(turn + 1))
    return a, b


def _hashed_places(key: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    if math.prod(shape) >= 2**32:
        raise ValueError(
            f"one key draws fewer than 2^32 words, got the shape {shape}: split the key"
        )
    low = lax.iota(jnp.uint32, math.prod(shape)).reshape(shape)
    return threefry(key, jnp.zeros_like(low), low)


def _apart(words: Array) -> Array:
    """Keep XLA from merging the computations of two draws, by a barrier."""
    return lax.optimization_barrier(words)


def _bits(key: Array, width: int, shape: tuple[int, ...]) -> Array:
    a, b = _hashed_places(key, shape)
    if width == 64:
        return _apart((a.astype(jnp.uint64) << np.uint64(32)) | b.astype(jnp.uint64))
    return _apart((a ^ b).astype(f"uint{width}"))


def _fold_in(key: Array, number: ArrayLike) -> Array:
    number = jnp.asarray(number, jnp.uint32)
    return _apart(jnp.stack(threefry(key, jnp.zeros_like(number), number)))


_UNROLLED = jax.extend.random.define_prng_impl(
    key_shape=(2,),
    seed=lambda seed: jax.random.key_data(jax.random.key(seed, impl=_IMPL)),
    split=lambda key, shape: _apart(jnp.stack(_hashed_places(key, shape), -1)),
    random_bits=_bits,
    fold_in=_fold_in,
    name="threefry2x32_unrolled",
    tag=_IMPL,  # the name by which keys are checked: it is the same generator
)


def unrolled(key: PRNGKey) -> PRNGKey:
    """Return the key for fast draws by ``jax.random`` (not its ``poisson``) in one function.

    JAX's checker of key reuse does not know the result.
    """
    validate.threefry(key)
    return jax.random.wrap_key_data(jax.random.key_data(key), impl=_UNROLLED)


def _used(key: PRNGKey) -> PRNGKey:
    same = unrolled(key)
    if getattr(jax.config, "jax_debug_key_reuse"):  # noqa: B009 - no type checker knows it
        jax.random.split(key)  # which the checker counts
    return same


def counted(key: PRNGKey) -> PRNGKey:
    """Count a use of the key for JAX's checker, which :func:`fold_in` does not."""
    return jax.random.wrap_key_data(jax.random.key_data(_used(key)), impl=_IMPL)


def again(key: PRNGKey) -> PRNGKey:
    """Return the same key for a step that repeats its draws on purpose."""
    words = np.asarray(jax.random.key_data(key))
    return jax.random.wrap_key_data(jax.device_put(words), impl=_IMPL)


def _fused(
    draw: Callable[Concatenate[PRNGKey, _P], Array], dtype: type[np.number] | None = None
) -> Callable[Concatenate[PRNGKey, _P], Array]:
    """Make the fast form of a draw; it has 32 bits by default, also in 64-bit mode."""
    before = list(inspect.signature(draw).parameters).index("dtype") - 1 if dtype else 0

    @wraps(draw)
    def fused(key: PRNGKey, /, *args: _P.args, **kwargs: _P.kwargs) -> Array:
        if dtype and len(args) <= before:
            kwargs.setdefault("dtype", dtype)
        return draw(_used(key), *args, **kwargs)

    return fused


bernoulli = _fused(jax.random.bernoulli)
bits = _fused(jax.random.bits, np.uint32)
categorical = _fused(jax.random.categorical)
gumbel = _fused(jax.random.gumbel, np.float32)
normal = _fused(jax.random.normal, np.float32)
permutation = _fused(jax.random.permutation)
randint = _fused(jax.random.randint, np.int32)
uniform = _fused(jax.random.uniform, np.float32)


@partial(jax.jit, static_argnames="num")
def split(key: PRNGKey, num: int | tuple[int, ...] = 2) -> PRNGKeys:
    """``jax.random.split``, whatever JAX's flags: key i is ``fold_in(key, i)``."""
    return jax.random.wrap_key_data(
        jax.random.key_data(jax.random.split(_used(key), num)), impl=_IMPL
    )


@jax.jit
def fold_in(key: PRNGKey, number: ArrayLike) -> PRNGKey:
    """``jax.random.fold_in``."""
    validate.threefry(key)
    return jax.random.wrap_key_data(_fold_in(jax.random.key_data(key), number), impl=_IMPL)


def generator(key: PRNGKey) -> np.random.Generator:
    """NumPy's generator, seeded with the words of a key, for draws on the host."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)))
