"""Leases on sessions that are being compressed."""

from sqlalchemy import bindparam, select

from hermes_store.database.connection import Connection
from hermes_store.database.statements import Statement
from hermes_store.models.tables import COMPRESSION_LOCKS

_table = COMPRESSION_LOCKS

_LIVE_HOLDER = Statement(
    select(_table.c.holder).where(
        _table.c.session_id == bindparam("session_id"), _table.c.expires_at > bindparam("now")
    )
)


class LockRepository:
    """Who compresses which session, and until when."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def live_holder(self, session_id: str, now: float) -> str | None:
        """The holder of a lease that has not run out, or None; leases that ran out are ignored, not removed."""
        holder: str | None = self._connection.scalar(_LIVE_HOLDER, {"session_id": session_id, "now": now})
        return holder
