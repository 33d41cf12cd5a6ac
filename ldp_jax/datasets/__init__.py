"""Graphs to work on.

One embedded in the package, the public benchmarks, a user's own, and drawn ones.

``load(name)`` gives a :class:`Dataset` whose records are checked against public bounds, of one of
``names()`` or of a file that ``save`` wrote; ``read_records`` takes a pandas table.
"""

from ldp_jax.datasets import splits
from ldp_jax.datasets._dataset import Dataset, validate_records
from ldp_jax.datasets._fetch import DataUnavailableError
from ldp_jax.datasets._format import save
from ldp_jax.datasets._load import load, names
from ldp_jax.datasets._synthetic import synthetic, synthetic_graphs
from ldp_jax.datasets.tables import Records, read_records

__all__ = [
    "DataUnavailableError",
    "Dataset",
    "Records",
    "load",
    "names",
    "read_records",
    "save",
    "splits",
    "synthetic",
    "synthetic_graphs",
    "validate_records",
]

__dir__ = lambda: __all__
