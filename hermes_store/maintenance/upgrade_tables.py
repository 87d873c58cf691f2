"""The tables of a file before its upgrade and after it, as the parts of the upgrade check see them.

The two files are one connection's databases `before` and `main`, both read-only; what is worked out stands in `temp`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_store.database.catalogue import quoted
from hermes_store.database.connection import Connection, connect

if TYPE_CHECKING:
    from hermes_store.database.driver import Driver

Row = Mapping[str, Any]

SEARCH_PREFIX = "messages_fts"

LEFTOVERS = {
    "gateway_routing_legacy_pk": "gateway_routing",
    "session_model_usage_v21": "session_model_usage",
    "session_model_usage_legacy_pk": "session_model_usage",
    "telegram_dm_topic_bindings_new": "telegram_dm_topic_bindings",
}
"""Tables that an interrupted rebuild of Hermes Agent leaves, and the table that takes their rows over."""

KEYS = {
    "session_model_usage": {
        "session_id": "''",
        "model": "'unknown'",
        "billing_provider": "''",
        "billing_base_url": "''",
        "billing_mode": "''",
        "task": "''",
    },
    "gateway_routing": {"scope": "''", "session_key": "''"},
    "telegram_dm_topic_bindings": {"chat_id": "''", "thread_id": "''"},
    "state_meta": {"key": "''"},
}
"""Tables whose rows are known by a key and not by their rowid: the columns, and what stands for NULL in them."""


def lenient(raw: bytes) -> str:
    """Text of a file: one byte that is no UTF-8 must not hide the other rows."""
    return raw.decode("utf-8", "surrogateescape")


@contextmanager
def both_files(before: Path, after: Path, driver: "Driver") -> Iterator[Connection]:
    """A connection that reads the file after the upgrade as `main` and the one before it as `before`."""
    connection = Connection(connect(after, driver=driver, read_only=True), driver)
    try:
        connection.raw.text_factory = lenient
        connection.sql("ATTACH DATABASE ? AS before", (f"{before.absolute().as_uri()}?mode=ro",))
        yield connection
    finally:
        connection.close()


def stream(connection: Connection, sql: str, values: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The rows of a statement, one at a time."""
    error = connection.driver.module.Error
    try:
        yield from connection.raw.execute(sql, values)
    except error as exc:
        raise connection.failure(exc) from exc


def bound(value: object) -> tuple[str, object]:
    """A place for a value that was read from a file, and the value: text goes back as the bytes that it was."""
    if isinstance(value, str):
        return "CAST(? AS TEXT)", value.encode("utf-8", "surrogateescape")
    return "?", value


@dataclass(frozen=True, slots=True)
class Table:
    """A table in one of the two files. key: its columns where rows are known by a key, with what stands for NULL."""

    schema: str
    name: str
    columns: tuple[str, ...]
    rowid: str | None
    key: Mapping[str, str | None]

    @property
    def sql(self) -> str:
        """The name for a statement."""
        return f"{self.schema}.{quoted(self.name)}"

    @property
    def known(self) -> frozenset[str]:
        """The names of the columns in lower case."""
        return frozenset(name.lower() for name in self.columns)

    def key_value(self, column: str, alias: str) -> str:
        """An expression of a part of the key, as it is after the upgrade."""
        instead = self.key[column]
        if column not in self.known:
            return str(instead)
        place = f"{alias}.{quoted(column)}"
        return place if instead is None else f"coalesce({place}, {instead})"


def tables_of(connection: Connection, schema: str) -> dict[str, Table]:
    """The ordinary tables of one of the two files by their name in lower case."""
    found = {}
    for name, without_rowid in connection.sql(
        "SELECT name, wr FROM pragma_table_list WHERE schema = ? AND type IN ('table', 'shadow')", (schema,)
    ):
        lowered = name.lower()
        if lowered.startswith(("sqlite_", SEARCH_PREFIX)):
            continue
        info = connection.sql("SELECT name, pk FROM pragma_table_xinfo(?, ?)", (name, schema))
        columns = tuple(column for column, _ in info)
        known = KEYS.get(LEFTOVERS.get(lowered, lowered))
        key: dict[str, str | None] = {}
        if known is not None:
            key = dict(known)
        elif without_rowid:
            key = {column.lower(): None for column, place in sorted(info, key=lambda row: row[1]) if place}
        taken = {column.lower() for column in columns}
        rowid = next((each for each in ("rowid", "_rowid_", "oid") if each not in taken), None)
        found[lowered] = Table(schema, name, columns, None if without_rowid else rowid, key)
    return found


def shared_columns(before: Table, after: Table) -> list[str]:
    """The columns that are in both, in lower case."""
    return [name.lower() for name in before.columns if name.lower() in after.known]


def listed(names: Sequence[str], alias: str) -> str:
    """Columns for SELECT."""
    return ", ".join(f"{alias}.{quoted(name)}" for name in names)


def row_of(columns: Sequence[str], values: Sequence[Any]) -> Row:
    """Values by the names of their columns in lower case."""
    return dict(zip((name.lower() for name in columns), values, strict=True))
