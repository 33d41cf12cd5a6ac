"""A stranger's mechanism in the table of variances: its row, its curve, its verdict, refusals."""

import pandas as pd
import pytest

from experiments import variance
from experiments._common import own_method
from experiments._runner import UsageError
from tests.marks import untyped

STRANGER = '''
import dataclasses

from ldp_jax.accounting.guarantee import RECORD, Guarantee
from ldp_jax.core.mechanism import mechanism, static
from ldp_jax.features import Laplace


@mechanism
class Wide(Laplace):
    """Laplace noise that is ``times`` as wide as it must be."""

    times: int = static(default=2)

    @property
    def scale(self):
        return self.times * 2.0 / self.epsilon


@mechanism
class Greedy(Wide):
    def guarantee(self):
        return dataclasses.replace(super().guarantee(), epsilon=2 * float(self.epsilon))


@mechanism
class Shifted(Wide):
    def mean(self, x):
        return x + 0.1
'''


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    (tmp_path / "a_stranger.py").write_text(STRANGER)
    monkeypatch.syspath_prepend(tmp_path)


@untyped  # a stranger's file need not name types
def test_a_mechanism_of_ones_own_has_a_row_a_curve_and_a_verdict(stranger, tmp_path, capsys):
    word = "a_stranger:Wide(times=3)"
    variance.main(variance.Config((word,), points=3, out=tmp_path / "found"))
    rows = pd.read_csv(tmp_path / "found" / "variance.csv")
    table = rows.pivot_table(index="epsilon", columns="mechanism", values="worst_variance")
    assert list(rows.mechanism.unique())[-1] == word
    assert (table[word] / table.Laplace).to_numpy() == pytest.approx(9.0, rel=1e-5)
    text = (tmp_path / "found" / "variance.md").read_text()
    assert f"| {word} |" in text
    said = (tmp_path / "found" / "variance_own.md").read_text()
    assert "the claim holds as far as the tests see" in said
    assert "the claim holds" in capsys.readouterr().out


@untyped
@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("a_stranger:Greedy", "in the column of epsilon 0.25 it has"),
        ("a_stranger:Shifted", "off by 0.1"),
        ("a_stranger:Wide(1.0)", "must leave epsilon out"),
        ("a_stranger:Wide(times=3, epsilon=1.0)", "must leave epsilon out"),
        ("a_stranger:Nobody", "Nobody"),
        ("a_stranger:Guarantee", "epsilon 0.25"),
        ("no_such_module:Wide", "no_such_module"),
        ("a_stranger", "must be module:Name"),
        ("a_stranger:Wide(times=__import__('os'))", "must be module:Name"),
        ("ldp_jax.features:SquareWave", "off by"),
        ("ldp_jax.features:GeneralizedRR(categories=4)", "got Finite(0, 1, 2, 3)"),
    ],
)
def test_what_cannot_stand_in_the_table_is_refused_before_anything_is_drawn(
    stranger, tmp_path, word, why
):
    with pytest.raises(UsageError, match="--mechanisms") as told:
        variance.main(variance.Config((word,), points=3, out=tmp_path / "found"))
    assert why in str(told.value)
    assert not (tmp_path / "found").exists()


@untyped
def test_a_call_that_lacks_an_argument_takes_epsilon_first(stranger):
    assert not own_method("--mechanism", "a_stranger:Wide").complete
    lacking = own_method("--mechanism", "a_stranger:Wide(times=5)")
    assert not lacking.complete
    assert lacking.make(2.0).scale == 5.0
    whole = own_method("--mechanism", "a_stranger:Wide(2.0, times=5)")
    assert whole.complete
    assert whole.make().scale == 5.0
