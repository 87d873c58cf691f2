"""Builds a Hermes state.db of schema 23 by raw SQL, so that tests own their input files.

The statements are kept apart from the library on purpose: a test that created its input with the
code under test could not notice that both drifted away from the files in the field.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from .story import Story, tell
from .writing import write_file

__all__ = [
    "BROAD_UPDATE_SQL",
    "FTS_SQL",
    "MESSAGES_SESSION_ID_INDEX_SQL",
    "ON_DEMAND_SQL",
    "PLAIN_SQL",
    "SCHEMA_SQL",
    "SCHEMA_VERSION",
    "Story",
    "build",
]

SCHEMA_VERSION: Final = 23

_TABLES: Final[tuple[str, ...]] = (
    "CREATE TABLE schema_version (version INTEGER NOT NULL)",
    """
    CREATE TABLE sessions (
        id TEXT PRIMARY KEY, source TEXT NOT NULL, user_id TEXT,
        session_key TEXT, chat_id TEXT, chat_type TEXT, thread_id TEXT,
        display_name TEXT, origin_json TEXT, expiry_finalized INTEGER DEFAULT 0,
        model TEXT, model_config TEXT, system_prompt TEXT,
        parent_session_id TEXT REFERENCES sessions (id),
        started_at REAL NOT NULL, ended_at REAL, end_reason TEXT,
        message_count INTEGER DEFAULT 0, tool_call_count INTEGER DEFAULT 0,
        input_tokens INTEGER DEFAULT 0, output_tokens INTEGER DEFAULT 0,
        cache_read_tokens INTEGER DEFAULT 0, cache_write_tokens INTEGER DEFAULT 0,
        reasoning_tokens INTEGER DEFAULT 0,
        cwd TEXT, git_branch TEXT, git_repo_root TEXT,
        billing_provider TEXT, billing_base_url TEXT, billing_mode TEXT,
        estimated_cost_usd REAL, actual_cost_usd REAL,
        cost_status TEXT, cost_source TEXT, pricing_version TEXT,
        title TEXT, api_call_count INTEGER DEFAULT 0,
        handoff_state TEXT, handoff_platform TEXT, handoff_error TEXT,
        compression_failure_cooldown_until REAL, compression_failure_error TEXT,
        compression_fallback_streak INTEGER NOT NULL DEFAULT 0,
        compression_ineffective_count INTEGER NOT NULL DEFAULT 0,
        profile_name TEXT,
        rewind_count INTEGER NOT NULL DEFAULT 0,
        archived INTEGER NOT NULL DEFAULT 0,
        pinned INTEGER NOT NULL DEFAULT 0
    )
    """,
    """
    CREATE TABLE messages (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        session_id TEXT NOT NULL REFERENCES sessions (id),
        role TEXT NOT NULL, content TEXT,
        tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, effect_disposition TEXT,
        timestamp REAL NOT NULL, token_count INTEGER, finish_reason TEXT,
        reasoning TEXT, reasoning_content TEXT, reasoning_details TEXT,
        codex_reasoning_items TEXT, codex_message_items TEXT,
        platform_message_id TEXT, observed INTEGER DEFAULT 0,
        active INTEGER NOT NULL DEFAULT 1, compacted INTEGER NOT NULL DEFAULT 0,
        api_content TEXT, display_kind TEXT, display_metadata TEXT
    )
    """,
    """
    CREATE TABLE session_model_usage (
        session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        model TEXT NOT NULL,
        billing_provider TEXT NOT NULL DEFAULT '',
        billing_base_url TEXT NOT NULL DEFAULT '',
        billing_mode TEXT NOT NULL DEFAULT '',
        task TEXT NOT NULL DEFAULT '',
        api_call_count INTEGER NOT NULL DEFAULT 0,
        input_tokens INTEGER NOT NULL DEFAULT 0, output_tokens INTEGER NOT NULL DEFAULT 0,
        cache_read_tokens INTEGER NOT NULL DEFAULT 0, cache_write_tokens INTEGER NOT NULL DEFAULT 0,
        reasoning_tokens INTEGER NOT NULL DEFAULT 0,
        estimated_cost_usd REAL NOT NULL DEFAULT 0, actual_cost_usd REAL NOT NULL DEFAULT 0,
        cost_status TEXT, cost_source TEXT, first_seen REAL, last_seen REAL,
        PRIMARY KEY (session_id, model, billing_provider, billing_base_url, billing_mode, task)
    )
    """,
    "CREATE TABLE state_meta (key TEXT PRIMARY KEY, value TEXT)",
    """
    CREATE TABLE gateway_routing (
        scope TEXT NOT NULL DEFAULT '', session_key TEXT NOT NULL,
        entry_json TEXT NOT NULL, updated_at REAL NOT NULL,
        PRIMARY KEY (scope, session_key)
    )
    """,
    """
    CREATE TABLE compression_locks (
        session_id TEXT PRIMARY KEY, holder TEXT NOT NULL,
        acquired_at REAL NOT NULL, expires_at REAL NOT NULL
    )
    """,
    """
    CREATE TABLE async_delegations (
        delegation_id TEXT PRIMARY KEY,
        origin_session TEXT NOT NULL, origin_ui_session_id TEXT NOT NULL DEFAULT '',
        parent_session_id TEXT, state TEXT NOT NULL,
        dispatched_at REAL NOT NULL, completed_at REAL, updated_at REAL NOT NULL,
        event_json TEXT, result_json TEXT,
        delivery_state TEXT NOT NULL DEFAULT 'pending',
        delivery_attempts INTEGER NOT NULL DEFAULT 0, delivered_at REAL,
        owner_pid INTEGER, owner_started_at INTEGER,
        task_json TEXT, delivery_claim TEXT, delivery_claimed_at REAL
    )
    """,
)

_BASE_INDEXES: Final[tuple[str, ...]] = (
    "CREATE INDEX idx_sessions_source ON sessions (source)",
    "CREATE INDEX idx_sessions_source_id ON sessions (source, id)",
    "CREATE INDEX idx_sessions_parent ON sessions (parent_session_id)",
    "CREATE INDEX idx_sessions_started ON sessions (started_at DESC)",
    "CREATE INDEX idx_messages_session ON messages (session_id, timestamp)",
    "CREATE INDEX idx_compression_locks_expires ON compression_locks (expires_at)",
    "CREATE INDEX idx_session_model_usage_session ON session_model_usage (session_id)",
    "CREATE INDEX idx_session_model_usage_model ON session_model_usage (model)",
    "CREATE INDEX idx_async_delegations_delivery ON async_delegations (delivery_state, completed_at)",
)

# These name columns that older tables gain only at opening, hence the separate, later step.
_DEFERRED_INDEXES: Final[tuple[str, ...]] = (
    (
        "CREATE INDEX idx_messages_platform_msg_id ON messages (session_id, platform_message_id)"
        " WHERE platform_message_id IS NOT NULL"
    ),
    "CREATE INDEX idx_messages_session_active ON messages (session_id, active, timestamp)",
    "CREATE INDEX idx_messages_active_null ON messages (active) WHERE active IS NULL",
    "CREATE INDEX idx_sessions_session_key ON sessions (session_key, started_at DESC)",
    (
        "CREATE INDEX idx_sessions_gateway_peer"
        " ON sessions (source, user_id, chat_id, chat_type, thread_id, started_at DESC)"
    ),
    "CREATE INDEX idx_sessions_handoff_state ON sessions (handoff_state, started_at)",
)

_STAMP: Final = f"INSERT INTO schema_version (version) VALUES ({SCHEMA_VERSION})"
_TITLE_INDEX: Final = "CREATE UNIQUE INDEX idx_sessions_title_unique ON sessions (title) WHERE title IS NOT NULL"

# A file born at schema 23 lacks this index; files touched by later releases have it.
MESSAGES_SESSION_ID_INDEX_SQL: Final = "CREATE INDEX idx_messages_session_id ON messages (session_id, id)"

_INDEXED: Final = ("content", "tool_name", "tool_calls")


def _gate(row: str) -> str:
    """True for a row outside the id range that a running index rebuild has yet to fill."""
    high, done = (
        f"COALESCE((SELECT CAST(value AS INTEGER) FROM state_meta WHERE key = 'fts_rebuild_{name}'), -1)"
        for name in ("high_water", "progress")
    )
    return f"({row}.id > {high}\n        OR {row}.id <= {done})"


def _add(index: str, where: str = "") -> str:
    """The statement that indexes the new row."""
    return (
        f"INSERT INTO {index} (rowid, {', '.join(_INDEXED)})\n"
        f"        SELECT new.id, {', '.join(f'new.{name}' for name in _INDEXED)}{where};"
    )


def _remove(index: str, where: str = "") -> str:
    """The statement that takes the old row out; FTS5 needs the old values to find its terms."""
    return (
        f"INSERT INTO {index} ({index}, rowid, {', '.join(_INDEXED)})\n"
        f"        SELECT 'delete', old.id, {', '.join(f'old.{name}' for name in _INDEXED)}{where};"
    )


def _row_triggers(index: str, *, skip_tools: bool) -> tuple[str, str]:
    """The insert and the delete trigger of one index."""
    new_only, old_only = ("new.role <> 'tool' AND ", "old.role <> 'tool' AND ") if skip_tools else ("", "")
    return (
        (
            f"CREATE TRIGGER {index}_insert AFTER INSERT ON messages\n"
            f"    WHEN {new_only}{_gate('new')}\n    BEGIN\n        {_add(index)}\n    END"
        ),
        (
            f"CREATE TRIGGER {index}_delete AFTER DELETE ON messages\n"
            f"    WHEN {old_only}{_gate('old')}\n    BEGIN\n        {_remove(index)}\n    END"
        ),
    )


def _update_trigger(index: str, *, skip_tools: bool, broad: bool = False) -> str:
    """The update trigger of one index: bound to the indexed columns, or to any column when broad."""
    watched = (*_INDEXED, "role") if skip_tools else _INDEXED
    event = "UPDATE" if broad else f"UPDATE OF {', '.join(watched)}"
    changed = " OR ".join(f"old.{name} IS NOT new.{name}" for name in watched)
    was_in, is_in = (" WHERE old.role <> 'tool'", " WHERE new.role <> 'tool'") if skip_tools else ("", "")
    return (
        f"CREATE TRIGGER {index}_update AFTER {event} ON messages\n"
        f"    WHEN ({changed})\n        AND {_gate('old')}\n    BEGIN\n"
        f"        {_remove(index, was_in)}\n        {_add(index, is_in)}\n    END"
    )


FTS_SQL: Final[tuple[str, ...]] = (
    (f"CREATE VIRTUAL TABLE messages_fts USING fts5 ({', '.join(_INDEXED)}, content='messages', content_rowid='id')"),
    *_row_triggers("messages_fts", skip_tools=False),
    _update_trigger("messages_fts", skip_tools=False),
    (
        f"CREATE VIEW messages_fts_trigram_src AS SELECT id, role, {', '.join(_INDEXED)}"
        " FROM messages WHERE role <> 'tool'"
    ),
    (
        f"CREATE VIRTUAL TABLE messages_fts_trigram USING fts5 ({', '.join(_INDEXED)},"
        " content='messages_fts_trigram_src', content_rowid='id', tokenize='trigram')"
    ),
    *_row_triggers("messages_fts_trigram", skip_tools=True),
    _update_trigger("messages_fts_trigram", skip_tools=True),
)
"""The full-text part: two indexes, the view under the second one, and the six triggers."""

PLAIN_SQL: Final[tuple[str, ...]] = (*_TABLES, *_BASE_INDEXES, *_DEFERRED_INDEXES, _STAMP, _TITLE_INDEX)
"""Everything but the full-text part: what a runtime without FTS5 leaves behind."""

SCHEMA_SQL: Final[tuple[str, ...]] = (*PLAIN_SQL, *FTS_SQL)
"""A complete empty file, in the order in which the application creates it."""

BROAD_UPDATE_SQL: Final[tuple[str, ...]] = (
    "DROP TRIGGER messages_fts_update",
    _update_trigger("messages_fts", skip_tools=False, broad=True),
    "DROP TRIGGER messages_fts_trigram_update",
    _update_trigger("messages_fts_trigram", skip_tools=True, broad=True),
)
"""Run after SCHEMA_SQL: gives the update triggers their first form, fired by a change of any column."""

ON_DEMAND_SQL: Final[Mapping[str, tuple[str, ...]]] = {
    "delivery_obligations": (
        """
        CREATE TABLE delivery_obligations (
            obligation_id TEXT PRIMARY KEY,
            session_key TEXT NOT NULL, platform TEXT NOT NULL, chat_id TEXT NOT NULL, thread_id TEXT,
            content TEXT NOT NULL, state TEXT NOT NULL, attempts INTEGER NOT NULL DEFAULT 0,
            created_at REAL NOT NULL, updated_at REAL NOT NULL,
            owner_pid INTEGER, owner_started_at INTEGER, last_error TEXT
        )
        """,
    ),
    "telegram_dm_topic_mode": (
        """
        CREATE TABLE telegram_dm_topic_mode (
            chat_id TEXT PRIMARY KEY, user_id TEXT NOT NULL, enabled INTEGER NOT NULL DEFAULT 1,
            activated_at REAL NOT NULL, updated_at REAL NOT NULL,
            has_topics_enabled INTEGER, allows_users_to_create_topics INTEGER,
            capability_checked_at REAL, intro_message_id TEXT, pinned_message_id TEXT
        )
        """,
    ),
    "telegram_dm_topic_bindings": (
        """
        CREATE TABLE telegram_dm_topic_bindings (
            chat_id TEXT NOT NULL, thread_id TEXT NOT NULL, user_id TEXT NOT NULL,
            session_key TEXT NOT NULL,
            session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
            managed_mode TEXT NOT NULL DEFAULT 'auto',
            linked_at REAL NOT NULL, updated_at REAL NOT NULL,
            PRIMARY KEY (chat_id, thread_id)
        )
        """,
        ("CREATE UNIQUE INDEX idx_telegram_dm_topic_bindings_session ON telegram_dm_topic_bindings (session_id)"),
        "CREATE INDEX idx_telegram_dm_topic_bindings_user ON telegram_dm_topic_bindings (user_id, chat_id)",
    ),
}
"""Tables that only the use of a feature creates, by name."""


def build(
    path: str | os.PathLike[str],
    driver: Any,
    *,
    sessions: int = 14,
    turns: int = 8,
    journal_mode: str = "wal",
    fts: bool = True,
) -> Story:
    """Creates the file through the given DB-API module, fills it, and says what it holds.

    The indexes are made before the rows and filled by their triggers, as in a file that grew in use.
    Without fts the file is what a runtime without FTS5 would have written.
    """
    plan = tell(sessions, turns)
    write_file(path, driver, SCHEMA_SQL if fts else PLAIN_SQL, plan.tables, journal_mode=journal_mode)
    return plan.story
