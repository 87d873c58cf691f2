"""The public names and signatures change only on purpose."""

import difflib
import json
import subprocess
import sys

import pytest

import hermes_store
from tests.house.public_api import SNAPSHOT, describe

HINT = "if this is meant: python -m tests.house.public_api, and tell it in CHANGELOG.md"


def test_names_and_signatures_are_those_of_the_snapshot() -> None:
    before = SNAPSHOT.read_text(encoding="utf-8").splitlines()
    changes = list(difflib.unified_diff(before, describe().splitlines(), "snapshot", "package", lineterm="", n=0))
    assert changes == [], "\n".join([*changes, HINT])


def test_the_snapshot_holds_what_people_write() -> None:
    text = SNAPSHOT.read_text(encoding="utf-8")
    for line in (
        "class SessionDB(",
        "class Store()",
        "def append_message(self, session_id: str",
        "class StoreLocked(",
    ):
        assert line in text


@pytest.mark.parametrize("name", hermes_store.__all__)
def test_every_name_can_be_imported(name: str) -> None:
    assert getattr(hermes_store, name) is not None
    assert name in dir(hermes_store)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = hermes_store.Nonsense


_PROBE = """
import json, sys
import hermes_store
{use}
print(json.dumps(sorted(sys.modules)))
"""


@pytest.mark.parametrize(
    ("use", "never"),
    [
        ("", {"sqlalchemy", "sqlite3", "pysqlite3", "alembic", "click", "rich", "hermes_store.store"}),
        ("hermes_store.get_hermes_home()", {"sqlalchemy", "sqlite3", "pysqlite3", "alembic", "click", "rich"}),
        ("hermes_store.SessionDB", {"alembic", "click", "rich"}),
    ],
    ids=["package", "home", "SessionDB"],
)
def test_importing_pays_only_for_what_is_used(use: str, never: set[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROBE.format(use=use)], check=True, capture_output=True, text=True, encoding="utf-8"
    )
    assert set(json.loads(done.stdout)) & never == set()
