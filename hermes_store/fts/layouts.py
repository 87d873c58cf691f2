"""The layouts that an index had over time, told by the shape of its table (rule FTS-2).

A file keeps the layout that it has until it is changed by an explicit command; what opening has to add or to fill, it
adds in that layout. Each layout has its own triggers, and a trigger of one over the table of another damages the index
or makes every write of a message fail.
"""

import re
from enum import Enum
from typing import TYPE_CHECKING

from hermes_store.fts.indexes import COLUMNS, INDEXES, Index

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection

JOINED_VIEW = "messages_joined_text"
"""The view that gives an index of the layout JOINED its text."""


class Layout(Enum):
    """How an index holds its text."""

    CURRENT = "three columns over the messages"
    INLINE = "one joined text, with a copy of its own"
    CONTENT_ONLY = "the content alone, over the messages"
    JOINED = "one joined text, over a view"
    UNKNOWN = "of a newer release"


LEGACY = frozenset({Layout.INLINE, Layout.CONTENT_ONLY, Layout.JOINED})
"""Layouts that are kept until they are changed by an explicit command."""


def objects(connection: "Connection") -> dict[str, str]:
    """Name and stored text of every table, view and trigger."""
    return {
        name: text or ""
        for name, text in connection.sql(
            "SELECT name, sql FROM sqlite_master WHERE type IN ('table', 'view', 'trigger')"
        )
    }


def layout_of(index: Index, present: dict[str, str]) -> Layout | None:
    """The layout of an index; None where there is no such table. `present`: what `objects` gives."""
    if index.name not in present:
        return None
    columns, source = _arguments(present[index.name])
    if columns == list(COLUMNS):
        return Layout.CURRENT if source == index.source else Layout.UNKNOWN
    if columns == ["content"]:
        by_source = {None: Layout.INLINE, "messages": Layout.CONTENT_ONLY, JOINED_VIEW: Layout.JOINED}
        return by_source.get(source, Layout.UNKNOWN)
    return Layout.UNKNOWN


def layouts(present: dict[str, str]) -> dict[Index, Layout]:
    """The layouts of the indexes that are there."""
    found = ((index, layout_of(index, present)) for index in INDEXES)
    return {index: layout for index, layout in found if layout is not None}


def _arguments(sql: str) -> tuple[list[str], str | None]:
    """The columns of a full-text table, and what its option `content` names."""
    _, _, inner = sql.partition("(")
    columns, source = [], None
    for argument in inner.rpartition(")")[0].split(","):
        name, is_option, value = (part.strip().strip("'\"`[]") for part in argument.partition("="))
        if not is_option:
            columns.append(name.lower())
        elif name.lower() == "content":
            source = value
    return columns, source


# -- what a layout indexes ------------------------------------------------------------------------------------


def joined(row: str) -> str:
    """The text that an older layout indexes of a row."""
    return " || ' ' || ".join(f"COALESCE({row}.{column}, '')" for column in COLUMNS)


def texts(layout: Layout, row: str) -> tuple[str, ...]:
    """Expressions of the texts that an index of this layout holds of a row of the messages."""
    if layout is Layout.CURRENT:
        return tuple(f"{row}.{column}" for column in COLUMNS)
    return (f"{row}.content",) if layout is Layout.CONTENT_ONLY else (joined(row),)


def rows_due(index: Index, layout: Layout | None) -> str:
    """The condition on messages `m` that an index of this layout holds; no index counts as one of today."""
    return "m.role <> 'tool'" if index.skips_tools and layout in (Layout.CURRENT, None) else "1"


def joined_view() -> str:
    """The DDL of the view under an index of the layout JOINED."""
    return f"CREATE VIEW IF NOT EXISTS {JOINED_VIEW} AS SELECT m.id AS id, {joined('m')} AS content FROM messages AS m"


# -- statements of the older layouts ----------------------------------------------------------------------------


def table_statements(index: Index, layout: Layout) -> tuple[str, ...]:
    """The DDL of the table and what it needs, without triggers, each "if not exists"."""
    if layout is Layout.CURRENT:
        return index.tables()
    tokenize = f", tokenize='{index.tokenizer}'" if index.tokenizer else ""
    create = f"CREATE VIRTUAL TABLE IF NOT EXISTS {index.name} USING fts5(content"
    if layout is Layout.INLINE:
        return (f"{create}{tokenize})",)
    if layout is Layout.CONTENT_ONLY:
        return (f"{create}, content=messages, content_rowid=id{tokenize})",)
    return (
        joined_view(),
        f"{create}, content={JOINED_VIEW}, content_rowid=id{tokenize})",
    )


def trigger_statements(index: Index, layout: Layout) -> dict[str, str]:
    """The DDL of the three triggers by name, each "if not exists"."""
    if layout is Layout.CURRENT:
        return dict(zip(index.trigger_names, index.triggers(), strict=True))
    insert, delete, update = index.trigger_names
    (old,), (new,) = texts(layout, "old"), texts(layout, "new")
    watched = "content" if layout is Layout.CONTENT_ONLY else ", ".join(COLUMNS)
    add = f"INSERT INTO {index.name}(rowid, content) VALUES (new.id, {new})"
    if layout is Layout.INLINE:
        remove = f"DELETE FROM {index.name} WHERE rowid = old.id"
    else:
        remove = f"INSERT INTO {index.name}({index.name}, rowid, content) VALUES ('delete', old.id, {old})"
    create = "CREATE TRIGGER IF NOT EXISTS"
    return {
        insert: f"{create} {insert} AFTER INSERT ON messages BEGIN {add}; END",
        delete: f"{create} {delete} AFTER DELETE ON messages BEGIN {remove}; END",
        update: f"{create} {update} AFTER UPDATE OF {watched} ON messages BEGIN {remove}; {add}; END",
    }


def squeezed(sql: str) -> str:
    """SQL without differences of case, white space and "if not exists", for comparing what was stored."""
    text = re.sub(r"\s+", " ", sql).strip().lower().replace(" if not exists ", " ")
    return re.sub(r" ?([(),;]) ?", r"\1", text)


def is_broad(sql: str) -> bool:
    """True for an update trigger that fires on a change of any column."""
    return " after update on " in squeezed(sql)


def fits(index: Index, layout: Layout, trigger: str) -> bool:
    """Whether the stored text of a trigger suits a table of this layout. Unknown layouts know best themselves."""
    if layout is Layout.UNKNOWN:
        return True
    text = squeezed(trigger)
    columns = set(COLUMNS) if layout is Layout.CURRENT else {"content"}
    for named in re.findall(rf"insert into {index.name}\(([^)]*)\)", text):
        if not {name.strip('"') for name in named.split(",")} <= columns | {"rowid", index.name}:
            return False
    by_row, by_text = f"delete from {index.name}" in text, "'delete'" in text
    if layout is Layout.INLINE:
        return not by_text
    # An index over the content of others has to be told the old text.
    return not by_row and (layout is not Layout.JOINED or "coalesce(" in text)
