"""Tuning: what is chosen, and that every report that was asked for is counted, once."""

import jax
import pandas as pd
import pytest

from experiments import tune
from experiments._runner import UsageError
from experiments.privge import cells

pytest.importorskip("optuna", reason="optuna is not installed: the extra tune")


@pytest.fixture
def asked(monkeypatch):
    """The noise keys of all embeddings; validation likes a small alpha."""
    keys = []
    monkeypatch.setattr(cells, "embed", lambda bench, made: keys.append((made.k, bench.noise_key)))
    monkeypatch.setattr(cells, "train", lambda bench, *_: cells.Score({"accuracy": 0.25}, 1 - bench.settings.alpha))
    return keys


def config(graph_file, out, **changes):
    return tune.Config(**{"datasets": (str(graph_file),), "trials": 6, "out": out, **changes})


def noise(key):
    return jax.random.key_data(key).tobytes()


def test_reports_are_paid_for_once_up_to_a_total_and_the_best_is_of_validation(asked, graph_file, tmp_path, capsys):
    tune.main(config(graph_file, tmp_path, total=2.0))
    rows, printed = pd.read_csv(tmp_path / "tune.csv"), capsys.readouterr().out
    ended, ks = rows[rows.state == "complete"], {k for k, _ in asked}
    assert len(ks) == 2 < len(asked) == len(ended) < len(rows) == 6
    assert len({noise(key) for _, key in asked}) == len({(k, noise(key)) for k, key in asked}) == len(ks)
    assert list(rows.epsilon_total)[-1] == rows.epsilon_total.max() == (rows.reports == "new").sum() == 2
    assert set(rows[rows.state == "pruned"].reports) == {"none"}  # a third k would cost more
    assert "spent epsilon 2 " in printed
    assert f"trial {ended.alpha.idxmin()}, in test 0.25" in printed
    assert "NOT protected: edges, labels" in printed
    assert "test" not in rows.columns  # nothing to choose by


def test_a_killed_study_goes_on_and_fresh_reports_add_up_with_its_own(asked, graph_file, tmp_path, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    here = config(graph_file, tmp_path, fresh=True, trials=2)
    with monkeypatch.context() as patched:
        patched.setattr(cells, "train", killed)
        with pytest.raises(KeyboardInterrupt):
            tune.main(here)
    tune.main(here)
    rows = pd.read_csv(tmp_path / "tune.csv")
    assert list(rows.state) == ["fail", "complete", "complete"]
    assert list(rows.epsilon_total) == [1, 2, 3]
    tune.main(here)
    assert len(asked) == len({noise(key) for _, key in asked}) == 3  # nothing is left to do
    with pytest.raises(UsageError, match="--total 2: the reports of this study cost more"):
        tune.main(config(graph_file, tmp_path, fresh=True, trials=2, total=2.0))
