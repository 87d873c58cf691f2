"""Telling what a database file is, without changing it (rule SCHEMA-3)."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes_store.database.catalogue import quoted
from hermes_store.errors import NotAStore, SchemaTooNew, StampUnreadable
from hermes_store.models import ON_DEMAND_TABLES, Base
from hermes_store.schema.keys import LEFTOVERS
from hermes_store.schema.versions import HEAD_REVISION, REVISIONS

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection

_NEWER_TABLES = frozenset({"system_prompts"})
_KNOWN_TABLES = (
    frozenset(Base.metadata.tables)
    | ON_DEMAND_TABLES
    | _NEWER_TABLES
    | frozenset(LEFTOVERS)
    | {"alembic_version", "messages_fts"}
)

_COMMON_NAMES = frozenset({"alembic_version", "schema_version", "sessions", "messages"})

# Every shape of the two main tables has had these columns; a table of the same name of another program has not.
_MARKS = {
    "sessions": {"id", "source", "parent_session_id", "started_at", "ended_at"},
    "messages": {"id", "session_id", "role", "content", "timestamp"},
}


@dataclass(frozen=True, slots=True)
class Recognised:
    """What a file is: its tables, its stamp and its revision, None where it has none.

    odd_stamp: how a stamp that is no number reads.
    """

    tables: frozenset[str]
    stamp: int | None
    revision: str | None
    odd_stamp: str | None = None

    @property
    def has_transcripts(self) -> bool:
        """True if the two main tables are there; a file without them is new, or holds side tables only."""
        return {"sessions", "messages"} <= self.tables


def recognise(connection: "Connection", name: str) -> Recognised:
    """Look at the tables of a database. Raises NotAStore if it belongs to another program; `name` is for its text."""
    kinds: dict[str, set[str]] = {}
    for kind, table in connection.sql(
        "SELECT type, name FROM sqlite_master "
        "WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    ):
        kinds.setdefault(kind, set()).add(table)
    tables = frozenset(kinds.get("table", ()))
    for view in sorted(kinds.get("view", set()) & set(Base.metadata.tables)):
        raise NotAStore(f"{name} is a database of another program: {view!r} is a view where a state.db has a table")
    for table, marks in _MARKS.items():
        if table in tables and not marks <= columns_of(connection, table).keys():
            raise NotAStore(f"{name} is a database of another program: its table {table!r} is no {table} of a state.db")
    if not tables >= _MARKS.keys() and not _is_new_or_side_tables_only(tables, kinds.get("view", set())):
        shown = ", ".join(sorted(tables | kinds.get("view", set()))[:5])
        raise NotAStore(f"{name} is a database of another program ({shown}); name a state.db")
    stamp = _stamp(connection, tables)
    revision = _revision(connection, tables)
    if stamp is None or isinstance(stamp, int):
        return Recognised(tables, stamp, revision)
    return Recognised(tables, None, revision, odd_stamp=repr(stamp))


def _is_new_or_side_tables_only(tables: frozenset[str], views: set[str]) -> bool:
    """True for a file without content of its own, and for one that holds nothing but tables of ours beside sessions."""
    if not tables:
        return not views
    # Names that other programs use too prove nothing.
    return tables <= _KNOWN_TABLES and bool(tables - _COMMON_NAMES)


def refuse_unwritable(found: Recognised, name: str) -> None:
    """Raise SchemaTooNew for a file that a newer release of this library upgraded, StampUnreadable for an odd stamp."""
    if found.revision is not None and found.revision not in REVISIONS:
        raise SchemaTooNew(
            f"{name} was last upgraded by a newer hermes-store (revision {found.revision}, this release knows up to "
            f"{HEAD_REVISION}); update hermes-store, or open it for reading only"
        )
    if found.odd_stamp is not None:
        raise StampUnreadable(
            f"the schema version of {name} is {found.odd_stamp}, which is no number; if a Hermes Agent of version N "
            f"wrote the file, run: UPDATE schema_version SET version = N"
        )


def holds_rows(connection: "Connection", found: Recognised) -> bool:
    """True if anything at all is stored in the file, whichever tables it has."""
    names = (name for name in found.tables if not name.startswith("messages_fts"))
    return any(
        connection.sql(f"SELECT EXISTS (SELECT 1 FROM main.{quoted(name)})")[0][0]
        for name in sorted(names)
        if name not in ("alembic_version", "schema_version")
    )


def count_rows(connection: "Connection", found: Recognised) -> dict[str, int]:
    """Number of rows of every ordinary table, search indexes and the revision's left out."""
    tables = sorted(name for name in found.tables if not name.startswith("messages_fts") and name != "alembic_version")
    return {name: int(connection.sql(f"SELECT count(*) FROM main.{quoted(name)}")[0][0]) for name in tables}


def columns_of(connection: "Connection", table: str) -> dict[str, str]:
    """Name and declared type of every column of a table, as the file has them."""
    return {row[1]: row[2] for row in connection.sql("SELECT * FROM pragma_table_xinfo(?)", (table,))}


def _stamp(connection: "Connection", tables: frozenset[str]) -> object:
    """The first row of the stamp, as Hermes Agent reads it; None where there is none."""
    if "schema_version" not in tables or "version" not in columns_of(connection, "schema_version"):
        return None
    rows = connection.sql("SELECT version FROM schema_version LIMIT 1")
    stamp = rows[0][0] if rows else None
    return int(stamp) if isinstance(stamp, str) and re.fullmatch("[0-9]{1,18}", stamp) else stamp


# What each version brought that can be seen, newest first: a table, or a table and one of its columns.
_EVIDENCE: tuple[tuple[int, str, str | None], ...] = (
    (23, "messages", "display_kind"),
    (23, "sessions", "pinned"),
    (22, "messages", "api_content"),
    (22, "session_model_usage", "task"),
    (21, "async_delegations", None),
    (20, "session_model_usage", None),
    (19, "gateway_routing", None),
    (18, "sessions", "origin_json"),
    (17, "sessions", "session_key"),
    (16, "messages", "compacted"),
    (14, "compression_locks", None),
    (13, "messages", "observed"),
    (12, "messages", "platform_message_id"),
    (10, "messages_fts_trigram", None),
    (9, "messages", "codex_message_items"),
    (8, "sessions", "api_call_count"),
    (7, "messages", "reasoning_content"),
    (6, "messages", "reasoning"),
    (5, "sessions", "cache_read_tokens"),
    (4, "sessions", "title"),
    (2, "messages", "finish_reason"),
)


def stamp_by_shape(connection: "Connection", tables: frozenset[str]) -> int:
    """The oldest version that a file without its stamp may have: what it has seen, it has migrated.

    An index of today's layout is no evidence: a file gets it without any migration.
    """
    for version, table, column in _EVIDENCE:
        if table in tables and (column is None or column in columns_of(connection, table)):
            return version
    return 1


def _revision(connection: "Connection", tables: frozenset[str]) -> str | None:
    if "alembic_version" not in tables:
        return None
    if "version_num" not in columns_of(connection, "alembic_version"):
        return None
    found = [
        str(row[0]) for row in connection.sql("SELECT version_num FROM alembic_version WHERE version_num IS NOT NULL")
    ]
    # Of several one that is unknown counts, else the oldest.
    return next((each for each in found if each not in REVISIONS), min(found, default=None))
