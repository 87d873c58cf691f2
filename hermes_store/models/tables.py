"""The tables themselves, for statements in SQLAlchemy Core."""

from sqlalchemy import Table

from hermes_store.models.base import Base, OnDemandBase
from hermes_store.models.gateway import CompressionLock
from hermes_store.models.messages import Message
from hermes_store.models.meta import StateMeta
from hermes_store.models.on_demand import TelegramTopicBinding
from hermes_store.models.sessions import Session
from hermes_store.models.usage import SessionModelUsage

SESSIONS: Table = Base.metadata.tables[Session.__tablename__]
SESSION_MODEL_USAGE: Table = Base.metadata.tables[SessionModelUsage.__tablename__]
MESSAGES: Table = Base.metadata.tables[Message.__tablename__]
TOPIC_BINDINGS: Table = OnDemandBase.metadata.tables[TelegramTopicBinding.__tablename__]
STATE_META: Table = Base.metadata.tables[StateMeta.__tablename__]
COMPRESSION_LOCKS: Table = Base.metadata.tables[CompressionLock.__tablename__]
