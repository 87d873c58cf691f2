"""What a damaged file is, and what a test may say about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .build import build_version
from .story import START, Row, Story
from .writing import insert_rows, raw

Answer = Sequence[tuple[Any, ...]]


@dataclass(frozen=True)
class Facts:
    """A damaged file.

    `story` is that of the file before the damage. `messages` counts the rows of messages in the file. `stamp` is what
    its first row of schema_version says, None without one. `healed` maps queries to the rows that they give once
    the file was opened for writing. `known` holds ids and words for tests of this damage alone.
    """

    story: Story
    messages: int
    stamp: int | None
    healed: Mapping[str, Answer] = field(default_factory=dict)
    known: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Damage:
    """A way in which a file is not as it should be.

    `make(driver_module, path)` writes the file. `sound_index` says whether the search index is complete and keeps
    so under writing (`checking.index_faults`), `sound_keys` whether all foreign keys hold, before anything is healed.
    """

    make: Callable[[Any, Path], Facts]
    sound_index: bool = True
    sound_keys: bool = True


def session(name: str, **columns: Any) -> Row:
    """A session row with the columns that every version demands."""
    return {"id": name, "source": "cli", "started_at": START} | columns


def message(owner: str, content: str | None, **columns: Any) -> Row:
    """A message row with the columns that every version demands."""
    return {"session_id": owner, "role": "user", "content": content, "timestamp": START + 1} | columns


def names_in_master(*names: str) -> str:
    """A query for those of the objects that exist."""
    return f"SELECT name FROM sqlite_master WHERE name IN {_tuple(names)} ORDER BY name"


def _tuple(names: Sequence[str]) -> str:
    return "(" + ", ".join(f"'{name}'" for name in names) + ")"


STAMPS = "SELECT version FROM schema_version"
INDEXES_OF = "SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL AND tbl_name = '{}' ORDER BY name"


def small_file(path: Path, driver: Any, version: int, variant: str | None = None) -> Story:
    """A file with two sessions, for damage that lies in rows of its own."""
    return build_version(path, driver, version, variant=variant, sessions=2, turns=2)


def facts(path: Path, driver: Any, story: Story, healed: Mapping[str, Answer] | None = None, **known: Any) -> Facts:
    """Facts of a finished file; the number of messages and the stamp are read from it."""
    with raw(path, driver) as connection:
        (messages,) = connection.execute("SELECT count(*) FROM messages").fetchone()
        has_stamp = connection.execute(names_in_master("schema_version")).fetchone()
        stamp = connection.execute(STAMPS).fetchone() if has_stamp else None
    return Facts(story, messages, stamp[0] if stamp else None, healed or {}, known)


def add(path: Path, driver: Any, tables: Mapping[str, Iterable[Row]]) -> None:
    """Adds rows to a closed file, foreign keys off."""
    with raw(path, driver) as connection:
        connection.execute("BEGIN IMMEDIATE")
        for table, rows in tables.items():
            insert_rows(connection, table, rows)
        connection.execute("COMMIT")
