"""The rows of the transcripts."""

from collections.abc import Collection, Mapping
from operator import itemgetter
from typing import Any

from sqlalchemy import and_, bindparam, case, delete, func, insert, select

from hermes_store.conversation.content import decode_content, decode_display_metadata, decode_tool_calls
from hermes_store.conversation.preview import SKILL_CHARACTERS, SKILL_PREFIX
from hermes_store.conversation.replay import REPLAY_COLUMNS
from hermes_store.database.connection import Connection
from hermes_store.database.statements import Statement
from hermes_store.models.tables import MESSAGES
from hermes_store.repositories.constructs import constant, id_list, ids_in, like_literal
from hermes_store.repositories.records import MESSAGE_COLUMNS, MessageRecord

_table = MESSAGES
_c = _table.c

WRITTEN_COLUMNS = tuple(name for name in MESSAGE_COLUMNS if name != "id")
"""The columns that `insert` takes, all of them."""

_PREVIEW_CHARACTERS = 63
_UNLIMITED = -1

_INSERT = Statement(insert(_table).values({name: bindparam(name) for name in WRITTEN_COLUMNS}))

_ALL_COLUMNS = select(*(_c[name] for name in MESSAGE_COLUMNS))
_OF_SESSION = _ALL_COLUMNS.where(_c.session_id == bindparam("session_id")).order_by(_c.id)
_PAGED = _OF_SESSION.limit(bindparam("limit")).offset(bindparam("offset"))
_LIVE = _c.active == constant(1)
# Keyed by (include inactive rows, paged).
_ROWS = {
    (False, False): Statement(_OF_SESSION.where(_LIVE)),
    (True, False): Statement(_OF_SESSION),
    (False, True): Statement(_PAGED.where(_LIVE)),
    (True, True): Statement(_PAGED),
}

_REPLAY_COLUMNS = select(*(_c[name] for name in REPLAY_COLUMNS))
_REPLAY = {
    False: Statement(_REPLAY_COLUMNS.where(_c.session_id == bindparam("session_id"), _LIVE).order_by(_c.id)),
    True: Statement(_REPLAY_COLUMNS.where(_c.session_id == bindparam("session_id")).order_by(_c.id)),
}
_REPLAY_ID = REPLAY_COLUMNS.index("id")

_COUNT_ALL = Statement(select(func.count()).select_from(_table))
_COUNT_LIVE = Statement(select(func.count()).select_from(_table).where(_LIVE))
_COUNT = Statement(select(func.count()).select_from(_table).where(_c.session_id == bindparam("session_id")))
_ACTIVE_CALLS = Statement(select(_c.tool_calls).where(_c.session_id == bindparam("session_id"), _LIVE))
_DELETE = Statement(delete(_table).where(_c.session_id.in_(ids_in("session_ids"))))

_ids = ids_in("session_ids").subquery("asked")
_LAST_TIMES = Statement(
    select(
        _ids.c.value,
        select(func.max(_c.timestamp)).where(_c.session_id == _ids.c.value).scalar_subquery(),
    )
)
_is_skill = _c.content.like(like_literal(SKILL_PREFIX) + "%", escape="\\")
_half = SKILL_CHARACTERS // 2
_preview_source = case(
    (and_(_is_skill, func.length(_c.content) <= SKILL_CHARACTERS), _c.content),
    (_is_skill, func.substr(_c.content, 1, _half).concat("\x1e").concat(func.substr(_c.content, -_half))),
    else_=func.substr(_c.content, 1, _PREVIEW_CHARACTERS),
)
_FIRST_USER_TEXTS = Statement(
    select(
        _ids.c.value,
        select(_preview_source)
        .where(_c.session_id == _ids.c.value, _c.role == constant("user"), _c.content.is_not(None))
        .order_by(_c.id)
        .limit(constant(1))
        .scalar_subquery(),
    )
)


