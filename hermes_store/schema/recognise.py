"""Telling what a database file is, without changing it (rule SCHEMA-3)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes_store.errors import NotAStore, SchemaTooNew, SchemaTooOld
from hermes_store.models import ON_DEMAND_TABLES, Base
from hermes_store.schema.versions import HEAD_REVISION, OLDEST_STAMP, REVISIONS, STAMP

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection

_NEWER_TABLES = frozenset({"system_prompts"})
_KNOWN_TABLES = frozenset(Base.metadata.tables) | ON_DEMAND_TABLES | _NEWER_TABLES | {"alembic_version", "messages_fts"}

_COMMON_NAMES = frozenset({"alembic_version", "schema_version", "sessions", "messages"})

# Every shape of the two main tables has had these columns; a table of the same name of another program has not.
_MARKS = {
    "sessions": {"id", "source", "parent_session_id", "started_at", "ended_at"},
    "messages": {"id", "session_id", "role", "content", "timestamp"},
}


@dataclass(frozen=True, slots=True)
class Recognised:
    """What a file is: its tables, its stamp and its revision, None where it has none."""

    tables: frozenset[str]
    stamp: int | None
    revision: str | None

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
    for table, marks in _MARKS.items():
        if table in tables and not marks <= columns_of(connection, table).keys():
            raise NotAStore(f"{name} is a database of another program: its table {table!r} is no {table} of a state.db")
    if not tables >= _MARKS.keys() and not _is_new_or_side_tables_only(tables, kinds.get("view", set())):
        shown = ", ".join(sorted(tables | kinds.get("view", set()))[:5])
        raise NotAStore(f"{name} is a database of another program ({shown}); name a state.db")
    return Recognised(tables, _stamp(connection, tables), _revision(connection, tables))


def _is_new_or_side_tables_only(tables: frozenset[str], views: set[str]) -> bool:
    """True for a file without content of its own, and for one that holds nothing but tables of ours beside sessions."""
    if not tables:
        return not views
    # Names that other programs use too prove nothing.
    return tables <= _KNOWN_TABLES and bool(tables - _COMMON_NAMES)


def refuse_unless_current_or_adoptable(found: Recognised, name: str) -> None:
    """Raise SchemaTooOld or SchemaTooNew for a file that this release cannot write."""
    if found.revision is not None and found.revision not in REVISIONS:
        raise SchemaTooNew(
            f"{name} was last upgraded by a newer hermes-store (revision {found.revision}, this release knows up to "
            f"{HEAD_REVISION}); update hermes-store, or open it for reading only"
        )
    if found.has_transcripts and found.revision is None:
        stamp = found.stamp if found.stamp is not None else 0
        if stamp < OLDEST_STAMP:
            raise SchemaTooOld(
                f"{name} has schema version {found.stamp if found.stamp is not None else 'unknown'}; this release "
                f"writes files of version {STAMP}. Open it once with a current Hermes Agent to upgrade it"
            )


def count_rows(connection: "Connection", found: Recognised) -> dict[str, int]:
    """Number of rows of every ordinary table, search indexes and the revision's left out."""
    tables = sorted(name for name in found.tables if not name.startswith("messages_fts") and name != "alembic_version")
    quoted = {name: '"' + name.replace('"', '""') + '"' for name in tables}
    return {name: int(connection.sql(f"SELECT count(*) FROM main.{quoted[name]}")[0][0]) for name in tables}


def columns_of(connection: "Connection", table: str) -> dict[str, str]:
    """Name and declared type of every column of a table, as the file has them."""
    return {row[1]: row[2] for row in connection.sql("SELECT * FROM pragma_table_info(?)", (table,))}


def _stamp(connection: "Connection", tables: frozenset[str]) -> int | None:
    if "schema_version" not in tables:
        return None
    rows = connection.sql("SELECT version FROM schema_version LIMIT 1")
    return rows[0][0] if rows and isinstance(rows[0][0], int) else None


def _revision(connection: "Connection", tables: frozenset[str]) -> str | None:
    if "alembic_version" not in tables:
        return None
    rows = connection.sql("SELECT version_num FROM alembic_version LIMIT 1")
    return str(rows[0][0]) if rows else None
