"""From stored rows to the conversation that a model is sent (rules REPLAY-*). Pure functions.

The stored rows never change; everything here works on copies.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hermes_store.conversation.content import (
    decode_content,
    decode_display_metadata,
    decode_json,
    decode_tool_calls,
)

Conversation = list[dict[str, Any]]

REPLAY_COLUMNS = (
    "id",
    "role",
    "content",
    "api_content",
    "display_kind",
    "display_metadata",
    "timestamp",
    "tool_call_id",
    "tool_name",
    "effect_disposition",
    "tool_calls",
    "platform_message_id",
    "observed",
    "finish_reason",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
    "codex_reasoning_items",
    "codex_message_items",
)
"""The columns of a row that replay reads, in this order."""

_TAG = r"<\s*{slash}\s*memory-context\s*>"
_MEMORY_BLOCK = re.compile(_TAG.format(slash="") + r".*?" + _TAG.format(slash="/"), flags=re.IGNORECASE | re.DOTALL)
_MEMORY_NOTE = re.compile(
    r"\[System note:\s*The following is recalled memory context,\s*NOT new user input\.\s*Treat as "
    r"(?:informational background data|authoritative reference data)[^\]]*\]\s*",
    flags=re.IGNORECASE,
)
_MEMORY_TAG = re.compile(_TAG.format(slash="/?"), flags=re.IGNORECASE)

_HARNESS_OPENINGS = (
    "Review the conversation above and update the skill library",
    "Review the conversation above and consider saving to memory",
)
_STALE_MARKER = re.compile(r"\[[A-Za-z_][A-Za-z0-9_.\-]*\]")


def sanitize_context(text: str) -> str:
    """Remove recalled-memory blocks, the note before them, and stray tags of theirs. Rule REPLAY-2."""
    if "<" not in text and "[" not in text:
        return text
    without_blocks = _MEMORY_BLOCK.sub("", text)
    return _MEMORY_TAG.sub("", _MEMORY_NOTE.sub("", without_blocks))


def build_conversation(
    rows: Iterable[Sequence[Any]], *, suppress_duplicates: bool = False, include_row_ids: bool = False
) -> Conversation:
    """Rows of `REPLAY_COLUMNS`, oldest first, as messages of the model's format. Rules REPLAY-1 to REPLAY-4.

    Keys without a value are absent. With `suppress_duplicates` a user message that was only carried over into a
    continuation appears once.
    """
    messages: Conversation = []
    for row in rows:
        message = _message(row, include_row_ids=include_row_ids)
        if suppress_duplicates and is_duplicate_replayed_user(messages, message):
            continue
        messages.append(message)
    return strip_stale_markers(strip_harness_messages(messages))


def _message(row: Sequence[Any], *, include_row_ids: bool) -> dict[str, Any]:
    (
        row_id, role, content, api_content, display_kind, display_metadata, timestamp, tool_call_id, tool_name,
        effect_disposition, tool_calls, platform_message_id, observed, finish_reason, reasoning, reasoning_content,
        reasoning_details, codex_reasoning_items, codex_message_items,
    ) = row  # fmt: skip
    content = decode_content(content)
    if role in ("user", "assistant") and isinstance(content, str):
        content = sanitize_context(content).strip()
    message: dict[str, Any] = {"role": role, "content": content}
    if include_row_ids:
        message["_row_id"] = row_id
    # What was sent is sent again byte for byte, or the provider's prompt cache is lost.
    if api_content:
        message["api_content"] = api_content
    if display_kind:
        message["display_kind"] = display_kind
    if display_metadata:
        metadata = decode_display_metadata(display_metadata)
        if metadata is not None:
            message["display_metadata"] = metadata
    if timestamp:
        message["timestamp"] = timestamp
    if tool_call_id:
        message["tool_call_id"] = tool_call_id
    if tool_name:
        message["tool_name"] = tool_name
    if effect_disposition:
        message["effect_disposition"] = effect_disposition
    if tool_calls:
        message["tool_calls"] = decode_tool_calls(tool_calls)
    if platform_message_id:
        message["message_id"] = platform_message_id
    if observed:
        message["observed"] = True
    if role == "assistant":
        if finish_reason:
            message["finish_reason"] = finish_reason
        if reasoning:
            message["reasoning"] = reasoning
        if reasoning_content is not None:
            message["reasoning_content"] = reasoning_content
        if reasoning_details:
            message["reasoning_details"] = decode_json(reasoning_details)
        if codex_reasoning_items:
            message["codex_reasoning_items"] = decode_json(codex_reasoning_items)
        if codex_message_items:
            message["codex_message_items"] = decode_json(codex_message_items)
    return message


def is_duplicate_replayed_user(messages: Conversation, message: dict[str, Any]) -> bool:
    """True for a user text that already stands in `messages` with no answer since. Rule REPLAY-3."""
    content = message["content"]
    if message["role"] != "user" or not isinstance(content, str) or not content:
        return False
    for earlier in reversed(messages):
        if earlier["role"] == "user" and earlier["content"] == content:
            return True
        if earlier["role"] == "assistant" and (earlier["content"] or earlier.get("tool_calls")):
            return False
    return False


def strip_harness_messages(messages: Conversation) -> Conversation:
    """Leave out old self-review prompts, and the answer that directly follows one. Rule REPLAY-4."""
    kept: Conversation = []
    skip_answer = False
    for message in messages:
        if _is_harness(message):
            skip_answer = True
        elif skip_answer and message["role"] == "assistant":
            skip_answer = False
        else:
            skip_answer = False
            kept.append(message)
    return kept


def _is_harness(message: dict[str, Any]) -> bool:
    content = message["content"]
    return (
        message["role"] in ("user", "system")
        and isinstance(content, str)
        and content.lstrip().startswith(_HARNESS_OPENINGS)
    )


def strip_stale_markers(messages: Conversation) -> Conversation:
    """Blank the text of assistant messages that only repeats a tool's name beside its calls. Rule REPLAY-4."""
    for message in messages:
        content = message["content"]
        if (
            message["role"] == "assistant"
            and message.get("tool_calls")
            and isinstance(content, str)
            and _STALE_MARKER.fullmatch(content.strip())
        ):
            message["content"] = ""
    return messages


