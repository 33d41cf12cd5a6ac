"""The Python files that CONTRIBUTING shows, by the names it gives them."""

from typing import Any

from tests.pages import ROOT, code

TEXT = (ROOT / "CONTRIBUTING.md").read_text()
NAMES = ("clock", "steps", "coin", "friends")


def blocks() -> dict[str, str]:
    """The text of each file."""
    found = dict(zip(NAMES, code("CONTRIBUTING.md"), strict=True))
    assert all(f" is `{name}.py`" in " ".join(TEXT.split()) for name in NAMES)
    return found


def run(name: str) -> dict[str, Any]:
    """What a file that imports no other of them defines."""
    made: dict[str, Any] = {"__name__": name}
    exec(compile(blocks()[name], f"{name}.py", "exec"), made)
    return made
