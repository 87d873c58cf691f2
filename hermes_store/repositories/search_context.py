"""What stands beside a hit: the message before it and the one after (rule SEARCH-6)."""

import json
from collections.abc import Collection
from typing import Any

from sqlalchemy import func, or_, select

from hermes_store.conversation.content import decode_content, plain_text
from hermes_store.database.connection import Connection
from hermes_store.database.statements import Statement
from hermes_store.models.tables import MESSAGES
from hermes_store.repositories.constructs import constant, numbers_in

CONTEXT_CHARACTERS = 200

_c = MESSAGES.c
_prev, _next = MESSAGES.alias("previous"), MESSAGES.alias("following")
_NEIGHBOURS = Statement(
    select(
        _c.id,
        select(func.max(_prev.c.id))
        .where(
            _prev.c.session_id == _c.session_id,
            _prev.c.id < _c.id,
            or_(_prev.c.active == constant(1), _prev.c.compacted == constant(1)),
        )
        .scalar_subquery(),
        select(func.min(_next.c.id))
        .where(
            _next.c.session_id == _c.session_id,
            _next.c.id > _c.id,
            or_(_next.c.active == constant(1), _next.c.compacted == constant(1)),
        )
        .scalar_subquery(),
    ).where(_c.id.in_(numbers_in("message_ids")))
)
_TEXTS = Statement(select(_c.id, _c.role, _c.content).where(_c.id.in_(numbers_in("message_ids"))))


def contexts_of(connection: Connection, hits: Collection[int]) -> dict[int, list[tuple[str, str]]]:
    """Role and text before, of and after each hit, in insertion order, undone rows passed over; two statements."""
    around = {
        hit: tuple(row for row in (before, hit, after) if row is not None)
        for hit, before, after in connection.rows(_NEIGHBOURS, {"message_ids": json.dumps(list(hits))})
    }
    wanted = sorted({row for rows in around.values() for row in rows})
    texts = {
        row_id: (role, _text(content))
        for row_id, role, content in connection.rows(_TEXTS, {"message_ids": json.dumps(wanted)})
    }
    return {hit: [texts[row] for row in rows if row in texts] for hit, rows in around.items()}


def _text(content: Any) -> str:
    if type(content) is str and content[:1] != "\0":
        return content[:CONTEXT_CHARACTERS]
    return plain_text(decode_content(content))[:CONTEXT_CHARACTERS]
