"""What an upgrade has to do to sessions, worked out from the file before it (rules MIGRATE-1, MIGRATE-2, SCHEMA-5).

Written for the check alone and not shared with the revisions: a fault of theirs must not excuse itself.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_store.maintenance.upgrade_tables import bound, stream, tables_of
from hermes_store.models import Base

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection

GATEWAY_COLUMNS = ("session_key", "chat_id", "chat_type", "thread_id", "display_name", "origin_json")
_DIGITS = 40  # of a number that is still one

_CONFIG_IS_OBJECT = """
    CASE WHEN {0} IS NULL THEN 1
    WHEN typeof({0}) <> 'text' OR instr({0}, char(0)) > 0 THEN 0
    WHEN json_valid({0}) THEN json_type({0}) = 'object'
        AND json_extract({0}, '$._delegate_from') IS NULL AND json_extract({0}, '$._branched_from') IS NULL
    ELSE 0 END
"""
_CHILD = """
    typeof(o.parent_session_id) = 'text' AND NOT EXISTS (
        SELECT 1 FROM main.sessions AS p WHERE p.id = o.parent_session_id
        AND (p.end_reason = 'compression' OR (p.end_reason = 'branched' AND o.started_at >= p.ended_at)))
"""
_ORPHAN = """
    o.parent_session_id IS NULL AND {title} IS NULL AND {message_count} <= 25
    AND EXISTS (SELECT 1 FROM main.messages AS m WHERE m.session_id = o.id AND m.role = 'tool')
    AND NOT EXISTS (SELECT 1 FROM main.sessions AS c WHERE c.parent_session_id = o.id)
