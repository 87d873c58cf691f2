"""What an append stores, column by column (rules CODEC-1 to CODEC-6, APPEND-2)."""

import datetime as dt
from typing import Any

import pytest

from hermes_store import SessionDB, Store
from hermes_store.errors import ForeignKeyFailed, HermesStoreError, SessionNotFound
from tests.sessions.raw import INTEGRITY_ERROR, RawFile, on_one_engine, only, present
from tests.support.clocks import FakeClock

COLUMNS = (
    "id", "session_id", "role", "content", "tool_call_id", "tool_calls", "tool_name", "effect_disposition",
    "timestamp", "token_count", "finish_reason", "reasoning", "reasoning_content", "reasoning_details",
    "codex_reasoning_items", "codex_message_items", "platform_message_id", "observed", "active", "compacted",
    "api_content", "display_kind", "display_metadata",
)  # fmt: skip
TEXTS = (
    "role", "content", "tool_name", "tool_call_id", "finish_reason", "reasoning", "reasoning_content",
    "platform_message_id", "effect_disposition", "api_content", "display_kind",
)  # fmt: skip
CALL = {"id": "c1", "function": {"name": "search", "arguments": "{}"}}


def append(db: SessionDB, role: str = "user", **fields: Any) -> dict[str, Any]:
    """The message as it is read back."""
    db.create_session("a", "cli")
    row_id = db.append_message("a", role, **fields)
    message = only(db.get_messages("a"))
    assert message["id"] == row_id
    return message


def test_a_bare_message(store: Store, clock: FakeClock, raw: RawFile) -> None:
    store.write(lambda unit: unit.create_session("a", "cli"))
    clock.advance(7)
    row_id = store.append("a", "user", {})
    stored = dict(zip(COLUMNS, raw.rows(f"SELECT {', '.join(COLUMNS)} FROM messages")[0], strict=True))
    assert {name: value for name, value in stored.items() if value is not None} == {
        "id": row_id,
        "session_id": "a",
        "role": "user",
        "timestamp": clock.now(),
        "observed": 0,
        "active": 1,
        "compacted": 0,
    }


@on_one_engine
@pytest.mark.parametrize("role", ["user", "assistant", "tool", "system", "session_meta", "", "部署"])
def test_any_role_is_stored_with_every_column(db: SessionDB, role: str) -> None:
    fields: dict[str, Any] = {
        "content": "c",
        "tool_name": "tn",
        "tool_calls": [CALL],
        "tool_call_id": "tc",
        "token_count": 5,
        "finish_reason": "fr",
        "reasoning": "r",
        "reasoning_content": "rc",
        "platform_message_id": "pm",
        "effect_disposition": "none",
        "timestamp": 12.5,
        "api_content": " ac ",
        "display_kind": "dk",
        "display_metadata": {"m": 1},
    }
    message = append(
        db, role, observed=True, reasoning_details=[1], codex_reasoning_items=[2], codex_message_items=[3], **fields
    )
    assert message == {
        **fields,
        "id": message["id"],
        "session_id": "a",
        "role": role,
        "observed": 1,
        "active": 1,
        "compacted": 0,
        "reasoning_details": "[1]",
        "codex_reasoning_items": "[2]",
        "codex_message_items": "[3]",
    }


def test_arguments_may_be_given_by_position(db: SessionDB) -> None:
    db.create_session("a", "cli")
    db.append_message(
        "a", "tool", "c", "tn", [CALL], "tc", 5, "fr", "r", "rc", [1], [2], [3], "pm", True, "none", 12.5, "ac", "dk",
        {"m": 1}, "holder",
    )  # fmt: skip
    message = only(db.get_messages("a"))
    first_and_last = [
        message[name] for name in ("tool_name", "observed", "timestamp", "display_kind", "display_metadata")
    ]
    assert first_and_last == ["tn", 1, 12.5, "dk", {"m": 1}]


@pytest.mark.parametrize("text", ["", "x\0y", "部署 🎉", " \n"])
def test_text_is_stored_as_it_is_in_every_field(db: SessionDB, text: str) -> None:
    message = append(db, **dict.fromkeys(TEXTS, text))
    assert {name: message[name] for name in TEXTS} == dict.fromkeys(TEXTS, text)


