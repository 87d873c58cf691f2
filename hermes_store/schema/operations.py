"""Frozen operations that revisions may use. They carry literal DDL and never change what they do (rule SCHEMA-9).

Their first argument is `alembic.op`, which stands for the operations that are active.
"""

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import text

from hermes_store.errors import IrreversibleMigration, OnlineMigration

__all__ = [
    "IrreversibleMigration",
    "database_folder",
    "drop_column",
    "ensure_column",
    "irreversible",
    "online_only",
    "rebuild_table",
    "reshape_table",
    "rows",
    "run_ddl",
    "tables_among",
]

_DRAFT = "hermes_store_rebuild_"
_MAY_RUN_AGAIN = re.compile(
    r"(CREATE\s+(TABLE|(UNIQUE\s+)?INDEX)\s+IF\s+NOT\s+EXISTS|DROP\s+(TABLE|INDEX)\s+IF\s+EXISTS)\s", re.IGNORECASE
)
_LITERAL = re.compile(
    r"""[+-]?[\d.]\S*|[xX]?'(?:[^']|'')*'|"(?:[^"]|"")*"|NULL|TRUE|FALSE|CURRENT_(?:TIME|DATE|TIMESTAMP)""",
    re.IGNORECASE,
)


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
    statement = f'ALTER TABLE {_plain(table)} ADD COLUMN "{_plain(column)}" {definition}'
    if operations.get_context().as_sql:
        _write_down(operations, statement)
    elif column.lower() not in _columns(operations, table):
        _run(operations, statement)


def drop_column(operations: Any, table: str, column: str) -> None:
    """Drop a column unless it is gone already; for taking back what `ensure_column` did. What it held is lost.

    Its indexes have to go first. SQLite writes every row of the table anew.
    """
    statement = f'ALTER TABLE {_plain(table)} DROP COLUMN "{_plain(column)}"'
    if operations.get_context().as_sql:
        _write_down(operations, statement)
    elif column.lower() in _columns(operations, table):
        _run(operations, statement)


def run_ddl(operations: Any, statement: str) -> None:
    """Run CREATE TABLE or INDEX IF NOT EXISTS, DROP TABLE or INDEX IF EXISTS, as it is written.

    Raises ValueError for any other statement: it might not run again, or would lose something without a word.
    """
    sql = textwrap.dedent(statement).strip()
    if _MAY_RUN_AGAIN.match(sql) is None:
        raise ValueError(f"no statement that may run again: {sql.splitlines()[0] if sql else 'none'}")
    if operations.get_context().as_sql:
        _write_down(operations, sql)
    else:
        _run(operations, sql)


def _plain(name: str) -> str:
    if not name.isidentifier():
        raise ValueError(f"{name!r} is no name of a table or column")
    return name


def _columns(operations: Any, table: str) -> set[str]:
    return {row[0].lower() for row in rows(operations, "SELECT name FROM pragma_table_info(?)", table)}


def rows(operations: Any, sql: str, *values: Any) -> list[Any]:
    """All rows of a statement on the file that is being upgraded; `?` takes the values."""
    return list(operations.get_bind().exec_driver_sql(sql, values).fetchall())


