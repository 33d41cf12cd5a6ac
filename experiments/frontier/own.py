"""Somebody's own mechanism or server among the rows of the frontier, as ``module:Name``."""

from typing import Any

import jax
import numpy as np

from experiments._runner import config_hash
from experiments.frontier.baselines._released import Answer
from ldp_jax.bench import Draw, Method
from ldp_jax.bench.methods import answer_of
from ldp_jax.servers import simulate


def noise(word: str) -> int:
    """The number that is folded into a draw's key: a row of its own has noise of its own."""
    return int(config_hash(word), 16) % 2**31


def answer(key: jax.Array, word: str, draw: Draw, epsilon: float) -> Answer:
    """What the method finds in a draw, and what the driver says that it costs."""
    entry = Method.of(word).enter(draw, epsilon)
    found: Any = simulate(key, entry.server, entry.users)
    scores = getattr(found.value, "log_posterior", None)
    if scores is None:
        classes = answer_of(found.value, draw.data.num_nodes)
        scores = np.log(np.eye(draw.data.num_classes)[classes] * (1 - 1e-9) + 1e-9)
    return Answer(scores, found.guarantee)
