"""The floors: what a careful programmer would write by hand on the same DB-API module for the same results.

The rules of text that belong to the result (what replay removes, how an excerpt is cut) are the library's own
functions: what is measured is the way to the rows and back.
"""

import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.floor_sql import (
    CAPABILITY,
    CONTINUATIONS,
    COUNT_UP,
    DRESS_SCANNED,
    FIRST_USER_TEXTS,
    INSERT_MESSAGE,
    LAST_TIMES,
    LOCK_HOLDER,
    MESSAGE_COLUMNS,
    NEIGHBOURS,
    PAGE,
    REPLAY,
    SCAN,
    SELECT_MESSAGES,
    SESSION_COLUMNS,
    SESSION_END,
    SESSIONS_OF,
    TEXTS,
    dress,
    ranked,
)
from benchmarks.seed import Draft
from hermes_store.conversation.excerpt import best_text, excerpt, marked_excerpt, readable_texts
from hermes_store.conversation.replay import sanitize_context
from hermes_store.database import Driver

if TYPE_CHECKING:
    from hermes_store.database.driver import DriverConnection

STRUCTURED = "\0json:"
_END_REASON = SESSION_COLUMNS.index("end_reason")
_CONTENT = MESSAGE_COLUMNS.index("content")
_TOOL_CALLS = MESSAGE_COLUMNS.index("tool_calls")
_METADATA = MESSAGE_COLUMNS.index("display_metadata")
_FROM_TIP = (
    "id", "ended_at", "end_reason", "message_count", "tool_call_count", "title", "model", "system_prompt", "cwd",
    "git_branch", "git_repo_root",
)  # fmt: skip


# -- connections --------------------------------------------------------------------------------------------


def connect_writer(driver: Driver, path: Path) -> "DriverConnection":
    """A connection with the pragmas of the library's writer."""
    connection = _connect(driver, path)
    _set_pragmas(connection)
    return connection


def _connect(driver: Driver, path: Path) -> "DriverConnection":
    connection: DriverConnection = driver.module.connect(
        str(path), timeout=1.0, isolation_level=None, check_same_thread=False
    )
    return connection


def _set_pragmas(connection: "DriverConnection") -> str:
    mode: str = connection.execute("PRAGMA journal_mode").fetchone()[0]
    if mode == "wal":
        connection.execute("PRAGMA journal_size_limit=67108864")
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA cache_spill=OFF")
    return mode


def connect_reader(driver: Driver, path: Path) -> "DriverConnection":
    """A connection that only reads."""
    connection: DriverConnection = driver.module.connect(
        f"file:{path}?mode=ro", timeout=5.0, isolation_level=None, check_same_thread=False, uri=True
    )
    return connection


def open_and_close(driver: Driver, path: Path) -> str:
    """Open, look whether the file is as expected, close; returns the journal mode."""
    connection = _connect(driver, path)
    mode = _set_pragmas(connection)
    connection.execute("SELECT value FROM state_meta WHERE key = 'hermes_store_fingerprint'").fetchone()
    connection.close()
    return mode


# -- writing ------------------------------------------------------------------------------------------------


def _encoded(session_id: str, draft: Draft, now: float) -> tuple[tuple[Any, ...], int]:
    """The values of a row, and its number of tool calls."""
    content = draft["content"]
    if isinstance(content, str):
        content.encode()  # raises for a lone surrogate
    elif content is not None:
        content = STRUCTURED + json.dumps(content)
    calls = draft.get("tool_calls")
    metadata = draft.get("display_metadata")
    get = draft.get
    row = (
        session_id, draft["role"], content, get("tool_call_id"), json.dumps(calls) if calls else None,
        get("tool_name"), None, now, None, get("finish_reason"), get("reasoning"), get("reasoning_content"), None,
        None, None, None, 0, 1, 0, None, None, json.dumps(metadata) if metadata else None,
    )  # fmt: skip
    return row, len(calls) if calls else 0


def _store(connection: "DriverConnection", session_id: str, row: tuple[Any, ...], calls: int, now: float) -> int:
    if connection.execute(LOCK_HOLDER, (session_id, now)).fetchone() is not None:
        raise RuntimeError("the session is being compressed")
    ended = connection.execute(SESSION_END, (session_id,)).fetchone()
    if ended is None or (ended[0] is not None and ended[1] == "compression"):
        raise RuntimeError("the session is closed")
    row_id = connection.execute(INSERT_MESSAGE, row).lastrowid
    connection.execute(COUNT_UP, (1, calls, session_id))
    assert row_id is not None
    return row_id