def database_folder(operations: Any) -> Path | None:
    """The folder of the file that is being upgraded; None for a database in memory."""
    raw = operations.get_bind().connection.dbapi_connection
    path: Path | None = getattr(raw, "tracked_path", None)
    return None if path is None else path.parent


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
    on_conflict: what a row does that meets one of the same key, for each of the sources; `{others}` stands for taking
    over the columns that only the file knows. Columns that only the file
    knows are kept, and so are its indexes and triggers. Foreign keys have to be off: rows of sessions that are gone
    stay. It is built under a new name, since renaming the old one away would carry triggers and keys of others along.
    """
    draft = _free_name(operations, _DRAFT + table)
    definitions = dict(columns)
    live = {source: live_columns(lambda sql, *values: rows(operations, sql, *values), source) for source in sources}
    for source in sources:
        stored = _stored_definitions(operations, source)
        known = {name.lower() for name in definitions}
        for name in stored.keys() - known:
            # As it is written: a column that only the file knows keeps its collation, its rule, its reference.
            definitions[name] = stored[name]
    body = ", ".join([f"{_quoted(name)} {definition}" for name, definition in definitions.items()] + list(constraints))
    _run(operations, f"CREATE TABLE {draft} ({body})")
    for (source, order), conflict in zip(sources.items(), on_conflict, strict=True):
        copied = [name for name in definitions if name.lower() in live[source] or name in in_place_of_null]
        others = [_quoted(name) for name in copied if name not in columns]
        values = [_copied(name, live[source], in_place_of_null) for name in copied]
        _run(
            operations,
            f"INSERT INTO {draft} ({', '.join(map(_quoted, copied))}) SELECT {', '.join(values)} "
            f"FROM {_quoted(source)} WHERE 1 ORDER BY {_order(order, live[source])} "
            + conflict.replace("{others}", "".join(f", {each} = excluded.{each}" for each in others)),
        )
    _keep_highest_id(operations, table, draft)
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


def _copied(name: str, there: Mapping[str, str], in_place_of_null: Mapping[str, str]) -> str:
    """What a column gets from a table that may not have it."""
    instead = in_place_of_null.get(name)
    if name.lower() not in there:
        return str(instead)
    return _quoted(name) if instead is None else f"COALESCE({_quoted(name)}, {instead})"


def _order(order: str, there: Mapping[str, str]) -> str:
    """The order of the rows; the first column where the table has not the one that is named."""
    return "1" if order.isidentifier() and order != "rowid" and order not in there else order


def _free_name(operations: Any, wanted: str) -> str:
    taken = {row[0].lower() for row in rows(operations, "SELECT name FROM sqlite_master")}
    name, number = wanted, 2
    while name.lower() in taken:
        name, number = f"{wanted}_{number}", number + 1
    return name


def _stored_definitions(operations: Any, table: str) -> dict[str, str]:
    """What the statement that made a table says of each column, by its name in lower case, without a primary key."""
    found = rows(operations, "SELECT sql FROM sqlite_master WHERE type = 'table' AND lower(name) = lower(?)", table)
    names = rows(operations, "SELECT name FROM pragma_table_xinfo(?)", table)
    if not found:
        return {}
    parts = _parts(found[0][0])
    definitions = {}
    for (name,) in names:
        own = next((each[len(head) :] for each in parts for head in _spellings(name) if _begins(each, head)), "")
        own = _KEY_CLAUSE.sub(" ", own)
        if not _HAS_VALUE.search(own):
            # Rows of other tables, and those to come, have nothing to put there.
            own = _NOT_NULL.sub(" ", own)
        definitions[name.lower()] = own.strip()
    return definitions


_HAS_VALUE = re.compile(r"\s(DEFAULT|AS)\b", re.IGNORECASE)
_NOT_NULL = re.compile(r"\s(CONSTRAINT\s+\S+\s+)?NOT\s+NULL(\s+ON\s+CONFLICT\s+\w+)?", re.IGNORECASE)
_KEY_CLAUSE = re.compile(
    r"\s(CONSTRAINT\s+\S+\s+)?PRIMARY\s+KEY(\s+(ASC|DESC))?(\s+ON\s+CONFLICT\s+\w+)?(\s+AUTOINCREMENT)?", re.IGNORECASE
)


def _spellings(name: str) -> tuple[str, ...]:
    return (_quoted(name), f"`{name}`", f"[{name}]", name)


def _begins(part: str, head: str) -> bool:
    rest = part[len(head) :]
    return part.lower().startswith(head.lower()) and (not rest or not (rest[0].isalnum() or rest[0] == "_"))


def _parts(sql: str) -> list[str]:
    """The parts of the body of CREATE TABLE between its commas, comments left out."""
    parts, depth = [""], 0
    for piece in _PIECES.findall(sql):
        depth += (piece == "(") - (piece == ")")
        if depth == 0 or piece.startswith(("--", "/*")):
            continue
        if depth == 1 and piece in ("(", ","):
            parts.append("")
        else:
            parts[-1] += piece
    return [part.strip() for part in parts if part.strip()]


_PIECES = re.compile(
    r"""--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]|[(),]|[^'"`\[(),/-]+|.""", re.DOTALL
)


