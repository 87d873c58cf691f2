"""Sessions: one row per conversation segment of an agent."""

from typing import Any

from sqlalchemy import REAL, ForeignKey, Index, Integer, Text, text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from hermes_store.models.base import Base, Flag, JsonText, UnixTime

ZERO = text("0")


class Session(Base):
    """A session: who talked to the agent, from where, with which model, at what cost.

    Written by whoever runs the agent; deleted only on request or by retention. A session that was compressed is ended
    with the reason `compression` and continued by a child; branches and delegate runs are children too, told apart by
    the markers `_branched_from` and `_delegate_from` in `model_config`.
    """

    __tablename__ = "sessions"

    # Nullable, as the files have it: a TEXT PRIMARY KEY of SQLite admits NULL.
    id: Mapped[str] = mapped_column(Text, primary_key=True, nullable=True)
    source: Mapped[str] = mapped_column(Text)  # platform: cli, telegram, discord, cron, tool, ...
    user_id: Mapped[str | None]
    session_key: Mapped[str | None]  # routing key of the gateway
    chat_id: Mapped[str | None]
    chat_type: Mapped[str | None]
    thread_id: Mapped[str | None]
    display_name: Mapped[str | None]
    origin_json: Mapped[Any | None] = mapped_column(JsonText)
    expiry_finalized: Mapped[bool | None] = mapped_column(Flag, server_default=ZERO)
    model: Mapped[str | None]
    model_config: Mapped[Any | None] = mapped_column(JsonText)  # also carries the lineage markers
    system_prompt: Mapped[str | None]
    parent_session_id: Mapped[str | None] = mapped_column(ForeignKey("sessions.id"))
    started_at: Mapped[float] = mapped_column(UnixTime)
    ended_at: Mapped[float | None] = mapped_column(UnixTime)  # NULL while the session lives
    end_reason: Mapped[str | None]
    message_count: Mapped[int | None] = mapped_column(Integer, server_default=ZERO)
    tool_call_count: Mapped[int | None] = mapped_column(Integer, server_default=ZERO)
    input_tokens: Mapped[int | None] = mapped_column(Integer, server_default=ZERO)
    output_tokens: Mapped[int | None] = mapped_column(Integer, server_default=ZERO)
    cache_read_tokens: Mapped[int | None] = mapped_column(Integer, server_default=ZERO)
    cache_write_tokens: Mapped[int | None] = mapped_column(Integer, server_default=ZERO)
    reasoning_tokens: Mapped[int | None] = mapped_column(Integer, server_default=ZERO)
    cwd: Mapped[str | None]
    git_branch: Mapped[str | None]
    git_repo_root: Mapped[str | None]
    billing_provider: Mapped[str | None]
    billing_base_url: Mapped[str | None]
    billing_mode: Mapped[str | None]
    estimated_cost_usd: Mapped[float | None] = mapped_column(REAL)
    actual_cost_usd: Mapped[float | None] = mapped_column(REAL)
    cost_status: Mapped[str | None]  # actual, estimated, included, unknown
    cost_source: Mapped[str | None]
    pricing_version: Mapped[str | None]
    title: Mapped[str | None]  # unique where not NULL
    last_activity_at: Mapped[float | None] = mapped_column(UnixTime)  # heartbeat within a turn
    last_activity_description: Mapped[str | None]
    last_activity_provenance: Mapped[str | None]
    api_call_count: Mapped[int | None] = mapped_column(Integer, server_default=ZERO)
    handoff_state: Mapped[str | None]  # NULL, pending, running, completed, failed
    handoff_platform: Mapped[str | None]
    handoff_error: Mapped[str | None]
    compression_failure_cooldown_until: Mapped[float | None] = mapped_column(UnixTime)
    compression_failure_error: Mapped[str | None]
    compression_fallback_streak: Mapped[int] = mapped_column(Integer, server_default=ZERO)
    compression_ineffective_count: Mapped[int] = mapped_column(Integer, server_default=ZERO)
    profile_name: Mapped[str | None]
    rewind_count: Mapped[int] = mapped_column(Integer, server_default=ZERO)
    archived: Mapped[bool] = mapped_column(Flag, server_default=ZERO)
    pinned: Mapped[bool] = mapped_column(Flag, server_default=ZERO)
    last_read_at: Mapped[float | None] = mapped_column(UnixTime)

    # Tells the ORM to store a parent before its children; reading through it must be asked for.
    parent: Mapped["Session | None"] = relationship(remote_side="Session.id", lazy="raise")


_columns = Session.__table__.c

Index("idx_sessions_source", _columns.source)
Index("idx_sessions_source_id", _columns.source, _columns.id)
Index("idx_sessions_parent", _columns.parent_session_id)
# `.desc()`, not text: an index written as text differs from itself at every comparison.
Index("idx_sessions_started", _columns.started_at.desc())
Index("idx_sessions_session_key", _columns.session_key, _columns.started_at.desc())
Index(
    "idx_sessions_gateway_peer",
    _columns.source,
    _columns.user_id,
    _columns.chat_id,
    _columns.chat_type,
    _columns.thread_id,
    _columns.started_at.desc(),
)
Index("idx_sessions_handoff_state", _columns.handoff_state, _columns.started_at)
Index("idx_sessions_title_unique", _columns.title, unique=True, sqlite_where=_columns.title.is_not(None))
