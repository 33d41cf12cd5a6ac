"""Which experiments there are, by name: nothing of one is imported before a command asks for it.

A new experiment is a module (of a paper: a folder) with ``Config`` (a frozen dataclass with
``out``) and ``main(config)``, and a part of
``experiments.toml``. It may have presets in
``runs.toml``, ``printed(row)`` (the paper's number) and pages of its rows, declared in its folder's
``report.toml`` or in that of this one.
"""

import importlib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from experiments._runner import Results


class Experiment(NamedTuple):
    """An experiment as the commands about experiments see it."""

    about: str
    """one sentence"""
    rows: Mapping[str, str] = {}
    """the module with ``results_in`` of its committed tidy rows, by the stem of their CSV"""
    tables: Sequence[str] = ()
    """names of the committed Markdown files"""
    takes: str = ""
    """how long it takes, where no committed row says so"""

    def results(self, out: Path) -> list[Results]:
        """Its tidy rows in a folder, a file each."""
        return [module(name).results_in(out) for name in self.rows.values()]


def _read(file: str) -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / file).read_text())


def module(name: str) -> ModuleType:
    return importlib.import_module(f"experiments.{name}")


def runs(name: str, preset: str, out: Path) -> list[Any]:
    """The configurations of a preset, to be run into a folder.

    Empty where the experiment has no such preset.
    """
    known = _read("runs.toml").get(name, {})
    groups = known.get("words", {})

    def words(given: Any) -> Any:
        if not isinstance(given, list):
            return (given,)
        meant = [groups[one[1:]] if str(one).startswith("@") else one for one in given]
        return tuple(word for one in meant for word in words(one))

    def config(given: Mapping[str, Any]) -> Any:
        made = {
            key: words(value) if isinstance(value, list) else value for key, value in given.items()
        }
        return module(name).Config(**made, out=out)

    return [config(given) for given in known.get(preset, [{}] if preset == "committed" else [])]


EXPERIMENTS = {name: Experiment(**spec) for name, spec in _read("experiments.toml").items()}
