"""Graphs, sums over neighbours, propagation, and batches of many graphs.

* :mod:`graphs <ldp_jax.graph.graphs>` - building and checking them; the one file that imports jraph;
* :mod:`aggregation <ldp_jax.graph.aggregation>` - sums over neighbours;
* :mod:`propagation <ldp_jax.graph.propagation>` - Personalized PageRank;
* :mod:`interop <ldp_jax.graph.interop>` - graphs of networkx, scipy, pandas, PyTorch Geometric and DGL, and back;
* :mod:`packing <ldp_jax.graph.packing>` - many graphs in a few static shapes.

Modules are imported on first use.
"""

from ldp_jax.core import lazy

__getattr__, __dir__ = lazy.attach(__name__, {}, "aggregation graphs interop packing propagation")
