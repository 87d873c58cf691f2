"""The full-text objects by generation, as the releases of Hermes Agent wrote them."""

from __future__ import annotations

from typing import Final

from .hermes_v23 import BROAD_UPDATE_SQL, FTS_SQL

WORDS, TRIGRAMS = "messages_fts", "messages_fts_trigram"
INDEXED: Final = ("content", "tool_name", "tool_calls")
EVENTS: Final = ("insert", "delete", "update")


def _event(name: str, *, narrow: bool) -> str:
    return f"UPDATE OF {', '.join(INDEXED)}" if narrow and name == "update" else name.upper()


def _trigger(index: str, event: str, body: str, *, narrow: bool = False) -> str:
    when = _event(event, narrow=narrow)
    return f"CREATE TRIGGER {index}_{event} AFTER {when} ON messages BEGIN\n{body}\nEND"


def joined(row: str) -> str:
    """The text of a row in an inline index: the three fields with a space between."""
    return " || ' ' || ".join(f"COALESCE({row}.{name}, '')" for name in INDEXED)


def external_table(index: str) -> str:
    """An index of the text column alone that keeps no copy of it (versions 1 to 10)."""
    tokenizer = ", tokenize='trigram'" if index == TRIGRAMS else ""
    return f"CREATE VIRTUAL TABLE {index} USING fts5(content, content=messages, content_rowid=id{tokenizer})"


def external_triggers(index: str) -> tuple[str, ...]:
    """The three triggers of an external one-column index."""
    add = f"    INSERT INTO {index}(rowid, content) VALUES (new.id, new.content);"
    remove = f"    INSERT INTO {index}({index}, rowid, content) VALUES('delete', old.id, old.content);"
    bodies = {"insert": add, "delete": remove, "update": f"{remove}\n{add}"}
    return tuple(_trigger(index, event, bodies[event]) for event in EVENTS)


def inline_table(index: str) -> str:
    """An index with a copy of the joined text (versions 11 to 22)."""
    tokenizer = ", tokenize='trigram'" if index == TRIGRAMS else ""
    return f"CREATE VIRTUAL TABLE {index} USING fts5(content{tokenizer})"


def inline_triggers(index: str, *, narrow: bool = False) -> tuple[str, ...]:
    """The three triggers of an inline index; narrow: the update trigger watches the three fields alone."""
    add = f"    INSERT INTO {index}(rowid, content) VALUES (new.id, {joined('new')});"
    remove = f"    DELETE FROM {index} WHERE rowid = old.id;"
    bodies = {"insert": add, "delete": remove, "update": f"{remove}\n{add}"}
    return tuple(_trigger(index, event, bodies[event], narrow=narrow) for event in EVENTS)


F1: Final = (external_table(WORDS), *external_triggers(WORDS))
F10: Final = (*F1, external_table(TRIGRAMS), *external_triggers(TRIGRAMS))


def inline_indexes(*, narrow: bool = False) -> tuple[str, ...]:
    """Both inline indexes and their triggers."""
    return tuple(
        statement
        for index in (WORDS, TRIGRAMS)
        for statement in (inline_table(index), *inline_triggers(index, narrow=narrow))
    )


def search_objects(version: int, *, narrow: bool = False) -> tuple[str, ...]:
    """The statements that make the search index of a version; narrow update triggers exist from 11 on.

    Broad update triggers fire at every update of a row, narrow ones where an indexed column is named.
    """
    if version < 11:
        if narrow:
            raise ValueError(f"version {version} has no narrow update triggers")
        return F1 if version < 10 else F10
    if version < 23:
        return inline_indexes(narrow=narrow)
    return FTS_SQL if narrow else (*FTS_SQL, *BROAD_UPDATE_SQL)


def trigger_names(version: int) -> tuple[str, ...]:
    """The triggers that keep the search index of a version."""
    return tuple(f"{index}_{event}" for index in ((WORDS,) if version < 10 else (WORDS, TRIGRAMS)) for event in EVENTS)
