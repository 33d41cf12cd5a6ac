"""Who may know whom: imports go one way, and naming the package costs nothing."""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import ldp_jax
from tests.test_api import run

ROOT = Path(ldp_jax.__file__).parent
FILES = sorted(path for path in ROOT.rglob("*.py"))

# What the files of a room may import, besides their own room. Two modules of core stand above
# accounting.
BASE = {"core", "accounting"}
PROTOCOL = BASE | {"core.spaces", "core.mechanism"}
ALLOWED = {
    "core": set(),
    "accounting": {"core"},
    "core.spaces": {"core"},
    "core.mechanism": BASE | {"core.spaces"},
    "graph": {"core"},
    "features": PROTOCOL,
    "edges": PROTOCOL | {"graph"},
    "hyperbolic": PROTOCOL,
    "curators": PROTOCOL | {"graph", "edges"},
    "verification": PROTOCOL | {"graph", "features", "edges", "hyperbolic", "curators"},
    "learning": {"core", "graph", "features", "hyperbolic"},
    "attacks": {"core", "core.spaces", "core.mechanism", "graph", "learning", "edges", "servers"},
    "servers": PROTOCOL | {"graph", "features", "edges", "learning", "deployment"},
    "deployment": BASE,
    "datasets": {"core", "graph"},
    "bench": PROTOCOL
    | {"graph", "features", "edges", "learning", "servers", "verification", "datasets"},
}
ONE_HOME = {
    "jraph": "graph/graphs.py",
    "flax": "learning/models/",
    "optax": ("learning/", "hyperbolic/", "servers/"),
    "pooch": "datasets/",
    "networkx": ("graph/interop.py", "graph/_files.py", "graph/_sources.py"),
    "pandas": ("graph/interop.py", "graph/_sources.py", "datasets/tables.py"),
    "sklearn": ("servers/estimators.py", "bench/searching.py"),
    "pyarrow": "deployment/store.py",
}
PURE = {
    "accounting/guarantee.py",
    "core/rounding.py",
    "core/lazy.py",
}  # of the standard library alone
NO_JAX = ("accounting/", "deployment/")


def room(name: str) -> str:
    """The room of a dotted name below ``ldp_jax``, or a module of core that is a layer of its
    own.
    """
    parts = name.split(".")
    whole = ".".join(parts[:2])
    return whole if whole in ALLOWED else parts[0]


@cache
def imports(path: Path) -> set[str]:
    """Every module that a file names in an import, at the top or inside a function, as absolute
    dotted names.
    """
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def own(path: Path) -> set[str]:
    return {name.removeprefix("ldp_jax.") for name in imports(path) if name.startswith("ldp_jax.")}


def wrong(path: Path) -> Iterator[str]:
    """What a file imports that it may not."""
    where = path.relative_to(ROOT).as_posix()
    here = room(where.removesuffix(".py").replace("/", "."))
    if here not in ALLOWED:
        yield f"{here} has no place among the rooms: add it to ALLOWED"
        return
    reached = {room(name) for name in own(path)} - {here}
    foreign = {name.split(".")[0] for name in imports(path)}
    yield from (f"{where} may not import {name}" for name in reached - ALLOWED[here])
    yield from (
        f"{where}: {package} outside {home}"
        for package, home in ONE_HOME.items()
        if not where.startswith(home) and package in foreign
    )
    no = {"experiments", "tests", "colab", "pytest"} | (
        set() if where in ("bench/plot.py", "bench/page.py") else {"matplotlib"}
    )
    no |= {"jax", "jaxlib"} if where.startswith(NO_JAX) else set()
    no |= foreign - {*sys.stdlib_module_names, "ldp_jax"} if where in PURE else set()
    yield from (f"{where} may not import {name}" for name in foreign & no)
    yield from (f"{where} imports {name}" for name in hidden(path))


def test_imports_go_one_way():
    """But for ``__init__.py``, which imports on first use, and for type checkers:
    tests/test_api.py.
    """
    assert [fault for path in FILES if path != ROOT / "__init__.py" for fault in wrong(path)] == []


def test_an_import_the_wrong_way_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    for where, line, fault in (
        ("core/a.py", "from ldp_jax.graph import graphs", "core/a.py may not import graph"),
        ("graph/b.py", "def f():\n    import pandas", "pandas outside"),
        ("learning/c.py", "import matplotlib.pyplot", "may not import matplotlib"),
        ("accounting/d.py", "from jax import numpy", "may not import jax"),
        ("core/lazy.py", "import numpy", "may not import numpy"),
        ("graph/e.py", "from ldp_jax.core._hidden import f", "imports core._hidden"),
        ("attic/f.py", "", "no place among the rooms"),
    ):
        (tmp_path / where).parent.mkdir(exist_ok=True)
        (tmp_path / where).write_text(line)
        assert fault in "".join(wrong(tmp_path / where)), where


def hidden(path: Path) -> list[str]:
    """Underscore names of another room that a file imports."""
    here = path.relative_to(ROOT).parts[0]
    return [
        name
        for name in own(path)
        if name.split(".")[0] != here and any(part.startswith("_") for part in name.split("."))
    ]


def test_the_root_holds_rooms_and_nothing_else():
    folders = {path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()}
    assert [path.name for path in ROOT.glob("*.py")] == ["__init__.py"]
    assert folders == {name for name in ALLOWED if "." not in name}
    assert folders == {
        name for name in dir(ldp_jax) if isinstance(getattr(ldp_jax, name), ModuleType)
    }


def test_the_package_and_its_guarantees_load_no_jax():
    """Nor anything else; a ledger, a curve and the names of data sets: tests/test_api.py."""
    code = """
import sys
from ldp_jax.accounting import guarantee
from ldp_jax.core import validate
guarantee.Budget(1.0), guarantee.Guarantee(1.0).repeated(3), validate.number(0.0, delta=0.5)
print({"jax", "jaxlib", "flax", "optax", "jraph", "numpy", "scipy", "pooch"} & set(sys.modules))
"""
    assert run(code) == "set()"
