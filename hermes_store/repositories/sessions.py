"""The rows of the sessions table."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Select,
    Text,
    Update,
    bindparam,
    case,
    column,
    delete,
    func,
    insert,
    literal_column,
    null,
    or_,
    select,
    table,
    update,
)

from hermes_store.database.connection import Connection
from hermes_store.database.statements import Statement
from hermes_store.errors import AmbiguousSession, SessionNotFound
from hermes_store.models.tables import SESSIONS
from hermes_store.repositories.constructs import constant, id_list, ids_in, like_literal
from hermes_store.repositories.lineage import COMPRESSION, is_listable
from hermes_store.repositories.records import PROMPT_HASH, SESSION_COLUMNS, SessionRecord
from hermes_store.schema.traits import PROMPTS_BY_HASH

_table = SESSIONS
_c = _table.c
_ID: BindParameter[str] = bindparam("session_id")

BACKFILLED = (
    "model",
    "model_config",
    "system_prompt",
    "session_key",
    "chat_id",
    "chat_type",
    "thread_id",
    "parent_session_id",
    "cwd",
    "profile_name",
    "git_repo_root",
)
"""Columns that creating a session again fills where they are still NULL."""

WORKSPACE = ("cwd", "git_repo_root", "git_branch", "profile_name")
"""What a child takes over from its parent."""

IDENTITY = ("user_id", "session_key", "chat_id", "chat_type", "thread_id", "display_name", "origin_json")
"""What the continuation of a compressed session takes over as well."""


def _all_columns(*, by_hash: bool) -> Select[Any]:
    """Every column; where the file keeps prompts by hash, the prompt itself in the place of one that was moved."""
    if not by_hash:
        return select(*(_c[name] for name in SESSION_COLUMNS))
    found = select(_prompts.c.prompt).where(_prompts.c.hash == _prompt_hash).scalar_subquery()
    columns = [
        func.coalesce(found, _c.system_prompt).label(name) if name == "system_prompt" else _c[name]
        for name in SESSION_COLUMNS
    ]
    return select(*columns, _prompt_hash)


_prompts = table("system_prompts", column("hash"), column("prompt"))
_prompt_hash: ColumnElement[str] = literal_column(f"sessions.{PROMPT_HASH}", Text())


@cache
def _row(*, by_hash: bool) -> Statement:
    return Statement(_all_columns(by_hash=by_hash).where(_c.id == _ID))


@cache
def _rows(*, by_hash: bool) -> Statement:
    return Statement(_all_columns(by_hash=by_hash).where(_c.id.in_(ids_in("session_ids"))))


_EXISTING = Statement(select(_c.id).where(_c.id.in_(ids_in("session_ids"))))
_LIKE_PREFIX = Statement(select(_c.id).where(_c.id.like(bindparam("pattern"), escape="\\")).order_by(_c.id).limit(2))

_INSERT = Statement(
    insert(_table).values({name: bindparam(name) for name in ("id", "source", "user_id", *BACKFILLED, "started_at")})
)


@cache
def _fill(*, by_hash: bool) -> Statement:
    values: dict[str, ColumnElement[Any]] = {name: func.coalesce(_c[name], bindparam(name)) for name in BACKFILLED}
    if by_hash:
        # A session whose prompt was moved has one.
        values["system_prompt"] = case((_prompt_hash.is_(None), values["system_prompt"]), else_=_c.system_prompt)
    return Statement(update(_table).where(_c.id == bindparam("known_id")).values(values))


def _inherit(columns: tuple[str, ...]) -> Update:
    parent = _table.alias("parent")
    return (
        update(_table)
        .where(_c.id == bindparam("known_id"))
        .values(
            {
                name: func.coalesce(
                    _c[name],
                    select(parent.c[name]).where(parent.c.id == _c.parent_session_id).scalar_subquery(),
                )
                for name in columns
            }
        )
    )


_INHERIT_WORKSPACE = Statement(_inherit(WORKSPACE))
_parent = _table.alias("ended_parent")
_INHERIT_IDENTITY = Statement(
    _inherit(IDENTITY).where(
        select(_parent.c.end_reason).where(_parent.c.id == _c.parent_session_id).scalar_subquery()
        == constant(COMPRESSION)
    )
)

_END = Statement(
    update(_table)
    .where(_c.id == bindparam("known_id"), _c.ended_at.is_(None))
    .values(ended_at=bindparam("now"), end_reason=bindparam("reason"))
)
_REOPEN = Statement(update(_table).where(_c.id == bindparam("known_id")).values(ended_at=null(), end_reason=null()))
_CLOSING = Statement(select(_c.ended_at, _c.end_reason).where(_c.id == _ID))

# A NULL counter matches no row: the caller then counts anew instead of adding.
_COUNT_UP = Statement(
    update(_table)
    .where(_c.id == bindparam("known_id"), _c.message_count.is_not(None), _c.tool_call_count.is_not(None))
    .values(
        message_count=_c.message_count + bindparam("messages"),
        tool_call_count=_c.tool_call_count + bindparam("tool_calls"),
    )
)
_SET_COUNTS = Statement(
    update(_table)
    .where(_c.id == bindparam("known_id"))
    .values(message_count=bindparam("messages"), tool_call_count=bindparam("tool_calls"))
)
_ORPHAN = Statement(
    update(_table)
    .where(_c.parent_session_id.in_(ids_in("session_ids")), _c.id.not_in(ids_in("session_ids")))
    .values(parent_session_id=null())
)
# Members of one deletion may be each other's parents; no order of single deletes would please the foreign key.
_UNLINK = Statement(update(_table).where(_c.id.in_(ids_in("session_ids"))).values(parent_session_id=null()))
_DELETE = Statement(delete(_table).where(_c.id.in_(ids_in("session_ids"))))
_COUNT = Statement(select(func.count()).select_from(_table))
_ENDED = Statement(
    select(_c.id, _c.started_at, _c.source, _c.pinned, _c.archived).where(_c.ended_at.is_not(None)).order_by(_c.id)
)


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """Which sessions a listing shows. A filter that is left at its default does not restrict."""

    source: str | None = None
    sources: tuple[str, ...] = ()
    exclude_sources: tuple[str, ...] = ()
    session_key: str | None = None
    cwd_prefix: str | None = None
    min_message_count: int = 0
    include_children: bool = False
    include_archived: bool = False
    archived_only: bool = False
    pinned_only: bool = False

    def shape(self) -> "_Shape":
        """The filter without its values: one compiled statement serves all of one shape."""
        return _Shape(
            self.source is not None,
            bool(self.sources),
            bool(self.exclude_sources),
            self.session_key is not None,
            self.cwd_prefix is not None,
            self.min_message_count > 0,
            self.include_children,
            self.include_archived,
            self.archived_only,
            self.pinned_only,
        )


class _Shape(NamedTuple):
    """Which conditions a listing has."""

    source: bool
    sources: bool
    exclude_sources: bool
    session_key: bool
    cwd_prefix: bool
    min_message_count: bool
    include_children: bool
    include_archived: bool
    archived_only: bool
    pinned_only: bool


class SessionRepository:
    """Sessions: creating, reading, ending, counting, removing their rows."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._by_hash = PROMPTS_BY_HASH in connection.traits

    # -- reading --------------------------------------------------------------------------------------------

    def find_row(self, session_id: str) -> tuple[Any, ...] | None:
        """The raw row in the order of `SESSION_COLUMNS`, or None. In files that have it, the hash follows."""
        row: tuple[Any, ...] | None = self._connection.row(_row(by_hash=self._by_hash), {"session_id": session_id})
        return row

    def find(self, session_id: str) -> SessionRecord | None:
        """The session with exactly this id, or None."""
        row = self.find_row(session_id)
        return None if row is None else SessionRecord(*row)

    def get(self, session_id: str) -> SessionRecord:
        """The session with exactly this id. Raises SessionNotFound."""
        found = self.find(session_id)
        if found is None:
            raise SessionNotFound(session_id)
        return found

    def rows_of(self, session_ids: Collection[str]) -> dict[str, tuple[Any, ...]]:
        """Raw rows by id, of those ids that exist."""
        rows = self._connection.rows(_rows(by_hash=self._by_hash), {"session_ids": id_list(session_ids)})
        return {row[0]: row for row in rows}

    def existing(self, session_ids: Collection[str]) -> set[str]:
        """Those of the ids that exist."""
        return {row[0] for row in self._connection.rows(_EXISTING, {"session_ids": id_list(session_ids)})}

    def resolve(self, id_or_prefix: str) -> str:
        """The id that is named exactly or by an unambiguous beginning. Rule SESSION-5.

        Raises SessionNotFound, AmbiguousSession.
        """
        if self._connection.row(_CLOSING, {"session_id": id_or_prefix}) is not None:
            return id_or_prefix
        if not id_or_prefix:
            raise SessionNotFound(id_or_prefix)
        found = self._connection.rows(_LIKE_PREFIX, {"pattern": like_literal(id_or_prefix) + "%"})
        if not found:
            raise SessionNotFound(id_or_prefix)
        if len(found) > 1:
            raise AmbiguousSession(id_or_prefix)
        resolved: str = found[0][0]
        return resolved

    def count(self) -> int:
        """Number of sessions."""
        return int(self._connection.scalar(_COUNT))

    def closing(self, session_id: str) -> tuple[float | None, str | None] | None:
        """When and why the session ended; None if there is no such session."""
        row: tuple[float | None, str | None] | None = self._connection.row(_CLOSING, {"session_id": session_id})
        return row

    def page(self, wanted: SessionFilter, *, limit: int | None, offset: int = 0) -> list[tuple[Any, ...]]:
        """Raw rows, newest start first; None or a negative limit gives all. Rule LIST-1."""
        statement = _page_statement(wanted.shape(), by_hash=self._by_hash)
        values: dict[str, Any] = {
            "limit": -1 if limit is None else limit,
            "offset": max(offset, 0),
            "source": wanted.source,
            "session_key": wanted.session_key,
            "min_message_count": wanted.min_message_count,
        }
        if wanted.sources:
            values["sources"] = id_list(wanted.sources)
        if wanted.exclude_sources:
            values["exclude_sources"] = id_list(wanted.exclude_sources)
        if wanted.cwd_prefix is not None:
            folder = wanted.cwd_prefix.rstrip("/\\") or wanted.cwd_prefix
            values["cwd"] = folder
            values["below_slash"] = like_literal(folder) + "/%"
            values["below_backslash"] = like_literal(folder) + "\\\\%"
        return self._connection.rows(statement, values)

    def ended(self) -> list[tuple[str, float, str, int, int]]:
        """Id, start, source, pinned and archived flag of every session that has ended."""
        return self._connection.rows(_ENDED)

    # -- writing --------------------------------------------------------------------------------------------

    def create(self, values: Mapping[str, Any]) -> None:
        """Add a session, or fill what is still NULL in an existing one. Rule SESSION-1.

        `values`: id, source, user_id, started_at and all of `BACKFILLED`. Raises ForeignKeyFailed for an unknown
        parent, ConstraintFailed for a source that is None.
        """
        if self.closing(values["id"]) is None:
            self._connection.run(_INSERT, values)
        else:
            self._connection.run(_fill(by_hash=self._by_hash), {**values, "known_id": values["id"]})

    def inherit_from_parent(self, session_id: str) -> None:
        """Take over workspace and, from a compressed parent, identity, where still NULL. Rule SESSION-2."""
        self._connection.run(_INHERIT_WORKSPACE, {"known_id": session_id})
        self._connection.run(_INHERIT_IDENTITY, {"known_id": session_id})

    def end(self, session_id: str, reason: str | None, now: float) -> bool:
        """End a live session; False if it is unknown or ended already: the first reason stays. Rule SESSION-3."""
        return self._connection.run(_END, {"known_id": session_id, "reason": reason, "now": now}).rowcount > 0

    def reopen(self, session_id: str) -> bool:
        """Make a session live again; False if it is unknown."""
        return self._connection.run(_REOPEN, {"known_id": session_id}).rowcount > 0

    def count_up(self, session_id: str, messages: int, tool_calls: int) -> bool:
        """Raise the counters; False if the session is unknown or a counter is NULL and has to be counted anew."""
        values = {"known_id": session_id, "messages": messages, "tool_calls": tool_calls}
        return self._connection.run(_COUNT_UP, values).rowcount > 0

    def set_counts(self, session_id: str, messages: int, tool_calls: int) -> None:
        """Overwrite the counters."""
        self._connection.run(_SET_COUNTS, {"known_id": session_id, "messages": messages, "tool_calls": tool_calls})

    def delete(self, session_ids: Collection[str]) -> int:
        """Remove rows; children outside the set lose their parent. Returns the number removed. Rule DELETE-2."""
        values = {"session_ids": id_list(sorted(session_ids))}
        self._connection.run(_ORPHAN, values)
        self._connection.run(_UNLINK, values)
        return self._connection.run(_DELETE, values).rowcount


