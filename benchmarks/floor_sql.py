"""The statements of the floors, written by hand."""

from functools import cache

MESSAGE_COLUMNS = (
    "id", "session_id", "role", "content", "tool_call_id", "tool_calls", "tool_name", "effect_disposition",
    "timestamp", "token_count", "finish_reason", "reasoning", "reasoning_content", "reasoning_details",
    "codex_reasoning_items", "codex_message_items", "platform_message_id", "observed", "active", "compacted",
    "api_content", "display_kind", "display_metadata",
)  # fmt: skip
SESSION_COLUMNS = (
    "id", "source", "user_id", "session_key", "chat_id", "chat_type", "thread_id", "display_name", "origin_json",
    "expiry_finalized", "model", "model_config", "system_prompt", "parent_session_id", "started_at", "ended_at",
    "end_reason", "message_count", "tool_call_count", "input_tokens", "output_tokens", "cache_read_tokens",
    "cache_write_tokens", "reasoning_tokens", "cwd", "git_branch", "git_repo_root", "billing_provider",
    "billing_base_url", "billing_mode", "estimated_cost_usd", "actual_cost_usd", "cost_status", "cost_source",
    "pricing_version", "title", "last_activity_at", "last_activity_description", "last_activity_provenance",
    "api_call_count", "handoff_state", "handoff_platform", "handoff_error", "compression_failure_cooldown_until",
    "compression_failure_error", "compression_fallback_streak", "compression_ineffective_count", "profile_name",
    "rewind_count", "archived", "pinned", "last_read_at",
)  # fmt: skip

# -- writing ------------------------------------------------------------------------------------------------

LOCK_HOLDER = "SELECT holder FROM compression_locks WHERE session_id = ? AND expires_at > ?"
SESSION_END = "SELECT ended_at, end_reason FROM sessions WHERE id = ?"
INSERT_MESSAGE = (
    f"INSERT INTO messages ({', '.join(MESSAGE_COLUMNS[1:])}) VALUES ({', '.join('?' * (len(MESSAGE_COLUMNS) - 1))})"
)
COUNT_UP = (
    "UPDATE sessions SET message_count = message_count + ?, tool_call_count = tool_call_count + ? "
    "WHERE id = ? AND message_count IS NOT NULL AND tool_call_count IS NOT NULL"
)

# -- reading ------------------------------------------------------------------------------------------------

SELECT_MESSAGES = f"SELECT {', '.join(MESSAGE_COLUMNS)} FROM messages WHERE session_id = ? AND active = 1 ORDER BY id"
REPLAY = """
SELECT role, content, api_content, display_kind, display_metadata, timestamp, tool_call_id, tool_name,
    effect_disposition, tool_calls, platform_message_id, observed, finish_reason, reasoning, reasoning_content,
    reasoning_details, codex_reasoning_items, codex_message_items
FROM messages WHERE session_id = ? AND active = 1 ORDER BY id
"""

# -- listing ------------------------------------------------------------------------------------------------


def _json(session: str, key: str) -> str:
    return f"CASE WHEN json_valid({session}.model_config) THEN json_extract({session}.model_config, '$.{key}') END"


def _continues(child: str, parent: str) -> str:
    return (
        f"coalesce({parent}.end_reason, '') = 'compression' AND {child}.source <> 'tool' "
        f"AND coalesce({_json(child, '_delegate_from')} = {parent}.id, 0) = 0 "
        f"AND coalesce({_json(child, '_branched_from')} = {parent}.id, 0) = 0"
    )


