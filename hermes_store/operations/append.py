"""Appending to a transcript: guards, rows, counters (rules APPEND-*). Counters are changed here and nowhere else."""

import json
from collections.abc import Mapping
from typing import Any

from hermes_store.conversation.content import (
    coerce_timestamp,
    count_tool_calls,
    decode_tool_calls,
    encode_content,
    encode_display_metadata,
    encode_json,
    parse_tool_calls,
    text_or_none,
)
from hermes_store.errors import CompressionSessionClosedError, SessionCompressionInProgressError
from hermes_store.repositories import Repositories
from hermes_store.repositories.lineage import COMPRESSION
from hermes_store.text import scrub

_TEXT_FIELDS = ("tool_call_id", "tool_name", "effect_disposition", "finish_reason", "reasoning", "reasoning_content")
_JSON_FIELDS = ("reasoning_details", "codex_reasoning_items", "codex_message_items")


class NewMessage:
    """A message that is encoded and ready to be stored: the values of its row, and how many tool calls it makes.

    Making one may raise TypeError for what JSON cannot hold; storing it then raises no such thing. Rules CODEC-1 to
    CODEC-6.
    """

    __slots__ = ("tool_calls", "values")

    def __init__(self, role: str, fields: Mapping[str, Any], now: float) -> None:
        calls = parse_tool_calls(fields.get("tool_calls"))
        self.tool_calls = count_tool_calls(calls)
        values: dict[str, Any] = {name: text_or_none(fields.get(name)) for name in _TEXT_FIELDS}
        for name in _JSON_FIELDS:
            values[name] = encode_json(fields.get(name))
        values["role"] = text_or_none(role)
        values["content"] = encode_content(fields.get("content"))
        values["tool_calls"] = json.dumps(calls) if calls else None
        values["timestamp"] = coerce_timestamp(fields.get("timestamp"), now)
        values["token_count"] = fields.get("token_count")
        values["platform_message_id"] = text_or_none(fields.get("platform_message_id"))
        values["observed"] = 1 if fields.get("observed") else 0
        values["active"] = 1
        values["compacted"] = 0
        for name in ("api_content", "display_kind"):
            given = fields.get(name)
            values[name] = scrub(given) if isinstance(given, str) else None
        values["display_metadata"] = encode_display_metadata(fields.get("display_metadata"))
        self.values = values


def append_message(repos: Repositories, session_id: str, message: NewMessage, now: float, holder: str | None) -> int:
    """Store one message and raise the counters; returns its id. Rules APPEND-1 to APPEND-3.

    Raises SessionCompressionInProgressError, CompressionSessionClosedError, ForeignKeyFailed for an unknown session.
    """
    guard_transcript(repos, session_id, now, holder)
    return add_message(repos, session_id, message)


def add_message(repos: Repositories, session_id: str, message: NewMessage) -> int:
    """The row and the counters of an append whose transcript was guarded. Rules APPEND-2 and APPEND-3."""
    row_id = repos.messages.insert({**message.values, "session_id": session_id})
    if not repos.sessions.count_up(session_id, 1, message.tool_calls):
        recount(repos, session_id)
    return row_id


def guard_transcript(repos: Repositories, session_id: str, now: float, holder: str | None) -> bool:
    """Refuse a transcript that another writer is compressing, or that compression has closed. Rule APPEND-1.

    Returns whether the session exists.
    """
    live = repos.locks.live_holder(session_id, now)
    if live is not None and live != holder:
        raise SessionCompressionInProgressError(session_id)
    closing = repos.sessions.closing(session_id)
    if closing is None:
        return False
    if closing[0] is not None and closing[1] == COMPRESSION:
        raise CompressionSessionClosedError(session_id)
    return True


def recount(repos: Repositories, session_id: str) -> None:
    """Set both counters to what the live rows say; the way back from a counter that is NULL. Rule APPEND-3."""
    calls = repos.messages.active_tool_calls(session_id)
    total = sum(count_tool_calls(decode_tool_calls(each)) for each in calls if each)
    repos.sessions.set_counts(session_id, len(calls), total)


def clear_messages(repos: Repositories, session_id: str) -> int:
    """Remove every row of a session; returns the number. Rule APPEND-4."""
    removed = repos.messages.delete_of([session_id])
    repos.sessions.set_counts(session_id, 0, 0)
    return removed
