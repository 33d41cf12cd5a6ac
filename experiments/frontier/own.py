"""Somebody's own mechanism or server among the rows of the frontier, as ``module:Name``."""

from typing import Any

import jax
import numpy as np

from experiments._common import making
from experiments._runner import UsageError, config_hash
from experiments.frontier.baselines._released import Answer
from ldp_jax.accounting.guarantee import PipelineGuarantee
from ldp_jax.bench import Draw, Method
from ldp_jax.bench.budgeted import called, on_lists
from ldp_jax.bench.methods import answer_of, check_column
from ldp_jax.bench.named import named
from ldp_jax.servers import ListServer, Users, simulate
from ldp_jax.servers.driver import Server


def noise(word: str) -> int:
    """The number that is folded into a draw's key: a row of its own has noise of its own."""
    return int(config_hash(word), 16) % 2**31


def answer(key: jax.Array, word: str, draw: Draw, epsilon: float) -> Answer:
    """The method's answer to a draw, and its cost by the driver."""
    with making(word, epsilon):
        entry = Method.of(word).enter(draw, epsilon)
    found: Any = simulate(key, entry.server, entry.users)
    scores = getattr(found.value, "log_posterior", None)
    if scores is None:
        classes = answer_of(found.value, draw.data.num_nodes)
        scores = np.log(np.eye(draw.data.num_classes)[classes] * (1 - 1e-9) + 1e-9)
    return Answer(scores, found.guarantee)


def of_lists(
    key: jax.Array, word: str, lists: Any, users: Any, epsilon: float, **facts: Any
) -> tuple[Any, PipelineGuarantee]:
    """A server's result on private lists, or the noisy graph of a mechanism on them.

    ``users`` are a number, or a set of graphs without edges; ``facts`` are public.
    """
    make = named(word).make
    with making(word, epsilon):
        made: Any = called(make, epsilon, **facts)
        if not isinstance(made, Server):
            made = ListServer(on_lists(make, epsilon, **facts), users)
        check_column(word, made, "edges", epsilon)
    found = simulate(key, made, Users(lists=lists))
    return found.value, found.guarantee


def numbers(word: str, found: Any, *shapes: tuple[int, ...]) -> np.ndarray:
    """The numbers that a server's result is; a UsageError for others than of one of the shapes."""
    made = np.asarray(found)
    if made.shape not in shapes or made.dtype.kind not in "fiu" or not np.isfinite(made).all():
        wanted = " or ".join(map(str, shapes))
        raise UsageError(
            f"{word}: its result must be finite numbers of shape {wanted}, got "
            f"{type(found).__name__} of shape {made.shape}"
        )
    return made
