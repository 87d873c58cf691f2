"""Fixtures of the tests with several processes."""

from pathlib import Path

import pytest

from hermes_store import SessionDB
from tests.support.drivers import Engine


@pytest.fixture
def filled_path(engine: Engine, path: Path) -> Path:
    """A closed store with the session `a` and one message."""
    with SessionDB(path) as db:
        db.create_session("a", "cli")
        db.append_message("a", "user", "first")
    return path
