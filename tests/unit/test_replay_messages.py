"""A row as a message of the model's format, key by key (rule REPLAY-1)."""

from typing import Any

import pytest

from hermes_store.conversation.replay import build_conversation
from tests.unit.rows import row

SIDECARS = ("reasoning_details", "codex_reasoning_items", "codex_message_items")


def one(role: str = "user", content: Any = "text", row_ids: Any = False, **columns: Any) -> dict[str, Any]:
    (message,) = build_conversation([row(role, content, **columns)], include_row_ids=bool(row_ids))
    return message


@pytest.mark.parametrize("role", ["user", "assistant", "system", "tool", "session_meta"])
def test_a_bare_row_is_role_and_content(role: str) -> None:
    assert one(role) == {"role": role, "content": "text"}


def test_all_keys_come_in_order() -> None:
    columns = {
        "api_content": "sent",
        "display_kind": "kind",
        "display_metadata": '{"a": 1}',
        "timestamp": 5.0,
        "tool_call_id": "c",
        "tool_name": "t",
        "effect_disposition": "none",
        "tool_calls": '[{"id": "c"}]',
        "platform_message_id": "p",
        "observed": 1,
        "finish_reason": "stop",
        "reasoning": "r",
        "reasoning_content": "rc",
        "reasoning_details": "[1]",
        "codex_reasoning_items": "[2]",
        "codex_message_items": "[3]",
    }
    assert list(one("assistant", "x", row_ids=True, id=9, **columns).items()) == [
        ("role", "assistant"),
        ("content", "x"),
        ("_row_id", 9),
        ("api_content", "sent"),
        ("display_kind", "kind"),
        ("display_metadata", {"a": 1}),
        ("timestamp", 5.0),
        ("tool_call_id", "c"),
        ("tool_name", "t"),
        ("effect_disposition", "none"),
        ("tool_calls", [{"id": "c"}]),
        ("message_id", "p"),
        ("observed", True),
        ("finish_reason", "stop"),
        ("reasoning", "r"),
        ("reasoning_content", "rc"),
        ("reasoning_details", [1]),
        ("codex_reasoning_items", [2]),
        ("codex_message_items", [3]),
    ]


@pytest.mark.parametrize(
    ("column", "value", "key", "shown"),
    [
        ("api_content", " <memory-context>x</memory-context>\n raw ", "api_content", ...),
        ("display_kind", " hidden ", "display_kind", ...),
        ("display_metadata", '"{\\"a\\": 1}"', "display_metadata", {"a": 1}),
        ("timestamp", -1.5, "timestamp", -1.5),
        ("tool_call_id", "c", "tool_call_id", "c"),
        ("tool_name", "t", "tool_name", "t"),
        ("effect_disposition", "unknown", "effect_disposition", "unknown"),
        ("tool_calls", "{broken", "tool_calls", []),
        ("tool_calls", "null", "tool_calls", None),
        ("tool_calls", "[]", "tool_calls", []),
        ("platform_message_id", "42", "message_id", "42"),
        ("observed", 1, "observed", True),
    ],
)
@pytest.mark.parametrize("role", ["user", "assistant", "tool", "other"])
def test_a_column_with_a_value_is_shown_for_every_role(
    role: str, column: str, value: Any, key: str, shown: Any
) -> None:
    message = one(role, **{column: value})
    assert message == {"role": role, "content": "text", key: value if shown is ... else shown}


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("api_content", ""),
        ("display_kind", ""),
        ("display_metadata", ""),
        ("display_metadata", "[1]"),
        ("display_metadata", "{broken"),
        ("timestamp", 0.0),
        ("tool_call_id", ""),
        ("tool_name", ""),
        ("effect_disposition", ""),
        ("tool_calls", ""),
        ("platform_message_id", ""),
        ("observed", 0),
        ("finish_reason", ""),
        ("reasoning", ""),
        *((name, "") for name in SIDECARS),
    ],
)
def test_an_empty_column_is_absent(column: str, value: Any) -> None:
    assert one("assistant", **{column: value}) == {"role": "assistant", "content": "text"}


@pytest.mark.parametrize("column", ["finish_reason", "reasoning", "reasoning_content", *SIDECARS])
@pytest.mark.parametrize("role", ["user", "tool", "system", "other"])
def test_what_a_model_thought_is_shown_for_assistants_only(role: str, column: str) -> None:
    assert one(role, **{column: "[1]"}) == {"role": role, "content": "text"}


def test_empty_reasoning_content_is_kept() -> None:
    assert one("assistant", reasoning_content="")["reasoning_content"] == ""


@pytest.mark.parametrize("column", SIDECARS)
@pytest.mark.parametrize(("stored", "shown"), [('[{"a": 1}]', [{"a": 1}]), ("{broken", None), ("null", None)])
def test_sidecars_are_parsed_and_a_damaged_one_keeps_its_key(column: str, stored: str, shown: Any) -> None:
    assert one("assistant", **{column: stored}) == {"role": "assistant", "content": "text", column: shown}


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_recalled_memory_is_removed_and_the_rest_trimmed(role: str) -> None:
    assert one(role, "  hi <memory-context>x\ny</memory-context> there ")["content"] == "hi  there"


@pytest.mark.parametrize("role", ["tool", "system", "other"])
def test_content_of_other_roles_is_verbatim(role: str) -> None:
    text = "  <memory-context>x</memory-context> \n"
    assert one(role, text)["content"] == text


@pytest.mark.parametrize(
    ("stored", "content"),
    [
        (None, None),
        (b"\xff\x00", b"\xff\x00"),
        ('\x00json:[{"type": "text", "text": " <memory-context> "}]', [{"type": "text", "text": " <memory-context> "}]),
        ('\x00json:{"a": 1}', {"a": 1}),
        ("\x00json:{broken", "\x00json:{broken"),
    ],
)
def test_content_that_is_no_plain_text_is_decoded_only(stored: Any, content: Any) -> None:
    assert one("user", stored)["content"] == content


def test_row_ids_are_shown_on_request_only() -> None:
    assert "_row_id" not in one(id=4)
    assert one(id=4, row_ids=True)["_row_id"] == 4
