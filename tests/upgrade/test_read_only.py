"""Files whose flags are NULL, read as they are: shown like after an upgrade, and not a byte is changed."""

from pathlib import Path
from typing import Any

import pytest

from hermes_store import SessionDB, Store
from tests.schema.inspecting import files_of
from tests.snapshots.build import build_version
from tests.snapshots.history import ACTIVE
from tests.snapshots.writing import alter
from tests.upgrade.files import found, module_of, upgrade

FLAGS = {"active": ACTIVE, "archived": "archived INTEGER NOT NULL DEFAULT 0"}


def _loose(text: str) -> str:
    """Flags without NOT NULL and default, as an old reconcile added them."""
    for name, definition in FLAGS.items():
        text = text.replace(definition, f"{name} INTEGER")
    return text


def _shown(path: Path, ids: tuple[str, ...]) -> dict[str, Any]:
    with SessionDB(path, read_only=True) as db:
        return {
            "listed": [
                (each["id"], each["archived"], each["message_count"])
                for each in db.list_sessions_rich(limit=100, include_children=True)
            ],
            "messages": {each: [(m["id"], m["active"]) for m in db.get_messages(each)] for each in ids},
            "replayed": {each: db.get_messages_as_conversation(each) for each in ids},
            "found": sorted(found(db, "narwhal")),
        }


@pytest.mark.parametrize("version", [16, 20, 23])
@pytest.mark.parametrize("nulled", ["messages.active", "sessions.archived", "both"])
def test_null_flags_are_shown_like_after_an_upgrade(path: Path, driver: str, version: int, nulled: str) -> None:
    story = build_version(path, module_of(driver), version, variant="late", sessions=3, turns=2, edit=_loose)
    ids = tuple(story.session_ids)
    insert = (
        "INSERT INTO messages (id, session_id, role, content, timestamp, active) VALUES (777, ?, 'user', ?, 9e9, 1)"
    )
    alter(path, module_of(driver), (insert, (ids[0], "a narwhal")))
    if nulled != "sessions.archived":
        alter(path, module_of(driver), "UPDATE messages SET active = NULL WHERE active = 1")
    if nulled != "messages.active":
        alter(path, module_of(driver), "UPDATE sessions SET archived = NULL WHERE archived = 0")
    before = files_of(path)
    seen = _shown(path, ids)
    assert files_of(path) == before
    assert seen["found"] == [777]
    assert (777, 1) in seen["messages"][ids[0]]
    assert {flag for _, flag, _ in seen["listed"]} == {0}
    upgrade(path)
    assert _shown(path, ids) == seen


@pytest.mark.parametrize("version", [16, 23])
def test_a_reader_of_repositories_sees_them_too(path: Path, driver: str, version: int) -> None:
    build_version(path, module_of(driver), version, variant="late", sessions=2, turns=2, edit=_loose)
    alter(path, module_of(driver), "UPDATE messages SET active = NULL", "UPDATE sessions SET archived = NULL")
    with Store.open(path, read_only=True) as store, store.reader() as reader:
        assert reader.connection.sql("SELECT DISTINCT active FROM messages") == [(1,)]
        assert reader.connection.sql("SELECT DISTINCT archived FROM sessions") == [(0,)]
        assert not store.report.changed
