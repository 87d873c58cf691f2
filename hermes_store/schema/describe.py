"""What the schema of a database is, as lines of text that can be compared, and the golden schema (rule SCHEMA-10).

Read through PRAGMAs and sqlite_master: SQLAlchemy's reflection sees neither ON DELETE of a key that is written inline,
nor triggers, nor the condition of a partial index. What cannot matter is left out: the order of columns, the case of
keywords and names, white space, quotes around names, comments.
"""

from collections.abc import Iterable, Iterator
from importlib.resources import files
from typing import TYPE_CHECKING

from hermes_store.fts.ensure import rebuild_pending
from hermes_store.fts.indexes import INDEXES
from hermes_store.fts.layouts import JOINED_VIEW, LEGACY, Layout, layouts, objects
from hermes_store.schema.normalise import normalised, spelled, tokens
from hermes_store.schema.repair import loose_columns

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection

GOLDEN_FILE = "golden_schema.txt"

# -- describing -------------------------------------------------------------------------------------------------


def describe_schema(connection: "Connection") -> list[str]:
    """Sorted lines, each of which begins with the name of what it is about and says one thing of it in full.

    Tables, columns (`table.column`), keys, indexes, views, virtual tables and triggers. What SQLite and virtual tables
    keep for themselves is left out.
    """
    lines: set[str] = set()
    texts = {
        (kind, name): sql or "" for kind, name, sql in connection.sql("SELECT type, name, sql FROM main.sqlite_master")
    }
    for name, kind, without_rowid, strict in connection.sql(
        "SELECT name, type, wr, strict FROM pragma_table_list WHERE schema = 'main'"
    ):
        if name.lower().startswith("sqlite_") or kind == "shadow":
            continue
        sql = texts.get(("view" if kind == "view" else "table", name), "")
        if kind == "table":
            lines.update(_table_lines(connection, name, sql, without_rowid=without_rowid, strict=strict))
        else:
            lines.add(f"{spelled(name)}: {normalised(sql)}")
    lines.update(f"{spelled(name)}: {normalised(sql)}" for (kind, name), sql in texts.items() if kind == "trigger")
    return sorted(lines)


def _table_lines(
    connection: "Connection", table: str, sql: str, *, without_rowid: object, strict: object
) -> Iterator[str]:
    shown = spelled(table)
    options = [
        *(["autoincrement"] if "autoincrement" in tokens(sql) else []),
        *(["without rowid"] if without_rowid else []),
        *(["strict"] if strict else []),
    ]
    yield " ".join([f"{shown}: table", *options])
    for name, kind, not_null, default, key, hidden in connection.sql(
        'SELECT name, type, "notnull", dflt_value, pk, hidden FROM pragma_table_xinfo(?)', (table,)
    ):
        parts = [" ".join(str(kind).upper().split()) or "no type"]
        parts.extend(["not null"] if not_null else [])
        parts.extend([f"default {normalised(default)}"] if default is not None else [])
        parts.extend([f"key {key}"] if key else [])
        parts.extend(["generated"] if hidden else [])
        yield f"{shown}.{spelled(name)}: {', '.join(parts)}"
    yield from _foreign_keys(connection, table)
    for name, unique, origin, partial in connection.sql(
        'SELECT name, "unique", origin, partial FROM pragma_index_list(?)', (table,)
    ):
        if origin != "pk":
            yield _index_line(connection, table, name, unique=unique, constraint=origin == "u", partial=partial)


def _foreign_keys(connection: "Connection", table: str) -> Iterator[str]:
    keys: dict[int, list[tuple[str, str | None]]] = {}
    ends: dict[int, tuple[str, str, str]] = {}
    for key, target, column, target_column, on_update, on_delete in connection.sql(
        'SELECT id, "table", "from", "to", on_update, on_delete FROM pragma_foreign_key_list(?) ORDER BY id, seq',
        (table,),
    ):
        keys.setdefault(key, []).append((column, target_column))
        ends[key] = (target, on_delete, on_update)
    for key, pairs in keys.items():
        target, on_delete, on_update = ends[key]
        columns = ", ".join(spelled(column) for column, _ in pairs)
        named = [column for _, column in pairs if column is not None] or _key_of(connection, target)
        targets = ", ".join(spelled(column) for column in named)
        yield (
            f"{spelled(table)}: foreign key ({columns}) to {spelled(target)} ({targets}) "
            f"on delete {on_delete.lower()} on update {on_update.lower()}"
        )


def _key_of(connection: "Connection", table: str) -> list[str]:
    """The primary key, which a foreign key means that names no columns."""
    rows = connection.sql("SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", (table,))
    return [row[0] for row in rows]


