"""Files and archives of unknown origin: what they declare is compared with a limit before any of it is read."""

import ast
import contextlib
import io
import math
import os
import re
import zipfile
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

MAX_BYTES = 2**31  # the largest data set that is known by name has a member of about 0.3 GB
_PIECE = 2**20
_HEADER_BYTES = 1024  # of an .npy of plain numbers: 128
_LOCAL_HEADER = 30  # the least that stands in a zip before each member
_PLAIN = re.compile(r"[<>|=]?(?:[?]|[biufcSUmM]\d+(?:\[\w+\])?)")


@contextlib.contextmanager
def naming(where: str) -> Generator[None]:
    """ValueErrors of the block begin with ``where``."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


@contextlib.contextmanager
def _value_errors() -> Generator[None]:
    """On broken bytes zipfile raises errors of many kinds: all become ValueErrors."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


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


class Archive:
    """The members of a zip in memory, by name.

    Raises:
      ValueError: where the directory is damaged, names a member twice, or has one that shares bytes with another or
        is compressed other than by deflate.
    """

    def __init__(self, data: bytes) -> None:
        with _value_errors():
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        self._members: dict[str, zipfile.ZipInfo] = {}
        end = 0
        for member in sorted(self._zip.infolist(), key=lambda member: member.header_offset):
            name = member.filename
            if name in self._members:
                raise ValueError(f"the archive has two members {name!r}")
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"member {name!r} must be stored or deflated, got method {member.compress_type}")
            if member.header_offset < end:
                raise ValueError(f"member {name!r} shares its bytes with another")
            end = member.header_offset + _LOCAL_HEADER + member.compress_size
            if end > len(data):
                raise ValueError(f"member {name!r} is cut short")
            self._members[name] = member

    def __contains__(self, name: str) -> bool:
        return name in self._members

    @property
    def names(self) -> tuple[str, ...]:
        """All members, by their place in the archive."""
        return tuple(self._members)

    def size(self, name: str) -> int:
        """How many bytes a member declares to have."""
        return self._members[name].file_size

    def head(self, name: str, size: int) -> bytes:
        """The first bytes of a member."""
        with _value_errors(), self._zip.open(self._members[name]) as file:
            return file.read(size)

    def pieces(self, name: str) -> Iterator[bytes]:
        """A member in pieces of at most 1 MiB, together as long as it declares, and with its checksum."""
        left = self.size(name)
        with _value_errors(), self._zip.open(self._members[name]) as file:
            while piece := file.read(_PIECE):
                left -= len(piece)
                yield piece
        if left:
            raise ValueError(f"member {name!r} has {left} bytes fewer than it declares")


def read_member(data: bytes, *choices: str, max_bytes: int = MAX_BYTES) -> bytes:
    """One file of a zip archive, the first of ``choices`` that is there, of at most ``max_bytes``.

    Raises:
      ValueError: where the archive is broken, has none of the names, or the file is larger.
    """
    with naming("the archive is no readable zip (corrupt or truncated?)"):
        archive = Archive(data)
        name = next((name for name in choices if name in archive), None)
        if name is not None and archive.size(name) <= max_bytes:
            return b"".join(archive.pieces(name))
    if name is not None:
        raise ValueError(_too_much(name, "declares", archive.size(name), max_bytes))
    raise ValueError(f"the archive must hold {' or '.join(choices)}, got {', '.join(sorted(archive.names)[:20])}")


class _Header(NamedTuple):
    start: int  # where the numbers begin
    shape: tuple[int, ...]
    dtype: np.dtype
    order: Literal["C", "F"]

    @property
    def size(self) -> int:
        """Bytes of the numbers; an axis beside one of length 0 counts too: somebody will make as many rows."""
        cells = math.prod(self.shape)
        return cells * self.dtype.itemsize if cells else 8 * math.prod(max(axis, 1) for axis in self.shape)


