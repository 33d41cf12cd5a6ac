"""Code that Markdown files show."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def code(page: str, language: str = "python") -> list[str]:
    """The text of each block, of a page by its path in the repository."""
    return re.findall(
        rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE
    )
