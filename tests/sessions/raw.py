"""Looking into a store's file, and writing what its interface would not, through the driver of the engine."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import hermes_store
from hermes_store.database import load_driver
from tests.support.drivers import engines

INTEGRITY_ERROR: type[Exception] = load_driver("sqlite3").module.IntegrityError
"""What callers catch who know the standard library's module."""

STARTED = 1_771_000_000.0
"""When sessions that tests write here began, unless they say otherwise."""

on_one_engine = pytest.mark.parametrize(
    "engine", [max(engines(), key=lambda engine: engine.journal_mode)], indirect=True, ids=lambda engine: engine.label
)
"""For tables of values that no driver sees differently: one engine is enough, WAL where there is one."""


class RawFile:
    """The file of a store, one short connection per call; foreign keys are off, so that broken files can be made."""

    def __init__(self, path: Path, driver: str) -> None:
        self.path = path
        self.driver = driver

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run one statement; returns its rows."""
        return self.run([(statement, values)])

    def run(self, statements: Iterable[tuple[str, tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
        """Run statements in one transaction; returns the rows of the last."""
        connection = hermes_store.connect(self.path, driver=self.driver)
        try:
            found: list[tuple[Any, ...]] = []
            connection.execute("BEGIN")
            for statement, values in statements:
                found = connection.execute(statement, values).fetchall()
            connection.execute("COMMIT")
            return found
        finally:
            connection.close()

    def value(self, statement: str, *values: Any) -> Any:
        """The first column of the only row."""
        ((found,),) = self.rows(statement, *values)
        return found

    def count(self, table: str) -> int:
        """Number of rows of a table."""
        return int(self.value(f"SELECT count(*) FROM {table}"))

    def session(self, session_id: str, **columns: Any) -> str:
        """Add a session row."""
        self.run([insertion("sessions", {"id": session_id, "source": "cli", "started_at": STARTED, **columns})])
        return session_id

    def message(self, session_id: str, **columns: Any) -> int:
        """Add a message row, past all guards and counters; returns its id."""
        row = {"session_id": session_id, "role": "user", "content": "text", "timestamp": STARTED, **columns}
        return int(self.run([insertion("messages", row), ("SELECT max(id) FROM messages", ())])[0][0])

    def change(self, session_id: str, **columns: Any) -> None:
        """Overwrite columns of a session."""
        assignments = ", ".join(f"{name} = ?" for name in columns)
        self.rows(f"UPDATE sessions SET {assignments} WHERE id = ?", *columns.values(), session_id)

    def lock(self, session_id: str, holder: str, expires_at: float) -> None:
        """Add a compression lease."""
        row = {"session_id": session_id, "holder": holder, "acquired_at": STARTED, "expires_at": expires_at}
        self.run([insertion("compression_locks", row)])


def insertion(table: str, row: dict[str, Any]) -> tuple[str, tuple[Any, ...]]:
    """The statement that adds a row, with its values."""
    marks = ", ".join("?" for _ in row)
    return f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values())


def only(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The one row of a list of one."""
    (row,) = rows
    return row


def present(row: dict[str, Any] | None) -> dict[str, Any]:
    """A row that has to be there."""
    assert row is not None
    return row
