"""Weight of the project: syntax, compiled programs and seconds, each beside its aim."""

import ast
import dataclasses
import importlib
import inspect
import io
import math
import os
import pkgutil
import resource
import subprocess
import sys
import tempfile
import time
import tokenize
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd

import ldp_jax as ldp
from experiments import _declared
from experiments._runner import DEFAULT_OUT, console
from experiments._sides import code_of, in_a_process

NAME = "weight"
ROOT = Path(__file__).parents[1]
COLUMNS, SCREEN = 100, 80
COMPILED = "/jax/core/compile/backend_compile_duration"  # JAX records it once for each XLA program
JOBS = ("private_embedding", "counts", "reports beside a panel")

LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

LONG_LINES = "lines beyond 100 columns"
DENSITY = "nodes a code line"
USED_ONCE = "private functions used once"
BUSIEST = "internal imports of the busiest module"
LONGEST = "longest signature in help()"

AIMS: dict[str, tuple[str, float, str]] = tomllib.loads(
    Path(__file__).with_name("aims.toml").read_text()
)
"""The unit of each quantity, the most that it should be, and what well-kept libraries have."""


@dataclasses.dataclass(frozen=True)
class Config:
    """Syntax, compiled programs and seconds of the project, each beside its aim.

    Size is counted in nodes of the syntax tree, without docstrings. A code line is neither blank,
    nor comment, nor docstring. The files hold what this run measured.
    """

    calls: bool = False
    """also measure a first, a changed and a warm call of three jobs on debian: about two minutes"""
    suite: bool = False
    """also time the test suite, the demo and audit --quick, with an empty compilation cache: about
    half an hour
    """
    out: Path = DEFAULT_OUT
    """where weight.csv, weight.md and the manifest go"""


def main(config: Config) -> None:
    parts = count_parts(ROOT)
    found = {f"{part}: {name}": value for part in parts for name, value in parts[part].items()}
    found["README"] = len((ROOT / "README.md").read_text().splitlines())

    lengths = [help_lines(function) for function in public_functions()]
    found[f"ldp_jax: {LONGEST}"] = max(lengths)
    found["ldp_jax: signatures of more than 8 lines in help()"] = sum(x > 8 for x in lengths)

    _declared.measured(config.out, NAME, _frames(config, found))


def _frames(config: Config, found: dict[str, float]) -> Iterator[pd.DataFrame]:
    """The quantities as their jobs end, each of which takes minutes."""
    yield _framed(found)
    jobs: list[Callable[[], dict[str, float]]] = []
    if config.calls:
        jobs += [partial(measure_calls, job) for job in JOBS]
    with tempfile.TemporaryDirectory() as out:
        if config.suite:
            into = ("--out", out)
            jobs += [
                partial(time_command, "test suite", "pytest", "-q"),
                partial(time_command, "demo", "experiments", "demo", *into),
                partial(time_command, "audit --quick", "experiments", "audit", "--quick", *into),
            ]
        for job in jobs:
            found |= job()
            yield _framed(found)


def _framed(found: Mapping[str, float]) -> pd.DataFrame:
    return pd.DataFrame(
        [(name, value, *AIMS.get(name, ("", math.nan, ""))[:2]) for name, value in found.items()],
        columns=["quantity", "value", "unit", "aim"],
    )


def prepared(frame: pd.DataFrame) -> pd.DataFrame:
    """Quantities with what others have, whether the aim is reached, and the part that they are of.

    Quantities that no part has have the part "".
    """
    part, _, count = zip(*(name.partition(": ") for name in frame.quantity), strict=True)
    whole = count_module("").keys() - {"private functions", "code lines"} | {DENSITY, BUSIEST}
    return frame.fillna({"unit": ""}).assign(
        others=[AIMS.get(name, ("", math.nan, ""))[2] for name in frame.quantity],
        reached=np.where(frame.value > frame.aim, "no", "yes"),
        part=[one if name in whole else "" for one, name in zip(part, count, strict=True)],
        count=count,
    )


def count_parts(root: Path) -> dict[str, dict[str, float]]:
    """Count the library, each of its rooms, the experiments and the tests; nothing is run."""
    rooms = sorted(path.parent for path in (root / "ldp_jax").glob("*/__init__.py"))
    folders = [root / "ldp_jax", *rooms, root / "experiments", root / "tests"]
    return {
        str(folder.relative_to(root)): count_files(sorted(folder.rglob("*.py")))
        for folder in folders
    }


def count_files(paths: Iterable[Path]) -> dict[str, float]:
    """The quantities of some modules together."""
    total: Counter[str] = Counter()
    busiest = 0
    for path in paths:
        text = path.read_text()
        total.update(count_module(text))
        if path.name != "__init__.py":  # which only passes names on
            busiest = max(busiest, internal_imports(ast.parse(text)))
    private = max(total.pop("private functions"), 1)
    code = max(total.pop("code lines"), 1)
    return {
        **total,
        DENSITY: round(total["nodes"] / code, 2),
        USED_ONCE: round(100 * total[USED_ONCE] / private, 1),
        BUSIEST: busiest,
    }


