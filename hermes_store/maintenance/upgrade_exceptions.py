"""What an upgrade may change in rows that were there before, and why: the declared exceptions (rule TEST-3).

Each is a predicate over one change. A change that none of them allows is a problem.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from hermes_store.fts.indexes import HIGH_WATER_KEY, PROGRESS_KEY, STORAGE_VERSION, STORAGE_VERSION_KEY
from hermes_store.maintenance.upgrade_tables import KEYS, Row
from hermes_store.maintenance.upgrade_usage import COUNTERS, KEY, USAGE, alike, newest_entry
from hermes_store.models import Base
from hermes_store.schema.file_generation import GENERATION_KEY
from hermes_store.schema.versions import HEAD_REVISION, STAMP

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection
    from hermes_store.maintenance.upgrade_sessions import SessionEffects
    from hermes_store.maintenance.upgrade_usage import UsageEffects


class Kind(Enum):
    """What happened to a row."""

    CHANGED = "changed"
    FILLED = "filled"
    ADDED = "added"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Change:
    """One difference: a column of a row that is in both files, or a row that is in one of them.

    FILLED is a column that the upgrade added and that does not hold its default. source: the table before the upgrade,
    `table` the one after. kinds: the declared types of the columns after, by name. group: the rows before the upgrade
    that have the same key, for tables that are known by a key.
    """

    kind: Kind
    table: str
    source: str
    row: str
    column: str | None
    before: Row
    after: Row
    group: Callable[[], Sequence[Row]] = tuple
    kinds: Mapping[str, str] = field(default_factory=dict)

    @property
    def old(self) -> Any:
        """The value of the column before."""
        return self.before.get(self.column or "")

    @property
    def new(self) -> Any:
        """The value of the column after."""
        return self.after.get(self.column or "")


@dataclass(frozen=True, slots=True)
class Context:
    """What predicates may look at. titles_cleared: ids as the report names them.

    search_rebuilt: an index was filled anew, or left to a later rebuild. marks_layout: the file has to get
    the mark that its index has an older layout (rule MIGRATE-4).
    """

    connection: "Connection"
    sessions: "SessionEffects"
    usage: "UsageEffects"
    titles_cleared: frozenset[str] = frozenset()
    search_rebuilt: bool = False
    marks_layout: bool = False


@dataclass(frozen=True, slots=True)
class Declared:
    """One exception: its name, the reason that is shown, and what it allows."""

    name: str
    reason: str
    allows: Callable[[Change, Context], bool]


# -- sessions and messages --------------------------------------------------------------------------------------

_GATEWAY = frozenset(
    {"session_key", "chat_id", "chat_type", "thread_id", "display_name", "origin_json", "expiry_finalized"}
)
_COUNTED = frozenset({"message_count", "tool_call_count"})
_CHANGED = frozenset({Kind.CHANGED, Kind.FILLED})


def _is(change: Change, table: str, *columns: str) -> bool:
    return change.kind is Kind.CHANGED and change.table == table and change.column in columns


def _delegate_marked(change: Change, context: Context) -> bool:
    if change.kind not in _CHANGED or change.table != "sessions" or change.column != "model_config":
        return False
    return context.sessions.marked(change.after.get("id"), change.new)


def _gateway_filled(change: Change, context: Context) -> bool:
    if change.kind not in _CHANGED or change.table != "sessions" or change.column not in _GATEWAY:
        return False
    if change.old is not None and (change.column != "expiry_finalized" or change.old != 0):
        return False
    return change.new is not None and change.new == context.sessions.from_gateway(
        change.after.get("id"), change.column or ""
    )


def _title_cleared(change: Change, context: Context) -> bool:
    if not _is(change, "sessions", "title") or change.new is not None:
        return False
    return context.sessions.title_goes(change.before.get("id")) in context.titles_cleared


def _counter_recounted(change: Change, context: Context) -> bool:
    if not _is(change, "sessions", *_COUNTED) or change.old is not None:
        return False
    return bool(change.new == context.sessions.counted(change.before.get("id"), change.column or ""))


def _active_repaired(change: Change, context: Context) -> bool:  # noqa: ARG001 - all predicates are called alike
    return _is(change, "messages", "active") and change.old is None and change.new == 1


def _default_filled(change: Change, context: Context) -> bool:
    if change.kind is not Kind.CHANGED or change.old is not None or change.new is None:
        return False
    if change.table not in Base.metadata.tables or change.table in (USAGE, "gateway_routing"):
        return False
    column = Base.metadata.tables[change.table].columns.get(change.column or "")
    if column is None or column.nullable or column.server_default is None:
        return False
    default = str(getattr(column.server_default, "arg", "NULL"))
    # As a column of this type stores it: the text '0' where it was declared as text.
    kind = change.kinds.get(change.column or "", "")
    place = context.connection.sql(f"SELECT CAST({default} AS {_AFFINITY[affinity(kind)]})")[0][0]
    return bool(change.new == place)


_AFFINITY = {"text": "TEXT", "integer": "NUMERIC", "numeric": "NUMERIC", "real": "REAL", "blob": "NUMERIC"}


def affinity(kind: str) -> str:
    """The affinity of a declared type, by the rules of SQLite."""
    upper = kind.upper()
    for parts, name in ((("INT",), "integer"), (("CHAR", "CLOB", "TEXT"), "text"), (("BLOB",), "blob")):
        if any(part in upper for part in parts):
            return name
    if not upper:
        return "blob"
    return "real" if any(part in upper for part in ("REAL", "FLOA", "DOUB")) else "numeric"


# -- stamps and marks -------------------------------------------------------------------------------------------

_MARKS = {"fts_optimize_available": "1", STORAGE_VERSION_KEY: STORAGE_VERSION}


def _stamp_raised(change: Change, context: Context) -> bool:  # noqa: ARG001
    if change.table != "schema_version" or change.kind is Kind.REMOVED or change.after.get("version") != STAMP:
        return False
    if change.kind is Kind.ADDED:
        return True
    return isinstance(change.old, int) and change.old < STAMP


def _revision_noted(change: Change, context: Context) -> bool:  # noqa: ARG001
    if change.table != "alembic_version":
        return False
    return change.kind is Kind.REMOVED or change.after.get("version_num") == HEAD_REVISION


def _mark_left(change: Change, context: Context) -> bool:
    if change.table != "state_meta":
        return False
    key = str(change.after.get("key") or change.before.get("key"))
    if key.startswith("hermes_store_") or (key == GENERATION_KEY and change.kind is Kind.ADDED):
        return True
    if key in (HIGH_WATER_KEY, PROGRESS_KEY):
        # They are changed and go when an index is filled anew.
        return context.search_rebuilt
    return change.kind is Kind.ADDED and key in _MARKS and change.after.get("value") == _MARKS[key]


# -- rebuilt tables ---------------------------------------------------------------------------------------------


def _usage_expected(change: Change, context: Context) -> bool:
    """Whether a row, or one of its columns, is what the rows of its key add up to."""
    expected = context.usage.expected(change.after.get("session_id")).get(tuple(change.after.get(name) for name in KEY))
    if expected is None:
        return False
    columns = change.after.keys() if change.kind is Kind.ADDED else [change.column or ""]
    return all(alike(change.after.get(name), expected.get(name)) for name in columns)


def _usage_backfilled(change: Change, context: Context) -> bool:
    if change.table != USAGE or change.kind is Kind.REMOVED:
        return False
    key = tuple(change.after.get(name) for name in KEY)
    return context.usage.backfilled(change.after.get("session_id")) == key and _usage_expected(change, context)


def _usage_added_up(change: Change, context: Context) -> bool:
    if change.table != USAGE or change.kind not in _CHANGED:
        return False
    return (change.kind is Kind.FILLED or len(change.group()) > 1) and _usage_expected(change, context)


def _nothing_became_value(change: Change, context: Context) -> bool:  # noqa: ARG001
    if change.kind is not Kind.CHANGED or change.old is not None or change.table == "state_meta":
        return False
    if change.column in KEYS.get(change.table, {}):
        return repr(change.new) == KEYS[change.table][change.column or ""]
    if len(change.group()) > 1:
        return False
    if change.table == USAGE:
        return change.column in COUNTERS and change.new == 0
    return change.table == "gateway_routing" and (change.column, change.new) in (
        ("entry_json", "{}"),
        ("updated_at", 0),
    )


def _newest_entry_kept(change: Change, context: Context) -> bool:  # noqa: ARG001
    if not _is(change, "gateway_routing", "entry_json", "updated_at"):
        return False
    rows = change.group()
    return len(rows) > 1 and (change.after.get("entry_json"), change.after.get("updated_at")) in newest_entry(rows)


def _binding_kept(change: Change, context: Context) -> bool:  # noqa: ARG001
    """A binding that stands in both tables is the one of the table that was in use."""
    return (
        change.kind is Kind.CHANGED
        and change.source == "telegram_dm_topic_bindings_new"
        and any(all(change.after.get(name) == value for name, value in row.items()) for row in change.group())
    )


DECLARED: tuple[Declared, ...] = (
    Declared("delegate marked", "sessions.model_config gained _delegate_from and nothing else", _delegate_marked),
    Declared(
        "gateway columns filled", "columns of sessions that held nothing came from sessions.json", _gateway_filled
    ),
    Declared("title cleared", "of sessions with the same title, the one stored last keeps it", _title_cleared),
    Declared("counter recounted", "counters of sessions that were NULL are numbers again", _counter_recounted),
    Declared("active repaired", "messages.active NULL means live and became 1", _active_repaired),
    Declared("default filled", "columns that may not be NULL have their default in its place", _default_filled),
    Declared("stamp raised", f"schema_version became {STAMP}", _stamp_raised),
    Declared("revision noted", "alembic_version names the revision", _revision_noted),
    Declared("mark left", "the store keeps marks of its own and of the search indexes in state_meta", _mark_left),
    Declared("usage backfilled", "what sessions spent and no usage row accounted for got one", _usage_backfilled),
    Declared("NULL replaced", "parts of a key and counters of rebuilt tables cannot be NULL", _nothing_became_value),
    Declared("newest entry kept", "of routing entries with the same key the newest stays", _newest_entry_kept),
    Declared("usage added up", "usage rows that have the same key now became one", _usage_added_up),
    Declared("binding kept", "a topic bound in both tables of an interrupted rebuild", _binding_kept),
)


def reason_for(change: Change, context: Context) -> Declared | None:
    """The exception that allows a change, or None: then it is a problem."""
    return next((each for each in DECLARED if each.allows(change, context)), None)
