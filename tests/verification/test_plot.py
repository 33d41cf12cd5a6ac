"""Pictures show the numbers of the mechanisms; what cannot be drawn says why."""

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from ldp_jax import features
from ldp_jax.verification import NotApplicable, plot

mpl.use("Agg")


def new():
    return Figure().subplots()


def test_variances_of_numbers_and_vectors():
    makers = {"Laplace": features.Laplace, "HDS": lambda e: features.HDS(e, dim=4, k=2)}
    ax = plot.variance(makers, [1.0, 2.0], ax=new())
    laplace, hds = (line.get_ydata() for line in ax.lines)
    np.testing.assert_allclose(laplace, [8.0, 2.0], rtol=1e-5)
    made = features.HDS(1.0, dim=4, k=2)
    assert hds[0] == pytest.approx(
        max(float(made.variance(np.full(4, t)).max()) for t in (-1.0, 1.0)), rel=1e-5
    )


def test_an_error_stands_over_what_is_lost_and_not_over_what_is_claimed():
    half = lambda e: features.Duchi(e / 2)  # made at half of the budget
    ax = plot.privacy_utility({"whole": features.Duchi, "half": half}, [2.0], ax=new())
    whole, less = (line.get_xydata()[0] for line in ax.lines)
    np.testing.assert_allclose([whole[0], less[0]], [2.0, 1.0], rtol=1e-6)
    assert whole[1] == pytest.approx(1 / np.tanh(1.0), rel=1e-5)  # of the record 0, unbiased


@pytest.mark.parametrize("m", [features.Laplace(1.0), features.GridSquareWave(1.0)])
def test_a_law_has_mass_one(m):
    ax = plot.density(m, ax=new())
    assert len(ax.lines) == 3
    for line in ax.lines:
        y, p = line.get_data()
        total = p.sum() if ax.get_ylabel() == "probability" else np.trapezoid(p, y)
        assert total == pytest.approx(1.0, abs=0.02)


def test_what_cannot_be_drawn_is_refused():
    for call in (
        lambda: plot.density(features.HDS(1.0, dim=4, k=2), ax=new()),
        lambda: plot.density(features.Hybrid(1.0), ax=new()),
        lambda: plot.variance({"rr": lambda e: features.GeneralizedRR(e, 3)}, [1.0], ax=new()),
    ):
        with pytest.raises(NotApplicable, match="must"):
            call()


def test_axes_are_made_where_none_are_given():
    ax = plot.density(features.Duchi(1.0), [0.5])
    assert (ax.get_xlabel(), len(ax.lines)) == ("report", 1)
    mpl.pyplot.close(ax.figure)
