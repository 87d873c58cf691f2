"""Bringing any database that this release knows to the current shape (rules SCHEMA-3 to SCHEMA-7).

One transaction: recognise, adopt, create and add what the models have more, run the revisions that are due, indexes,
search, repairs, stamps, note. `Store.open`, `alembic upgrade` and the upgrade check go through here, and nothing else
writes a schema.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from hermes_store.fts.adoption import adopt_search
from hermes_store.fts.ensure import ensure_indexes
from hermes_store.schema import keys
from hermes_store.schema.build import add_columns, create_indexes, create_tables
from hermes_store.schema.file_generation import stamp_generation
from hermes_store.schema.fingerprint import leave_note
from hermes_store.schema.last_upgrade import remember_upgrade
from hermes_store.schema.recognise import (
    Recognised,
    holds_rows,
    recognise,
    refuse_unwritable,
    stamp_by_shape,
)
from hermes_store.schema.repair import ACTIVE, loose_columns, repair_counters, repair_values
from hermes_store.schema.report import OpenReport, Progress
from hermes_store.schema.versions import (
    CREATE_REVISION_TABLE,
    HEAD_REVISION,
    STAMP,
    revision_below,
    revision_of_stamp,
    revisions_after,
)

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection

RunRevisions = Callable[["Connection"], None]
"""Runs the revisions that a file still needs, on a connection whose transaction is open."""

NEWEST_KNOWN = 25
"""The newest stamp of Hermes Agent whose indexes, and triggers of today's search layout, mean what ours do."""


def bring_current(
    connection: "Connection",
    name: str,
    run_revisions: RunRevisions,
    *,
    now: float,
    progress: Progress = lambda _: None,
    back_up: Callable[[], str] | None = None,
) -> OpenReport:
    """Make the file current, inside the open unit of `connection`; returns what was done.

    Foreign keys have to be off. `name` is for the text of errors, `now` in Unix seconds. `back_up` is called before the
    first change of a file with content, and returns where the copy is. Raises NotAStore, SchemaTooNew, StampUnreadable
    before anything is changed.
    """
    found = recognise(connection, name)
    refuse_unwritable(found, name)
    has_content = found.has_transcripts or holds_rows(connection, found)
    backup = back_up() if back_up is not None and has_content else None
    stamp = found.stamp
    if stamp is None and found.has_transcripts:
        stamp = stamp_by_shape(connection, found.tables)
    progress("tables and columns")
    create_tables(connection, found.tables)
    columns = add_columns(connection)
    broken, left = keys.broken_tables(connection), keys.leftovers(connection)
    adopted_at = _adopt(connection, found, stamp, keys.revision_before(broken, left))
    if adopted_at != HEAD_REVISION:
        progress(f"revisions {', '.join(revisions_after(adopted_at))}")
        run_revisions(connection)
    indexes, titles = create_indexes(connection, progress, replace=stamp is None or stamp <= NEWEST_KNOWN)
    progress("search indexes")
    is_known = stamp is None or stamp <= NEWEST_KNOWN
    search = ensure_indexes(connection, same_triggers=is_known)
    reindexed, mended = adopt_search(connection, thorough=found.revision is None)
    loose = loose_columns(connection)
    repaired, counters = repair_values(connection, loose), repair_counters(connection)
    _stamp(connection)
    stamp_generation(connection)
    report = OpenReport(created=not has_content, stamp=stamp, revision=HEAD_REVISION)
    if has_content:
        report = OpenReport(
            adopted=found.revision is None,
            stamp=stamp,
            revision=HEAD_REVISION,
            revisions_run=revisions_after(adopted_at),
            columns_added=columns,
            indexes_created=indexes,
            keys_healed=tuple(broken),
            leftovers_adopted=tuple(left),
            search_rebuilt=(*search.rebuilt, *(name for name in mended if name not in search.rebuilt)),
            search_pending=search.pending,
            triggers_replaced=search.triggers_replaced,
            rows_reindexed=reindexed,
            rows_repaired=repaired,
            counters_repaired=counters,
            titles_cleared=titles,
            backup=backup,
        )
        if report.changed:
            remember_upgrade(connection, report, now)
    if not loose.keys() - {ACTIVE}:
        # The short way looks for NULL in `active` alone.
        leave_note(connection)
    return report


def _differs_from_alembics(connection: "Connection") -> bool:
    return bool(
        connection.sql("SELECT lower(name), pk FROM pragma_table_info('alembic_version')") != [("version_num", 1)]
    )


def _adopt(connection: "Connection", found: Recognised, stamp: int | None, heal_from: str | None) -> str:
    """Note the revision that a file is at: the head for a new one, the one of its stamp for one without.

    A table of another shape takes the file back to before the revision that heals it: other programs may have brought
    it in later. Returns the revision.
    """
    if "alembic_version" in found.tables and _differs_from_alembics(connection):
        connection.sql("DROP TABLE alembic_version")
    connection.sql(CREATE_REVISION_TABLE)
    revision = found.revision
    if revision is None:
        revision = HEAD_REVISION if stamp is None else revision_of_stamp(stamp)
    if heal_from is not None:
        revision = min(revision, revision_below(heal_from))
    connection.sql("DELETE FROM alembic_version")
    connection.sql("INSERT INTO alembic_version(version_num) VALUES (?)", (revision,))
    return revision


def _stamp(connection: "Connection") -> None:
    """The stamp is raised, never lowered; a file has one."""
    rows = connection.sql("SELECT version FROM schema_version WHERE version IS NOT NULL")
    if not rows:
        connection.sql("DELETE FROM schema_version")
        connection.sql("INSERT INTO schema_version(version) VALUES (?)", (STAMP,))
    else:
        connection.sql("UPDATE schema_version SET version = ? WHERE CAST(version AS INTEGER) < ?", (STAMP, STAMP))
