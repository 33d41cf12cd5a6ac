"""What the site takes from elsewhere in the repository.

Notebooks, reports, and sections of Markdown files.

A page includes a section of a file by its heading, or what stands before the first heading, on a
line of its own::

    {{ README.md: Which method when }}
    {{ README.md }}
"""

import ast
import base64
import functools
import html
import json
import os
import posixpath
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
NOTEBOOKS, REPORTS = "colab", "experiments/results"
_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "mechanism.md",
    f"{REPORTS}/papers.md": "papers.md",
    "ldp_jax/features": "api/numbers.md",
    "ldp_jax/edges": "api/lists.md",
    "ldp_jax/hyperbolic": "api/hyperbolic.md",
}
_INCLUDE = re.compile(r"^\{\{ ([\w./]+)(?:: (.+?))? \}\}$", re.MULTILINE)
_LINK = re.compile(r"(\]\()(?!https?:|#)([^)#]+)")
_BADGE = re.compile(r"\[!\[(.+?)\]\(https:.+?\)\]")  # a picture that the site would fetch
_CELL = re.compile(r"^\|.*\|$", re.MULTILINE)
_CODE = re.compile(r"`([\w.]+)`")
_MATH = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)
_DOLLARS = re.compile(r"(`[^`\n]*`)|\$\$(.+?)\$\$|\$(.+?)\$", re.DOTALL)


def _place(source: str) -> str | None:
    """Where a file of the repository stands on the site."""
    folder, name = posixpath.split(source)
    if source in _PAGES:
        return _PAGES[source]
    if folder == NOTEBOOKS:
        return f"notebooks/{name.removesuffix('.ipynb')}.md"
    if folder == REPORTS and name.endswith((".md", ".png")):
        return f"reports/{name}"
    return source.removeprefix("docs/") if source.startswith("docs/") else None


def _sources(folder: str, suffix: str) -> list[str]:
    found = (f"{folder}/{path.name}" for path in sorted((ROOT / folder).glob(f"*{suffix}")))
    return [source for source in found if source not in _PAGES]


def on_config(config: Any) -> Any:
    """Guides that the navigation does not name, notebooks and reports end their parts of it."""
    parts = {title: pages for part in config.nav for title, pages in part.items()}
    named = [
        page for pages in parts.values() for page in ([pages] if isinstance(pages, str) else pages)
    ]
    parts["Use"] += sorted(
        path.name for path in (ROOT / "docs").glob("*.md") if path.name not in named
    )
    parts["Notebooks"] += map(_place, _sources(NOTEBOOKS, ".ipynb"))
    parts["Papers and results"] += map(_place, _sources(REPORTS, ".md"))
    return config


def on_files(files: Files, config: Any) -> Files:
    """Pages and figures of notebooks and reports."""
    for source in _sources(REPORTS, ".md"):
        text = _relinked((ROOT / source).read_text(), source, "reports", config.extra["repository"])
        files.append(File.generated(config, str(_place(source)), content=text))
    for source in _sources(REPORTS, ".png"):
        files.append(File.generated(config, str(_place(source)), abs_src_path=str(ROOT / source)))
    for source in _sources(NOTEBOOKS, ".ipynb"):
        page, figures = notebook(Path(source).stem, json.loads((ROOT / source).read_text()))
        for name, content in {f"{Path(source).stem}.md": page, **figures}.items():
            files.append(File.generated(config, f"notebooks/{name}", content=content))
    return files


