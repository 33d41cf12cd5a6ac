"""The script that solves the programs whose tables the package ships."""

import numpy as np

from experiments import build_lp_optimal
from ldp_jax.core.integer_tables import Table


def test_a_table_is_written_as_the_package_ships_it(tmp_path):
    build_lp_optimal.main(tmp_path / "made.npz", (5.0,))
    with np.load(tmp_path / "made.npz") as made:
        (name,) = made.files
        table = Table.from_bytes(made[name].tobytes())
    assert name == "5"
    assert (table.name, table.inputs) == ("LPOptimal", 11)
    assert 4.95 < table.epsilon <= 5.0
