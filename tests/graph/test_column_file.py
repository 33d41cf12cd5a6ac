"""A file that grows by blocks of columns: whatever is left of it by kill -9, the next call makes the same bytes."""

import signal
import subprocess
import sys

import numpy as np
import pytest

from ldp_jax.graph._column_file import write_columns

WRITER = """
import sys
import numpy as np
from ldp_jax.graph._column_file import write_columns
rows, columns, width = map(int, sys.argv[2:])
def block(start):
    print(start, flush=True)
    return np.arange(start, start + width) * 0.5 + np.arange(rows, dtype=np.float32)[:, None]
write_columns(sys.argv[1], (rows, columns), block, width, "numbers")
"""


def expected(rows, columns):
    return (np.arange(columns) * 0.5 + np.arange(rows)[:, None]).astype(np.float32)


def write(path, rows, columns, width, made_of="numbers"):
    """The file, and where each block began that was made."""
    made, whole = [], expected(rows, columns)

    def block(start):
        made.append(int(start))
        return whole[:, start : start + width]

    return write_columns(path, (rows, columns), block, width, made_of), made


def test_kill_9_loses_the_block_in_flight_alone(tmp_path):
    """Killed at random moments, within writes of 8 MB: no call makes a block that was said to be there before."""
    rows, columns, width = 2**19, 42, 4
    path, waits = tmp_path / "z.npy", np.random.default_rng(0).uniform(0.0, 0.02, 2)
    there = 0
    for wait in waits:
        command = [sys.executable, "-c", WRITER, str(path), str(rows), str(columns), str(width)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        first = int(process.stdout.readline())
        assert first == there
        process.stdout.readline()  # the first is in the file
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(wait)
        process.send_signal(signal.SIGKILL)
        rest, _ = process.communicate(timeout=300)
        assert process.returncode == -signal.SIGKILL
        assert not path.exists()
        (part,) = tmp_path.iterdir()
        there = (part.stat().st_size - 128) // (4 * rows * width) * width
        assert there >= max([first + width, *map(int, rest.split())])
    z, made = write(path, rows, columns, width)
    assert made == [*range(there, 40, 4), 38]
    np.testing.assert_array_equal(z, expected(rows, columns))
    assert [file.name for file in tmp_path.iterdir()] == ["z.npy"]


def test_who_comes_second_takes_the_file_of_the_first(tmp_path):
    path = tmp_path / "z.npy"

    def block(start):
        if not path.exists():
            write(path, 3, 4, 2)
        return expected(3, 4)[:, start : start + 2]

    np.testing.assert_array_equal(write_columns(path, (3, 4), block, 2, "numbers"), expected(3, 4))


def test_any_beginning_of_a_file_becomes_the_same_file(tmp_path):
    """Cut after any byte; and a file that is whole is made again for other arguments alone, also under one name."""
    path = tmp_path / "z.npy"
    write(path, 3, 5, 2)
    whole = path.read_bytes()
    name = whole[128 + 60 :]
    part = path.with_name(f"z.npy.{name.hex()}.part")
    for size in range(len(whole) + 1):
        path.unlink(missing_ok=True)
        part.write_bytes(whole[:size])
        z, made = write(path, 3, 5, 2)
        assert made == [0, 2, 3][max(0, size - 128) // 24 :]
        assert path.read_bytes() == whole
        assert not part.exists()
    assert write(path, 3, 5, 2)[1] == []
    np.testing.assert_array_equal(np.load(path), expected(3, 5))
    again, made = write(path, 3, 5, 2, made_of="others")
    assert (made, path.read_bytes()[: 128 + 60]) == ([0, 2, 3], whole[: 128 + 60])
    np.testing.assert_array_equal(z, again)  # who has read the file before keeps it
