"""The note in a file about the last open that changed it (rule SCHEMA-7)."""

import json
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from hermes_store.fts.marks import read_mark, set_mark
from hermes_store.schema.report import OpenReport

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection

LAST_UPGRADE_KEY = "hermes_store_last_upgrade"
_SHOWN_IDS = 100  # sessions whose titles were cleared that the note names


@dataclass(frozen=True, slots=True)
class LastUpgrade:
    """When a file was changed by an open, in Unix seconds, and what was done. At most 100 ids are kept."""

    at: float
    report: OpenReport


def remember_upgrade(connection: "Connection", report: OpenReport, now: float) -> None:
    """Store the report in the file."""
    shown = replace(report, titles_cleared=report.titles_cleared[:_SHOWN_IDS])
    set_mark(connection, LAST_UPGRADE_KEY, json.dumps({"at": now, **shown.as_dict()}))


def last_upgrade(connection: "Connection") -> LastUpgrade | None:
    """The note of a file; None where there is none, or none that can be read."""
    try:
        found = json.loads(read_mark(connection, LAST_UPGRADE_KEY) or "null")
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("at"), (int, float)):
        return None
    known: dict[str, Any] = {
        field.name: tuple(value) if isinstance(value, list) else value
        for field in fields(OpenReport)
        if _fits(field.default, value := found.get(field.name))
    }
    try:
        return LastUpgrade(float(found["at"]), OpenReport(**known))
    except OverflowError:
        return None


def _fits(default: object, value: object) -> bool:
    """Whether a value can stand where the default does; a file may hold anything."""
    if isinstance(default, tuple):
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    if default is None:
        return isinstance(value, (str, int))
    return type(value) is type(default)
