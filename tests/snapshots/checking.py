"""Judging the search index of any version by itself: is it complete, and do its triggers keep it so?"""

from __future__ import annotations

from typing import Any

from .search_indexes import TRIGRAMS, WORDS, joined


def index_faults(connection: Any, owner: str) -> list[str]:
    """What is wrong with the search indexes of an open file, empty if nothing; the file is left as it was.

    Both indexes must be there (one suffices for the layout before version 10), must equal the messages, and must
    follow a message of the session `owner` that is written, changed and deleted.
    """
    found = {
        name: text.lower()
        for name, text in connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name IN (?, ?)", (WORDS, TRIGRAMS)
        )
    }
    faults = [f"{name} is missing" for name in (WORDS, TRIGRAMS) if name not in found]
    if faults == [f"{TRIGRAMS} is missing"] and "content=messages," in found[WORDS]:
        faults = []
    faults += _differences(connection, found)
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statement in (
            "INSERT INTO messages (id, session_id, role, content, timestamp) VALUES (99999999, ?, 'user', 'dugong', 1)",
            "UPDATE messages SET content = 'a narwhal' WHERE id = 99999999 AND session_id = ?",
            "DELETE FROM messages WHERE id = 99999999 AND session_id = ?",
        ):
            try:
                connection.execute(statement, (owner,))
            except connection.DatabaseError as error:
                faults.append(f"{statement.split(maxsplit=1)[0]} fails: {error}")
                break
            faults += [f"after {statement.split(maxsplit=1)[0]}: {each}" for each in _differences(connection, found)]
    finally:
        connection.execute("ROLLBACK")
    return faults


def _differences(connection: Any, found: dict[str, str]) -> list[str]:
    """Indexes that do not equal the messages."""
    faults = []
    for name, text in found.items():
        try:
            connection.execute(f"INSERT INTO {name}({name}, rank) VALUES ('integrity-check', 1)")
        except connection.DatabaseError as error:
            faults.append(f"{name}: {error}")
        if "content=" not in text:
            # An index with its own copy passes the check of the engine whatever the messages hold.
            differing = (
                f"SELECT 1 FROM messages LEFT JOIN {name}_content AS held ON held.id = messages.id"
                f" WHERE held.c0 IS NOT ({joined('messages')}) LIMIT 1"
            )
            counts = f"SELECT (SELECT count(*) FROM {name}_content) <> (SELECT count(*) FROM messages)"
            if connection.execute(differing).fetchone() or connection.execute(counts).fetchone()[0]:
                faults.append(f"{name} holds other rows than messages")
    return faults
