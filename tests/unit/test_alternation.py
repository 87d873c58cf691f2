"""Repairing the order of roles (rule REPLAY-5)."""

import copy
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_store.conversation.replay import repair_message_sequence

Message = dict[str, Any]


def user(content: Any = "u", **keys: Any) -> Message:
    return {"role": "user", "content": content, **keys}


def bot(content: Any = "a", calls: tuple[str, ...] = (), **keys: Any) -> Message:
    return {
        "role": "assistant",
        "content": content,
        **({"tool_calls": [{"id": each} for each in calls]} if calls else {}),
        **keys,
    }


def tool(call_id: str | None = None, content: str = "r") -> Message:
    return {"role": "tool", "content": content, **({"tool_call_id": call_id} if call_id else {})}


SYSTEM: Message = {"role": "system", "content": "s"}


@pytest.mark.parametrize(
    ("messages", "repaired", "repairs"),
    [
        pytest.param([], [], 0, id="nothing"),
        pytest.param([user(), bot(), user(), bot()], [user(), bot(), user(), bot()], 0, id="sound"),
        pytest.param([bot(" a "), bot("b\n")], [bot("a\nb")], 1, id="two texts"),
        pytest.param([bot("a"), bot(""), bot("c")], [bot("a\nc")], 2, id="an empty text between"),
        pytest.param([bot(""), bot("")], [bot("")], 1, id="two empty texts"),
        pytest.param([bot("a", ("1",)), bot("b", ("2",))], [bot("a\nb", ("1", "2"))], 1, id="calls are joined"),
        pytest.param([bot(None, ("1",)), bot("b")], [bot("b", ("1",))], 1, id="the later text where none was"),
        pytest.param([bot(["x"]), bot("b")], [bot(["x"])], 1, id="a list keeps its place"),
        pytest.param([bot([]), bot(["y"])], [bot(["y"])], 1, id="an empty list gives way"),
        pytest.param([bot("a"), bot(None)], [bot("a")], 1, id="nothing later"),
        pytest.param(
            [bot("a"), bot("b", reasoning_content="r")], [bot("a\nb", reasoning_content="r")], 1, id="later reasoning"
        ),
        pytest.param(
            [bot("a", reasoning_content="r1"), bot("b", reasoning_content="r2")],
            [bot("a\nb", reasoning_content="r1")],
            1,
            id="the earlier reasoning wins",
        ),
        pytest.param(
            [bot("a", timestamp=1.0, _row_id=1), bot("b", timestamp=2.0, _row_id=2, finish_reason="stop")],
            [bot("a\nb", timestamp=1.0, _row_id=1)],
            1,
            id="other keys of the later are dropped",
        ),
        pytest.param([bot("a"), SYSTEM, bot("b")], [bot("a"), SYSTEM, bot("b")], 0, id="not adjacent"),
        pytest.param([user("a"), user("b")], [user("a\n\nb")], 1, id="two users"),
        pytest.param([user("a"), user("")], [user("a")], 1, id="an empty user after"),
        pytest.param([user(""), user("b")], [user("b")], 1, id="an empty user before"),
        pytest.param([user("a"), user("b"), user("c")], [user("a\n\nb\n\nc")], 2, id="three users"),
        pytest.param([user(["a"]), user("b")], [user(["a"]), user("b")], 0, id="a list blocks"),
        pytest.param([user("a"), user(None)], [user("a"), user(None)], 0, id="no text blocks"),
        pytest.param(
            [user("a", api_content="x", _row_id=1, timestamp=1.0), user("b", api_content="y", _row_id=2)],
            [user("a\n\nb", _row_id=1, timestamp=1.0)],
            1,
            id="a joined user has no wire text",
        ),
        pytest.param([tool("1"), user()], [user()], 1, id="a result before any call"),
        pytest.param([bot("a"), tool("1")], [bot("a")], 1, id="a result of no call"),
        pytest.param([bot("", ("1",)), tool("1"), tool("1")], [bot("", ("1",)), tool("1")], 1, id="answered twice"),
        pytest.param([bot("", ("1",)), tool()], [bot("", ("1",))], 1, id="a result without an id"),
        pytest.param(
            [bot("", ("1", "2")), tool("2"), tool("1")], [bot("", ("1", "2")), tool("2"), tool("1")], 0, id="any order"
        ),
        pytest.param([bot("", ("1",)), user(), tool("1")], [bot("", ("1",)), user()], 1, id="a user closes the calls"),
        pytest.param(
            [bot("", ("1",)), SYSTEM, tool("1")], [bot("", ("1",)), SYSTEM, tool("1")], 0, id="a system row does not"
        ),
        pytest.param(
            [bot("", ("1",)), tool("1"), bot("", ("2",)), tool("1")],
            [bot("", ("1",)), tool("1"), bot("", ("2",))],
            1,
            id="only the latest assistant's calls",
        ),
        pytest.param(
            [bot("", ("1",)), tool("1"), user()], [bot("", ("1",)), tool("1"), user()], 0, id="a user after results"
        ),
        pytest.param([user("a"), tool("9"), user("b")], [user("a\n\nb")], 2, id="users around a stray result"),
    ],
)  # fmt: skip
def test_repairs(messages: list[Message], repaired: list[Message], repairs: int) -> None:
    work = copy.deepcopy(messages)
    assert repair_message_sequence(work) == repairs
    assert work == repaired


