"""Messages: every row of every transcript."""

from typing import Any

from sqlalchemy import ForeignKey, Index, Integer, Text, text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from hermes_store.models.base import Base, Flag, JsonText, UnixTime
from hermes_store.models.sessions import Session


class Message(Base):
    """One message of a session. The order of a transcript is `id`, never `timestamp`.

    `active=1`: in the live transcript. `active=0, compacted=1`: archived by in-place compaction. Both 0: undone.
    Rows are only added by appends, archived by compaction, undone by a rewind, and deleted with their session or by an
    explicit rewrite.
    """

    __tablename__ = "messages"
    __table_args__ = {"sqlite_autoincrement": True}  # noqa: RUF012 - SQLAlchemy's own spelling; ids are never reused

    id: Mapped[int] = mapped_column(Integer, primary_key=True, nullable=True)
    session_id: Mapped[str] = mapped_column(ForeignKey("sessions.id"))
    role: Mapped[str] = mapped_column(Text)
    content: Mapped[str | None]  # text, or NUL + "json:" + JSON for structured content
    tool_call_id: Mapped[str | None]
    tool_calls: Mapped[Any | None] = mapped_column(JsonText)
    tool_name: Mapped[str | None]
    effect_disposition: Mapped[str | None]  # NULL, none, unknown: did the tool act on the world
    timestamp: Mapped[float] = mapped_column(UnixTime)
    token_count: Mapped[int | None]
    finish_reason: Mapped[str | None]
    reasoning: Mapped[str | None]
    reasoning_content: Mapped[str | None]
    reasoning_details: Mapped[Any | None] = mapped_column(JsonText)
    codex_reasoning_items: Mapped[Any | None] = mapped_column(JsonText)
    codex_message_items: Mapped[Any | None] = mapped_column(JsonText)
    platform_message_id: Mapped[str | None]
    observed: Mapped[bool | None] = mapped_column(Flag, server_default=text("0"))
    active: Mapped[bool] = mapped_column(Flag, server_default=text("1"))
    compacted: Mapped[bool] = mapped_column(Flag, server_default=text("0"))
    api_content: Mapped[str | None]  # what was sent to the provider where it differs from content
    display_kind: Mapped[str | None]
    display_metadata: Mapped[Any | None] = mapped_column(JsonText)

    # Tells the ORM to store a session before its messages; reading through it must be asked for.
    session: Mapped[Session] = relationship(lazy="raise")


_columns = Message.__table__.c

Index("idx_messages_session", _columns.session_id, _columns.timestamp)
Index("idx_messages_session_id", _columns.session_id, _columns.id)
Index(
    "idx_messages_platform_msg_id",
    _columns.session_id,
    _columns.platform_message_id,
    sqlite_where=_columns.platform_message_id.is_not(None),
)
Index("idx_messages_session_active", _columns.session_id, _columns.active, _columns.timestamp)
# Makes the search for NULL at every open cheap.
Index("idx_messages_active_null", _columns.active, sqlite_where=_columns.active.is_(None))
