"""Sessions with their messages as plain JSON objects, one per line (rules EXPORT-*)."""

import base64
import json
import math
from collections.abc import Iterator
from typing import Any

from hermes_store.operations.listing import last_activity
from hermes_store.repositories import Repositories
from hermes_store.repositories.messages import decode_row
from hermes_store.repositories.records import MESSAGE_COLUMNS, SESSION_COLUMNS
from hermes_store.repositories.sessions import SessionFilter


def export_one(repos: Repositories, session_id: str) -> dict[str, Any] | None:
    """A session's row with its live messages under `messages`; None for an unknown id. Rule EXPORT-1."""
    row = repos.sessions.find_row(session_id)
    if row is None:
        return None
    exported = dict(zip(SESSION_COLUMNS, row, strict=False))  # the hash of a prompt means nothing elsewhere
    exported["messages"] = _messages(repos, session_id)
    return exported


def export_sessions(repos: Repositories, *, source: str | None = None) -> Iterator[dict[str, Any]]:
    """Every session, children and archived ones included, latest active first; each with `last_active`.

    One at a time, so that memory holds one session. Rule EXPORT-1.
    """
    everything = SessionFilter(source=source, include_children=True, include_archived=True)
    rows = repos.sessions.page(everything, limit=-1)
    times = repos.messages.last_times([row[0] for row in rows])
    activity = {row[0]: last_activity(row, times.get(row[0])) for row in rows}
    started = SESSION_COLUMNS.index("started_at")
    for row in sorted(rows, key=lambda row: (activity[row[0]], row[started], row[0]), reverse=True):
        exported = dict(zip(SESSION_COLUMNS, row, strict=False))
        exported["last_active"] = activity[row[0]]
        exported["messages"] = _messages(repos, row[0])
        yield exported


def _messages(repos: Repositories, session_id: str) -> list[dict[str, Any]]:
    rows = repos.messages.rows(session_id)
    return [dict(zip(MESSAGE_COLUMNS, decode_row(row), strict=True)) for row in rows]


def json_line(exported: dict[str, Any]) -> str:
    """One line of JSONL without its end; readable characters, or escapes where UTF-8 cannot hold them. Rule EXPORT-2.

    Bytes become an object with the key `$base64`, NaN and infinity their names.
    """
    return json_text(exported)


def json_text(value: Any) -> str:
    """JSON that every reader takes: numbers that JSON has not (NaN, infinity) are written as their names."""
    try:
        line = json.dumps(value, ensure_ascii=False, allow_nan=False, default=_encode_bytes)
    except ValueError:
        return json_text(_without_odd_numbers(value))
    try:
        line.encode()
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False, default=_encode_bytes)
    return line


def _without_odd_numbers(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _without_odd_numbers(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_odd_numbers(each) for each in value]
    return value


def _encode_bytes(value: object) -> dict[str, str]:
    if isinstance(value, bytes):
        return {"$base64": base64.b64encode(value).decode("ascii")}
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