def count_module(text: str) -> dict[str, int]:
    """The quantities of one module that add up over modules."""
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    documented = [
        node for node in nodes if isinstance(node, DOCUMENTED) and ast.get_docstring(node)
    ]
    docstrings = {line for node in documented for line in lines_of(node.body[0])}
    code = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in LAYOUT:
            code.update(range(token.start[0], token.end[0] + 1))

    syntax = [node for node in nodes if not isinstance(node, ast.expr_context)]
    packed = [values for node in nodes if (values := packed_values(node))]
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    functions = [node.name for node in nodes if isinstance(node, ast.FunctionDef)]
    private = [name for name in functions if name.startswith("_") and not name.startswith("__")]
    uses = Counter(node.id for node in nodes if isinstance(node, ast.Name))
    uses.update(node.attr for node in nodes if isinstance(node, ast.Attribute))
    return {
        "nodes": len(syntax) - 2 * len(documented),  # a docstring is an expression and its constant
        "code lines": len(code - docstrings),
        LONG_LINES: sum(len(line) > COLUMNS for line in text.splitlines()),
        "packed assignments": len(packed),
        "packed assignments of unlike things": sum(len(set(map(shape, x))) > 1 for x in packed),
        "NamedTuples": sum("NamedTuple" in map(ast.unparse, node.bases) for node in classes),
        "raises": sum(isinstance(node, ast.Raise) for node in nodes),
        "private functions": len(private),
        USED_ONCE: sum(uses[name] == 1 for name in private),
    }


def lines_of(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def packed_values(node: ast.AST) -> list[ast.expr]:
    """The values of ``a, b = f(x), g(y)``; empty for any other node."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            starred = any(isinstance(each, ast.Starred) for each in (*targets, *values))
            return [] if starred else values
    return []


def shape(value: ast.expr) -> str:
    """The kind of an expression; calls of one function are of one kind."""
    match value:
        case ast.Call(func=function):
            return ast.dump(function)
        case ast.UnaryOp(operand=operand):
            return shape(operand)
        case ast.Name() | ast.Attribute():
            return "name"
    return type(value).__name__


def internal_imports(tree: ast.Module) -> int:
    """How many modules of the library a module imports, at its top or inside functions."""
    names = set()
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module)):
                names.add(module)
            case ast.Import(names=aliases):
                names.update(alias.name for alias in aliases)
    return sum(name.startswith("ldp_jax") for name in names)


def public_functions() -> list[Callable[..., Any]]:
    """Every function that a public module lists in ``__all__``."""
    found = {}
    for info in pkgutil.walk_packages(ldp.__path__, "ldp_jax."):
        if "._" in info.name:
            continue
        module = importlib.import_module(info.name)
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if inspect.isfunction(inspect.unwrap(value)):
                found[id(value)] = value
    return list(found.values())


def help_lines(function: Callable[..., Any]) -> int:
    """How many lines of a screen the signature takes in ``help()``."""
    return math.ceil(len(f"{function.__name__}{inspect.signature(function)}") / SCREEN)


def _call(job: str, data: Any, key: jax.Array, changed: bool) -> Any:
    epsilon, share, unit = (2.0, 0.2, "relationship") if changed else (1.0, 0.1, "list")
    known = np.random.default_rng(0).random(data.num_nodes) < share
    if job == "private_embedding":
        mechanism = ldp.features.HDS(epsilon, dim=data.num_features, k=20)
        return ldp.private_embedding(key, data.graph, data, mechanism, alpha=0.1, r=0.1).z
    if job == "counts":
        labels = np.where(known, data.y, -1)
        return ldp.predict_from_counts(
            key, data.graph, data.x, labels, epsilon, unit=unit
        ).log_posterior
    panel = np.flatnonzero(known)
    return ldp.predict_from_reports(
        key, data.graph, data.x, panel, data.y[panel], epsilon
    ).log_posterior


def measure_calls(job: str) -> dict[str, float]:
    environment = {"JAX_ENABLE_COMPILATION_CACHE": "false", "JAX_PLATFORMS": "cpu"}
    return in_a_process(code_of(calls, job), what=f"{job}: not measured", environment=environment)


def calls(job: str) -> dict[str, float]:
    """Seconds of the calls of a job in this process; imports and data are loaded before."""
    data = ldp.load("debian")
    programs = []
    found = {}
    for name in ldp.__all__:
        getattr(ldp, name)  # imported on first use
    listen = jax.monitoring.register_event_duration_secs_listener
    listen(lambda event, *_, **__: programs.append(event) if event == COMPILED else None)
    for call, seed, changed in (
        ("first call", 0, False),
        ("new arguments", 1, True),
        ("warm call", 2, False),
    ):
        key = jax.block_until_ready(jax.random.key(seed))  # which is JAX's own
        before = len(programs)
        start = time.process_time()
        jax.block_until_ready(_call(job, data, key, changed))
        found[f"{job}: {call}"] = round(time.process_time() - start, 2)
        found[f"{job}: {call}, compiled"] = len(programs) - before
    return found


def time_command(name: str, *words: str) -> dict[str, float]:
    """Wall and CPU seconds of ``python -m`` and its children, from an empty compilation cache."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": cache}
        done = subprocess.run(
            [sys.executable, "-m", *words], cwd=ROOT, env=environment, check=False
        )
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        console.print(f"[bold red]{name}: exit code {done.returncode}; the run may be incomplete")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {name: round(wall, 1), f"{name}, CPU": round(cpu, 1)}
