"""The audit: it covers everything that is exported, fails when a claim fails, and goes on where it
was killed.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from experiments import audit, power, variance
from experiments._published import PrintedHyperbolicGaussian
from ldp_jax import edges, features, verification
from ldp_jax.core.pytree import pytree
from ldp_jax.verification.cases import CASES
from tests import broken
from tests.marks import untyped

CONFIG = audit.Config(quick=True)
CONFIDENCE = 1 - 1e-6


@pytest.fixture
def undrawn(monkeypatch):
    """No figure, of which one test looks at the file."""
    monkeypatch.setattr(audit, "plot", lambda report, spec: None)


def only(monkeypatch, **subjects):
    monkeypatch.setattr(audit, "SUBJECTS", subjects)
    monkeypatch.setattr(audit, "CENTRAL", {})


def test_every_exported_mechanism_and_curator_is_audited():
    """The contract suites hold the cases against what the rooms export."""
    for subjects, central in ((audit.SUBJECTS, False), (audit.CENTRAL, True)):
        named = {subject.public for subject in subjects.values() if subject.sound}
        assert named == {case.public for case in CASES.values() if case.central == central}


def test_curators_are_enumerated_and_published_forms_are_seen(
    tmp_path, monkeypatch, capsys, undrawn
):
    """Enumeration alone, at epsilon 1: draws are asked in the contract suite. A claim that is too
    small fails.
    """
    monkeypatch.setattr(audit._central_audit, "DRAWN", ())
    monkeypatch.setattr(audit, "SUBJECTS", {"Duchi": audit.SUBJECTS["Duchi"]})
    audit.main(audit.Config(quick=True, out=tmp_path))
    text = (tmp_path / "audit_quick.md").read_text()
    assert "| sound | EdgeRand | proved | pairs | 1 |" in text
    claim = "none; in the limit where chains agree"
    assert f"| sound | EdgeRR | {claim} | dendrogram and noisy counts | 0.7511 |" in text
    printed = "EdgeRR's printed scale and counts"
    assert f"| published | {printed} | none | dendrogram and noisy counts | 2.642 |" in text
    rows = pd.read_csv(tmp_path / "audit_quick.csv")
    assert set(rows[rows.mechanism == "EdgeRand"].unit) == {"edge-central"}
    monkeypatch.setattr(
        audit, "CENTRAL", {"overspent": audit.Subject("EdgeRand", broken.OverspentCurator)}
    )
    with pytest.raises(SystemExit):
        audit.main(audit.Config(quick=True, out=tmp_path))
    assert "overspent at epsilon 1: loses 1.05 for an edge" in " ".join(
        capsys.readouterr().out.split()
    )


def test_it_writes_its_files_and_passes(tmp_path, monkeypatch):
    few = ("Duchi", "Generalised RR, 8", "Duchi, d = 4, ties twice")
    only(monkeypatch, **{name: audit.SUBJECTS[name] for name in few})
    config = audit.Config(quick=True, out=tmp_path)
    monkeypatch.setattr(audit, "QUICK", (1.0, *audit.ABOVE))
    audit.main(config)
    rows = pd.read_csv(tmp_path / "audit_quick.csv")
    assert set(rows.mechanism) == set(audit.SUBJECTS)
    assert {"claimed", "supremum", "lower_bound", "fit", "defect"} <= set(rows.metric)
    assert {"arithmetic", "refused"} <= set(rows.metric)
    assert not {"distinct", "windows", "drawn_loss", "records", "impossible", "variance"} & set(
        rows.metric
    )
    assert set(rows[rows.metric == "arithmetic"].epsilon) == set(audit.ABOVE)
    text = (tmp_path / "audit_quick.md").read_text()
    assert "| Duchi, d = 4, ties twice | ideal | 1.313 |" in text
    assert "| published | Duchi, d = 4, ties twice | 0." in text
    assert "quick: epsilon 1 alone, 20000 draws a record. The smallest defect" in text
    assert (tmp_path / "audit_quick.png").stat().st_size > 10_000
    # A second run computes nothing.
    monkeypatch.setattr(audit, "examine", None)
    audit.main(config)
    asked = []  # unless it is quick, all is asked
    monkeypatch.setattr(audit, "examine", lambda *_, whole: asked.append(whole) or {"seconds": 0.0})
    results = audit.results_in(tmp_path / "whole")
    audit._ask_all(audit.Config(), results, (1.0,))
    assert asked == [True] * len(audit.SUBJECTS)


def test_words_are_asked_where_draws_cannot_tell(tmp_path, monkeypatch, capsys, undrawn):
    """A rare sign that one float32 uniform loses from epsilon 16.64 on, and that every other figure
    passes.

    A claim that fails ends the audit with 1.
    """
    assert (
        audit.examine(audit.SUBJECTS["LP-optimal"], 16.0, jax.random.key(0), CONFIG, CONFIDENCE)
        == {}
    )  # refused
    only(monkeypatch, **{"float32": audit.Subject("Duchi", broken.FloatDuchi)})
    monkeypatch.setattr(audit, "QUICK", (1.0, *audit.ABOVE))
    with pytest.raises(SystemExit) as stopped:
        audit.main(audit.Config(quick=True, out=tmp_path))
    assert stopped.value.code == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "float32 at epsilon 17: loses inf in the words that it draws" in printed
    assert "float32 at epsilon 1:" not in printed
    assert "| inf | inf |" in (tmp_path / "audit_quick.md").read_text()
    table = audit.Subject("GeneralizedRR", lambda e: features.GeneralizedRR(e, 8))
    kept = audit.above(table, 17.0)
    refused = audit.above(table, 30.0)
    assert kept["arithmetic"] <= 17.0
    assert refused["refused"] == 1.0
    assert "arithmetic" not in refused


def test_an_edge_is_enumerated():
    """One reporting after another; a claim of half of it fails the audit."""
    found = audit._relationships(edges.DPRR(0.1, 0.9, n=6))
    assert found["relationship"] == pytest.approx(1.0)
    assert [found[f"relationship {p}"] for p in audit.REPORTINGS] == pytest.approx([2.0, 1.1, 1.0])
    assert audit._relationships(broken.OneEndOnly(0.1, 0.9))["relationship"] == pytest.approx(2.0)


TWINS = {  # of which CI runs the first: the test of verdicts below asks their words
    "a spike": (lambda e: broken.SharedSpike(e, mass=1e-3), True, "draws reports that lose more"),
    "released": (broken.ReleasedSquareWave, True, "is seen to lose"),
    "an honest one": (
        features.Duchi,
        False,
        "its defect was not seen",
    ),  # or an audit that sees nothing would pass
}


def verdicts(name, measured):
    """What is said of one mechanism's figures at epsilon 1."""
    said = {"mechanism": name, "epsilon": 1.0}
    rows = [{**said, "metric": metric, "value": value} for metric, value in measured.items()]
    return audit.verdicts(audit.table(pd.DataFrame(rows)))