_ALL_OF_SESSIONS = ", ".join(f"sessions.{name}" for name in SESSION_COLUMNS)
PAGE = f"""
SELECT {_ALL_OF_SESSIONS} FROM sessions
WHERE archived = 0
    AND (
        parent_session_id IS NULL
        OR {_json("sessions", "_branched_from")} IS NOT NULL AND NOT EXISTS (
            SELECT 1 FROM sessions AS parent
            WHERE parent.id = sessions.parent_session_id AND {_continues("sessions", "parent")}
        )
        OR EXISTS (
            SELECT 1 FROM sessions AS parent
            WHERE parent.id = sessions.parent_session_id
                AND parent.end_reason = 'branched' AND sessions.started_at >= parent.ended_at
        )
    )
    AND {_json("sessions", "_delegate_from")} IS NULL
ORDER BY started_at DESC, id DESC LIMIT ? OFFSET ?
"""
SESSIONS_OF = f"SELECT {_ALL_OF_SESSIONS} FROM sessions WHERE id IN (SELECT value FROM json_each(?))"
CONTINUATIONS = f"""
WITH RECURSIVE down(id) AS (
    SELECT id FROM sessions WHERE id IN (SELECT value FROM json_each(?))
    UNION
    SELECT child.id FROM down
    JOIN sessions AS parent ON parent.id = down.id
    JOIN sessions AS child ON child.parent_session_id = parent.id
    WHERE {_continues("child", "parent")}
)
SELECT child.id, child.parent_session_id, child.started_at, child.ended_at, child.end_reason, child.last_activity_at
FROM sessions AS child JOIN sessions AS parent ON parent.id = child.parent_session_id
WHERE child.parent_session_id IN (SELECT id FROM down) AND {_continues("child", "parent")}
"""
_SKILL = "content LIKE '[IMPORTANT: The user has invoked the %' ESCAPE '\\'"
FIRST_USER_TEXTS = f"""
SELECT asked.value, (
    SELECT CASE
        WHEN {_SKILL} AND length(content) <= 800 THEN content
        WHEN {_SKILL} THEN substr(content, 1, 400) || char(30) || substr(content, -400)
        ELSE substr(content, 1, 63)
    END
    FROM messages
    WHERE session_id = asked.value AND role = 'user' AND content IS NOT NULL ORDER BY id LIMIT 1
)
FROM json_each(?) AS asked
"""
LAST_TIMES = """
SELECT asked.value, (SELECT max(timestamp) FROM messages WHERE session_id = asked.value) FROM json_each(?) AS asked
"""

# -- search -------------------------------------------------------------------------------------------------


def _parts(index: str) -> str:
    names = ", ".join(f"'{index}{suffix}'" for suffix in ("", "_insert", "_delete", "_update"))
    return f"(SELECT count(*) FROM sqlite_master WHERE name IN ({names}))"


CAPABILITY = f"""
SELECT (SELECT count(*) FROM state_meta WHERE key = 'fts_rebuild_high_water'),
    (SELECT value FROM state_meta WHERE key = 'hermes_store_fts_writer'),
    {_parts("messages_fts")}, {_parts("messages_fts_trigram")}
"""
_OF_HIT = "m.timestamp, m.tool_name, s.source, s.model, s.started_at"


@cache
def ranked(index: str) -> str:
    """The ids of the best hits."""
    return f"""
        SELECT m.id FROM {index} JOIN messages AS m ON m.id = {index}.rowid JOIN sessions AS s ON s.id = m.session_id
        WHERE {index} MATCH ? AND (m.active = 1 OR m.compacted = 1)
        ORDER BY {index}.rank, m.id LIMIT ? OFFSET ?
    """


_BY_HAND = """substr(m.content, 1, 1) = char(0) OR length(coalesce(m.content, '')) > 20000
            OR length(coalesce(m.tool_calls, '')) > 20000"""


@cache
def dress(index: str) -> str:
    """What is shown of these hits; the content only where it is structured."""
    return f"""
        SELECT m.id, m.session_id, m.role,
            CASE WHEN NOT ({_BY_HAND}) THEN snippet({index}, -1, '>>>', '<<<', '...', 40) END, {_OF_HIT},
            CASE WHEN {_BY_HAND} THEN coalesce(m.content, '') END, m.tool_calls
        FROM {index} JOIN messages AS m ON m.id = {index}.rowid JOIN sessions AS s ON s.id = m.session_id
        WHERE {index} MATCH ? AND ({index}.rowid + 0) IN (SELECT value FROM json_each(?))
    """


_SCANNED = " OR ".join(
    f"coalesce(instr(lower(m.{column}), ?), 0) > 0"
    for _ in range(3)
    for column in ("content", "tool_name", "tool_calls")
)
SCAN = f"""
SELECT m.id FROM messages AS m JOIN sessions AS s ON s.id = m.session_id
WHERE ({_SCANNED}) AND (m.active = 1 OR m.compacted = 1)
ORDER BY m.id DESC LIMIT ? OFFSET ?
"""
DRESS_SCANNED = f"""
SELECT m.id, m.session_id, m.role, NULL, {_OF_HIT}, m.content, m.tool_calls
FROM messages AS m JOIN sessions AS s ON s.id = m.session_id
WHERE m.id IN (SELECT value FROM json_each(?))
"""
_BESIDE = "session_id = hit.session_id AND (active = 1 OR compacted = 1)"
NEIGHBOURS = f"""
SELECT hit.id,
    (SELECT max(id) FROM messages WHERE id < hit.id AND {_BESIDE}),
    (SELECT min(id) FROM messages WHERE id > hit.id AND {_BESIDE})
FROM messages AS hit WHERE hit.id IN (SELECT value FROM json_each(?))
"""
TEXTS = "SELECT id, role, content FROM messages WHERE id IN (SELECT value FROM json_each(?))"