"""
_SAME_JSON = (
    "CASE WHEN typeof({0}) = 'text' AND instr({0}, char(0)) = 0 AND json_valid({0}) "
    "THEN json({0}) IS json({1}) ELSE 0 END"
)
_IS_JSON = "typeof(m.tool_calls) = 'text' AND json_valid(m.tool_calls)"
_CALLS = (
    f"CASE WHEN {_IS_JSON} THEN CASE json_type(m.tool_calls) WHEN 'array' THEN json_array_length(m.tool_calls) "
    "WHEN 'null' THEN 0 ELSE 1 END ELSE 0 END"
)


class SessionEffects:
    """Markers, columns of the gateway, titles and counters as they have to be. `connection`: of `both_files`.

    due: the revisions that the file needed. gateway_file: the `sessions.json` beside it, which need not be there.
    """

    def __init__(self, connection: "Connection", due: frozenset[str], gateway_file: Path) -> None:
        self._connection = connection
        before = tables_of(connection, "before").get("sessions")
        self._known = before.known if before is not None else frozenset()
        self._has_rowid = before is not None and before.rowid is not None
        self._markers(before is not None and "0016" in due)
        self._gateway(gateway_file if before is not None and "0018" in due else None)
        self._titles()

    def _old(self, column: str) -> str:
        """A column of `before.sessions AS o`; what it begins with where the upgrade adds it."""
        if column in self._known:
            return f"o.{column}"
        default = Base.metadata.tables["sessions"].columns[column].server_default
        return "NULL" if default is None else str(getattr(default, "arg", "NULL"))

    # -- working out --------------------------------------------------------------------------------------------

    def _markers(self, due: bool) -> None:  # noqa: FBT001
        self._connection.sql("CREATE TEMP TABLE check_markers (id, config)")
        if not due:
            return
        config = self._old("model_config")
        orphan = _ORPHAN.format(title=self._old("title"), message_count=self._old("message_count"))
        self._connection.sql(
            f"INSERT INTO temp.check_markers SELECT o.id, json_set(coalesce({config}, '{{}}'), '$._delegate_from', "  # noqa: S608
            f"coalesce(o.parent_session_id, '__orphaned__')) FROM before.sessions AS o "
            f"WHERE {_CONFIG_IS_OBJECT.format(config)} AND (({_CHILD}) OR ({orphan}))"
        )
        self._connection.sql("CREATE INDEX temp.check_markers_id ON check_markers (id)")

    def _gateway(self, file: Path | None) -> None:
        # TEXT, as the columns of sessions: numbers are stored as text.
        columns = ", ".join(f"{name} TEXT" for name in GATEWAY_COLUMNS)
        self._connection.sql(f"CREATE TEMP TABLE check_gateway (id TEXT PRIMARY KEY, {columns}, expired INTEGER)")
        marks = ", ".join("?" * (len(GATEWAY_COLUMNS) + 2))
        # The first entry that says something wins.
        kept = ", ".join(f"{name} = coalesce({name}, excluded.{name})" for name in GATEWAY_COLUMNS)
        for values in _entries(file) if file is not None else ():
            self._connection.sql(
                f"INSERT INTO temp.check_gateway VALUES ({marks}) "  # noqa: S608
                f"ON CONFLICT (id) DO UPDATE SET {kept}, expired = max(expired, excluded.expired)",
                values,
            )

    def _titles(self) -> None:
        self._connection.sql("CREATE TEMP TABLE check_titles (id)")
        if "title" not in self._known:
            return
        order = "o.rowid DESC" if self._has_rowid else "o.started_at DESC, o.id DESC"
        self._connection.sql(
            "INSERT INTO temp.check_titles SELECT id FROM (SELECT o.id AS id, "  # noqa: S608
            f"row_number() OVER (PARTITION BY o.title ORDER BY {order}) AS place "
            "FROM before.sessions AS o WHERE o.title IS NOT NULL) WHERE place > 1"
        )
        self._connection.sql("CREATE INDEX temp.check_titles_id ON check_titles (id)")

    # -- what a change has to be --------------------------------------------------------------------------------

    def marked(self, session_id: object, config: object) -> bool:
        """Whether this is the `model_config` that the session has to get."""
        place, value = bound(session_id)
        wanted, text = bound(config)
        same = _SAME_JSON.format("n.config", "k.config")
        return bool(
            self._connection.sql(
                f"SELECT 1 FROM temp.check_markers AS k, (SELECT {wanted} AS config) AS n "  # noqa: S608
                f"WHERE k.id IS {place} AND {same}",
                (text, value),
            )
        )

    def from_gateway(self, session_id: object, column: str) -> object:
        """What the gateway's file has for a column of a session that holds nothing; None where it says nothing."""
        name = "nullif(expired, 0)" if column == "expiry_finalized" else column
        place, value = bound(session_id)
        found = self._connection.sql(f"SELECT {name} FROM temp.check_gateway WHERE id = {place}", (value,))  # noqa: S608
        return found[0][0] if found else None

    def title_goes(self, session_id: object) -> str | None:
        """How a report names a session whose title one that was stored later holds; None if there is no such one."""
        place, value = bound(session_id)
        found = self._connection.sql(
            f"SELECT CASE typeof(id) WHEN 'text' THEN id ELSE quote(id) END FROM temp.check_titles WHERE id IS {place}",  # noqa: S608
            (value,),
        )
        return found[0][0].encode("utf-8", "surrogateescape").decode("utf-8", "replace") if found else None

    def counted(self, session_id: object, column: str) -> int:
        """What a counter of a session is by its live messages."""
        place, value = bound(session_id)
        what = "count(*)" if column == "message_count" else f"coalesce(sum({_CALLS}), 0)"
        found = self._connection.sql(
            f"SELECT {what} FROM main.messages AS m WHERE m.session_id = {place} AND m.active = 1",  # noqa: S608
            (value,),
        )
        return int(found[0][0])

    # -- what must have happened --------------------------------------------------------------------------------

    def lacking(self, *, changed: bool) -> Iterator[tuple[object, str]]:
        """Ids of sessions that did not get what they have to get, and what that is. changed: the file was not current.

        A marker, what the gateway's file says, a count in the place of NULL.
        """
        same = _SAME_JSON.format("n.model_config", "k.config")
        for (session_id,) in stream(
            self._connection,
            f"SELECT k.id FROM temp.check_markers AS k JOIN main.sessions AS n ON n.id = k.id WHERE NOT {same}",  # noqa: S608
        ):
            yield session_id, "model_config lacks its marker _delegate_from"
        for name in (*GATEWAY_COLUMNS, "expiry_finalized"):
            old = self._old(name)
            wanted = f"coalesce({old}, k.{name})"
            if name == "expiry_finalized":
                wanted = f"CASE WHEN coalesce({old}, 0) = 0 AND k.expired THEN 1 ELSE {old} END"
            for (session_id,) in stream(
                self._connection,
                f"SELECT o.id FROM temp.check_gateway AS k JOIN before.sessions AS o ON o.id = k.id "  # noqa: S608
                f"JOIN main.sessions AS n ON n.id = k.id WHERE n.{name} IS NOT {wanted}",
            ):
                yield session_id, f"{name} is not what sessions.json says"
        if changed:
            for (session_id,) in stream(
                self._connection,
                "SELECT id FROM main.sessions WHERE message_count IS NULL OR tool_call_count IS NULL",
            ):
                yield session_id, "a counter is still NULL"


# -- the gateway's file -----------------------------------------------------------------------------------------


def _entries(path: Path) -> Iterator[tuple[Any, ...]]:
    """What `sessions.json` says: id of a session, the columns of `GATEWAY_COLUMNS`, and whether it expired."""
    if not path.is_file():
        return
    try:
        loaded = json.loads(
            path.read_text(encoding="utf-8-sig"),
            parse_int=lambda text: int(text) if len(text) < _DIGITS else text,
            parse_constant=lambda _: None,
        )
    except (OSError, ValueError, RecursionError):
        # What cannot be read is not taken over.
        return
    for key, entry in loaded.items() if isinstance(loaded, dict) else ():
        if key.startswith("_") or not isinstance(entry, dict):
            continue
        session_id = entry.get("session_id")
        if not session_id or _value(session_id) is None:
            continue
        origin = entry.get("origin")
        inside = origin if isinstance(origin, dict) else {}
        yield (
            str(_value(session_id)),
            _value(entry.get("session_key")) or _value(key),
            _value(inside.get("chat_id")),
            _value(entry.get("chat_type")),
            _value(inside.get("thread_id")),
            _value(entry.get("display_name")),
            json.dumps(origin) if isinstance(origin, dict) else None,
            int(bool(entry.get("expiry_finalized") or entry.get("memory_flushed"))),
        )


def _value(value: object) -> object:
    """What a column can hold of a JSON value."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return str(value)
    return value if isinstance(value, (int, float)) else None
