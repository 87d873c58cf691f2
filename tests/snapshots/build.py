"""Builds the file of any schema version, early or late builds of it, and says what it holds."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from .history import TWO_SHAPES, VERSIONS, Step, column_names, plain_objects, step_of
from .search_indexes import search_objects
from .story import Plan, Row, Story, tell
from .writing import write_file

__all__ = ["VARIANTS", "VERSIONS", "build_version", "plan_of", "statements_of"]

VARIANTS: Final[tuple[tuple[int, str | None], ...]] = tuple(
    (version, variant) for version in VERSIONS for variant in (("early", "late") if version in TWO_SHAPES else (None,))
)
"""Every shape there is, as arguments of `build_version`."""

_EVENTS: Final[Mapping[str, Step]] = {"picture": 120, "rewind": 145, "compaction": 165, "switch": 235}
"""The events of the story that need a column or a way of storing, by the step that brought it."""

_FACTS: Final[Mapping[str, tuple[Step, Any]]] = {
    "titles": (40, {}),
    "estimated_cost_usd": (50, 0.0),
    "meta": (75, {}),
    "codex_ids": (90, ()),
    "call_only": (110, {}),  # before, the index held the text alone
    "observed_ids": (130, ()),
    "routing": (190, {}),
    "recalled_ids": (225, ()),
}
"""Facts that hold from a step on, with what they are before it."""


def plan_of(step: Step, sessions: int = 14, turns: int = 8) -> Plan:
    """The rows of a shape: the story without the events, tables and columns that it had no place for.

    Ids of sessions are the same in all versions, and so are those of messages, except that events come last.
    """
    told = tell(sessions, turns, without=[name for name, since in _EVENTS.items() if since > step])
    # Helper calls were not counted before rows said the task.
    rows = dict(told.tables)
    rows["session_model_usage"] = [row for row in rows["session_model_usage"] if step >= 220 or not row["task"]]
    known = column_names(step)
    tables = {table: _cut(all_rows, known[table]) for table, all_rows in rows.items() if table in known}
    usage = tables.get("session_model_usage", [])
    if step == 200:
        for row in usage[::2]:
            row["billing_base_url"] = None
    facts: dict[str, Any] = {name: empty for name, (since, empty) in _FACTS.items() if step < since}
    return Plan(tables, replace(told.story, usage_rows=len(usage), **facts))


def _cut(rows: Iterable[Row], columns: tuple[str, ...]) -> list[Row]:
    return [{name: value for name, value in row.items() if name in columns} for row in rows]


def statements_of(step: Step, *, narrow: bool = False) -> tuple[str, ...]:
    """Everything that makes an empty file of a shape."""
    return (*plain_objects(step), *search_objects(step // 10, narrow=narrow))


def build_version(
    path: str | os.PathLike[str],
    driver_module: Any,
    version: int,
    *,
    variant: str | None = None,
    narrow: bool = False,
    journal_mode: str = "delete",
    sessions: int = 14,
    turns: int = 8,
    edit: Callable[[str], str] | None = None,
) -> Story:
    """Creates a file through the DB-API module as a release of that version left it, with rows in every table.

    Variants are "early" and "late" builds of a version, None means early; `VARIANTS` lists what there is.
    With `narrow` the update triggers of the search index (11 and later) name the columns that they watch, as
    files have it that a late release opened. `edit` may change each statement before it runs.

    The returned story is true for the file. Versions without a place for an event do without it: no message of
    parts before 12, no undone rows before late 14, no compaction before late 16, no note of a changed model
    before late 23. `call_only` is empty before 11, as the index held the text of messages alone; the words are in
    `plan_of(110).story`.
    """
    step = step_of(version, variant)
    plan = plan_of(step, sessions, turns)
    statements = statements_of(step, narrow=narrow)
    if edit is not None:
        statements = tuple(edit(statement) for statement in statements)
    write_file(path, driver_module, statements, plan.tables, journal_mode=journal_mode)
    return plan.story
