"""What the tables of a store look like, written down as data."""

from tests.schema.inspecting import Column, ForeignKey, Index, Table

_NOT_NULL = "NOT NULL"


def _columns(*lines: str) -> tuple[Column, ...]:
    """Columns from lines like `name TYPE NOT NULL D=0 PK1`."""
    return tuple(_column(line) for line in lines)


def _column(line: str) -> Column:
    name, kind, *marks = line.replace(_NOT_NULL, "NOTNULL").split()
    default = next((mark.removeprefix("D=") for mark in marks if mark.startswith("D=")), None)
    key = next((int(mark.removeprefix("PK")) for mark in marks if mark.startswith("PK")), 0)
    return Column(name, kind, "NOTNULL" in marks, default, key)


SESSION_COLUMNS = _columns(
    "id TEXT PK1",
    "source TEXT NOT NULL",
    "user_id TEXT",
    "session_key TEXT",
    "chat_id TEXT",
    "chat_type TEXT",
    "thread_id TEXT",
    "display_name TEXT",
    "origin_json TEXT",
    "expiry_finalized INTEGER D=0",
    "model TEXT",
    "model_config TEXT",
    "system_prompt TEXT",
    "parent_session_id TEXT",
    "started_at REAL NOT NULL",
    "ended_at REAL",
    "end_reason TEXT",
    "message_count INTEGER D=0",
    "tool_call_count INTEGER D=0",
    "input_tokens INTEGER D=0",
    "output_tokens INTEGER D=0",
    "cache_read_tokens INTEGER D=0",
    "cache_write_tokens INTEGER D=0",
    "reasoning_tokens INTEGER D=0",
    "cwd TEXT",
    "git_branch TEXT",
    "git_repo_root TEXT",
    "billing_provider TEXT",
    "billing_base_url TEXT",
    "billing_mode TEXT",
    "estimated_cost_usd REAL",
    "actual_cost_usd REAL",
    "cost_status TEXT",
    "cost_source TEXT",
    "pricing_version TEXT",
    "title TEXT",
    "last_activity_at REAL",
    "last_activity_description TEXT",
    "last_activity_provenance TEXT",
    "api_call_count INTEGER D=0",
    "handoff_state TEXT",
    "handoff_platform TEXT",
    "handoff_error TEXT",
    "compression_failure_cooldown_until REAL",
    "compression_failure_error TEXT",
    "compression_fallback_streak INTEGER NOT NULL D=0",
    "compression_ineffective_count INTEGER NOT NULL D=0",
    "profile_name TEXT",
    "rewind_count INTEGER NOT NULL D=0",
    "archived INTEGER NOT NULL D=0",
    "pinned INTEGER NOT NULL D=0",
    "last_read_at REAL",
)

ADDITIVE_COLUMNS = (
    "sessions.last_activity_at",
    "sessions.last_activity_description",
    "sessions.last_activity_provenance",
    "sessions.last_read_at",
)
"""What a store has beyond the 48 session columns of a file of stamp 23."""

MESSAGE_COLUMNS = _columns(
    "id INTEGER PK1",
    "session_id TEXT NOT NULL",
    "role TEXT NOT NULL",
    "content TEXT",
    "tool_call_id TEXT",
    "tool_calls TEXT",
    "tool_name TEXT",
    "effect_disposition TEXT",
    "timestamp REAL NOT NULL",
    "token_count INTEGER",
    "finish_reason TEXT",
    "reasoning TEXT",
    "reasoning_content TEXT",
    "reasoning_details TEXT",
    "codex_reasoning_items TEXT",
    "codex_message_items TEXT",
    "platform_message_id TEXT",
    "observed INTEGER D=0",
    "active INTEGER NOT NULL D=1",
    "compacted INTEGER NOT NULL D=0",
    "api_content TEXT",
    "display_kind TEXT",
    "display_metadata TEXT",
)

