"""The drop-in interface: `SessionDB` with what belongs to it, and the table of everything that there is going to be."""

import importlib
from typing import TYPE_CHECKING, Any

from hermes_store.compat.errors import (
    PERSISTENCE_ERROR_CAUSES,
    classify_persistence_error,
    is_disk_full_error,
    is_malformed_db_error,
    is_malformed_schema_error,
    is_sqlite_lock_error,
    is_transient_error,
)
from hermes_store.compat.session_db import SessionDB
from hermes_store.compat.shared import acquire, close_all, release, release_or_close

if TYPE_CHECKING:
    from hermes_store.compat.async_session_db import AsyncSessionDB

__all__ = [
    "PERSISTENCE_ERROR_CAUSES",
    "AsyncSessionDB",
    "SessionDB",
    "acquire",
    "classify_persistence_error",
    "close_all",
    "is_disk_full_error",
    "is_malformed_db_error",
    "is_malformed_schema_error",
    "is_sqlite_lock_error",
    "is_transient_error",
    "release",
    "release_or_close",
]


def __getattr__(name: str) -> Any:
    # Looked up when it is used: most programs do not pay for asyncio.
    if name != "AsyncSessionDB":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = importlib.import_module("hermes_store.compat.async_session_db").AsyncSessionDB
    globals()[name] = value
    return value
