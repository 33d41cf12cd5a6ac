"""The documentation site without its builder: examples give what they say, and every exported name has a place."""

import doctest
import importlib
import pkgutil
import re
from types import ModuleType

import pytest

from tests.pages import ROOT, code
from tests.test_api import NESTED, first_minute

PAGES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))
SHOWN = {page: "\n".join(code(page, "pycon")) for page in PAGES}
INCLUDED = re.compile(r"^\{\{ ([\w./]+)(?:: (.+?))? \}\}$", re.MULTILINE)
REFERENCES = re.compile(r"^::: (ldp_jax[\w.]*)$", re.MULTILINE)


def failures(text):
    """How many examples of a page give something else."""
    said = []
    found = doctest.DocTestParser().get_doctest(text, {}, "page", None, None)
    return doctest.DocTestRunner(verbose=False).run(found, out=said.append).failed, "".join(said)


@pytest.mark.parametrize("page", [page for page, text in SHOWN.items() if text])
def test_the_examples_of_a_page_give_what_it_says(page):
    failed, said = failures(SHOWN[page])
    assert not failed, said
    assert not code(page)  # what is not an example runs nowhere


def test_another_output_would_fail():
    assert failures(SHOWN["docs/wire-format.md"].replace("0 version 0200", "0 version 0300"))[0] == 1


def referenced():
    """What the pages of the API take docstrings from: modules with all their names, and single names."""
    return {
        name
        for page in PAGES
        if page.startswith("docs/api")
        for name in REFERENCES.findall((ROOT / page).read_text())
    }


def unreachable(references):
    """The exported names that no page of the API has."""
    found = set()
    for module in NESTED:
        there = importlib.import_module(f"ldp_jax.{module}")
        files = {file.name for file in pkgutil.iter_modules(getattr(there, "__path__", []))}
        for name in there.__all__:
            whole = f"{there.__name__}.{name}"
            inside = name in files or isinstance(getattr(there, name), ModuleType)  # a room's page shows no files
            needed = {whole, f"{whole}.{name}"} if inside else {there.__name__}
            found |= set() if needed & references else {whole}
    return found


def test_every_exported_name_is_on_a_page():
    references = referenced()
    assert unreachable(references) == set()
    assert unreachable(references - {"ldp_jax.accounting.gaussian"}) == {
        f"ldp_jax.accounting.gaussian.{name}" for name in ("GaussianCurve", "gaussian_mu", "gaussian_sigma")
    }
    text = (ROOT / "docs/api/index.md").read_text()
    assert {name for name, home in first_minute().items() if f"[`{name}`][{home}.{name}]" not in text} == set()


def test_included_sections_exist():
    wanted = [(page, *found) for page in PAGES for found in INCLUDED.findall((ROOT / page).read_text())]
    assert len(wanted) > 8
    for page, file, heading in wanted:
        assert not heading or re.search(rf"^##+ {re.escape(heading)}$", (ROOT / file).read_text(), re.MULTILINE), (
            page
        )