@cache
def _page_statement(shape: _Shape, *, by_hash: bool) -> Statement:
    query = _all_columns(by_hash=by_hash)
    if shape.source:
        query = query.where(_c.source == bindparam("source"))
    elif shape.sources:
        query = query.where(_c.source.in_(ids_in("sources")))
    if shape.exclude_sources:
        query = query.where(_c.source.not_in(ids_in("exclude_sources")))
    if shape.session_key:
        query = query.where(_c.session_key == bindparam("session_key"))
    if shape.cwd_prefix:
        query = query.where(
            or_(
                _c.cwd == bindparam("cwd"),
                _c.cwd.like(bindparam("below_slash"), escape="\\"),
                _c.cwd.like(bindparam("below_backslash"), escape="\\"),
            )
        )
    if shape.min_message_count:
        # A broken counter never hides a session.
        query = query.where(or_(_c.message_count.is_(None), _c.message_count >= bindparam("min_message_count")))
    if shape.archived_only:
        query = query.where(_c.archived == constant(1))
    elif not shape.include_archived:
        query = query.where(_c.archived == constant(0))
    if shape.pinned_only:
        query = query.where(_c.pinned == constant(1))
    if not shape.include_children:
        query = query.where(is_listable(_table))
    newest_first = (_c.started_at.desc(), _c.id.desc())
    return Statement(query.order_by(*newest_first).limit(bindparam("limit")).offset(bindparam("offset")))
