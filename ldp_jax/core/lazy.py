"""Names that a package imports on first use (PEP 562), so that naming it costs nothing. No JAX."""

import importlib
import sys
from collections.abc import Callable, Mapping


def attach(
    package: str, homes: Mapping[str, str], modules: str = ""
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Make ``__getattr__`` and ``__dir__`` of a package from the names that modules offer."""
    home = {name: module for module, names in homes.items() for name in names.split()}
    inside = {*homes, *modules.split()}

    def get(name: str) -> object:
        if name in home:
            found = getattr(importlib.import_module(f"{package}.{home[name]}"), name)
            setattr(sys.modules[package], name, found)
            return found
        if name in inside:
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get, lambda: sorted({*home, *(name for name in inside if "." not in name)})
