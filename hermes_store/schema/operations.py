"""Frozen operations that revisions may use. They carry literal DDL and never change what they do (rule SCHEMA-9).

Their first argument is `alembic.op`, which stands for the operations that are active.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from hermes_store.errors import IrreversibleMigration, OnlineMigration

__all__ = [
    "IrreversibleMigration",
    "ensure_column",
    "irreversible",
    "online_only",
    "rebuild_table",
    "rows",
    "tables_among",
]


def online_only(operations: Any, revision: str) -> None:
    """Raise OnlineMigration where SQL is only to be written down: this revision has to look at the data."""
    if operations.get_context().as_sql:
        raise OnlineMigration(
            f"revision {revision} moves data that it has to look at, so it cannot be written as SQL; "
            f"run: hermes-store --db PATH db upgrade"
        )


def irreversible(revision: str, reason: str) -> None:
    """Raise IrreversibleMigration, which names the revision, the reason and the way out."""
    raise IrreversibleMigration(f"revision {revision} cannot be taken back: {reason}; restore the file from a backup")


def ensure_column(operations: Any, table: str, column: str, definition: str) -> None:
    """Add a column unless it is there: opening a store may have added it first, and SQLite has no IF NOT EXISTS here.

    `definition` is the type with NOT NULL and DEFAULT, as ALTER TABLE ADD COLUMN takes them.
    """
    for name in (table, column):
        if not name.isidentifier():
            raise ValueError(f"{name!r} is no name of a table or column")
    if operations.get_context().as_sql:
        operations.execute(f'ALTER TABLE {table} ADD COLUMN "{column}" {definition}')
        return
    if column.lower() not in {
        row[0].lower() for row in rows(operations, "SELECT name FROM pragma_table_info(?)", table)
    }:
        operations.execute(f'ALTER TABLE {table} ADD COLUMN "{column}" {definition}')


def rows(operations: Any, sql: str, *values: Any) -> list[Any]:
    """All rows of a statement on the file that is being upgraded; `?` takes the values."""
    return list(operations.get_bind().exec_driver_sql(sql, values).fetchall())


def tables_among(operations: Any, names: Sequence[str]) -> list[str]:
    """Those of the names that are ordinary tables of the file, in the order given."""
    there = {row[0] for row in rows(operations, "SELECT name FROM sqlite_master WHERE type = 'table'")}
    return [name for name in names if name in there]


def rebuild_table(
    operations: Any,
    table: str,
    *,
    columns: Mapping[str, str],
    constraints: Sequence[str],
    in_place_of_null: Mapping[str, str],
    sources: Mapping[str, str],
    on_conflict: Sequence[str],
) -> None:
    """Build a table anew in the shape that is given, fill it from others, and put it in the place of the old one.

    columns: name to definition. in_place_of_null: literals for columns that must hold something. sources: tables to
    copy from, by name, each with the expression that orders its rows; all but the table itself are dropped at the end.
    on_conflict: what a row does that meets one of the same key, for each of the sources. Columns that only the file
    knows are kept, and so are its indexes and triggers. Foreign keys have to be off: rows of sessions that are gone
    stay. It is built under a new name, since renaming the old one away would carry triggers and keys of others along.
    """
    draft = f"hermes_store_rebuild_{table}"
    definitions = dict(columns)
    live = {source: _live_columns(operations, source) for source in sources}
    for found in live.values():
        for name, definition in found.items():
            if name not in {known.lower() for known in definitions}:
                definitions[name] = definition
    body = ", ".join([f"{_quoted(name)} {definition}" for name, definition in definitions.items()] + list(constraints))
    _run(operations, f"CREATE TABLE {draft} ({body})")
    for (source, order), conflict in zip(sources.items(), on_conflict, strict=True):
        copied = [name for name in definitions if name.lower() in live[source]]
        values = [
            f"COALESCE({_quoted(name)}, {in_place_of_null[name]})" if name in in_place_of_null else _quoted(name)
            for name in copied
        ]
        _run(
            operations,
            f"INSERT INTO {draft} ({', '.join(map(_quoted, copied))}) SELECT {', '.join(values)} "
            f"FROM {_quoted(source)} WHERE 1 ORDER BY {order} {conflict}",
        )
    kept = rows(
        operations,
        "SELECT sql FROM sqlite_master WHERE tbl_name = ? AND type IN ('index', 'trigger') AND sql IS NOT NULL",
        table,
    )
    for source in {table, *sources}:
        _run(operations, f"DROP TABLE IF EXISTS {_quoted(source)}")
    # Views of others that name the table would make the rename fail.
    _run(operations, "PRAGMA legacy_alter_table=ON")
    _run(operations, f"ALTER TABLE {draft} RENAME TO {table}")
    _run(operations, "PRAGMA legacy_alter_table=OFF")
    for (statement,) in kept:
        _run(operations, statement)


def _run(operations: Any, sql: str) -> None:
    # Not `execute`: a colon in the text of somebody's trigger is no parameter.
    operations.get_bind().exec_driver_sql(sql)


def _live_columns(operations: Any, table: str) -> dict[str, str]:
    """Name in lower case and definition of the columns that a table of the file has; NOT NULL only beside a default."""
    found = {}
    for name, kind, not_null, default in rows(
        operations, 'SELECT name, type, "notnull", dflt_value FROM pragma_table_info(?)', table
    ):
        has_default = default is not None
        found[name.lower()] = " ".join(
            part
            for part in (
                kind,
                "NOT NULL" if not_null and has_default else "",
                f"DEFAULT {default}" if has_default else "",
            )
            if part
        )
    return found


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