@pytest.mark.parametrize(("text", "stored"), [("\ud800", "\ufffd"), ("a\udfff\ud800b", "a\ufffd\ufffdb")])
def test_lone_surrogates_are_replaced_in_every_field_and_the_message_is_kept(
    db: SessionDB, text: str, stored: str
) -> None:
    message = append(db, **dict.fromkeys(TEXTS, text))
    assert {name: message[name] for name in TEXTS} == dict.fromkeys(TEXTS, stored)


@pytest.mark.parametrize("name", ["content", "tool_calls", "display_metadata"])
def test_inside_json_a_surrogate_comes_back(db: SessionDB, name: str) -> None:
    value: Any = {"k\udc00": ["\ud800"]}
    assert append(db, **{name: value})[name] == value


@pytest.mark.parametrize(
    ("content", "read"),
    [
        (None, None),
        (b"\x00\xff\xfe", b"\x00\xff\xfe"),
        (b"", b""),
        (5, "5"),
        (True, "1"),
        (2.5, "2.5"),
        (-(2**63), "-9223372036854775808"),
        ([], []),
        ({}, {}),
        ([{"type": "text", "text": "部署"}], [{"type": "text", "text": "部署"}]),
        ((1, [2]), [1, [2]]),
        ({3}, "{3}"),
        ([{4}], "[{4}]"),
        ("\x00json:[1]", [1]),
        ("\x00json:[1", "\x00json:[1"),
        ("\0", "\0"),
    ],
)
def test_content_comes_back(db: SessionDB, content: Any, read: Any) -> None:
    message = append(db, content=content)
    assert message["content"] == read
    assert type(message["content"]) is type(read)


@on_one_engine
@pytest.mark.parametrize(
    ("calls", "read", "count"),
    [
        (None, None, 0),
        ([], None, 0),
        ([CALL], [CALL], 1),
        ([CALL, CALL], [CALL, CALL], 2),
        ('[{"id": "ü"}]', [{"id": "ü"}], 1),
        ({}, None, 1),
        (CALL, CALL, 1),
        ("not json", None, 0),
        ("null", None, 0),
        ("5", 5, 1),
        ('"text"', "text", 1),
        ("", None, 0),
    ],
)
def test_tool_calls_are_stored_and_counted(db: SessionDB, calls: Any, read: Any, count: int) -> None:
    assert append(db, "assistant", tool_calls=calls)["tool_calls"] == read
    assert present(db.get_session("a"))["tool_call_count"] == count


@on_one_engine
@pytest.mark.parametrize("name", ["reasoning_details", "codex_reasoning_items", "codex_message_items"])
@pytest.mark.parametrize(
    ("value", "read"),
    [(None, None), ([], None), ([{"a": "é"}], '[{"a": "\\u00e9"}]'), ("[1]", "[1]"), ("", None), ("{bad", "{bad")],
)
def test_other_json_columns_stay_text(db: SessionDB, name: str, value: Any, read: str | None) -> None:
    assert append(db, "assistant", **{name: value})[name] == read


def test_what_was_read_can_be_appended_again_unchanged(db: SessionDB) -> None:
    first = append(
        db, "assistant", content=[1], tool_calls=[CALL], reasoning_details=[{"a": 1}], display_metadata={"b": 2}
    )
    again = {name: value for name, value in first.items() if name not in ("id", "session_id", "active", "compacted")}
    db.append_message("a", **again)
    second = db.get_messages("a")[1]
    assert {**second, "id": first["id"]} == first


@on_one_engine
@pytest.mark.parametrize("name", ["api_content", "display_kind"])
@pytest.mark.parametrize("value", [5, b"bytes", ["list"], {"a": 1}, False])
def test_sidecars_that_are_no_text_are_left_out(db: SessionDB, name: str, value: Any) -> None:
    assert append(db, **{name: value})[name] is None


