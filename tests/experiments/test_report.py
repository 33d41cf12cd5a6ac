"""What all reports share: differences that are paired by draw, and what their intervals say."""

import pandas as pd
import pytest

from experiments import _report
from ldp_jax.learning.metrics import ConfidenceInterval


def test_rows_are_paired_by_seed_and_not_by_position():
    """A gain of exactly 1 in each seed has an interval of width 0; by position it would differ by
    10.

    A seed is missing from one row, and the other is in another order.
    """
    truth = pd.Series({seed: 50 + 10 * seed for seed in (3, 1, 0, 2)})
    for mine, other, n in (((truth + 1)[[1, 2, 3]], truth, 3), (truth + 1, truth[:2], 2)):
        gain = _report.contrast({"mine": mine, "other": other}, "mine", "other")
        assert (gain.mean, gain.half_width, gain.n) == (1.0, pytest.approx(0.0, abs=1e-9), n)
        assert _report.significant(gain)
        assert _report.contrast({"mine": mine}, "mine", "other") is None


def test_a_budget_is_one_from_which_on_all_intervals_leave_0_out():
    above, holds, below = (ConfidenceInterval(mean, 1.0, 3) for mean in (2.0, 0.5, -2.0))
    for gains, first in (
        ([holds, above, above], 1),
        ([above, holds, above], 2),
        ([above, above], 0),
        ([above, holds], 2),
        ([above, None, above], 2),
        ([below, above], 1),
        ([above, below], 2),
        ([], 0),
    ):
        assert _report.first_sure(gains) == first
        turned = [None if gain is None else gain._replace(mean=-gain.mean) for gain in gains]
        assert _report.first_sure(turned, -1) == first
    assert _report.counted([above, holds, below, below, None]) == (1, 2, 1)
