"""The tables and ordinary indexes of every schema version, as the release that had it made them.

Everything carries the step at which it appeared: ten times the version, plus five for what only the later
builds of that version have. A file of a step holds what appeared at it or before, in the order given here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

Step = int

TWO_SHAPES: Final = (7, 11, 14, 16, 17, 19, 20, 21, 22, 23)
"""Versions whose later builds wrote another shape under the same number."""

VERSIONS: Final[tuple[int, ...]] = (1, 2, *range(4, 24))
"""Every version with a shape of its own; 3 was released together with 4."""

_COUNTER: Final = "INTEGER NOT NULL DEFAULT 0"
ACTIVE: Final = "active INTEGER NOT NULL DEFAULT 1"

_SESSIONS: Final[tuple[tuple[Step, str], ...]] = (
    (10, "id TEXT PRIMARY KEY"),
    (10, "source TEXT NOT NULL"),
    (10, "user_id TEXT"),
    (170, "session_key TEXT"),
    (170, "chat_id TEXT"),
    (170, "chat_type TEXT"),
    (170, "thread_id TEXT"),
    (180, "display_name TEXT"),
    (180, "origin_json TEXT"),
    (180, "expiry_finalized INTEGER DEFAULT 0"),
    (10, "model TEXT"),
    (10, "model_config TEXT"),
    (10, "system_prompt TEXT"),
    (10, "parent_session_id TEXT"),
    (10, "started_at REAL NOT NULL"),
    (10, "ended_at REAL"),
    (10, "end_reason TEXT"),
    (10, "message_count INTEGER DEFAULT 0"),
    (10, "tool_call_count INTEGER DEFAULT 0"),
    (10, "input_tokens INTEGER DEFAULT 0"),
    (10, "output_tokens INTEGER DEFAULT 0"),
    (50, "cache_read_tokens INTEGER DEFAULT 0"),
    (50, "cache_write_tokens INTEGER DEFAULT 0"),
    (50, "reasoning_tokens INTEGER DEFAULT 0"),
    (145, "cwd TEXT"),
    (165, "git_branch TEXT"),
    (165, "git_repo_root TEXT"),
    (50, "billing_provider TEXT"),
    (50, "billing_base_url TEXT"),
    (50, "billing_mode TEXT"),
    (50, "estimated_cost_usd REAL"),
    (50, "actual_cost_usd REAL"),
    (50, "cost_status TEXT"),
    (50, "cost_source TEXT"),
    (50, "pricing_version TEXT"),
    (40, "title TEXT"),
    (80, "api_call_count INTEGER DEFAULT 0"),
    (115, "handoff_state TEXT"),
    (115, "handoff_platform TEXT"),
    (115, "handoff_error TEXT"),
    (175, "compression_failure_cooldown_until REAL"),
    (175, "compression_failure_error TEXT"),
    (215, f"compression_fallback_streak {_COUNTER}"),
    (235, f"compression_ineffective_count {_COUNTER}"),
    (215, "profile_name TEXT"),
    (145, f"rewind_count {_COUNTER}"),
    (145, f"archived {_COUNTER}"),
    (235, f"pinned {_COUNTER}"),
    (10, "FOREIGN KEY (parent_session_id) REFERENCES sessions(id)"),
)

_MESSAGES: Final[tuple[tuple[Step, str], ...]] = (
    (10, "id INTEGER PRIMARY KEY AUTOINCREMENT"),
    (10, "session_id TEXT NOT NULL REFERENCES sessions(id)"),
    (10, "role TEXT NOT NULL"),
    (10, "content TEXT"),
    (10, "tool_call_id TEXT"),
    (10, "tool_calls TEXT"),
    (10, "tool_name TEXT"),
    (195, "effect_disposition TEXT"),
    (10, "timestamp REAL NOT NULL"),
    (10, "token_count INTEGER"),
    (20, "finish_reason TEXT"),
    (60, "reasoning TEXT"),
    (70, "reasoning_content TEXT"),
    (60, "reasoning_details TEXT"),
    (60, "codex_reasoning_items TEXT"),
    (90, "codex_message_items TEXT"),
    (120, "platform_message_id TEXT"),
    (130, "observed INTEGER DEFAULT 0"),
    (145, ACTIVE),
    (165, "compacted INTEGER NOT NULL DEFAULT 0"),
    (225, "api_content TEXT"),
    (235, "display_kind TEXT"),
    (235, "display_metadata TEXT"),
)

_USAGE_SUMS: Final = (
    "api_call_count",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
)


def _usage(*key: str, task: bool) -> tuple[str, ...]:
    return (
        "session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE",
        "model TEXT NOT NULL",
        "billing_provider TEXT NOT NULL DEFAULT ''",
        "billing_base_url TEXT NOT NULL DEFAULT ''",
        "billing_mode TEXT NOT NULL DEFAULT ''",
        *(("task TEXT NOT NULL DEFAULT ''",) if task else ()),
        *(f"{name} {_COUNTER}" for name in _USAGE_SUMS),
        "estimated_cost_usd REAL NOT NULL DEFAULT 0",
        "actual_cost_usd REAL NOT NULL DEFAULT 0",
        "cost_status TEXT",
        "cost_source TEXT",
        "first_seen REAL",
        "last_seen REAL",
        f"PRIMARY KEY ({', '.join(key)})",
    )


_FIVE: Final = ("session_id", "model", "billing_provider", "billing_base_url", "billing_mode")

USAGE_THREE_KEYS: Final = (
    "session_id TEXT NOT NULL REFERENCES sessions(id)",
    "model TEXT NOT NULL",
    "billing_provider TEXT NOT NULL DEFAULT ''",
    "billing_base_url TEXT",
    *(f"{name} {_COUNTER}" for name in _USAGE_SUMS),
    "estimated_cost_usd REAL NOT NULL DEFAULT 0",
    "first_seen REAL",
    "last_seen REAL",
    f"PRIMARY KEY ({', '.join(_FIVE[:3])})",
)
"""The first usage table: 13 columns, the endpoint may be NULL and is no part of the key, no cascade."""

USAGE_FIVE_KEYS: Final = _usage(*_FIVE, task=False)
USAGE_SIX_KEYS: Final = _usage(*_FIVE, "task", task=True)

_USAGE_FORMS: Final = ((220, USAGE_SIX_KEYS), (205, USAGE_FIVE_KEYS), (200, USAGE_THREE_KEYS))

_OTHERS: Final[Mapping[str, tuple[Step, tuple[str, ...]]]] = {
    "state_meta": (75, ("key TEXT PRIMARY KEY", "value TEXT")),
    "gateway_routing": (
        190,
        (
            "scope TEXT NOT NULL DEFAULT ''",
            "session_key TEXT NOT NULL",
            "entry_json TEXT NOT NULL",
            "updated_at REAL NOT NULL",
            "PRIMARY KEY (scope, session_key)",
        ),
    ),
    "compression_locks": (
        140,
        (
            "session_id TEXT PRIMARY KEY",
            "holder TEXT NOT NULL",
            "acquired_at REAL NOT NULL",
            "expires_at REAL NOT NULL",
        ),
    ),
    "async_delegations": (
        210,
        (
            "delegation_id TEXT PRIMARY KEY",
            "origin_session TEXT NOT NULL",
            "origin_ui_session_id TEXT NOT NULL DEFAULT ''",
            "parent_session_id TEXT",
            "state TEXT NOT NULL",
            "dispatched_at REAL NOT NULL",
            "completed_at REAL",
            "updated_at REAL NOT NULL",
            "event_json TEXT",
            "result_json TEXT",
            "delivery_state TEXT NOT NULL DEFAULT 'pending'",
            f"delivery_attempts {_COUNTER}",
            "delivered_at REAL",
            "owner_pid INTEGER",
            "owner_started_at INTEGER",
            "task_json TEXT",
            "delivery_claim TEXT",
            "delivery_claimed_at REAL",
        ),
    ),
}

TITLE_INDEX: Final = "idx_sessions_title_unique"

_INDEXES: Final[tuple[tuple[Step, str, str], ...]] = (
    (10, "idx_sessions_source", "sessions(source)"),
    (150, "idx_sessions_source_id", "sessions(source, id)"),
    (10, "idx_sessions_parent", "sessions(parent_session_id)"),
    (10, "idx_sessions_started", "sessions(started_at DESC)"),
    (10, "idx_messages_session", "messages(session_id, timestamp)"),
    (140, "idx_compression_locks_expires", "compression_locks(expires_at)"),
    (200, "idx_session_model_usage_session", "session_model_usage(session_id)"),
    (200, "idx_session_model_usage_model", "session_model_usage(model)"),
    (210, "idx_async_delegations_delivery", "async_delegations(delivery_state, completed_at)"),
    (
        120,
        "idx_messages_platform_msg_id",
        "messages(session_id, platform_message_id) WHERE platform_message_id IS NOT NULL",
    ),
    (145, "idx_messages_session_active", "messages(session_id, active, timestamp)"),
    (195, "idx_messages_active_null", "messages(active) WHERE active IS NULL"),
    (170, "idx_sessions_session_key", "sessions(session_key, started_at DESC)"),
    (
        170,
        "idx_sessions_gateway_peer",
        "sessions(source, user_id, chat_id, chat_type, thread_id, started_at DESC)",
    ),
    (175, "idx_sessions_handoff_state", "sessions(handoff_state, started_at)"),
    (40, TITLE_INDEX, "sessions(title) WHERE title IS NOT NULL"),
)


def step_of(version: int, variant: str | None = None) -> Step:
    """The step of a shape. Variants are `early` (the first builds, also the default) and `late`.

    Raises ValueError for a version without a shape of its own, and for a variant that it never had.
    """
    if version not in VERSIONS:
        raise ValueError(f"version {version} has no shape of its own")
    if variant not in {None, "early", "late"} or (variant and version not in TWO_SHAPES):
        raise ValueError(f"version {version} has no variant {variant!r}")
    return version * 10 + (5 if variant == "late" else 0)


def create(table: str, columns: tuple[str, ...]) -> str:
    """A CREATE TABLE statement with a line for each column."""
    return f"CREATE TABLE {table} (\n    " + ",\n    ".join(columns) + "\n)"


def tables_of(step: Step) -> dict[str, tuple[str, ...]]:
    """Definitions of columns and keys by table, in the order in which the tables were made."""
    tables = {
        "schema_version": ("version INTEGER NOT NULL",),
        "sessions": tuple(text for since, text in _SESSIONS if since <= step),
        "messages": tuple(text for since, text in _MESSAGES if since <= step),
    }
    for since, form in _USAGE_FORMS:
        if since <= step:
            tables["session_model_usage"] = form
            break
    return tables | {name: columns for name, (since, columns) in _OTHERS.items() if since <= step}


def column_names(step: Step) -> dict[str, tuple[str, ...]]:
    """Names of the columns by table."""
    return {
        table: tuple(text.split()[0] for text in columns if not text.startswith(("FOREIGN", "PRIMARY")))
        for table, columns in tables_of(step).items()
    }


def index_statement(name: str) -> str:
    """The statement that makes an ordinary index."""
    (target,) = (target for _, known, target in _INDEXES if known == name)
    return f"CREATE {'UNIQUE ' if name == TITLE_INDEX else ''}INDEX {name} ON {target}"


def index_names(step: Step) -> tuple[str, ...]:
    """Names of the ordinary indexes."""
    return tuple(name for since, name, _ in _INDEXES if since <= step)


def plain_objects(step: Step) -> tuple[str, ...]:
    """The statements that make the tables, the ordinary indexes and the stamp: all but the search index."""
    return (
        *(create(table, columns) for table, columns in tables_of(step).items()),
        *(index_statement(name) for name in index_names(step)),
        f"INSERT INTO schema_version (version) VALUES ({step // 10})",
    )
