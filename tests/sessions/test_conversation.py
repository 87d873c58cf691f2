"""Conversations read from a store in the model's format (rules REPLAY-1 to REPLAY-5, LINEAGE-2)."""

from typing import Any

import pytest

from hermes_store import SessionDB
from tests.sessions.raw import RawFile, on_one_engine, only

CALL = {"id": "c1", "call_id": "k1", "function": {"name": "search", "arguments": "{}"}}
WIRE = " \n<memory-context>kept</memory-context> [System note: kept] \t\r\n部署 \0 end "


def texts(db: SessionDB, session_id: str = "a", **arguments: Any) -> list[Any]:
    return [each["content"] for each in db.get_messages_as_conversation(session_id, **arguments)]


def test_a_whole_turn(db: SessionDB) -> None:
    db.create_session("a", "cli")
    db.append_message("a", "user", " hi <memory-context>x</memory-context> ", timestamp=1.0, platform_message_id="p")
    db.append_message(
        "a", "assistant", "", tool_calls=[CALL], timestamp=2.0, finish_reason="tool_calls", reasoning="r",
        reasoning_content="", reasoning_details=[{"t": 1}], codex_reasoning_items=[2], codex_message_items=[3],
        token_count=9,
    )  # fmt: skip
    db.append_message(
        "a", "tool", " out ", tool_name="search", tool_call_id="c1", effect_disposition="none", timestamp=3.0
    )
    db.append_message("a", "user", "q", timestamp=4.0, observed=True, reasoning="hidden", finish_reason="hidden")
    assert db.get_messages_as_conversation("a") == [
        {"role": "user", "content": "hi", "timestamp": 1.0, "message_id": "p"},
        {
            "role": "assistant",
            "content": "",
            "timestamp": 2.0,
            "tool_calls": [CALL],
            "finish_reason": "tool_calls",
            "reasoning": "r",
            "reasoning_content": "",
            "reasoning_details": [{"t": 1}],
            "codex_reasoning_items": [2],
            "codex_message_items": [3],
        },
        {
            "role": "tool",
            "content": " out ",
            "timestamp": 3.0,
            "tool_call_id": "c1",
            "tool_name": "search",
            "effect_disposition": "none",
        },
        {"role": "user", "content": "q", "timestamp": 4.0, "observed": True},
    ]


@pytest.mark.parametrize("role", ["user", "assistant", "tool"])
def test_what_was_sent_comes_back_byte_for_byte(db: SessionDB, role: str) -> None:
    db.create_session("a", "cli")
    db.append_message("a", role, "x", api_content=WIRE, display_kind=" kind ", display_metadata={"a": [1]})
    message = only(db.get_messages_as_conversation("a"))
    assert message["api_content"] == WIRE
    assert (message["display_kind"], message["display_metadata"]) == (" kind ", {"a": [1]})


@pytest.mark.parametrize("empty", ["", None])
def test_nothing_sent_is_no_key(db: SessionDB, empty: str | None) -> None:
    db.create_session("a", "cli")
    db.append_message("a", "user", "x", api_content=empty, display_kind=empty, display_metadata=empty, timestamp=0)
    assert db.get_messages_as_conversation("a") == [{"role": "user", "content": "x"}]


@pytest.mark.parametrize("content", [[{"type": "text", "text": " x "}], {"a": 1}, None, b"\xff"])
def test_content_that_is_no_text_comes_back_as_it_is(db: SessionDB, content: Any) -> None:
    db.create_session("a", "cli")
    db.append_message("a", "user", content)
    assert texts(db) == [content]


def test_order_is_insertion_and_rows_that_are_not_live_come_on_request(db: SessionDB, raw: RawFile) -> None:
    raw.session("a")
    for number, (active, compacted) in enumerate([(1, 0), (0, 1), (0, 0), (1, 1)]):
        role = "user" if number % 2 else "tool"
        raw.message("a", role=role, content=str(number), active=active, compacted=compacted, timestamp=9.0 - number)
    assert texts(db) == ["0", "3"]
    assert texts(db, include_inactive=True) == ["0", "1", "2", "3"]


def test_row_ids_come_on_request(db: SessionDB) -> None:
    db.create_session("a", "cli")
    ids = [db.append_message("a", "user", text) for text in ("x", "y")]
    assert [each["_row_id"] for each in db.get_messages_as_conversation("a", include_row_ids=True)] == ids


@on_one_engine
@pytest.mark.parametrize("arguments", [{}, {"include_ancestors": True}, {"repair_alternation": True}])
@pytest.mark.parametrize("session_id", ["nobody", "", None])
def test_an_unknown_session_has_no_conversation(db: SessionDB, session_id: str, arguments: dict[str, bool]) -> None:
    db.create_session("a", "cli")
    db.append_message("a", "user", "x")
    assert db.get_messages_as_conversation(session_id, **arguments) == []


