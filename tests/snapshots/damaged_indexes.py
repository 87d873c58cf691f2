"""Damage to the search index: layouts that do not fit each other, work that was interrupted, missing triggers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from .build import build_version, plan_of
from .facts import STAMPS, Answer, Damage, Facts, add, facts, message, names_in_master
from .hermes_v23 import FTS_SQL
from .history import plain_objects
from .search_indexes import (
    EVENTS,
    F1,
    INDEXED,
    TRIGRAMS,
    WORDS,
    inline_indexes,
    inline_table,
    inline_triggers,
    joined,
    trigger_names,
)
from .story import Story
from .writing import alter, raw, write_file

WORDS_23, TRIGRAMS_23 = FTS_SQL[:4], FTS_SQL[4:]
"""Table and triggers of each index of version 23; the second with the view that it reads."""

HIGH_WATER, PROGRESS, AVAILABLE = "fts_rebuild_high_water", "fts_rebuild_progress", "fts_optimize_available"
TRASH: Final = "fts_v22_trash_"
WORD: Final = "marmoset"
"""A word that only the row of `missing_trigger` holds."""


def _with_meta(step: int, meta: dict[str, str]) -> tuple[Story, dict[str, Any]]:
    """Story and rows of a step with keys of state_meta, which come before the rows: triggers look at them."""
    plan = plan_of(step)
    rows = [{"key": key, "value": value} for key, value in meta.items()]
    story = replace(plan.story, meta=dict(plan.story.meta) | meta)
    return story, {"state_meta": [*plan.tables["state_meta"], *rows]} | {
        table: rows for table, rows in plan.tables.items() if table != "state_meta"
    }


def unfinished_rebuild(high_water: int, progress: int) -> Damage:
    """Version 23 in the middle of filling its index: rows above `progress` up to `high_water` are not in it."""

    def make(driver: Any, path: Path) -> Facts:
        story, tables = _with_meta(235, {HIGH_WATER: str(high_water), PROGRESS: str(progress)})
        write_file(path, driver, (*plain_objects(235), *FTS_SQL), tables)
        left_out = list(range(progress + 1, high_water + 1))
        return facts(path, driver, story, high_water=high_water, progress=progress, unindexed=left_out)

    return Damage(make, sound_index=False)


def _demote(connection: Any) -> list[str]:
    """Moves the storage of inline indexes to tables of other names, and drops the indexes and their triggers."""
    moved = []
    shadows = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name LIKE 'messages\\_fts\\_%' ESCAPE '\\'"
        f" AND name <> '{TRIGRAMS}' ORDER BY name"
    ).fetchall()
    for name, text in shadows:
        connection.execute(text.replace(name, TRASH + name, 1))
        connection.execute(f"INSERT INTO {TRASH}{name} SELECT * FROM {name}")
        moved.append(TRASH + name)
    for index in (WORDS, TRIGRAMS):
        for event in EVENTS:
            connection.execute(f"DROP TRIGGER {index}_{event}")
        connection.execute(f"DROP TABLE {index}")
    return moved


def half_demoted(state: str) -> Damage:
    """A file whose inline indexes were being replaced by those of version 23.

    States: `no_tables` (the old ones are put aside, the new ones not yet made), `filling` (the new ones hold the
    first rows), `teardown` (the new ones are full, some of the old storage is still there).
    """

    def make(driver: Any, path: Path) -> Facts:
        plan = plan_of(235)
        write_file(path, driver, (*plain_objects(235), *inline_indexes()), plan.tables)
        high_water = plan.story.message_rows
        progress = {"no_tables": 0, "filling": high_water // 2, "teardown": high_water}[state]
        with raw(path, driver) as connection:
            connection.execute("BEGIN IMMEDIATE")
            moved = _demote(connection)
            if state != "teardown":
                for key, value in ((HIGH_WATER, high_water), (PROGRESS, progress)):
                    connection.execute("INSERT INTO state_meta VALUES (?, ?)", (key, str(value)))
            if state != "no_tables":
                for statement in FTS_SQL:
                    connection.execute(statement)
                names = ", ".join(INDEXED)
                for index, source in ((WORDS, "messages"), (TRIGRAMS, f"{TRIGRAMS}_src")):
                    connection.execute(
                        f"INSERT INTO {index}(rowid, {names}) SELECT id, {names} FROM {source} WHERE id <= {progress}"
                    )
            if state == "teardown":
                for table in moved[:4]:
                    connection.execute(f"DROP TABLE {table}")
                del moved[:4]
                key = f"fts_teardown_{moved[0]}_progress"
                connection.execute("INSERT INTO state_meta VALUES (?, '0')", (key,))
            connection.execute("COMMIT")
        return facts(path, driver, plan.story, trash=moved, high_water=high_water, progress=progress)

    return Damage(make, sound_index=state == "teardown")


def trash_table(driver: Any, path: Path) -> Facts:
    """A sound file of version 23 with one table that the replacement of an old index left."""
    story = build_version(path, driver, 23, variant="late")
    alter(path, driver, f"CREATE TABLE {TRASH}x (id INTEGER PRIMARY KEY, block BLOB)")
    return facts(path, driver, story, trash=[f"{TRASH}x"])


def _drop(index: str) -> list[str]:
    return [*(f"DROP TRIGGER {index}_{event}" for event in EVENTS), f"DROP TABLE {index}"]


def _fill_inline(index: str) -> str:
    return f"INSERT INTO {index}(rowid, content) SELECT id, {joined('messages')} FROM messages"


def mixed(version: int, statements: Iterable[str], *, sound_index: bool = False, **known: Any) -> Damage:
    """A file of a version whose search objects are changed afterwards."""

    def make(driver: Any, path: Path) -> Facts:
        story = build_version(path, driver, version, variant="late" if version == 23 else None)
        alter(path, driver, *statements)
        return facts(path, driver, story, {STAMPS: [(23,)]}, **known)

    return Damage(make, sound_index=sound_index)


def _three_columns(index: str) -> tuple[str, ...]:
    """Replaces an inline index by that of version 23, full."""
    names = ", ".join(INDEXED)
    objects, source = (WORDS_23, "messages") if index == WORDS else (TRIGRAMS_23, f"{TRIGRAMS}_src")
    return (*_drop(index), *objects, f"INSERT INTO {index}(rowid, {names}) SELECT id, {names} FROM {source}")


def missing_trigger(version: int, trigger: str) -> Damage:
    """A file without one trigger, and with the change that the index therefore missed.

    `known["message_id"]` is the row that was inserted with `WORD`, got it as its text, or was deleted.
    """
    event = trigger.rsplit("_", 1)[1]

    def make(driver: Any, path: Path) -> Facts:
        story = build_version(path, driver, version, variant="late" if version in {16, 23} else None)
        with raw(path, driver) as connection:
            connection.execute(f"DROP TRIGGER {trigger}")
            query = "SELECT max(id) FROM messages WHERE role = 'user' AND session_id = ?"
            (row_id,) = connection.execute(query, (story.session_ids[-1],)).fetchone()
            if event == "delete":
                connection.execute("DELETE FROM messages WHERE id = ?", (row_id,))
            elif event == "update":
                connection.execute("UPDATE messages SET content = ? WHERE id = ?", (f"a {WORD}", row_id))
        if event == "insert":
            row_id = story.message_rows + 1
            add(path, driver, {"messages": [message(story.session_ids[-1], f"a {WORD}", id=row_id)]})
        names = sorted(trigger_names(23))
        healed: dict[str, Answer] = {names_in_master(*names): [(name,) for name in names]}
        return facts(path, driver, story, healed, trigger=trigger, event=event, message_id=row_id, word=WORD)

    return Damage(make, sound_index=False)


def refilled(driver: Any, path: Path) -> Facts:
    """Version 9 after a release with version 23 had opened it: joined text in an index of the text alone.

    The old triggers remained, so that a deleted row leaves the words of its tool calls in the index.
    """
    plan = plan_of(235)
    story, tables = _with_meta(235, {AVAILABLE: "1"})
    objects = (*F1, inline_table(TRIGRAMS), *inline_triggers(TRIGRAMS))
    write_file(path, driver, (*plain_objects(235), *objects), tables)
    statements = [f"INSERT INTO {WORDS}({WORDS}) VALUES ('delete-all')", _fill_inline(WORDS)]
    alter(path, driver, *statements)
    return facts(path, driver, story, call_only=plan.story.call_only)


def _build(version: int, variant: str | None, *, narrow: bool) -> Damage:
    def make(driver: Any, path: Path) -> Facts:
        story = build_version(path, driver, version, variant=variant, narrow=narrow)
        return facts(path, driver, story, {STAMPS: [(23,)]})

    return Damage(make)


_INLINE_UPDATE: Final = inline_triggers(WORDS, narrow=True)[-1]

DAMAGES: Final[dict[str, Damage]] = {
    "unfinished_rebuild": unfinished_rebuild(300, 120),
    "unfinished_rebuild_at_start": unfinished_rebuild(1, 0),
    **{f"half_demoted_{state}": half_demoted(state) for state in ("no_tables", "filling", "teardown")},
    "trash_table": Damage(trash_table),
    "mixed_words_missing": mixed(22, _drop(WORDS)),
    "mixed_words_missing_triggers_left": mixed(22, [f"DROP TABLE {WORDS}"], insert_fails=True),
    "mixed_trigrams_missing": mixed(22, _drop(TRIGRAMS)),
    "mixed_words_new_trigrams_old": mixed(22, _three_columns(WORDS), sound_index=True),
    "mixed_words_old_trigrams_new": mixed(22, _three_columns(TRIGRAMS), sound_index=True),
    "mixed_new_triggers_over_old_trigrams": mixed(
        22,
        [
            *_three_columns(WORDS),
            *(f"DROP TRIGGER {TRIGRAMS}_{event}" for event in EVENTS),
            *(text for text in TRIGRAMS_23 if "VIRTUAL TABLE" not in text),
        ],
        insert_fails=True,
    ),
    "inline_update_trigger_over_external_index": mixed(10, [f"DROP TRIGGER {WORDS}_update", _INLINE_UPDATE]),
    **{
        f"missing_{trigger}_v{version}": missing_trigger(version, trigger)
        for version in (9, 10, 16, 23)
        for trigger in trigger_names(version)
    },
    "refilled_v9": Damage(refilled, sound_index=False),
    "broad_update_triggers_v23": _build(23, "late", narrow=False),
    "narrow_update_triggers_v22": _build(22, "late", narrow=True),
}
