"""Files with old or unfinished indexes, and what has to be true of the indexes in the end."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_store import Store
from hermes_store.database import load_driver
from hermes_store.maintenance.optimize import StorageProgress, StorageReport, optimize_storage
from tests.schema.inspecting import change, check_file, opened, rows
from tests.snapshots.build import build_version
from tests.snapshots.large import build_large
from tests.snapshots.story import Story
from tests.support.clocks import FakeClock
from tests.support.drivers import Engine, engines

INDEXES = {"messages_fts": "1", "messages_fts_trigram": "role <> 'tool'"}
"""Every index, and which messages are due in it."""

OBJECTS = {
    *INDEXES,
    "messages_fts_trigram_src",
    *(f"{index}_{part}" for index in INDEXES for part in ("data", "idx", "docsize", "config")),
    *(f"{index}_{event}" for index in INDEXES for event in ("insert", "delete", "update")),
}
"""Tables, views and triggers of the search of a file of today's layout."""

ANY_ENGINE = pytest.mark.parametrize("engine", engines()[-1:], ids=lambda engine: engine.label, indirect=True)
"""For what does not depend on the driver or the journal mode."""

HIGH_WATER, PROGRESS = "fts_rebuild_high_water", "fts_rebuild_progress"


_built: dict[tuple[str, int], tuple[bytes, Story | None]] = {}
"""Files that were built already; most tests begin with the same few."""


def build_old(path: Path, engine: Engine, version: int = 22) -> Story:
    """A file of a few hundred messages as an older release left it."""
    variant = "late" if version in (16, 22, 23) else None
    if (engine.driver, version) not in _built:
        story = build_version(path, load_driver(engine.driver).module, version, variant=variant)
        _built[engine.driver, version] = path.read_bytes(), story
    content, known = _built[engine.driver, version]
    _write(path, engine, content)
    assert known is not None
    return known


def build_1200(path: Path, engine: Engine) -> None:
    """A file of version 22 with 1,200 messages, whose ids are 1 to 1,200."""
    if (engine.driver, 1200) not in _built:
        build_large(path, load_driver(engine.driver).module, 22, 1200, variant="late")
        _built[engine.driver, 1200] = path.read_bytes(), None
    _write(path, engine, _built[engine.driver, 1200][0])


def _write(path: Path, engine: Engine, content: bytes) -> None:
    path.write_bytes(content)
    change(path, engine.driver, f"PRAGMA journal_mode = {engine.journal_mode}")


def open_store(path: Path) -> Store:
    """A store whose pauses cost nothing."""
    return Store.open(path, clock=FakeClock())


def optimize(store: Store, *, vacuum: bool = False) -> StorageReport:
    return optimize_storage(store, vacuum=vacuum)


def events_of(store: Store, *, vacuum: bool = False) -> list[tuple[str, int, int, int]]:
    """Every progress of a change as (phase, percent, indexed, total)."""
    told: list[StorageProgress] = []
    assert optimize_storage(store, progress=told.append, vacuum=vacuum).ok
    return [(each.phase, each.percent, each.indexed, each.total) for each in told]


def search_marks(path: Path, engine: Engine) -> dict[str, str]:
    """The keys of the search in state_meta, without those of this library alone."""
    with opened(path, engine.driver) as raw:
        return dict(rows(raw, "SELECT key, value FROM state_meta WHERE key LIKE 'fts\\_%' ESCAPE '\\'"))


def set_marks(raw: Any, high_water: object = None, progress: object = None) -> None:
    """Set both marks of a rebuild; None takes one away."""
    for key, value in ((HIGH_WATER, high_water), (PROGRESS, progress)):
        raw.execute("DELETE FROM state_meta WHERE key = ?", (key,))
        if value is not None:
            raw.execute("INSERT INTO state_meta(key, value) VALUES (?, ?)", (key, value))


def messages_of(path: Path, engine: Engine) -> list[Any]:
    """Every column of every message."""
    with opened(path, engine.driver) as raw:
        return rows(raw, "SELECT * FROM messages ORDER BY id")


def indexed(raw: Any, index: str = "messages_fts") -> list[int]:
    """The ids that an index holds."""
    return [row_id for (row_id,) in rows(raw, f"SELECT id FROM {index}_docsize ORDER BY id")]


def due(raw: Any, index: str = "messages_fts") -> list[int]:
    """The ids that an index should hold."""
    return [row_id for (row_id,) in rows(raw, f"SELECT id FROM messages WHERE {INDEXES[index]} ORDER BY id")]


def assert_settled(path: Path, engine: Engine) -> None:
    """Today's layout and nothing else, sound, and equal to what a rebuild of everything at once would give."""
    check_file(path, engine.driver)
    assert search_marks(path, engine) == {"fts_storage_version": "1"}
    with opened(path, engine.driver) as raw:
        names = "name LIKE '%fts%' OR name = 'messages_joined_text'"
        assert {name for (name,) in rows(raw, f"SELECT name FROM sqlite_master WHERE {names}")} == OBJECTS
        assert rows(raw, "SELECT value FROM state_meta WHERE key = 'hermes_store_fts_partial'") == []
        raw.execute("BEGIN")
        for index in INDEXES:
            assert indexed(raw, index) == due(raw, index)
            held = rows(raw, f"SELECT id, hex(sz) FROM {index}_docsize ORDER BY id")
            raw.execute(f"INSERT INTO {index}({index}) VALUES ('rebuild')")
            assert rows(raw, f"SELECT id, hex(sz) FROM {index}_docsize ORDER BY id") == held
        raw.execute("ROLLBACK")


def assert_finds(store: Store, story: Story) -> None:
    """Words of every kind are found in exactly the sessions that hold them."""
    for words in (story.english, story.chinese, story.tool_only):
        for word, sessions in words.items():
            assert sessions_with(store, word) == set(sessions), word


def sessions_with(store: Store, word: str) -> set[str]:
    with store.reader() as reader:
        return {hit.session_id for hit in reader.search.messages(word, limit=None, with_context=False)}


class Interrupted(Exception):
    """What a test puts in the place of a crash."""


def interrupt_at(number: int) -> Callable[[StorageProgress], None]:
    """A progress callback that raises when it is called for that time, the first being 1."""
    left = [number]

    def tell(progress: StorageProgress) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Interrupted

    return tell
