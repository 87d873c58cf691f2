"""An index that another SQLite left out of step never costs a write (FTS-7)."""

from pathlib import Path
from typing import Any

import pytest

from hermes_store import SessionDB
from hermes_store.fts.state import check_indexes
from tests.schema.inspecting import change
from tests.support.drivers import Engine, indexes_past_nul, installed

STRUCTURED = '\0json:[{"type": "text", "text": "数据库迁移 plan"}]'


def _index_of_another_library(path: Path, engine: Engine) -> None:
    """Hermes Agent, on another SQLite, stores a structured message while nobody of ours has the file open."""
    others = [name for name in installed() if indexes_past_nul(name) != indexes_past_nul(engine.driver)]
    if not others:
        pytest.skip("all installed SQLite libraries treat a NUL alike")
    change(
        path,
        others[0],
        "INSERT INTO messages (session_id, role, content, timestamp) "
        f"VALUES ('a', 'user', char(0) || '{STRUCTURED[1:]}', 1)",
    )


@pytest.mark.parametrize(
    "call",
    [lambda db: db.clear_messages("a"), lambda db: db.delete_session("a")],
    ids=["clear", "delete"],
)
def test_a_row_that_another_library_indexed_can_be_removed(engine: Engine, path: Path, call: Any) -> None:
    with SessionDB(path) as db:
        db.create_session("a", "cli")
        db.append_message("a", "user", "before")
    _index_of_another_library(path, engine)
    with SessionDB(path) as db:
        call(db)
        assert db.get_messages("a") == []
        db.create_session("b", "cli")
        db.append_message("b", "user", "afterwards")
        assert [hit["session_id"] for hit in db.search_messages("afterwards")] == ["b"]


def test_an_index_whose_content_is_gone_is_filled_again(engine: Engine, path: Path) -> None:
    with SessionDB(path) as db:
        db.create_session("a", "cli")
        for number in range(20):
            db.append_message("a", "user", f"message number {number}")
    change(path, engine.driver, "DELETE FROM messages_fts_data WHERE id = 1")
    with SessionDB(path) as db:
        db.clear_messages("a")
        db.append_message("a", "user", "afterwards")
        assert len(db.search_messages("afterwards")) == 1
        db.store.write(lambda unit: check_indexes(unit.connection))
