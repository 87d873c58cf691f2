"""Sessions with their messages as plain objects (rules EXPORT-1 and EXPORT-2)."""

import json
from typing import Any

import pytest

from hermes_store import SessionDB
from hermes_store.portability.export import json_line
from tests.sessions.raw import STARTED, RawFile, only, present
from tests.sessions.test_append_columns import COLUMNS as MESSAGE_COLUMNS
from tests.sessions.test_session_rows import COLUMNS


def test_a_session_is_its_row_and_its_messages(db: SessionDB) -> None:
    db.create_session("a", "cli", model_config={"m": 1}, system_prompt="p")
    db.append_message("a", "user", "x")
    exported = present(db.export_session("a"))
    assert tuple(exported) == (*COLUMNS, "messages")
    assert {name: exported[name] for name in COLUMNS} == db.get_session("a")
    assert exported["model_config"] == '{"m": 1}'
    assert exported["messages"] == db.get_messages("a")
    assert tuple(exported["messages"][0]) == MESSAGE_COLUMNS


def test_columns_of_messages_are_decoded_or_text(db: SessionDB) -> None:
    db.create_session("a", "cli")
    db.append_message(
        "a", "assistant", [1], tool_calls=[{"id": "c"}], display_metadata={"d": 1}, reasoning_details=[2],
        codex_reasoning_items=[3], codex_message_items=[4], observed=True,
    )  # fmt: skip
    message = only(present(db.export_session("a"))["messages"])
    assert (message["content"], message["tool_calls"], message["display_metadata"]) == ([1], [{"id": "c"}], {"d": 1})
    assert [message[name] for name in ("reasoning_details", "codex_reasoning_items", "codex_message_items")] == [
        "[2]",
        "[3]",
        "[4]",
    ]
    assert [message[name] for name in ("observed", "active", "compacted")] == [1, 1, 0]


def test_only_live_messages_and_in_insertion_order(db: SessionDB, raw: RawFile) -> None:
    raw.session("a")
    first = raw.message("a", timestamp=9.0)
    raw.message("a", active=0, compacted=1)
    raw.message("a", active=0)
    second = raw.message("a", timestamp=1.0)
    assert [each["id"] for each in present(db.export_session("a"))["messages"]] == [first, second]
    assert [each["id"] for each in only(db.export_all())["messages"]] == [first, second]


@pytest.mark.parametrize("session_id", ["nobody", "", "A", "a ", None])
def test_an_unknown_session_is_none(db: SessionDB, session_id: str) -> None:
    db.create_session("a", "cli")
    assert db.export_session(session_id) is None


def test_all_sessions_each_with_its_last_activity(db: SessionDB) -> None:
    db.create_session("a", "cli")
    db.append_message("a", "user", "x", timestamp=4e9)
    exported = only(db.export_all())
    assert tuple(exported) == (*COLUMNS, "last_active", "messages")
    assert exported["last_active"] == 4e9
    single = db.export_session("a")
    assert {name: value for name, value in exported.items() if name != "last_active"} == single


def test_all_sessions_means_all(db: SessionDB, raw: RawFile) -> None:
    raw.session("root", end_reason="compression", ended_at=STARTED, archived=1)
    raw.session("tip", parent_session_id="root")
    raw.session("run", parent_session_id="tip", model_config='{"_delegate_from": "tip"}')
    raw.session("tool", source="tool", parent_session_id="root")
    raw.session("loop", parent_session_id="loop")
    assert {each["id"] for each in db.export_all()} == {"root", "tip", "run", "tool", "loop"}
    assert not [each for each in db.export_all() if "_lineage_root_id" in each]


def test_the_latest_active_comes_first(db: SessionDB, raw: RawFile) -> None:
    raw.session("start", started_at=STARTED + 3)
    raw.session("message", started_at=STARTED)
    raw.message("message", timestamp=STARTED + 5)
    raw.message("message", timestamp=STARTED + 1)
    raw.session("heartbeat", started_at=STARTED + 1, last_activity_at=STARTED + 4)
    raw.session("later start", started_at=STARTED + 2, last_activity_at=STARTED + 3)
    raw.session("tie a", started_at=STARTED)
    raw.session("tie b", started_at=STARTED)
    assert [each["id"] for each in db.export_all()] == [
        "message", "heartbeat", "start", "later start", "tie b", "tie a",
    ]  # fmt: skip


@pytest.mark.parametrize(("source", "found"), [(None, "ba"), ("", "ba"), ("cli", "a"), ("CLI", ""), ("x", "")])
def test_one_source(db: SessionDB, raw: RawFile, source: str | None, found: str) -> None:
    raw.session("a", source="cli")
    raw.session("b", source="cron", started_at=STARTED + 1)
    assert [each["id"] for each in db.export_all(source)] == list(found)


def test_an_empty_store(db: SessionDB) -> None:
    assert db.export_all() == []


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("部署 é", '{"content": "部署 é"}'),
        ("two\nlines\u2028", '{"content": "two\\nlines\u2028"}'),
        (["\ud800"], '{"content": ["\\ud800"]}'),
        (b"\x00\xff", '{"content": {"$base64": "AP8="}}'),
    ],
)
def test_one_line_of_json(content: Any, line: str) -> None:
    assert json_line({"content": content}) == line
    assert "\n" not in line
    json.loads(line)


def test_a_line_refuses_what_json_does_not_have() -> None:
    with pytest.raises(TypeError):
        json_line({"content": {1}})
