"""What the usage and routing tables have to hold after an upgrade, worked out key by key (rules MIGRATE-3, SCHEMA-13).

Written for the check alone and not shared with the revisions: a fault of theirs must not excuse itself.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hermes_store.database.catalogue import quoted
from hermes_store.maintenance.upgrade_tables import KEYS, LEFTOVERS, Row, Table, bound, listed, row_of, stream

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection

USAGE = "session_model_usage"
TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
COUNTERS = ("api_call_count", *TOKENS, "estimated_cost_usd", "actual_cost_usd")
KEY = tuple(KEYS[USAGE])
_OTHERS = ("cost_status", "cost_source", "first_seen", "last_seen")
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")

Key = tuple[Any, ...]


class UsageEffects:
    """The usage rows that a session has to have. `connection`: of `both_files`; `tables`: those of the file before.

    backfills: the step that accounts for what no row accounts for was due.
    """

    def __init__(self, connection: "Connection", tables: Mapping[str, Table], *, backfills: bool) -> None:
        self._connection = connection
        self._sessions = tables.get("sessions")
        self._backfills = backfills and self._sessions is not None
        names = [*(leftover for leftover, target in LEFTOVERS.items() if target == USAGE), USAGE]
        # In the order in which they are copied.
        self._sources = [tables[name] for name in names if name in tables]
        self._unique = [
            row[0].lower()
            for row in connection.sql("SELECT name FROM pragma_table_info(?, 'before') WHERE pk ORDER BY pk", (USAGE,))
        ]
        self._last: tuple[object, dict[Key, Row], Key | None] | None = None

    def expected(self, session_id: object) -> dict[Key, Row]:
        """The rows of a session after the upgrade, by their key."""
        return self._worked_out(session_id)[0]

    def backfilled(self, session_id: object) -> Key | None:
        """The key under which the upgrade has to account for more; None where all is accounted for."""
        return self._worked_out(session_id)[1]

    def lacking(self) -> Iterator[object]:
        """Ids of sessions with tokens that no row accounts for after the upgrade."""
        if not self._backfills or self._sessions is None:
            return
        tokens = [name for name in TOKENS if name in self._sessions.known]
        spent = " OR ".join(f"o.{name} > 0" for name in tokens)
        if not tokens:
            return
        for (session_id,) in stream(
            self._connection,
            f"SELECT o.id FROM before.sessions AS o WHERE o.id IS NOT NULL AND ({spent})",  # noqa: S608
        ):
            key = self.backfilled(session_id)
            if key is None:
                continue
            places, values = zip(*map(bound, key), strict=True)
            where = " AND ".join(f"{name} IS {place}" for name, place in zip(KEY, places, strict=True))
            if not self._connection.sql(f"SELECT 1 FROM main.{USAGE} WHERE {where}", values):  # noqa: S608
                yield session_id

    # -- working out --------------------------------------------------------------------------------------------

    def _worked_out(self, session_id: object) -> tuple[dict[Key, Row], Key | None]:
        if self._last is None or self._last[0] != session_id or type(self._last[0]) is not type(session_id):
            self._last = (session_id, *self._work_out(session_id))
        return self._last[1:]

    def _work_out(self, session_id: object) -> tuple[dict[Key, Row], Key | None]:
        tables = {source.name.lower(): self._rows(source, session_id) for source in self._sources}
        added = self._backfill(session_id, tables) if self._backfills else None
        if added is not None:
            tables.setdefault(USAGE, []).append(added)
        found: dict[Key, Row] = {}
        for place, rows in enumerate(tables.values()):
            # Sorting keeps the order of rows that were seen last together.
            for row in sorted(rows, key=lambda row: order(row.get("last_seen"))):
                whole = _whole(row)
                key = tuple(whole[name] for name in KEY)
                found[key] = _merged(found[key], whole, may_be_same=place > 0) if key in found else whole
        return found, None if added is None else tuple(added[name] for name in KEY)

    def _rows(self, source: Table, session_id: object) -> list[Row]:
        place, value = bound(session_id)
        where = f"o.session_id = {place}" + (" OR o.session_id IS NULL" if session_id == "" else "")
        order_by = f"ORDER BY o.{source.rowid}" if source.rowid is not None else ""
        return [
            row_of(source.columns, values)
            for values in self._connection.sql(
                f"SELECT {listed(source.columns, 'o')} FROM {source.sql} AS o WHERE {where} {order_by}",  # noqa: S608
                (value,),
            )
        ]

    def _backfill(self, session_id: object, tables: Mapping[str, Sequence[Row]]) -> Row | None:
        """The row that accounts for what no row accounts for; None where there is nothing, or a row has its key."""
        session = self._session(session_id)
        if session is None:
            return None
        seen: dict[Key, dict[str, Any]] = {}
        for rows in tables.values():
            for row in rows:
                # The same row may stand in several tables after an interrupted rebuild.
                route = (row.get("model"), *(row.get(name) or "" for name in KEY[2:]))
                first = row.get("first_seen")
                spent = seen.setdefault((*route, -1 if first is None else first), dict.fromkeys(COUNTERS, 0))
                for name in COUNTERS:
                    spent[name] = max(spent[name], number(row.get(name)))
        rest = {
            name: max(0, number(session.get(name)) - sum(spent[name] for spent in seen.values())) for name in COUNTERS
        }
        if sum(rest[name] for name in TOKENS) <= 0:
            return None
        started, ended = session.get("started_at"), session.get("ended_at")
        model = session.get("model")
        row = {
            "session_id": session_id,
            "model": "unknown" if model is None else model,
            **{
                name: "" if session.get(name) is None else session[name]
                for name in ("billing_provider", "billing_base_url", "billing_mode")
            },
            "task": "",
            **rest,
            "cost_status": session.get("cost_status"),
            "cost_source": session.get("cost_source"),
            "first_seen": started,
            "last_seen": started if ended is None else ended,
        }
        if self._unique and any(
            all(other.get(name) == row.get(name) for name in self._unique) for other in tables.get(USAGE, ())
        ):
            return None
        return row

    def _session(self, session_id: object) -> Row | None:
        if self._sessions is None or session_id is None:
            return None
        place, value = bound(session_id)
        found = self._connection.sql(
            f"SELECT {listed(self._sessions.columns, 'o')} FROM before.sessions AS o WHERE o.{quoted('id')} = {place}",  # noqa: S608
            (value,),
        )
        return row_of(self._sessions.columns, found[0]) if found else None


def _whole(row: Row) -> dict[str, Any]:
    """A row as the table of today holds it: no NULL in its key and counters."""
    instead = {"model": "unknown", **dict.fromkeys(KEY[2:], ""), "session_id": "", **dict.fromkeys(COUNTERS, 0)}
    return {
        **dict.fromkeys(_OTHERS),
        **row,
        **{name: value if row.get(name) is None else row[name] for name, value in instead.items()},
    }


def _merged(old: Row, new: Row, *, may_be_same: bool) -> Row:
    """Two rows of one key; those that began together in two tables are one row, the later one grown."""
    is_same = may_be_same and old["first_seen"] == new["first_seen"]
    merged = dict(old)
    for name in COUNTERS:
        mine, other = number(old[name]), number(new[name])
        merged[name] = max(mine, other) if is_same else _plus(mine, other)
    for name in ("cost_status", "cost_source"):
        merged[name] = old[name] if new[name] is None else new[name]
    for name, choose in (("first_seen", min), ("last_seen", max)):
        times = [row[name] for row in (old, new) if row[name] is not None]
        merged[name] = choose(times, key=order) if times else None
    return merged


def _plus(one: float, other: float) -> float:
    total = one + other
    return total if -(2**63) <= total < 2**63 else float(total)


def number(value: object) -> float:
    """A value as SQLite adds it up."""
    if isinstance(value, (int, float)):
        return value
    found = _NUMBER.match(value) if isinstance(value, str) else None
    if found is None:
        return 0
    text = found.group().strip()
    return int(text) if text.lstrip("+-").isdigit() else float(text)


def order(value: object) -> tuple[int, Any]:
    """For sorting values as SQLite does: NULL, numbers, texts, bytes."""
    if value is None:
        return 0, 0
    if isinstance(value, (int, float)):
        return 1, value
    return (2, value.encode("utf-8", "surrogateescape")) if isinstance(value, str) else (3, value)


def alike(value: object, expected: object) -> bool:
    """Whether a value is the one that was expected; sums of fractions may differ in their last digits."""
    if isinstance(value, (int, float)) and isinstance(expected, (int, float)):
        if isinstance(value, int) and isinstance(expected, int):
            return value == expected
        return math.isclose(value, expected, rel_tol=1e-9, abs_tol=1e-9)
    return type(value) is type(expected) and value == expected


def newest_entry(rows: Sequence[Row]) -> set[tuple[Any, Any]]:
    """What may stand in the place of several routing entries of one key: `entry_json` and `updated_at` of the newest.

    An entry without a time is one of the time 0.
    """
    whole = [
        (
            "{}" if row.get("entry_json") is None else row["entry_json"],
            0 if row.get("updated_at") is None else row["updated_at"],
        )
        for row in rows
    ]
    newest = max(order(time) for _, time in whole)
    return {(entry, time) for entry, time in whole if order(time) == newest}
