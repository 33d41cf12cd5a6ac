"""What does the project weigh? Lines, names, compiled programs and seconds, each beside its aim."""

import ast
import dataclasses
import importlib.util
import io
import os
import resource
import subprocess
import sys
import tempfile
import time
import tokenize
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd

import ldp_jax as ldp
from experiments._report import markdown, terminal
from experiments._runner import DEFAULT_OUT, console, write_tables
from experiments._sides import code_of, in_a_process

NAME = "weight"
ROOT = Path(__file__).parents[1]
MOST_LINES, MOST_PARAMETERS = 60, 8
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPILED = "/jax/core/compile/backend_compile_duration"  # JAX records it once for each XLA program
JOBS = ("private_embedding", "counts", "reports beside a panel")

AIMS: dict[str, tuple[str, float]] = {
    "ldp_jax: code": ("lines", 15_000), "ldp_jax: docstrings": ("lines", 8_000),
    "experiments: all lines": ("lines", 10_000), "tests: all lines": ("lines", 18_000),
    "exported names: all __all__": ("names", 450), "exported names: ldp_jax itself": ("names", 24),
    "lines with Any": ("lines", 200), "underscore imports across packages": ("names", 0),
    "long or wide functions": ("functions", 10),
    "README": ("lines", 220), "README: first Python block": ("line", 29),
    "private_embedding: first call": ("CPU s", 1.5), "private_embedding: first call, compiled": ("programs", 4),
    "private_embedding: new arguments, compiled": ("programs", 0),
    "counts: first call": ("CPU s", 10), "counts: first call, compiled": ("programs", 15),
    "counts: new arguments, compiled": ("programs", 0), "counts: warm call": ("CPU s", 3),
    "reports beside a panel: first call": ("CPU s", 10),
    "reports beside a panel: first call, compiled": ("programs", 20),
    "reports beside a panel: new arguments, compiled": ("programs", 0),
    "test suite": ("s", 480), "test suite, CPU": ("CPU s", 900),
    "demo": ("s", 60), "demo, CPU": ("CPU s", 100), "audit --quick": ("s", 60),
}  # fmt: skip
"""The unit of each quantity, and the most that it should be."""


@dataclasses.dataclass(frozen=True)
class Config:
    """Lines, names, compiled programs and seconds of the project, each beside its aim.

    Counting takes seconds and runs nothing. A code line is neither blank, nor comment, nor
    docstring. A long function has more than 60 code lines, a wide one more than 8 parameters. The
    files hold what this run measured.
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
    found = count(ROOT)
    for job in JOBS if config.calls else ():
        found |= measure_calls(job)
    if config.suite:
        with tempfile.TemporaryDirectory() as out:
            found |= time_command("test suite", "pytest", "-q")
            found |= time_command("demo", "experiments", "demo", "--out", out)
            found |= time_command("audit --quick", "experiments", "audit", "--quick", "--out", out)
    rows = [(name, found[name], unit, aim) for name, (unit, aim) in AIMS.items() if name in found]
    frame = pd.DataFrame(rows, columns=["quantity", "value", "unit", "aim"])
    header = [*frame.columns, "reached"]
    lines = [
        [name, f"{v:,.6g}", unit, f"{aim:,g}", "yes" if v <= aim else "no"]
        for name, v, unit, aim in rows
    ]
    console.print(terminal(header, lines, "what the project weighs"))
    write_tables(config.out, NAME, frame, markdown(header, lines))
    console.print(f"rows: {config.out / f'{NAME}.csv'}", soft_wrap=True)


def count(root: Path) -> dict[str, float]:
    """The quantities that the files of a working tree show; nothing of the tree is run."""
    modules = {path: path.read_text() for path in (root / "ldp_jax").rglob("*.py")}
    trees = {path: ast.parse(text) for path, text in modules.items()}
    kinds = {path: line_kinds(text) for path, text in modules.items()}
    exported = {path: exported_names(tree) for path, tree in trees.items()}
    crossing = [
        name
        for path, tree in trees.items()
        for name in underscore_imports(tree, path.relative_to(root))
    ]
    large = [
        name for path, tree in trees.items() for name in large_functions(tree, kinds[path]["code"])
    ]
    others = {
        part: [path.read_text() for path in (root / part).rglob("*.py")]
        for part in ("experiments", "tests")
    }
    readme = (root / "README.md").read_text().splitlines()
    blocks = [number for number, line in enumerate(readme, 1) if line.startswith("```python")]
    return {
        "ldp_jax: code": sum(len(kind["code"]) for kind in kinds.values()),
        "ldp_jax: docstrings": sum(len(kind["docstring"]) for kind in kinds.values()),
        "experiments: all lines": "".join(others["experiments"]).count("\n"),
        "tests: all lines": "".join(others["tests"]).count("\n"),
        "exported names: all __all__": sum(exported.values()),
        "exported names: ldp_jax itself": exported[root / "ldp_jax/__init__.py"],
        "lines with Any": sum(len(kind["Any"]) for kind in kinds.values()),
        "underscore imports across packages": len(crossing),
        "long or wide functions": len(large),
        "README": len(readme),
        "README: first Python block": min(blocks, default=len(readme) + 1),
    }


def line_kinds(text: str) -> dict[str, set[int]]:
    """The numbers of a module's lines by kind: code, docstring, and code with the name ``Any``."""
    code, with_any, docstring = set(), set(), set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        lines = range(token.start[0], token.end[0] + 1)
        code.update(lines if token.type not in LAYOUT else ())
        with_any.update(lines if token.string == "Any" else ())
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS))
            and ast.get_docstring(node) is not None
        ):
            docstring.update(_lines_of(node.body[0]))
    return {"code": code - docstring, "docstring": docstring, "Any": with_any}


def _lines_of(node: Any) -> set[int]:
    return set(range(node.lineno, node.end_lineno + 1))


def exported_names(tree: ast.Module) -> int:
    """How many names the module's ``__all__`` lists; a list that is computed is refused."""
    kinds = (ast.Assign, ast.AugAssign, ast.AnnAssign)
    lists = [
        node
        for node in tree.body
        if isinstance(node, kinds) and ast.unparse(node).startswith("__all__")
    ]
    return sum(len(ast.literal_eval(node.value)) for node in lists if node.value)


def underscore_imports(tree: ast.Module, path: Path) -> list[str]:
    """The names that a module imports from another package, where they or their module start with an underscore."""
    here = path.with_suffix("").parts
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = importlib.util.resolve_name(
                "." * node.level + (node.module or ""), ".".join(here[:-1])
            )
            names += [f"{module}.{alias.name}" for alias in node.names]
    parts = {name: name.split(".") for name in names if name.startswith("ldp_jax.")}
    hidden = [
        name
        for name in parts
        if any(x.startswith("_") and not x.endswith("__") for x in parts[name])
    ]
    return [name for name in hidden if parts[name][1] != here[1]]


def large_functions(tree: ast.Module, code: set[int]) -> list[str]:
    """The functions with too many of the module's code lines, or too many parameters beside ``self``."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS):
            named = {
                each.arg
                for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            }
            if (
                len(code & _lines_of(node)) > MOST_LINES
                or len(named - {"self", "cls"}) > MOST_PARAMETERS
            ):
                found.append(node.name)
    return found


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
    """What the calls of a job take in this process; imports and data are loaded before."""
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
    """Wall and CPU seconds of ``python -m`` with some words, its children included, from an empty cache."""
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
        console.print(
            f"[bold red]{name}: exit code {done.returncode}; these seconds may be of an incomplete run"
        )
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {name: round(wall, 1), f"{name}, CPU": round(cpu, 1)}
