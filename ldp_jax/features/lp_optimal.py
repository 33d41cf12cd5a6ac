"""The unbiased finite mechanism of least variance: a linear program, solved once on the host."""

import importlib.resources
import io
import math
from functools import lru_cache

import numpy as np

from ldp_jax.core import integer_tables, validate
from ldp_jax.core.types import Scalar
from ldp_jax.features.discrete import Discrete
from ldp_jax.features.gridded import worst_variance
from ldp_jax.features.piecewise import OptimalPiecewise

INPUTS, OUTPUTS = 11, 101
SHIPPED = (0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0)
"""Budgets whose laws at the default sizes are shipped."""


def LPOptimal(epsilon: Scalar, inputs: int = INPUTS, outputs: int = OUTPUTS) -> Discrete:
    r"""The unbiased mechanism on a grid of outputs whose worst variance is least.

    Exact in integers.

    Law: records are rounded at random to ``inputs`` points x_i on [-1, 1]; :math:`P[y \mid x_i]` on
    ``outputs`` points on :math:`\pm 1.5\,(e^\epsilon + 1)/(e^\epsilon - 1)` solves the linear
    program: rows sum to 1, :math:`\sum_y y P[y \mid x_i] = x_i`, column y lies in
    :math:`[q_y, e^\epsilon q_y]`, and the largest :math:`M(x) - x^2` is least, M being
    :math:`\sum_y y^2 P[y \mid x_i]`, linear between grid points.
    Guarantee: at most epsilon, exact in integers (:class:`Discrete`).
    Utility: unbiased to 1e-6; the worst-case variance is 3.995 at epsilon 1 (hybrid: 4.289), 0.873
    at 2 (1.042), 0.312 at 3 (0.432), 0.0655 at 5 (0.121). Rounding to the grid alone costs up to 1
    / (inputs - 1)^2.
    Numerics: solved in float64 by HiGHS, then rounded to integers; tables for common budgets are
    shipped.
    Reference: Geng et al., IEEE JSTSP 2015, and Kairouz, Oh & Viswanath, JMLR 2016 (continuous
    relatives).

    ``epsilon`` is in (0, 20], ``inputs`` in [2, 512]; of ``outputs`` >= 41 empty ones are dropped.
    ``ValueError`` where it would be worse than :func:`OptimalPiecewise`: more inputs are needed.

    >>> round(float(LPOptimal(1.0).variance(0.0)), 1)
    4.0
    """
    epsilon = integer_tables.checked_epsilon(epsilon)
    validate.integer_in(2, integer_tables.MAX_INPUTS, inputs=inputs)
    validate.integer_in(41, integer_tables.MAX_OUTPUTS, outputs=outputs)

    other = float(OptimalPiecewise(epsilon).variance(1.0))
    if 1 / (inputs - 1) ** 2 < other:  # else rounding to the grid alone costs more
        solved = table(epsilon, inputs, outputs)
        law = solved.masses / integer_tables.WORDS
        if worst_variance(law, solved.values.astype(np.float64), 8) <= other:
            return Discrete.of(solved)
    raise ValueError(
        f"inputs must be more than {inputs} for LPOptimal to be better than OptimalPiecewise at "
        f"epsilon {epsilon:g}, whose worst variance is {other:.3g}"
    )


@lru_cache(maxsize=64)
def table(epsilon: float, inputs: int, outputs: int) -> integer_tables.Table:
    """The integer table of a solved program; from the package where it is shipped."""
    if (inputs, outputs) != (INPUTS, OUTPUTS) or epsilon not in SHIPPED:
        return rounded(epsilon, *solve(epsilon, inputs, outputs))
    shipped = importlib.resources.files("ldp_jax.features").joinpath("lp_optimal.npz")
    with np.load(io.BytesIO(shipped.read_bytes()), allow_pickle=False) as archive:
        return integer_tables.Table.from_bytes(archive[f"{epsilon:g}"].tobytes())


def solve(epsilon: float, inputs: int, outputs: int) -> tuple[np.ndarray, np.ndarray]:
    """Solve the linear program.

    The law [inputs, outputs] and the output points [outputs], float64.
    """
    from scipy import optimize, sparse  # importing them takes longer than drawing most reports

    x = np.linspace(-1.0, 1.0, inputs)
    y = np.linspace(-1.5, 1.5, outputs) / math.tanh(epsilon / 2)
    cells = inputs * outputs

    # The unknowns are the law row by row, then q, then the bound.
    each = sparse.identity(inputs)
    law = sparse.identity(cells, format="csr")
    column = sparse.kron(np.ones((inputs, 1)), sparse.identity(outputs), format="csr")
    total = sparse.kron(each, np.ones((1, outputs)), format="csr")
    mean = sparse.kron(each, y[None], format="csr")
    second = sparse.kron(each, y[None] ** 2, format="csr")

    # Variances at the grid points, and at seven points of each segment between them.
    at = np.arange(8 * (inputs - 1) + 1) / 8
    below = np.minimum(at.astype(int), inputs - 2)
    f = at - below
    place = np.arange(len(at))
    blend = sparse.lil_array((len(at), inputs))
    blend[place, below] = 1 - f
    blend[place, below + 1] = f
    points = x[below] + f * (x[1] - x[0])

    smaller = [
        [-law, column, None],
        # P <= e^eps q_y is divided by e^eps, so that coefficients stay near 1.
        [law * math.exp(-epsilon), -column, None],
        [blend.tocsr() @ second, None, -np.ones((len(at), 1))],
    ]
    equal = [[total, sparse.csr_array((inputs, outputs + 1))], [mean, None]]
    cost = np.zeros(cells + outputs + 1)
    cost[-1] = 1.0

    found = optimize.linprog(
        cost,
        A_ub=sparse.block_array(smaller, format="csr"),
        b_ub=np.concatenate([np.zeros(2 * cells), points**2]),
        A_eq=sparse.block_array(equal, format="csr"),
        b_eq=np.concatenate([np.ones(inputs), x]),
        bounds=(0, None),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9},
    )
    if found.status != 0:
        raise ValueError(
            f"epsilon {epsilon:g} is too small or too large for the linear program: {found.message}"
        )
    return found.x[:cells].reshape(inputs, outputs), y


def rounded(epsilon: float, law: np.ndarray, y: np.ndarray) -> integer_tables.Table:
    """The law exact in its boxes and in integers; symmetric as the program is."""
    # The mean of an optimum and its mirror image is an optimum too.
    law = np.maximum((law + law[::-1, ::-1]) / 2, 0.0)
    kept = law.max(0) > 1e-9
    law = law[:, kept]
    values = y[kept].astype(np.float32)

    # The boxes [low, e^epsilon low] hold within the solver's tolerance; here exactly.
    low = np.maximum(law.min(0), law.max(0) * math.exp(-epsilon))
    law = np.clip(law, low, low * math.exp(epsilon))
    masses = integer_tables.integer_masses(law / law.sum(1, keepdims=True), epsilon)
    return integer_tables.Table("LPOptimal", masses, values, "grid")
