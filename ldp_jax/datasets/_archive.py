"""Files and archives of unknown origin: what they declare is compared with a limit before any of it is read.

Sizes in the directory and shapes in the headers of arrays are added up first. A member is inflated in pieces, never
past its declared size, and must have that size and its checksum.
"""

import ast
import io
import math
import os
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

MAX_BYTES = 2**31  # the largest data set that is known by name has a member of about 0.3 GB
_PIECE = 2**20
_HEADER_BYTES = 1024  # of an .npy of plain numbers: 128
_LOCAL_HEADER = 30  # the least that stands in a zip before each member
_UNREADABLE_FLAGS = 0x1 | 0x20 | 0x40 | 0x2000  # encrypted in one way or another, or a patch of another file
_PLAIN = re.compile(r"[<>|=]?(?:[?]|[biufcSUmM]\d+(?:\[\w+\])?)")


def read_file(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """The bytes of a file, unless there are more than ``max_bytes``.

    Raises:
      ValueError: naming the file, its size and the limit.
      FileNotFoundError: where it is not.
    """
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
    """The members of a zip in memory, their directory checked.

    Raises:
      ValueError: where the directory is damaged, names a member twice, or has one that is encrypted, shares bytes
        with another, or is compressed other than by deflate.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except Exception as error:  # on broken bytes zipfile raises errors of many kinds
            raise ValueError(f"{type(error).__name__}: {error}") from error
        self._members: dict[str, zipfile.ZipInfo] = {}
        end = 0
        for member in sorted(self._zip.infolist(), key=lambda member: member.header_offset):
            name = member.filename
            if name in self._members:
                raise ValueError(f"the archive has two members {name!r}")
            if member.flag_bits & _UNREADABLE_FLAGS:
                raise ValueError(f"member {name!r} is encrypted or a patch")
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

    def _packed(self, member: zipfile.ZipInfo) -> memoryview:
        try:
            self._zip.open(member).close()  # compares the header before the member with the directory
        except Exception as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error
        at = member.header_offset
        lengths = self._data[at + 26 : at + 28], self._data[at + 28 : at + 30]
        start = at + _LOCAL_HEADER + sum(int.from_bytes(length, "little") for length in lengths)
        packed = memoryview(self._data)[start : start + member.compress_size]
        if len(packed) != member.compress_size:
            raise ValueError(f"member {member.filename!r} is cut short")
        return packed

    def pieces(self, name: str) -> Iterator[bytes | memoryview]:
        """A member in pieces of at most 1 MiB, together exactly as long as it declares.

        Raises:
          ValueError: after the last piece at the latest, where length or checksum are not those of the directory.
        """
        member = self._members[name]
        packed = self._packed(member)
        checksum, size = 0, 0
        for piece in _stored(packed) if member.compress_type == zipfile.ZIP_STORED else _inflated(packed, name):
            size += len(piece)
            if size > member.file_size:
                raise ValueError(f"member {name!r} has more than the {member.file_size} bytes that it declares")
            checksum = zlib.crc32(piece, checksum)
            yield piece
        if size != member.file_size:
            raise ValueError(f"member {name!r} declares {member.file_size} bytes and has {size}")
        if checksum != member.CRC:
            raise ValueError(f"member {name!r} does not have its checksum")

    def head(self, name: str, size: int) -> bytes:
        """The first bytes of a member, without its checksum."""
        member = self._members[name]
        packed = self._packed(member)
        if member.compress_type == zipfile.ZIP_STORED:
            return bytes(packed[:size])
        try:
            return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed[: size + _PIECE], size)
        except zlib.error as error:
            raise ValueError(f"member {name!r}: {error}") from error

    def read(self, name: str) -> bytes:
        """A whole member."""
        return b"".join(self.pieces(name))


def _stored(packed: memoryview) -> Iterator[memoryview]:
    for start in range(0, len(packed), _PIECE):
        yield packed[start : start + _PIECE]


def _inflated(packed: memoryview, name: str) -> Iterator[bytes]:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    at, rest = 0, b""
    while not inflater.eof:
        if not rest:
            rest = bytes(packed[at : at + _PIECE])
            at += _PIECE
        spent = not rest  # then there is at most what the inflater still holds
        try:
            piece = inflater.decompress(rest, _PIECE)
        except zlib.error as error:
            raise ValueError(f"member {name!r}: {error}") from error
        rest = inflater.unconsumed_tail
        if piece:
            yield piece
        elif spent:
            raise ValueError(f"member {name!r} is cut short")


def read_member(data: bytes, *choices: str, max_bytes: int = MAX_BYTES) -> bytes:
    """One file of a zip archive, the first of ``choices`` that is there, of at most ``max_bytes``.

    Raises:
      ValueError: where the archive is broken, has none of the names, or the file is larger.
    """
    try:
        archive = Archive(data)
        name = next((name for name in choices if name in archive), None)
        if name is not None and archive.size(name) <= max_bytes:
            return archive.read(name)
    except ValueError as error:
        raise ValueError(f"the archive is no readable zip (corrupt or truncated?): {error}") from error
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
    if not isinstance(descr, str) or type(order) is not bool:
        raise ValueError("its header must declare one plain type")
    if re.fullmatch(r"[<>|=]?O\d*", descr):
        raise ValueError("it holds pickled objects, which are never read (allow_pickle=False)")
    try:
        dtype = np.dtype(descr if _PLAIN.fullmatch(descr) else "")
    except (TypeError, ValueError) as error:
        raise ValueError("its header must declare one plain type") from error
    if not dtype.itemsize:
        raise ValueError("its entries must have a size")
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
    try:
        archive = Archive(data)
        if names is None:
            wrong = [name for name in archive.names if not name.endswith(".npy")]
            if wrong:
                raise ValueError(f"{wrong[0]!r} is no array")
            names = [name.removesuffix(".npy") for name in archive.names]
        headers = {}
        for name in names:
            if f"{name}.npy" not in archive:
                raise ValueError(f"the array {name} is missing")
            try:
                headers[name] = _header(archive.head(f"{name}.npy", _HEADER_BYTES))
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error
    except ValueError as error:
        raise ValueError(_no_npz(where, error)) from error
    declared = {name: max(header.size, archive.size(f"{name}.npy")) for name, header in headers.items()}
    if sum(declared.values()) > max_bytes:
        largest = max(declared, key=lambda name: declared[name])
        raise ValueError(
            f"{_too_much(where, 'declares', sum(declared.values()), max_bytes)}; "
            f"its largest array, {largest}, declares {declared[largest]}"
        )
    try:
        return {name: _array(archive, f"{name}.npy", header) for name, header in headers.items()}
    except ValueError as error:
        raise ValueError(_no_npz(where, error)) from error


def _no_npz(where: str, error: ValueError) -> str:
    return f"{where} is no readable .npz of plain arrays (corrupt or truncated?): {error}"


def _array(archive: Archive, name: str, header: _Header) -> np.ndarray:
    size = math.prod(header.shape) * header.dtype.itemsize
    if header.start + size != archive.size(name):
        raise ValueError(
            f"{name} must have {header.start + size} bytes for its shape {header.shape}, got {archive.size(name)}"
        )
    buffer = np.empty(header.start + size, np.uint8)
    at = 0
    for piece in archive.pieces(name):
        buffer[at : at + len(piece)] = np.frombuffer(piece, np.uint8)
        at += len(piece)
    values = buffer[header.start :]
    if values.ctypes.data % header.dtype.alignment:
        values = values.copy()
    return values.view(header.dtype).reshape(header.shape, order=header.order)
