"""What a user finds after one import: the names of the first minute, every sub-module, no imports
among them.
"""

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import jax
import pytest

import ldp_jax
from ldp_jax import attacks

ROOT = Path(ldp_jax.__file__).parent
ROOMS = sorted(name for name in dir(ldp_jax) if isinstance(getattr(ldp_jax, name), ModuleType))
LAZY = ["core", "accounting", "graph", "learning"]  # they show their modules
NESTED = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in ROOT.rglob("*.py")
    if path.parent != ROOT and "__all__ = [" in path.read_text()
)


def first_minute():
    """What the imports for type checkers say: each name and where it comes from."""
    (block,) = (
        node
        for node in ast.parse((ROOT / "__init__.py").read_text()).body
        if isinstance(node, ast.If)
    )
    return {alias.name: node.module for node in block.body for alias in node.names}


def test_public_modules_show_their_names_and_no_imports():
    for name in NESTED:
        check_names(importlib.import_module(f"ldp_jax.{name}"))


def check_names(module):
    assert len(set(module.__all__)) == len(module.__all__) > 0
    others = [getattr(module, shown) for shown in set(dir(module)) - set(module.__all__)]
    assert set(module.__all__) <= set(dir(module))
    assert all(isinstance(one, ModuleType) for one in others)
    for public in module.__all__:
        assert not public.startswith("_")
        getattr(module, public)
    named = [
        node
        for node in ast.parse(Path(module.__file__).read_text()).body
        if isinstance(node, ast.ImportFrom)
    ]
    foreign = {
        alias.name
        for node in named
        if not node.module.startswith("ldp_jax")
        for alias in node.names
    }
    assert foreign & set(module.__all__) <= {
        "Array"
    }  # the name of JAX that signatures are written in


def test_type_checkers_see_what_is_there():
    homes = first_minute()
    assert {*homes, "__version__"} == set(ldp_jax.__all__)
    assert {*homes, *ROOMS} == set(dir(ldp_jax))
    assert not hasattr(ldp_jax, "nothing")
    for name, home in homes.items():
        found = getattr(ldp_jax, name)
        assert found is getattr(sys.modules[home], name)


@pytest.mark.parametrize("name", LAZY)
def test_a_room_of_modules_shows_all_of_them(name):
    there = importlib.import_module(f"ldp_jax.{name}")
    inside = {path.stem for path in (ROOT / name).iterdir() if not path.stem.startswith("_")}
    modules = {name for name in dir(there) if isinstance(getattr(there, name), ModuleType)}
    assert {*modules, "lazy"} == {*inside, "lazy"}
    assert set(dir(there)) - modules <= {"compilation_cache", "leave_room_for_programs"}


def test_one_import_is_enough_and_reaches_no_network_and_starts_no_device():
    """And an embedding loads no library of networks, which takes as long as all of JAX."""
    code = """
import socket, sys
def refuse(*args, **kwargs):
    raise AssertionError("network at import")
socket.socket.connect = refuse
socket.getaddrinfo = refuse
import ldp_jax as ldp
made = ldp.features.distribution, ldp.datasets.splits, ldp.deployment.device
print(*(module.__name__ for module in made))
ldp.Guarantee, ldp.Budget, ldp.load, ldp.privatize, ldp.ppr
ldp.private_embedding, ldp.privatize_graph
print("flax" in sys.modules)
for name in dir(ldp):
    getattr(ldp, name)
from jax._src import xla_bridge
print(xla_bridge.backends_are_initialized())
"""
    names = "ldp_jax.features.distribution ldp_jax.datasets.splits ldp_jax.deployment.device"
    assert run(code).splitlines() == [names, "False", "False"]


def test_what_needs_no_jax_loads_none():
    used = "ldp.Ledger(1.0), ldp.Guarantee(1.0), ldp.deployment, ldp.accounting.gaussian"
    used += ", ldp.datasets.names()"
    assert (
        run(f"import sys, ldp_jax as ldp; dir(ldp); {used}; print('jax' in sys.modules)") == "False"
    )


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


LATER = {  # they look at another argument first, which says how the key is used
    "deal",
    "decode",
    "joint_facts",
    "lying_lists",
    "lying_places",
    "panel_facts",
    "private_embedding",
    "release",
    "sample",
}


@pytest.mark.usefixtures("untyped")
def test_a_key_of_another_kind_is_refused_before_anything_else_is_looked_at():
    """Of all public functions that take one, whose other arguments are nothing at all."""
    rbg = jax.random.key(0, impl="rbg")
    asked = set()
    for place in [name for name in NESTED if not name.startswith("verification")]:
        module = importlib.import_module(f"ldp_jax.{place}")
        names = module.__all__ if place != "attacks" else [*module.__all__, *dir(attacks.poisoning)]
        for name in sorted(set(names) - LATER):
            one = getattr(module, name, None) or getattr(attacks.poisoning, name)
            compiled = hasattr(one, "lower")
            if name.startswith("_") or not (inspect.isfunction(one) or compiled):
                continue
            parameters = inspect.signature(one).parameters
            if "key" not in parameters:
                continue
            needed = [one.name for one in parameters.values() if one.default is one.empty]
            given = {other: object() for other in needed} | {"key": rbg}
            with pytest.raises(ValueError, match="threefry"):
                one(**given)
            asked.add(name)
    assert len(asked) > 30
