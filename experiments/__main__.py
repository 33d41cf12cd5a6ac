"""``python -m experiments``: one sub-command an experiment, and a few about all of them."""

import contextlib
import errno
import io
import itertools
import os
import re
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn, Union

import tyro

from experiments import catalogue, report, reproduce
from experiments._registry import EXPERIMENTS
from experiments._runner import UsageError, check_out

COMMANDS: dict[str, tuple[type, Any]] = {
    "list": (catalogue.List, catalogue.list_all),
    "show": (catalogue.Show, catalogue.show),
    **{name: (experiment.module.Config, experiment.module.main) for name, experiment in EXPERIMENTS.items()},
    "report": (report.Config, report.main),
    "reproduce": (reproduce.Config, reproduce.main),
}
"""The class of a command's words, and what runs it."""


def main(words: Sequence[str] | None = None) -> None:
    """Parse the command line and run one command.

    What cannot be done is one line and exit code 2; Ctrl-C says what is kept, and ends with exit code 130.
    """
    named = tuple(Annotated[kind, tyro.conf.subcommand(name)] for name, (kind, _) in COMMANDS.items())
    union: Any = Union
    words = sys.argv[1:] if words is None else list(words)
    if "--out=" in words or ("--out", "") in itertools.pairwise(words):
        _end("--out must name a folder, got an empty word")
    config = _parsed(union[named], words)
    run = next(run for kind, run in COMMANDS.values() if type(config) is kind)
    try:
        if hasattr(config, "out"):
            check_out(config.out)  # before minutes of computing, not after them
            _prepare_device()
        run(config)
    except UsageError as error:
        _end(str(error))
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        where = f" on the disk of {config.out}" if hasattr(config, "out") else ""
        _end(f"no space left{where}: what was written whole is kept; make room, and the same command goes on")
    except KeyboardInterrupt as stopped:
        kept = str(stopped) or "files that were written whole are kept; the same command begins anew"
        print(f"interrupted: {kept}", file=sys.stderr)
        sys.exit(130)


def _end(said: str) -> NoReturn:
    print(f"error: {' '.join(said.split())}", file=sys.stderr)
    sys.exit(2)


def _parsed(union: Any, words: Sequence[str]) -> Any:
    """The configuration that the words name; a mistake in them is told in one line, not in the parser's box."""
    with contextlib.redirect_stderr(io.StringIO()) as box:
        try:
            return tyro.cli(union, prog="python -m experiments", description=_ABOUT, args=words)
        except SystemExit as stopped:
            if stopped.code in (0, None):
                raise
    plain = re.sub(r"\x1b\[[0-9;]*m", "", box.getvalue())  # a terminal is sent colours
    _, *lines = (line.strip("│ ") for line in plain.strip("\n").splitlines())  # a title, and a box of either kind
    inside = itertools.dropwhile(lambda line: not line.strip("-─"), lines)
    about = " ".join(itertools.takewhile(lambda line: line.strip("-─╰╯"), inside))
    command = next((word for word in words if word in COMMANDS), "")
    if not command and "{list" not in about:
        about += f"; commands are {', '.join(COMMANDS)}"
    _end(f"{about.rstrip('.')}; python -m experiments {command}{' ' * bool(command)}--help says what there is")


_ABOUT = """\
The papers' experiments. Results go to results/ in the working directory, or where --out says; the committed ones,
in experiments/results, are only read. Compiled programs are kept in ~/.cache/ldp_jax, or where
JAX_COMPILATION_CACHE_DIR says; JAX_ENABLE_COMPILATION_CACHE=0 keeps none."""


def _prepare_device() -> None:
    """Keep compiled programs on disk, and find out whether the device that the environment asks for is there.

    Raises:
      UsageError: where there is none.
    """
    import jax

    from ldp_jax.core.compilation import compilation_cache

    compilation_cache()
    try:
        jax.devices()
    except (RuntimeError, AssertionError) as error:  # which of them depends on what JAX has been installed with
        asked = os.environ.get("JAX_PLATFORMS", "")
        said = str(error).split("\n")[0] or "JAX finds none"
        raise UsageError(f"JAX_PLATFORMS={asked}: no such device here ({said})") from error


if __name__ == "__main__":
    main()