def append(connection: "DriverConnection", session_id: str, draft: Draft) -> int:
    """One message in a transaction of its own."""
    now = time.time()
    row, calls = _encoded(session_id, draft, now)
    connection.execute("BEGIN IMMEDIATE")
    try:
        row_id = _store(connection, session_id, row, calls, now)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    return row_id


def append_all(connection: "DriverConnection", session_id: str, drafts: Iterable[Draft]) -> list[int]:
    """Many messages in one transaction, each with the same guards and counters."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        ids = []
        for draft in drafts:
            now = time.time()
            row, calls = _encoded(session_id, draft, now)
            ids.append(_store(connection, session_id, row, calls, now))
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    return ids


# -- messages -----------------------------------------------------------------------------------------------


def get_messages(connection: "DriverConnection", session_id: str) -> list[dict[str, Any]]:
    """The live messages of a session, all columns."""
    result = []
    for row in connection.execute(SELECT_MESSAGES, (session_id,)).fetchall():
        message = dict(zip(MESSAGE_COLUMNS, row, strict=True))
        content, calls, metadata = row[_CONTENT], row[_TOOL_CALLS], row[_METADATA]
        if isinstance(content, str) and content.startswith(STRUCTURED):
            message["content"] = json.loads(content[len(STRUCTURED) :])
        if calls:
            message["tool_calls"] = json.loads(calls)
        if metadata is not None:
            message["display_metadata"] = json.loads(metadata)
        result.append(message)
    return result


def get_conversation(connection: "DriverConnection", session_id: str) -> list[dict[str, Any]]:
    """The messages in the model's format; for stores without self-review prompts and stale markers."""
    loads = json.loads
    result = []
    for row in connection.execute(REPLAY, (session_id,)).fetchall():
        (
            role, content, api_content, display_kind, metadata, timestamp, tool_call_id, tool_name, disposition, calls,
            platform_id, observed, finish_reason, reasoning, reasoning_content, details, codex_items, codex_messages,
        ) = row  # fmt: skip
        if isinstance(content, str):
            if content.startswith(STRUCTURED):
                content = loads(content[len(STRUCTURED) :])
            elif role in ("user", "assistant"):
                content = sanitize_context(content).strip()
        message = {"role": role, "content": content}
        if api_content:
            message["api_content"] = api_content
        if display_kind:
            message["display_kind"] = display_kind
        if metadata:
            message["display_metadata"] = loads(metadata)
        if timestamp:
            message["timestamp"] = timestamp
        if tool_call_id:
            message["tool_call_id"] = tool_call_id
        if tool_name:
            message["tool_name"] = tool_name
        if disposition:
            message["effect_disposition"] = disposition
        if calls:
            message["tool_calls"] = loads(calls)
        if platform_id:
            message["message_id"] = platform_id
        if observed:
            message["observed"] = True
        if role == "assistant":
            if finish_reason:
                message["finish_reason"] = finish_reason
            if reasoning:
                message["reasoning"] = reasoning
            if reasoning_content is not None:
                message["reasoning_content"] = reasoning_content
            if details:
                message["reasoning_details"] = loads(details)
            if codex_items:
                message["codex_reasoning_items"] = loads(codex_items)
            if codex_messages:
                message["codex_message_items"] = loads(codex_messages)
        result.append(message)
    return result


# -- listing ------------------------------------------------------------------------------------------------


def list_sessions(connection: "DriverConnection", limit: int) -> list[dict[str, Any]]:
    """The newest conversations, compressed ones under their latest segment, on one snapshot."""
    connection.execute("BEGIN")
    try:
        rows = connection.execute(PAGE, (limit, 0)).fetchall()
        roots = [row[0] for row in rows if row[_END_REASON] == "compression"]
        tips = _tips(connection, roots) if roots else {}
        shown = [tips[row[0]][0] if row[0] in tips else row[0] for row in rows]
        asked = (json.dumps(shown),)
        texts = dict(connection.execute(FIRST_USER_TEXTS, asked).fetchall())
        times = dict(connection.execute(LAST_TIMES, asked).fetchall())
    finally:
        connection.execute("ROLLBACK")
    result = []
    for row, shown_id in zip(rows, shown, strict=True):
        session = dict(zip(SESSION_COLUMNS, row, strict=True))
        latest = session
        if shown_id != row[0]:
            latest = dict(zip(SESSION_COLUMNS, tips[row[0]], strict=True))
        known = [moment for moment in (latest["last_activity_at"], times[shown_id]) if moment is not None]
        active = max(known) if known else latest["started_at"]
        if latest is not session:
            for name in _FROM_TIP:
                session[name] = latest[name]
        session["preview"] = _preview(texts[shown_id])
        session["last_active"] = active
        session["unread"] = session["last_read_at"] is not None and active > session["last_read_at"]
        if latest is not session:
            session["_lineage_root_id"] = row[0]
        result.append(session)
    return result


