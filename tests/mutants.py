"""Planted faults: each entry of ``mutants.toml`` makes the library wrong in one place, and names
tests that see it.

``python -m tests.mutants`` copies the tree, plants one fault at a time in the copy, and runs its
tests there. They must pass without the fault and fail with it; a test that could not be run has
seen nothing. ``--only WORD`` takes the entries whose name or file holds the word, ``--no-baseline``
leaves out the run without faults.
"""

import argparse
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parent.parent
PASSED, FAILED = 0, 1  # how pytest ends; any other number says that tests were not run


def say(line):
    print(line, flush=True)  # noqa: T201


def load():
    return tomllib.loads((ROOT / "tests" / "mutants.toml").read_text())["mutant"]


def planted(mutant, text):
    count = text.count(mutant["find"])
    if count != 1:
        raise ValueError(
            f"{mutant['name']}: {mutant['file']} must hold its snippet once, holds it {count} times"
        )
    return text.replace(mutant["find"], mutant["replace"])


class Copy:
    """A copy of the tree, with a cache of programs of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.edits = int(time.time())
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(
            listed, cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout.split("\0")
        for name in filter(None, names):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, folder / name)
        cache = (
            Path(os.environ.get("JAX_COMPILATION_CACHE_DIR") or folder.parent)
            / f"mutants-{folder.name}"
        )
        self.environ = {
            **os.environ,
            "PYTHONPATH": str(folder),
            "JAX_COMPILATION_CACHE_DIR": str(cache),
        }

    def write(self, name, text):
        (self.folder / name).write_text(text)
        self.edits += 10  # bytecode is told by the second of its source
        os.utime(self.folder / name, (self.edits, self.edits))

    def test(self, tests):
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-n",
            "0",
            "-p",
            "no:cacheprovider",
            *tests,
        ]
        ran = subprocess.run(
            command, cwd=self.folder, env=self.environ, capture_output=True, text=True
        )
        return ran.returncode, ran.stdout[-3000:] + ran.stderr[-1000:]

    def judge(self, mutant):
        """Seconds, and what became of the fault."""
        start = time.perf_counter()
        file = mutant["file"]
        text = (self.folder / file).read_text()
        self.write(file, planted(mutant, text))
        code, said = self.test(mutant["tests"])
        self.write(file, text)
        found = {PASSED: "SURVIVED", FAILED: "killed"}.get(code, f"NOT RUN\n{said}")
        return time.perf_counter() - start, found


def main():
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument(
        "--only", metavar="WORD", default="", help="entries whose name or file holds it"
    )
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time")
    parser.add_argument(
        "--baseline",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="run all tests first",
    )
    given = parser.parse_args()
    mutants = [
        mutant for mutant in load() if given.only in mutant["name"] or given.only in mutant["file"]
    ]
    if not mutants:
        parser.error(f"no entry's name or file holds {given.only!r}")
    for mutant in mutants:
        planted(mutant, (ROOT / mutant["file"]).read_text())
    width = max(len(mutant["name"]) for mutant in mutants)
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as temporary:
        copies = [Copy(Path(temporary) / str(place)) for place in range(given.jobs)]
        if given.baseline:
            code, said = copies[0].test(
                list(dict.fromkeys(test for mutant in mutants for test in mutant["tests"]))
            )
            if code != PASSED:
                sys.exit(f"{said}\nthe tests must pass without a fault")
            say(f"{'without a fault':{width}}  passed    {time.perf_counter() - begin:6.1f} s")
        free = queue.SimpleQueue()
        for copy in copies:
            free.put(copy)

        def judge(mutant):
            copy = free.get()
            seconds, found = copy.judge(mutant)
            free.put(copy)
            say(f"{mutant['name']:{width}}  {found:8}  {seconds:6.1f} s")
            return found

        with ThreadPoolExecutor(given.jobs) as pool:
            found = list(pool.map(judge, mutants))
    killed = found.count("killed")
    say(f"{killed} of {len(found)} killed in {time.perf_counter() - begin:.0f} s")
    sys.exit(killed < len(found))


if __name__ == "__main__":
    main()
