"""Small words that the search tests share: fill a session, ask, look at the file behind the store's back."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import hermes_store.store
from hermes_store import SessionDB, connect
from hermes_store.database import Driver, choose_driver
from tests.support.drivers import Engine

ROUTES = {"words": "docker", "substrings": "部署失败", "scan": "部署", "parts of words": "ocke"}
"""One query per way to answer; `EVERY_ROUTE` is a text that all of them find."""
EVERY_ROUTE = "docker 部署失败"


def on_every_route(ask: Callable[[str], Any]) -> dict[str, Any]:
    """What a question gives, by route."""
    return {route: ask(query) for route, query in ROUTES.items()}


def alike(answer: Any) -> dict[str, Any]:
    """The same answer on every route."""
    return dict.fromkeys(ROUTES, answer)


def found(db: SessionDB, query: str, **options: Any) -> list[int]:
    """The ids of the hits, in their order."""
    return [hit["id"] for hit in db.search_messages(query, **options)]


def say(db: SessionDB, *contents: Any, session: str = "s", role: str = "user", **fields: Any) -> list[int]:
    """Append messages to a session, which is made where it is missing; returns their ids."""
    if db.get_session(session) is None:
        db.create_session(session, "cli")
    return [db.append_message(session, role, content, **fields) for content in contents]


@contextmanager
def behind_the_back(path: Path, engine: Engine) -> Iterator[Any]:
    """A raw connection to a store's file, with the driver of the engine under test."""
    raw = connect(path, driver=engine.driver)
    try:
        yield raw
    finally:
        raw.close()


def flag(path: Path, engine: Engine, ids: list[int], *, active: int, compacted: int) -> None:
    """Set the flags of rows: (0, 0) is undone, (0, 1) archived by a compaction."""
    with behind_the_back(path, engine) as raw:
        for row_id in ids:
            raw.execute("UPDATE messages SET active = ?, compacted = ? WHERE id = ?", (active, compacted, row_id))


def lame_driver(monkeypatch: pytest.MonkeyPatch, *, has_fts5: bool = True, has_trigram: bool = True) -> None:
    """From now on stores are opened through a driver that lacks FTS5, or its trigram tokenizer."""

    def choose(name: str | None = None) -> Driver:
        return replace(choose_driver(name), has_fts5=has_fts5, has_trigram=has_trigram)

    monkeypatch.setattr(hermes_store.store, "choose_driver", choose)


def mark_pending(path: Path, engine: Engine) -> None:
    """Leave the file as an interrupted rebuild does: the indexes are empty and marked, no message is in them."""
    with behind_the_back(path, engine) as raw:
        highest = raw.execute("SELECT COALESCE(MAX(id), 0) FROM messages").fetchone()[0]
        for index in ("messages_fts", "messages_fts_trigram"):
            raw.execute(f"INSERT INTO {index}({index}) VALUES ('delete-all')")
        raw.execute("INSERT INTO state_meta(key, value) VALUES ('fts_rebuild_high_water', ?)", (str(highest),))
        raw.execute("INSERT INTO state_meta(key, value) VALUES ('fts_rebuild_progress', '0')")
