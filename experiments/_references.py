"""The strongest references that we know of.

The same laws in sparse NumPy, the same recurrence fused in numba.
"""

from typing import Any

import numpy as np

from ldp_jax.features import SquareWave


def generator(repeat: int) -> np.random.Generator:
    """NumPy's fastest."""
    return np.random.Generator(np.random.SFC64(repeat))


def chosen(rng: np.random.Generator, users: int, dim: int, k: int) -> np.ndarray:
    """k different coordinates of each user, int32 [users, k].

    All sets are equally likely, by redrawing repeats.
    """
    found = np.empty((users, k), np.int32)
    due = np.arange(users)
    while len(due):
        drawn = np.sort(rng.integers(0, dim, (len(due), k), np.int32), axis=1)
        found[due] = drawn
        due = due[(drawn[:, 1:] == drawn[:, :-1]).any(1)]
    return found


def hds(
    rng: np.random.Generator, x: np.ndarray, epsilon: float, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """HDS by a user's k coordinates alone, with the square wave of epsilon / k.

    Ids and reports [users, k].
    """
    wave = SquareWave(epsilon / k)
    b = np.float32(wave.b)
    high = np.exp(np.float32(epsilon / k))
    users, dim = x.shape
    places = chosen(rng, users, dim, k)
    value = x.reshape(-1).take(places + dim * np.arange(users)[:, None])  # one index a number
    near = (
        b * high / (b * high + 1)
    )  # the chance of the high piece; the outer two have length 2 together
    u = rng.random(places.shape, np.float32)
    inside = value - b + 2 * b * (u / near)
    outside = 2 * (u - near) / (1 - near) - 1 - b
    outside += 2 * b * (outside >= value - b)
    return places, np.where(u < near, inside, outside)


def dprr(
    rng: np.random.Generator, codes: np.ndarray, n: int, epsilons: tuple[float, float]
) -> np.ndarray:
    """DPRR of whole lists by the reported bits alone.

    Codes (user n + neighbour) are sorted, in and out.
    """
    user = codes // n
    degree = np.bincount(user, minlength=n)
    flip = 1 / (1 + np.exp(epsilons[1]))
    noisy = np.clip(degree + rng.laplace(0, 1 / epsilons[0], n), 0, n - 1)
    q = np.minimum(1.0, noisy / (noisy * (1 - 2 * flip) + (n - 1) * flip))
    kept = codes[rng.random(len(codes)) < (1 - flip) * q[user]]
    wanted = rng.binomial(n - 1 - degree, flip * q)
    taken = np.sort(
        np.concatenate([codes, np.arange(n, dtype=np.int64) * (n + 1)])
    )  # friends, and oneself
    flipped = np.zeros(0, np.int64)
    while (missing := wanted - np.bincount(flipped // n, minlength=n)).any():
        who = np.repeat(np.arange(n, dtype=np.int64), missing)
        drawn = np.unique(who * n + rng.integers(0, n, len(who)))
        for others in (taken, flipped):
            if len(others):
                at = np.minimum(np.searchsorted(others, drawn), len(others) - 1)
                drawn = drawn[others[at] != drawn]
        flipped = np.sort(np.concatenate([flipped, drawn]))
    return np.sort(np.concatenate([kept, flipped]))


def fused_iteration(senders: np.ndarray, receivers: np.ndarray, degree: np.ndarray) -> Any:
    """Chebyshev semi-iteration in numba: product and recurrence in one pass over the rows."""
    import numba  # pyrefly: ignore[missing-import]

    start = np.concatenate([[0], np.cumsum(np.bincount(receivers, minlength=len(degree)))]).astype(
        np.int32
    )
    columns = senders.astype(np.int32)
    share = (1.0 / degree).astype(np.float32)

    @numba.njit(parallel=True, fastmath=True)
    def step(
        z: np.ndarray, before: np.ndarray, source: np.ndarray, decay: Any, omega: Any
    ) -> None:  # into before
        for row in numba.prange(len(z)):
            total = np.zeros(z.shape[1], np.float32)
            for place in range(start[row], start[row + 1]):
                sender = columns[place]
                for column in range(z.shape[1]):
                    total[column] += z[sender, column]
            for column in range(z.shape[1]):
                inner = (
                    decay * share[row] * total[column] + source[row, column] - before[row, column]
                )
                before[row, column] += omega * inner

    def solve(source: np.ndarray, decay: float, count: int) -> np.ndarray:
        z = source.copy()
        before = np.zeros_like(source)
        omega = 2.0
        for _ in range(count):
            omega = 1.0 / (1.0 - 0.25 * decay**2 * omega)
            step(z, before, source, np.float32(decay), np.float32(omega))
            z, before = before, z
        return z

    return solve
