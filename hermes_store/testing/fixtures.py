"""Fixtures for the tests of applications: `pytest_plugins = ["hermes_store.testing.fixtures"]` (rule TEST-2)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_store.home import reset_hermes_home_override, set_hermes_home_override
from hermes_store.store import Store


@pytest.fixture
def hermes_home(tmp_path: Path) -> Iterator[Path]:
    """A home folder of its own, so that the code under test never meets a real store."""
    folder = tmp_path / "hermes-home"
    folder.mkdir()
    token = set_hermes_home_override(folder)
    yield folder
    reset_hermes_home_override(token)


@pytest.fixture
def hermes_store(hermes_home: Path) -> Iterator[Store]:
    """A new store in that home."""
    with Store.open(hermes_home / "state.db") as store:
        yield store
