"""Public groups: tiers by class, and merges that are what their names say."""

import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.servers.parts.groups import MERGES, TIERS, class_shares, fine_groups, merge, merged


def test_tiers_are_labelled_confident_and_rest():
    rng = np.random.default_rng(0)
    q = rng.dirichlet(np.ones(4), 101)
    labels = np.where(rng.random(101) < 0.4, rng.integers(0, 4, 101), -1)
    found = np.asarray(fine_groups(jnp.log(jnp.asarray(q, jnp.float32)), labels))
    known = labels >= 0
    np.testing.assert_array_equal(found[known], labels[known])
    height = q.max(1)
    tier = np.where(known, 0, np.where(height > np.median(height[~known]), 1, 2))
    if (~known).sum() % 2:
        np.testing.assert_array_equal(found, tier * 4 + np.where(known, labels, q.argmax(1)))
    assert abs((found // 4 == 1).sum() - (found // 4 == 2).sum()) <= 1


def test_who_has_no_confident_users():
    """Where the posterior says nothing, and where everybody is labelled."""
    found = np.asarray(fine_groups(jnp.log(jnp.full((10, 2), 0.5)), np.array([0, 1] + [-1] * 8)))
    assert found.tolist() == [0, 1] + [4] * 8
    assert np.asarray(fine_groups(jnp.zeros((4, 2)), np.array([0, 1, 1, 0]))).tolist() == [
        0,
        1,
        1,
        0,
    ]


@pytest.mark.parametrize("name", MERGES)
def test_a_merge_does_what_its_name_says(name):
    found = merge(name, 5)
    blocks = [
        block.replace("predicted", "confident + rest").split(" + ") for block in name.split(" | ")
    ]
    for tier, word in enumerate(TIERS):
        column = found[tier * 5 : tier * 5 + 5]
        at = [number for number, block in enumerate(blocks) if word in block]
        assert column.tolist() == ([at[0] * 5 + c for c in range(5)] if at else [-1] * 5)
    # Counting by merged groups and adding up counts by fine groups are the same.
    counts = np.random.default_rng(1).integers(0, 9, (6, 15))
    num_groups = 5 * len(blocks)
    wanted = np.stack([counts[:, found == k].sum(1) for k in range(num_groups)], 1)
    np.testing.assert_array_equal(merged(jnp.asarray(counts), found, num_groups), wanted)


def test_a_label_is_a_certain_class():
    found = class_shares(jnp.log(jnp.array([[0.9, 0.1], [0.3, 0.7]])), np.array([1, -1]))
    np.testing.assert_allclose(found, [[0.0, 1.0], [0.3, 0.7]], rtol=1e-6)
    with pytest.raises(ValueError, match="name must be one of labelled"):
        merge("everything", 3)
