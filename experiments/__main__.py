"""``python -m experiments``.

A chosen command imports its experiment, ``--help`` and ``list`` import none.
"""

import contextlib
import errno
import io
import itertools
import os
import re
import sys
import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, NoReturn
from unittest.mock import patch

from experiments._registry import EXPERIMENTS, module
from experiments._runner import Grid, UsageError, check_out

PROG = "python -m experiments"


class Command(NamedTuple):
    """A sentence on it, and where its options and its function are."""

    about: str
    module: str
    config: str = "Config"
    function: str = "main"

    def load(self) -> tuple[type, Callable[[Any], None]]:
        """The class of its options, and the function that takes them."""
        found = module(self.module)
        return getattr(found, self.config), getattr(found, self.function)


COMMANDS = {
    "list": Command(
        "All experiments, their committed rows, how long these took.",
        "catalogue",
        "List",
        "list_all",
    ),
    "show": Command(
        "The committed tables of an experiment; nothing is computed.", "catalogue", "Show", "show"
    ),
    **{name: Command(experiment.about, name) for name, experiment in EXPERIMENTS.items()},
    "report": Command("Tables and figures of the rows in a folder.", "findings"),
    "reproduce": Command(
        "Run an experiment, compare it with the committed rows, write a web page.", "reproduce"
    ),
}

_ABOUT = """\
The papers' experiments. Results go to results/ in the working directory, or where --out says; the
committed ones, in experiments/results, are only read. Graphs are downloaded, or read from the
folder that LDP_JAX_DATA names. Compiled programs are kept in ~/.cache/ldp_jax, or where
JAX_COMPILATION_CACHE_DIR says; JAX_ENABLE_COMPILATION_CACHE=0 keeps none."""


def main(words: Sequence[str] | None = None) -> None:
    """Run one command.

    A mistake is one line and exit code 2, Ctrl-C says what is kept and exits with 130.
    """
    name, *rest = (sys.argv[1:] if words is None else list(words)) or [""]
    if name in ("-h", "--help"):
        print(_help())
        sys.exit(0)
    if name == "--version":
        import ldp_jax

        print(f"ldp_jax {ldp_jax.__version__}")
        sys.exit(0)
    if name not in COMMANDS:
        _end(
            f"{name or 'no command'}: commands are {', '.join(COMMANDS)}; {PROG} --help says what "
            "there is"
        )
    if "--out=" in rest or ("--out", "") in itertools.pairwise(rest):
        _end("--out must name a folder, got an empty word")
    kind, run = COMMANDS[name].load()
    for option, after in itertools.pairwise(
        [*rest, "--"]
    ):  # an unset variable of a shell is no word
        takes = (
            getattr(kind, option[2:].replace("-", "_"), None) if option.startswith("--") else None
        )
        if isinstance(takes, tuple) and after.startswith("--") and after != "--help":
            _end(f"{option} needs at least one word; {PROG} {name} --help says what there is")
    config = _parsed(kind, name, rest)
    try:
        if isinstance(config, Grid):
            config.check_grid()
        if hasattr(config, "out"):
            check_out(config.out)  # before minutes of computing, not after them
            _prepare_device(alone=not getattr(config, "cluster", ""))
        run(config)
    except UsageError as error:
        _end(str(error))
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        where = f" on the disk of {config.out}" if hasattr(config, "out") else ""
        _end(
            f"no space left{where}: what was written whole is kept; make room, and the same "
            "command goes on"
        )
    except KeyboardInterrupt as stopped:
        kept = (
            str(stopped) or "files that were written whole are kept; the same command starts over"
        )
        print(f"interrupted: {kept}", file=sys.stderr)
        sys.exit(130)


def _help() -> str:
    lines = [f"  {name:12}{command.about}" for name, command in COMMANDS.items()]
    about = textwrap.fill(_ABOUT, 100)
    return "\n".join([f"usage: {PROG} COMMAND [--help]", "", about, "", *lines])


def _end(message: str) -> NoReturn:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(2)


def _parsed(kind: type, name: str, words: Sequence[str]) -> Any:
    """The configuration that the words name.

    Help fits a screen, and a mistake is one line in place of a box.
    """
    import tyro

    wide = patch.dict(os.environ, COLUMNS="1000")
    with (
        wide,
        contextlib.redirect_stdout(io.StringIO()) as shown,
        contextlib.redirect_stderr(io.StringIO()) as box,
    ):
        try:
            return tyro.cli(kind, prog=f"{PROG} {name}", args=words)
        except SystemExit as stopped:
            code = stopped.code
    helped, text = (
        re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()) for out in (shown, box)
    )  # a terminal has colours
    if code in (0, None):
        print(_short(helped))
        sys.exit(0)
    _, *lines = (
        line.strip("│ ") for line in text.strip("\n").splitlines()
    )  # a title, and a box of either kind
    inside = itertools.dropwhile(lambda line: not line.strip("-─"), lines)
    about = " ".join(itertools.takewhile(lambda line: line.strip("-─╰╯"), inside))
    _end(f"{about.rstrip('.')}; {PROG} {name} --help says what there is")


_OF_GRIDS = ("--share", "--cluster", "--cost", "--out")
"""What all experiments have comes last in their help."""


def _short(text: str) -> str:
    """Tyro's help with a paragraph an option, in which nothing is said twice.

    At most 30 lines of 100 columns.
    """
    text = text.replace("``", "`").replace("{None}|", "")
    usage, *about = re.split(r"\n *\n", re.sub(r"^ .*\n?", "", text, flags=re.MULTILINE).strip())
    options = []
    for entry in re.findall(r"^  (?!-h)(\S.*(?:\n {4}.*)*)", text, re.MULTILINE):
        option, words = re.split(r"\s{2,}", entry, maxsplit=1)
        option = re.sub(r"\[(\S+|\{.*?\}) \[.*?\.\.\.\]\]", r"\1 ...", option)
        words = re.sub(r" \(default: (None|False|''|)\)", "", " ".join(words.split()))
        choices = re.search(r"\{(.*?)\}", option)
        if choices:
            words = words.replace(f"(default: {choices[1].replace(',', ' ')})", "(default: all)")
        options.append(f"  {re.sub(',(?! )', ', ', option)}  {words}")
    options.sort(key=lambda option: option.split()[0].rstrip(",") in _OF_GRIDS)
    fill = partial(textwrap.fill, width=100, break_on_hyphens=False)
    indented = [fill(option, subsequent_indent=" " * 6) for option in options]
    return "\n".join([fill(usage), "", *map(fill, about), "", *indented])


def _prepare_device(*, alone: bool) -> None:
    """Keep compiled programs on disk, and check that JAX finds the device that was asked for.

    Unless it works ``alone``, this process leaves the GPUs to its workers.
    """
    import jax

    from ldp_jax.core.compilation import compilation_cache

    compilation_cache()
    if not alone:
        jax.config.update("jax_platforms", "cpu")
    try:
        jax.devices()
    except (
        RuntimeError,
        AssertionError,
    ) as error:  # which of them depends on what JAX has been installed with
        asked = os.environ.get("JAX_PLATFORMS", "")
        reason = str(error).split("\n")[0] or "JAX finds none"
        raise UsageError(f"JAX_PLATFORMS={asked}: no such device here ({reason})") from error


if __name__ == "__main__":
    main()
