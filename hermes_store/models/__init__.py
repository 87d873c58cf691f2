"""The tables of a state.db as SQLAlchemy models: the only definition of a table or an ordinary index."""

from hermes_store.models.base import Base, OnDemandBase
from hermes_store.models.gateway import AsyncDelegation, CompressionLock, GatewayRouting
from hermes_store.models.messages import Message
from hermes_store.models.meta import StateMeta, schema_version
from hermes_store.models.on_demand import (
    ON_DEMAND_TABLES,
    DeliveryObligation,
    TelegramTopicBinding,
    TelegramTopicMode,
)
from hermes_store.models.sessions import Session
from hermes_store.models.usage import SessionModelUsage

__all__ = [
    "ON_DEMAND_TABLES",
    "AsyncDelegation",
    "Base",
    "CompressionLock",
    "DeliveryObligation",
    "GatewayRouting",
    "Message",
    "OnDemandBase",
    "Session",
    "SessionModelUsage",
    "StateMeta",
    "TelegramTopicBinding",
    "TelegramTopicMode",
    "schema_version",
]
