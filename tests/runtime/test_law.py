"""No reverse call outlives its forward call, and each abandoned one tells the peer exactly once."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.runtime.plans import (
    ENDINGS,
    Plan,
    carry_out,
    plans,
)


if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module", autouse=True)
def _quiet() -> Iterator[None]:
    """Plans fail on purpose, and what is logged of it says nothing."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("typed", [True, False], ids=["objects", "bytes"])
@given(plan=plans(), _schedule=st.random_module())
def test_the_law_holds_whatever_handlers_do_and_however_it_ends(
    typed: bool, plan: Plan, _schedule: Any
) -> None:
    """Shields, foreign nurseries, failing clean-up, two levels, every way of ending."""
    carry_out(plan, typed=typed)
