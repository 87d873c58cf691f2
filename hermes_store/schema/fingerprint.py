"""Knowing with one read that a file is current (rule SCHEMA-4).

After an open has brought a file to the current shape it leaves a note: SQLite's own schema cookie, which every change
of the schema moves, beside a fingerprint of what this release would make. While both still hold, and the revision and
the rows that older writers damage are as they should be, there is nothing to do, and neither Alembic nor any inspection
is needed.
"""

import functools
import hashlib
from typing import TYPE_CHECKING

from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from hermes_store.fts.indexes import INDEXES
from hermes_store.fts.marks import set_mark, text_of
from hermes_store.fts.nul_rows import WRITER_KEY, same_writer
from hermes_store.models import Base
from hermes_store.schema.file_generation import GENERATION_KEY
from hermes_store.schema.traits import traits_of
from hermes_store.schema.versions import HEAD_REVISION

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection

FINGERPRINT_KEY = "hermes_store_fingerprint"

_TRAITS = " traits:"

_NOTES = (
    "SELECT (SELECT CAST(value AS BLOB) FROM state_meta WHERE key = ?), "
    "(SELECT CAST(value AS BLOB) FROM state_meta WHERE key = ?), "
    "(SELECT group_concat(version_num) FROM alembic_version), "
    "EXISTS (SELECT 1 FROM messages WHERE active IS NULL), EXISTS (SELECT 1 FROM schema_version)"
)


@functools.cache
def release_fingerprint() -> str:
    """A short text that changes whenever models, index layout or head revision do."""
    dialect = sqlite.dialect()
    parts = [HEAD_REVISION, GENERATION_KEY]
    for table in Base.metadata.sorted_tables:
        parts.append(str(CreateTable(table).compile(dialect=dialect)))
        parts.extend(sorted(str(CreateIndex(index).compile(dialect=dialect)) for index in table.indexes))
    for index in INDEXES:
        parts.extend(index.create_statements())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _current_note(connection: "Connection") -> str:
    """What the note of a current file says now, without the traits of the file."""
    cookie = connection.sql("PRAGMA schema_version")[0][0]
    able = f"{connection.driver.has_fts5:d}{connection.driver.has_trigram:d}"
    return f"{cookie}:{release_fingerprint()}:{able}"


def current_traits(connection: "Connection") -> frozenset[str] | None:
    """The traits of a file to which nothing has to be done; None for any other. Two statements."""
    from hermes_store.errors import CorruptStore, OperationFailed

    try:
        note, writer, revision, has_null, has_stamp = connection.sql(_NOTES, (FINGERPRINT_KEY, WRITER_KEY))[0]
    except CorruptStore:
        raise
    except OperationFailed as exc:
        if "no such table" in str(exc) or "no such column" in str(exc):
            return None
        raise
    by_us = writer is None or same_writer(text_of(writer), connection.driver)
    settled = revision == HEAD_REVISION and has_stamp and not has_null and by_us
    known, _, traits = (text_of(note) or "").partition(_TRAITS)
    if not settled or known != _current_note(connection):
        return None
    return frozenset(traits.split())


def leave_note(connection: "Connection") -> None:
    """Store that the file is current."""
    traits = " ".join(sorted(traits_of(connection)))
    set_mark(connection, FINGERPRINT_KEY, f"{_current_note(connection)}{_TRAITS}{traits}")