def test_repair_comes_on_request_and_changes_no_row(db: SessionDB) -> None:
    db.create_session("a", "cli")
    for role, text in (("tool", "stray"), ("user", "u1"), ("user", "u2"), ("assistant", "a1"), ("assistant", "a2")):
        db.append_message("a", role, text, api_content=f"sent {text}", timestamp=1.0)
    before = db.get_messages("a")
    assert texts(db) == ["stray", "u1", "u2", "a1", "a2"]
    repaired = db.get_messages_as_conversation("a", repair_alternation=True)
    assert [(each["role"], each["content"]) for each in repaired] == [("user", "u1\n\nu2"), ("assistant", "a1\na2")]
    assert "api_content" not in repaired[0]
    assert db.get_messages("a") == before


def test_old_scaffolding_is_left_out_of_the_reading_only(db: SessionDB) -> None:
    db.create_session("a", "cli")
    db.append_message("a", "user", "Review the conversation above and update the skill library.")
    db.append_message("a", "assistant", "dropped")
    db.append_message("a", "assistant", "[search]", tool_calls=[CALL])
    assert texts(db) == [""]
    assert [each["content"] for each in db.get_messages("a")][1:] == ["dropped", "[search]"]


# -- with ancestors ---------------------------------------------------------------------------------------------


def talk(raw: RawFile, session_id: str, *messages: tuple[str, str], **columns: Any) -> None:
    raw.session(session_id, **columns)
    for role, content in messages:
        raw.message(session_id, role=role, content=content)


def test_a_text_that_was_carried_over_appears_once(db: SessionDB, raw: RawFile) -> None:
    talk(raw, "A", ("user", "q1"), ("assistant", "a1"), ("user", "q2"), ended_at=5.0, end_reason="compression")
    talk(
        raw, "B", ("user", "q2"), ("assistant", ""), ("user", "q2"), ("assistant", "a2"), ("user", "q2"),
        ("user", "q1"), parent_session_id="A",
    )  # fmt: skip
    assert texts(db, "B") == ["q2", "", "q2", "a2", "q2", "q1"]
    assert texts(db, "B", include_ancestors=True) == ["q1", "a1", "q2", "", "a2", "q2", "q1"]
    assert texts(db, "A", include_ancestors=True) == ["q1", "a1", "q2"]


@on_one_engine
@pytest.mark.parametrize(
    "edge",
    [
        {"end_reason": "compression", "ended_at": 5.0},
        {"end_reason": "branched", "ended_at": 5.0},
        {},
    ],
)
@pytest.mark.parametrize("config", [None, '{"_branched_from": "root"}', '{"_delegate_from": "root"}', "malformed"])
def test_ancestors_are_followed_whatever_the_edge(
    db: SessionDB, raw: RawFile, edge: dict[str, Any], config: str | None
) -> None:
    talk(raw, "root", ("user", "first"), **edge)
    talk(raw, "a", ("user", "second"), parent_session_id="root", model_config=config)
    talk(raw, "sibling", ("user", "other"), parent_session_id="root")
    talk(raw, "child", ("user", "later"), parent_session_id="a")
    assert texts(db, include_ancestors=True) == ["first", "second"]


def test_rows_of_all_segments_come_in_insertion_order(db: SessionDB, raw: RawFile) -> None:
    raw.session("root")
    raw.session("a", parent_session_id="root")
    for session_id, text in (("root", "1"), ("a", "2"), ("root", "3"), ("a", "4")):
        raw.message(session_id, role="tool", content=text)
    assert texts(db, include_ancestors=True) == ["1", "2", "3", "4"]


@pytest.mark.parametrize("parents", [{"a": "a"}, {"a": "b", "b": "a"}, {"a": "b", "b": "c", "c": "b"}, {"a": "gone"}])
def test_cycles_and_missing_parents_end_the_walk(db: SessionDB, raw: RawFile, parents: dict[str, str]) -> None:
    for session_id, parent in parents.items():
        talk(raw, session_id, ("tool", session_id), parent_session_id=parent)
    assert texts(db, include_ancestors=True) == sorted(parents)


def test_a_long_chain_is_read_whole(db: SessionDB, raw: RawFile) -> None:
    for number in range(130):
        talk(raw, f"s{number}", ("tool", str(number)), parent_session_id=f"s{number - 1}" if number else None)
    assert texts(db, "s129", include_ancestors=True) == [str(number) for number in range(130)]
