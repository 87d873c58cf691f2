"""No text in any field makes an append, a read or an export fail."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hermes_store import SessionDB
from hermes_store.errors import InvalidValue
from hermes_store.portability.export import json_line
from hermes_store.text import scrub
from tests.sessions.raw import RawFile, present
from tests.unit.strategies import any_text, json_containers

TEXT_FIELDS = (
    "tool_name", "tool_call_id", "finish_reason", "reasoning", "reasoning_content", "platform_message_id",
    "effect_disposition", "api_content", "display_kind",
)  # fmt: skip
JSON_FIELDS = ("tool_calls", "reasoning_details", "codex_reasoning_items", "codex_message_items", "display_metadata")

fields: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"role": any_text},
    optional={
        "content": st.one_of(any_text, json_containers, st.binary(max_size=8), st.floats(allow_nan=False)),
        **dict.fromkeys(TEXT_FIELDS, any_text),
        **dict.fromkeys(JSON_FIELDS, st.one_of(any_text, json_containers)),
        "timestamp": st.one_of(any_text, st.floats()),
    },
)
in_one_store = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def session(db: SessionDB) -> SessionDB:
    """A store with the session `a`, emptied by every example for itself."""
    db.create_session("a", "cli")
    return db


@in_one_store
@given(message=fields)
def test_a_message_is_kept_read_replayed_listed_and_exported(session: SessionDB, message: dict[str, Any]) -> None:
    session.clear_messages("a")
    row_id = session.append_message("a", **message)
    (stored,) = session.get_messages("a")
    assert (stored["id"], stored["role"]) == (row_id, scrub(message["role"]))
    for name in TEXT_FIELDS:
        assert stored[name] == (scrub(message[name]) if name in message else None)
    replayed = session.get_messages_as_conversation(
        "a", include_row_ids=True, repair_alternation=stored["role"] != "tool"
    )
    assert [(each["_row_id"], each["role"]) for each in replayed] == [(row_id, stored["role"])]
    assert [each["id"] for each in session.list_sessions_rich()] == ["a"]
    exported = present(session.export_session("a"))
    assert exported["messages"] == [stored]
    line = json_line(exported)
    line.encode()
    assert "\n" not in line
    assert json.loads(line)["messages"][0]["id"] == row_id


@in_one_store
@given(content=json_containers)
def test_structured_content_comes_back_equal(session: SessionDB, content: Any) -> None:
    session.clear_messages("a")
    session.append_message("a", "user", content)
    assert [each["content"] for each in session.get_messages("a")] == [content]


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(session_id=any_text, title=any_text, text=any_text)
@example(session_id="\ud800", title="\ud800", text="\ud800")
@example(session_id="\udc00", title="\udc00", text="\udc00")
@example(session_id="ab", title="a\0b", text="a\0b")
@example(session_id="", title="", text="")
def test_no_name_breaks_a_session(db: SessionDB, raw: RawFile, session_id: str, title: str, text: str) -> None:
    raw.run([("DELETE FROM messages", ()), ("DELETE FROM sessions", ())])
    if "\0" in session_id:
        with pytest.raises(InvalidValue, match="cannot be the id"):
            db.create_session(session_id, text)
        return
    db.create_session(session_id, text, model_config={text: title}, user_id=text, cwd=text)
    db.set_session_title(session_id, title)
    db.append_message(session_id, "user", text)
    assert present(db.get_session(session_id))["id"] == scrub(session_id)
    assert scrub(session_id) in [each["id"] for each in db.list_sessions_rich(limit=-1)]
    db.resolve_session_by_title(title)
    db.get_next_title_in_lineage(title)
    db.end_session(session_id, text)
    assert db.delete_session(session_id, sessions_dir=Path(db.db_path).parent / "sessions") is True
    assert db.get_session(session_id) is None
