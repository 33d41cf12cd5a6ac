"""Who may know whom: imports go one way, and naming the package costs nothing."""

import ast
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import ldp_jax

ROOT = Path(ldp_jax.__file__).parent
FILES = sorted(path for path in ROOT.rglob("*.py"))

# What the files of a layer may import, besides their own layer. A new folder or file needs a line here.
BASE = {"types", "_pytree", "_validate", "_rounding", "guarantee", "composition"}
BASE |= {"_tables", "_alphabets", "_random", "_whole_noise", "_ids", "_ownership", "_compiling", "_sealed"}
ALLOWED = {
    "types": set(),
    "guarantee": {"_validate", "_rounding"},
    "_pytree": set(),
    "_validate": set(),
    "_sealed": set(),
    "_tables": {"_validate", "_rounding", "_sealed"},
    "_alphabets": {"_validate", "_tables"},
    "_random": {"types", "_validate"},
    "_rounding": {"_validate"},
    "_whole_noise": {"_validate", "_rounding"},
    "_ids": set(),
    "_ownership": {"_ids"},
    "_compiling": {"_validate"},
    "_label_channel": {"types"},
    "composition": {"_validate", "_rounding", "_tables", "guarantee"},
    "gaussian": {"_validate", "_rounding", "guarantee"},
    "shuffle": {"_validate", "guarantee"},
    "ledger": {"_validate", "_rounding", "guarantee", "gaussian"},
    "deployment": {
        "_validate",
        "_rounding",
        "guarantee",
        "_sealed",
        "_tables",
        "_alphabets",
        "_whole_noise",
        "_ids",
        "_ownership",
    },
    "domains": BASE,
    "mechanism": BASE | {"domains"},
    "features": BASE | {"domains", "mechanism"},
    "edges": BASE | {"domains", "mechanism", "graphs", "aggregation"},
    "hyperbolic": BASE | {"domains", "mechanism", "gaussian"},
    "verification": BASE | {"domains", "mechanism", "features", "edges", "graphs", "hyperbolic"},
    "bounds": {"_validate", "features"},
    "graphs": {"types", "_validate"},
    "aggregation": {"types", "_pytree", "_validate"},
    "propagation": {"types", "_pytree", "_validate", "_compiling", "graphs", "aggregation"},
    "packing": {"types", "_pytree", "_validate", "graphs", "aggregation"},
    "models": {"types", "_validate", "graphs", "aggregation", "propagation", "packing", "hyperbolic"},
    "graph_training": {"types", "_validate", "metrics", "models", "packing", "training"},
    "metrics": {"types", "_validate"},
    "training": {"types", "_validate", "models", "metrics"},
    "importance": {"types", "_validate"},
    "label_training": {
        "types",
        "_validate",
        "_label_channel",
        "features",
        "propagation",
        "models",
        "metrics",
        "training",
    },
    "attacks": {"types", "_validate", "graphs", "propagation", "models", "metrics", "training"},
    "panel": {
        "types",
        "_pytree",
        "_validate",
        "_random",
        "_label_channel",
        "guarantee",
        "graphs",
        "propagation",
        "models",
        "training",
    },
    "pipeline": BASE
    | {"domains", "mechanism", "features", "edges", "graphs", "propagation", "panel", "models", "training"},
    "datasets": {"_validate", "graphs"},
}
COMPOSES = {  # the feature files that build on others, and which
    "sampled": {"duchi", "laplace", "piecewise", "square_wave"},
    "hybrid": {"duchi", "piecewise"},
    "gridded": {"discrete", "piecewise", "square_wave"},
    "generalized_rr": {"discrete"},
    "feature_rr": {"discrete"},
    "personal_alphabet": {"discrete"},
    "projunit": {"privunit"},
    "choice": {
        *("duchi", "duchi_vector", "generalized_rr", "hybrid", "laplace", "piecewise", "privunit", "sampled"),
        *("square_wave", "three_outputs"),
    },
    "lp_optimal": {"discrete", "piecewise"},
    "three_outputs": {"duchi"},
}
ONE_HOME = {
    "jraph": {"graphs"},
    "flax": {"models"},
    "optax": {"training", "graph_training", "hyperbolic", "panel"},
    "pooch": {"datasets"},
}
PURE = {"guarantee", "_rounding"}  # of the standard library alone


def layer(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[0]


def imports(path: Path) -> set[str]:
    """Every module that a file names in an import, at the top or inside a function, as absolute dotted names."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def own(path: Path) -> set[tuple[str, ...]]:
    return {tuple(name.split(".")[1:]) for name in imports(path) if name.startswith("ldp_jax.")}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path):
    here = layer(path)
    if path == ROOT / "__init__.py":
        return  # imports on first use, and for type checkers: tests/test_api.py
    assert here in ALLOWED, f"{here} has no place in the layers: add it to ALLOWED"
    reached = {parts[0] for parts in own(path)} - {here}
    assert reached <= ALLOWED[here], f"{path.name} may not import {sorted(reached - ALLOWED[here])}"
    for package, homes in ONE_HOME.items():
        if here not in homes:
            assert not any(name.split(".")[0] == package for name in imports(path)), f"{package} outside {homes}"
    foreign = {name.split(".")[0] for name in imports(path)}
    assert not foreign & {"experiments", "tests", "colab", "pytest", "networkx", "sklearn", "pandas", "matplotlib"}
    if here in PURE:
        assert foreign <= {*sys.stdlib_module_names, "ldp_jax"}


def test_the_layers_have_no_cycle():
    remaining = dict(ALLOWED)
    while remaining:
        free = [name for name, needs in remaining.items() if not needs & set(remaining)]
        assert free, f"a cycle among {sorted(remaining)}"
        for name in free:
            del remaining[name]


@pytest.mark.parametrize("path", sorted((ROOT / "features").glob("*.py")), ids=lambda path: path.stem)
def test_a_feature_file_imports_only_what_it_composes(path):
    if path.stem == "__init__":
        return
    reached = {parts[1] for parts in own(path) if parts[0] == "features" and len(parts) > 1}
    assert reached == COMPOSES.get(path.stem, set())


def test_every_public_module_is_listed_and_loads():
    listed = {name for name in ldp_jax.__all__ if isinstance(getattr(ldp_jax, name), ModuleType)}
    public = {layer(path) for path in FILES} - {"__init__"}
    assert listed == {name for name in public if not name.startswith("_")}


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_package_and_its_guarantees_load_no_jax():
    code = """
import sys
from ldp_jax import guarantee
print(guarantee.Guarantee(1.0))
print({"jax", "jaxlib", "flax", "optax", "jraph", "numpy", "scipy", "pooch"} & set(sys.modules))
"""
    assert run(code).splitlines()[-1] == "set()"


def test_naming_the_data_sets_loads_no_jax():
    code = "import sys; from ldp_jax import datasets; datasets.names(); print('jax' in sys.modules)"
    assert run(code).strip() == "False"


def test_importing_everything_reaches_no_network_and_starts_no_device():
    code = """
import socket, sys
def refuse(*args, **kwargs):
    raise AssertionError("network at import")
socket.socket.connect = refuse
socket.getaddrinfo = refuse
import ldp_jax
for name in ldp_jax.__all__:
    getattr(ldp_jax, name)
from jax._src import xla_bridge
print(xla_bridge.backends_are_initialized())
"""
    assert run(code).strip() == "False"
