"""Models as pairs of pure functions; flax is known here and nowhere else."""

from ldp_jax.learning.models._model import Bound, Model, Variables, as_model
from ldp_jax.learning.models.gat import gat
from ldp_jax.learning.models.gcn import NodeInputs, gcn
from ldp_jax.learning.models.gin import gin
from ldp_jax.learning.models.hyperbolic_gcn import hyperbolic_gcn
from ldp_jax.learning.models.hyperimba import PlacedInputs, hyperimba
from ldp_jax.learning.models.mlp import dense_layers, linear, mlp
from ldp_jax.learning.models.poindp import PoinDPInputs, poindp

__all__ = [
    "Bound",
    "Model",
    "NodeInputs",
    "PlacedInputs",
    "PoinDPInputs",
    "Variables",
    "as_model",
    "dense_layers",
    "gat",
    "gcn",
    "gin",
    "hyperbolic_gcn",
    "hyperimba",
    "linear",
    "mlp",
    "poindp",
]

__dir__ = lambda: __all__
