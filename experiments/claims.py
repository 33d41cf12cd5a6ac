"""What the five papers claim, in our words, and whether tests or committed rows show it.

A claim has a test as its evidence, or numbers of committed rows and a rule on them. Where the rule
disagrees with the verdict that ``claims.toml`` states, the claim is refused by name.
"""

import functools
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from experiments._declared import Report, merged, report_of
from experiments._lines import Spec
from experiments._report import markdown, prose
from experiments._runner import REFERENCE, UsageError, write_atomically
from ldp_jax.learning.metrics import ConfidenceInterval

FILE = Path(__file__).with_suffix(".toml")
UNDECIDED = "undecided"
VERDICTS = ("holds", "only in their setting", "does not", UNDECIDED, "not tested")
COUNTS = ("rows", "above", "below", "level")
"""Numbers that every claim of rows has."""

_TEXT = prose("claims")
_ROOT = Path(__file__).parents[1]


def told() -> dict[str, Any]:
    """The file: ``pages`` of rows, and ``claims``."""
    return tomllib.loads(FILE.read_text())


def name_of(claim: Spec) -> str:
    return f"{claim['paper']}, {claim['source']}: {claim['claim']}"


@functools.cache
def page(name: str) -> Report:
    """A page of committed rows with the measures that claims add to it.

    One with a ``csv`` is of a table that no paper's page declares line by line.
    """
    spec = told()["pages"][name]
    # The claims of the page are checked as its sentences are.
    sections = [{"sentences": [checkable(claim) for claim in told()["claims"] if claim.get("page") == name]}]
    if "csv" in spec:
        frame = pd.read_csv(REFERENCE / f"{spec['csv']}.csv").rename(columns=spec.get("rename", {}))
        spec = {key: spec[key] for key in spec if key not in ("csv", "rename")}
        rows = frame if "seed" in frame else frame.assign(seed=0)
        return Report(name, spec | {"sections": sections}, rows, FILE)
    file = FILE.parent / spec["paper"] / "report.toml"
    declared = tomllib.loads(file.read_text())[name]
    measures = declared["measures"] | spec.get("measures", {})
    found = report_of(
        name, declared | {"measures": measures, "sections": sections}, FILE, REFERENCE
    )
    if found is None:
        raise UsageError(f"{FILE}, pages.{name}: no committed row")
    return found


def checkable(claim: Spec) -> dict[str, Any]:
    """What a claim asks of its own page."""
    own = {name: spec for name, spec in asked_of(claim).items() if "page" not in spec}
    return {key: claim[key] for key in ("where", "measure") if key in claim} | {"numbers": own}


def asked_of(claim: Spec) -> dict[str, Any]:
    """The numbers of a claim by their names; one with a ``page`` is of that page."""
    return {name: {"show": name} for name in COUNTS} | claim.get("numbers", {})


def numbers(claim: Spec) -> tuple[dict[str, float], dict[str, str]]:
    """What a claim's rows say, as numbers for its rule and as words for its text.

    An interval has its ends beside it, as ``gap_low`` and ``gap_high``.
    """
    shared = {key: claim[key] for key in ("where", "measure") if key in claim}
    values = {}
    words = {}
    for name, spec in asked_of(claim).items():
        of = page(spec.get("page", claim["page"]))
        number = spec if "page" in spec else merged(shared, spec)
        found = of.ask(number)
        if found is None or found != found:
            raise UsageError(f"{FILE}, {name_of(claim)}: no row has the number {name}")
        words[name] = of.cell(number, of.lines, of.spec["setting"])
        if isinstance(found, ConfidenceInterval):
            values[name] = found.mean
            values[f"{name}_low"] = found.mean - found.half_width
            values[f"{name}_high"] = found.mean + found.half_width
        else:
            values[name] = found
    return values, words


def judged(claim: Spec) -> tuple[str, str]:
    """The verdict that the rows give by the claim's rule, and its text with numbers."""
    values, words = numbers(claim)
    frame = pd.DataFrame([values])
    for name, formula in claim.get("made", {}).items():
        frame[name] = frame.eval(formula)
        words[name] = f"{frame[name].iloc[0]:.3g}"
    true = [verdict for verdict, rule in claim["rule"].items() if frame.eval(rule).all()]
    if len(true) > 1:
        raise UsageError(f"{FILE}, {name_of(claim)}: the rows are {' and '.join(true)}")
    return (true or [UNDECIDED])[0], claim["text"].format(**words)


def checked(claim: Spec) -> tuple[str, str]:
    """The verdict and the text of a claim; refused where its evidence says something else."""
    verdict = claim["verdict"]
    if verdict not in VERDICTS:
        raise UsageError(f"{FILE}, {name_of(claim)}: no verdict {verdict}")
    if "page" not in claim:
        return verdict, claim["text"]
    found, text = judged(claim)
    if found != verdict:
        raise UsageError(f"{FILE}, {name_of(claim)}: {verdict} is stated, the rows say: {found}")
    return verdict, text


def evidence(claim: Spec) -> str:
    """Links to the page of the rows, and to the tests."""
    links = []
    if "page" in claim:
        links.append(f"[{claim['page']}]({claim['page']}.md)")
    for test in claim.get("tests", ()):
        file, name = test.split("::")
        links.append(f"[{name}](../../{file})")
    return ", ".join(links)


def as_markdown() -> str:
    claims = [(claim, *checked(claim)) for claim in told()["claims"]]
    papers = list(dict.fromkeys(claim["paper"] for claim, *_ in claims))
    counts = Counter((claim["paper"], verdict) for claim, verdict, _ in claims)
    total = Counter(verdict for _, verdict, _ in claims)
    lead = ", ".join(f"{total[verdict]} {verdict}" for verdict in VERDICTS if total[verdict])
    summary = [
        [paper, *(counts[paper, verdict] or None for verdict in VERDICTS)] for paper in papers
    ]
    parts = [_TEXT.lead, f"{len(claims)} claims: {lead}.", markdown(["paper", *VERDICTS], summary)]
    for paper in papers:
        rows = [
            [f"{claim['claim']} *{claim['source']}*", verdict, text, evidence(claim)]
            for claim, verdict, text in claims
            if claim["paper"] == paper
        ]
        parts += [f"## {paper}", markdown(["claim, where", "verdict", "number", "evidence"], rows)]
    return "\n\n".join([*parts, _TEXT.rules]) + "\n"


def write_report(out: Path) -> list[Path]:
    if out.resolve() != REFERENCE.resolve():
        return []
    page.cache_clear()
    write_atomically(out / "claims.md", as_markdown())
    return [out / "claims.md"]