def _tips(connection: "DriverConnection", roots: list[str]) -> dict[str, Sequence[Any]]:
    """The row of the latest segment by root, for chains without siblings."""
    edges = connection.execute(CONTINUATIONS, (json.dumps(roots),)).fetchall()
    below = {edge[1]: edge[0] for edge in edges}
    tips = {}
    for root in roots:
        current = root
        while current in below:
            current = below[current]
        if current != root:
            tips[root] = current
    found = connection.execute(SESSIONS_OF, (json.dumps(list(tips.values())),)).fetchall()
    rows = {row[0]: row for row in found}
    return {root: rows[tip] for root, tip in tips.items()}


def _preview(text: str | None) -> str:
    if not text or text.startswith("\0"):
        return ""
    flat = text.replace("\n", " ").replace("\r", " ")[:63].strip()
    return flat if len(flat) <= 60 else flat[:60] + "..."


# -- search -------------------------------------------------------------------------------------------------


def search_index(
    connection: "DriverConnection", index: str, match: str, needle: str, limit: int
) -> list[dict[str, Any]]:
    """The best hits of an index: find and rank, then dress the page, on one snapshot."""
    connection.execute("BEGIN")
    try:
        connection.execute(CAPABILITY).fetchone()
        order = [row[0] for row in connection.execute(ranked(index), (match, limit, 0)).fetchall()]
        asked = json.dumps(order)
        contexts = _contexts(connection, asked)
        rows = connection.execute(dress(index), (match, asked)).fetchall()
    finally:
        connection.execute("ROLLBACK")
    needles = [needle]
    by_id = {}
    for row in rows:
        snippet, content = row[3], row[9]
        if content is not None:
            text = best_text(readable_texts(content, row[5], row[10]), needles)
            snippet = marked_excerpt(text, needles, ">>>", "<<<")
        by_id[row[0]] = _hit(row, snippet, contexts)
    return [by_id[hit] for hit in order]


def search_scan(connection: "DriverConnection", text: str, limit: int) -> list[dict[str, Any]]:
    """The latest messages that hold a text: as it is, as escapes of JSON, and as escapes of these."""
    once = json.dumps(text)[1:-1]
    twice = json.dumps(once)[1:-1]
    connection.execute("BEGIN")
    try:
        connection.execute(CAPABILITY).fetchone()
        arguments = (once, once, once, twice, twice, twice, text, text, text, limit, 0)
        order = [row[0] for row in connection.execute(SCAN, arguments).fetchall()]
        asked = json.dumps(order)
        contexts = _contexts(connection, asked)
        rows = connection.execute(DRESS_SCANNED, (asked,)).fetchall()
    finally:
        connection.execute("ROLLBACK")
    needles = [text]
    by_id = {}
    for row in rows:
        snippet = excerpt(best_text(readable_texts(row[9], row[5], row[10]), needles), needles)
        by_id[row[0]] = _hit(row, snippet, contexts)
    return [by_id[hit] for hit in order]


def _contexts(connection: "DriverConnection", asked: str) -> dict[int, list[dict[str, str]]]:
    """Each hit between its neighbours."""
    around = {
        hit: [row for row in (before, hit, after) if row is not None]
        for hit, before, after in connection.execute(NEIGHBOURS, (asked,)).fetchall()
    }
    wanted = sorted({row for three in around.values() for row in three})
    texts = {
        row_id: (role, _plain(content)[:200])
        for row_id, role, content in connection.execute(TEXTS, (json.dumps(wanted),)).fetchall()
    }
    return {hit: [{"role": texts[row][0], "content": texts[row][1]} for row in rows] for hit, rows in around.items()}


def _hit(row: Sequence[Any], snippet: str, contexts: dict[int, list[dict[str, str]]]) -> dict[str, Any]:
    return {
        "id": row[0],
        "session_id": row[1],
        "role": row[2],
        "snippet": snippet,
        "timestamp": row[4],
        "tool_name": row[5],
        "source": row[6],
        "model": row[7],
        "session_started": row[8],
        "context": contexts[row[0]],
    }


def _plain(content: Any) -> str:
    if not isinstance(content, str):
        return ""
    if not content.startswith(STRUCTURED):
        return content
    parts = [part["text"] for part in json.loads(content[len(STRUCTURED) :]) if part.get("type") == "text"]
    return " ".join(parts).strip() or "[multimodal content]"
