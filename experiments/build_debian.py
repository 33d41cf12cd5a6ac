"""Build the embedded data set ``debian`` from the package index of a Debian release.

    apt-cache dumpavail > dump.txt
    python -m experiments.build_debian dump.txt --release "Debian 12 (bookworm)"

The rules, in the order in which they act:

1. A package that is listed more than once counts as first listed.
2. Nodes are the packages of eight sections, the last part of ``Section`` (``contrib/net`` is
   ``net``), but for those that only accompany another package: names in -doc, -dbg, -dbgsym, -data,
   -common, -dev.
3. Two nodes are joined where one names the other in Depends, Pre-Depends, Recommends or Suggests,
   as any of several alternatives, whatever the version or architecture; once, whoever names whom
   and how often.
4. The largest connected component is kept (the first by name, if two are as large). Nodes are
   sorted by name.
5. Words are runs of two or more letters a-z in the lower-case short description, without English
   stop words. Words in the descriptions of at least five kept packages are the features,
   sorted, 0 or 1.

The same dump gives the same arrays, and with the same zlib the same bytes.
"""

import argparse
import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components

from ldp_jax import datasets

SECTIONS = ("admin", "net", "science", "sound", "graphics", "games", "mail", "editors")
_LEFT_OUT = ("-doc", "-dbg", "-dbgsym", "-data", "-common", "-dev")
_RELATIONS = ("Depends", "Pre-Depends", "Recommends", "Suggests")
_PACKAGES_A_WORD = 5
_STOP_WORDS = frozenset(
    re.findall(
        "[a-z]+",
        """
    about after against all also an and another any are as at be been before between both but by
    can could do does each etc for from had has have how if in including into is it its like
    many may more most much no non not of off on one only or other out over several should so
    some such than that the their them then there these they this those through to two under up
    upon use used uses using various very via was were what when where which while who will with
    within without would you your
    """,
    )
)


def packages(dump: str) -> dict[str, dict[str, str]]:
    r"""The fields of every package, by name; of one listed more than once, the first.

    >>> packages("Package: a\nDepends: b,\n c\n\nPackage: b\n")["a"]["Depends"]
    'b, c'
    """
    found: dict[str, dict[str, str]] = {}
    for stanza in re.split(r"\n\s*\n", dump):
        fields: dict[str, str] = {}
        field = ""
        for line in stanza.splitlines():
            if line[:1] in (" ", "\t"):  # a continuation
                if field:
                    fields[field] += line
            elif ":" in line:
                field, value = line.split(":", 1)
                fields[field] = value.strip()
        if "Package" in fields:
            found.setdefault(fields["Package"], fields)
    return found


def _section(fields: dict[str, str]) -> str:
    return fields.get("Section", "").rpartition("/")[2]


def _related(fields: dict[str, str]) -> Iterator[str]:
    """The names of all packages that one package relates to, every alternative."""
    for relation in _RELATIONS:
        for alternative in re.split("[,|]", fields.get(relation, "")):
            name = re.match(r"\s*([^\s(:\[<]+)", alternative)
            if name:
                yield name.group(1)


def _words(fields: dict[str, str]) -> set[str]:
    text = fields.get("Description", fields.get("Description-en", ""))
    return set(re.findall("[a-z]{2,}", text.lower())) - _STOP_WORDS


def arrays_of(dump: bytes, release: str) -> dict[str, np.ndarray]:
    """The data set in the uniform format, from the bytes that ``apt-cache dumpavail`` printed."""
    index = packages(dump.decode("utf-8"))
    names = sorted(
        name
        for name, fields in index.items()
        if _section(fields) in SECTIONS and not name.endswith(_LEFT_OUT)
    )
    number = {name: i for i, name in enumerate(names)}
    pairs = {
        (min(number[name], number[other]), max(number[name], number[other]))
        for name in names
        for other in _related(index[name])
        if other in number and other != name
    }
    if not pairs:
        raise ValueError(
            "dump must be the output of `apt-cache dumpavail`, got no related packages in it"
        )
    edges = np.array(sorted(pairs), np.int32)
    shape = (len(names), len(names))
    _, component = connected_components(
        scipy.sparse.coo_array((np.ones(len(edges)), edges.T), shape=shape)
    )
    keep = np.flatnonzero(component == np.bincount(component).argmax())
    renumber = np.full(len(names), -1, np.int32)
    renumber[keep] = np.arange(len(keep), dtype=np.int32)
    edges = renumber[edges]
    edges = edges[edges[:, 0] >= 0]  # both ends of an edge are in the same component
    kept = [names[i] for i in keep]

    described = [_words(index[name]) for name in kept]
    frequency = Counter(word for words in described for word in words)
    vocabulary = sorted(word for word, count in frequency.items() if count >= _PACKAGES_A_WORD)
    column = {word: j for j, word in enumerate(vocabulary)}
    rows = [sorted(column[word] for word in words if word in column) for words in described]
    columns = np.array([j for row in rows for j in row], np.int32)
    digest = hashlib.sha256(dump).hexdigest()
    return {
        "edges": edges,
        "x_indptr": np.cumsum([0, *map(len, rows)], dtype=np.int32),
        "x_indices": columns,
        "x_values": np.ones(len(columns), np.float32),
        "x_shape": np.array((len(rows), len(vocabulary)), np.int64),
        "x_lower": np.array(0.0),
        "x_upper": np.array(1.0),
        "y": np.array([SECTIONS.index(_section(index[name])) for name in kept], np.int32),
        "feature_names": _text("\n".join(vocabulary)),
        "node_names": _text("\n".join(kept)),
        "class_names": _text("\n".join(SECTIONS)),
        "source": _text(
            f"package index of {release}, as apt-cache dumpavail prints it (sha256 {digest})"
        ),
        "release": _text(release),
        "dump_sha256": _text(digest),
    }


def _text(text: str) -> np.ndarray:
    """UTF-8 text as the data sets' format stores it."""
    return np.frombuffer(text.encode("utf-8"), np.uint8)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m experiments.build_debian", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("dump", type=Path, help="a file made by `apt-cache dumpavail`")
    parser.add_argument("--release", required=True, help='for instance "Debian 12 (bookworm)"')
    parser.add_argument("--out", type=Path, default=Path(datasets.__file__).with_name("debian.npz"))
    options = parser.parse_args(arguments)
    arrays = arrays_of(options.dump.read_bytes(), options.release)
    with options.out.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)  # pyrefly: ignore
    nodes, words = arrays["x_shape"].tolist()
    ends = arrays["y"][arrays["edges"]]
    print(
        f"{options.out}: {nodes} nodes, {len(arrays['edges'])} edges, {words} words, "
        f"edge homophily {(ends[:, 0] == ends[:, 1]).mean():.3f}, {options.out.stat().st_size} "
        "bytes, "
        f"sha256 {hashlib.sha256(options.out.read_bytes()).hexdigest()}"
    )


if __name__ == "__main__":
    main()
