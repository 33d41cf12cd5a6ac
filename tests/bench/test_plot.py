"""Pictures show the numbers of the mechanisms; what cannot be drawn says why."""

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from ldp_jax import features
from ldp_jax.bench import plot
from ldp_jax.verification import NotApplicable

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


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(NotApplicable, match="must"):
        plot.variance({"rr": lambda e: features.GeneralizedRR(e, 3)}, [1.0], ax=new())


def test_axes_are_made_where_none_are_given():
    ax = plot.variance({"Duchi": features.Duchi}, [0.5])
    assert (ax.get_xlabel(), len(ax.lines)) == ("epsilon", 1)
    mpl.pyplot.close(ax.figure)
