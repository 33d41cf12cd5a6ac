"""The README's Python runs as it stands, block after block."""

import pytest

from tests.pages import code


@pytest.mark.slow
@pytest.mark.usefixtures("untyped")
def test_every_block_runs():
    names = {}
    for block in code("README.md"):
        exec(block, names)
    assert names["embedding"].z.shape == (4, 16)
    assert names["classes"].shape == (names["data"].num_nodes,)
    assert names["verdict"]
