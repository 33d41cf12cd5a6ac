"""Which data sets are known by name: what ``registry.toml`` beside this file says of them."""

import dataclasses
import hashlib
import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any


@dataclasses.dataclass(frozen=True)
class RawFile:
    """One public file: its pinned address, and the sha256 or git's ``blob`` id of its bytes."""

    url: str
    blob: str | None = None
    sha256: str | None = None

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.url.rpartition("/")[2]

    def check(self, data: bytes, where: str) -> None:
        """Refuse bytes that are not the published ones; without a digest counts decide later."""
        kind = "sha256"
        wanted = self.blob if self.sha256 is None else self.sha256
        if wanted is None:
            return
        got = hashlib.sha256(data).hexdigest()
        if self.sha256 is None:
            kind = "git blob id"
            got = git_blob_id(data)
        if got != wanted:
            raise ValueError(f"{where} must have {kind} {wanted}, got {got} ({len(data)} bytes)")


def git_blob_id(data: bytes) -> str:
    """The name git gives to a file's bytes.

    >>> git_blob_id(b"what is up, doc?")
    'bd9dbf5aae1a3862dd1526723246b20206e5fc37'
    """
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


@dataclasses.dataclass(frozen=True)
class Entry:
    """One data set that is known by name; a count is ``None`` where no source states it exactly.

    ``npz_sha256`` is of the file in the uniform format; ``parser`` and its ``options`` read the
    public files ``raw``; ``tu`` is what TU Dortmund calls the set, where a user's copy of their
    files serves too.
    """

    name: str
    nodes: int | None
    edges: int | None
    features: int
    classes: int
    graphs: int | None
    bounds: tuple[float, float]
    source: str
    licence: str
    npz_sha256: str | None = None
    raw: tuple[RawFile, ...] = ()
    parser: str | None = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    tu: str | None = None
    notes: str = ""


def _registry(text: str) -> dict[str, Entry]:
    """The entries in their order, with hosts and bounds put in where they are named."""
    for name, host in tomllib.loads(text)["hosts"].items():
        text = text.replace("{" + name + "}", host)
    listed = tomllib.loads(text)
    entries = {}
    for name, fields in listed["data_sets"].items():
        known: dict[str, Any] = {"nodes": None, "edges": None, "graphs": None, **fields}
        known["bounds"] = tuple(listed["bounds"][fields["bounds"]])
        known["raw"] = tuple(RawFile(**file) for file in fields.get("raw", ()))
        entries[name] = Entry(name, **known)
    return entries


_TEXT = resources.files("ldp_jax.datasets").joinpath("registry.toml").read_text("utf-8")

REGISTRY: Mapping[str, Entry] = _registry(_TEXT)
DEBIAN = REGISTRY["debian"]
