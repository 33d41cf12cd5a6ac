"""Laws of a number of an interval, from its density."""

import itertools
import math
from functools import partial

import jax.numpy as jnp
import numpy as np

from ldp_jax.core.spaces import Interval, NotApplicable
from ldp_jax.core.spaces.space import Log
from ldp_jax.core.types import Values

_FINE = 2048  # pieces between two breaks
_MISPLACED = 1e-4  # the most of a law's mass that float64 may misplace where it is integrated


def edges_of(codomain: Interval, x: Values, log_density: Log) -> tuple[np.ndarray, np.ndarray]:
    """Return where a density may jump or bend, its ends, and how far out it falls by half, [2]."""
    breaks = np.array([float(np.asarray(x))])
    if codomain.breaks is not None:
        declared = np.sort(np.asarray(codomain.breaks(jnp.asarray(x)), np.float64))
        breaks = declared if len(declared) else breaks
    ends = np.array([codomain.lower, codomain.upper], np.float64)
    scales = np.ones(2)
    breaks = np.clip(breaks, *ends)
    widths = 2.0 ** np.arange(-40.0, 64.0)
    known = log_density(breaks)
    heavy = breaks[known >= max(known.max() - 50.0, -1e300)] if np.isfinite(known).any() else breaks
    for side, (sign, start) in enumerate(((-1.0, heavy[0]), (1.0, heavy[-1]))):
        if math.isinf(ends[side]):
            logs = log_density(start + sign * widths)  # all at once
            most = max(known.max(), logs.max())
            last = [
                np.flatnonzero(logs > most - fallen).max(initial=-1)
                for fallen in (50.0, math.log(2))
            ]
            if last[0] == len(widths) - 1:
                raise NotApplicable("the density has no end that could be found")
            ends[side] = start + sign * widths[last[0] + 1]
            scales[side] = widths[last[1] + 1]
    breaks = breaks[(breaks > ends[0]) & (breaks < ends[1])]
    return np.concatenate([ends[:1], breaks if len(breaks) else [ends.mean()], ends[1:]]), scales


def line(
    codomain: Interval, x: Values, log_density: Log
) -> tuple[partial[np.ndarray], float, np.ndarray]:
    """A distribution function (not normalised), what float32 may misplace of it, and the breaks.

    ``NotApplicable`` where the law has pieces of few float64 spacings.
    """
    edges, scales = edges_of(codomain, x, log_density)
    inner = [np.linspace(a, b, _FINE, endpoint=False) for a, b in itertools.pairwise(edges)]
    # Pieces grow towards an end that is infinite, as a heavy tail does.
    if math.isinf(float(codomain.lower)):
        inner[0] = edges[1] - _outwards(edges[1] - edges[0], scales[0])[:0:-1]
    if math.isinf(float(codomain.upper)):
        inner[-1] = edges[-2] + _outwards(edges[-1] - edges[-2], scales[1])[:-1]
    cuts = np.append(np.concatenate(inner), edges[-1])
    width = np.diff(cuts)
    # Two Gauss-Legendre points a piece, none at a break, where the density may be of either side.
    at = (cuts[1:] + cuts[:-1]) / 2 + np.array([[-0.5], [0.5]]) * width / math.sqrt(3)
    density = np.exp(log_density(at.ravel())).reshape(2, -1)
    total = np.concatenate([[0.0], np.cumsum(density.mean(0) * width)])
    misplaced = float(density.max() * np.spacing(np.float32(np.abs(edges[1:-1]).max())))
    refuse_narrow(4 * 2.0**-29 * misplaced)
    return partial(np.interp, xp=cuts, fp=total), misplaced, edges


def _outwards(width: float, scale: float) -> np.ndarray:
    """Distances from 0 to ``width``, even below ``scale`` and in even ratios beyond."""
    return width * np.sinh(np.linspace(0.0, np.arcsinh(width / scale), _FINE + 1)) / (width / scale)


def refuse_narrow(misplaced: float) -> None:
    """``NotApplicable`` where float64 may misplace too much of a law.

    Four spacings of the densest report.
    """
    if misplaced > _MISPLACED:
        raise NotApplicable(
            "pieces of the law are of few float64 spacings, which misplace up to "
            f"{misplaced:.2g} of its mass"
        )