def reshape_table(
    operations: Any,
    table: str,
    *,
    columns: Mapping[str, str],
    constraints: Sequence[str],
    in_place_of_null: Mapping[str, str],
) -> None:
    """Build a table anew, as `rebuild_table` does with the table itself as its one source, unless it has that shape.

    The shape is types, NOT NULL, defaults, keys, references and unique constraints of the columns that are named.
    """
    draft = _free_name(operations, _DRAFT + table)
    body = ", ".join([f"{_quoted(name)} {definition}" for name, definition in columns.items()] + list(constraints))
    _run(operations, f"CREATE TABLE {draft} ({body})")
    wanted, found = _shape(operations, draft, columns), _shape(operations, table, columns)
    _run(operations, f"DROP TABLE {draft}")
    if wanted == found:
        return
    order = "rowid"
    if rows(operations, "SELECT 1 FROM pragma_table_list(?) WHERE schema = 'main' AND wr = 1", table):
        order = "1"
    rebuild_table(
        operations,
        table,
        columns=columns,
        constraints=constraints,
        in_place_of_null=in_place_of_null,
        sources={table: order},
        on_conflict=[""],
    )


def _shape(operations: Any, table: str, names: Mapping[str, str]) -> tuple[frozenset[Any], ...]:
    known = {name.lower() for name in names}
    columns = rows(
        operations, 'SELECT lower(name), upper(type), "notnull", dflt_value, pk FROM pragma_table_info(?)', table
    )
    keys = rows(
        operations,
        'SELECT seq, lower("table"), lower("from"), lower("to"), on_update, on_delete FROM pragma_foreign_key_list(?)',
        table,
    )
    unique = rows(
        operations,
        "SELECT (SELECT group_concat(lower(name)) FROM (SELECT name FROM pragma_index_info(list.name) ORDER BY seqno)) "
        "FROM pragma_index_list(?) AS list WHERE origin = 'u'",
        table,
    )
    created = rows(operations, "SELECT lower(sql) FROM sqlite_master WHERE type = 'table' AND name = ?", table)
    return (
        frozenset(tuple(row) for row in columns if row[0] in known),
        frozenset(tuple(row) for row in keys),
        frozenset(row[0] for row in unique),
        frozenset("autoincrement" in row[0] for row in created),
    )


def _keep_highest_id(operations: Any, table: str, draft: str) -> None:
    """Ids of rows that are gone are not given out again, where the table promises that."""
    if not rows(operations, "SELECT 1 FROM sqlite_master WHERE name = 'sqlite_sequence'"):
        return
    highest = rows(operations, "SELECT seq FROM sqlite_sequence WHERE name = ?", table)
    promised = rows(
        operations, "SELECT 1 FROM sqlite_master WHERE name = ? AND lower(sql) LIKE '%autoincrement%'", draft
    )
    if highest and promised:
        bind = operations.get_bind()
        bind.exec_driver_sql("DELETE FROM sqlite_sequence WHERE name = ?", (draft,))
        bind.exec_driver_sql("INSERT INTO sqlite_sequence(name, seq) VALUES (?, ?)", (draft, highest[0][0]))


def _run(operations: Any, sql: str) -> None:
    # Not `execute`: a colon in the text of somebody's trigger is no parameter.
    operations.get_bind().exec_driver_sql(sql)


def _write_down(operations: Any, sql: str) -> None:
    operations.execute(text(sql.replace(":", "\\:")))


def live_columns(read: Callable[..., list[Any]], table: str, *, always_not_null: bool = False) -> dict[str, str]:
    """Name in lower case and definition of the columns that a table of the file has; NOT NULL only beside a default.

    `read` runs a statement with values for its `?`. always_not_null: without a default too.
    """
    found = {}
    for name, kind, not_null, default in read(
        'SELECT name, type, "notnull", dflt_value FROM pragma_table_info(?)', table
    ):
        parts = [kind] if kind else []
        if default is not None:
            parts.append(f"DEFAULT {default if _LITERAL.fullmatch(default) else f'({default})'}")
        if not_null and (default is not None or always_not_null):
            parts.append("NOT NULL")
        found[name.lower()] = " ".join(parts)
    return found


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
