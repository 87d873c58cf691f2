"""Tables that a feature makes when it is used for the first time."""

from sqlalchemy import Column, ForeignKey, Index, Integer, Table, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from hermes_store.models.base import Flag, OnDemandBase, UnixTime

# Only so that foreign keys of this MetaData can name it; never created from here.
sessions_reference = Table("sessions", OnDemandBase.metadata, Column("id", Text, primary_key=True, nullable=True))


class DeliveryObligation(OnDemandBase):
    """A reply that is owed to a chat until it was delivered or given up."""

    __tablename__ = "delivery_obligations"

    obligation_id: Mapped[str] = mapped_column(Text, primary_key=True, nullable=True)
    session_key: Mapped[str] = mapped_column(Text)
    platform: Mapped[str] = mapped_column(Text)
    chat_id: Mapped[str] = mapped_column(Text)
    thread_id: Mapped[str | None]
    content: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(Text)  # pending, attempting, delivered, failed, abandoned
    attempts: Mapped[int] = mapped_column(Integer, server_default=text("0"))
    created_at: Mapped[float] = mapped_column(UnixTime)
    updated_at: Mapped[float] = mapped_column(UnixTime)
    owner_pid: Mapped[int | None]
    owner_started_at: Mapped[int | None]
    last_error: Mapped[str | None]


class TelegramTopicMode(OnDemandBase):
    """A Telegram chat that opted in to topics."""

    __tablename__ = "telegram_dm_topic_mode"

    chat_id: Mapped[str] = mapped_column(Text, primary_key=True, nullable=True)
    user_id: Mapped[str] = mapped_column(Text)
    enabled: Mapped[bool] = mapped_column(Flag, server_default=text("1"))
    activated_at: Mapped[float] = mapped_column(UnixTime)
    updated_at: Mapped[float] = mapped_column(UnixTime)
    has_topics_enabled: Mapped[bool | None] = mapped_column(Flag)
    allows_users_to_create_topics: Mapped[bool | None] = mapped_column(Flag)
    capability_checked_at: Mapped[float | None] = mapped_column(UnixTime)
    intro_message_id: Mapped[str | None]
    pinned_message_id: Mapped[str | None]


class TelegramTopicBinding(OnDemandBase):
    """Which session a Telegram topic shows; gone with its session."""

    __tablename__ = "telegram_dm_topic_bindings"

    chat_id: Mapped[str] = mapped_column(Text, primary_key=True)
    thread_id: Mapped[str] = mapped_column(Text, primary_key=True)
    user_id: Mapped[str] = mapped_column(Text)
    session_key: Mapped[str] = mapped_column(Text)
    session_id: Mapped[str] = mapped_column(ForeignKey("sessions.id", ondelete="CASCADE"))
    managed_mode: Mapped[str] = mapped_column(Text, server_default=text("'auto'"))
    linked_at: Mapped[float] = mapped_column(UnixTime)
    updated_at: Mapped[float] = mapped_column(UnixTime)


_bindings = TelegramTopicBinding.__table__.c

Index("idx_telegram_dm_topic_bindings_session", _bindings.session_id, unique=True)
Index("idx_telegram_dm_topic_bindings_user", _bindings.user_id, _bindings.chat_id)

ON_DEMAND_TABLES = frozenset(OnDemandBase.metadata.tables) - {"sessions"}
"""Names of the tables that are made on demand."""
