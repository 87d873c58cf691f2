"""`unit.orm`: entities on the unit's own connection, never with a transaction of their own."""

from pathlib import Path

import pytest
from sqlalchemy import select

from hermes_store import Store, Unit
from hermes_store.errors import ConstraintFailed, StoreLocked, UniqueFailed
from hermes_store.models import Message, Session, StateMeta
from tests.database.helpers import Stop, dump, query
from tests.support.drivers import Engine


def entity(session_id: str, **fields: object) -> Session:
    return Session(id=session_id, source="cli", started_at=1.5, **fields)


def ids(path: Path, engine: Engine) -> list[str]:
    return [found for (found,) in query(path, engine, "SELECT id FROM sessions ORDER BY id")]


def test_entities_are_read_changed_and_written_at_the_end(filled: Store, engine: Engine, path: Path) -> None:
    with filled.transaction() as unit:
        found = unit.orm.get_one(Session, "a")
        assert (found.source, found.message_count) == ("cli", 1)
        found.display_name = "Ada"
        unit.orm.add(entity("b", pinned=True, model_config={"temperature": 1}))
        unit.orm.add(StateMeta(key="k", value="v"))
        assert ids(path, engine) == ["a"]
    assert query(path, engine, "SELECT id, display_name, pinned FROM sessions ORDER BY id") == [
        ("a", "Ada", 0),
        ("b", None, 1),
    ]
    with filled.reader() as reader:
        assert reader.meta.find("k") == "v"


def test_a_write_flushes_too(filled: Store, engine: Engine, path: Path) -> None:
    filled.write(lambda unit: unit.orm.add(entity("b")))
    assert ids(path, engine) == ["a", "b"]


def test_the_orm_and_the_repositories_see_each_other(filled: Store) -> None:
    with filled.transaction() as unit:
        unit.create_session("b", "cli")
        assert unit.orm.get_one(Session, "b").source == "cli"
        unit.orm.add(entity("c"))
        unit.orm.flush()
        unit.append("c", "user", "hello")
        texts = unit.orm.scalars(select(Message.content).where(Message.session_id == "c")).all()
        assert texts == ["hello"]


def test_messages_of_the_orm_are_found_by_search(filled: Store) -> None:
    with filled.transaction() as unit:
        unit.orm.add(Message(session_id="a", role="user", content="a capybara arrives", timestamp=1.0))
    with filled.reader() as reader:
        assert len(reader.search.messages("capybara")) == 1


@pytest.mark.parametrize("end", ["commit", "flush"])
def test_its_commit_does_not_end_the_unit(end: str, filled: Store, engine: Engine, path: Path) -> None:
    before = dump(path, engine)
    with pytest.raises(Stop), filled.transaction() as unit:  # noqa: PT012
        unit.orm.add(entity("b"))
        getattr(unit.orm, end)()
        unit.append("a", "user", "still in the unit")
        unit.orm.add(entity("c"))
        getattr(unit.orm, end)()
        assert ids(path, engine) == ["a"]
        raise Stop
    assert dump(path, engine) == before


def test_its_rollback_takes_back_its_own_changes_only(filled: Store, engine: Engine, path: Path) -> None:
    with filled.transaction() as unit:
        unit.append("a", "user", "before")
        unit.orm.add(entity("b"))
        unit.orm.flush()
        unit.orm.rollback()
        unit.append("a", "user", "after")
        unit.orm.add(entity("c"))
    assert ids(path, engine) == ["a", "c"]
    texts = query(path, engine, "SELECT content FROM messages ORDER BY id")
    assert texts == [("first",), ("before",), ("after",)]


def test_closing_it_does_not_end_the_unit(filled: Store, engine: Engine, path: Path) -> None:
    with filled.transaction() as unit:
        unit.append("a", "user", "before")
        unit.orm.add(entity("b"))
        unit.orm.flush()
        unit.orm.close()
        unit.append("a", "user", "after")
    assert query(path, engine, "SELECT count(*) FROM messages") == [(3,)]
    assert ids(path, engine) == ["a"]


def test_its_own_savepoints_work(filled: Store, engine: Engine, path: Path) -> None:
    with filled.transaction() as unit:
        unit.orm.add(entity("b"))
        with pytest.raises(Stop), unit.orm.begin_nested():  # noqa: PT012
            unit.orm.add(entity("c"))
            unit.orm.flush()
            raise Stop
        with unit.orm.begin_nested():
            unit.orm.add(entity("d"))
    assert ids(path, engine) == ["a", "b", "d"]


def test_what_fails_at_the_end_takes_the_unit_back(filled: Store, engine: Engine, path: Path) -> None:
    before = dump(path, engine)
    with pytest.raises(UniqueFailed), filled.transaction() as unit:  # noqa: PT012
        unit.append("a", "user", "lost")
        unit.orm.add(entity("a"))
    assert dump(path, engine) == before
    filled.append("a", "user", {"content": "kept"})


def test_an_error_that_was_dealt_with_leaves_the_unit_whole(filled: Store, engine: Engine, path: Path) -> None:
    with filled.transaction() as unit:
        unit.append("a", "user", "before")
        unit.orm.add(entity("a"))
        with pytest.raises(ConstraintFailed):
            unit.orm.flush()
        unit.orm.rollback()
        unit.append("a", "user", "after")
    assert query(path, engine, "SELECT count(*) FROM messages") == [(3,)]


def test_foreign_keys_hold_for_entities(filled: Store, engine: Engine, path: Path) -> None:
    before = dump(path, engine)
    with pytest.raises(ConstraintFailed, match="FOREIGN KEY"), filled.transaction() as unit:
        unit.orm.add(Message(session_id="nobody", role="user", content="x", timestamp=1.0))
    assert dump(path, engine) == before


def test_each_unit_has_its_own_session(filled: Store) -> None:
    with filled.transaction() as unit:
        first = unit.orm
        assert unit.orm is first
        first.get_one(Session, "a").display_name = "Ada"
    with filled.transaction() as unit:
        assert unit.orm is not first
        assert unit.orm.get_one(Session, "a").display_name == "Ada"


def test_a_unit_that_runs_again_begins_without_entities(filled: Store, engine: Engine, path: Path) -> None:
    runs: list[int] = []

    def body(unit: Unit) -> None:
        runs.append(1)
        unit.orm.add(entity(f"run-{len(runs)}"))
        unit.orm.flush()
        if len(runs) < 3:
            raise StoreLocked

    filled.write(body)
    assert ids(path, engine) == ["a", "run-3"]
