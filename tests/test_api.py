"""What a user finds after one import: the names of the first minute, every sub-module, no imports among them."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import ldp_jax

ROOT = Path(ldp_jax.__file__).parent
MODULES = sorted(name for name in ldp_jax.__all__ if isinstance(getattr(ldp_jax, name), ModuleType))
NESTED = [
    "datasets.splits",
    "deployment.classes",
    "deployment.collector",
    "deployment.counts",
    "deployment.device",
    "deployment.lists",
    "deployment.permanent",
    "deployment.question",
    "deployment.wire",
    "edges.central",
    "edges.central.connections",
    "edges.central.hrg",
    "edges.central.release",
    "edges.central.split",
    "features.distribution",
    "hyperbolic.embedding",
    "hyperbolic.exponential",
    "hyperbolic.gaussian",
    "hyperbolic.hyperbolicity",
    "hyperbolic.lorentz",
    "hyperbolic.optimizers",
    "hyperbolic.poincare",
    "hyperbolic.published",
    "hyperbolic.sensitivity",
    "hyperbolic.wrapped_normal",
    "panel.advice",
    "panel.budget_split",
    "panel.counts",
    "panel.design",
    "panel.device_classifier",
    "panel.field",
    "panel.groups",
    "panel.guard",
    "panel.message",
    "panel.pilot",
    "panel.piloted",
    "panel.prediction",
    "panel.reported_labels",
    "panel.rows",
    "panel.self_training",
    "panel.stack",
    "panel.structure",
    "pipeline.advice",
    "pipeline.fidelity",
    "pipeline.messages",
]


def first_minute():
    """What the imports for type checkers say: each name and where it comes from."""
    (block,) = (node for node in ast.parse((ROOT / "__init__.py").read_text()).body if isinstance(node, ast.If))
    return {alias.name: node.module for node in block.body for alias in node.names}


@pytest.mark.parametrize("name", [*MODULES, *NESTED])
def test_a_public_module_shows_its_names_and_no_imports(name):
    module = importlib.import_module(f"ldp_jax.{name}")
    assert len(set(module.__all__)) == len(module.__all__) > 0
    assert dir(module) == sorted(module.__all__)
    for public in module.__all__:
        assert not public.startswith("_")
        getattr(module, public)
    named = [node for node in ast.parse(Path(module.__file__).read_text()).body if isinstance(node, ast.ImportFrom)]
    foreign = {alias.name for node in named if not node.module.startswith("ldp_jax") for alias in node.names}
    assert foreign & set(module.__all__) <= {"Array"}  # the name of JAX that signatures are written in


def test_type_checkers_see_what_is_there():
    homes = first_minute()
    assert {*homes, "__version__"} == set(ldp_jax.__all__)
    for name, home in homes.items():
        found = getattr(ldp_jax, name)
        if home == "ldp_jax":
            assert found is sys.modules[f"ldp_jax.{name}"]
        else:
            assert found is getattr(sys.modules[home], name)
            assert ldp_jax._HOMES[name] == home.removeprefix("ldp_jax.")


def test_one_import_is_enough():
    """And an embedding loads no library of networks, which takes as long as all of JAX."""
    code = """
import ldp_jax as ldp, sys
print(ldp.features.distribution.__name__, ldp.datasets.splits.__name__, ldp.deployment.device.__name__)
ldp.Guarantee, ldp.Budget, ldp.load, ldp.privatize, ldp.private_embedding, ldp.privatize_graph, ldp.ppr
print("flax" in sys.modules)
"""
    assert run(code) == "ldp_jax.features.distribution ldp_jax.datasets.splits ldp_jax.deployment.device\nFalse"


@pytest.mark.parametrize(
    "used",
    [
        "ldp.guarantee",
        "ldp.Ledger(1.0)",
        "ldp.Guarantee(1.0)",
        "ldp.deployment",
        "ldp.gaussian",
        "ldp.datasets.names()",
    ],
)
def test_what_needs_no_jax_loads_none(used):
    assert run(f"import sys, ldp_jax as ldp; dir(ldp); {used}; print('jax' in sys.modules)") == "False"


def test_a_name_that_is_none():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        ldp_jax.nothing  # noqa: B018
    assert dir(ldp_jax) == sorted(ldp_jax.__all__)


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
