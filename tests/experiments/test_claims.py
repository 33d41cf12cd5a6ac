"""Claims of the papers: their evidence is there, and no verdict stands that it does not give."""

import ast
import functools
from pathlib import Path

import pandas as pd
import pytest

from experiments import claims
from experiments._runner import REFERENCE, UsageError
from ldp_jax.learning.metrics import mean_interval
from tests.marks import untyped

ROOT = Path(__file__).parents[2]
CLAIMS = claims.told()["claims"]


def one_of(words):
    found = [claim for claim in CLAIMS if words in claim["claim"]]
    assert len(found) == 1
    return found[0]


@functools.cache
def functions_of(file):
    tree = ast.parse((ROOT / file).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_claim_has_evidence_that_is_there():
    """A test that a file defines, or a page of committed rows; else it says why not."""
    for claim in CLAIMS:
        tests = claim.get("tests", [])
        for test in tests:
            file, name = test.split("::")
            assert name in functions_of(file), test
        if "page" in claim:
            assert (REFERENCE / f"{claim['page']}.md").exists()
            assert set(claim["rule"]) <= set(claims.VERDICTS)
        else:
            assert bool(tests) == (claim["verdict"] in ("holds", "does not"))
            assert tests or claim["verdict"] == "not tested"
        assert claim["kind"] in ("privacy", "error", "cost", "accuracy", "attack")
    assert {claim["paper"] for claim in CLAIMS} == {
        "PrivGE",
        "LDP-GE",
        "HeteroRR",
        "PoinDP",
        "DPRR",
    }
    assert len({claim["claim"] + claim["paper"] for claim in CLAIMS}) == len(CLAIMS)


def test_the_mean_of_rows_is_that_of_a_loop():
    rows = pd.read_csv(REFERENCE / "heterorr.csv").query("level == 'features'")
    rows = rows[(rows.metric == "accuracy") & (rows.epsilon > 0)]
    each = []
    for seed in sorted(rows.seed.unique()):
        gaps = []
        for _, drawn in rows[rows.seed == seed].groupby(["dataset", "epsilon"]):
            values = drawn.set_index("mechanism").value
            if "featurerr" not in values:
                continue
            gaps.append(100 * (values["featurerr"] - values["lpgnn"]))
        each.append(sum(gaps) / len(gaps))
    expected = mean_interval(each)
    values, words = claims.numbers(one_of("FeatureRR is 7.6 % above LPGNN"))
    assert values["gap"] == pytest.approx(expected.mean)
    assert values["gap_high"] == pytest.approx(expected.mean + expected.half_width)
    assert words["gap"] == f"{expected.mean:+.1f} ± {expected.half_width:.1f}"


def test_counts_of_intervals_are_those_of_a_loop():
    rows = pd.read_csv(REFERENCE / "poindp.csv").query("metric == 'weighted-F1'")
    rows = rows[(rows.mechanism == "published:poindp") & (rows.dataset == "cora")]
    below = 0
    pairs = 0
    for epsilon in rows.epsilon.unique():
        drawn = rows[rows.epsilon == epsilon].set_index(["split", "seed"]).value
        for split in {"inner", "outer"} & set(drawn.index.get_level_values(0)):
            gap = mean_interval((drawn[split] - drawn["random"]).dropna())
            below += gap.mean + gap.half_width < 0
            pairs += 1
    values, _ = claims.numbers(one_of("Training nodes drawn from all of Cora"))
    assert (values["below"], values["rows"]) == (below, pairs)


@untyped
def test_a_wrong_verdict_is_refused_by_the_name_of_its_claim():
    """And by the verdict of its rows."""
    claim = one_of("FeatureRR is 7.6 % above LPGNN")
    planted = "does not" if claim["verdict"] == "holds" else "holds"
    with pytest.raises(UsageError) as refused:
        claims.checked(claim | {"verdict": planted})
    assert claim["claim"] in str(refused.value)
    assert str(refused.value).endswith(f"the evidence says {claim['verdict']}.")


def test_what_no_rule_or_several_give():
    claim = one_of("FeatureRR is 7.6 % above LPGNN")
    nothing = {"holds": "gap_low > 99", "does not": "gap_high < -99"}
    assert claims.judged(claim | {"rule": nothing})[0] == claims.UNDECIDED
    both = {"holds": "gap_low < 99", "does not": "gap_high > -99"}
    with pytest.raises(UsageError, match="several things: holds, does not"):
        claims.judged(claim | {"rule": both})


@pytest.mark.parametrize("change", [{"where": {"level": "no"}}, {"measure": "no"}])
def test_numbers_without_a_row_are_refused(change):
    with pytest.raises(UsageError, match=r"LPGNN.* No row has its number"):
        claims.numbers(one_of("FeatureRR is 7.6 % above LPGNN") | change)
