"""Edges under a trusted curator: he holds the graph, and edge-level central privacy is what leaves his hands."""

from ldp_jax.edges.central import hrg

__all__ = ["hrg"]


def __dir__() -> list[str]:
    return __all__
