"""Fixtures of the tests about sessions."""

from pathlib import Path

import pytest

from tests.sessions.raw import RawFile
from tests.support.drivers import Engine


@pytest.fixture
def raw(engine: Engine, path: Path) -> RawFile:
    """The file under the store of the same test."""
    return RawFile(path, engine.driver)
