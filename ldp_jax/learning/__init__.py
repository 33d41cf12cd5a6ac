"""Models, their training, metrics, and bounds of what noise leaves to learn.

* ``models``: MLP, GCN, GAT, GIN and hyperbolic networks; the one folder that imports flax;
* ``training``: nodes and pairs, many seeds at once; ``graph_training``: packed graphs; ``label_training``: labels
  that are reported with noise;
* ``metrics``, ``importance``, ``bounds``.
"""

from ldp_jax.core import lazy

__getattr__, __dir__ = lazy.attach(
    __name__, {}, "bounds graph_training importance label_training metrics models training"
)