def _header(head: bytes) -> _Header:
    """What the header of an .npy declares, without numpy's own reader, which raises errors of many kinds."""
    version = head[6:8]
    if head[:6] != b"\x93NUMPY" or version not in (b"\x01\x00", b"\x02\x00", b"\x03\x00"):
        raise ValueError("it does not begin as an .npy does")
    width = 2 if version == b"\x01\x00" else 4
    start = 8 + width + int.from_bytes(head[8 : 8 + width], "little")
    if start > len(head):
        raise ValueError("its header is cut short, or too long for an array of plain numbers")
    try:
        fields = ast.literal_eval(head[8 + width : start].decode("latin1").strip())
        descr, order, shape = fields["descr"], fields["fortran_order"], fields["shape"]
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError) as error:
        raise ValueError("its header is damaged") from error
    if not isinstance(shape, tuple) or len(shape) > 8 or any(type(axis) is not int or axis < 0 for axis in shape):
        raise ValueError("its shape must be at most 8 whole numbers")
    if isinstance(descr, str) and re.fullmatch(r"[<>|=]?O\d*", descr):
        raise ValueError("it holds pickled objects, which are never read (allow_pickle=False)")
    try:
        dtype = np.dtype(descr if _PLAIN.fullmatch(descr) else "")
    except (TypeError, ValueError) as error:
        raise ValueError("its header must declare one plain type") from error
    if type(order) is not bool or not dtype.itemsize:
        raise ValueError("its entries must have an order and a size")
    return _Header(start, shape, dtype, "F" if order else "C")


def read_arrays(
    data: bytes, where: str, max_bytes: int = MAX_BYTES, names: Iterable[str] | None = None
) -> dict[str, np.ndarray]:
    """Arrays of an ``.npz``, never a pickle.

    Args:
      data: the bytes of the file.
      where: the file, named by every message.
      max_bytes: the most that the arrays may declare together; compared before any of them is read.
      names: which to read; by default all.

    Raises:
      ValueError: where the file is damaged, lacks one of ``names`` or declares too much.
    """
    unreadable = f"{where} is no readable .npz of plain arrays (corrupt or truncated?)"
    with naming(unreadable):
        archive = Archive(data)
        headers = _headers(archive, names)
    declared = {name: max(header.size, archive.size(f"{name}.npy")) for name, header in headers.items()}
    if sum(declared.values()) > max_bytes:
        largest = max(declared, key=lambda name: declared[name])
        raise ValueError(
            f"{_too_much(where, 'declares', sum(declared.values()), max_bytes)}; "
            f"its largest array, {largest}, declares {declared[largest]}"
        )
    with naming(unreadable):
        return {name: _array(archive, f"{name}.npy", header) for name, header in headers.items()}


def _headers(archive: Archive, names: Iterable[str] | None) -> dict[str, _Header]:
    if names is None:
        wrong = [name for name in archive.names if not name.endswith(".npy")]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is no array")
        names = [name.removesuffix(".npy") for name in archive.names]
    headers = {}
    for name in names:
        if f"{name}.npy" not in archive:
            raise ValueError(f"the array {name} is missing")
        with naming(name):
            headers[name] = _header(archive.head(f"{name}.npy", _HEADER_BYTES))
    return headers


def _array(archive: Archive, name: str, header: _Header) -> np.ndarray:
    size = header.start + math.prod(header.shape) * header.dtype.itemsize
    if size != archive.size(name):
        raise ValueError(f"{name} must have {size} bytes for its shape {header.shape}, got {archive.size(name)}")
    buffer = np.empty(size, np.uint8)
    at = 0
    for piece in archive.pieces(name):
        buffer[at : at + len(piece)] = np.frombuffer(piece, np.uint8)
        at += len(piece)
    values = buffer[header.start :]
    if values.ctypes.data % header.dtype.alignment:
        values = values.copy()
    return values.view(header.dtype).reshape(header.shape, order=header.order)
