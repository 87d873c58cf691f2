"""How sessions hang together, and the one rule that tells the kinds of edges apart (rules LINEAGE-*).

A child names its parent in `parent_session_id`. The edge is, first match wins:

- delegate: `_delegate_from` in the child's `model_config` names this parent;
- branch: `_branched_from` names this parent, or the parent ended as `branched` before the child began;
- continuation: the parent ended by `compression` and the child is no tool run;
- plain: anything else.

Every walk over lineage asks the clauses below; a new kind of edge is added here and nowhere else.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, FromClause, and_, exists, false, func, not_, or_, select

from hermes_store.database.connection import Connection
from hermes_store.database.statements import Statement
from hermes_store.models.tables import SESSIONS
from hermes_store.repositories.constructs import constant, id_list, ids_in, json_value
from hermes_store.text import scrub, scrub_if_text

_sessions = SESSIONS

COMPRESSION = "compression"
BRANCHED = "branched"


def _names(child: FromClause, marker: str, parent: FromClause) -> ColumnElement[bool]:
    # NULL where there is no such marker; COALESCE keeps NOT() of it true.
    return func.coalesce(json_value(child.c.model_config, marker) == parent.c.id, false())


def is_continuation(child: FromClause, parent: FromClause) -> ColumnElement[bool]:
    """The edge between two rows, of which `child` names `parent`, goes on with a compressed conversation."""
    return and_(
        # COALESCE, so that NOT() of it is true for a parent that is still live.
        func.coalesce(parent.c.end_reason, constant("")) == constant(COMPRESSION),
        child.c.source != constant("tool"),
        not_(_names(child, "_delegate_from", parent)),
        not_(_names(child, "_branched_from", parent)),
    )


def is_listable(session: FromClause) -> ColumnElement[bool]:
    """The session heads a conversation of its own: it has no parent, or is a branch; delegate runs never are."""
    parent = _sessions.alias("parent")
    continues = exists().where(parent.c.id == session.c.parent_session_id, is_continuation(session, parent))
    began_after_branching = exists().where(
        parent.c.id == session.c.parent_session_id,
        parent.c.end_reason == constant(BRANCHED),
        session.c.started_at >= parent.c.ended_at,
    )
    is_marked = json_value(session.c.model_config, "_branched_from").is_not(None)
    return and_(
        or_(session.c.parent_session_id.is_(None), and_(is_marked, not_(continues)), began_after_branching),
        json_value(session.c.model_config, "_delegate_from").is_(None),
    )


@dataclass(frozen=True, slots=True)
class Continuation:
    """One continuation edge of a conversation, with what decides between siblings."""

    id: str
    parent_id: str
    started_at: float
    ended_at: float | None
    end_reason: str | None
    last_activity_at: float | None


_start = select(_sessions.c.id.label("id")).where(_sessions.c.id.in_(ids_in("session_ids")))

_child, _parent = _sessions.alias("child"), _sessions.alias("parent")

# UNION, not UNION ALL: a cycle ends because its rows are already there.
_down = _start.cte("down", recursive=True)
_down = _down.union(
    select(_child.c.id)
    .select_from(_down)
    .join(_parent, _parent.c.id == _down.c.id)
    .join(_child, _child.c.parent_session_id == _parent.c.id)
    .where(is_continuation(_child, _parent))
)
_CONTINUATIONS = Statement(
    select(
        _child.c.id,
        _child.c.parent_session_id,
        _child.c.started_at,
        _child.c.ended_at,
        _child.c.end_reason,
        _child.c.last_activity_at,
    )
    .join_from(_child, _parent, _parent.c.id == _child.c.parent_session_id)
    .where(_child.c.parent_session_id.in_(select(_down.c.id)), is_continuation(_child, _parent))
)

_ALL_EDGES = Statement(
    select(_child.c.id, _parent.c.id)
    .join_from(_child, _parent, _parent.c.id == _child.c.parent_session_id)
    .where(is_continuation(_child, _parent))
)

_up = _start.cte("up", recursive=True)
_up = _up.union(
    select(_child.c.parent_session_id)
    .select_from(_up)
    .join(_child, _child.c.id == _up.c.id)
    .where(_child.c.parent_session_id.is_not(None))
)
_ANCESTRY = Statement(select(_sessions.c.id, _sessions.c.parent_session_id).where(_sessions.c.id.in_(select(_up.c.id))))

_up_compressed = _start.cte("up_compressed", recursive=True)
_up_compressed = _up_compressed.union(
    select(_parent.c.id)
    .select_from(_up_compressed)
    .join(_child, _child.c.id == _up_compressed.c.id)
    .join(_parent, _parent.c.id == _child.c.parent_session_id)
    .where(is_continuation(_child, _parent))
)
_CONTINUED_FROM = Statement(select(_up_compressed.c.id))

# The marker is read in Python: SQLite would hand out a lone surrogate of it as bytes that are no text.
_DELEGATES = Statement(
    select(_sessions.c.id, _sessions.c.parent_session_id, _sessions.c.model_config).where(
        _sessions.c.model_config.contains("_delegate_from")
    )
)


class LineageRepository:
    """Walks over the edges between sessions. All of them end on cycles, and none is bounded in depth."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def root_to_tip(self, session_id: str) -> list[str]:
        """The ids from the oldest ancestor down to this session, whatever the kind of edge. Rule LINEAGE-2."""
        session_id = scrub_if_text(session_id)
        parents = dict(self._connection.rows(_ANCESTRY, _of([session_id])))
        chain = [session_id]
        seen = {session_id}
        current = parents.get(session_id)
        while current is not None and current in parents and current not in seen:
            chain.append(current)
            seen.add(current)
            current = parents[current]
        chain.reverse()
        return chain

    def continued_from(self, session_id: str) -> set[str]:
        """Ids of the sessions that this one continues, over compression edges only, itself left out."""
        return {row[0] for row in self._connection.rows(_CONTINUED_FROM, _of([session_id]))} - {session_id}

    def continuations(self, session_ids: Collection[str]) -> list[Continuation]:
        """Every continuation edge below these sessions."""
        return [Continuation(*row) for row in self._connection.rows(_CONTINUATIONS, _of(session_ids))]

    def conversations(self) -> list[set[str]]:
        """Every conversation of more than one segment in the store, as the set of its ids; one statement."""
        group_of: dict[str, set[str]] = {}
        for child, parent in self._connection.rows(_ALL_EDGES):
            merged = group_of.get(child, {child}) | group_of.get(parent, {parent})
            for member in merged:
                group_of[member] = merged
        return list({id(group): group for group in group_of.values()}.values())

    def conversation_of(self, session_ids: Collection[str]) -> set[str]:
        """All segments of the conversations that these sessions belong to, themselves included. Rule LINEAGE-3."""
        above = {row[0] for row in self._connection.rows(_CONTINUED_FROM, _of(session_ids))}
        return above | set(session_ids) | {edge.id for edge in self.continuations(above | set(session_ids))}

    def delegates_of(self, session_ids: Collection[str]) -> set[str]:
        """Delegate runs started from these sessions, and from those runs in turn. Rule LINEAGE-4."""
        delegates = [
            (run, parent, marker)
            for run, parent, config in self._connection.rows(_DELEGATES)
            if (marker := _marker(config, "_delegate_from")) is not None
        ]
        found: set[str] = set()
        owners = set(session_ids)
        while owners:
            owners = {
                run
                for run, parent, marker in delegates
                if (marker in owners or parent in owners) and run not in found and run not in session_ids
            }
            found |= owners
        return found


def _marker(model_config: str, key: str) -> str | None:
    try:
        value = json.loads(model_config)
    except (ValueError, RecursionError):
        return None
    marker = value.get(key) if isinstance(value, dict) else None
    return None if marker is None else scrub(str(marker))


def _of(session_ids: Collection[str]) -> dict[str, Any]:
    return {"session_ids": id_list(session_ids)}
