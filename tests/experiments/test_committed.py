"""Committed rows: known to the registry, described by a manifest, and never changed by a change of
their files.
"""

import csv
import hashlib
import json
import re
from functools import cache, partial
from pathlib import Path

import pytest
import tyro
from matplotlib.figure import Figure

from experiments import _declared, _lines, _registry, _report, _runner, findings, papers
from experiments.__main__ import COMMANDS
from experiments._runner import REFERENCE
from tests.marks import untyped

EXPERIMENTS = _registry.EXPERIMENTS.values()
RESULTS = {
    results.csv.stem: results
    for experiment in EXPERIMENTS
    for results in experiment.results(REFERENCE)
}


# Of the first rows of each file: rows are appended. A digest may only change with rows that are
# computed anew.
DIGESTS = {
    "dprr": (2374, "e217d24dec0ec469394277140d3ef786af521796a7801b6d2ec8fb3cecaba614"),
    "dprr_degrees": (809, "e77cc581375387b1d286e1266c967cc6a3b872f91435eb58aec8fd09605dce58"),
    "dprr_scaling": (360, "5bee1edfe06a4dfa342df79e5113abb55668b903d0b6c7e82b4fcaea9c33f6a1"),
    "audit": (2757, "50421a0f22c24a302a8133587e98f2c0019304f6c697a2b3ab8d6c3f0b8c42f6"),
    "privge": (1187, "4d67eac0c2b42bcb89d928238560abee8048bec972448e0e3cae1218581936d8"),
}


@pytest.mark.parametrize("name", DIGESTS)
def test_a_new_layout_of_columns_changed_no_value(name):
    """Identities, values, seconds and hashes of settings, as text: every digit."""
    count, digest = DIGESTS[name]
    with open(RESULTS[name].csv, newline="") as file:
        rows = [*csv.DictReader(file)][:count]
    assert len(rows) == count
    lines = sorted(json.dumps(row, sort_keys=True) for row in rows)
    assert hashlib.sha256("\n".join(lines).encode()).hexdigest() == digest


@pytest.mark.parametrize("name", RESULTS)
def test_committed_rows_are_whole_distinct_and_described(name):
    results = RESULTS[name]
    frame = results.read()
    manifest = results.describe()
    assert len(frame) > 10
    assert results.csv.read_bytes().endswith(b"\n")
    assert not frame.duplicated(list(results.key)).any()
    assert set(frame.config) <= set(manifest["configs"])
    assert manifest["environments"]


@pytest.mark.parametrize("name", RESULTS)
def test_rows_are_of_this_version_or_repeat_by_it(name):
    release = lambda version: version.partition(".dev")[0]
    results = RESULTS[name]
    verified = map(release, results.describe().get("verified", {}))
    made = {*map(release, results.made_with())}
    this = release(_runner._version())
    assert this in verified or made == {this}


def test_every_committed_table_of_rows_belongs_to_an_experiment():
    files = {path.stem for path in REFERENCE.glob("*.csv")}
    files -= {path.stem for path in REFERENCE.glob("*.table.csv")}  # of a page
    others = {"benchmarks", "benchmarks_gpu", "power", "repeat", "variance", "weight"}
    assert files == {*RESULTS, *others}
    assert [*RESULTS] == [stem for experiment in EXPERIMENTS for stem in experiment.rows]
    for experiment in EXPERIMENTS:
        for table in experiment.tables:
            assert (REFERENCE / table).exists()


@pytest.mark.parametrize("page", sorted(REFERENCE.glob("*.md")), ids=lambda page: page.stem)
def test_a_page_has_at_most_3000_words_and_its_files_are_there(page):
    text = page.read_text()
    assert len(text.split()) <= 3000
    for file in re.findall(r"\]\(([\w.]+)\)", text):
        assert (REFERENCE / file).exists(), file


def holds(item):
    """Whether what an entry of the papers' table says is there: its files, its command, rows of its
    query.
    """
    name, *words = item.command.split() or [""]
    if item.status() in ("no result", "not there"):
        return not item.files and not name and bool(item.other or "diagrams" in item.what)
    there = name in COMMANDS and all((REFERENCE / file).exists() for file in item.files)
    if there:
        try:
            tyro.cli(COMMANDS[name].load()[0], args=words, console_outputs=False)
        except SystemExit:
            return False
    return there and bool(item.computed() or not item.data)


@pytest.mark.parametrize("item", papers.ITEMS, ids=lambda item: f"{item.paper} {item.name}")
def test_every_table_of_the_papers_is_there_or_says_why(item):
    assert holds(item)


def test_an_entry_without_its_file_command_or_rows_is_found():
    good = next(item for item in papers.ITEMS if item.status() == "reproduced" and item.data)
    for change in (
        {"files": ("none.png",)},
        {"command": "privgee"},
        {"command": "privge --no"},
        {"other": ""},
    ):
        assert holds(good._replace(**change)) == ("other" in change)
    missing = good._replace(rows=(good.rows[0], "epsilon < 0"))
    assert missing.status() == "not there"
    assert not holds(missing)
    assert good._replace(data=(*good.data, "unknown")).status() == "reproduced in part"
    assert good._replace(data=("unknown",)).status() == "on a stand-in"


@pytest.fixture(scope="module", autouse=True)
def asked_once():
    """Points and summaries, which several pages are made of, are computed once for all of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_declared, "report", cache(_declared.report))
        yield


@untyped
def test_the_table_of_the_readme_is_of_the_committed_rows_and_short():
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    text = findings.table(REFERENCE).rstrip()
    assert f"<!-- findings -->\n{text}\n<!-- /findings -->" in readme
    assert len(text.splitlines()) <= 2 + 12


PAGES = ["privge", "dprr", "heterorr", "poindp", "frontier", "protocols", "demo", "claims", "audit"]


def one_line(lines, spec, where, each):
    """The answer; a number that is one interval must be of lines that agree."""
    if spec.get("show", "interval") == "interval" and not {"largest", "least"} & {*spec}:
        measure = spec.get("measure", _lines.VALUE)
        chosen = [line.interval(measure) for line in lines if _lines.holds(line, where)]
        assert len({found.mean for found in chosen if found is not None}) <= 1, (spec, where)
    return _lines.ask(lines, spec, where, each)


@untyped
@pytest.mark.parametrize(
    "name", [*PAGES, pytest.param("findings", marks=pytest.mark.slow)]
)  # all parts once more
def test_the_committed_pages_are_those_of_the_committed_rows(name, monkeypatch):
    """Word by word; declared pictures take long of so many rows, and each experiment's tests draw
    them of few.
    """
    written = {}
    monkeypatch.setattr(
        _report, "write_atomically", lambda path, text: written.update({path.name: text})
    )
    monkeypatch.setattr(_report, "save", lambda figure, path: _report.pyplot().close(figure))
    monkeypatch.setattr(Figure, "tight_layout", lambda *_, **__: None)
    monkeypatch.setattr(_declared, "ask", one_line)
    monkeypatch.setattr(_declared, "drawn", lambda *_: "undrawn")
    monkeypatch.setattr(
        _runner.Results, "append", lambda *_, **__: pytest.fail("a picture is of other rows")
    )
    declared = partial(_declared.write_of, name)
    getattr(_registry.module(name), "write_report", declared)(REFERENCE)
    assert written
    for file, text in written.items():
        assert text == (REFERENCE / file).read_text(), file
