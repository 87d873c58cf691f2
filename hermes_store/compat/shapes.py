"""The dicts of the drop-in interface, made from rows and records."""

import dataclasses
from collections.abc import Collection, Iterable
from typing import Any

from hermes_store.errors import InvalidValue
from hermes_store.operations.listing import SessionLine
from hermes_store.repositories.messages import decode_row
from hermes_store.repositories.records import MESSAGE_COLUMNS, SearchHit, session_fields

SEARCH_FIELDS = tuple(field.name for field in dataclasses.fields(SearchHit))
"""The keys of a search result, in the order of every result."""


def session_dict(row: tuple[Any, ...]) -> dict[str, Any]:
    """A session with all its columns; JSON columns are text."""
    return session_fields(row)


def message_dicts(rows: Iterable[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Messages with all their columns; content, tool calls and display metadata decoded."""
    return [dict(zip(MESSAGE_COLUMNS, decode_row(row), strict=True)) for row in rows]


def line_dict(line: SessionLine, *, compact: bool) -> dict[str, Any]:
    """A line of a listing: the session's columns and what a listing adds.

    That is `preview`, `last_active`, `unread`, and `_lineage_root_id` for a conversation of several segments.
    """
    shown = session_fields(line.row)
    if compact:
        del shown["system_prompt"]
    shown["preview"] = line.preview
    shown["last_active"] = line.last_active
    shown["unread"] = line.unread
    if line.lineage_root_id is not None:
        shown["_lineage_root_id"] = line.lineage_root_id
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


def hit_dicts(rows: Iterable[tuple[Any, ...]], fields: tuple[str, ...]) -> list[dict[str, Any]]:
    """Search results with the keys that were asked for."""
    shown = [dict(zip(SEARCH_FIELDS, row, strict=True)) for row in rows]
    for hit in shown:
        hit["context"] = [{"role": role, "content": text} for role, text in hit["context"]]
    return shown if fields == SEARCH_FIELDS else [{name: hit[name] for name in fields} for hit in shown]
