"""Marks of the store itself in `state_meta`, for the floors below the repositories."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection


def read_mark(connection: "Connection", key: str) -> str | None:
    """The value of a mark, or None."""
    rows = connection.sql("SELECT CAST(value AS BLOB) FROM state_meta WHERE key = ?", (key,))
    return text_of(rows[0][0]) if rows else None


def text_of(value: bytes | None) -> str | None:
    """The text of a value that was read as bytes: one that is no UTF-8 must not keep a file from being opened."""
    return None if value is None else value.decode("utf-8", "replace")


def set_mark(connection: "Connection", key: str, value: str) -> None:
    """Store or overwrite a mark. Old files may lack the key that an upsert needs."""
    connection.sql("DELETE FROM state_meta WHERE key = ?", (key,))
    connection.sql("INSERT INTO state_meta(key, value) VALUES (?, ?)", (key, value))
