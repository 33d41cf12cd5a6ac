"""The networks of the rows, and what each is applied to."""

from functools import lru_cache
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from experiments._common import own_model
from experiments.poindp.settings import WITHOUT, Settings
from ldp_jax.learning import models

Kind = Literal["node", "placed", "poindp", "noisy"]

PLACES = 2
"""Coordinates of the embedding, and sensitivities of each node."""


class NoisyInputs(NamedTuple):
    """The inputs of a network with noise on its outputs."""

    inputs: Any
    epsilon: Any


@lru_cache
def vanilla(model: models.Model) -> models.Model:
    """Laplace noise of scale 1 / epsilon on each output, in training and in answers (VANPD).

    Nothing is proved of it: outputs have no bound, and depend on the records of neighbours.
    """

    def init(key: Any, inputs: NoisyInputs) -> Any:
        key, noise_key = jax.random.split(key)
        return {
            **model.init(key, inputs.inputs),
            "noise": {"words": jax.random.key_data(noise_key)},
        }

    def apply(variables: Any, inputs: NoisyInputs, *, key: Any, train: bool) -> Any:
        own = {name: part for name, part in variables.items() if name != "noise"}
        if train:
            key, noise_key = jax.random.split(key)
        else:
            noise_key = jax.random.wrap_key_data(variables["noise"]["words"], impl="threefry2x32")
        outputs, changed = model.apply(own, inputs.inputs, key=key, train=train)
        noisy = outputs + jax.random.laplace(noise_key, outputs.shape) / inputs.epsilon
        return noisy, {**changed, "noise": variables["noise"]}

    return models.Model(init, apply)


def network(
    name: str, settings: Settings, classes: int, own: str = ""
) -> tuple[models.Model, Kind]:
    """The network of a row, or somebody's own, and its kind of inputs.

    ``gcn+H`` adds a perceptron of the places to a GCN's layers.
    """
    width, dropout = settings.hidden, settings.dropout
    if own:
        return own_model(own, classes, layers=2, hidden=width, dropout=dropout), "node"
    gcn = models.gcn(2, width, classes, dropout, "symmetric")
    plain: dict[str, tuple[models.Model, Kind]] = {
        "gcn": (gcn, "node"),
        "gat": (
            models.gat(
                2, heads=settings.heads, hidden=width // 2, outputs=classes, dropout=dropout
            ),
            "node",
        ),
        "hgcn": (
            models.hyperbolic_gcn(
                2, width, classes, dropout, activation="elu", normalisation="symmetric"
            ),
            "node",
        ),
        "hyperimba": (models.hyperimba(2, width, classes, dropout), "placed"),
        "gcn+H": (models.hyperimba(2, width, classes, dropout, weights="degree"), "placed"),
        "published:vanpd": (vanilla(gcn), "noisy"),
        "published:lap": (gcn, "node"),
    }
    if name in plain:
        return plain[name]
    form, _, mine = name.rpartition(":")
    noise: Any = {"published": "released", "printed": "printed"}.get(form, "off")
    strength: Any = {"rddp": "random", "atdp": "attention"}.get(mine, "hierarchy")
    branches: Any = tuple(
        branch for branch in ("inter", "intra") if not mine.endswith(f" without {branch}")
    )
    made = models.poindp(
        classes, width, dropout, noise, branches, not mine.endswith(WITHOUT[2]), strength
    )
    return made, "poindp"


def inputs_of(kind: Kind, op: Any, x: Any, known: Any, epsilon: float, settings: Settings) -> Any:
    """The inputs of a network.

    Rows x, float [n, d], and each node's public place and sensitivities [n, 4].
    """
    rows = models.NodeInputs(op, x)
    if kind == "node":
        return rows
    if kind == "noisy":
        return NoisyInputs(rows, jnp.float32(epsilon))
    places = known[:, :PLACES]
    if kind == "placed":
        return models.PlacedInputs(op, x, places)
    delta = jnp.float32(settings.published_delta)
    return models.PoinDPInputs(op, x, places, known[:, PLACES:], jnp.float32(epsilon), delta)


@lru_cache
def of_columns(model: models.Model, kind: Kind, epsilon: float, settings: Settings) -> models.Model:
    """The same network on `NodeInputs` whose last columns are places and sensitivities."""

    def split(inputs: Any) -> Any:
        graph, x, _ = models.NodeInputs(*inputs)
        records, known = x[:, : -2 * PLACES], x[:, -2 * PLACES :]
        return inputs_of(kind, graph, records, known, epsilon, settings)

    def init(key: Any, inputs: Any) -> Any:
        return model.init(key, split(inputs))

    def apply(variables: Any, inputs: Any, *, key: Any, train: bool) -> Any:
        return model.apply(variables, split(inputs), key=key, train=train)

    return models.Model(init, apply)
