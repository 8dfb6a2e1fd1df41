"""Fixtures of the runtime's tests."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def quiet() -> Iterator[None]:
    """Where handlers fail on purpose, and often, what is logged of it says nothing."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
