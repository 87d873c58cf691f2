"""Tokens and cost: the totals on the rows of sessions, and what each model, route and task had of them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Table, bindparam, func, insert, select, update

from hermes_store.database.connection import Connection
from hermes_store.database.statements import Statement
from hermes_store.models.tables import SESSION_MODEL_USAGE, SESSIONS
from hermes_store.repositories.constructs import constant
from hermes_store.repositories.records import USAGE_COLUMNS, UsageRecord


class Route(NamedTuple):
    """Which model was called, and over whom it is billed."""

    model: str | None
    billing_provider: str | None
    billing_base_url: str | None
    billing_mode: str | None


COUNTERS = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "api_call_count",
)
"""What is counted, on sessions and on usage rows alike."""

_KEY = ("session_id", *Route._fields, "task")
_LAST_KNOWN = ("cost_status", "cost_source", "pricing_version")

_sessions = SESSIONS
_usage = SESSION_MODEL_USAGE


def _plus(table: Table, name: str) -> ColumnElement[Any]:
    # A NULL counter starts again at zero: NULL and a number are NULL for ever.
    return func.coalesce(table.c[name], constant(0)) + bindparam(name)


def _latest(table: Table, name: str) -> ColumnElement[Any]:
    return func.coalesce(bindparam(name), table.c[name])


_ROUTE = Statement(
    select(_sessions.c.api_call_count, *(_sessions.c[name] for name in Route._fields)).where(
        _sessions.c.id == bindparam("session_id")
    )
)
_LABELS: dict[str, Any] = {
    **{name: bindparam(name) for name in Route._fields},
    **{name: _latest(_sessions, name) for name in _LAST_KNOWN},
}
_ADD_TO_SESSION = Statement(
    update(_sessions)
    .where(_sessions.c.id == bindparam("known_id"))
    .values(
        {
            **_LABELS,
            **{name: _plus(_sessions, name) for name in (*COUNTERS, "estimated_cost_usd")},
            # The sum is NULL where none is given, and what was known then stays.
            "actual_cost_usd": func.coalesce(_plus(_sessions, "actual_cost_usd"), _sessions.c.actual_cost_usd),
        }
    )
)
_SET_ON_SESSION = Statement(
    update(_sessions)
    .where(_sessions.c.id == bindparam("known_id"))
    .values(
        {
            **_LABELS,
            **{name: bindparam(name) for name in (*COUNTERS, "estimated_cost_usd")},
            "actual_cost_usd": _latest(_sessions, "actual_cost_usd"),
        }
    )
)

_SUMS = (*COUNTERS, "estimated_cost_usd", "actual_cost_usd")
_ADD_TO_ROW = Statement(
    update(_usage)
    .where(*(_usage.c[name] == bindparam(f"known_{name}") for name in _KEY))
    .values(
        {
            **{name: _plus(_usage, name) for name in _SUMS},
            **{name: _latest(_usage, name) for name in ("cost_status", "cost_source")},
            "last_seen": bindparam("now"),
        }
    )
)
_INSERT_ROW = Statement(
    insert(_usage).values(
        {
            **{name: bindparam(f"known_{name}") for name in _KEY},
            **{name: bindparam(name) for name in (*_SUMS, "cost_status", "cost_source")},
            "first_seen": bindparam("now"),
            "last_seen": bindparam("now"),
        }
    )
)
_ROWS = Statement(
    select(*(_usage.c[name] for name in USAGE_COLUMNS))
    .where(_usage.c.session_id == bindparam("session_id"))
    .order_by(_usage.c.task, *(_usage.c[name] for name in Route._fields))
)


class UsageRepository:
    """Usage: totals per session, and rows per session, model, route and task."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    # -- reading --------------------------------------------------------------------------------------------

    def of_session(self, session_id: str) -> list[UsageRecord]:
        """The usage rows of a session, the main loop's first, then by task, model and route."""
        rows = self._connection.rows(_ROWS, {"session_id": session_id})
        return [UsageRecord(*row) for row in rows]

    def route(self, session_id: str) -> tuple[int, Route] | None:
        """How many calls a session has had, NULL as 0, and its route; None if there is no such session."""
        row = self._connection.row(_ROUTE, {"session_id": session_id})
        return None if row is None else (row[0] or 0, Route(*row[1:]))

    # -- writing --------------------------------------------------------------------------------------------

    def add_to_session(self, session_id: str, route: Route, amounts: Mapping[str, Any]) -> bool:
        """Raise the totals of a session and store its route; False if it is unknown. Rule USAGE-2.

        `amounts`: all of `COUNTERS` and both costs (USD), of which the actual one may be None; `cost_status`,
        `cost_source` and `pricing_version`, where None leaves what is stored.
        """
        return self._on_session(_ADD_TO_SESSION, session_id, route, amounts)

    def set_on_session(self, session_id: str, route: Route, totals: Mapping[str, Any]) -> bool:
        """Overwrite the totals of a session and store its route; False if it is unknown. Rule USAGE-2.

        `totals`: what `add_to_session` takes.
        """
        return self._on_session(_SET_ON_SESSION, session_id, route, totals)

    def _on_session(self, statement: Statement, session_id: str, route: Route, values: Mapping[str, Any]) -> bool:
        return self._connection.run(statement, {**values, **route._asdict(), "known_id": session_id}).rowcount > 0

    def add_to_row(self, session_id: str, route: Route, task: str, amounts: Mapping[str, Any], now: float) -> None:
        """Raise the counters of one usage row, which is made if it is not there. Rule USAGE-5.

        `amounts`: all of `COUNTERS`, both costs (USD), `cost_status` and `cost_source`. `now` in Unix seconds. Raises
        ForeignKeyFailed for an unknown session, ConstraintFailed for a route that lacks something.
        """
        values = {**amounts, "known_session_id": session_id, "known_task": task, "now": now}
        values.update({f"known_{name}": part for name, part in route._asdict().items()})
        if self._connection.run(_ADD_TO_ROW, values).rowcount == 0:
            self._connection.run(_INSERT_ROW, values)
