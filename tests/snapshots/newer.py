"""Files of releases after schema 23, stamped 24, 25 or 30: more columns, tables, indexes, triggers, and layouts."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from .build import plan_of
from .hermes_v23 import FTS_SQL, MESSAGES_SESSION_ID_INDEX_SQL
from .history import create, plain_objects, tables_of
from .search_indexes import WORDS
from .story import Row, Story
from .writing import write_file

STAMPS: Final = (24, 25, 30)
BORN, UPGRADED = "born", "upgraded"
FORMS: Final = (BORN, UPGRADED)
LAYOUTS: Final = ("1", "2", "3")
CUT: Final = 8192
"""Characters of a tool row that layout 3 indexes."""

_SESSIONS: Final = (
    (24, "last_activity_at REAL", "title"),
    (24, "last_activity_description TEXT", "last_activity_at"),
    (24, "last_activity_provenance TEXT", "last_activity_description"),
    (25, "system_prompt_hash TEXT", "system_prompt"),
    (25, "last_read_at REAL", "pinned"),
    (30, "created_source TEXT", "last_read_at"),
    (30, "git_metadata_generation INTEGER NOT NULL DEFAULT 0", "created_source"),
    (30, "title_source TEXT", "git_metadata_generation"),
    (30, "compression_recovery_deadline REAL", "title_source"),
    (30, "compression_overload_streak INTEGER NOT NULL DEFAULT 0", "compression_recovery_deadline"),
    (30, "transport_profile TEXT", "compression_overload_streak"),
    (30, "hidden INTEGER NOT NULL DEFAULT 0", "transport_profile"),
    (30, "tool_names TEXT", "hidden"),
)
_MESSAGES: Final = (
    (30, "_compressed_summary INTEGER NOT NULL DEFAULT 0", "display_metadata"),
    (30, "display_identity BLOB", "_compressed_summary"),
    (30, "display_order INTEGER", "display_identity"),
)
_DELEGATIONS: Final = ((30, "origin_session_id TEXT NOT NULL DEFAULT ''", "delivery_claimed_at"),)
_ADDED: Final = {"sessions": _SESSIONS, "messages": _MESSAGES, "async_delegations": _DELEGATIONS}
"""Columns by table: the stamp that brought each, and the column it stands behind in a file born with it."""

_PROMPTS: Final = "CREATE TABLE system_prompts (hash TEXT PRIMARY KEY, prompt TEXT NOT NULL)"
_TABLES_30: Final = (
    "CREATE TABLE gateway_hygiene_state (session_key TEXT PRIMARY KEY, failure_streak INTEGER NOT NULL DEFAULT 0)",
    """
    CREATE TABLE conversation_generations (
        source TEXT NOT NULL, session_key TEXT NOT NULL, generation INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (source, session_key)
    )
    """,
    """
    CREATE TABLE gateway_heartbeats (
        backend_id TEXT PRIMARY KEY, pid INTEGER NOT NULL, started_at REAL NOT NULL, last_heartbeat REAL NOT NULL,
        profile TEXT NOT NULL DEFAULT '', host TEXT NOT NULL DEFAULT ''
    )
    """,
    """
    CREATE TABLE session_turn_leases (
        conversation_id TEXT PRIMARY KEY, holder TEXT NOT NULL, acquired_at REAL NOT NULL, expires_at REAL NOT NULL
    )
    """,
)
_INDEXES: Final = (
    (24, MESSAGES_SESSION_ID_INDEX_SQL),
    (25, "CREATE INDEX idx_sessions_system_prompt_hash ON sessions (system_prompt_hash)"),
    (
        25,
        (
            "CREATE INDEX idx_messages_assistant_calls_by_session ON messages (session_id)"
            " WHERE role = 'assistant' AND tool_calls IS NOT NULL"
        ),
    ),
    (30, "CREATE INDEX idx_session_turn_leases_expires ON session_turn_leases (expires_at)"),
    (30, "CREATE INDEX idx_messages_display_page ON messages (session_id, display_order DESC) WHERE active = 1"),
    (30, "CREATE INDEX idx_messages_display_backfill ON messages (id) WHERE display_order IS NULL"),
    (30, "CREATE INDEX idx_messages_display_identity ON messages (session_id, display_identity, display_order)"),
    (30, "CREATE INDEX idx_sessions_tool_names ON sessions (started_at DESC) WHERE tool_names IS NULL"),
    (
        30,
        (
            "CREATE INDEX idx_sessions_effective_activity ON sessions"
            " (COALESCE(last_activity_at, started_at) DESC, started_at DESC)"
        ),
    ),
)
_DISPLAY_TRIGGERS: Final = (
    """
    CREATE TRIGGER messages_display_order_insert AFTER INSERT ON messages WHEN new.display_order IS NULL
    BEGIN
        UPDATE messages SET display_order = new.id WHERE id = new.id;
    END
    """,
    """
    CREATE TRIGGER messages_display_visibility_update AFTER UPDATE OF active ON messages
    WHEN old.active IS NOT new.active
    BEGIN
        UPDATE messages SET display_order = CASE WHEN new.active THEN new.id END WHERE id = new.id;
    END
    """,
    """
    CREATE TRIGGER messages_display_identity_update AFTER UPDATE OF content ON messages
    WHEN old.content IS NOT new.content AND old.display_identity IS NOT NULL
    BEGIN
        UPDATE messages SET display_identity = NULL WHERE id = new.id;
    END
    """,
    """
    CREATE TRIGGER messages_display_identity_delete AFTER DELETE ON messages WHEN old.display_identity IS NOT NULL
    BEGIN
        UPDATE messages SET display_identity = NULL
        WHERE session_id = old.session_id AND display_identity = old.display_identity;
    END
    """,
)

_TRIGRAMS_TWO: Final = tuple(
    text.replace(", tool_calls", "")
    .replace(", new.tool_calls", "")
    .replace(", old.tool_calls", "")
    .replace(" OR old.tool_calls IS NOT new.tool_calls", "")
    for text in FTS_SQL[4:]
)


def _cut_words() -> tuple[str, ...]:
    """The index of words over a view that cuts the text of tool rows, with triggers that cut it alike."""
    view = (
        f"CREATE VIEW {WORDS}_src AS SELECT id, role, {_cut_text('')} AS content, tool_name, tool_calls FROM messages"
    )
    table, *triggers = FTS_SQL[:4]
    cut = [
        text.replace("new.id, new.content", f"new.id, {_cut_text('new.')}")
        .replace("old.id, old.content", f"old.id, {_cut_text('old.')}")
        .replace("UPDATE OF content, tool_name, tool_calls", "UPDATE OF content, tool_name, tool_calls, role")
        .replace("old.content IS NOT new.content", "old.content IS NOT new.content OR old.role IS NOT new.role")
        for text in triggers
    ]
    return (view, table.replace("content='messages'", f"content='{WORDS}_src'"), *cut)


def _cut_text(row: str) -> str:
    return f"CASE WHEN {row}role = 'tool' THEN substr({row}content, 1, {CUT}) ELSE {row}content END"


_LAYOUTS: Final[Mapping[str, tuple[str, ...]]] = {
    "1": FTS_SQL,
    "2": (*FTS_SQL[:4], *_TRIGRAMS_TWO),
    "3": (*_cut_words(), *_TRIGRAMS_TWO),
}


@dataclass(frozen=True)
class Newer:
    """A file of a later release.

    `prompts` gives the prompt of each session by its id, however the file stores it. `long_id` is a tool row longer
    than what layout 3 indexes, `long_word` a word that stands only behind that.
    """

    story: Story
    stamp: int
    layout: str
    prompts: Mapping[str, str]
    long_id: int
    long_word: str


def prompt_hash(prompt: str) -> str:
    """The key of a prompt in system_prompts."""
    return hashlib.sha256(prompt.encode()).hexdigest()


def _columns(table: str, stamp: int, form: str) -> tuple[str, ...]:
    """Definitions of a table of that stamp: new columns in their places in a born file, last in an upgraded one."""
    columns = list(tables_of(235)[table])
    for since, text, before in _ADDED[table]:
        if since > stamp:
            continue
        names = [each.split()[0] for each in columns]
        ends = [place for place, name in enumerate(names) if name in {"FOREIGN", "PRIMARY"}]
        place = names.index(before) + 1 if form == BORN else (ends or [len(columns)])[0]
        columns.insert(place, text)
    if table == "sessions" and stamp >= 25 and form == BORN:
        columns.append("FOREIGN KEY (system_prompt_hash) REFERENCES system_prompts(hash)")
    return tuple(columns)


def _statements(stamp: int, form: str, layout: str) -> list[str]:
    swaps = [
        (create(table, tables_of(235)[table]), create(table, _columns(table, stamp, form)))
        for table in ("sessions", "messages", "async_delegations")
    ]
    statements = [_PROMPTS] if stamp >= 25 else []
    for statement in plain_objects(235)[:-1]:
        for old, new in swaps:
            statement = new if statement == old else statement
        statements.append(statement)
    if stamp >= 30:
        statements += _TABLES_30
    statements += [text for since, text in _INDEXES if since <= stamp]
    statements += _LAYOUTS[layout]
    if stamp >= 30:
        statements += _DISPLAY_TRIGGERS
    return [*statements, f"INSERT INTO schema_version (version) VALUES ({stamp})"]


def build_newer(
    path: str | os.PathLike[str],
    driver_module: Any,
    stamp: int,
    *,
    form: str = BORN,
    layout: str = "1",
    journal_mode: str = "delete",
) -> Newer:
    """Creates a file stamped 24, 25 or 30, as born there or as upgraded to it, with a layout of the search index.

    From 25 on prompts lie in system_prompts, and sessions hold their SHA-256; the column has a foreign key only in a
    file born there. Layout "2" leaves the calls out of the trigram index, "3" besides cuts tool rows in the other.
    Raises ValueError for other stamps, forms and layouts, and for a layout above "1" below stamp 30.
    """
    if stamp not in STAMPS or form not in FORMS or layout not in LAYOUTS or (layout != "1" and stamp < 30):
        raise ValueError(f"no file of stamp {stamp}, form {form!r}, layout {layout!r}")
    plan = plan_of(235)
    prompts = {row["id"]: row["system_prompt"] for row in plan.tables["sessions"]}
    tables: dict[str, list[Row]] = dict(plan.tables)
    meta = {"fts_storage_version": layout} | ({"last_vacuum": "1767571200.0"} if stamp >= 30 else {})
    tables["state_meta"] = [*tables["state_meta"], *({"key": key, "value": value} for key, value in meta.items())]
    if stamp >= 25:
        stored = {prompt: prompt_hash(prompt) for prompt in prompts.values()}
        tables["sessions"] = [
            row | {"system_prompt": None, "system_prompt_hash": stored[row["system_prompt"]]}
            for row in tables["sessions"]
        ]
        tables = {"system_prompts": [{"hash": key, "prompt": text} for text, key in stored.items()]} | tables
    if stamp >= 30:
        leased = {"conversation_id": plan.story.session_ids[0], "holder": "pid=1", "acquired_at": 1.0}
        tables["session_turn_leases"] = [leased | {"expires_at": 2.0}]
        tables["conversation_generations"] = [{"source": "telegram", "session_key": "k", "generation": 3}]
    owner, word = plan.story.session_ids[0], "ocelot"
    long_id = plan.story.message_rows + 1
    long_row = plan.tables["messages"][-1] | {"id": long_id, "session_id": owner, "role": "tool", "tool_calls": None}
    long_row |= {"content": "stdout " * (CUT // 7 + 10) + word, "tool_name": "terminal", "tool_call_id": "call_long"}
    tables["messages"] = [*tables["messages"], long_row]
    write_file(path, driver_module, _statements(stamp, form, layout), tables, journal_mode=journal_mode)
    story = replace(
        plan.story,
        message_rows=long_id,
        rows=dict(plan.story.rows) | {owner: plan.story.rows[owner] + 1},
        active_rows=dict(plan.story.active_rows) | {owner: plan.story.active_rows[owner] + 1},
        meta=dict(plan.story.meta) | meta,
    )
    return Newer(story, stamp, layout, prompts, long_id, word)
