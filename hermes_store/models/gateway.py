"""Rows that the gateway and its helpers keep beside the sessions."""

from typing import Any

from sqlalchemy import Index, Integer, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from hermes_store.models.base import Base, JsonText, UnixTime

_EMPTY = text("''")


class GatewayRouting(Base):
    """Which session a chat is talking to; written and replaced by the gateway, scope by scope."""

    __tablename__ = "gateway_routing"

    scope: Mapped[str] = mapped_column(Text, primary_key=True, server_default=_EMPTY)
    session_key: Mapped[str] = mapped_column(Text, primary_key=True)
    entry_json: Mapped[Any] = mapped_column(JsonText)
    updated_at: Mapped[float] = mapped_column(UnixTime)


class CompressionLock(Base):
    """A lease on a session while it is compressed; the holder's text contains `pid=<n>`.

    No foreign key: a lock may name a session that is not there.
    """

    __tablename__ = "compression_locks"

    session_id: Mapped[str] = mapped_column(Text, primary_key=True, nullable=True)
    holder: Mapped[str] = mapped_column(Text)
    acquired_at: Mapped[float] = mapped_column(UnixTime)
    expires_at: Mapped[float] = mapped_column(UnixTime)


class AsyncDelegation(Base):
    """A task that was handed to another process, and the delivery of its result.

    Files differ: the delegation tool adds `origin_session_id` itself, in one of two shapes, so it is not declared.
    """

    __tablename__ = "async_delegations"

    delegation_id: Mapped[str] = mapped_column(Text, primary_key=True, nullable=True)
    origin_session: Mapped[str] = mapped_column(Text)
    origin_ui_session_id: Mapped[str] = mapped_column(Text, server_default=_EMPTY)
    parent_session_id: Mapped[str | None]
    state: Mapped[str] = mapped_column(Text)
    dispatched_at: Mapped[float] = mapped_column(UnixTime)
    completed_at: Mapped[float | None] = mapped_column(UnixTime)
    updated_at: Mapped[float] = mapped_column(UnixTime)
    event_json: Mapped[Any | None] = mapped_column(JsonText)
    result_json: Mapped[Any | None] = mapped_column(JsonText)
    delivery_state: Mapped[str] = mapped_column(Text, server_default=text("'pending'"))
    delivery_attempts: Mapped[int] = mapped_column(Integer, server_default=text("0"))
    delivered_at: Mapped[float | None] = mapped_column(UnixTime)
    owner_pid: Mapped[int | None]
    owner_started_at: Mapped[int | None]
    task_json: Mapped[Any | None] = mapped_column(JsonText)
    delivery_claim: Mapped[str | None]
    delivery_claimed_at: Mapped[float | None] = mapped_column(UnixTime)


Index("idx_compression_locks_expires", CompressionLock.__table__.c.expires_at)
Index(
    "idx_async_delegations_delivery",
    AsyncDelegation.__table__.c.delivery_state,
    AsyncDelegation.__table__.c.completed_at,
)
