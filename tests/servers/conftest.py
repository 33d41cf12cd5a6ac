"""Tables of counts that a small graph fills: a scan of 1024 steps is most of what a job on 600
users costs.
"""

from collections.abc import Iterator

import pytest

from ldp_jax.servers.parts import count_evidence


@pytest.fixture(scope="package", autouse=True)
def _small_tables() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(count_evidence, "_LEAST_SIZE", 256.0)
        yield
