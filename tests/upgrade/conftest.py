"""Each installed driver in turn, for what does not depend on the journal mode."""

import pytest

from tests.support.drivers import installed


@pytest.fixture(params=installed())
def driver(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The driver that builds the file and opens it."""
    name: str = request.param
    monkeypatch.setenv("HERMES_STORE_SQLITE_DRIVER", name)
    return name


@pytest.fixture
def one_driver(monkeypatch: pytest.MonkeyPatch) -> str:
    """One driver, for rules that no SQLite sees differently."""
    name = installed()[-1]
    monkeypatch.setenv("HERMES_STORE_SQLITE_DRIVER", name)
    return name
