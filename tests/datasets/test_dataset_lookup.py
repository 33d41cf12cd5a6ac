"""Where a name is looked up, in which order, and what is refused on the way."""

import concurrent.futures
import dataclasses
import hashlib
import json
import os
import pathlib
import shutil
import threading

import numpy as np
import pooch
import pytest

from ldp_jax import datasets
from ldp_jax.datasets import _load, planetoid
from ldp_jax.datasets._registry import REGISTRY, Entry, RawFile, git_blob_id
from ldp_jax.graph import graphs
from tests.datasets.formats import FORMATS, zipped

_URL = "https://example.org/pinned/"
_FILES = {
    "tiny_edges.csv": b"id1,id2\n0,1\n1,0\n2,1\n2,2\n",
    "tiny.json": json.dumps({"2": [0], "0": [1, 1], "1": []}).encode(),
    "tiny_target.csv": b"id,target\n1,50\n0,3\n2,1\n",
}
_SERVED = {_URL + name: data for name, data in _FILES.items()}


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _raw(name: str, data: bytes) -> RawFile:
    return RawFile(_URL + name, git_blob_id(data), sha256(data) if name.endswith("json") else None)


@pytest.fixture
def register(monkeypatch):
    """Make a set of three nodes known; one file has a sha256, the others a git blob id."""
    counts = {"nodes": 3, "edges": 2, "features": 2, "classes": 2, "graphs": None}
    tiny = Entry(
        name="tiny", **counts, bounds=(0.0, 1.0), source=_URL, licence="none", parser="musae",
        raw=tuple(_raw(name, data) for name, data in _FILES.items()),
        options={"stem": "tiny", "label": "traffic", "num_features": 2},
    )  # fmt: skip

    def register(**changes) -> None:
        monkeypatch.setattr(_load, "REGISTRY", {"tiny": dataclasses.replace(tiny, **changes)})

    register()
    return register


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def files_below(folder, pattern="*"):
    return [path for path in folder.rglob(pattern) if path.is_file()]


def test_no_network_and_no_file_is_one_error_with_name_variable_and_address(monkeypatch, tmp_path):
    for name, address in (
        ("cora", "kimiyoung"),
        ("karate_club", "https://github.com/EdisonLeeeee"),
        ("twitch_egos", "https://www.chrsmrrs.com"),
    ):
        for folder, said in ((None, "is not set"), (tmp_path, f"holds no {name}.npz")):
            if folder is not None:
                monkeypatch.setenv("LDP_JAX_DATA", str(folder))
            match = rf"'{name}'.*\$LDP_JAX_DATA .*{said}.*{address}"
            with pytest.raises(datasets.DataUnavailableError, match=match):
                datasets.load(name)
        monkeypatch.delenv("LDP_JAX_DATA")


def test_public_files_are_downloaded_parsed_and_cached(register, serve, cache, monkeypatch):
    asked = serve(_SERVED)
    data = datasets.load("tiny")
    assert sorted(asked) == sorted(_SERVED)
    assert data.edges.tolist() == [[0, 1], [1, 2]]
    np.testing.assert_array_equal(data.x.toarray(), [[0, 1], [0, 0], [1, 0]])
    assert data.y.tolist() == [0, 1, 0]
    assert (data.source, data.licence) == (_URL, "none")

    asked = serve({})  # from now on nothing can be had from outside
    (cache / "parsed" / "v1" / "tiny.npz").unlink()
    assert datasets.load("tiny").num_edges == 2  # the raw files were kept too
    monkeypatch.setattr(_load, "parse", None)  # what is whole is not parsed a second time
    cached = datasets.load("tiny")
    assert cached.edges.tolist() == data.edges.tolist()
    assert cached.extras["target"].tolist() == [3, 50, 1]
    for lower in (-1, -2):  # bounds of the caller do not reach the cache
        assert datasets.load("tiny", bounds=(lower, 1)).lower == lower
    assert datasets.load("tiny").lower == 0
    with pytest.raises(ValueError, match="x of tiny must be at most its declared upper bound 0.5"):
        datasets.load("tiny", bounds=(0, 0.5))
    assert not asked
    assert not files_below(cache, ".*")


