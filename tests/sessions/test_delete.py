"""Deleting the conversation that a list shows, with its delegate runs (rules DELETE-1, DELETE-2)."""

from typing import Any

import pytest

from hermes_store import SessionDB, Store
from hermes_store.errors import SessionNotFound
from tests.sessions.raw import STARTED, RawFile

COMPRESSED = {"end_reason": "compression", "ended_at": STARTED + 10}


def left(raw: RawFile) -> dict[str, str | None]:
    """The parents of the sessions that are left, by id."""
    return dict(raw.rows("SELECT id, parent_session_id FROM sessions ORDER BY id"))


def marked(kind: str, owner: str) -> dict[str, str]:
    return {"model_config": f'{{"_{kind}_from": "{owner}"}}'}


@pytest.mark.parametrize("segment", ["tip", "root"])
def test_the_whole_conversation_goes(db: SessionDB, segment: str) -> None:
    db.create_session("root", "cli")
    db.append_message("root", "user", "first ocelot")
    db.end_session("root", "compression")
    db.create_session("tip", "cli", parent_session_id="root")
    db.append_message("tip", "user", "second ocelot")
    db.create_session("other", "cli")
    db.append_message("other", "user", "third ocelot")
    assert {row["id"] for row in db.list_sessions_rich()} == {"tip", "other"}
    assert db.delete_session(segment) is True
    assert [row["id"] for row in db.list_sessions_rich()] == ["other"]
    assert [hit["session_id"] for hit in db.search_messages("ocelot")] == ["other"]
    assert db.get_session("root") is None
    assert db.get_session("tip") is None


def test_abandoned_continuations_go_along(db: SessionDB, raw: RawFile) -> None:
    raw.session("root", **COMPRESSED)
    raw.session("mid", parent_session_id="root", **COMPRESSED)
    raw.session("dead", parent_session_id="root", end_reason="ws_orphan_reap", ended_at=STARTED + 11)
    raw.session("tip", parent_session_id="mid")
    assert db.delete_session("tip") is True
    assert left(raw) == {}


@pytest.mark.parametrize(
    "state",
    [{}, {"ended_at": 5.0, "end_reason": "x"}, {"archived": 1}, {"pinned": 1}, {"title": "name"}],
    ids=["live", "ended", "archived", "pinned", "titled"],
)
def test_any_session_can_be_deleted(db: SessionDB, raw: RawFile, state: dict[str, Any]) -> None:
    raw.session("a", **state)
    raw.message("a")
    raw.message("a", active=0, compacted=1)
    raw.message("a", active=0)
    assert db.delete_session("a") is True
    assert (raw.count("sessions"), raw.count("messages")) == (0, 0)


@pytest.mark.parametrize("session_id", ["nobody", "", "A", None])
@pytest.mark.parametrize("expected", [None, [], ["nobody"]])
def test_an_unknown_session_is_not_deleted(
    db: SessionDB, raw: RawFile, session_id: str, expected: list[str] | None
) -> None:
    raw.session("a")
    assert db.delete_session(session_id, expected_delete_ids=expected) is False
    assert left(raw) == {"a": None}


def test_a_unit_says_that_a_session_is_unknown(store: Store) -> None:
    with pytest.raises(SessionNotFound):
        store.write(lambda unit: unit.delete_conversation("nobody"))


def test_other_children_stay_without_a_parent(db: SessionDB, raw: RawFile) -> None:
    raw.session("a", **COMPRESSED)
    raw.session("branch", parent_session_id="a", **marked("branched", "a"))
    raw.session("tool", parent_session_id="a", source="tool")
    raw.session("tip", parent_session_id="a")
    raw.session("plain", parent_session_id="tip")
    raw.session("below", parent_session_id="branch")
    for session_id in ("branch", "tool", "plain"):
        raw.message(session_id, content=session_id)
    assert db.delete_session("a") is True
    assert left(raw) == {"below": "branch", "branch": None, "plain": None, "tool": None}
    assert raw.count("messages") == 3
    assert "plain" in {row["id"] for row in db.list_sessions_rich()}


