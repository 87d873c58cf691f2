"""The counters of a session are right after every write, also where they were broken (rules APPEND-3, APPEND-4)."""

from typing import Any

import pytest

from hermes_store import SessionDB, Store, Unit
from tests.sessions.raw import RawFile, present

CALL = {"id": "c", "function": {"name": "f", "arguments": "{}"}}


def counters(db: SessionDB, session_id: str = "a") -> tuple[int | None, int | None]:
    row = present(db.get_session(session_id))
    return row["message_count"], row["tool_call_count"]


def test_every_message_counts_and_every_call(db: SessionDB) -> None:
    db.create_session("a", "cli")
    db.create_session("b", "cli")
    db.append_message("a", "user", "x")
    db.append_message("a", "assistant", "y", tool_calls=[CALL, CALL])
    db.append_message("a", "tool", "z", tool_call_id="c", tool_name="f")
    db.append_message("a", "session_meta")
    db.append_message("a", "assistant", tool_calls=CALL)
    assert counters(db) == (5, 3)
    assert counters(db, "b") == (0, 0)


@pytest.mark.parametrize(
    "broken",
    [
        {"message_count": None},
        {"tool_call_count": None},
        {"message_count": None, "tool_call_count": None},
        {"message_count": None, "tool_call_count": 99},
    ],
)
def test_a_null_counter_is_right_after_the_next_append(db: SessionDB, raw: RawFile, broken: dict[str, Any]) -> None:
    db.create_session("a", "cli")
    db.append_message("a", "user", "x")
    db.append_message("a", "assistant", "y", tool_calls=[CALL, CALL])
    raw.change("a", **broken)
    db.append_message("a", "assistant", "z", tool_calls=[CALL])
    assert counters(db) == (3, 3)
    db.append_message("a", "user", "w")
    assert counters(db) == (4, 3)
    assert [row["id"] for row in db.list_sessions_rich(min_message_count=1)] == ["a"]


def test_counting_anew_leaves_out_what_is_not_live(db: SessionDB, raw: RawFile) -> None:
    raw.session("a", message_count=None, tool_call_count=None)
    raw.message("a", active=0, compacted=1, role="assistant", tool_calls='[{"id": "1"}]')
    raw.message("a", active=0, compacted=0)
    raw.message("a", role="assistant", tool_calls='[{"id": "2"}, {"id": "3"}]')
    raw.message("a", role="assistant", tool_calls="{damaged")
    db.append_message("a", "user", "x")
    assert counters(db) == (3, 2)


def test_a_null_counter_hides_no_session(db: SessionDB, raw: RawFile) -> None:
    raw.session("a", message_count=None, tool_call_count=None)
    raw.message("a")
    assert [row["id"] for row in db.list_sessions_rich()] == ["a"]
    assert [row["id"] for row in db.list_sessions_rich(min_message_count=1)] == ["a"]


def test_an_undone_append_counts_nothing(store: Store) -> None:
    store.write(lambda unit: unit.create_session("a", "cli"))

    def body(unit: Unit) -> None:
        unit.append("a", "assistant", "x", tool_calls=[CALL])
        raise KeyError

    with pytest.raises(KeyError):
        store.write(body)
    with store.reader() as reader:
        record = reader.sessions.get("a")
        assert (record.message_count, record.tool_call_count, reader.messages.count("a")) == (0, 0, 0)


def test_many_appends_of_one_unit_count(store: Store) -> None:
    with store.transaction() as unit:
        unit.create_session("a", "cli")
        for _ in range(5):
            unit.append("a", "assistant", "x", tool_calls=[CALL])
    with store.reader() as reader:
        record = reader.sessions.get("a")
        assert (record.message_count, record.tool_call_count) == (5, 5)


# -- clearing ---------------------------------------------------------------------------------------------------


def test_clearing_removes_every_row_and_nothing_of_others(db: SessionDB, raw: RawFile) -> None:
    for session_id in ("a", "b"):
        db.create_session(session_id, "cli")
        db.append_message(session_id, "assistant", f"ocelot of {session_id}", tool_calls=[CALL])
        raw.message(session_id, active=0, compacted=1)
        raw.message(session_id, active=0)
    raw.change("a", rewind_count=3)
    db.clear_messages("a")
    assert db.get_messages("a", include_inactive=True) == []
    assert counters(db) == (0, 0)
    assert present(db.get_session("a"))["rewind_count"] == 3
    assert len(db.get_messages("b", include_inactive=True)) == 3
    assert counters(db, "b") == (1, 1)
    assert {hit["session_id"] for hit in db.search_messages("ocelot")} == {"b"}


@pytest.mark.parametrize("reason", [None, "compression", "x"])
def test_an_ended_session_is_cleared_too(db: SessionDB, raw: RawFile, reason: str | None) -> None:
    raw.session("a", ended_at=5.0, end_reason=reason, message_count=7, tool_call_count=None)
    raw.message("a")
    db.clear_messages("a")
    assert raw.count("messages") == 0
    assert counters(db) == (0, 0)


def test_clearing_an_unknown_session_does_nothing(db: SessionDB, raw: RawFile) -> None:
    db.create_session("a", "cli")
    db.append_message("a", "user", "x")
    db.clear_messages("nobody")
    assert raw.count("messages") == 1
    assert counters(db) == (1, 0)
