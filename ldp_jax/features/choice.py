"""The mechanism of least error, from public facts alone."""

import math
from functools import partial
from typing import Literal, NamedTuple, get_args

import jax
import numpy as np

from ldp_jax.core import integer_tables, validate
from ldp_jax.core.mechanism import HasMoments
from ldp_jax.features.duchi import Duchi
from ldp_jax.features.duchi_vector import DuchiVector
from ldp_jax.features.generalized_rr import GeneralizedRR
from ldp_jax.features.hybrid import Hybrid
from ldp_jax.features.laplace import Laplace
from ldp_jax.features.piecewise import OptimalPiecewise, Piecewise
from ldp_jax.features.privunit import PrivUnit, PrivUnitG
from ldp_jax.features.sampled import HDS, LaplaceVector, MultiBit, MultiPiecewise
from ldp_jax.features.square_wave import SquareWave
from ldp_jax.features.three_outputs import ThreeOutputs

Domain = Literal["cube", "ball", "classes"]

_variances = jax.jit(lambda mechanism, x: mechanism.variance(x))

_SIZES = np.arange(512, 0, -1) / 512  # the error of three outputs is largest between 0 and 1


class Choice(NamedTuple):
    """A mechanism; ``scale`` divides records and multiplies estimates.

    ``error`` is the largest E |estimate - x|^2, ``errors`` all compared, the least first;
    ``refused`` are others.
    """

    mechanism: HasMoments
    scale: float
    error: float
    errors: dict[str, float]
    refused: dict[str, str]


def choose(domain: Domain, norm_bound: float | None, dim: int, epsilon: float) -> Choice:
    """The unbiased mechanism of least worst error E |estimate - x|^2.

    Draws nothing, looks at no record.

    The worst is over records whose coordinates other than 0 are equal. The domain is ``"cube"``,
    ``dim`` numbers in [-1, 1]; ``"ball"``, ``dim`` numbers; or ``"classes"``, one of ``dim``.
    ``norm_bound`` is the largest length of a record: None for classes, or where only the cube
    bounds it. ``epsilon`` is in (0, 44].

    >>> choose("cube", None, 1, 1.0).mechanism
    Hybrid(epsilon=1.0)
    >>> choose("ball", 1.0, 100, 4.0).mechanism
    PrivUnit(epsilon=4.0, dim=100, radius=1.0)
    """
    validate.one_of(get_args(Domain), domain=domain)
    epsilon = validate.number(0.0, 44.0, open_lower=True, epsilon=epsilon)
    dim = validate.whole(2 if domain == "classes" else 1, 2**31 - 1, dim=dim)
    length = 1.0  # of the longest record
    side = 1.0  # of the cube that holds all records
    if domain == "cube":
        length = math.sqrt(dim)
    if domain == "ball" or norm_bound is not None:
        bound = validate.number(0.0, 1e9, open_lower=True, norm_bound=norm_bound)
        validate.require(
            domain != "classes", f"norm_bound must not be given for classes, got {norm_bound}"
        )
        length = min(length, bound) if domain == "cube" else bound
    if domain == "ball":
        side = length

    if domain == "classes":
        on_cube = [partial(GeneralizedRR, epsilon, dim)]
    elif dim == 1:
        kinds = (Laplace, Duchi, Piecewise, OptimalPiecewise, Hybrid, ThreeOutputs)
        on_cube = [partial(kind, epsilon) for kind in kinds]
        on_cube += [partial(SquareWave, epsilon, debias=True)]
    else:
        k = max(1, min(dim, int(epsilon / 2.5)))
        on_cube = [
            partial(LaplaceVector, epsilon, dim),
            partial(MultiBit, epsilon, dim),
            partial(MultiPiecewise, epsilon, dim),
            partial(HDS, epsilon, dim, k, debias=True),
            partial(DuchiVector, epsilon, dim),
        ]
    on_ball = [partial(kind, epsilon, dim, length) for kind in (PrivUnit, PrivUnitG)]
    made = [(make, side) for make in on_cube]
    if dim > 1:
        made += [(make, 1.0) for make in on_ball]

    found = dict[str, tuple[HasMoments, float]]()
    errors = dict[str, float]()
    refused = dict[str, str]()
    for make, scale in made:
        name = make.func.__name__
        try:
            mechanism = make()
        except ValueError as why:  # it does not take such a budget or so many classes
            refused[name] = str(why)
            continue
        error = _worst(mechanism, scale, length, dim)
        if domain == "classes" and make in on_ball:
            error -= 1.0  # its worst record is 0, and those of classes have length 1
        found[name] = mechanism, scale
        errors[name] = error
    errors = dict(sorted(errors.items(), key=lambda item: item[1]))
    best = next(iter(errors))
    return Choice(*found[best], errors[best], errors, refused)


def _worst(mechanism: HasMoments, scale: float, length: float, dim: int) -> float:
    """The largest E |estimate - x|^2 over records whose coordinates other than 0 are equal."""
    if isinstance(mechanism, (PrivUnit, PrivUnitG)):
        return mechanism.worst_error()
    if hasattr(mechanism, "table"):  # every class alike
        table = mechanism.table()
        share = table.masses[0] / integer_tables.WORDS
        values = table.values.astype(np.float64)
        mean = share @ values
        return float(share @ (values**2).sum(1) - (mean**2).sum())
    sizes = _SIZES * min(1.0, length / scale)
    x = np.append(sizes, 0.0).astype(np.float32)
    *each, at_zero = np.asarray(_variances(mechanism, x), np.float64)
    many = np.minimum(dim, np.floor((length / (scale * sizes)) ** 2 * (1 + 1e-12)))
    errors = many * each + (dim - many) * at_zero
    return float(scale**2 * np.max(errors, initial=dim * at_zero))