def _index_line(
    connection: "Connection", table: str, name: str, *, unique: object, constraint: bool, partial: object
) -> str:
    parts = tokens(
        (connection.sql("SELECT sql FROM main.sqlite_master WHERE type = 'index' AND name = ?", (name,)) or [("",)])[0][
            0
        ]
        or ""
    )
    expressions = _expressions(parts)
    columns = []
    for place, column, descending, collation in connection.sql(
        'SELECT seqno, name, "desc", coll FROM pragma_index_xinfo(?) WHERE "key" = 1 ORDER BY seqno', (name,)
    ):
        shown = spelled(column) if column is not None else expressions[place]
        shown += f" collate {str(collation).lower()}" if str(collation).upper() != "BINARY" else ""
        columns.append(f"{shown} desc" if descending else shown)
    if constraint:
        return f"{spelled(table)}: unique ({', '.join(columns)})"
    kind = "unique index" if unique else "index"
    where = f" where {' '.join(parts[_where(parts) + 1 :])}" if partial else ""
    return f"{spelled(name)}: {kind} on {spelled(table)} ({', '.join(columns)}){where}"


def _where(parts: list[str]) -> int:
    """The place of WHERE in the tokens of CREATE INDEX: the first one outside of brackets."""
    depth = 0
    for place, part in enumerate(parts):
        depth += (part == "(") - (part == ")")
        if part == "where" and depth == 0:
            return place
    return len(parts)


def _expressions(parts: list[str]) -> list[str]:
    """What CREATE INDEX lists between its outermost brackets, without ASC and DESC."""
    found: list[list[str]] = [[]]
    depth = 0
    for part in parts[: _where(parts)]:
        depth -= part == ")"
        if part == "," and depth == 1:
            found.append([])
        elif depth >= 1:
            found[-1].append(part)
        depth += part == "("
    return [" ".join(each[:-1] if each and each[-1] in ("asc", "desc") else each) for each in found]


def name_of(line: str) -> str:
    """The name that a line is about: of a table, `table.column`, or of an index, view or trigger."""
    return line.partition(": ")[0]


# -- the golden schema ------------------------------------------------------------------------------------------


def golden_lines() -> list[str]:
    """The schema of a new store, as it is kept with the package."""
    text = files("hermes_store.schema").joinpath(GOLDEN_FILE).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def missing_from(lines: Iterable[str]) -> list[str]:
    """What the golden schema has and `lines` do not."""
    return sorted(set(golden_lines()) - set(lines))


def beyond(lines: Iterable[str]) -> list[str]:
    """What `lines` have and the golden schema does not: of newer releases, of other programs, or of an older layout."""
    return sorted(set(lines) - set(golden_lines()))


_ACTIVE = "messages.active"


def golden_exceptions(connection: "Connection") -> dict[str, str]:
    """Names of things that may differ from the golden schema in this file, each with the reason.

    They are the parts of a search index that keeps an older or a newer layout, that is left to a later rebuild, or that
    this SQLite cannot make; and columns that old releases have made without NOT NULL or default.
    """
    excepted = {
        f"{table}.{column}": f"{table}.{column} keeps its definition, which lacks NOT NULL"
        for table, column in loose_columns(connection)
    }
    if connection.sql(
        "SELECT 1 FROM pragma_table_info('messages') WHERE lower(name) = 'active' "
        'AND ("notnull" = 0 OR dflt_value IS NULL)'
    ):
        excepted[_ACTIVE] = f"{_ACTIVE} keeps its definition, which lacks NOT NULL or a default"
    found = layouts(objects(connection))
    waits = any(layout in LEGACY for layout in found.values()) and rebuild_pending(connection)
    for index in INDEXES:
        names = (index.name, f"{index.name}_src", *index.trigger_names)
        layout = found.get(index)
        if not index.is_usable(connection.driver):
            excepted.update(dict.fromkeys(names, f"index {index.name}: this SQLite has not what it needs"))
        elif layout is None and waits:
            excepted.update(dict.fromkeys(names, f"index {index.name} is left to a later rebuild"))
        elif layout is not None and layout is not Layout.CURRENT:
            excepted.update(dict.fromkeys(names, f"index {index.name} keeps its layout: {layout.value}"))
            if layout is Layout.JOINED:
                excepted[JOINED_VIEW] = excepted[index.name]
    return excepted


def missing_from_golden(connection: "Connection") -> list[str]:
    """What a file lacks of the golden schema, or has otherwise, without what is excepted."""
    excepted = golden_exceptions(connection)
    return [line for line in missing_from(describe_schema(connection)) if name_of(line) not in excepted]


def beyond_golden(connection: "Connection") -> list[str]:
    """What a file has beyond the golden schema: of an unknown table its name, of a known one what it has more."""
    excepted = golden_exceptions(connection)
    lines = describe_schema(connection)
    differing = {name_of(line) for line in missing_from(lines)}
    more = [line for line in beyond(lines) if name_of(line) not in excepted.keys() | differing]
    known = {name_of(line) for line in golden_lines()}
    tables = {name_of(line) for line in more if _is_table(line)}
    shown = {line if name_of(line) in known else name_of(line) for line in more}
    return sorted(name for name in shown if name in tables or name.partition(".")[0] not in tables)


def _is_table(line: str) -> bool:
    text = line.partition(": ")[2]
    return text.split(" ", 1)[0] == "table"
