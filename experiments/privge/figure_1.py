"""Figure 1: worst-case variance, and worst-case mean squared error, against epsilon."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments import _report as show
from experiments._common import row_names
from ldp_jax import features
from ldp_jax.core import mechanism
from ldp_jax.learning import bounds

_, COLOURS = row_names("privge")


def draw(*_: Any) -> Any:
    """The figure, which needs no row."""
    epsilons = jnp.linspace(0.25, 8.0, 125)
    grid = jnp.linspace(-1.0, 1.0, 41)
    family = {
        "Laplace": (features.Laplace, COLOURS["laplace"], "-"),
        "Piecewise": (features.Piecewise, COLOURS["piecewise"], "-"),
        "Multi-bit (Duchi)": (features.Duchi, COLOURS["multibit"], "-"),
        "square wave, raw": (features.SquareWave, COLOURS["hds"], "-"),
        "square wave, debiased": (
            lambda e: features.SquareWave(e, debias=True),
            COLOURS["hds"],
            "--",
        ),
    }
    figure, axes = show.panels(2, width=4.2, height=3.2)
    moments_of = lambda made: (made.variance(grid), mechanism.mse(made, grid))
    worst: dict[str, list[list[float]]] = {}
    for label, (make, colour, style) in family.items():
        moments = jax.jit(jax.vmap(lambda epsilon, make=make: moments_of(make(epsilon))))(epsilons)
        worst[label] = [
            [bounds.worst_case(row) for row in np.asarray(moment)] for moment in moments
        ]
        for axis, line in zip(axes, worst[label], strict=True):
            axis.plot(epsilons, line, color=colour, ls=style, label=label)
    variance, error = np.array(worst["square wave, raw"])
    least = variance <= np.min([of_row[0] for of_row in worst.values()], 0)
    titles = (
        f"The raw square wave varies least up to epsilon {float(epsilons[least][-1]):.1f},",
        f"but up to {float(epsilons[error > 1][-1]):.1f} its error is above the constant 0's",
    )
    labels = ("worst-case variance", "worst-case mean squared error")
    for axis, label, title in zip(axes, labels, titles, strict=True):
        axis.set(yscale="log", xlabel="epsilon", ylabel=label, ylim=(1e-2, 1e2))
        axis.set_title(title, fontsize=9)
        axis.axhline(1.0, color="black", lw=0.8, ls=":", label="the constant 0 (squared error)")
    show.legend_below(figure, axes[0], columns=3)
    return figure
