"""The documentation site without its builder: examples give what they say, and every exported name
has a place.
"""

import ast
import doctest
import importlib
import json
import pkgutil
import re
import tomllib
from types import ModuleType

import pytest

from tests.pages import ROOT, code
from tests.test_api import NESTED, first_minute

PAGES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))
SHOWN = {page: "\n".join(code(page, "pycon")) for page in PAGES}
NOTEBOOKS = sorted((ROOT / "colab").glob("*.ipynb"))
METADATA = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PROJECT = METADATA["urls"]["Repository"].removeprefix("https://github.com/")
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


def names_of_the_library(notebook):
    """What the code of a notebook takes from the library's modules; AttributeError where it is not
    there.
    """
    cells = [
        cell["source"]
        for cell in json.loads(notebook.read_text())["cells"]
        if cell["cell_type"] == "code"
    ]
    nodes = [*ast.walk(ast.parse(re.sub(r"%pip.*", "pass", "\n".join(map("".join, cells)))))]
    imports = [ast.unparse(node) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    known = {}
    exec("\n".join(line for line in imports if re.match(r"(from|import) ldp_jax", line)), known)
    modules = {name for name, value in known.items() if isinstance(value, ModuleType)}
    chains = {ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute)}
    chains = {chain for chain in chains if chain.partition(".")[0] in modules}
    return [eval(chain, known) for chain in chains if re.fullmatch(r"[\w.]+", chain)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_a_notebook_asks_for_is_there(path):
    """The slow tier runs them. Its first cells have a badge, a picture and an install."""
    assert len(names_of_the_library(path)) > 3
    cells = json.loads(path.read_text())["cells"]
    first, install = ("".join(cell["source"]) for cell in cells[:2])
    typed = [line for cell in cells if cell["cell_type"] == "code" for line in cell["source"]]
    assert [line for line in typed if len(line.rstrip()) > 80] == []
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    assert not re.search(r"^#.*\$", text, re.MULTILINE)  # a table of contents shows it raw
    assert f"/github/{PROJECT}/blob/main/colab/{path.name})" in first
    (picture,) = re.findall(r"^!\[.+\]\((.+)\)$", first, re.MULTILINE)
    assert (path.parent / picture).is_file()
    assert f'@ git+https://github.com/{PROJECT}"' in install


def test_the_project_has_one_address():
    files = [ROOT / name for name in ("README.md", "CITATION.cff", "mkdocs.yml", *PAGES)]
    named = [re.findall(r"github(?:\.com)?/([\w-]+/ldp_jax)\b", path.read_text()) for path in files]
    assert {one for found in named for one in found} == {PROJECT}


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", *PAGES])
def test_code_fits_beside_a_table_of_contents(page):
    """At most 80 columns of what is typed; what is printed goes on below."""
    typed = re.findall(r"^(?:>>>|\.\.\.) .*", "\n".join(code(page, "pycon")), re.MULTILINE)
    shown = "\n".join([*code(page), *code(page, "bash"), *typed]).splitlines()
    assert [line for line in shown if len(line) > 80] == []


def test_another_output_would_fail():
    assert (
        failures(SHOWN["docs/wire-format.md"].replace("0 version 0200", "0 version 0300"))[0] == 1
    )


ALONE = r"::: [\w.]+\n    options: \{members: false\}"


def referenced():
    """What the pages of the API take docstrings from: modules with all their names, and single
    names. A module without its members is left out.
    """
    return {
        name
        for page in PAGES
        if page.startswith("docs/api")
        for name in REFERENCES.findall(re.sub(ALONE, "", (ROOT / page).read_text()))
    }


def unreachable(references):
    """The exported names that no page of the API has."""
    found = set()
    for module in NESTED:
        there = importlib.import_module(f"ldp_jax.{module}")
        files = {file.name for file in pkgutil.iter_modules(getattr(there, "__path__", []))}
        for name in there.__all__:
            whole = f"{there.__name__}.{name}"
            inside = name in files or isinstance(
                getattr(there, name), ModuleType
            )  # a room's page shows no files
            packages = module.split(".")
            above = {
                ".".join(["ldp_jax", *packages[:depth], name]) for depth in range(len(packages) + 1)
            }
            needed = {f"{whole}.{name}"} if inside else {there.__name__}
            needed |= above
            found |= set() if needed & references else {whole}
    return found


def test_every_exported_name_is_on_a_page():
    references = referenced()
    assert unreachable(references) == set()
    assert unreachable(references - {"ldp_jax.accounting.gaussian"}) == {
        f"ldp_jax.accounting.gaussian.{name}"
        for name in ("GaussianCurve", "gaussian_mu", "gaussian_sigma")
    }
    text = (ROOT / "docs/api/index.md").read_text()
    assert {
        name for name, home in first_minute().items() if f"[`{name}`][{home}.{name}]" not in text
    } == set()


def test_included_sections_exist():
    wanted = [
        (page, *found) for page in PAGES for found in INCLUDED.findall((ROOT / page).read_text())
    ]
    assert len(wanted) > 8
    for page, file, heading in wanted:
        assert not heading or re.search(
            rf"^##+ {re.escape(heading)}$", (ROOT / file).read_text(), re.MULTILINE
        ), page
