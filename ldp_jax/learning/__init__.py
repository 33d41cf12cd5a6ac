"""Models (the one folder that imports flax), their training, metrics, and error bounds.

``training`` is of nodes and pairs, ``graph_training`` of packed graphs, ``label_training`` of noisy
labels.
"""

from ldp_jax.core import lazy

__getattr__, __dir__ = lazy.attach(
    __name__, {}, "bounds graph_training importance label_training metrics models training"
)
