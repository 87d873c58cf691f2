"""A small session as each version stored it: a word in every place that may be searched."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.snapshots.build import statements_of
from tests.snapshots.facts import message, session
from tests.snapshots.history import column_names, step_of
from tests.snapshots.story import Row
from tests.snapshots.writing import write_file
from tests.upgrade.files import module_of, values

INDEXES: Final = ("messages_fts", "messages_fts_trigram")
WORDS: Final = ("zebra", "wombat", "giraffe", "browser_tool")
CALLS: Final = '[{"id": "c1", "function": {"name": "wombat"}}]'

SAID: Final[tuple[Row, ...]] = (
    message("a", "hello zebra", id=1),
    message("a", "", role="assistant", tool_calls=CALLS, id=2),
    message("a", "toolout giraffe", role="tool", tool_name="browser_tool", id=3),
)
HOLDERS: Final = {"zebra": 1, "wombat": 2, "giraffe": 3, "browser_tool": 3}
"""The message that holds each word: as text, in a call of a tool, as output, as the name of a tool."""


def tell(path: Path, driver: str, version: int, *, said: Sequence[Row] = SAID, variant: str | None = None) -> None:
    """A file with the session `a` of model m1, with 5 tokens in and 7 out, and these messages."""
    step = step_of(version, variant)
    known = column_names(step)["messages"]
    rows = [{name: value for name, value in row.items() if name in known} for row in said]
    spent = {"model": "m1", "input_tokens": 5, "output_tokens": 7, "message_count": len(rows), "tool_call_count": 1}
    tables = {"sessions": [session("a", **spent)], "messages": rows}
    write_file(path, module_of(driver), statements_of(step), tables)


def indexed(path: Path, driver: str, index: str, words: Sequence[str] = WORDS) -> dict[str, list[int]]:
    """The messages that an index gives for each word."""
    return {word: _matches(path, driver, index, word) for word in words}


def _matches(path: Path, driver: str, index: str, word: str) -> list[int]:
    found: list[Any] = values(
        path, driver, f"SELECT rowid FROM {index} WHERE {index} MATCH ? ORDER BY rowid", f'"{word}"'
    )
    return [row[0] for row in found]


def holds(*words: str) -> dict[str, list[int]]:
    """What `indexed` gives of an index that holds just these words."""
    return {word: [HOLDERS[word]] if word in words else [] for word in WORDS}


def triggers(path: Path, driver: str) -> dict[str, str]:
    """The triggers of the search indexes, by name."""
    return dict(
        values(path, driver, "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'messages_fts%'")
    )


def tables(path: Path, driver: str) -> dict[str, str]:
    """The index tables and the views under them, by name."""
    return dict(
        values(
            path,
            driver,
            "SELECT name, sql FROM sqlite_master WHERE type = 'view' OR name IN (?, ?)",
            *INDEXES,
        )
    )
