"""The README's Python runs as it stands, block after block."""

import re
from pathlib import Path

import pytest

BLOCKS = re.findall(r"```python\n(.*?)```", (Path(__file__).parents[1] / "README.md").read_text(), re.DOTALL)


@pytest.mark.slow
@pytest.mark.usefixtures("untyped")
def test_every_block_runs():
    names = {}
    for block in BLOCKS:
        exec(block, names)
    assert names["embedding"].z.shape == (4, 16)
    assert names["classes"].shape == (names["data"].num_nodes,)
    assert names["verdict"]
    assert sum(names["decoded"].rejected) == 0
