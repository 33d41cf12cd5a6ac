"""The ball in float64, by the formulas of the textbooks: what float32 is held to."""

import numpy as np
from hypothesis import strategies as st

CURVATURES = st.floats(np.log(1e-3), np.log(10.0)).map(lambda log: float(np.float32(np.exp(log))))
SEEDS = st.integers(0, 2**32 - 1)


def wide(x):
    return np.asarray(x, np.float64)


def curvature(c):
    """As it is rounded on the device."""
    return float(np.float32(c))


def gap(x, c):
    return 1.0 - c * (wide(x) ** 2).sum(-1, keepdims=True)


def inner(x, y):
    return (wide(x) * wide(y)).sum(-1, keepdims=True)


def length(x):
    return np.sqrt(inner(x, x))


def add(x, y, c):
    x = wide(x)
    y = wide(y)
    xx = inner(x, x)
    yy = inner(y, y)
    xy = inner(x, y)
    return ((1 + 2 * c * xy + c * yy) * x + (1 - c * xx) * y) / (1 + 2 * c * xy + c**2 * xx * yy)


def distance(x, y, c):
    cosh = 1 + 2 * c * length(wide(x) - wide(y)) ** 2 / (gap(x, c) * gap(y, c))
    return (np.arccosh(cosh) / np.sqrt(c))[..., 0]


def close_distance(x, y, c):
    """The same without loss for close points: arcosh(1 + 2 s^2) = 2 arsinh(s)."""
    s = np.sqrt(c) * length(wide(x) - wide(y)) / np.sqrt(gap(x, c) * gap(y, c))
    return (2 / np.sqrt(c) * np.arcsinh(s))[..., 0]


def norm(x, c):
    return (2 / np.sqrt(c) * np.arctanh(np.sqrt(c) * length(x)))[..., 0]


def exp(x, v, c):
    x = wide(x)
    v = wide(v)
    size = np.maximum(length(v), 1e-300)
    return add(x, np.tanh(np.sqrt(c) * size / gap(x, c)) * v / (np.sqrt(c) * size), c)


def log(x, y, c):
    u = add(-wide(x), y, c)
    size = np.maximum(length(u), 1e-300)
    return gap(x, c) / np.sqrt(c) * np.arctanh(np.sqrt(c) * size) * u / size


def gyration(x, y, v, c):
    """Ungar's formula."""
    x = wide(x)
    y = wide(y)
    v = wide(v)
    xv = inner(x, v)
    yv = inner(y, v)
    xy = inner(x, y)
    xx = inner(x, x)
    yy = inner(y, y)
    a = -(c**2) * xv * yy + c * yv + 2 * c**2 * xy * yv
    b = -(c**2) * yv * xx - c * xv
    return v + 2 * (a * x + b * y) / (1 + 2 * c * xy + c**2 * xx * yy)


def transport(x, y, v, c):
    return gap(y, c) / gap(x, c) * gyration(y, -wide(x), v, c)


def rounding(x, c):
    """How far a point moves when its coordinates do by 1e-6 of themselves, a few float32
    roundings.
    """
    r = norm(x, c)
    return 1e-6 * np.cosh(np.sqrt(c) * r / 2) ** 2 / np.sqrt(c)


def points(rng, shape, n, reach, c):
    """float32 points at distances up to reach / sqrt(c) from the origin."""
    u = rng.standard_normal((*shape, n))
    u /= np.linalg.norm(u, axis=-1, keepdims=True)
    r = rng.uniform(0, reach, (*shape, 1))
    return (np.tanh(r / 2) * u / np.sqrt(c)).astype(np.float32)


def several(seed, c, reach, count=2):
    """Sets of 64 points of three dimensions."""
    rng = np.random.default_rng(seed)
    return [points(rng, (64,), 3, reach, c) for _ in range(count)]


def polar(radius, c, rings=400, rays=400):
    """Points of the disc about the origin, [rings, rays, 2], and the hyperbolic area of their
    cells, [rings, 1].
    """
    edges = np.linspace(0.0, radius, rings + 1)
    r, turn = (edges[1:] + edges[:-1]) / 2, 2 * np.pi * (np.arange(rays) + 0.5) / rays
    size = np.tanh(np.sqrt(c) * r / 2) / np.sqrt(c)
    area = np.diff(np.cosh(np.sqrt(c) * edges)) / c * 2 * np.pi / rays
    return size[:, None, None] * np.stack([np.cos(turn), np.sin(turn)], -1), area[:, None]
