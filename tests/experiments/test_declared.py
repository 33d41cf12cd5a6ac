"""Declared pages: contrasts that a loop finds too, sentences, own methods, and refusals that name
the file and the key.
"""

import copy
import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments import _declared, _drawn, _lines, _registry
from experiments._runner import UsageError
from ldp_jax.learning.metrics import mean_interval
from tests.experiments.rows import made

FILE = Path("paper/report.toml")
OWN = "mine:Method(steps=2)"
ROWS = (
    ("laplace", 1.0, {0: 50, 1: 61, 2: 70}),
    ("laplace", 2.0, {1: 70, 2: 85}),  # draw 0 is missing: pairs, not positions
    ("hds", 1.0, {0: 55, 1: 65, 2: 75}),
    ("hds", 2.0, {0: 80, 1: 81, 2: 90}),
    ("non-private", 0.0, {0: 52, 1: 60, 2: 77}),
    ("link-indices", 0.0, {2: 99}),
    (OWN, 1.0, {0: 60, 1: 61, 2: 62}),
)
PAGE = {
    "title": "A page",
    "rows": "nothing",
    "names": "privge",
    "setting": ["dataset"],
    "row": ["mechanism", "epsilon"],
    "select": {"private": {"epsilon": {"above": 0.0}}},
    "measures": {
        "alone": {"less": {"mechanism": "non-private", "epsilon": 0.0}},
        "hds": {"less": {"mechanism": "hds"}},
        "twice": {"of": "hds", "scale": 2},
        "shared": {"less": {"best": [{"mechanism": "*", "epsilon": 0.0}]}},
        "whole": {"less": {"best": [{"mechanism": "*", "epsilon": 0.0}], "whole": True}},
        "beside": {"at": {"mechanism": "hds"}},
    },
    "sections": [],
}


def frame():
    second = made([("hds", 1.0, {0: 10, 1: 30}), ("non-private", 0.0, {0: 15, 1: 34})])
    return pd.concat([made(ROWS), second.assign(dataset="h")])


def report(**changes):
    return _declared.Report("page", copy.deepcopy(PAGE) | changes, frame(), FILE)


def by_hand(mine, other):
    """The paired difference of two rows in per cent, by a loop over their draws."""
    known = {(name, epsilon): values for name, epsilon, values in ROWS}
    mine, other = known[mine], known[other]
    return mean_interval([float(mine[seed] - other[seed]) for seed in mine if seed in other])


def test_contrasts_and_intervals_are_those_of_a_loop():
    lines = {
        (line.columns["mechanism"], line.columns["epsilon"]): line
        for line in report().lines
        if line.columns["dataset"] == "g"
    }
    for mine in lines:
        alone = lines[mine].interval("alone")
        np.testing.assert_allclose(alone, by_hand(mine, ("non-private", 0.0)), atol=1e-9)
        values = dict(zip(lines, (values for *_, values in ROWS), strict=True))[mine]
        np.testing.assert_allclose(
            lines[mine].interval("value"),
            mean_interval([float(one) for one in values.values()]),
            atol=1e-9,
        )
    short = lines["laplace", 2.0]
    assert short.interval("hds").n == 2
    np.testing.assert_allclose(short.interval("hds"), by_hand(("laplace", 2.0), ("hds", 2.0)))
    assert short.interval("twice").mean == pytest.approx(2 * short.interval("hds").mean)
    assert short.interval("beside").n == 3
    assert lines["non-private", 0.0].interval("hds") is None  # there is none at epsilon 0
    # The best of all draws has all of them; over the draws that all share, one draw is enough.
    assert short.interval("whole").mean == short.interval("alone").mean
    assert short.interval("shared").mean == pytest.approx(85 - 99)


def test_a_sentence_counts_the_rows_that_it_selects():
    page = report()
    text = "{rows} rows, {above} above, {below} below; {average:+.1f}; {most}: {which}"
    asked = {
        "text": text,
        "where": ["private", {"dataset": "g", "mechanism": ["laplace", "hds"]}],
        "measure": "alone",
        "numbers": {
            "most": {"show": "largest"},
            "which": {"where": {"alone": {"above": 5.0}}, "named": "{mechanism} at {epsilon:g}"},
        },
    }
    found = [by_hand((name, eps), ("non-private", 0.0)) for name, eps, _ in ROWS[:4]]
    sure = [one for one in found if abs(one.mean) > one.half_width]
    mean = sum(one.mean for one in found) / 4
    said = page.sentence(asked)
    assert said.startswith(f"4 rows, {len(sure)} above, 0 below; ")
    assert abs(mean - float(said.split("; ")[1])) < 0.06
    assert said.endswith(f"; {found[3]}: laplace at 2, hds at 2")
    assert page.sentence(asked | {"where": {"mechanism": "gone"}}) == ""


@pytest.mark.parametrize("place", [0, 7])
def test_a_line_without_a_number_is_not_the_best(place):
    """Wherever it stands among the others."""
    rows = list(ROWS)
    rows.insert(place, ("failed", 0.0, {0: np.nan, 1: np.nan, 2: np.nan}))
    page = _declared.Report("page", copy.deepcopy(PAGE), made(rows), FILE)
    picked = {"measure": "value", "show": "mechanism"}
    assert page.ask(picked | {"largest": "value"}) == "link-indices"
    assert page.ask(picked | {"least": "value"}) == "laplace"
    for show, value in (("largest", 99.0), ("least", 181 / 3)):
        assert page.ask({"measure": "value", "show": show}).mean == pytest.approx(value)
    shared = {line.columns["mechanism"]: line.interval("shared") for line in page.lines}
    assert shared["link-indices"].mean == 0.0
    assert shared["hds"].mean == pytest.approx(90 - 99)


