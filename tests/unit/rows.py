"""Rows as replay reads them, with only the columns that a test is about."""

from typing import Any

from hermes_store.conversation.replay import REPLAY_COLUMNS


def row(role: str = "user", content: Any = "text", **columns: Any) -> tuple[Any, ...]:
    """A row of `REPLAY_COLUMNS`; what is not given is NULL, the id 1."""
    values = {"id": 1, **columns, "role": role, "content": content}
    unknown = set(values) - set(REPLAY_COLUMNS)
    assert not unknown, unknown
    return tuple(values.get(name) for name in REPLAY_COLUMNS)
