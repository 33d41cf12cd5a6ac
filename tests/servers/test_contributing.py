"""CONTRIBUTING to the letter: its protocol in a file of its own, and what the page says of it."""

import doctest
import importlib
import sys

from tests.contributing import blocks
from tests.pages import code


def test_a_protocol_of_one_file_is_what_the_page_says(tmp_path, monkeypatch):
    (tmp_path / "friends.py").write_text(blocks()["friends"])
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "friends", raising=False)
    importlib.invalidate_caches()
    (page,) = [text for text in code("CONTRIBUTING.md", "pycon") if "from friends import" in text]
    (more,) = [text for text in code("CONTRIBUTING.md", "pycon") if "import Lies" in text]
    asked = doctest.DocTestParser().get_doctest(page + more, {}, "a protocol", "CONTRIBUTING.md", 0)
    said: list[str] = []
    failed, tried = doctest.DocTestRunner().run(asked, out=said.append)
    assert failed == 0, "".join(said)
    assert tried > 15
    monkeypatch.delitem(sys.modules, "friends")
