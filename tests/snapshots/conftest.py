"""Every library that can write the files."""

from typing import Any

import pytest

from hermes_store.database import load_driver
from tests.support.drivers import installed


@pytest.fixture(params=installed())
def module(request: pytest.FixtureRequest) -> Any:
    """The DB-API module of each installed driver in turn."""
    return load_driver(request.param).module


@pytest.fixture
def any_module() -> Any:
    """The DB-API module of one installed driver, for what does not depend on it."""
    return load_driver(installed()[-1]).module
