"""Sets of graphs that are small or of a known shape."""

import numpy as np

from ldp_jax.graph.packing import GraphSet


def graph_set(made):
    """Of networkx's graphs, whose classes alternate; an edge is in its receiver's list."""
    sizes = np.array([len(graph) for graph in made])
    starts = np.cumsum(sizes) - sizes
    pairs = [
        np.array(graph.to_directed().edges, int).reshape(-1, 2) + start
        for graph, start in zip(made, starts, strict=True)
    ]
    node_graph = np.repeat(np.arange(len(made)), sizes)
    return GraphSet.from_edges(*np.concatenate(pairs).T, node_graph, np.arange(len(made)) % 2)
