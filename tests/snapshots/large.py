"""Builds files of any number of messages, in bounded memory, for tests of scale."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final

from .history import Step, column_names, plain_objects, step_of
from .search_indexes import INDEXED, TRIGRAMS, WORDS, joined, search_objects
from .story import START, Row
from .writing import raw

PER_SESSION: Final = 500
"""Messages of a session."""

_ENGLISH: Final = (
    "please check why the docker build stops at /srv/app/worker.py, it ran fine yesterday and nobody touched it",
    "the chat-send queue runs into a timeout again; the second worker holds the lock longer than the first waits",
    "I raised the limit, added a copy-on-write snapshot before the migration, and all tests pass on both machines",
    "compare the two stack traces before touching the code, the older release wrote the same line without a port",
    "the nightly report says that the cache was cold after the restart, so the first hundred requests were slow",
    "make the configuration read-only for the long-running worker and tell me which of the files still differ",
)
_CHINESE: Final = (
    "请帮我检查数据库迁移脚本。昨天部署的服务又超时了。日志在服务器上面",
    "上下文压缩之后历史记录还在吗。我想把分片键改成用户编号再重新运行测试",
    "已经修复。配置文件缺少一行。重启之后令牌桶恢复正常。没有其他告警",
    "全文搜索需要同时支持中文和英文。结果按照相关性排序。最新的排在前面",
)
_CALL: Final = (
    '[{"id": "call_%d", "type": "function", "function": {"name": "terminal",'
    ' "arguments": "{\\"command\\": \\"grep -rn timeout /srv/app/part-%d --include=*.py | sort | head\\"}"}}]'
)
_OUTPUT: Final = (
    '{"exit_code": 0, "stdout": "part-%d/router.py:%d: timeout = 30\\npart-%d/worker.py:%d: raise Timeout\\n'
    'part-%d/queue.py:%d: # the timeout of the slowest consumer\\n", "truncated": false}'
)


def _text(number: int) -> str:
    """About 200 bytes that differ from row to row, in every third row Chinese."""
    if number % 3 == 0:
        return f"{_CHINESE[number % 4]}。编号 {number}。{_CHINESE[(number // 4) % 4]}"
    return f"{_ENGLISH[number % 6]}, case {number * 2654435761 % 1_000_003}; {_ENGLISH[(number // 6) % 6]}"


def message_rows(count: int) -> Iterator[Row]:
    """Rows in turns of four: a question, a call, its result, an answer."""
    for number in range(count):
        session, place = divmod(number, PER_SESSION)
        row: Row = {
            "id": number + 1,
            "session_id": session_id(session),
            "role": ("user", "assistant", "tool", "assistant")[place % 4],
            "content": _text(number),
            "tool_call_id": None,
            "tool_calls": None,
            "tool_name": None,
            "timestamp": START + number * 7.0,
            "token_count": 60 + number % 40,
        }
        if place % 4 == 1:
            row |= {"content": "", "tool_calls": _CALL % (number, number % 977)}
        elif place % 4 == 2:
            output = _OUTPUT % tuple(value for part in range(3) for value in (number % 977, number % 400 + part))
            row |= {"content": output, "tool_name": "terminal", "tool_call_id": f"call_{number - 1}"}
        yield row


def session_id(number: int) -> str:
    """The id of the session with that place."""
    return f"20260105_{number:06d}_large"


def session_rows(count: int) -> Iterator[Row]:
    """The sessions that so many messages need; counters and sums of tokens are those of their rows."""
    for number in range(-(-count // PER_SESSION)):
        held = min(PER_SESSION, count - number * PER_SESSION)
        begun = START + number * PER_SESSION * 7.0
        yield {
            "id": session_id(number),
            "source": ("cli", "telegram", "cron")[number % 3],
            "user_id": f"user_{number % 17}",
            "model": f"example/large-{number % 3}",
            "started_at": begun,
            "ended_at": begun + held * 7.0,
            "end_reason": "user_exit",
            "message_count": held,
            "tool_call_count": sum(place % 4 == 1 for place in range(held)),
            "input_tokens": 1000 + number % 500,
            "output_tokens": 200 + number % 100,
            "cache_read_tokens": number % 50,
            "billing_provider": "openrouter",
            "estimated_cost_usd": 0.01 * (number % 10),
            "title": f"Case {number}" if number % 5 == 0 else None,
            "api_call_count": held // 2,
        }


def _fill(connection: Any, table: str, rows: Iterator[Row], known: tuple[str, ...]) -> None:
    first = next(rows, None)
    if first is None:
        return
    names = [name for name in first if name in known]
    statement = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' for _ in names)})"
    connection.execute(statement, [first[name] for name in names])
    connection.executemany(statement, ([row[name] for name in names] for row in rows))


def _index(version: int) -> Iterator[str]:
    """Statements that put into the indexes what the triggers would have put there, at once."""
    text = "content" if version < 11 else joined("messages")
    for index in (WORDS,) if version < 10 else (WORDS, TRIGRAMS):
        if version < 23:
            yield f"INSERT INTO {index}(rowid, content) SELECT id, {text} FROM messages ORDER BY id"
        else:
            source = "messages" if index == WORDS else f"{TRIGRAMS}_src"
            names = ", ".join(INDEXED)
            yield f"INSERT INTO {index}(rowid, {names}) SELECT id, {names} FROM {source} ORDER BY id"


def build_large(
    path: str | os.PathLike[str],
    driver_module: Any,
    version: int,
    messages: int,
    *,
    variant: str | None = None,
) -> None:
    """Creates a file of a version with that many messages, about 200 bytes each, 500 to a session.

    Memory does not grow with the number. The file is in DELETE mode and has the search index of its version.
    A build that was interrupted leaves a file that is of no use.
    """
    step: Step = step_of(version, variant)
    known = column_names(step)
    triggers = [text for text in search_objects(version) if "TRIGGER" in text.split("\n")[0]]
    others = [text for text in search_objects(version) if text not in triggers]
    with raw(path, driver_module) as connection:
        # Nobody else sees the file before it is complete, so there is nothing to roll back to.
        connection.execute("PRAGMA journal_mode = OFF").fetchone()
        connection.execute("BEGIN IMMEDIATE")
        for statement in (*plain_objects(step), *others):
            connection.execute(statement)
        _fill(connection, "sessions", session_rows(messages), known["sessions"])
        _fill(connection, "messages", message_rows(messages), known["messages"])
        for statement in (*_index(version), *triggers):
            connection.execute(statement)
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = DELETE").fetchone()
