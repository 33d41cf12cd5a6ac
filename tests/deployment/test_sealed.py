"""What a device is shipped, as bytes: damage of any kind is refused, in what is public too."""

import hashlib

import numpy as np
import pytest

from ldp_jax import deployment
from ldp_jax.core.checksum import sealed
from ldp_jax.deployment import Alphabet, Classifier, Question
from tests.deployment.vectors import SECOND

_WEIGHTS = np.float32([[1.0, -0.5], [0.25, 2.0]])
SHIPPED = {
    "table": SECOND,
    "question": Question(3, [0, 1, -1, 1], num_groups=2, epsilon=1.0, most=20),
    "alphabet": Alphabet((1, 0), 1.0, deployment.alphabet_table(1.0, 2, 3)),
    "classifier": Classifier(_WEIGHTS, np.zeros(2)),
    "network": Classifier(_WEIGHTS, np.ones(2), layers=((_WEIGHTS, np.zeros(2)),)),
}
every = pytest.mark.parametrize("name", SHIPPED)


def refused(name, data):
    try:
        type(SHIPPED[name]).from_bytes(data)
    except ValueError:
        return True
    return False


@every
@pytest.mark.parametrize(
    "values", [[0, 1, 255], pytest.param(range(256), marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_every_changed_byte_and_cut_is_refused(name, values):
    """Other values of every byte, single flipped bits among them; every cut, and bytes put behind."""
    data = SHIPPED[name].to_bytes()
    assert type(SHIPPED[name]).from_bytes(data).to_bytes() == data
    changed = [
        data[:at] + bytes([byte]) + data[at + 1 :]
        for at in range(len(data))
        for byte in {*values, data[at] ^ 1 << at % 8} - {data[at]}
    ]
    cut = [
        part for at in range(len(data)) for part in (data[:at], data[:at] + data[at + 1 :], data[at:] + data[:at])
    ][1:]
    kept = [
        part for part in [*changed, *cut, data + b"\0", data + data] if part != data and not refused(name, part)
    ]
    assert not kept
    assert any(not refused(name, sealed(part[:-8])) for part in changed)  # the checksum is what is refused


@every
def test_versions_without_a_checksum_are_refused_in_a_sentence(name):
    data = SHIPPED[name].to_bytes()
    kind, old = data.split(b" ", 1)[0].decode().removeprefix("ldp-"), data[:-8].replace(b" 2\n", b" 1\n")
    old = old.replace(b" 3\n", b" 2\n")
    with pytest.raises(ValueError, match=f"not a {kind} .*; version . has no checksum: have it sent anew"):
        type(SHIPPED[name]).from_bytes(old)


@pytest.mark.parametrize("name", ["table", "question"])
def test_a_digest_is_of_the_bytes_of_version_1(name):
    """A device that is updated draws the words that it drew, and knows what it released."""
    data = SHIPPED[name].to_bytes()[:-8].replace(b" 2\n", b" 1\n", 1)
    assert SHIPPED[name].digest == hashlib.sha256(data).digest()
