"""Tokens and cost per session, model, route and task."""

from sqlalchemy import REAL, ForeignKey, Index, Integer, Text, text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from hermes_store.models.base import Base, UnixTime
from hermes_store.models.sessions import Session

_EMPTY = text("''")
_ZERO = text("0")


class SessionModelUsage(Base):
    """What one session spent on one model over one route; `task` is empty for the main loop.

    Written with every accounted call, deleted with its session.
    """

    __tablename__ = "session_model_usage"

    session_id: Mapped[str] = mapped_column(ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True)
    model: Mapped[str] = mapped_column(Text, primary_key=True)
    billing_provider: Mapped[str] = mapped_column(Text, primary_key=True, server_default=_EMPTY)
    billing_base_url: Mapped[str] = mapped_column(Text, primary_key=True, server_default=_EMPTY)
    billing_mode: Mapped[str] = mapped_column(Text, primary_key=True, server_default=_EMPTY)
    task: Mapped[str] = mapped_column(Text, primary_key=True, server_default=_EMPTY)
    api_call_count: Mapped[int] = mapped_column(Integer, server_default=_ZERO)
    input_tokens: Mapped[int] = mapped_column(Integer, server_default=_ZERO)
    output_tokens: Mapped[int] = mapped_column(Integer, server_default=_ZERO)
    cache_read_tokens: Mapped[int] = mapped_column(Integer, server_default=_ZERO)
    cache_write_tokens: Mapped[int] = mapped_column(Integer, server_default=_ZERO)
    reasoning_tokens: Mapped[int] = mapped_column(Integer, server_default=_ZERO)
    estimated_cost_usd: Mapped[float] = mapped_column(REAL, server_default=_ZERO)
    actual_cost_usd: Mapped[float] = mapped_column(REAL, server_default=_ZERO)
    cost_status: Mapped[str | None]
    cost_source: Mapped[str | None]
    first_seen: Mapped[float | None] = mapped_column(UnixTime)
    last_seen: Mapped[float | None] = mapped_column(UnixTime)

    # Tells the ORM to store a session before its usage; reading through it must be asked for.
    session: Mapped[Session] = relationship(lazy="raise")


Index("idx_session_model_usage_session", SessionModelUsage.__table__.c.session_id)
Index("idx_session_model_usage_model", SessionModelUsage.__table__.c.model)
