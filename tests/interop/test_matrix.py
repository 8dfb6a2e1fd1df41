"""The page that says who can do what with whom tells what was seen."""

from __future__ import annotations

import pytest

from tests.interop.matrix import PAGE, render

pytestmark = pytest.mark.interop


def test_the_matrix_is_what_was_seen() -> None:
    """The page is what ``python -m tests.interop.matrix`` would write now."""
    assert PAGE.read_text(encoding="utf-8") == render()
