"""Which data sets are known by name: what ``registry.toml`` beside this file says of them."""

import dataclasses
import hashlib
import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any


@dataclasses.dataclass(frozen=True)
class RawFile:
    r"""One public file: its address, and what its bytes must be.

    Attributes:
      url: the address, pinned to a commit where the host has commits.
      blob: SHA-1 of ``blob <size>\0`` and the bytes, as git names them.
      sha256: SHA-256 of the bytes, where it is known; it is then what is checked.
    """

    url: str
    blob: str | None = None
    sha256: str | None = None

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.url.rpartition("/")[2]

    def check(self, data: bytes, where: str) -> None:
        """Refuse bytes that are not the published ones; without any digest the counts decide later.

        Raises:
          ValueError: naming the file, the digest that was wanted and the one that was got.
        """
        if self.sha256 is not None:
            kind, wanted, got = "sha256", self.sha256, hashlib.sha256(data).hexdigest()
        elif self.blob is not None:
            kind, wanted, got = "git blob id", self.blob, git_blob_id(data)
        else:
            return
        if got != wanted:
            raise ValueError(f"{where} must have {kind} {wanted}, got {got} ({len(data)} bytes)")


def git_blob_id(data: bytes) -> str:
    """The name git gives to a file's bytes.

    >>> git_blob_id(b"")
    'e69de29bb2d1d6434b8b29ae775ad8c2e48c5391'
    """
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


@dataclasses.dataclass(frozen=True)
class Entry:
    """One data set that is known by name; a count is ``None`` where no source states it exactly.

    Attributes:
      name: the name for :func:`ldp_jax.datasets.load`.
      nodes: over all graphs.
      edges: undirected, simple, over all graphs.
      features: columns of x, 0 where there are none.
      classes: classes, or labels where a node may carry several.
      graphs: how many graphs, ``None`` for one.
      bounds: public bounds of every feature value.
      source: where the data come from.
      licence: what the source says.
      npz_sha256: of the file in the uniform format, where one is known.
      raw: the public files.
      parser: which loader reads the public files.
      options: what that loader needs to know.
      tu: what TU Dortmund's files of it are called, where a user's copy of those serves too.
      notes: what a reader of a result must know.
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
    """The entries of a registry, in its order, with hosts and bounds put in where they are named."""
    listed = tomllib.loads(text)

    def address(short: str) -> str:
        for name, host in listed["hosts"].items():
            short = short.replace("{" + name + "}", host)
        return short

    def entry(name: str, fields: dict[str, Any]) -> Entry:
        low, high = listed["bounds"][fields["bounds"]]
        raw = tuple(RawFile(**{**file, "url": address(file["url"])}) for file in fields.get("raw", ()))
        complete: dict[str, Any] = {"nodes": None, "edges": None, "graphs": None, **fields}
        complete |= {"bounds": (low, high), "source": address(fields["source"]), "raw": raw}
        return Entry(name, **complete)

    return {name: entry(name, fields) for name, fields in listed["data_sets"].items()}


_TEXT = resources.files("ldp_jax.datasets").joinpath("registry.toml").read_text("utf-8")

REGISTRY: Mapping[str, Entry] = _registry(_TEXT)
DEBIAN = REGISTRY["debian"]