@pytest.mark.parametrize(
    ("name", "kind"), [("tiny.json", "sha256"), ("tiny_edges.csv", "git blob id")]
)
def test_a_download_that_is_not_the_published_file_is_refused(register, serve, cache, name, kind):
    serve({**_SERVED, _URL + name: _FILES[name][:-1]})
    with pytest.raises(ValueError, match=f"the download of {_URL}{name} must have {kind} .*, got "):
        datasets.load("tiny")
    assert not files_below(cache, f"*{name}")
    assert not files_below(cache, ".*")
    assert not (cache / "parsed").exists()


def _digest(path):
    return path.with_name("tiny.npz.sha256")


def _flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _forge(path):
    """A whole file of other contents, with its digest beside it."""
    other = dataclasses.replace(datasets.load("tiny"), graph=graphs.from_edges([[0, 1]], 3))
    datasets.save(other, path)
    _digest(path).write_text(sha256(path.read_bytes()))


@pytest.mark.parametrize(
    "damage",
    [
        _flip,
        lambda path: _digest(path).unlink(),
        lambda path: _digest(path).write_bytes(b"\xff"),
        lambda path: _digest(path).write_bytes(b""),
        _forge,
    ],
)
def test_a_damaged_parsed_cache_is_made_again(register, serve, cache, damage):
    serve(_SERVED)
    datasets.load("tiny")
    path = cache / "parsed" / "v1" / "tiny.npz"
    whole = path.read_bytes()
    damage(path)
    serve({})  # from the raw files that were kept
    assert datasets.load("tiny", bounds=(0, 2)).num_edges == 2
    assert path.read_bytes() == whole
    assert _digest(path).read_text() == sha256(whole) + "\n"


def test_many_loads_at_once_leave_one_whole_cache(register, serve, cache):
    serve(_SERVED)
    together = threading.Barrier(8)

    def load(_):
        together.wait()
        return datasets.load("tiny").num_edges

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(load, range(8))) == [2] * 8
    assert not files_below(cache, ".*")
    serve({})
    assert datasets.load("tiny").num_edges == 2


@pytest.mark.parametrize("below", ["below/it", None])
def test_a_cache_that_cannot_be_written_is_found_out_before_any_download(
    register, serve, monkeypatch, tmp_path, cache, below
):
    asked = serve(_SERVED)
    error = NotADirectoryError
    if below is None:  # a superuser may write wherever the mode says otherwise
        monkeypatch.setattr(os, "access", lambda *_: False)
        error = PermissionError
    else:
        (tmp_path / "file").write_bytes(b"")
        monkeypatch.setenv("LDP_JAX_CACHE", str(tmp_path / "file" / below))
    with pytest.raises(error, match=r"\$LDP_JAX_CACHE must name a folder that can be written"):
        datasets.load("tiny")
    assert not asked
    assert not cache.exists()


@pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError, MemoryError])
def test_a_download_that_breaks_off_leaves_nothing(register, monkeypatch, cache, failure):
    def download(self, url, output_file, pooch, check_only=False):
        pathlib.Path(output_file).write_bytes(b"half")
        raise failure

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", download)
    with pytest.raises(datasets.DataUnavailableError if failure is OSError else failure):
        datasets.load("tiny")
    assert not files_below(cache)


def test_counts_other_than_the_registered_ones_are_refused(register, serve, cache):
    for field in ("nodes", "edges", "classes", "features", "graphs"):
        register(**{field: 7})
        serve(_SERVED)
        with pytest.raises(ValueError, match=f"files of tiny: tiny must have 7 {field}, got"):
            datasets.load("tiny")
        assert not (cache / "parsed").exists()


