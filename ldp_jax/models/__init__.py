"""Models as pairs of pure functions; flax is known here and nowhere else."""

from ldp_jax.models._model import Model
from ldp_jax.models.gat import gat
from ldp_jax.models.gcn import NodeInputs, gcn
from ldp_jax.models.gin import gin
from ldp_jax.models.mlp import linear, mlp

__all__ = ["Model", "NodeInputs", "gat", "gcn", "gin", "linear", "mlp"]


def __dir__() -> list[str]:
    return __all__
