"""Marks that tests of several folders bear."""

import pytest

untyped = pytest.mark.usefixtures("untyped")
"""Without run-time types, which cost more than the calls where there are a hundred thousand of
them.
"""
