"""Fixtures of the search tests."""

import pytest

from tests.support.drivers import Engine, indexes_past_nul


@pytest.fixture
def whole_substrings(engine: Engine) -> None:
    """Skips where CJK text is scanned for, because the index of substrings lacks structured messages."""
    if not indexes_past_nul(engine.driver):
        pytest.skip("the trigram tokenizer of this SQLite stops at a NUL")