@pytest.mark.parametrize("name", TWINS)
def test_a_broken_claim_is_seen(name, monkeypatch):
    """Without the files and the figure that a run writes."""
    make, sound, words = TWINS[name]
    subject = audit.Subject("SquareWave", make, sound)
    only(monkeypatch, **{name: subject})
    unasked = verification.FloatAudit(
        math.nan, math.nan, math.nan, 0
    )  # over 2^23 uniforms, which no verdict reads
    monkeypatch.setattr(verification, "float_audit", lambda *_: unasked)
    measured = audit.examine(subject, 1.0, jax.random.key(0), CONFIG, CONFIDENCE)
    assert {"distinct", "windows", "drawn_loss", "records", "records asked", "region"} <= set(
        measured
    )
    found = verdicts(name, measured)
    assert all(line.startswith(name) for line in found)
    assert any(words in line for line in found)


FAULTS = {
    "claimed": (1.05, "claims 1.05"),
    "supremum": (1.05, "loses 1.05"),
    "lower_bound": (1.05, "is seen to lose 1.05"),
    **{metric: (1.01, words) for metric, words in audit._RUNGS.items()},
    "relationship": (1.01, "claims too little for an edge"),
    "arithmetic": (1.05, "loses 1.05 in the words"),
}


def test_each_figure_beyond_its_threshold_is_a_failure(monkeypatch):
    only(
        monkeypatch,
        sound=audit.Subject("Duchi", features.Duchi),
        other=audit.Subject("Duchi", None, sound=False),
    )
    holds = dict.fromkeys(FAULTS, 1.0)
    said = lambda name, **found: verdicts(name, holds | found)
    assert said("sound") == []
    (unseen,) = said("other")
    assert "its defect was not seen" in unseen
    for metric, (value, words) in FAULTS.items():
        found = said("sound", **{metric: value})
        assert any(words in line for line in found), metric
        assert all(line.startswith("sound") for line in found)
    assert said("other", supremum=1.05) == []


