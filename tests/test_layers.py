"""Who may import whom, and what an import loads."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import ldp_jax

ROOT = Path(ldp_jax.__file__).parent
LAYERS = [
    {"types", "_pytree", "_validate", "guarantee"},
    {"mechanism", "graphs"},
    {"features", "datasets", "propagation"},
    {"verification", "models", "metrics", "utility"},
    {"training"},
    {"pipeline"},
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def unit(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """The units of ldp_jax that a file imports, at the top or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.split(".")[1] for name in found if name.startswith("ldp_jax.")}


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_imports_go_one_way(path):
    own = unit(path)
    if own == "__init__":
        return
    assert own in RANK, f"{own} has no place in the layers: give it one"
    for other in imported(path) - {own, "__version__"}:
        assert RANK[other] < RANK[own], f"{own} may not import {other}"


def test_no_feature_imports_another_but_sampled():
    for path in (ROOT / "features").glob("*.py"):
        if path.name in ("__init__.py", "sampled.py"):
            continue
        assert "ldp_jax.features" not in path.read_text().split('"""', 2)[2].split("class ")[0], path.name


@pytest.mark.parametrize("module", ["ldp_jax", "ldp_jax.guarantee", "ldp_jax.datasets"])
def test_an_import_loads_no_jax(module):
    code = f"import sys, {module}; assert 'jax' not in sys.modules, 'jax was loaded'"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_an_import_opens_no_connection():
    code = (
        "import socket\n"
        "def refuse(*a, **k): raise AssertionError('network at import')\n"
        "socket.socket.connect = refuse\nsocket.create_connection = refuse\n"
        "import ldp_jax\n"
        "for name in ldp_jax.__all__[1:]: getattr(ldp_jax, name)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
