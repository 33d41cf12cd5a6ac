"""No product is rounded below float32: a GPU takes 11 bits of each factor, a TPU 8, where nothing
else is asked.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.lax import Precision

from ldp_jax.edges import NeighbourList
from ldp_jax.hyperbolic import poincare
from ldp_jax.hyperbolic.sensitivity import intra_hierarchy_of_nodes
from ldp_jax.servers.parts import rows
from ldp_jax.verification import _programs
from ldp_jax.verification.cases import CASES
from tests.contract.test_mechanisms import ON_THE_BALL


def rounded(function: Any, *arguments: Any) -> list[Any]:
    """Precisions of products that a device may round to fewer bits."""
    program = jax.make_jaxpr(function)(*arguments)
    of = [
        one.params["precision"]
        for one in _programs.equations(program.jaxpr)
        if one.primitive.name == "dot_general"
    ]
    return [precision for precision in of if precision != (Precision.HIGHEST, Precision.HIGHEST)]


def test_a_product_of_no_stated_precision_is_found():
    x = jnp.ones((3, 3))
    assert rounded(lambda x: jax.lax.map(lambda row: jnp.matmul(row, x, precision="default"), x), x)
    assert not rounded(lambda x: jnp.matmul(x, x, precision="highest"), x)


ASKED = [
    n for n, case in CASES.items() if case.contract or case.hyperbolic or case.public in ON_THE_BALL
]


@pytest.mark.parametrize("name", ASKED)
def test_reports_and_laws(name):
    m = CASES[name].make(1.0)
    record = np.asarray(m.domain().typical())
    y = jax.eval_shape(m.privatize, jax.random.key(0), record)
    assert not rounded(m.privatize, jax.random.key(0), record)
    for method, argument in (("estimate", y), ("mean", record), ("variance", record)):
        if hasattr(m, method):
            assert not rounded(getattr(m, method), argument)
    if hasattr(m, "log_density"):
        assert not rounded(m.log_density, y, record)


@pytest.mark.parametrize("name", [n for n, case in CASES.items() if n in ASKED or case.lists])
def test_no_type_and_no_rank_is_promoted(name):
    """Whoever runs JAX under its strict flags composes reports and laws as others do."""
    m = CASES[name].make(1.0)
    key = jax.random.key(0)
    record = NeighbourList.of([1, 3], 6) if CASES[name].lists else jnp.asarray(m.domain().typical())
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        y = jax.eval_shape(m.privatize, key, record)
        for method, given in (
            ("estimate", (y,)),
            ("log_density", (y, record)),
            ("mean", (record,)),
            ("variance", (record,)),
        ):
            if hasattr(m, method):
                jax.eval_shape(getattr(m, method), *given)


def test_points_and_fits():
    points = jnp.full((4, 3), 0.1)
    matrix = jnp.ones((3, 3))
    assert not rounded(lambda x: poincare.mobius_matvec(matrix, x), points)
    assert not rounded(lambda x: intra_hierarchy_of_nodes(x), points)
    dense = rows.DenseRows(points)
    assert not rounded(dense.times, matrix)
    assert not rounded(dense.transposed, points)
