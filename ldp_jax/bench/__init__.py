"""Your own method beside every other: one table, one picture, one page.

:func:`compare` takes a mechanism on numbers, on vectors or on neighbour lists, or a server, and
says whose classes are found at which epsilon. On the same draws stand this library's methods, what
is known without private data, the permuted control and the ceiling without noise. From a shell:
``python -m ldp_jax.bench mine:Stairs --on cora --epsilons 1 4 --out stairs``.

* :mod:`rows <ldp_jax.bench.rows>` - scores, gains and their intervals;
* :mod:`methods <ldp_jax.bench.methods>` - what stands in a row; this library's methods;
* :mod:`budgeted <ldp_jax.bench.budgeted>` - a mechanism at a budget, and a model of some sizes;
  :mod:`wrapped <ldp_jax.bench.wrapped>` - how it becomes a server;
  :mod:`learners <ldp_jax.bench.learners>` - how classes are found by what it reports;
* :mod:`draws <ldp_jax.bench.draws>` - what is public, and what users hold;
* :mod:`page <ldp_jax.bench.page>` - text, picture and page;
* :mod:`memory <ldp_jax.bench.memory>` - the most memory that a row takes;
* :mod:`searching <ldp_jax.bench.searching>` - what a search over parameters costs;
* :mod:`plot <ldp_jax.bench.plot>` - the error of estimates against epsilon;
* :mod:`named <ldp_jax.bench.named>` - ``module:Name``.
"""

from ldp_jax.bench.comparison import compare
from ldp_jax.bench.draws import Draw, draw
from ldp_jax.bench.methods import RIVALS, Method
from ldp_jax.bench.named import Named, named
from ldp_jax.bench.rows import Comparison, Row
from ldp_jax.bench.searching import Searched, guarantee_of, search

__all__ = [
    "RIVALS",
    "Comparison",
    "Draw",
    "Method",
    "Named",
    "Row",
    "Searched",
    "compare",
    "draw",
    "guarantee_of",
    "named",
    "search",
]

__dir__ = lambda: __all__
