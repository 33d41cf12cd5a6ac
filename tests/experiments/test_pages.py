"""Web pages of results: one file each, every link and figure of which resolves, without a
script.
"""

import base64
from html.parser import HTMLParser

import pytest

from experiments import __main__ as command_line
from experiments import reproduce
from experiments._registry import EXPERIMENTS
from experiments._runner import UsageError

SHOWN = ("privge", "variance")


class Page(HTMLParser):
    """Places, links and figures of a page."""

    def __init__(self, path):
        super().__init__()
        self.ids = set()
        self.links = []
        self.figures = []
        self.tags = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.add(tag)
        self.ids |= {found["id"]} if "id" in found else set()
        self.links += [found["href"]] if tag == "a" else []
        self.figures += [found["src"]] if tag == "img" else []


def unresolved(path):
    """Links that lead nowhere and figures that are not inside."""
    page = Page(path)
    lost = []
    for link in page.links:
        file, _, place = link.partition("#")
        there = path.with_name(file) if file else path
        if not there.is_file() or (place and place not in Page(there).ids):
            lost.append(link)
    for figure in page.figures:
        kind, _, content = figure.partition(",")
        if kind != "data:image/png;base64" or not base64.b64decode(content).startswith(b"\x89PNG"):
            lost.append(figure[:40])
    return lost


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    out = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reproduce, "EXPERIMENTS", {name: EXPERIMENTS[name] for name in SHOWN})
        command_line.main(["reproduce", "all", "--compare-only", "--out", str(out)])
    return out


@pytest.mark.parametrize("name", [*SHOWN, "index"])
def test_every_link_and_figure_of_a_page_resolves(pages, name):
    page = Page(pages / f"{name}.html")
    assert unresolved(pages / f"{name}.html") == []
    assert page.links
    assert page.figures
    assert not page.tags & {"script", "link", "iframe"}


def test_a_page_says_what_the_paper_prints_and_that_rows_are_committed(pages):
    text = (pages / "privge.html").read_text()
    assert "<em>Committed rows</em>: REPORT.md" in text
    row = "<td>cora, link, k 1, raw</td>\n<td>hds</td>\n<td>auc</td>\n<td>1</td>\n"
    line = text.split(row)[1].split("</tr>")[0]
    assert line.startswith("<td>82.43</td>")
    assert "<td>± " in line
    assert "jaxlib" in text
    assert "Reproduced" in (pages / "index.html").read_text()


def test_one_table_of_a_paper_is_its_command_and_its_sections(tmp_path, monkeypatch, capsys):
    ran = []
    module = reproduce._registry.module("privge")
    monkeypatch.setattr(module, "main", ran.append)
    monkeypatch.setattr(reproduce._declared, "write_of", lambda name, out: None)
    command_line.main(
        ["reproduce", "privge", "--table", "III", "--preset", "smoke", "--out", str(tmp_path)]
    )
    assert [(config.parts, config.preset) for config in ran] == [(("link",), "smoke")]
    text = (tmp_path / "privge.html").read_text()
    assert "Link prediction (Table III, Table 2)</h2>" in text
    assert "Node classification (Figure 2)</h2>" not in text
    assert "Preset smoke" in capsys.readouterr().out
    for changes, message in (
        ({"table": "9"}, "--table 9: poindp has Table 1"),
        ({"preset": "paper"}, "--preset paper: poindp has none"),
    ):
        with pytest.raises(UsageError, match=message):
            reproduce.main(reproduce.Config("poindp", out=tmp_path, **changes))
