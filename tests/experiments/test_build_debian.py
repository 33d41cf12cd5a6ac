"""The script that builds the embedded data set from a dump of a package index."""

import hashlib

import numpy as np
import pytest

from experiments import build_debian
from ldp_jax import datasets


def stanza(name, section="net", description="", **relations) -> str:
    fields = {"Package": name, "Section": section, "Description": description, **relations}
    return "".join(f"{field.replace('_', '-')}: {value}\n" for field, value in fields.items())


def built(*stanzas: str) -> dict[str, np.ndarray]:
    return build_debian.arrays_of("\n".join(stanzas).encode(), "test")


def names_of(arrays, field="node_names") -> list[str]:
    return bytes(arrays[field]).decode().split("\n")


def test_edges_are_relations_of_every_kind_and_alternative():
    arrays = built(
        stanza("a", Depends="b (>= 1.0) | c [amd64], libc6", Suggests="a"),
        stanza("b", "admin", Pre_Depends="a:any"),
        stanza("c", "contrib/mail", Recommends="d"),
        stanza("d", "science", Suggests="a <!nocheck>"),
        stanza("e", "games", Conflicts="a", Breaks="a"),
        stanza("libc6", "libs"),
    )
    assert names_of(arrays) == ["a", "b", "c", "d"]
    assert arrays["edges"].tolist() == [[0, 1], [0, 2], [0, 3], [2, 3]]
    assert [build_debian.SECTIONS[c] for c in arrays["y"]] == ["net", "admin", "mail", "science"]


def test_words_stand_in_at_least_five_packages_and_are_no_stop_words():
    names = "abcde"
    chain = [
        stanza(
            name,
            description=f"The FAST fast x server-{name * 3} for IPv4",
            Depends=names[(i + 1) % 5],
        )
        for i, name in enumerate(names)
    ]
    arrays = built(*chain)
    assert names_of(arrays, "feature_names") == ["fast", "ipv", "server"]
    assert arrays["x_values"].tolist() == [1.0] * 15


def test_what_is_no_dump_is_refused():
    with pytest.raises(ValueError, match="dump must be the output of `apt-cache dumpavail`"):
        built("nothing of the kind\n")


def test_the_command_writes_the_same_bytes_twice(tmp_path, capsys):
    source = tmp_path / "dump.txt"
    source.write_text(
        "\n".join(stanza(s, s, "one word for all", Depends="net") for s in build_debian.SECTIONS)
    )
    for name in ("one.npz", "two.npz"):
        build_debian.main(
            [str(source), "--release", "Debian 0 (test)", "--out", str(tmp_path / name)]
        )
        assert "8 nodes, 7 edges, 1 words, edge homophily 0.000" in capsys.readouterr().out
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    data = datasets.load(tmp_path / "one.npz")
    assert data.class_names == build_debian.SECTIONS
    assert (
        bytes(data.extras["dump_sha256"]).decode()
        == hashlib.sha256(source.read_bytes()).hexdigest()
    )
