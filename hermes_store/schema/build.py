"""Making tables, columns and indexes from the models, and only what is missing (rule SCHEMA-5)."""

import logging
from typing import TYPE_CHECKING

from sqlalchemy import Column
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from hermes_store.errors import ConstraintFailed, UniqueFailed
from hermes_store.models import Base
from hermes_store.schema.normalise import normalised
from hermes_store.schema.recognise import columns_of
from hermes_store.schema.report import Progress

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection

log = logging.getLogger(__name__)

_DIALECT = sqlite.dialect()
TITLE_INDEX = "idx_sessions_title_unique"


def create_tables(connection: "Connection", existing: frozenset[str]) -> None:
    """Create the tables that are not there yet."""
    known = {name.lower() for name in existing}
    for table in Base.metadata.sorted_tables:
        if table.name not in known:
            connection.sql(str(CreateTable(table).compile(dialect=_DIALECT)))


def column_definition(column: Column[object]) -> str:
    """Type, NOT NULL and DEFAULT of a column, as ALTER TABLE ADD COLUMN takes them."""
    parts = [column.type.compile(_DIALECT)]
    if not column.nullable and not column.primary_key:
        parts.append("NOT NULL")
    default = getattr(column.server_default, "arg", None)
    if default is not None:
        parts.append(f"DEFAULT {default}")
    return " ".join(parts)


def add_columns(connection: "Connection") -> tuple[str, ...]:
    """Add what the models have and the file has not; nothing else is changed. Returns `table.column` names."""
    added = []
    for table in Base.metadata.sorted_tables:
        # Column names are the same to SQLite whatever their case.
        live = {name.lower() for name in columns_of(connection, table.name)}
        for column in table.columns:
            if column.name.lower() not in live:
                definition = column_definition(column)
                if column.server_default is None and not column.nullable and _has_rows(connection, table.name):
                    # SQLite adds such a column to an empty table only; rows that are there cannot hold anything yet.
                    definition = column.type.compile(_DIALECT)
                connection.sql(f'ALTER TABLE {table.name} ADD COLUMN "{column.name}" {definition}')
                added.append(f"{table.name}.{column.name}")
    return tuple(added)


def _has_rows(connection: "Connection", table: str) -> bool:
    return bool(connection.sql(f"SELECT EXISTS (SELECT 1 FROM {table})")[0][0])


def create_indexes(
    connection: "Connection", progress: Progress, *, replace: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Create the indexes that are not there yet; returns their names, and the sessions that lost a title held twice.

    replace: an index of ours that is another one, on other columns or without its condition, is made anew; an index
    holds nothing of its own. Of sessions that share a title the one that was stored last keeps it.
    """
    existing = {
        name.lower(): text or ""
        for name, text in connection.sql("SELECT name, sql FROM sqlite_master WHERE type = 'index'")
    }
    created = []
    cleared: tuple[str, ...] = ()
    for table in Base.metadata.sorted_tables:
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            statement = str(CreateIndex(index).compile(dialect=_DIALECT))
            stored = existing.get(str(index.name))
            if stored is not None:
                if not replace or normalised(stored) == normalised(statement):
                    continue
                connection.sql(f"DROP INDEX {index.name}")
            progress(f"index {index.name}")
            try:
                connection.sql(statement)
            except UniqueFailed:
                if index.name != TITLE_INDEX:
                    raise
                try:
                    cleared = _clear_duplicate_titles(connection)
                    connection.sql(statement)
                except ConstraintFailed as exc:
                    # Somebody's rule of their own: a title held twice is no reason not to open a file.
                    log.warning("titles are held twice and cannot be taken away: %s", exc)
                    continue
            created.append(str(index.name))
    return tuple(created), cleared


def _clear_duplicate_titles(connection: "Connection") -> tuple[str, ...]:
    # A table without rowid does not tell what was stored last: what was started last stands for it.
    has_rowid = not connection.sql("SELECT wr FROM pragma_table_list('sessions') WHERE schema = 'main'")[0][0]
    key, latest_first = ("rowid", "rowid DESC") if has_rowid else ("id", "started_at DESC, id DESC")
    place = f"ROW_NUMBER() OVER (PARTITION BY title ORDER BY {latest_first})"
    ranked = f"SELECT {key} AS key, {place} AS place FROM sessions WHERE title IS NOT NULL"
    return tuple(
        row[0].decode("utf-8", "replace")
        for row in connection.sql(
            f"UPDATE sessions SET title = NULL WHERE {key} IN (SELECT key FROM ({ranked}) WHERE place > 1) "
            # Whatever stands there as an id must not keep the file from being opened.
            "RETURNING CAST(CASE typeof(id) WHEN 'text' THEN id ELSE quote(id) END AS BLOB)"
        )
    )