# -- alternation --------------------------------------------------------------------------------------------


def repair_message_sequence(messages: Conversation) -> int:
    """Make the roles alternate as providers demand; works in place and returns the number of repairs. Rule REPLAY-5.

    Adjacent assistant messages are merged, tool results that answer no open call are dropped, adjacent user texts are
    joined.
    """
    repairs = 0
    while True:
        before = repairs
        for step in (_merge_assistants, _drop_stray_results, _merge_users):
            done, repaired = step(messages)
            if done:
                messages[:] = repaired
                repairs += done
        # A result that was dropped may have stood between two messages that now are to be merged.
        if repairs == before:
            return repairs


def _merge_adjacent(
    messages: Conversation, merge: Callable[[dict[str, Any], dict[str, Any]], dict[str, Any] | None]
) -> tuple[int, Conversation]:
    result: Conversation = []
    repairs = 0
    for message in messages:
        merged = merge(result[-1], message) if result else None
        if merged is None:
            result.append(message)
        else:
            result[-1] = merged
            repairs += 1
    return repairs, result


def _merge_assistants(messages: Conversation) -> tuple[int, Conversation]:
    return _merge_adjacent(messages, _merge_two_assistants)


def _is_codex_interim(message: dict[str, Any]) -> bool:
    return bool(
        message.get("codex_reasoning_items")
        or message.get("codex_message_items")
        or message.get("finish_reason") == "incomplete"
    )


def _merge_two_assistants(earlier: dict[str, Any], later: dict[str, Any]) -> dict[str, Any] | None:
    if earlier["role"] != "assistant" or later["role"] != "assistant":
        return None
    if _is_codex_interim(earlier) or _is_codex_interim(later):
        return None
    if earlier.get("finish_reason") in ("verification_required", "verify_hook_continue"):
        return later
    merged = dict(earlier)
    calls = [*(earlier.get("tool_calls") or []), *(later.get("tool_calls") or [])]
    if calls:
        merged["tool_calls"] = calls
    first, second = earlier["content"], later["content"]
    if isinstance(first, str) and isinstance(second, str):
        merged["content"] = "\n".join(part for part in (first.strip(), second.strip()) if part)
    elif not first and second is not None:
        merged["content"] = second
    if not earlier.get("reasoning_content") and later.get("reasoning_content"):
        merged["reasoning_content"] = later["reasoning_content"]
    if merged["content"] != first:
        merged.pop("api_content", None)
    return merged


def _drop_stray_results(messages: Conversation) -> tuple[int, Conversation]:
    result: Conversation = []
    open_calls: set[str] = set()
    for message in messages:
        role = message["role"]
        if role == "assistant":
            calls = message.get("tool_calls")
            open_calls = {
                call[key]
                for call in (calls if isinstance(calls, list) else [])
                if isinstance(call, dict)
                for key in ("id", "call_id")
                if isinstance(call.get(key), str)
            }
        elif role == "user":
            open_calls = set()
        elif role == "tool":
            call_id = message.get("tool_call_id")
            if call_id not in open_calls:
                continue
            open_calls.discard(call_id)
        result.append(message)
    return len(messages) - len(result), result


def _merge_users(messages: Conversation) -> tuple[int, Conversation]:
    return _merge_adjacent(messages, _merge_two_users)


def _merge_two_users(earlier: dict[str, Any], later: dict[str, Any]) -> dict[str, Any] | None:
    first, second = earlier["content"], later["content"]
    if earlier["role"] != "user" or later["role"] != "user" or not (isinstance(first, str) and isinstance(second, str)):
        return None
    # The joined text was never sent as it stands, so the earlier one's wire text no longer belongs to it.
    merged = {key: value for key, value in earlier.items() if key != "api_content"}
    merged["content"] = "\n\n".join(part for part in (first, second) if part)
    return merged
