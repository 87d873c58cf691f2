"""The deterministic story a built file tells: its rows as plain data, and a summary for assertions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

Row = dict[str, Any]

START: Final = 1767571200.0  # 2026-01-05 00:00 UTC; a fixed past, so that no test depends on today
STRUCTURED_PREFIX: Final = "\x00json:"
SUMMARY_HEAD: Final = "[CONTEXT COMPACTION — REFERENCE ONLY]"

# Places of the special events, by session number. A story too short for one goes without it.
REPORT, OBSERVED, ROUTED = 2, 2, (1, 2)
RECALLED, COMPACTED, REWOUND, STRUCTURED, SWITCHED = 1, 3, 6, 7, 12
CHAINS: Final = {4: (5, "Fix Docker Build"), 8: (9, "数据库迁移")}
DELEGATE: Final = (11, 0)  # child, parent

_CAST: Final = (
    "cli", "telegram", "discord", "cron", "slack", "slack", "telegram",
    "cli", "telegram", "telegram", "cron", "cli", "cli", "telegram",
)  # fmt: skip
_ENDINGS: Final = {0: "user_exit", 6: "session_reset", 10: "cron_complete", 11: "user_exit", 12: "cli_close"}
_MODELS: Final = ("example/large-4", "example/codex-5", "example/small-3")
_PROMPTS: Final = ("You are a careful assistant.", "You answer in one line.")
_CODENAMES: Final = (
    "heron", "ibex", "lynx", "otter", "puffin", "raven", "stoat",
    "tapir", "vole", "walrus", "yak", "zebu", "bison", "civet",
)  # fmt: skip
_PATHS: Final = (
    "/srv/app/worker.py",
    "src/gateway/router.ts",
    "/etc/hermes/config.yaml",
    "docs/release-notes.md",
)
_ASKS: Final = (
    (
        "please check why the docker build stops at {path}, it ran fine yesterday",
        "the chat-send queue runs into a timeout again, see {path}",
        "make {path} read-only for the long-running worker and re-run the tests",
    ),
    ("请帮我检查数据库迁移脚本", "昨天部署的服务又超时了。日志在 {path}", "上下文压缩之后历史记录还在吗"),
    ("日本語の全文検索が動くか確認してください", "{path} のテストが失敗しました"),
    ("한국어 메시지 검색도 확인해 주세요", "{path} 파일을 다시 배포해 주세요"),
)
_ANSWERS: Final = (
    "The lock was held by a stale worker; after a restart the docker image builds.",
    "I raised the timeout and added a copy-on-write snapshot before the migration.",
    "All tests pass now, the change is limited to one function.",
    "已经修复。配置文件缺少一行。",
)
# Said in a session's first answer, so that every script has words that only few sessions hold.
_REMARKS: Final = {
    5: " コンテナを再起動しました。",
    8: " 分片键已经确认。",
    9: " 分片键已经确认。",
    11: " 색인을 다시 만들었습니다.",
    13: " 令牌桶已经清空。",
}

_ENGLISH: Final = (*_CODENAMES, "docker", "timeout", "stale", "quokka", "snapshot")
_PHRASES: Final = ("chat-send", "read-only", "copy-on-write", "release-notes")
_CHINESE: Final = (
    "数据库",
    "数据库迁移",
    "部署的服务",
    "上下文压缩",
    "历史记录",
    "配置文件",
    "分片键",
    "令牌桶",
    "分片",
    "迁移",
)
_OTHER_SCRIPTS: Final = ("全文検索", "テストが失敗", "再起動", "메시지 검색", "배포해", "색인을")
_TOOL_ONLY, _CALL_ONLY, _REWOUND_ONLY = ("wolverine",), ("capybara",), ("axolotl",)


@dataclass(frozen=True)
class Story:
    """What a built file holds.

    The word maps give, for a default search (live and compacted rows, not rewound ones), the ids of
    all sessions with a hit, in order of creation. Words no session holds are absent. Phrases contain
    hyphens, so the index needs them quoted; Chinese words of two characters are below the reach of
    the trigram index.
    """

    session_ids: tuple[str, ...]
    live_ids: tuple[str, ...]
    titles: Mapping[str, str]
    chains: tuple[tuple[str, str], ...]
    delegate: tuple[str, str] | None  # child, parent
    message_rows: int
    rows: Mapping[str, int]
    active_rows: Mapping[str, int]
    message_counts: Mapping[str, int]  # the counters: a rewind does not lower them
    tool_call_counts: Mapping[str, int]
    structured_id: int | None
    structured_content: Any
    archived_ids: tuple[int, ...]
    summary_ids: tuple[int, ...]  # the rows that took the place of the archived ones
    rewound_ids: tuple[int, ...]
    observed_ids: tuple[int, ...]
    recalled_ids: tuple[int, ...]  # sent to the model with other text than stored as content
    switch_ids: tuple[int, ...]  # display_kind model_switch
    codex_ids: tuple[int, ...]
    english: Mapping[str, tuple[str, ...]]
    phrases: Mapping[str, tuple[str, ...]]
    chinese: Mapping[str, tuple[str, ...]]
    other_scripts: Mapping[str, tuple[str, ...]]
    tool_only: Mapping[str, tuple[str, ...]]  # only in the output of tools
    call_only: Mapping[str, tuple[str, ...]]  # only in the arguments of tool calls
    rewound_words: tuple[str, ...]  # only in rewound rows
    routing: Mapping[str, str]  # session key -> session id
    meta: Mapping[str, str]
    usage_rows: int
    input_tokens: int
    output_tokens: int
    estimated_cost_usd: float


@dataclass(frozen=True)
class Plan:
    """Rows by table, in an order that satisfies the foreign keys, and their summary."""

    tables: Mapping[str, list[Row]]
    story: Story


@dataclass
class _Book:
    """Rows as they pile up. Message ids are given out here, so the summary needs no database."""

    count: int
    turns: int
    ids: list[str] = field(default_factory=list)
    sessions: list[Row] = field(default_factory=list)
    messages: list[Row] = field(default_factory=list)
    picture: Row = field(default_factory=dict)
    summaries: list[int] = field(default_factory=list)

    def opening(self, number: int) -> float:
        """The start of a session; the gap is wide enough for all turns of the one before."""
        return START + number * max(10800.0, (self.turns + 4) * 60.0)

    def say(self, number: int, role: str, content: str | None, at: float, **more: Any) -> Row:
        """Appends one live row."""
        row: Row = {"id": len(self.messages) + 1, "session_id": self.ids[number], "role": role}
        row |= {"content": content, "timestamp": at, "active": 1, "compacted": 0} | more
        self.messages.append(row)
        return row

    def of(self, number: int) -> list[Row]:
        """The rows of one session."""
        return [row for row in self.messages if row["session_id"] == self.ids[number]]


def tell(sessions: int, turns: int, *, without: Collection[str] = ()) -> Plan:
    """The story with the given number of sessions and of turns in each, minus the events named in `without`."""
    if sessions < 1 or turns < 1:
        raise ValueError("a story needs at least one session and one turn")
    book = _Book(sessions, turns)
    for number in range(sessions):
        book.sessions.append(_session(book, number))
        if number == OBSERVED:
            book.say(number, "user", "[Mira] lunch at noon?", book.opening(number) + 1, observed=1)
        for turn in range(turns):
            _turn(book, number, turn)
    for number, (name, event) in _EVENTS.items():
        if number < sessions and name not in without:
            event(book, book.opening(number) + (turns + 1) * 60.0)
    usage: list[Row] = []
    for number in range(sessions):
        _account(book, number, usage)
    tables = {
        "sessions": book.sessions,
        "messages": book.messages,
        "session_model_usage": usage,
        "state_meta": [{"key": "last_auto_prune", "value": str(START)}],
        "gateway_routing": [_route(book.sessions[number]) for number in ROUTED if number < sessions],
    }
    return Plan(tables, _summary(book, tables))


def _dump(value: Any) -> str:
    """JSON as the application writes it: ASCII only, default separators."""
    return json.dumps(value)


def _session(book: _Book, number: int) -> Row:
    """A session row without counters and end, which follow from its messages."""
    opened, source = book.opening(number), _CAST[number % len(_CAST)]
    stamp = datetime.fromtimestamp(opened, UTC).strftime("%Y%m%d_%H%M%S")
    tail = f"{(number + 1) * 2654435761 & 0xFFFFFFFF:08x}"
    name = f"cron_nightly_{stamp}" if source == "cron" else f"{stamp}_{tail[:6] if source == 'cli' else tail}"
    book.ids.append(name)
    row: Row = {"id": name, "source": source, "started_at": opened, "model": _MODELS[number % 3]}
    row |= {"model_config": _dump({"temperature": 0.2}), "system_prompt": _PROMPTS[number % 2]}
    if source == "cli":
        row |= {"cwd": "/srv/app", "git_branch": "main", "git_repo_root": "/srv/app"}
    elif source != "cron":
        row |= _lane(source, number)
    if number == REPORT:
        row["title"] = "Weekly report"
    if number in CHAINS and CHAINS[number][0] < book.count:
        row["title"] = CHAINS[number][1]
    for parent, (child, title) in CHAINS.items():
        if number == child:
            # A continuation stays in the lane, and so with the people, of the session it goes on from.
            row |= _lane(source, parent) | {"parent_session_id": book.ids[parent], "title": f"{title} #2"}
    if number == DELEGATE[0]:
        parent_id = book.ids[DELEGATE[1]]
        row |= {"parent_session_id": parent_id, "model_config": _dump({"_delegate_from": parent_id})}
    return row


def _lane(source: str, number: int) -> Row:
    """The columns that tie a session to a chat."""
    chat, kind, user = str(1000 + number), "group" if source == "discord" else "dm", f"user_{number % 3}"
    key = f"agent:main:{source}:{kind}:{chat}" + (f":{user}" if kind == "group" else "")
    origin: Row = {"platform": source, "chat_id": chat, "chat_name": f"Chat {chat}", "chat_type": kind}
    origin |= {"user_id": user, "user_name": user.title(), "thread_id": None, "chat_topic": None}
    row: Row = {"user_id": user, "session_key": key, "chat_id": chat, "chat_type": kind}
    return row | {"display_name": f"Chat {chat}", "origin_json": _dump(origin)}


def _route(session: Row) -> Row:
    """The row that says which session a chat uses now."""
    opened = datetime.fromtimestamp(session["started_at"], UTC).replace(tzinfo=None).isoformat()
    key = session["session_key"]
    entry: Row = {"session_key": key, "session_id": session["id"], "platform": session["source"]}
    entry |= {"created_at": opened, "updated_at": opened, "display_name": session["display_name"]}
    entry |= {"chat_type": session["chat_type"], "origin": json.loads(session["origin_json"])}
    row: Row = {"scope": "", "session_key": key}
    return row | {"entry_json": _dump(entry), "updated_at": session["started_at"]}


def _turn(book: _Book, number: int, turn: int) -> None:
    """One turn: a question, tool calls in every second turn, and an answer."""
    at, seed = book.opening(number) + 5 + turn * 60.0, number + turn
    asks = _ASKS[seed % 4]
    text = asks[(number + turn // 4) % len(asks)].format(path=_PATHS[(number + turn) % len(_PATHS)])
    asked: Row = {}
    if "session_key" in book.sessions[number]:
        asked["platform_message_id"] = f"{number}-{turn}"
    if (number, turn) == (RECALLED, 0):
        asked["api_content"] = f"<memory-context>prefers short answers</memory-context>\n{text}"
    book.say(number, "user", text, at, **asked)
    if turn % 2 == 0:
        _tools(book, number, turn, at + 1)
    answered: Row = {"token_count": 100 + turn, "finish_reason": "stop"}
    answer = _ANSWERS[(number + turn % 2) % len(_ANSWERS)]
    if turn == 0:
        name = _CODENAMES[number % len(_CODENAMES)]
        answer = f"Filed as case {name}{number // len(_CODENAMES) or ''}. {answer}{_REMARKS.get(number, '')}"
    if turn % 4 == 1:
        answered["reasoning"] = "compare the two stack traces before touching the code"
        answered["reasoning_details"] = _dump([{"type": "reasoning.summary", "summary": "compare traces"}])
    if turn % 4 == 2:
        answered["reasoning_content"] = "the tool output names the file"
    if turn % 8 == 3:
        # A reply of this kind lives in the items alone; its content stays empty.
        part = {"type": "output_text", "text": answer}
        item = {"type": "message", "role": "assistant", "id": f"msg_{number}_{turn}", "phase": "final_answer"}
        answered["codex_message_items"] = _dump([item | {"content": [part]}])
        answered["codex_reasoning_items"] = _dump([{"type": "reasoning", "id": f"rs_{number}_{turn}"}])
        answer = ""
    book.say(number, "assistant", answer, at + 5, **answered)


def _tools(book: _Book, number: int, turn: int, at: float) -> None:
    """An assistant row that calls tools, two at once in every fourth turn, and their results."""
    path = _CALL_ONLY[0] + ".yaml" if number % 4 == 1 else _PATHS[number % len(_PATHS)]
    wanted: list[tuple[str, Row]] = [("terminal", {"command": f"grep -n 超时 {path}"})]
    if turn % 4 == 2:
        wanted.append(("read_file", {"path": path, "limit": 40}))
    calls = [
        {
            "id": f"call_{number}_{turn}_{place}",
            "type": "function",
            "function": {"name": name, "arguments": _dump(arguments)},
        }
        for place, (name, arguments) in enumerate(wanted)
    ]
    called: Row = {"tool_calls": _dump(calls), "token_count": 40, "finish_reason": "tool_calls"}
    book.say(number, "assistant", "" if turn % 4 else "Let me look.", at, **called)
    for place, (name, _) in enumerate(wanted):
        output = f"{10 + turn}: {_TOOL_ONLY[0] if number % 5 == 0 else 'nothing unusual'}"
        result = {"exit_code": 0, "stdout": output, "truncated": False}
        found: Row = {"tool_name": name, "tool_call_id": f"call_{number}_{turn}_{place}"}
        if place:
            found["effect_disposition"] = "none"
        book.say(number, "tool", _dump(result), at + 1 + place, **found)


def _show_picture(book: _Book, at: float) -> None:
    """A message with parts instead of text.

    Releases of SQLite differ in whether the trigram tokenizer sees the text behind the NUL, so with
    this row the trigram index passes its check only under a release of the kind that built it.
    """
    parts = [
        {"type": "text", "text": "what animal is this, a quokka? 多模态"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
    ]
    row = book.say(STRUCTURED, "user", STRUCTURED_PREFIX + _dump(parts), at)
    book.picture = {"id": row["id"], "content": parts}
    book.say(STRUCTURED, "assistant", "Yes, and it smiles.", at + 5, token_count=12, finish_reason="stop")


def _compact_in_place(book: _Book, at: float) -> None:
    """Archives the session's rows behind a summary; the last answer is kept as a second, live copy."""
    old = book.of(COMPACTED)
    for row in old:
        row |= {"active": 0, "compacted": 1}
    summary = f"{SUMMARY_HEAD} The nightly job was checked and repaired."
    kept = old[-1] | {"id": None, "active": 1, "compacted": 0}
    first = book.say(COMPACTED, "user", summary, at)
    book.messages.append(kept | {"id": first["id"] + 1})
    book.summaries += [first["id"], first["id"] + 1]


