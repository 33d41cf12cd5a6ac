"""Pages of results, a file each.

Markdown with its figures inside, links that resolve, no script.
"""

import base64
import html
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from markdown_it import MarkdownIt

from experiments import _registry, papers
from experiments._registry import EXPERIMENTS
from experiments._report import interval, markdown, prose, table
from experiments._runner import COLUMNS, REFERENCE, Results, write_atomically

_TEXT = prose("pages")

STRUCTURE = "structure-only:"
_PAGE_OF = {file: name for name, experiment in EXPERIMENTS.items() for file in experiment.tables}
_STYLE = """\
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:76rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;display:block;overflow-x:auto;font-size:13px;margin:1rem 0}
th,td{border-bottom:1px solid #8884;padding:.2rem .6rem;text-align:left;vertical-align:top}
th,code{background:#8882}
img{max-width:100%;background:white}pre{white-space:pre-wrap;overflow-wrap:anywhere}
section{border-top:3px solid #8884;margin-top:2rem}"""
_HEAD = """\
<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">"""


def render(text: str, base: Path, page: str = "", beside: Sequence[str] = ()) -> str:
    """HTML of Markdown whose figures are in ``base``.

    Links lead to ``page`` itself and to pages ``beside`` it.
    """
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = reader.parse(text)
    for token in tokens:
        lost = False
        for child in token.children or ():
            if child.type == "image":
                content = base64.b64encode((base / str(child.attrs["src"])).read_bytes()).decode()
                child.attrs["src"] = f"data:image/png;base64,{content}"
            if child.type == "link_open":
                link = str(child.attrs["href"])
                name = _PAGE_OF.get(link, link.removesuffix(".html"))
                lost = name not in (page, *beside)
                place = f"#{link}" if link in _PAGE_OF else ""
                child.attrs["href"] = place if name == page else f"{name}.html{place}"
            if child.type.startswith("link_") and lost:  # it leads nowhere: text
                child.type, child.content = "text", ""
    return reader.renderer.render(tokens, reader.options, {})


def _write(path: Path, title: str, *parts: str) -> Path:
    head = f"{_HEAD}<title>{html.escape(title)}</title><style>{_STYLE}</style>"
    body = "\n".join(parts)
    write_atomically(
        path, f'<!doctype html><html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'
    )
    return path


def _means(results: Results) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Over seeds, by what identifies a row but its settings.

    Values in per cent, what is proved, minutes.
    """
    frame = results.read()
    found = {}
    names = [
        name for name in results.key if name not in ("seed", "config", "unit", "epsilon_proved")
    ]
    for key, part in frame.groupby(names, dropna=False, sort=False):
        last = part[part.config == part.config.iloc[-1]]
        shown = {"value": interval(100 * last.value), "proved": last.epsilon_proved.max()}
        found[key] = (
            dict(zip(names, key, strict=True)) | shown | {"minutes": last.seconds.sum() / 60}
        )
    return found


def beside_the_paper(name: str, out: Path) -> Iterator[dict[str, Any]]:
    """Your rows where there are some, else the committed ones; each beside the paper's number."""
    experiment = EXPERIMENTS[name]
    printed = getattr(_registry.module(name), "printed", None)
    for mine, theirs in zip(experiment.results(out), experiment.results(REFERENCE), strict=True):
        yours = _means(mine)
        committed = _means(theirs)
        for key, row in (committed | yours).items():
            number = printed(row) if printed else None
            drawn = not printed and row["epsilon"] == 1 and row["metric"] in ("accuracy", "auc")
            if (number is None and not drawn) or row["mechanism"].startswith(STRUCTURE):
                continue
            source = yours if key in yours else committed
            twin = source.get(
                tuple(STRUCTURE + part if part == row["mechanism"] else part for part in key)
            )
            yield _line(row, number, twin) | {
                "rows": "committed" if source is committed else "yours"
            }


