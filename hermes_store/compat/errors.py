"""Telling errors apart, by the names that Hermes Agent has for it (rules ERR-2 and ERR-3)."""

from hermes_store.database.causes import (
    PERSISTENCE_ERROR_CAUSES,
    classify_persistence_error,
    is_disk_full_error,
    is_malformed_db_error,
    is_malformed_schema_error,
    is_sqlite_lock_error,
    is_transient_error,
)

__all__ = [
    "PERSISTENCE_ERROR_CAUSES",
    "classify_persistence_error",
    "is_disk_full_error",
    "is_malformed_db_error",
    "is_malformed_schema_error",
    "is_sqlite_lock_error",
    "is_transient_error",
]