@on_one_engine
@pytest.mark.parametrize(
    ("metadata", "read"),
    [(None, None), ({}, None), ('{"a": 1}', {"a": 1}), ("[1]", None), ("not json", None), (5, None), ([1], None)],
)
def test_display_metadata(db: SessionDB, metadata: Any, read: Any) -> None:
    assert append(db, display_metadata=metadata)["display_metadata"] == read


@on_one_engine
@pytest.mark.parametrize(("observed", "read"), [(True, 1), (False, 0), (1, 1), ("yes", 1), (None, 0), ("", 0)])
def test_observed_is_a_flag(db: SessionDB, observed: Any, read: int) -> None:
    assert append(db, observed=observed)["observed"] == read


@on_one_engine
@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (0, 0.0),
        (-5, -5.0),
        ("12.5", 12.5),
        (True, 1.0),
        (dt.datetime(2026, 1, 1, tzinfo=dt.UTC), 1_767_225_600.0),
    ],
)
def test_a_time_that_is_given_is_stored(db: SessionDB, given: Any, stored: float) -> None:
    assert append(db, timestamp=given)["timestamp"] == stored


@on_one_engine
@pytest.mark.parametrize("given", [None, "yesterday", float("nan"), "nan", [], {}])
def test_no_usable_time_is_the_present(store: Store, clock: FakeClock, raw: RawFile, given: Any) -> None:
    store.write(lambda unit: unit.create_session("a", "cli"))
    clock.advance(3)
    store.append("a", "user", {"timestamp": given})
    assert raw.value("SELECT timestamp FROM messages") == clock.now()


def test_ids_are_never_used_again(db: SessionDB) -> None:
    db.create_session("a", "cli")
    first = db.append_message("a", "user", "x")
    db.clear_messages("a")
    assert db.append_message("a", "user", "y") > first


# -- what is refused --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("session_id", ["nobody", "", "A", None])
def test_an_unknown_session_is_refused_and_nothing_written(db: SessionDB, raw: RawFile, session_id: str) -> None:
    db.create_session("a", "cli")
    with pytest.raises(HermesStoreError) as refused:
        db.append_message(session_id, "user", "x")
    assert isinstance(refused.value, INTEGRITY_ERROR)
    assert raw.count("messages") == 0
    assert present(db.get_session("a"))["message_count"] == 0


def test_an_unknown_session_is_a_foreign_key_error(db: SessionDB) -> None:
    with pytest.raises(ForeignKeyFailed, match=r"^FOREIGN KEY constraint failed$"):
        db.append_message("nobody", "user", "x")


def test_a_unit_says_which_session_is_unknown(store: Store, raw: RawFile) -> None:
    with pytest.raises(SessionNotFound, match="nobody"):
        store.write(lambda unit: unit.append("nobody", "user", "x"))
    assert raw.count("messages") == 0


@pytest.mark.parametrize("name", ["reasoning_details", "codex_reasoning_items", "codex_message_items", "tool_calls"])
def test_what_json_cannot_hold_is_refused_and_nothing_written(db: SessionDB, raw: RawFile, name: str) -> None:
    db.create_session("a", "cli")
    unholdable: Any = [{1}]
    with pytest.raises(TypeError):
        db.append_message("a", "assistant", "x", **{name: unholdable})
    assert raw.count("messages") == 0
    assert present(db.get_session("a"))["message_count"] == 0


def test_a_message_without_a_role_is_refused_and_nothing_written(db: SessionDB, raw: RawFile) -> None:
    db.create_session("a", "cli")
    with pytest.raises(INTEGRITY_ERROR):
        db.append_message("a", None, "x")  # type: ignore[arg-type]
    assert raw.count("messages") == 0


@pytest.mark.parametrize("count", [{"a": 1}, 2**63])
def test_a_token_count_that_is_no_number_is_refused_and_nothing_written(
    db: SessionDB, raw: RawFile, count: Any
) -> None:
    db.create_session("a", "cli")
    with pytest.raises(HermesStoreError):
        db.append_message("a", "user", "x", token_count=count)
    assert raw.count("messages") == 0
    assert db.append_message("a", "user", "y") > 0
