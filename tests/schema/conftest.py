"""Fixtures of the tests that start processes."""

import pytest

from tests.support.drivers import Engine, engines


@pytest.fixture
def any_engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The last engine there is, for what does not depend on it; child processes inherit the choice."""
    chosen = engines()[-1]
    monkeypatch.setenv("HERMES_STORE_SQLITE_DRIVER", chosen.driver)
    monkeypatch.setenv("HERMES_STORE_JOURNAL_MODE", chosen.journal_mode)
    return chosen