def _rewind(book: _Book, at: float) -> None:
    """A last turn that was taken back."""
    before = len(book.messages)
    book.say(REWOUND, "user", f"try the {_REWOUND_ONLY[0]} branch instead", at)
    _tools(book, REWOUND, book.turns + book.turns % 2, at + 1)
    reply = f"The {_REWOUND_ONLY[0]} branch does not exist."
    book.say(REWOUND, "assistant", reply, at + 5, token_count=9, finish_reason="stop")
    for row in book.messages[before:]:
        row["active"] = 0
    book.sessions[REWOUND]["rewind_count"] = 1


def _switch_model(book: _Book, at: float) -> None:
    """A note shown to the person as an event, not as words of theirs."""
    shown = _dump({"from": _MODELS[0], "to": _MODELS[1]})
    text = "[System: the model was changed]"
    book.say(SWITCHED, "user", text, at, display_kind="model_switch", display_metadata=shown)


_EVENTS: Final[Mapping[int, tuple[str, Callable[[_Book, float], None]]]] = {
    STRUCTURED: ("picture", _show_picture),
    COMPACTED: ("compaction", _compact_in_place),
    REWOUND: ("rewind", _rewind),
    SWITCHED: ("switch", _switch_model),
}


def _account(book: _Book, number: int, usage: list[Row]) -> None:
    """Counters, end, tokens and costs of a session, and its usage rows."""
    row, mine = book.sessions[number], book.of(number)
    # Compaction sets the counters to what it left; a rewind leaves them as they were.
    counted = [message for message in mine if not message["compacted"]]
    calls = sum(len(json.loads(message["tool_calls"])) for message in counted if message.get("tool_calls"))
    row |= {"message_count": len(counted), "tool_call_count": calls}
    last = max(message["timestamp"] for message in mine)
    if number in CHAINS and CHAINS[number][0] < book.count:
        row |= {"ended_at": book.opening(CHAINS[number][0]) - 0.5, "end_reason": "compression"}
    elif number in _ENDINGS or (number >= len(_CAST) and number % 3 == 0):
        row |= {"ended_at": last + 30, "end_reason": _ENDINGS.get(number, "user_exit")}
    child, parent = DELEGATE
    if number == parent and child < book.count:
        # A delegate works while its parent waits for it.
        row["ended_at"] = book.opening(child + 1) - 0.5
    copies = 1 if number == COMPACTED and book.summaries else 0
    spent: Row = {
        "api_call_count": sum(message["role"] == "assistant" for message in mine) - copies,
        "input_tokens": 1000 + 37 * number,
        "output_tokens": 200 + 11 * number,
        "cache_read_tokens": 50 + number,
        "cache_write_tokens": 5,
        "reasoning_tokens": 9,
        "estimated_cost_usd": 0.25 * (number + 1),
    }
    spent |= {"billing_provider": "openrouter", "billing_base_url": "https://openrouter.example/v1"}
    if number % 5 == 1:
        spent |= {"actual_cost_usd": 0.125 * (number + 1), "cost_status": "actual"}
        spent |= {"cost_source": "provider_generation_api", "billing_mode": "official_models_api"}
    else:
        spent |= {"cost_status": "estimated", "cost_source": "official_docs_snapshot"}
        spent |= {"billing_mode": "official_docs_snapshot"}
    row |= spent | {"pricing_version": "2026-01"}
    seen: Row = {"first_seen": row["started_at"] + 10, "last_seen": last}
    usage.append({"session_id": row["id"], "model": row["model"], "task": ""} | spent | seen)
    if number == REPORT or number in CHAINS:
        # Helper calls have rows of their own and are not part of the session's sums.
        task = "title_generation" if number == REPORT else "compression"
        aside: Row = {"session_id": row["id"], "model": _MODELS[2], "task": task, "api_call_count": 1}
        usage.append(aside | {"input_tokens": 300, "output_tokens": 20} | seen)


