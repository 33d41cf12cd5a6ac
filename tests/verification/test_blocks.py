"""Blocks of one shape say of rows what the rows say together."""

import jax
import numpy as np
import pytest

from ldp_jax.verification._programs import SIZE, in_blocks


@jax.jit
def asked(rows):
    numbers, pairs = rows
    return {"more": numbers + 1, "sums": pairs.sum(1)}


@pytest.mark.parametrize("count", [0, 1, SIZE, 2 * SIZE + 5])
def test_any_number_of_rows_is_one_program(count):
    numbers = np.arange(count, dtype=np.int32)
    pairs = np.stack([numbers, -2 * numbers], 1)
    found = in_blocks(asked, (numbers, pairs))
    np.testing.assert_array_equal(found["more"], numbers + 1)
    np.testing.assert_array_equal(found["sums"], -numbers)
    assert asked._cache_size() == 1
