"""Records of users in every form that they come in: dense, on a file, or dense a few rows at a time."""

from typing import Any

import numpy as np

from ldp_jax.core.mechanism import Mechanism, privatize
from ldp_jax.core.spaces import Box, as_records
from ldp_jax.core.types import PRNGKey, Report
from ldp_jax.servers.embedding import STRUCTURE_ONLY as STRUCTURE_ONLY
from ldp_jax.servers.embedding import PublicRecord as PublicRecord
from ldp_jax.servers.embedding import RowSource, perturb
from ldp_jax.servers.parts.rows import Rows


def count(records: Any) -> int:
    """How many users there are."""
    if isinstance(records, RowSource):
        return records.num_nodes
    return records.shape[0] if hasattr(records, "shape") else len(records)


def rows(records: Any, start: int, stop: int) -> Any:
    """The records of some users, dense."""
    if isinstance(records, RowSource):
        return as_records(records.scaled_rows(start, stop))
    if isinstance(records, Rows):
        row = np.asarray(records.row)
        some = slice(*np.searchsorted(row, (start, stop)))
        shape = (stop - start, records.shape[1])
        column, value = np.asarray(records.column)[some], np.asarray(records.value)[some]
        return as_records(Rows(row[some] - start, column, value, shape=shape).dense())
    return as_records(np.asarray(records)[start:stop])


def perturbed(key: PRNGKey, records: Any, mechanism: Mechanism) -> Report:
    """Every user's record through a mechanism; user i has the i-th key."""
    if isinstance(mechanism.domain(), Box):
        return perturb(key, records, mechanism)
    return privatize(key, mechanism, records)


def public_record(records: Any, value: float) -> Any:
    """One public record for everybody, in the form of the records."""
    if isinstance(records, Rows):
        nothing = np.zeros(0, np.int32)
        return Rows(nothing, nothing, nothing.astype(np.float32), shape=records.shape)
    if isinstance(records, RowSource):
        return PublicRecord(records.num_nodes, records.num_features, value)
    shape = np.shape(records)
    if len(shape) == 2:
        return PublicRecord(*shape, value)
    return np.full(shape, value, np.float32)


def taken(records: Any, holder: np.ndarray) -> Any:
    """Records of which user i has that of ``holder[i]``."""
    if isinstance(records, Rows):
        row = np.argsort(holder)[np.asarray(records.row)].astype(np.int32)
        order = np.argsort(row, kind="stable")
        arrays = (np.asarray(array)[order] for array in (records.column, records.value))
        return Rows(row[order], *arrays, shape=records.shape)
    if isinstance(records, RowSource):
        return np.concatenate([records.scaled_rows(own, own + 1) for own in holder.tolist()])
    return np.asarray(records)[holder]
