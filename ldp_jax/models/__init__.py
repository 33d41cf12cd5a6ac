"""Models as pairs of pure functions; flax is known here and nowhere else."""

from ldp_jax.models._model import Model, Variables
from ldp_jax.models.gat import gat
from ldp_jax.models.gcn import NodeInputs, gcn
from ldp_jax.models.gin import gin
from ldp_jax.models.hyperbolic_gcn import hyperbolic_gcn
from ldp_jax.models.hyperimba import PlacedInputs, hyperimba
from ldp_jax.models.mlp import dense_layers, linear, mlp
from ldp_jax.models.poindp import PoinDPInputs, poindp

__all__ = [
    "Model",
    "NodeInputs",
    "PlacedInputs",
    "PoinDPInputs",
    "Variables",
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


def __dir__() -> list[str]:
    return __all__
