"""Looking into a database file: its schema through PRAGMAs, and its rows."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import hermes_store
from hermes_store.database import load_driver

SEARCH_PREFIX = "messages_fts"


class Column(NamedTuple):
    """One column as PRAGMA table_info says it; `key` is its place in the primary key, 0 for none."""

    name: str
    type: str
    not_null: bool = False
    default: str | None = None
    key: int = 0


class ForeignKey(NamedTuple):
    """A foreign key of one column."""

    column: str
    table: str
    target: str
    on_delete: str = "NO ACTION"


class Index(NamedTuple):
    """An index with a name of its own; `columns` say `name DESC` where they go down, `where` is normalised."""

    columns: tuple[str, ...]
    unique: bool = False
    where: str | None = None


class Table(NamedTuple):
    """Everything of a table that counts."""

    columns: tuple[Column, ...]
    foreign_keys: frozenset[ForeignKey] = frozenset()
    indexes: tuple[tuple[str, Index], ...] = ()
    autoincrement: bool = False


@contextmanager
def opened(path: Path, driver: str, *, read_only: bool = False) -> Iterator[Any]:
    """A raw connection in autocommit mode, closed afterwards."""
    connection = hermes_store.connect(path, driver=driver, read_only=read_only)
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def scratch(driver: str) -> Iterator[Any]:
    """A raw connection to an empty database in memory."""
    connection = load_driver(driver).module.connect(":memory:", isolation_level=None, check_same_thread=False)
    try:
        yield connection
    finally:
        connection.close()


def rows(connection: Any, statement: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
    return list(connection.execute(statement, parameters).fetchall())


def change(path: Path, driver: str, *statements: str) -> None:
    """Run statements on a closed file, foreign keys off."""
    with opened(path, driver) as connection:
        for statement in statements:
            connection.execute(statement)


def squeeze(text: str) -> str:
    """SQL with white space folded, quotes and case of no meaning taken away."""
    return re.sub(r"\s+", " ", text.replace('"', "")).strip().lower()


def tables_of(connection: Any) -> set[str]:
    """Ordinary tables: those of the search indexes and of SQLite itself left out."""
    return {
        name
        for (name,) in rows(connection, "SELECT name FROM sqlite_master WHERE type = 'table'")
        if not name.startswith((SEARCH_PREFIX, "sqlite_"))
    }


def describe(connection: Any, table: str) -> Table:
    """A table as the file has it."""
    columns = tuple(
        Column(name, kind, bool(not_null), default, key)
        for _, name, kind, not_null, default, key in rows(connection, f"PRAGMA table_info({table})")
    )
    keys = frozenset(
        ForeignKey(column, target_table, target or "id", on_delete)
        for _, _, target_table, column, target, _, on_delete, _ in rows(connection, f"PRAGMA foreign_key_list({table})")
    )
    text = squeeze(rows(connection, "SELECT sql FROM sqlite_master WHERE name = ? AND type = 'table'", (table,))[0][0])
    return Table(columns, keys, tuple(sorted(_indexes(connection, table))), "autoincrement" in text)


def _indexes(connection: Any, table: str) -> Iterator[tuple[str, Index]]:
    for _, name, unique, origin, partial in rows(connection, f"PRAGMA index_list({table})"):
        if origin != "c":
            continue
        columns = tuple(
            f"{column} DESC" if descending else str(column)
            for _, _, column, descending, _, is_key in rows(connection, f"PRAGMA index_xinfo({name})")
            if is_key
        )
        text = rows(connection, "SELECT sql FROM sqlite_master WHERE name = ? AND type = 'index'", (name,))[0][0]
        where = squeeze(text).split(" where ", 1)[1] if partial else None
        yield name, Index(columns, bool(unique), where)


def describe_all(connection: Any) -> dict[str, Table]:
    """Every ordinary table."""
    return {name: describe(connection, name) for name in tables_of(connection)}


def describe_file(path: Path, driver: str) -> dict[str, Table]:
    """Every ordinary table of a file."""
    with opened(path, driver, read_only=True) as connection:
        return describe_all(connection)


def master(connection: Any) -> set[tuple[str, str, str, str | None]]:
    """sqlite_master without the places of the pages."""
    return {tuple(row) for row in rows(connection, "SELECT type, name, tbl_name, sql FROM sqlite_master")}


def all_rows(connection: Any) -> dict[str, list[dict[str, Any]]]:
    """Every row of every ordinary table, column by column."""
    found = {}
    for table in sorted(tables_of(connection)):
        cursor = connection.execute(f"SELECT * FROM {table} ORDER BY rowid")
        names = [each[0] for each in cursor.description]
        found[table] = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return found


def meta(connection: Any) -> dict[str, str | None]:
    return dict(rows(connection, "SELECT key, value FROM state_meta"))


def check_search(connection: Any) -> None:
    """Compare both indexes with the text of every row; the driver raises where they differ."""
    for index in (SEARCH_PREFIX, f"{SEARCH_PREFIX}_trigram"):
        connection.execute(f"INSERT INTO {index}({index}, rank) VALUES ('integrity-check', 1)")


def check_file(path: Path, driver: str) -> None:
    """SQLite's own check, the foreign keys, and both search indexes."""
    with opened(path, driver) as connection:
        assert rows(connection, "PRAGMA integrity_check") == [("ok",)]
        assert rows(connection, "PRAGMA foreign_key_check") == []
        check_search(connection)


def files_of(path: Path) -> dict[str, bytes]:
    """Name and bytes of everything beside a file, itself included; only for files that nobody has open."""
    return {each.name: each.read_bytes() for each in sorted(path.parent.iterdir()) if each.is_file()}
