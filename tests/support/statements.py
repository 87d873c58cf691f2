"""Counting statements and reading query plans: how the suite judges speed without a stopwatch."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hermes_store.database import connection as connection_module
from hermes_store.database import database as database_module


class StatementLog:
    """Every statement that SQLite ran, with its values filled in, in order."""

    def __init__(self) -> None:
        self.statements: list[str] = []

    def clear(self) -> None:
        self.statements.clear()

    @property
    def without_transactions(self) -> list[str]:
        """What is left when BEGIN, COMMIT, ROLLBACK, pragmas and the bodies of triggers are taken away."""
        skipped = ("BEGIN", "COMMIT", "ROLLBACK", "PRAGMA", "--")
        return [text for text in self.statements if not text.lstrip().upper().startswith(skipped)]


@contextmanager
def log_statements(monkeypatch: pytest.MonkeyPatch) -> Iterator[StatementLog]:
    """Log the statements of all connections that are opened inside."""
    log = StatementLog()
    real = connection_module.connect

    def connect(*arguments: Any, **options: Any) -> Any:
        opened = real(*arguments, **options)
        opened.set_trace_callback(log.statements.append)
        return opened

    with monkeypatch.context() as patch:
        patch.setattr(database_module, "connect", connect)
        yield log


def query_plan(path: Path, statement: str, driver: str | None = None) -> list[str]:
    """The lines of EXPLAIN QUERY PLAN for a logged statement."""
    raw = connection_module.connect(path, driver=driver, read_only=True)
    try:
        return [row[3] for row in raw.execute(f"EXPLAIN QUERY PLAN {statement}")]
    finally:
        raw.close()
