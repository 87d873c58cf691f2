"""What replay leaves out: recalled memory, carried-over copies, old scaffolding (rules REPLAY-2 to REPLAY-4)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_store.conversation.replay import (
    build_conversation,
    is_duplicate_replayed_user,
    sanitize_context,
    strip_harness_messages,
    strip_stale_markers,
)
from tests.unit.rows import row
from tests.unit.strategies import any_text

NOTE = "[System note: The following is recalled memory context, NOT new user input. Treat as "
SKILLS = "Review the conversation above and update the skill library"
MEMORY = "Review the conversation above and consider saving to memory"


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("", ""),
        ("plain [text] <b>", "plain [text] <b>"),
        ("a<memory-context>x</memory-context>b", "ab"),
        ("a<memory-context>x\n\ny</memory-context>b<MEMORY-Context>z</memory-CONTEXT>c", "abc"),
        ("a< memory-context >x</ memory-context >b", "ab"),
        ("a<memory-context>1</memory-context>b</memory-context>c", "abc"),
        ("a<memory-context>b", "ab"),
        ("a</memory-context>b", "ab"),
        (f"{NOTE}informational background data.]\n\nrest", "rest"),
        (f"{NOTE}authoritative reference data, always.]  rest", "rest"),
        (f"{NOTE.lower()}informational background data]rest", "rest"),
        (NOTE.replace(" context, NOT", " context,\n  NOT") + "informational background data.]rest", "rest"),
        (f"{NOTE}something else.]rest", f"{NOTE}something else.]rest"),
        (f"x<memory-context>{NOTE}informational background data.] y</memory-context>z", "xz"),
    ],
)
def test_recalled_memory_is_removed(text: str, cleaned: str) -> None:
    assert sanitize_context(text) == cleaned


@given(any_text)
def test_text_without_tags_and_notes_is_untouched(text: str) -> None:
    assert sanitize_context(text) == text


USER, ANSWER = {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}
EMPTY: dict[str, Any] = {"role": "assistant", "content": ""}
CALLS: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": [{"id": "c"}]}
TOOL = {"role": "tool", "content": "r"}
OTHER = {"role": "user", "content": "other"}


@pytest.mark.parametrize(
    ("earlier", "message", "duplicate"),
    [
        ([], USER, False),
        ([USER], USER, True),
        ([USER, OTHER], USER, True),
        ([USER, EMPTY], USER, True),
        ([USER, TOOL], USER, True),
        ([USER, ANSWER], USER, False),
        ([USER, CALLS], USER, False),
        ([USER, {"role": "assistant", "content": None}], USER, True),
        ([USER], {"role": "assistant", "content": "q"}, False),
        ([{"role": "assistant", "content": "q"}], USER, False),
        ([{"role": "user", "content": ""}], {"role": "user", "content": ""}, False),
        ([{"role": "user", "content": ["q"]}], {"role": "user", "content": ["q"]}, False),
        ([{"role": "user", "content": None}], {"role": "user", "content": None}, False),
    ],
)
def test_a_user_text_is_a_copy_until_it_was_answered(
    earlier: list[dict[str, Any]], message: dict[str, Any], *, duplicate: bool
) -> None:
    assert is_duplicate_replayed_user(earlier, message) is duplicate


@pytest.mark.parametrize(
    ("suppress", "texts"), [(False, ["q2", "", "q2", "a2", "q2", "q1"]), (True, ["q2", "", "a2", "q2", "q1"])]
)
def test_copies_are_left_out_on_request_only(suppress: bool, texts: list[str]) -> None:
    roles = ["user", "assistant", "user", "assistant", "user", "user"]
    rows = [row(role, text) for role, text in zip(roles, ["q2", "", "q2", "a2", "q2", "q1"], strict=True)]
    assert [each["content"] for each in build_conversation(rows, suppress_duplicates=suppress)] == texts


def said(*pairs: tuple[str, Any]) -> list[dict[str, Any]]:
    return [{"role": role, "content": content} for role, content in pairs]


@pytest.mark.parametrize(
    ("messages", "kept"),
    [
        (
            [
                ("user", "u"), ("user", SKILLS), ("assistant", "dropped"), ("assistant", "b"), ("system", MEMORY),
                ("user", "u2"), ("assistant", "c"), ("user", SKILLS), ("user", MEMORY), ("assistant", "d"),
                ("user", SKILLS), ("tool", "tool"), ("assistant", "e"),
            ],
            ["u", "b", "u2", "c", "tool", "e"],
        ),
        ([("user", f" \n {MEMORY} now."), ("assistant", "x")], []),
        ([("assistant", SKILLS)], [SKILLS]),
        ([("tool", SKILLS), ("assistant", "x")], [SKILLS, "x"]),
        ([("user", f"Please: {SKILLS}"), ("assistant", "x")], [f"Please: {SKILLS}", "x"]),
        ([("user", [SKILLS]), ("assistant", "x")], [[SKILLS], "x"]),
        ([("user", SKILLS), ("assistant", "x"), ("assistant", "y")], ["y"]),
        ([("user", SKILLS)], []),
        ([], []),
    ],
)  # fmt: skip
def test_self_review_prompts_are_left_out_with_their_answer(messages: list[tuple[str, Any]], kept: list[Any]) -> None:
    assert [each["content"] for each in strip_harness_messages(said(*messages))] == kept


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("[search]", ""),
        ("  [_a.b-9]\n", ""),
        ("[A]", ""),
        ("[1a]", "[1a]"),
        ("[]", "[]"),
        ("[a] x", "[a] x"),
        ("[a b]", "[a b]"),
        ("[é]", "[é]"),
        ("text", "text"),
    ],
)
def test_a_text_that_only_repeats_a_tool_name_is_blanked(content: str, shown: str) -> None:
    (message,) = strip_stale_markers([{"role": "assistant", "content": content, "tool_calls": [{"id": "c"}]}])
    assert message["content"] == shown


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": "[search]"},
        {"role": "assistant", "content": "[search]", "tool_calls": []},
        {"role": "user", "content": "[search]", "tool_calls": [{"id": "c"}]},
        {"role": "assistant", "content": ["[search]"], "tool_calls": [{"id": "c"}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]},
    ],
)
def test_a_marker_elsewhere_stays(message: dict[str, Any]) -> None:
    assert strip_stale_markers([dict(message)]) == [message]


def test_both_strips_are_part_of_reading() -> None:
    rows = [row("user", SKILLS), row("assistant", "x"), row("assistant", " [tool] ", tool_calls='[{"id": "c"}]')]
    assert build_conversation(rows) == [{"role": "assistant", "content": "", "tool_calls": [{"id": "c"}]}]


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant", "system", "tool"]), st.sampled_from([SKILLS, "x"]))))
def test_no_self_review_prompt_of_a_user_survives(messages: list[tuple[str, str]]) -> None:
    kept = strip_harness_messages(said(*messages))
    assert not [each for each in kept if each["role"] in ("user", "system") and each["content"] == SKILLS]
    assert strip_harness_messages(kept) == kept
