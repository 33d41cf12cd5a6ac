"""Where the bytes of a data set are found: a folder of the user, the cache, the public address."""

import contextlib
import errno
import os
import tempfile
from collections.abc import Generator
from pathlib import Path

import pooch

from ldp_jax.datasets._archive import read_file
from ldp_jax.datasets._format import replacing
from ldp_jax.datasets._registry import Entry, RawFile

DATA_VARIABLE = "LDP_JAX_DATA"
CACHE_VARIABLE = "LDP_JAX_CACHE"
_SECONDS_WITHOUT_AN_ANSWER = 30


class DataUnavailableError(FileNotFoundError):
    """A data set that is known by name is on no disk and could not be downloaded."""


def data_folder() -> Path | None:
    """The folder that $LDP_JAX_DATA names, if it is set."""
    value = os.environ.get(DATA_VARIABLE)
    return Path(value).expanduser() if value else None


def cache_folder() -> Path:
    """Where downloads are kept: $LDP_JAX_CACHE, or the user's cache folder."""
    return Path(os.environ.get(CACHE_VARIABLE) or pooch.os_cache("ldp_jax")).expanduser()


@contextlib.contextmanager
def writing_cache() -> Generator[None]:
    """Errors of the file system in the block name the cache and the variable that moves it."""
    try:
        yield
    except DataUnavailableError:
        raise
    except OSError as error:
        number = error.errno or errno.EIO
        wanted = (
            f"{os.strerror(number)}; ${CACHE_VARIABLE} must name a folder that can be written, "
            "and the cache is at"
        )
        # Python takes the subclass that it has for the number.
        raise OSError(number, wanted, str(cache_folder())) from error


def require_cache() -> None:
    """Raise what writing the cache would, before any download; nothing is made yet."""
    folder = cache_folder().absolute()
    with writing_cache():
        there = next(path for path in (folder, *folder.parents) if path.exists())
        if not there.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(there, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def raw_bytes(entry: Entry, raw: RawFile) -> bytes:
    """The checked bytes of one public file.

    From ``$LDP_JAX_DATA/<name>/``, earlier downloads, or its address.
    """
    folder = data_folder()
    if folder is not None:
        mine = folder / entry.name / raw.name
        if mine.is_file():
            data = read_file(mine)
            raw.check(data, str(mine))
            return data
    # A file without a published digest is not kept: the parsed arrays are cached.
    digest = raw.blob or raw.sha256
    if digest is None:
        with tempfile.TemporaryDirectory() as scratch:
            return _download(entry, raw, Path(scratch) / raw.name)
    kept = cache_folder() / "raw" / f"{digest[:12]}-{raw.name}"
    if kept.is_file():
        data = kept.read_bytes()
        # If it is damaged, it is fetched once more, and goes once the new one is whole.
        with contextlib.suppress(ValueError):
            raw.check(data, str(kept))
            return data
    with writing_cache():
        kept.parent.mkdir(parents=True, exist_ok=True)
        return _download(entry, raw, kept)


def _download(entry: Entry, raw: RawFile, path: Path) -> bytes:
    with replacing(path) as temporary:
        try:
            download = pooch.HTTPDownloader(timeout=_SECONDS_WITHOUT_AN_ANSWER)
            download(raw.url, str(temporary), None)
        except OSError as error:  # requests' own errors are OSErrors
            raise unavailable(entry, raw.url, error) from None  # whose message says all
        data = temporary.read_bytes()
        raw.check(data, f"the download of {raw.url}")
        return data


def unavailable(entry: Entry, address: str, error: Exception | None) -> DataUnavailableError:
    """The error for data that is nowhere."""
    folder = data_folder()
    variable = f"is {str(folder)!r}, which holds no {entry.name}.npz" if folder else "is not set"
    reason = f"no loader reads its public source, {address}"
    if error is not None:
        reason = f"the download from {address} failed ({type(error).__name__}: {error})"
    wanted = f"{entry.name}.npz"
    if entry.tu is not None:
        tu = entry.tu
        wanted += f", {tu}.zip or {tu}/{tu}_A.txt with the other files of that archive"
    elif len(entry.raw) == 1:
        wanted += f" or {entry.name}/{entry.raw[0].name}"
    return DataUnavailableError(
        f"data set {entry.name!r} was not found: ${DATA_VARIABLE} {variable} "
        f"(let it name a folder that holds {wanted}), and {reason}"
    )