class MessageRepository:
    """Messages of sessions: `rows` and `replay_rows` give tuples, for loops; `of_session` gives records, for people."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def insert(self, values: Mapping[str, Any]) -> int:
        """Add one row with all of `WRITTEN_COLUMNS`; returns its id. Raises ForeignKeyFailed for an unknown session."""
        row_id = self._connection.run(_INSERT, values).lastrowid
        assert row_id is not None  # noqa: S101 - an INSERT gives one
        return row_id

    def rows(
        self, session_id: str, *, include_inactive: bool = False, limit: int | None = None, offset: int = 0
    ) -> list[tuple[Any, ...]]:
        """Raw rows in the order of `MESSAGE_COLUMNS`, oldest first. Rule READ-4."""
        values: dict[str, Any] = {"session_id": session_id}
        paged = limit is not None or offset != 0
        if paged:
            values["limit"] = _UNLIMITED if limit is None or limit < 0 else limit
            values["offset"] = max(offset, 0)
        return self._connection.rows(_ROWS[include_inactive, paged], values)

    def of_session(
        self, session_id: str, *, include_inactive: bool = False, limit: int | None = None, offset: int = 0
    ) -> list[MessageRecord]:
        """The messages of a session, oldest first; live ones only unless asked otherwise. Rule READ-4."""
        rows = self.rows(session_id, include_inactive=include_inactive, limit=limit, offset=offset)
        return [record_of(row) for row in rows]

    def replay_rows(self, session_ids: Collection[str], *, include_inactive: bool = False) -> list[tuple[Any, ...]]:
        """Raw rows of `REPLAY_COLUMNS` of one or several sessions, in insertion order across them."""
        # A statement each: asked for a list of sessions, the planner may walk the whole table instead.
        statement = _REPLAY[include_inactive]
        rows = [row for each in session_ids for row in self._connection.rows(statement, {"session_id": each})]
        if len(session_ids) > 1:
            rows.sort(key=itemgetter(_REPLAY_ID))
        return rows

    def count(self, session_id: str | None = None) -> int:
        """Number of rows, inactive ones included; of the whole store without an id."""
        if session_id is None:
            return int(self._connection.scalar(_COUNT_ALL))
        return int(self._connection.scalar(_COUNT, {"session_id": session_id}))

    def count_live(self) -> int:
        """Number of live rows of the whole store."""
        return int(self._connection.scalar(_COUNT_LIVE))

    def active_tool_calls(self, session_id: str) -> list[str | None]:
        """The tool calls column of every live row: as many entries as there are live rows."""
        return [calls for (calls,) in self._connection.rows(_ACTIVE_CALLS, {"session_id": session_id})]

    def delete_of(self, session_ids: Collection[str]) -> int:
        """Remove every row of these sessions; returns the number."""
        return self._connection.run(_DELETE, {"session_ids": id_list(sorted(session_ids))}).rowcount

    def last_times(self, session_ids: Collection[str]) -> dict[str, float | None]:
        """The newest message timestamp of each session, None where it has no message."""
        return dict(self._connection.rows(_LAST_TIMES, {"session_ids": id_list(session_ids)}))

    def first_user_texts(self, session_ids: Collection[str]) -> dict[str, str | None]:
        """The beginning of each session's first user message, as much as a preview needs."""
        return dict(self._connection.rows(_FIRST_USER_TEXTS, {"session_ids": id_list(session_ids)}))


_CONTENT = MESSAGE_COLUMNS.index("content")
_TOOL_CALLS = MESSAGE_COLUMNS.index("tool_calls")
_DISPLAY_METADATA = MESSAGE_COLUMNS.index("display_metadata")


def decode_row(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A raw row with content, tool calls and display metadata decoded; the other JSON columns stay text."""
    content, tool_calls, metadata = row[_CONTENT], row[_TOOL_CALLS], row[_DISPLAY_METADATA]
    structured = type(content) is str and content[:1] == "\0"
    if not structured and not tool_calls and metadata is None:
        return row
    decoded = list(row)
    decoded[_CONTENT] = decode_content(content)
    decoded[_TOOL_CALLS] = decode_tool_calls(tool_calls)
    decoded[_DISPLAY_METADATA] = decode_display_metadata(metadata)
    return tuple(decoded)


def record_of(row: tuple[Any, ...]) -> MessageRecord:
    """The record of a raw row."""
    return MessageRecord(*decode_row(row))
