"""The full-text indexes over messages: their tables, views and guarded triggers of today (rules FTS-1 to FTS-4).

Both indexes are external-content FTS5 tables: they hold no text of their own, so every change of a message must be
told to them, which the triggers do. A trigger is guarded: while an index is being rebuilt, rows between the progress
mark and the high-water mark are not in it yet, and telling it to delete such a row would damage it.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection
    from hermes_store.database.driver import Driver

COLUMNS = ("content", "tool_name", "tool_calls")
HIGH_WATER_KEY = "fts_rebuild_high_water"
PROGRESS_KEY = "fts_rebuild_progress"
STORAGE_VERSION_KEY = "fts_storage_version"
STORAGE_VERSION = "1"


def _mark(key: str) -> str:
    return f"COALESCE((SELECT CAST(value AS INTEGER) FROM state_meta WHERE key = '{key}'), -1)"


def _guard(row: str) -> str:
    """True for rows that the index holds, or is going to hold at once."""
    return f"({row}.id > {_mark(HIGH_WATER_KEY)} OR {row}.id <= {_mark(PROGRESS_KEY)})"


@dataclass(frozen=True, slots=True)
class Index:
    """One index. `skips_tools`: rows of the role `tool` are not in it."""

    name: str
    tokenizer: str | None
    skips_tools: bool

    @property
    def source(self) -> str:
        """The table or view that holds the text."""
        return f"{self.name}_src" if self.skips_tools else "messages"

    def is_usable(self, driver: "Driver") -> bool:
        """Whether the SQLite in use has what the index needs."""
        return driver.has_trigram if self.tokenizer == "trigram" else driver.has_fts5

    @property
    def trigger_names(self) -> tuple[str, str, str]:
        """Names of the three triggers that keep it in step."""
        return (f"{self.name}_insert", f"{self.name}_delete", f"{self.name}_update")

    def create_statements(self) -> tuple[str, ...]:
        """The DDL of view, table and triggers, each "if not exists"."""
        return (*self.tables(), *self.triggers())

    def tables(self) -> tuple[str, ...]:
        """The DDL of the table and of the view under it."""
        tokenize = f", tokenize='{self.tokenizer}'" if self.tokenizer else ""
        table = (
            f"CREATE VIRTUAL TABLE IF NOT EXISTS {self.name} USING fts5("
            f"{', '.join(COLUMNS)}, content='{self.source}', content_rowid='id'{tokenize})"
        )
        if not self.skips_tools:
            return (table,)
        view = (
            f"CREATE VIEW IF NOT EXISTS {self.source} AS "
            f"SELECT id, role, {', '.join(COLUMNS)} FROM messages WHERE role <> 'tool'"
        )
        return (view, table)

    def triggers(self) -> tuple[str, str, str]:
        """The DDL of the three triggers, in the order of `trigger_names`."""
        insert, delete, update = self.trigger_names
        watched = (*COLUMNS, "role") if self.skips_tools else COLUMNS
        changed = " OR ".join(f"old.{column} IS NOT new.{column}" for column in watched)
        when_new = "new.role <> 'tool' AND " if self.skips_tools else ""
        when_old = "old.role <> 'tool' AND " if self.skips_tools else ""
        return (
            f"CREATE TRIGGER IF NOT EXISTS {insert} AFTER INSERT ON messages "
            f"WHEN {when_new}{_guard('new')} BEGIN {self._add('new')}; END",
            f"CREATE TRIGGER IF NOT EXISTS {delete} AFTER DELETE ON messages "
            f"WHEN {when_old}{_guard('old')} BEGIN {self._remove('old')}; END",
            # Named columns: flags such as `active` change often and never concern an index.
            f"CREATE TRIGGER IF NOT EXISTS {update} AFTER UPDATE OF {', '.join(watched)} ON messages "
            f"WHEN ({changed}) AND {_guard('old')} "
            f"BEGIN {self._remove('old', filtered=True)}; {self._add('new', filtered=True)}; END",
        )

    def _values(self, row: str) -> str:
        return ", ".join(f"{row}.{column}" for column in COLUMNS)

    def _add(self, row: str, *, filtered: bool = False) -> str:
        condition = f" WHERE {row}.role <> 'tool'" if filtered and self.skips_tools else ""
        return f"INSERT INTO {self.name}(rowid, {', '.join(COLUMNS)}) SELECT {row}.id, {self._values(row)}{condition}"

    def _remove(self, row: str, *, filtered: bool = False) -> str:
        condition = f" WHERE {row}.role <> 'tool'" if filtered and self.skips_tools else ""
        return (
            f"INSERT INTO {self.name}({self.name}, rowid, {', '.join(COLUMNS)}) "
            f"SELECT 'delete', {row}.id, {self._values(row)}{condition}"
        )

    # -- commands -------------------------------------------------------------------------------------------

    def add_row(self, connection: "Connection", row_id: int, values: tuple[bytes | None, ...]) -> None:
        """Index the texts of a row that the index does not hold; one text, in UTF-8, for each of its columns."""
        columns = COLUMNS[: len(values)]
        marks = ", ".join("CAST(? AS TEXT)" for _ in values)
        connection.sql(f"INSERT INTO {self.name}(rowid, {', '.join(columns)}) VALUES (?, {marks})", (row_id, *values))

    def remove_row(self, connection: "Connection", row_id: int, values: tuple[bytes | None, ...]) -> None:
        """Take a row out of an index over others' content; `values` are the texts exactly as they were indexed."""
        columns = COLUMNS[: len(values)]
        marks = ", ".join("CAST(? AS TEXT)" for _ in values)
        connection.sql(
            f"INSERT INTO {self.name}({self.name}, rowid, {', '.join(columns)}) VALUES ('delete', ?, {marks})",
            (row_id, *values),
        )

    def rebuild(self, connection: "Connection") -> None:
        """Fill the index anew from the messages."""
        connection.sql(f"INSERT INTO {self.name}({self.name}) VALUES ('rebuild')")

    def clear(self, connection: "Connection") -> None:
        """Empty the index; the messages stay."""
        connection.sql(f"INSERT INTO {self.name}({self.name}) VALUES ('delete-all')")

    def check(self, connection: "Connection") -> None:
        """Compare the index with the text of every row; raises CorruptStore where they differ."""
        connection.sql(f"INSERT INTO {self.name}({self.name}, rank) VALUES ('integrity-check', 1)")


BASE_INDEX = Index("messages_fts", tokenizer=None, skips_tools=False)
TRIGRAM_INDEX = Index("messages_fts_trigram", tokenizer="trigram", skips_tools=True)
INDEXES = (BASE_INDEX, TRIGRAM_INDEX)


REBUILD_LIMIT = 20_000
"""Messages; opening a store never fills an index of more."""
