"""A handle belongs to the process that opened it."""

import os
from pathlib import Path

import pytest

from tests.process.processes import assert_sound, children, rows
from tests.support.drivers import Engine

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


def test_a_forked_child_opens_its_own_handle(engine: Engine, path: Path, tmp_path: Path) -> None:
    with children(1, tmp_path) as (child,):
        answers = child.ask("fork", path=str(path))
    for way in ("write", "append", "transaction", "read", "read only"):
        assert answers[way].get("error", ["nothing"])[0] == "WrongProcess", way
        assert "open the store again after a fork" in answers[way]["text"]
    assert answers["own"] == {"result": 1}
    assert answers["parent"] == {"result": 1}
    found = rows(path, engine, "SELECT content FROM messages ORDER BY id")
    assert found == [("child, own handle",), ("parent",)]
    assert_sound(path, engine)


@pytest.mark.parametrize(("way", "raised"), [("exception", "SystemExit"), ("as if all were well", "WrongProcess")])
def test_a_child_that_leaves_the_unit_of_its_parent_harms_nothing(
    way: str, raised: str, engine: Engine, path: Path, tmp_path: Path
) -> None:
    """Neither its ROLLBACK nor its COMMIT may reach the file: the transaction is the parent's."""
    with children(1, tmp_path) as (child,):
        assert child.ask("fork_inside_a_unit", path=str(path), way=way) == raised
    assert rows(path, engine, "SELECT content FROM messages ORDER BY id") == [("first",), ("second",)]
    assert_sound(path, engine)


@pytest.mark.parametrize("way", ["close", "with", "collect", "end"])
def test_a_child_that_lets_go_of_inherited_handles_closes_nothing(
    way: str, engine: Engine, filled_path: Path, tmp_path: Path
) -> None:
    """Its SQLite would take itself for the last user of the file, and remove the log under its parent."""
    with children(2, tmp_path) as (forking, other):
        forking.tell("fork_and_leave", path=str(filled_path), way=way)
        assert forking.hear() == "in a unit"
        assert other.ask("can_write", path=str(filled_path)) is False
        forking.go_on()
        told = forking.hear()
        assert other.ask("can_write", path=str(filled_path)) is True
    assert told["code"] == 0
    assert told["inherited"] == (2 if engine.journal_mode == "wal" else 1)
    assert {"state.db-wal", "state.db-shm"} <= set(told["files"]) or engine.journal_mode == "delete"
    assert told["found"] == ["first", "before", "after"]
    assert rows(filled_path, engine, "SELECT content FROM messages ORDER BY id") == [
        ("first",),
        ("before",),
        ("after",),
    ]
    assert_sound(filled_path, engine)
