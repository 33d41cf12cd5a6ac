"""Arrays written to a file by blocks of columns as they are made: a killed process loses the block in flight."""

import io
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from jaxtyping import PyTree

from ldp_jax.core.progress import phase, watched
from ldp_jax.core.pytree import digest
from ldp_jax.core.types import Array


def write_columns(
    path: str | Path, shape: tuple[int, int], block: Callable[[np.int32], Array], width: int, made_of: PyTree
) -> np.memmap:
    """float32 [n, d] of blocks [n, width], in a .npy file in Fortran order; ``made_of`` are the arguments.

    Until it is whole its name holds their digest, and its length says which blocks are whole. The digest follows
    the array, where readers do not look, and a whole file is not made again.
    """
    path, name = Path(path), digest(made_of)
    (rows, columns), written = shape, io.BytesIO()
    np.lib.format.write_array_header_1_0(written, {"descr": "<f4", "fortran_order": True, "shape": shape})
    header = written.getvalue()
    end = len(header) + 4 * rows * columns
    if not _ends(path, end, name):
        part = path.with_name(f"{path.name}.{name.hex()}.part")
        part.touch()
        done = max(0, part.stat().st_size - len(header)) // (4 * rows * width) * width
        with open(part, "r+b") as file, watched("propagate"):
            file.write(header)
            for start in range(done, columns, width):
                phase(f"columns from {start} of {columns} on", start / columns)
                first = min(start, columns - width)  # the last block overlaps the one before it
                made = np.asarray(block(np.int32(first)))[:, start - first :]
                file.seek(len(header) + 4 * rows * start)
                file.write(np.ascontiguousarray(made.T, np.float32).data)
                file.flush()
            file.seek(end)
            file.write(name)
            file.flush()
            os.fsync(file.fileno())
        try:
            part.replace(path)
        except FileNotFoundError:  # another process that made the same file was first
            if not _ends(path, end, name):
                raise
    return np.load(path, mmap_mode="r")


def _ends(path: Path, end: int, name: bytes) -> bool:
    """Whether a file ends with an array and its name."""
    if not path.exists():
        return False
    with open(path, "rb") as file:
        file.seek(end)
        return file.read(len(name) + 1) == name
