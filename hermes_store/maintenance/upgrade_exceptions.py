"""What an upgrade may change in rows that were there before, and why: the declared exceptions (rule TEST-3).

Each is a predicate over one change. A change that none of them allows is a problem.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from hermes_store.fts.indexes import HIGH_WATER_KEY, PROGRESS_KEY, STORAGE_VERSION_KEY
from hermes_store.models import Base
from hermes_store.schema.versions import STAMP

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection

Row = Mapping[str, Any]

TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
USAGE_COUNTERS = frozenset({"api_call_count", *TOKENS, "estimated_cost_usd", "actual_cost_usd"})

LEFTOVERS = {
    "gateway_routing_legacy_pk": "gateway_routing",
    "session_model_usage_v21": "session_model_usage",
    "session_model_usage_legacy_pk": "session_model_usage",
    "telegram_dm_topic_bindings_new": "telegram_dm_topic_bindings",
}
"""Tables that an interrupted rebuild of Hermes Agent leaves, and the table that takes their rows over."""

KEYS = {
    "session_model_usage": {
        "session_id": "''",
        "model": "'unknown'",
        "billing_provider": "''",
        "billing_base_url": "''",
        "billing_mode": "''",
        "task": "''",
    },
    "gateway_routing": {"scope": "''", "session_key": "''"},
    "telegram_dm_topic_bindings": {"chat_id": "''", "thread_id": "''"},
    "state_meta": {"key": "''"},
}
"""Tables whose rows are known by a key and not by their rowid: the columns, and what stands for NULL in them."""


class Kind(Enum):
    """What happened to a row."""

    CHANGED = "changed"
    ADDED = "added"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Change:
    """One difference: a column of a row that is in both files, or a row that is in one of them.

    source: the table before the upgrade, `table` the one after. group: the rows before the upgrade that have the same
    key, for tables that are known by a key.
    """

    kind: Kind
    table: str
    source: str
    row: str
    column: str | None
    before: Row
    after: Row
    group: Callable[[], Sequence[Row]] = tuple

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
    """What predicates may look at. stamp: of the file before, or told from its shape."""

    connection: "Connection"
    stamp: int
    titles_cleared: frozenset[str] = frozenset()
    search_rebuilt: bool = False
    columns: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Declared:
    """One exception: its name, the reason that is shown, and what it allows."""

    name: str
    reason: str
    allows: Callable[[Change, Context], bool]


# -- sessions and messages --------------------------------------------------------------------------------------

_GATEWAY = frozenset({"session_key", "chat_id", "chat_type", "thread_id", "display_name", "origin_json"})
_RECOUNTED = frozenset({"message_count", "tool_call_count"})


def _is(change: Change, table: str, *columns: str) -> bool:
    return change.kind is Kind.CHANGED and change.table == table and change.column in columns


def _delegate_marked(change: Change, context: Context) -> bool:
    if not _is(change, "sessions", "model_config") or context.stamp >= 16:
        return False
    try:
        old = json.loads(change.old, object_pairs_hook=list) if change.old is not None else []
        new = json.loads(change.new, object_pairs_hook=list)
    except (TypeError, ValueError, RecursionError):
        return False
    # Pairs instead of a dict: order and repeated names count.
    return isinstance(new, list) and new[:-1] == old and bool(new) and new[-1][0] == "_delegate_from"


def _gateway_filled(change: Change, context: Context) -> bool:
    if context.stamp >= 18:
        return False
    if _is(change, "sessions", "expiry_finalized"):
        return change.old in (0, None) and change.new == 1
    return _is(change, "sessions", *_GATEWAY) and change.old is None and change.new is not None


def _title_cleared(change: Change, context: Context) -> bool:
    if not _is(change, "sessions", "title") or change.new is not None:
        return False
    if change.before.get("id") not in context.titles_cleared:
        return False
    return bool(context.connection.sql("SELECT 1 FROM main.sessions WHERE title = ?", (change.old,)))


def _counter_recounted(change: Change, context: Context) -> bool:
    if not _is(change, "sessions", *_RECOUNTED, "api_call_count", *TOKENS) or change.old is not None:
        return False
    if change.column != "message_count":
        return isinstance(change.new, int) and (change.column in _RECOUNTED or change.new == 0)
    rows = context.connection.sql(
        "SELECT count(*), coalesce(sum(active = 1), 0) FROM main.messages WHERE session_id = ?",
        (change.before.get("id"),),
    )
    return change.new in rows[0]


def _active_repaired(change: Change, context: Context) -> bool:  # noqa: ARG001 - all predicates are called alike
    return _is(change, "messages", "active") and change.old is None and change.new == 1


def _default_filled(change: Change, context: Context) -> bool:  # noqa: ARG001
    if change.kind is not Kind.CHANGED or change.old is not None or change.table in KEYS:
        return False
    if change.table not in Base.metadata.tables:
        return False
    column = Base.metadata.tables[change.table].columns.get(change.column or "")
    if column is None or column.nullable or column.server_default is None:
        return False
    return str(getattr(column.server_default, "arg", "")) == repr(change.new)


# -- stamps and marks -------------------------------------------------------------------------------------------

_MARKS = frozenset({"fts_optimize_available", STORAGE_VERSION_KEY, HIGH_WATER_KEY, PROGRESS_KEY})


def _stamp_raised(change: Change, context: Context) -> bool:  # noqa: ARG001
    if change.table != "schema_version" or change.kind is Kind.REMOVED or change.after.get("version") != STAMP:
        return False
    if change.kind is Kind.ADDED:
        return True
    return isinstance(change.old, int) and change.old < STAMP


def _revision_noted(change: Change, context: Context) -> bool:  # noqa: ARG001
    return change.table == "alembic_version" and change.kind is not Kind.REMOVED


def _mark_left(change: Change, context: Context) -> bool:
    if change.table != "state_meta":
        return False
    key = str(change.after.get("key") or change.before.get("key"))
    if key.startswith("hermes_store_"):
        return True
    if key in (HIGH_WATER_KEY, PROGRESS_KEY):
        # They are changed and go when an index is filled anew.
        return change.kind is Kind.ADDED or context.search_rebuilt
    return key in _MARKS and change.kind is Kind.ADDED


# -- rebuilt tables ---------------------------------------------------------------------------------------------


def _usage_backfilled(change: Change, context: Context) -> bool:
    if change.table != "session_model_usage" or change.kind is not Kind.ADDED or context.stamp >= 20:
        return False
    row = change.after
    session = context.connection.sql(
        f"SELECT coalesce(model, 'unknown'), {', '.join(TOKENS)} FROM main.sessions WHERE id = ?",  # noqa: S608
        (row.get("session_id"),),
    )
    others = context.connection.sql(
        f"SELECT {', '.join(f'sum({name}) - ?' for name in TOKENS)} "  # noqa: S608 - names of this module
        "FROM main.session_model_usage WHERE session_id = ?",
        (*(row.get(name) for name in TOKENS), row.get("session_id")),
    )
    if not session or row.get("model") != session[0][0] or row.get("task") != "":
        return False
    # What other rows of the session account for already is not counted twice.
    rest = [max(0, (total or 0) - (other or 0)) for total, other in zip(session[0][1:], others[0], strict=True)]
    return rest == [row.get(name) for name in TOKENS]


def _nothing_became_value(change: Change, context: Context) -> bool:  # noqa: ARG001
    if change.kind is not Kind.CHANGED or change.old is not None:
        return False
    if change.column in KEYS.get(change.table, {}) and change.table != "state_meta":
        return repr(change.new) == KEYS[change.table][change.column or ""]
    if change.table == "session_model_usage":
        return change.column in USAGE_COUNTERS and change.new == 0
    return change.table == "gateway_routing" and (change.column, change.new) in (
        ("entry_json", "{}"),
        ("updated_at", 0),
    )


def _newest_entry_kept(change: Change, context: Context) -> bool:  # noqa: ARG001
    if not _is(change, "gateway_routing", "entry_json", "updated_at"):
        return False
    rows = change.group()
    newest = max((row.get("updated_at") or 0 for row in rows), default=None)
    kept = (change.after.get("entry_json"), change.after.get("updated_at"))
    known = {(row.get("entry_json"), row.get("updated_at")) for row in rows}
    return len(rows) > 1 and kept in known and kept[1] == newest


def _usage_added_up(change: Change, context: Context) -> bool:  # noqa: ARG001
    if change.kind is not Kind.CHANGED or change.table != "session_model_usage":
        return False
    rows = change.group()
    if len(rows) < 2:
        return False
    values = [row.get(change.column or "") for row in rows]
    numbers = [value for value in values if isinstance(value, (int, float))]
    if change.column in USAGE_COUNTERS:
        total = sum(numbers)
        return bool(numbers) and max(numbers) <= change.new <= total + abs(total) * 1e-9
    if change.column == "first_seen":
        return bool(numbers) and change.new == min(numbers)
    if change.column == "last_seen":
        return bool(numbers) and change.new == max(numbers)
    return change.column in ("cost_status", "cost_source") and change.new in values


def _binding_kept(change: Change, context: Context) -> bool:  # noqa: ARG001
    """A binding that stands in both tables is the one of the table that was in use."""
    return (
        change.kind is Kind.CHANGED
        and change.source == "telegram_dm_topic_bindings_new"
        and any(all(change.after.get(name) == value for name, value in row.items()) for row in change.group())
    )


DECLARED: tuple[Declared, ...] = (
    Declared("delegate marked", "sessions.model_config gained _delegate_from and nothing else", _delegate_marked),
    Declared("gateway columns filled", "columns of sessions that were NULL came from sessions.json", _gateway_filled),
    Declared("title cleared", "of sessions with the same title, the one stored last keeps it", _title_cleared),
    Declared("counter recounted", "counters of sessions that were NULL are numbers again", _counter_recounted),
    Declared("active repaired", "messages.active NULL means live and became 1", _active_repaired),
    Declared("default filled", "columns that may not be NULL have their default in its place", _default_filled),
    Declared("stamp raised", f"schema_version became {STAMP}", _stamp_raised),
    Declared("revision noted", "alembic_version names the revision", _revision_noted),
    Declared("mark left", "the store keeps marks of its own and of the search indexes in state_meta", _mark_left),
    Declared("usage backfilled", "tokens of sessions without usage rows got one", _usage_backfilled),
    Declared("NULL replaced", "parts of a key and counters of rebuilt tables cannot be NULL", _nothing_became_value),
    Declared("newest entry kept", "of routing entries with the same key the newest stays", _newest_entry_kept),
    Declared("usage added up", "usage rows that have the same key now became one", _usage_added_up),
    Declared("binding kept", "a topic bound in both tables of an interrupted rebuild", _binding_kept),
)


def reason_for(change: Change, context: Context) -> Declared | None:
    """The exception that allows a change, or None: then it is a problem."""
    return next((each for each in DECLARED if each.allows(change, context)), None)
