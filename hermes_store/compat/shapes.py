"""The dicts of the drop-in interface, made from rows and records."""

import dataclasses
from collections.abc import Collection, Iterable
from typing import Any

from hermes_store.errors import InvalidValue
from hermes_store.repositories.messages import decode_row
from hermes_store.repositories.records import MESSAGE_COLUMNS, SESSION_COLUMNS, SearchHit, SessionSummary

SEARCH_FIELDS = tuple(field.name for field in dataclasses.fields(SearchHit))
"""The keys of a search result, in the order of every result."""


def session_dict(row: tuple[Any, ...]) -> dict[str, Any]:
    """A session with all its columns; JSON columns are text."""
    return dict(zip(SESSION_COLUMNS, row, strict=True))


def message_dicts(rows: Iterable[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Messages with all their columns; content, tool calls and display metadata decoded."""
    return [dict(zip(MESSAGE_COLUMNS, decode_row(row), strict=True)) for row in rows]


def summary_dict(summary: SessionSummary, *, compact: bool) -> dict[str, Any]:
    """A line of a listing: the session's columns and what a listing adds.

    That is `preview`, `last_active`, `unread`, and `_lineage_root_id` for a conversation of several segments.
    """
    record = summary.session
    shown = {name: getattr(record, name) for name in SESSION_COLUMNS}
    if compact:
        del shown["system_prompt"]
    shown["preview"] = summary.preview
    shown["last_active"] = summary.last_active
    shown["unread"] = summary.unread
    if summary.lineage_root_id is not None:
        shown["_lineage_root_id"] = summary.lineage_root_id
    return shown


def check_search_fields(fields: Collection[str] | None) -> tuple[str, ...]:
    """The keys that results will have. Raises TypeError for a bare text, InvalidValue for unknown names."""
    if fields is None:
        return SEARCH_FIELDS
    if isinstance(fields, str):
        raise TypeError("search fields must be a collection of field names, not a string")
    unknown = sorted(set(fields) - set(SEARCH_FIELDS))
    if unknown:
        raise InvalidValue(f"unknown search result field(s): {', '.join(unknown)}")
    return tuple(name for name in SEARCH_FIELDS if name in fields)


def hit_dict(hit: SearchHit, fields: tuple[str, ...]) -> dict[str, Any]:
    """A search result with the keys that were asked for."""
    shown: dict[str, Any] = {name: getattr(hit, name) for name in fields}
    if "context" in shown:
        shown["context"] = [{"role": each.role, "content": each.content} for each in hit.context]
    return shown
