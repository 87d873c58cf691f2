"""Bringing any database that this release knows to the current shape (rules SCHEMA-3 to SCHEMA-7).

One transaction: recognise, adopt, create and add what the models have more, run the revisions that are due, search
indexes, stamps, note. `Store.open`, `alembic upgrade` and the upgrade check go through here, and nothing else writes a
schema.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from hermes_store.errors import IndexDamaged
from hermes_store.fts.indexes import (
    STORAGE_VERSION,
    STORAGE_VERSION_KEY,
    IndexReport,
    ensure_indexes,
    layout_is_current,
    objects,
    rebuild_pending,
)
from hermes_store.fts.marks import read_mark, set_mark
from hermes_store.fts.nul_rows import WRITER_KEY, adopt_index
from hermes_store.schema.build import add_columns, create_indexes, create_tables
from hermes_store.schema.fingerprint import leave_note
from hermes_store.schema.recognise import Recognised, recognise, refuse_unless_current_or_adoptable
from hermes_store.schema.report import OpenReport
from hermes_store.schema.versions import CREATE_REVISION_TABLE, HEAD_REVISION, STAMP, revision_of_stamp

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection

log = logging.getLogger(__name__)

RunRevisions = Callable[["Connection"], None]
"""Runs the revisions that a file still needs, on a connection whose transaction is open."""


def bring_current(connection: "Connection", name: str, run_revisions: RunRevisions) -> OpenReport:
    """Make the file current, inside the open unit of `connection`; returns what was done.

    Raises NotAStore, SchemaTooOld, SchemaTooNew before anything is changed; `name` is for their text.
    """
    found = recognise(connection, name)
    refuse_unless_current_or_adoptable(found, name)
    create_tables(connection, found.tables)
    columns = add_columns(connection)
    if _adopt(connection, found) != HEAD_REVISION:
        run_revisions(connection)
    repaired = _repair_active(connection)
    indexes, titles = create_indexes(connection)
    search = ensure_indexes(connection) if layout_is_current(objects(connection)) else IndexReport()
    reindexed = _adopt_search(connection)
    _stamp(connection)
    leave_note(connection)
    return OpenReport(
        created=not found.has_transcripts,
        adopted=found.has_transcripts and found.revision is None,
        revision=HEAD_REVISION,
        columns_added=columns if found.has_transcripts else (),
        indexes_created=indexes if found.has_transcripts else (),
        search_rebuilt=search.rebuilt if found.has_transcripts else (),
        search_pending=search.pending,
        rows_reindexed=reindexed,
        rows_repaired=repaired,
        titles_cleared=titles,
    )


def _adopt(connection: "Connection", found: Recognised) -> str:
    """Note the revision of a file that has none: the head for a new file, else the one of its stamp. Returns it."""
    connection.sql(CREATE_REVISION_TABLE)
    if found.revision is not None:
        return found.revision
    stamp = found.stamp if found.has_transcripts else None
    revision = HEAD_REVISION if stamp is None else revision_of_stamp(stamp)
    connection.sql("INSERT INTO alembic_version(version_num) VALUES (?)", (revision,))
    return revision


def _repair_active(connection: "Connection") -> int:
    # Damaged files have the column without its default, so writers that leave it out store NULL: hidden, not deleted.
    rows = connection.sql("SELECT count(*) FROM messages WHERE active IS NULL")[0][0]
    if rows:
        connection.sql("UPDATE messages SET active = 1 WHERE active IS NULL")
    return int(rows)


def _adopt_search(connection: "Connection") -> int:
    """Bring the trigram index in step with the SQLite in use, and note that its layout is complete."""
    present = objects(connection)
    if "messages_fts" not in present or not layout_is_current(present):
        return 0
    changed = 0
    if "messages_fts_trigram" in present and connection.driver.has_trigram:
        try:
            changed, note = adopt_index(connection, read_mark(connection, WRITER_KEY))
        except IndexDamaged as exc:
            # An index never keeps a store from being opened; the first write that meets the damage has it cured.
            log.warning("the index of substrings is damaged: %s", exc)
            return 0
        set_mark(connection, WRITER_KEY, note)
    has_trash = any(name.startswith("fts_v22_trash_") for name in present)
    known = connection.sql("SELECT 1 FROM state_meta WHERE key = ?", (STORAGE_VERSION_KEY,))
    if not known and not has_trash and not rebuild_pending(connection):
        set_mark(connection, STORAGE_VERSION_KEY, STORAGE_VERSION)
    return changed


def _stamp(connection: "Connection") -> None:
    """The stamp is raised, never lowered; a file has one."""
    rows = connection.sql("SELECT version FROM schema_version")
    if not rows:
        connection.sql("INSERT INTO schema_version(version) VALUES (?)", (STAMP,))
    elif any(version < STAMP for (version,) in rows):
        connection.sql("UPDATE schema_version SET version = ? WHERE version < ?", (STAMP, STAMP))