def test_delegate_runs_go_along_wherever_they_hang(db: SessionDB, raw: RawFile) -> None:
    raw.session("a")
    raw.session("run", parent_session_id="a", **marked("delegate", "a"))
    raw.session("loose", **marked("delegate", "a"))
    raw.session("foreign", parent_session_id="a", **marked("delegate", "__orphaned__"))
    raw.session("nested", parent_session_id="run", **marked("delegate", "run"))
    raw.session("kept", parent_session_id="run")
    raw.session("stranger", **marked("delegate", "b"))
    for session_id in ("a", "run", "nested", "kept"):
        raw.message(session_id)
    assert db.delete_session("a") is True
    assert left(raw) == {"kept": None, "stranger": None}
    assert raw.rows("SELECT session_id FROM messages") == [("kept",)]


def test_delegates_of_every_segment_go_along(db: SessionDB, raw: RawFile) -> None:
    raw.session("root", **COMPRESSED)
    raw.session("tip", parent_session_id="root")
    raw.session("run", **marked("delegate", "root"))
    assert db.delete_session("tip") is True
    assert left(raw) == {}


@pytest.mark.parametrize("marker", [{}, marked("delegate", "a")], ids=["unmarked", "copied marker"])
def test_a_delegate_run_that_was_compressed_goes_whole(db: SessionDB, raw: RawFile, marker: dict[str, str]) -> None:
    raw.session("a")
    raw.session("run", parent_session_id="a", **marked("delegate", "a"), **COMPRESSED)
    raw.session("run tip", parent_session_id="run", **marker)
    raw.session("run of tip", parent_session_id="run tip", **marked("delegate", "run tip"))
    assert db.delete_session("a") is True
    assert left(raw) == {}


def test_delegates_in_a_cycle(db: SessionDB, raw: RawFile) -> None:
    raw.session("a", parent_session_id="b", **marked("delegate", "b"))
    raw.session("b", parent_session_id="a", **marked("delegate", "a"))
    assert db.delete_session("a") is True
    assert left(raw) == {}


@pytest.mark.parametrize(
    ("expected", "deleted"),
    [
        (["tip", "root", "run"], True),
        (("run", "run", "tip", "root"), True),
        ({"tip", "root", "run"}, True),
        ([], False),
        (["tip"], False),
        (["tip", "root"], False),
        (["tip", "root", "run", "more"], False),
    ],
)
def test_what_was_shown_is_what_goes_or_nothing(db: SessionDB, raw: RawFile, expected: Any, *, deleted: bool) -> None:
    raw.session("root", **COMPRESSED)
    raw.session("tip", parent_session_id="root")
    raw.session("run", **marked("delegate", "tip"))
    before = left(raw)
    assert db.delete_session("tip", expected_delete_ids=expected) is deleted
    assert left(raw) == ({} if deleted else before)


def test_usage_goes_along_and_other_tables_stay(db: SessionDB, raw: RawFile) -> None:
    for session_id in ("a", "b"):
        raw.session(session_id)
        raw.rows("INSERT INTO session_model_usage (session_id, model) VALUES (?, 'm')", session_id)
    raw.lock("a", "h", STARTED)
    raw.rows("INSERT INTO state_meta (key, value) VALUES ('k', 'a')")
    db.delete_session("a")
    assert raw.rows("SELECT session_id FROM session_model_usage") == [("b",)]
    assert raw.count("compression_locks") == 1
    assert raw.value("SELECT value FROM state_meta WHERE key = 'k'") == "a"


def test_an_id_that_was_deleted_can_be_used_again(db: SessionDB) -> None:
    db.create_session("a", "cli", model="old")
    first = db.append_message("a", "user", "x")
    db.delete_session("a")
    db.create_session("a", "cli")
    assert (db.get_session("a") or {})["model"] is None
    assert db.get_messages("a", include_inactive=True) == []
    assert db.append_message("a", "user", "y") > first


def test_a_large_family_is_deleted_in_one_go(db: SessionDB, raw: RawFile) -> None:
    raw.session("a")
    raw.run(
        (
            "INSERT INTO sessions (id, source, started_at, model_config) VALUES (?, 'cli', 1, ?)",
            (f"run{number}", '{"_delegate_from": "a"}'),
        )
        for number in range(2000)
    )
    assert db.delete_session("a") is True
    assert left(raw) == {}