def test_lines_are_picked_grouped_and_selected_by_their_measures():
    page = report()
    best = {"where": "private", "largest": "alone", "measure": "value", "show": "rows"}
    assert page.ask(best) == 2  # one of each data set
    assert page.ask(best | {"each": ["mechanism"]}) == 3
    assert page.ask(best | {"show": "mechanism"}) == "hds"
    sure = _lines.side(page.lines[1].interval("alone"))
    assert page.lines[1] in page.select({"where": {"alone": sure}})
    assert page.ask({"where": {"alone": "below"}, "measure": "alone", "show": "rows"}) == 0
    along = {"measure": "alone", "show": "first", "along": "epsilon"}
    assert page.ask(along | {"where": {"dataset": "g", "mechanism": "hds"}}) == 2.0
    assert page.ask(along | {"where": {"dataset": "h", "mechanism": "hds"}}) == "none"
    two = [line for line in page.lines if line.columns["mechanism"] == "hds"][:2]
    pooled = page.ask({"measure": "alone", "show": "pooled"}, two)
    each = zip(*(line.measures["alone"] for line in two), strict=True)
    np.testing.assert_allclose(pooled, mean_interval([float(np.mean(one)) for one in each]))


def test_a_table_has_a_column_for_each_epsilon_and_own_methods_by_their_word():
    text = report().table(
        {
            "rows": ["dataset", "mechanism"],
            "where": "private",
            "heads": {"mechanism": "row"},
            "columns": [
                {"title": "eps {epsilon}", "across": "epsilon", "measure": "alone"},
                {"title": "at {budget:g}", "measure": "alone", "where": {"epsilon": "@budget"}},
                {"title": "never", "measure": "shared", "where": {"epsilon": 7.0}},
            ],
        }
    )
    lines = text.splitlines()
    assert lines[0] == "| dataset | row | eps 1 | eps 2 | at 1 |"
    assert lines[2].startswith("| g | Laplace | -2.7 ± ")
    assert any(line.startswith(f"| g | {OWN} | ") for line in lines)
    assert len(lines) == 2 + 4


def test_a_table_names_the_graph_by_itself_where_a_cell_would_hide_one():
    columns = [{"title": "gain", "measure": "alone", "where": {"mechanism": "hds"}}]
    spec = {"rows": ["epsilon"], "where": "private", "columns": columns}
    assert report().table(spec).splitlines()[0] == "| dataset | epsilon | gain |"
    assert len(report().table(spec).splitlines()) == 2 + 3
    of_one = report().table(spec | {"where": ["private", {"dataset": "h"}]})
    assert of_one.splitlines()[0] == "| epsilon | gain |"
    columns[0] |= {"show": "rows"}  # a count says of how many lines it is
    assert report().table(spec).splitlines()[0] == "| epsilon | gain |"


def test_a_figure_has_a_star_of_its_own_colour_for_an_own_method():
    page = report()
    spec = {
        "panels": ["dataset"],
        "panel": "{dataset}",
        "x": "epsilon",
        "label": "points",
        "measure": "alone",
        "where": "private",
        "lines": [{"by": "mechanism", "where": {"mechanism": ["laplace", "hds"]}}],
    }
    given = _drawn._series(page, spec, page.lines)
    assert [one["name"] for one in given] == ["Laplace", "HDS", OWN]
    assert given[-1]["marker"] == "*"
    assert len({one["colour"] for one in given}) == 3
    figure = _drawn.drawn(page, spec)
    assert len(figure.axes) == 2
    labels = [text.get_text() for text in figure.legends[0].texts]
    assert labels == ["Laplace", "HDS", OWN]
    assert _drawn.drawn(page, spec | {"least_points": 3}) is None


SENTENCE = {"text": "{rows}", "where": "private", "measure": "alone"}
WRONG = {
    "no column budget; there are": {"where": {"budget": 1.0}},
    "no row laplce; there are": {"where": {"mechanism": ["hds", "laplce"]}},
    "no selection ours; there are private": {"where": ["ours"]},
    "no measure gain; there are": {"measure": "gain"},
    "no number mean; there are": {"text": "{mean}"},
    "no key mesure; there are": {"mesure": "alone"},
}


@pytest.mark.parametrize("message", WRONG)
def test_a_wrong_page_is_refused_by_file_and_key(message):
    key = next(iter(WRONG[message]))
    sections = [{"sentences": [SENTENCE, SENTENCE | WRONG[message]]}]
    with pytest.raises(UsageError, match=message) as refused:
        report(sections=sections)
    assert f"{FILE}, page.sections[0].sentences[1].{key}" in str(refused.value)


GONE = {"less": {"less": {"mechanism": "gone*"}}}
UNTOLD = {"row": ["mechanism"], "measures": {}, "select": {}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"row": ["mechanism", "rho"]}, "page: no column rho"),
        ({"measures": GONE}, r"page.measures.less.less.mechanism: no row gone\*"),
        ({"select": {"one": {"colour": 1}}}, "page.select.one.colour: no column colour"),
        (UNTOLD, "several rows of one draw are one line"),
    ],
)
def test_references_columns_and_rows_of_a_page_are_checked_too(changes, message):
    with pytest.raises(UsageError, match=message):
        report(**changes)


def test_every_declared_page_is_a_page_of_its_experiment():
    files = sorted(Path(_declared.__file__).parent.glob("*/report.toml"))
    known = {name for one in _registry.EXPERIMENTS.values() for name in one.tables}
    pages = [_declared.pages_of(file) for file in files]
    assert pages
    assert {f"{name}.md" for name in itertools.chain(*pages)} <= known
