"""Files and archives of unknown origin.

Declared sizes are compared with a limit before any content is read.
"""

import contextlib
import io
import math
import os
import zipfile
from collections.abc import Generator, Iterable
from pathlib import Path

from numpy.lib import format as npy

from ldp_jax.core.validate import require
from ldp_jax.datasets._arrays import Arrays

MAX_BYTES = 2**31  # the largest data set that is known by name has a member of about 0.3 GB


@contextlib.contextmanager
def naming(where: str, kind: type[Exception] = ValueError) -> Generator[None]:
    """Errors of a kind in the block become ValueErrors that begin with ``where``."""
    try:
        yield
    except kind as error:
        raise ValueError(f"{where}: {error}") from error


def check_size(what: str, size: int, max_bytes: int) -> None:
    """Refuse more than ``max_bytes``; ``what`` begins the message, as in "the file has"."""
    require(
        size <= max_bytes,
        f"{what} {size} bytes, and {max_bytes} are allowed (max_bytes=... allows another number)",
    )


def read_file(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """The bytes of a file; ValueError where there are more than ``max_bytes``."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        check_size(f"{path.name} has", size, max_bytes)
        data = file.read(size + 1)
    # A device, or a file that grows, has more.
    require(len(data) <= size, f"{path} must be a file of a fixed size, got more than its {size}")
    return data


_NO_ZIP = "the archive is no readable zip (corrupt or truncated?)"
_NO_NPZ = "the file is no readable .npz of plain arrays (corrupt or truncated?)"


def _opened(data: bytes, otherwise: str) -> zipfile.ZipFile:
    with naming(otherwise, Exception):  # on broken bytes zipfile raises errors of many kinds
        archive = zipfile.ZipFile(io.BytesIO(data))
        for member in archive.infolist():
            method = member.compress_type
            require(
                method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED),
                f"member {member.filename!r} must be stored or deflated, got method {method}",
            )
        return archive


def member_names(data: bytes) -> list[str]:
    """The files of a zip archive."""
    return _opened(data, _NO_ZIP).namelist()


def read_member(data: bytes, name: str, max_bytes: int = MAX_BYTES) -> bytes:
    """One file of a zip archive; ValueError for broken or larger ones."""
    archive = _opened(data, _NO_ZIP)
    names = archive.namelist()
    require(name in names, f"the archive must hold {name}, got {', '.join(sorted(names)[:20])}")
    size = archive.getinfo(name).file_size
    check_size(f"{name} declares", size, max_bytes)
    with naming(_NO_ZIP, Exception), archive.open(name) as file:
        member = file.read(size)  # inflates no further
        less = size - len(member)
        require(not less, f"member {name!r} has {less} bytes fewer than it declares")
    return member


def array_names(data: bytes) -> set[str]:
    """The names of the arrays of an ``.npz``."""
    return {name.removesuffix(".npy") for name in _opened(data, _NO_NPZ).namelist()}


def read_arrays(
    data: bytes, max_bytes: int = MAX_BYTES, names: Iterable[str] | None = None
) -> Arrays:
    """Arrays of an ``.npz``, by default all, never a pickle.

    ``max_bytes`` is the most that the arrays may declare together, compared before any of them is
    read.
    """
    archive = _opened(data, _NO_NPZ)
    found = archive.namelist()
    declared: dict[str, int] = {}
    wanted = found
    if names is not None:
        wanted = [f"{name}.npy" for name in names]
    for file in wanted:
        name = file.removesuffix(".npy")
        with naming(_NO_NPZ, Exception):
            require(name != file, f"{file!r} is no array")
            require(file in found, f"the array {name} is missing")
        with naming(f"{_NO_NPZ}: {name}", Exception), archive.open(file) as header:
            read = npy.read_array_header_2_0
            if npy.read_magic(header) == (1, 0):
                read = npy.read_array_header_1_0
            shape, _, dtype = read(header)
        require(
            not dtype.hasobject,
            f"{_NO_NPZ}: {name} holds pickled objects, which are never read (allow_pickle=False)",
        )
        size = dtype.itemsize * math.prod(shape)
        if size == 0:  # an axis beside one of length 0 counts too: somebody will make as many rows
            size = 8 * math.prod(max(axis, 1) for axis in shape)
        declared[name] = max(size, archive.getinfo(file).file_size)
    largest = max(declared, key=lambda name: declared[name], default="")
    total = sum(declared.values())
    check_size(f"the file, with {largest} as its largest array, declares", total, max_bytes)
    arrays: Arrays = {}
    for name in declared:
        place = f"{_NO_NPZ}: {name}"
        with naming(place, Exception), archive.open(f"{name}.npy") as file:
            arrays[name] = npy.read_array(file, allow_pickle=False)
            # Until the end, where the checksum is.
            require(not file.read(1), "it has more bytes than its shape")
    return arrays
