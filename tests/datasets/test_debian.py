"""The embedded data set."""

from ldp_jax import datasets


def test_the_embedded_graph_is_the_one_described(monkeypatch, tmp_path):
    """Its file has the registered sha256: this is how its arrays are read."""
    monkeypatch.setenv("LDP_JAX_DATA", str(tmp_path / "nowhere"))
    data = datasets.load("debian")
    sections = ("admin", "net", "science", "sound", "graphics", "games", "mail", "editors")
    assert data.class_names == sections
    vim = data.node_names.index("vim")
    assert data.class_names[data.y[vim]] == "editors"
    words = {
        data.feature_names[j] for j in data.x.indices[data.x.indptr[vim] : data.x.indptr[vim + 1]]
    }
    assert words == {"vi", "improved", "enhanced", "editor"}
    assert bytes(data.extras["release"]).decode() == "Debian 12 (bookworm)"
    assert bytes(data.extras["dump_sha256"]).decode() in data.source