def test_a_file_without_a_digest_is_not_kept_and_named_where_it_does_not_parse(
    register, serve, cache
):
    raw = tuple(RawFile(_URL + name) for name in _FILES)
    register(raw=raw, edges=7)
    serve(_SERVED)
    with pytest.raises(ValueError, match="tiny must have 7 edges, got 2"):
        datasets.load("tiny")
    assert not cache.exists()
    register(raw=raw)
    serve({**_SERVED, _URL + "tiny.json": b'{"0": [7]}'})
    with pytest.raises(ValueError, match=r"of tiny \(tiny_edges.csv, .*do not parse: .*\[0, 2\)"):
        datasets.load("tiny")


def test_the_users_folder_comes_first_and_must_hold_the_registered_files(
    register, serve, monkeypatch, tmp_path
):
    asked = serve(_SERVED)
    monkeypatch.setenv("LDP_JAX_DATA", str(tmp_path))
    (tmp_path / "tiny").mkdir()
    for name, data in _FILES.items():
        (tmp_path / "tiny" / name).write_bytes(data)
    path = tmp_path / "tiny.npz"
    datasets.save(datasets.load("tiny"), path)
    register(npz_sha256=sha256(path.read_bytes()))
    assert datasets.load("tiny").num_edges == 2
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(ValueError, match=f"{path} must have sha256 .*, got "):
        datasets.load("tiny")
    path.unlink()
    monkeypatch.setenv("LDP_JAX_CACHE", str(tmp_path / "another"))
    (tmp_path / "tiny" / "tiny_edges.csv").write_bytes(b"id1,id2\n0,1\n")
    with pytest.raises(ValueError, match="tiny/tiny_edges.csv must have git blob id"):
        datasets.load("tiny")
    assert not asked


def test_the_users_copy_of_tu_dortmunds_files(register, monkeypatch, tmp_path):
    """Unpacked in a folder of their name, or in the user's folder itself, or packed."""
    register(tu="T", nodes=5, features=0, graphs=2)
    files = FORMATS["TU"].files
    mine = tmp_path / "mine"
    packed = tmp_path / "packed"
    for folder in (mine / "T", packed):
        folder.mkdir(parents=True)
    for name, data in files.items():
        (mine / "T" / name).write_bytes(data)
    (packed / "T.zip").write_bytes(zipped({f"T/{name}": data for name, data in files.items()}))
    for folder in (mine, mine / "T", packed):
        monkeypatch.setenv("LDP_JAX_DATA", str(folder))
        monkeypatch.setenv("LDP_JAX_CACHE", str(tmp_path / "caches" / folder.name))
        data = datasets.load("tiny")
        assert (data.node_graph.tolist(), data.y.tolist()) == ([0, 0, 1, 1, 1], [1, 0])

    monkeypatch.setenv("LDP_JAX_CACHE", str(tmp_path / "empty"))
    monkeypatch.setenv("LDP_JAX_DATA", str(mine))
    (mine / "T" / "T_graph_labels.txt").unlink()
    with pytest.raises(FileNotFoundError, match="T/T_graph_labels.txt"):
        datasets.load("tiny")
    shutil.rmtree(mine / "T")
    with pytest.raises(FileNotFoundError, match="holds tiny.npz, T.zip or T/T_A.txt.*the download"):
        datasets.load("tiny")


def test_a_pickle_is_not_opened_before_its_sha256_matched(serve, monkeypatch):
    monkeypatch.setattr(planetoid, "unpickle", lambda *_: pytest.fail("unpickled"))
    serve({raw.url: b"cos\nsystem\n(S'true'\ntR." for raw in REGISTRY["cora"].raw})
    with pytest.raises(ValueError, match="must have sha256"):
        datasets.load("cora")
    for entry in REGISTRY.values():
        assert entry.parser != "planetoid" or all(raw.sha256 for raw in entry.raw)


def test_no_address_digest_count_or_word_of_the_registry_changes_unseen():
    entries = json.dumps([dataclasses.asdict(entry) for entry in REGISTRY.values()], sort_keys=True)
    assert (
        sha256(entries.encode())
        == "a41670e12d11dfcea5a0367544f45e491bc5f5e4c066010384275bd922cb75a3"
    )
