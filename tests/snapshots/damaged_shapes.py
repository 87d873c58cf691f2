"""Shapes that no release declared: columns missing or written otherwise, no search index, objects of strangers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from .build import build_version, plan_of, statements_of
from .facts import STAMPS, Answer, Damage, Facts, add, facts, message, names_in_master, session
from .hermes_v23 import build
from .history import TITLE_INDEX, create, index_statement, plain_objects, tables_of
from .search_indexes import search_objects, trigger_names
from .story import Row
from .writing import alter, raw, write_file


def _cut(rows: list[Row], missing: tuple[str, ...]) -> list[Row]:
    return [{name: value for name, value in row.items() if name not in missing} for row in rows]


def _columns(table: str, step: int) -> tuple[str, ...]:
    return tables_of(step)[table]


def stamp_7_without_reasoning_content(driver: Any, path: Path) -> Facts:
    """Stamp 7 over messages of version 6 and sessions of version 8: numbers were used twice by private builds."""
    plan = plan_of(70)
    seven, six = create("messages", _columns("messages", 70)), create("messages", _columns("messages", 60))
    sessions = create("sessions", _columns("sessions", 70)), create("sessions", _columns("sessions", 80))
    statements = [text.replace(seven, six).replace(*sessions) for text in statements_of(70)]
    tables = dict(plan.tables) | {"messages": _cut(plan.tables["messages"], ("reasoning_content",))}
    write_file(path, driver, statements, tables)
    healed: dict[str, Answer] = {
        "SELECT name FROM pragma_table_info('messages') WHERE name = 'reasoning_content'": [("reasoning_content",)],
        STAMPS: [(23,)],
    }
    return facts(path, driver, plan.story, healed)


_BILLING: Final = tuple(text.split()[0] for text in _columns("sessions", 50) if text not in _columns("sessions", 40))


def without_billing(version: int) -> Damage:
    """A stamp above 4 over sessions that lack the columns of version 5."""

    def make(driver: Any, path: Path) -> Facts:
        step = version * 10
        plan = plan_of(step)
        full = _columns("sessions", step)
        cut = tuple(text for text in full if text.split()[0] not in _BILLING)
        statements = [text.replace(create("sessions", full), create("sessions", cut)) for text in statements_of(step)]
        tables = dict(plan.tables) | {"sessions": _cut(plan.tables["sessions"], _BILLING)}
        write_file(path, driver, statements, tables)
        healed: dict[str, Answer] = {
            "SELECT DISTINCT cache_read_tokens, billing_provider, estimated_cost_usd FROM sessions": [(0, None, None)],
            STAMPS: [(23,)],
        }
        return facts(path, driver, plan.story, healed, missing=_BILLING)

    return Damage(make)


def grown(version: int) -> Damage:
    """A file that was born at version 1 and got its columns one version after another, at the end of each table."""

    def make(driver: Any, path: Path) -> Facts:
        step = version * 10
        plan = plan_of(step)
        *statements, _ = plain_objects(10)  # the stamp comes last
        made = {_head(text) for text in statements}
        for table in ("sessions", "messages"):
            present = set(_columns(table, 10))
            for reached in range(15, step + 1, 5):
                missing = [text for text in _columns(table, reached) if text not in present]
                statements += [f"ALTER TABLE {table} ADD COLUMN {text}" for text in missing]
                present.update(missing)
        statements += [text for text in plain_objects(step) if _head(text) not in made]
        write_file(path, driver, (*statements, *search_objects(version)), plan.tables)
        return facts(path, driver, plan.story, {STAMPS: [(23,)]})

    return Damage(make)


def _head(statement: str) -> str:
    """What a statement makes, without how."""
    return statement.split("(", 1)[0].split(" ON ", 1)[0]


def _build(version: int, variant: str | None, *changes: tuple[str, str]) -> Damage:
    """A version with texts of its statements replaced."""

    def make(driver: Any, path: Path) -> Facts:
        def edit(statement: str) -> str:
            for old, new in changes:
                statement = statement.replace(old, new)
            return statement

        return facts(path, driver, build_version(path, driver, version, variant=variant, edit=edit), {STAMPS: [(23,)]})

    return Damage(make)


def pinned_in_capitals(driver: Any, path: Path) -> Facts:
    """Version 22 with a column whose name differs from the one to be added in case alone; one session is pinned."""
    story = build_version(path, driver, 22, variant="late")
    alter(
        path,
        driver,
        "ALTER TABLE sessions ADD COLUMN Pinned INTEGER NOT NULL DEFAULT 0",
        ("UPDATE sessions SET Pinned = 1 WHERE id = ?", (story.session_ids[2],)),
    )
    healed: dict[str, Answer] = {
        "SELECT name FROM pragma_table_info('sessions') WHERE lower(name) = 'pinned'": [("Pinned",)],
        "SELECT id FROM sessions WHERE pinned": [(story.session_ids[2],)],
        STAMPS: [(23,)],
    }
    return facts(path, driver, story, healed, pinned=story.session_ids[2])


_SIX: Final = names_in_master(*trigger_names(23))
_ALL_SIX: Final[Answer] = [(name,) for name in sorted(trigger_names(23))]


def no_index_v23(driver: Any, path: Path) -> Facts:
    """What a runtime without full-text search leaves: version 23 without tables, view and triggers of the index."""
    story = build(path, driver, journal_mode="delete", fts=False)
    return facts(path, driver, story, {_SIX: _ALL_SIX})


def no_triggers_v19(driver: Any, path: Path) -> Facts:
    """Version 19 that a runtime without full-text search has used: the triggers dropped, a row not in the index."""
    story = build_version(path, driver, 19)
    alter(path, driver, *(f"DROP TRIGGER {name}" for name in trigger_names(19)))
    row_id = story.message_rows + 1
    add(path, driver, {"messages": [message(story.session_ids[0], "a marmoset", id=row_id)]})
    return facts(path, driver, story, {_SIX: _ALL_SIX}, message_id=row_id, word="marmoset")


def without_rowid(*, duplicates: bool) -> Damage:
    """Sessions in a table without rowids; with `duplicates` two of them hold one title and the unique index is gone."""

    def make(driver: Any, path: Path) -> Facts:
        full = create("sessions", _columns("sessions", 235))

        def edit(statement: str) -> str:
            return statement.replace(full, f"{full} WITHOUT ROWID")

        story = build_version(path, driver, 23, variant="late", edit=edit)
        if duplicates:
            alter(path, driver, f"DROP INDEX {TITLE_INDEX}")
            add(path, driver, {"sessions": [session(f"twin-{n}", title="twin", started_at=float(n)) for n in range(2)]})
        return facts(path, driver, story, {STAMPS: [(23,)]})

    return Damage(make)


FOREIGN: Final = (
    "CREATE TABLE stranger_notes (id INTEGER PRIMARY KEY, session_id TEXT REFERENCES sessions(id), note TEXT)",
    "CREATE INDEX stranger_notes_by_session ON stranger_notes(session_id)",
    "CREATE INDEX stranger_sessions_by_model ON sessions(model, started_at)",
    "CREATE VIEW stranger_recent AS SELECT id, title FROM sessions ORDER BY started_at DESC",
    "CREATE TABLE stranger_log (message_id INTEGER)",
    (
        "CREATE TRIGGER stranger_message_added AFTER INSERT ON messages"
        " BEGIN INSERT INTO stranger_log VALUES (new.id); END"
    ),
    "INSERT INTO stranger_notes (note) VALUES ('keep me')",
)
"""Objects that somebody else put into the file."""


def foreign_objects(version: int) -> Damage:
    """A file with a table, indexes, a view and a trigger that the application does not know."""

    def make(driver: Any, path: Path) -> Facts:
        story = build_version(path, driver, version, variant="late")
        alter(path, driver, *FOREIGN)
        query = "SELECT type, name, sql FROM sqlite_master WHERE name LIKE 'stranger_%' ORDER BY name"
        with raw(path, driver) as connection:
            held = [tuple(row) for row in connection.execute(query)]
        healed: dict[str, Answer] = {query: held, "SELECT note FROM stranger_notes": [("keep me",)], STAMPS: [(23,)]}
        return facts(path, driver, story, healed)

    return Damage(make)


DAMAGES: Final[dict[str, Damage]] = {
    "stamp_7_without_reasoning_content": Damage(stamp_7_without_reasoning_content),
    **{f"without_billing_v{version}": without_billing(version) for version in range(5, 11)},
    **{f"grown_v{version}": grown(version) for version in (10, 18, 22)},
    "active_as_text_v22": _build(22, "late", ("active INTEGER NOT NULL DEFAULT 1", "active TEXT")),
    "pinned_in_capitals": Damage(pinned_in_capitals),
    "title_index_missing_v23": _build(23, "late", (index_statement(TITLE_INDEX), "SELECT 1")),
    "no_index_v23": Damage(no_index_v23, sound_index=False),
    "no_triggers_v19": Damage(no_triggers_v19, sound_index=False),
    "without_rowid_sessions": without_rowid(duplicates=False),
    "without_rowid_sessions_duplicate_titles": without_rowid(duplicates=True),
    "foreign_objects_v22": foreign_objects(22),
    "foreign_objects_v23": foreign_objects(23),
}
