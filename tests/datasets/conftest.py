"""No test here reaches the network, another cache, or a folder that the test did not name."""

import os
from collections.abc import Callable
from pathlib import Path

import pooch
import pytest
import requests

_REAL_DATA = os.environ.get("LDP_JAX_DATA")


@pytest.fixture(autouse=True)
def isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(self, url, output_file, pooch, check_only=False):
        raise requests.ConnectionError("tests have no network")

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", refuse)
    monkeypatch.delenv("LDP_JAX_DATA", raising=False)
    monkeypatch.setenv("LDP_JAX_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, bytes]], list[str]]:
    """Stands for the network: what is served by address; returns the list of what was asked for."""

    def install(files: dict[str, bytes]) -> list[str]:
        asked: list[str] = []

        def download(self, url, output_file, pooch, check_only=False):
            asked.append(url)
            Path(output_file).write_bytes(files[url])

        monkeypatch.setattr(pooch.HTTPDownloader, "__call__", download)
        return asked

    return install


@pytest.fixture
def real_data(monkeypatch: pytest.MonkeyPatch) -> Path:
    if not _REAL_DATA:
        pytest.skip("LDP_JAX_DATA is not set: it names the folder of the benchmark files")
    monkeypatch.setenv("LDP_JAX_DATA", _REAL_DATA)
    return Path(_REAL_DATA)
