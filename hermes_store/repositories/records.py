"""What the repositories return: frozen dataclasses, one per row or answer. Times are Unix seconds, costs USD."""

from dataclasses import dataclass
from typing import Any

from hermes_store.models.tables import MESSAGES, SESSION_MODEL_USAGE, SESSIONS

SESSION_COLUMNS: tuple[str, ...] = tuple(SESSIONS.columns.keys())
"""The columns of a session, in the order of every row that the sessions repository returns."""

PROMPT_HASH = "system_prompt_hash"
"""A column of newer files only; in their rows it follows the others."""

MESSAGE_COLUMNS: tuple[str, ...] = tuple(MESSAGES.columns.keys())
"""The columns of a message, in the order of every row that the messages repository returns."""

USAGE_COLUMNS: tuple[str, ...] = tuple(SESSION_MODEL_USAGE.columns.keys())
"""The columns of a usage row, in the order of the fields of `UsageRecord`."""


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """One session, column for column; JSON columns are text, flags 0 or 1, as the file holds them."""

    id: str
    source: str
    user_id: str | None
    session_key: str | None
    chat_id: str | None
    chat_type: str | None
    thread_id: str | None
    display_name: str | None
    origin_json: str | None
    expiry_finalized: int | None
    model: str | None
    model_config: str | None
    system_prompt: str | None
    parent_session_id: str | None
    started_at: float
    ended_at: float | None
    end_reason: str | None
    message_count: int | None
    tool_call_count: int | None
    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    reasoning_tokens: int | None
    cwd: str | None
    git_branch: str | None
    git_repo_root: str | None
    billing_provider: str | None
    billing_base_url: str | None
    billing_mode: str | None
    estimated_cost_usd: float | None
    actual_cost_usd: float | None
    cost_status: str | None
    cost_source: str | None
    pricing_version: str | None
    title: str | None
    last_activity_at: float | None
    last_activity_description: str | None
    last_activity_provenance: str | None
    api_call_count: int | None
    handoff_state: str | None
    handoff_platform: str | None
    handoff_error: str | None
    compression_failure_cooldown_until: float | None
    compression_failure_error: str | None
    compression_fallback_streak: int
    compression_ineffective_count: int
    profile_name: str | None
    rewind_count: int
    archived: int
    pinned: int
    last_read_at: float | None
    system_prompt_hash: str | None = None  # only in files that keep prompts in a table of their own


def session_fields(row: tuple[Any, ...]) -> dict[str, Any]:
    """A row of a session by column; the hash of its prompt only where the file has such a column."""
    return dict(zip((*SESSION_COLUMNS, PROMPT_HASH), row, strict=False))


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """One message, its content, tool calls and display metadata decoded, its other JSON columns as text."""

    id: int
    session_id: str
    role: str
    content: Any
    tool_call_id: str | None
    tool_calls: Any
    tool_name: str | None
    effect_disposition: str | None
    timestamp: float
    token_count: int | None
    finish_reason: str | None
    reasoning: str | None
    reasoning_content: str | None
    reasoning_details: str | None
    codex_reasoning_items: str | None
    codex_message_items: str | None
    platform_message_id: str | None
    observed: int | None
    active: int
    compacted: int
    api_content: str | None
    display_kind: str | None
    display_metadata: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class UsageRecord:
    """What one session used of one model, over one route, for one task; the task of the main loop is empty.

    Sums of tokens and calls, and costs in USD.
    """

    session_id: str
    model: str
    billing_provider: str
    billing_base_url: str
    billing_mode: str
    task: str
    api_call_count: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    estimated_cost_usd: float
    actual_cost_usd: float
    cost_status: str | None
    cost_source: str | None
    first_seen: float | None
    last_seen: float | None


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """A line of a listing: the session, a preview of its first message, when it was last active."""

    session: SessionRecord
    preview: str
    last_active: float
    unread: bool
    lineage_root_id: str | None = None


@dataclass(frozen=True, slots=True)
class ContextMessage:
    """A neighbour of a hit: role and at most 200 characters of its text."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A message that matches, with the session it stands in."""

    id: int
    session_id: str
    role: str
    snippet: str | None
    timestamp: float
    tool_name: str | None
    source: str
    model: str | None
    session_started: float
    context: tuple[ContextMessage, ...] = ()
