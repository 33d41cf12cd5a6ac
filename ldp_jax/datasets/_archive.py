"""Files and archives of unknown origin.

What they declare is compared with a limit before any of it is read.
"""

import contextlib
import io
import math
import os
import zipfile
from collections.abc import Generator, Iterable
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

MAX_BYTES = 2**31  # the largest data set that is known by name has a member of about 0.3 GB


@contextlib.contextmanager
def naming(where: str, kind: type[Exception] = ValueError) -> Generator[None]:
    """Errors of a kind in the block become ValueErrors that begin with ``where``."""
    try:
        yield
    except kind as error:
        raise ValueError(f"{where}: {error}") from error


def read_file(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """The bytes of a file; ValueError where there are more than ``max_bytes``."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > max_bytes:
            raise ValueError(_too_much(str(path), "has", size, max_bytes))
        data = file.read(size + 1)
    if len(data) > size:  # a device, or a file that grows
        raise ValueError(f"{path} must be a file of a fixed size, got more than its {size} bytes")
    return data


def _too_much(where: str, verb: str, size: int, max_bytes: int) -> str:
    return f"{where} {verb} {size} bytes, and {max_bytes} are allowed (max_bytes=... allows another number)"


def _opened(data: bytes) -> zipfile.ZipFile:
    archive = zipfile.ZipFile(io.BytesIO(data))
    for member in archive.infolist():
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            name, method = member.filename, member.compress_type
            raise ValueError(f"member {name!r} must be stored or deflated, got method {method}")
    return archive


def read_member(data: bytes, *choices: str, max_bytes: int = MAX_BYTES) -> bytes:
    """One file of a zip archive, the first of ``choices`` that is there.

    ValueError for broken or larger ones.
    """
    archive = _unpacked(data)
    names = archive.namelist()
    name = next((name for name in choices if name in names), None)
    if name is None:
        raise ValueError(
            f"the archive must hold {' or '.join(choices)}, got {', '.join(sorted(names)[:20])}"
        )
    size = archive.getinfo(name).file_size
    if size > max_bytes:
        raise ValueError(_too_much(name, "declares", size, max_bytes))
    with naming(_UNREADABLE, Exception), archive.open(name) as file:
        member = file.read(size)  # inflates no further
        if len(member) < size:
            raise ValueError(
                f"member {name!r} has {size - len(member)} bytes fewer than it declares"
            )
    return member


_UNREADABLE = "the archive is no readable zip (corrupt or truncated?)"


def _unpacked(data: bytes) -> zipfile.ZipFile:
    with naming(_UNREADABLE, Exception):  # on broken bytes zipfile raises errors of many kinds
        return _opened(data)


def member_names(data: bytes) -> list[str]:
    """The files of a zip archive."""
    return _unpacked(data).namelist()


def array_names(data: bytes, where: str) -> set[str]:
    """The names of the arrays of an ``.npz``; messages name the file ``where``."""
    with naming(_no_npz(where), Exception):
        return {name.removesuffix(".npy") for name in _opened(data).namelist()}


def _no_npz(where: str) -> str:
    return f"{where} is no readable .npz of plain arrays (corrupt or truncated?)"


def read_arrays(
    data: bytes, where: str, max_bytes: int = MAX_BYTES, names: Iterable[str] | None = None
) -> dict[str, np.ndarray]:
    """Arrays of an ``.npz``, by default all, never a pickle; messages name the file ``where``.

    ``max_bytes`` is the most that the arrays may declare together, compared before any of them is
    read.
    """
    unreadable = _no_npz(where)
    with naming(unreadable, Exception):
        archive = _opened(data)
        found = archive.namelist()
        if wrong := [name for name in found if names is None and not name.endswith(".npy")]:
            raise ValueError(f"{wrong[0]!r} is no array")
        names = [name.removesuffix(".npy") for name in found] if names is None else list(names)
        if missing := [name for name in names if f"{name}.npy" not in found]:
            raise ValueError(f"the array {missing[0]} is missing")
        declared = {name: _declared(archive, name) for name in names}
    if sum(declared.values()) > max_bytes:
        largest = max(declared, key=lambda name: declared[name])
        raise ValueError(
            f"{_too_much(where, 'declares', sum(declared.values()), max_bytes)}; "
            f"its largest array, {largest}, declares {declared[largest]}"
        )
    with naming(unreadable, Exception):
        return {name: _array(archive, name) for name in names}


def _declared(archive: zipfile.ZipFile, name: str) -> int:
    """The bytes that an array's header declares, or the directory, where that has more."""
    with naming(name, Exception), archive.open(f"{name}.npy") as file:
        read = (
            npy.read_array_header_1_0
            if npy.read_magic(file) == (1, 0)
            else npy.read_array_header_2_0
        )
        shape, _, dtype = read(file)
    if dtype.hasobject:
        raise ValueError(f"{name} holds pickled objects, which are never read (allow_pickle=False)")
    # An axis beside one of length 0 counts too: somebody will make as many rows.
    size = dtype.itemsize * math.prod(shape) or 8 * math.prod(max(axis, 1) for axis in shape)
    return max(size, archive.getinfo(f"{name}.npy").file_size)


def _array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with naming(name, Exception), archive.open(f"{name}.npy") as file:
        values = npy.read_array(file, allow_pickle=False)
        if file.read(1):  # until the end, where the checksum is
            raise ValueError("it has more bytes than its shape")
    return values
