"""Draw the pictures of protocols and of the library's rooms that the documentation shows.

``python -m experiments.build_diagrams docs/pictures`` writes them. A protocol's picture is drawn
from a run of it on the embedded graph, the rooms' from the imports of the library.
"""

import ast
import runpy
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

import jax
import numpy as np

import ldp_jax as ldp
from experiments._runner import write_atomically
from ldp_jax import servers
from ldp_jax.graph.propagation import operator
from ldp_jax.servers.diagram import Message, Party, diagram, draw
from ldp_jax.servers.links import LinkFacts

ROOT = Path(ldp.__file__).parent


def idea() -> str:
    """Draw the steps that all protocols have in common."""
    users = Party("Users' devices", ["hold records, neighbour lists", "trust nobody"])
    server = Party("Server", ["holds the public graph", "sees reports alone"])
    asks = (
        "A question: a mechanism, and what devices need for it. The most that a user can lose "
        "is stated before the first one."
    )
    sends = "A report: the device clips its record and adds noise by random bits of its own."
    again = "The next question may follow from the reports. The driver refuses more than stated."
    result = [
        "A result and its total epsilon: an embedding, predictions, a graph, a count",
        "beside it: the public graph alone, other users' records, the ceiling without noise, "
        "malicious users",
    ]
    cost = "at most e^epsilon times as likely as under any other record"
    messages = [Message(False, asks), Message(True, sends, cost), Message(False, again)]
    return draw("Local differential privacy on a graph", users, server, messages, result)


# --- Protocols ------------------------------------------------------------------------------------


Protocol = tuple[Any, servers.Users]
"""A server, and the users whom it asks."""


def _panel() -> tuple[Any, np.ndarray, np.ndarray]:
    """The embedded graph, a panel of every tenth user, and its labels, -1 for others."""
    data = ldp.load("debian")
    panel = np.arange(0, data.num_nodes, 10)
    labels = np.full(data.num_nodes, -1)
    labels[panel] = np.asarray(data.y)[panel]
    return data, panel, labels


def private_embedding() -> Protocol:
    """Records through HDS, propagated over the public graph."""
    data, _, _ = _panel()
    records = np.random.default_rng(0).uniform(-1, 1, (data.num_nodes, 64))
    mechanism = ldp.features.HDS(1.0, dim=64, k=8)
    server = servers.EmbeddingServer(operator(data.graph), mechanism, alpha=0.1, r=0.5)
    return server, servers.Users(records=records)


def predict_from_reports() -> Protocol:
    """One class from each device, by a classifier of the panel."""
    data, panel, labels = _panel()
    rows = servers.feature_rows(data.x, public=panel)
    facts = servers.panel_facts(
        jax.random.key(0), data.graph, rows.take(panel), labels, num_classes=8
    )
    users = servers.Users(records=rows, public=labels >= 0)
    return servers.ReportServer(facts, 2.0), users


def predict_from_counts() -> Protocol:
    """Counts of friends by group, in two rounds."""
    data, _, labels = _panel()
    facts = servers.count_facts(jax.random.key(0), data.x, labels, num_classes=8)
    users = servers.Users(lists=data.graph)
    return servers.CountServer(facts, 1.0, "list"), users


def predict_jointly() -> Protocol:
    """A class, and counts of friends, within one total."""
    data, panel, labels = _panel()
    rows = servers.feature_rows(data.x, public=panel)
    facts = servers.joint_facts(jax.random.key(0), rows.take(panel), labels, num_classes=8)
    users = servers.Users(records=rows, lists=data.graph, public=labels >= 0)
    server = servers.JointServer(servers.JointPrivacy(record=2.0, list=1.0), facts)
    return server, users


def privatize_graph() -> Protocol:
    """A noisy degree and a noisy list of each user."""
    data, _, _ = _panel()
    made: Any = ldp.edges.DPRR.from_epsilon(1.0, n_max=data.num_nodes, reporting="half")
    server = servers.ListServer(made, data.num_nodes)
    return server, servers.Users(lists=data.graph)


def link_scores() -> Protocol:
    """Counts of friends by class, for scores of pairs."""
    data, _, labels = _panel()
    log_q = np.log(np.full((data.num_nodes, 8), 1 / 8, np.float32))
    facts = LinkFacts(log_q, labels, np.zeros(0, int), np.zeros((0, 2), int))
    server = servers.LinkServer(facts, 1.0, np.array([[0, 1], [0, 2]]))
    return server, servers.Users(lists=data.graph)


def triangles() -> Protocol:
    """Degrees, noisy bits, and one count from each user."""
    data, _, _ = _panel()
    server = servers.TriangleServer(data.num_nodes, 1.0, 1.0, epsilon_degree=0.5)
    return server, servers.Users(lists=data.graph)