def notebook(name: str, read: dict[str, Any]) -> tuple[str, dict[str, bytes]]:
    """A notebook in Markdown, with its outputs as they stand, and its figures by file name."""
    parts = []
    figures = {}
    for cell in read["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            text = _DOLLARS.sub(_dollars, _BADGE.sub(r"[\1]", source))
            parts.append(_relinked(text, f"{NOTEBOOKS}/{name}", "notebooks", ""))
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            if output["output_type"] == "stream":
                parts.append(f"```text\n{''.join(output['text'])}\n```")
            elif "image/png" in output.get("data", {}):
                figure = f"{name}-{len(figures) + 1}.png"
                figures[figure] = base64.b64decode("".join(output["data"]["image/png"]))
                parts.append(f"![Figure {len(figures)}]({figure})")
            else:
                raise PluginError(f"{name} has an output that is neither text nor a figure")
    return "\n\n".join(parts) + "\n", figures


def _dollars(match: re.Match[str]) -> str:
    code, block, inline = match.groups()
    return code or (rf"\[{block}\]" if block else rf"\({inline}\)")


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Links to files of the repository, and sections of others, whose code links to the API.

    The search finds guides before the API, and the API before reports.
    """
    here = posixpath.dirname(page.file.src_uri)
    page.meta["search"] = {"boost": {"": 2.0, "api": 1.0}.get(here, 0.25)}
    source = f"docs/{page.file.src_uri}"
    if not (ROOT / source).exists():
        return markdown

    def included(match: re.Match[str]) -> str:
        text = _relinked(section(match[1], match[2]), match[1], here, config.extra["repository"])
        return _CELL.sub(lambda row: _CODE.sub(_linked, row[0]), text)

    return _INCLUDE.sub(included, _relinked(markdown, source, here, config.extra["repository"]))


def _linked(code: re.Match[str]) -> str:
    """An exported name as a link, where one name alone ends so."""
    found = [anchor for path, anchor in _exports().items() if f".{path}".endswith(f".{code[1]}")]
    return f'<autoref identifier="{found[0]}">{code[0]}</autoref>' if len(found) == 1 else code[0]


@functools.cache
def _exports() -> dict[str, str]:
    """The anchor of every exported name; a function may be called as its file is."""
    found = {}
    for path in sorted((ROOT / "ldp_jax").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for node in ast.parse(path.read_text()).body:
            if (
                module != "ldp_jax"
                and isinstance(node, ast.Assign)
                and ast.unparse(node.targets[0]) == "__all__"
            ):
                for name in ast.literal_eval(node.value):
                    own = path.name == "__init__.py" and (path.parent / f"{name}.py").exists()
                    found[f"{module}.{name}"] = f"{module}.{name}" + f".{name}" * own
    return found


def section(file: str, heading: str | None) -> str:
    """The text of a file below a heading and its own ones, or before the first heading."""
    text = re.sub(r"\A# .+\n", "", (ROOT / file).read_text())
    level = 2
    if heading is not None:
        found = re.search(rf"^(##+) {re.escape(heading)}\n", text, re.MULTILINE)
        if found is None:
            raise PluginError(f"{file} has no heading {heading!r}")
        text = text[found.end() :]
        level = len(found[1])
    return re.split(rf"^#{{2,{level}}} ", text, flags=re.MULTILINE)[0].strip()


def _relinked(text: str, source: str, here: str, repository: str) -> str:
    """The text of a file, with its links as seen from the folder ``here`` of the site."""

    def address(link: str) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
        if not (ROOT / target).exists():
            raise PluginError(f"{source} links to {link}, which does not exist")
        place = _place(target)
        return (
            f"{repository}/blob/main/{target}"
            if place is None
            else os.path.relpath(place, here or ".")
        )

    return _LINK.sub(lambda m: m[1] + address(m[2]), text)


_ANCHORS: set[str] = set()
_WORDS = 2500  # of a page of the API


def _paths(name: str) -> list[str]:
    """A name in its own module, and in each package above."""
    *packages, last = name.split(".")
    return [".".join([*packages[:depth], last]) for depth in range(1, len(packages) + 1)]


def on_post_build(**_: Any) -> None:
    """Every exported name is on a page: by itself, by its module, or by a package above."""
    missing = [
        name for name, anchor in _exports().items() if not {*_paths(name), anchor} & _ANCHORS
    ]
    if missing:
        raise PluginError(f"on no page: {', '.join(missing)}")


def on_page_content(content: str, page: Any, **_: Any) -> str:
    """Formulas as MathML, which browsers draw without a script; a page of the API is short."""
    words = len(re.sub("<.*?>", " ", content).split())
    if page.file.src_uri.startswith("api/") and words > _WORDS:
        raise PluginError(f"{page.file.src_uri} has {words} words, {_WORDS} at most: split it")
    _ANCHORS.update(re.findall(r'id="(ldp_jax[^"]*)"', content))
    return _MATH.sub(
        lambda m: convert(
            html.unescape(m[3]).strip(), display="inline" if m[2] == "(" else "block"
        ),
        content,
    )