TABLES = {
    "schema_version": Table(_columns("version INTEGER NOT NULL")),
    "sessions": Table(
        SESSION_COLUMNS,
        frozenset({ForeignKey("parent_session_id", "sessions", "id")}),
        (
            (
                "idx_sessions_gateway_peer",
                Index(("source", "user_id", "chat_id", "chat_type", "thread_id", "started_at DESC")),
            ),
            ("idx_sessions_handoff_state", Index(("handoff_state", "started_at"))),
            ("idx_sessions_parent", Index(("parent_session_id",))),
            ("idx_sessions_session_key", Index(("session_key", "started_at DESC"))),
            ("idx_sessions_source", Index(("source",))),
            ("idx_sessions_source_id", Index(("source", "id"))),
            ("idx_sessions_started", Index(("started_at DESC",))),
            ("idx_sessions_title_unique", Index(("title",), unique=True, where="title is not null")),
        ),
    ),
    "messages": Table(
        MESSAGE_COLUMNS,
        frozenset({ForeignKey("session_id", "sessions", "id")}),
        (
            ("idx_messages_active_null", Index(("active",), where="active is null")),
            (
                "idx_messages_platform_msg_id",
                Index(("session_id", "platform_message_id"), where="platform_message_id is not null"),
            ),
            ("idx_messages_session", Index(("session_id", "timestamp"))),
            ("idx_messages_session_active", Index(("session_id", "active", "timestamp"))),
            ("idx_messages_session_id", Index(("session_id", "id"))),
        ),
        autoincrement=True,
    ),
    "session_model_usage": Table(
        _columns(
            "session_id TEXT NOT NULL PK1",
            "model TEXT NOT NULL PK2",
            "billing_provider TEXT NOT NULL D='' PK3",
            "billing_base_url TEXT NOT NULL D='' PK4",
            "billing_mode TEXT NOT NULL D='' PK5",
            "task TEXT NOT NULL D='' PK6",
            "api_call_count INTEGER NOT NULL D=0",
            "input_tokens INTEGER NOT NULL D=0",
            "output_tokens INTEGER NOT NULL D=0",
            "cache_read_tokens INTEGER NOT NULL D=0",
            "cache_write_tokens INTEGER NOT NULL D=0",
            "reasoning_tokens INTEGER NOT NULL D=0",
            "estimated_cost_usd REAL NOT NULL D=0",
            "actual_cost_usd REAL NOT NULL D=0",
            "cost_status TEXT",
            "cost_source TEXT",
            "first_seen REAL",
            "last_seen REAL",
        ),
        frozenset({ForeignKey("session_id", "sessions", "id", "CASCADE")}),
        (
            ("idx_session_model_usage_model", Index(("model",))),
            ("idx_session_model_usage_session", Index(("session_id",))),
        ),
    ),
    "state_meta": Table(_columns("key TEXT PK1", "value TEXT")),
    "gateway_routing": Table(
        _columns(
            "scope TEXT NOT NULL D='' PK1",
            "session_key TEXT NOT NULL PK2",
            "entry_json TEXT NOT NULL",
            "updated_at REAL NOT NULL",
        )
    ),
    "compression_locks": Table(
        _columns(
            "session_id TEXT PK1",
            "holder TEXT NOT NULL",
            "acquired_at REAL NOT NULL",
            "expires_at REAL NOT NULL",
        ),
        indexes=(("idx_compression_locks_expires", Index(("expires_at",))),),
    ),
    "async_delegations": Table(
        _columns(
            "delegation_id TEXT PK1",
            "origin_session TEXT NOT NULL",
            "origin_ui_session_id TEXT NOT NULL D=''",
            "parent_session_id TEXT",
            "state TEXT NOT NULL",
            "dispatched_at REAL NOT NULL",
            "completed_at REAL",
            "updated_at REAL NOT NULL",
            "event_json TEXT",
            "result_json TEXT",
            "delivery_state TEXT NOT NULL D='pending'",
            "delivery_attempts INTEGER NOT NULL D=0",
            "delivered_at REAL",
            "owner_pid INTEGER",
            "owner_started_at INTEGER",
            "task_json TEXT",
            "delivery_claim TEXT",
            "delivery_claimed_at REAL",
        ),
        indexes=(("idx_async_delegations_delivery", Index(("delivery_state", "completed_at"))),),
    ),
}
"""The tables that every store has."""

REVISION_TABLE = Table(_columns("version_num VARCHAR(32) NOT NULL PK1"))

ON_DEMAND_TABLES = {
    "delivery_obligations": Table(
        _columns(
            "obligation_id TEXT PK1",
            "session_key TEXT NOT NULL",
            "platform TEXT NOT NULL",
            "chat_id TEXT NOT NULL",
            "thread_id TEXT",
            "content TEXT NOT NULL",
            "state TEXT NOT NULL",
            "attempts INTEGER NOT NULL D=0",
            "created_at REAL NOT NULL",
            "updated_at REAL NOT NULL",
            "owner_pid INTEGER",
            "owner_started_at INTEGER",
            "last_error TEXT",
        )
    ),
    "telegram_dm_topic_mode": Table(
        _columns(
            "chat_id TEXT PK1",
            "user_id TEXT NOT NULL",
            "enabled INTEGER NOT NULL D=1",
            "activated_at REAL NOT NULL",
            "updated_at REAL NOT NULL",
            "has_topics_enabled INTEGER",
            "allows_users_to_create_topics INTEGER",
            "capability_checked_at REAL",
            "intro_message_id TEXT",
            "pinned_message_id TEXT",
        )
    ),
    "telegram_dm_topic_bindings": Table(
        _columns(
            "chat_id TEXT NOT NULL PK1",
            "thread_id TEXT NOT NULL PK2",
            "user_id TEXT NOT NULL",
            "session_key TEXT NOT NULL",
            "session_id TEXT NOT NULL",
            "managed_mode TEXT NOT NULL D='auto'",
            "linked_at REAL NOT NULL",
            "updated_at REAL NOT NULL",
        ),
        frozenset({ForeignKey("session_id", "sessions", "id", "CASCADE")}),
        (
            ("idx_telegram_dm_topic_bindings_session", Index(("session_id",), unique=True)),
            ("idx_telegram_dm_topic_bindings_user", Index(("user_id", "chat_id"))),
        ),
    ),
}
"""The tables that a feature makes at its first use."""
