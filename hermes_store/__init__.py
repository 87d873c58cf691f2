"""The session store of a long-running agent: one SQLite file, many writers, full-text search.

Everything public can be imported from here. Names are looked up when they are used, so that a program that needs only
the home folder does not pay for the rest.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes_store.clock import Clock
    from hermes_store.compat import AsyncSessionDB, SessionDB
    from hermes_store.database import connect
    from hermes_store.errors import HermesStoreError
    from hermes_store.events import Counters, Events
    from hermes_store.home import get_hermes_home
    from hermes_store.operations.append import NewMessage
    from hermes_store.operations.usage import NewUsage
    from hermes_store.repositories.records import (
        ContextMessage,
        MessageRecord,
        SearchHit,
        SessionRecord,
        SessionSummary,
        UsageRecord,
    )
    from hermes_store.repositories.search import SearchFilter
    from hermes_store.repositories.sessions import SessionFilter
    from hermes_store.runtime.async_store import AsyncStore
    from hermes_store.runtime.event_log import EventLog
    from hermes_store.schema.report import OpenReport
    from hermes_store.settings import JournalMode, Settings
    from hermes_store.store import Reader, Store, Unit

_HOMES = {
    "AsyncSessionDB": "hermes_store.compat",
    "AsyncStore": "hermes_store.runtime.async_store",
    "Clock": "hermes_store.clock",
    "ContextMessage": "hermes_store.repositories.records",
    "Counters": "hermes_store.events",
    "EventLog": "hermes_store.runtime.event_log",
    "Events": "hermes_store.events",
    "HermesStoreError": "hermes_store.errors",
    "JournalMode": "hermes_store.settings",
    "MessageRecord": "hermes_store.repositories.records",
    "NewMessage": "hermes_store.operations.append",
    "NewUsage": "hermes_store.operations.usage",
    "OpenReport": "hermes_store.schema.report",
    "Reader": "hermes_store.store",
    "SearchFilter": "hermes_store.repositories.search",
    "SearchHit": "hermes_store.repositories.records",
    "SessionDB": "hermes_store.compat",
    "SessionFilter": "hermes_store.repositories.sessions",
    "SessionRecord": "hermes_store.repositories.records",
    "SessionSummary": "hermes_store.repositories.records",
    "Settings": "hermes_store.settings",
    "Store": "hermes_store.store",
    "Unit": "hermes_store.store",
    "UsageRecord": "hermes_store.repositories.records",
    "connect": "hermes_store.database",
    "get_hermes_home": "hermes_store.home",
}

__all__ = [  # noqa: RUF022 - the names above, and the version
    "__version__",
    "AsyncSessionDB",
    "AsyncStore",
    "Clock",
    "ContextMessage",
    "Counters",
    "EventLog",
    "Events",
    "HermesStoreError",
    "JournalMode",
    "MessageRecord",
    "NewMessage",
    "NewUsage",
    "OpenReport",
    "Reader",
    "SearchFilter",
    "SearchHit",
    "SessionDB",
    "SessionFilter",
    "SessionRecord",
    "SessionSummary",
    "Settings",
    "Store",
    "Unit",
    "UsageRecord",
    "connect",
    "get_hermes_home",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