@pytree
class NoNumber(features.SquareWave):
    def log_density(self, y, x):
        return super().log_density(y, x) + jnp.where(x > 0.99, jnp.nan, 0.0)


def test_a_law_that_is_no_number_somewhere_loses_all():
    assert audit._law_loses(features.SquareWave(1.0)) == pytest.approx(1.0)
    assert audit._law_loses(NoNumber(1.0)) == math.inf


def test_variances_are_in_the_papers_order(tmp_path):
    """PM-OPT <= PM-SUB <= Piecewise, Hybrid <= min(Duchi, Piecewise), and the linear program below
    all to 5.
    """
    variance.main(variance.Config(points=3, out=tmp_path))
    rows = pd.read_csv(tmp_path / "variance.csv")
    table = rows.pivot_table(index="epsilon", columns="mechanism", values="worst_variance")
    table = table[table.index.isin([0.5, 1.0, 2.0, 4.0])]
    assert len(table) == 4
    slack = 1 + 1e-5
    assert (table["PM-OPT"] <= table["PM-SUB"] * slack).all()
    assert (table["PM-SUB"] <= table["Piecewise"] * slack).all()
    assert (table["Hybrid"] <= table[["Duchi", "Piecewise"]].min(axis=1) * slack).all()
    assert (table["LP-optimal"] < table.drop(columns="LP-optimal").min(axis=1)).all()
    np.testing.assert_allclose(table.Laplace, 8 / table.index**2, rtol=1e-5)
    assert (tmp_path / "variance.png").stat().st_size > 10_000


def test_a_delta_is_asked_of_the_law_and_a_printed_one_is_seen_not_to_hold():
    sound = audit.Subject("HyperbolicGaussian", CASES["HyperbolicGaussian"].make)
    printed = audit.Subject("PaperHyperbolicGaussian", PrintedHyperbolicGaussian, sound=False)
    found = [
        audit.examine(one, 1.0, jax.random.key(0), CONFIG, CONFIDENCE) for one in (sound, printed)
    ]
    assert found[0]["supremum"] == found[0]["claimed"] <= 1.0
    assert found[0]["lower_bound"] <= 1.0
    assert (found[1]["claimed"], found[1]["supremum"]) == (1.0, math.inf)
    assert found[1]["lower_bound"] > 2.0
    for measured in found:
        assert max(measured["fit"], measured["distinct"]) <= 1
        assert "drawn_loss" not in measured


@untyped
@pytest.mark.parametrize("leak", power.LEAKS)
def test_leaks_of_the_power_figure_are_found_where_they_are_large_alone(leak):
    refused = [power.refused(power.LEAKS[leak](1.0, mass), 10_000, 0) for mass in (0.0, 0.3)]
    assert refused == [False, True]