def _holders(book: _Book, words: Iterable[str], column: str = "content") -> dict[str, tuple[str, ...]]:
    """The sessions in whose searchable rows each word stands, a Latin one as a whole word."""
    found: dict[str, tuple[str, ...]] = {}
    for word in words:
        pattern = re.compile(rf"(?<![0-9A-Za-z]){word}(?![0-9A-Za-z])" if word.isascii() else word)
        held = {
            row["session_id"]
            for row in book.messages
            if (row["active"] or row["compacted"]) and pattern.search(row.get(column) or "")
        }
        if held:
            found[word] = tuple(name for name in book.ids if name in held)
    return found


def _summary(book: _Book, tables: Mapping[str, list[Row]]) -> Story:
    """Describes the finished rows."""
    rows, routes = book.messages, tables["gateway_routing"]
    by_session = {name: [row for row in rows if row["session_id"] == name] for name in book.ids}
    child, parent = DELEGATE

    def ids(test: Callable[[Row], Any]) -> tuple[int, ...]:
        return tuple(row["id"] for row in rows if test(row))

    return Story(
        session_ids=tuple(book.ids),
        live_ids=tuple(row["id"] for row in book.sessions if row.get("ended_at") is None),
        titles={row["id"]: row["title"] for row in book.sessions if "title" in row},
        chains=tuple((book.ids[old], book.ids[new]) for old, (new, _) in CHAINS.items() if new < book.count),
        delegate=(book.ids[child], book.ids[parent]) if child < book.count else None,
        message_rows=len(rows),
        rows={name: len(mine) for name, mine in by_session.items()},
        active_rows={name: sum(row["active"] for row in mine) for name, mine in by_session.items()},
        message_counts={row["id"]: row["message_count"] for row in book.sessions},
        tool_call_counts={row["id"]: row["tool_call_count"] for row in book.sessions},
        structured_id=book.picture.get("id"),
        structured_content=book.picture.get("content"),
        archived_ids=ids(lambda row: row["compacted"]),
        summary_ids=tuple(book.summaries),
        rewound_ids=ids(lambda row: not row["active"] and not row["compacted"]),
        observed_ids=ids(lambda row: row.get("observed")),
        recalled_ids=ids(lambda row: row.get("api_content")),
        switch_ids=ids(lambda row: row.get("display_kind") == "model_switch"),
        codex_ids=ids(lambda row: row.get("codex_message_items")),
        english=_holders(book, _ENGLISH),
        phrases=_holders(book, _PHRASES),
        chinese=_holders(book, _CHINESE),
        other_scripts=_holders(book, _OTHER_SCRIPTS),
        tool_only=_holders(book, _TOOL_ONLY),
        call_only=_holders(book, _CALL_ONLY, "tool_calls"),
        rewound_words=tuple(word for word in _REWOUND_ONLY if any(word in (row["content"] or "") for row in rows)),
        routing={row["session_key"]: json.loads(row["entry_json"])["session_id"] for row in routes},
        meta={row["key"]: row["value"] for row in tables["state_meta"]},
        usage_rows=len(tables["session_model_usage"]),
        input_tokens=sum(row["input_tokens"] for row in book.sessions),
        output_tokens=sum(row["output_tokens"] for row in book.sessions),
        estimated_cost_usd=sum(row["estimated_cost_usd"] for row in book.sessions),
    )