@pytest.mark.parametrize("key", ["codex_reasoning_items", "codex_message_items"])
@pytest.mark.parametrize("marked", [0, 1])
def test_interim_messages_of_codex_stay_apart(key: str, marked: int) -> None:
    messages = [bot("a"), bot("b")]
    messages[marked][key] = [{"id": "x"}]
    assert repair_message_sequence(messages) == 0


@pytest.mark.parametrize("marked", [0, 1])
def test_incomplete_messages_stay_apart(marked: int) -> None:
    messages = [bot("a"), bot("b")]
    messages[marked]["finish_reason"] = "incomplete"
    assert repair_message_sequence(messages) == 0


@pytest.mark.parametrize("reason", ["verification_required", "verify_hook_continue"])
def test_an_answer_that_had_to_be_verified_is_replaced(reason: str) -> None:
    messages = [bot("a", ("1",), finish_reason=reason), bot("b", finish_reason="stop")]
    assert repair_message_sequence(messages) == 1
    assert messages == [bot("b", finish_reason="stop")]


def test_both_ids_of_a_call_are_known() -> None:
    call = {"id": "i", "call_id": "c"}
    messages: list[Message] = [{"role": "assistant", "content": "", "tool_calls": [call]}, tool("c"), tool("i")]
    assert repair_message_sequence(messages) == 0


@pytest.mark.parametrize("calls", [None, [], {}, "text", ["text", None, {}], [{"id": 5}], [{"id": None}]])
def test_malformed_calls_answer_nothing_and_break_nothing(calls: Any) -> None:
    messages: list[Message] = [{"role": "assistant", "content": "a", "tool_calls": calls}, tool("1")]
    assert repair_message_sequence(messages) == 1


def test_a_sound_list_is_the_same_object_untouched() -> None:
    first, second = user(), bot()
    messages = [first, second]
    assert repair_message_sequence(messages) == 0
    assert messages[0] is first
    assert messages[1] is second


def test_merging_does_not_change_the_messages_of_the_caller() -> None:
    originals = [user("a"), user("b"), bot("c", ("1",)), bot("d", ("2",))]
    before = copy.deepcopy(originals)
    repair_message_sequence(list(originals))
    assert originals == before


def test_answers_around_a_stray_result_alternate_too() -> None:
    messages = [user(), bot("a"), tool("9"), bot("b")]
    repair_message_sequence(messages)
    assert messages == [user(), bot("a\nb")]


contents = st.sampled_from(["", "x", "y z", None, ["part"]])
ids = st.sampled_from(["1", "2", "3"])
messages_of_all_roles = st.lists(
    st.one_of(
        st.builds(user, contents),
        st.builds(bot, contents, st.lists(ids, max_size=2).map(tuple)),
        st.builds(
            lambda content, reason: bot(content, finish_reason=reason),
            contents,
            st.sampled_from(["stop", "incomplete", "verification_required"]),
        ),
        st.builds(tool, st.one_of(st.none(), ids)),
        st.just(SYSTEM),
    ),
    max_size=12,
)


@settings(max_examples=300, deadline=None)
@given(messages_of_all_roles)
def test_a_second_repair_finds_nothing(messages: list[Message]) -> None:
    repair_message_sequence(messages)
    once = copy.deepcopy(messages)
    assert repair_message_sequence(messages) == 0
    assert messages == once


@settings(max_examples=300, deadline=None)
@given(messages_of_all_roles)
def test_no_role_follows_itself_unless_it_may(messages: list[Message]) -> None:
    repair_message_sequence(messages)
    for earlier, later in pairwise(messages):
        if earlier["role"] == later["role"] == "user":
            assert not (isinstance(earlier["content"], str) and isinstance(later["content"], str))
        if earlier["role"] == later["role"] == "assistant":
            assert "incomplete" in (earlier.get("finish_reason"), later.get("finish_reason"))


@settings(max_examples=300, deadline=None)
@given(messages_of_all_roles)
def test_every_result_answers_a_call_of_the_assistant_before_it(messages: list[Message]) -> None:
    repair_message_sequence(messages)
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "assistant":
            waiting = [call["id"] for call in message.get("tool_calls") or []]
        elif message["role"] == "user":
            waiting = []
        elif message["role"] == "tool":
            assert message["tool_call_id"] in waiting
            waiting = [each for each in waiting if each != message["tool_call_id"]]