def ldpgen() -> Protocol:
    """Two rounds of noisy degree vectors, for a synthetic graph."""
    data, _, _ = _panel()
    server = servers.LDPGenServer(data.num_nodes, 1.0, 1.0)
    return server, servers.Users(lists=data.graph)


def friends() -> Protocol:
    """The protocol of CONTRIBUTING, from the text of the page."""
    page = (ROOT.parent / "CONTRIBUTING.md").read_text()
    (text,) = (one for one in page.split("```python\n") if "class FriendsServer" in one)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "friends.py"
        path.write_text(text.split("```")[0])
        made = runpy.run_path(str(path))
    data = ldp.datasets.synthetic(
        jax.random.key(0),
        num_nodes=900,
        num_classes=3,
        num_features=9,
        mean_degree=12,
        homophily=0.8,
    )
    users = servers.Users(labels=data.y, lists=data.graph)
    return made["FriendsServer"](900, 3, 1.0), users


PROTOCOLS: Mapping[Callable[[], Protocol], str] = {
    private_embedding: "private_embedding: records on a public graph",
    predict_from_reports: "predict_from_reports: a class from each device",
    predict_from_counts: "predict_from_counts: counts of friends",
    predict_jointly: "predict_jointly: record and list in one total",
    privatize_graph: "privatize_graph with DPRR: noisy neighbour lists",
    link_scores: "link_scores: who is linked",
    triangles: "TriangleServer: triangles, their bound found privately",
    ldpgen: "LDPGenServer: a synthetic graph",
    friends: "Classes, then counts",
}
"""Titles of pictures; each has the name of its function."""


def drawn(protocol: Callable[[], Protocol]) -> str:
    """The picture of a run."""
    return diagram(servers.simulate(jax.random.key(1), *protocol()), PROTOCOLS[protocol])


# --- The house ------------------------------------------------------------------------------------


def rooms() -> dict[str, set[str]]:
    """The rooms of the library, and which other rooms each imports."""
    names = [path.parent.name for path in sorted(ROOT.glob("*/__init__.py"))]
    used = {name: set(_imports(name)) & set(names) - {name} for name in names}
    return {name: known for name, known in used.items() if name != "pipeline"}


def _imports(room: str) -> Iterator[str]:
    """The rooms that the files of a room name in an import."""
    for path in (ROOT / room).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            module = node.module if isinstance(node, ast.ImportFrom) else ""
            parts = (module or "").split(".")
            if parts == ["ldp_jax"] and isinstance(node, ast.ImportFrom):
                yield from (alias.name for alias in node.names)
            if parts[0] == "ldp_jax" and len(parts) > 1:
                yield parts[1]


def house() -> str:
    """Rooms above those that they import; a line to each that no other one leads to."""
    used = rooms()
    used["core"] = set()  # two of its modules stand above accounting
    levels: dict[str, int] = {}
    while len(levels) < len(used):
        for name, known in used.items():
            if name not in levels and known <= levels.keys():
                levels[name] = 1 + max((levels[one] for one in known), default=-1)
    direct = {
        name: {one for one in known if not any(one in used[other] for other in known)}
        for name, known in used.items()
    }
    height = 84 * (max(levels.values()) + 1) + 20
    width = 720
    place = {}
    for level in range(max(levels.values()) + 1):
        row = sorted(name for name, one in levels.items() if one == level)
        for number, name in enumerate(row):
            place[name] = (width * (number + 1) / (len(row) + 1), height - 50 - 84 * level)
    lines = [
        f'<line stroke="#9ca3af" x1="{place[name][0]:g}" y1="{place[name][1] + 18:g}" '
        f'x2="{place[one][0]:g}" y2="{place[one][1] - 18:g}"/>'
        for name in sorted(direct)
        for one in sorted(direct[name])
    ]
    boxes = [
        f'<rect x="{x - 58:g}" y="{y - 18:g}" width="116" height="36" rx="8" fill="#e0f2fe" '
        f'stroke="#0369a1"/><text x="{x:g}" y="{y + 5:g}" text-anchor="middle" fill="#1f2937" '
        f'font-family="system-ui, sans-serif" font-size="14">{escape(name)}</text>'
        for name, (x, y) in place.items()
    ]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="The rooms of ldp_jax">'
    )
    card = (
        f'<rect x="1" y="1" width="{width - 2}" height="{height - 2}" rx="10" fill="#ffffff" '
        'stroke="#d1d5db"/>'
    )
    return "\n".join([head, card, *lines, *boxes, "</svg>"]) + "\n"


def main(folder: Path) -> None:
    """Write all pictures into a folder."""
    write_atomically(folder / "idea.svg", idea())
    write_atomically(folder / "house.svg", house())
    for protocol in PROTOCOLS:
        write_atomically(folder / f"{protocol.__name__}.svg", drawn(protocol))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