def _line(
    row: Mapping[str, Any], number: float | None, twin: Mapping[str, Any] | None
) -> dict[str, Any]:
    more = {
        name: row[name]
        for name in row
        if name not in (*COLUMNS, "delta", "value", "proved", "minutes")
    }
    more = {
        key: value for key, value in more.items() if value == value
    }  # not what the row has no number of
    further = [
        value if isinstance(value, str) else f"{key} {value:g}" for key, value in more.items()
    ]
    value, proved = row["value"], row["proved"]
    return {
        "data set": ", ".join([row["dataset"], row["task"], *filter(str.strip, further)]),
        "row": row["mechanism"],
        "metric": row["metric"],
        "eps": f"{row['epsilon']:g}",
        "paper": None if number is None else f"{number:g}",
        "ours (%)": value and f"{value.mean:.1f}",
        "95 % interval": f"± {value.half_width:.1f}" if value and value.n > 1 else "",
        "structure-only": twin and twin["value"],
        "epsilon proved": "none" if not np.isfinite(proved) else f"{proved:.3g}",
        "minutes": f"{row['minutes']:.1f}",
    }


def _made_with(results: Sequence[Results]) -> str:
    rows = []
    for one in results:
        whose = "committed" if one.csv.parent == REFERENCE else "yours"
        for made in one.describe().get("environments", ()):
            versions = ", ".join(f"{name} {version}" for name, version in made["versions"].items())
            rows.append((one.csv.name, whose, made["device"], versions))
    return markdown(["file", "rows", "device", "versions"], dict.fromkeys(rows))


def page(
    name: str, out: Path, said: str, items: Sequence[papers.Item], beside: Sequence[str]
) -> Path:
    """Write NAME.html: rows beside the paper's, ``said`` of this run, tables and figures."""
    experiment = EXPERIMENTS[name]
    wanted = [file for item in items for file in item.files] or [
        *experiment.tables,
        *_figures(name),
    ]
    about = f"# {name}: {experiment.about}"
    words = [about, said, "## Beside the paper", _TEXT.beside, table(beside_the_paper(name, out))]
    parts = [render("\n\n".join(words), out)]
    shown = ""
    for file in dict.fromkeys(file for file in wanted if file in experiment.tables):
        own = (out / file).exists()
        base = out if own else REFERENCE
        text = _sections((base / file).read_text(), [item.name for item in items])
        label = f"*{'Your rows' if own else 'Committed rows'}*: {file}"
        parts.append(
            f'<section id="{file}">\n{render(label, base)}'
            f"{render(text, base, name, beside)}</section>"
        )
        shown += text
    for file in dict.fromkeys(
        file for file in wanted if file.endswith(".png") and f"({file})" not in shown
    ):
        base = out if (out / file).exists() else REFERENCE
        label = "Your figure" if base is out else "Committed figure"
        parts.append(render(f"![{file}]({file})\n\n{label}: {file}", base))
    made = [
        one for folder in (out, REFERENCE) for one in experiment.results(folder) if one.csv.exists()
    ]
    parts.append(render(f"## Versions and devices\n\n{_made_with(made)}", out))
    parts += ['<p><a href="index.html">All pages</a></p>'] if beside else []
    return _write(out / f"{name}.html", name, *parts)


def _figures(name: str) -> list[str]:
    named = [
        path.name
        for file in EXPERIMENTS[name].tables
        for path in REFERENCE.glob(f"{Path(file).stem}*.png")
    ]
    return [
        *(file for item in papers.of(name) for file in item.files if file.endswith(".png")),
        *sorted(named),
    ]


def _sections(text: str, names: Sequence[str]) -> str:
    """The sections whose titles have one of the names; the whole text where none has."""
    found = [
        part for part in text.split("\n## ") if any(name in part.split("\n")[0] for name in names)
    ]
    return "## " + "\n\n## ".join(found) if found else text


def index(out: Path, names: Sequence[str]) -> Path:
    """index.html: all pages, what was found, and every table and figure of the papers."""
    rows = [{"page": f"[{name}]({name}.html)", "what": EXPERIMENTS[name].about} for name in names]
    parts = [render(f"# Results\n\n{table(rows)}", out, "", names)]
    for file in ("findings.md", "papers.md"):
        parts.append(
            render(
                f"*Committed rows*: {file}\n\n{(REFERENCE / file).read_text()}",
                REFERENCE,
                "",
                names,
            )
        )
    return _write(out / "index.html", "Results", *parts)
