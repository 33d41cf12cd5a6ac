"""Claims of the five papers, in our words, and whether tests or committed rows show them.

A claim has a test as its evidence, or numbers of committed rows and a rule on them. Where the rule
disagrees with the verdict that ``claims.toml`` states, the claim is refused by name.
"""

import functools
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd

from experiments._declared import Report, merged, report_of
from experiments._lines import Spec
from experiments._report import markdown, prose, publish
from experiments._runner import REFERENCE, UsageError
from ldp_jax.learning.metrics import ConfidenceInterval

FILE = Path(__file__).with_suffix(".toml")
UNDECIDED = "undecided"
VERDICTS = ("holds", "only in their setting", "does not", UNDECIDED, "not tested")

_TEXT = prose("claims")
_COUNTS = {name: {"show": name} for name in ("rows", "above", "below", "level")}
"""Numbers that every claim of rows has."""


@functools.cache
def told() -> dict[str, Any]:
    """The file: ``pages`` of rows, and ``claims``."""
    return tomllib.loads(FILE.read_text())


@functools.cache
def page(name: str) -> Report:
    """A page of committed rows, with the measures that claims add to it.

    One with a ``csv`` is of a table that no paper's page declares line by line.
    """
    spec: dict[str, Any] = {"sections": (), **told()["pages"][name]}
    if "csv" in spec:
        frame = pd.read_csv(REFERENCE / spec.pop("csv")).rename(columns=spec.pop("renamed", {}))
        return Report(name, {"value": "value", **spec}, frame, FILE)
    file = FILE.parent / spec["paper"] / "report.toml"
    declared = tomllib.loads(file.read_text())[name]
    measures = declared["measures"] | spec.get("measures", {})
    found: Any = report_of(name, declared | {"measures": measures}, FILE, REFERENCE)
    return found


def refusal(claim: Spec, what: str) -> UsageError:
    return UsageError(f"{FILE}, {claim['paper']}, {claim['source']}: {claim['claim']} {what}")


def numbers(claim: Spec) -> tuple[dict[str, Any], dict[str, str]]:
    """A claim's rows, as numbers for its rule and as words for its text.

    An interval has its ends beside it, as ``gap_low`` and ``gap_high``.
    """
    shared = {key: claim[key] for key in ("where", "measure") if key in claim}
    values = {}
    words = {}
    for name, spec in (_COUNTS | claim.get("numbers", {})).items():
        of = page(spec.get("page", claim["page"]))
        number = spec if "page" in spec else merged(shared, spec)
        found = of.ask(number)
        if found is None or (name == "rows" and not found):
            raise refusal(claim, f"No row has its number {name}.")
        values[name] = getattr(found, "mean", found)
        if isinstance(found, ConfidenceInterval):
            values[f"{name}_low"] = found.mean - found.half_width
            values[f"{name}_high"] = found.mean + found.half_width
        words[name] = of.cell(number, of.lines, of.spec["setting"]).replace("*", "")
    return values, words


def judged(claim: Spec) -> tuple[str, str]:
    """The verdict that the rows give by the claim's rule, and its text with numbers."""
    values, words = numbers(claim)
    frame: Any = pd.DataFrame([values])
    for name, formula in claim.get("made", {}).items():
        frame[name] = frame.eval(formula)
        words[name] = f"{frame[name].iloc[0]:.1f}"
    true = [verdict for verdict, rule in claim["rule"].items() if frame.eval(rule).all()]
    if len(true) > 1:
        raise refusal(claim, f"Its rows say several things: {', '.join(true)}.")
    return (true or [UNDECIDED])[0], claim["text"].format(**words)


def checked(claim: Spec) -> tuple[str, str]:
    """The verdict and the text of a claim; refused where its rows give another verdict."""
    found, text = judged(claim) if "page" in claim else (claim["verdict"], claim["text"])
    if found != claim["verdict"]:
        raise refusal(claim, f"The verdict is {claim['verdict']}; the evidence says {found}.")
    return found, text


def evidence(claim: Spec) -> str:
    """Links to the page of the rows, and to the tests."""
    links = [f"[{claim['page']}]({claim['page']}.md)"] if "page" in claim else []
    for test in claim.get("tests", ()):
        file, name = test.split("::")
        links.append(f"[{name}](../../{file})")
    return ", ".join(links)


def as_markdown() -> str:
    claims = told()["claims"]
    papers = list(dict.fromkeys(claim["paper"] for claim in claims))
    kinds = list(dict.fromkeys(claim["kind"] for claim in claims))
    counts = Counter(
        (of, claim["verdict"]) for claim in claims for of in (claim["kind"], claim["paper"], "all")
    )
    names = (*kinds, *papers, "all")
    totals = [[of, *(counts[of, verdict] for verdict in VERDICTS)] for of in names]
    parts = [_TEXT.lead, markdown(["claims of", *VERDICTS], totals), _TEXT.verdicts]
    for paper in papers:
        rows = [
            [f"{claim['claim']} *({claim['source']})*", *checked(claim), evidence(claim)]
            for claim in claims
            if claim["paper"] == paper
        ]
        parts += [f"## {paper}", markdown(["claim", "verdict", "number", "evidence"], rows)]
    return "\n\n".join(parts)


def write_report(out: Path) -> list[Path]:
    if out.resolve() != REFERENCE.resolve():
        return []
    page.cache_clear()
    return publish(out, {"claims": as_markdown()}, {})
