"""Graphs that a server draws or finds likely, each of a set from the reports of its own users."""

import dataclasses
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np

from ldp_jax import edges
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, Guarantee
from ldp_jax.core.types import Graph
from ldp_jax.graph import graphs
from ldp_jax.graph.packing import GraphSet
from ldp_jax.servers import Answers, CountQuestion, LDPGenServer, Users


@runtime_checkable
class Synthetic(Protocol):
    """A function that makes a synthetic graph of each graph."""

    def guarantee(self) -> Guarantee: ...

    def of_each(self, key: jax.Array, whole: GraphSet) -> list[Graph]: ...


def released(key: jax.Array, whole: GraphSet, made: Synthetic) -> GraphSet:
    """The set with what was made in the place of each graph."""
    each = made.of_each(key, whole)
    first = np.searchsorted(whole.node_graph, np.arange(len(whole)))
    senders = [start + np.asarray(graph.senders) for start, graph in zip(first, each, strict=True)]
    ends = [start + np.asarray(graph.receivers) for start, graph in zip(first, each, strict=True)]
    return GraphSet.from_edges(
        np.concatenate(senders), np.concatenate(ends), whole.node_graph, whole.labels
    )


@dataclasses.dataclass(frozen=True)
class LDPGen:
    """A synthetic graph of each graph, with half of epsilon in each round."""

    epsilon: float

    def server(self, users: int) -> LDPGenServer:
        return LDPGenServer(users, self.epsilon / 2, self.epsilon / 2)

    def guarantee(self) -> Guarantee:
        return self.server(2).statement().guarantee()[NEIGHBOUR_LIST]

    def of_each(self, key: jax.Array, whole: GraphSet) -> list[Graph]:
        """The users of all graphs answer in one call, which hundreds of shapes would be."""
        sizes = whole.nodes_per_graph
        ends = np.cumsum(sizes)[:-1]
        users = Users(lists=whole)
        servers = [self.server(int(size)) for size in sizes]
        init_key, *round_keys = jax.random.split(key, 3)
        keys = jax.random.split(init_key, len(servers))
        states: list[Any] = [server.init(one) for server, one in zip(servers, keys, strict=True)]
        for round_key in round_keys:
            questions = [state.question for state in states]
            question: Any = CountQuestion(
                np.concatenate([one.groups for one in questions]),
                np.ones(users.num_users, bool),
                num_groups=max(one.num_groups for one in questions),
                epsilon=self.epsilon / 2,
            )
            values = np.asarray(users.answer(round_key, question).values)
            states = [
                server.step(state, Answers(mine[:, : asked.num_groups], np.ones(len(mine), bool)))
                for server, state, asked, mine in zip(
                    servers, states, questions, np.split(values, ends), strict=True
                )
            ]
        return [state.graph for state in states]


@dataclasses.dataclass(frozen=True)
class Blink:
    """The links of each graph whose posterior is above one half."""

    epsilon: float

    def guarantee(self) -> Guarantee:
        nobody = graphs.from_edges([], 3)
        found = edges.private_links(jax.random.key(0), nobody, self.epsilon)
        return found.guarantee[NEIGHBOUR_LIST]

    def of_each(self, key: jax.Array, whole: GraphSet) -> list[Graph]:
        keys = jax.random.split(key, len(whole))
        each = [whole.subset([number]).graph for number in range(len(whole))]
        return [likely(*given, self.epsilon) for given in zip(keys, each, strict=True)]


def likely(key: jax.Array, graph: Graph, epsilon: float) -> Graph:
    """The links whose posterior is above one half, by Blink's noisy degrees and lists."""
    posterior = edges.private_links(key, graph, epsilon, variant="hard").links.dense()
    pairs = np.argwhere(np.triu(posterior > 0.5, 1))
    return graphs.from_edges(pairs, len(posterior), pairs_in="rows")
