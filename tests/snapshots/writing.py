"""Writing a file with the plain driver: statements that make it, and rows that fill it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .story import Row


@contextmanager
def raw(path: str | os.PathLike[str], driver: Any) -> Iterator[Any]:
    """A connection of the DB-API module in autocommit mode, foreign keys off; closed afterwards."""
    connection = driver.connect(os.fspath(path), isolation_level=None)
    try:
        # Made files need not outlive a loss of power.
        connection.execute("PRAGMA synchronous = OFF")
        yield connection
    finally:
        # The last close folds a write-ahead log into the file and removes it.
        connection.close()


def insert_rows(connection: Any, table: str, rows: Iterable[Row]) -> None:
    """Writes rows; a column that a row does not name gets its declared default."""
    for row in rows:
        names, marks = ", ".join(row), ", ".join("?" for _ in row)
        connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(row.values()))


def write_file(
    path: str | os.PathLike[str],
    driver: Any,
    statements: Iterable[str],
    tables: Mapping[str, Iterable[Row]],
    *,
    journal_mode: str = "delete",
) -> None:
    """Creates a file in one transaction: the statements first, then the rows, so that triggers index them."""
    with raw(path, driver) as connection:
        (mode,) = connection.execute(f"PRAGMA journal_mode = {journal_mode}").fetchone()
        if mode != journal_mode.lower():
            raise RuntimeError(f"journal mode {journal_mode} refused, file is in mode {mode}")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("BEGIN IMMEDIATE")
        for statement in statements:
            connection.execute(statement)
        for table, rows in tables.items():
            insert_rows(connection, table, rows)
        connection.execute("COMMIT")


def alter(path: str | os.PathLike[str], driver: Any, *statements: str | tuple[str, tuple[Any, ...]]) -> None:
    """Runs statements, with their values where given, on a closed file; foreign keys are off."""
    with raw(path, driver) as connection:
        for statement in statements:
            text, values = (statement, ()) if isinstance(statement, str) else statement
            connection.execute(text, values)
