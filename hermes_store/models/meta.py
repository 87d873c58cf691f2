"""The stamp of the schema, and the key-value table of the store."""

from sqlalchemy import Column, Integer, Table, Text
from sqlalchemy.orm import Mapped, mapped_column

from hermes_store.models.base import Base

# A plain table: it has no key, so it cannot be an entity. Convention keeps it at one row.
schema_version = Table("schema_version", Base.metadata, Column("version", Integer, nullable=False))


class StateMeta(Base):
    """One setting or progress mark of the store; the value is always text."""

    __tablename__ = "state_meta"

    key: Mapped[str] = mapped_column(Text, primary_key=True, nullable=True)
    value: Mapped[str | None]
